"""``bongref report``: one page and the figures from a folder of results, finished or not.

The page needs no network and has light and dark colours. Every number of it is a mean over runs
that are listed below it, each with the command that reproduces it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ... import reports
from ..._version import __version__
from ...errors import InvalidValue
from ...reports import Block, Code, Document, Fields, Figure, Inline, Section, Span, Table, Text
from .. import store
from ..records import Record, canonical
from . import calibration, figures, statistics
from .drawing import Picture, metric_title, renamed, require_matplotlib
from .statistics import Group, Point, TaskResults, number

DERIVED = ("checksum", "files", "standardisation")  # of a task, by its other facts
PAGE, DATA = "report.html", "report.json"


class Report(NamedTuple):
    """A report before it is written.

    Attributes
    ----------
    document : bongref.reports.Document
    pictures : list of Picture
    """

    document: Document
    pictures: list[Picture]


class Folder(NamedTuple):
    """The results of a folder."""

    name: str
    records: list[Record]
    notes: list[str]
    missing: int | None  # runs that were asked for and are not there, where that is known
    coming: list[Record] | None  # what they are, where the plan says it


def read(folder: str | os.PathLike[str]) -> Folder:
    """The results of a folder, finished or not.

    Parameters
    ----------
    folder : path
        That ``bongref run`` wrote, or is writing.

    Returns
    -------
    Folder

    Raises
    ------
    InvalidValue
        If there are no results in it.
    """
    path = Path(folder)
    if not path.is_dir():
        raise InvalidValue(
            f"folder must be one that bongref run wrote, and there is no folder {str(path)!r}"
        )
    found = store.read(path)
    if not found.records:
        raise InvalidValue(
            f"folder must hold at least one result, and {str(path / store.NAME)!r} has none yet; "
            "wait for the first run, or give the bongref run command again"
        )
    asked = store.planned(path)
    left = [asked[key] for key in asked.keys() - {r["key"] for r in found.records}]
    known = [one for one in left if one is not None]
    coming = known if asked and len(known) == len(left) else None
    return Folder(str(path), found.records, found.notes, len(left) if asked else None, coming)


def make(
    folder: str | os.PathLike[str],
    *,
    against: str | os.PathLike[str] | None = None,
    by: str | None = None,
) -> Report:
    """The report of a folder of results.

    Parameters
    ----------
    folder : path
        That ``bongref run`` wrote, or is writing.
    against : path, optional
        Another folder, of another version or machine, to overlay and compare.
    by : str, optional
        The metric that methods are ranked by; by default the plugin NLPD, else the first.

    Returns
    -------
    Report

    Raises
    ------
    InvalidValue
        If a folder has no results, or no run has the metric ``by``.
    ImportError
        If Matplotlib is not installed.
    """
    require_matplotlib()
    here = read(folder)
    there = None if against is None else read(against)
    tasks = statistics.by_task(here.records, here.coming)
    others = [] if there is None else statistics.by_task(there.records)
    if by is not None and not any(by in b.metrics for b in tasks):
        known = sorted({m for b in tasks for m in b.metrics})
        raise InvalidValue(f"by must be one of {', '.join(known) or 'no metric'}, got {by!r}")
    pictures: list[Picture] = []
    body: list[Block] = [_state(here, tasks), *_notes(here, there, tasks, others)]
    body.append(_facts(here, there))
    data: dict[str, Any] = {"folder": here.name, "version": __version__, "tasks": []}
    titles = _titles([results.task for results in tasks])
    for k, (results, title) in enumerate(zip(tasks, titles, strict=True), 1):
        there_board = statistics.same_task(results.task, others)
        metric = by if by in results.metrics else statistics.main_metric(results.metrics)
        prefix = f"{k}-{reports.anchor(results.task['name'])}-" if len(tasks) > 1 else ""
        section, drawn, numbers = _task(results, there_board, metric or "", prefix, title)
        body.append(section)
        pictures += drawn
        data["tasks"].append(numbers)
    name = f"Report of {Path(here.name).resolve().name}"
    return Report(Document(name, body, data), pictures)


def write(report: Report, out: str | os.PathLike[str]) -> list[Path]:
    """Write the page, its numbers as JSON, and each figure as PNG and PDF.

    Parameters
    ----------
    report : Report
    out : path
        A folder, which is made if there is none.

    Returns
    -------
    list of Path
        The files; the page is the first.

    Raises
    ------
    InvalidValue
        If the folder cannot be made or written to.
    """
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        written = [folder / PAGE, folder / DATA]
        reports.save(written[0], reports.html(report.document))
        reports.save(written[1], reports.to_json(report.document.data))
        for picture in report.pictures:
            for ending, content in (("png", picture.png), ("pdf", picture.pdf)):
                path = folder / f"{picture.name}.{ending}"
                path.write_bytes(content)
                written.append(path)
    except OSError as error:
        raise InvalidValue(
            f"out must be a folder that can be written to, got {str(folder)!r} "
            f"({error.strerror}); use another --out"
        ) from None
    return written


def headline(report: Report) -> str:
    """The first sentence of a report: whether the results are complete."""
    first = report.document.body[0]
    assert isinstance(first, Text) and isinstance(first.content, str)
    return first.content


# --- the head of the page -------------------------------------------------------------------------


def _state(here: Folder, tasks: Sequence[TaskResults]) -> Block:
    """Whether the results are complete, in one sentence."""
    counts = {
        s: sum(r["status"] == s for r in here.records) for s in ("done", "diverged", "failed")
    }
    ended = counts["done"] + counts["diverged"]
    missing = sum(b.missing for b in tasks) if here.missing is None else here.missing
    planned = len(here.records) - counts["failed"] + missing
    said = f"{reports.plural(counts['done'], 'run')} complete, {counts['diverged']} diverged"
    if counts["failed"]:
        said += f", {counts['failed']} failed"
    if ended < planned:
        return Text(
            f"Not finished: {ended} of {planned} runs have a result ({said}). All means are over "
            "the runs that are there; the same bongref run command goes on.",
            status="part",
        )
    return Text(f"Finished: {said}.", status="fail" if counts["failed"] else "pass")


def _notes(
    here: Folder, there: Folder | None, tasks: Sequence[TaskResults], others: Sequence[TaskResults]
) -> list[Block]:
    notes = [*here.notes, *(there.notes if there else [])]
    if len(tasks) > 1:
        notes.append(
            f"The folder has results of {len(tasks)} tasks; each has a section of its own, and "
            "nothing is compared across them."
        )
    for results in tasks if there else ():
        other, name = statistics.same_task(results.task, others), results.task["name"]
        where = there.name if there else ""
        if other is None:
            notes.append(
                f"{where} has no results of the task {name} with the same data, split and "
                "settings: nothing is overlaid."
            )
        elif other.task != results.task:
            notes.append(
                f"The data of {name} in {where} have another checksum: the same files, split and "
                "settings, and numbers that differ after six digits, as on another machine."
            )
    return [Text(note, status="part") for note in notes]


def _facts(here: Folder, there: Folder | None) -> Block:
    items: list[tuple[str, Inline]] = []
    for name, folder in (("results", here), ("against", there)):
        if folder is None:
            continue
        versions = sorted({_versions(r) for r in folder.records})
        hosts = sorted({str(r["timing"].get("host", "?")) for r in folder.records})
        items.append((name, folder.name))
        items.append(("versions", "\n".join(versions)))
        items.append(("computed on", ", ".join(hosts)))
    items.append(("page made by", f"bongref {__version__}"))
    return Fields(items)


def _versions(record: Record) -> str:
    return ", ".join(f"{k} {v}" for k, v in record["versions"].items() if v is not None)


# --- a task ---------------------------------------------------------------------------------------


def _task(
    results: TaskResults, there: TaskResults | None, metric: str, prefix: str, title: str
) -> tuple[Section, list[Picture], dict[str, Any]]:
    order = statistics.ranks(results, metric)
    pictures = [renamed(p, prefix) for p in _pictures(results, there, metric, order)]
    body: list[Block] = [_task_facts(results)]
    body.append(
        Section(
            "At the end of the stream",
            [Text(_table_words(metric)), _table(results, metric, order, prefix)],
            id=f"{prefix}final",
        )
    )
    if there is not None:
        body.append(_comparison(results, there, metric, prefix))
    figures = [_figure(p, prefix) for p in pictures]
    body.append(Section("Figures", figures, id=f"{prefix}figures"))
    body += _lost(results, prefix)
    runs = [_runs(results, group, prefix) for group in results.groups]
    said = Text("Each run with the command that computes it again, alone.")
    body.append(Section("Runs", [said, *runs], id=f"{prefix}runs"))
    return Section(title, body, id=f"{prefix}task"), pictures, _numbers(results, metric, order)


def _titles(tasks: Sequence[Mapping[str, Any]]) -> list[str]:
    """A title for each task; those of one name with what differs between them."""
    titles = []
    for task in tasks:
        same = [other for other in tasks if other["name"] == task["name"]]
        differ = [k for k in task if len({canonical(o.get(k)) for o in same}) > 1]
        plain = [k for k in differ if k not in DERIVED] or differ
        said = ", ".join(f"{k.replace('_', ' ')} {_plain(task[k])}" for k in plain)
        titles.append(f"Task {task['name']}" + (f" ({said})" if said else ""))
    return titles


def _pictures(
    results: TaskResults, there: TaskResults | None, metric: str, order: Mapping[str, float]
) -> list[Picture]:
    found: list[Picture | None] = [
        figures.curves(results, name, order, there) for name in results.metrics
    ]
    for kind in calibration.kinds(results):
        lines = {g.id: line for g in results.groups if (line := calibration.line(g, kind))}
        found.append(figures.calibration(results, kind, order, lines))
    if metric:
        found.append(figures.time_and_quality(results, metric))
        found.append(figures.learning_rates(results, metric))
    found.append(figures.divergence(results))
    return [p for p in found if p is not None]


def _figure(picture: Picture, prefix: str) -> Figure:
    svg = picture.svg
    files = [f"{picture.name}.png", f"{picture.name}.pdf"]
    return Figure(
        picture.title, svg, picture.caption, picture.alt, files, picture.wide, picture.name
    )


def _task_facts(results: TaskResults) -> Block:
    task = results.task
    hidden = ("name", "files")
    items: list[tuple[str, Inline]] = [
        (key.replace("_", " "), _plain(value))
        for key, value in task.items()
        if key not in hidden and value not in (None, {}, [], "")
    ]
    files = task.get("files") or {}
    if files:
        items.append(("files", _plain(files)))
    items.append(("seeds", ", ".join(map(str, results.seeds))))
    return Section("The task", [Fields(items)], folded=True)


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{k} {_plain(v)}" for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_plain, value))
    return number(value, 6)


# --- the final table ------------------------------------------------------------------------------


def _table_words(metric: str) -> Inline:
    return [
        "Mean ± standard error over the complete runs, and the place of the mean in its column. "
        "Ranked by the mean rank of ",
        Span(metric_title(metric), style="strong"),
        " over the seeds; a run that diverged ranks last in its seed. "
        "A method links to its runs and their commands.",
    ]


def _table(results: TaskResults, metric: str, order: Mapping[str, float], prefix: str) -> Table:
    names = [metric, *(m for m in results.metrics if m != metric)] if metric else []
    cells = {name: _column(results, name) for name in names}
    head = ["method", "#", "mean rank", "runs", *map(metric_title, names), "seconds"]
    groups = sorted(results.groups, key=lambda g: (order.get(g.id, float("inf")), g.label))
    rows: list[list[Inline]] = []
    place = statistics.places(order)
    for g in groups:
        rank = order.get(g.id)
        rows.append(
            [
                Span(g.label, link=f"#{prefix}{g.id}", style="code"),
                str(place.get(g.id, "–")),
                f"{rank:.2f}" if rank is not None else "–",
                _count(g, results),
                *(cells[name][g.id] for name in names),
                _seconds(g),
            ]
        )
    for label, n in results.absent:
        empty: list[Inline] = ["–"] * (len(names) + 1)
        count = Span(f"0 of {n}, {n} to come", status="part")
        rows.append([Span(label, style="code"), "–", "–", count, *empty])
    right = range(1, len(head))
    return Table(head, rows, id=f"{prefix}table", right=tuple(right))


def _column(results: TaskResults, metric: str) -> dict[str, Inline]:
    found = {g.id: statistics.last(g, metric) for g in results.groups}
    place = statistics.places({id: p.mean for id, p in found.items() if p.n and p.n == p.of})
    return {id: _mean(p, place.get(id)) for id, p in found.items()}


def _there(p: Point, here: Group, there: Group) -> str | Span:
    """A mean of the other folder, and what computed it where that is another implementation."""
    mean = _mean(p, None)
    if there.adapter == here.adapter:
        return mean
    return Span([mean, Span(f" by {there.adapter or 'bongref'}", style="small")])


def _mean(p: Point, place: int | None) -> str | Span:
    """A mean with its error; what is not in it stands beside it."""
    if not p.of:
        return "–"
    lost = [f"{p.diverged} diverged"] if p.diverged else []
    lost += [f"{p.infinite} not finite"] if p.infinite else []
    if not p.n:
        return Span(", ".join(lost) if p.infinite else "all diverged", status="fail")
    shown = _with_error(p)
    if lost:
        says = f"mean of {p.n} of {p.of} runs: {', '.join(lost)}"
        return Span(
            [shown, Span(f"{p.n} of {p.of} runs", style="small")],
            status="part",
            title=says,
        )
    said: list[str | Span] = [shown]
    said += [] if place is None else [Span(f"({place})", style="small")]
    return Span(said, status="pass" if place == 1 else "")


def _with_error(p: Point) -> str:
    if p.error != p.error:
        return number(p.mean)
    return f"{number(p.mean)} ± {number(p.error, 2)}"


def _count(group: Group, results: TaskResults) -> Inline:
    done, lost = len(group.having("done")), len(group.having("diverged"))
    failed, left = len(group.having("failed")), results.to_come(group)
    n = len(group.runs) + left
    said = [f"{done} of {n}"]
    said += [f"{lost} diverged"] if lost else []
    said += [f"{failed} failed"] if failed else []
    said += [f"{left} to come"] if left else []
    return Span(", ".join(said), status="part" if len(said) > 1 else "")


def _seconds(group: Group) -> str:
    p = statistics.seconds(group)
    return number(p.mean, 3) if p.n else "–"


# --- another folder -------------------------------------------------------------------------------


def _comparison(results: TaskResults, there: TaskResults, metric: str, prefix: str) -> Section:
    known = statistics.counterparts(results, there)
    rows: list[list[Inline]] = []
    for g in results.groups:
        if g.id not in known:
            continue
        other = known[g.id]
        d = statistics.difference(g, other, metric)
        every = d.same == d.paired.of and d.same > 0
        rows.append(
            [
                Span(g.label, style="code"),
                _mean(d.here, None),
                _there(d.there, g, other),
                _with_error(d.paired) if d.paired.n else "–",
                Span(f"{d.same} of {d.paired.of}", status="pass" if every else ""),
                f"{number(d.speed, 3)}×" if d.speed == d.speed else "–",
            ]
        )
    title = metric_title(metric)
    head = [
        "method", f"{title}, here", "there", "here − there, same seeds", "equal bit for bit",
        "faster here by",
    ]  # fmt: skip
    only = [g.label for g in results.groups if g.id not in known]
    taken = {g.id for g in known.values()}
    theirs = [g.label for g in there.groups if g.id not in taken]
    says = [f"only here: {', '.join(only)}"] if only else []
    says += [f"only there: {', '.join(theirs)}"] if theirs else []
    table = Table(head, rows, id=f"{prefix}against-table", right=(1, 2, 3, 4, 5))
    body: list[Block] = [table] if rows else []
    body += [Text("; ".join(says))] if says else []
    return Section("Against the other folder", body, id=f"{prefix}against")


# --- runs -----------------------------------------------------------------------------------------


def _lost(results: TaskResults, prefix: str) -> list[Block]:
    """What diverged or failed, in words."""
    out: list[Block] = []
    for status, title in (("diverged", "Runs that diverged"), ("failed", "Runs that failed")):
        rows: list[list[Inline]] = [
            [Span(g.label, style="code"), str(r["seed"]), str(r["step"]), r["reason"]]
            for g in results.groups
            for r in g.having(status)
        ]
        if rows:
            table = Table(["method", "seed", "step", "what happened"], rows, right=(1, 2))
            whole = f"{title} ({len(rows)})"
            out.append(Section(whole, [table], id=f"{prefix}{status}", folded=len(rows) > 20))
    return out


def _runs(results: TaskResults, group: Group, prefix: str) -> Section:
    names = results.metrics[:3]
    head = ["seed", "status", *map(metric_title, names), "seconds", "command"]
    rows: list[list[Inline]] = []
    for r in group.runs:
        finals = (statistics.final(r, name) for name in names)
        state = r["status"] if r["status"] == "done" else f"{r['status']} at step {r['step']}"
        rows.append(
            [
                str(r["seed"]),
                Span(state, status="" if r["status"] == "done" else "fail"),
                *("–" if v is None else number(v, 6) for v in finals),
                number(float(r["timing"]["steps"]), 3),
                Span(r["command"], style="code"),
            ]
        )
    right = (0, *range(2, 3 + len(names)))
    body: list[Block] = [Table(head, rows, right=right)]
    warned = sorted({w for r in group.runs for w in r.get("warnings", [])})
    body += [Code("\n".join(warned[:5]))] if warned else []
    count = reports.plural(len(group.runs), "run")
    return Section(f"{group.label} ({count})", body, id=f"{prefix}{group.id}", folded=True)


# --- numbers --------------------------------------------------------------------------------------


def _numbers(results: TaskResults, metric: str, order: Mapping[str, float]) -> dict[str, Any]:
    """The numbers of a task as plain data, with the commands behind them."""
    return {
        "task": json.loads(json.dumps(results.task)),
        "ranked_by": metric,
        "seeds": list(results.seeds),
        "groups": [
            {
                "id": g.id,
                "label": g.label,
                "method": g.method,
                "params": g.params,
                "mean_rank": order.get(g.id),
                "final": {m: statistics.last(g, m)._asdict() for m in results.metrics},
                "seconds": statistics.seconds(g)._asdict(),
                "runs": [
                    {k: r[k] for k in ("id", "seed", "status", "step", "reason", "command")}
                    for r in g.runs
                ],
            }
            for g in results.groups
        ],
    }
