"""What an update costs: its arithmetic operations, counted, as polynomials in the sizes.

    count("bog-mc-ef-dlr", P=1000, M=10, R=5)            # operations of one observation
    p = polynomial("bog-mc-ef-dlr")                      # the same as a polynomial in P, M and R
    is_O(p, parse("O(RMP)"), leading=True)               # is it of the order that the paper states?

Nothing is timed: the step code runs on arrays without numbers (:mod:`bongref.theory.counting`,
which says what counts). The calls of the network are not counted: the paper's costs are those of an
update from given gradients and Jacobians. Three parts are kept apart:

* the update from (g, S) on, all I iterations: :func:`count`;
* forming (g, S) from gradients and Jacobians, which the paper's costs contain (the C²P of LIN-HESS
  is HᵀAᵀ): :func:`count_estimator`;
* drawing the samples, which tab:methods leaves out (P³/3 for a Cholesky factor in FC):
  :func:`count_sampling`.

These counts are polynomials in the sizes. :func:`interpolate` finds them exactly, from counts at a
few small sizes, and checks them at others. "Is this O(that)?" is then a question about two sets of
exponents (:func:`is_O`), and needs no fit and no margin. The page docs/costs.md compares every cost
that the paper states with these counts; docs/make_costs.py makes its table.
"""

from __future__ import annotations

import ast
import itertools
import math
import operator
import re
from collections import Counter
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache, partial
from typing import Any

import numpy as np

from .. import checks, curvature, gaussians
from ..curvature import Curv
from ..errors import InvalidType, InvalidValue
from ..grid import EFFICIENT, FEW, MODULES, STATES, Increments, Method, method
from ..linalg import inv
from ..states import DLR, FC, Diag, State
from .arguments import FUNCTION, Arguments, checked, choice, instance
from .counting import Tally

LETTERS = "IPRMCN"  # iterations, parameters, rank, samples, outputs, Hutchinson probes
SMALLEST = {"P": 24, "R": 2, "M": 2, "C": 2, "N": 2, "I": 1}  # P > 2R + K at every size tried
OPERATIONS = {ast.Add: operator.add, ast.Mult: operator.mul, ast.Pow: operator.pow}
PARTS, FORMS = ("update", "estimator", "sampling"), ("auto", "plain", "efficient")


def NAME(name: str, value: Any, arguments: Arguments) -> str:
    """The name of a method that is derived."""
    return str(method(value).name)


# --- the three parts of an update -----------------------------------------------------------------


@checked(name=NAME)
def sizes_of(name: str) -> str:
    """The letters that the cost of a method can depend on, in the order of ``LETTERS``.

    Parameters
    ----------
    name : str
        One of the names of :func:`bongref.methods`.

    Returns
    -------
    str

    Examples
    --------
    >>> sizes_of("blr-lin-hess-dlr")
    'IPRC'
    """
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
    """Operations of one observation's update from (g, S) on: I steps.

    Parameters
    ----------
    name : str
        One of the names of :func:`bongref.methods`.
    form : {"auto", "plain", "efficient"}
        As in :func:`bongref.step`; "auto" is the form that runs where P is large.
    **sizes : int
        One for each letter of :func:`sizes_of`: P, R, M, C, N, I.

    Returns
    -------
    int

    Raises
    ------
    InvalidType
        If the sizes are not those of :func:`sizes_of`.
    NotDerived
        If the paper derives no update for this name.

    Examples
    --------
    >>> count("bong-lin-ef-diag", P=1000)
    7000
    """
    m, sizes = _method(name, sizes)
    tally = Tally()
    update(m, _state(m, sizes, tally), _curv(m, sizes, tally), form)
    return tally.total


def count_estimator(name: str, **sizes: int) -> int:
    """Operations that form (g, S) from gradients and Jacobians, all I times.

    The calls of the network and the factor of the (C, C) variance are not counted.

    Parameters
    ----------
    name, **sizes
        As for :func:`count`.

    Returns
    -------
    int

    Examples
    --------
    >>> count_estimator("bong-lin-hess-diag", P=1000, C=3)
    24000
    """
    m, sizes = _method(name, sizes)
    tally = Tally()
    network: Any = _Network(tally, sizes)
    M, none = sizes.get("M", 1), None
    mu = tally.array(sizes["P"])
    if m.hess == "mc-ef":
        curvature.mc_ef(network, network, none, none, tally.array(M, sizes["P"]))
    elif m.hess == "lin-hess":
        curvature.lin_hess(network, network, none, none, mu)
    elif m.hess == "lin-ef":
        curvature.lin_ef(network, network, none, none, mu)
    else:  # the lines of curvature.mc_hess after its calls of the network
        tally.array(M, sizes["P"]).mean(axis=0)
        if "N" in sizes:
            shape = (M, sizes["N"], sizes["P"])
            (tally.array(*shape) * tally.array(*shape)).mean(axis=1).mean(axis=0)
        else:
            tally.array(M, sizes["P"], sizes["P"]).mean(axis=0)
    return int(m.n_iter) * tally.total


def count_sampling(name: str, **sizes: int) -> int:
    """Operations that turn standard normals into M draws θ̂ ~ q, all I times; 0 for lin methods.

    Parameters
    ----------
    name, **sizes
        As for :func:`count`.

    Returns
    -------
    int

    Examples
    --------
    >>> count_sampling("bong-mc-ef-diag", P=1000, M=10)
    21000
    """
    m, sizes = _method(name, sizes)
    tally = Tally()
    if m.hess.startswith("mc"):
        gaussians.place(_state(m, sizes, tally), tally.array(sizes["M"], sizes["P"]))
    return int(m.n_iter) * tally.total


@checked(
    m=instance(Method), prior=instance(FC, Diag, DLR), curv=instance(Curv), form=choice(*FORMS)
)
def update(m: Method, prior: State, curv: Curv, form: str = "auto") -> State:
    """The steps of :func:`bongref.update`, with the same (g, S) in each and no estimator.

    Parameters
    ----------
    m : Method
    prior : FC, Diag or DLR
    curv : Curv
    form : {"auto", "plain", "efficient"}

    Returns
    -------
    FC, Diag or DLR
        Whether it is positive definite is not checked.

    Examples
    --------
    >>> import numpy as np, bongref as br
    >>> m, curv = br.method("bong-lin-hess-diag"), br.Curv(np.ones(1), d=-np.ones(1))
    >>> update(m, br.Diag(np.zeros(1), np.ones(1)), curv).mu.tolist()
    [0.5]
    """
    inner, alpha = _increments(m, curv, form), m.params.get("alpha", 1)
    current: Any = prior if inner is None else inner.start(prior)
    for _ in range(m.n_iter):
        if inner is None:
            step = m.step_function(curv, current, _large(m, curv, form))
        else:
            step = inner.step
        current = step(prior, current, curv, alpha)
    out: State = current if inner is None else inner.finish(prior, current)
    return out


def _increments(m: Method, curv: Curv, form: str = "auto") -> Increments | None:
    """The inner loop without inversions that runs where P is much larger than the other sizes."""
    one = Curv(np.zeros(FEW * m.n_iter), S=None if curv.S is None else np.zeros((1, 1)))
    return m.increments(one, form)


def _large(m: Method, curv: Curv, form: str = "auto") -> str:
    """For "auto" the form that runs where P is large; for bog in fc the one to be asked for."""
    efficient = form == "auto" and curv.S is not None and (m.rule, m.family) in EFFICIENT
    return "efficient" if efficient else form


@checked(name=NAME)
def form_of(name: str) -> str:
    """The function that an update runs where P is large.

    Parameters
    ----------
    name : str
        One of the names of :func:`bongref.methods`.

    Returns
    -------
    str

    Examples
    --------
    >>> form_of("bong-lin-ef-dlr")
    'dlr.bong_woodbury'
    """
    m = _method(name, {letter: SMALLEST[letter] for letter in sizes_of(name)})[0]
    curv = Curv(np.zeros(1), S=None if m.hess == "mc-hess" else np.zeros((1, 1)))
    if _increments(m, curv) is not None:
        step = "blr_increment"
    else:
        step = m.step_function(curv, form=_large(m, curv)).__name__
    return f"{MODULES[m.family].__name__.rpartition('.')[2]}.{step}"


def _method(name: str, sizes: dict[str, int]) -> tuple[Method, dict[str, int]]:
    m = method(name)  # refuses a wrong name
    letters = sizes_of(m.name)
    if set(sizes) != set(letters):
        got = ", ".join(sizes) or "none"
        raise InvalidType(f"sizes of {name} must be {', '.join(letters)}, got {got}")
    sizes = {letter: checks.integer(letter, n, 1) for letter, n in sizes.items()}
    return method(m, n_iter=sizes["I"]) if "I" in letters else m, sizes


def _state(m: Method, sizes: dict[str, int], tally: Tally) -> State:
    P, kind = sizes["P"], STATES[m.family]
    mu = tally.array(P)
    if kind is FC:
        return FC(mu, tally.array(P, P))
    if kind is Diag:
        return Diag(mu, tally.array(P))
    return DLR(mu, tally.array(P), tally.array(P, sizes["R"]))


def _curv(m: Method, sizes: dict[str, int], tally: Tally) -> Curv:
    P, g = sizes["P"], tally.array(sizes["P"])
    if m.hess == "mc-hess":
        return Curv(g, d=tally.array(P)) if "N" in sizes else Curv(g, G=tally.array(P, P))
    K = {"mc-ef": sizes.get("M"), "lin-hess": sizes.get("C"), "lin-ef": 1}[m.hess] or 1
    return Curv(g, S=tally.array(P, K))


class _Network:
    """A model and a likelihood that cost nothing: what they return has a shape only."""

    def __init__(self, tally: Tally, sizes: dict[str, int]) -> None:
        self.tally, self.P, self.C = tally, sizes["P"], sizes.get("C", 1)

    def __call__(self, theta: Any, x: Any) -> Any:
        return self.tally.array(self.C)

    def jac(self, theta: Any, x: Any) -> Any:
        return self.tally.array(self.C, self.P)

    def vjp(self, theta: Any, x: Any, score: Any) -> Any:
        return self.tally.array(self.P)

    def score(self, o: Any, y: Any) -> Any:
        return self.tally.array(self.C)

    def info_factor(self, o: Any) -> Any:
        return self.tally.array(self.C, self.C)


# --- polynomials in the sizes ---------------------------------------------------------------------

Exponents = tuple[int, ...]


class Poly:
    """A polynomial in the sizes.

    Parameters
    ----------
    terms : dict
        {exponents in the order of ``LETTERS``: coefficient}.

    Examples
    --------
    >>> p = parse("O((R+M)^2 P)")
    >>> print(p, "|", p.degree("R"), "|", p(R=1, M=2, P=10))
    R^2 P + 2 R M P + M^2 P | 2 | 90
    """

    def __init__(self, terms: dict[Exponents, Any]) -> None:
        self.terms = {e: Fraction(c) for e, c in terms.items() if c != 0}

    def __add__(self, other: Any) -> Poly:
        terms: Counter[Exponents] = Counter()
        for e, c in (*self.terms.items(), *_poly(other).terms.items()):
            terms[e] += c  # type: ignore[assignment]
        return Poly(dict(terms))

    def __mul__(self, other: Any) -> Poly:
        terms: Counter[Exponents] = Counter()
        for (a, x), (b, y) in itertools.product(self.terms.items(), _poly(other).terms.items()):
            terms[tuple(map(int.__add__, a, b))] += x * y  # type: ignore[assignment]
        return Poly(dict(terms))

    __radd__, __rmul__ = __add__, __mul__

    def __pow__(self, n: int) -> Poly:
        return math.prod([self] * n, start=Poly({(0,) * len(LETTERS): 1}))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Poly) and self.terms == other.terms

    def __call__(self, **sizes: int) -> Fraction:
        at = [sizes.get(x, 1) for x in LETTERS]
        values = (c * math.prod(map(pow, at, e)) for e, c in self.terms.items())
        return sum(values, Fraction(0))

    def degree(self, letter: str = "P") -> int:
        """The highest power of a letter; 0 for the zero polynomial.

        Parameters
        ----------
        letter : str

        Returns
        -------
        int

        Examples
        --------
        >>> parse("O((R+M)^2 P)").degree("M")
        2
        """
        return max((e[LETTERS.index(letter)] for e in self.terms), default=0)

    def leading(self) -> Poly:
        """The terms of the highest power of P, without those that divide another one.

        Returns
        -------
        Poly

        Examples
        --------
        >>> print(parse("O(C^2 P + C^3)").leading())
        C^2 P
        """
        top = [e for e in self.terms if e[LETTERS.index("P")] == self.degree()]
        return Poly({e: self.terms[e] for e in top if not any(_divides(e, f) for f in top)})

    def __str__(self) -> str:
        rank = lambda term: (-term[0][LETTERS.index("P")], [-n for n in term[0]])
        terms = (_term(e, c) for e, c in sorted(self.terms.items(), key=rank))
        return " + ".join(terms).replace("+ -", "- ") or "0"


def _poly(x: Any) -> Poly:
    return x if isinstance(x, Poly) else Poly({(0,) * len(LETTERS): x})


def _divides(e: Exponents, f: Exponents) -> bool:
    """Whether the monomial with exponents e divides another one, with exponents f."""
    return e != f and all(map(int.__le__, e, f))


def _term(e: Exponents, c: Fraction) -> str:
    rank = lambda t: (t[0] == "P", LETTERS.index(t[0]))
    powers = sorted(zip(LETTERS, e, strict=True), key=rank)
    letters = " ".join(x if n == 1 else f"{x}^{n}" for x, n in powers if n)
    if abs(c) != 1 or not letters:
        return f"{c} {letters}".strip()
    return letters if c == 1 else f"-{letters}"


@checked(printed=instance(str))
def parse(printed: str) -> Poly:
    """A cost as the paper prints it, as a polynomial: every coefficient and exponent as printed.

    Parameters
    ----------
    printed : str
        For example "O((R+M)^2 P)".

    Returns
    -------
    Poly

    Raises
    ------
    InvalidValue
        If it reads otherwise.

    Examples
    --------
    >>> print(parse("O(I(2R+C)^2 P)"))
    4 I R^2 P + 4 I R C P + I C^2 P
    """
    inside = re.fullmatch(r"O\((.*)\)", printed.strip())
    if inside is None or not re.fullmatch(rf"[{LETTERS}0-9()^+ ]+", inside[1]):
        raise InvalidValue(f"a cost must read like O((R+M)^2 P), got {printed!r}")
    product = re.sub(rf"(?<=[{LETTERS}0-9)])\s*(?=[{LETTERS}(])", "*", inside[1])
    symbols = {x: Poly({tuple(int(x == y) for y in LETTERS): 1}) for x in LETTERS}
    return _poly(_value(ast.parse(product.replace("^", "**"), mode="eval").body, symbols))


def _value(node: ast.expr, symbols: Mapping[str, Poly]) -> Any:
    """A sum, product or power of symbols and integers."""
    if isinstance(node, ast.Name):
        return symbols[node.id]
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS:
        return OPERATIONS[type(node.op)](_value(node.left, symbols), _value(node.right, symbols))
    raise InvalidValue(f"a cost must be made of +, products and powers, got {ast.dump(node)}")


@checked(cost=FUNCTION, letters=instance(str))
def interpolate(cost: Callable[..., int], letters: str) -> Poly:
    """The polynomial that a count is, exactly.

    The degree in each letter is where the differences of the counts vanish, the coefficients come
    from a grid of that size, and the counts at two other points, one of them far away, must be
    those of the polynomial to the last operation.

    Parameters
    ----------
    cost : callable
        ``cost(P=…, M=…, …)``, with the given letters as keywords, returns a count.
    letters : str
        Among ``LETTERS``.

    Returns
    -------
    Poly

    Raises
    ------
    ArithmeticError
        If the count is not a polynomial of degree 5 or less in each letter.

    Examples
    --------
    >>> print(interpolate(lambda P, M: 2 * M * P - P, "PM"))
    2 M P - P
    """
    base = {x: SMALLEST[x] + 1 for x in letters}
    degrees = {}
    for x in letters:
        values = [cost(**(base | {x: SMALLEST[x] + i})) for i in range(7)]
        degrees[x] = 0
        while any(values := [b - a for a, b in itertools.pairwise(values)]):
            degrees[x] += 1
        if degrees[x] > 5:
            raise ArithmeticError(f"the cost is not a polynomial of degree 5 or less in {x}")
    nodes = [range(SMALLEST[x], SMALLEST[x] + degrees[x] + 1) for x in letters]
    points = [dict(zip(letters, point, strict=True)) for point in itertools.product(*nodes)]
    c = np.array([Fraction(cost(**p)) for p in points], dtype=object)
    c = c.reshape([len(n) for n in nodes])
    for axis, n in enumerate(nodes):
        powers = np.array([[Fraction(x) ** k for k in range(len(n))] for x in n], dtype=object)
        c = np.moveaxis(np.tensordot(inv(powers), c, axes=(1, axis)), 0, axis)
    found = Poly({_exponents(letters, e): v for e, v in np.ndenumerate(c)})
    for step in (3, 8):
        sizes = {x: SMALLEST[x] + (step if x != "P" else 12 * step) for x in letters}
        if (got := cost(**sizes)) != found(**sizes):
            raise ArithmeticError(
                f"{got} operations at {sizes}, where the polynomial has {found(**sizes)}"
            )
    return found


def _exponents(letters: str, e: Exponents) -> Exponents:
    """Exponents of some letters as exponents of all LETTERS."""
    power = dict(zip(letters, e, strict=True))
    return tuple(power.get(x, 0) for x in LETTERS)


@checked(name=NAME, part=choice(*PARTS), form=choice(*FORMS))
def polynomial(name: str, part: str = "update", form: str = "auto") -> Poly:
    """The count of one part of a method as a polynomial in its sizes.

    Parameters
    ----------
    name : str
        One of the names of :func:`bongref.methods`.
    part : {"update", "estimator", "sampling"}
    form : {"auto", "plain", "efficient"}
        Of the update, as in :func:`count`.

    Returns
    -------
    Poly

    Raises
    ------
    InvalidValue
        If there is no such part.

    Examples
    --------
    >>> print(polynomial("bong-lin-ef-dlr").leading())
    10 R^2 P
    """
    return _polynomial(name, part, form)


@cache
def _polynomial(name: str, part: str, form: str) -> Poly:
    counts: dict[str, Callable[..., int]] = {
        "update": partial(count, name, form=form),
        "estimator": partial(count_estimator, name),
        "sampling": partial(count_sampling, name),
    }
    return interpolate(counts[part], sizes_of(name))


@checked(f=instance(Poly), g=instance(Poly))
def is_O(f: Poly, g: Poly, leading: bool = False) -> bool:
    """Whether f ≤ const · g for all sizes with P the largest of them.

    Both are sums of monomials, so it is enough to let the sizes grow as powers n^w of one number:
    in every direction w the exponent of f must not be above that of g. Exponents here are at most
    5, and directions with weights up to 4 tell them apart.

    Parameters
    ----------
    f, g : Poly
    leading : bool
        Let P be so much larger than the other sizes that only its power counts.

    Returns
    -------
    bool

    Examples
    --------
    >>> is_O(parse("O(RMP)"), parse("O(R^2 P+M^2 P)")), is_O(parse("O(M^3)"), parse("O(R^2 P)"))
    (True, False)
    """
    if not f.terms or not g.terms:
        return not f.terms
    p = LETTERS.index("P")
    both = (*f.terms, *g.terms)
    used = [i for i in range(len(LETTERS)) if i != p and any(e[i] for e in both)]
    e_f, e_g = (np.array([e for e, c in h.terms.items() if c > 0]) for h in (f, g))
    e_f, e_g = e_f.reshape(-1, len(LETTERS)), e_g.reshape(-1, len(LETTERS))
    for weights in itertools.product(range(5), repeat=len(used)):
        w = np.zeros(len(LETTERS), dtype=int)
        w[used] = weights
        for w[p] in [100] if leading else sorted({max([1, *weights]), 5}):
            if max(e_f @ w) > max(e_g @ w):
                return False
    return True
