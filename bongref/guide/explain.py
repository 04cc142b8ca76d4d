"""What a method does, what it costs, its equations, when to choose it and what it cannot do.

>>> import bongref as br
>>> e = br.explain("lo-fi")
>>> e.name, e.data["cost"]["stated"], e.data["keeps positive definiteness"]
('bong-lin-hess-dlr', 'O((R+C)^2 P)', True)
>>> br.explain("bong-mc-hess-dlr").data["derived"]
False
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from ..grid import NOT_DERIVED, PARAMETERS, Method, cost, method
from ..show import Block, html_blocks, text_blocks, time_text
from ..theory.aliases import ALIASES, NOT_ALIASES
from . import costs
from .definiteness import keeps, safe_alternative
from .facts import facts

SHOWN = ("update", "efficient form")  # kinds of equations that are listed one by one


@dataclass(frozen=True, repr=False)
class Explanation:
    """An explanation of a method, made by :func:`bongref.explain`.

    Attributes
    ----------
    name : str
        The method's name in the grid.
    data : dict
        All of it in plain types.
    """

    name: str
    data: dict[str, Any]

    def __repr__(self) -> str:
        return text_blocks(_blocks(self.data))

    def _repr_html_(self) -> str:
        return html_blocks(_blocks(self.data))


def explain(m: Method | str) -> Explanation:
    """What a method does, its costs and equations, when to choose it, and what it cannot do.

    Parameters
    ----------
    m : Method or str
        A method, one of the 80 names (the two that the paper does not derive too), or a name of the
        literature such as ``"lo-fi"``.

    Returns
    -------
    Explanation
        Text in a terminal, HTML in a notebook, and ``.data``, a dict.

    Raises
    ------
    InvalidValue, InvalidType
        If there is no such name; the message names the nearest.

    Examples
    --------
    >>> import bongref as br
    >>> e = explain("bog-lin-hess-dlr")
    >>> print(e.data["limits"][0])
    W = 0 is a fixed point: from a prior with W = 0 the low-rank part stays 0. m.prior(...) starts \
with a small random W.
    """
    if isinstance(m, str) and m.strip().lower() in NOT_DERIVED:
        name, params = m.strip().lower(), {}
    else:
        made = method(m)
        name, params = made.name, dict(made.params)
    return Explanation(name, _data(name, params))


def _data(name: str, params: dict[str, Any]) -> dict[str, Any]:
    rule, how, kind, family = name.split("-")
    parts = [("rules", rule), ("hessians", f"{how}-{kind}"), ("families", family)]
    own = [facts()[where][key] for where, key in parts]
    derived = name not in NOT_DERIVED
    return {
        "name": name,
        "derived": derived,
        "why not": NOT_DERIVED.get(name, ""),
        "what": [part["what"] for part in own],
        "cost": _cost(name, derived),
        "equations": _equations(name),
        "other names": _names(name),
        "choose": [part["choose"] for part in own] if derived else [],
        "limits": _limits(name, family) if derived else [],
        "keeps positive definiteness": derived and keeps(name),
        "alternative": "" if not derived or keeps(name) else safe_alternative(name),
        "parameters": _parameters(params),
    }


def _cost(name: str, derived: bool) -> dict[str, Any]:
    times = costs.table()["us of the benchmark"]
    return {
        "stated": cost(name) if derived else "",
        "measured us": times.get(name),
        "errata": [e.id for e in _errata(name) if e.kind == "wrong cost"],
    }


def _errata(name: str) -> list[Any]:
    """The errata that concern this method."""
    from ..paper import ERRATA, equations

    table, out = equations(), []
    for e in ERRATA:
        of_equations = tuple(g for w in (e.where, *e.also) if w in table for g in table[w].methods)
        if any(fnmatchcase(name, glob) for glob in (e.methods or of_equations)):
            out.append(e)
    return out


def _equations(name: str) -> list[dict[str, Any]]:
    from ..paper import equations

    return [
        {"id": e.id, "number": e.number, "kind": e.kind}
        for e in equations().values()
        if any(fnmatchcase(name, glob) for glob in e.methods)
    ]


def _names(name: str) -> list[dict[str, Any]]:
    same = [{"name": k, "same": True, "note": ""} for k, a in ALIASES.items() if a.method == name]
    near = [
        {"name": k, "same": False, "note": a.reason}
        for k, a in NOT_ALIASES.items()
        if a.cell == name
    ]
    return same + near


def _limits(name: str, family: str) -> list[str]:
    out = [x["text"] for x in facts()["limits"] if any(fnmatchcase(name, g) for g in x["methods"])]
    words = facts()["keeps"]
    kept = words["yes"] if keeps(name) else words["no"].format(alternative=safe_alternative(name))
    return [*out, kept, facts()["families"][family]["limit"]]


def _parameters(params: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"name": k, "value": v, "default": PARAMETERS[k][1], "meaning": facts()["parameters"][k]}
        for k, v in params.items()
    ]


# --- as text --------------------------------------------------------------------------------------


def _blocks(d: dict[str, Any]) -> list[Block]:
    out: list[Block] = [d["name"]]
    if not d["derived"]:
        return [*out, d["why not"], "Its parts:", d["what"]]
    out += ["What it does:", d["what"], "Cost of one observation:", _cost_lines(d["cost"])]
    out += ["Equations of the paper (bongref eq ID shows one):", _equation_table(d["equations"])]
    if d["other names"]:
        said = ["the same, number by number" if n["same"] else n["note"] for n in d["other names"]]
        names = [n["name"] for n in d["other names"]]
        out += [
            "In the literature:",
            (("name", "is it this method?"), list(zip(names, said, strict=True))),
        ]
    out += ["When to choose it:", d["choose"], "What it cannot do:", d["limits"]]
    if d["parameters"]:
        rows = [
            (p["name"], repr(p["value"]), repr(p["default"]), p["meaning"]) for p in d["parameters"]
        ]
        out += ["Parameters:", (("name", "value", "default", "meaning"), rows)]
    else:
        out.append("It has no parameters.")
    return out


def _cost_lines(c: dict[str, Any]) -> list[str]:
    out = [f"{c['stated']} as the paper states it"]
    if c["errata"]:
        out[0] += f"; see bongref errata {', '.join(c['errata'])}"
    if c["measured us"] is None:
        return [*out, "not measured: it has no compiled path"]
    where = costs.table()["machine"]
    each = time_text(1e-6 * c["measured us"])
    return [*out, f"{each} measured, MLP 21-20-20-1 (P = 881), default sizes, {where['cpu']}"]


def _equation_table(equations: list[dict[str, Any]]) -> Block:
    shown = [e for e in equations if e["kind"] in SHOWN]
    rows = [(e["id"], "-" if e["number"] is None else f"({e['number']})", e["kind"]) for e in shown]
    rest = len(equations) - len(shown)
    if rest:
        rows.append((f"and {rest} more", "", "definitions, gradients, steps of proofs, costs"))
    return (("id", "number", "kind"), rows)
