r"""Make `equations.json` and `paper.json` of `bongref/paper` from the paper's LaTeX.

    python validation/ledger_from_tex.py PATH_TO_TEX

equations.json: one entry per displayed row (rows ending in \nonumber belong to the row that
follows), in the order of the paper. A row without a label is named `sec:NAME#n`: the n-th row,
labelled or not, of the nearest labelled section.

paper.json: which LaTeX source the line numbers belong to, and the paper's sections, propositions,
tables and algorithms.

The numbers are those that the PDF prints, by the rules of the document class: `article` numbers
equations, tables and algorithms through, sections 1 to 6 and, after \appendix, A to E;
`\newtheorem{theorem}{Theorem}[section]` numbers propositions within sections. Every row of an
unstarred environment without \nonumber has a number. `validation/printed_numbers.py` checks them
against a run of LaTeX itself.
"""

from __future__ import annotations

import bisect
import hashlib
import json
import re
import sys
from collections import Counter
from pathlib import Path

OUT = Path(__file__).resolve().parents[1] / "bongref" / "paper"

# sections whose displayed rows enter the ledger, by the label of their \section
IN_SCOPE = {
    "sec:intro",
    "sec:background",
    "sec:methods",
    "sec:pseudocode",
    "sec:proofs",
    "sec:MD-formulation",
    "sec:derivations",
}

# names for the unlabelled sections that are a topic of their own
OWN_NAME = {
    "Methods": "sec:methods",
    "Variational case": "sec:variational",
    "Diagonal Gaussian, Moment parameters": "sec:diag-Mom",
    "SARCOS dataset": "sec:sarcos",
}
TITLE = {"sec:proofs": "Proof of Propositions 4.1 and 4.2"}

# what MathJax and KaTeX lack, or what reads better than the paper's own definition
OVERRIDE = {
    "expectQ": (2, r"\mathbb{E}_{#2}\left[#1\right]"),
    "expect": (1, r"\mathbb{E}\left[#1\right]"),
    "var": (1, r"\mathbb{V}\left[#1\right]"),
    "KLpq": (2, r"D_{\mathbb{KL}}\left(#1 \,|\, #2\right)"),
    "bm": (1, r"\boldsymbol{#1}"),
    "textsc": (1, r"\text{#1}"),
    "un": (0, r"\_"),
    "xspace": (0, ""),
    "1": (0, r"\boldsymbol{1}"),
}

# --------------------------------------------------------------------------- reading LaTeX


def closing(text: str, start: int) -> int:
    """Position of the brace that closes the one at `start`."""
    depth = 0
    i = start
    while i < len(text):
        if text[i] == "\\":
            i += 2
            continue
        depth += (text[i] == "{") - (text[i] == "}")
        if depth == 0:
            return i
        i += 1
    raise ValueError(f"unbalanced brace at {start}")


def blank(text: str, start: int, end: int) -> str:
    """Replace text[start:end] by spaces, keeping the line breaks."""
    return text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]


def displayed(text: str) -> str:
    r"""The text without comments and without the bodies of \eat{...}; lines keep their numbers."""
    text = re.sub(r"(?<!\\)%[^\n]*", lambda m: " " * len(m.group()), text)
    while m := re.search(r"\\eat\s*\{", text):
        text = blank(text, m.start(), closing(text, m.end() - 1) + 1)
    return text


def macros(text: str) -> dict[str, tuple[int, str]]:
    r"""The paper's \newcommand and \def: name -> (number of arguments, body)."""
    found: dict[str, tuple[int, str]] = {}
    for m in re.finditer(r"\\newcommand\{\\(\w+)\}(?:\[(\d)\])?\{|\\def\\(\w+)\{", text):
        body = text[m.end() : closing(text, m.end() - 1)]
        name = m.group(1) or m.group(3)
        if name.startswith("old") or "@" in body:
            continue
        if re.fullmatch(r"\{.*\}", body) and closing(body, 0) == len(body) - 1:
            body = body[1:-1]
        found[name] = (int(m.group(2) or 0), body)
    found.pop("eat", None)
    found.pop("algorithmfootnote", None)
    return found | OVERRIDE


def expand(tex: str, table: dict[str, tuple[int, str]]) -> str:
    """The LaTeX with every macro of the table replaced by its body, until none is left."""
    out = ""
    while m := re.search(r"\\([A-Za-z]+|1)", tex):
        head, tex = tex[: m.start()], tex[m.end() :]
        out += head
        if m.group(1) not in table:
            out += m.group()
            continue
        n, body = table[m.group(1)]
        args = []
        for _ in range(n):
            tex = tex.lstrip()
            end = closing(tex, 0)
            args.append(tex[1:end].strip())
            tex = tex[end + 1 :]
        for k, arg in enumerate(args, 1):
            body = body.replace(f"#{k}", arg)
        if re.search(r"\\[A-Za-z]+$", out) and body[:1].isalpha():
            out += " "
        tex = body + tex
    return out + tex


def tidy(tex: str) -> str:
    """Whitespace collapsed and redundant spacing and groups removed."""
    tex = re.sub(r"\\(?:nonumber|notag)\b", " ", tex)
    tex = re.sub(r"\\label\{[^}]*\}", " ", tex)
    tex = re.sub(
        r"([_^]?)\{\\rm\s+(\w+)\}",
        lambda m: m[1] + (rf"{{\mathrm{{{m[2]}}}}}" if m[1] else rf"\mathrm{{{m[2]}}}"),
        tex,
    )
    tex = tex.replace(r"\!", "")
    tex = re.sub(r"\\text\{([^{}]*)\}", lambda m: rf"\text{{{m.group(1).strip()}}}", tex)
    tex = re.sub(r"\s+", " ", tex).strip()
    return re.sub(r"\{\s+|\s+\}", lambda m: m.group().strip(), tex)


def split_top(tex: str, token: str) -> list[tuple[int, str]]:
    r"""Split at `token` (\\ or &) outside braces and nested environments; (offset, piece) pairs."""
    pieces, start, depth, i = [], 0, 0, 0
    while i < len(tex):
        if tex.startswith(r"\begin{", i):
            depth += 1
            i += 7
            depth += 1  # the brace just passed
        elif tex.startswith(r"\end{", i):
            depth -= 1
            i += 5
            depth += 1
        elif depth == 0 and tex.startswith(token, i):
            pieces.append((start, tex[start:i]))
            i += len(token)
            start = i
        elif tex[i] == "\\":
            i += 2
        else:
            depth += (tex[i] == "{") - (tex[i] == "}")
            i += 1
    pieces.append((start, tex[start:]))
    return pieces


def joined(row: str) -> str:
    r"""One row without its alignment marks; equations side by side are kept apart by \qquad."""
    fields = [piece.strip() for _, piece in split_top(row, "&")]
    out = " ".join(fields[:2])
    for left, right in zip(fields[2::2], [*fields[3::2], ""], strict=False):
        spaced = left.startswith(r"\q") or out.endswith(r"\quad") or not left
        out += (" " if spaced else r" \qquad ") + left + " " + right
    return out


def rows(body: str) -> list[tuple[int, str, str]]:
    r"""(offset, label, LaTeX) of the rows of one environment, \nonumber rows joined with the
    next.
    """
    out = []
    begin, label, parts = -1, "", []
    for offset, piece in split_top(body, r"\\"):
        if not piece.strip():
            continue
        if begin < 0:
            begin = offset + len(piece) - len(piece.lstrip())
        if m := re.search(r"\\label\{([^}]*)\}", piece):
            label = m.group(1)
        text = joined(re.sub(r"\\label\{[^}]*\}", " ", piece))
        if parts:
            text = re.sub(r"^(\s*\\(?:q?quad|enskip)(?![a-zA-Z]))+", "", text)
        parts.append(text)
        if re.search(r"\\(?:nonumber|notag)\b", piece):
            continue
        out.append((begin, label, " ".join(parts)))
        begin, label, parts = -1, "", []
    assert not parts, body
    return out


# --------------------------------------------------------------------------- what a row is

T = r"\{?t(?:,i)?\}?"
NEW = re.compile(
    rf"(?:\\tilde\{{)?\\boldsymbol\{{\\(?:psi|mu|Sigma|sigma|Upsilon)\}}\}}?"
    rf"_(?:{T}|\{{?i\}}?)(?:\^.{{0,24}})?\s*=|"
    rf"(?:\\tilde\{{)?\\mathbf\{{W\}}\}}?_(?:{T}|\{{?i\}}?)\s*=|"
    rf"\\boldsymbol\{{\\psi\}}_\{{(?:t,0|t\|t-1)\}}\s*=|"
    r"\\left\(\s*\\mathbf\{U\}"
)
EFFICIENT = re.compile(r"\\mathbf\{[KB]\}_\{?t(?:,i)?\}?\s*=")
GRADIENT = re.compile(
    r"\\nabla|\\mathbf\{F\}(?:_\{\\|\s*=\s*\\left)|"
    r"(?:\\bar\{)?\(?(?:\\hat\{)?(?:\\bar\{)?\\(?:mathbf\{G\}|boldsymbol\{g\})"
)

# kinds that the patterns above do not see; a row goes by its position in its section
KIND = {
    "definition": """sec:pseudocode#20 sec:DLR-deriv#11
        sec:FC-Mom#6 sec:FC-Mom#8 sec:FC-Mom#11 sec:diag-Mom#6 sec:diag-Mom#8 sec:diag-Mom#11""",
    "gradient": """sec:EF#3 sec:derivations#9 sec:derivations#11
        sec:FC-Mom#7 sec:FC-Mom#10 sec:FC-Mom#15 sec:diag-Mom#7 sec:diag-Mom#10 sec:diag-Mom#13""",
    "update": """sec:pseudocode#3 sec:pseudocode#4 sec:proofs#4
        sec:MD-formulation#4 sec:MD-formulation#8""",
    "efficient form": """sec:linearized#11 sec:linearized#12
        sec:FC-Nat-bong#5 sec:FC-Nat-bong#6 sec:FC-Nat-bong#8 sec:FC-Nat-bong#9
        sec:lbong-fc#3 sec:lbong-fc#4
        sec:DLR-deriv#20 sec:DLR-deriv#24 sec:DLR-deriv#33 sec:DLR-deriv#34
        sec:DLR-deriv#37 sec:DLR-deriv#38
        sec:BLR-DLR#6 sec:LBLR-DLR#1 sec:bbb-dlr#4 sec:bbb-dlr#5 sec:bbb-dlr#6""",
    "proof step": """sec:MD-formulation#6""",
}
EXCEPTION = {place: kind for kind, places in KIND.items() for place in places.split()}


def kind_of(place: str, latex: str) -> str:
    """The kind of a row; `place` is its position `scope#n`, which labelled rows have too."""
    if place in EXCEPTION:
        return EXCEPTION[place]
    if place.startswith("sec:proofs"):
        return "proof step"
    if latex.startswith("="):
        return "proof step"
    if EFFICIENT.match(latex):
        return "efficient form"
    if NEW.match(latex):
        return "update"
    if re.match(r"\\nabla\S*\s*\\ell", latex):
        return "proof step"
    if GRADIENT.match(latex):
        return "gradient"
    return "definition"


FAMILY = {
    "sec:FC-Nat": "fc",
    "sec:FC-Mom": "fc_mom",
    "sec:diag-Nat": "diag",
    "sec:diag-Mom": "diag_mom",
    "sec:DLR-deriv": "dlr",
}
ALGORITHM = {
    "algo:main": "*",
    "algo:predict": "*",
    "algo:update": "*",
    "algo:mc-hess-est": "*-mc-hess-*",
    "algo:mc-ef-est": "*-mc-ef-*",
    "algo:lin-hess-est": "*-lin-hess-*",
    "algo:lin-ef-est": "*-lin-ef-*",
}

# rows outside the per-method subsections, by position: the methods that use them
METHODS = {
    "bong-*": "sec:intro#3",
    "bong-*-fc bong-*-diag bong-*-dlr": "sec:methods#1 sec:variants#1",
    "bog-*": "sec:variants#2",
    "blr-*": "sec:variants#3",
    "blr-*-fc blr-*-diag blr-*-dlr": "sec:variants#4",
    "bbb-*": "sec:variants#5",
    "blr-* bbb-*": "sec:intro#2",
    "bong-*-fc": "sec:variational#2 sec:variational#3",
    "*-fc *-fc_mom": "sec:variational#1",
    "*-mc-*": "sec:MC#1",
    "*-mc-hess-*": "sec:MC#2",
    "*-mc-ef-*": "sec:EF#1",
    "*-lin-*": "sec:linearized#2 sec:linearized#3 sec:linearized#4 sec:linearized#5 "
    "sec:linearized#6 sec:linearized#7 sec:linearized#8",
    "*-lin-hess-*": "sec:linearized#9 sec:linearized#10",
    "*-lin-ef-*": "sec:EF#2 sec:EF#3 sec:EF#4",
    "bong-lin-hess-fc": "sec:linearized#11 sec:linearized#12 sec:linearized#13",
    "*": "sec:linearized#1 sec:derivations#8 sec:derivations#9 sec:derivations#10 "
    "sec:derivations#11",
    "*-diag *-diag_mom": "sec:derivations#12",
    "bong-lin-hess-* bog-lin-hess-*": "sec:derivations#13 sec:derivations#14",
    "blr-lin-* bbb-lin-*": "sec:derivations#15 sec:derivations#17",
    "blr-lin-hess-* bbb-lin-hess-*": "sec:derivations#16 sec:derivations#18 sec:derivations#19 "
    "sec:derivations#20 sec:derivations#21",
}
USED_BY = {place: globs.split() for globs, places in METHODS.items() for place in places.split()}

# rows of a per-method subsection that hold for one empirical Fisher only
ONE_EF = {f"sec:FC-Nat-bong#{n}": "mc-ef" if n < 8 else "lin-ef" for n in range(5, 11)}

# efficient forms of bog and bbb in DLR; the text carries them over from mc-ef to lin-ef
EF_DLR = {
    "eq:bog-dlr-Ups",
    "eq:bog-dlr-W",
    "eq:bog-dlr-B",
    "eq:bbb-dlr-diagSigGSig",
    "eq:bbb-dlr-SigGSigW",
    "eq:bbb-dlr-B",
}

# rules that use a gradient, by the end of its label
GRADIENT_OF = {
    "NLL-rho": ("bong", "blr"),
    "KL-rho": ("blr",),
    "NLL-psi": ("bog", "bbb"),
    "KL-psi": ("bbb",),
    "NLL-Ups": ("bog", "bbb"),
    "NLL-W": ("bog", "bbb"),
    "KL-mu": ("blr", "bbb"),
    "KL-Sigma": ("blr", "bbb"),
    "KL-Ups": ("bbb",),
    "KL-W": ("bbb",),
    "mom-Fisher": ("bong", "blr"),
}


def methods_of(id: str, place: str, subsection: str, subsub: str, algorithm: str) -> list[str]:
    """The methods, as globs over their names, to which a row applies; empty where the question has
    no sense.
    """
    if algorithm:
        return [ALGORITHM[algorithm]]
    if place in USED_BY:
        return USED_BY[place]
    if subsection not in FAMILY:
        return []
    family = FAMILY[subsection]
    if not subsub:
        for end, rules in GRADIENT_OF.items():
            if re.search(rf"{end}\d?$", id):
                return [f"{rule}-*-{family}" for rule in rules]
        if family == "dlr" and place.split("#")[1] in ("11", "12", "13", "14"):
            return ["bong-*-dlr", "blr-*-dlr"]
        return [f"*-{family}"]
    rule = re.split(r"[ -]", subsub)[0].lower()
    if "LIN-HESS" in subsub:
        return [f"{rule}-lin-hess-{family}"]
    hessians = ["mc-hess", "mc-ef", "lin-ef"]
    if family == "dlr" and (rule in ("bong", "blr") or id in EF_DLR):
        hessians.remove("mc-hess")
    if place in ONE_EF:
        hessians = [ONE_EF[place]]
    return [f"{rule}-{hess}-{family}" for hess in hessians]


# --------------------------------------------------------------------------- the walk


def plain(title: str, table: dict[str, tuple[int, str]]) -> str:
    """A section title as plain text: small capitals become capitals."""
    title = re.sub(r"\\label\{[^}]*\}", "", title)
    title = expand(title, {**table, "textsc": (1, r"\text{#1}")})
    title = re.sub(r"\\text\{([^{}]*)\}", lambda m: m.group(1).upper(), title)
    return re.sub(r"\s+", " ", title).strip()


def body(tex: str) -> str:
    """What is displayed from the abstract on; positions and lines are those of the source."""
    text = displayed(tex)
    return blank(text, 0, text.index(r"\begin{abstract}"))


class Lines:
    """Line numbers of positions in a text."""

    def __init__(self, text: str) -> None:
        self.newlines = [i for i, c in enumerate(text) if c == "\n"]

    def __call__(self, pos: int) -> int:
        return bisect.bisect_left(self.newlines, pos) + 1


def ledger(tex: str) -> list[dict]:
    """Every entry of equations.json, in the order of the paper."""
    table = macros(tex)
    text = body(tex)
    line, number = Lines(text), 0

    pattern = re.compile(
        r"\\(?P<sec>(?:sub){0,2}section)\*?\{|"
        r"\\begin\{(?P<env>align|alignat|equation|gather|multline|eqnarray)(?P<star>\*?)\}"
        r"(?:\{\d\})?|"
        r"\\begin\{algorithm\}"
    )
    level = {"section": 0, "subsection": 1, "subsubsection": 2}
    titles: list[str] = ["", "", ""]
    scopes: list[str] = ["", "", ""]
    counts: Counter[str] = Counter()
    entries: list[dict] = []
    pos = 0
    while m := pattern.search(text, pos):
        if m.group("sec"):
            end, depth = closing(text, m.end() - 1), level[m.group("sec")]
            scope, title = heading(text, m.end(), end, table)
            titles[depth:] = [TITLE.get(scope, title)] + [""] * (2 - depth)
            scopes[depth:] = [scope] + [""] * (2 - depth)
            pos = end + 1
            continue
        if m.group("env"):
            stop = rf"\end{{{m.group('env')}{m.group('star')}}}"
            end = text.index(stop, m.end())
            found = rows(text[m.end() : end])
            algorithm, starred = "", bool(m.group("star"))
        else:
            stop = r"\end{algorithm}"
            end = text.index(stop, m.end())
            found, algorithm = pseudocode(text[m.end() : end])
            starred = True
        first, number = number + 1, number + (0 if starred else len(found))
        if scopes[0] in IN_SCOPE:
            scope = next(s for s in reversed(scopes) if s)
            for k, (offset, label, row) in enumerate(found):
                counts[scope] += 1
                place = f"{scope}#{counts[scope]}"
                latex = tidy(expand(row, table))
                id = label or place
                entry = {
                    "id": id,
                    "latex": latex,
                    "section": " / ".join(t for t in titles if t),
                    "scope": scope,
                    "kind": kind_of(place, latex),
                    "methods": methods_of(id, place, scopes[1], titles[2], algorithm),
                    "line": line(m.end() + offset),
                }
                if not starred:
                    entry["number"] = first + k
                if algorithm:
                    entry["algorithm"] = algorithm
                entries.append(entry)
        pos = end + len(stop)
    return entries


def heading(text: str, start: int, end: int, table: dict[str, tuple[int, str]]) -> tuple[str, str]:
    """(label, title) of the section whose title is text[start:end]."""
    raw = text[start:end]
    tag = re.search(r"\\label\{([^}]*)\}", raw) or re.match(
        r"\s*\\label\{([^}]*)\}", text[end + 1 :]
    )
    title = plain(raw, table)
    return tag.group(1) if tag else OWN_NAME.get(title, ""), title


def appendix(tex: str) -> int:
    r"""Where the appendix begins: the first file that is read after \appendix."""
    first = re.search(r"\\appendix\s*\\input\{([^}]*)\}", tex)
    assert first
    return tex.index(f"%% file: {first.group(1)}.tex")


def places(tex: str) -> list[dict]:
    """The sections, propositions, tables and algorithms with the numbers that are printed, in the
    order of the paper.
    """
    table, text, start = macros(tex), body(tex), appendix(tex)
    line, out, equations = Lines(text), [], ledger(tex)
    level = {"section": 0, "subsection": 1, "subsubsection": 2}
    section, counts = [0, 0, 0], Counter()
    for m in re.finditer(
        r"\\(?P<sec>(?:sub){0,2}section)\{|"
        r"\\begin\{(?P<env>proposition|table|wraptable|algorithm)\}",
        text,
    ):
        if m.group("sec"):
            depth = level[m.group("sec")]
            section[depth:] = [section[depth] + 1] + [0] * (2 - depth)
            if depth == 0:
                counts["proposition"] = 0
                if m.start() > start > out[-1]["position"]:
                    section[0] = 1
            letter = chr(64 + section[0]) if m.start() > start else str(section[0])
            number = ".".join([letter, *map(str, section[1 : depth + 1])])
            id, title = heading(text, m.end(), closing(text, m.end() - 1), table)
            entry = {"kind": "section", "number": number, "id": id, "title": TITLE.get(id, title)}
        else:
            kind = m.group("env").removeprefix("wrap")
            counts[kind] += 1
            number = f"{section[0]}.{counts[kind]}" if kind == "proposition" else str(counts[kind])
            inner = text[m.end() : text.index(rf"\end{{{m.group('env')}}}", m.end())]
            label = re.search(r"\\label\{((?!eq)[^}]*)\}", inner)
            entry = {
                "kind": kind,
                "number": number,
                "id": label.group(1),
                "title": title_of(kind, inner, table),
            }
            if kind == "proposition":
                end = line(m.end() + len(inner))
                entry["equations"] = [
                    e["id"] for e in equations if line(m.start()) <= e["line"] <= end
                ]
            elif kind == "table":
                entry["equations"] = list(dict.fromkeys(re.findall(r"\\eqref\{(eq[^}]*)\}", inner)))
        out.append({**entry, "line": line(m.start()), "position": m.start()})
    return [{k: v for k, v in entry.items() if k != "position" and v} for entry in out]


def title_of(kind: str, inner: str, table: dict[str, tuple[int, str]]) -> str:
    """The caption of a float, its first sentence; the text of a proposition without its displayed
    equations.
    """
    if kind == "proposition":
        inner = re.sub(r"(?s)\\begin\{(align|equation)\}.*?\\end\{\1\}", r"\\ldots ", inner)
        inner = re.sub(r"\\cref\{([^}]*)\}", r"\1", inner)
        return tidy(expand(inner, table)).rstrip(" .") + "."
    start = re.search(r"\\caption\{", inner).end() - 1
    caption = plain(inner[start + 1 : closing(inner, start)], table)
    return caption.split(". ")[0].rstrip(".") + "."


def paper(tex: str) -> dict:
    """paper.json: the source of the line numbers, and the numbered places."""
    source = {
        "file": "bong-paper.tex",
        "sha256": hashlib.sha256(tex.encode()).hexdigest(),
        "lines": tex.count("\n"),
    }
    return {"source": source, "places": places(tex)}


def pseudocode(body: str) -> tuple[list[tuple[int, str, str]], str]:
    """The lines of one algorithm that define something, and the algorithm's label."""
    label = re.search(r"\\label\{([^}]*)\}", body)
    assert label
    out = []
    for m in re.finditer(r"(?P<skip>Return\s*|\\For\{)?\$(?P<math>[^$]*)\$", body):
        math = m.group("math").strip()
        if m.group("skip") or m.start() < label.end() or math.startswith(r"\text{def"):
            continue
        if "=" in math or r"\sim" in math:
            out.append((m.start("math"), "", math))
    return out, label.group(1)


def dump(entries: list[dict]) -> str:
    """The JSON text: one entry per line."""
    return "[\n" + ",\n".join(json.dumps(e, ensure_ascii=False) for e in entries) + "\n]\n"


def dump_paper(data: dict) -> str:
    """The JSON text: a line for each fact and each place."""
    lines = [
        f'"{key}": {json.dumps(value, ensure_ascii=False)}'
        for key, value in data.items()
        if key != "places"
    ]
    return "{\n" + ",\n".join([*lines, f'"places": {dump(data["places"]).rstrip()}']) + "\n}\n"


def main(path: str) -> None:
    tex = Path(path).read_bytes().decode("utf-8")
    entries = ledger(tex)
    (OUT / "equations.json").write_text(dump(entries), encoding="utf-8")
    (OUT / "paper.json").write_text(dump_paper(paper(tex)), encoding="utf-8")
    for name in ("scope", "kind"):
        for key, n in Counter(e[name] for e in entries).items():
            print(f"{n:5d}  {key}")
        print(f"{len(entries):5d}  in all\n")


if __name__ == "__main__":
    main(sys.argv[1])
