"""The figures of a report: each drawn once, as inline SVG for light and dark, and as PNG and PDF.

A figure is drawn with two colours for ink and lines, which become the page's own in the SVG; all
others are of medium luminance, at least 3:1 against both backgrounds.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import statistics
from .statistics import Group, Point, TaskResults

INK, LINE = "#1c2024", "#d9dee3"  # in the SVG: var(--ink), var(--line)
PALETTE = (
    "#2f7fd3", "#d2690b", "#26955a", "#c04d97", "#8468d2", "#d5473a", "#1490a0", "#8a8016",
)  # fmt: skip
GREY = "#808a94"
RULE_COLOUR = dict(zip(("bong", "blr", "bog", "bbb"), PALETTE, strict=False))
MARKERS = "osD^vP*h"
# none is dotted, which says that runs are missing in a mean
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (9, 2)), (0, (5, 1.5, 1, 1.5)))
TITLES = {
    "nlpd": "NLPD", "error": "error rate", "ece": "ECE", "rmse": "RMSE", "kl": "KL",
    "prequential": "one-step-ahead NLPD", "nlpd_positive": "NLPD where the density is positive",
    "nonpositive": "share of densities that are not positive",
}  # fmt: skip
WIDE = 6.5  # inches from which on a figure has the whole width of the page
SETTINGS_IN_A_ROW = 4  # of a legend
MOST = 8  # groups that one panel shows in colour
STYLE = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "axes.titlesize": 9.0,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "grid.color": LINE,
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": 8.0,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "svg.fonttype": "none",
    "axes.unicode_minus": True,
    "axes.formatter.useoffset": False,
    "path.simplify": True,
}


class Picture(NamedTuple):
    """A figure in its three forms, with words for those who cannot see it.

    Attributes
    ----------
    name : str
        Of its files and of its place in the page.
    title, caption, alt : str
    svg : str
        For the page.
    png, pdf : bytes
    wide : bool
        Whether it has several panels.
    """

    name: str
    title: str
    caption: str
    alt: str
    svg: str
    png: bytes
    pdf: bytes
    wide: bool


def require_matplotlib() -> Any:
    """The module ``matplotlib``."""
    try:
        import matplotlib
    except ImportError:
        raise ImportError(
            'bongref report needs Matplotlib; pip install "bongref[experiments]"'
        ) from None
    return matplotlib


def metric_title(name: str) -> str:
    """A metric for readers.

    >>> metric_title("nlpd-lin_mc"), metric_title("rmse")
    ('NLPD (lin_mc)', 'RMSE')
    """
    stem, _, kind = name.partition("-")
    return TITLES.get(stem, stem) + (f" ({kind})" if kind else "")


# --- saving ---------------------------------------------------------------------------------------


def picture(
    name: str,
    title: str,
    caption: str,
    alt: str,
    shape: tuple[int, int],
    paint: Callable[[Any, Sequence[Any]], None],
    *,
    panel: tuple[float, float] = (5.4, 3.3),
    foot: float = 0.0,
    tight: bool = False,
) -> Picture:
    """Draw a figure with rows × columns of panels and save it in three forms.

    Parameters
    ----------
    name, title, caption, alt : str
        As of :class:`Picture`.
    shape : (int, int)
        Rows and columns.
    paint : callable
        Called with the figure and the list of its axes, row by row.
    panel : (float, float)
        Width and height of a panel in inches.
    foot : float
        Inches below the panels, for a legend.
    tight : bool
        Whether only the panels at the left and at the bottom have numbers: see :func:`frame`.

    Returns
    -------
    Picture
    """
    matplotlib = require_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows, columns = shape
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": name}):
        width, height = columns * panel[0], rows * panel[1] + foot
        figure = Figure(figsize=(width, height))
        FigureCanvasAgg(figure)
        axes = figure.subplots(rows, columns, squeeze=False)
        gap = 0.62 if columns > 1 else 0.7
        figure.subplots_adjust(
            left=gap / width,
            right=1 - 0.12 / width,
            top=1 - 0.28 / height,
            bottom=(0.52 + foot) / height,
            wspace=(0.2 if tight else gap + 0.1) / panel[0] * 1.2,
            hspace=(0.3 if tight else 0.62) / panel[1] * 1.25 if rows > 1 else 0,
        )
        paint(figure, list(axes.flat))
        svg, png, pdf = io.StringIO(), io.BytesIO(), io.BytesIO()
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
        figure.savefig(png, format="png", dpi=150, metadata={"Software": None}, facecolor="white")
        dates = {"CreationDate": None, "Creator": None, "Producer": None}
        figure.savefig(pdf, format="pdf", metadata=dates, facecolor="white")
    return Picture(
        name, title, caption, alt, inline(svg.getvalue(), name, alt, width), png.getvalue(),
        pdf.getvalue(), width > WIDE,
    )  # fmt: skip


def renamed(picture: Picture, prefix: str) -> Picture:
    """The same picture under a longer name, so that two tasks have no id in common."""
    old, new = f"{picture.name}-", f"{prefix}{picture.name}-"
    svg = picture.svg
    for before in (' id="', 'href="#', "url(#"):
        svg = svg.replace(before + old, before + new)
    return picture._replace(name=prefix + picture.name, svg=svg)


def inline(svg: str, name: str, alt: str, width: float) -> str:
    """SVG of Matplotlib as part of a page: its own ids, the page's colours, words for it."""
    from html import escape

    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', svg))
    svg = re.sub(r' id="([^"]*)"', lambda m: f' id="{name}-{m[1]}"' if m[1] in used else "", svg)
    svg = re.sub(r'((?:xlink:)?href=")#', rf"\1#{name}-", svg).replace("url(#", f"url(#{name}-")
    svg = svg.replace(INK, "var(--ink)").replace(LINE, "var(--line)")
    svg = svg.replace("'DejaVu Sans'", "system-ui, 'DejaVu Sans'")
    size = f"max-width: {130 * width:.0f}px"
    head = f'<svg role="img" aria-label="{escape(alt, quote=True)}" style="{size}"'
    svg = re.sub(r'^<svg (.*?)width="[^"]*"', rf"{head} \1", svg, count=1, flags=re.DOTALL)
    return re.sub(r' height="[^"]*pt"', "", svg, count=1)


# --- parts of a panel -----------------------------------------------------------------------------


class Look(NamedTuple):
    """How a group is drawn, the same in every figure of a task."""

    colour: str
    dash: Any
    marker: str


def looks(results: TaskResults, most: int = MOST) -> dict[str, Look]:
    """A look for each group: all different for a few, by rule and setting in panels of many."""
    if len(results.groups) <= most:
        return {
            g.id: Look(PALETTE[k], DASHES[k % 4], MARKERS[k]) for k, g in enumerate(results.groups)
        }
    settings = list(dict.fromkeys(["", *(setting(g) for g in results.groups)]))
    out = {}
    for _, groups in statistics.facets(results.groups, most):
        rules = list(dict.fromkeys(g.parts[0] for g in groups))
        for g in groups:
            colour = RULE_COLOUR.get(g.parts[0]) or PALETTE[4 + rules.index(g.parts[0]) % 4]
            k = settings.index(setting(g))  # the first 32 pairs of dash and marker all differ
            out[g.id] = Look(colour, DASHES[k % 4], MARKERS[(k + k // 8) % len(MARKERS)])
    return out


def setting(group: Group) -> str:
    """What tells a group from others of its method, in the words of its label."""
    own = f"{group.method} ({group.adapter})" if group.adapter else group.method
    return group.label.removeprefix(own).strip()


def limits(curves: Sequence[Sequence[float]]) -> tuple[float, float]:
    """A range that shows most curves: values and curves far above the others are left out.

    >>> bottom, top = limits([[2.0, 1.0, 0.1], [2.0, 1.1, 0.2], [1.9, 1.0, 0.0], [2.0, 90, 160]])
    >>> round(bottom, 2), round(top, 2)
    (-0.12, 2.12)
    """
    finite = [[x for x in curve if math.isfinite(x)] for curve in curves]
    v = np.array([x for curve in finite for x in curve])
    if not len(v):
        return 0.0, 1.0
    low = float(v.min())
    highest = [max(curve) for curve in finite if curve]
    usual = min(np.quantile(v, 0.85), np.quantile(highest, 0.7, method="lower"))
    reach = low + 2.5 * (float(usual) - low)
    high = float(v[v <= reach].max() if usual > low else v.max())
    pad = 0.06 * (high - low) or max(abs(high), 1.0) * 0.05
    return low - pad, high + pad


def draw_curve(axis: Any, points: Sequence[Point], look: Look, **more: Any) -> None:
    """A mean with ±1 standard error; dotted and thin where runs are missing in it."""
    if not points:
        return
    t = np.array([p.t for p in points])
    mean = np.array([p.mean for p in points])
    error = np.nan_to_num(np.array([p.error for p in points]))
    whole = np.array([p.n == p.of for p in points])
    full = np.where(whole, mean, np.nan)
    part = np.where(~whole | np.roll(~whole, -1), mean, np.nan) if not whole.all() else None
    many = len(t) > 12
    style = {"color": look.colour, "marker": look.marker, "markersize": 3.6, "linewidth": 1.6}
    style |= {"markevery": max(1, len(t) // 8)} if many else {}
    axis.plot(t, full, linestyle=look.dash, **style, **more)
    if part is not None:
        axis.plot(t, part, linestyle=":", color=look.colour, linewidth=1.5, label="_", zorder=1)
    if np.any(error > 0):
        axis.fill_between(t, mean - error, mean + error, color=look.colour, alpha=0.18, lw=0)


def draw_crosses(axis: Any, found: Sequence[tuple[int, float]], look: Look) -> None:
    """Runs that diverged: a cross at the step, at the last value or at the top of the panel."""
    bottom, top = axis.get_ylim()
    for step, value in found:
        inside = math.isfinite(value) and bottom <= value <= top
        height = value if inside else top
        axis.plot(
            [step], [height], "x", color=look.colour, markersize=7, markeredgewidth=1.8,
            clip_on=False, zorder=5, label="_",
        )  # fmt: skip


def frame(
    axes: Sequence[Any],
    n: int,
    columns: int,
    x: Sequence[float],
    y: tuple[float, float],
    *,
    log: bool = False,
) -> None:
    """The same ranges, ticks and lines for n panels; numbers at the left and at the bottom alone.

    Parameters
    ----------
    axes : sequence of Axes
        The panels row by row; those behind the first n are left empty.
    n, columns : int
    x : sequence of float
        What the horizontal axis has to show, in order.
    y : (float, float)
        The range of the vertical axis.
    log : bool
        Whether the horizontal axis is logarithmic.
    """
    left, right = _padded(x, log)
    xs, ys = _ticks(left, right, log), _ticks(*y)
    for k, axis in enumerate(axes[:n]):
        if log:
            axis.set_xscale("log")
            axis.xaxis.set_minor_locator(nowhere())
        axis.set(xlim=(left, right), ylim=y)
        axis.hlines(ys, left, right, colors=LINE, linewidth=0.7, zorder=0)
        of_left = ys if k % columns == 0 else []
        axis.set_yticks(of_left, tick_texts(of_left))
        shown = xs if k + columns >= n else []
        axis.set_xticks(shown, [f"{tick:g}" for tick in shown])
    for axis in axes[n:]:
        axis.set_axis_off()


def _padded(x: Sequence[float], log: bool) -> tuple[float, float]:
    low, high = x[0], x[-1]
    if log:
        factor = (high / low) ** 0.04 if high > low else 1.5
        return low / factor, high * factor
    pad = 0.03 * (high - low) or 0.5
    return low - pad, high + pad


def _ticks(low: float, high: float, log: bool = False) -> list[float]:
    """A few round numbers inside a range."""
    from matplotlib.ticker import MaxNLocator

    if log:
        decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        for steps in ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)):
            found = [s * 10.0**d for d in decades for s in steps if low <= s * 10.0**d <= high]
            if len(found) >= 3:
                return found[:: max(1, len(found) // 4)]
    ticks = MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
    return [float(t) for t in ticks if low <= t <= high]


def tick_texts(ticks: Sequence[float]) -> list[str]:
    """Numbers of an axis that fit beside it: with a power of ten where that is shorter.

    >>> tick_texts([0.0, 0.5, 1.0]), tick_texts([0.0, 50_000.0, 150_000.0])
    (['0', '0.5', '1'], ['0', '5e4', '1.5e5'])
    """
    plain = [f"{tick:g}" for tick in ticks]
    parts = [f"{tick:.5e}".split("e") for tick in ticks]
    powers = [f"{float(m):g}e{int(e)}" if float(m) else "0" for m, e in parts]
    few = max(map(len, plain), default=0) <= 5
    return plain if few or max(map(len, powers)) >= max(map(len, plain)) else powers


def is_wide(steps: Sequence[float]) -> bool:
    """Whether steps span two decades, so that their axis is logarithmic."""
    return bool(steps) and steps[0] > 0 and steps[-1] >= 100 * steps[0]


def nowhere() -> Any:
    """No ticks."""
    from matplotlib.ticker import NullLocator

    return NullLocator()


def legend(figure: Any, *axes: Any, columns: int = 2) -> None:
    """The labelled lines of some panels, each label once, below them."""
    named: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    if named:
        figure.legend(
            list(named.values()), list(named), loc="lower left", ncols=columns,
            bbox_to_anchor=(0.02, 0.0), handlelength=2.6, columnspacing=1.2,
        )  # fmt: skip


def rule_legend(figure: Any, groups: Sequence[Group], short: bool = False) -> None:
    """The colours of the rules, for figures of many groups; see :func:`setting_legend`."""
    from matplotlib.lines import Line2D

    rules = [r for r in RULE_COLOUR if any(g.parts[0] == r for g in groups)]
    lines = [Line2D([], [], color=RULE_COLOUR[r], lw=2, label=r) for r in rules]
    if not short:
        lines += [Line2D([], [], color=GREY, lw=1, label="other settings")]
        lines += [Line2D([], [], color=INK, marker="x", lw=0, label="diverged")]
    figure.legend(handles=lines, loc="lower left", ncols=len(lines), bbox_to_anchor=(0.02, 0.0))


def setting_legend(figure: Any, named: Mapping[str, Look]) -> None:
    """The lines and markers of the settings, whatever the rule, above the colours of the rules."""
    from matplotlib.lines import Line2D

    lines = [
        Line2D([], [], color=INK, linestyle=k.dash, marker=k.marker, markersize=3.6, label=name)
        for name, k in named.items()
    ]
    if lines:
        figure.legend(
            handles=lines, loc="lower left", ncols=SETTINGS_IN_A_ROW, handlelength=3.2,
            bbox_to_anchor=(0.02, 0.22 / figure.get_figheight()),
        )  # fmt: skip


def foot_of(n: int, columns: int = 2) -> float:
    """Inches that a legend of n entries needs."""
    return 0.1 + 0.19 * math.ceil(n / columns)


def grid_shape(n: int, columns: int = 4) -> tuple[int, int]:
    """Rows and columns for n panels."""
    columns = min(n, columns)
    return math.ceil(n / columns), columns
