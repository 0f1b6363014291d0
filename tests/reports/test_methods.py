"""The paragraph for a paper: every number is the table's or the calibration's."""

import json
import shutil

import pytest

from tests.calibration.build import make_rubric, make_run, said, write_labels
from tests.reports.test_formats import traces


@pytest.fixture
def rubric(tmp_path):
    return make_rubric(tmp_path, "primary", id="first")


@pytest.fixture
def run(tmp_path, rubric):
    return make_run(tmp_path / "run", rubric, traces())


@pytest.fixture
def methods(annotate_cli):
    """The paragraphs of a report as one line each, and what is on stderr."""

    def describe(*arguments):
        done = annotate_cli("report", "--methods", *arguments)
        assert done.code == 0, done.err
        return [" ".join(text.split()) for text in done.out.split("\n\n")], done.err

    return describe


@pytest.fixture
def calibrate(annotate_cli, tmp_path):
    """Calibrate by the codes that a person gives traces, by their ids."""

    def calibrate_run(run, codes, *options, rubric="first"):
        rows = [
            {"trace_id": name, "rubric": rubric, "annotator": "ann", "primary": code}
            for name, code in codes.items()
        ]
        labels = write_labels(tmp_path / "people.jsonl", rows)
        done = annotate_cli("calibrate", run, "--labels", labels, *options)
        assert done.code == 0, done.err

    return calibrate_run


# A person agrees with the judge on all but the 10 traces with beta alone.
CODES = {f"t{n}": "alpha" if n % 6 < 2 else None for n in range(60)}


def test_a_calibrated_run(methods, calibrate, run):
    """By hand: they agree in 50 of 60. By chance alpha and none agree in (20*20 + 30*40) / 3600 =
    4/9, so kappa is (5/6 - 4/9) / (5/9) = .7.
    """
    [alone], _ = methods(run)
    assert alone.startswith("We annotated 60 traces with failure-annotator")
    assert "60 were judged (30 with a code, 30 without)." in alone
    assert "the judged traces that has it as its primary code." in alone
    assert "They do not include the judge's errors." in alone
    assert "The shares are not corrected by labels of people." in alone
    assert "annotate calibrate" not in alone
    calibrate(run, CODES)
    [text], err = methods(run)
    assert "shares are corrected by" in err
    assert "60 traces were labelled by ann: how they were chosen is not recorded; they" in text
    assert "agree in 83.3 % (95 % interval" in text
    assert "n = 60 in 24 tasks), Cohen's kappa 0.70 (95 % interval" in text
    assert "Corrected shares estimate which codes the annotators would give 60 traces" in text
    assert "not corrected" not in text
    assert methods(run, "--no-calibration") == ([alone], "")


GROUPS = ((30, "m0"), (15, "m1"), (15, "m2"))


def test_a_group_has_its_own_labels(methods, calibrate, run):
    calibrate(run, {name: code for name, code in CODES.items() if int(name[1:]) < 20})
    (text,), _ = methods(run, "--by", "model")
    assert text.startswith("We annotated 60 traces with ")
    groups = ", ".join(f"{name} (n = {n})" for n, name in GROUPS)
    assert f"Groups are by model, an attribute of the traces: {groups}. The judge was" in text
    assert "On the 20 labelled traces of the whole run, the judge and the labels agree" in text
    assert text.count("The judge was") == text.count("We annotated") == 1
    for labels, (n, name) in zip((10, 5, 5), GROUPS, strict=True):
        own = text.partition(f" {name}: {n} were judged (")[2].partition(". m")[0]
        assert f"{labels} of the labelled traces are of this group." in own
        assert f"would give {n} traces" in own
        assert ("(labels of fewer than 6 t" in own) == (labels < 6)  # then no corrected shares


@pytest.mark.parametrize("labelled", [4, 0])
def test_undecided_traces(methods, calibrate, tmp_path, rubric, labelled):
    """They are no part of the judge's shares, of the corrected ones if some have labels. Of 44
    labels the judge agrees with 40; it left the others open.
    """
    decided = [said(f"t{n}", "alpha") for n in range(40)]
    undecided = [said(f"u{n}", status="undecided") for n in range(10)]
    run = make_run(tmp_path / "run", rubric, [*decided, *undecided])
    codes = {f"t{n}": "alpha" for n in range(40)} | {f"u{n}": "beta" for n in range(labelled)}
    calibrate(run, codes)
    [text], _ = methods(run)
    assert "10 were left undecided; no share of the judge alone counts them." in text
    if labelled:
        assert "On the 40 labelled traces that the judge decided, the judge and the" in text
        assert "If labelled traces that the judge left open count as disagreements, the" in text
        assert "labels agree in 90.9 % (" in text
        assert "; n = 44)" in text
        assert "would give 50 traces" in text
    else:
        assert "would give 40 traces" in text
        assert "They leave out 10 traces without the judge's decision and without labels." in text


def test_how_the_labelled_traces_were_chosen(annotate_cli, methods, calibrate, run):
    """It is kept in the calibration: without the run's record of the sample, too."""
    done = annotate_cli("sample", run, "-n", 30, "--double", 0)
    assert done.code == 0, done.err
    [design] = (run / "samples").glob("*.json")
    drawn = json.loads(design.read_text())["traces"]
    sheet = (run / "sheet.csv").read_text()
    assert not any(f",{name}," in sheet for name in drawn)  # blinded
    lines = [line.split(",") for line in sheet.splitlines()]
    at = {name: n for n, name in enumerate(lines[0])}
    for line in lines[1:26]:
        line[at["annotator"]], line[at["primary"]] = "ann", "alpha"
    filled = run / "filled.csv"
    filled.write_text("\n".join(map(",".join, lines)))
    done = annotate_cli("calibrate", run, "--labels", filled)
    assert done.code == 0, done.err
    shutil.rmtree(run / "samples")
    [text], _ = methods(run)
    assert (
        "25 traces were labelled by ann: drawn at random from 60 traces, stratified by the judge's"
        " codes and weighted by inclusion probability; 25 of 30 drawn traces have a label." in text
    )
    made = json.loads((run / "calibration.json").read_text())["calibrations"][0]
    assert {trace["trace_id"] for trace in made["joined"]} < drawn.keys()


def test_all_traces_are_no_sample(annotate_cli, methods, run):
    assert annotate_cli("sample", run, "-n", 60, "--double", 0, "--show-ids").code == 0
    [design] = (run / "samples").glob("*.json")
    name = design.name.partition(".")[0]
    rows = [
        {"trace_id": f"t{n}", "rubric": "first", "annotator": "ann", "primary": None}
        | {"design": name, "inclusion_probability": 1.0}
        for n in range(60)
    ]
    write_labels(run / "labels.jsonl", rows)
    assert annotate_cli("calibrate", run).code == 0
    assert "labelled by ann: all 60 traces were drawn." in methods(run)[0][0]


def test_people_who_agree_are_weighted_as_they_were_drawn(annotate_cli, methods, run):
    """They differ on t0, which stands for 10 traces, and agree on 20 others: 20 / 30."""
    weights = {f"t{n}": 0.1 if n == 0 else 1.0 for n in range(21)}
    rows = [
        {"trace_id": name, "rubric": "first", "annotator": by, "primary": None}
        | {"design": "gone", "inclusion_probability": weight}
        for by in ("ann", "bob")
        for name, weight in weights.items()
    ]
    rows[0]["primary"] = "alpha"
    write_labels(run / "labels.jsonl", rows)
    done = annotate_cli("calibrate", run, "--annotator", "bob", "--annotator", "ann")
    assert done.code == 0, done.err
    assert "Judge and people (bob, else ann) agree" in done.out
    [text], _ = methods(run)
    assert "Of several labels of a trace, the one by the first of these" in text
    assert "ann and bob agree in 66.7 % (" in text
    assert "n = 21 in 21 tasks, weighted), Cohen" in text.partition("ann and bob agree")[2]


def test_the_limits_of_the_judge_are_none_of_corrected_shares(methods, calibrate, tmp_path, rubric):
    annotations = [said(name, "alpha") for name in CODES]
    run = make_run(tmp_path / "run", rubric, annotations, known=["alpha"])
    assert "The judge has no rule for beta, gamma: unknown, not 0." in methods(run)[0][0]
    calibrate(run, CODES)
    assert "unknown, not 0" not in methods(run)[0][0]


def test_labels_of_traces_that_the_judge_did_not_get(methods, calibrate, tmp_path, rubric):
    run = make_run(tmp_path / "run", rubric, [*traces(), said("s", status="skipped")])
    calibrate(run, CODES | {"s": "alpha", "gone": None})
    [text], _ = methods(run)
    assert "are left out: 1 that the run skipped and 1 that are not in it." in text


def test_a_judge_of_several_models(methods, run):
    file = run / "run.json"
    manifest = json.loads(file.read_text())
    models = [{"model": name, "parameters": {"temperature": 1.0}} for name in ("m", "n")]
    manifest["judge"] = {"id": "llm:m+n", "samples": 3, "models": models}
    file.write_text(json.dumps(manifest))
    assert "(temperature 1.0; 3 answers of each model for a trace; " in methods(run)[0][0]


def test_labels_of_another_judge(methods, calibrate, tmp_path, rubric, run):
    undecided = {"u0": "beta"}
    run = make_run(run, rubric, [*traces(), said("u0", status="undecided")])
    calibrate(run, CODES | undecided, "--population", "corpus")
    other = make_run(tmp_path / "other", rubric, traces(), judge="llm:new")
    shutil.copy(run / "calibration.json", other)
    [text], err = methods(other)
    assert "calibration.json is not used: it was made for another judge, llm:m" in err
    assert "The shares are not corrected by labels of people." in text
    [text], _ = methods(other, "--calibration", run / "calibration.json", "--transfer")
    assert "61 traces of another calibration were labelled by ann" in text
    assert "That calibration does not fit this run: it was made for another judge, llm:m" in text
    assert "On the 60 labelled traces that the calibrated judge decided, the calibrated" in text
    assert "use the error rates on 60 traces of that calibration" in text
    assert "right only if the judge errs here as often as there." in text
    assert "for these traces only" not in text


def test_a_corpus(methods, calibrate, run):
    calibrate(run, CODES, "--population", "corpus")
    assert "Their intervals are for these traces only, not for future ones." in methods(run)[0][0]


def test_nothing_judged(methods, tmp_path, rubric):
    failed = [said(f"t{n}", status="failed") for n in range(3)]
    [text], _ = methods(make_run(tmp_path / "run", rubric, failed))
    assert "None was judged, so there are no shares." in text
    assert "3 were not judged because of an error; no share" in text


def test_a_paragraph_for_each_rubric(methods, calibrate, tmp_path, rubric):
    more = make_rubric(tmp_path, "primary", id="second")
    run = make_run(tmp_path / "run", rubric, traces(), more=[(more, traces())])
    calibrate(run, CODES)
    first, second = methods(run)[0]
    assert "labelled by ann" in first
    assert "by the rubric second," in second
    assert "The shares are not corrected by labels of people." in second


def test_formats(annotate_cli, tmp_path, run):
    latex = annotate_cli("report", run, "--methods", "--format", "latex").out
    assert r"95 \% intervals" in latex
    done = annotate_cli("report", run, "--methods", "--format", "md", "--out", "methods.md")
    assert (done.code, done.out) == (0, "")
    assert (tmp_path / "methods.md").read_text().startswith("We annotated 60 traces")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--co-occurrence"], "not with --methods"),
        (["--format", "csv"], "not with --methods"),
        (["--calibration", "c.json", "--no-calibration"], "leave one of them out"),
    ],
)
def test_what_it_does_not_go_with(annotate_cli, run, options, message):
    done = annotate_cli("report", run, "--methods", *options)
    assert (done.code, message in done.err) == (2, True), done.err


def test_a_judge_without_shares(annotate_cli, methods, runs):
    annotate_cli(runs(2), "--rubric", "comm_errors", "--out", "out")
    [text], _ = methods("out")
    assert "The judge was rules, a program without a language model" in text
    assert "2 were judged (2 with a code, 0 without)." in text
    assert "cannot be ruled out: C1a, C3a." in text
    assert "label some of them" not in text
