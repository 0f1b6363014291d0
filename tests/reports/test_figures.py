"""Figures, read back from the SVG: what stands where, held against the numbers of the tables."""

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from html import unescape
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from annotator.reports.figures.style import apply_style
from tests.calibration.build import (
    label,
    make_rubric,
    make_run,
    said,
    said_in_words,
)
from tests.conftest import ROOT
from tests.cooperbench.test_stats import pair
from tests.test_architecture import imported

SVG = "{http://www.w3.org/2000/svg}"
CODES = ("alpha", "beta", "gamma", "none")


class Picture:
    """An SVG by its ids. Letters are drawn as paths; what they say stands in comments."""

    def __init__(self, file: Path) -> None:
        builder = ElementTree.TreeBuilder(insert_comments=True)
        self.root = ElementTree.parse(file, ElementTree.XMLParser(target=builder)).getroot()
        self.groups = {one.get("id"): one for one in self.root.iter(f"{SVG}g") if one.get("id")}
        self.texts = self._said(self.root)

    def _said(self, element) -> list[str]:
        return [unescape(one.text.strip()) for one in element.iter(ElementTree.Comment)]

    def said(self, name: str) -> str:
        return " ".join(self._said(self.groups[name]))

    @property
    def text(self) -> str:
        return " ".join(self.texts)

    def ids(self, start: str) -> set[str]:
        return {name for name in self.groups if name.startswith(start)}

    def value(self, name: str, axis: str = "x") -> float:
        """Where a marker stands, by the numbers at the ticks of the axis."""
        use = self.groups[name].find(f".//{SVG}use")
        return self._by_ticks(axis, float(use.get(axis)))

    def ends(self, name: str, axis: str = "x") -> tuple[float, float]:
        """Where a straight line begins and ends, by the numbers at the ticks of the axis."""
        _, x1, y1, _, x2, y2 = self.groups[name].find(f"{SVG}path").get("d").split()
        ends = (x1, x2) if axis == "x" else (y1, y2)
        return tuple(self._by_ticks(axis, float(one)) for one in ends)

    def height(self, name: str) -> float:
        return float(self.groups[name].find(f".//{SVG}use").get("y"))

    def _by_ticks(self, axis: str, place: float) -> float:
        names = sorted(self.ids(f"{axis}tick_"), key=lambda one: int(one.split("_")[1]))[:2]
        places = [float(self.groups[one].find(f".//{SVG}use").get(axis)) for one in names]
        values = [float(self.said(one)) for one in names]
        return values[0] + (place - places[0]) * (values[1] - values[0]) / (places[1] - places[0])


@pytest.fixture
def run(tmp_path, rubric):
    """10 traces: alpha 2, beta 4, none 4; alpha and beta together in 2; no rule for gamma."""
    found = [["alpha", "beta"]] * 2 + [["beta"]] * 4 + [[]] * 4
    traces = [said(f"t{n}", *codes, model=f"m{n % 2}") for n, codes in enumerate(found)]
    return make_run(tmp_path / "run", rubric, traces, known=["alpha", "beta"])


@pytest.fixture
def file(calibrate, rubric, run):
    """Labels of 8 of them: t0 alpha, t1 gamma, t2 and t3 beta, t4 none, t6 beta, t7 and t8 none."""
    codes = {0: "alpha", 1: "gamma", 2: "beta", 3: "beta", 4: None, 6: "beta", 7: None, 8: None}
    rows = [label(f"t{n}", rubric, *([code] if code else [])) for n, code in codes.items()]
    return calibrate(run, rows)[1]


@pytest.fixture
def draw(annotate_cli, tmp_path):
    def drawn(*arguments, command="figure"):
        place = tmp_path / "figure.svg"
        option = "--out" if command == "figure" else "--figure"
        done = annotate_cli(command, *arguments, option, place)
        assert done.code == 0, done.err
        assert done.err.endswith(f"figure written to {place}\n")
        assert bool(done.out) == (command != "figure")
        return Picture(place)

    return drawn


def tables(annotate_cli, *arguments):
    return json.loads(annotate_cli("report", *arguments, "--format", "json").out)


# Frequency


def test_dots_and_bars_stand_at_the_shares_and_limits(draw, annotate_cli, run):
    picture = draw(run)
    # Wilson's limits of 2/10 and 4/10, as in Agresti and Coull's (1998) formula: by hand.
    by_hand = {"alpha": (20, 5.67, 50.98), "beta": (40, 16.82, 68.73), "none": (40, 16.82, 68.73)}
    for code, (share, low, high) in by_hand.items():
        assert picture.value(f"dot:judged:0:{code}") == pytest.approx(share, abs=0.01)
        assert picture.ends(f"bar:judged:0:{code}") == pytest.approx((low, high), abs=0.01)
    assert picture.ids("dot:") == {f"dot:judged:0:{code}" for code in by_hand}
    assert {*CODES, "not judged"} <= set(picture.texts)
    heights = [picture.height(f"dot:judged:0:{code}") for code in ("beta", "alpha", "none")]
    assert heights == sorted(heights)  # by share, and none is last
    assert "traces with the code as primary, % of judged traces (n = 10)" in picture.text
    assert "95 % intervals (Wilson), sampling error only" in picture.text


def test_a_judge_that_only_screens_has_no_bars(draw, tmp_path, rubric):
    names = ["alpha", "beta"]
    ones = [said("t0", "alpha"), said("t1", "alpha")]
    picture = draw(make_run(tmp_path / "screen", rubric, ones, known=names, screens=names))
    assert not picture.ids("dot:judged")
    assert {"2 found, no share", "none found, no share", "not judged"} <= set(picture.texts)
    assert "what it finds is counted and has no share" in picture.text


def same_shares(picture, row, **ids):
    """Each number of a row stands at its dot and its bar, whose ids are given by its name."""
    for name, series in ids.items():
        share, where = row[name], f"{series}:{row['code']}"
        if share["value"] is None:
            assert f"dot:{where}" not in picture.groups
            continue
        assert picture.value(f"dot:{where}") == pytest.approx(100 * share["value"], abs=0.01)
        limits = (100 * share["low"], 100 * share["high"])
        assert picture.ends(f"bar:{where}") == pytest.approx(limits, abs=0.01)


def test_corrected_shares_stand_beside_the_judges_own(draw, annotate_cli, run, file):
    picture = draw(run, "--calibration", file)
    [table] = tables(annotate_cli, run, "--calibration", file)
    assert all(row["corrected"]["value"] is not None for row in table["rows"])
    for row in table["rows"]:
        same_shares(picture, row, corrected="corrected:0")
    assert "corrected by 8 labels" in picture.texts
    assert "dot:judged:0:gamma" not in picture.groups


def test_error_rates_from_elsewhere_are_called_so(draw, tmp_path, rubric, file):
    traces = [said(f"u{n}", *(["alpha"] if n % 2 else [])) for n in range(8)]
    other = make_run(tmp_path / "other", rubric, traces, known=["alpha", "beta"])
    arguments = (other, "--calibration", file, "--transfer")
    assert "corrected by 8 labels made elsewhere (transferred)" in draw(*arguments).texts
    picture = draw(*arguments, "--plot", "reliability")
    assert "(n = 8 labels made elsewhere (transferred))" in picture.text


def test_limits_without_a_number_have_no_dot(draw, calibrate, rubric, run):
    # None of the four traces that the judge called beta has a label: only limits are known.
    rows = [label(f"t{n}", rubric, "alpha") for n in (0, 1, 6, 7, 8)]
    picture = draw(run, *calibrate(run, rows))
    assert "bar:corrected:0:beta" in picture.groups
    assert "dot:corrected:0:beta" not in picture.groups
    assert "Bar without a marker: only limits are known." in picture.text


def test_groups_stand_side_by_side(draw, run):
    picture = draw(run, "--by", "model")
    for number in (0, 1):  # each model has one of the two traces with alpha
        assert picture.value(f"dot:judged:{number}:alpha") == pytest.approx(20, abs=0.01)
        assert f"model = m{number}: n = 5" in picture.texts
    assert picture.height("dot:judged:0:beta") < picture.height("dot:judged:1:beta")


def test_a_group_without_judged_traces_stands_in_the_key_only(draw, tmp_path, rubric):
    traces = [said("a", "alpha", model="x"), said("b", status="failed", model="y")]
    picture = draw(make_run(tmp_path / "r", rubric, traces), "--by", "model")
    assert "model = y: no judged traces" in picture.texts
    assert not picture.ids("dot:judged:1")


def test_runs_are_told_by_their_judges_or_folders(draw, tmp_path, rubric):
    traces = [said("a", "alpha")]
    first, second = (make_run(tmp_path / name, rubric, traces) for name in ("one", "two"))
    third = make_run(tmp_path / "three", rubric, traces, judge="llm:other")
    picture = draw(first, second, third)
    assert {"llm:m, one: n = 1", "llm:m, two: n = 1", "llm:other: n = 1"} <= set(picture.texts)


def test_nothing_judged_is_drawn_as_nothing_known(draw, tmp_path, rubric):
    picture = draw(make_run(tmp_path / "r", rubric, [said("a", status="failed")]))
    assert not picture.ids("dot:") | picture.ids("bar:")
    assert picture.texts.count("-") == len(CODES)
    assert "(n = 0)" in picture.text


def test_an_unfinished_run_is_named_so(draw, tmp_path, rubric):
    run = make_run(tmp_path / "r", rubric, [said("a", "alpha")], status="interrupted", limit=3)
    own = {"The run is not finished.", "Only the first 3 traces were read."}
    assert own <= set(draw(run).texts)
    matrix = draw(run, "--plot", "co-occurrence").text
    assert "The run is not finished (status: interrupted)" in matrix
    other = make_run(tmp_path / "o", rubric, [said("a", "alpha")])
    assert "r: n = 1, unfinished run, first 3 traces only" in draw(run, other).texts


# Matrices


def test_co_occurrence_has_its_counts_in_the_cells(draw, run):
    picture = draw(run, "--plot", "co-occurrence")
    rows = [[picture.said(f"count:{n}:{m}") for m in range(3)] for n in range(3)]
    assert rows == [["2", "2", "-"], ["2", "6", "-"], ["-", "-", "-"]]
    assert "n = 10" in picture.text
    assert picture.texts.count("alpha") == 2
    # 6 is #0072b2, and 2 a third of the way to it from white.
    styles = " ".join(one.get("style", "") for one in picture.root.iter())
    assert {"#aad0e5", "#0072b2"} <= set(re.findall("fill: (#[0-9a-f]{6})", styles))


def test_confusion_has_the_person_in_rows(draw, run, file):
    picture = draw(run, "--calibration", file, "--plot", "confusion")
    rows = [[picture.said(f"count:{n}:{m}") for m in range(4)] for n in range(4)]
    assert rows == [
        ["1", "0", "-", "0"],  # t0
        ["0", "2", "-", "1"],  # t2, t3; t6
        ["1", "0", "-", "0"],  # t1: a gamma, which the judge cannot find and calls alpha
        ["0", "1", "-", "2"],  # t4; t7, t8
    ]
    assert "n = 8, labels of ann); not weighted" in picture.text
    assert {"person", "judge"} <= set(picture.texts)


def test_undecided_traces_are_not_in_a_confusion(draw, calibrate, tmp_path, rubric):
    """By hand: t0 alpha and alpha, t1 beta and none; t2 is undecided."""
    traces = [said("t0", "alpha"), said("t1"), said("t2", status="undecided")]
    run = make_run(tmp_path / "open", rubric, traces)
    rows = [label("t0", rubric, "alpha"), label("t1", rubric, "beta"), label("t2", rubric, "beta")]
    picture = draw(run, *calibrate(run, rows), "--plot", "confusion")
    counts = {name for name in picture.ids("count:") if picture.said(name) == "1"}
    assert counts == {"count:0:0", "count:1:3"}
    assert "n = 2," in picture.text
    assert "Undecided, not counted: 1." in picture.text


# Reliability


def test_precision_and_recall_stand_at_the_tables_numbers(draw, annotate_cli, run, file):
    picture = draw(run, "--calibration", file, "--plot", "reliability")
    [table] = tables(annotate_cli, run, "--calibration", file)
    for row in table["rows"]:
        same_shares(picture, row, precision="precision", recall="recall")
    # Of the 3 labels of traces that the judge called beta (t2, t3, t4), 2 are beta; t6 is another.
    assert picture.value("dot:precision:beta") == pytest.approx(100 * 2 / 3, abs=0.01)
    assert "dot:precision:gamma" not in picture.groups
    assert {"2+0", "3+1", "0+1"} <= set(picture.texts)


# Difficulty


def test_success_stands_at_the_middle_of_its_bucket(draw, annotate_cli, tmp_path):
    # Difficulties 0, 1/8, 1/2, 1: the first two buckets are neighbours, the others stand alone.
    for task, (solo, coop) in enumerate(
        (("pppppppp", "ppf"), ("pppppppf", "pff"), ("ppppffff", "ff"), ("ffffffff", "ff")), 1
    ):
        pair(tmp_path, task, solo, coop)
    pair(tmp_path, 5, "pppppppp", "fpp")
    picture = draw(tmp_path / "logs", command="stats")
    lows = ("0.0", "0.1", "0.5", "0.9")
    assert picture.ids("dot:solo") == {f"dot:solo::{low}" for low in lows}
    for low, solo, coop in zip(lows, (100, 87.5, 50, 0), (200 / 3, 100 / 3, 0, 0), strict=True):
        for name, share in (("solo", solo), ("coop", coop)):
            place = picture.value(f"dot:{name}::{low}")
            assert place == pytest.approx(float(low) + 0.05, abs=0.01)
            assert picture.value(f"dot:{name}::{low}", "y") == pytest.approx(share, abs=0.1)
    assert picture.ids("line:") == {"line:solo::0.0", "line:coop::0.0"}
    stats = json.loads(annotate_cli("stats", tmp_path / "logs", "--format", "json").out)
    curve = stats["difficulty"]["pooled"]
    first = curve["buckets"][0]["coop"]
    limits = (100 * first["low"], 100 * first["high"])
    assert picture.ends("bar:coop::0.0", "y") == pytest.approx(limits, abs=0.1)
    # From one task nothing is known of how tasks differ.
    assert picture.ids("bar:") == {"bar:solo::0.0", "bar:coop::0.0"}
    assert f"retention {curve['retention']['value']:.2f}" in picture.text


def test_models_have_a_panel_each(annotate_cli, tmp_path):
    for model in range(13):
        for task, end in ((1, "p"), (2, "f")):
            pair(tmp_path, task, end, "f", model=f"m{model}")
    place = tmp_path / "figure.svg"
    assert annotate_cli("stats", tmp_path / "logs", "--figure", place).code == 0
    assert {"all models", *(f"m{n}" for n in range(13))} <= set(Picture(place).texts)


def test_without_a_curve_the_reason_is_given(draw, tmp_path):
    pair(tmp_path, 1, "", "p")
    picture = draw(tmp_path / "logs", command="stats")
    assert "no curve" in picture.texts
    assert "no task has both solo and coop runs" in picture.text
    assert not picture.ids("dot:")


# Text


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("$\\frac{1}{0}$ $x", "$\\frac{1}{0}$ $x"),
        ("_^{}%\\ --><b>&", "_^{}%\\ - -><b>&"),  # the SVG's comment itself may hold no "--"
        ("a\u202egpj\x1b[31m", "a\ufffdgpj\ufffd[31m"),
        ("模型", "\\u6a21\\u578b"),
        ("שלום", "\\u05e9\\u05dc\\u05d5\\u05dd"),
        ("n\u0303 e\u0302\u0303\u200b", "ñ ễ\\u200b"),
        ("\ufffe\ud800", "\\ufffe\ufffd"),
    ],
)
def test_hostile_names_are_shown_as_text(draw, annotate_cli, tmp_path, rubric, name, shown):
    traces = [said("a", "alpha", model=name), said("b", model="plain")]
    run = make_run(tmp_path / "r", rubric, traces)
    picture = draw(run, "--by", "model")  # a warning, of a missing letter say, is an error in tests
    assert f"model = {shown}: n = 1" in picture.text


def visible_texts(figure):
    """What is written, with its box on the canvas; the counts of cells have their own tests."""
    figure.draw_without_rendering()
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text()]
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts]
    return [(words, box) for words, box in boxes if words.strip("-0123456789.")]


LONG = [f"c{n}_{'long_' * 11}" for n in range(40)]
WIDE = ["W" * 64, "M" * 30]
USUAL = ["work_overlap", "unaware_of_termination_conditions", "unverifiable_claims"]
MODELS = [f"some-vendor/a-model-with-a-long-name-{n}b-instruct-2025" for n in range(8)]


@pytest.mark.parametrize(
    ("plot", "codes", "models"),
    [
        *(("frequency", codes, ["m", "n"]) for codes in (["a"], LONG, WIDE)),
        *(("confusion", codes, ["m"]) for codes in (["a"], USUAL, LONG, WIDE)),
        *((plot, USUAL, MODELS) for plot in ("frequency", "reliability")),
    ],
)
def test_nothing_is_cut_and_no_text_covers_another(
    annotate_cli, calibrate, monkeypatch, tmp_path, plot, codes, models
):
    rubric = make_rubric(tmp_path, codes=codes)
    traces = [
        said(f"t{n}", *[code] if n % 3 else [], model=models[n % len(models)])
        for n, code in enumerate(codes * (1 + 16 // len(codes)))
    ]
    run = make_run(tmp_path / "r", rubric, traces)
    rows = [label(one.trace_id, rubric, *[one.primary] if one.primary else []) for one in traces]
    options = [*calibrate(run, rows), *(() if plot == "confusion" else ("--by", "model"))]
    drawn = []
    save = Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda figure, *a, **b: (drawn.append(figure), save(figure, *a, **b))
    )
    place = tmp_path / "x.png"
    done = annotate_cli("figure", run, "--plot", plot, *options, "--out", place)
    assert done.code == 0, done.err
    with apply_style():
        texts = visible_texts(drawn[0])
    for n, (words, box) in enumerate(texts):
        for other, its in texts[:n]:
            across = min(box.x1, its.x1) - max(box.x0, its.x0)
            down = min(box.y1, its.y1) - max(box.y0, its.y0)
            assert min(across, down) < 1, (words, other)
    with Image.open(place) as image:  # ink at the edge of the canvas is of something cut
        grey = image.convert("L")
        assert grey.width >= 1020
        assert codes is WIDE or grey.width in (1020, 2100) or len(codes) > 30
        edges = [(0, 0, 1, grey.height), (grey.width - 1, 0, grey.width, grey.height)]
        edges += [(0, 0, grey.width, 1), (0, grey.height - 1, grey.width, grey.height)]
        assert all(grey.crop(edge).getextrema() == (255, 255) for edge in edges)


# Files


@pytest.fixture
def three(annotate_cli, tmp_path, run, file):
    for suffix in ("svg", "png", "pdf"):
        place = tmp_path / f"figure.{suffix}"
        done = annotate_cli("figure", run, "--calibration", file, "--out", place)
        assert done.code == 0, done.err
    return tmp_path


def test_the_files_are_what_their_names_say(three):
    with Image.open(three / "figure.png") as image:
        assert (image.format, image.size[0]) == ("PNG", 1020)  # 3.4 in at 300 dots
    data = (three / "figure.pdf").read_bytes()
    assert data.startswith(b"%PDF-")
    assert b"/CIDFontType2" in data  # Type 42: the font is in the file, as TrueType
    assert b"CreationDate" not in data
    assert Picture(three / "figure.svg").root.tag.endswith("svg")


def test_the_same_source_makes_the_same_bytes(three, run, file):
    other = three / "other"
    other.mkdir()
    (other / "matplotlibrc").write_text("lines.linewidth: 9\nsvg.fonttype: none\nfont.size: 3\n")
    command = [sys.executable, "-W", "error", "-m", "annotator", "figure", str(run)]
    command += ["--calibration", str(file), "--out", "x.svg"]
    environment = os.environ | {"PYTHONHASHSEED": "7", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=other, env=environment, capture_output=True, text=True)
    assert done.stderr == "figure written to x.svg\n"
    assert (other / "x.svg").read_bytes() == (three / "figure.svg").read_bytes()


# Errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("figure", "'--out'"),
        ("figure --out x.gif", "must end in .svg, .png, .pdf"),
        ("figure --out x", "must end in .svg, .png, .pdf"),
        ("figure --out gone/x.svg", "no folder gone"),
        ("figure --out x.svg --plot confusion", "--calibration FILE"),
        ("figure --out x.svg --plot pie", "'pie'"),
        ("figure --out x.svg --plot confusion --by model", "leave --by out"),
        ("figure --out x.svg --plot co-occurrence --by model", "takes no --by"),
    ],
)
def test_what_cannot_be_drawn_is_refused(annotate_cli, tmp_path, run, arguments, message):
    command, *options = arguments.split()
    done = annotate_cli(command, run, *options)
    said_in_words(done)
    assert (done.code, done.out, message in done.err) == (2, "", True)
    assert not (tmp_path / "x.svg").exists()


def test_a_place_that_cannot_be_written_is_named(annotate_cli, tmp_path, run):
    place = tmp_path / "taken.svg"
    place.mkdir()
    before = set(tmp_path.iterdir())
    done = annotate_cli("figure", run, "--out", place)
    assert done.code == 2
    assert f"cannot write {place}: " in done.err
    assert set(tmp_path.iterdir()) == before


def nine_groups(folder, **_):
    run = make_run(
        folder / "r", make_rubric(folder), [said(f"t{n}", model=f"m{n}") for n in range(9)]
    )
    return run, "--by", "model"


def many_codes(folder, calibrate, **_):
    rubric = make_rubric(folder, "many")
    run = make_run(folder / "r", rubric, [said("a", "alpha", "beta"), said("b")])
    rows = [label("a", rubric, "alpha"), label("b", rubric)]
    return run, *calibrate(run, rows), "--plot", "confusion"


def other_judge(folder, file, **_):
    run = make_run(folder / "o", make_rubric(folder), [said("t0", "alpha")], judge="llm:other")
    return run, "--calibration", file, "--transfer", "--plot", "confusion"


def one_code(folder, **_):
    run = make_run(folder / "r", make_rubric(folder, "one"), [said("a", "alpha")])
    return run, "--plot", "co-occurrence"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (nine_groups, "9 groups of traces for faults, at most 8"),
        (many_codes, "a trace can have many codes"),
        (other_judge, "does not fit: it was made for another judge"),
        (one_code, "no rubric of these runs allows more than one code"),
    ],
)
def test_runs_without_such_a_figure(annotate_cli, calibrate, tmp_path, file, make, message):
    arguments = make(tmp_path, calibrate=calibrate, file=file)
    done = annotate_cli("figure", *arguments, "--out", "x.svg")
    assert (done.code, message in done.err) == (2, True)


def test_without_matplotlib_the_extra_is_named(annotate_cli, monkeypatch, run):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = annotate_cli("figure", run, "--out", "x.svg")
    said_in_words(done)
    assert "pip install 'matplotlib>=" in done.err


def test_nothing_is_imported_without_a_figure(run):
    assert not imported("report", str(run)) & {"matplotlib", "PIL"}
