"""An edit of an equation in the letters of the paper, without names of bongref's own code.

>>> said("matches eq:blr-FC-nat-mu with `inv(current.Sigma)` instead of `prec0`")
'matches eq:blr-FC-nat-mu with `inv(current.Sigma)` instead of `Sigma0^-1`'
"""

from __future__ import annotations

import re
from collections.abc import Iterable

EDIT = re.compile(
    r"(\S+) with `([^`]*)` instead of `([^`]*)`"
    r"(?:, as [a-z_]+\.[a-z_0-9]+ has it)?(, with D = .* Ups\^-1 W)?"
)
PLACE = re.compile(r"(?:eqn?|sec|algo):|bbb-FC-mom-")
NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?:\.\w+)*")
PREDICTION = ("_predict_dlr", "_propagate", "matrices")  # in bongref.dynamics
WHERE_ELSE = {name: "the prediction" for name in PREDICTION}  # an edit outside of the equations
ONE_PLACE = "with one place changed (a sign, a term, a factor or a name)"

# what the code calls its intermediate results
WORDS = {
    "prec0": "Sigma0^-1",
    "prec": "Sigma^-1",
    "SGS": "Sigma @ G @ Sigma",
    "Sg": "Sigma @ g",
    "FSF": "F @ Sigma @ F.T",
    "curv.g": "g",
    "curv.S": "S",
    "Sigma_tilde": "Sigma~",
    "Ups_tilde": "Ups~",
    "W_tilde": "W~",
    "U_Lambda": "U Lambda",
    "US": "Ups^-1 S",
    "UW": "Ups^-1 W",
    "USW": "S.T Ups^-1 W",
    "BW": "B.T W",
    "diag_D": "diag(Sigma (Ups0 - Ups) Sigma)",
    "diag_0": "diag(Sigma W0 W0.T Sigma)",
    "diag_i": "diag(Sigma W W.T Sigma)",
    "diag_G": "diag(Sigma S S.T Sigma)",
    "D_W": "Sigma (Ups0 - Ups) Sigma W",
    "O_W": "Sigma W0 W0.T Sigma W",
    "I_W": "Sigma W W.T Sigma W",
    "G_W": "Sigma S S.T Sigma W",
    "one.J": "J",
    "one.score": "d log p/df",
    "delta": "(prior.mu - current.mu)",
}
# the same for names that mean something else elsewhere, by a part of the equation's id
HERE = {
    "diag-": {
        "v": "current.var",
        "v0": "prior.var",
        "m": "current.mu",
        "r": "(prior.mu - current.mu)",
        "prec": "var^-1",
        "prec0": "var0^-1",
    },
    "FC-": {
        "S": "current.Sigma",
        "r": "current.Sigma @ (g + Sigma0^-1 @ (prior.mu - current.mu))",
        "inner": "current.Sigma @ (G - Sigma0^-1) @ current.Sigma",
    },
    "bong-FC-": {"V": "(prior.Sigma @ S)"},
    "bbb-dlr-": {"SDS": "Sigma @ (Sigma0^-1 - Sigma^-1 - G) @ Sigma"},
}
CALLS = (
    (r"\b(?:dense|fisher)\(curv\)", "G"),
    (r"\bdiagonal\(curv\)", "diag(G)"),
    (r"\bfactor\(curv\)", "S"),
    (r"\b_pull\(prior, current, curv\)", "(Sigma0^-1 @ (prior.mu - current.mu) + g)"),
    (r"\bprec0?\.T\b", lambda found: found[0][:-2]),  # symmetric
    (r"\browdot\((\w+), (\w+)\)", r"diag(\1 @ \2.T)"),
    (r"\bgram\((\w+), ([\w.]+)\)", r"\1.T @ \2"),
    (r"\bnp\.(\w+)", r"\1"),
    (r"\[:, None\]", ""),
)
STATES = ("prior", "current", "q", "state")
PUBLIC = {
    *(f"{state}.{field}" for state in STATES for field in ("mu", "Sigma", "var", "Ups", "W")),
    *("alpha", "mu", "Sigma", "Sigma0", "var", "Ups", "Ups0", "W", "W0", "W0.T", "Lambda"),
    *("g", "G", "S", "J", "M", "B", "K", "U", "Ghat", "gamma", "psi1", "psi2"),
    *(
        "d",
        "log",
        "p",
        "df",
        "var0",
        "solve",
        "inv",
        "sqrt",
        "sym",
        "diag",
        "outer",
        "eye",
        "abs",
        "cholesky",
        "precision",
        "covariance",
    ),
    *STATES,
}
IN_PREDICTION = {"F", "Q", "b", "D", "V", "C"}  # which the sentence or the conventions define


def in_letters(code: str, place: str) -> str:
    """A piece of code in the letters of the paper; empty where it has a name that is not one."""
    for pattern, words in CALLS:
        code = re.sub(pattern, words, code)
    known = WORDS | {k: v for part in HERE if part in place for k, v in HERE[part].items()}
    code = NAME.sub(lambda found: _translated(found[0], known), code)
    public = PUBLIC | (
        IN_PREDICTION if place.startswith(("sec:pseudocode", *PREDICTION)) else set()
    )
    names = {re.sub(r"(?:\.T)+$", "", name) for name in NAME.findall(code)}
    return code if names <= public else ""


def _translated(name: str, known: dict[str, str]) -> str:
    stem = re.sub(r"(?:\.T)+$", "", name)
    return known[stem] + name[len(stem) :] if stem in known else name


def said(sentence: str) -> str:
    """A diagnosis without the names of functions and variables of bongref's own code."""
    return EDIT.sub(_edit, sentence)


def all_said(sentences: Iterable[str]) -> list[str]:
    """Diagnoses without these names, each once: two forms of an update may have the same slip."""
    return list(dict.fromkeys(map(said, sentences)))


def _edit(found: re.Match[str]) -> str:
    place, new, old = found[1], *(in_letters(found[k], found[1]) for k in (2, 3))
    if not PLACE.match(place):
        place = WHERE_ELSE.get(place, "the step")
    if not (new and old) or new == old:
        return f"{place} {ONE_PLACE}"
    return f"{place} with `{new}` instead of `{old}`{found[4] or ''}"
