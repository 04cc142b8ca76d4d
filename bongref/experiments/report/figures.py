"""What the figures of a report show: curves, calibration, time, learning rates, divergence."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from . import statistics
from .drawing import (
    DASHES,
    GREY,
    INK,
    MARKERS,
    MOST,
    PALETTE,
    RULE_COLOUR,
    SETTINGS_IN_A_ROW,
    Look,
    Picture,
    draw_crosses,
    draw_curve,
    foot_of,
    frame,
    grid_shape,
    is_wide,
    legend,
    limits,
    looks,
    metric_title,
    picture,
    rule_legend,
    setting,
    setting_legend,
)
from .statistics import Group, Point, TaskResults, number

PANEL, SMALL = (5.4, 3.3), (2.75, 2.0)  # inches of a panel, and of one of many
BESIDE = 0.045  # of the width of a panel: between the crosses of two methods at one rate
LIFTS = (6.0, 14.0)  # points from a cross to its words, in turn, since neighbours are close
ROWS = 60  # of the figure of runs that diverged


def curves(
    results: TaskResults, metric: str, order: Mapping[str, float], there: TaskResults | None = None
) -> Picture | None:
    """A metric against observations, mean ±1 standard error; None where no run has it."""
    lines = {g.id: statistics.curve(g, metric) for g in results.groups}
    other = statistics.counterparts(results, there) if there else {}
    theirs = {id: statistics.curve(g, metric) for id, g in other.items()}
    if not any(lines.values()):
        return None
    style, panels = looks(results), statistics.facets(results.groups, MOST)
    many = len(panels) > 1
    shown = {id for _, gs in panels for id in statistics.leaders(gs, order)}
    bottom, top = limits([[p.mean for p in ps] for ps in lines.values()])
    steps = sorted({p.t for ps in lines.values() for p in ps})
    lost = {g.id: statistics.crosses(g, metric) for g in results.groups}
    seen = sorted({*steps, *(step for found in lost.values() for step, _ in found)})

    shape = grid_shape(len(panels))
    named = _settings(results, shown, style)
    foot = _foot(len(named)) if many else foot_of(len(shown))

    def paint(figure: Any, axes: Sequence[Any]) -> None:
        frame(axes, len(panels), shape[1], seen, (bottom, top), log=is_wide(steps))
        for axis, (title, groups) in zip(axes, panels, strict=False):
            for g in sorted(groups, key=lambda g: g.id in shown):
                if g.id in shown:
                    draw_curve(axis, lines[g.id], style[g.id], label=_label(g, metric))
                else:
                    draw_faint(axis, lines[g.id], GREY)
                if theirs.get(g.id):
                    draw_faint(axis, theirs[g.id], style[g.id].colour)
            axis.set_title(title, loc="left", y=1.0)
            _over_the_top(axis, [lines[g.id] for g in groups], [style[g.id] for g in groups])
            for g in groups:
                draw_crosses(axis, lost[g.id], style[g.id])
        axes[0].set_ylabel(metric_title(metric))
        if many:
            figure.supxlabel("observations", fontsize=9, y=(foot + 0.07) / figure.get_figheight())
            rule_legend(figure, results.groups)
            setting_legend(figure, named)
        else:
            axes[0].set_xlabel("observations")
            legend(figure, axes[0])

    outside = sum(any(p.mean > top for p in ps) for ps in lines.values())
    return picture(
        f"curve-{metric}",
        f"{metric_title(metric)} against observations",
        _curve_caption(results, outside, bool(other)),
        f"{metric_title(metric)} against observations: {_best_words(results, metric)}",
        shape,
        paint,
        tight=many,
        foot=foot,
        panel=SMALL if many else PANEL,
    )


def draw_faint(axis: Any, points: Sequence[Point], colour: str) -> None:
    """A thin line without an error band."""
    t, mean = [p.t for p in points], [p.mean for p in points]
    axis.plot(t, mean, color=colour, linewidth=0.9, linestyle=(0, (2, 2)), alpha=0.75, label="_")


def _label(group: Group, metric: str) -> str:
    found = statistics.last(group, metric)
    return group.label if found.n == found.of else f"{group.label} ({found.n} of {found.of} runs)"


def _over_the_top(axis: Any, lines: Sequence[Sequence[Point]], style: Sequence[Look]) -> None:
    """An arrowhead where a curve leaves the panel at the top."""
    top = axis.get_ylim()[1]
    for points, look in zip(lines, style, strict=True):
        over = [p.t for p in points if p.mean > top]
        if over:
            axis.plot(
                [over[0]], [top], marker=10, color=look.colour, markersize=6, clip_on=False,
                linestyle="none", label="_",
            )  # fmt: skip


def _curve_caption(results: TaskResults, outside: int, overlaid: bool) -> str:
    says = ["Lines: mean over seeds; bands: ±1 standard error."]
    if any(g.having("diverged") for g in results.groups):
        says.append(
            "A cross is a run that diverged; from there on the mean is over the runs that remain "
            "and its line is dotted."
        )
    if outside:
        one = outside == 1
        says.append(
            f"{outside} of {len(results.groups)} curves leave{'s' if one else ''} the frame at the "
            "top (arrowheads)."
        )
    if overlaid:
        says.append("Thin dashed lines of the same colour: the other folder.")
    if len(results.groups) > MOST:
        says.append("In panels of many: in colour the best settings of each rule, the others grey.")
    return " ".join(says)


def _best_words(results: TaskResults, metric: str) -> str:
    ends = [(statistics.last(g, metric), g.label) for g in results.groups]
    finite = sorted((p.mean, label) for p, label in ends if p.n)
    if not finite:
        return "no run is complete"
    (low, best), (high, worst) = finite[0], finite[-1]
    return f"at the end lowest for {best} ({number(low)}), highest for {worst} ({number(high)})"


# --- calibration ----------------------------------------------------------------------------------


def calibration(
    results: TaskResults, kind: str, order: Mapping[str, float], lines: Mapping[str, Any]
) -> Picture | None:
    """Calibration curves of one kind of predictive.

    ``lines`` maps group ids to (expected, observed) of shares in [0, 1].
    """
    if not lines:
        return None
    style = looks(results)
    panels = statistics.facets([g for g in results.groups if g.id in lines], MOST)
    many = len(panels) > 1
    shown = {id for _, gs in panels for id in statistics.leaders(gs, order)}
    classes = results.task.get("kind") != "regression"
    labels = ("confidence", "accuracy") if classes else ("nominal coverage", "coverage")

    shape = grid_shape(len(panels))
    named = _settings(results, shown, style)
    foot = _foot(len(named)) if many else foot_of(len(shown))

    def paint(figure: Any, axes: Sequence[Any]) -> None:
        frame(axes, len(panels), shape[1], (0.0, 1.0), (-0.03, 1.03))
        for axis, (title, groups) in zip(axes, panels, strict=False):
            axis.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle=(0, (4, 3)), label="_")
            for g in groups:
                x, y = lines[g.id]
                look = style[g.id] if g.id in shown else Look(GREY, DASHED, "")
                width = 1.5 if g.id in shown else 0.8
                axis.plot(
                    x, y, color=look.colour, linestyle=look.dash, marker=look.marker or None,
                    markersize=3.2, linewidth=width, label=g.label if g.id in shown else "_",
                )  # fmt: skip
            axis.set_title(title, loc="left", y=1.0)
        axes[0].set_ylabel(labels[1])
        if many:
            figure.supxlabel(labels[0], fontsize=9, y=(foot + 0.07) / figure.get_figheight())
            rule_legend(figure, results.groups)
            setting_legend(figure, named)
        else:
            axes[0].set_xlabel(labels[0])
            legend(figure, axes[0])

    over = "too sure" if classes else "intervals too narrow"
    return picture(
        f"calibration-{kind}",
        f"Calibration ({kind})",
        f"Counts of all complete runs together, at the end of the stream. Below the diagonal: "
        f"{over}.",
        f"Calibration curves of {len(lines)} methods for the {kind} predictive",
        shape,
        paint,
        tight=many,
        foot=foot,
        panel=SMALL if many else PANEL,
    )


DASHED = (0, (2, 2))


# --- time -----------------------------------------------------------------------------------------


def time_and_quality(results: TaskResults, metric: str) -> Picture | None:
    """The metric at the end against the seconds of a run."""
    found = [(g, statistics.seconds(g), statistics.last(g, metric)) for g in results.groups]
    found = [(g, s, q) for g, s, q in found if s.n and q.n and s.mean > 0]
    if not found:
        return None
    style, few = looks(results), len(results.groups) <= MOST
    bottom, top = limits([[q.mean for _, _, q in found]])
    front = _front([(s.mean, q.mean) for _, s, q in found])

    def paint(figure: Any, axes: Sequence[Any]) -> None:
        (axis,) = axes
        frame(axes, 1, 1, sorted(s.mean for _, s, _ in found), (bottom, top), log=True)
        for k, (g, s, q) in enumerate(found):
            look, y = style[g.id], min(q.mean, top)
            axis.errorbar(
                [s.mean], [y], yerr=None if math.isnan(q.error) else [q.error],
                color=look.colour, marker=look.marker if q.mean <= top else 10, markersize=5.5,
                linestyle="none", capsize=0, elinewidth=1.2, label=g.label,
            )  # fmt: skip
            if k in front and not few:
                axis.annotate(
                    g.label, (s.mean, y), xytext=(5, 4), textcoords="offset points", fontsize=7
                )
        axis.set_xlabel("seconds in the steps of one run")
        axis.set_ylabel(metric_title(metric))
        if few:
            legend(figure, axis)
        else:
            rule_legend(figure, results.groups, short=True)

    hosts = sorted({r["timing"].get("host", "?") for g in results.groups for r in g.runs})
    absent = len(results.groups) - len(found)
    says = [
        f"Time without compilation and evaluation, on {', '.join(hosts)}.",
        "Named: those that none beats in both." if not few else "",
        f"Not shown, without a complete run: {absent}." if absent else "",
    ]
    names = ", ".join(found[k][0].label for k in sorted(front)[:5])
    return picture(
        "time",
        "Time against quality",
        " ".join(filter(None, says)),
        f"{metric_title(metric)} against seconds; no other method is both faster and better than "
        f"{names}",
        (1, 1),
        paint,
        foot=foot_of(len(found)) if few else 0.3,
        panel=(5.4, 3.3) if few else (7.6, 4.6),
    )


def _front(points: Sequence[tuple[float, float]]) -> set[int]:
    """The points that no other is at most equal to in both coordinates."""
    out: set[int] = set()
    best = math.inf
    for k in sorted(range(len(points)), key=lambda k: points[k]):
        if points[k][1] < best:
            best = points[k][1]
            out.add(k)
    return out


# --- learning rates -------------------------------------------------------------------------------


def series(results: TaskResults) -> dict[tuple[str, str], dict[str, list[Group]]]:
    """Groups that differ in alpha alone: by (hess, family), then by label, sorted by alpha."""
    found: dict[tuple[str, str], dict[str, list[Group]]] = {}
    for g in results.groups:
        rule, hess, family = g.parts
        if "alpha" in g.params and family:
            rest = [word for word in g.label.split()[1:] if not word.startswith("α=")]
            label = " ".join([rule, *rest])
            found.setdefault((hess, family), {}).setdefault(label, []).append(g)
    for by_label in found.values():
        for label in list(by_label):
            by_label[label].sort(key=lambda g: float(g.params["alpha"]))
            if len({g.params["alpha"] for g in by_label[label]}) < 2:
                del by_label[label]
    return {key: by_label for key, by_label in found.items() if by_label}


def learning_rates(results: TaskResults, metric: str) -> Picture | None:
    """The metric at the end against the learning rate; None where no method has two of them."""
    panels = list(series(results).items())
    if not panels:
        return None
    many = len(panels) > 1
    ends = {
        g.id: statistics.last(g, metric)
        for _, by in panels
        for groups in by.values()
        for g in groups
    }
    base = {key: _bong(results, key) for key, _ in panels}
    shown = [p.mean for p in ends.values()]
    shown += [statistics.last(g, metric).mean for found in base.values() for g in found]
    bottom, top = limits([shown])
    labels = list(dict.fromkeys(label for _, by in panels for label in by))
    style = {label: _series_look(label, k, labels) for k, label in enumerate(labels)}

    shape = grid_shape(len(panels), 3)
    rates = sorted(
        {float(g.params["alpha"]) for _, by in panels for groups in by.values() for g in groups}
    )

    def paint(figure: Any, axes: Sequence[Any]) -> None:
        frame(axes, len(panels), shape[1], rates, (bottom, top), log=True)
        for axis, ((hess, family), by_label) in zip(axes, panels, strict=False):
            for k, g in enumerate(base[hess, family]):
                level = statistics.last(g, metric)
                axis.axhline(
                    level.mean, color=INK, linewidth=1.2, linestyle=(0, (4, 2)),
                    label="bong, which has none" if not k else "_",
                )  # fmt: skip
            left, right = axis.get_xlim()
            for k, (label, groups) in enumerate(by_label.items()):
                aside = (right / left) ** (BESIDE * (k - (len(by_label) - 1) / 2))
                _series(axis, groups, ends, style[label], label, aside, LIFTS[k % 2])
            axis.set_title(f"{hess}-{family}", loc="left", y=1.0)
        axes[0].set_ylabel(metric_title(metric))
        if many:
            figure.supxlabel(
                "learning rate α", fontsize=9, y=(foot + 0.08) / figure.get_figheight()
            )
        else:
            axes[0].set_xlabel("learning rate α")
        legend(figure, *axes[: len(panels)], columns=4 if many else 2)

    foot = foot_of(len(labels) + 1, 4 if many else 2)
    return picture(
        "learning-rate",
        "Sensitivity to the learning rate",
        "Mean over the runs that are complete, ±1 standard error. A cross at the top: some runs "
        "diverged at this rate, with how many of how many.",
        f"{metric_title(metric)} at the end against the learning rate for {', '.join(labels)}",
        shape,
        paint,
        tight=many,
        foot=foot,
        panel=(3.1, 2.4) if many else (5.4, 3.3),
    )


def _series(
    axis: Any,
    groups: Sequence[Group],
    ends: Mapping[str, Point],
    look: Look,
    label: str,
    aside: float,
    lift: float,
) -> None:
    """The means of one method; its crosses are at ``aside`` times the rate, words above them."""
    alpha = np.array([float(g.params["alpha"]) for g in groups])
    mean = np.array([ends[g.id].mean for g in groups])
    error = np.nan_to_num(np.array([ends[g.id].error for g in groups]))
    top = axis.get_ylim()[1]
    axis.errorbar(
        alpha, mean, yerr=error, color=look.colour, linestyle=look.dash, marker=look.marker,
        markersize=4, linewidth=1.4, elinewidth=1.0, label=label,
    )  # fmt: skip
    for a, y in zip(alpha, mean, strict=True):
        if y > top:
            axis.plot([a], [top], marker=10, color=look.colour, clip_on=False, label="_")
    for a, g in zip(alpha, groups, strict=True):
        lost, n = ends[g.id].diverged, ends[g.id].of
        if lost:
            axis.plot(
                [a * aside], [top], "x", color=look.colour, markersize=7, markeredgewidth=1.8,
                clip_on=False, label="_",
            )  # fmt: skip
            axis.annotate(
                f"{lost}/{n}", (a * aside, top), xytext=(0, lift), textcoords="offset points",
                fontsize=7, ha="center", color=look.colour, annotation_clip=False,
            )  # fmt: skip


def _series_look(label: str, k: int, labels: Sequence[str]) -> Look:
    rules = [one.split()[0] for one in labels]
    nth = rules[:k].count(rules[k])
    colour = RULE_COLOUR.get(rules[k], PALETTE[k % len(PALETTE)])
    return Look(colour, DASHES[nth % 4], MARKERS[nth % len(MARKERS)])


def _bong(results: TaskResults, key: tuple[str, str]) -> list[Group]:
    return [g for g in results.groups if g.parts == ("bong", *key)]


# --- divergence -----------------------------------------------------------------------------------


def divergence(results: TaskResults) -> Picture | None:
    """Which runs diverged, and at which step; None where none did."""
    found = [g for g in results.groups if g.having("diverged")]
    if not found:
        return None
    found.sort(key=lambda g: -len(g.having("diverged")) / len(g.runs))
    kept, style = found[:ROWS], looks(results)
    longest = max(len(_share(g)) for g in kept)

    def paint(figure: Any, axes: Sequence[Any]) -> None:
        (axis,) = axes
        for y, g in enumerate(kept):
            steps = [r["step"] for r in g.having("diverged")]
            spread = np.linspace(-0.22, 0.22, len(steps)) if len(steps) > 1 else [0.0]
            axis.plot(
                steps, [y + d for d in spread], "x", color=style[g.id].colour, markersize=6,
                markeredgewidth=1.6,
            )  # fmt: skip
        axis.set_ylim(len(kept) - 0.4, -0.6)
        axis.set_yticks(range(len(kept)), [_share(g) for g in kept], fontsize=8)
        axis.set_xlim(0, max(g.runs[0]["settings"]["steps"] for g in kept) * 1.02)
        axis.set_xlabel("step that has no valid result")
        axis.grid(True)
        figure.subplots_adjust(left=min(0.6, 0.06 * longest / 7.0 + 0.02))

    total = sum(len(g.having("diverged")) for g in found)
    rest = f" The {ROWS} worst of {len(found)} are drawn." if len(found) > ROWS else ""
    return picture(
        "divergence",
        "Runs that diverged",
        "One cross for each run, at the step at which it overflowed or lost positive definiteness."
        + rest,
        f"{total} runs of {len(found)} methods diverged; most often {_share(found[0])}",
        (1, 1),
        paint,
        panel=(7.0, 0.9 + 0.2 * len(kept)),
    )


def _share(group: Group) -> str:
    return f"{group.label} ({len(group.having('diverged'))} of {len(group.runs)})"


# --- helpers --------------------------------------------------------------------------------------


def _settings(
    results: TaskResults, shown: Collection[str], style: Mapping[str, Look]
) -> dict[str, Look]:
    """The settings of the groups in colour, each with its line and marker."""
    found = {setting(g): style[g.id] for g in results.groups if g.id in shown}
    return {name: look for name, look in found.items() if name}


def _foot(n: int) -> float:
    """Inches that the legends of many panels need, with n settings."""
    return 0.35 + 0.19 * math.ceil(n / SETTINGS_IN_A_ROW)
