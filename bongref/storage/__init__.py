"""The .npz format of saved states, results, filters and estimators.

    files.py          archives without pickles: reading, writing, what makes one invalid
    descriptions.py   methods, models, likelihoods, dynamics and generators as plain data

What is not here: ``save`` and ``load``, which are in ``checkpoints``; docs/files.md defines the
format.
"""
