"""When metrics are taken in a stream, what its times are, and metrics of densities that are not
positive.
"""

import numpy as np
import pytest

import bongref as br
from bongref.errors import InvalidType, InvalidValue
from bongref.recording import schedule

X = np.random.default_rng(0).standard_normal((40, 2))
Y = X @ [1.0, -1.0]
MODEL, LIK, M = br.models.linear(2), br.likelihoods.Gaussian(0.1), br.method("bong-lin-hess-diag")
PRIOR = M.prior(np.zeros(2))


@pytest.fixture(params=["reference", "fast"])
def run(request):
    """The stream of all tests, on both backends."""
    return lambda **how: br.run(
        M, MODEL, LIK, PRIOR, X, Y, rng=0, **{"backend": request.param, **how}
    )


def seen(key, **attributes):
    """A measure that says the state's mean, with a schedule of its own."""
    measure = lambda m, model, lik, state, rng: {key: float(state.mu[0])}
    measure.__dict__.update(attributes)
    return measure


def test_a_schedule_and_one_for_each_metric(run):
    """Rows at the steps where something is due, with what is due there; all of it at the end."""
    result = run(
        every=[5, 12, 30], metrics=[seen("a"), seen("b", every=[12, 20]), seen("c", every=15)]
    )
    found = {row["t"]: set(row) - {"t"} for row in result.rows}
    assert found == {
        5: {"a"}, 12: {"a", "b"}, 15: {"c"}, 20: {"b"}, 30: {"a", "c"}, 40: {"a", "b", "c"},
    }  # fmt: skip
    every_step = {row["t"]: row["a"] for row in run(every=1, metrics=seen("a")).rows}
    for row in result.rows:
        assert all(row[key] == every_step[row["t"]] for key in found[row["t"]])


@pytest.mark.parametrize("every", [(10, 1000), (41,), (1000,), 41, 1000, 39, 17])
def test_no_step_is_beyond_the_end_of_the_data(run, every):
    """As often as it is due and at the end; the state is that of a run without a schedule."""
    result, plain = run(every=every, metrics=seen("a")), run()
    due = every if isinstance(every, tuple) else range(every, 40, every)
    assert [r["t"] for r in result.rows] == [*(t for t in due if t < 40), 40]
    assert (result.t, result.info.steps, result.info.missing) == (40, 40, 0)
    np.testing.assert_allclose(result.state.mu, plain.state.mu, rtol=1e-13)
    assert run(metrics=[br.metrics.prequential(every=every), seen("b")]).t == 40


@pytest.mark.parametrize("T", [0, 1, 7, 40])
def test_the_next_step_of_a_schedule_is_at_most_the_last(T):
    for when in (*map(schedule.Schedule, (1, 3, 7, 50)), schedule.Schedule(None, (2, 7, 50))):
        assert all(t < when.after(t, T) <= T for t in range(T))


def test_steps_at_the_end_and_none_at_all(run):
    assert [r["t"] for r in run(metrics=seen("a")).rows] == [40]
    assert [r["t"] for r in run(every=np.array([40]), metrics=seen("a")).rows] == [40]


def test_prequential_scores_are_means_since_their_last_row(run):
    """Against the scores of single steps."""
    single = [r["prequential-plugin"] for r in run(every=1, metrics=br.metrics.prequential()).rows]
    both = [br.metrics.prequential(every=[10, 25]), seen("a", every=5)]
    rows = [r for r in run(metrics=both).rows if "prequential-plugin" in r]
    means = [np.mean(single[a:b]) for a, b in ((0, 10), (10, 25), (25, 40))]
    assert [r["t"] for r in rows] == [10, 25, 40]
    np.testing.assert_allclose([r["prequential-plugin"] for r in rows], means, rtol=1e-14)


@pytest.mark.parametrize(
    ("every", "kind"),
    [([], InvalidValue), ([5, 5], InvalidValue), ([9, 3], InvalidValue), ([0, 3], InvalidValue),
     ("often", InvalidType), ({5}, InvalidType), (2.5, (InvalidValue, InvalidType)),
      ([1.5], (InvalidValue, InvalidType))],
)  # fmt: skip
def test_what_is_not_a_schedule_is_refused(run, every, kind):
    for call in (
        lambda: schedule.checked("every", every),
        lambda: run(every=every, metrics=seen("a")),
        lambda: br.metrics.on(X, Y, "rmse", every=every),
    ):
        with pytest.raises(kind, match="every"):
            call()


def test_times_of_steps_evaluation_and_compilation_are_apart(monkeypatch, run):
    """A clock of ours: steps take 1, a metric 10, compilation 100 in each of them."""
    from bongref import stream
    from bongref.recording import recorder

    now, compiled = [0.0], [0.0]
    monkeypatch.setattr(recorder.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(recorder, "compile_seconds", lambda: compiled[0])

    def pass_time(seconds):
        now[0] += seconds + 100.0
        compiled[0] += 100.0

    def slow(m, model, lik, state, rng):
        pass_time(10.0)
        return {}

    advance = stream.choose("reference", None).__class__.advance

    def slow_advance(self, *args):
        pass_time(1.0)
        return advance(self, *args)

    monkeypatch.setattr(stream.choose("reference", None).__class__, "advance", slow_advance)
    info = run(every=10, metrics=slow, backend="reference").info
    assert (info.seconds, info.evaluation, info.compilation) == (40.0, 40.0, 4400.0)


def test_densities_that_are_not_positive_are_counted_and_left_out():
    """Masses 0.8, 0, −0.1 and 0.5 of the observed class, by hand."""
    means = np.array([[[0.8, 0.2], [0.0, 1.0], [-0.1, 1.1], [0.5, 0.5]]])
    pred = br.predictive.Predictive("lin_mc", br.likelihoods.Categorical(), means, of_means=True)
    Y = [0, 0, 0, 0]
    assert br.metrics.nlpd(pred, Y) == np.inf
    assert br.metrics.nonpositive(pred, Y) == 0.5
    assert br.metrics.nlpd_positive(pred, Y) == pytest.approx(-np.log([0.8, 0.5]).mean(), rel=1e-14)
    none = br.predictive.Predictive("lin_mc", br.likelihoods.Categorical(), -means, of_means=True)
    assert np.isnan(br.metrics.nlpd_positive(none, [0, 1, 1, 0]))
