"""``annotate check-judge``: scripted judges that depend on what should not matter."""

import json
import random
import re

import pytest

import annotator
from tests.calibration.build import SLIPS, make_trace, write_labels
from tests.judges.test_batch import answer as answer_file
from tests.judges.test_batch import requests_in
from tests.server import NOTHING, TAGS, Reply, Request, Server, finding

TRACES, MIDDLE = 24, 7  # the message in the middle, which a cut leaves out
OTHER_WORDS = {
    code["id"]: {
        name: f"In other words: {code[name]}" for name in ("definition", "evidence", "not")
    }
    for code in SLIPS["codes"]
}


@pytest.fixture
def study(tmp_path, monkeypatch):
    """24 traces of 12 messages and two a task; every second one is late, and message 7 says so."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slips.yaml").write_text(json.dumps(SLIPS))
    traces = []
    for n in range(TRACES):
        texts = [f"Trace {n}, step {k}. {'Still at work. ' * 20}" for k in range(1, 13)]
        if n % 2 == 0:
            texts[MIDDLE - 1] += "We are late."
        traces.append(make_trace(n, *texts))
    write_labels(tmp_path / "traces.jsonl", traces)
    return tmp_path


def is_paraphrasing(request: Request) -> bool:
    return "in\nother words" in request.system


def with_paraphrase(judge):
    """A judge that also writes the paraphrase."""

    def answer(request):
        if is_paraphrasing(request):
            return Reply(text=json.dumps(OTHER_WORDS))
        return judge(request)

    return answer


def read_all(request: Request) -> Reply:
    """The right answer, by everything that it sees."""
    late = f"message:{MIDDLE}"
    return finding("late", (late, "We are late.")) if "We are late." in request.user else NOTHING


def read_beginning(request: Request) -> Reply:
    """Reads the first message only, which is never cut."""
    return finding("lost", ("message:1", "step 1.")) if "step 1." in request.user else NOTHING


def say_first(request: Request) -> Reply:
    """Names the first code of the rubric, wherever that is."""
    [first, *_] = re.findall(r"^## (\w+):", f"{request.system}\n{request.user}", re.MULTILINE)
    return finding(first, ("message:1", "step 1."))


def say_at_random(request: Request) -> Reply:
    """Finds nothing in three of ten answers."""
    lost = random.Random(f"{request.n}").random() < 0.3
    return NOTHING if lost else finding("lost", ("message:1", "step 1."))


def say_by_words(request: Request) -> Reply:
    """Knows the code by the words of its definition."""
    is_known = "Definition: An agent is lost." in f"{request.system}\n{request.user}"
    return finding("lost", ("message:1", "step 1.")) if is_known else NOTHING


def check(annotate_cli, server, *more, code=0, sources=("traces.jsonl", "--rubric", "slips.yaml")):
    judge = ("--model", "m", "--base-url", server.url) if sources[0] != "run" else ()
    done = annotate_cli("check-judge", *sources, *judge, "--out", "check", *more)
    assert done.code == code, done.err
    return done


def read_result(folder):
    return json.loads((folder / "check" / "check.json").read_text())


@pytest.mark.parametrize(
    ("judge", "changed", "flips", "code"),
    [
        (read_all, {"short": 12}, {"late": (12, 12), "none": (0, 12)}, 4),
        (read_beginning, {}, {"lost": (0, 24)}, 0),
        (say_first, {"order": 24}, {"late": (24, 24)}, 1),
        (say_by_words, {"paraphrase": 24}, {"lost": (24, 24)}, 1),
    ],
)
def test_judges_that_depend_on_one_thing(study, annotate_cli, judge, changed, flips, code):
    """By hand: each flips where its own thing changes, and nowhere else. Of a gate of one half, the
    interval of 12 in 24 does not decide.
    """
    with Server(with_paraphrase(judge)) as server:
        done = check(annotate_cli, server, "--max-flips", "0.5", code=code)
    result = read_result(study)
    assert (result["n"], result["tasks"], result["population"]) == (24, 12, 24)
    same = {one["name"]: one["same"]["inputs"]["k"] for one in result["variants"]}
    names = ("again", "order", "layout", "paraphrase", "short")
    assert same == {name: 24 - changed.get(name, 0) for name in names}
    assert result["same"]["inputs"]["k"] == 24 - max(changed.values(), default=0)
    found = {x["code"]: (x["lost"]["inputs"]["k"], x["lost"]["n"]) for x in result["flips"]}
    assert {code: found[code] for code in flips} == flips
    ratio = f"In {24 - max(changed.values(), default=0)} of 24 traces every variant"
    assert ratio in done.out.replace("\n", " ")
    for name in changed:
        assert re.search(rf"unstable|{name}", done.out)


def test_what_flips_at_random_is_not_blamed_on_a_change(study, annotate_cli):
    with Server(with_paraphrase(say_at_random)) as server:
        check(annotate_cli, server, "--concurrency", "1")
    again, *others = read_result(study)["variants"]
    assert again["beyond"] is None
    assert again["same"]["value"] < 0.8
    for variant in others:
        assert variant["beyond"]["low"] < 0 < variant["beyond"]["high"]


def test_the_questions_differ_in_one_thing_each(study, annotate_cli):
    """The same bytes again, the codes permuted, the rubric last, other words, fewer characters."""
    with Server(with_paraphrase(read_all)) as server:
        check(annotate_cli, server, "-n", "1", "--concurrency", "1")
        base, again, order, layout, written, words, short = _order_requests(server.seen)
    assert again.body == base.body
    assert _list_codes(order) != _list_codes(base) == ["late", "lost", "rude"]
    assert sorted(_list_codes(order)) == _list_codes(base)
    assert "## late" not in layout.system
    assert "## late" in layout.user
    assert is_paraphrasing(written)
    assert "In other words: An agent is late." in words.system
    assert 0.6 < len(short.user) / len(base.user) < 0.72
    file = study / "check" / "paraphrase.yaml"
    assert annotator.load_rubric(str(file)).codes[0].definition == OTHER_WORDS["late"]["definition"]


def _list_codes(request):
    return re.findall(r"^## (\w+):", request.system, re.MULTILINE)


def _order_requests(seen):
    """The paraphrase is asked for first."""
    [written] = [one for one in seen if is_paraphrasing(one)]
    base, again, order, layout, words, short = [one for one in seen if one is not written]
    return base, again, order, layout, written, words, short


def test_a_run_is_the_base_and_its_answers_are_not_paid_again(study, annotate_cli, monkeypatch):
    """Its judge is asked again, whatever model the environment names."""
    with Server(with_paraphrase(read_all)) as server:
        model = ("--model", "m", "--base-url", server.url, "--no-cache")
        done = annotate_cli("run", "traces.jsonl", "--rubric", "slips.yaml", *model, "--out", "run")
        assert done.code == 0, done.err
        monkeypatch.setenv("ANNOTATOR_MODEL", "other")
        check(annotate_cli, server, "-n", "10", sources=("run", "--rubric", "slips.yaml"))
        assert {request.body["model"] for request in server.seen} == {"m"}
        assert len(server.seen) == 24 + 5 * 10 + 1
    result = read_result(study)
    manifest = json.loads((study / "run" / "run.json").read_text())
    assert (result["id"], result["traces"], result["population"]) == (manifest["id"], 10, 24)


def test_a_check_goes_on_and_a_repeat_is_free(study, annotate_cli):
    """The paraphrase is written once, and its price counts."""
    prices = ("--price-in", "1000", "--price-out", "1000", "-n", "8")
    with Server(with_paraphrase(read_all)) as server:
        stopped = check(annotate_cli, server, *prices, "--max-cost", "40", code=3)
        assert "--resume" in stopped.err
        assert 0 < len(server.seen) < 49
        for _ in range(2):
            check(annotate_cli, server, *prices, "--resume")
            assert len(server.seen) == 6 * 8 + 1
        refused = check(annotate_cli, server, *prices, code=2)
    assert "--resume" in refused.err


def test_a_forecast_calls_nothing(study, annotate_cli):
    with Server(read_all) as server:
        done = check(annotate_cli, server, "--dry-run")
        assert server.calls == 0
    assert "--pilot" not in done.out
    assert "145 calls" in done.out  # six times 24, and the paraphrase
    assert not (study / "check").exists()


def test_answers_that_come_in_a_file(study, annotate_cli):
    """The same question again is a request of its own; a paraphrase has to be given."""
    words = [code | OTHER_WORDS[code["id"]] for code in SLIPS["codes"]]
    (study / "words.yaml").write_text(json.dumps(SLIPS | {"codes": words}))
    with Server(read_all) as server:
        done = check(annotate_cli, server, "--batch-file", "requests.jsonl", "-n", "6")
        assert "--paraphrase FILE" in done.err
        (study / "check").rename(study / "without")
        given = ("--paraphrase", "words.yaml", "-n", "6")
        check(annotate_cli, server, "--batch-file", "requests.jsonl", *given)
        assert server.calls == 0
        lines = requests_in("requests.jsonl")
        assert len({line["custom_id"] for line in lines}) == len(lines) == 36
        answer_file(server, "requests.jsonl", "results.jsonl")
        check(annotate_cli, server, "--resume", "--batch-results", "results.jsonl", *given)
    assert len(read_result(study)["variants"]) == 5


def test_a_panel_asks_again_with_other_samples(study, annotate_cli):
    with Server(with_paraphrase(read_all)) as server:
        samples = ("--samples", "2", "--temperature", "1", "--seed", "5", "-n", "1")
        check(annotate_cli, server, *samples, "--variants", "again", "--concurrency", "1")
        assert sorted(one.body["seed"] for one in server.seen) == [5, 6, 7, 8]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"late": OTHER_WORDS["late"]}, "lost.definition is missing"),
        (OTHER_WORDS | {"late": SLIPS["codes"][0]}, "no JSON object"),
        (
            OTHER_WORDS | {"late": OTHER_WORDS["late"] | {"not": "Nobody is late."}},
            "late.not is not in other words",
        ),
    ],
)
def test_a_bad_paraphrase_is_asked_for_again(study, annotate_cli, answer, problem):
    """Four times in all; a good one in the end is taken."""
    asked = []

    def judge(request):
        if not is_paraphrasing(request):
            return read_all(request)
        asked.append(request)
        return Reply(text=json.dumps(answer if len(asked) < good_at else OTHER_WORDS))

    with Server(judge) as server:
        good_at = 99
        done = check(annotate_cli, server, "-n", "1", code=2)
        assert (len(asked), problem in done.err.replace("\n", " ")) == (4, True)
        assert len(server.seen) == 4  # nothing else was asked
        assert problem in asked[1].reask
        asked.clear()
        good_at = 2
        check(annotate_cli, server, "-n", "1")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--variants", "again,odrer"), "did you mean 'order'"),
        (("--judge", "rules"), "only a judge that asks a model"),
        (("--paraphrase", "slips.yaml"), "the rubric itself"),
        (("--paraphrase", "other.yaml"), "expected the codes"),
    ],
)
def test_wrong_settings_are_named(study, annotate_cli, more, message):
    (study / "other.yaml").write_text(json.dumps(SLIPS | {"id": "other"}))
    with Server(read_all) as server:
        done = check(annotate_cli, server, *more, code=2)
        assert server.calls == 0
    assert message in done.err.replace("\n", " ")


def test_short_traces_are_left_out_of_the_cut(study, annotate_cli):
    """A trace of two lines is shorter than any context; the others are cut."""
    tiny = make_trace(99, "step 1.", "step 1.")
    write_labels(study / "traces.jsonl", [*requests_in("traces.jsonl"), tiny])
    with Server(with_paraphrase(read_beginning)) as server:
        check(annotate_cli, server, "--variants", "short")
    [short] = read_result(study)["variants"]
    assert (short["uncut"], short["same"]["n"], read_result(study)["n"]) == (1, 24, 25)


def test_in_python(study):
    with Server(with_paraphrase(say_first)) as server:
        judge = {"model": "m", "base_url": server.url}
        result = annotator.check_judge(
            "traces.jsonl", "slips.yaml", judge, out="check", variants=["order"], n=20
        )
    [variant] = result.variants
    assert (variant.name, variant.same.value, result.flips[0].verdict) == ("order", 0, "unstable")
    assert result.check(0.5) == "missed"


def test_a_critic_of_a_run_is_asked_again_too(study, annotate_cli):
    """24 traces, each with a finding: a call and one of the critic, in the run and once more."""

    def judge(request):
        if "<finding " in request.user:
            return Reply(answer=TAGS | {"reason": "so", "decision": "upheld", "code": "none"})
        return read_beginning(request)

    with Server(judge) as server:
        model = ("--model", "m", "--base-url", server.url, "--critic", "same")
        done = annotate_cli("run", "traces.jsonl", "--rubric", "slips.yaml", *model, "--out", "run")
        assert done.code == 0, done.err
        before = len(server.seen)
        source = ("run", "--rubric", "slips.yaml")
        check(annotate_cli, server, "--variants", "again", sources=source)
    assert len(server.seen) == 2 * before == 4 * TRACES
    assert read_result(study)["same"]["value"] == 1
