"""docs/everyday.md: the tables of validation/everyday.py between the page's marks."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from .everyday import MODELS, SEEDS, VARIANTS, WHY
from .everyday_data import OTHER, OTHER_CLASSES, TABLE

PAGE = Path(__file__).resolve().parents[1] / "docs" / "everyday.md"
OURS = "bongref"


def of(found: dict[str, Any], name: str, model: str, key: str) -> Any:
    """The values of all seeds; None where there are none."""
    rows = [found.get(f"{name}|{seed}|{model}") for seed in SEEDS]
    values = [row[key] for row in rows if row and row.get(key) is not None]
    return np.array(values) if values else None


def cell(values: Any, digits: int = 2) -> str:
    """Mean ± standard error."""
    if values is None:
        return "–"
    shape = f".{digits}f" if abs(values.mean()) < 1e6 else ".1e"  # a model that diverged
    if len(values) < 2:
        return f"{values[0]:{shape}}"
    return f"{values.mean():{shape}} ± {values.std(ddof=1) / math.sqrt(len(values)):{shape}}"


def table(head: list[str], rows: list[list[str]]) -> str:
    """A pipe table."""
    lines = ["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]]
    return "\n".join(lines)


def best(found: dict[str, Any], name: str) -> tuple[bool, str]:
    """Whether ours is ahead of every one-pass model, and the nearest of them."""
    rivals = {
        m: v.mean()
        for m in MODELS
        if m != OURS and MODELS[m][1] and (v := of(found, name, m, "nlpd")) is not None
    }
    nearest = min(rivals, key=rivals.__getitem__)
    return bool(of(found, name, OURS, "nlpd").mean() < rivals[nearest]), nearest


def scores(found: dict[str, Any], key: str) -> str:
    """One row for each data set, one column for each model."""
    names = [n for n in TABLE if of(found, n, OURS, key) is not None]
    rows = []
    for name in names:
        cells = [cell(of(found, name, m, key)) for m in MODELS]
        ahead = key == "nlpd" and best(found, name)[0]
        rows.append([name, f"**{cells[0]}**" if ahead else cells[0], *cells[1:]])
    return table(["", *MODELS], rows)


def coverage(found: dict[str, Any]) -> str:
    """Coverage of ours and of the nearest one-pass model."""
    rows = []
    for name in TABLE:
        if of(found, name, OURS, "nlpd") is None:
            continue
        rival = best(found, name)[1]
        both = [
            " / ".join(f"{100 * of(found, name, m, f'cover{p}').mean():.0f}" for p in (50, 90, 95))
            for m in (OURS, rival)
        ]
        seconds = of(found, name, OURS, "seconds").mean()
        rows.append([name, both[0], f"{both[1]} ({rival})", f"{seconds:.1f}"])
    head = ["", "bongref: 50 / 90 / 95 %", "nearest one-pass model", "seconds of our fit"]
    return table(head, rows)


def lost(values: list[float | None]) -> str:
    """How many of the fits diverged; empty if none."""
    n = sum(v is None for v in values)
    return f"{n} of {len(values)} diverged" if n else ""


def reasons(found: dict[str, Any]) -> str:
    """Other settings, where the defaults are behind, beside the nearest one-pass model."""
    rows = []
    for name, settings in WHY.items():
        for what in (OURS, *settings, best(found, name)[1]):
            if of(found, name, what, "nlpd") is not None:
                nlpd, loss = (cell(of(found, name, what, key)) for key in ("nlpd", "loss"))
                cover = [of(found, name, what, f"cover{p}").mean() for p in (50, 90, 95)]
                text = " / ".join(f"{100 * c:.0f}" for c in cover)
                rows.append([name, what, nlpd, loss, text])
    return table(["", "setting", "NLPD", "RMSE or error", "coverage 50 / 90 / 95 %"], rows)


def choices(found: dict[str, Any]) -> str:
    """NLPD of other settings on other data; of regressions in units of the target's deviation."""
    names = [*OTHER, *OTHER_CLASSES]
    rows = []
    for variant in VARIANTS:
        values = [[v for k, v in found.items() if k.startswith(f"{variant}|{n}|")] for n in names]
        if all(values):
            cells = [lost(v) or f"{np.mean(v):.2f}" for v in values]
            every = [x for v in values for x in v]
            mean = lost(every) or f"{np.mean([np.mean(v) for v in values]):.3f}"
            rows.append([variant, *cells, mean])
    return table(["", *names, "mean"], rows)


def write_page(results: Path, chosen: Path) -> None:
    """Replace what stands between the marks."""
    found = {k: v for k, v in json.loads(results.read_text()).items()}
    text = PAGE.read_text(encoding="utf-8")
    names = [n for n in TABLE if of(found, n, OURS, "nlpd") is not None]
    ahead = [n for n in names if best(found, n)[0]]
    behind = ", ".join(f"{n} ({best(found, n)[1]})" for n in names if n not in ahead)
    verdict = f"Ahead of every one-pass model in NLPD on {len(ahead)} of {len(names)} sets"
    verdict += f"; not on {behind}." if behind else "."
    seen = {m: of(found, "protein", m, "prequential") for m in MODELS}
    ahead_of_time = {m: cell(v, 3) for m, v in seen.items() if v is not None}
    parts = {
        "nlpd": verdict + "\n\n" + scores(found, "nlpd"),
        "loss": scores(found, "loss"),
        "coverage": coverage(found),
        "prequential": table(list(ahead_of_time), [list(ahead_of_time.values())])
        if ahead_of_time
        else "",
        "why": reasons(found),
        "choices": choices(json.loads(chosen.read_text())) if chosen.exists() else "",
    }
    for name, part in parts.items():
        first, last = f"<!-- {name}: made by validation/everyday.py -->", f"<!-- end of {name} -->"
        if text.count(first) != 1 or text.count(last) != 1:
            raise SystemExit(f"{PAGE} must have the lines {first} and {last} once")
        before, _, rest = text.partition(first)
        text = before + first + "\n" + part + "\n" + last + rest.partition(last)[2]
    PAGE.write_text(text, encoding="utf-8")
