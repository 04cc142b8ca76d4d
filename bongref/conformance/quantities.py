"""What each level computes, in the order of computation, and the paper's equation behind it."""

from __future__ import annotations

# (rule, family) -> quantity -> the equation that computes it, in the order of computation
EQUATIONS: dict[tuple[str, str], dict[str, str]] = {
    ("bong", "fc"): {"Sigma": "eq:bong-FC-prec", "mu": "eq:bong-FC-mean"},
    ("blr", "fc"): {"Sigma": "eq:BLR-FC-Nat-prec", "mu": "eq:blr-FC-nat-mu"},
    ("bog", "fc"): {"Sigma": "eq:bog-FC-nat-prec", "mu": "eq:bog-FC-nat-mu"},
    ("bbb", "fc"): {"Sigma": "eq:bbb-FC-nat-prec", "mu": "eq:bbb-FC-nat-mu"},
    ("bong", "fc_mom"): {"mu": "eq:bong-FC-mom-mu", "Sigma": "eq:bong-FC-mom-cov"},
    ("blr", "fc_mom"): {"mu": "eq:blr-FC-mom-mu", "Sigma": "eq:blr-FC-mom-cov"},
    ("bog", "fc_mom"): {"mu": "eq:bog-fc-mom-mu", "Sigma": "eq:bog-fc-mom-cov"},
    ("bbb", "fc_mom"): {"mu": "bbb-FC-mom-mu", "Sigma": "bbb-FC-mom-cov"},
    ("bong", "diag"): {"var": "eq:bong-diag-prec2", "mu": "sec:diag-Nat#28"},
    ("blr", "diag"): {"var": "eq:blr-diag-prec", "mu": "eq:blr-diag-mu"},
    ("bog", "diag"): {"var": "eq:bog-diag-prec", "mu": "eq:bog-diag-mu"},
    ("bbb", "diag"): {"var": "eq:bbb-diag-prec", "mu": "eq:bbb-diag-mu"},
    ("bong", "diag_mom"): {"mu": "eq:bong-diag-mom-mu", "var": "eq:bong-diag-mom-var"},
    ("blr", "diag_mom"): {"mu": "eq:blr-diag-mom-mu", "var": "eq:blr-diag-mom-var"},
    ("bog", "diag_mom"): {"mu": "eq:bog-diag-mom-mu", "var": "eq:bog-diag-mom-var"},
    ("bbb", "diag_mom"): {"mu": "eq:bbb-diag-mom-mu", "var": "eq:bbb-diag-mom-var"},
    ("bong", "dlr"): {"mu": "eq:bong-dlr-mu", "W W^T": "eq:bong-dlr-W", "Ups": "eq:bong-dlr-Ups"},
    ("blr", "dlr"): {"mu": "sec:BLR-DLR#5", "W W^T": "eq:blr-dlr-W", "Ups": "eq:blr-dlr-Ups"},
    ("bog", "dlr"): {"mu": "eq:bog-dlr-mu", "Ups": "sec:DLR-deriv#31", "W W^T": "sec:DLR-deriv#32"},
    ("bbb", "dlr"): {"mu": "eq:bbb-dlr-mu", "Ups": "eq:bbb-dlr-Ups", "W W^T": "eq:bbb-dlr-W"},
}
ESTIMATES: dict[str, dict[str, str]] = {
    "mc-hess": {"g": "eq:gMC", "G": "eq:GMCH", "diag G": "eq:GMCH"},
    "mc-ef": {"g": "eq:gMC", "G": "eq:GMCEF", "diag G": "eq:GMCEF"},
    "lin-hess": {"g": "eq:gL", "G": "eq:GL", "diag G": "eq:GL"},
    "lin-ef": {"g": "eq:gL-cheap", "G": "eq:GLEF", "diag G": "eq:GLEF"},
}
PREDICT = {
    "mu": "sec:pseudocode#3",
    "Sigma": "sec:pseudocode#4",
    "var": "sec:pseudocode#4",
    "Ups": "sec:pseudocode#4",
    "W W^T": "sec:pseudocode#4",
}
PREDICTIVE = {"plugin": "sec:experiments", "mc": "sec:experiments", "lin_mc": "eq:hbar"}
