"""The predict step against the dense formulas F μ + b and F Σ Fᵀ + Q, the laws of the
Ornstein–Uhlenbeck process, and refusals.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bongref as br
from bongref.dynamics import OU, Linear, Static, matrices
from bongref.routes.compare import difference
from bongref.states import DLR, FC, Diag

P, R = 4, 2
FULL_F = np.array(
    [[0.9, 0.2, 0.0, -0.1], [0.0, 1.1, 0.3, 0.0], [0.1, 0.0, 0.8, 0.2], [0.0, -0.3, 0.0, 1.0]]
)
ROOT_Q = np.array([[0.5, 0.0, 0.0], [0.2, 0.3, 0.0], [-0.1, 0.4, 0.2], [0.3, 0.1, -0.2]])
FULL_Q = ROOT_Q @ ROOT_Q.T  # positive semi-definite, of rank 3

F_VALUES = {
    "scalar": 0.8,
    "negative": -1.2,
    "diagonal": np.array([0.5, -0.9, 1.3, 2.0]),
    "matrix": np.diag([0.5, 0.9, 1.3, 2.0]),
}
Q_VALUES = {
    "none": 0.0,
    "scalar": 0.3,
    "diagonal": np.array([0.0, 0.1, 2.0, 5.0]),
    "matrix": np.diag([0.4, 0.0, 0.1, 1.0]),
}


def state(kind, seed=0):
    rng = np.random.default_rng(seed)
    mu, lam = rng.standard_normal(P), np.exp(rng.uniform(np.log(0.25), np.log(4), P))
    if kind == "fc":
        U = np.linalg.qr(rng.standard_normal((P, P)))[0]
        A = (U * lam) @ U.T
        return FC(mu, (A + A.T) / 2)
    return Diag(mu, lam) if kind == "diag" else DLR(mu, lam, rng.standard_normal((P, R)))


def dense(q):
    if isinstance(q, FC):
        return q.Sigma
    return np.diag(q.var) if isinstance(q, Diag) else np.linalg.inv(np.diag(q.Ups) + q.W @ q.W.T)


def as_matrix(a):
    a = np.asarray(a, dtype=float)
    return a if a.ndim == 2 else np.diag(np.broadcast_to(a, (P,)))


def assert_is(got, mu, Sigma, *others):
    """got = N(mu, Sigma), at a tolerance from the condition numbers of the covariances that were
    inverted.
    """
    cond = max(float(np.linalg.cond(S)) for S in (Sigma, *others))
    for d in (
        difference("mu", got.mu, mu, 10.0, size=1.0),
        difference("Sigma", dense(got), Sigma, cond),
        difference("precision", np.linalg.inv(dense(got)), np.linalg.inv(Sigma), cond),
    ):
        assert d.agrees, d


kinds = pytest.mark.parametrize("kind", ["fc", "diag", "dlr"])


# --- every family against the dense formula -------------------------------------------------------


@pytest.mark.eq("algo:predict", "sec:pseudocode#3", "sec:pseudocode#4")
@pytest.mark.parametrize("Q", Q_VALUES.values(), ids=[f"Q={k}" for k in Q_VALUES])
@pytest.mark.parametrize("F", F_VALUES.values(), ids=[f"F={k}" for k in F_VALUES])
@kinds
def test_diagonal_dynamics_in_every_family(kind, F, Q):
    for seed, b in [(0, 0.0), (1, 0.7), (2, np.array([1.0, -2.0, 0.0, 0.5]))]:
        q = state(kind, seed)
        got = br.predict(q, Linear(F, b, Q))
        assert type(got) is type(q)
        F2, Sigma = as_matrix(F), dense(q)
        assert_is(got, F2 @ q.mu + b, F2 @ Sigma @ F2.T + as_matrix(Q), Sigma)
        if kind == "dlr":
            assert (
                got.W.shape == q.W.shape
            )  # the rank is kept, and above the result is exact: nothing was projected


@pytest.mark.eq("algo:predict", "sec:pseudocode#3", "sec:pseudocode#4")
@pytest.mark.parametrize(
    "F", [1.0, np.array([0.5, 0.9, 1.3, 2.0]), FULL_F], ids=["scalar", "diagonal", "full"]
)
@pytest.mark.parametrize(
    "Q", [0.1, np.array([0.1, 0.0, 2.0, 5.0]), FULL_Q], ids=["scalar", "diagonal", "full"]
)
def test_full_dynamics_in_fc(F, Q):
    q = state("fc", 3)
    F2 = as_matrix(F)
    got = br.predict(q, Linear(F, 0.25, Q))
    assert_is(got, F2 @ q.mu + 0.25, F2 @ q.Sigma @ F2.T + as_matrix(Q), q.Sigma)
    np.testing.assert_array_equal(got.Sigma, got.Sigma.T)


@pytest.mark.eq("sec:pseudocode#4")
@given(seed=st.integers(0, 2**32))
def test_dlr_precision_is_the_dense_inverse(seed):
    rng = np.random.default_rng(seed)
    q, f, noise = state("dlr", seed), rng.uniform(-2, 2, P), rng.uniform(0, 3, P)
    f = np.where(np.abs(f) < 0.2, 0.2, f)
    got = br.predict(q, Linear(f, 0.0, noise))
    assert_is(got, f * q.mu, np.outer(f, f) * dense(q) + np.diag(noise), dense(q))
    assert got.W.shape == (P, R)


@pytest.mark.eq("sec:pseudocode#4")
def test_dlr_with_negative_entries_of_Ups():
    q = DLR(np.ones(3), np.array([-0.3, 1.0, 2.0]), np.array([[1.5], [0.5], [0.0]]))
    assert np.linalg.eigvalsh(np.diag(q.Ups) + q.W @ q.W.T)[0] > 0
    f, noise = np.array([0.9, 1.0, 0.7]), np.array([0.2, 0.0, 1.0])
    assert_is(
        br.predict(q, Linear(f, 0.0, noise)),
        f * q.mu,
        np.outer(f, f) * dense(q) + np.diag(noise),
        dense(q),
    )
    assert_is(br.predict(q, OU(0.0, 2.0, 3.0)), np.full(3, 2.0), 3 * np.eye(3))
    with pytest.raises(
        ValueError, match=r"Q must be smaller than F\^2/\|Ups\| where Ups < 0.*for parameter 0"
    ):
        br.predict(q, Linear(0.9, 0.0, 10.0))


def test_monte_carlo_of_the_process():
    """Samples of θ_t = F θ_{t−1} + b + noise have the mean and covariance of the prediction."""
    rng = np.random.default_rng(0)
    q, n = state("dlr", 5), 40_000
    F, b, Q = np.array([0.5, -0.9, 1.3, 2.0]), 0.3, np.array([0.1, 0.2, 2.0, 0.0])
    theta = br.sample(q, n, rng) * F + b + np.sqrt(Q) * rng.standard_normal((n, P))
    got = br.predict(q, Linear(F, b, Q))
    d, Sigma = theta - got.mu, dense(got)
    assert np.all(np.abs(d.mean(axis=0)) <= 6 * np.sqrt(np.diag(Sigma) / n))
    assert np.all(
        np.abs(d.T @ d / n - Sigma)
        <= 6 * np.sqrt((np.outer(np.diag(Sigma), np.diag(Sigma)) + Sigma**2) / n)
    )


@pytest.mark.parametrize("n", [1, 5])
@kinds
def test_many_small_steps_are_one_large_one(kind, n):
    q, f, noise = state(kind), 0.9, 0.2
    many = q
    for _ in range(n):
        many = br.predict(many, Linear(f, 0.1, noise))
    geometric = sum(f ** (2 * k) for k in range(n))
    once = br.predict(q, Linear(f**n, 0.1 * sum(f**k for k in range(n)), noise * geometric))
    assert_is(many, once.mu, dense(once), dense(q))


# --- diagonal family with full F or Q -------------------------------------------------------------


def test_diag_takes_a_full_F_when_the_result_is_diagonal():
    q = state("diag", 6)
    permutation = np.eye(P)[[2, 0, 3, 1]]
    got = br.predict(q, Linear(permutation, 0.0, 0.1))
    assert_is(
        got, permutation @ q.mu, permutation @ np.diag(q.var) @ permutation.T + 0.1 * np.eye(P)
    )
    rotation = np.linalg.qr(FULL_F)[0]
    same = Diag(q.mu, np.full(P, 0.7))  # a rotation of a sphere is a sphere, up to rounding
    assert_is(br.predict(same, Linear(rotation)), rotation @ q.mu, 0.7 * np.eye(P))


def test_diag_takes_a_full_Q_that_makes_up_for_F():
    q = Diag(np.ones(2), np.array([1.0, 2.0]))
    F = np.array([[1.0, 1.0], [0.0, 1.0]])  # F Σ Fᵀ = [[3, 2], [2, 2]]
    assert_is(
        br.predict(q, Linear(F, 0.0, [[4.0, -2.0], [-2.0, 5.0]])), [2.0, 1.0], np.diag([7.0, 7.0])
    )


@pytest.mark.parametrize(
    ("kind", "dynamics", "match"),
    [
        (
            "diag",
            Linear(F=FULL_F),
            "F must be diagonal for a diagonal family, or such that .* got a full one",
        ),
        ("diag", Linear(Q=FULL_Q), "Q must be diagonal for a diagonal family"),
        ("diag", Linear(F=FULL_F, Q=FULL_Q), "F and Q must be diagonal for a diagonal family"),
        ("diag", OU(0.9, 0.0, FULL_Q + np.eye(P)), "var0 must be diagonal for a diagonal family"),
        ("dlr", Linear(F=FULL_F), "F must be diagonal for the DLR family.*got a full F"),
        ("dlr", Linear(Q=FULL_Q), "Q must be diagonal for the DLR family.*got a full Q"),
        ("dlr", Linear(F=FULL_F, Q=FULL_Q), "got a full F and Q"),
        (
            "dlr",
            OU(0.9, 0.0, FULL_Q + np.eye(P)),
            "var0 must be diagonal for the DLR family.*got a full var0",
        ),
    ],
)
def test_what_would_need_a_projection_is_refused(kind, dynamics, match):
    q = state(kind)
    kept = [a.tobytes() for a in q]
    with pytest.raises(ValueError, match=match):
        br.predict(q, dynamics)
    assert [a.tobytes() for a in q] == kept


# --- Static and OU --------------------------------------------------------------------------------


@kinds
def test_static_is_the_identity_and_so_is_gamma_1(kind):
    q = state(kind)
    for dynamics in (
        Static(),
        OU(1.0, mu0=5.0, var0=3.0),
        OU(1, np.arange(P), np.arange(1, P + 1)),
        Linear(),
    ):
        for got, wanted in zip(br.predict(q, dynamics), q, strict=True):
            np.testing.assert_array_equal(got, wanted)


@kinds
def test_gamma_0_forgets_everything(kind):
    q, mu0, var0 = state(kind), np.arange(1.0, P + 1), np.array([0.5, 1.0, 2.0, 3.0])
    got = br.predict(q, OU(0.0, mu0, var0))
    assert_is(got, mu0, np.diag(var0))
    assert_is(br.predict(q, OU(0.0)), np.zeros(P), np.eye(P))


@pytest.mark.parametrize("gamma", [0.0, 0.3, 0.99, 1 - 1e-9, 1.0])
@kinds
def test_ou_reverts_to_its_mean_and_keeps_its_law(kind, gamma):
    q, mu0, var0 = state(kind, 7), np.array([1.0, -1.0, 0.5, 2.0]), np.array([0.5, 1.0, 2.0, 3.0])
    got = br.predict(q, OU(gamma, mu0, var0))
    assert_is(
        got,
        gamma * q.mu + (1 - gamma) * mu0,
        gamma**2 * dense(q) + (1 - gamma**2) * np.diag(var0),
        dense(q),
    )
    m = br.method(
        {"fc": "bong-lin-ef-fc", "diag": "bong-lin-ef-diag", "dlr": "bong-lin-ef-dlr"}[kind],
        **{"rank": R} if kind == "dlr" else {},
    )
    stationary = m.prior(mu0, var0)
    assert_is(br.predict(stationary, OU(gamma, mu0, var0)), mu0, np.diag(var0))


def test_ou_with_a_full_covariance_in_fc():
    q, Sigma0 = state("fc", 8), FULL_Q + np.eye(P)
    got = br.predict(q, OU(0.6, 1.0, Sigma0))
    assert_is(got, 0.6 * q.mu + 0.4, 0.36 * q.Sigma + 0.64 * Sigma0)
    assert_is(br.predict(FC(np.ones(P), Sigma0), OU(0.6, 1.0, Sigma0)), np.ones(P), Sigma0)


def test_ou_near_one_keeps_its_digits():
    """1 − γ² at γ = 1 − 1e-12: as 1 − γ·γ it would have four digits."""
    gamma = 1 - 1e-12
    Q = matrices(OU(gamma), 1)[2][0]
    exact = float((1 - np.longdouble(gamma)) * (1 + np.longdouble(gamma)))
    assert difference("Q", Q, exact, 1.0).agrees


# --- bad input ------------------------------------------------------------------------------------

NAN = float("nan")


@pytest.mark.parametrize(
    ("dynamics", "error", "match"),
    [
        (OU(-0.1), ValueError, r"gamma must be in \[0, 1\], got -0.1"),
        (OU(1.5), ValueError, r"gamma must be in \[0, 1\], got 1.5"),
        (OU(NAN), ValueError, "gamma must be finite, got nan"),
        (OU("fast"), TypeError, "gamma must be a real number, got str 'fast'"),
        (OU(True), TypeError, "gamma must be a real number, got bool True"),
        (OU([0.5, 0.5]), ValueError, r"gamma must be a real number, got shape \(2,\)"),
        (
            OU(0.5, mu0=[1.0, 2.0]),
            ValueError,
            r"mu0 must be a scalar or have shape \(4,\), got \(2,\)",
        ),
        (OU(0.5, mu0=NAN), ValueError, "mu0 must be finite, got nan"),
        (OU(0.5, var0=0.0), ValueError, "var0 must be positive definite"),
        (OU(0.5, var0=-1.0), ValueError, "var0 must be positive definite"),
        (
            OU(0.5, var0=[1.0, 2.0, 3.0]),
            ValueError,
            r"var0 must be a scalar or have shape \(4,\), got \(3,\)",
        ),
        (OU(0.5, var0=-np.eye(P) - FULL_Q), ValueError, "var0 must be positive definite"),
        (Linear(F=[1.0, 2.0]), ValueError, r"F must be a scalar or have shape \(4,\), got \(2,\)"),
        (Linear(F=np.eye(3)), ValueError, r"F must have shape \(4, 4\), got \(3, 3\)"),
        (Linear(F=NAN), ValueError, "F must be finite, got nan"),
        (Linear(F=1j), TypeError, "F must be an array of real numbers, got complex 1j"),
        (Linear(b=np.inf), ValueError, "b must be finite, got inf"),
        (
            Linear(b=np.zeros((P, 1))),
            ValueError,
            r"b must have 0 or 1 dimensions, got shape \(4, 1\)",
        ),
        (
            Linear(Q=-0.1),
            ValueError,
            "Q must be positive semi-definite, got smallest eigenvalue -0.1",
        ),
        (Linear(Q=[1.0, 1.0, 1.0, -1e-18]), ValueError, "Q must be positive semi-definite.*-1e-18"),
        (Linear(Q=FULL_Q - 0.1 * np.eye(P)), ValueError, "Q must be positive semi-definite.*-0.1"),
        (Linear(Q=FULL_F), ValueError, r"Q must be symmetric, got max\|A - A\^T\| = 0.3"),
        (
            Linear(Q=np.full((P, P), NAN)),
            ValueError,
            r"Q must be finite, got nan at index \(0, 0\)",
        ),
        (Linear(F=0.0), ValueError, "F"),
        (Linear(F=[1.0, 1.0, 0.0, 1.0], Q=[1.0, 1.0, 0.0, 1.0]), ValueError, "F"),
        (
            "static",
            TypeError,
            r"dynamics must be Static\(\), OU\(...\) or Linear\(...\), got str 'static'",
        ),
        (Static, TypeError, "dynamics must be"),
        (None, TypeError, "dynamics must be"),
    ],
)
@kinds
def test_bad_dynamics_are_refused(kind, dynamics, error, match):
    q = state(kind)
    kept = [a.tobytes() for a in q]
    with pytest.raises(error, match=match):
        br.predict(q, dynamics)
    assert [a.tobytes() for a in q] == kept


@pytest.mark.parametrize(
    ("q", "error", "match"),
    [
        (
            FC(np.zeros(2), -np.eye(2)),
            ValueError,
            "state must be positive definite, got 2 x 2 Sigma with smallest eigenvalue -1",
        ),
        (
            Diag(np.zeros(2), np.array([1.0, NAN])),
            ValueError,
            r"state.var must be finite, got nan at index \(1,\)",
        ),
        (
            Diag(np.zeros(2), np.ones(3)),
            ValueError,
            r"state.var must have shape \(2,\), got \(3,\)",
        ),
        (np.zeros(2), TypeError, "state must be an FC, Diag or DLR state, got ndarray"),
    ],
)
def test_bad_states_are_refused(q, error, match):
    with pytest.raises(error, match=match):
        br.predict(q, Linear(0.5))


def test_the_state_passed_in_is_not_touched():
    for kind in ("fc", "diag", "dlr"):
        q = state(kind)
        kept = [a.tobytes() for a in q]
        for dynamics in (Static(), OU(0.5), Linear(0.5, 1.0, 2.0)):
            br.predict(q, dynamics)
        assert [a.tobytes() for a in q] == kept
