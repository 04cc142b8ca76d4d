"""The conformance kit: the vectors, and how any implementation is held against them.

On the command line ``bongref check my_adapter:Adapter``, in a test suite ``pytest --pyargs bongref.conformance --bongref-adapter
my_adapter:Adapter``, and in Python

>>> from bongref import conformance
>>> report = conformance.check(conformance.Reference, methods=["bong-lin-hess-diag"], levels=["L0"])
>>> report.ok
True

An adapter is a class with whichever of six methods the implementation can offer (:mod:`.adapter`); the rest is never a failure.
"""

from .adapter import Fast, Reference, load_adapter
from .runner import Outcome, Report, check
from .vectors import Case, load

__all__ = ["Case", "Fast", "Outcome", "Reference", "Report", "check", "load", "load_adapter"]
