"""The 80 names ``RULE-{mc|lin}-{hess|ef}-FAMILY``, their parameters, equations and costs.

>>> import bongref as br
>>> br.methods("bong-*-hess-diag")
['bong-mc-hess-diag', 'bong-lin-hess-diag']
>>> br.method("blr-lin-hess-dlr", rank=5)
method('blr-lin-hess-dlr', alpha=0.1, n_iter=10, rank=5)

A parameter exists only where it acts; any other is a TypeError that says which methods take it.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import MappingProxyType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from . import checks
from .curvature import Curv
from .errors import InvalidType, InvalidValue, NotDerived
from .families import diag_mom, diag_nat, dlr, fc_mom, fc_nat
from .linalg import Array
from .states import DLR, FC, Diag, State
from .theory.aliases import ALIASES, NOT_ALIASES

RULES = ("bong", "blr", "bog", "bbb")
HESSIANS = ("mc-hess", "mc-ef", "lin-hess", "lin-ef")
FAMILIES = ("fc", "fc_mom", "diag", "diag_mom", "dlr")
NAMES = tuple(f"{r}-{h}-{f}" for f in FAMILIES for r in RULES for h in HESSIANS)

MODULES: dict[str, ModuleType] = {
    "fc": fc_nat,
    "fc_mom": fc_mom,
    "diag": diag_nat,
    "diag_mom": diag_mom,
    "dlr": dlr,
}
STATES: dict[str, Any] = {"fc": FC, "fc_mom": FC, "diag": Diag, "diag_mom": Diag, "dlr": DLR}

# the forms that need G = −S Sᵀ and cost less than the displayed ones
EFFICIENT: dict[tuple[str, str], str] = {
    ("bong", "fc"): "bong_woodbury",
    ("bong", "fc_mom"): "bong_lowrank",
    ("bog", "fc"): "bog_woodbury",
    **{(rule, "dlr"): f"{rule}_woodbury" for rule in RULES},
}

# An inner loop without inversions is taken where its iterations have at most P/FEW columns. With
# more it saves nothing, and where they reach every direction the covariance that remains can be
# small compared with the one that it is subtracted from.
FEW = 4

NOT_DERIVED = {
    name: f"{name}: the SVD projection of the DLR family needs the expected Hessian as G = -S S^T. "
    "The paper (sec:DLR-deriv): 'This approach works for EF-MC and EF-LIN methods but not MC-HESS, "
    "which we omit.' "
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


class Increments(NamedTuple):
    """An inner loop whose iterates are increments of the prior.

    Attributes
    ----------
    start : callable
        prior -> increment
    step : callable
        (prior, increment, curv, alpha) -> increment
    finish : callable
        (prior, increment) -> state
    is_valid : callable
        increment -> bool

    Examples
    --------
    >>> INCREMENTS["fc"].finish is fc_nat.finish
    True
    """

    start: Callable[..., Any]  # prior -> increment
    step: Callable[..., Any]  # prior, increment, curv, alpha -> increment
    finish: Callable[..., FC]  # prior, increment -> state
    is_valid: Callable[..., bool]


INCREMENTS = {
    "fc": Increments(fc_nat.start, fc_nat.blr_increment, fc_nat.finish, fc_nat.is_valid_increment),
    "fc_mom": Increments(
        fc_mom.start, fc_mom.blr_increment, fc_mom.finish, fc_mom.is_valid_increment
    ),
}


@dataclass(frozen=True, eq=False)
class Method:
    """One of the 78 algorithms with its parameters; immutable. Made by :func:`bongref.method`.

    Attributes
    ----------
    name : str
        ``RULE-{mc|lin}-{hess|ef}-FAMILY``.
    params : mapping
        Its parameters with the defaults filled in.
    rule, hess, family : str
        The parts of the name: ``"blr"``, ``"lin-hess"``, ``"dlr"``.
    n_iter : int
        Inner iterations I; 1 for bong and bog.
    equations : tuple of str
        The ids of the paper's equations for this method, in the paper's order.
    cost : str
        Leading order in P for one observation, as the paper states it.

    Examples
    --------
    >>> import bongref as br
    >>> m = br.method("blr-lin-hess-dlr", rank=5)
    >>> m.rule, m.hess, m.family, m.n_iter, m.cost
    ('blr', 'lin-hess', 'dlr', 10, 'O(I(2R+C)^2 P)')
    """

    name: str
    params: Mapping[str, Any]

    @property
    def rule(self) -> str:
        """The first part of the name: bong, blr, bog or bbb.

        Examples
        --------
        >>> method("blr-lin-hess-dlr").rule
        'blr'
        """
        return self.name.split("-")[0]

    @property
    def hess(self) -> str:
        """The estimator of the curvature: mc-hess, mc-ef, lin-hess or lin-ef.

        Examples
        --------
        >>> method("blr-lin-hess-dlr").hess
        'lin-hess'
        """
        return "-".join(self.name.split("-")[1:3])

    @property
    def family(self) -> str:
        """The family of the Gaussian: fc, fc_mom, diag, diag_mom or dlr.

        Examples
        --------
        >>> method("blr-lin-hess-dlr").family
        'dlr'
        """
        return self.name.split("-")[3]

    @property
    def n_iter(self) -> int:
        """The inner iterations I of an observation; 1 for bong and bog.

        Examples
        --------
        >>> method("blr-lin-hess-fc", n_iter=3).n_iter, method("bong-lin-hess-fc").n_iter
        (3, 1)
        """
        return int(self.params.get("n_iter", 1))

    @property
    def equations(self) -> tuple[str, ...]:
        """The ids of the paper's equations for this method, in the paper's order.

        Examples
        --------
        >>> "eq:RVGA-explicit-mean" in method("bong-lin-hess-fc").equations
        True
        """
        from .paper import equations

        table = equations().values()
        return tuple(e.id for e in table if any(fnmatchcase(self.name, g) for g in e.methods))

    @property
    def cost(self) -> str:
        """Leading order in P for one observation, as in tab:methods and the derivations.

        Examples
        --------
        >>> method("bong-lin-hess-diag").cost
        'O(C^2 P)'
        """
        return cost(self.name)

    def step_function(
        self, curv: Curv, prior: State | None = None, form: str = "auto"
    ) -> Callable[..., Any]:
        """The function of a step: the displayed form, or for G = −S Sᵀ the efficient one.

        Parameters
        ----------
        curv : Curv
            Of which the form matters: S or not.
        prior : FC, Diag or DLR, optional
            The efficient form of DLR needs Υ ≠ 0.
        form : {"auto", "plain", "efficient"}
            As in :func:`bongref.step`.

        Returns
        -------
        callable
            ``(prior, current, curv, alpha) -> state``.

        Raises
        ------
        InvalidValue
            If there is no efficient form and it was asked for.

        Examples
        --------
        >>> curv = Curv(np.ones(2), S=np.ones((2, 1)))
        >>> m = method("bong-lin-hess-fc")
        >>> m.step_function(curv).__name__, m.step_function(curv, form="plain").__name__
        ('bong_woodbury', 'bong')
        """
        efficient = EFFICIENT.get((self.rule, self.family), "")
        usable = efficient != "" and curv.S is not None
        if isinstance(prior, DLR) and usable:
            usable = bool(np.all(prior.Ups != 0))  # Woodbury divides by Υ
        if form == "efficient" and not usable:
            raise InvalidValue(
                f"form='efficient': {self.name} has no efficient form for this curvature; "
                "use 'auto' or 'plain'"
            )
        pays = (self.rule, self.family) != ("bog", "fc")  # which costs digits, see its docstring
        chosen = usable and (form == "efficient" or (form == "auto" and pays))
        fn: Callable[..., Any] = getattr(MODULES[self.family], efficient if chosen else self.rule)
        return fn

    @property
    def has_efficient_form(self) -> bool:
        """Whether there is a form for G = −S Sᵀ: not with mc-hess, whose G is dense.

        Examples
        --------
        >>> [method(f"bong-{hess}-fc").has_efficient_form for hess in ("lin-hess", "mc-hess")]
        [True, False]
        """
        known = (self.rule, self.family) in EFFICIENT or (
            self.rule == "blr" and self.family in INCREMENTS
        )
        return known and self.hess != "mc-hess"

    def increments(self, curv: Curv, form: str = "auto") -> Increments | None:
        """The functions of an inner loop without inversions, or None where there is none.

        That is BLR in the full-covariance families with G = −S Sᵀ, as long as the columns of its I
        iterations are few (``FEW``).

        Parameters
        ----------
        curv : Curv
        form : {"auto", "plain", "efficient"}

        Returns
        -------
        Increments or None

        Examples
        --------
        >>> m = method("blr-lin-hess-fc", n_iter=2)
        >>> m.increments(Curv(np.ones(100), S=np.ones((100, 1)))) is INCREMENTS["fc"]
        True
        """
        few = curv.S is not None and FEW * self.n_iter * curv.S.shape[1] <= len(curv.g)
        return (
            INCREMENTS.get(self.family) if self.rule == "blr" and few and form != "plain" else None
        )

    def rank(self, P: int) -> int | None:
        """Columns of W in the DLR family, min(rank, P) of P parameters; None in the others.

        Parameters
        ----------
        P : int

        Returns
        -------
        int or None

        Examples
        --------
        >>> method("bong-lin-hess-dlr", rank=10).rank(P=4)
        4
        """
        rank = self.params.get("rank")
        return None if rank is None else min(int(rank), max(P, 1))

    def prior(
        self, mu: Any, var: Any = 1.0, *, rng: np.random.Generator | int | None = None
    ) -> State:
        """N(mu, Diag(var)) in this method's family.

        Parameters
        ----------
        mu : array_like, shape (P,)
            The mean, usually ``model.init(rng)``.
        var : float or array_like, shape (P,)
            The marginal variances.
        rng : numpy.random.Generator or int, optional
            For bog and bbb in DLR, where W = 0 is a fixed point: W is small and random (from a
            fixed seed without ``rng``), and Υ is such that the marginal variances are ``var``.

        Returns
        -------
        FC, Diag or DLR

        Raises
        ------
        InvalidValue, InvalidType
            If mu or var is refused: not finite, not positive, or beyond float64 in DLR.

        Examples
        --------
        >>> import numpy as np, bongref as br
        >>> br.method("bong-lin-hess-diag").prior(mu=np.zeros(2), var=0.25)
        <Diag: P=2, mu in [0, 0], std in [0.5, 0.5]>
        """
        mu = checks.array("mu", mu, ndim=1)
        var = checks.vector("var", var, len(mu))
        if not np.all(var > 0):
            raise InvalidValue(f"var must be > 0 (a variance), got {var.min()}")
        generator = checks.seed_or_generator("rng", 0 if rng is None else rng)
        if self.family in ("fc", "fc_mom"):
            return FC(mu, np.diag(var))
        if self.family in ("diag", "diag_mom"):
            return Diag(mu, var)
        rank = self.rank(len(mu))
        assert rank is not None
        _check_dlr_variance(var, rank)
        if self.rule in ("bong", "blr"):
            return DLR(mu, 1 / var, np.zeros((len(mu), rank)))
        W = 0.1 * generator.standard_normal((len(mu), rank)) / np.sqrt(rank * var)[:, None]
        return DLR(mu, _ups_for_variance(var, W), W)

    def __repr__(self) -> str:
        params = (f"{k}={v!r}" for k, v in self.params.items())
        return f"method({', '.join([repr(self.name), *params])})"

    def _repr_html_(self) -> str:
        from .show import fields_html

        params = ", ".join(f"{k}={v!r}" for k, v in self.params.items()) or "none"
        pairs = [("parameters", params), ("cost of an observation", self.cost)]
        return fields_html(self.name, [*pairs, ("more", f"bongref.explain({self.name!r})")])

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, Method) and self.name == other.name
        return same and dict(self.params) == dict(other.params)  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((self.name, tuple(sorted(self.params.items(), key=str))))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.name, dict(self.params))


def _rebuild(name: str, params: dict[str, Any]) -> Method:
    return method(name, **params)


def methods(pattern: str = "*") -> list[str]:
    """The names of the grid that match a glob, all 80 without one.

    Parameters
    ----------
    pattern : str
        A glob over names, in any case, e.g. ``"bong-*-diag*"``.

    Returns
    -------
    list of str

    Raises
    ------
    InvalidType
        If ``pattern`` is not a string.

    Examples
    --------
    >>> import bongref as br
    >>> len(br.methods()), br.methods("BONG-lin-*-fc")
    (80, ['bong-lin-hess-fc', 'bong-lin-ef-fc'])
    """
    if not isinstance(pattern, str):
        raise InvalidType(f"pattern must be a string such as 'bong-*-diag*', got {pattern!r}")
    return [name for name in NAMES if fnmatchcase(name, pattern.lower())]


def method(name: str | Method, **params: Any) -> Method:
    """The method of that name, with its parameters checked and its defaults filled in.

    Parameters
    ----------
    name : str or Method
        One of :func:`bongref.methods`, in any case, or a name of the literature that is one of them
        (``"rvga"``, ``"cm-ekf"``, ``"lo-fi"``). A Method gives its own parameters as defaults.
    **params
        ``alpha`` (> 0; at most 1 for blr), ``n_iter``, ``n_samples``, ``rank``, ``n_probes``,
        ``virtual``, each only for the methods that take it.

    Returns
    -------
    Method

    Raises
    ------
    InvalidValue
        If there is no such name, or a parameter is out of range.
    InvalidType
        If the method has no such parameter.
    NotDerived
        If the paper derives no update of that name.

    Examples
    --------
    >>> import bongref as br
    >>> br.method("bong-mc-ef-diag", n_samples=10)
    method('bong-mc-ef-diag', n_samples=10, virtual=False)
    >>> br.method("lo-fi", rank=3).name
    'bong-lin-hess-dlr'
    """
    if isinstance(name, Method):
        params = {**name.params, **params}
        name = name.name
    if not isinstance(name, str):
        raise InvalidType(f"name must be a string such as 'bong-lin-hess-fc', got {name!r}")
    given, name = name, name.strip().lower()
    if name not in NAMES:
        name, params = _from_literature(given, params)
    if name not in NAMES:
        raise InvalidValue(_no_such_name(given))
    if name in NOT_DERIVED:
        raise NotDerived(NOT_DERIVED[name])
    taken = {
        key: default
        for key, (globs, default) in PARAMETERS.items()
        if any(fnmatchcase(name, g) for g in globs)
    }
    for key in params:
        if key not in taken:
            raise InvalidType(_no_such_parameter(name, key, list(taken)))
    values = {k: _check_parameter(name, k, params.get(k, default)) for k, default in taken.items()}
    return Method(name, MappingProxyType(values))


def _no_such_name(given: str) -> str:
    """What names look like, and the nearest to the one that was given."""
    name = given.strip().lower()
    text = (
        f"name must be RULE-{{mc|lin}}-{{hess|ef}}-FAMILY such as 'bong-lin-hess-fc', got {given!r}"
    )
    matching = methods(f"*{name}*") if name else []
    if len(matching) > 3:
        return f"{text}; bongref.methods('*{name}*') lists the {len(matching)} names with it"
    near = matching or difflib.get_close_matches(name, [*NAMES, *ALIASES], n=3, cutoff=0.4)
    if near:
        return f"{text}; did you mean {' or '.join(map(repr, near))}?"
    return f"{text}; bongref.methods() lists all 80"


def _no_such_parameter(name: str, key: str, taken: list[str]) -> str:
    known = "no method does"
    if key in PARAMETERS:
        known = f"it is a parameter of {', '.join(PARAMETERS[key][0])}"
    near = difflib.get_close_matches(key, taken, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return (
        f"{name} takes no parameter {key!r} ({known}); it takes {', '.join(taken) or 'none'}{hint}"
    )


def _from_literature(name: str, params: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The method that a name of the literature stands for; an error where it is none."""
    key = name.strip().lower().replace("_", "-")
    if key in NOT_ALIASES:
        cell, reason, *_ = NOT_ALIASES[key]
        raise InvalidValue(
            f"name must be that of a method, got {name!r}, which is not {cell}, where the paper "
            f"has it. {reason}"
        )
    if key in ALIASES:
        return ALIASES[key].method, {**ALIASES[key].params, **params}
    return name, params


def _check_parameter(name: str, key: str, value: Any) -> Any:
    if key == "alpha":
        alpha = checks.scalar("alpha", value)
        if not alpha > 0:
            raise InvalidValue(f"alpha must be > 0, got {value!r}")
        if alpha > 1 and name.startswith("blr-"):
            raise InvalidValue(
                f"alpha must be in (0, 1] for {name}, where the old precision has the weight "
                f"1 - alpha, got {value!r}"
            )
        return alpha
    if key == "virtual":
        if not isinstance(value, (bool, np.bool_)):
            raise InvalidType(f"virtual must be True or False, got {value!r}")
        return bool(value)
    return None if key == "n_probes" and value is None else checks.integer(key, value, 1)


def _check_dlr_variance(var: Array, rank: int) -> None:
    """The precisions 1/var and the products rank · var of a DLR prior must be finite."""
    with np.errstate(over="ignore"):
        bad = ~(np.isfinite(1 / var) & np.isfinite(rank * var))
    if np.any(bad):
        raise InvalidValue(
            f"var must have a finite inverse and a finite product with the rank {rank}, "
            f"got {var[bad][0]}"
        )


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
    """The cost of one observation as the paper states it: tab:methods, and the text for MC-HESS."""
    rule, h1, h2, family = name.split("-")
    hess, inner = f"{h1}-{h2}", "I" if rule in ("blr", "bbb") else ""
    if family in ("diag", "diag_mom"):
        per_step = {"mc-hess": "NMP", "mc-ef": "MP", "lin-hess": "C^2 P", "lin-ef": "P"}[hess]
        return f"O({inner}{per_step})"
    if family == "dlr":
        return _cost_dlr(rule, hess, inner)
    if rule == "bong" or (rule == "bog" and family == "fc_mom"):
        cubic = "O(P^3)" if rule == "bong" else "O(MP^2)"
        return {"mc-hess": cubic, "mc-ef": "O(MP^2)", "lin-hess": "O(CP^2)", "lin-ef": "O(P^2)"}[
            hess
        ]
    return f"O({inner}P^3)"


def _cost_dlr(rule: str, hess: str, inner: str) -> str:
    if hess == "mc-hess":
        return f"O({inner}P^3)"
    if hess == "lin-ef":
        costs = {"bong": "O(R^2 P)", "blr": "O(IR^2 P)", "bog": "O(RP)", "bbb": "O(IR^2 P)"}
        return costs[rule]
    k = {"mc-ef": "M", "lin-hess": "C"}[hess]
    costs = {
        "bong": f"O((R+{k})^2 P)",
        "blr": f"O(I(2R+{k})^2 P)",
        "bog": "O(RMP)" if k == "M" else "O(C(C+R)P)",
        "bbb": f"O(IR(R+{k})P)",
    }
    return costs[rule]
