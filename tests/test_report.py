"""bongref report: numbers by a second route, what is never averaged away, a page for every
reader.
"""

import json
import math
import re
from html.parser import HTMLParser

import fake_results as fake
import numpy as np
import pytest

import bongref as br
from bongref.cli import main
from bongref.experiments import store
from bongref.experiments.report import calibration, statistics
from bongref.experiments.report import page as report
from bongref.experiments.report.statistics import by_task

figures = pytest.importorskip("bongref.experiments.report.drawing")
pytest.importorskip("matplotlib", reason="bongref report needs Matplotlib")


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return fake.folder(tmp_path_factory.mktemp("results"), fake.small())


@pytest.fixture(scope="module")
def made(small):
    return report.make(small)


@pytest.fixture(scope="module")
def page(made, tmp_path_factory):
    out = tmp_path_factory.mktemp("page")
    report.write(made, out)
    return out


class Reader(HTMLParser):
    """Tags, ids and links of a page; an error where tags do not match."""

    VOID = ("meta", "br", "path", "use", "link", "rect", "image")

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links, self.tags, self.loads = [], [], [], [], []

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags.append((tag, found))
        self.ids += [found["id"]] if "id" in found else []
        self.links += [found["href"]] if tag == "a" and "href" in found else []
        self.loads += [
            v for k, v in attrs if k in ("src", "srcset", "data") or (k == "href" and tag == "link")
        ]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


# --- numbers --------------------------------------------------------------------------------------


def by_hand(metric="nlpd-plugin"):
    """Means, errors and ranks of the small folder straight from its rows, with other code."""
    names = ("bong-lin-hess-diag", "blr-lin-hess-diag", "bog-lin-ef-diag")
    runs = {(r["method"], r["seed"]): r for r in fake.small()}
    ends = {k: r["rows"][-1][metric] if r["status"] == "done" else None for k, r in runs.items()}
    means = {
        n: np.mean([v for (m, _), v in ends.items() if m == n and v is not None]) for n in names
    }
    places = {n: [] for n in names}
    for seed in range(3):
        order = sorted(names, key=lambda n: math.inf if ends[n, seed] is None else ends[n, seed])
        for place, name in enumerate(order, 1):
            places[name].append(place)
    return means, {n: np.mean(p) for n, p in places.items()}


def test_means_and_ranks_are_those_of_the_rows(made):
    means, ranks = by_hand()
    groups = made.document.data["tasks"][0]["groups"]
    assert {g["method"] for g in groups} == set(means)
    for g in groups:
        final = g["final"]["nlpd-plugin"]
        assert final["mean"] == pytest.approx(means[g["method"]], rel=1e-14)
        assert g["mean_rank"] == pytest.approx(ranks[g["method"]])


def test_a_run_that_diverged_is_counted_beside_every_mean(made, page):
    groups = {g["method"]: g for g in made.document.data["tasks"][0]["groups"]}
    for metric in fake.METRICS:
        assert groups["blr-lin-hess-diag"]["final"][metric]["n"] == 2
        assert groups["blr-lin-hess-diag"]["final"][metric]["diverged"] == 1
        assert groups["blr-lin-hess-diag"]["final"][metric]["of"] == 3
    text = (page / "report.html").read_text()
    assert (
        text.count("2 of 3 runs") >= 4
        and "2 of 3, 1 diverged" in text
        and "overflow at step 230" in text
    )
    # it ranks last in its seed although its last value was better than that of bog
    assert groups["blr-lin-hess-diag"]["mean_rank"] == pytest.approx((2 + 3 + 2) / 3)


def test_curves_are_means_over_the_runs_that_remain():
    (results,) = by_task(fake.small())
    blr = next(g for g in results.groups if g.method == "blr-lin-hess-diag")
    points = statistics.curve(blr, "error")
    assert [(p.t, p.n, p.diverged, p.of) for p in points] == [
        (50, 3, 0, 3),
        (100, 3, 0, 3),
        (200, 3, 0, 3),
        (400, 2, 1, 3),
    ]
    left = [r["rows"][3]["error"] for r in blr.runs if r["status"] == "done"]
    assert points[3].mean == pytest.approx(np.mean(left), rel=1e-14)
    assert points[3].error == pytest.approx(np.std(left, ddof=1) / np.sqrt(2), rel=1e-12)
    ((step, value),) = statistics.crosses(blr, "error")
    assert step == 230 and value == blr.runs[1]["rows"][2]["error"]


def test_values_that_are_not_finite_are_counted_and_rank_behind_finite_ones(tmp_path):
    runs = fake.small()
    runs[0]["rows"][-1]["nlpd-lin_mc"] = math.inf
    fake.folder(tmp_path, runs)
    made = report.make(tmp_path, by="nlpd-lin_mc")
    bong = next(
        g for g in made.document.data["tasks"][0]["groups"] if g["method"].startswith("bong")
    )
    final = bong["final"]["nlpd-lin_mc"]
    assert (final["n"], final["infinite"], final["of"]) == (2, 1, 3) and math.isfinite(
        final["mean"]
    )
    assert bong["mean_rank"] == pytest.approx((3 + 1 + 1) / 3)
    report.write(made, tmp_path / "page")  # JSON and page can be written


def test_calibration_curves_by_hand():
    counts = {
        "kind": "confidence",
        "count": [0, 4, 10],
        "confidence": [0.0, 2.0, 9.0],
        "correct": [0, 1, 10],
    }
    assert calibration.shares(counts) == ([0.5, 0.9], [0.25, 1.0])
    uniform = {"kind": "pit", "count": [3] * 20}
    expected, observed = calibration.shares(uniform)
    assert expected == pytest.approx(np.arange(1, 11) / 10) and observed == pytest.approx(expected)
    narrow = {
        "kind": "pit",
        "count": [30, *[0] * 18, 30],
    }  # all observations outside: no coverage until 1
    assert calibration.shares(narrow)[1] == pytest.approx([0] * 9 + [1])


def test_the_difference_of_two_folders_is_paired_over_seeds():
    a, b = fake.small(), fake.small(bongref="0.2.0")
    for r in b:
        for row in r["rows"]:
            row["error"] += 0.25
    (here,), (there,) = by_task(a), by_task(b)
    assert [g.id for g in here.groups] == [g.id for g in there.groups]
    d = statistics.difference(here.groups[0], there.groups[0], "error")
    assert d.paired.mean == pytest.approx(-0.25, rel=1e-12) and d.paired.error == pytest.approx(
        0, abs=1e-15
    )
    assert d.same == 0 and d.speed == 1.0
    assert statistics.difference(here.groups[0], here.groups[0], "error").same == 3


# --- the page -------------------------------------------------------------------------------------


def test_the_page_is_whole_and_needs_nothing_else(page, made):
    text = (page / "report.html").read_text()
    reader = Reader()
    reader.feed(text)
    assert reader.open == [] and len(reader.ids) == len(set(reader.ids))
    assert reader.loads == [] and "@import" not in text and not re.search(r"url\((?!#)", text)
    for link in reader.links:
        assert link[1:] in reader.ids if link.startswith("#") else (page / link).is_file(), link
    assert "prefers-color-scheme: dark" in text and 'name="viewport"' in text
    pictures = [found for tag, found in reader.tags if tag == "svg"]
    assert len(pictures) == len(made.pictures) and all(
        p["role"] == "img" and p["aria-label"] for p in pictures
    )
    assert (
        figures.INK not in text.partition("<body>")[2]
        and figures.LINE not in text.partition("<body>")[2]
    )


def test_all_the_figures_are_there_as_png_and_pdf(page):
    wanted = {*(f"curve-{m}" for m in fake.METRICS), "calibration-plugin", "time", "divergence"}
    assert {p.stem for p in page.glob("*.png")} == wanted == {p.stem for p in page.glob("*.pdf")}
    assert all(p.read_bytes().startswith(b"\x89PNG") for p in page.glob("*.png"))
    assert all(p.read_bytes().startswith(b"%PDF") for p in page.glob("*.pdf"))


def test_every_run_has_its_command(page):
    text = (page / "report.html").read_text()
    for run in fake.small():
        assert run["command"] in text


def test_a_report_of_the_same_results_is_the_same(small, made):
    again = report.make(small)
    assert br.reports.html(again.document) == br.reports.html(made.document)
    assert all(
        a.png == b.png and a.pdf == b.pdf
        for a, b in zip(again.pictures, made.pictures, strict=True)
    )


def luminance(colour):
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("colour", [*figures.PALETTE, figures.GREY])
def test_colours_can_be_seen_on_light_and_dark(colour):
    for page in ("#ffffff", "#14181c"):
        high, low = sorted((luminance(colour), luminance(page)), reverse=True)
        assert (high + 0.05) / (low + 0.05) >= 3


# --- folders of all kinds -------------------------------------------------------------------------


def test_half_finished_results_say_so(tmp_path):
    runs = fake.small(metrics=("error",))
    fake.folder(tmp_path, runs[:5])
    said = report.headline(report.make(tmp_path))
    assert said.startswith(
        "Not finished: 5 of 6 runs"
    )  # as far as one can see: two seeds, three methods
    with store.writer(tmp_path) as out:
        out.plan(runs)
    made = report.make(tmp_path)
    assert report.headline(made).startswith("Not finished: 5 of 9 runs")
    assert "1 to come" in br.reports.html(made.document)
    with store.writer(tmp_path) as out:
        for r in runs[5:]:
            out.append(r)
    assert report.headline(report.make(tmp_path)) == "Finished: 8 runs complete, 1 diverged."


def test_runs_are_counted_against_the_plan(tmp_path):
    """Two seeds of three are there, of one method; of another nothing is."""
    names = ("bong-lin-hess-diag", "blr-lin-hess-diag")
    runs = [fake.record(name, s) for name in names for s in range(3)]
    fake.folder(tmp_path, runs[:2])
    with store.writer(tmp_path) as out:
        out.plan(runs)
    html = br.reports.html(report.make(tmp_path).document)
    assert "2 of 3, 1 to come" in html and "0 of 3, 3 to come" in html and names[1] in html
    # the plan of an older version has keys alone: the total is known, and no more
    (tmp_path / store.PLAN).write_text(json.dumps([r["key"] for r in runs]))
    made = report.make(tmp_path)
    assert report.headline(made).startswith("Not finished: 2 of 6 runs")
    assert "to come" not in br.reports.html(made.document)
    with store.writer(tmp_path) as out:  # and the same command writes what it lacks
        out.plan(runs)
    assert "2 of 3, 1 to come" in br.reports.html(report.make(tmp_path).document)


def test_one_run_that_diverged_at_once_is_a_report_too(tmp_path):
    fake.folder(tmp_path, [fake.record("bbb-lin-hess-fc", diverges=1)])
    made = report.make(tmp_path)
    text = br.reports.html(made.document)
    assert "all diverged" in text or "1 diverged" in text
    assert [p.name for p in made.pictures] == ["divergence"]


def test_failed_runs_are_listed_with_their_reason(tmp_path):
    fake.folder(tmp_path, [*fake.small(), fake.record("bbb-lin-hess-diag", 0, status="failed")])
    made = report.make(tmp_path)
    assert "1 failed" in report.headline(made) and "bad input" in br.reports.html(made.document)


def test_results_of_several_tasks_have_a_section_each(tmp_path):
    other = {**fake.TASK, "name": "wine", "kind": "regression"}
    more = [fake.record("bong-lin-hess-diag", s, task=other, metrics=("rmse",)) for s in range(2)]
    fake.folder(tmp_path, [*fake.small(), *more])
    made = report.make(tmp_path)
    text = br.reports.html(made.document)
    assert "results of 2 tasks" in text and "Task moons" in text and "Task wine" in text
    assert len({p.name for p in made.pictures}) == len(made.pictures)
    reader = Reader()
    reader.feed(text)
    assert len(reader.ids) == len(set(reader.ids))


def test_sections_of_one_task_say_what_differs(tmp_path):
    other = {**fake.TASK, "prior_var": 9.0, "checksum": "cd" * 32}
    fake.folder(tmp_path, [fake.record("bong-lin-hess-diag", task=t) for t in (fake.TASK, other)])
    html = br.reports.html(report.make(tmp_path).document)
    assert ">Task moons (prior var 1)<" in html and ">Task moons (prior var 9)<" in html


def test_two_versions_in_one_folder_are_not_averaged(tmp_path):
    one = {"metrics": ("error",)}
    fake.folder(tmp_path, [*fake.small(**one), *fake.small(bongref="0.2.0", **one)])
    made = report.make(tmp_path)
    labels = [g["label"] for g in made.document.data["tasks"][0]["groups"]]
    assert len(labels) == len(set(labels)) == 6 and sum("0.2.0" in label for label in labels) == 3


def test_damaged_and_torn_lines_are_told_and_not_used(tmp_path):
    fake.folder(tmp_path, fake.small())
    path = tmp_path / store.NAME
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(b'"seed":0', b'"seed":7')
    path.write_bytes(b"".join(lines)[:-20])
    text = br.reports.html(report.make(tmp_path).document)
    assert "damaged line" in text and "incomplete last line" in text and "Not finished" in text


def test_another_folder_is_overlaid(tmp_path, small):
    there = fake.folder(tmp_path / "there", fake.small(bongref="0.2.0", host="cluster"))
    text = br.reports.html(report.make(small, against=there).document)
    assert (
        "Against the other folder" in text
        and "0.2.0" in text
        and "cluster" in text
        and "3 of 3" in text
    )
    other = fake.folder(
        tmp_path / "other", [fake.record("bong-lin-hess-diag", task={**fake.TASK, "name": "x"})]
    )
    assert "nothing is overlaid" in br.reports.html(report.make(small, against=other).document)


def told_of(report_):
    """The text of the comparison with another folder, without tags."""
    part = (
        br.reports.html(report_.document)
        .partition('id="against-table"')[2]
        .partition("<section")[0]
    )
    return re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", part))


def test_runs_of_an_adapter_are_beside_the_same_runs_of_bongref(tmp_path, small):
    theirs = [{**r, "adapter": "their:Adapter"} for r in fake.small()]
    there = fake.folder(tmp_path / "there", theirs)
    made = report.make(small, against=there)
    told = told_of(made)
    assert told.count("by their:Adapter") == 3 and "3 of 3" in told and "only" not in told
    picture = next(p for p in made.pictures if p.name.endswith("error"))
    assert "dashed" in picture.caption


def test_a_task_that_differs_in_last_digits_is_the_same(tmp_path):
    """As on another machine, whose data have another rounding and so another checksum."""

    def at(folder, last, checksum, n=400):
        task = {**fake.TASK, "obs_var": 0.1 + last, "checksum": checksum, "params": {"n": n}}
        runs = [fake.record("bong-lin-hess-diag", s, task=task) for s in range(3)]
        settings = {**runs[0]["settings"], "obs_var": 0.1 + last}
        return fake.folder(tmp_path / folder, [{**r, "settings": settings} for r in runs])

    here = at("here", 0.0, "ab" * 32)
    text = br.reports.html(report.make(here, against=at("there", 3e-17, "cd" * 32)).document)
    assert "have another checksum" in text and "3 of 3" in text and "only here" not in text
    text = br.reports.html(report.make(here, against=at("more", 0.0, "cd" * 32, n=500)).document)
    assert "nothing is overlaid" in text


def test_equal_means_have_the_same_place(tmp_path):
    names = ("bong-lin-hess-diag", "blr-lin-hess-diag", "bog-lin-ef-diag")
    runs = [fake.record(n, s, offset=float(k == 2), noise=0.0)
            for k, n in enumerate(names) for s in range(2)]  # fmt: skip
    table = br.reports.html(report.make(fake.folder(tmp_path, runs)).document)
    table = table.partition('id="table"')[2].partition("</table>")[0]
    assert [table.count(f"({k})") for k in (1, 2, 3)] == [2 * 4, 0, 4]


def many():
    """All 78 methods and, for one of them, five learning rates."""
    names = [n for n in br.methods() if n not in br.grid.NOT_DERIVED]
    runs = [
        fake.record(n, s, diverges=90 if n.startswith("bbb-mc") else None)
        for n in names
        for s in range(2)
    ]
    return runs + [fake.record("blr-lin-hess-dlr", s, alpha=a, diverges=60 if a == 0.5 else None)
                   for a in (0.005, 0.01, 0.05, 0.5) for s in range(2)]  # fmt: skip


@pytest.mark.parametrize(
    ("ticks", "texts"),
    [
        ([0.0, 2e5, 4e5], ["0", "2e5", "4e5"]),
        ([-2.5e-4, 0.0, 2.5e-4], ["-2.5e-4", "0", "2.5e-4"]),
        ([100_002.0, 100_004.0], ["100002", "100004"]),
        ([2.25, 2.5], ["2.25", "2.5"]),
        ([], []),
    ],
)
def test_numbers_of_an_axis_fit_beside_it_and_stay_the_same_numbers(ticks, texts):
    assert figures.tick_texts(ticks) == texts
    assert [float(text) for text in texts] == ticks


def drawn(monkeypatch, results, metric="error"):
    """The axes of the curves of a metric, and their picture."""
    from bongref.experiments.report import drawing
    from bongref.experiments.report import figures as pictures

    kept, frame = [], drawing.frame
    monkeypatch.setattr(
        pictures, "frame", lambda axes, n, *a, **k: (kept.extend(axes[:n]), frame(axes, n, *a, **k))
    )
    order = statistics.ranks(results, metric)
    return kept, pictures.curves(results, metric, order)


def crosses_of(axis):
    return [line for line in axis.lines if line.get_marker() == "x"]


def test_a_run_that_diverged_before_the_first_row_has_its_cross_inside(monkeypatch):
    runs = [fake.record("bong-lin-hess-diag", s, steps=(1000, 1500, 2000)) for s in range(2)]
    runs += [fake.record("blr-lin-hess-diag", s, steps=(1000, 1500, 2000), diverges=3 + s)
             for s in range(2)]  # fmt: skip
    (axis,), _ = drawn(monkeypatch, by_task(runs)[0])
    left, right = axis.get_xlim()
    steps = [line.get_xdata()[0] for line in crosses_of(axis)]
    assert steps == [3, 4] and left < 3 and right > 2000


def test_one_bad_curve_of_four_leaves_the_frame_to_the_others(monkeypatch):
    names = ("bong-lin-hess-diag", "blr-lin-hess-diag", "bog-lin-ef-diag", "bong-mc-ef-diag")
    runs = [
        fake.record(name, s, offset=100.0 * (k == 3)) for k, name in enumerate(names)
        for s in range(2)
    ]  # fmt: skip
    (axis,), made = drawn(monkeypatch, by_task(runs)[0])
    bottom, top = axis.get_ylim()
    assert bottom > -0.2 and top < 0.7 and "1 of 4 curves leaves the frame" in made.caption
    assert [line.get_marker() for line in axis.lines].count(10) == 1


def test_settings_in_panels_are_named_and_look_the_same_in_each():
    from bongref.experiments.report import figures as pictures

    runs = [fake.record(f"{rule}-{h}-diag", s, n_iter=1, alpha=a)
            for rule in ("blr", "bbb") for h in ("lin-hess", "lin-ef") for a in (0.1, 0.5)
            for s in range(2)] + [fake.record("bong-lin-ef-diag", s) for s in range(2)]  # fmt: skip
    (results,) = by_task(runs)
    style = figures.looks(results)
    of = {g.label: style[g.id] for g in results.groups}
    for alpha in ("0.1", "0.5"):
        same = {(v.dash, v.marker) for k, v in of.items() if k.endswith(f"α={alpha}")}
        assert len(same) == 1
    made = pictures.curves(results, "error", statistics.ranks(results, "error"))
    assert made.svg.count("α=0.1</text>") == made.svg.count("α=0.5</text>") == 1
    assert len({(v.colour, v.dash, v.marker) for v in of.values()}) == 5  # in two panels


def test_many_methods_are_drawn_in_panels_of_few():
    (results,) = by_task(many())
    panels = statistics.facets(results.groups)
    assert len(panels) == 20 and sum(len(gs) for _, gs in panels) == len(results.groups) == 82
    assert {title for title, _ in panels} >= {"lin-hess-dlr", "mc-ef-fc_mom"}
    dlr = dict(panels)["lin-hess-dlr"]
    shown = statistics.leaders(dlr, statistics.ranks(results, "error"), most=4)
    assert len(shown) == 4 and len({g.parts[0] for g in dlr if g.id in shown}) == 4


def test_learning_rates_that_diverge_are_in_their_figure():
    from bongref.experiments.report import figures as plots

    (results,) = by_task(many())
    ((key, by_label),) = plots.series(results).items()
    assert key == ("lin-hess", "dlr") and list(by_label) == ["blr"]
    assert [g.params["alpha"] for g in by_label["blr"]] == [0.005, 0.01, 0.05, 0.1, 0.5]
    drawn = plots.learning_rates(results, "error")
    assert "2/2" in drawn.svg and "bong" in drawn.svg


def test_methods_that_diverge_at_one_rate_have_a_cross_each(monkeypatch):
    from bongref.experiments.report import figures as plots

    names = ("bog-lin-hess-diag", "bbb-lin-hess-diag")
    rates = ((0.01, None), (0.9, 60))  # the second diverges
    runs = [fake.record(n, s, alpha=a, diverges=d) for n in names for a, d in rates for s in (0, 1)]
    (results,) = by_task(runs)
    seen = []
    monkeypatch.setattr(plots, "picture", lambda *a, **k: seen.append(a[5]))
    plots.learning_rates(results, "error")
    figure = pytest.importorskip("matplotlib.figure").Figure()
    axis = figure.subplots()
    seen[0](figure, [axis])
    crosses = [line for line in axis.lines if line.get_marker() == "x"]
    (a,), (b,) = (line.get_xdata() for line in crosses)
    shift = axis.transAxes.inverted().transform(axis.transData.transform([(a, 1), (b, 1)]))[:, 0]
    assert len({line.get_color() for line in crosses}) == 2
    assert np.diff(abs(shift)) == pytest.approx(plots.BESIDE, rel=1e-9)


def test_counts_above_neighbouring_crosses_do_not_overlap(monkeypatch):
    """In panels of many: two methods of which all runs diverge at one rate, in each of two."""
    names = [f"{rule}-{h}-diag" for rule in ("bog", "bbb") for h in ("lin-hess", "lin-ef")]
    rates = ((0.01, None), (0.03, None), (0.9, 60))
    runs = [
        fake.record(n, s, alpha=a, diverges=d) for n in names for a, d in rates for s in range(10)
    ]
    (results,) = by_task(runs)
    seen, plots = [], pytest.importorskip("bongref.experiments.report.figures")
    paint = figures.picture

    def kept(name, title, caption, alt, shape, draw, **how):
        def drawn(figure, axes):
            draw(figure, axes)
            seen.append(figure)

        return paint(name, title, caption, alt, shape, drawn, **how)

    monkeypatch.setattr(plots, "picture", kept)
    plots.learning_rates(results, "error")
    boxes = [text.get_window_extent() for axis in seen[-1].axes for text in axis.texts]
    assert len(boxes) == 4
    assert not any(a.overlaps(b) for k, a in enumerate(boxes) for b in boxes[:k])


# --- what is refused ------------------------------------------------------------------------------


def test_folders_without_results_get_a_message(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / store.NAME).write_text("")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / store.NAME).write_text('{"a": 1}\n{"b": 2}\n')
    for name, words in {
        "absent": "there is no folder",
        "empty": "bongref run TASK --out FOLDER makes one",
        "none": "has none yet",
        "foreign": "none of its 2 line(s)",
    }.items():
        assert main(["report", str(tmp_path / name)]) == 2
        said = capsys.readouterr().err
        assert words in said and "Traceback" not in said
        assert not (tmp_path / name / "report").exists()


def test_a_metric_that_no_run_has_and_a_place_that_cannot_be_written(small, tmp_path, capsys):
    assert main(["report", str(small), "--by", "nlpd-mc"]) == 2
    assert "by must be one of ece, error, nlpd-lin_mc, nlpd-plugin, got" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert main(["report", str(small), "--out", str(tmp_path / "file" / "x")]) == 2
    assert "out must be a folder that can be written to" in capsys.readouterr().err
    assert main(["report", str(small), "--against", str(tmp_path / "absent")]) == 2


def test_the_command_writes_the_page(small, tmp_path, capsys):
    assert main(["report", str(small), "--out", str(tmp_path / "page"), "--by", "error"]) == 0
    out = capsys.readouterr().out
    assert "Finished: 8 runs complete, 1 diverged." in out and "report.html" in out
    data = json.loads((tmp_path / "page" / "report.json").read_text())
    assert data["tasks"][0]["ranked_by"] == "error"
