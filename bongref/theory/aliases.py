"""Which names of the literature are methods of this package, number by number, and which are not.

>>> from bongref.theory.aliases import ALIASES, NOT_ALIASES
>>> ALIASES["lo-fi"].method, NOT_ALIASES["vogn"].quantity
('bong-lin-hess-dlr', 'var')
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Alias(NamedTuple):
    """A method of this package that is one of the literature's.

    Attributes
    ----------
    method : str
    params : dict
        The parameters that the name fixes.

    Examples
    --------
    >>> aliases()["cm-ekf"].method
    'bong-lin-hess-fc'
    """

    method: str
    params: dict[str, Any]


class NotAlias(NamedTuple):
    """A name that the paper has in a cell whose method gives other numbers.

    Attributes
    ----------
    cell : str
        The method that the cell of the table is.
    reason : str
        What differs.
    quantity : str
        The part of the state that the tests compare.
    gap : float
        The least relative difference that they find in it.

    Examples
    --------
    >>> NOT_ALIASES["vd-ekf"].cell
    'bong-lin-hess-diag'
    """

    cell: str
    reason: str
    quantity: str
    gap: float


ALIASES: dict[str, Alias] = {
    "rvga": Alias("bong-mc-hess-fc", {}),
    "cm-ekf": Alias("bong-lin-hess-fc", {}),
    "lo-fi": Alias("bong-lin-hess-dlr", {}),
}

NOT_ALIASES: dict[str, NotAlias] = {
    "vd-ekf": NotAlias(
        "bong-lin-hess-diag",
        "VD-EKF projects the EKF's posterior, so its mean is mu + K e with K = v H^T (R + H v "
        "H^T)^-1; bong-lin-hess-diag moves it by the new variances alone, v_t H^T R^-1 e. The "
        "variances are equal. The means are equal where H^T R^-1 H is diagonal, as with one "
        "parameter. Use bongref.theory.literature.vd_ekf",
        "mu",
        0.1,
    ),
    "von": NotAlias(
        "blr-mc-ef-diag",
        "VON is a batch method with the Hessian: bongref.theory.batch.diag with mc-hess and one "
        "sample, if its two step sizes are equal; the table has it in the mc-ef row, the text of "
        "sec:blr-batch in mc-hess. Use bongref.theory.batch.von",
        "var",
        0.05,
    ),
    "vogn": NotAlias(
        "blr-mc-ef-diag",
        "VOGN sums the squares of the gradients of single examples, mc-ef squares their sum, and "
        "it grows with N, not N^2: equal if there is one example. Use bongref.theory.batch.vogn",
        "var",
        0.05,
    ),
    "slang": NotAlias(
        "blr-mc-ef-dlr",
        "SLANG sums outer products over examples as VOGN does, and moves the mean after the "
        "projection: for one example the precision is equal, the mean only if nothing is cut "
        "off. Use bongref.theory.batch.slang",
        "mu",
        0.01,
    ),
    "bbb": NotAlias(
        "bbb-mc-ef-diag_mom",
        "Blundell et al. step in rho with sigma = log(1 + exp(rho)), by the gradient of a "
        "sampled loss through theta = mu + sigma eps, KL term included; bbb-*-diag_mom steps in "
        "sigma^2 with the exact KL and Price's theorem. Use bongref.theory.literature.bbb",
        "var",
        0.01,
    ),
}


def aliases() -> dict[str, Alias]:
    """The names of the literature under which a method of this package goes, number by number.

    Returns
    -------
    dict of str to Alias

    Examples
    --------
    >>> sorted(aliases())
    ['cm-ekf', 'lo-fi', 'rvga']
    """
    return dict(ALIASES)
