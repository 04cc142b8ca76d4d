"""The counter, the polynomials, the verdicts on the paper's costs; and forms that cost less than
the ones the package runs.
"""

import math
from fractions import Fraction
from functools import cache

import numpy as np
import problems
import pytest

import bongref as br
from bongref.curvature import Curv
from bongref.families import fc_mom, fc_nat
from bongref.grid import EFFICIENT, NAMES, NOT_DERIVED, NotDerived
from bongref.linalg import eye, solve
from bongref.routes import compare
from bongref.states import FC
from bongref.theory import costs
from bongref.theory.costs import Poly, interpolate, is_O, parse
from bongref.theory.counting import Counted, Tally
from docs import make_costs

DERIVED = [n for n in NAMES if n not in NOT_DERIVED]
STATED = [(name, place) for name, place, _ in make_costs.printed_costs()]


@cache
def rows():
    return {(r.cell, r.place): r for r in make_costs.table()}


def tallied(fn, *shapes):
    """The operations of fn on arrays of these shapes."""
    tally = Tally()
    fn(*(tally.array(*s) for s in shapes))
    return tally.total


# --- the counter ----------------------------------------------------------------------------------

KERNELS = {
    "matrix times matrix": (lambda a, b: a @ b, [(3, 4), (4, 5)], 2 * 3 * 4 * 5),
    "matrix times vector": (lambda a, b: a @ b, [(3, 4), (4,)], 2 * 3 * 4),
    "vector times matrix": (lambda a, b: b @ a, [(3, 4), (3,)], 2 * 3 * 4),
    "inner product": (lambda a, b: a @ b, [(7,), (7,)], 2 * 7),
    "a stack of products": (lambda a, b: a @ b, [(6, 3, 4), (4, 5)], 6 * 2 * 3 * 4 * 5),
    "a transpose is free": (lambda a: a.T[1:, None], [(3, 4)], 0),
    "sum of matrices": (lambda a, b: a + b, [(3, 4), (3, 4)], 12),
    "by broadcasting": (lambda a, b: 2 * a / b[:, None], [(3, 4), (3,)], 24),
    "in place": (lambda a: np.zeros((3, 4)).__iadd__(a), [(3, 4)], 12),
    "row sums": (lambda a: a.sum(axis=1), [(3, 4)], 3 * 3),
    "the sum of all": (lambda a: a.sum(), [(3, 4)], 11),
    "mean": (lambda a: a.mean(axis=0), [(3, 4)], 2 * 4 + 4),
    "outer product": (np.outer, [(3,), (4,)], 12),
    "roots": (lambda a: np.sqrt(a), [(5,)], 5),
    "comparisons are free": (lambda a: np.all(a > 0) and np.all(np.isfinite(a)), [(5,)], 0),
    "copies are free": (lambda a, b: np.concatenate([a, b], axis=1), [(3, 4), (3, 2)], 0),
    "diagonals are free": (lambda a: np.diag(np.diag(a)), [(3, 3)], 0),
    # LU of a (2, 2): one division, one multiplication, one subtraction; then 1·2 forward and 4
    # backward for each column
    "solve": (np.linalg.solve, [(2, 2), (2, 3)], 3 + 3 * (2 + 4)),
    "solve for a vector": (np.linalg.solve, [(2, 2), (2,)], 3 + 6),
    "inverse": (np.linalg.inv, [(2, 2)], 3 + 2 * 6),
    # √a, b/√a, b², c − b², √: five
    "Cholesky": (np.linalg.cholesky, [(2, 2)], 5),
    "SVD": (lambda a: np.linalg.svd(a, full_matrices=False), [(9, 2)], 6 * 9 * 4 + 20 * 8),
    "eigenvectors": (np.linalg.eigh, [(3, 3)], 9 * 27),
    "QR": (np.linalg.qr, [(9, 2)], 4 * 9 * 4),
    "QR without Q, of a stack": (lambda a: np.linalg.qr(a, mode="r"), [(3, 9, 2)], 3 * 2 * 9 * 4),
}


@pytest.mark.parametrize("kernel", KERNELS)
def test_known_kernels(kernel):
    fn, shapes, operations = KERNELS[kernel]
    assert tallied(fn, *shapes) == operations


def elimination(n):
    """LU without pivoting, one operation at a time."""
    done, a = 0, np.random.default_rng(0).standard_normal((n, n)) + n * np.eye(n)
    for k in range(n):
        for i in range(k + 1, n):
            a[i, k] /= a[k, k]
            done += 1
            for j in range(k + 1, n):
                a[i, j] -= a[i, k] * a[k, j]
                done += 2
    return done


def cholesky(n):
    """The textbook's loops, one operation at a time."""
    done = 0
    for j in range(n):
        done += 2 * j + 1  # the pivot less the squares before it, and its root
        done += (n - j - 1) * (
            2 * j + 1
        )  # each entry below: less the products before it, by the pivot
    return done


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_the_formulas_are_the_loops(n):
    assert tallied(np.linalg.cholesky, (n, n)) == cholesky(n)
    forward_and_backward = n * (n - 1) + n * n
    assert tallied(np.linalg.solve, (n, n), (n, 5)) == elimination(n) + 5 * forward_and_backward


def test_what_is_not_counted_is_refused():
    a = Tally().array(3, 3)
    for fn in (np.linalg.pinv, np.kron, np.einsum):
        with pytest.raises(TypeError, match="is not counted"):
            fn(*(["ij,jk", a, a] if fn is np.einsum else [a] if fn is np.linalg.pinv else [a, a]))
    with pytest.raises(TypeError, match="accumulate is not counted"):
        np.add.accumulate(a)
    with pytest.raises(ValueError, match="matmul"):
        a @ Tally().array(4)


@pytest.mark.parametrize("form", ["auto", "plain"])
@pytest.mark.parametrize("name", DERIVED)
def test_shapes_alone_count_as_numbers_do(name, form):
    """The same update on numbers, which takes the branches that numbers take, has the same
    count.
    """
    rng = np.random.default_rng(0)
    sizes = {x: dict(P=17, R=2, M=3, C=4, N=2, I=3)[x] for x in costs.sizes_of(name)}
    m = br.method(
        name,
        **(
            {"n_iter": 3, "alpha": 0.01}
            if "I" in sizes
            else {}
            if name.startswith("bong")
            else {"alpha": 0.01}
        ),
    )
    prior = problems.belief(m.family, rng, 17, 2)
    K = sizes.get("M", sizes.get("C", 1))
    curv = problems.curvature(m.hess, m.family, rng, 17, K)
    tally = Tally(values=True)
    counted = [type(q)(*(None if a is None else tally.wrap(a) for a in q)) for q in (prior, curv)]
    got, wanted = costs.update(m, *counted, form), costs.update(m, prior, curv, form)
    assert tally.total == costs.count(name, form=form, **sizes) > 0
    for a, b in zip(
        got, wanted, strict=True
    ):  # and the numbers are the ones of the uncounted update
        assert isinstance(a, Counted) and np.array_equal(a.view(np.ndarray), b)


def test_sizes_that_do_not_act():
    with pytest.raises(TypeError, match="must be P, R, C, got P, M"):
        costs.count("bong-lin-hess-dlr", P=10, M=3)
    with pytest.raises(ValueError, match="lists the 5 names with it"):
        costs.count("bong-lin-hess", P=10)
    with pytest.raises(ValueError, match="part must be"):
        costs.polynomial("bong-lin-ef-fc", "samples")
    with pytest.raises(NotDerived, match="SVD"):
        costs.count("bong-mc-hess-dlr", P=10, R=1, M=3)


# --- polynomials ----------------------------------------------------------------------------------


def test_costs_are_read_as_printed():
    assert str(parse("O(I(2R+C)^2 P)")) == "4 I R^2 P + 4 I R C P + I C^2 P"
    assert str(parse("O(CP^2+C^3)")) == "C P^2 + C^3"
    assert parse("O((R+M)^2 P)")(R=2, M=3, P=10) == 250
    for wrong in ("MP", "O(Q)", "O(__import__)", "O(P**2)"):
        with pytest.raises((ValueError, SyntaxError)):
            parse(wrong)


def test_interpolation_is_exact():
    assert str(interpolate(lambda P, M: 7 * P**3 + M * P - M**2, "PM")) == "7 P^3 + M P - M^2"
    assert interpolate(lambda P: P * (P - 1) // 2, "P").terms[(0, 2, 0, 0, 0, 0)] == Fraction(1, 2)
    assert str(interpolate(lambda P: 0, "P")) == "0"
    for no_polynomial in (
        lambda P: 2**P,
        lambda P: P * P if P < 100 else P**3,
        lambda P: P + P % 2,
    ):
        with pytest.raises(ArithmeticError):
            interpolate(no_polynomial, "P")


@pytest.mark.parametrize(
    ("f", "g", "yes"),
    [
        ("O(P^2)", "O(P^3)", True),
        ("O(P^3)", "O(P^2)", False),
        ("O(RMP)", "O((R+M)^2 P)", True),
        ("O(RMP)", "O(R^2 P+M^2 P)", True),  # 2RM ≤ R² + M²
        ("O((R+M)^2 P)", "O(R^2 P)", False),
        ("O((R+M)^2 P)", "O(RMP)", False),
        ("O(R^2 P)", "O(RMP+R^3)", False),
        ("O(R^3)", "O(R^2 P)", True),  # R ≤ P
        ("O(M^3)", "O(R^2 P)", False),
        ("O(IP)", "O(P)", False),
        ("O(C^2 P)", "O(C(C+R)P)", True),
    ],
)
def test_orders(f, g, yes):
    assert is_O(parse(f), parse(g)) == yes
    # the same by numbers: along every direction that doubles some of the sizes, the quotient stays
    # put or grows without bound
    growing = [
        letters
        for letters in ("R", "M", "C", "I", "RM", "P", "RP", "MP", "RMP")
        if grows(parse(f), parse(g), letters)
    ]
    assert (not growing) == yes, growing


def grows(f, g, letters):
    """f/g where these letters are 2^20 times the others, P not below any of them: above 2^10 if it
    grows.

    A monomial above all those of g is so by 2^20; with at most 4 terms and coefficients up to 4 a
    bounded quotient is below 2^4.
    """
    sizes = {x: 2 ** (20 * (x in letters)) for x in "RMCI"} | {
        "P": 2 ** (20 + 20 * ("P" in letters))
    }
    return f(**sizes) / g(**sizes) > 2**10


# --- the verdicts ---------------------------------------------------------------------------------


def test_the_table_is_whole():
    cells = [r for r in rows().values() if r.place == "tab:methods" and r.cell in NAMES]
    assert len(cells) == 36 and {r.verdict for r in rows().values()} == set(make_costs.VERDICTS)
    assert {r.cell for r in rows().values()} >= {
        n for n in DERIVED if not n.endswith("mc-hess-dlr")
    }
    for (
        name,
        place,
        printed,
    ) in (
        make_costs.printed_costs()
    ):  # what the package says of a method is what the paper says of it
        if (
            place.startswith("tab:") and name != "blr-mc-ef-dlr"
        ):  # (R+M)² in the table, (2R+M)² in the text: the package takes the text's
            assert parse(printed) == parse(br.method(name).cost), name


def test_the_places_are_in_the_paper():
    scopes = {e.scope for e in br.paper.equations().values()}
    assert {p.split(" ")[0] for _, p in rows()} - {"tab:methods"} <= scopes


@pytest.mark.parametrize("key", STATED, ids=" ".join)
def test_the_exponent_of_P_by_doubling(key):
    """log2 count(2P)/count(P) is the power of P, up to what the lower powers can do.

    With count = a P^e (1 + r), |r(P)| ≤ ρ, and |r(2P)| ≤ ρ/2, it is off by log2((1 + ρ/2)/(1 − ρ))
    at most. Both sizes are below those at which tall products go by blocks of rows.
    """
    row = rows()[key]
    P, sizes = (
        2**8,
        {x: dict(R=3, M=4, C=4, N=2, I=2)[x] for x in costs.sizes_of(row.cell) if x != "P"},
    )
    total = costs.polynomial(row.cell) + costs.polynomial(row.cell, "estimator")
    top = Poly({e: c for e, c in total.terms.items() if e[1] == row.exponent})(**sizes, P=P)
    rest = sum(
        abs(Poly({e: c})(**sizes, P=P)) for e, c in total.terms.items() if e[1] < row.exponent
    )
    rho = float(rest / top)
    assert rho < 1 / 4  # so that the neighbouring exponents are out of reach
    once, twice = (
        costs.count(row.cell, **sizes, P=n) + costs.count_estimator(row.cell, **sizes, P=n)
        for n in (P, 2 * P)
    )
    assert abs(math.log2(twice / once) - row.exponent) <= math.log2((1 + rho / 2) / (1 - rho))


WANTED = {
    "does not hold": {"bog-mc-ef-dlr", "bog-lin-hess-dlr", "bog-lin-ef-dlr"},
    "holds with a condition": {
        "bong-mc-ef-fc",
        "bong-mc-ef-fc_mom",
        "bog-mc-ef-fc_mom",
        "bbb-lin-hess-dlr",
    },
    "cheaper exists": {f"{r}-{h}-fc" for r in ("blr", "bog") for h in ("lin-hess", "lin-ef")}
    | {
        "bog-mc-ef-fc",
        "blr-mc-ef-fc",
        "blr-mc-ef-fc_mom",
        "blr-lin-hess-fc_mom",
        "blr-lin-ef-fc_mom",
    },
}


@pytest.mark.parametrize("verdict", WANTED)
def test_the_verdicts_on_the_table(verdict):
    assert {
        r.cell
        for r in rows().values()
        if r.verdict == verdict and r.place.startswith("tab:") and r.cell in NAMES
    } == WANTED[verdict]


def test_the_text_and_the_table_differ_on_bbb_lin_hess_dlr():
    """The C²P of HᵀAᵀ is in the text, (C+R)²P, and not in the table, (C+R)RP."""
    assert rows()["bbb-lin-hess-dlr", "sec:bbb-dlr"].verdict == "holds"
    assert rows()["bbb-lin-hess-dlr", "tab:methods"].verdict == "holds with a condition"


@pytest.mark.parametrize("name", ["bog-mc-ef-dlr", "bog-lin-hess-dlr", "bog-lin-ef-dlr"])
def test_what_bog_dlr_costs(name):
    """R(R+K)P and C²P for HᵀAᵀ is right, and nothing below it: WᵀΥ⁻¹W takes 2R²P."""
    K = {"mc-ef": "M", "lin-hess": "C", "lin-ef": "1"}[name[4:-4]]
    total = costs.polynomial(name) + costs.polynomial(name, "estimator")
    right = parse(f"O(R(R+{K})P{'+C^2 P' if K == 'C' else ''})")
    assert is_O(total, right, leading=True) and is_O(right, total, leading=True)
    assert total.terms[(0, 1, 2, 0, 0, 0)] == 2
    for wrong in ("O(RMP)", "O(C(C+R)P)", "O(RP)"):
        assert not is_O(total, parse(wrong), leading=True)


@pytest.mark.parametrize(
    "name",
    [n for n in DERIVED if (n.split("-")[0], n.split("-")[3]) in EFFICIENT and "mc-hess" not in n],
)
def test_the_efficient_forms_cost_less_than_the_displayed_ones(name):
    efficient, plain = costs.polynomial(name), costs.polynomial(name, form="plain")
    assert plain.degree() == 3 and efficient.degree() == (1 if name.endswith("dlr") else 2)


def test_a_cubic_function_does_not_pass_for_a_quadratic_one():
    """Some function with an inverse hidden in it, against a stated O(M P²)."""

    def broken(P, M):
        return tallied(lambda Sigma, S: np.linalg.inv(np.eye(P) + Sigma) @ S, (P, P), (P, M))

    found, none = interpolate(broken, "PM"), Poly({})
    assert str(found.leading()) == "8/3 P^3"
    assert make_costs.judge(parse("O(MP^2)"), found, none, none, leading=True) == "does not hold"
    assert make_costs.judge(parse("O(P^3)"), found, none, none, leading=True) == "holds"
    assert make_costs.judge(parse("O(P^4)"), found, none, none, leading=True) == "cheaper exists"
    assert (
        make_costs.judge(parse("O(MP^2)"), none, found, none, leading=True)
        == "holds with a condition"
    )
    assert (
        make_costs.judge(parse("O(MP^2)"), parse("O(MP^2)"), none, found, leading=True)
        == "holds with a condition"
    )


# --- forms that cost less than the ones that are run ----------------------------------------------


def rational(rng, *shape):
    """Small fractions."""
    return np.frompyfunc(lambda n: Fraction(int(n), 8), 1, 1)(rng.integers(-8, 9, shape))


def stream(seed=0, P=4, K=2, n_iter=3):
    """An exact prior and an exact (g, S) for each inner iteration."""
    rng = np.random.default_rng(seed)
    A = rational(rng, P, P)
    prior = FC(rational(rng, P), A @ A.T + eye(P))
    return prior, [Curv(rational(rng, P), S=rational(rng, P, K)) for _ in range(n_iter)]


def iterate(step, prior, curvs, alpha):
    current = prior
    for curv in curvs:
        current = step(prior, current, curv, alpha)
    return current


def same(got, wanted):
    assert all(isinstance(v, Fraction) for a in wanted for v in a.flat)
    assert all(np.array_equal(a, b) for a, b in zip(got, wanted, strict=True))


def order(fn, letters):
    """The polynomial of fn(prior, curvs, alpha, **extra) on counted arrays; K columns are the
    letter C.
    """

    def cost(**s):
        tally, P = Tally(), s["P"]
        curvs = [
            Curv(tally.array(P), S=tally.array(P, s.get("C", 1))) for _ in range(s.get("I", 1))
        ]
        fn(FC(tally.array(P), tally.array(P, P)), curvs, Fraction(1, 4), tally)
        return tally.total

    return interpolate(cost, letters)


def zeros(*shape):
    return np.zeros(shape, dtype=int)


class Krylov:
    """Columns X and their images Y = A X under a fixed matrix A, in a basis that grows until it
    contains the images.

    An inner loop of I iterations with K new columns in each makes O(I²K) columns and as many
    products with A: O(I²K P²).
    """

    def __init__(self, A, X):
        self.A, self.X, self.Y = A, X, A @ X
        self.image = []  # column j of Y is column image[j] of X

    def grow(self, new):
        """Add the images that X lacks, and new columns; returns the J with Y_before = X_after J."""
        n, known = self.X.shape[1], len(self.image)
        self.image += range(n, 2 * n - known)
        self.X = np.concatenate([self.X, self.Y[:, known:], new], axis=1)
        self.Y = np.concatenate([self.Y, self.A @ self.X[:, n:]], axis=1)
        J = zeros(self.X.shape[1], n)
        J[self.image, range(n)] = 1
        return J

    def inner(self, C):
        """T = XᵀY, and M with (A⁻¹ + X C Xᵀ)⁻¹ = A − Y M Yᵀ: M = C (I + T C)⁻¹."""
        T = self.X.T @ self.Y
        return T, solve(eye(len(C)) + C @ T, C)


def columns(n, first, count):
    """The coefficients of columns first, …, first + count − 1 of n."""
    return eye(n)[:, first : first + count]


def bbb_krylov(prior, curvs, alpha, tally=None):
    """BBB-FC, the whole inner loop, with G = −SSᵀ and no (P, P) inverse: Σ_i⁻¹ = Σ₀⁻¹ + X C Xᵀ and
    μ_i = μ₀ − Σ₀ X w.

    eq:bbb-FC-nat-prec contains Σ − ΣΣ₀⁻¹Σ (Σ = Σ_{i-1}), which looks full and is Σ(Σ⁻¹ − Σ₀⁻¹)Σ = Y
    M (I − TM) Yᵀ: of low rank.
    """
    k = Krylov(prior.Sigma, prior.mu[:, None])
    C, w = zeros(1, 1), zeros(1)
    for curv in curvs:
        Y, (T, M) = k.Y, k.inner(C)
        J = k.grow(np.concatenate([(prior.Sigma @ curv.g)[:, None], prior.Sigma @ curv.S], axis=1))
        n, K = len(J), curv.S.shape[1]
        m = eye(n)[0] - J @ w  # μ_{i-1} = X m
        r = eye(n)[n - K - 1] + J @ (
            w - M @ (Y.T @ curv.g + T @ w)
        )  # Σ(g + Σ₀⁻¹(μ₀ − μ_{i-1})) = X r
        V = columns(n, n - K, K) - J @ (M @ (Y.T @ curv.S))  # ΣS = X V
        D = -2 * alpha * (np.outer(r, m) + np.outer(m, r) + J @ (M - M @ T @ M) @ J.T - V @ V.T)
        y = alpha * r - D @ ((k.X.T @ k.X) @ m)  # μ_i = μ_{i-1} + Σ_i X y
        C = np.pad(C, (0, n - len(C))) + D
        T, M = k.inner(C)
        w = np.pad(w, (0, n - len(w))) - (y - M @ (T @ y))
    return FC(prior.mu - k.Y @ w, prior.Sigma - k.Y @ M @ k.Y.T)


def bbb_mom_krylov(prior, curvs, alpha, tally=None, prec=None):
    """BBB-FC_MOM, the whole inner loop, with G = −SSᵀ: Σ_i = Σ₀ + X C Xᵀ, given Σ₀⁻¹, which it
    hands on with the result.

    bbb-FC-mom-cov contains Σ_{i-1}⁻¹ − Σ₀⁻¹ = −Y M Yᵀ with Y = Σ₀⁻¹X.
    """
    prec = tally.array(*prior.Sigma.shape) if prec is None else prec
    k, C, mu = Krylov(prec, zeros(len(prec), 0)), zeros(0, 0), prior.mu
    for curv in curvs:
        mu = mu + alpha * (prec @ (prior.mu - mu)) + alpha * curv.g
        M = k.inner(C)[1]
        J = k.grow(curv.S)
        V = columns(len(J), len(J) - curv.S.shape[1], curv.S.shape[1])
        C = np.pad(C, (0, len(J) - len(C))) - alpha * (J @ M @ J.T + V @ V.T) / 2
    return FC(mu, prior.Sigma + k.X @ C @ k.X.T), prec - k.Y @ k.inner(C)[1] @ k.Y.T


SHAPES = [(4, 2, 1), (3, 2, 2), (3, 1, 3)]  # P, K, I: the fractions grow fast


@pytest.mark.parametrize("shape", SHAPES)
def test_bbb_fc_in_a_krylov_basis(shape):
    prior, curvs = stream(0, *shape)
    same(
        bbb_krylov(prior, curvs, Fraction(1, 4)), iterate(fc_nat.bbb, prior, curvs, Fraction(1, 4))
    )


@pytest.mark.parametrize("shape", [*SHAPES, (4, 2, 3)])
def test_bbb_fc_mom_in_a_krylov_basis(shape):
    prior, curvs = stream(0, *shape)
    inverse = lambda a: solve(a, eye(len(a)).astype(object))
    got, prec = bbb_mom_krylov(prior, curvs, Fraction(1, 4), prec=inverse(prior.Sigma))
    wanted = iterate(fc_mom.bbb, prior, curvs, Fraction(1, 4))
    same(got, wanted)
    assert np.array_equal(
        prec, inverse(wanted.Sigma)
    )  # so that the next observation needs no inverse either


@pytest.mark.parametrize("fn", [bbb_krylov, bbb_mom_krylov])
def test_the_krylov_forms_are_quadratic_in_P(fn):
    """In P and the number K of columns, for 1, 2, 3 iterations; products with Σ₀ or its inverse:
    I(I+1)/2 · K and less.
    """
    for n_iter in (1, 2, 3):
        found = order(
            lambda prior, curvs, alpha, tally, n=n_iter: fn(prior, curvs * n, alpha, tally), "PC"
        )
        (top,) = found.leading().terms.items()
        assert top[0] == (0, 2, 0, 0, 1, 0)  # C P²
        assert is_O(found, parse("O(CP^2+C^2 P+C^3)"))
        assert (
            top[1] <= 2 * n_iter + 4 * 2 * n_iter * (n_iter + 1) / 2
        )  # ΣS each time; A·x and two products in the end for each column


def root_times(L, A, B, z):
    """Rows of standard normals z to rows with covariance Σ₀ + Σ₀XBXᵀΣ₀ = L (I + ABAᵀ) Lᵀ, given L
    Lᵀ = Σ₀ and A = LᵀX.

    With A = Q T and T B Tᵀ = V Diag(λ) Vᵀ the root of I + ABAᵀ is I + QV Diag(√(1+λ) − 1) (QV)ᵀ,
    and √(1+λ) − 1 = λ/(1 + √(1+λ)).
    """
    Q, T = np.linalg.qr(A)
    lam, V = np.linalg.eigh(T @ B @ T.T)
    QV = Q @ V
    return (z + ((z @ QV) * (lam / (1 + np.sqrt(1 + lam)))) @ QV.T) @ L.T


def test_a_root_of_the_prior_is_a_root_of_every_iterate():
    """With z = I the rows of the result are those of a matrix Lᵢᵀ with Lᵢ Lᵢᵀ = Σ_{t,i}: for BLR in
    both families, without a new factor.
    """
    rng = np.random.default_rng(0)
    P, K, alpha = 9, 2, 0.25
    prior = problems.belief("fc", rng, P)
    curvs = [Curv(rng.standard_normal(P), S=rng.standard_normal((P, K)) / 8) for _ in range(3)]
    L = np.linalg.cholesky(prior.Sigma)
    for family in (fc_nat, fc_mom):
        current = family.start(prior)
        for curv in curvs:
            current = family.blr_increment(prior, current, curv, alpha)
        wanted = family.finish(prior, current).Sigma
        X = current.U if family is fc_nat else current.Y
        n = X.shape[1]
        B = (
            -current.d[:, None] * solve(eye(n) + X.T @ prior.Sigma @ X * current.d, eye(n))
            if family is fc_nat
            else current.B
        )
        roots = root_times(L, L.T @ X, B, np.eye(P))
        cond = float(np.linalg.cond(prior.Sigma)) * float(np.linalg.cond(wanted))
        diff = compare.difference("Sigma", roots.T @ roots, wanted, cond)
        assert diff.agrees, str(diff)
        assert not compare.difference("Sigma", roots.T @ roots, prior.Sigma, cond).agrees


def test_drawing_from_a_carried_root_is_quadratic():
    """M rows from an iterate with R columns: R P² for LᵀX, M P² for the rows, and no P³."""

    def cost(P, M, R):
        return tallied(
            lambda L, X, B, z: root_times(L, L.T @ X, B, z), (P, P), (P, R), (R, R), (M, P)
        )

    assert str(interpolate(cost, "PRM").leading()) == "2 R P^2 + 2 M P^2"
    assert costs.polynomial("blr-mc-ef-fc", "sampling").degree() == 3


def softmax_factor(J, p):
    """Jᵀ (Diag(√p) − p√pᵀ) = Jᵀ Diag(√p) − (Jᵀp) √pᵀ, in O(C P)."""
    root = np.sqrt(p)
    return J.T * root - np.outer(J.T @ p, root)


def test_the_factor_of_a_softmax_in_linear_time():
    rng = np.random.default_rng(0)
    lik, o, J = br.likelihoods.Categorical(), rng.standard_normal(5), rng.standard_normal((5, 7))
    diff = compare.difference("S", softmax_factor(J, lik.mean(o)), J.T @ lik.info_factor(o))
    assert diff.agrees, str(diff)
    fast = interpolate(lambda P, C: tallied(softmax_factor, (C, P), (C,)), "PC")
    assert (
        str(fast.leading()) == "5 C P"
        and str(costs.polynomial("bong-lin-hess-diag", "estimator").leading()) == "2 C^2 P"
    )


# --- at size --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [f"{rule}-lin-hess-dlr" for rule in ("bong", "blr", "bog", "bbb")])
def test_the_polynomial_at_size(name):
    """At the size of the paper's CNN the tall products and the QR factors go by blocks of rows. The
    order stays.

    Blocks of 4k rows and more: QR of the blocks and of their stacked factors, 2Pk²(1 + 1/4 + 1/16 +
    …), beside the 6Pk² of the SVD that the polynomial has; a sum of blocks adds at most one
    addition to 16 rows of multiplications and additions. So the count is between a third and 1 +
    1/32 of the polynomial.
    """
    sizes = dict(P=57_722, R=10, C=10) | ({"I": 1} if name[:3] in ("blr", "bbb") else {})
    assert (
        Fraction(1, 3)
        < costs.count(name, **sizes) / costs.polynomial(name)(**sizes)
        < 1 + Fraction(1, 32)
    )


# --- the page -------------------------------------------------------------------------------------


def test_the_page_shows_the_table():
    page = make_costs.PAGE.read_text(encoding="utf-8")
    fresh = make_costs.page(page, list(rows().values()))
    assert fresh == page, "docs/costs.md is not current: python docs/make_costs.py --page"
    assert make_costs.page(page.replace("10 R^2 P", "11 R^2 P"), list(rows().values())) == page


def test_the_command(capsys, monkeypatch, tmp_path):
    two = list(rows().values())[:2]
    monkeypatch.setattr(make_costs, "table", lambda: two)
    monkeypatch.setattr(make_costs, "PAGE", tmp_path / "costs.md")
    make_costs.PAGE.write_text(
        "Costs\n\n" + make_costs.markdown(two[:1]) + "\n\nend", encoding="utf-8"
    )
    assert (
        make_costs.main([]) == 0
        and make_costs.main(["--page"]) == 0
        and make_costs.main(["--what"]) == 2
    )
    out, err = capsys.readouterr()
    assert "bong-mc-ef-fc  " in out and "2 statements: 1 holds" in out and "usage" in err
    assert (
        make_costs.PAGE.read_text(encoding="utf-8") == f"Costs\n\n{make_costs.markdown(two)}\n\nend"
    )
    make_costs.PAGE.write_text("no table", encoding="utf-8")
    with pytest.raises(ValueError, match="one table"):
        make_costs.main(["--page"])
