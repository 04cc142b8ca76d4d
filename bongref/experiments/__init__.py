"""Experiments: tasks, a grid of runs on one machine or a cluster, and results that survive a crash.

``bongref run`` fills a folder with results (:mod:`.cli`, :mod:`.sweep`), ``bongref tune`` searches
parameters (:mod:`.tuning`), ``bongref report`` makes a page of a folder (:mod:`.report`), and
``bongref data get`` downloads data sets (:mod:`.data`). A run is described by a
:class:`.specs.Spec`, computed by :func:`.execute.execute` in a worker (:mod:`.workers`), and kept
by :mod:`.store` as one line of JSON; :mod:`.records` says what is in a line.

What is not here: the filter of one stream (``stream``), the metrics (``metrics``) and the writers
of reports in general (``reports``).
"""
