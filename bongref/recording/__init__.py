"""What a stream records: results, rows of metrics and when they are due, checkpoints.

    results.py    Result, RunInfo, Continuation, and the checks of a result that comes in
    recorder.py   the rows, scores and checkpoints of a stream that runs
    schedule.py   the steps at which something is due

What is not here: the metrics (``metrics``), files (``checkpoints``) and the loop (``stream``).
"""
