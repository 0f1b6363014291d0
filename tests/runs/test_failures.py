"""Runs of which everything fails: when they stop, what they print, and how they go on."""

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from annotator.rubrics.annotations import Annotation
from tests.conftest import read_overview, set_model
from tests.judges.ask import RIGHT
from tests.runs.test_run import annotations, llm, statuses
from tests.server import Reply, Request, Responder, Server, finding

ARGS = ("logs", "--rubric", "comm_errors")
ONE_CALL = ("--concurrency", "1", *set_model(mode="tools", reasks=0))


def word(request: Request) -> str:
    """Another word for each request, without a digit."""
    return "".join(chr(ord("a") + int(digit)) for digit in str(request.n))


def status(folder: Path) -> str:
    return str(json.loads((folder / "run.json").read_text())["status"])


def number_of(request: Request) -> int:
    """The number of the run that is asked about."""
    return int(re.findall(r"This was run (\d+)\.", request.user)[0])


def place_of(request: Request, traces: int) -> int:
    """The place of the run that is asked about among so many, in the order of their ids."""
    return sorted(map(str, range(1, traces + 1))).index(str(number_of(request)))


# --- 18 of the last 20

# A letter for each trace in turn, x fails; and after how many traces the run stops.
STOPS = {
    "all fail": ("x" * 30, 20),
    "18 of 20": (".." + "x" * 28, 20),
    "17 of 20": ("..." + "x" * 17 + "...", None),
    "in the middle of a run": ("." * 10 + "x" * 20, 28),
    "fewer than 20": ("x" * 19, None),
    "nothing is left to judge": ("x" * 20, None),
}


@pytest.mark.parametrize(("traces", "stop"), STOPS.values(), ids=STOPS)
def test_a_run_stops_when_18_of_the_last_20_traces_failed(
    annotate_cli, runs, tmp_path, traces, stop
):
    runs(len(traces))
    left = iter(traces)
    with Server(lambda _: RIGHT) as server:
        args = (*ARGS, *llm(server, *ONE_CALL), "--out", "out")
        server.responder = lambda one: Reply(refusal=word(one)) if next(left) == "x" else RIGHT
        done = annotate_cli(*args)
        assert len(server.seen) == (stop or len(traces))
        assert (done.code, status(tmp_path / "out")) == (1, "stopped" if stop else "finished")
        judged = traces[: stop or len(traces)]
        kept = {"failed": judged.count("x"), "labelled": judged.count(".")}
        assert statuses(tmp_path / "out") == {name: n for name, n in kept.items() if n}
        assert ("of the last 20 judgements" in done.err) == bool(stop)
        server.responder = lambda _: RIGHT
        again = annotate_cli(*args, "--resume")
        assert (again.code, statuses(tmp_path / "out")) == (0, {"labelled": len(traces)}), again.err


# A letter for each trace, x is refused at once and . is answered later; calls in flight at a time;
# traces judged in the end. Stopping at once would throw away answers that are paid for.
SLOW = {
    "every second one fails": ("x." * 30, 40, 60),
    "the first are good, then all fail": ("." * 10 + "x" * 50, 12, None),
}


@pytest.mark.parametrize(("traces", "flight", "judged"), SLOW.values(), ids=SLOW)
def test_answers_in_flight_are_awaited_and_recorded_before_a_run_stops(
    annotate_cli, runs, tmp_path, traces, flight, judged
):
    runs(len(traces))

    def answer(one: Request) -> Reply:
        refused = traces[place_of(one, len(traces))] == "x"
        return Reply(refusal=word(one)) if refused else replace(RIGHT, wait=1.5)

    with Server(answer) as server:
        args = ("--concurrency", str(flight), *set_model(mode="tools"))
        annotate_cli(*ARGS, *llm(server, *args), "--out", "out")
        seen = len(server.seen)
    found = statuses(tmp_path / "out")
    assert (found["labelled"], sum(found.values())) == (traces.count("."), seen)
    assert status(tmp_path / "out") == ("finished" if seen == judged else "stopped")
    assert judged in (None, seen)


def test_a_resumed_run_gets_past_traces_that_always_fail(annotate_cli, runs, tmp_path):
    """Of 40 traces the first 20 are always refused."""
    runs(40)
    with Server() as server:
        server.responder = lambda one: Reply(refusal="no") if place_of(one, 40) < 20 else RIGHT
        args = (*ARGS, *llm(server, *ONE_CALL), "--out", "out")
        assert (annotate_cli(*args).code, statuses(tmp_path / "out")) == (1, {"failed": 20})
        assert annotate_cli(*args, "--resume").code == 1
    assert statuses(tmp_path / "out") == {"failed": 20, "labelled": 20}
    assert status(tmp_path / "out") == "finished"


TAGS = {"first_tag": "first-0", "last_tag": "last-0", "considered": []}

# What a server answers to every trace, each time in other words, and what that is called.
KINDS: dict[str, Responder] = {
    "quotes": lambda one: finding("C1b", ("message:1", word(one)), ("message:2", word(one))),
    "tags": lambda one: Reply(
        answer=TAGS | {"last_tag": word(one), "findings": [], "label": "none"}
    ),
    "form": lambda one: Reply(text=word(one)),
    "refusal": lambda one: Reply(refusal=word(one)),
    "length": lambda one: Reply(text=word(one), finish="length"),
    "server": lambda one: Reply(status=503, error={"message": word(one)}),
}


@pytest.mark.parametrize(
    ("kind", "more"), [*((kind, ()) for kind in KINDS), ("refusal", ("--samples", "2"))]
)
def test_where_everything_fails_no_call_begins_after_the_stop_and_no_table_is_printed(
    annotate_cli, runs, tmp_path, kind, more
):
    """Of 60 traces 20 are judged, and at most the 7 that were in flight with the last of them."""
    runs(60)
    with Server(KINDS[kind]) as server:
        quick = set_model(attempts=1, mode="tools", reasks=1)
        done = annotate_cli(*ARGS, *llm(server), *quick, *more, "--out", "out")
        calls = len(server.seen)
        assert calls <= (20 + 8) * 2 * (2 if more else 1)
    assert (done.code, status(tmp_path / "out")) == (1, "stopped")
    found = annotations(tmp_path / "out").values()
    assert 20 <= len(found) <= 27
    state = "undecided" if kind == "quotes" else "failed"
    assert {(one.status, one.failure) for one in found} == {(state, kind)}
    n = len(found)
    assert annotate_cli("report", "out", "--format", "html").code == 0
    page = read_overview(tmp_path / "out" / "report.html")
    others = [annotate_cli("report", "out", "--format", form).out for form in ("md", "latex")]
    for text in (page, *others):
        assert f"{kind}: {n} traces {state}" in text
        assert "No table: no trace could be judged." in text
        assert "| C1a |" not in text
        assert "\nC1a &" not in text
    for text in (done.out, annotate_cli("report", "out").out):
        assert f"{kind}: {n} traces {state}\n  for example night/coop/shop_task/" in text
        assert "\nC1a " not in text
        assert text.rstrip().endswith("The run is not finished (status: stopped).") or more
    assert f"({kind} 20)" in done.err
    assert ("--out out --resume" in done.err) == (state == "failed")  # not of undecided traces
    told = f"the first failure: night/coop/shop_task/{min(1, n)}"
    assert (told in done.err) == (state == "failed")
    [table] = json.loads(annotate_cli("report", "out", "--format", "json").out)
    assert table["failed_because"] == ({kind: n} if state == "failed" else {})
    assert len(table["rows"]) == 8
    assert annotate_cli("report", "out", "--format", "csv").out.count("\n") >= 9


def test_a_short_run_without_a_true_quote_judged_nothing(annotate_cli, runs, tmp_path):
    """Three traces are too few to stop."""
    runs(3)
    with Server(KINDS["quotes"]) as server:
        done = annotate_cli(*ARGS, *llm(server, *ONE_CALL), "--out", "out")
    assert (done.code, statuses(tmp_path / "out")) == (1, {"undecided": 3})
    assert "for example night/coop/shop_task/1/f1_f2: quote " in done.out


ODD: tuple[tuple[str, ...], ...] = ((), ("--engine", "tests.runs.test_engines:Threads"))


@pytest.mark.parametrize("engine", ODD, ids=["one process", "an engine"])
def test_traces_that_failed_before_do_not_stop_a_resumed_run(annotate_cli, runs, tmp_path, engine):
    """Every second of 46 traces is refused: a run that is resumed has only these before it."""
    runs(46)
    with Server() as server:
        server.responder = lambda one: Reply(refusal=word(one)) if number_of(one) % 2 else RIGHT
        args = (*ARGS, *llm(server, *ONE_CALL), *engine, "--out", "out")
        for more, calls in (((), 46), (("--resume",), 46 + 23)):
            done = annotate_cli(*args, *more)
            assert (done.code, len(server.seen)) == (1, calls), done.err
            assert status(tmp_path / "out") == "finished"
            assert statuses(tmp_path / "out") == {"labelled": 23, "failed": 23}
    assert "23 failed: 23 refusal" in done.err


def test_failures_are_grouped_by_kind_with_what_to_do(annotate_cli, runs):
    """Of 9 runs 4 are refused, 2 have no server, 3 are judged."""
    runs(9)
    answers = {n: Reply(refusal="not me") for n in (1, 2, 3, 4)}
    answers |= {n: Reply(status=503, error={"message": "busy"}) for n in (5, 6)}
    with Server(lambda one: answers.get(number_of(one), RIGHT)) as server:
        args = (*ARGS, *llm(server, *ONE_CALL), *set_model(attempts=1), "--out", "out")
        done = annotate_cli(*args)
        [line] = [x for x in done.err.splitlines() if x.endswith("    judge failed traces again")]
        command = shlex.split(line.partition("    ")[0].removeprefix("next: annotate "))
        every = annotate_cli(*command, "-v").err  # as it is printed
    ids = [f"night/coop/shop_task/{n}/f1_f2" for n in range(7)]
    expected = [
        "6 failed: 4 refusal, 2 server",
        "  refusal (4): the model refuses: not me",
        "    The model or its filter refuses these traces. Try another model.",
        f"    {ids[1]}, {ids[2]} and 2 more",
        "  server (2): HTTP 503: busy (the last of 1 attempts)",
        "    Read the message above; check that the server runs.",
        f"    {ids[5]}, {ids[6]}",
        "  all of them: status failed in out/annotations.jsonl",
    ]
    printed = done.err.splitlines()  # where notices of four blanks are joined
    assert " ".join(line.strip() for line in expected) in " ".join(x.strip() for x in printed)
    assert all(f"{ids[n]}: the model refuses: not me" in every for n in (1, 2, 3, 4))


def test_a_judge_of_ones_own_that_always_fails_stops_too(annotate_cli, runs, tmp_path):
    runs(25)
    judge = "tests.judges.strange_judges:Raises"
    done = annotate_cli(*ARGS, "--judge", judge, "--out", "out", "--concurrency", "1")
    assert (done.code, statuses(tmp_path / "out")) == (1, {"failed": 20}), done.err
    assert "judgements failed (other 20)" in done.err


def test_traces_that_cannot_be_read_do_not_stop_a_run(annotate_cli, tmp_path):
    talk = [{"role": "a", "content": "Is it done?"}, {"role": "b", "content": "no"}]
    good = json.dumps({"messages": talk})
    (tmp_path / "t.jsonl").write_text("\n".join([good, *["{"] * 30, good]) + "\n")
    done = annotate_cli("t.jsonl", "--rubric", "comm_errors", "--out", "out")
    found = annotations(tmp_path / "out").values()
    assert (done.code, status(tmp_path / "out")) == (1, "finished")
    assert [one.failure for one in found].count("unreadable") == 30
    assert len(found) == 32


def test_lines_of_older_versions_have_no_kind_and_are_read(annotate_cli, runs, tmp_path):
    runs(2)
    with Server(KINDS["refusal"]) as server:
        annotate_cli(*ARGS, *llm(server, *ONE_CALL), "--out", "out")
    file = tmp_path / "out" / "annotations.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert {line.pop("failure") for line in lines} == {"refusal"}
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert Annotation.from_json(json.dumps(lines[0])).failure is None
    assert "other: 2 traces failed\n  for example night/" in annotate_cli("report", "out").out


def test_none_judged_is_exit_code_1(annotate_cli, runs):
    done = annotate_cli(runs(2, passed=True), "--rubric", "symptoms")
    assert (done.code, "skipped: 2 traces skipped" in done.out) == (1, True), done.out
