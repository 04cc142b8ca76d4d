"""The 80 names ``RULE-{mc|lin}-{hess|ef}-FAMILY``, their parameters, equations and costs.

``methods("bong-*-diag*")`` lists names, ``method("blr-lin-hess-dlr", rank=10, alpha=0.1, n_iter=10)`` makes a method.
A parameter exists only where it acts; anything else is a TypeError that says which methods take it.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import MappingProxyType, ModuleType
from typing import Any

import numpy as np

from . import checks
from .curvature import Curv
from .families import diag_mom, diag_nat, dlr, fc_mom, fc_nat
from .linalg import Array
from .states import DLR, FC, Diag, State
from .theory.literature import ALIASES, NOT_ALIASES

RULES = ("bong", "blr", "bog", "bbb")
HESSIANS = ("mc-hess", "mc-ef", "lin-hess", "lin-ef")
FAMILIES = ("fc", "fc_mom", "diag", "diag_mom", "dlr")
NAMES = tuple(f"{r}-{h}-{f}" for f in FAMILIES for r in RULES for h in HESSIANS)

MODULES: dict[str, ModuleType] = {"fc": fc_nat, "fc_mom": fc_mom, "diag": diag_nat, "diag_mom": diag_mom, "dlr": dlr}
STATES: dict[str, Any] = {"fc": FC, "fc_mom": FC, "diag": Diag, "diag_mom": Diag, "dlr": DLR}

# the forms that need G = −S Sᵀ and cost less than the displayed ones
EFFICIENT: dict[tuple[str, str], str] = {
    ("bong", "fc"): "bong_woodbury",
    ("bong", "fc_mom"): "bong_lowrank",
    ("bog", "fc"): "bog_woodbury",
    **{(rule, "dlr"): f"{rule}_woodbury" for rule in RULES},
}

# an inner loop without inversions is taken where its iterations have at most P/FEW columns: with more it saves nothing, and where they
# reach every direction the covariance that it arrives at can be small beside the one that it subtracts from
FEW = 4

NOT_DERIVED = {
    name: f"{name}: the SVD projection of the DLR family needs the expected Hessian as G = -S S^T. "
    "The paper (sec:DLR-deriv): 'This approach works for EF-MC and EF-LIN methods but not MC-HESS, which we omit.' "
    f"Use {name.replace('mc-hess', 'mc-ef')} or {name.replace('mc-hess', 'lin-hess')}."
    for name in ("bong-mc-hess-dlr", "blr-mc-hess-dlr")
}

# parameter -> (the names that take it, default)
PARAMETERS: dict[str, tuple[tuple[str, ...], Any]] = {
    "alpha": (("blr-*", "bog-*", "bbb-*"), 0.1),
    "n_iter": (("blr-*", "bbb-*"), 10),
    "n_samples": (("*-mc-*",), 100),
    "rank": (("*-dlr",), 10),
    "n_probes": (("*-mc-hess-diag*",), None),
    "virtual": (("*-ef-*",), False),
}


class NotDerived(NotImplementedError):
    """A name of the grid for which the paper derives no update."""


@dataclass(frozen=True, eq=False)
class Method:
    """One of the 78 algorithms with its parameters; immutable."""

    name: str
    params: Mapping[str, Any]

    @property
    def rule(self) -> str:
        return self.name.split("-")[0]

    @property
    def hess(self) -> str:
        return "-".join(self.name.split("-")[1:3])

    @property
    def family(self) -> str:
        return self.name.split("-")[3]

    @property
    def n_iter(self) -> int:
        return self.params.get("n_iter", 1)

    @property
    def equations(self) -> tuple[str, ...]:
        """The ids of the paper's equations for this method, in the paper's order."""
        from .paper import equations

        return tuple(e.id for e in equations().values() if any(fnmatchcase(self.name, g) for g in e.methods))

    @property
    def cost(self) -> str:
        """Leading order in P for one observation, as in tab:methods and the text of the derivations."""
        return cost(self.name)

    def step_function(self, curv: Curv, prior: State | None = None, form: str = "auto") -> Callable[..., Any]:
        """The function that computes a step: the displayed form, or where G = −S Sᵀ the efficient one."""
        efficient = EFFICIENT.get((self.rule, self.family), "")
        usable = efficient != "" and curv.S is not None
        if isinstance(prior, DLR) and usable:
            usable = bool(np.all(prior.Ups != 0))  # Woodbury divides by Υ
        if form == "efficient" and not usable:
            raise ValueError(f"form='efficient': {self.name} has no efficient form for this curvature")
        pays = (self.rule, self.family) != ("bog", "fc")  # which costs digits, see its docstring
        return getattr(MODULES[self.family], efficient if usable and (form == "efficient" or (form == "auto" and pays)) else self.rule)

    def inner_loop(self, curv: Curv, form: str = "auto") -> Any:
        """The module whose ``start``, ``blr_increment`` and ``finish`` run a whole inner loop without inversions, or None.

        That is BLR in the full-covariance families with G = −S Sᵀ, as long as the columns of its I iterations are few (``FEW``).
        """
        applies = self.rule == "blr" and self.family in ("fc", "fc_mom") and curv.S is not None and form != "plain"
        return MODULES[self.family] if applies and FEW * self.n_iter * curv.S.shape[1] <= len(curv.g) else None

    def prior(self, mu: Array, var: Any = 1.0, *, rng: np.random.Generator | None = None) -> State:
        """N(mu, Diag(var)) in this method's family, var a scalar or (P,).

        For bog and bbb in DLR, where W = 0 is a fixed point, W is small and random (from ``rng``; a fixed seed without it) and Υ is
        such that the marginal variances are the ones asked for.
        """
        mu = checks.array("mu", mu, ndim=1)
        var = checks.variance("var", var, len(mu))
        if self.family in ("fc", "fc_mom"):
            return FC(mu, np.diag(var))
        if self.family in ("diag", "diag_mom"):
            return Diag(mu, var)
        rank = checks.rank("rank", self.params["rank"], len(mu))
        if self.rule in ("bong", "blr"):
            return DLR(mu, 1 / var, np.zeros((len(mu), rank)))
        rng = np.random.default_rng(0) if rng is None else checks.generator("rng", rng)
        W = 0.1 * rng.standard_normal((len(mu), rank)) / np.sqrt(rank * var)[:, None]
        return DLR(mu, _ups_for_variance(var, W), W)

    def __repr__(self) -> str:
        return f"method({', '.join([repr(self.name), *(f'{k}={v!r}' for k, v in self.params.items())])})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Method) and (self.name, dict(self.params)) == (other.name, dict(other.params))

    def __hash__(self) -> int:
        return hash((self.name, tuple(sorted(self.params.items(), key=str))))

    def __reduce__(self):
        return _rebuild, (self.name, dict(self.params))


def _rebuild(name: str, params: dict[str, Any]) -> Method:
    return method(name, **params)


def methods(pattern: str = "*") -> list[str]:
    """The names that match a glob, all 80 without one."""
    return [name for name in NAMES if fnmatchcase(name, pattern)]


def method(name: str | Method, **params: Any) -> Method:
    """The method of that name, or of a name of the literature that is one, with its parameters checked and its defaults filled in."""
    if isinstance(name, Method):
        params = {**name.params, **params}
        name = name.name
    if isinstance(name, str) and name not in NAMES:
        name, params = _from_literature(name, params)
    if not isinstance(name, str) or name not in NAMES:
        near = difflib.get_close_matches(str(name).lower(), [*NAMES, *ALIASES], n=3, cutoff=0.4)
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise ValueError(f"name must be one of the 80 of bongref.methods(), got {name!r}{hint}")
    if name in NOT_DERIVED:
        raise NotDerived(NOT_DERIVED[name])
    taken = {k: default for k, (globs, default) in PARAMETERS.items() if any(fnmatchcase(name, g) for g in globs)}
    for key in params:
        if key not in taken:
            known = f"it is a parameter of {', '.join(PARAMETERS[key][0])}" if key in PARAMETERS else "no method does"
            near = difflib.get_close_matches(key, taken, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise TypeError(f"{name} takes no parameter {key!r} ({known}); it takes {', '.join(taken) or 'none'}{hint}")
    values = {k: _check_parameter(name, k, params.get(k, default)) for k, default in taken.items()}
    return Method(name, MappingProxyType(values))


def _from_literature(name: str, params: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The method that a name of the literature stands for; for a name that is no method of the paper's, why not and what is."""
    key = name.lower().replace("_", "-")
    if key in NOT_ALIASES:
        cell, reason, *_ = NOT_ALIASES[key]
        raise ValueError(f"name: {name!r} is not {cell}, where the paper has it. {reason}")
    if key in ALIASES:
        return ALIASES[key].method, {**ALIASES[key].params, **params}
    return name, params


def _check_parameter(name: str, key: str, value: Any) -> Any:
    if key == "alpha":
        alpha = checks.scalar("alpha", value)
        if not alpha > 0:
            raise ValueError(f"alpha must be > 0, got {value!r}")
        if alpha > 1 and name.startswith("blr-") and name.endswith("-dlr"):
            raise ValueError(f"alpha must be in (0, 1] for {name}, where sqrt(1 - alpha) enters (eq:blr-dlr-Wtilde), got {value!r}")
        return alpha
    if key == "virtual":
        if not isinstance(value, (bool, np.bool_)):
            raise TypeError(f"virtual must be True or False, got {value!r}")
        return bool(value)
    return None if key == "n_probes" and value is None else checks.integer(key, value, 1)


def _ups_for_variance(var: Array, W: Array) -> Array:
    """Υ such that diag((Υ + W Wᵀ)⁻¹) = var, by fixed-point iteration from Υ = 1/var."""
    from .gaussians import marginal_variance

    Ups = 1 / var
    for _ in range(200):
        ratio = marginal_variance(DLR(var, Ups, W)) / var
        Ups = Ups * ratio
        if np.max(np.abs(ratio - 1)) < 8 * np.finfo(float).eps:
            break
    return Ups


def cost(name: str) -> str:
    """The cost of one observation as the paper states it (tab:methods for 36 + the moment forms; the text for MC-HESS)."""
    rule, h1, h2, family = name.split("-")
    hess, inner = f"{h1}-{h2}", "I" if rule in ("blr", "bbb") else ""
    if family in ("diag", "diag_mom"):
        return "O(" + inner + {"mc-hess": "NMP", "mc-ef": "MP", "lin-hess": "C^2 P", "lin-ef": "P"}[hess] + ")"
    if family == "dlr":
        k = {"mc-ef": "M", "lin-hess": "C", "lin-ef": "1", "mc-hess": "P"}[hess]
        if hess == "mc-hess":
            return f"O({inner}P^3)"
        if hess == "lin-ef":
            return {"bong": "O(R^2 P)", "blr": "O(IR^2 P)", "bog": "O(RP)", "bbb": "O(IR^2 P)"}[rule]
        return {
            "bong": f"O((R+{k})^2 P)",
            "blr": f"O(I(2R+{k})^2 P)",
            "bog": "O(RMP)" if k == "M" else "O(C(C+R)P)",
            "bbb": f"O(IR(R+{k})P)",
        }[rule]
    if rule == "bong" or (rule == "bog" and family == "fc_mom"):
        cubic = "O(P^3)" if rule == "bong" else "O(MP^2)"
        return {"mc-hess": cubic, "mc-ef": "O(MP^2)", "lin-hess": "O(CP^2)", "lin-ef": "O(P^2)"}[hess]
    return f"O({inner}P^3)"
