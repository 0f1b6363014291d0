"""``annotate ablate``: scripted judges whose errors are known, and labels of two splits."""

import json
import re

import pytest

import annotator
from tests.calibration.build import SLIPS, make_trace, write_labels
from tests.judges.test_batch import answer, requests_in
from tests.server import NOTHING, TAGS, Reply, Request, Server, finding

TASKS, DEV = 12, 8  # two traces each; the others are of the test split


def slip_of(n: int) -> str:
    return ("late", "lost", "none")[n % 3]


@pytest.fixture
def study(tmp_path, monkeypatch):
    """24 traces that name their slip, a rubric, and labels: eight tasks of dev, four of test."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slips.yaml").write_text(json.dumps(SLIPS))
    traces, labels = [], []
    for n in range(2 * TASKS):
        slip = slip_of(n)
        text = f"Trace {n}: we are {slip} today." if slip != "none" else f"Trace {n}: all is well."
        traces.append(make_trace(n, text, "I see."))
        row = {"trace_id": traces[-1]["id"], "rubric": "slips", "annotator": "ann"}
        split = "dev" if n // 2 < DEV else "test"
        labels.append(row | {"primary": None if slip == "none" else slip, "split": split})
    write_labels(tmp_path / "traces.jsonl", traces)
    write_labels(tmp_path / "labels.jsonl", labels)
    return tmp_path


def relabel(file, **changes):
    """The labels with other values, in another file."""
    write_labels(file, [row | changes for row in requests_in("labels.jsonl")])
    return file


PLUGIN = """
from annotator import Claim, Quote, Verdict

class Late:
    id, settings = "late", {}
    def codes(self, rubric):
        return {"late"}
    async def judge(self, trace, rubric):
        quote = Quote(trace.messages[0].text, "message:1")
        return Verdict((Claim("late", "as always", (quote,)),))

late = Late()
"""


def read_slip(request: Request) -> Reply:
    """The right answer."""
    said = re.search(r"we are (late|lost) today", request.user)
    return finding(said[1], ("message:1", f"we are {said[1]} today")) if said else NOTHING


def judge(request: Request) -> Reply:
    """``right`` is always right; ``hasty`` finds nothing in every second trace; others never do."""
    number = int(re.search(r"Trace (\d+)", request.user)[1])
    if request.body["model"] == "hasty" and number % 4 < 2:
        return NOTHING
    return NOTHING if request.body["model"] == "idle" else read_slip(request)


def ablate(annotate_cli, server, *more, code=0, labels="labels.jsonl"):
    done = annotate_cli(
        *("ablate", "traces.jsonl", "--labels", labels, "--rubric", "slips.yaml"),
        *("--base-url", server.url, "--out", "trial", *more),
    )
    assert done.code == code, done.err
    return done


def read_result(folder):
    return json.loads((folder / "trial" / "ablation.json").read_text())


def test_the_best_judge_wins_and_no_test_trace_is_sent(study, annotate_cli):
    """By hand: of 16 dev traces (5 or 6 of each label) idle agrees on the 5 without a slip."""
    with Server(judge) as server:
        done = ablate(annotate_cli, server, "--vary", "model=hasty,right,idle")
        sent = json.dumps([request.body for request in server.seen])
    assert len(server.seen) == 3 * 2 * DEV
    assert not [n for n in range(2 * DEV, 2 * TASKS) if f"Trace {n}:" in sent]
    result = read_result(study)
    hasty, right, idle = result["arms"]
    assert (result["n"], result["tasks"], result["split"]) == (16, 8, "dev")
    assert right["agreement"]["observed"]["value"] == 1
    assert idle["agreement"]["observed"]["value"] == 5 / 16
    assert idle["agreement"]["kappa"]["value"] == 0
    gap = right["agreement"]["kappa"]["value"] - hasty["agreement"]["kappa"]["value"]
    assert right["difference"]["value"] == pytest.approx(gap)
    assert (result["best"], result["winner"], result["choices"]) == (1, 1, [0, 5, 0])
    assert result["gain"]["value"] == pytest.approx(gap)
    assert "Use model=right: kappa 1.00" in done.out
    ledger = (study / "labels.jsonl.looks.jsonl").read_text().splitlines()
    assert [json.loads(line)["judge"] for line in ledger] == ["llm:hasty", "llm:right", "llm:idle"]


def test_the_cheaper_of_two_equal_judges_wins(study, annotate_cli):
    """Three samples agree as well as one does, and cost three times as much."""
    with Server(judge) as server:
        prices = ("--price-in", "1", "--price-out", "1", "--seed", "1", "--temperature", "1")
        ablate(annotate_cli, server, "--model", "right", "--vary", "samples=3,1", *prices)
    result = read_result(study)
    costs = [arm["cost"]["dollars"] for arm in result["arms"]]
    assert costs[0] == pytest.approx(3 * costs[1], rel=0.01)
    assert (result["best"], result["winner"]) == (0, 1)
    assert (study / "trial" / "judge.yaml").read_text().count("samples") == 0


def test_the_winner_judges_by_its_files(study, annotate_cli):
    """A judge that examples mislead: the arm without them wins, as a file that a run takes."""

    def misled(request):
        return (
            finding("late", ("message:2", "I see."))
            if "again" in request.system
            else read_slip(request)
        )

    with Server(misled) as server:
        ablate(annotate_cli, server, "--model", "m", "--vary", "examples=on,off")
        result = read_result(study)
        assert result["winner"] == 1
        files = ("--rubric", "trial/rubric.yaml", "--judge", "trial/judge.yaml")
        before = len(server.seen)
        done = annotate_cli("run", "traces.jsonl", *files, "--out", "run", "--limit", "4")
    assert done.code == 0, done.err
    assert len(server.seen) == before  # its answers are known
    manifest = json.loads((study / "run" / "run.json").read_text())
    assert manifest["rubrics"][0]["sha256"] == result["arms"][1]["rubric_sha256"]


def test_a_repeat_is_free_and_a_stopped_trial_goes_on(study, annotate_cli):
    vary = ("--model", "right", "--vary", "considered=codes,none")
    prices = ("--price-in", "1000", "--price-out", "1000")
    with Server(judge) as server:
        stopped = ablate(annotate_cli, server, *vary, *prices, "--max-cost", "30", code=3)
        assert "--resume" in stopped.err
        asked = len(server.seen)
        assert 0 < asked < 32
        ablate(annotate_cli, server, *vary, *prices, "--resume")
        assert len(server.seen) == 32
        again = ablate(annotate_cli, server, *vary, *prices, "--resume")
        assert len(server.seen) == 32
    assert "considered=codes" in again.out
    refused = ablate(annotate_cli, server, *vary, code=2)
    assert "--resume" in refused.err


@pytest.mark.parametrize(("temperature", "calls"), [("1", 48), (None, 64)])
def test_a_request_of_two_arms_is_sent_and_forecast_once(study, annotate_cli, temperature, calls):
    """Samples 1 to 3 of 16 traces, the first of them for both arms; without a temperature, several
    samples are asked with the server's, and one with 0.
    """
    vary = ("--model", "right", "--vary", "samples=1,3")
    more = ("--temperature", temperature) if temperature else ()
    with Server(judge) as server:
        done = ablate(annotate_cli, server, *vary, *more, "--dry-run")
        assert server.calls == 0
        assert f"{calls} calls" in done.out
        assert not (study / "trial").exists()
        ablate(annotate_cli, server, *vary, *more, "--batch-file", "requests.jsonl")
        lines = requests_in("requests.jsonl")
        assert len({line["custom_id"] for line in lines}) == len(lines) == calls
        ablate(annotate_cli, server, *vary, *more, "--out", "asked")
        assert len(server.seen) == calls


def test_a_critic_is_a_setting_that_arms_differ_in(study, annotate_cli):
    """A judge that calls all 16 traces late is right on 6; a critic that reads the trace refutes
    the 10 others, and is right on the 5 without a slip, too.
    """

    def eager(request):
        if "<finding " not in request.user:
            return finding("late", ("message:2", "I see."))
        decision = "upheld" if "we are late today" in request.user else "not supported"
        return Reply(answer=TAGS | {"reason": "so", "decision": decision, "code": "none"})

    vary = ("--model", "m", "--vary", "critic=none,same,other")
    with Server(eager) as server:
        done = ablate(annotate_cli, server, *vary, "--dry-run")
        assert "16 to 112 calls" in done.out  # the codes of the rubric, for each of two critics
        ablate(annotate_cli, server, *vary)
        critics = [one.body["model"] for one in server.seen if "<finding " in one.user]
        assert (len(server.seen), critics.count("m"), critics.count("other")) == (48, 16, 16)
    arms = read_result(study)["arms"]
    assert [x["agreement"]["observed"]["value"] for x in arms] == [6 / 16, 11 / 16, 11 / 16]
    assert "critic:\n  model: m\n" in (study / "trial" / "judge.yaml").read_text()


def test_in_python_the_arms_are_a_data_frame(study):
    with Server(judge) as server:
        settings = {"model": "right", "base_url": server.url}
        vary = {"model": ["idle", "right"], "samples": [1]}
        result = annotator.ablate(
            "traces.jsonl", "labels.jsonl", vary, rubric="slips.yaml", judge=settings, out="trial"
        )
    frame = result.to_pandas().set_index("arm")
    assert frame["agreement"].to_dict() == {
        "model=idle,samples=1": 5 / 16,
        "model=right,samples=1": 1,
    }
    assert frame["winner"].tolist() == [False, True]
    assert frame.loc["model=right,samples=1", "difference_low"] == result.arms[1].difference.low


def test_answers_that_come_in_a_file(study, annotate_cli):
    """The requests of both arms are in one file; a result file answers both."""
    vary = ("--model", "right", "--vary", "considered=codes,none")
    with Server(judge) as server:
        done = ablate(annotate_cli, server, *vary, "--batch-file", "requests.jsonl")
        assert server.calls == 0
        assert "requests.jsonl" in done.err
        assert len(requests_in("requests.jsonl")) == 32
        answer(server, "requests.jsonl", "results.jsonl")
    ablate(annotate_cli, server, *vary, "--resume", "--batch-results", "results.jsonl")
    assert [arm["agreement"]["observed"]["value"] for arm in read_result(study)["arms"]] == [1, 1]


def test_what_is_undecided_is_a_disagreement(study, annotate_cli):
    """A judge that answers half of the traces is no better for it."""

    def silent(request):
        number = int(re.search(r"Trace (\d+)", request.user)[1])
        if request.body["model"] == "silent" and number % 2:
            return Reply(refusal="I would rather not.")
        return read_slip(request)

    with Server(silent) as server:
        done = ablate(annotate_cli, server, "--vary", "model=silent,right", code=1)
    first, second = read_result(study)["arms"]
    assert (first["failed"], first["agreement"]["observed"]["value"]) == (8, 0.5)
    assert second["agreement"]["observed"]["value"] == 1
    assert "open" in done.out
    assert "model=silent: 8 failed: 8 refusal" in done.err
    assert "--resume    judge failed traces again" in done.err


def test_labels_without_a_split_are_said_to_flatter(study, annotate_cli):
    labels = relabel(study / "all.jsonl", split=None)
    with Server(judge) as server:
        done = ablate(annotate_cli, server, "--vary", "model=hasty,right", labels=labels)
    assert read_result(study)["n"] == 24
    assert "no test split" in done.out


MODEL = ("--model", "right")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ((*MODEL, "--vary", "sampels=1,3"), "did you mean 'samples'"),
        ((*MODEL, "--vary", "samples"), "expected KEY=A,B"),
        ((*MODEL, "--vary", "samples=1,1"), "values that differ"),
        ((*MODEL, "--vary", "samples=0,1"), "samples: expected a number from 1"),
        ((*MODEL, "--vary", "examples=yes,no"), "expected on or off"),
        ((*MODEL, "--vary", "judge=llm,rules"), "the rules judge has no rules for 'slips'"),
        ((*MODEL, "--vary", "rubric=slips.yaml,symptoms"), "other codes"),
        (("--vary", "model=a,b", "--batch-file", "out.jsonl"), "a batch is of one model"),
        (
            (*MODEL, "--vary", "judge=llm,always:late", "--max-cost", "1"),
            "not the judge always:late",
        ),
        (("--vary", "samples=1,3"), "the judge rules has no such setting"),
        (("--judge", "always:late", "--vary", "samples=1,3"), "the judge always:late has no such"),
        (("--judge", "llm", "--vary", "examples=on,off"), "needs --model"),
        (("--vary", "judge=rules,llm"), "name a model"),
    ],
)
def test_wrong_settings_are_named(study, annotate_cli, more, message):
    (study / "always.py").write_text(PLUGIN)
    with Server(judge) as server:
        done = ablate(annotate_cli, server, *more, code=2)
    assert message in " ".join(done.err.split())
    assert server.calls == 0


def test_a_plug_in_judges(study, annotate_cli):
    """It finds the same code everywhere: 6 of the 16 traces are late."""
    (study / "always.py").write_text(PLUGIN)
    with Server(judge) as server:
        done = ablate(annotate_cli, server, "--judge", "always:late", "--vary", "examples=on,off")
        assert [arm["judge"] for arm in read_result(study)["arms"]] == ["late", "late"]
        assert "without effect: --base-url" in done.err
        arguments = ("--model", "right", "--vary", "judge=always:late,llm", "--out", "beside")
        ablate(annotate_cli, server, *arguments)
    assert "--judge always:late" in done.err
    late, right = json.loads((study / "beside" / "ablation.json").read_text())["arms"]
    assert (late["agreement"]["observed"]["value"], late["judge"]) == (6 / 16, "late")
    assert (right["agreement"]["observed"]["value"], right["judge"]) == (1, "llm:right")


def test_labels_of_other_traces_are_refused(study, annotate_cli):
    labels = study / "others.jsonl"
    labels.write_text((study / "labels.jsonl").read_text().replace('"run', '"other'))
    with Server(judge) as server:
        vary = ("--model", "right", "--vary", "samples=1,3")
        done = ablate(annotate_cli, server, *vary, labels=labels, code=2)
        assert server.calls == 0
    assert "Are the labels of other traces?" in " ".join(done.err.split())


def test_people_with_one_label_choose_nothing(study, annotate_cli):
    """No kappa is above 0 then, also not that of the arm that agrees everywhere."""
    labels = relabel(study / "none.jsonl", primary=None)
    vary = ("--vary", "model=right,idle")
    with Server(judge) as server:
        ablate(annotate_cli, server, *vary)
        assert (study / "trial" / "judge.yaml").exists()
        done = ablate(annotate_cli, server, *vary, "--resume", labels=labels)
    result = read_result(study)
    assert (result["best"], result["winner"]) == (None, None)
    assert "No arm can be chosen" in done.out
    assert not (study / "trial" / "judge.yaml").exists()


def test_the_money_of_all_arms_counts(study, annotate_cli):
    """One arm costs 16 calls; a new one before it has only the rest."""
    prices = ("--price-in", "1000", "--price-out", "1", "--concurrency", "1")
    with Server(judge) as server:
        ablate(annotate_cli, server, "--vary", "model=right", *prices)
        [arm] = read_result(study)["arms"]
        cost = arm["cost"]["dollars"] * 16
        more = ("--vary", "model=hasty,right", *prices, "--resume")
        limit = ("--max-cost", f"{1.5 * cost:.2f}")
        stopped = ablate(annotate_cli, server, *more, *limit, code=3)
    assert 16 < len(server.seen) < 32
    assert "for the other arms" in " ".join(stopped.err.split())


def test_a_run_gives_its_judge_and_traces(study, annotate_cli, monkeypatch):
    """Its server, its model, whatever the environment names, its choice of traces, and its
    redaction; options change the rest.
    """
    text = (study / "traces.jsonl").read_text().replace("today", "today, says ann@example.org")
    traces = [json.loads(line) | {"outcome": {"passed": True}} for line in text.splitlines()]
    write_labels(study / "traces.jsonl", traces)
    (study / "slips.yaml").write_text(json.dumps(SLIPS | {"applies_to": {"passed": False}}))
    rubric = ("--rubric", "slips.yaml")
    with Server(judge) as server:
        options = ("--model", "hasty", "--base-url", server.url, "--all", "--redact")
        done = annotate_cli("run", "traces.jsonl", *rubric, *options, "--out", "run")
        assert done.code == 0, done.err
        monkeypatch.setenv("ANNOTATOR_MODEL", "right")
        again = ("ablate", "run", "--labels", "labels.jsonl", *rubric)
        done = annotate_cli(*again, "--vary", "considered=codes,none", "--out", "trial")
        assert done.code == 0, done.err
        assert len(server.seen) == 24 + 16  # the first arm's answers are the run's
        more = ("--vary", "model=hasty,right", "--samples", "3", "--temperature", "1")
        assert annotate_cli(*again, *more, "--out", "more").code == 0
        sent = json.dumps([request.body for request in server.seen])
        assert len(server.seen) == 24 + 16 + 2 * 3 * 16
    assert "says" in sent
    assert "ann@example.org" not in sent
    result = read_result(study)
    assert (result["n"], {arm["judge"] for arm in result["arms"]}) == (16, {"llm:hasty"})
    assert f"annotate run {study / 'traces.jsonl'} --rubric slips.yaml" in done.err


def test_the_design_of_a_run_weighs_its_labels(study, annotate_cli):
    """As annotate calibrate weighs them: 5 of each code of the judge, the rest in proportion."""
    with Server(judge) as server:
        rubric = ("--rubric", "slips.yaml")
        options = ("--model", "hasty", "--base-url", server.url, "--out", "run")
        annotate_cli("run", "traces.jsonl", *rubric, *options)
        done = annotate_cli("sample", "run", "-n", "14", "--double", "0", "--out", "sheet.csv")
        assert done.code == 0, done.err
        [design] = (study / "run" / "samples").iterdir()
        drawn = json.loads(design.read_text())
        people = {row["trace_id"]: row for row in requests_in("labels.jsonl")}
        of = {"design": design.name.split(".")[0], "split": None}
        (study / "people").mkdir()
        write_labels(study / "people" / "drawn.jsonl", [people[x] | of for x in drawn["traces"]])
        labels = ("--labels", "people/drawn.jsonl")
        done = annotate_cli(
            "ablate", "run", *labels, *rubric, "--vary", "considered=codes,none", "--out", "trial"
        )
        assert done.code == 0, done.err
        annotate_cli("calibrate", "run", *labels, "--out", "calibration.json")
    [calibration] = json.loads((study / "calibration.json").read_text())["calibrations"]
    assert calibration["labels"]["design"] == "stratified"
    kappas = [arm["agreement"]["kappa"]["value"] for arm in read_result(study)["arms"]]
    assert kappas == [calibration["agreement"]["kappa"]["value"]] * 2


@pytest.mark.parametrize("command", ["ablate", "tune"])
@pytest.mark.parametrize("broken", [False, True])
def test_a_folder_without_traces_is_named(study, annotate_cli, command, broken):
    (study / "empty").mkdir()
    if broken:
        (study / "empty" / "a.json").write_text('{"id": 1')
    more = ("--vary", "samples=1,3") if command == "ablate" else ()
    options = ("--labels", "labels.jsonl", "--rubric", "slips.yaml", "--model", "m", *more)
    with Server(judge) as server:
        done = annotate_cli(command, "empty", *options, "--base-url", server.url, "--out", "trial")
        assert server.calls == 0
    assert (done.code, "no trace can be read in" in done.err) == (2, True)
