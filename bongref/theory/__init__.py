"""What the paper says about the updates, computed: Proposition 1, mirror descent, batch forms, the literature's methods, costs.

Everything here is checked against ``families`` and used by no stream; the paper's text itself (equations, errata, claims) is in ``paper``.
"""
