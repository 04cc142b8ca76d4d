"""``bongref tune``: parameters of methods, chosen on a held-out part of the training rows.

:mod:`.space` reads the space of parameters, :mod:`.study` proposes trials and records them in an
Optuna storage, :mod:`.tune` computes them, :mod:`.best` reads the result for ``bongref run
--params``, and :mod:`.cli` is the command. docs/tuning.md has examples.

What is not here: how one run is computed (``experiments.execute``).
"""
