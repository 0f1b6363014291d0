"""A report as a value: what it prints, gives to programs, and shows in a notebook."""

import csv
import io
import json
import re
from html.parser import HTMLParser

import pytest

from annotator.base.errors import AnnotatorError
from annotator.base.text import cut_middle, cut_names, measure
from annotator.calibration.sample.draw import Assumed, Planned
from annotator.cooperbench.stats import StatsCounts, compute_statistics
from annotator.reports import co_occurrence
from annotator.reports.co_occurrence import count_co_occurrences
from annotator.reports.comparison import compare
from annotator.reports.digits import format_limits, format_number, format_percent, format_points
from annotator.reports.frequency import count_frequencies
from annotator.reports.table import FORMATS, Table, render, select_brief
from annotator.reports.tables import comparison, frequency, stats
from annotator.reports.tables.plan import tabulate
from annotator.runs.run import open_run
from annotator.traces import read_traces
from tests.calibration.build import make_rubric, make_run
from tests.conftest import EXAMPLES, unwrap
from tests.reports.test_formats import NAMES, strange, traces  # noqa: F401
from validation import Estimate, compute_wilson_interval, estimate_difference


@pytest.fixture
def run(tmp_path):
    return make_run(tmp_path / "run", make_rubric(tmp_path, id="first"), traces())


@pytest.mark.parametrize(
    ("k", "n", "printed"),
    [(1, 16, "6.3"), (3, 16, "18.8"), (9, 16, "56.3"), (23, 80, "28.8"), (1, 2000, "0.1")],
)
def test_a_share_halfway_between_two_digits_is_rounded_up(k, n, printed):
    """By hand: 6.25, 18.75, 56.25, 28.75 (in binary a little less) and 0.05 %."""
    assert format_percent(compute_wilson_interval(k, n)) == printed


def test_digits_of_differences_and_other_numbers():
    """By hand: 3 / 16 - 3 / 5 = -.4125, 3 / 8 - 5 / 16 = .0625; the mean of 5 in 8 runs, .625."""
    gaps = (
        format_points(estimate_difference(3, 16, 3, 5)),
        format_points(estimate_difference(3, 8, 5, 16)),
    )
    assert [value for value, _ in gaps] == ["-41.3", "+6.3"]
    numbers = (0.625, 2), (0.2375, 3), (2 / 3, 2), (36 / 128, 4)
    assert [format_number(*number) for number in numbers] == ["0.63", "0.238", "0.67", "0.2813"]
    assert [format_number(100 * share, 0) for share in (0.625, 0.6248, 0.615)] == ["63", "62", "62"]
    assert format_number(-0.0004, 2, "+") == "-0.00"  # a limit below 0 is not one above
    assert format_number(0.3 - 0.1 - 0.2, 1, "+") == "+0.0"


@pytest.mark.parametrize(
    ("value", "ends", "reason", "printed"),
    [
        (None, (0, 1), "no items", "-"),
        (0.5, (0, 1), "one task", "-"),
        (0.5, (0, 1), None, "[0.0, 100.0]"),
        (0.5, (0.2, 0.8), "clipped", "[20.0, 80.0]"),
        (0, (0, 0.8), "clipped", "[0.0, 80.0]"),
        (None, (0.2, 0.8), "undefined", "[20.0, 80.0]"),
        (1, (0.9996, 1), None, "[>99.9, 100.0]"),
        (0, (0, 0.0004), None, "[0.0, <0.1]"),
        (0.5, (None, None), "too few", "-"),
    ],
)
def test_limits_that_say_nothing_are_not_printed(value, ends, reason, printed):
    assert format_limits(Estimate("share", value, *ends, 9, 0.95, "wilson", reason)) == printed


def test_a_plan_is_rounded_as_other_tables():
    """Precision .625 and .125, recall .225: 62.5, 12.5 and 22.5 %; half-width 6.25."""
    plans = [Assumed(0.625), Assumed(0.125, 0.225)]
    cells = [Planned(f"c{n}", 50, 8, 0.0625, 3, 0.0625, 1.25, 9, a) for n, a in enumerate(plans)]
    assert tabulate(cells).rows[0] == ("c0", "8", "6.3", "1.3", "±6.3 (3)")
    told = [tabulate(some).notes[1] for some in (cells, cells[:1], cells[1:])]
    assert "in %: c0 63, c1 13/23." in told[0]
    assert "right in 63 %" in told[1]
    assert "right in 13 % of what it flags, and flags 23 %" in told[2]


@pytest.mark.parametrize("format_", FORMATS)
def test_every_report_is_the_tables_that_the_command_prints(annotate_cli, run, format_):
    counted = StatsCounts()
    for trace in read_traces([str(EXAMPLES)]):
        counted.add(trace)
    reports = {
        ("report", run): frequency.tabulate(count_frequencies(open_run(run))),
        ("report", run, "--by", "model"): frequency.tabulate(
            count_frequencies(open_run(run), by="model")
        ),
        ("report", run, "--co-occurrence"): co_occurrence.tabulate(
            count_co_occurrences(open_run(run))
        ),
        ("compare", run, "--by", "model", "--values", "m1", "m2"): comparison.tabulate(
            compare([open_run(run)], "model", ("m1", "m2"))
        ),
        ("stats", EXAMPLES): stats.tabulate(compute_statistics(counted)),
    }
    for arguments, tables in reports.items():
        brief = select_brief(tables) if format_ == "table" else tables
        printed = annotate_cli(*arguments, "--format", format_).out
        assert printed == unwrap(f"{render(brief, format_)}\n")
        if len(tables) == 1:
            assert tables[0].to(format_) == render(tables, format_)
            assert str(tables[0]) == (tables[0].brief or tables[0]).to("table")


def test_a_data_frame_has_the_full_precision(run):
    [table] = frequency.tabulate(count_frequencies(open_run(run)))
    frame = table.to_pandas().set_index("code")
    row = count_frequencies(open_run(run))[0].rows[0]
    assert row.share is not None
    assert tuple(frame.loc["alpha", ["value", "low", "high", "count"]]) == (
        *(row.share.value, row.share.low, row.share.high),
        20,
    )
    [pairs] = co_occurrence.tabulate(count_co_occurrences(open_run(run)))
    assert pairs.to_pandas().set_index(["code", "other"]).loc[("alpha", "beta"), "count"] == 10


PLAIN = Table("some", ("what", "n"), [("=a", "1"), ("b", "-")], notes=["Of 2."], name="some")


def test_a_table_without_records_gives_its_cells():
    assert PLAIN.to_pandas().to_dict("list") == {"what": ["=a", "b"], "n": ["1", "-"]}
    assert json.loads(PLAIN.to("json")) == [
        {"title": "some", "header": ["what", "n"], "rows": [["=a", "1"], ["b", "-"]]}
        | {"notes": ["Of 2."]}
    ]
    rows = list(csv.reader(io.StringIO(PLAIN.to("csv"))))
    assert rows == [["what", "n"], ["'=a", "1"], ["b", ""]]
    assert str(PLAIN) == "some\n\nwhat  n\n-------\n=a    1\nb     -\n\nOf 2."


def test_no_cell_of_a_table_without_records_is_lost_or_a_formula():
    alike = Table("t", ("what", "%", "%"), [("a", "-1.5", "=b"), ("c", "+2", "@d")])
    assert json.loads(alike.to("json"))[0]["rows"] == [["a", "-1.5", "=b"], ["c", "+2", "@d"]]
    rows = list(csv.reader(io.StringIO(alike.to("csv"))))
    assert rows == [["what", "%", "%"], ["a", "-1.5", "'=b"], ["c", "+2", "'@d"]]
    assert Table(notes=["alone"]).to("csv") == ""


@pytest.mark.parametrize("format", FORMATS)
def test_what_utf8_cannot_hold_is_replaced(format):
    """A manifest that somebody has changed may hold half of a character."""
    odd = Table("\ud800", ("what", "n"), [("\udfff", "1")], notes=["\ud83d"])
    assert odd.to(format).encode()


class Cells(HTMLParser):
    """The tags of a page, and the texts of its cells."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.cells: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_data(self, data):
        if self.cells:
            self.cells[-1] += data


def test_a_notebook_shows_the_cells_and_does_nothing(strange):  # noqa: F811
    for tables in (
        frequency.tabulate(count_frequencies(open_run(strange), by="who")),
        co_occurrence.tabulate(count_co_occurrences(open_run(strange))),
    ):
        for table in tables:
            page = table._repr_html_()
            shown = Cells(page)
            assert shown.tags == {"div", "p", "b", "table", "thead", "tbody", "tr", "th", "td"}
            cells = [cell for row in (table.header, *table.rows) for cell in row]
            assert shown.cells[: len(cells) - 1] == cells[:-1]
            assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", page)
    assert "<script" not in page
    assert len(NAMES) > 5


def test_a_format_that_is_not_there():
    with pytest.raises(AnnotatorError, match="no format 'xlsx' of tables, only table, csv, json"):
        PLAIN.to("xlsx")


@pytest.mark.parametrize(
    ("names", "cuts"),
    [
        # "corrected)" ends both: one more letter tells them apart.
        ("C3a (Claim, uncorrected)|C3b (Claim, corrected)", "C3a …ncorrected)|C3b … corrected)"),
        ("false_claim_corrected|false_claim_mended", "false_clai…ected|false_clai…ended"),
        (f"{'a' * 16}x{'b' * 16}|{'a' * 16}y{'b' * 16}", None),
        ("short|C3a (short)", None),
    ],
)
def test_names_that_differ_are_never_cut_to_the_same(names, cuts):
    names = names.split("|")
    assert cut_names(names, 16) == (cuts.split("|") if cuts else names)


def test_wide_letters_take_two_columns():
    """Each of these letters is as wide as two digits."""
    rows = [("工作", "1", "x"), ("ab", "12", "y")]
    table = Table("", ("code", "n", "what"), rows, notes=["工" * 3 + " a" * 45])
    lines = render([table], "table").splitlines()
    assert lines[:4] == [
        "code   n  what",
        "-" * 14,
        "工作   1     x",
        "ab    12     y",
    ]
    assert lines[-1].startswith("   a")  # a long note goes on below, indented
    # A third of 16 columns is 5: two wide letters at the end, an ellipsis, and 11 before it.
    assert cut_middle("ab" + "工" * 20, 16) == "ab工工工工…工工"
    assert [measure(text) for text in ("ab", "工作", "e\u0301", "😀")] == [2, 4, 1, 2]
