"""Samples and panels: what several votes elect, what each of them said, and how far they agree."""

import csv
import io
import json
import re
import threading
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from annotator.reports.frequency import count_frequencies
from annotator.reports.table import FORMATS, render
from annotator.reports.tables.frequency import tabulate
from annotator.rubrics import load_rubric
from annotator.rubrics.annotations import (
    Annotation,
    Evidence,
    Finding,
    Rejected,
    Require,
    Usage,
    Vote,
)
from annotator.runs.run import open_run
from annotator.runs.votes import elect
from tests.calibration.build import make_run, said
from tests.conftest import TALK, annotations, set_model
from tests.server import NOTHING, Reply, Request, Server, finding

SYMPTOMS = load_rubric("symptoms")


@dataclass(frozen=True)
class Case:
    """Ballots as words (codes, primary first; "" none, "!" failed, "?" undecided), and what they
    elect by hand.
    """

    ballots: tuple[str, ...]
    codes: str = ""
    votes: tuple[int, ...] = ()
    agreement: float | None = 1.0
    tie: str = ""
    status: str = ""
    require: Require = "majority"


# X stands before Y and Y before Z in the precedence of each rubric.
ONE = {
    "unanimous": Case(("X", "X", "X"), "X", (3,)),
    "all none": Case(("", "", ""), ""),
    "two of three": Case(("X", "Y", "X"), "X", (2,), 0.666667),
    "two of three none": Case(("", "X", ""), "", (), 0.666667),
    "one each": Case(("X", "Y"), "", (), 0.0, "X Y", "undecided"),
    "one and none": Case(("X", ""), "", (), 0.0, "X none", "undecided"),
    "one each of three": Case(("X", "Y", ""), "", (), 0.0, "X Y none", "undecided"),
    "two pairs": Case(("X", "X", "Y", "Y"), "", (), 0.0, "X Y", "undecided"),
    "two of four": Case(("X", "X", "Y", ""), "", (), 0.0, "X", "undecided"),
    "three of five": Case(("Y", "X", "Y", "", "Y"), "Y", (3,), 0.6),
    "the weaker code by more votes": Case(("X", "Z", "Z"), "Z", (2,), 0.666667),
    "a failed vote does not count": Case(("X", "!", "X"), "X", (2,)),
    "nor does it decide": Case(("X", "Y", "!"), "", (), 0.0, "X Y", "undecided"),
    "nor does an undecided one": Case(("X", "X", "Y", "?"), "X", (2,), 0.666667),
    "one of two undecided": Case(("X", "?"), agreement=None, status="undecided"),
    "all undecided": Case(("?", "?"), agreement=None, status="undecided"),
    "one each, failed, undecided": Case(("X", "!", "?"), agreement=None, status="undecided"),
    "one of two failed": Case(("X", "!"), agreement=None, status="failed"),
    "two of three failed": Case(("X", "!", "!"), agreement=None, status="failed"),
    "two of four failed": Case(("X", "!", "X", "!"), agreement=None, status="failed"),
    "one vote": Case(("X",), "X", (1,)),
}
PRIMARY = ONE | {
    "a secondary code of all": Case(("X Y", "X Y"), "X Y", (2, 2)),
    "a secondary code of two in three": Case(("X Y", "X", "X Y"), "X Y", (3, 2)),
    "a secondary code of one in three": Case(("X Y", "X", "X"), "X", (3,)),
    "half is no majority": Case(("X Y", "X Y", "X", "X"), "X", (4,), 1.0, "Y"),
    "primary for one, secondary for others": Case(("X Y", "Y X", "X Y"), "X Y", (3, 3), 0.666667),
    "secondary codes by precedence": Case(("X Z Y", "X Y Z"), "X Y Z", (2, 2, 2)),
    "in every vote, primary in half of them": Case(("X Y", "Y X"), "X Y", (2, 2), 0.5),
    "found by two, primary for neither": Case(("X Z", "Y Z", ""), "Z", (2,), 0.0),
    "primary by votes before precedence": Case(("Y X", "Y X", "X Y"), "Y X", (3, 3), 0.666667),
    "each another": Case(("X", "Y", "Z"), "", (), 0.0, "X Y Z", "undecided"),
    "two found by half": Case(("X Z", "Y", "Y", "Z"), "", (), 0.0, "Y Z", "undecided"),
    "what not all have": Case(("X Y", "X Y", "X"), "X", (3,), require="unanimous"),
    "nothing that all have": Case(
        ("X", "X", "Y"), "", (), 0.0, "X", "undecided", require="unanimous"
    ),
    "not all none": Case(("", "", "X"), "", (), 0.0, "none", "undecided", require="unanimous"),
    "all none, unanimous": Case(("", ""), require="unanimous"),
    "whatever any has": Case(("Y X", "Z", ""), "Y X Z", (1, 1, 1), 0.333333, require="any"),
    "all none, any": Case(("", ""), require="any"),
}
GROUPED = {  # X: hallucination; Y and Z: unresponsiveness; W: repetition
    "each another group": Case(("X", "Y", "W"), "", (), 0.0, "X Y W", "undecided"),
    "two of three in one group": Case(("X", "Y", "Z"), "Y", (1,), 0.333333),
    "two of three, none beside": Case(("Z", "Y", ""), "Y", (1,), 0.333333),
    "votes in the group before precedence": Case(("Z", "Z", "Y", "X"), "Z", (2,), 0.5),
    "more votes for a code of a weaker group": Case(
        ("X", "X", "Y", "Z", "Z", "Y", "Y"), "Y", (3,), 0.428571
    ),
    "half in one group": Case(("Y", "Z", "", ""), "", (), 0.0, "Y Z none", "undecided"),
    "two groups level": Case(("Y", "Z", "X", "X"), "", (), 0.0, "X Y Z", "undecided"),
    "unanimous": Case(("Y", "Y"), "Y", (2,), require="unanimous"),
    "one group is not one code": Case(
        ("Y", "Z", "Y"), "", (), 0.0, "Y", "undecided", require="unanimous"
    ),
    "any": Case(("", "Y", ""), "Y", (1,), 0.333333, require="any"),
    "any: the group with more votes": Case(("X", "Y", "Z"), "Y", (1,), 0.333333, require="any"),
    "any: as many votes, by precedence": Case(("Y", "X", ""), "X", (1,), 0.333333, require="any"),
}
MANY = {
    "unanimous": Case(("X Y", "Y X"), "X Y", (2, 2)),
    "all none": Case(("", ""), ""),
    "code by code": Case(("X Y", "X", "X Z"), "X", (3,), 0.333333),
    "two of three": Case(("X Y", "X Y", ""), "X Y", (2, 2), 0.666667),
    "half": Case(("X", ""), "", (), 0.0, "X none", "undecided"),
    "each another": Case(("X", "Y", "Z"), "", (), 0.0, "X Y Z", "undecided"),
    "more codes than none, fewer votes": Case(("X", "Y", ""), "", (), 0.0, "X Y none", "undecided"),
    "any": Case(("X", "Y", ""), "X Y", (1, 1), 0.0, require="any"),
    "not unanimous": Case(("X", "Y"), "", (), 0.0, "X Y", "undecided", require="unanimous"),
    "half beside a majority": Case(("X Y", "X"), "X", (2,), 0.5, "Y"),
    "all half": Case(("X Y", ""), "", (), 0.0, "X Y none", "undecided"),
    "a failed vote does not count": Case(("X", "!", "X Y"), "X", (2,), 0.5, "Y"),
    "half undecided": Case(("X", "?"), agreement=None, status="undecided"),
    "half failed": Case(("X", "!"), agreement=None, status="failed"),
}
LETTERS = {
    "causes": dict(zip("XYZ", ("commitment", "expectation", "communication"), strict=True)),
    "symptoms": dict(zip("XYZ", load_rubric("symptoms").precedence[:3], strict=True)),
    "comm_errors": dict(zip("XYZW", ("C3a", "C1a", "C1b", "C4a"), strict=True)),
    "emergent": dict(
        zip("XYZ", ("negotiation", "resource_division", "role_division"), strict=True)
    ),
}
CASES = [
    pytest.param(name, case, id=f"{name}: {words}")
    for name, cases in zip(
        ("causes", "symptoms", "comm_errors", "emergent"),
        (ONE, PRIMARY, GROUPED, MANY),
        strict=True,
    )
    for words, case in cases.items()
]


def ballot(name: str, word: str, voter: int) -> tuple[int, Annotation]:
    """A vote as that voter alone would have recorded it; its evidence says whose it is."""
    rubric = load_rubric(name)
    blank = Annotation("t", name, rubric.sha256, f"llm:{voter}", "none")
    if word == "!":
        return 1, replace(blank, status="failed", error=f"voter {voter} is down")
    if word == "?":
        return 1, replace(blank, status="undecided", reason="not read")
    codes = tuple(LETTERS[name][letter] for letter in word.split())
    evidence = (Evidence(f"quote of {voter}", "message:1", 0, 10, "exact"),)
    return 1, replace(
        blank,
        status="labelled" if codes else "none",
        primary=None if name == "emergent" or not codes else codes[0],
        secondary=codes if name == "emergent" else codes[1:],
        findings=tuple(Finding(code, f"says {voter}", evidence) for code in codes),
    )


@pytest.mark.parametrize(("name", "case"), CASES)
def test_what_the_votes_elect(name, case):
    rubric = load_rubric(name)
    ballots = [ballot(name, word, n) for n, word in enumerate(case.ballots)]
    blank = Annotation("t", name, rubric.sha256, "llm:all", "none")
    one = elect(blank, ballots, rubric, case.require)
    codes = tuple(LETTERS[name][letter] for letter in case.codes.split())
    tie = sorted(LETTERS[name].get(letter, letter) for letter in case.tie.split())
    assert one.status == (case.status or ("labelled" if codes else "none"))
    assert (one.codes, list(one.tie)) == (codes, tie)
    assert one.primary == (codes[0] if codes and name != "emergent" else None)
    if one.status == "undecided":  # what any found can be read
        anything = {code for _, vote in ballots for code in vote.codes}
        assert {found.code for found in one.findings} == anything
    else:
        assert [found.code for found in one.findings] == list(codes)
        assert tuple(found.votes for found in one.findings) == case.votes
    assert one.agreement == case.agreement
    assert [vote.judge for vote in one.votes] == [f"llm:{n}" for n in range(len(ballots))]
    assert [vote.status == "failed" for vote in one.votes] == [word == "!" for word in case.ballots]
    failed = f"{case.ballots.count('!')} of {len(ballots)} votes failed; the first: voter 1 is down"
    assert one.error == (failed if one.status == "failed" else None)
    no = "no majority among the votes: " + ", ".join(tie)
    if case.require == "unanimous":
        no = "the votes are not unanimous: " + ", ".join(tie)
    lost = sum(word in ("!", "?") for word in case.ballots)
    gone = f"{lost} of {len(ballots)} votes failed or are undecided; the first: not read"
    gone = "not read" if set(case.ballots) == {"?"} else gone
    assert one.reason == ((no if tie else gone) if one.status == "undecided" else None)
    for found in one.findings:  # the first voter's words
        letter = next(key for key, code in LETTERS[name].items() if code == found.code)
        first = next(n for n, word in enumerate(case.ballots) if letter in word)
        assert (found.rationale, found.evidence[0].quote) == (f"says {first}", f"quote of {first}")


def test_an_annotation_with_votes_survives_its_json():
    rubric = load_rubric("emergent")
    blank = Annotation("t", "emergent", rubric.sha256, "llm:a+b", "none", usage=Usage(calls=4))
    ballots = [ballot("emergent", word, n) for n, word in enumerate(("X Y", "X", "!"))]
    no = Rejected("role_division", "not found", ("made up",))
    cut = replace(ballots[1][1], rejected=(no,), truncated={"message:1": 5})
    ballots[1] = (2, cut)
    one = elect(blank, ballots, rubric)
    assert (one.rejected, one.truncated, one.tie) == (
        (no,),
        {"message:1": 5},
        ("resource_division",),
    )
    assert one.votes[1] == Vote("llm:1", 2, "labelled", None, ("negotiation",))
    assert Annotation.from_json(one.to_json()) == one


# Over HTTP

QUOTES = (("message:1", "Which field holds the unit?"), ("message:2", TALK[1][1]))


def says(code: str) -> Reply:
    return finding(code, *QUOTES) if code else NOTHING


def totals(folder: Path) -> dict[str, object]:
    return json.loads((folder / "run.json").read_text())["totals"]


def as_billed(folder: Path, *servers: Server) -> None:
    """Whether a run counts the calls and tokens that its servers count."""
    counted = totals(folder)
    assert counted["calls"] == sum(server.calls for server in servers)
    assert counted["input_tokens"] == sum(server.tokens_in for server in servers)
    assert counted["output_tokens"] == sum(server.tokens_out for server in servers)


def test_samples_of_one_model(annotate_cli, runs, tmp_path):
    """Two of three samples find C1b, the second of them after a re-ask."""
    wrong = finding("C1b", QUOTES[1], ("message:1", "What nobody ever wrote"))

    def responder(request: Request) -> Reply:
        sample = request.body["seed"] - 6
        return (
            (wrong if not request.reask and sample == 3 else says("C1b"))
            if sample != 2
            else NOTHING
        )

    args = (runs(2), "--rubric", "comm_errors", "--model", "m", "--samples", "3", "--seed", "7")
    with Server(responder) as server:
        done = annotate_cli(*args, "--base-url", server.url, "--out", "out")
        assert done.code == 0, done.err
        as_billed(tmp_path / "out", server)
        again = annotate_cli(*args, "--base-url", server.url, "--out", "two")
        assert (again.code, server.calls) == (0, 2 * 4 + 1)  # and one tiny question for the form
    for one in annotations(tmp_path / "out").values():
        assert (one.judge, one.primary, one.findings[0].votes) == ("llm:m", "C1b", 2)
        assert [(vote.judge, vote.sample, vote.primary) for vote in one.votes] == [
            *(("llm:m", 1, "C1b"), ("llm:m", 2, None), ("llm:m", 3, "C1b"))
        ]
        assert (one.agreement, one.usage.calls, one.usage.retries) == (0.666667, 4, 1)


def test_models_at_two_servers_by_a_judge_file(annotate_cli, runs, tmp_path):
    with Server(lambda _: says("C1b")) as one, Server(forms=()) as two:
        file = tmp_path / "judge.yaml"
        first = f"{{model: a, base_url: '{one.url}', temperature: 0.5, price_in: 1, price_out: 3}}"
        second = f"{{model: b, base_url: '{two.url}', price_in: 2, price_out: 2}}"
        file.write_text(f"reasks: 1\nmodels:\n- {first}\n- {second}\n")
        done = annotate_cli(runs(2), "--rubric", "comm_errors", "--judge", file, "--out", "out")
        assert done.code == 0, done.err
        as_billed(tmp_path / "out", one, two)
        billed = one.tokens_in + 3 * one.tokens_out + 2 * (two.tokens_in + two.tokens_out)
        assert [request.body.get("temperature") for request in one.seen] == [0.5, 0.5]
        assert {request.form for request in two.seen} == {"plain"}
    assert totals(tmp_path / "out")["cost_usd"] == pytest.approx(billed / 1e6)
    for found in annotations(tmp_path / "out").values():
        assert [(vote.judge, vote.primary) for vote in found.votes] == [
            *(("llm:a", "C1b"), ("llm:b", None))
        ]


def test_a_key_that_one_model_refuses_stops_the_run(annotate_cli, runs, tmp_path):
    def responder(request: Request) -> Reply:
        third = sum(one.body["model"] == "b" for one in server.seen) >= 3
        if request.body["model"] == "b" and third:
            return Reply(status=401, error={"message": "expired"})
        return says("C1b")

    with Server(responder) as server:
        more = ("--base-url", server.url, "--model", "a", "--model", "b", "--concurrency", "1")
        done = annotate_cli(runs(6), "--rubric", "comm_errors", *more, "--out", "out")
        as_billed(tmp_path / "out", server)
    assert (done.code, "expired" in done.err) == (2, True)
    assert [len(one.votes) for one in annotations(tmp_path / "out").values()] == [2, 2]


def test_what_one_model_was_asked_when_another_refuses_the_key_is_counted(
    annotate_cli, runs, tmp_path
):
    def answer(request: Request) -> Reply:
        if request.body["model"] == "shut":
            return Reply(status=401, together=2, error={"message": "no such key"})
        return Reply(text="{}", wait=0.5)

    with Server(probe=answer) as server:
        models = ("--model", "shut", "--model", "slow", "--base-url", server.url)
        done = annotate_cli(runs(1), "--rubric", "comm_errors", *models, "--out", "out")
        assert (done.code, "no such key" in done.err) == (2, True), done.err
        assert server.calls == 2
    totals = json.loads((tmp_path / "out" / "run.json").read_text())["totals"]
    assert (totals["calls"], totals["unreported_calls"]) == (2, 1)


# Each of the three asked finds another error; the first two are of one group.
THREE = {"a": "C1b", "b": "C1a", "c": "C3a"}
DECIDED = {
    None: ("labelled", "C1a"),
    "majority": ("labelled", "C1a"),
    "unanimous": ("undecided", None),
    "any": ("labelled", "C1a"),
}


@pytest.mark.parametrize("require", DECIDED, ids=str)
def test_three_who_each_find_another_error_are_never_none(annotate_cli, runs, tmp_path, require):
    """C1a and C1b are of one group, and C1a stands first in the precedence."""
    with Server(lambda request: says(THREE[request.body["model"]])) as server:
        file = tmp_path / "judge.yaml"
        models = ", ".join(f"{{model: {name}}}" for name in THREE)
        words = f"require: {require}\n" if require else ""
        file.write_text(f"base_url: '{server.url}'\nmodels: [{models}]\n{words}")
        done = annotate_cli(runs(2), "--rubric", "comm_errors", "--judge", file, "--out", "out")
        [value] = json.loads(annotate_cli("report", "-v", "out", "--format", "json").out)
    assert done.code == 0, done.err
    for one in annotations(tmp_path / "out").values():
        assert (one.status, one.primary) == DECIDED[require]
        assert {vote.primary for vote in one.votes} <= {*THREE.values(), None}
    assert value["none"] == 0
    asked = json.loads((tmp_path / "out" / "run.json").read_text())["judge"]
    assert asked.get("require") == (None if require in (None, "majority") else require)


def test_the_first_sample_goes_alone_where_a_provider_may_cache(
    annotate_cli, runs, tmp_path, monkeypatch
):
    """Of each trace one answer is there before the others are asked for, and these go together."""
    answered: dict[str, int] = {}
    before: list[tuple[int, int]] = []
    lock = threading.Lock()

    def responder(request: Request) -> Reply:
        with lock:
            sample = request.body["seed"] - 6
            before.append((sample, answered.get(request.user, 0)))
            answered[request.user] = answered.get(request.user, 0) + 1
        return replace(NOTHING, wait=0.1) if sample == 1 else replace(NOTHING, together=2)

    with Server(responder) as server:
        file = tmp_path / "judge.yaml"
        monkeypatch.setattr("annotator.judges.llm.model.is_local", lambda url: False)
        file.write_text("model: m\nseed: 7\nsamples: 3\nmode: tools\n")
        args = (runs(3), "--rubric", "comm_errors", "--base-url", server.url, "--judge", file)
        done = annotate_cli(*args, "--no-cache", "--out", "out")
        assert done.code == 0, done.err
        asked = server.calls
        more = annotate_cli(*args, "--batch-file", "ask.jsonl", "--out", "batch")
        assert (more.code, server.calls) == (0, asked), more.err
    assert sorted(sample for sample, _ in before) == [1] * 3 + [2] * 3 + [3] * 3
    assert {sample for sample, seen in before if not seen} == {1}
    assert len((tmp_path / "ask.jsonl").read_text().splitlines()) == 9, "all samples in one go"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (set_model(require="any"), "require: any is about votes, and there is one"),
        ((*set_model(require="most"), "--samples", "2"), "'most'"),
    ],
)
def test_what_cannot_be_required(annotate_cli, runs, more, words):
    done = annotate_cli(runs(1), "--rubric", "comm_errors", "--model", "m", *more)
    assert (done.code, words in done.err) == (2, True), done.err


# Reports


def judged_by_two(n: int, first: str, second: str) -> Annotation:
    """A trace by two judges (an empty text is none), the first of them asked twice."""
    codes = {"A": "work_overlap", "B": "repetition"}
    labels = [codes.get(label) for label in (first, first, second)]
    votes = tuple(
        Vote(judge, sample, "labelled" if label else "none", label)
        for judge, sample, label in zip(("llm:x", "llm:x", "llm:y"), (1, 2, 1), labels, strict=True)
    )
    one = said(f"t{n}", *filter(None, labels[:1]))
    return replace(one, votes=votes, agreement=1.0 if first == second else 0.666667)


@pytest.fixture
def ten(tmp_path):
    """x: six A, four none; y: five A, five none; both alike in 4 + 3 of 10. po = 0.7,
    pe = 0.6 * 0.5 + 0.4 * 0.5 = 0.5, kappa = 0.4. A: in 7 traces, in every vote of 4 of them.
    """
    labels = ["AA"] * 4 + ["  "] * 3 + ["A "] * 2 + [" A"]
    return make_run(
        tmp_path / "ten", SYMPTOMS, [judged_by_two(n, *pair) for n, pair in enumerate(labels)]
    )


def test_kappa_and_flips_by_hand(ten):
    [table] = count_frequencies(open_run(ten))
    assert table.votes is not None
    kappas = {pair.name: (pair.kappa.value, pair.kappa.n) for pair in table.votes.pairs}
    assert kappas == {"llm:x again": (1.0, 10), "llm:x, llm:y": (pytest.approx(0.4), 10)}
    flip = table.votes.flips["work_overlap"]
    assert (flip.k, flip.n) == (3, 7)
    assert (table.votes.flips["repetition"].n, table.votes.flips["repetition"].value) == (0, None)
    assert (table.votes.unanimous.k, table.votes.unanimous.n) == (7, 10)


def test_every_format_says_how_far_the_votes_agree(annotate_cli, ten):
    shown = {name: annotate_cli("report", "-v", ten, "--format", name).out for name in FORMATS}
    for name in ("table", "md"):
        text = " ".join(shown[name].split())
        assert re.search(r"kappa llm:x, llm:y 0\.40 \(no interval: \d and \d .*\) n 10", text), text
        assert "work_overlap 3/7 42.9 %" in text
        assert "votes unanimous 7/10 70.0 %" in text
        # x agrees with itself, and with y by phi = (4 / 10 - .6 * .5) / sqrt(.24 * .25) = .408.
        # 3 / (1 + 2 * (1 + .408 + .408) / 3) = 1.36
        assert "3 votes count as about 1.4 independent ones (correlation 0.61, n 10)" in text
    rows = list(csv.DictReader(io.StringIO(shown["csv"])))
    assert [(row["flips"], row["flips_n"]) for row in rows if row["code"] == "work_overlap"] == [
        ("3", "7")
    ]
    [value] = json.loads(shown["json"])
    assert value["votes"]["effective"]["value"] == pytest.approx(1.357, abs=5e-4)
    pair = next(one for one in value["votes"]["pairs"] if one["second"] == "llm:y")
    assert (pair["first"], pair["n"], pair["value"]) == ("llm:x", 10, pytest.approx(0.4))
    assert value["votes"]["flips"]["work_overlap"]["k"] == 3


def test_votes_that_failed_are_counted_and_compared_with_nothing(tmp_path):
    down = Vote("llm:y", 1, "failed", error="down")
    ones = [judged_by_two(1, "A", "A"), judged_by_two(2, "A", "A")]
    ones[1] = replace(ones[1], votes=(*ones[1].votes[:2], down))
    [table] = count_frequencies(open_run(make_run(tmp_path / "run", SYMPTOMS, ones)))
    assert table.votes is not None
    assert (table.votes.failed, table.votes.unanimous.k) == (1, 1)
    assert {pair.name: pair.kappa.n for pair in table.votes.pairs}["llm:x, llm:y"] == 1
    assert "1 votes in judged traces failed" in render(tabulate([table]), "table")


def test_a_vote_that_is_missing_makes_no_trace_unanimous(annotate_cli, tmp_path):
    """Two traces with all votes, one of them unanimous: 1/2, and A flips in 1 of 1. Three more lack
    votes: what is left of these says neither.
    """
    full = [judged_by_two(1, "A", ""), judged_by_two(2, "", "")]
    part = [judged_by_two(n, "A", "A") for n in (3, 4)]
    part = [replace(one, votes=(one.votes[0], Vote("llm:y", 1, "failed"))) for one in part]
    alone = replace(part[0], trace_id="u", status="undecided", primary=None)
    run = make_run(tmp_path / "run", SYMPTOMS, [*full, *part, alone])
    text = " ".join(annotate_cli("report", "-v", run).out.split())
    assert re.search(r"votes unanimous 1/2 50\.0 % \[.*?\], votes missing in 3 traces", text), text
    assert "of those with any (where no vote is missing) work_overlap 1/1 100.0 %" in text
    [value] = json.loads(annotate_cli("report", run, "--format", "json").out)
    assert value["votes"]["incomplete"] == 3


def test_undecided_votes_of_judged_traces_are_told(tmp_path):
    open_ = Vote("llm:z", 1, "undecided", reason="read 5 % of it")
    ones = [judged_by_two(n, "A", "A") for n in (1, 2)]
    ones[0] = replace(ones[0], votes=(*ones[0].votes, open_))
    ones[1] = replace(ones[1], votes=(open_,), status="undecided", primary=None, secondary=())
    [table] = count_frequencies(open_run(make_run(tmp_path / "run", SYMPTOMS, ones)))
    told = "1 votes in judged traces were undecided and were not counted."
    assert told in table.notes


def test_why_traces_with_votes_are_undecided_is_told(tmp_path):
    """Two had too few votes that count, two a tie, and one was undecided in every vote."""
    open_ = Vote("llm:z", 1, "undecided", reason="unclear")
    lost = (open_, Vote("llm:y", 1, "failed", error="down"), Vote("llm:x", 1, "none"))
    why = "2 of 3 votes failed or are undecided; the first: unclear"
    even = (Vote("llm:x", 1, "none"), Vote("llm:y", 1, "labelled", primary="work_overlap"))
    ones = [
        replace(said(f"t{n}", status="undecided"), reason=reason, votes=votes, tie=tie)
        for n, (reason, votes, tie) in enumerate(
            [
                (why, lost, ()),
                (why, lost, ()),
                ("unclear", (open_, open_), ()),
                ("a tie", even, ("work_overlap", "none")),
                ("a tie", even, ("work_overlap", "none")),
            ]
        )
    ]
    [table] = count_frequencies(open_run(make_run(tmp_path / "run", SYMPTOMS, ones)))
    assert table.votes is not None
    assert (table.votes.ties, table.votes.failed) == (2, 2)
    for told in (
        "2 undecided traces had no code with enough votes (tie).",
        "2 undecided traces had too few votes that count.",
        "1 undecided trace was left undecided by the judge.",
    ):
        assert told in table.notes


def test_a_rubric_of_many_codes_has_flips_and_no_kappa(annotate_cli, runs, tmp_path):
    """Both find the role division, one a negotiation besides: labelled, and no trace without."""
    roles = (("message:1", "I take the parser module."), ("message:2", TALK[1][1]))
    both = {"label": "some", "findings": []}
    for code, quotes in (("role_division", roles), ("negotiation", QUOTES)):
        both["findings"] += finding(code, *quotes).answer["findings"]

    def responder(request: Request) -> Reply:
        one = finding("role_division", *roles, label="some")
        return one if request.body["model"] == "a" else Reply(answer=both)

    with Server(responder) as server:
        more = ("--base-url", server.url, "--model", "a", "--model", "b", "--out", "out")
        done = annotate_cli(runs(2, passed=True), "--rubric", "emergent", *more, "-v")
    assert done.code == 0, done.err
    assert {one.codes for one in annotations(tmp_path / "out").values()} == {("role_division",)}
    [value] = json.loads(annotate_cli("report", "-v", "out", "--format", "json").out)
    assert value["votes"]["pairs"] == []
    assert "kappa" not in done.out
    flips = {code: (one["k"], one["n"]) for code, one in value["votes"]["flips"].items()}
    assert flips == {"role_division": (0, 2), "resource_division": (0, 0), "negotiation": (2, 2)}
    assert "of the traces counted as none" not in done.out
    assert "2 labelled traces had codes beside that exactly half of the votes have" in done.out


def test_votes_on_traces_of_one_task_are_not_independent(tmp_path):
    """Eight tasks of five: two judges agree in all traces of four of them and in none of the other
    four. Unanimous are 20 of 40; task totals are 5 or 0 of 5, so the design effect is 8/7 times 5.
    """
    agreed, apart = ("AA", "  "), ("A ", " A")
    pairs = [(agreed if n // 5 % 2 else apart)[n % 2] for n in range(40)]
    traces = [
        replace(judged_by_two(n, *pair), attributes={"project": "p", "task": str(n // 5)})
        for n, pair in enumerate(pairs)
    ]
    run = open_run(make_run(tmp_path / "run", SYMPTOMS, traces))
    over_tasks, alone = (count_frequencies(run, cluster=cluster)[0].votes for cluster in (None, ()))
    assert over_tasks is not None
    assert alone is not None
    assert over_tasks.unanimous.design_effect == pytest.approx(40 / 7)
    assert (alone.unanimous.k, alone.unanimous.n, alone.unanimous.design_effect) == (20, 40, None)
    assert over_tasks.unanimous.low < alone.unanimous.low
    flips = [votes.flips["work_overlap"] for votes in (over_tasks, alone)]
    assert [(flip.k, flip.n) for flip in flips] == [(20, 28)] * 2
    assert flips[0].high > flips[1].high
    kappas = [votes.pairs[1].kappa for votes in (over_tasks, alone)]
    assert kappas[0].value == kappas[1].value
    assert kappas[0].low is not None
    assert kappas[1].low is not None
    assert kappas[0].low < kappas[1].low
