"""Where the rows of a task come from: a generator, a published data set or a user's file.

:mod:`.generated` draws data, :mod:`.published` reads data sets from a folder, :mod:`.download`
downloads them into it (datasets.json has their addresses), and :mod:`.files` reads a user's own
CSV, Parquet or npz file. Each returns a :class:`.raw.Raw`.

What is not here: the split, the standardisation and the model of a task (``experiments.tasks``).
"""
