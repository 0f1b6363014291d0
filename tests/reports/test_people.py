"""Tables of people's labels: the counts, shares and intervals of labels, and whose they are."""

import csv
import io
import json
from math import sqrt

import pytest
from pyarrow import parquet as pq

import annotator as an
from tests.calibration.build import label, make_run, said, said_in_words, write_labels
from tests.conftest import unwrap

Z = 1.959963984540054


def wilson(share: float, n: float) -> list[float]:
    """Wilson's interval from its formula; n may be an effective number."""
    middle, half = share + Z**2 / (2 * n), Z * sqrt(share * (1 - share) / n + Z**2 / (4 * n**2))
    return [(middle - half) / (1 + Z**2 / n), (middle + half) / (1 + Z**2 / n)]


@pytest.fixture
def file(tmp_path, rubric):
    """Ten traces: by gold 4 alpha (one with beta beside), 1 beta, 5 without a code; by ann 2 alpha
    and 8 without; by bob one trace.
    """
    gold = [("alpha", "beta"), *[("alpha",)] * 3, ("beta",), *[()] * 5]
    rows = [label(f"t{n}", rubric, *codes, by="gold") for n, codes in enumerate(gold)]
    rows += [label(f"t{n}", rubric, *(["alpha"] if n < 2 else [])) for n in range(10)]
    return write_labels(tmp_path / "labels.jsonl", [*rows, label("t0", rubric, by="bob")])


@pytest.fixture
def count(annotate_cli, rubric, tmp_path):
    """The tables of ``annotate report`` with these arguments, as JSON."""

    def counted(*arguments):
        of_run = arguments[0] != "--labels"
        source = () if of_run else ("--rubric", tmp_path / "faults.yaml")
        done = annotate_cli("report", "-v", *arguments, *source, "--format", "json")
        assert done.code == 0, done.err
        return json.loads(done.out)

    return counted


def shares(table):
    return {row["code"]: row for row in (*table["rows"], *table["code_groups"])}


def numbers(row):
    return [row[key] for key in ("k", "n", "value", "low", "high")]


@pytest.mark.parametrize(
    ("options", "who", "alpha", "beta", "none"),
    [
        ((), ["gold"], 4, 1, 5),  # the default of annotate calibrate
        (("--annotator", "ann"), ["ann"], 2, 0, 8),
        (("--annotator", "bob", "--annotator", "ann"), ["bob", "ann"], 1, 0, 9),
    ],
)
def test_labels_are_counted(count, file, options, who, alpha, beta, none):
    """Shares of ten labels with Wilson's interval; nobody says how they were drawn."""
    [table] = count("--labels", file, *options)
    found = shares(table)
    for code, k in {"alpha": alpha, "beta": beta, "gamma": 0, "none": none}.items():
        low, high = wilson(k / 10, 10)
        assert numbers(found[code]) == [k, 10, k / 10, pytest.approx(low), pytest.approx(high)]
    assert table["judge"] is None
    people = {key: table["people"][key] for key in ("annotators", "files", "n", "split", "design")}
    assert people == {
        "annotators": who,
        "files": [str(file)],
        "n": 10,
        "split": "all",
        "design": "unknown",
    }


def test_the_paper_s_table_is_of_the_labelled_traces(count, file):
    [table] = count("--labels", file, "--of-labelled")
    assert numbers(shares(table)["alpha"])[:3] == [4, 5, 0.8]
    assert shares(table)["none"]["value"] is None


@pytest.mark.parametrize("format_", ["table", "md", "latex", "csv", "json", "parquet"])
def test_every_format_says_whose_labels_they_are(annotate_cli, file, rubric, tmp_path, format_):
    out = tmp_path / "out"
    arguments = ("--labels", file, "--rubric", tmp_path / "faults.yaml")
    done = annotate_cli("report", "-v", *arguments, "--format", format_, "--out", out)
    assert done.code == 0, done.err
    if format_ == "parquet":
        row = pq.read_table(out).to_pylist()[0]
    elif format_ == "csv":
        row = next(csv.DictReader(io.StringIO(out.read_text())))
    elif format_ == "json":
        row = json.loads(out.read_text())[0]
        assert row["people"]["annotators"] == ["gold"]
        return
    else:
        text = out.read_text()
        for word in (
            "faults v1",
            "gold",
            "not a judge",
            "labels.jsonl",
            "n 10 (with a code 5, none 5)",
        ):
            assert word in text
        assert "4" in next(line for line in text.splitlines() if "alpha" in line)
        return
    assert (row["annotators"], row["label_files"], row["split"]) == ("gold", str(file), "all")
    assert (row["design"], row["judge"] or None) == ("unknown", None)
    assert (row["code"], int(row["count"]), float(row["value"])) == ("alpha", 4, 0.4)


def test_each_rubric_of_the_labels_has_a_table(annotate_cli, tmp_path):
    names = {"comm_errors": "C1a", "symptoms": "work_overlap"}
    rows = [
        {"trace_id": f"t{n}", "rubric": rubric, "annotator": "ann", "primary": code}
        for rubric, code in names.items()
        for n in range(3)
    ]
    file = write_labels(tmp_path / "labels.jsonl", rows)
    every = an.count_labels(file)
    assert [table.document["rubric"] for table in every] == list(names)
    [one] = an.count_labels([file], "symptoms", annotators="ann")
    assert numbers(shares(one.document)["work_overlap"])[:2] == [3, 3]
    # The rubric's own groups, each trace once.
    assert numbers(shares(one.document)["coordination"])[:2] == [3, 3]
    printed = annotate_cli("report", "--labels", file, "--rubric", "symptoms").out
    assert unwrap(str(one)) == printed.strip()


def test_labels_drawn_with_unequal_chances_are_weighted(count, rubric, tmp_path):
    """4 alpha stand for 2 traces each, 6 none for 10: the share is 8 / 68 and not 4 / 10. The
    effective number of labels is 68^2 / (4 * 2^2 + 6 * 10^2) = 7.506.
    """
    rows = [
        label(
            f"t{n}",
            rubric,
            *(["alpha"] if n < 4 else []),
            inclusion_probability=0.5 if n < 4 else 0.1,
            design="d",
        )
        for n in range(10)
    ]
    [table] = count("--labels", write_labels(tmp_path / "labels.jsonl", rows))
    row = shares(table)["alpha"]
    assert numbers(row) == [4, 10, *map(pytest.approx, (8 / 68, *wilson(8 / 68, 68**2 / 616)))]
    assert row["design_effect"] == pytest.approx(10 / (68**2 / 616))
    assert table["people"]["design"] == "stratified"


def test_weights_and_tasks(count, rubric, tmp_path):
    """Tasks a, b, c of weighted totals (6, 6), (2, 12), (0, 10): p = 8/28, residuals 30/7, -10/7,
    -20/7 over 28, squares sum to 1400/49/784, times 3/2: variance .05466; p (1 - p) / Kish's n with
    weights 2 x 4 and 10 x 2, n = 28^2 / 216 = 3.63: .05623. The design effect .97 counts as 1, so
    Wilson for n = 3.63 with t on 2 = 4.3027.
    """
    rows = [
        label(name, rubric, *codes, inclusion_probability=1 / weight, design="d", task=task)
        for name, task, codes, weight in [
            *[(f"a{n}", "a", ("alpha",), 2) for n in range(3)],
            ("b0", "b", ("alpha",), 2),
            ("b1", "b", (), 10),
            ("c0", "c", (), 10),
        ]
    ]
    [table] = count("--labels", write_labels(tmp_path / "labels.jsonl", rows))
    p, n, t = 8 / 28, 28**2 / 216, 4.302652729911275
    half = t * sqrt(p * (1 - p) / n + t**2 / (4 * n**2))
    ends = [(p + t**2 / (2 * n) + sign * half) / (1 + t**2 / n) for sign in (-1, 1)]
    row = shares(table)["alpha"]
    assert numbers(row) == [4, 6, *map(pytest.approx, (p, *ends))]
    assert (row["clusters"], row["clusters_with"]) == (3, 2)


def test_a_sheet_that_is_labelled_in_part(annotate_cli, count, rubric, tmp_path):
    """Of 40 traces 30 are none by the judge and 10 alpha. Each labelled trace stands for as many as
    its stratum has for each that was labelled, drawn or not.
    """
    run = make_run(
        tmp_path / "run",
        rubric,
        [said(f"t{n}", *(["alpha"] if n < 10 else []), half=str(n % 2)) for n in range(40)],
    )
    sheet = tmp_path / "sheet.jsonl"
    done = annotate_cli(
        *("sample", run, "-n", 12, "--floor", 6, "--double", 0, "--show-ids", "--out", sheet),
    )
    assert done.code == 0, done.err
    rows = [json.loads(line) for line in sheet.read_text().splitlines()]
    strata = {"alpha": [], "none": []}
    for row in rows:
        strata["alpha" if int(row["trace_id"][1:]) < 10 else "none"].append(row)
    empty = strata["none"].pop()  # nobody has labelled it
    for row in (*strata["alpha"], *strata["none"]):
        row |= {"annotator": "ann", "secondary": []}
    for row in strata["alpha"]:
        row["primary"] = "alpha"
    for n, row in enumerate(strata["none"]):
        row["primary"] = "beta" if n == 0 else None
    write_labels(sheet, [*strata["alpha"], *strata["none"], empty])
    [table] = count("--labels", sheet)
    found, others = shares(table), len(strata["none"])
    assert found["alpha"]["value"] == pytest.approx(10 / 40)
    assert found["beta"]["value"] == pytest.approx(30 / others / 40)
    assert any("1 traces of the sheet are not labelled yet" in note for note in table["notes"])
    # Elsewhere the design is found only by its name; without it a label has its own chance.
    (tmp_path / "elsewhere").mkdir()
    copy = write_labels(
        tmp_path / "elsewhere/copy.jsonl", [*strata["alpha"], *strata["none"], empty]
    )
    design = sheet.with_name("sheet.jsonl.design.json")
    [same] = count("--labels", copy, "--design", design)
    assert same["rows"] == table["rows"]
    [own] = count("--labels", copy)
    others_drawn = 30 / (others + 1)
    assert shares(own)["beta"]["value"] == pytest.approx(
        others_drawn / (10 + others_drawn * others)
    )
    # In a group the weights are those of all labels: a trace stands for as many in each.
    for group in count(run, "--labels", sheet, "--by", "half"):
        half = group["group"]["value"]
        weights = {
            name: [size / len(rows) for row in rows if int(row["trace_id"][1:]) % 2 == int(half)]
            for name, size, rows in (("alpha", 10, strata["alpha"]), ("none", 30, strata["none"]))
        }
        total = sum(map(sum, weights.values()))
        assert shares(group)["alpha"]["value"] == pytest.approx(sum(weights["alpha"]) / total)


def test_labels_of_the_traces_of_a_run(count, rubric, file, tmp_path):
    """The judge's screens and rules do not matter to people, nor do its failures."""
    ones = [said(f"t{n}", model=f"m{n % 2}", project="p", task=str(n // 2)) for n in range(6)]
    ones += [said("t6", status="failed", model="m0"), said("t7", status="skipped", model="m1")]
    run = make_run(tmp_path / "run", rubric, ones, known=["beta"], screens=["beta"])
    [table] = count(run, "--labels", file, "--cluster", "none")
    assert numbers(shares(table)["alpha"])[:3] == [4, 8, 0.5]
    assert numbers(shares(table)["gamma"])[:3] == [0, 8, 0.0]
    assert (table["run"], table["undecided"], table["failed"]) == (an.open_run(run).id, 0, 0)
    assert any("2 labels of traces that are not in" in note for note in table["notes"])
    both = count(run, "--labels", file, "--by", "model")
    assert [(one["group"]["value"], numbers(shares(one)["alpha"])[:2]) for one in both] == [
        ("m0", [2, 4]),
        ("m1", [2, 4]),
    ]
    [clustered] = count(run, "--labels", file)
    assert shares(clustered)["alpha"]["clusters"] == 5  # three tasks, and two traces of their own


def test_traces_tell_groups_and_tasks(rubric, tmp_path, file):
    source = str(tmp_path / "faults.yaml")
    lines = [
        {
            "id": f"t{n}",
            "attributes": {"model": f"m{n % 2}", "task": str(n // 2)},
            "messages": [{"from": "a", "text": "hello"}],
        }
        for n in range(4)
    ]
    (tmp_path / "traces.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    options = {"traces": str(tmp_path / "traces.jsonl")}
    tables = an.count_labels(file, source, by="model", **options)
    assert [table.document["people"]["n"] for table in tables] == [2, 2]
    [table] = an.count_labels(file, source, **options)
    assert shares(table.document)["alpha"]["clusters"] == 2


@pytest.mark.parametrize(("options", "n", "split"), [((), 6, "dev"), (("--final",), 4, "test")])
def test_the_test_split_is_held_out(count, rubric, tmp_path, options, n, split):
    rows = [label(f"t{m}", rubric, "alpha", split="dev" if m < 6 else "test") for m in range(10)]
    [table] = count("--labels", write_labels(tmp_path / "labels.jsonl", rows), *options)
    assert (table["people"]["split"], table["people"]["n"]) == (split, n)
    assert any(f"Not counted: {10 - n} labels" in note for note in table["notes"])
    assert not list(tmp_path.glob("*.looks.jsonl"))  # no judge was held against them


def test_the_notes_say_how_labels_are_read(count, tmp_path):
    header = "trace_id,rubric,annotator,primary"
    (tmp_path / "l.csv").write_text(f"{header}\nt0,faults,J\u00fcrgen,alpha\n", "cp1252")
    [table] = count("--labels", "l.csv")
    assert any("l.csv: not UTF-8" in note for note in table["notes"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ["RUNS is missing", "--labels"]),
        (("--rubric", "faults.yaml"), ["--rubric needs --labels"]),
        (("run", "--final"), ["--final needs --labels"]),
        (("--labels", "pair.jsonl"), ["several annotators", "--annotator NAME"]),
        (("--labels", "labels.jsonl", "--annotator", "eve"), ["eve", "gold"]),
        (("--labels", "labels.jsonl", "--by", "model"), ["--by model", "none at all"]),
        (("--labels", "labels.jsonl", "--format", "html"), ["RUNS is missing"]),
        (("--labels", "labels.jsonl", "--format", "parquet"), ["--out PATH"]),
        (("run", "--labels", "labels.jsonl", "--format", "parquet"), ["--out PATH"]),
        (("run", "--labels", "labels.jsonl", "--calibration", "c.json"), ["--calibration"]),
        (("run", "--labels", "labels.jsonl", "--traces", "x"), ["--traces"]),
        (("other", "--labels", "labels.jsonl"), ["none of the 10 labelled traces", "'t0'"]),
    ],
)
def test_errors_say_what_to_do(annotate_cli, rubric, file, tmp_path, arguments, words):
    make_run(tmp_path / "run", rubric, [said("t0")])
    make_run(tmp_path / "other", rubric, [said("elsewhere")])
    pair = [label("t0", rubric, by="ann"), label("t0", rubric, by="bob")]
    write_labels(tmp_path / "pair.jsonl", pair)
    named = "--labels" in arguments[:1] and "html" not in arguments
    source = ("--rubric", "faults.yaml") if named else ()
    done = annotate_cli("report", "-v", *arguments, *source)
    said_in_words(done)
    for word in words:
        assert word in done.err
