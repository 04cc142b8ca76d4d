"""The estimators' defaults beside other models: one pass over ten data sets, five seeds, one
command.

    BONGREF_DATA=... python -m validation.everyday            # runs what is missing, shows progress
    BONGREF_DATA=... python -m validation.everyday --why      # where the defaults are behind
    python -m validation.everyday --page                      # docs/everyday.md from the results
    BONGREF_DATA=... python -m validation.everyday --choose   # the evidence for the defaults

Results are written to validation/results/everyday.json after every model, so that a run that is
stopped goes on where it was. Other models get what ours do not: inputs and target standardised by
the whole training set beforehand. Those without a predictive distribution get a Gaussian with the
mean square of their training errors.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import time
import unittest.mock
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

from .everyday_data import OTHER, OTHER_CLASSES, TABLE, Split, split

HERE = Path(__file__).resolve().parent
RESULTS, CHOICES = HERE / "results" / "everyday.json", HERE / "results" / "everyday-choice.json"
LEVELS = (0.5, 0.9, 0.95)
SEEDS = range(5)
CHUNK = 32  # rows in a call of partial_fit
GP_ROWS = 1000  # training rows up to which the Gaussian process is fitted: O(n³)
PASSES = 50  # at most, where passes are counted by time
FLOOR = 1e-12


# --- scores ---------------------------------------------------------------------------------------


def gaussian_scores(mean: Any, std: Any, y: Any) -> dict[str, float]:
    """NLPD, RMSE and coverage of central intervals of N(mean, std²)."""
    std = np.maximum(std, FLOOR)
    z = (y - mean) / std
    nlpd = 0.5 * np.log(2 * np.pi) + np.log(std) + 0.5 * z**2
    inside = {
        f"cover{round(100 * p)}": float(np.mean(np.abs(z) <= ndtri(0.5 + p / 2))) for p in LEVELS
    }
    return {"nlpd": float(nlpd.mean()), "loss": float(np.sqrt(np.mean((y - mean) ** 2))), **inside}


def class_scores(p: Any, classes: Any, y: Any) -> dict[str, float]:
    """NLPD, error, and coverage of the smallest sets of classes with the probability."""
    at, rows = np.searchsorted(classes, y), np.arange(len(y))
    order = np.argsort(-p, axis=1)
    before = np.cumsum(np.take_along_axis(p, order, 1), axis=1) - np.take_along_axis(p, order, 1)
    rank = np.argmax(order == at[:, None], axis=1)
    inside = {f"cover{round(100 * q)}": float(np.mean(before[rows, rank] < q)) for q in LEVELS}
    nlpd = -np.log(np.maximum(p[rows, at], 1e-300))
    wrong = float(np.mean(classes[p.argmax(axis=1)] != y))
    return {"nlpd": float(nlpd.mean()), "loss": wrong, **inside}


# --- models: (split, seed, seconds of ours) -> scores, with the seconds of the fit ----------------


def ours(d: Split, seed: int, _: float, **settings: Any) -> dict[str, float]:
    """BongRegressor or BongClassifier, with its defaults where nothing else is said."""
    from bongref.sklearn import BongClassifier, BongRegressor

    est = (BongClassifier if is_classes(d) else BongRegressor)(random_state=seed, **settings)
    start = time.perf_counter()
    est.fit(d.X, d.y)
    seconds = time.perf_counter() - start
    if is_classes(d):
        scores = class_scores(est.predict_proba(d.X_test), est.classes_, d.y_test)
    else:
        scores = gaussian_scores(*est.predict(d.X_test, return_std=True), d.y_test)
    return {**scores, "seconds": seconds}


def is_classes(d: Split) -> bool:
    """Whether y is a class."""
    return d.y.dtype.kind in "iu"


class Standard:
    """A split standardised by its whole training set."""

    def __init__(self, d: Split) -> None:
        mean, std = d.X.mean(axis=0), d.X.std(axis=0)
        std = np.where(std > 0, std, 1.0)
        self.X, self.X_test = (d.X - mean) / std, (d.X_test - mean) / std
        self.y, self.shift, self.scale = d.y, 0.0, 1.0
        if not is_classes(d):
            self.shift, self.scale = float(d.y.mean()), float(d.y.std())
            self.y = (d.y - self.shift) / self.scale
        self.d = d

    def scores(self, mean: Any, std: Any) -> dict[str, float]:
        """In units of y."""
        back = self.shift + self.scale * np.asarray(mean)
        return gaussian_scores(back, self.scale * np.asarray(std), self.d.y_test)

    def with_residuals(self, est: Any) -> dict[str, float]:
        """A Gaussian with the mean square of the training errors."""
        std = float(np.sqrt(np.mean((self.y - est.predict(self.X)) ** 2)))
        return self.scores(est.predict(self.X_test), np.full(len(self.X_test), std))


def bayesian_ridge(d: Split, seed: int, _: float) -> dict[str, float] | None:
    """All rows at once."""
    from sklearn.linear_model import BayesianRidge

    if is_classes(d):
        return None
    s = Standard(d)
    est, seconds = timed(BayesianRidge().fit, s.X, s.y)
    return {**s.scores(*est.predict(s.X_test, return_std=True)), "seconds": seconds}


def gaussian_process(d: Split, seed: int, _: float) -> dict[str, float] | None:
    """All rows at once; a squared exponential kernel, its parameters by the marginal likelihood."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    if is_classes(d) or len(d.y) > GP_ROWS:
        return None
    s = Standard(d)
    kernel = ConstantKernel() * RBF(length_scale=math.sqrt(d.X.shape[1])) + WhiteKernel(0.1)
    est, seconds = timed(GaussianProcessRegressor(kernel, random_state=seed).fit, s.X, s.y)
    return {**s.scores(*est.predict(s.X_test, return_std=True)), "seconds": seconds}


def logistic(d: Split, seed: int, _: float) -> dict[str, float] | None:
    """All rows at once."""
    from sklearn.linear_model import LogisticRegression

    if not is_classes(d):
        return None
    s = Standard(d)
    est, seconds = timed(LogisticRegression(max_iter=1000).fit, s.X, s.y)
    return {**class_scores(est.predict_proba(s.X_test), est.classes_, d.y_test), "seconds": seconds}


def sgd(d: Split, seed: int, limit: float) -> dict[str, float]:
    """Stochastic gradient descent of a linear model; passes until ``limit`` seconds."""
    from sklearn.linear_model import SGDClassifier, SGDRegressor

    if is_classes(d):
        return passes(d, SGDClassifier(loss="log_loss", random_state=seed), limit)
    return passes(d, SGDRegressor(random_state=seed), limit)


def mlp(d: Split, seed: int, limit: float) -> dict[str, float]:
    """scikit-learn's network of 100 hidden units, Adam."""
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    est = (MLPClassifier if is_classes(d) else MLPRegressor)(random_state=seed)
    return passes(d, est, limit)


def passes(d: Split, est: Any, limit: float) -> dict[str, float]:
    """partial_fit in chunks; one pass, or more until they took ``limit`` seconds."""
    s, start, n = Standard(d), time.perf_counter(), 0
    more = {"classes": np.unique(d.y)} if is_classes(d) else {}
    while n == 0 or (time.perf_counter() - start < limit and n < PASSES):
        for at in range(0, len(s.y), CHUNK):
            est.partial_fit(s.X[at : at + CHUNK], s.y[at : at + CHUNK], **more)
        n += 1
    seconds = time.perf_counter() - start
    if is_classes(d):
        scores = class_scores(est.predict_proba(s.X_test), est.classes_, d.y_test)
    else:
        scores = s.with_residuals(est)
    return {**scores, "seconds": seconds, "passes": n}


def river_linear(d: Split, seed: int, _: float) -> dict[str, float]:
    """river's linear or softmax regression, row by row."""
    from river.linear_model import LinearRegression, SoftmaxRegression

    s, est = Standard(d), SoftmaxRegression() if is_classes(d) else LinearRegression()
    train, test = rows_of(s.X), rows_of(s.X_test)
    start = time.perf_counter()
    for x, y in zip(train, s.y.tolist(), strict=True):
        est.learn_one(x, y)
    seconds = time.perf_counter() - start
    if is_classes(d):
        classes = np.unique(d.y)
        p = np.array(
            [[q.get(c, 0.0) for c in classes.tolist()] for q in map(est.predict_proba_one, test)]
        )
        return {
            **class_scores(p / p.sum(axis=1, keepdims=True), classes, d.y_test),
            "seconds": seconds,
        }
    fitted = np.array([est.predict_one(x) for x in train])
    std = math.sqrt(np.mean((s.y - fitted) ** 2))
    mean = [est.predict_one(x) for x in test]
    return {**s.scores(mean, np.full(len(test), std)), "seconds": seconds}


def river_bayes(d: Split, seed: int, _: float) -> dict[str, float] | None:
    """river's Bayesian linear regression, row by row, with its own predictive distribution."""
    from river.linear_model import BayesianLinearRegression

    if is_classes(d):
        return None
    s, est = Standard(d), BayesianLinearRegression()
    start = time.perf_counter()
    for x, y in zip(rows_of(s.X), s.y.tolist(), strict=True):
        est.learn_one(x, y)
    seconds = time.perf_counter() - start
    found = [est.predict_one(x, with_dist=True) for x in rows_of(s.X_test)]
    return {**s.scores([g.mu for g in found], [g.sigma for g in found]), "seconds": seconds}


def rows_of(X: Any) -> list[dict[int, float]]:
    """Rows as river wants them."""
    return [dict(enumerate(row)) for row in X.tolist()]


def timed(f: Callable[..., Any], *args: Any) -> tuple[Any, float]:
    """The result and the seconds."""
    start = time.perf_counter()
    return f(*args), time.perf_counter() - start


# name -> (function, whether it is one pass, whether it runs as long as ours)
MODELS: dict[str, tuple[Callable[..., Any], bool, bool]] = {
    "bongref": (ours, True, False),
    "SGD": (sgd, True, False),
    "MLP": (mlp, True, False),
    "river linear": (river_linear, True, False),
    "river Bayes": (river_bayes, True, False),
    "SGD, same time": (sgd, False, True),
    "MLP, same time": (mlp, False, True),
    "BayesianRidge": (bayesian_ridge, False, False),
    "Gaussian process": (gaussian_process, False, False),
    "LogisticRegression": (logistic, False, False),
}


# --- prequential: each chunk is predicted before it is learned ------------------------------------


def prequential(name: str, d: Split, seed: int) -> float | None:
    """The mean NLPD of each chunk before it is learned, the first CHUNK rows left out.

    Models without a distribution get the mean square of their errors so far.
    """
    from river.linear_model import LinearRegression
    from sklearn.linear_model import SGDRegressor
    from sklearn.neural_network import MLPRegressor

    from bongref.sklearn import BongRegressor

    s, total, squares, n = Standard(d), 0.0, 0.0, 0
    kinds = {"SGD": SGDRegressor, "MLP": MLPRegressor, "bongref": BongRegressor}
    river = LinearRegression() if name == "river linear" else None
    if river is None and name not in kinds:
        return None
    est = None if river is not None else kinds[name](random_state=seed)
    for at in range(0, len(s.y), CHUNK):
        X, y = s.X[at : at + CHUNK], s.y[at : at + CHUNK]
        if at > 0:
            mean = np.array([river.predict_one(x) for x in rows_of(X)]) if river else est.predict(X)
            if name == "bongref":
                total -= float(est.score_samples(X, y).sum())
            else:
                var = max(squares / n, FLOOR) if n else 1.0
                total += float(np.sum(0.5 * np.log(2 * np.pi * var) + (y - mean) ** 2 / (2 * var)))
                squares, n = squares + float(np.sum((y - mean) ** 2)), n + len(y)
        if river is None:
            est.partial_fit(X, y)
        else:
            for x, one in zip(rows_of(X), y.tolist(), strict=True):
                river.learn_one(x, one)
    return total / (len(s.y) - CHUNK) + math.log(s.scale)


# --- all of it ------------------------------------------------------------------------------------


def run(sets: list[str], seeds: list[int]) -> None:
    """Whatever is not in the results yet."""
    from tqdm import tqdm

    found: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    todo = [(n, s, m) for n in sets for s in seeds for m in MODELS if f"{n}|{s}|{m}" not in found]
    for name, seed, model in tqdm(todo, unit="fit"):
        f, _, same = MODELS[model]
        d = split(name, seed)
        limit = found[f"{name}|{seed}|bongref"]["seconds"] if same else 0.0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if model == "bongref" and seed == seeds[0]:
                f(Split(d.X[:200], d.y[:200], d.X_test, d.y_test), seed, 0.0)  # compiles
            result = f(d, seed, limit)
            if result is not None and name == "protein" and MODELS[model][1]:
                result["prequential"] = prequential(model, d, seed)
        found[f"{name}|{seed}|{model}"] = result
        write(RESULTS, found)


# --- where the defaults are behind: does another setting get there? -------------------------------

WHY: dict[str, dict[str, dict[str, Any]]] = {
    "diabetes": {
        "hidden_layer_sizes=()": {"hidden_layer_sizes": ()},
        "prior_var=0.1": {"prior_var": 0.1},
    },
    "digits": {
        "hidden_layer_sizes=()": {"hidden_layer_sizes": ()},
        "method=bong-lin-hess-fc": {"method": "bong-lin-hess-fc"},
    },
}


def why(seeds: list[int]) -> None:
    """Other settings on the sets of ``WHY``: to explain, not to choose."""
    from tqdm import tqdm

    found: dict[str, Any] = json.loads(RESULTS.read_text())
    todo = [(n, s, v) for n in WHY for s in seeds for v in WHY[n] if f"{n}|{s}|{v}" not in found]
    for name, seed, setting in tqdm(todo, unit="fit"):
        found[f"{name}|{seed}|{setting}"] = ours(split(name, seed), seed, 0.0, **WHY[name][setting])
        write(RESULTS, found)


def write(path: Path, data: Any) -> None:
    """The old file or the new one, whatever happens."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(data, indent=0, sort_keys=True) + "\n", encoding="utf-8")
    part.replace(path)


# --- the evidence for the defaults, on other data -------------------------------------------------

VARIANTS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "prior_var=0.3": {"prior_var": 0.3},
    "prior_var=3": {"prior_var": 3.0},
    "activation=tanh": {"activation": "tanh"},
    "activation=relu": {"activation": "relu"},
    "hidden_layer_sizes=()": {"hidden_layer_sizes": ()},
    "hidden_layer_sizes=(20,)": {"hidden_layer_sizes": (20,)},
    "hidden_layer_sizes=(40,)": {"hidden_layer_sizes": (40,)},
    "method=bong-lin-hess-dlr": {"method": "bong-lin-hess-dlr"},
    "method=bong-lin-hess-diag": {"method": "bong-lin-hess-diag"},
    "biases as weights": {},
    "inputs not clipped": {},
}


def like_weights(model: Any) -> Any:
    """Prior variances of which a bias has that of a weight of its layer, 1/n_in."""
    var = np.ones(model.n_params)
    for weight, bias in zip(model.layout[::2], model.layout[1::2], strict=True):
        var[weight.where] = var[bias.where] = 1 / weight.shape[1]
    return var


# variant -> what is replaced in the package: there is no setting for it
REPLACED: dict[str, tuple[str, Any]] = {
    "biases as weights": ("bongref.guide.defaults.fan_in", like_weights),
    "inputs not clipped": ("bongref.online.learner.CLIP", math.inf),
}


def replaced(variant: str) -> Any:
    """The package with that part replaced, for a while."""
    if variant not in REPLACED:
        return contextlib.nullcontext()
    return unittest.mock.patch(*REPLACED[variant])


def choose(seeds: list[int], rows: int = 1200) -> None:
    """NLPD of other settings on data that is not in the table; None where a fit diverged."""
    from tqdm import tqdm

    from bongref.errors import BongrefError
    from bongref.sklearn import BongClassifier, BongRegressor

    found: dict[str, Any] = json.loads(CHOICES.read_text()) if CHOICES.exists() else {}
    names = [*OTHER, *OTHER_CLASSES]
    todo = [
        (v, n, s) for v in VARIANTS for n in names for s in seeds if f"{v}|{n}|{s}" not in found
    ]
    for variant, name, seed in tqdm(todo, unit="fit"):
        d = split(name, seed)
        est = (BongClassifier if is_classes(d) else BongRegressor)(random_state=seed)
        with warnings.catch_warnings(), replaced(variant):
            warnings.simplefilter("ignore")
            try:
                est.set_params(**VARIANTS[variant]).fit(d.X[:rows], d.y[:rows])
                nlpd = float(-est.score_samples(d.X_test, d.y_test).mean())
            except BongrefError:
                nlpd = math.inf
        shift = 0.0 if is_classes(d) else math.log(float(d.y_test.std()))
        found[f"{variant}|{name}|{seed}"] = nlpd - shift if math.isfinite(nlpd) else None
        write(CHOICES, found)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--page", action="store_true", help="write the tables into docs/everyday.md"
    )
    parser.add_argument("--choose", action="store_true", help="compare settings on other data")
    parser.add_argument("--sets", nargs="*", default=list(TABLE), choices=TABLE, metavar="SET")
    parser.add_argument("--seeds", nargs="*", type=int, default=list(SEEDS), metavar="SEED")
    parser.add_argument("--why", action="store_true", help="other settings on two of the sets")
    args = parser.parse_args()
    if args.why:
        why(args.seeds)
    elif args.choose:
        choose(args.seeds[:3])
    elif args.page:
        from .everyday_page import write_page

        write_page(RESULTS, CHOICES)
    else:
        run(args.sets, args.seeds)


if __name__ == "__main__":
    main()
