"""From a sample to corrected shares by the defaults: each command finds what the last one wrote."""

import csv
import json
import shutil

import pytest

from annotator.base.errors import AnnotatorError
from annotator.labels.blinding import blind, make_unblind
from annotator.labels.decisions import Decision
from annotator.labels.store import LabelStore
from annotator.rubrics import load_rubric
from tests.calibration.build import label, make_rubric, make_run, said, said_in_words, write_labels
from tests.conftest import write_run


@pytest.fixture
def run(tmp_path, rubric):
    """20 traces that the judge gives alpha and 20 none, of two models that their ids name."""
    traces = [said(f"gpt{n % 2}/{n}", *(["alpha"] if n < 20 else [])) for n in range(40)]
    return make_run(tmp_path / "run", rubric, traces)


def test_the_way(annotate_cli, run, rubric, monkeypatch):
    """A person finds alpha in 16 of the judge's 20, and in none of the others. By hand: agreement
    36 of 40; alpha .4; by chance (20*16 + 20*24) / 1600 = .5, kappa (.9 - .5) / .5 = .8.
    """
    done = annotate_cli("sample", run, "-n", 40, "--double", 0)
    assert "next: annotate label" in done.err
    with (run / "sheet.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 40
    assert "gpt" not in (run / "sheet.csv").read_text()
    own_id = make_unblind(f"gpt{n % 2}/{n}" for n in range(40))
    with LabelStore.open(run / "labels.jsonl", "ann", rubric) as store:
        for row in rows:
            trace_id = own_id(row["trace_id"])
            alpha = int(trace_id.partition("/")[2]) < 16
            store.decide(Decision(trace_id, primary="alpha" if alpha else None))
    done = annotate_cli("calibrate", run)
    assert done.code == 0, done.err
    assert done.out.splitlines()[2] == (
        "Judge and ann agree on 36 of 40 labelled traces, 90 % (95 % interval 77 to 96);"
    )
    [alpha] = [line.split() for line in done.out.splitlines() if line.startswith("alpha")]
    assert alpha[1:4] == ["20/40", "50.0", "40.0"]
    assert "kappa 0.80 [" in done.out
    assert max(map(len, done.out.partition("\n\n40 labels")[0].splitlines())) <= 80
    assert "labels.jsonl.looks.jsonl" in done.err
    assert f"next: annotate report {run}" in done.err
    table = annotate_cli("report", run, "--format", "json")
    [row] = [row for row in json.loads(table.out)[0]["rows"] if row["code"] == "alpha"]
    assert row["corrected"]["value"] == pytest.approx(0.4)
    assert "calibration.json (--no-calibration: the judge alone)" in table.err
    alone = annotate_cli("report", run, "--format", "json", "--no-calibration")
    assert "corrected" not in alone.out
    pages = []
    monkeypatch.setattr("annotator.web.view.view", lambda request, *_: pages.append(request))
    for options in ((), ("--no-calibration",)):
        shown = annotate_cli("view", run, *options)
        drawn = annotate_cli("figure", run, "--out", f"{run}.svg", *options)
        for done in (shown, drawn):
            assert ("shares are corrected by" in done.err) is not bool(options)
    assert [bool(request.calibrations) for request in pages] == [True, False]


def test_a_blinded_sheet_tells_no_probability_and_weighs_the_same(annotate_cli, run, rubric):
    """By hand, 20 traces with alpha and 20 without: 5 + 10 drawn, weights 4 and 2."""
    made = []
    for name, options in (("blind", ()), ("open", ("--show-ids",))):
        sheet = run / f"{name}.csv"
        drawn = ("-n", 15, "--double", 0, "--out", sheet, *options)
        assert annotate_cli("sample", run, *drawn).code == 0
        with sheet.open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert ("inclusion_probability" in rows[0]) == bool(options)
        own_id = make_unblind(f"gpt{n % 2}/{n}" for n in range(40))
        for row in rows:
            trace_id = row["trace_id"] if options else own_id(row["trace_id"])
            number = int(trace_id.partition("/")[2])
            row |= {"annotator": "ann", "primary": "alpha" if number < 16 else "none"}
        with sheet.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        out = run / f"{name}.json"
        done = annotate_cli("calibrate", run, "--labels", sheet, "--out", out)
        assert done.code == 0, done.err
        [calibration] = json.loads(out.read_text())["calibrations"]
        made.append({trace["trace_id"]: trace["weight"] for trace in calibration["joined"]})
    assert made[0] == made[1]
    assert sum(made[0].values()) == pytest.approx(40)
    for file in [*(run / "samples").iterdir(), *run.glob("*.design.json")]:
        file.unlink()
    done = annotate_cli("calibrate", run, "--labels", run / "blind.csv")
    said_in_words(done)
    assert "give SHEET.design.json with --design FILE" in done.err


def test_a_filled_sheet_is_found_and_what_it_replaces_is_named(annotate_cli, run, rubric):
    sheet = run / "sheet.csv"
    done = annotate_cli("sample", run, "-n", 12, "--double", 4, "--uniform", "--show-ids")
    assert "in 16 rows: those with rater 1 are yours, the 4 with rater 2" in flatten(done.out)
    assert "no labels*.jsonl" in flatten(annotate_cli("calibrate", run).err)
    with sheet.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["rater"] for row in rows] == ["1"] * 12 + ["2"] * 4
    for row in rows[:12]:
        row |= {"annotator": "ann", "primary": "alpha"}
    with sheet.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    done = annotate_cli("calibrate", run)
    assert (done.code, f"labels: {sheet}" in done.err, "replaced" in done.err) == (0, True, False)
    (run / "labels.jsonl").touch()  # by a page that is open, or was killed
    assert f"labels: {sheet}" in annotate_cli("calibrate", run).err
    other = label("gpt0/0", rubric, "alpha", annotator="bob")
    write_labels(run / "labels.jsonl", [other])
    done = annotate_cli("calibrate", run)
    assert f"not used: {sheet} (12 labels); --labels {sheet} uses it" in flatten(done.err)
    assert "which rested on 12 labels by ann (faults;" in flatten(done.err)
    assert "The judge decided 1 of the 1 traces that bob labelled: too few" in flatten(done.out)
    assert "kappa" not in done.out
    assert "replaced" not in annotate_cli("calibrate", run).err


def flatten(text):
    return " ".join(text.split())


def test_the_next_command_has_the_file_of_the_rubric(annotate_cli, tmp_path, rubric):
    """A sheet names its rubric; only the file tells its codes."""
    write_run(tmp_path / "logs" / "night/coop/shop_task/1/f1_f2", [("agent1", "Good evening.")])
    done = annotate_cli("sample", "logs", "--rubric", "faults.yaml", "--out", "sheet.csv")
    assert "next: annotate label sheet.csv --rubric faults.yaml    the page" in done.err


def test_the_commonest_codes_are_named_together(annotate_cli, tmp_path, rubric):
    codes = {f"t{n}": "alpha" if n % 2 else "beta" for n in range(20)}
    run = make_run(tmp_path / "run", rubric, [said(*item) for item in codes.items()])
    write_labels(run / "labels.jsonl", [label(name, rubric, code) for name, code in codes.items()])
    out = " ".join(annotate_cli("calibrate", run).out.split())
    assert "Estimated from the labels, most common: alpha and beta, 50 % of traces each." in out


def test_nothing_there_is_overwritten_or_guessed(annotate_cli, tmp_path, run):
    done = annotate_cli("calibrate", run)
    said_in_words(done)
    assert f"annotate sample {run} -n 60, then annotate label {run / 'sheet.csv'}" in done.err
    assert annotate_cli("sample", run, "-n", 10).code == 0
    before = (run / "sheet.csv").read_text()
    done = annotate_cli("sample", run, "-n", 20)
    said_in_words(done)
    assert "a sheet is there already" in done.err
    assert (run / "sheet.csv").read_text() == before


def test_a_run_of_two_rubrics_has_a_sheet_for_each(annotate_cli, tmp_path, rubric):
    more = make_rubric(tmp_path, id="more")
    traces = [said(f"t{n}", "alpha") for n in range(10)]
    run = make_run(tmp_path / "run", rubric, traces, more=[(more, traces)])
    said_in_words(annotate_cli("sample", run))
    for name in ("faults", "more"):
        assert annotate_cli("sample", run, "--rubric", name, "-n", 5).code == 0
        assert f",{name}," in (run / f"sheet-{name}.csv").read_text()


def test_a_calibration_that_fits_no_more_is_not_used(annotate_cli, run, rubric):
    beside = run.with_name("labels-ann.jsonl")  # of several runs, say
    write_labels(beside, [label(f"gpt{n % 2}/{n}", rubric) for n in range(40)])
    done = annotate_cli("calibrate", run)
    assert (done.code, f"labels: {beside}" in done.err) == (0, True)
    copy = run.with_name("copy")
    shutil.copytree(run, copy)
    manifest = json.loads((copy / "run.json").read_text())
    (copy / "run.json").write_text(json.dumps(manifest | {"prompt_sha256": "0" * 64}))
    done = annotate_cli("report", copy)
    assert done.code == 0
    assert "is not used: it was made for another judge" in done.err
    assert "corrected" not in done.out


def test_ids_are_blinded(tmp_path):
    """By hand: ``printf a/b | sha256sum``."""
    assert blind("a/b") == "trace-c14cddc033f6"
    unblind = make_unblind(iter(["x", "a/b", "y"]))
    assert [unblind(name) for name in ("t1", "trace-c14cddc033f6", "trace-000000000000")] == [
        *("t1", "a/b", "trace-000000000000")
    ]


def test_a_sheet_beside_a_run_is_for_the_runs_own_rubric_file(tmp_path):
    """Until the file has another version."""
    pytest.importorskip("starlette")
    from annotator.web.work import find_rubric

    rubric = make_rubric(tmp_path)
    file = tmp_path / "own.yaml"
    file.write_text(json.dumps(rubric.model_dump(mode="json", by_alias=True)))
    run = make_run(tmp_path / "run", load_rubric(str(file)), [said("t", "alpha")])
    sheet = [str(write_labels(run / "sheet.jsonl", [{"trace_id": "t", "rubric": rubric.id}]))]
    assert find_rubric(sheet) == str(file)
    file.write_text(file.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(AnnotatorError, match="give the rubric with --rubric"):
        find_rubric(sheet)


def test_a_sheet_names_its_rubric(tmp_path):
    pytest.importorskip("starlette")
    from annotator.web.work import find_rubric, locate_labels

    def sheet(name, *rubrics):
        rows = [{"trace_id": "t", "rubric": rubric} for rubric in rubrics]
        return [str(write_labels(tmp_path / name, rows))]

    built_in = sheet("s.jsonl", "symptoms")
    assert find_rubric(built_in) == "symptoms"
    assert locate_labels(built_in) == tmp_path / "labels.jsonl"
    for sources in (sheet("own.jsonl", "mine"), sheet("two.jsonl", "symptoms", "causes")):
        with pytest.raises(AnnotatorError, match="give the rubric with --rubric"):
            find_rubric(sources)
    with pytest.raises(AnnotatorError, match="only a sheet names its rubric"):
        find_rubric([str(tmp_path)])
