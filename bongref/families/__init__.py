"""The five Gaussian families, one module per derivation of the appendix.

A module reads top to bottom like its section: the parameters, the gradients, the Fisher matrix
where it is needed, then the steps ``bong``, ``blr``, ``bog`` and ``bbb``, then the efficient forms.
A step is a pure function ``(prior, current, curv, alpha) -> state``.

What is not here: networks (``models``), likelihoods (``likelihoods``), the estimators of g and G
(``curvature``), updates and streams (``filter``, ``stream``).
"""
