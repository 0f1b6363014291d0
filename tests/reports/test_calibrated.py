"""`annotate report` with a calibration, by an attribute, and with codes that stand together."""

import csv
import io
import json

import pytest

from tests.calibration.build import (
    calibration,
    label,
    make_rubric,
    make_run,
    row_of,
    said,
    said_in_words,
    write_labels,
)
from validation import estimate_joint_shares, make_cell, poststratify

CODES = ("alpha", "beta", "gamma", "none")


def traces(n=120, start=0):
    """Half alpha, a sixth beta, the rest none; two models, three settings, 24 tasks."""
    return [
        said(
            f"t{start + m}",
            *(["alpha", "beta"] if m % 6 < 3 else ["beta"] if m % 6 == 3 else []),
            project="p",
            task=str(m % 24),
            model=f"m{m % 2}",
            **({"setting": ["x", True, None][m % 3]} if m % 3 < 2 else {}),
        )
        for m in range(n)
    ]


def labels(rubric, n=60, start=0, **more):
    rows = []
    for m in range(n):
        code = "alpha" if m % 6 < 2 else "gamma" if m % 6 == 3 and m % 12 == 3 else None
        code = "beta" if m % 6 in (2, 3) and code is None else code
        rows.append(label(f"t{start + m}", rubric, *([code] if code else []), **more))
    return rows


@pytest.fixture
def run(tmp_path, rubric):
    return make_run(tmp_path / "run", rubric, traces())


@pytest.fixture
def file(calibrate, rubric, run):
    return calibrate(run, labels(rubric))[1]


def table_rows(text):
    """Code -> cells of each line of a table for the terminal; intervals are one cell."""
    rows = {}
    for line in text.splitlines():
        cells = line.replace("[ ", "[").replace(", ", ",").split()
        if cells and cells[0] in CODES:
            rows[cells[0]] = cells
    return rows


# The same numbers everywhere


def test_the_report_has_the_numbers_of_calibrate(annotate_cli, run, file):
    made = calibration(file)
    [table] = json.loads(
        annotate_cli("report", "-v", run, "--calibration", file, "--format", "json").out
    )
    assert [row["code"] for row in table["rows"]] == list(CODES)
    assert (table["labels"], table["transferred"]) == (60, False)
    for row in table["rows"]:
        own = row_of(made, row["code"])
        for name in ("corrected", "precision", "recall"):
            assert row[name] == own[name], row["code"]
        assert (row["labels_flagged"], row["labels_missed"]) == (own["flagged"], own["missed"])
        assert row["mark"] == own["mark"]
        assert (row["k"], row["n"]) == (own["judged"]["k"], own["judged"]["n"])


def test_the_report_prints_the_digits_of_calibrate(annotate_cli, run, file):
    options = ("--calibration", file, "--format")
    names = ("table", "csv", "json", "md")
    printed = {name: annotate_cli("report", "-v", run, *options, name).out for name in names}
    screen = table_rows(annotate_cli("calibrate", "-v", run, "--labels", "labels.jsonl").out)
    for code, cells in table_rows(printed["table"]).items():
        assert screen[code][3:5] == cells[-4:-2]
    for text in printed.values():
        assert "They do not include the judge's errors" not in text
        assert "60 labels of ann" in text


def test_without_a_calibration_no_column_is_corrected(annotate_cli, run):
    out = annotate_cli("report", "-v", run).out
    assert "corrected" not in out
    assert "They do not include the judge's errors" in out


def test_a_code_without_a_rule(annotate_cli, calibrate, tmp_path, rubric):
    run = make_run(tmp_path / "run", rubric, traces(), known=["alpha", "beta"])
    out = annotate_cli("report", "-v", run, *calibrate(run, labels(rubric))).out
    gamma = table_rows(out)["gamma"]
    assert gamma[1] == "-"  # unknown, not 0
    assert gamma[-4] == "8.3"  # 5 of 60 labelled traces, no flag: 5 / 60


def test_the_confidence_of_the_calibration_is_the_one_named(annotate_cli, calibrate, run, rubric):
    options = calibrate(run, labels(rubric), "--confidence", 0.8)
    out = annotate_cli("report", "-v", run, *options).out
    header = next(line for line in out.splitlines() if line.startswith("code"))
    assert header.count("95 % interval") == 1  # the judge's own; the corrected ones are at 80 %
    out = annotate_cli("report", "-v", run, *options, "--format", "csv").out
    for row in csv.DictReader(io.StringIO(out)):
        assert (row["confidence"], row["corrected_confidence"]) == ("0.95", "0.8")


# What does not fit


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"judge": "llm:other"}, ["another judge", "llm:m", "llm:other", "--transfer"]),
        ({"prompt_sha256": "new"}, ["another judge"]),
        ({"n": 119}, ["other traces"]),
        ({"n": 121}, ["other traces"]),
        ({"start": 2}, ["other traces"]),
        ({"version": 2}, ["another version"]),
        ({"id": "else"}, ["the calibration is for faults"]),
    ],
)
def test_a_calibration_of_something_else_is_refused(
    annotate_cli, tmp_path, rubric, file, change, words
):
    options = dict(change)
    ones = traces(options.pop("n", 120), start=options.pop("start", 0))
    named = {name: options.pop(name) for name in ("version", "id") if name in options}
    other = make_run(
        tmp_path / "other", make_rubric(tmp_path, **named) if named else rubric, ones, **options
    )
    for more in ((), ("--transfer",)) if named else ((),):  # another rubric is always refused
        done = annotate_cli("report", "-v", other, "--calibration", file, *more)
        said_in_words(done)
        for word in words:
            assert word in done.err


def test_a_calibration_corrects_the_tables_that_it_fits(annotate_cli, tmp_path, rubric, run, file):
    """The other table says why it does not."""
    other = make_run(tmp_path / "other", rubric, traces(), judge="llm:other")
    for options in ((), ("--calibration", file)):
        done = annotate_cli("report", run, other, *options, "--format", "json")
        first, second = json.loads(done.out)
        assert ["corrected" in table["rows"][0] for table in (first, second)] == [True, False]
        [note] = [text for text in second["notes"] if "Not corrected by the calibration" in text]
        assert "it was made for another judge, llm:m" in note
        assert not any("Not corrected by" in text for text in first["notes"])


def test_the_same_judge_again_on_the_same_traces_fits(annotate_cli, tmp_path, rubric, run, file):
    """A second run says something else of some traces: the labels count against what it says."""
    again = traces()
    again[0] = said("t0", project="p", task="0", model="m0")
    other = make_run(tmp_path / "again", rubric, again)
    [table] = json.loads(
        annotate_cli("report", "-v", other, "--calibration", file, "--format", "json").out
    )
    alpha = next(row for row in table["rows"] if row["code"] == "alpha")
    assert (alpha["k"], alpha["labels_flagged"]) == (59, 29)


def test_transfer_says_so_in_every_format(annotate_cli, tmp_path, rubric, file):
    """Of 60 labels 20 are alpha, all flagged; of 40 others 10 are flagged: Se 1, Sp .75. 120 of 240
    flagged there: (.5 + .75 - 1) / (1 + .75 - 1) = 1/3.
    """
    other = make_run(tmp_path / "other", rubric, traces(240, start=1000), judge="llm:new")
    for name in ("table", "csv", "json", "md"):
        done = annotate_cli(
            "report", "-v", other, "--calibration", file, "--transfer", "--format", name
        )
        assert done.code == 0, done.err
        assert "TRANSFERRED" in done.out
        assert "Rogan-Gladen" in done.out
        assert "33.3" in done.out


@pytest.mark.parametrize("named", [0, 24, 40])
def test_joint_shares_are_of_all_codes_at_once(annotate_cli, calibrate, tmp_path, rubric, named):
    """The judge: 24 of 40 alpha, 8 beta, 8 none. Of 16 labels of its alpha 4 are beta, of 8 of its
    beta 4 none, of 8 of its none 2 alpha. Tasks of four traces, and traces of no task.
    """
    judge = [("alpha", "alpha", "beta", "none")[n // 4 % 4] for n in range(40)]
    human = ["beta"] * 4 + judge[4:8] + ["none"] * 4 + ["alpha"] * 2 + judge[14:]
    clusters = [n // 4 if n < named else n for n in range(40)]
    ones = [
        said(
            f"t{n}",
            *([code] if code != "none" else []),
            **({"project": "p", "task": str(n // 4)} if n < named else {}),
        )
        for n, code in enumerate(judge)
    ]
    run = make_run(tmp_path / "run", rubric, ones)
    some = range(32)
    rows = [label(f"t{n}", rubric, *([human[n]] if human[n] != "none" else [])) for n in some]
    done = annotate_cli("report", "-v", run, "--joint", *calibrate(run, rows), "--format", "json")
    [table] = json.loads(done.out)
    found = {row["code"]: row["corrected"] for row in table["rows"]}
    names = sorted(set(clusters))
    wanted = estimate_joint_shares(
        {
            code: [
                sum(c == code and k == name for c, k in zip(judge, clusters, strict=True))
                for name in names
            ]
            for code in CODES
        },
        [judge[n] for n in some],
        [human[n] for n in some],
        clusters=[names.index(clusters[n]) for n in some] if named else None,
    )
    values = {code: share["value"] for code, share in found.items()}
    alpha, beta = 0.6 * 12 / 16 + 0.2 * 2 / 8, 0.6 * 4 / 16 + 0.2 * 4 / 8
    none = 0.2 * 4 / 8 + 0.2 * 6 / 8
    assert values == pytest.approx({"alpha": alpha, "beta": beta, "gamma": 0, "none": none})
    for code, share in wanted.items():
        assert (found[code]["low"], found[code]["high"]) == pytest.approx((share.low, share.high))
    # No label of gamma, and no code in five tasks.
    assert found["gamma"]["high"] < 0.25
    unsure = [code for code, share in found.items() if not share["inputs"]["promised"]]
    assert unsure == {0: ["gamma"], 40: list(CODES)}.get(named, unsure)
    assert any(note.endswith(f": {', '.join(unsure)}.") for note in table["notes"])


def test_transfer_where_it_fits_anyway_is_no_transfer(annotate_cli, run, file):
    plain = annotate_cli("report", "-v", run, "--calibration", file).out
    assert annotate_cli("report", "-v", run, "--calibration", file, "--transfer").out == plain


def test_several_calibrations_each_for_its_run(annotate_cli, calibrate, tmp_path, rubric, run):
    """And each with its own clusters: the first was made with none."""
    second = make_run(tmp_path / "second", rubric, traces(90, start=500), judge="llm:two")
    files = calibrate(second, labels(rubric, 50, start=500))
    files += calibrate(run, labels(rubric), "--cluster", "none")
    done = annotate_cli("report", "-v", run, second, *files, "--format", "json")
    assert done.code == 0, done.err
    for table, folder in zip(json.loads(done.out), (run, second), strict=True):
        made = calibration(folder / "calibration.json")
        for row in table["rows"]:
            expected = row_of(made, row["code"])["corrected"]
            found = row["corrected"]
            assert [found[x] for x in ("value", "low", "high")] == [
                expected[x] for x in ("value", "low", "high")
            ], (folder.name, row["code"])


# By an attribute


def test_a_table_for_each_value(annotate_cli, run):
    tables = json.loads(
        annotate_cli("report", "-v", run, "--by", "setting", "--format", "json").out
    )
    assert [(one["group"]["value"], one["judged"]) for one in tables] == [
        ("-", 40),
        ("true", 40),
        ("x", 40),
    ]
    for one in tables:
        assert sum(row["k"] for row in one["rows"]) == one["judged"]
    out = annotate_cli("report", "-v", run, "--by", "setting").out
    assert out.count("setting = ") == 3


def test_groups_are_counted_as_the_traces_say(annotate_cli, run):
    tables = json.loads(annotate_cli("report", "-v", run, "--by", "model", "--format", "json").out)
    found = {one["group"]["value"]: {r["code"]: r["k"] for r in one["rows"]} for one in tables}
    # Even numbers: of every 6, 0 and 2 are alpha, 4 none. Odd: 1 alpha, 3 beta, 5 none.
    assert found == {
        "m0": {"alpha": 40, "beta": 0, "gamma": 0, "none": 20},
        "m1": {"alpha": 20, "beta": 20, "gamma": 0, "none": 20},
    }


def test_an_attribute_that_no_trace_has(annotate_cli, run):
    done = annotate_cli("report", "-v", run, "--by", "colour")
    said_in_words(done)
    for word in ("colour", "model", "setting", "task"):
        assert word in done.err


def test_groups_are_corrected_by_their_own_labels(annotate_cli, run, file):
    """Odd traces: 20 alpha of 60 judged. Labelled: 10 flagged, all right (m % 6 == 1), and none of
    the 20 others is alpha. Without clusters in the formula: the value alone.
    """
    tables = json.loads(
        annotate_cli(
            "report", "-v", run, "--calibration", file, "--by", "model", "--format", "json"
        ).out
    )
    by_value = {one["group"]["value"]: one for one in tables}
    alpha = next(row for row in by_value["m1"]["rows"] if row["code"] == "alpha")
    assert by_value["m1"]["labels"] == 30
    assert (alpha["labels_flagged"], alpha["labels_missed"]) == (10, 0)
    expected = poststratify(60, 20, make_cell([1] * 10), make_cell([0] * 20))
    assert alpha["corrected"]["value"] == pytest.approx(expected.value)
    even = next(row for row in by_value["m0"]["rows"] if row["code"] == "alpha")
    # 40 of 60 flagged, half of the 20 labels right (m % 6 == 0, not 2): 2/3 * 1/2.
    assert even["corrected"]["value"] == pytest.approx(1 / 3)


def test_a_group_without_labels_is_not_corrected(annotate_cli, calibrate, rubric, run):
    rows = [row for row in labels(rubric) if int(row["trace_id"][1:]) % 2]
    done = annotate_cli("report", "-v", run, *calibrate(run, rows), "--by", "model")
    assert done.code == 0, done.err
    m0 = done.out[done.out.index("model = m0") :].partition("model = m1")[0]
    for cells in table_rows(m0).values():
        assert cells[-4:] == ["-", "-", "0+0", "blind"]
    assert "Not corrected: every code (no human labels)." in m0.splitlines()
    assert "nan" not in done.out.lower()


@pytest.mark.parametrize(
    ("tasks", "interval", "told"),
    [
        (1, "-", "All labels come from one task, so there are no intervals. --cluster none treats"),
        (2, "[0.0, 100.0]", "The labels come from 2 tasks, fewer than 20"),
    ],
)
def test_labels_of_few_tasks_give_a_share_and_say_so(
    annotate_cli, tmp_path, rubric, tasks, interval, told
):
    found = [said(f"t{n}", "alpha", project="p", task=str(n % 10)) for n in range(40)]
    run = make_run(tmp_path / "run", rubric, found)
    rows = [label(f"t{n}", rubric, "alpha") for n in range(20) if n % 10 < tasks]
    file = write_labels(tmp_path / "l.jsonl", rows)
    done = annotate_cli("calibrate", "-v", run, "--labels", file)
    assert done.code == 0, done.err
    shown = annotate_cli("report", "-v", run, "--calibration", run / "calibration.json").out
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    for code, share in (("alpha", "100.0"), ("beta", "0.0"), ("gamma", "0.0"), ("none", "0.0")):
        [row] = [line for line in lines if line.startswith(f"{code} ")]
        assert f" {share} {interval} " in row
    for text in (shown, done.out):
        assert [line for line in text.splitlines() if line.startswith(told)]


def test_carrying_over_needs_something_to_carry(annotate_cli, run):
    done = annotate_cli("report", "-v", run, "--transfer")
    said_in_words(done)
    assert "--transfer needs --calibration FILE" in done.err


# Codes that stand together


def test_codes_that_stand_in_one_trace(annotate_cli, tmp_path, rubric):
    """By hand: alpha+beta 3 (whatever is primary), alpha alone 2, beta+gamma 1, none 4."""
    sets = [("alpha", "beta")] * 2 + [("beta", "alpha")] + [("alpha",)] * 2
    sets += [("beta", "gamma")] + [()] * 4
    run = make_run(
        tmp_path / "run",
        rubric,
        [*(said(f"t{n}", *one) for n, one in enumerate(sets)), said("s", status="skipped")],
    )
    [value] = json.loads(
        annotate_cli("report", "-v", run, "--co-occurrence", "--format", "json").out
    )
    assert value["codes"] == ["alpha", "beta", "gamma"]
    assert value["counts"] == [[5, 3, 0], [3, 4, 1], [0, 1, 1]]
    assert value["n"] == 10
    assert value["run"] == json.loads((run / "run.json").read_text())["id"]
    lines = annotate_cli("report", "-v", run, "--co-occurrence").out.splitlines()
    rows = [line.split() for line in lines if line[:1].isdigit()]
    assert rows == [
        ["1", "alpha", "5", "3", "0"],
        ["2", "beta", "3", "4", "1"],
        ["3", "gamma", "0", "1", "1"],
    ]
    out = annotate_cli("report", "-v", run, "--co-occurrence", "--format", "csv").out
    found = {
        (row["code"], row["other"]): int(row["count"]) for row in csv.DictReader(io.StringIO(out))
    }
    assert found[("alpha", "beta")] == found[("beta", "alpha")] == 3
    assert len(found) == 9
    assert (
        "| alpha | 5 | 3 | 0 |"
        in annotate_cli("report", "-v", run, "--co-occurrence", "--format", "md").out
    )


def test_a_rubric_of_one_code_has_no_pairs(annotate_cli, tmp_path):
    run = make_run(tmp_path / "run", make_rubric(tmp_path, "one"), [said("t1", "alpha")])
    done = annotate_cli("report", "-v", run, "--co-occurrence")
    assert (done.code, "no rubric" in done.out) == (0, True)


@pytest.mark.parametrize("name", ["table", "csv", "json", "md", "latex"])
def test_pairs_say_what_they_are_not_of(annotate_cli, tmp_path, rubric, name):
    """A rubric that allows one code, and a run that is a part only."""
    one = make_rubric(tmp_path, "one", id="single")
    traces = [said("t1", "alpha", "beta")]
    more = [(one, [said("t1", "alpha")])]
    run = make_run(tmp_path / "run", rubric, traces, more=more, status="interrupted", limit=7)
    done = annotate_cli("report", "-v", run, "--co-occurrence", "--format", name)
    assert done.code == 0
    assert "single (run): a trace has one code at most, nothing to count" in done.err.splitlines()
    words = done.out.replace("{}", "")
    assert "Only the first 7 traces were read" in words
    assert "The run is not finished (status: interrupted): this is a part of it." in words


def test_a_code_without_a_rule_has_no_count(annotate_cli, tmp_path, rubric):
    """Not 0, but not known: as in the frequency table."""
    run = make_run(tmp_path / "run", rubric, [said("t1", "alpha", "beta")], known=["alpha", "beta"])
    lines = annotate_cli("report", "-v", run, "--co-occurrence").out.splitlines()
    [gamma] = [line.split() for line in lines if line.startswith("3 gamma")]
    assert gamma[2:] == ["-", "-", "-"]


def test_a_screen_that_found_none_has_no_count(annotate_cli, tmp_path, rubric):
    traces = [
        said("t1", "alpha", "beta"),
        said("u", status="undecided"),
        said("f", status="failed"),
    ]
    run = make_run(tmp_path / "run", rubric, traces, screens=["alpha", "gamma"])
    done = annotate_cli("report", "-v", run, "--co-occurrence").out
    starts = ("1 alpha", "2 beta", "3 gamma")
    rows = [line.split()[2:] for line in done.splitlines() if line.startswith(starts)]
    assert rows == [["1", "1", "-"], ["1", "1", "-"], ["-", "-", "-"]]
    assert "Not counted: 1 undecided and 1 failed." in done


def test_rows_by_the_corrected_share(annotate_cli, calibrate, rubric, run):
    """The judge gives alpha to 3 runs of 6 and beta to 1. Of these people give alpha to 1 and beta
    to 3.
    """
    codes = [["alpha"], ["beta"], ["beta"], ["beta"], [], []]
    rows = [label(f"t{m}", rubric, *codes[m % 6]) for m in range(60)]
    options = calibrate(run, rows)
    done = annotate_cli("report", "-v", run, *options, "--sort", "share")
    order = [line.split()[0] for line in done.out.splitlines() if line.startswith(CODES)]
    assert order == ["beta", "alpha", "gamma", "none"]
    done = annotate_cli("report", "-v", run, "--sort", "share", "--no-calibration")
    order = [line.split()[0] for line in done.out.splitlines() if line.startswith(CODES)]
    assert order == ["alpha", "beta", "gamma", "none"]
