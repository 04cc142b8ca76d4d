"""What the paper says about the updates, computed: conjugacy, mirror descent, batch forms, costs.

``conjugate`` (with ``pairs``) is Proposition 4.1, ``mirror`` (with ``expectations``, ``newton`` and
``posteriors``) sec:MD-formulation, ``batch`` sec:blr-batch, ``literature`` the methods of other
papers as these define them, ``costs`` (with ``counting``) the operation counts, ``nist`` certified
regressions. All of it is compared with ``families`` and used by no stream.

What is not here: the paper's text itself (equations, errata, claims), which is in ``paper``.
"""
