r"""LaTeX of one equation for readers: as Unicode text for a terminal, as a picture for a page.

>>> from bongref.paper import formula
>>> formula.plain(r"\boldsymbol{\mu}_{t} = \frac{1}{2} \mathbf{W}_{t|t-1}^\intercal")
'μ_t = ½ W_{t|t-1}ᵀ'
"""

from __future__ import annotations

import re

SYMBOLS = {
    **dict(
        zip(
            "alpha beta gamma delta epsilon eta theta kappa lambda".split(),
            "αβγδεηθκλ",
            strict=True,
        )
    ),
    **dict(zip("mu nu xi pi rho sigma tau phi chi psi omega".split(), "μνξπρστφχψω", strict=True)),
    **dict(
        zip(
            "Gamma Delta Theta Lambda Sigma Upsilon Phi Psi Omega".split(), "ΓΔΘΛΣΥΦΨΩ", strict=True
        )
    ),
    **dict(zip("nabla partial sum int prod infty ell".split(), "∇∂Σ∫∏∞ℓ", strict=True)),
    **dict(zip("approx propto sim leq geq neq equiv pm times".split(), "≈∝~≤≥≠≡±×", strict=True)),
    **dict(zip("otimes odot in to rightarrow mapsto cdot gg ll".split(), "⊗⊙∈→→↦·≫≪", strict=True)),
    **dict(
        zip("varepsilon triangleq preceq succeq dots ldots cdots".split(), "ε≜≼≽………", strict=True)
    ),
    **{w: f"{w} " for w in "log exp min max arg det lim".split()},
    **{
        "vert": "|",
        "mid": "|",
        "intercal": "ᵀ",
        "top": "ᵀ",
        "lVert": "‖",
        "rVert": "‖",
        "Vert": "‖",
    },
    **{
        "quad": "  ",
        "qquad": "   ",
        "Pr": "Pr",
        "prime": "′",
        "circ": "∘",
        "langle": "⟨",
        "rangle": "⟩",
    },
}
ACCENTS = {
    "hat": "\u0302",
    "widehat": "\u0302",
    "bar": "\u0304",
    "overline": "\u0304",
    "tilde": "\u0303",
}
WRAPPERS = "boldsymbol|mathbf|mathrm|mathcal|mathbb|mathsf|text|operatorname|textrm|underbrace|mbox"
RAISED = str.maketrans("0123456789+-()ᵀ", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ᵀ")
INNER = r"\{([^{}]*)\}"  # a group without groups in it


def plain(latex: str) -> str:
    """LaTeX as one line of Unicode text: ``μ_t = μ_{t|t-1} + K_t (y_t − ŷ_t)``."""
    text = re.sub(r"\\begin\{array\}\{[^}]*\}", "[", latex).replace(r"\end{array}", "]")
    text = text.replace(r"\\", ";").replace("&", " ").replace(r"\_", "_")
    text = re.sub(
        r"\\(?:left|right|big|Big|bigg|Bigg|displaystyle|limits)(?![A-Za-z])\s*\.?", "", text
    )
    text = re.sub(r"\\[,;:! ]", " ", text).replace(r"\{", "⦃").replace(r"\}", "⦄")
    text = re.sub(r"\\([A-Za-z]+)", lambda m: SYMBOLS.get(m[1], m[0]), text)
    text = re.sub(r"(?<=[A-Za-z}])\s+\{", "{", text)
    before = ""
    while text != before:
        before = text
        text = _innermost(text)
    text = re.sub(r"⟦(.)⟧", r"\1", text.replace("{", "").replace("}", ""))
    text = text.translate(str.maketrans("⟦⟧⦃⦄ˆ", "{}{}^"))
    text = re.sub(r"\s+([)\],;])", r"\1", re.sub(r"([(\[])\s+", r"\1", text))
    text = re.sub(r" =(?=\S)", " = ", text.replace("| ", "|"))
    return re.sub(r"\s+", " ", text).strip()


def _innermost(text: str) -> str:
    """One pass over the groups that hold no others; subscripts keep theirs, as ⟦ ⟧."""
    text = re.sub(rf"\\(?:{WRAPPERS})\s*(?:{INNER}|([^\s{{]))", lambda m: m[1] or m[2] or "", text)
    text = re.sub(rf"\\({'|'.join(ACCENTS)})\s*(?:{INNER}|([^\s{{]))", _accent, text)
    text = re.sub(rf"\\[td]?frac\s*{INNER}\s*{INNER}", _fraction, text)
    text = re.sub(r"\\[td]?frac\s*(\d)\s*(\d)", _fraction, text)
    text = re.sub(rf"\\sqrt\s*{INNER}", lambda m: f"√{_group(m[1])}", text)
    text = re.sub(
        rf"\\(?:underset|overset)\s*{INNER}\s*{INNER}",
        lambda m: f"{m[2].strip()}_⟦{m[1]}⟧" if m[1] else m[2].strip(),
        text,
    )
    text = re.sub(rf"\^\s*(?:{INNER}|([^\s{{]))", _power, text)
    text = re.sub(rf"_\s*{INNER}", lambda m: f"_⟦{m[1].strip()}⟧", text)
    return re.sub(rf"(?<![_^}}A-Za-z]){INNER}", r"\1", text)


def _accent(m: re.Match[str]) -> str:
    inner = (m[2] or m[3] or "").strip()
    return inner + ACCENTS[m[1]] if len(inner) == 1 else f"{m[1].removeprefix('wide')}({inner})"


def _fraction(m: re.Match[str]) -> str:
    over, under = m[1].strip(), m[2].strip()
    return "½" if (over, under) == ("1", "2") else f"{_group(over)}/{_group(under)} "


def _group(inner: str) -> str:
    inner = inner.strip()
    return inner if re.fullmatch(r"\w|\d+", inner) else f"({inner})"


def _power(m: re.Match[str]) -> str:
    inner = (m[1] if m[1] is not None else m[2]).strip()
    raised = inner.translate(RAISED)
    return raised if re.fullmatch("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ᵀ]*", raised) else f"ˆ⟦{inner}⟧"


def svg(latex: str, size: float = 15.0) -> str:
    """A picture of the formula for HTML; empty without matplotlib or where it cannot parse it.

    The picture takes the colour of the text around it.
    """
    try:
        from matplotlib.path import Path
        from matplotlib.textpath import TextPath
        from matplotlib.transforms import Affine2D
    except ImportError:
        return ""
    try:
        upright = TextPath((0, 0), f"${_for_mathtext(latex)}$", size=size)
    except ValueError:  # what mathtext does not know
        return ""
    path = upright.transformed(Affine2D().scale(1, -1))
    letters = {Path.MOVETO: "M", Path.LINETO: "L", Path.CURVE3: "Q", Path.CURVE4: "C"}
    steps = []
    for points, code in path.iter_segments(simplify=False):
        at = " ".join(f"{v:.2f}" for v in points)
        steps.append("Z" if code == Path.CLOSEPOLY else letters[code] + at)
    box = path.get_extents()
    width, height = box.width + 4, box.height + 4
    view = f"{box.x0 - 2:.1f} {box.y0 - 2:.1f} {width:.1f} {height:.1f}"
    shape = f'viewBox="{view}" width="{width:.0f}" height="{height:.0f}" fill="currentColor"'
    return f'<svg {shape} role="img"><path d="{"".join(steps)}"/></svg>'


def _for_mathtext(latex: str) -> str:
    """The few words that mathtext has under another name."""
    text = re.sub(r"\\[td]frac", r"\\frac", latex).replace(r"\mathbb{KL}", r"\mathrm{KL}")
    if "&" not in text:  # a sum that the paper breaks into lines: one line here
        text = re.sub(r"\\(?:begin\{array\}\{\w*\}|end\{array\}|\\)", " ", text)
    return text.replace(r"\arg\min", r"\mathrm{arg\,min}").replace(r"\vert", "|")
