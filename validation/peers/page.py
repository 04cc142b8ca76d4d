"""docs/peers.md from the results and the findings: nothing in it is written by hand but the words
here, and no peer is needed.
"""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any

from bongref.conformance import wording
from bongref.grid import FAMILIES, HESSIANS, RULES

from . import PEERS, load_findings

SOFT = (
    "emission function of the experiments",
    "no validation",
    "rounding",
    "jitter",
)  # not the rule itself
OPTIONS = (
    "bong-scalar-noise",
    "mini-rvga-inner",
    "posteriors-vi-diag",
    "posteriors-vi-dense",
)
LEVELS = {
    "step": "L0",
    "estimate": "L1",
    "update": "L2",
    "stream": "L3",
    "predictive": "L4",
    "predict": "predict",
}

COUNTS = {7: "Seven", 10: "Ten", 11: "Eleven", 12: "Twelve"}

INTRO = """# What other implementations get

{count} public implementations of these methods, or of single ones, run through the cases of `bongref check`. What agrees, what differs and
where, each difference traced to a file and line and to a formula: our equation with that one change is run on the case's own input, and
must give what the implementation returned. A difference is not always a mistake; each says what kind it is.

This page is made by `python -m validation.peers --page` from `validation/results/peer-*.json` and `validation/peers/findings.json`.
"""

REPRODUCE = """## How to run it

The adapters are ours (`validation/peers/peer_*.py`); no code of a peer is in this repository. An adapter changes no equation: it hands
over the prior, the network, the likelihood and the samples, and reads the result. In an environment with bongref and the peer, from the
repository's root:

```sh
python -m validation.peers --list                  # what can be run here, and what is missing
python -m validation.peers dynamax filterpy river  # writes validation/results/peer-NAME.json
python -m validation.peers --page                  # this page
bongref check validation.peers.peer_dynamax:Adapter --report report.html
```

Those of GitHub are used from a checkout of the commit below, named by `BONGREF_PEER_BONG`, `BONGREF_PEER_REBAYES`,
`BONGREF_PEER_REBAYES_MINI`, `BONGREF_PEER_RECEIVER_TORCH`, `BONGREF_PEER_NANO` and `BONGREF_PEER_RECEIVERS`; the others are
installed from the package index. The column "cases" says how many cases an adapter has met; the digest above is
`validation.peers.digest()` of what they ask and want. Setting JAX's persistent compilation cache makes a second run much faster.

JAX runs in float64 here; the adapters called Adapter32 run in float32, the steps and updates only. Not run: the peers' own training
scripts and data, their other methods, anything on a GPU.
"""

CANNOT = """## What the vectors cannot see

- **Sampling.** Every case hands over its samples, so that code that draws them is never run. Where a sampler was found to differ, that was
  by handing it unit vectors for its normal draws ({sampling}).
- **The experiments' metrics.** The vectors have the paper's predictive distributions; scripts that compute an NLPD in another way are seen
  only when they are called by hand ({metrics}).
- **Constructors and names.** How a method is started and under which name it is run in a job ({names}).
- **Options the adapters do not use** ({options}).
- **Speed, memory, large models.** The cases are small.
- **What is not offered.** A method without an adapter has no verdict, which is not a good one.
"""


def page(folder: Path) -> str:
    """The whole page."""
    results = {
        name: json.loads(file.read_text(encoding="utf-8"))
        for name in PEERS
        if (file := Path(folder) / f"peer-{name}.json").exists()
    }
    findings = load_findings()
    parts = [
        INTRO.format(count=COUNTS[len(results)]),
        _summary(results, findings),
        REPRODUCE,
        _matrix(results["bong"], findings) if "bong" in results else "",
    ]
    parts += [_peer(name, result, findings) for name, result in results.items()]
    parts += [_cannot(findings), _kit(results, findings)]
    return "\n".join(_wrapped(part.strip("\n")) + "\n" for part in parts if part)


def _wrapped(text: str) -> str:
    """Lines of at most 140 characters; tables as they are."""
    out = []
    for line in text.split("\n"):
        indent = " " * (
            len(line) - len(line.lstrip()) + (2 if line.lstrip().startswith("- ") else 0)
        )
        keep = line.startswith("|") or len(line) <= 140
        out += (
            [line]
            if keep
            else textwrap.wrap(
                line, 140, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
            )
        )
    return "\n".join(out)


# --- tables over all ------------------------------------------------------------------------------


def _summary(results: dict[str, Any], findings: list[dict[str, Any]]) -> str:
    of = Counter(
        (run["vectors"]["schema"], run["vectors"]["cases"], run["vectors"]["sha256"][:8])
        for r in results.values()
        for run in r["runs"]
    )
    met = " or ".join(
        f"{cases:,} cases ({schema}, digest `{sha}`)"
        for (schema, cases, sha), _ in of.most_common()
    )
    left = sum(
        not f["findings"] for r in results.values() for run in r["runs"] for f in run["failures"]
    )
    failing = sum(len(run["failures"]) for r in results.values() for run in r["runs"])
    lines = [
        "## Summary",
        "",
        f"Each adapter meets {met}; what it does not offer is not counted. "
        f"Of the {failing} failing cases {failing - left} are explained below"
        + (f", {left} are not." if left else ", none is left over."),
        "",
        "| peer | version | offered methods | agree | differ in part | differ | cases: "
        "pass / fail |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, r in results.items():
        offered, bad = _methods(r, findings)
        part = {m for m in bad if _in_part(m, r, findings)}
        runs = [run for run in r["runs"] if run["dtype"] == "float64"]
        done = sum(run["counts"].get("pass", 0) for run in runs)
        wrong = sum(len(run["failures"]) for run in runs)
        anchor = _anchor(name)
        version = r["version"][:12] if len(r["version"]) == 40 else r["version"]
        numbers = (
            len(offered),
            len(offered) - len(bad),
            len(part),
            len(bad) - len(part),
            f"{done} / {wrong}",
        )
        lines.append(
            f"| [{r['title']}](#{anchor}) | {version} | " + " | ".join(map(str, numbers)) + " |"
        )
    lines += [
        "",
        "A method differs where numbers are other than the equations' for a reason that "
        "lies in the rule, the filter or the stream; in "
        "part, where another class of the peer, its single updates or other likelihoods "
        "agree. What differs only by rounding, by a jitter, "
        "by an emission function of the experiments or in what is not refused counts as "
        "agreeing here, and is listed below all the same. "
        "Cases are those of all float64 adapters together.",
        "",
        "Kinds of difference: " + "; ".join(f"{kind} ({n})" for kind, n in _kinds(findings)) + ".",
    ]
    return "\n".join(lines)


def _kinds(findings: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return Counter(f["kind"] for f in findings if f["verdict"] == "differs").most_common()


def _methods(result: dict[str, Any], findings: list[dict[str, Any]]) -> tuple[set[str], set[str]]:
    """The methods that a peer offers at some level, and those that differ in the rule itself."""
    kinds = {f["id"]: f["kind"] for f in findings if f["verdict"] == "differs"}
    offered = {
        m
        for run in result["runs"]
        for m, levels in run["offered"].items()
        if "-" in m and len(m.split("-")) == 4
    }
    bad = {
        f["method"]
        for run in result["runs"]
        for f in run["failures"]
        if "method" in f and any(kinds.get(i) not in SOFT for i in f["findings"])
    }
    return offered, bad & offered


def _in_part(method: str, result: dict[str, Any], findings: list[dict[str, Any]]) -> bool:
    """Whether some class or level that offers the method, or some likelihood, is free of such
    differences.
    """
    known = {f["id"]: f for f in findings}
    hard = lambda x: [i for i in x["findings"] if known[i]["kind"] not in SOFT]
    mine = [
        (run, level)
        for run in result["runs"]
        if run["dtype"] == "float64"
        for level in run["offered"].get(method, {})
    ]
    bad = {
        (run["adapter"], x["level"])
        for run in result["runs"]
        for x in run["failures"]
        if x.get("method") == method and hard(x)
    }
    ids = {
        i
        for run in result["runs"]
        for x in run["failures"]
        if x.get("method") == method
        for i in hard(x)
    }
    good = any(
        (run["adapter"], level) not in bad for run, level in mine if level in ("update", "step")
    )
    return good or all(known[i].get("likelihoods") for i in ids)


def _matrix(result: dict[str, Any], findings: list[dict[str, Any]]) -> str:
    """The authors' code: rules × Hessians × families."""
    run = next(r for r in result["runs"] if r["adapter"] == "Adapter")
    kinds = {f["id"]: f["kind"] for f in findings if f["verdict"] == "differs"}
    offered, bad = _methods(result, findings)
    soft = {
        f["method"]
        for f in run["failures"]
        if "method" in f
        and f["findings"]
        and any(kinds[i] == "emission function of the experiments" for i in f["findings"])
    }
    mark = lambda m: "–" if m not in offered else "✗" if m in bad else "✓ᵉ" if m in soft else "✓"
    lines = [
        "## The authors' code, cell by cell",
        "",
        f"petergchang/bong at {result['version'][:12]}, float64: steps, updates, predictions; "
        f"{run['vectors']['cases']:,} cases.",
        "",
        "| family | Hessian | " + " | ".join(RULES) + " |",
        "|---|---|" + "---|" * len(RULES),
    ]
    lines += [
        f"| {fam} | {h} | " + " | ".join(mark(f"{rule}-{h}-{fam}") for rule in RULES) + " |"
        for fam in FAMILIES
        for h in HESSIANS
    ]
    lines += [
        "",
        "✓ agrees in every case. ✓ᵉ agrees, but for cases with a softmax or a saturated "
        "sigmoid, whose emission functions are set up as "
        "in its experiments. ✗ differs. – not offered. Inputs that should be refused are "
        "left out of the marks: none is.",
    ]
    return "\n".join(lines)


# --- one peer -------------------------------------------------------------------------------------


def _peer(name: str, result: dict[str, Any], findings: list[dict[str, Any]]) -> str:
    mine = [f for f in findings if f["peer"] == name]
    version = (
        f"commit {result['version']}"
        if len(result["version"]) == 40
        else f"version {result['version']}"
    )
    lines = [
        f"## {result['title']}",
        "",
        f"{version}; every failing case is in `validation/results/peer-{name}.json`.",
        "",
    ]
    lines += [
        "| adapter | | dtype | levels | cases | pass | fail | not offered |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for run in result["runs"]:
        c, levels = (
            run["counts"],
            ", ".join(run["levels"] or ["all"])
            + (f" of {', '.join(run['methods'])}" if run["methods"] else ""),
        )
        levels = levels.replace("*", "\\*")
        row = [
            f"{run['vectors']['cases']:,}",
            c.get("pass", 0),
            len(run["failures"]),
            c.get("not offered", 0) + c.get("not applicable", 0),
        ]
        lines.append(
            f"| {run['adapter']} | {run['what']} | {run['dtype']} | {levels} | "
            + " | ".join(map(str, row))
            + " |"
        )
    for title, some in (
        ("Agrees", [f for f in mine if f["verdict"] == "agrees" and f.get("kind") != "convention"]),
        (
            "Conventions, not differences",
            [f for f in mine if f["verdict"] == "agrees" and f.get("kind") == "convention"],
        ),
        ("Not offered", [f for f in mine if f["verdict"] == "not offered"]),
    ):
        if some:
            lines += ["", f"**{title}**", ""]
            lines += [
                f"- {_names(f)}{_where(f, ' ({})')}: {f['what']}{_unseen(f, result)}" for f in some
            ]
    shown = [
        f
        for f in mine
        if f["verdict"] == "differs" and (f["id"] in _used(result) or not f["adapters"])
    ]
    lines += ["", "**Differences**", ""]
    if original := PEERS[name].copy_of:
        lines += [_as_in(original, result)]
    lines += [line for f in shown for line in _difference(f, result)] if shown else ["None."]
    return "\n".join(lines)


def _as_in(original: str, result: dict[str, Any]) -> str:
    """A list item: the differences that come with a copy of another peer's code."""
    seen = Counter(
        i
        for run in result["runs"]
        for x in run["failures"]
        for i in x["findings"]
        if i.startswith(f"{original}-")
    )
    what = ", ".join(f"{i} ({n})" for i, n in sorted(seen.items()))
    return (
        f"- As in [{PEERS[original].title}](#{_anchor(original)}), by its findings and the failing "
        f"cases: {what or 'none'}."
    )


def _anchor(name: str) -> str:
    return PEERS[name].title.replace("/", "").lower()


def _used(result: dict[str, Any]) -> set[str]:
    return {i for run in result["runs"] for f in run["failures"] for i in f["findings"]}


def _names(f: dict[str, Any]) -> str:
    return ", ".join(f"`{m}`" for m in f["methods"]) + (
        f" ({', '.join(f['likelihoods'])})" if f.get("likelihoods") else ""
    )


def _where(f: dict[str, Any], form: str = "{}") -> str:
    if "file" not in f:
        return ""
    return form.format(
        ", ".join([f"`{f['file']}:{f['lines']}`", *(f"`{a}`" for a in f.get("also", []))])
    )


def _unseen(f: dict[str, Any], result: dict[str, Any]) -> str:
    """What a check beyond the vectors says."""
    rows = [
        row for row in result["beyond"] if row["finding"] == f["id"] and row["size"] is not None
    ]
    return "".join(
        f" {row['what']}: difference {row['size']:.1g}, from `{f['cause']}` {row['left']:.1g}."
        for row in rows
    )


def _difference(f: dict[str, Any], result: dict[str, Any]) -> list[str]:
    """A list item: what differs, where, by how much, what it means, how it is confirmed."""
    hits = [(run, x) for run in result["runs"] for x in run["failures"] if f["id"] in x["findings"]]
    rows = [row for row in result["beyond"] if row["finding"] == f["id"]]
    erratum = f" Erratum [{f['erratum']}](errata.md)." if "erratum" in f else ""
    lines = [f"- **{_names(f)}: {f['kind']}.** {f['what']}{erratum}"]
    if "means" in f:
        lines.append(f"  - *For a user:* {f['means']}")
    if "file" in f:
        lines.append(f"  - *Where:* {_where(f)}")
    if hits:
        lines.append(f"  - *Seen in:* {_seen(hits)}")
        lines.append(f"  - *Confirmed:* {_confirmed(f, hits)}")
    for row in rows:
        if row["size"] is None:
            lines.append(f"  - *Confirmed:* {row['what']}.")
        else:
            lines.append(
                f"  - *Seen in no vector:* {row['what']}; relative difference {row['size']:.2g}"
            )
            lines.append(f"  - *Confirmed:* `{f['cause']}` gives {_same(row['left'])}")
    if not hits and not rows:
        lines.append(f"  - *Seen in no vector:* {f['reason']}.")
    return lines


def _seen(hits: list[tuple[dict[str, Any], dict[str, Any]]]) -> str:
    """How many cases, the largest difference and its equation."""
    double = [x for run, x in hits if run["dtype"] == "float64"] or [x for _, x in hits]
    alone = [x for x in double if len(x["findings"]) == 1] or double
    sized = [x for x in alone if x["relative"] is not None]
    levels = ", ".join(
        LEVELS[level] for level in LEVELS if any(x["level"] == level for _, x in hits)
    )
    text = f"{len(hits)} case{'s' * (len(hits) > 1)} ({levels})"
    if sized:
        top = max(sized, key=lambda x: x["relative"])
        text += (
            f"; largest {top['relative']:.2g} in {top['quantity']} ({top['equation']}) of "
            f"`{top['case']}`, tolerance {top['tolerance']:.1g}"
        )
    raised, nan = (
        sum(x["status"] == "error" for x in double),
        sum("holds NaN" in x["message"] for x in double),
    )
    return text + (f"; raises in {raised}" if raised else "") + (f"; NaN in {nan}" if nan else "")


def _confirmed(f: dict[str, Any], hits: list[tuple[dict[str, Any], dict[str, Any]]]) -> str:
    single = [
        x["difference"]
        for run, x in hits
        if run["dtype"] == "float32" and x["difference"] is not None
    ]
    double = [
        x["difference"]
        for run, x in hits
        if run["dtype"] == "float64" and x["difference"] is not None
    ]
    rest = [x["confirmed"] for _, x in hits if x["difference"] is None]
    functions = sorted({name for _, x in hits for name in x["functions"]})
    out = []
    if double:
        out.append(
            f"{_calls(f, functions)} on the input of {_some(len(double))}: {_same(max(double))}"
        )
    if single:
        out.append(f"in float32 {_some(len(single))}: {_same(max(single))}")
    if rest:
        texts = Counter(
            text.partition(";")[0] if text.startswith("raises") else text for text in rest
        )
        out += [f"{_some(n)}: {_fixed(text)}" for text, n in texts.most_common()]
    return "; ".join(out)


def _fixed(text: str) -> str:
    return (
        "raises, where the formula's covariance is not positive definite"
        if text == "raises"
        else text
    )


def _some(n: int) -> str:
    return f"{n} case{'s' * (n > 1)}"


def _same(left: float) -> str:
    return f"the same to {left:.1g}" if left > 1e-18 else "the same exactly"


def _calls(f: dict[str, Any], functions: list[str]) -> str:
    """The cause, and those of other findings that have a share in some of the cases."""
    own = f.get("cause", "")
    others = [name for name in functions if name != own and not name.startswith(f"{own}_")]
    say = lambda names: ", ".join(f"`{name}`" for name in names)
    if not own:
        return "the equations" + (f" (with {say(others)} where these apply too)" if others else "")
    return say([own]) + (f" (with {say(others)} where these apply too)" if others else "")


# --- the end --------------------------------------------------------------------------------------


def _cannot(findings: list[dict[str, Any]]) -> str:
    unseen = [f for f in findings if not f["adapters"]]
    say = lambda f: f"{PEERS[f['peer']].title}: {', '.join(f['methods'])}".replace("*", "\\*")
    pick = lambda test: "; ".join(sorted({say(f) for f in unseen if test(f)})) or "none"
    return CANNOT.format(
        sampling=pick(lambda f: f["methods"][0].startswith("sampling")),
        metrics=pick(lambda f: f.get("kind") == "metric"),
        names=pick(lambda f: f.get("kind") in ("names", "initialisation")),
        options=pick(lambda f: f["id"] in OPTIONS),
    )


def _kit(results: dict[str, Any], findings: list[dict[str, Any]]) -> str:
    """What the diagnosis of ``bongref check`` says, knowing nothing of these findings."""
    lines = [
        "## What `bongref check` says by itself",
        "",
        "The diagnosis of the kit tries its own list of mistakes, for 30 s of each method at most, "
        "and knows nothing of the findings above. Of the cases that have a wrong "
        "number in float64 (several mistakes may give the same numbers, above all in "
        "saturated cases, where it can name another one):",
        "",
        "| finding | cases | with a diagnosis | the most frequent one |",
        "|---|---|---|---|",
    ]
    for f in findings:
        mine = [
            x
            for run in results.get(f["peer"], {"runs": []})["runs"]
            for x in run["failures"]
            if run["dtype"] == "float64" and f["id"] in x["findings"] and x["relative"] is not None
        ]
        if mine:
            said = Counter(d for x in mine for d in wording.all_said(x["diagnosis"][:1]))
            first = (
                said.most_common(1)[0][0].replace("|", "\\|").replace("*", "\\*") if said else "–"
            )
            lines.append(
                f"| {f['id']} | {len(mine)} | {sum(bool(x['diagnosis']) for x in mine)} | {first} |"
            )
    return "\n".join(lines)
