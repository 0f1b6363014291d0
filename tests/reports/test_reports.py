"""The frequency table: the right counts over the right n, the same digits in every format."""

import csv
import io
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from annotator.reports.frequency import count_frequencies
from annotator.reports.table import FORMATS, render
from annotator.reports.tables.frequency import tabulate
from annotator.rubrics import load_rubric
from annotator.rubrics.annotations import Rejected
from annotator.runs.run import open_run
from tests.calibration.build import make_run, said
from tests.conftest import Done
from validation import compute_wilson_interval

Cli = Callable[..., Done]
SYMPTOMS = load_rubric("symptoms")
SYMPTOMS_IDS = [code.id for code in SYMPTOMS.codes]


@pytest.fixture
def fifty(tmp_path: Path) -> Path:
    """48 of 50 judged runs have work_overlap as primary (the paper's 48 of 50), and there are 5
    skipped and 3 failed ones besides.
    """
    codes = [["work_overlap", "repetition"]] * 8 + [["work_overlap"]] * 40 + [["repetition"], []]
    ones = [said(f"t{n}", *each) for n, each in enumerate(codes)]
    ones += [said(f"t{n}", status="skipped" if n < 55 else "failed") for n in range(50, 58)]
    return make_run(tmp_path / "run", SYMPTOMS, ones)


def test_48_of_50_is_96_percent_86_5_to_98_9(fifty: Path) -> None:
    """Wilson for 48 of 50: [0.8654, 0.9890] (CooperBench, arXiv 2601.13295, prints 86 to 99)."""
    [table] = count_frequencies(open_run(fifty))
    row = next(row for row in table.rows if row.code == "work_overlap")
    text = render(tabulate([table]), "table")
    assert (table.judged, table.skipped, table.failed) == (50, 5, 3)
    failed = table.counts.unjudged["other"]
    assert (failed.count, failed.trace_id, failed.why) == (3, "t55", "refused")
    assert row.share is not None
    assert (row.share.k, row.share.n, row.anywhere) == (48, 50, 48)
    assert all(
        "They do not include the judge" in render(tabulate([table]), name) for name in FORMATS
    )
    [line] = [line for line in text.splitlines() if line.startswith("work_overlap")]
    assert line.split() == [
        "work_overlap",
        "48",
        "50",
        *["96.0", "[86.5,", "98.9]", "[90.6,", "96.2]", "48"],
    ]


def first_cells(text: str) -> list[str]:
    """The first word of each row of a table, in any format for people."""
    ids = {*SYMPTOMS_IDS, "none"}
    words = [line.replace("\\_", "_").lstrip("| ").split() for line in text.splitlines()]
    return [word[0] for word in words if word and word[0] in ids]


@pytest.mark.parametrize("format_", ["table", "md", "latex"])
def test_rows_by_share(annotate_cli: Cli, tmp_path: Path, format_: str) -> None:
    """By hand: 3 of 7 repetition, 2 parameter_flow, 1 work_overlap, 1 none; the others have 0."""
    codes = [["work_overlap"], *[["repetition"]] * 3, *[["parameter_flow"]] * 2, []]
    traces = [said(f"t{n}", *each) for n, each in enumerate(codes)]
    run = make_run(tmp_path / "run", SYMPTOMS, traces)
    found = ["repetition", "parameter_flow", "work_overlap"]
    others = [code for code in SYMPTOMS_IDS if code not in found]
    done = annotate_cli("report", "-v", run, "--sort", "share", "--format", format_)
    assert first_cells(done.out) == [*found, *others, "none"]
    for options in ((), ("--sort", "rubric")):
        done = annotate_cli("report", "-v", run, "--format", format_, *options)
        assert first_cells(done.out) == [*SYMPTOMS_IDS, "none"]


@pytest.mark.parametrize("format_", ["table", "md", "latex"])
def test_meanings_are_a_column(annotate_cli: Cli, fifty: Path, format_: str) -> None:
    """The definition of divergent_architecture has two sentences; this is the first."""
    done = annotate_cli("report", "-v", fifty, "--meanings", "--format", format_)
    [line] = [
        line.replace("\\_", "_")
        for line in done.out.splitlines()
        if "The agents follow design decisions that cannot both hold" in line
    ]
    assert "divergent_architecture" in line
    assert "even if it is clean as text." in line
    assert "So it is, too" not in done.out
    assert "the codes' names" not in done.out


def test_without_definitions_meanings_are_names(annotate_cli: Cli, fifty: Path) -> None:
    for file in ("run.json", "annotations.jsonl"):  # judged by an older version
        path = fifty / file
        path.write_text(path.read_text().replace(SYMPTOMS.sha256, "0" * len(SYMPTOMS.sha256)))
    done = annotate_cli("report", "-v", fifty, "--meanings")
    [line] = [line for line in done.out.splitlines() if line.startswith("divergent_architecture")]
    assert line.split()[1:4] == ["Divergent", "architecture", "0"]
    assert "Meanings are the codes' names" in done.out


@pytest.mark.parametrize("option", [("--sort", "share"), ("--meanings",)])
@pytest.mark.parametrize(
    "others",
    [
        ("--format", "csv"),
        ("--format", "json"),
        ("--format", "parquet"),
        ("--co-occurrence",),
    ],
)
def test_rows_for_people_alone(
    annotate_cli: Cli, fifty: Path, option: tuple[str, ...], others: tuple[str, ...]
) -> None:
    done = annotate_cli("report", "-v", fifty, *option, *others)
    assert done.code == 2
    assert option[0] in done.err


def test_shares_of_the_labelled_traces_alone(annotate_cli: Cli, fifty: Path) -> None:
    """49 are labelled, 48 of them with work_overlap; 3 failed ones may hold anything."""
    [table] = count_frequencies(open_run(fifty), of_labelled=True)
    rows = {row.code: row for row in table.all_rows}
    share = rows["work_overlap"].share
    assert share is not None
    assert (share.k, share.n, table.n, table.judged) == (48, 49, 49, 50)
    assert (share.low, share.high) == (
        compute_wilson_interval(48, 49).low,
        compute_wilson_interval(48, 49).high,
    )
    assert rows["work_overlap"].bounds == (48 / 52, 51 / 52)
    none = rows["none"]
    assert (none.count, none.share, none.bounds) == (1, None, None)
    assert none.unknown == "shares are of the labelled traces alone"
    assert "Shares of the 49 labelled traces alone" in table.notes[0]
    printed = annotate_cli("report", "-v", fifty, "--of-labelled", "--format", "json").out
    [value] = json.loads(printed)
    assert {row["n"] for row in value["rows"]} == {49}
    assert value["of_labelled"] is True
    printed = annotate_cli("report", "-v", fifty, "--of-labelled", "--format", "csv").out
    assert {row["of_labelled"] for row in csv.DictReader(io.StringIO(printed))} == {"True"}


@pytest.mark.parametrize(
    "options",
    [
        ("--calibration", "c.json"),
        ("--co-occurrence",),
        ("--format", "html"),
    ],
)
def test_shares_of_labelled_traces_go_with_tables_only(
    annotate_cli: Cli, fifty: Path, options: tuple[str, ...]
) -> None:
    done = annotate_cli("report", "-v", fifty, "--of-labelled", *options)
    assert done.code == 2
    assert "--of-labelled" in done.err


def test_every_code_has_a_row_and_primaries_add_up(fifty: Path) -> None:
    [table] = count_frequencies(open_run(fifty))
    assert [row.code for row in table.rows] == [
        *(code.id for code in load_rubric("symptoms").codes),
        "none",
    ]
    assert sum(row.share.k for row in table.rows if row.share) == 50
    repetition = next(row for row in table.rows if row.code == "repetition")
    assert (repetition.share.k, repetition.anywhere) == (1, 9)


def test_findings_all_rejected_are_said(tmp_path: Path) -> None:
    rejected = (Rejected("work_overlap", "not found", ("made up",)),)
    run = make_run(tmp_path / "run", SYMPTOMS, [replace(said("t1"), rejected=rejected)])
    assert "1 of the traces counted as none had findings" in render(
        tabulate(count_frequencies(open_run(run))), "table"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: lines[:-1], "recorded 3 annotations, 2 are left"),
        (lambda lines: [*lines, lines[0]], "has a second annotation"),
        (lambda lines: [lines[0], "{}", lines[2]], "line 2"),
        (lambda lines: [lines[0].replace('"work_overlap"', '"made_up"'), *lines[1:]], "made_up"),
        (lambda lines: [lines[0].replace('"symptoms"', '"other"'), *lines[1:]], "'other'"),
        (lambda lines: [lines[0].replace('_sha256": "', '_sha256": "0'), *lines[1:]], "version"),
        (lambda lines: [lines[0].replace('"passed": false', '"passed": [1]')[:-9]], "line 1"),
        (lambda lines: [lines[0].replace('"labelled"', '"failed"'), *lines[1:]], "failed, and it"),
        (
            lambda lines: [lines[0].replace('ry": "work_overlap"', 'ry": null'), *lines[1:]],
            "no code",
        ),
        (lambda lines: [lines[0].replace('_usd": 0.0', '_usd": -0.1'), *lines[1:]], "line 1"),
        (lambda lines: [lines[0].replace('_usd": 0.0', '_usd": 1e999'), *lines[1:]], "line 1"),
    ],
)
def test_a_damaged_run_is_not_reported(
    annotate_cli: Cli, tmp_path: Path, change: Callable[[list[str]], list[str]], message: str
) -> None:
    ones = [
        said(f"t{n}", "work_overlap", passed=False, setting=setting)
        for n, setting in enumerate(["coop", "solo", "coop"])
    ]
    run = make_run(tmp_path / "run", SYMPTOMS, ones)
    file = run / "annotations.jsonl"
    file.write_text("\n".join(change(file.read_text().splitlines())) + "\n")
    for command in (("report",), ("report", "--co-occurrence"), ("compare", "--by", "setting")):
        done = annotate_cli(*command, "-v", run)
        assert (done.code, done.out) == (2, "")
        assert message in done.err


@pytest.mark.parametrize("content", ["", "[]", "{", '{"rubrics": [{}]}', '{"rubrics": ["x"]}'])
def test_a_folder_that_is_no_run_is_an_error(
    annotate_cli: Cli, tmp_path: Path, content: str
) -> None:
    (tmp_path / "run.json").write_text(content)
    done = annotate_cli("report", "-v", tmp_path)
    assert (done.code, "run.json" in done.err) == (2, True)
    assert annotate_cli("report", "-v", tmp_path / "nowhere").code == 2


def test_a_run_is_given_once(annotate_cli: Cli, tmp_path: Path, fifty: Path) -> None:
    """A copy of it is the same run."""
    copy = shutil.copytree(fifty, tmp_path / "copy")
    for options in ((), ("--co-occurrence",), ("--format", "html", "--out", "x.html")):
        done = annotate_cli("report", "-v", fifty, copy, *options)
        assert (done.code, done.out) == (2, "")
        assert done.err == f"Error: {copy}: this run was given twice\n"


def test_a_limited_and_an_unfinished_run_say_so(tmp_path: Path) -> None:
    ones = [said("t1")]
    run = make_run(tmp_path / "run", SYMPTOMS, ones, limit=5, status="interrupted")
    for name in FORMATS:
        text = render(tabulate(count_frequencies(open_run(run))), name)
        assert "Only the first 5 traces" in text, name
        assert "not finished" in text, name
