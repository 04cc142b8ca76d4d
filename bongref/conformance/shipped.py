"""``bongref vectors``: what the shipped vectors hold, and whether their values can be rederived."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ..grid import FAMILIES
from . import vectors
from .flags import meaning
from .vectors import Case

SHOWN = 8  # differences of one case


def summary(levels: Sequence[str] | None = None) -> str:
    """Counts by level and family, the flags with their meaning, the files and their size."""
    cases = vectors.load(levels)
    files = sorted(vectors.FOLDER.glob("*.json"))
    columns = (*FAMILIES, "any")
    head = f"{'':<16}" + "".join(f"{c:>10}" for c in (*columns, "all", "refuse"))
    lines = [head]
    for label, level in vectors.LEVELS.items():
        here = [c for c in cases if c.level == level]
        if here:
            counts = [sum(_family(c) == f for c in here) for f in columns]
            numbers = [*counts, len(here), sum(c.result != "value" for c in here)]
            lines.append(
                f"{'' if label == level else label:<4}{level:<12}"
                + "".join(f"{n or '.':>10}" for n in numbers)
            )
    lines += [
        "refuse: an input to be refused, or a result that is not positive definite",
        "",
        "flags, how many cases have them, and what these catch",
    ]
    for flag in sorted({f for c in cases for f in c.flags}):
        number = sum(flag in c.flags for c in cases)
        lines.append(f"  {flag:<24}{number:>5}  {meaning(flag)}")
    size = sum(f.stat().st_size for f in files) / 2**20
    values = sum(len(c.expected) for c in cases)
    where = f"{len(files)} files of {size:.1f} MB in {vectors.FOLDER}"
    lines += ["", f"{len(cases)} cases with {values} quantities; in all {where}"]
    lines.append(f"schema {vectors.SCHEMA}: {vectors.SCHEMA_FILE}")
    return "\n".join(lines)


def _family(case: Case) -> str:
    return case.subject.get("family") or (
        case.subject["method"].split("-")[-1] if "method" in case.subject else "any"
    )


def listing(cases: Sequence[Case], needs: bool = False) -> str:
    """A line for each case: id, result, flags; or id, result and what it needs."""
    width = max(len(c.id) for c in cases) + 2
    if needs:
        from .findings import needs as words

        return "\n".join(
            f"{c.id:<{width}}{c.result:<23}{', '.join(words(c))}".rstrip() for c in cases
        )
    return "\n".join(f"{c.id:<{width}}{c.result:<23}{', '.join(c.flags)}".rstrip() for c in cases)


def make(
    levels: Sequence[str] | None = None, progress: Callable[[str, int], None] | None = None
) -> dict[str, list[Case]]:
    """Every case from scratch, by the name of its file."""
    from . import cases

    return cases.make(levels, progress)


def write(folder: Any, files: dict[str, list[Case]]) -> Iterator[str]:
    """Write the files; what was written, in words."""
    from . import cases

    cases.write(folder, files)
    for name, of in files.items():
        path = Path(folder) / name
        yield f"{path}: {len(of)} cases, {path.stat().st_size / 1024:.0f} kB"


CLOSE = 0.02  # of scales, conditions and tolerances, which depend on the BLAS


def rederive(
    cases: Sequence[Case], progress: Callable[[str, int], None] | None = None
) -> Iterator[str]:
    """The differences of cases from what is derived from their inputs.

    Values must have the same bits, tolerances may differ by 2 %.
    """
    from .values import derive

    for k, case in enumerate(cases):
        found = list(
            _differs(vectors.plain(case), vectors.plain(case._replace(expected=derive(case))), "")
        )
        yield from (f"{case.id}: {line}" for line in found[:SHOWN])
        if len(found) > SHOWN:
            yield f"{case.id}: and {len(found) - SHOWN} more differences"
        if progress:
            progress(case.id, k + 1)


def _differs(a: Any, b: Any, at: str) -> Iterator[str]:
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        for key in a:
            yield from _differs(a[key], b[key], f"{at}.{key}" if at else key)
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for k, (x, y) in enumerate(zip(a, b, strict=True)):
            name = x.get("quantity", k) if isinstance(x, dict) else k
            yield from _differs(x, y, f"{at}[{name}]")
    elif at.endswith((".scale", ".cond", ".float64", ".float32")) and None not in (a, b):
        if abs(a - b) > CLOSE * abs(a):
            yield f"{at}: shipped {a}, derived {b}"
    elif repr(a) != repr(b):  # of floats: their bits
        yield f"{at}: shipped {_clip(a)}, derived {_clip(b)}"


def _clip(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"


def verdict(cases: Sequence[Case], found: Sequence[str]) -> str:
    """The last line."""
    bad = len({line.split(": ")[0] for line in found})
    return (
        f"{bad} of {len(cases)} cases DIFFER"
        if found
        else f"{len(cases)} cases are derived again to the same bits"
    )
