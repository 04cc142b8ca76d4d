"""Methods for a model, a number of observations and a budget of time, from measured costs.

>>> import bongref as br
>>> r = br.recommend(br.models.mlp([8, 20, 1]), n_obs=1000, budget=60.0, calibrate=False)
>>> r.best.name, r.choices[0].fits
('bong-lin-hess-fc', True)
>>> br.recommend(br.models.cnn(), n_obs=60000, budget="500us", calibrate=False).best.family
'diag'
"""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

from .. import checks
from ..errors import InvalidType, InvalidValue
from ..grid import Method, method
from ..models import Model
from ..show import Block, bytes_text, html_blocks, text_blocks, time_text
from . import costs
from .definiteness import keeps
from .facts import facts

UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0}
FAMILIES = ("fc", "dlr", "diag")  # the richer posterior first
RULES = (("bong", "blr"), ("bog",))  # natural gradients, then plain ones
HESSIANS = ("lin-hess", "mc-ef", "lin-ef")
SHOWN = 6  # rows of the table that a repr has


class Choice(NamedTuple):
    """One row of a recommendation.

    Attributes
    ----------
    method : Method
        With its parameters.
    seconds : float or None
        Predicted seconds of one observation; None where it is not known.
    total : float or None
        Predicted seconds of the whole stream.
    memory : int
        Predicted bytes beyond the data: three states and the columns of S.
    fits : bool
        Whether it is within the budget and the memory of this machine.
    why : str
        The reasons, in words.
    """

    method: Method
    seconds: float | None
    total: float | None
    memory: int
    fits: bool
    why: str


@dataclass(frozen=True, repr=False)
class Recommendation:
    """Methods in order of preference, made by :func:`bongref.recommend`.

    Attributes
    ----------
    choices : tuple of Choice
        First those that fit; of these first the one with the richest posterior.
    budget : float
        Seconds of one observation that are allowed.
    n_obs : int
    unknown : tuple of str
        What the predictions do not know.
    """

    choices: tuple[Choice, ...]
    budget: float
    n_obs: int
    unknown: tuple[str, ...]

    @property
    def best(self) -> Method:
        """The first choice; the fastest one where none fits."""
        known = [c for c in self.choices if c.seconds is not None]
        if self.choices[0].fits or not known:
            return self.choices[0].method
        return min(known, key=lambda c: c.seconds or 0.0).method

    def as_dict(self) -> dict[str, Any]:
        """All of it in plain types."""
        rows = [{**c._asdict(), "method": c.method.name, "params": dict(c.method.params)}
                for c in self.choices]  # fmt: skip
        return {
            "budget": self.budget, "n_obs": self.n_obs, "best": self.best.name,
            "choices": rows, "unknown": list(self.unknown),
        }  # fmt: skip

    def _blocks(self) -> list[Block]:
        head = ("fits", "method", "each", "all", "memory", "why")
        shown = [c for c in self.choices if c.fits][:SHOWN]
        shown += [c for c in self.choices if not c.fits][: max(3, SHOWN - len(shown))]
        rows = [
            (
                "yes" if c.fits else "no", _call(c.method), _time(c.seconds), _time(c.total),
                bytes_text(c.memory), c.why,
            )
            for c in shown
        ]  # fmt: skip
        found = f"take {_call(self.best)}"
        if not self.choices[0].fits:
            found = "no method is known to fit the budget"
        first = f"{self.n_obs} observations, at most {time_text(self.budget)} each: {found}"
        more = len(self.choices) - len(shown)
        rest = [f"{more} more in .choices"] if more else []
        return [first, (head, rows), *rest, "Not known:", list(self.unknown)]

    def __repr__(self) -> str:
        return text_blocks(self._blocks())

    def _repr_html_(self) -> str:
        return html_blocks(self._blocks())


def recommend(
    model: Model,
    n_obs: int,
    budget: float | str,
    *,
    rank: int = 10,
    n_iter: int = 10,
    n_samples: int = 100,
    calibrate: bool = True,
) -> Recommendation:
    """Methods that fit a budget of time, the richest posterior first, with reasons.

    Only methods that cannot lose positive definiteness are suggested. Their times are predicted
    from measurements that are part of the package (docs/looking.md says how well).

    Parameters
    ----------
    model : Model
        Made by :mod:`bongref.models`.
    n_obs : int
        The length of the stream.
    budget : float or str
        Seconds for the whole stream, or a time for each observation such as ``"100us"``.
    rank : int
        Of the dlr methods, at most P.
    n_iter : int
        Inner iterations of the blr methods.
    n_samples : int
        Of the mc methods.
    calibrate : bool
        Compare this machine with the one of the measurements, which takes a few milliseconds.

    Returns
    -------
    Recommendation
        ``.best`` is the first choice, ``.choices`` the table, ``.unknown`` what is not known.

    Raises
    ------
    InvalidValue, InvalidType
        If an argument is refused.

    Examples
    --------
    >>> import bongref as br
    >>> r = recommend(br.models.linear(10), n_obs=1000, budget="100us", calibrate=False)
    >>> r.best
    method('bong-lin-hess-fc')
    """
    model = checks.model(model)
    n_obs = checks.integer("n_obs", n_obs, 1)
    allowed = _budget(budget, n_obs)
    options = {
        "rank": checks.integer("rank", rank, 1),
        "n_iter": checks.integer("n_iter", n_iter, 1),
        "n_samples": checks.integer("n_samples", n_samples, 1),
    }
    options["rank"] = min(options["rank"], model.n_params)
    scale = costs.calibration() if checks.boolean("calibrate", calibrate) else 1.0
    limit = _physical_memory()
    chosen = [_choice(m, model, n_obs, allowed, scale, limit) for m in _candidates(options)]
    chosen.sort(key=lambda c: not c.fits)  # stable: preference within
    return Recommendation(tuple(chosen), allowed, n_obs, _unknown(model, scale, calibrate))


def _candidates(options: dict[str, int]) -> list[Method]:
    """The methods that cannot lose positive definiteness, in order of preference."""
    names = [f"{r}-{h}-{f}" for rs in RULES for f in FAMILIES for r in rs for h in HESSIANS]
    out = []
    for name in names:
        if keeps(name):
            taken = method(name).params
            out.append(method(name, **{k: v for k, v in options.items() if k in taken}))
    return out


def _choice(
    m: Method, model: Model, n_obs: int, allowed: float, scale: float, limit: float
) -> Choice:
    n = sizes_of(m, model)
    each = costs.seconds(m.name, n, scale) if _is_known(model) else None
    memory = costs.memory(m.name, n)
    why = [_words("families", m.family), _words("rules", m.rule), _words("hessians", m.hess)]
    fits = each is not None and each <= allowed and memory <= limit
    if each is None:
        why.insert(0, "time not known")
    elif each > allowed:
        why.insert(0, f"{each / allowed:.2g} times the budget")
    if memory > limit:
        why.insert(0, f"more than the {bytes_text(int(limit))} of this machine")
    total = None if each is None else each * n_obs
    return Choice(m, each, total, memory, fits, "; ".join(why))


def _words(kind: str, key: str) -> str:
    return str(facts()[kind][key]["reason"])


def _unknown(model: Model, scale: float, calibrate: bool) -> tuple[str, ...]:
    where = costs.table()["machine"]
    said = [
        f"times were measured on {where['cpu']} with {where['cores']} cores"
        + (f"; this machine is taken to be {scale:.2g} times as slow" if calibrate else "")
        + "; expect them within a factor of about 3 where n_samples, rank and n_iter are near the "
        "benchmark's 100, 10 and 10; others are extrapolated, and with mc were up to 15 times low",
        "the first run compiles the stream, some seconds once; metrics and checks are extra",
        "which method predicts best on your data: compare the first few with "
        "br.metrics.prequential()",
    ]
    if not _is_known(model):
        said.insert(
            0,
            "a wrapped function runs on the reference, whose time depends on the function: time a "
            "short br.run(...) and look at result.info.seconds",
        )
    return tuple(said)


def _is_known(model: Model) -> bool:
    return getattr(model, "kind", "wrap") != "wrap"


def sizes_of(m: Method, model: Any) -> costs.Sizes:
    """The sizes that the cost of a method depends on."""
    p = m.params
    rank = min(p.get("rank", 1), model.n_params)
    C = model.n_outputs or 1
    return costs.Sizes(
        model.n_params, C, p.get("n_samples", 1), rank, m.n_iter, network_work(model)
    )


def network_work(model: Any) -> float:
    """Multiplications of one pass through a network: each weight once, or once for each pixel."""
    layout = getattr(model, "spec", {}).get("layout", [])
    if getattr(model, "kind", "wrap") != "cnn":
        return float(sum(math.prod(p["shape"]) for p in layout if p["name"][0] in "Wt"))
    h, w, _ = model.in_shape
    total = 0.0
    for p in layout:
        if p["name"].startswith("K"):
            total += h * w * math.prod(p["shape"])
            h, w = h // 2, w // 2
        elif p["name"].startswith("W"):
            total += math.prod(p["shape"])
    return total


def _budget(budget: Any, n_obs: int) -> float:
    """Seconds for one observation."""
    allowed = "budget must be seconds > 0 for the whole stream, or a time for each observation"
    if isinstance(budget, str):
        found = re.fullmatch(r"\s*([0-9.]+(?:e[+-]?\d+)?)\s*(ns|us|µs|μs|ms|s)\s*", budget)
        try:
            out = float(found[1]) * UNITS[found[2]] if found else 0.0
        except ValueError:  # 1.2.3
            out = 0.0
        if not out > 0:
            raise InvalidValue(f"{allowed} such as '100us' (ns, us, ms, s), got {budget!r}")
        return out
    try:
        total = checks.scalar("budget", budget)
    except InvalidType:
        raise InvalidType(f"{allowed} such as '100us', got {checks.describe(budget)}") from None
    if not total > 0:
        raise InvalidValue(f"{allowed} such as '100us', got {budget!r}")
    return total / n_obs


def _call(m: Method) -> str:
    """The method with the parameters that cost time."""
    own = [f"{k}={v}" for k, v in m.params.items() if k != "virtual"]
    return ", ".join([m.name, *own])


def _time(seconds: float | None) -> str:
    return "?" if seconds is None else time_text(seconds)


def _physical_memory() -> float:
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return math.inf
