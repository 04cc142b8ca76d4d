"""Which method to take, what it costs and cannot do, and what to try after a loss.

What is not here: the methods themselves (``grid`` and ``families``) and the loop that asks for
advice (``stream``).

>>> from bongref.guide import definiteness
>>> definiteness.keeps("bong-lin-hess-diag"), definiteness.keeps("bong-lin-hess-diag_mom")
(True, False)
"""
