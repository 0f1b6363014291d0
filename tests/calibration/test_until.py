"""Labels in batches: what is drawn next, and when it is enough."""

import csv
import json
import re

import pytest

from annotator.calibration.sample.design import read_design
from annotator.labels.blinding import make_unblind
from tests.calibration.build import calibration, make_run, row_of, said, write_labels
from tests.calibration.build import label as label_line


def judged(n):
    """60 % alpha, 5 % beta, the rest none."""
    return ["alpha"] if n % 20 < 12 else ["beta"] if n % 20 == 12 else []


def truth(n):
    """The judge is right but in every other alpha."""
    return "none" if n % 2 and judged(n) == ["alpha"] else (judged(n) or ["none"])[0]


def make(folder, rubric, size, per_task):
    traces = [said(f"r/{n}", *judged(n), project="p", task=str(n // per_task)) for n in range(size)]
    return make_run(folder / "run", rubric, traces)


@pytest.fixture
def run(tmp_path, rubric):
    """400 judged traces in 200 tasks: 240 alpha, 20 beta, 140 none."""
    return make(tmp_path, rubric, 400, 2)


def label(sheet, rows=None):
    """Fill in the first rows of a blinded sheet, as a person would."""
    own_id = make_unblind(f"r/{n}" for n in range(400))
    with sheet.open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    for line in lines[:rows]:
        number = int(own_id(line["trace_id"]).partition("/")[2])
        line |= {"annotator": "ann", "primary": truth(number)}
    with sheet.open("w", newline="", encoding="utf-8") as file:
        write = csv.DictWriter(file, list(lines[0]), lineterminator="\r\n")
        write.writeheader()
        write.writerows(lines)


def flatten(text):
    return " ".join(text.split())


def strata_of(run, name):
    design = read_design(run / f"{name}.csv.design.json")
    return {name: (one.size, one.drawn) for name, one in design.strata.items()}, design


def test_two_batches_by_hand(annotate_cli, run):
    """40: floors of 5; 25 left over rooms of 235, 15 and 135 are 15.3, 1.0 and 8.8. Then 40 for the
    widest code, alpha, half of whose flags are wrong. A label more among m of the flagged traces
    saves (240/400)^2 x 1/4 / m(m + 1) of the variance, at m = 60 2.5e-5; one among the 14 of none
    (140/400)^2 x .03 x .97 / (14 x 15), less than 1.8e-5: so all 40 go to alpha.
    """
    done = annotate_cli("sample", run, "--until", "0.08")
    assert done.code == 0, done.err
    first, design = strata_of(run, "sheet")
    assert first == {"alpha": (240, 20), "beta": (20, 6), "none": (140, 14)}
    label(run / "sheet.csv")
    done = annotate_cli("sample", run, "--until", "0.08")
    assert done.code == 0, done.err
    assert f"40 of 400 traces (38 tasks) drawn into {run / 'sheet-2.csv'}" in flatten(done.out)
    both, second = strata_of(run, "sheet-2")
    assert both == {"alpha": (240, 60), "beta": (20, 6), "none": (140, 14)}
    assert design.traces.items() <= second.traces.items()
    chances = {"alpha": 60 / 240, "beta": 6 / 20, "none": 14 / 140}
    assert second.probabilities == {name: chances[of] for name, of in second.traces.items()}
    label(run / "sheet-2.csv")
    done = annotate_cli("calibrate", run)
    assert f"labels: {run / 'sheet-2.csv'}, {run / 'sheet.csv'}" in flatten(done.err)
    made = calibration(run / "calibration.json")
    weights = {one["trace_id"]: one["weight"] for one in made["joined"]}
    assert weights == {
        name: pytest.approx(1 / chance) for name, chance in second.probabilities.items()
    }
    right = [one for one in made["joined"] if one["judge"]["primary"] == "alpha"]
    share = sum(one["human"]["primary"] == "alpha" for one in right) / 60
    assert row_of(made, "alpha")["corrected"]["value"] == pytest.approx(0.6 * share)


def test_batches_until_the_intervals_are_narrow(annotate_cli, run):
    """Each call says how wide the intervals are, and the last that they are narrow; so they are in
    the calibration. The looks at widths are no looks at the judge: no ledger.
    """
    for number in range(1, 20):
        done = annotate_cli("sample", run, "--until", "0.06", "-n", "50")
        assert done.code == 0, done.err
        sheet = run / ("sheet.csv" if number == 1 else f"sheet-{number}.csv")
        if not sheet.exists():
            break
        label(sheet)
    n = 50 * (number - 1)
    assert 100 <= n <= 350
    assert done.out.startswith(f"{n} labels of 400 traces\n")
    assert "Every code is within ±6.0 points: no more traces are drawn." in done.out
    assert f"next: annotate calibrate {run}" in done.err
    assert not list(run.glob("*.looks.jsonl"))
    widths = dict(re.findall(r"^(\w+) +\d+/\d+ +±([\d.]+) +±6.0 +0$", done.out, re.MULTILINE))
    assert annotate_cli("calibrate", run).code == 0
    made = calibration(run / "calibration.json")
    for code in ("alpha", "beta", "gamma"):
        share = row_of(made, code)["corrected"]
        half = (share["high"] - share["low"]) / 2
        assert half <= 0.06
        assert widths[code] == f"{100 * half:.1f}"


def test_a_code_that_cannot_be_narrow(annotate_cli, tmp_path, rubric):
    """60 traces of 6 tasks: it says so at once, and goes on to the last trace."""
    run = make(tmp_path, rubric, 60, 10)
    for sheet in ("sheet", "sheet-2", "sheet-3"):
        done = annotate_cli("sample", run, "--until", "0.05", "-n", "20")
        assert done.code == 0, done.err
        if sheet != "sheet":
            assert "Expected to stay wider with all 60 traces labelled: alpha ±" in flatten(
                done.out
            )
        label(run / f"{sheet}.csv")
    done = annotate_cli("sample", run, "--until", "0.05", "-n", "20")
    assert done.code == 0, done.err
    assert re.search(r"All 60 traces are labelled. Wider: alpha ±[\d.]+, beta ±[\d.]+", done.out)
    assert not (run / "sheet-4.csv").exists()
    done = annotate_cli("sample", run, "--until", "0.49", "--codes", "beta")
    assert "alpha" not in done.out
    assert "Every code is within ±49.0 points" in done.out


@pytest.mark.parametrize(("labels", "drawn"), [(35, False), (36, True)])
def test_the_last_batch_is_labelled_first(annotate_cli, run, labels, drawn):
    """A tenth of the drawn traces may stay without a label."""
    annotate_cli("sample", run, "--until", "0.05", "--uniform")
    label(run / "sheet.csv", labels)
    done = annotate_cli("sample", run, "--until", "0.05")
    assert done.code == 0, done.err
    assert f"{40 - labels} drawn traces without a label" in flatten(done.out)
    assert ("label them first" in flatten(done.out)) is not drawn
    assert (run / "sheet-2.csv").exists() is drawn


def test_a_plan_of_how_many_labels(annotate_cli, run):
    """The number is the first for which the plan of that number is as narrow."""

    def plan(*options):
        done = annotate_cli("sample", run, "--plan", *options)
        assert done.code == 0, done.err
        lines = [re.split(r" {2,}", line) for line in done.out.splitlines()[:3]]
        return dict(zip(lines[0], lines[2], strict=True)), flatten(done.out)

    alpha, _ = plan("--until", "0.09")
    number = int(alpha["n for ±9.0"])
    for n, narrow in ((number, True), (number - 5, False)):
        width = plan("-n", n)[0][f"n={n}"].split()[0]
        assert (float(width.removeprefix("±")) <= 9.0) is narrow
    alpha, out = plan("--until", "0.001")
    assert alpha["n for ±0.1"] == "-"
    assert "-: labels of all traces do not" in out


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--codes", "alpha"), "are for --until"),
        (("--until", "0.05", "--plan", "--codes", "alpha"), "without --plan"),
        (("--until", "0.05", "--top-up", "alpha=1", "--from", "nothing"), "leave --top-up out"),
        (("--until", "0.05", "--codes", "nope"), "--codes nope: the rubric has alpha, beta, gamma"),
        (("--until", "0.05", "--annotator", "bob"), "no labels of that annotator"),
        (("--until", "0.05", "--split", "dev"), "a sheet is there already"),
    ],
)  # fmt: skip
def test_what_cannot_be(annotate_cli, run, options, word):
    assert annotate_cli("sample", run, "-n", "40", "--double", "0").code == 0
    label(run / "sheet.csv")
    done = annotate_cli("sample", run, *options)
    assert (done.code, done.out, "Traceback" in done.err) == (2, "", False)
    assert word in flatten(done.err)
    assert not (run / "sheet-2.csv").exists()


def test_traces_without_a_judge_have_no_intervals(annotate_cli, tmp_path):
    done = annotate_cli("sample", "logs", "--rubric", "symptoms", "--until", "0.05")
    assert done.code == 2
    assert "--until needs a RUN" in flatten(done.err)


def test_labels_of_no_sample(annotate_cli, run, rubric):
    """Somebody labelled traces of their own choice beside the run, and not yet the sheet."""
    annotate_cli("sample", run, "--until", "0.05")
    rows = [label_line(f"r/{n}", rubric) for n in range(400)]
    write_labels(run.with_name("labels.jsonl"), rows)
    done = annotate_cli("sample", run, "--until", "0.05")
    assert (done.code, done.out) == (2, "")
    assert "400 labels in" in flatten(done.err)
    assert "are of no sample of this run" in flatten(done.err)


def test_a_sample_drawn_by_number_goes_on_in_batches(annotate_cli, run):
    annotate_cli("sample", run, "-n", "60", "--double", "0")
    label(run / "sheet.csv")
    done = annotate_cli("sample", run, "--until", "0.03", "-n", "10")
    assert done.out.startswith("60 labels of 400 traces\n")
    assert sum(drawn for _, drawn in strata_of(run, "sheet-2")[0].values()) == 70
    assert json.loads((run / "sheet-2.csv.design.json").read_text())["split"] == "all"
