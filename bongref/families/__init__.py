"""The five Gaussian families, one module per derivation of the appendix.

A module reads top to bottom like its section: the parameters, the gradients, the Fisher matrix
where it is needed, then the steps ``bong``, ``blr``, ``bog`` and ``bbb``, then the efficient forms.
A step is a pure function ``(prior, current, curv, alpha) -> state`` that knows no network, no
likelihood and no stream.

What is not here: those, which are in ``curvature``, ``filter`` and ``stream``.
"""
