"""Pages that are made from data at build time: equations, methods, errata, claims, the API.

Nothing here is typed by hand twice: the equations are those of ``bongref eq``, the methods those of
``bongref explain``, errata and claims those of ``bongref errata`` and ``bongref claims``.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from bongref import grid, paper
from bongref.guide.explain import explain
from bongref.paper import claims, errata, source
from bongref.show import time_text
from docs import api, conforming, paper_page

ROOT = Path(__file__).resolve().parents[1]
#: what the explorer's page says on the site, where the explorer itself stands beside it
TRY = """```{raw} html
<p><a class="try" href="explorer/index.html">Open the explorer ▸</a></p>
<p>The library runs in your browser then, in WebAssembly: about 9 MB are loaded once, and the first
picture is there before. Nothing that you do leaves your machine.</p>
```"""
UNSEEN = "boldsymbol|mathbf|mathrm|mathcal|mathbb|bm|left|right|text|big|Big"  # change a sign
VERDICTS = "Each conclusion of the paper with its verdict and the outcomes of the comparisons"
WIDE = 30  # glyphs of a formula that fit beside its code
AROUND = 2  # lines of code shown before and after one that computes an equation


def pages() -> dict[str, str]:
    """The name of each page and its MyST text."""
    return {
        **equation_pages(),
        "all-methods": methods_page(),
        "errata": errata_page(),
        "claims": claims_page(),
        "conforming": conforming.page(),
        **api.pages(),
    }


def addresses() -> dict[str, str]:
    """Permanent address -> the place on a page that it leads to."""
    out = {}
    taken: Counter[str] = Counter()
    for e in paper.equations().values():
        name = anchor(e.id)
        taken[name.lower()] += 1  # a few labels differ in case only, and so would the files
        file = name if taken[name.lower()] == 1 else f"{name}-{taken[name.lower()]}"
        out[f"eq/{file}"] = f"equations/{page_of(e.id)}.html#{name}"
    out |= {f"errata/{e.id}": f"errata.html#{e.id}" for e in paper.ERRATA}
    out |= {f"claims/{c.id}": f"claims.html#{c.id}" for c in paper.CLAIMS}
    return out


def anchor(id: str) -> str:
    """The place of an equation on its page: its label, with hyphens."""
    return re.sub(r"[^\w-]", "-", id)


def page_of(id: str) -> str:
    """The page of the equation browser that has this equation: one for each part of the paper."""
    return str(_page_of()[id])


@cache
def _page_of() -> dict[str, str]:
    return {e.id: name for name, _, es in _parts() for e in es}


@cache
def _parts() -> list[tuple[str, str, list[Any]]]:
    """(page, title, equations) in the paper's order, by the outer two titles of their sections."""
    groups: dict[str, list[Any]] = {}
    for e in paper.equations().values():
        titles = e.section.split(" / ")
        title = titles[1] if titles[0] == "Derivations" and len(titles) > 1 else titles[0]
        groups.setdefault(title, []).append(e)
    return [
        (re.sub(r"\W+", "-", title.lower()).strip("-"), title, es) for title, es in groups.items()
    ]


def escape(text: str) -> str:
    """Text of a ledger for Markdown: nothing in it is a mark."""
    return re.sub(r"([\\`*_{}\[\]<>#|$~^])", r"\\\1", text)


def link(id: str, up: str = "") -> str:
    """A raw link to an equation, erratum or claim; MyST would lower the case of anchors."""
    if id in _page_of():
        return f'<a href="{up}equations/{page_of(id)}.html#{anchor(id)}">{id}</a>'
    if re.fullmatch(r"E\d+", id):
        return f'<a href="{up}errata.html#{id}">{id}</a>'
    if re.fullmatch(r"C\d+", id):
        return f'<a href="{up}claims.html#{id}">{id}</a>'
    return id


# --- equations ------------------------------------------------------------------------------------


def equation_pages() -> dict[str, str]:
    """The index of the equation browser and one page for each part of the paper."""
    out = {"equations/index": _equation_index()}
    for name, title, es in _parts():
        lines = [f"# {title}", "", f"{len(es)} equations of {source.citation()}", ""]
        section = ""
        for e in es:
            last = e.section.split(" / ")[-1]
            if last != section and last != title:
                lines += [f"## {last}", ""]
            section = last
            lines += equation_block(e)
        out[f"equations/{name}"] = "\n".join(lines)
    return out


def _equation_index() -> str:
    parts = _parts()
    total = sum(len(es) for _, _, es in parts)
    places = paper.computed()
    lines = [
        "# Equations",
        "",
        f"All {total} displayed equations and rows of pseudocode of the paper: the formula, the "
        "code that computes it, the tests that would fail if it were computed wrongly, and what is "
        "wrong with it as printed. `bongref eq ID` shows the same in a terminal.",
        "",
        "Every equation has an address that does not change: `eq/` and its label, with hyphens in "
        "place of other signs, for example "
        '<a href="../eq/eq-bong-FC-prec.html"><code>eq/eq-bong-FC-prec.html</code></a>. '
        "Numbers in brackets are those of the PDF.",
        "",
        "| part of the paper | equations | computed | with an erratum |",
        "|---|---|---|---|",
    ]
    for name, title, es in parts:
        done = sum(bool(places.get(e.id) or places.get(e.algorithm)) for e in es)
        wrong = sum(bool(errata.for_equation(e.id)) for e in es)
        lines.append(f"| [{title}]({name}.md) | {len(es)} | {done} | {wrong} |")
    lines += ["", "## By number and label", ""]
    for name, title, es in parts:
        lines += [f"**{title}**: " + ", ".join(_numbered(e, name) for e in es), ""]
    tree = [":::{toctree}", ":hidden:", "", *(name for name, _, _ in parts), ":::"]
    return "\n".join([*lines, *tree, ""])


def _numbered(e: Any, page: str) -> str:
    number = f"({e.number}) " if e.number else ""
    return f'<a href="{page}.html#{anchor(e.id)}">{number}{e.id}</a>'


def equation_block(e: Any) -> list[str]:
    """One equation: formula, facts and remarks on the left, code on the right."""
    data = paper.document(e.id).data
    number = f"({e.number})" if e.number else ""
    lines = [f'<div class="equation" id="{anchor(e.id)}">', "", ":::::{div} equation-head"]
    lines += [f"<a class='label' href='#{anchor(e.id)}'>{e.id}</a> {number} "
              f"<span class='kind'>{e.kind}</span>", ":::::", ""]  # fmt: skip
    formula = ["```{math}", e.latex.strip(), "```", ""]
    wide = glyphs(e.latex) > WIDE  # above the two columns, where the left one would cut it off
    lines += formula if wide else []
    lines += ["::::{grid} 1 1 2 2", ":gutter: 2", "", ":::{grid-item}", ":columns: 12 12 5 5", ""]
    lines += [] if wide else formula
    if e.methods:
        lines += [f"Methods: {', '.join(f'`{g}`' for g in e.methods)}", ""]
    lines += [f"Line {e.line} of the paper's LaTeX.", ""]
    lines += _remarks(e.id)
    lines += [":::", "", ":::{grid-item}", ":columns: 12 12 7 7", ""]
    lines += _code(data["computed"])
    if not data["computed"]:
        lines += [f"Not computed: {escape(data['reason'] or 'missing')}", ""]
    if data["tests"]:
        lines += [
            f"<details><summary>{_count(len(data['tests']), 'test')}</summary>",
            "<ul>" + "".join(f"<li><code>{t}</code></li>" for t in data["tests"]) + "</ul>",
            "</details>",
            "",
        ]
    return [*lines, ":::", "::::", "", "</div>", ""]


def glyphs(latex: str) -> int:
    """About how many letters and signs the widest line of a formula has."""
    text = re.sub(r"\\(begin|end|label|tag)\{\w+\*?\}|%.*", "", latex.replace("\\\\", "\n"))
    text = re.sub(f"\\\\({UNSEEN})(?![a-zA-Z])|\\\\[,;:! ]", "", text)
    text = re.sub(r"\\[a-zA-Z]+|\\.", "x", text)
    return max(len(re.sub(r"[{}^_&$\s]", "", line)) for line in text.split("\n"))


def _count(n: int, word: str) -> str:
    return f"{n} {word}" if n == 1 else f"{n} {word}s"


def _remarks(id: str) -> list[str]:
    out = []
    for x in errata.for_equation(id):
        out += [f'<div class="remark erratum"><p>{link(x.id, "../")} ({x.kind})</p></div>', ""]
        out += [f"Printed: {escape(x.printed)}", "", f"Should be: {escape(x.corrected)}", ""]
    for c in claims.for_equation(id):
        out += [f"{link(c.id, '../')} ({c.verdict}): {escape(c.statement)}", ""]
    return out


def _code(places: Iterable[dict[str, Any]]) -> list[str]:
    """The lines that compute an equation, highlighted: the reference first, the rest folded."""
    groups: dict[tuple[str, str], list[int]] = {}
    for p in places:
        line = _statement(p["file"], p["line"])
        groups.setdefault((p["file"], p["function"]), []).append(line)
    reference = {k: v for k, v in groups.items() if not k[0].startswith(("bongref/fast/",
                 "bongref/conformance/"))}  # fmt: skip
    others = {k: v for k, v in groups.items() if k not in reference}
    out = []
    for (file, function), marked in reference.items():
        out += _listing(file, function, marked)
    if others and not reference:
        for (file, function), marked in others.items():
            out += _listing(file, function, marked)
    elif others:
        names = [f"<li><code>{file}:{min(m)}</code> {f}</li>" for (file, f), m in others.items()]
        also = _count(len(others), "compiled or checking function")
        out += [f"<details><summary>also in {also}</summary>",
                f"<ul>{''.join(names)}</ul>", "</details>", ""]  # fmt: skip
    return out


def _listing(file: str, function: str, marked: list[int]) -> list[str]:
    lines = _source(file).splitlines()
    first, last = max(min(marked) - AROUND, 1), min(max(marked) + AROUND, len(lines))
    if last - first > 30:  # marks far apart in one long function: the first of them
        last = min(min(marked) + AROUND, len(lines))
        marked = [m for m in marked if m <= last]
    before = lines[first - 1 : min(marked) - 1]
    ends = [k for k, s in enumerate(before) if s.count('"""') == 1 or not s.strip()]
    first += ends[-1] + 1 if ends else 0  # not the end of a docstring, which is no Python alone
    shown = lines[first - 1 : last]
    indent = min((len(s) - len(s.lstrip()) for s in shown if s.strip()), default=0)
    rows = ",".join(str(m - first + 1) for m in sorted(set(marked)))
    text = [s[indent:].rstrip() for s in shown]
    while text and not text[-1]:
        text.pop()
    return [
        "```{code-block} python",
        f":caption: {file}:{min(marked)} {function}",
        f":emphasize-lines: {rows}",
        *text,
        "```",
        "",
    ]


@cache
def _source(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")


@cache
def _statements(file: str) -> list[tuple[int, int]]:
    return [(n.lineno, n.end_lineno or 0) for n in ast.walk(ast.parse(_source(file)))
            if isinstance(n, ast.stmt)]  # fmt: skip


def _statement(file: str, line: int) -> int:
    """The line that computes: where a mark stands at a closing bracket, its statement's first."""
    if not _source(file).splitlines()[line - 1].strip().startswith((")", "]", "}")):
        return line
    return max((a for a, b in _statements(file) if a <= line <= b), default=line)


# --- methods --------------------------------------------------------------------------------------


def methods_page() -> str:
    """The table of the 80 names, and a part for each with its equations and when to use it."""
    lines = [
        "# Table of methods",
        "",
        f"The {len(grid.NAMES)} names of the paper's grid: "
        f"{len(grid.NAMES) - len(grid.NOT_DERIVED)} methods and {len(grid.NOT_DERIVED)} that "
        "refuse, because the paper derives no update for "
        "them. The cost is what the paper states for one observation (P parameters, C outputs, M "
        "samples, I iterations, R rank, N probes); the time was measured with P = 881 and the "
        "default sizes ([benchmarks](benchmarks.md)), of what is compiled. "
        "[Methods](methods.md) explains names and parameters, and `bongref explain NAME` prints "
        "what is here about one of them.",
        "",
        "![The grid of methods as a map: rows are rules and Hessians, columns families]"
        "(figures/methods.png)",
        "",
    ]
    for family in grid.FAMILIES:
        lines += [f"## {family}", "", _facts("families", family), ""]
        lines += ["| method | stated cost | measured | same as | positive definite |",
                  "|---|---|---|---|---|"]  # fmt: skip
        lines += [_row(n) for n in grid.NAMES if n.split("-")[-1] == family]
        lines.append("")
        for name in grid.NAMES:
            if name.split("-")[-1] == family:
                lines += _method(name)
    return "\n".join(lines)


def _facts(where: str, key: str) -> str:
    from bongref.guide.facts import facts

    entry = facts()[where][key]
    return f"{escape(entry['what'])} {escape(entry.get('choose', ''))}"


def _row(name: str) -> str:
    d = explain(name).data
    if not d["derived"]:
        return f'| <a href="#{name}">{name}</a> | refuses | | | |'
    us = d["cost"]["measured us"]
    same = ", ".join(n["name"] for n in d["other names"] if n["same"])
    keeps = "always" if d["keeps positive definiteness"] else "can be lost"
    time = time_text(us * 1e-6) if us else ""
    cost = re.sub(r"\^(\w)", r"<sup>\1</sup>", d["cost"]["stated"])
    return f'| <a href="#{name}">{name}</a> | {cost} | {time} | {same} | {keeps} |'


def _method(name: str) -> list[str]:
    d = explain(name).data
    lines = [f'<details class="method" id="{name}"><summary><code>{name}</code></summary>', ""]
    if not d["derived"]:
        return [*lines, f"Refuses: {escape(d['why not'])}", "", "</details>", ""]
    lines += [escape(" ".join(d["what"])), "", "**When to use it**", ""]
    lines += [f"* {escape(x)}" for x in d["choose"]]
    lines += ["", "**What it cannot do**", "", *(f"* {escape(x)}" for x in d["limits"]), ""]
    if d["other names"]:
        lines += ["**In the literature**", ""]
        for n in d["other names"]:
            note = "the same, number by number" if n["same"] else n["note"]
            lines.append(f"* {escape(n['name'])}: {escape(note)}")
        lines.append("")
    shown = [x for x in d["equations"] if x["kind"] in ("update", "efficient form")]
    links = ", ".join(link(x["id"]) for x in shown)
    lines += [f"**Equations** ({len(d['equations'])} in all; updates and efficient forms): {links}"]
    if d["cost"]["errata"]:
        found = ", ".join(link(x) for x in d["cost"]["errata"])
        lines += ["", f"**Errata about its stated cost**: {found}"]
    return [*lines, "", "</details>", ""]


# --- errata and claims ----------------------------------------------------------------------------


def errata_page() -> str:
    """Each erratum with an address of its own."""
    rows = paper.ERRATA
    kinds = Counter(e.kind for e in rows)
    lines = [
        "# Errata",
        "",
        "What the paper prints and what it should print. The code computes the corrected form; the "
        "test named shows how far the printed one is off. Entries 'by reading' are two places of "
        "the paper that contradict each other, or a slip that changes no number.",
        "",
        f"{len(rows)} errata: " + ", ".join(f"{n} {kind}" for kind, n in kinds.items()) + ". "
        "`bongref errata ID` prints one; each has an address that does not change, such as "
        '<a href="errata/E10.html"><code>errata/E10.html</code></a>. '
        f"Line numbers are those of the LaTeX source. {escape(source.citation())}",
        "",
    ]
    for e in rows:
        where = ", ".join(link(w) for w in (e.where, *e.also))
        lines += [
            f'<div class="entry" id="{e.id}"><p class="entry-head"><a href="#{e.id}">{e.id}</a> '
            f'<span class="kind">{e.kind}</span> {where} '
            f'<span class="line">line {e.line}</span></p>',
            "",
            f"Printed\n: {escape(e.printed)}",
            "",
            f"Should be\n: {escape(e.corrected)}",
            "",
            f"Effect\n: {escape(e.effect)}",
            "",
            f"Test\n: {f'`{e.test}`' if e.test else 'by reading'}",
            "",
            "</div>",
            "",
        ]
    return "\n".join(lines)


def claims_page() -> str:
    """Each claim with an address of its own."""
    rows = paper.CLAIMS
    verdicts = Counter(c.verdict for c in rows)
    lines = [
        "# Claims",
        "",
        "What the paper states that can be true or false, with a verdict and the tests, errata or "
        "equations that it rests on. Conclusions of its experiments are judged by our own: "
        "[Is the paper's story true?](story.md)",
        "",
        f"{len(rows)} claims: " + ", ".join(f"{n} {v}" for v, n in verdicts.items()) + ". "
        "`bongref claims ID` prints one; each has an address that does not change, such as "
        '<a href="claims/C02.html"><code>claims/C02.html</code></a>.',
        "",
    ]
    for c in rows:
        where = ", ".join(link(w) for w in (c.where, *c.also))
        evidence = ", ".join(link(x) if link(x) != x else f"<code>{x}</code>" for x in c.evidence)
        status = re.sub(r"\W+", "-", c.verdict)
        lines += [
            f'<div class="entry" id="{c.id}"><p class="entry-head"><a href="#{c.id}">{c.id}</a> '
            f'<span class="verdict {status}">{c.verdict}</span> {where} '
            f'<span class="line">line {c.line}</span></p>',
            "",
            escape(c.statement),
            "",
        ]
        if c.number:
            lines += [f"Condition or number\n: {escape(c.number)}", ""]
        if c.evidence:
            lines += [f"Evidence\n: {evidence}", ""]
        lines += ["</div>", ""]
    return "\n".join(lines)


# --- pages that are also read on the code-hosting view -------------------------------------------


def with_site_links(text: str, name: str) -> str:
    """Links of a page of docs/ to files outside it: pages of the site, or plain names.

    Anchors of a page, ``<a id="x"></a>``, become targets of MyST, which its links are checked by.
    """
    text = re.sub(r'^<a id="([\w-]+)"></a>$', r"(\1)=", text, flags=re.M)
    text = text.replace("](../validation/acceptance.md)", "](validation/acceptance.md)")
    if name == "peers":  # the page is made by validation.peers; its figure is the site's
        picture = "![Methods that agree, by implementation and family](figures/conformance.png)"
        text = text.replace("\n## Summary\n", f"\n{picture}\n\n## Summary\n", 1)
    if name == "explorer":
        text = text.replace("\n## What it shows\n", f"\n{TRY}\n\n## What it shows\n", 1)
    if name == "story":
        picture = f"![{VERDICTS}](figures/story-verdicts.svg)"
        text = text.replace("\n## The verdicts\n", f"\n## The verdicts\n\n{picture}\n", 1)
    text = re.sub(
        r"^(!\[[^\]]*\]\(figures/[^)]+\))$", r":::{div} scroll\n\1\n:::", text, flags=re.M
    )
    if name == "paper":
        text = paper_page.page(text, (ROOT / "docs" / "paper.bib").read_text(encoding="utf-8"))
    return re.sub(r"\[([^\]]+)\]\(\.\./[^)]+\)", r"\1", text)
