"""The conformance kit: the vectors, and how an implementation is checked against them.

On the command line ``bongref check my_adapter:Adapter``, in a test suite ``pytest --pyargs
bongref.conformance --bongref-adapter my_adapter:Adapter``, and in Python

>>> from bongref import conformance
>>> report = conformance.check(conformance.Reference, methods=["bong-lin-hess-diag"], levels=["L0"])
>>> report.ok
True

An adapter is a class with some of seven methods (:mod:`.adapter`). Naming one runs its code.
What is not here: the updates themselves (``families``), and adapters of other implementations
(``validation/peers``).

====================  ============================================================================
:mod:`.vectors`       what a case is; reading and writing; :mod:`.flags`, :mod:`.quantities`
:mod:`.adapter`       the seven calls, bongref's own adapters, loading one by name
:mod:`.runner`        cases through an adapter; :mod:`.answers` reads and compares what it returns
:mod:`.reports`       the report as text, JSON, JUnit XML, HTML and Markdown
:mod:`.plugin`        the cases as tests of pytest
:mod:`.diagnosis`     the mistake behind a failure; :mod:`.mistakes`, :mod:`.edits` list them
:mod:`.pipeline`      every call in replaceable pieces; :mod:`.network` a network in such pieces
:mod:`.cases`         the cases from scratch (:mod:`.cases_more`); inputs from :mod:`.draws`, values
                      from :mod:`.values`
:mod:`.template`      an adapter to fill in
:mod:`.precise`       values to 50 digits; :mod:`.sensitivity` their tolerances
:mod:`.shipped`       what ``bongref vectors`` shows and rederives
====================  ============================================================================

What is not here: the equations (:mod:`bongref.families`, :mod:`bongref.curvature`), the comparison
of bongref's own routes (:mod:`bongref.routes`), and adapters of other implementations
(``validation/peers``).
"""

from .adapter import Fast, Reference, load_adapter
from .runner import Outcome, Report, check
from .vectors import Case, load

__all__ = ["Case", "Fast", "Outcome", "Reference", "Report", "check", "load", "load_adapter"]
