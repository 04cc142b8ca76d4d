"""The commands ``bongref run`` and ``bongref data``; their arguments are in :mod:`.arguments`."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import checks
from ..errors import InvalidValue
from ..grid import method
from . import specs, store, tasks
from .data import files, raw
from .specs import Spec
from .tuning.best import read_best

FOUR = ("bong-lin-hess-fc", "bong-lin-hess-dlr", "blr-lin-hess-dlr", "blr-lin-hess-diag")
FEW_PARAMETERS = 1500  # up to which a full covariance is affordable by default
ROWS = 10  # of metrics in a run, by default
GRID = {"alpha": float, "n_iter": int, "n_samples": int, "rank": int, "n_probes": int}
METRICS = {
    raw.REGRESSION: ("rmse", "nlpd-plugin", "nlpd-lin_mc"),
    raw.BINARY: ("error", "ece", "nlpd-plugin", "nlpd-lin_mc_f"),
    raw.CLASSES: ("error", "ece", "nlpd-plugin", "nlpd-lin_mc_f"),
}


# --- bongref run ----------------------------------------------------------------------------------


def run(args: argparse.Namespace) -> int:
    from . import sweep, workers
    from .records import digest

    if args.seeds is not None and args.seed is not None:
        raise InvalidValue("seeds and seed must not both be given")
    matrix = runs(args)
    if args.dry:
        print(listing(matrix, args.out))
        return 0
    again = shlex.join(["bongref", *sys.argv[1:]])
    progress = sweep.Progress(len(matrix), args.quiet)
    if not args.quiet:
        print(f"{describe(matrix)} into {args.out}", flush=True)
    try:
        outcome = sweep.sweep(
            matrix, args.out, args.workers, args.scheduler, args.retry_failed, progress
        )
    except KeyboardInterrupt:
        progress.end()
        _told_how_to_go_on("stopped;", matrix, args.out, again)
        return 130
    except workers.ClusterGone as error:
        progress.end()
        _told_how_to_go_on(f"{error};", matrix, args.out, again)
        return 1
    print(sweep.table(outcome.records))
    counts = ", ".join(f"{n} {status}" for status, n in sorted(outcome.status.items()))
    print(f"{len(matrix)} runs: {counts}; digest of the results {digest(outcome.records)}")
    if outcome.lost:
        why = next(iter(outcome.lost.values()))
        print(
            f"bongref: {len(outcome.lost)} run(s) have no result ({why}); the others are safe. "
            f"The same command tries again:\n  {again}",
            file=sys.stderr,
        )
    return 1 if outcome.lost or outcome.status["failed"] else 0


def _told_how_to_go_on(why: str, matrix: list[Spec], folder: str, again: str) -> None:
    done = sum(s.id in store.scan_folder(folder).status for s in matrix)
    print(
        f"bongref: {why} {done} of {len(matrix)} runs are in {folder}. "
        f"The same command goes on:\n  {again}",
        file=sys.stderr,
    )


def runs(args: argparse.Namespace) -> list[Spec]:
    """The runs that the arguments of ``bongref run`` stand for."""
    task = load_task(args, args.part)
    P, facts = task.model().n_params, task.facts
    best = read_best(args.params, facts["kind"]) if args.params else {}
    if args.params and not best:
        raise InvalidValue(f"params: every trial of every method diverged in {args.params}")
    names = specs.method_names(args.methods or ",".join(best or _four(P)))
    grid = {key: _values(key, getattr(args, key), GRID[key]) for key in GRID}
    grid["virtual"] = _values("virtual", args.virtual, _boolean)
    given = {key: values for key, values in grid.items() if values}
    if "rank" not in given and not best and any(name.endswith("-dlr") for name in names):
        given["rank"] = [min(10, P)]
    for rank in given.get("rank", []):
        checks.rank("rank", rank, P)
    T = len(task.X)
    steps = T if args.steps is None else checks.integer("steps", args.steps, 1, T)
    measured = _metrics(args, facts["kind"], steps)
    fixed = {
        "steps": steps,
        "metrics": measured,
        "eval_samples": checks.integer("eval_samples", args.eval_samples, 1),
    }
    linear = facts["kind"] == raw.REGRESSION and facts["model"]["kind"] == "linear"
    if "kl" in measured and (not linear or args.gamma):
        raise InvalidValue(
            "kl is for a regression with a linear model that does not move, such as the task "
            f"linear without --gamma, and {args.task} is not one here"
        )
    if args.obs_var and facts["kind"] != raw.REGRESSION:
        raise InvalidValue(f"obs_var is for a regression, and {args.task} is {facts['kind']}")

    def settings(default: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [
            {"prior_var": prior, "obs_var": noise, "gamma": gamma, "w0": w0, **fixed}
            for prior in _positive("prior_var", args.prior_var) or [default["prior_var"]]
            for noise in _positive("obs_var", args.obs_var) or [default["obs_var"]]
            for gamma in (*_positive("gamma", args.gamma),) or (None,)
            for w0 in _starts(args.w0, names)
        ]

    seeds = _seeds(args)
    if not best:
        how = settings(facts)
        return specs.matrix(task.source, facts, names, given, how, seeds, args.adapter)
    specs.check_grid(names, given)
    return [
        spec
        for seed in seeds
        for name, tuned in ((name, _tuned(name, best, args.params)) for name in names)
        for spec in specs.matrix(
            task.source, facts, [name], {**tuned["params"], **_taken(name, given)},
            settings({**facts, **tuned["settings"]}), [seed], args.adapter,
        )
    ]  # fmt: skip


def _starts(text: str | None, names: Sequence[str]) -> list[str]:
    """The values of ``--w0``."""
    words = [word.strip() for word in text.split(",")] if text else [specs.W0[0]]
    if text and not any(map(specs.starts_at_random, names)):
        raise InvalidValue(
            "w0 is a setting of bog-*-dlr and bbb-*-dlr, whose prior has a random W, and none of "
            f"the methods is one of them: {', '.join(names[:4])}{', ...' if names[4:] else ''}"
        )
    return [checks.choice("w0", word, specs.W0) for word in words]


def _tuned(name: str, best: Mapping[str, Any], path: str) -> dict[str, Any]:
    """The tuned parameters of a method as a grid of one point, and its settings."""
    if name not in best:
        raise InvalidValue(
            f"params must have every method, and {path} has no parameters of {name}: it was not "
            f"tuned, or every trial diverged; it has {', '.join(best)}"
        )
    found, grid = best[name], best[name]["params"].items()
    return {"params": {k: [v] for k, v in grid if v is not None}, "settings": found["settings"]}


def _taken(name: str, grid: Mapping[str, Any]) -> dict[str, Any]:
    return {key: values for key, values in grid.items() if key in method(name).params}


def _four(P: int) -> Sequence[str]:
    """The default methods."""
    return FOUR if P <= FEW_PARAMETERS else ("bong-lin-ef-dlr", *FOUR[1:])


def load_task(args: argparse.Namespace, part: str) -> tasks.Task:
    """The task of the arguments; a file by its whole path, so that every process finds it."""
    name = os.path.abspath(args.task) if files.is_file(args.task) else args.task
    folder = None if args.data is None else os.path.abspath(args.data)
    return tasks.load(name, _task_params(args), part, folder)


def _task_params(args: argparse.Namespace) -> dict[str, Any]:
    """The parameters of the task: ``--target`` and ``--set``."""
    params = {} if args.target is None else {"target": args.target}
    for word in args.set:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise InvalidValue(f"set must be KEY=VALUE, got {word!r}")
        params[key.replace("-", "_")] = _plain(value)
    return params


def _plain(text: str) -> Any:
    """A number where the text is one."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _values(name: str, text: str | None, kind: Any) -> list[Any]:
    out = []
    for word in text.split(",") if text else ():
        try:
            out.append(kind(word.strip()))
        except ValueError:
            what = {int: "integers", float: "numbers"}.get(kind, "true or false")
            raise InvalidValue(f"{name} must be {what} separated by commas, got {text!r}") from None
    return list(dict.fromkeys(out))


def _positive(name: str, text: str | None) -> list[float]:
    values = _values(name, text, float)
    for value in values:
        if not 0 < value < float("inf") or (name == "gamma" and value > 1):
            raise InvalidValue(
                f"{name} must be {'in (0, 1]' if name == 'gamma' else '> 0'}, got {value}"
            )
    return values


def _seeds(args: argparse.Namespace) -> list[int]:
    if args.seed is None:
        return list(range(checks.integer("seeds", 3 if args.seeds is None else args.seeds, 1)))
    return [checks.integer("seed", s, 0) for s in _values("seed", args.seed, int)]


def _metrics(args: argparse.Namespace, kind: str, T: int) -> dict[str, list[int]]:
    """{name: steps} of the arguments; the end is always one of the steps."""
    if args.every is not None and args.at is not None:
        raise InvalidValue("every and at must not both be given")
    every = checks.integer("every", args.every, 1) if args.every is not None else max(1, T // ROWS)
    steps = _steps("at", args.at, T) if args.at else _until(range(every, T + 1, every), T)
    names = [w.strip() for w in (args.metrics or "").split(",") if w.strip()]
    found = {name: steps for name in names or (() if args.metric else METRICS[kind])}
    for word in args.metric:
        name, at, when = word.partition("@")
        found[name] = _steps("metric", when, T) if at else steps
    for name in found:
        check_metric(name, kind)
    return found


def check_metric(name: str, kind: str) -> None:
    """Refuse a metric that there is not, or that the kind of task does not have.

    Raises
    ------
    InvalidValue
    """
    from .. import metrics, predictive

    if name == "kl" and kind == raw.REGRESSION:
        return
    metric, _, how = name.partition("-")
    known = [*metrics.METRICS, "prequential"]
    if metric not in known or (how or "plugin") not in predictive.KINDS:
        every = [*metrics.METRICS, *(f"{a}-{k}" for a in known for k in predictive.KINDS)]
        raise InvalidValue(
            f"metrics must be made of {', '.join(known)} and -{', -'.join(predictive.KINDS)}, "
            f"got {name!r}{checks.near_miss(name, every)}"
        )
    if kind == raw.REGRESSION and metric in ("error", "ece"):
        raise InvalidValue(f"{metric} is for classes, and the task is a regression; use rmse")


def _steps(name: str, text: str, T: int) -> list[int]:
    values = sorted({checks.integer(name, v, 1) for v in _values(name, text, int)})
    if values and values[-1] > T:
        raise InvalidValue(f"{name} must be steps of the stream, 1 to {T}, got {values[-1]}")
    return _until(values, T)


def _until(steps: Sequence[int], T: int) -> list[int]:
    return [*(s for s in steps if s < T), T]


# --- what is shown --------------------------------------------------------------------------------


def describe(matrix: list[Spec]) -> str:
    """The grid in one sentence."""
    facts, methods = matrix[0].task, {s.method for s in matrix}
    seeds = len({s.seed for s in matrix})
    noise = "" if facts["obs_var"] is None else f", observation variance {facts['obs_var']:.3g}"
    return (
        f"{len(matrix)} runs: {len(methods)} method(s), {seeds} seed(s) on {facts['name']} "
        f"({facts['kind']}, {facts['n_inputs']} inputs, {matrix[0].settings['steps']} steps, "
        f"{facts['n_test']} {facts['part']} rows, "
        f"{tasks.model_of(facts['model']).n_params} parameters{noise})"
    )


def listing(matrix: list[Spec], folder: str) -> str:
    """The matrix with what is done, for ``--dry``."""
    there = (Path(folder) / store.NAME).is_file()
    status = store.scan_folder(folder).status if there else {}
    lines = [f"{'id':<18}{'status':<10}run"]
    for s in matrix:
        how = {**s.params, **{k: s.settings.get(k) for k in specs.SETTINGS}}
        words = [f"{k}={v}" for k, v in how.items() if v not in (None, False)]
        run = " ".join([s.method, *words, f"seed={s.seed}"])
        lines.append(f"{s.id:<18}{status.get(s.id, 'to do'):<10}{run}")
    done = sum(s.id in status for s in matrix)
    return "\n".join([*lines, describe(matrix), f"{done} of {len(matrix)} are in {folder}"])


# --- bongref data ---------------------------------------------------------------------------------


def data_get(args: argparse.Namespace) -> int:
    from .data import download

    for path in download.get(args.name, args.data):
        print(path)
    return 0


def data_list(args: argparse.Namespace) -> int:
    from .data import download

    print(download.listing(args.data))
    return 0
