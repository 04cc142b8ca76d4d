"""Reprs tell what an object is, never raise, and never cost more than a pass over its arrays."""

import copy
import pickle
from fractions import Fraction

import numpy as np
import pytest

import bongref as br
from bongref import show
from bongref.trace import Symbol, Trace

LINEAR, UNIT = br.models.linear(2), br.likelihoods.Gaussian(1.0)


def result(**kwargs):
    X, m = np.eye(2), br.method("bong-lin-hess-fc")
    prior = m.prior(np.zeros(2))
    return br.run(m, LINEAR, UNIT, prior, X, [1.0, None], backend="reference", **kwargs)


STATES = {
    "<FC: P=2, mu in [0, 1], std in [0.5, 2]>": br.FC(np.array([0, 1.0]), np.diag([0.25, 4.0])),
    "<Diag: P=2, mu in [0, 1], std in [0.5, 2]>": br.Diag(np.array([0, 1.0]), np.array([0.25, 4])),
    "<DLR: P=2, rank=1, mu in [0, 0], std in [0.5, 0.5774]>": br.DLR(
        np.zeros(2), np.array([3.0, 3.0]), np.array([[1.0], [0.0]])
    ),
}


@pytest.mark.parametrize("text", list(STATES))
def test_a_state_tells_family_size_and_standard_deviations(text):
    q = STATES[text]
    assert repr(q) == text
    html = q._repr_html_()
    assert type(q).__name__ in html and "std" in html and "&lt;" not in html


@pytest.mark.parametrize("text", list(STATES))
def test_states_are_still_plain_named_tuples(text):
    q = STATES[text]
    for other in (pickle.loads(pickle.dumps(q)), copy.deepcopy(q), q._replace()):
        assert type(other) is type(q) and repr(other) == text
        assert all(np.array_equal(a, b) for a, b in zip(other, q, strict=True))
    mu, *_ = q
    assert mu is q.mu and q._asdict()["mu"] is mu and len(q) == len(q._fields)


NAN = float("nan")
INVALID = [
    (br.Diag(np.array([NAN, 1]), np.array([-1.0, 2])), "not positive in 1 of 2 entries"),
    (br.Diag(np.zeros(2), np.array([NAN, 1])), "the smallest nan"),
    (br.FC(np.zeros(2), np.array([[-1.0, 0], [0, 1]])), "the smallest -1"),
    (br.FC(np.zeros(2), np.array([[1.0, NAN], [NAN, 1]])), "Sigma not finite"),
    (br.DLR(np.zeros(2), np.array([-1.0, 1]), np.ones((2, 1))), "Ups not positive in 1 of 2"),
    (br.DLR(np.zeros(2), np.ones(2), np.full((2, 1), NAN)), "W not finite"),
    (br.FC(np.zeros(2), "no matrix"), "not a state"),
    (br.Diag(None, None), "P=1"),
    (br.Diag(np.zeros(0), np.zeros(0)), "P=0"),
    (br.DLR(np.zeros(3), np.ones(2), np.ones(4)), "DLR"),
    (br.FC(np.array([Fraction(1, 4)]), np.array([[Fraction(1, 4)]])), "std in [0.5, 0.5]"),
    (br.Diag(np.full(1, np.inf), np.full(1, np.inf)), "not finite"),
]


@pytest.mark.parametrize(("q", "part"), INVALID, ids=[part for _, part in INVALID])
def test_the_repr_of_an_invalid_state_says_what_is_wrong(q, part):
    assert part in repr(q) and q._repr_html_()


def test_a_dlr_state_with_ups_below_zero_that_w_makes_up_for_is_not_called_invalid():
    q = br.DLR(np.zeros(2), np.array([-0.5, 1.0]), np.array([[2.0], [0.0]]))
    assert br.sample(q, 1, rng=0).shape == (1, 2)  # it is positive definite
    assert "invalid" not in repr(q) and "std" not in repr(q)


def test_a_repr_takes_no_factorisation(monkeypatch):
    """No linear algebra at all for FC and for a DLR state whose marginals would take too long."""

    def refuse(*args, **kwargs):
        raise AssertionError("a factorisation in a repr")

    for name in ("cholesky", "inv", "solve", "eigvalsh", "svd"):
        monkeypatch.setattr(np.linalg, name, refuse)
    monkeypatch.setattr("bongref.gaussians.marginal_variance", refuse)
    P = 2000
    assert repr(br.FC(np.zeros(P), np.eye(P))).endswith("P=2000, mu in [0, 0], std in [1, 1]>")
    wide = br.DLR(np.zeros(P), np.full(P, 4.0), np.ones((P, 400)))
    assert repr(wide).endswith("std within [0.04975, 0.5] (bounds)>")


def test_bounds_of_standard_deviations_are_bounds(monkeypatch):
    rng = np.random.default_rng(0)
    q = br.DLR(np.zeros(6), rng.uniform(0.5, 2, 6), rng.standard_normal((6, 2)))
    true = np.sqrt(np.diag(np.linalg.inv(np.diag(q.Ups) + q.W @ q.W.T)))
    assert show.interval(true) in repr(q)
    monkeypatch.setattr(show, "FLOPS", 0)
    low, high = (float(x) for x in repr(q).split("within [")[1].split("]")[0].split(", "))
    assert low <= true.min() * 1.001 and high >= true.max() * 0.999


def test_a_result_tells_method_steps_backend_time_and_metrics():
    r = result(metrics=br.metrics.on(np.eye(2), [1.0, 2.0], "rmse"))
    text = repr(r)
    for part in (
        "after step 2",
        "method('bong-lin-hess-fc')",
        "2 (1 without an observation)",
        "reference (asked for)",
        "a step",
        "<FC: P=2",
        "1, the last at t=2: rmse 1.458",
    ):
        assert part in text, part
    assert "rmse" in r._repr_html_() and "reference" in repr(r.info)
    assert "<table>" in r.info._repr_html_()
    assert "rows     none" in repr(result())
    assert "Result" in repr(r._replace(info=None, state=3))  # made by hand


def test_info_and_traces_tell():
    _, info = br.update(
        "bong-lin-hess-fc", LINEAR, UNIT, br.FC(np.zeros(2), np.eye(2)), [1.0, 2.0], 1.0, trace=True
    )
    assert repr(info).startswith("Info(valid=True, form='fc_nat.bong_woodbury', trace=<")
    assert isinstance(info.trace, tuple) and isinstance(info.trace[0], Symbol)
    text = repr(info.trace)
    assert "eq:gL" in text and "fc_nat.bong_woodbury" in text and len(text.splitlines()) > 4
    assert "eq:gL" in info.trace._repr_html_() and "valid" in info._repr_html_()
    assert pickle.loads(pickle.dumps(info.trace))[0].name == info.trace[0].name
    large = Symbol("S", "eq:GL", np.zeros((100, 100)), "curvature.lin_hess", 1)
    assert (
        repr(large) == "<S = array of shape (100, 100) in [0, 0], eq:GL, curvature.lin_hess, i=1>"
    )
    assert "0 symbols" in repr(Trace())
    bad = br.step("bog-lin-hess-diag_mom", br.Diag(np.zeros(1), np.ones(1)), None,
                  br.Curv(np.ones(1), d=-np.full(1, 1e9)))[1]  # fmt: skip
    assert "reason='not positive definite'" in repr(bad)


def test_models_and_the_like_tell():
    assert repr(br.models.mlp([2, 3, 1])) == "<mlp, sizes=[2, 3, 1], activation=tanh, P=13, C=1>"
    assert repr(br.models.wrap(lambda t, x: t, 2)) == "<wrap, P=2, C=unknown>"
    assert "kernel=[5, 5]" in repr(br.models.cnn()) and "P" in br.models.cnn()._repr_html_()
    assert repr(br.metrics.on(np.ones((3, 1)), [1, 2, 3], "rmse")) == "<rmse on 3 observations>"
    p = br.predictive.plugin(LINEAR, UNIT, br.Diag(np.ones(2), np.ones(2)), np.eye(2))
    assert "1 x 2 x 1, mean in [1, 1]" in repr(p) and "plugin" in p._repr_html_()
    m = br.method("blr-lin-hess-dlr", rank=3)
    assert eval(repr(m), {"method": br.method}) == m and "explain" in m._repr_html_()


def test_html_is_escaped():
    assert "<script>" not in show.html_blocks(
        ["<script>", ["<script>"], (("<script>",), [("<b>",)])]
    )


def test_times_and_sizes_have_units():
    assert [show.time_text(t) for t in (3e-8, 2e-5, 0.5, 90, 600, 1e5)] == [
        "30 ns", "20 us", "500 ms", "90 s", "10 min", "27.8 h",
    ]  # fmt: skip
    assert [show.bytes_text(n) for n in (10, 2048, 5 * 2**20, 2**50)] == [
        "10 B", "2 KiB", "5 MiB", "1024.0 TiB",
    ]  # fmt: skip
