"""``bongref report``: one page and its figures from a folder of results.

    from bongref.experiments.report import page

    made = page.make("results")            # the records, summarised and drawn
    page.write(made, "results/report")     # report.html, report.json, the figures

:mod:`.page` lays the page out, :mod:`.statistics` groups the runs and computes means and ranks,
:mod:`.calibration` computes the calibration curves, :mod:`.figures` says what each figure shows,
:mod:`.drawing` how a figure is drawn and saved, and :mod:`.cli` is the command.

What is not here: how runs are computed and stored (``experiments``), and the writers of documents
in general (``bongref.reports``).
"""
