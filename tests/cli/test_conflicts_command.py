"""``annotate conflicts``: of two patches, of traces, and of a run."""

import csv
import io
import json
import re
import shutil

import pytest

from annotator import Trace, find_conflicts
from tests.conftest import write_run
from tests.cooperbench.facts.diffs import change

BASE = " class Shelf:\n     def __init__(self):\n         self.size = 3\n"
A_LIST = change(f"{BASE}+        self.loans = []")
A_DICT = change(f"{BASE}+        self.loans = {{}}")
OTHER = change(f"{BASE}+        self.room = 4")
NO_PYTHON = change("+a list", "notes.md")


@pytest.fixture
def patches(tmp_path):
    """Write two patches."""

    def write(first, second):
        (tmp_path / "a.patch").write_text(first)
        (tmp_path / "b.diff").write_text(second)
        return tmp_path / "a.patch", tmp_path / "b.diff"

    return write


@pytest.fixture
def logs(tmp_path):
    """Seven runs: of five pairs that count, two have a conflict, both of the first three."""
    pairs = [
        *[("vague/coop/shop_task/1", A_LIST, A_DICT), ("vague/coop/shop_task/2", A_LIST, A_DICT)],
        *[("vague/coop/shop_task/3", A_LIST, OTHER), ("exact/coop/shop_task/3", A_LIST, OTHER)],
        *[("exact/coop/shop_task/1", A_LIST, A_LIST), ("exact/coop/shop_task/4", A_LIST, "")],
        ("exact/coop/shop_task/5", A_LIST, NO_PYTHON),
    ]
    for place, first, second in pairs:
        write_run(tmp_path / "logs" / place / "f1_f2", patches={1: first, 2: second})
    return tmp_path / "logs"


def shares(annotate_cli, *arguments):
    """The counts and n of kinds by value of the attribute, as CSV has them."""
    done = annotate_cli("conflicts", *arguments, "--format", "csv")
    rows = csv.DictReader(io.StringIO(done.out))
    return {(row["attribute_value"], row["kind"]): row for row in rows}


def test_two_patches_are_shown_with_the_lines_that_conflict(annotate_cli, patches):
    done = annotate_cli("conflicts", *patches(A_LIST, A_DICT))
    lines = [line.strip() for line in done.out.splitlines()]
    # Three lines of head and three of context stand before the line that each adds.
    assert [line for line in lines if line.startswith("line")] == [
        "line 7: + self.loans = []",
        "line 7: + self.loans = {}",
    ]
    assert "shape: Shelf.loans in shop/parser.py" in lines
    assert done.code == 0


@pytest.mark.parametrize(
    ("second", "shown"),
    [
        (OTHER, "0 conflicts in 1 pair"),
        (A_LIST, "0 conflicts in 1 pair"),
        ("", "a patch is empty"),
        (NO_PYTHON, "no Python file"),
    ],
)
def test_patches_without_a_conflict(annotate_cli, patches, second, shown):
    done = annotate_cli("conflicts", *patches(A_LIST, second))
    assert (done.code, shown in done.out, "line" in done.out) == (0, True, False)


@pytest.mark.parametrize(
    ("second", "place"),
    [
        ("\nDear all,\nhello", "b.diff:2: "),
        (f"{OTHER}@@ what @@\n+x\n", "b.diff:8: "),
        ("diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n", "b.diff:3: a file without a hunk"),
    ],
)
def test_a_patch_that_is_no_diff_is_named_with_its_line(annotate_cli, patches, second, place):
    done = annotate_cli("conflicts", *patches(A_LIST, second))
    assert (done.code, place in done.err, done.out) == (2, True, "")


def test_a_patch_needs_another_one(annotate_cli, patches):
    first, second = patches(A_LIST, A_DICT)
    for arguments in ((first,), (first, second, first), (first, "missing.patch")):
        assert annotate_cli("conflicts", *arguments).code == 2


def test_pairs_of_traces_are_counted_by_kind_and_attribute(annotate_cli, logs):
    rows = shares(annotate_cli, logs, "--by", "run_name")
    counts = {key: (int(row["count"]), int(row["n"])) for key, row in rows.items()}
    assert {key: pair for key, pair in counts.items() if key[1] in ("shape", "any", "none")} == {
        **{("", "shape"): (2, 5), ("", "any"): (2, 5), ("", "none"): (3, 5)},
        **{("vague", "shape"): (2, 3), ("vague", "any"): (2, 3), ("vague", "none"): (1, 3)},
        **{("exact", "shape"): (0, 2), ("exact", "any"): (0, 2), ("exact", "none"): (2, 2)},
    }
    assert {pair[0] for key, pair in counts.items() if key[1] in ("element", "names")} == {0}
    assert rows["", "any"]["tasks"] == "3"


def test_intervals_are_wilsons_where_pairs_are_independent(annotate_cli, logs):
    row = shares(annotate_cli, logs, "--cluster", "none")["", "any"]
    # By hand, z = 1.96: (0.4 + z^2/10 -+ z sqrt(0.24/5 + z^2/100)) / (1 + z^2/5)
    assert [float(row[key]) for key in ("value", "low", "high")] == pytest.approx(
        [0.4, 0.1176, 0.7693], abs=1e-4
    )


def test_pairs_of_one_trace_are_not_independent():
    patches = {"ann": A_LIST, "bob": A_DICT, "cy": OTHER}
    found = find_conflicts(*(Trace(name, "own", "", patches=patches) for name in ("t1", "t2")))
    [row] = [row for row in found.tables[0].records if row["kind"] == "any"]
    assert (row["count"], row["n"], row["tasks"]) == (2, 6, 2)


def test_the_table_says_what_is_in_no_share(annotate_cli, logs):
    out = annotate_cli("conflicts", logs, "-v").out
    assert "1 pair (a patch is empty)" in out
    assert "1 pair (a patch changes no Python file, or only tests)" in out
    assert out.count("line 7") == 4


def test_the_first_screen_has_a_sentence_the_kinds_and_examples(annotate_cli, logs):
    done = annotate_cli("conflicts", logs, "--cluster", "none")
    lines = done.raw.splitlines()
    assert lines[0] == "7 pairs of patches in 7 traces"
    result = " ".join(lines[2:4])
    assert result == (
        "In 2 of 5 pairs, 40.0 % (95 % interval 11.8 to 76.9), the patches do not fit together:"
        " shape in 2."
    )
    assert any(re.match(r"shape \(.*\) +2/5 +40\.0 +\[11\.8, 76\.9\]", line) for line in lines)
    assert done.out.count("line 7") == 4  # of two examples
    assert lines[-1] == "1 more table and 1 more note: -v"
    assert "-v    every conflict with its lines" in done.err
    by = annotate_cli("conflicts", logs, "--by", "run_name").out.splitlines()
    assert [line.split()[:2] for line in by if line[:6] in ("vague ", "exact ", "all   ")] == [
        ["exact", "0/2"],
        ["vague", "2/3"],
        ["all", "2/5"],
    ]


def test_the_list_as_csv_and_the_pairs_as_json(annotate_cli, logs):
    out = annotate_cli("conflicts", logs, "--list", "--format", "csv").out
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [(x["trace_id"], x["kind"], x["name"]) for x in rows] == [
        ("vague/coop/shop_task/1/f1_f2", "shape", "Shelf.loans"),
        ("vague/coop/shop_task/2/f1_f2", "shape", "Shelf.loans"),
    ]
    pairs = json.loads(annotate_cli("conflicts", logs, "--format", "json").out)["pairs"]
    assert sorted(len(pair["conflicts"]) for pair in pairs) == [0, 0, 0, 0, 0, 1, 1]


def test_of_a_run_only_its_traces_are_compared(annotate_cli, logs, tmp_path):
    out = tmp_path / "run"
    annotate_cli("run", logs, "--rubric", "symptoms", "--limit", 2, "--out", out, "--quiet")
    assert shares(annotate_cli, out)["", "any"]["n"] == "2"
    shutil.rmtree(logs / "exact" / "coop" / "shop_task" / "1")
    assert "not where it was read: 1 trace" in annotate_cli("conflicts", out).out


def test_a_trace_that_cannot_be_read_ends_with_1(annotate_cli, logs):
    (logs / "broken.json").write_text('{"id": broken')
    done = annotate_cli("conflicts", logs)
    assert (done.code, "broken.json" in done.err, "7 pairs" in done.out) == (1, True, True)


def test_no_trace_and_no_such_attribute_end_with_2(annotate_cli, logs, tmp_path):
    (tmp_path / "empty").mkdir()
    assert annotate_cli("conflicts", tmp_path / "empty").code == 2
    done = annotate_cli("conflicts", logs, "--by", "colour")
    assert (done.code, "run_name" in done.err) == (2, True)


def test_from_python(patches):
    [pair] = find_conflicts(*patches(A_LIST, A_DICT)).pairs
    [conflict] = pair.conflicts
    assert (conflict.kind, conflict.name) == ("shape", "Shelf.loans")
    assert [use.lines for use in conflict.uses] == [
        ((7, "+        self.loans = []"),),
        ((7, "+        self.loans = {}"),),
    ]
