"""The loop over a stream: predict; for i in 1…I: estimate, step (algo:main, algo:update).

How the parts fit together (generic.py chooses the implementations by type):

    for t in first, …, stop − 1:
        predict(dynamics, state, work)               # q_{t|t-1}, in place
        if seen[t]:
            begin(rule, prior, state, work)          # blr, bbb: prior = a copy of state
            for i in range(n_iter):
                estimate(...)                        # g (P,), and diag G (P,) or rows (K, P)
                step(rule, prior, state, g, G, work) # q_{t,i}, in place on the arrays of state
            end(rule, prior, state, work)

* ``state`` and ``prior`` are NamedTuples of arrays of one type for each family, e.g. diag.State(mu,
  var), dlr.State(mu, Ups, Wt) with Wt = Wᵀ (R, P), row-major. ``state.mu`` exists in every family:
  it is where lin-* linearises.
* ``rule`` is a NamedTuple, one class for each rule and family (and form), whose first field is
  alpha: diag.DiagBong(alpha), …
* ``work`` is the family's workspace, a NamedTuple of buffers made by ``workspace(...)`` in its
  module. Steps allocate nothing of size P.
* Every part gives back a status (status.py). Whatever is not OK ends the time slice: the stream
  goes back to the state with which the slice began, takes the good steps again, and leaves the step
  to the reference. So a step may overwrite what it likes.
* families.py has what Python needs of a family: ``start(m, state, K, moving) -> (rule, prior,
  state, work)`` (arrays of its own, C-contiguous float64), ``finish`` (a copy of the state, at the
  end of a time slice; the arrays stay usable) and ``dynamics``.
"""

from __future__ import annotations

from typing import Any

from .generic import begin, end, estimate, predict, step
from .jit import kernel
from .status import OK


def steps(rule, est, dynamics, prior, state, work, X, Y, seen, n_iter, first, stop):
    """The steps first, …, stop − 1, in place on ``state``; -> status, step. Reference: run."""
    for t in range(first, stop):
        status = predict(dynamics, state, work)  # sec:pseudocode#1
        if status != OK:
            return status, t
        if not seen[t]:
            continue
        begin(rule, prior, state, work)
        for i in range(n_iter):  # sec:pseudocode#5
            status = estimate(est, rule, prior, state, X[t], Y[t], t, i, work)  # sec:pseudocode#10
            if status == OK:
                status = step(rule, prior, state, est.g, est.G, work)  # sec:pseudocode#11
            if status != OK:
                return status, t
        status = end(rule, prior, state, work)
        if status != OK:
            return status, t
    return OK, stop


compiled_steps: Any = kernel(steps)
