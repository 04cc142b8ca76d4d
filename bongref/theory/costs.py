"""What an update costs: the operations of the forms that are run, counted, beside the costs that the paper states.

    count("bog-mc-ef-dlr", P=1000, M=10, R=5)          # operations of one observation, from (g, S) on
    polynomial("bog-mc-ef-dlr")                        # the same as a polynomial in P, M, R, exactly
    table(), render(table())                           # every statement of the paper with a verdict;  python -m bongref.theory.costs

Nothing is timed and nothing is computed. A step runs unchanged on arrays of class :class:`Counted` that have a shape and no numbers; each
operation adds its textbook count to a tally and returns the shape of its result.

What counts: an elementwise operation, 1 for each entry of its result, whatever it is; a sum, its additions; a product of (m, k) and
(k, n), 2mnk; a factorisation or a solve, the formula beside its name below. What does not: copies, views, comparisons, random
numbers, and arithmetic on constants alone (an identity matrix). The calls of the network are not counted either: the paper's
costs are those of an update from given gradients and Jacobians. Three parts are kept apart:

* the update from (g, S) on, all I iterations: :func:`count`;
* forming (g, S) from gradients and Jacobians, which the paper's costs contain (the C²P of LIN-HESS is HᵀAᵀ): :func:`count_estimator`;
* drawing the samples, which tab:methods leaves out (P³/3 for a Cholesky factor in FC): :func:`count_sampling`.

These counts are polynomials in the sizes. :func:`interpolate` finds them exactly, from counts at a few small sizes, and checks them at
others. "Is this O(that)?" is then a question about two sets of exponents (:func:`is_O`), and needs no fit and no margin.
"""

from __future__ import annotations

import itertools
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from fractions import Fraction
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from .. import curvature, gaussians
from ..curvature import Curv
from ..grid import EFFICIENT, FEW, HESSIANS, MODULES, NAMES, NOT_DERIVED, RULES, STATES, Method, method
from ..linalg import Array, inv
from ..states import DLR, FC, Diag, State

LETTERS = "IPRMCN"  # iterations, parameters, rank, samples, outputs, Hutchinson's probes
SMALLEST = {"P": 24, "R": 2, "M": 2, "C": 2, "N": 2, "I": 1}  # P > 2R + K at every size that is tried
VERDICTS = ("holds", "holds with a condition", "cheaper exists", "does not hold")

# --- the counter ---------------------------------------------------------------------------------------------------------


class Tally:
    """The operations so far, by kind. ``values=True`` computes the numbers as well."""

    def __init__(self, values: bool = False):
        self.by: Counter[str] = Counter()
        self.values = values

    @property
    def total(self) -> int:
        return sum(self.by.values())

    def array(self, *shape: int) -> Counted:
        """An array of this shape, without memory: one number that stands for all."""
        a = np.ndarray.__new__(Counted, shape, float, buffer=_ONE, strides=(0,) * len(shape))
        a.tally = self
        return a

    def wrap(self, value: Array) -> Counted:
        """The same array, counted."""
        a = np.asarray(value, dtype=float).view(Counted)
        a.tally = self
        return a


_ONE = np.ones(1)
_ONE.flags.writeable = False


class Counted(np.ndarray):
    """An array whose operations are counted. The step code takes it for any other array."""

    tally: Any

    def __array_finalize__(self, obj: Any) -> None:
        self.tally = getattr(obj, "tally", None)

    def __array_ufunc__(self, ufunc: Any, method: Any, *inputs: Any, **kwargs: Any) -> Any:
        tally = _tally(inputs) or self.tally
        shapes = [getattr(x, "shape", ()) for x in inputs]
        if method == "reduce":
            shape = _reduced(shapes[0], kwargs.get("axis", 0), kwargs.get("keepdims", False))
            cost = max(0, math.prod(shapes[0]) - math.prod(shape))
        elif method != "__call__":
            raise TypeError(f"{ufunc.__name__}.{method} is not counted")
        elif ufunc is np.matmul:
            shape, cost = _matmul(*shapes)
        else:
            shape = np.broadcast_shapes(*shapes)
            cost = math.prod(shape)
        if ufunc in _QUESTIONS:
            return ufunc(*map(_plain, inputs)) if tally.values else np.broadcast_to(np.True_, shape)
        tally.by["matmul" if ufunc is np.matmul else "elementwise"] += cost
        if not tally.values:
            return tally.array(*shape)
        return tally.wrap(getattr(ufunc, method)(*map(_plain, inputs), **{k: v for k, v in kwargs.items() if k != "out"}))

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func.__name__ in ("swapaxes", "transpose", "reshape", "shape", "ndim"):
            return super().__array_function__(func, types, args, kwargs)
        if func.__name__ not in _FUNCTIONS:
            raise TypeError(f"numpy.{func.__name__} is not counted")
        tally = _tally(args) or self.tally
        cost, *shapes = _FUNCTIONS[func.__name__](*args, **kwargs)
        tally.by[func.__name__] += cost
        if tally.values:
            out = func(*map(_plain, args), **kwargs)
            return tuple(map(tally.wrap, out)) if isinstance(out, tuple) else tally.wrap(out)
        out = tuple(tally.array(*s) for s in shapes)
        return out if len(out) > 1 else out[0]


_QUESTIONS = {np.isfinite, np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal}


def _tally(args: Iterable[Any]) -> Any:
    """The tally of the first counted array among arguments that may be lists."""
    for x in args:
        found = x.tally if isinstance(x, Counted) else _tally(x) if isinstance(x, (list, tuple)) else None
        if found is not None:
            return found
    return None


def _plain(x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return type(x)(map(_plain, x))
    return x.view(np.ndarray) if isinstance(x, Counted) else x


def _reduced(shape: tuple[int, ...], axis: Any, keepdims: bool) -> tuple[int, ...]:
    axes = range(len(shape)) if axis is None else [a % len(shape) for a in np.atleast_1d(axis)]
    return tuple(1 if i in axes else n for i, n in enumerate(shape) if keepdims or i not in axes)


def _matmul(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """The shape of a @ b, and 2mnk for each matrix of a stack."""
    left, right = (a if len(a) > 1 else (1, *a)), (b if len(b) > 1 else (*b, 1))
    if left[-1] != right[-2]:
        raise ValueError(f"matmul of shapes {a} and {b}")
    stack = np.broadcast_shapes(left[:-2], right[:-2])
    shape = (*stack, *((left[-2],) if len(a) > 1 else ()), *((right[-1],) if len(b) > 1 else ()))
    return shape, 2 * math.prod(stack) * left[-2] * right[-1] * left[-1]


# name -> function of the arguments that gives (operations, shape of each result). The factorisations are Golub and Van Loan's


def _lu(n: int) -> int:
    """2n³/3: n(n−1)/2 divisions, and as many multiplications as subtractions, together (n−1)n(2n−1)/3."""
    return (4 * n**3 - 3 * n**2 - n) // 6


def _solve(a, b):
    """2n³/3 + 2n²k: LU, then a forward and a backward substitution for each of the k columns."""
    n, k = len(a), (b.shape[1] if b.ndim == 2 else 1)
    return _lu(n) + k * (2 * n * n - n), b.shape


def _cholesky(a):
    """n³/3: n roots, n(n−1)/2 divisions, (n³−n)/3 multiplications and subtractions."""
    n = len(a)
    return (2 * n**3 + 3 * n**2 + n) // 6, a.shape


def _svd(a, full_matrices=True):
    """6mn² + 20n³ for m ≥ n: the thin SVD by way of QR."""
    if full_matrices:
        raise TypeError("only the thin SVD is counted")
    m, n = max(a.shape), min(a.shape)
    return 6 * m * n * n + 20 * n**3, (a.shape[0], n), (n,), (n, a.shape[1])


def _qr(a, mode="reduced"):
    """2mn² by Householder's reflections for m ≥ n, and as much again for the thin Q; of a stack, for each matrix."""
    *stack, m, n = a.shape
    k = min(m, n)
    cost, R = 2 * math.prod(stack) * max(m, n) * k * k, (*stack, k, n)
    return (cost, R) if mode == "r" else (2 * cost, (*stack, m, k), R)


def _concatenate(arrays, axis=0):
    first = arrays[0].shape
    shape = list(first)
    shape[axis] = sum(a.shape[axis] for a in arrays)
    return 0, tuple(shape)


def _stack(arrays, axis=0):
    shape = list(arrays[0].shape)
    shape.insert(axis, len(arrays))
    return 0, tuple(shape)


def _pad(a, width):
    extra = np.broadcast_to(width, (a.ndim, 2)).sum(axis=1)
    return 0, tuple(int(n + e) for n, e in zip(a.shape, extra, strict=True))


_FUNCTIONS: dict[str, Callable[..., tuple]] = {
    "outer": lambda a, b: (a.size * b.size, (a.size, b.size)),
    "solve": _solve,
    "inv": lambda a: _solve(a, a),
    "cholesky": _cholesky,
    "svd": _svd,
    "qr": _qr,
    "eigh": lambda a: (9 * len(a) ** 3, (len(a),), a.shape),  # tridiagonal form, then the symmetric QR algorithm
    "slogdet": lambda a: (_lu(len(a)), (), ()),
    "concatenate": _concatenate,
    "stack": _stack,
    "pad": _pad,
    "diag": lambda a: (0, (len(a), len(a)) if a.ndim == 1 else (min(a.shape),)),
}


# --- the three parts of an update -----------------------------------------------------------------------------------------


def sizes_of(name: str) -> str:
    """The letters that the cost of a method can depend on, in the order of LETTERS."""
    rule, h1, h2, family = name.split("-")
    hess = f"{h1}-{h2}"
    acts = {
        "I": rule in ("blr", "bbb"),
        "P": True,
        "R": family == "dlr",
        "M": h1 == "mc",
        "C": hess == "lin-hess",
        "N": hess == "mc-hess" and family in ("diag", "diag_mom"),
    }
    return "".join(letter for letter in LETTERS if acts[letter])


def count(name: str, *, form: str = "auto", **sizes: int) -> int:
    """Operations of one observation's update from (g, S) on: I steps. ``form`` as in :func:`bongref.step`.

    >>> count("bong-lin-ef-diag", P=1000)
    7000
    """
    m, sizes = _method(name, sizes)
    tally = Tally()
    update(m, _belief(m, sizes, tally), _curv(m, sizes, tally), form)
    return tally.total


def count_estimator(name: str, **sizes: int) -> int:
    """Operations that form (g, S) from gradients and Jacobians, all I times; no calls of the network, no factor of the (C, C) variance."""
    m, sizes = _method(name, sizes)
    tally = Tally()
    network, M = _Network(tally, sizes), sizes.get("M", 1)
    mu = tally.array(sizes["P"])
    if m.hess == "mc-ef":
        curvature.mc_ef(network, network, None, None, tally.array(M, sizes["P"]))
    elif m.hess == "lin-hess":
        curvature.lin_hess(network, network, None, None, mu)
    elif m.hess == "lin-ef":
        curvature.lin_ef(network, network, None, None, mu)
    else:  # the lines of curvature.mc_hess after its calls of the network
        tally.array(M, sizes["P"]).mean(axis=0)
        if "N" in sizes:
            shape = (M, sizes["N"], sizes["P"])
            (tally.array(*shape) * tally.array(*shape)).mean(axis=1).mean(axis=0)
        else:
            tally.array(M, sizes["P"], sizes["P"]).mean(axis=0)
    return m.n_iter * tally.total


def count_sampling(name: str, **sizes: int) -> int:
    """Operations that turn standard normals into M draws θ̂ ~ q, all I times; 0 for the linearised methods."""
    m, sizes = _method(name, sizes)
    tally = Tally()
    if m.hess.startswith("mc"):
        gaussians.place(_belief(m, sizes, tally), tally.array(sizes["M"], sizes["P"]))
    return m.n_iter * tally.total


def update(m: Method, prior: State, curv: Curv, form: str = "auto") -> State:
    """The steps that :func:`bongref.update` runs, with the same (g, S) in each: no estimator and no test of the result."""
    inner, alpha = _inner_loop(m, curv, form), m.params.get("alpha", 1)
    current: Any = prior if inner is None else inner.start(prior)
    for _ in range(m.n_iter):
        step = m.step_function(curv, current, _large(m, curv, form)) if inner is None else inner.blr_increment
        current = step(prior, current, curv, alpha)
    return current if inner is None else inner.finish(prior, current)


def _inner_loop(m: Method, curv: Curv, form: str = "auto") -> Any:
    """The inner loop that runs where P is large beside everything else, which the sizes of a count need not be."""
    one = Curv(np.zeros(FEW * m.n_iter), S=None if curv.S is None else np.zeros((1, 1)))
    return m.inner_loop(one, form)


def _large(m: Method, curv: Curv, form: str = "auto") -> str:
    """The efficient form, where there is one: "auto" where P is large, except for bog in fc, which has to be asked for it."""
    return "efficient" if form == "auto" and curv.S is not None and (m.rule, m.family) in EFFICIENT else form


def form_of(name: str) -> str:
    """The function that an update runs, e.g. "dlr.bong_woodbury"."""
    m = _method(name, {letter: SMALLEST[letter] for letter in sizes_of(name)})[0]
    curv = Curv(np.zeros(1), S=None if m.hess == "mc-hess" else np.zeros((1, 1)))
    step = "blr_increment" if _inner_loop(m, curv) is not None else m.step_function(curv, form=_large(m, curv)).__name__
    return f"{MODULES[m.family].__name__.rpartition('.')[2]}.{step}"


def _method(name: str, sizes: dict[str, int]) -> tuple[Method, dict[str, int]]:
    letters = sizes_of(name) if name in NAMES else ""
    m = method(name)  # refuses a wrong name
    if set(sizes) != set(letters):
        raise TypeError(f"{name} has the sizes {', '.join(letters)}, got {', '.join(sizes) or 'none'}")
    if "I" in letters:
        m = method(m, n_iter=sizes["I"])
    return m, sizes


def _belief(m: Method, sizes: dict[str, int], tally: Tally) -> State:
    P, kind = sizes["P"], STATES[m.family]
    mu = tally.array(P)
    if kind is FC:
        return FC(mu, tally.array(P, P))
    return Diag(mu, tally.array(P)) if kind is Diag else DLR(mu, tally.array(P), tally.array(P, sizes["R"]))


def _curv(m: Method, sizes: dict[str, int], tally: Tally) -> Curv:
    P, g = sizes["P"], tally.array(sizes["P"])
    if m.hess == "mc-hess":
        return Curv(g, d=tally.array(P)) if "N" in sizes else Curv(g, G=tally.array(P, P))
    return Curv(g, S=tally.array(P, {"mc-ef": sizes.get("M"), "lin-hess": sizes.get("C"), "lin-ef": 1}[m.hess] or 1))


class _Network:
    """A model and a likelihood that cost nothing: what they would return has a shape."""

    def __init__(self, tally: Tally, sizes: dict[str, int]):
        self.tally, self.P, self.C = tally, sizes["P"], sizes.get("C", 1)

    def __call__(self, theta, x):
        return self.tally.array(self.C)

    def jac(self, theta, x):
        return self.tally.array(self.C, self.P)

    def vjp(self, theta, x, score):
        return self.tally.array(self.P)

    def score(self, o, y):
        return self.tally.array(self.C)

    def info_factor(self, o):
        return self.tally.array(self.C, self.C)


# --- polynomials in the sizes ------------------------------------------------------------------------------------------------


class Poly:
    """A polynomial in the sizes: {exponents in the order of LETTERS: coefficient}."""

    def __init__(self, terms: dict[tuple[int, ...], Any]):
        self.terms = {e: Fraction(c) for e, c in terms.items() if c != 0}

    def __add__(self, other: Any) -> Poly:
        terms = Counter(self.terms)
        for e, c in _poly(other).terms.items():
            terms[e] += c  # type: ignore[assignment]
        return Poly(dict(terms))

    def __mul__(self, other: Any) -> Poly:
        terms: Counter[tuple[int, ...]] = Counter()
        for (a, x), (b, y) in itertools.product(self.terms.items(), _poly(other).terms.items()):
            terms[tuple(i + j for i, j in zip(a, b, strict=True))] += x * y  # type: ignore[assignment]
        return Poly(dict(terms))

    __radd__, __rmul__ = __add__, __mul__

    def __pow__(self, n: int) -> Poly:
        return math.prod([self] * n, start=Poly({(0,) * len(LETTERS): 1}))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Poly) and self.terms == other.terms

    def __call__(self, **sizes: int) -> Fraction:
        monomials = {e: math.prod(sizes.get(x, 1) ** n for x, n in zip(LETTERS, e, strict=True)) for e in self.terms}
        return sum((c * monomials[e] for e, c in self.terms.items()), Fraction(0))

    def degree(self, letter: str = "P") -> int:
        """The highest power of a letter; of the zero polynomial 0."""
        return max((e[LETTERS.index(letter)] for e in self.terms), default=0)

    def leading(self) -> Poly:
        """The terms of the highest power of P that divide no other one of them: the rest is below them at every size."""
        top = [e for e in self.terms if e[LETTERS.index("P")] == self.degree()]
        return Poly({e: self.terms[e] for e in top if not any(f != e and all(map(int.__ge__, f, e)) for f in top)})

    def __str__(self) -> str:
        ranked = sorted(self.terms.items(), key=lambda t: (-t[0][LETTERS.index("P")], [-n for n in t[0]]))
        return " + ".join(_term(e, c) for e, c in ranked).replace("+ -", "- ") or "0"


def _poly(x: Any) -> Poly:
    return x if isinstance(x, Poly) else Poly({(0,) * len(LETTERS): x})


def _term(e: tuple[int, ...], c: Fraction) -> str:
    order = sorted(zip(LETTERS, e, strict=True), key=lambda t: (t[0] == "P", LETTERS.index(t[0])))
    letters = " ".join(x if n == 1 else f"{x}^{n}" for x, n in order if n)
    return f"{c} {letters}".strip() if abs(c) != 1 or not letters else letters if c == 1 else f"-{letters}"


def parse(printed: str) -> Poly:
    """O((R+M)^2 P) as a polynomial: every coefficient and exponent as printed."""
    inside = re.fullmatch(r"O\((.*)\)", printed.strip())
    if inside is None or not re.fullmatch(rf"[{LETTERS}0-9()^+ ]+", inside[1]):
        raise ValueError(f"a cost must read like O((R+M)^2 P), got {printed!r}")
    product = re.sub(rf"(?<=[{LETTERS}0-9)])\s*(?=[{LETTERS}(])", "*", inside[1]).replace("^", "**")
    symbols = {x: Poly({tuple(int(x == y) for y in LETTERS): 1}) for x in LETTERS}
    return _poly(eval(product, {"__builtins__": {}}, symbols))


def interpolate(cost: Callable[..., int], letters: str) -> Poly:
    """The polynomial that ``cost(P=…, M=…, …)`` is, exactly; an ArithmeticError if it is none.

    The degree in each letter is where the differences of its counts vanish, the coefficients come from a grid of that size, and two
    other points, one of them far away, must be met to the last operation.
    """
    base = {x: SMALLEST[x] + 1 for x in letters}
    degrees = {}
    for x in letters:
        values = [cost(**(base | {x: SMALLEST[x] + i})) for i in range(7)]
        degrees[x] = 0
        while any(values := [b - a for a, b in itertools.pairwise(values)]):
            degrees[x] += 1
        if degrees[x] > 5:
            raise ArithmeticError(f"the cost is no polynomial of degree 5 or less in {x}")
    nodes = [range(SMALLEST[x], SMALLEST[x] + degrees[x] + 1) for x in letters]
    counts = [Fraction(cost(**dict(zip(letters, point, strict=True)))) for point in itertools.product(*nodes)]
    c = np.array(counts, dtype=object).reshape([len(n) for n in nodes])
    for axis, n in enumerate(nodes):
        vandermonde = np.array([[Fraction(x) ** k for k in range(len(n))] for x in n], dtype=object)
        c = np.moveaxis(np.tensordot(inv(vandermonde), c, axes=(1, axis)), 0, axis)
    where = [LETTERS.index(x) for x in letters]
    found = Poly({tuple(e[where.index(i)] if i in where else 0 for i in range(len(LETTERS))): v for e, v in np.ndenumerate(c)})
    for step in (3, 8):
        sizes = {x: SMALLEST[x] + (step if x != "P" else 12 * step) for x in letters}
        if (got := cost(**sizes)) != found(**sizes):
            raise ArithmeticError(f"{got} operations at {sizes}, where the polynomial has {found(**sizes)}")
    return found


PARTS = ("update", "estimator", "sampling")


def polynomial(name: str, part: str = "update", form: str = "auto") -> Poly:
    """The count of one part of a method — "update", "estimator" or "sampling" — as a polynomial in its sizes."""
    if part not in PARTS:
        raise ValueError(f"part must be one of {', '.join(PARTS)}, got {part!r}")
    return _polynomial(name, part, form)


@cache
def _polynomial(name: str, part: str, form: str) -> Poly:
    if part == "update":
        return interpolate(lambda **sizes: count(name, form=form, **sizes), sizes_of(name))
    return interpolate(partial({"estimator": count_estimator, "sampling": count_sampling}[part], name), sizes_of(name))


def is_O(f: Poly, g: Poly, leading: bool = False) -> bool:
    """Whether f ≤ const · g for all sizes with P the largest of them; ``leading``: with P so much larger that only its power counts.

    Both are sums of monomials, so it is enough to let the sizes grow as powers n^w of one number: in every direction w the
    exponent of f must not be above that of g. Exponents here are at most 5, and directions with weights up to 4 tell them apart.
    """
    if not f.terms or not g.terms:
        return not f.terms
    p = LETTERS.index("P")
    used = [i for i in range(len(LETTERS)) if i != p and any(e[i] for e in (*f.terms, *g.terms))]
    e_f, e_g = (np.array([e for e, c in h.terms.items() if c > 0]).reshape(-1, len(LETTERS)) for h in (f, g))
    for weights in itertools.product(range(5), repeat=len(used)):
        w = np.zeros(len(LETTERS), dtype=int)
        w[used] = weights
        for w[p] in [100] if leading else sorted({max([1, *weights]), 5}):
            if max(e_f @ w) > max(e_g @ w):
                return False
    return True


# --- the statements of the paper ------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """A cost that the paper states, and what was counted."""

    cell: str  # the method, or the operation
    place: str  # "tab:methods" or the section whose text says it
    printed: str
    form: str  # the function that was counted
    exponent: int  # the power of P
    measured: str  # the leading terms: update and estimator, without the drawing of samples
    verdict: str
    remark: str


_K = {"mc-ef": "M", "lin-hess": "C"}


def printed_costs() -> list[tuple[str, str, str]]:
    """(method, place, cost) as the paper states them: the 36 cells of tab:methods, its remark on the moment forms, the sections' text."""
    return [*_table_cells(), *_moment_cells(), *_text()]


def _table_cells() -> list[tuple[str, str, str]]:
    full = {"bong": "O({k}P^2)", "blr": "O(IP^3)", "bog": "O(P^3)", "bbb": "O(IP^3)"}
    diag = {"mc-ef": "O({i}MP)", "lin-hess": "O({i}C^2 P)", "lin-ef": "O({i}P)"}
    low = {
        "bong": ("O((R+M)^2 P)", "O((R+C)^2 P)", "O(R^2 P)"),
        "blr": ("O(I(R+M)^2 P)", "O(I(2R+C)^2 P)", "O(IR^2 P)"),
        "bog": ("O(RMP)", "O(C(C+R)P)", "O(RP)"),
        "bbb": ("O(IR(R+M)P)", "O(I(C+R)RP)", "O(IR^2 P)"),
    }
    rows = []
    for i, hess in enumerate(HESSIANS[1:]):
        for rule in RULES:
            rows.append((f"{rule}-{hess}-fc", "tab:methods", full[rule].format(k=_K.get(hess, ""))))
            rows.append((f"{rule}-{hess}-diag", "tab:methods", diag[hess].format(i="I" if rule in ("blr", "bbb") else "")))
            rows.append((f"{rule}-{hess}-dlr", "tab:methods", low[rule][i]))
    return rows


def _moment_cells() -> list[tuple[str, str, str]]:
    """ "corresponding algorithms using moment parameters have the same complexities except BOG-FC_MOM"."""
    same = [(f"{name}_mom", "tab:methods (moment)", cost) for name, _, cost in _table_cells() if not name.endswith("-dlr")]
    return [(n, p, f"O({_K.get(n[4:-7], '')}P^2)" if fnmatchcase(n, "bog-*-fc_mom") else c) for n, p, c in same]


def _text() -> list[tuple[str, str, str]]:
    """What the sections say beyond the table: lower orders, and MC-HESS. "Per iteration" is written out as a factor I."""
    rows = [
        ("bong-mc-hess-fc", "sec:FC-Nat-bong", "O(P^3)"),
        ("bong-mc-ef-fc", "sec:FC-Nat-bong", "O(MP^2+M^3)"),
        ("bong-lin-hess-fc", "sec:lbong-fc", "O(CP^2+C^3)"),
        ("blr-mc-hess-fc", "sec:FC-Nat", "O(IP^3)"),
        ("bog-mc-hess-fc", "sec:FC-Nat", "O(P^3)"),
        ("bbb-mc-hess-fc", "sec:FC-Nat", "O(IP^3)"),
        ("bong-mc-hess-fc_mom", "sec:FC-Mom", "O(P^3)"),
        ("blr-mc-hess-fc_mom", "sec:FC-Mom", "O(IP^3)"),
        ("bog-mc-hess-fc_mom", "sec:FC-Mom", "O(MP^2)"),
        ("bbb-mc-hess-fc_mom", "sec:FC-Mom", "O(IP^3)"),
    ]
    for family, section in (("diag", "sec:diag-Nat"), ("diag_mom", "sec:diag-Mom")):
        rows += [(f"{rule}-mc-hess-{family}", section, "O(INMP)" if rule in ("blr", "bbb") else "O(NMP)") for rule in RULES]
    for hess, k in (("mc-ef", "M"), ("lin-hess", "C"), ("lin-ef", "1")):
        rows += [
            (f"bong-{hess}-dlr", "sec:DLR-deriv", f"O((R+{k})^2 P+(R+{k})^3)"),
            (f"blr-{hess}-dlr", "sec:LBLR-DLR" if k == "C" else "sec:BLR-DLR", f"O(I((2R+{k})^2 P+(2R+{k})^3))"),
        ]
    return [
        *rows,
        ("bog-mc-ef-dlr", "sec:DLR-deriv", "O(RMP+MR^2+R^3)"),
        ("bog-lin-ef-dlr", "sec:DLR-deriv", "O(RP+R^3)"),
        ("bog-lin-hess-dlr", "sec:DLR-deriv", "O(C(C+R)P+CR^2+R^3)"),
        ("bbb-mc-ef-dlr", "sec:bbb-dlr", "O(I((R+M)RP+MR^2+R^3))"),
        ("bbb-lin-ef-dlr", "sec:bbb-dlr", "O(I(R^2 P+R^3))"),
        ("bbb-lin-hess-dlr", "sec:bbb-dlr", "O(I((C+R)^2 P+CR^2+R^3))"),
    ]


# what a count does not show: (methods, remark)
REMARKS = [
    ("blr-*ef-fc", "where the text says that cubic time is required (sec:FC-Nat)"),
    ("blr-lin-hess-fc", "where the text says that cubic time is required (sec:FC-Nat)"),
    ("blr-*ef-fc_mom", "where the text says that the KL term makes it cubic (sec:FC-Mom)"),
    ("blr-lin-hess-fc_mom", "where the text says that the KL term makes it cubic (sec:FC-Mom)"),
    ("bbb-*-fc", "not needed: I^2 K P^2"),
    ("bbb-*-fc_mom", "not needed: I^2 K P^2, with the precision carried along"),
    ("*-lin-hess-diag*", "C P for a diagonal R and for a softmax"),
    ("blr-mc-ef-dlr", "R+M in the table, 2R+M in the text: the same order"),
]


def table() -> list[Row]:
    """Every statement of the paper about the cost of an update, with the count and the verdict; then three statements of another kind."""
    rows = [_judge(*statement) for statement in printed_costs()]
    return [*rows, _sampling_row(), _trick_row(), _mc_hess_row()]


def _judge(name: str, place: str, printed: str) -> Row:
    stated, leading = parse(printed), place.startswith("tab:")
    step, estimator, sampling = (polynomial(name, part) for part in PARTS)
    total = step + estimator
    verdict, remarks = judge(stated, step, estimator, sampling, leading), []
    if verdict == "does not hold":
        over = Poly({e: c for e, c in total.leading().terms.items() if not is_O(Poly({e: 1}), stated, leading)})
        remarks.append(f"exceeds it: {over}")
    elif verdict == "holds with a condition" and not is_O(total, stated, leading):
        remarks.append(f"if S = HᵀAᵀ is given or cheap: a dense R takes {estimator.leading()} for it")
    elif not is_O(sampling, total, leading):
        given = "if the samples are given" if "condition" in verdict else "samples apart"
        remarks.append(f"{given}: drawing them takes {sampling.leading()}")
    remarks += [text for glob, text in REMARKS if fnmatchcase(name, glob) and "mc-hess" not in name]
    return Row(name, place, printed, form_of(name), total.degree(), str(total.leading()), verdict, "; ".join(remarks))


def judge(stated: Poly, step: Poly, estimator: Poly, sampling: Poly, leading: bool) -> str:
    """The verdict on a stated cost.

    "holds": the count of update and estimator is of that order, and the drawing of samples is not above it. "holds with a condition":
    it is only if the samples, or S, are given. "cheaper exists": the count is of a lower order. "does not hold": the update alone,
    from (g, S) on, is above it, where the sizes other than P are in no fixed proportion.
    """
    total = step + estimator
    if not is_O(total, stated, leading):
        return "holds with a condition" if is_O(step, stated, leading) else "does not hold"
    if not is_O(stated, total, leading):
        return "cheaper exists"
    return "holds" if is_O(sampling, stated, leading) else "holds with a condition"


def _sampling_row() -> Row:
    found, printed = polynomial("bong-mc-ef-dlr", "sampling"), "O(R(R+M)P)"
    verdict = judge(parse(printed), found, _poly(0), _poly(0), True)
    return Row("samples of DLR", "sec:DLR-deriv", printed, "gaussians.draw", found.degree(), str(found.leading()), verdict, "")


def _trick_row() -> Row:
    """diag(AB) of (n, m) and (m, n) in O(mn): n parameters, m samples."""

    def cost(P: int, M: int) -> int:
        tally = Tally()
        curvature.diagonal(Curv(tally.array(P), S=tally.array(P, M)))
        return tally.total

    found, printed = interpolate(cost, "PM"), "O(MP)"
    verdict = judge(parse(printed), found, _poly(0), _poly(0), False)
    return Row("diag(AB)", "sec:diag-Nat", printed, "curvature.diagonal", found.degree(), str(found.leading()), verdict, "")


def _mc_hess_row() -> Row:
    """ "Time complexities for MC-HESS algorithms (not shown) are always at least as great as for the corresponding MC-EF."""
    less = []
    for name in NAMES:
        if "mc-hess" in name and name not in NOT_DERIVED:
            ef = name.replace("mc-hess", "mc-ef")
            both = [polynomial(n, "update") + polynomial(n, "estimator") for n in (ef, name)]
            less += [] if is_O(both[0], both[1], leading=True) else [name]
    verdict = "does not hold" if less else "holds"
    return Row("mc-hess and mc-ef", "tab:methods", "mc-hess >= mc-ef", "18 pairs", 0, "", verdict, ", ".join(less))


# --- showing it ------------------------------------------------------------------------------------------------------------------


HEADER = ("method", "place", "stated", "form", "counted", "verdict", "remark")


def _cells(row: Row) -> tuple[str, ...]:
    return (row.cell, row.place, row.printed, row.form, row.measured, row.verdict, row.remark)


def render(rows: Sequence[Row]) -> str:
    """The table as text, and how often each verdict occurs."""
    lines = [HEADER, *map(_cells, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEADER))]
    text = ["  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([text[0], "-" * len(text[0]), *text[1:], "", _summary(rows)])


def markdown(rows: Sequence[Row]) -> str:
    """The same in Markdown."""
    lines = [HEADER, ("---",) * len(HEADER), *((f"`{c[0]}`", c[1], c[2], f"`{c[3]}`", *c[4:]) for c in map(_cells, rows))]
    return "\n".join([*("| " + " | ".join(line).replace("*", r"\*") + " |" for line in lines), "", _summary(rows)])


def _summary(rows: Sequence[Row]) -> str:
    found = Counter(row.verdict for row in rows)
    return f"{len(rows)} statements: " + ", ".join(f"{found[v]} {v}" for v in VERDICTS) + "."


def main(argv: Sequence[str] | None = None) -> int:
    """``python -m bongref.theory.costs [--markdown]``."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words not in ([], ["--markdown"]):
        print("usage: python -m bongref.theory.costs [--markdown]", file=sys.stderr)
        return 2
    print((markdown if words else render)(table()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
