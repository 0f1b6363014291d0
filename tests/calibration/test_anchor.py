"""``annotate anchor``: scripted judges that change, or not, between two looks."""

import json
import random
import re
import shutil

import pytest

import annotator
from annotator.api import open_run
from tests.calibration.build import SLIPS, make_trace, write_labels
from tests.conftest import EXAMPLES
from tests.judges.test_batch import answer as answer_file
from tests.judges.test_batch import requests_in
from tests.server import NOTHING, Reply, Server, finding

TRACES, ANCHORS = 80, 40
RUBRIC = ("--rubric", "slips.yaml")
RULES = ("--judge", "rules", "--rubric", "comm_errors")


class Judge:
    """Says that 30 % of the traces are late, always the same ones; ``more``: some others too. It
    fails on traces in ``failing``, and quotes wrongly in ``misquoting``.
    """

    def __init__(self):
        self.more, self.failing, self.misquoting = 0.0, (), ()

    def __call__(self, request):
        n = int(re.search(r"Trace (\d+),", request.user)[1])
        if n in self.failing:
            return Reply(status=400)
        if n in self.misquoting:
            return finding("late", ("message:1", "never said by anyone here"))
        late = random.Random(n).random() < 0.3 + self.more
        return finding("late", ("message:1", "step 1.")) if late else NOTHING


@pytest.fixture
def judge():
    return Judge()


@pytest.fixture
def study(tmp_path, annotate_cli, judge):
    """A server, a run of 80 traces there, and a function that calls ``annotate``."""
    codes = [{**code, "group": "speech"} for code in SLIPS["codes"]]
    (tmp_path / "slips.yaml").write_text(json.dumps({**SLIPS, "codes": codes}))
    traces = [make_trace(n, f"Trace {n}, step 1.", f"Step 2 of {n}.") for n in range(TRACES)]
    write_labels(tmp_path / "traces.jsonl", traces)
    with Server(judge) as server:
        server.model = ("--model", "m", "--base-url", server.url)

        def call(*arguments, code=0):
            done = annotate_cli(*arguments)
            assert done.code == code, f"{done.out}\n{done.err}"
            return done

        call("run", "traces.jsonl", *RUBRIC, *server.model, "--out", "run")
        server.call, server.folder = call, tmp_path
        yield server


def freeze(server, *more, source="run", code=0):
    return server.call("anchor", source, "--out", "anchors", "-n", ANCHORS, *more, code=code)


def read_drift(server):
    return json.loads((server.folder / "anchors" / "drift.json").read_text())


def count_calls(server, *arguments, code=0):
    before = sum(not one.is_probe for one in server.seen)
    done = server.call(*arguments, code=code)
    return sum(not one.is_probe for one in server.seen) - before, done


def test_a_judge_that_changes_at_its_third_look_is_found_there(study, judge):
    """Each answer is asked for, though the cache has it; the sources of the run are not needed."""
    freeze(study)
    assert sum(not one.is_probe for one in study.seen) == TRACES + 2 * ANCHORS
    shutil.rmtree(study.folder / "run")
    (study.folder / "traces.jsonl").unlink()
    for look in (1, 2):
        calls, done = count_calls(study, "anchor", "anchors")
        assert calls == ANCHORS
        assert f"No drift of the judge is shown at look {look}, {ANCHORS} anchors." in done.out
    judge.more = 0.2
    calls, done = count_calls(study, "anchor", "anchors", code=1)
    assert calls == ANCHORS
    assert "The judge drifted at look 3" in done.out
    result = read_drift(study)
    late, none = sorted(result["codes"], key=lambda each: each["code"])
    flips = sum(0.3 <= random.Random(n).random() < 0.5 for n in read_ids(study))
    assert flips >= 4
    assert late["drift"]["value"] == pytest.approx(flips / ANCHORS)
    assert none["drift"]["value"] == pytest.approx(-flips / ANCHORS)
    # One of six answers, in two directions and two windows, by Holm two codes; 10 / (12 * 13).
    assert late["p"] == pytest.approx(min(1, 2 * 4 * 6**-flips * 15.6), rel=1e-6)
    assert (result["frozen"], result["look"], result["failed"]) == (3, 3, 0)
    for name in ("frozen/1", "frozen/2", "looks/3"):
        [limitation] = open_run(f"anchors/{name}").manifest.limitations
        assert limitation == "The run is a pilot of 40 of 80 traces, drawn at random."


def read_ids(server):
    ids = json.loads((server.folder / "anchors" / "anchors.json").read_text())["trace_ids"]
    return [int(name.removeprefix("run")) for name in ids]


def test_a_run_asks_first_and_says_which_look(study, judge):
    """Its own answers do not come from the cache either: they would be older than the look."""
    freeze(study, "--asks", "1")
    run = ("run", "traces.jsonl", *RUBRIC, *study.model, "--anchors", "anchors")
    forecast = study.call(*run, "--dry-run")
    assert f"{TRACES + ANCHORS} calls" in forecast.out
    calls, done = count_calls(study, *run, "--out", "second", "--limit", "10")
    assert calls == ANCHORS + 10
    assert count_calls(study, *run, "--out", "second", "--resume")[0] == TRACES - 10
    assert "No drift of the judge is shown at look 1" in done.err
    judge.more = 0.3
    calls, done = count_calls(study, *run, "--out", "third")
    assert "The judge drifted at look 2" in done.err
    # Neither look nor trace, also if the run is refused.
    assert count_calls(study, *run, "--out", "third", "--resume")[0] == 0
    assert count_calls(study, *run, "--out", "third", code=2)[0] == 0
    manifest = open_run("third").manifest.anchors
    assert (manifest["look"], manifest["drifted"]) == (2, ["late", "none"])
    # The difference of the runs is the judge's: as large at the anchors.
    first, second, third = map(open_run, ("run", "second", "third"))
    [late, _] = annotator.measure_drift(second, third, "anchors")
    assert late.drift.value == read_drift(study)["codes"][0]["drift"]["value"] > 0.1
    [stable, _] = annotator.measure_drift(first, second, "anchors")
    assert stable.drift.value == 0
    assert annotator.measure_drift(third, third, "anchors") == ()
    study.call("run", "traces.jsonl", *RUBRIC, *study.model, "--out", "fourth")
    with pytest.raises(annotator.AnnotatorError, match="names no look"):
        annotator.measure_drift(first, open_run("fourth"), "anchors")


@pytest.mark.parametrize("redact", [(), ("--redact",)])
def test_the_prompts_of_stored_traces_are_those_of_the_run(tmp_path, annotate_cli, redact):
    """To the byte, for every example, with the sources gone."""
    shutil.copytree(EXAMPLES, tmp_path / "traces")
    with Server(lambda request: NOTHING) as server:
        model = ("--model", "m", "--base-url", server.url)
        run = ("run", "traces", "--rubric", "symptoms", *model, "--all", *redact, "--out", "run")
        annotate_cli(*run)
        asked = sorted(json.dumps(one.body) for one in server.seen if not one.is_probe)
        assert len(asked) > 10
        server.seen.clear()
        done = annotate_cli("anchor", "run", "--out", "anchors", "-n", "999", "--asks", "0")
        assert (done.code, server.seen) == (0, []), done.err
        shutil.rmtree(tmp_path / "traces")
        assert annotate_cli("anchor", "anchors").code == 0
        again = sorted(json.dumps(one.body) for one in server.seen if not one.is_probe)
    assert again == asked


def test_failed_traces_are_missing_and_undecided_is_an_answer(study, judge):
    freeze(study, "--asks", "0")
    first, second, *_ = read_ids(study)
    judge.failing, judge.misquoting = (first,), (second,)
    study.call("anchor", "anchors")
    result = read_drift(study)
    assert (result["failed"], result["traces"]) == (1, ANCHORS)
    undecided = next(each for each in result["codes"] if each["code"] == "undecided")
    assert undecided["drift"]["inputs"]["items"] == ANCHORS - 1
    assert undecided["drift"]["value"] == pytest.approx(1 / (ANCHORS - 1))
    for each in result["codes"]:  # shares leave the undecided one out, too
        if each["code"] in ("late", "none"):
            assert (each["drift"]["value"], each["drift"]["inputs"]["items"]) == (0, ANCHORS - 2)


def test_a_stopped_look_goes_on_and_a_repeat_is_a_new_look(study):
    prices = ("--price-in", "1000", "--price-out", "1000", "--concurrency", "1")
    freeze(study)
    stopped = study.call("anchor", "anchors", *prices, "--max-cost", "30", code=3)
    assert "--resume" in stopped.err
    assert "--resume" in study.call("anchor", "anchors", *prices, code=2).err
    done = json.loads((study.folder / "anchors/looks/1/run.json").read_text())["totals"]
    calls, _ = count_calls(study, "anchor", "anchors", *prices, "--resume")
    assert 0 < done["annotations"] == ANCHORS - calls < ANCHORS
    assert read_drift(study)["look"] == 1
    assert count_calls(study, "anchor", "anchors")[0] == ANCHORS
    assert read_drift(study)["look"] == 2
    refused = freeze(study, "--draws-seed", "1", code=2)
    assert "other anchors are there" in refused.err


def test_half_a_look_is_of_another_time(study, judge):
    """A run asks all anchors anew: an answer of before would be another judge's."""
    freeze(study, "--asks", "1")
    prices = ("--price-in", "1000", "--price-out", "1000", "--concurrency", "1")
    study.call("anchor", "anchors", *prices, "--max-cost", "30", code=3)
    judge.more = 0.3
    run = ("run", "traces.jsonl", *RUBRIC, *study.model, "--anchors", "anchors", "--out", "new")
    assert count_calls(study, *run)[0] == ANCHORS + TRACES
    flips = sum(0.3 <= random.Random(n).random() < 0.6 for n in read_ids(study))
    late = next(each for each in read_drift(study)["codes"] if each["code"] == "late")
    assert late["drift"]["value"] == pytest.approx(flips / ANCHORS)


def test_anchors_frozen_again_do_not_know_the_looks_of_before(study, judge):
    freeze(study, "--asks", "1")
    run = ("run", "traces.jsonl", *RUBRIC, *study.model, "--anchors", "anchors", "--out", "new")
    study.call(*run)
    with pytest.raises(annotator.AnnotatorError, match="was judged after"):
        annotator.measure_drift(open_run("new"), open_run("run"), "anchors")
    shutil.rmtree(study.folder / "anchors")
    judge.more = 0.3
    done = freeze(study, "--asks", "1")
    assert "the judge already differs from run in late, none" in done.err.replace("\n   ", " ")
    study.call("anchor", "anchors")
    with pytest.raises(annotator.AnnotatorError, match="names no look"):
        annotator.measure_drift(open_run("run"), open_run("new"), "anchors")


def test_freezing_that_was_killed_goes_on(study):
    """The answers of the run are written last."""
    freeze(study, "--asks", "0")
    shutil.rmtree(study.folder / "anchors" / "frozen")
    freeze(study, "--asks", "0")
    assert "No drift" in study.call("anchor", "anchors").out


def test_the_answers_of_one_look_in_a_file_do_not_answer_the_next(study):
    """The run was judged by files, too: else it is another judge."""
    assert "in_batches" in freeze(study, "--batch-file", "ask.jsonl", code=2).err
    files = ("traces.jsonl", *RUBRIC, *study.model, "--out", "filed")
    study.call("run", *files, "--batch-file", "run.jsonl")
    answer_file(study, "run.jsonl", "run.results")
    study.call("run", *files, "--batch-results", "run.results", "--resume")
    assert "in batches, too, with --batch-file FILE" in freeze(study, source="filed", code=2).err
    freeze(study, "--asks", "2", "--batch-file", "ask.jsonl", source="filed")
    answer_file(study, "ask.jsonl", "ask.results")
    freeze(study, "--resume", "--batch-results", "ask.results", source="filed")
    asked = ["run.jsonl", "ask.jsonl"]
    for look in ("1", "2"):
        asked.append(f"{look}.jsonl")
        study.call("anchor", "anchors", "--batch-file", asked[-1])
        answer_file(study, asked[-1], f"{look}.results")
        study.call("anchor", "anchors", "--resume", "--batch-results", f"{look}.results")
    ids = [line["custom_id"] for file in asked for line in requests_in(file)]
    assert len(ids) == len(set(ids)) == TRACES + 4 * ANCHORS
    assert read_drift(study)["look"] == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("anchor", "anchors", "--temperature", "1"), "temperature was 0.0, is now 1"),
        (("anchor", "anchors", "--model", "other"), "not the one that was frozen"),
        (("run", "traces.jsonl", "--anchors", "anchors", "--rubric", "other.yaml"), "rubrics"),
        (("run", "traces.jsonl", "--anchors", "anchors", "--least-read", "0"), "least_read: was"),
        (("run", "traces.jsonl", "--anchors", "anchors", "--workers", "2"), "before shards"),
        (("run", "traces.jsonl", "--anchors", "anchors", "--batch"), "a model at once"),
        (("run", "traces.jsonl", "--anchors", "anchors", *RULES), "a model at once"),
        (("run", "traces.jsonl", "--anchors", "nothing"), "no anchors there"),
        (("anchor", "run"), "--out"),
        (("anchor", "run", "--out", "new"), "slips.yaml any more: name its file with --rubric"),
        (("anchor", "anchors", "-n", "5"), "-n is for new anchors"),
        (("anchor", "anchors", "--out", "new"), "--out is for new anchors"),
        (("anchor", "missing"), "neither a run directory nor anchors"),
        (("anchor", "traces.jsonl", "--out", "new"), "neither a run directory nor anchors"),
    ],
)
def test_another_judge_and_wrong_settings_are_refused(study, arguments, message):
    freeze(study, "--asks", "0")
    (study.folder / "other.yaml").write_text(json.dumps(SLIPS | {"version": 2}))
    (study.folder / "slips.yaml").write_text(json.dumps(SLIPS) + " ")
    if arguments[0] == "run":
        rubric = () if "--rubric" in arguments else RUBRIC
        judge = () if "--judge" in arguments else study.model
        arguments = (*arguments, *rubric, *judge, "--out", "new")
    calls, done = count_calls(study, *arguments, code=2)
    assert message in done.err.replace("\n", " ")
    assert not ("neither" in message and "Usage:" in done.err)
    assert calls == 0


def test_in_python(study, judge):
    anchors = annotator.anchor("run", out="anchors", rubric="slips.yaml", n=ANCHORS, asks=1)
    assert (len(anchors.trace_ids), anchors.population, anchors.frozen) == (ANCHORS, TRACES, 2)
    assert annotator.ask_anchors("anchors").drifted == ()
    judge.more = 0.4
    assert annotator.ask_anchors("anchors").drifted == ("late", "none")


@pytest.mark.parametrize(("drift", "is_shown"), [(0.3, True), (0.1, False)])
def test_the_gate_takes_the_judges_drift_from_the_difference(study, judge, drift, is_shown):
    """The new version is as the old one; the judge finds more of its traces late. Its drift is
    subtracted whether a test shows it or not, also from the group.
    """
    for each in (grouped := json.loads(json.dumps(SLIPS)))["codes"]:
        each["group"] = "tone" if each["id"] == "rude" else "slip"
    (study.folder / "slips.yaml").write_text(json.dumps(grouped))
    study.call("run", "traces.jsonl", *RUBRIC, *study.model, "--out", "grouped")
    freeze(study, source="grouped")
    run = ("run", *RUBRIC, *study.model, "--anchors", "anchors", "--out")
    study.call(*run, "base", "traces.jsonl")
    judge.more = drift
    again = [make_trace(n, f"Trace {n}, step 1.", f"Step 2 of {n}, new.") for n in range(TRACES)]
    (study.folder / "later").mkdir()
    write_labels(study.folder / "later" / "traces.jsonl", again)
    study.call(*run, "new", "later/traces.jsonl")
    gate = ("gate", "base", "new", "--format", "json")
    [alone] = json.loads(study.call(*gate, code=1).out)
    assert {row["code"]: row["word"] for row in alone["rows"]}["late"] == "worse"
    done = study.call(*gate, "--anchors", "anchors", code=4)
    [table] = json.loads(done.out)
    [whole, row] = [
        next(row for row in each["rows"] if row["code"] == "late") for each in (alone, table)
    ]
    [late] = [each for each in table["drift"] if each["code"] == "late"]
    assert row["word"] == "not decided"
    assert row["difference"]["value"] == pytest.approx(
        whole["difference"]["value"] - late["drift"]["value"]
    )
    assert abs(row["difference"]["value"]) < 0.1
    assert late["drift"]["value"] > 0
    assert (late["p"] <= 0.05) == is_shown
    slip = table["groups"][0]
    assert (slip["code"], slip["difference"]) == ("slip (group)", row["difference"])
    assert f"measured on {ANCHORS} anchors, is taken out. Largest: late: +" in table["notes"][0]
    assert "no anchors there" in study.call(*gate, "--anchors", "none", code=2).err
