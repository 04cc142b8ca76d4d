"""Which methods keep the covariance positive definite, and which of them stands in for another.

With G = −S Sᵀ (mc-ef, lin-hess, lin-ef) an update keeps it, in exact arithmetic and for every
allowed α, exactly where it adds a positive semi-definite matrix to the precision:

* bong and blr in fc, diag and dlr: Σ⁻¹ − G, and (1−α) Σ_i⁻¹ + α (Σ⁻¹ − G) with 0 < α ≤ 1; the
  projection of dlr adds squares to Υ;
* bog in dlr: Υ grows by α diag(ΣSSᵀΣ)/2, and W Wᵀ is semi-definite whatever W is.

In dlr this takes Υ > 0 in the prior, which ``m.prior`` gives and the updates keep. The moment
families subtract from the covariance, bog and bbb in natural parameters add terms of either sign
(Σgμᵀ), bbb in dlr may take Υ below 0, and mc-hess averages Hessians of any sign: all of these can
lose it, and tests/test_guide.py has a case for each.

>>> from bongref.guide.definiteness import keeps, safe_alternative
>>> import bongref as br
>>> len([name for name in br.methods() if keeps(name)])
21
>>> safe_alternative("bbb-mc-hess-diag_mom")
'blr-lin-hess-diag'
"""

from __future__ import annotations

NATURAL = {"fc": "fc", "fc_mom": "fc", "diag": "diag", "diag_mom": "diag", "dlr": "dlr"}


def keeps(name: str) -> bool:
    """Whether this method cannot lose positive definiteness (in exact arithmetic, Υ > 0 in dlr).

    Parameters
    ----------
    name : str
        One of the 78 names that the paper derives.

    Returns
    -------
    bool

    Examples
    --------
    >>> keeps("bog-lin-ef-dlr"), keeps("bog-lin-ef-diag")
    (True, False)
    """
    rule, how, kind, family = name.split("-")
    if (how, kind) == ("mc", "hess"):
        return False
    return (rule in ("bong", "blr") and family in ("fc", "diag", "dlr")) or (
        rule == "bog" and family == "dlr"
    )


def safe_alternative(name: str) -> str:
    """The method nearest to ``name`` that cannot lose positive definiteness; itself if it is one.

    It has a state of the same kind, so that the same prior (or the last good state) serves it: the
    natural-gradient rule in place of the gradient rule (bong for bog, blr for bbb), the natural
    parameters in place of the moments, the linearised Hessian in place of the sampled one.

    Parameters
    ----------
    name : str

    Returns
    -------
    str

    Examples
    --------
    >>> safe_alternative("bong-lin-hess-diag_mom"), safe_alternative("bog-mc-ef-fc")
    ('bong-lin-hess-diag', 'bong-mc-ef-fc')
    """
    if keeps(name):
        return name
    rule, how, kind, family = name.split("-")
    family = NATURAL[family]
    how = "lin" if (how, kind) == ("mc", "hess") else how
    same_rule = f"{rule}-{how}-{kind}-{family}"
    if keeps(same_rule):
        return same_rule
    natural = {"bog": "bong", "bbb": "blr"}[rule]
    return f"{natural}-{how}-{kind}-{family}"
