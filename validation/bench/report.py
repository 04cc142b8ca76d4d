"""The results as text, as a page and as figures, from the JSON alone."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from . import cells

Doc = dict[str, Any]
RATIOS = {"peer": "ratio", "peer64": "ratio64"}  # the peer in float32 and in float64
CLOSE = 1.5  # a ratio below this is named in the summary


def load(file: Path) -> Doc:
    return json.loads(file.read_text(encoding="utf-8"))


def save(file: Path, doc: Doc) -> None:
    """Indented JSON, never NaN; the file is whole at every moment."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    part.write_text(
        json.dumps(rounded(doc), ensure_ascii=False, allow_nan=False, indent=1) + "\n",
        encoding="utf-8",
    )
    part.replace(file)


def rounded(value: Any) -> Any:
    """Floats with 6 digits; what is not finite becomes None."""
    if isinstance(value, dict):
        return {str(key): rounded(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(v) for v in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


# --- derived numbers ------------------------------------------------------------------------------


def derive(doc: Doc) -> Doc:
    """The document with the ratio and the bound of each cell, and the summary."""
    for name, row in doc["cells"].items():
        mine = time_of(row, "ours")
        for side, key in RATIOS.items():
            theirs = time_of(row, side)
            row[key] = theirs / mine if mine and theirs else None
            late = least_of(row, side)
            row[f"{key} at least"] = late / mine if mine and late else None
        needs = cells.cost(cells.parse(name))
        row["needs"] = needs._asdict()
        if doc.get("limits"):
            found = cells.bound(needs, doc["limits"])
            row["bound"] = {**found, "fraction": found["us"] / mine if mine else None}
    for row in doc.get("others", []):
        mine, theirs = time_of(row, "ours"), time_of(row, "peer")
        row["ratio"] = theirs / mine if mine and theirs and row.get("agrees") else None
    doc["summary"] = summary(doc["cells"], "ratio")
    doc["summary64"] = summary(doc["cells"], "ratio64")
    return doc


def time_of(row: Doc, side: str) -> float | None:
    """Microseconds per observation."""
    return (row.get(side) or {}).get("us")


def least_of(row: Doc, side: str) -> float | None:
    """Microseconds that an observation takes at least, where it was not waited for."""
    return (row.get(side) or {}).get("at least us")


def summary(rows: dict[str, Doc], key: str) -> Doc:
    """The geometric mean of the ratios, the smallest and its cell, which cells are slower than
    the peer's, which below CLOSE; how many others have a lower bound alone.
    """
    ratios = {name: row[key] for name, row in rows.items() if row.get(key)}
    out: Doc = {
        "cells": len(rows),
        "timed": sum(time_of(row, "ours") is not None for row in rows.values()),
        "compared": len(ratios),
        "bounds": sum(bool(row.get(f"{key} at least")) for row in rows.values()),
    }
    if not ratios:
        return out
    least = min(ratios, key=lambda name: ratios[name])
    order = sorted(ratios, key=lambda name: ratios[name])
    slower = [name for name in order if ratios[name] < 1]
    mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
    return {
        **out,
        "geometric mean": mean,
        "least": ratios[least],
        "least cell": least,
        "slower": len(slower),
        "slower cells": slower,
        "close cells": [name for name in order if 1 <= ratios[name] < CLOSE],
    }


# --- text -----------------------------------------------------------------------------------------

TEXTS = {
    "cell",
    "nearest limit",
    "notes",
    "method",
    "left out",
    "tall products",
    "first result",
    "code",
    "implementation",
    "dtype",
    "evaluation",
    "unit",
}
FASTER = {"plugin": 5, "mc": 4, "lin_mc": 25}  # than the reference, on the CNN
COLUMNS = (
    "cell",
    "ours µs",
    "peer µs",
    "ratio",
    "peer f64 µs",
    "ratio f64",
    "nearest limit",
    "at the limit µs",
    "fraction",
    "compile s",
    "peak MB",
    "notes",
)


def number(value: float | None, digits: int = 3) -> str:
    """Three significant digits, thousands with commas."""
    if value is None:
        return "–"
    if value == 0:
        return "0"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    scale = 10 ** (digits - 1 - math.floor(math.log10(abs(value))))
    return f"{round(value * scale) / scale:,.{places}f}"


def either(value: float | None, least: float | None) -> str:
    """A number, or its lower bound."""
    return f"≥ {number(least)}" if value is None and least else number(value)


def both(row: Doc, key: str, scale: float = 1.0) -> str:
    """A number of each side: ours / peer's."""
    values = [(row.get(side) or {}).get(key) for side in ("ours", "peer")]
    return " / ".join(number(None if v is None else v / scale, 2) for v in values)


def notes(row: Doc, asked: str = "fast") -> str:
    """What went wrong, and whether another backend ran than the one asked for."""
    out = []
    for side, name in (("ours", "ours"), ("peer", "peer"), ("peer64", "peer f64")):
        found = row.get(side) or {}
        if "error" in found:
            out.append(f"{name}: {found['error']}")
        elif found.get("finite") is False:
            out.append(f"{name}: not finite")
        if found.get("backend") not in (None, asked, "fast" if asked == "auto" else None):
            out.append(f"{name}: backend {found['backend']}")
    return "; ".join(out)


def line(name: str, row: Doc, asked: str = "fast") -> list[str]:
    found = row.get("bound") or {}
    fraction = found.get("fraction")
    return [
        name,
        number(time_of(row, "ours")),
        either(time_of(row, "peer"), least_of(row, "peer")),
        either(row.get("ratio"), row.get("ratio at least")),
        either(time_of(row, "peer64"), least_of(row, "peer64")),
        either(row.get("ratio64"), row.get("ratio64 at least")),
        found.get("kernel", "–"),
        number(found.get("us"), 2),
        "–" if fraction is None else f"{100 * fraction:.0f} %",
        both(row, "compile s"),
        both(row, "peak", 1e6),
        notes(row, asked),
    ]


def text_table(header: Iterable[str], rows: list[list[str]]) -> str:
    """Columns of equal width, words to the left and numbers to the right."""
    table = [list(header), *rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    left = {i for i, name in enumerate(table[0]) if name in TEXTS}
    return "\n".join(
        "  ".join(
            v.ljust(w) if i in left else v.rjust(w)
            for i, (v, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    )


def markdown_table(header: Iterable[str], rows: list[list[str]]) -> str:
    head = list(header)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(v.replace("|", "\\|") for v in row) + " |" for row in lines)


def text(doc: Doc) -> str:
    """What is printed."""
    parts = [
        text_table(
            COLUMNS,
            [line(name, row, doc["settings"]["backend"]) for name, row in doc["cells"].items()],
        ),
        sentence(doc),
    ]
    if doc.get("others"):
        parts.append("Other implementations\n" + text_table(*others_table(doc)))
    if doc.get("evaluation"):
        parts.append(text_table(*evaluation_table(doc)))
    if doc.get("trap"):
        parts.append(text_table(*trap_table(doc)))
    if doc.get("first"):
        parts.append(text_table(*first_table(doc)))
    return "\n\n".join(parts)


def sentence(doc: Doc) -> str:
    """The summary in words, a line for each dtype of the peer."""
    found = {"float32": doc["summary"], "float64": doc["summary64"]}
    lines = [
        f"{s['compared']} cells compared with the peer in {dtype}: it takes "
        f"{number(s['geometric mean'])} times as long as we do in the "
        f"geometric mean; the least ratio is {number(s['least'])} ({s['least cell']}); "
        f"{_count(s['slower cells'])} slower than the "
        f"peer's; {_count(s['close cells'])} between 1 and {CLOSE}."
        + (
            f" {s['bounds']} more, with ≥ in the table, are not in this mean."
            if s["bounds"]
            else ""
        )
        for dtype, s in found.items()
        if s["compared"]
    ]
    s = doc["summary"]
    return "\n\n".join(lines) or (
        f"{s['timed']} of {s['cells']} cells timed; no peer to compare with."
    )


def aims(doc: Doc) -> tuple[list[str], list[list[str]]]:
    """What the compiled path is to reach, what it reaches in this run, and whether that is so."""
    total, rows = len(cells.grid()), []
    for dtype, s in (("float32", doc["summary"]), ("float64", doc["summary64"])):
        if not s["compared"]:
            continue
        mean, least, above = s["geometric mean"], s["least"], s["compared"] - s["slower"]
        above -= len(s["close cells"])
        wanted: list[tuple[str, Any, bool]] = (
            [
                ("geometric mean at least 6", number(mean), mean >= 6),
                (f"at least 80 of {total} cells at {CLOSE} and more", str(above), above >= 80),
                ("at most 2 cells below 1", str(s["slower"]), s["slower"] <= 2),
                ("no cell below 0.9", number(least), least >= 0.9),
            ]
            if dtype == "float32"
            else [("no cell below 1", number(least), least >= 1)]
        )
        part = "" if s["compared"] + s["bounds"] == total else f", {s['compared']} cells so far"
        rows += [[dtype, aim, found, "yes" if ok else "no", part] for aim, found, ok in wanted]
    for row in doc.get("evaluation", []):
        if row.get("ratio") and row["kind"] in FASTER:
            aim, ratio = FASTER[row["kind"]], row["ratio"]
            text = f"{row['kind']} at least {aim} times the reference's speed"
            rows.append(["predictions", text, number(ratio), "yes" if ratio >= aim else "no", ""])
    for row in doc.get("first", []):
        if row["what"] == "cached" and row.get("process s"):
            text, seconds = f"first result of {row['cell']} in less than 1 s", row["process s"]
            found = f"{number(seconds)} s"
            rows.append(["new process", text, found, "yes" if seconds < 1 else "no", ""])
    return ["of", "aim", "found", "reached"], [[*r[:3], r[3] + r[4]] for r in rows]


def _count(names: list[str]) -> str:
    """How many cells, and which."""
    return f"{len(names)} ({', '.join(names)}) are" if names else "none is"


def others_table(doc: Doc) -> tuple[list[str], list[list[str]]]:
    head = [
        "cell",
        "implementation",
        "ours µs",
        "theirs µs",
        "ratio",
        "dtype",
        "compile s",
        "peak MB",
        "difference",
        "notes",
    ]
    rows = []
    for row in doc["others"]:
        times = (
            number(value)
            for value in (time_of(row, "ours"), time_of(row, "peer"), row.get("ratio"))
        )
        apart = row.get("difference")
        sides = (
            both(row, "compile s"),
            both(row, "peak", 1e6),
            "–" if apart is None else f"{apart:.0e}",
        )
        rows.append(
            [
                row["cell"],
                row["peer name"],
                *times,
                row["dtype"],
                *sides,
                other_notes(row, doc["settings"]["backend"]),
            ]
        )
    return head, rows


def other_notes(row: Doc, asked: str = "fast") -> str:
    """What was called, what went wrong, and whether the numbers are not the same."""
    wrong = ["the means differ"] if row.get("agrees") is False else []
    return "; ".join(
        [row["called"], *(e for e in (row.get("error"), notes(row, asked)) if e), *wrong]
    )


def trap_table(doc: Doc) -> tuple[list[str], list[list[str]]]:
    rows = [
        [row["what"], number(row.get("best ms")), number(row.get("worst ms")), row.get("error", "")]
        for row in doc["trap"]
    ]
    return ["tall products", "best ms", "worst ms", "notes"], rows


def evaluation_table(doc: Doc) -> tuple[list[str], list[list[str]]]:
    keys = ("reference ms", "compiled ms", "ratio", "reference MB", "compiled MB")
    head = ["evaluation", "unit", "images", "samples", *keys, "difference", "notes"]
    rows = []
    for row in doc["evaluation"]:
        if "error" in row:
            rows.append([row["kind"], *["–"] * (len(head) - 2), row["error"]])
            continue
        images = f"{row['images']['reference']} / {row['images']['compiled']}"
        numbers = [number(row[key]) for key in keys]
        line = [row["kind"], row["unit"], images, str(row["samples"]), *numbers]
        rows.append([*line, f"{row['difference']:.0e}", ""])
    return head, rows


def first_table(doc: Doc) -> tuple[list[str], list[list[str]]]:
    keys = ("import s", "first run s", "second run s", "process s")
    rows = [
        [row["cell"], row["what"], *(number(row.get(key)) for key in keys), row.get("error", "")]
        for row in doc["first"]
    ]
    return ["first result", "code", *keys, "notes"], rows


# --- the page -------------------------------------------------------------------------------------


def page(doc: Doc, sweep: Doc | None = None) -> str:
    """docs/benchmarks.md."""
    machine, lim = doc["machine"], doc["limits"]
    peer = doc.get("peer") or {}
    with_peer = bool(doc["summary"]["compared"] or doc["summary64"]["compared"])
    parts = [
        "# Benchmarks",
        "Microseconds per observation of the compiled streams (float64), of the authors' "
        "JAX code (petergchang/bong; float32, and float64 as ours) where it "
        "was there to be run, and what the machine would allow. This page is made by "
        "`python -m validation.bench --page` from "
        "`validation/results/bench.json`; how it is measured is in `validation/bench/README.md`.",
        "" if doc["complete"] else "**This run was stopped before its end.**",
        "## Summary",
        sentence(doc),
        "What the compiled path is to reach:" if aims(doc)[1] else "",
        markdown_table(*aims(doc)) if aims(doc)[1] else "",
        "![microseconds per observation](figures/bench.png)",
        "## The machine",
        markdown_table(
            ["", ""], [[key, _plain(value)] for key, value in machine.items()] + _peer_rows(peer)
        ),
        "Its limits, measured in the same run:",
        markdown_table(["limit", "value"], _limit_rows(lim)),
    ]
    for net, title in (
        ("mlp", "MLP 21-20-20-1, gelu, Gaussian, P = 881"),
        ("cnn", "CNN of the paper, softmax, P = 57,722"),
    ):
        rows = [
            line(name, row, doc["settings"]["backend"])
            for name, row in doc["cells"].items()
            if name.endswith("@" + net)
        ]
        if rows:
            parts += [
                f"## {title}",
                markdown_table(COLUMNS, [[f"`{r[0].partition('@')[0]}`", *r[1:]] for r in rows]),
            ]
    parts += ["\n".join(_legend(doc, with_peer))]
    if doc.get("others"):
        head, table = others_table(doc)
        table = [[f"`{row[0]}`", *row[1:]] for row in table]
        parts += [
            "## Other implementations",
            markdown_table(head, table),
            OTHERS + _other_versions(doc),
        ]
    if doc.get("evaluation"):
        parts += ["## Predictions", markdown_table(*evaluation_table(doc)), EVALUATION]
    if doc.get("first"):
        parts += ["## The first result of a new process", markdown_table(*first_table(doc)), FIRST]
    if doc.get("trap"):
        parts += ["## Tall products and BLAS threads", markdown_table(*trap_table(doc)), TRAP]
    if sweep:
        parts += [
            "## Cost against the number of parameters",
            SWEEP,
            "![cost against P](figures/bench-sweep.png)",
            markdown_table(*sweep_rows(sweep)),
        ]
    return "\n\n".join(part for part in parts if part) + "\n"


OTHERS = (
    "Packages that compute a cell of the grid by other code, each in the cells that it "
    "covers, with the same parameters, prior and data, "
    "ours and theirs in turn; ours is float64. Difference: of the two means after one "
    "observation, over the distance from the prior's; "
    "where it is more than rounding in their dtype, there is no ratio. Compile, peak: ours "
    "/ theirs, each row in new processes."
)
EVALUATION = (
    "Predictions of the CNN over a test set, by the reference (what runs where Numba is "
    "missing) and by the compiled path in turn, each in a "
    "process of its own: milliseconds for each unit; the growth of the resident set while "
    "they are made, for the images in the table "
    "(reference / compiled); the largest difference of the values at an image, over the "
    "largest value. `metrics.on` is `nlpd-plugin`, "
    "`nlpd-mc`, `nlpd-lin_mc` and `error` at once, which share samples and linearisation. "
    "`python -m validation.bench.evaluation` times "
    "these alone."
)
FIRST = (
    "Cold: no compiled code on disk. Cached: compiled by an earlier process. Peer: import "
    "of jax and of the agents, then compiling for a "
    "stream of one observation. “process” is the whole life of the process."
)
TRAP = (
    "The product is 46 MFLOP, a millisecond. Some builds of OpenBLAS take a second for it "
    "with two threads; had our DLR step fallen into "
    "that, the last row would show it."
)
SWEEP = (
    "MLPs 21-h-h-1 of growing width, our backend alone. The exponent is the slope of log "
    "time against log P over the larger half of the "
    "sizes; memory is the growth of the resident set, the data apart, over 3 × state + "
    "Jacobian (K × P numbers, K = 1 or M)."
)


def _legend(doc: Doc, with_peer: bool) -> list[str]:
    s = doc["settings"]
    clock = sorted({(row.get("ours") or {}).get("clock") for row in doc["cells"].values()} - {None})
    fewer, late, limit = "", [], s.get("limit")
    if limit is not None:
        fewer = f"; fewer where three of the peer's take more than {number(limit)} s"
        late = [
            f"* ≥: the peer did not finish one observation in {number(limit)} s, compilation "
            "not counted."
        ]
    return [
        f"* I = {cells.N_ITER} for blr and bbb, M = {cells.N_SAMPLES} samples, rank "
        f"{cells.RANK}. Each time is the best of "
        f"{s['repeats']} repeats (at least 3{fewer}), ours and the peer's in turn.",
        *late,
        f"* Ours: backend `{s['backend']}`, float64; the clock is that of the "
        f"{' or the '.join(clock) or 'stream'}."
        + (" Peer: one jit around its scan, no states stacked." if with_peer else ""),
        "* Nearest limit: of memory traffic, matrix products, normal variates and small "
        "eigenproblems the one that takes longest when each "
        "runs at the machine's limit, from a cost model of the cheapest accurate form; "
        "fraction: that time over ours. Above 100 % the code "
        "does with less than the model counts.",
        "* Pairs are ours / peer's. Compile: ours is that of the cell that first uses a "
        "stream, the others of its kind find it compiled"
        + (" (and some were, on disk). " if s.get("compiled before") else ". ")
        + "Peak: of the resident set during the repeats, with all that the process has loaded.",
    ]


def _peer_rows(peer: Doc) -> list[list[str]]:
    return [[f"peer: {key}", str(value)] for key, value in (peer.get("versions") or {}).items()]


def _other_versions(doc: Doc) -> str:
    """A sentence with the versions of what was called."""
    found = {
        name: value
        for row in doc["others"]
        for name, value in (row.get("versions") or {}).items()
        if value
    }
    return (
        f" Versions: {', '.join(f'{name} {value}' for name, value in found.items())}."
        if found
        else ""
    )


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_plain(v)}" for key, v in value.items() if v is not None)
    if isinstance(value, list):
        return "; ".join(map(_plain, value))
    return f"{value:,}" if isinstance(value, int) else str(value)


def _limit_rows(lim: Doc) -> list[list[str]]:
    rows = [
        [f"bandwidth, {where}", f"{number(v['GB/s'])} GB/s"]
        for where, v in lim["bandwidth"].items()
    ]
    rows += [
        [f"dgemm, {threads}", f"{number(v)} GFLOP/s"] for threads, v in lim["dgemm GFLOP/s"].items()
    ]
    rows += [["a normal variate (numpy)", f"{number(lim['normals ns'])} ns"]]
    return rows + [
        [f"eigenproblem of size {size} (LAPACK)", f"{number(v)} µs"]
        for size, v in lim["eigh us"].items()
    ]


def sweep_rows(sweep: Doc) -> tuple[list[str], list[list[str]]]:
    """Of each method: the largest size, the time there, the exponent, the memory, what was left
    out.
    """
    head = [
        "method",
        "largest P",
        "µs there",
        "exponent",
        "memory / (3 state + Jacobian)",
        "left out",
    ]
    rows = []
    for name, curve in sweep["curves"].items():
        last = curve["points"][-1] if curve["points"] else None
        size, us = (f"{last['P']:,}", number(last["us"])) if last else ("–", "–")
        rows.append(
            [
                name,
                size,
                us,
                number(curve.get("exponent")),
                number(curve.get("memory ratio"), 2),
                curve.get("left out", ""),
            ]
        )
    return head, rows


def sweep_text(sweep: Doc) -> str:
    return text_table(*sweep_rows(sweep))


# --- figures --------------------------------------------------------------------------------------

OURS, PEER, DOUBLE, LIMIT = "#0b5fa5", "#d1702a", "#e9c39b", "#777777"


def figure(doc: Doc, file: Path) -> None:
    """Ours, the peer and the machine's limit for every cell: one panel for each network and
    rule.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    nets = [net for net in cells.NETS if any(name.endswith("@" + net) for name in doc["cells"])]
    if not nets:
        return
    rows = {
        net: [
            (f, h)
            for f in cells.FAMILIES
            for h in cells.HESSIANS
            if any(_of(doc, net, r, h, f) for r in cells.RULES)
        ]
        for net in nets
    }
    fig, axes = plt.subplots(
        len(nets), 4, figsize=(13, 1.6 + 0.24 * sum(map(len, rows.values()))), squeeze=False,
         sharey="row", sharex="row",
        gridspec_kw={"height_ratios": [len(rows[net]) for net in nets]}, layout="constrained",
    )  # fmt: skip
    for i, net in enumerate(nets):
        for j, rule in enumerate(cells.RULES):
            _panel(axes[i, j], doc, net, rule, rows[net])
            axes[i, j].set_title(
                f"{rule}, {net.upper()} (P = {cells.NETS[net].n_params:,})", fontsize=10
            )
    for ax in axes[-1]:
        ax.set_xlabel("µs per observation")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False)
    file.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(file, dpi=110)
    plt.close(fig)


def _of(doc: Doc, net: str, rule: str, hess: str, family: str) -> Doc | None:
    return doc["cells"].get(cells.Cell(rule, hess, family, net).id)


def _panel(ax: Any, doc: Doc, net: str, rule: str, rows: list[tuple[str, str]]) -> None:
    ys = range(len(rows))
    found = [_of(doc, net, rule, hess, family) or {} for family, hess in rows]
    mine, theirs, double = (
        [time_of(row, side) for row in found] for side in ("ours", "peer", "peer64")
    )
    limit = [(row.get("bound") or {}).get("us") for row in found]
    for y, a, b in zip(ys, mine, theirs, strict=True):
        if a and b:
            ax.plot([a, b], [y, y], color=OURS if a <= b else "#c00000", lw=1.2, zorder=1)
    for values, colour, marker, label in (
        (limit, LIMIT, "|", "at the machine's limit (model)"),
        (double, DOUBLE, "D", "petergchang/bong, JAX float64"),
        (theirs, PEER, "s", "petergchang/bong, JAX float32"),
        (mine, OURS, "o", "bongref, float64"),
    ):
        points = [(v, y) for v, y in zip(values, ys, strict=True) if v]
        ax.plot(
            [v for v, _ in points],
            [y for _, y in points],
            marker,
            color=colour,
            ms=7 if marker == "|" else 5,
            label=label,
        )
    ax.set_xscale("log")
    ax.set_yticks(list(ys), [f"{family} {hess}" for family, hess in rows], fontsize=8)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.grid(axis="x", color="#dddddd", lw=0.6)
    ax.set_axisbelow(True)
