"""`annotate stats`: numbers worked out by hand on runs written by hand."""

import csv
import io
import json
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import trapezoid

from annotator.api import summarize
from annotator.base.errors import AnnotatorError
from annotator.cooperbench.stats import Stats, StatsCounts, compute_statistics, parse_channel
from annotator.cooperbench.stats.difficulty import compute_areas, find_bucket
from annotator.reports.table import FORMATS, render
from annotator.reports.tables.stats import tabulate
from annotator.traces import Ignored, Message, Outcome, Trace, Unreadable, read_traces
from tests.conftest import PATCHES, write_run
from validation import compute_wilson_interval, estimate_paired_difference

PLAN = ("agent1", "I will add the parser in shop/parser.py, lines 10-20.")
QUESTION = ("agent2", "Which field holds the unit?")
UPDATE = ("agent2", "Done: I added the printer and all tests pass.")
NOTHING = ("agent1", "Hello there.")


def place(root: Path, number: int, setting: str = "coop", run: str = "night", task: int = 0):
    return root / "logs" / run / setting / "shop_task" / str(task or number) / "f1_f2"


def run(root, number, talk=(), *, merge="clean", passed=True, setting="coop", model="m", **at):
    folder = write_run(place(root, number, setting, **at), list(talk), merge=merge, passed=passed)
    if setting == "solo":
        (folder / "conversation.json").unlink()
        for file in folder.glob("*.patch"):
            file.unlink()
        edit(folder / "eval.json", merge=None)
    edit(folder / "result.json", setting=setting, model=model)
    return folder


def count(traces, **options) -> Stats:
    counted = StatsCounts(**options)
    for trace in traces:
        counted.add(trace)
    return compute_statistics(counted)


def stats(root: Path, **options) -> Stats:
    return count(read_traces([str(root / "logs")]), **options)


def edit(file: Path, **changes) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def merged(root: Path, number: int, merge: str, strategy: str, *, passed: bool) -> None:
    folder = run(root, number, [PLAN], passed=passed)
    edit(folder / "eval.json", merge={"status": merge, "strategy": strategy})


def pair(root: Path, task: int, solo: str, coop: str, model: str = "m") -> None:
    """Runs of one task, a letter each: p passed, f failed."""
    for setting, ends in (("solo", solo), ("coop", coop)):
        for n, end in enumerate(ends):
            at = {"run": f"{model}{n}", "task": task}
            run(root, n, setting=setting, passed=end == "p", model=model, **at)


@pytest.fixture
def talks(tmp_path):
    run(tmp_path, 1, [PLAN, UPDATE, PLAN, UPDATE], merge="clean")
    run(tmp_path, 2, [PLAN, QUESTION], merge="identical")
    run(tmp_path, 3, [QUESTION, QUESTION, PLAN], merge="conflicts", passed=False)
    run(tmp_path, 4, [PLAN], merge="conflicts", passed=False)
    run(tmp_path, 5, [NOTHING], merge="missing_input", passed=None)
    run(tmp_path, 6, [], merge="conflicts", passed=False)
    return tmp_path


def measures(found: Stats):
    return {one.name: one for one in found.groups[0].communication.measures}


@pytest.mark.parametrize(
    ("measure", "clean", "conflict", "every"),
    [
        # The fifth run tells no merge where the outcome is missing: it is in "every" only.
        ("messages per run", 3.0, 2.0, 11 / 5),
        ("plans per question", 3.0, 1.0, 5 / 3),
        ("file path mentions per run", 3 / 2, 1.0, 1.0),
        ("line number mentions per run", 3 / 2, 1.0, 1.0),
    ],
)
def test_messages_in_runs_with_and_without_a_conflict(talks, measure, clean, conflict, every):
    found = measures(stats(talks))[measure]
    values = (found.clean.value, found.conflict.value, found.every.value)
    assert values == pytest.approx((clean, conflict, every))
    if measure == "messages per run":
        assert (found.clean.n, found.conflict.n, found.every.n) == (2, 2, 5)


def test_runs_without_messages_and_without_a_merge_are_counted(talks):
    talk = stats(talks).groups[0].communication
    assert (talk.runs, talk.silent, talk.unmerged) == (5, 1, 1)
    for one in talk.steps:
        assert (one.share.value, one.share.n) == (None, 0)
        assert one.share.reason == "no trace tells the steps of its agents"


def test_runs_that_tell_no_task_are_each_of_their_own():
    found = count(
        Trace(f"t{n}", "generic", "", outcome=Outcome(passed=True),
              attributes={"setting": "solo"} | ({"project": "p", "task": task} if task else {}))
        for n, task in enumerate(["1", "1", "2", None, None, None])
    )  # fmt: skip
    assert found.groups[0].tasks == 5
    assert "Without a task, so in no curve: 3 runs." in found.notes


def test_tasks_with_solo_runs_alone_are_not_resampled(talks):
    before = measures(stats(talks))
    for task in range(40, 50):
        run(talks, 1, setting="solo", task=task)
    assert measures(stats(talks)) == before


def test_without_questions_the_ratio_has_a_reason(tmp_path):
    run(tmp_path, 1, [PLAN])
    ratio = measures(stats(tmp_path))["plans per question"]
    assert (ratio.clean.value, ratio.clean.reason) == (None, "no questions")
    assert ratio.conflict.reason == "no such runs"


def test_conflict_rate_by_the_first_message(talks):
    talk = stats(talks).groups[0].communication
    rates = {one.of: (one.conflicts.inputs["k"], one.conflicts.n) for one in talk.openings}
    assert rates == {
        "first message is a plan": (1, 3),
        "first message is no plan": (1, 1),
        "did not speak": (1, 1),
        "all": (3, 5),
        "nothing to merge": (0, 0),
    }


def two_groups(root: Path, clean: tuple[int, int], conflict: tuple[int, int]) -> None:
    """Clean runs that open with a plan and conflicts that do not: so many runs of so many tasks."""
    for name, (runs, tasks), talk, merge in (
        ("clean", clean, [PLAN, QUESTION], "clean"),
        ("conflict", conflict, [QUESTION, PLAN, QUESTION], "conflicts"),
    ):
        for n in range(runs):
            run(root, n, talk, merge=merge, run=f"{name}{n}", task=1 + n % tasks)


@pytest.mark.parametrize(
    ("clean", "conflict", "cluster", "small"),
    [
        ((10, 5), (10, 5), ("project", "task"), None),
        ((10, 5), (9, 5), ("project", "task"), ("conflict", "no plan", "9 runs of 5 tasks")),
        ((10, 4), (10, 5), ("project", "task"), ("conflict-free", "a plan", "10 runs of 4 tasks")),
        ((10, 1), (10, 1), (), None),
        ((1, 1), (10, 1), (), ("conflict-free", "a plan", "1 run")),
    ],
)
def test_a_difference_needs_ten_runs_of_five_tasks_on_both_sides(
    tmp_path, clean, conflict, cluster, small
):
    two_groups(tmp_path, clean, conflict)
    found = stats(tmp_path, cluster=cluster)
    gap, rows = found.groups[0].communication.difference, measures(found)
    gaps = {"conflicts": gap} | {name: rows[name].difference for name in rows}
    text = {name: render(tabulate(found), name) for name in FORMATS}
    if small is None:
        # Conflicts 0 - 1, messages 2 - 3, plans per question 1/1 - 1/2.
        values = [gaps[name].value for name in ("conflicts", "messages per run")]
        assert [*values, gaps["plans per question"].value] == [-1.0, -1.0, 0.5]
        assert "difference, plan minus no plan: -100.0" in text["table"]
        return
    state, opening, size = small
    for name, one in gaps.items():
        assert (one.value, one.low, one.high, one.method) == (None, None, None, "none")
        group = f"first message is {opening}" if name == "conflicts" else state
        assert one.reason == f"{group}: {size}; a difference needs 10 runs of 5 tasks"
    assert "-100.0" not in "".join(text.values())
    assert all(gap.reason in shown for shown in text.values())


@pytest.mark.parametrize(
    ("talk", "why"),
    [
        ([PLAN, QUESTION], "no such runs: first message is no plan"),
        ([], "no such runs: first message is a plan, first message is no plan"),
    ],
)
def test_without_a_second_group_there_is_no_difference(tmp_path, talk, why):
    run(tmp_path, 1, talk, merge="clean")
    run(tmp_path, 2, talk, merge="conflicts")
    difference = stats(tmp_path).groups[0].communication.difference
    assert (difference.value, difference.reason) == (None, why)


def trajectory(folder: Path, agent: int, calls: int) -> None:
    """A trajectory with so many calls, what each returned, and one remark."""
    steps = [{"role": "assistant", "content": "Let me see."}]
    for _ in range(calls):
        steps.append({"role": "assistant", "content": "[tool_use Bash] {}"})
        steps.append({"role": "user", "content": "[tool_result] done"})
    (folder / f"agent{agent}_traj.json").write_text(json.dumps({"messages": steps}))


def test_messages_are_a_share_of_the_calls_of_the_agents_whose_steps_are_known(tmp_path):
    one = run(tmp_path, 1, [PLAN, UPDATE, QUESTION, PLAN, NOTHING])
    trajectory(one, 1, 6)  # agent1: two plans and nothing
    trajectory(one, 2, 4)  # agent2: an update and a question
    two = run(tmp_path, 2, [PLAN, UPDATE])
    trajectory(two, 1, 10)  # agent2 has no trajectory: its update does not count
    run(tmp_path, 3, [PLAN])
    (run(tmp_path, 4, [PLAN]) / "agent1_traj.json").write_text("[]")
    found = stats(tmp_path)
    shares = {one.of: one.share for one in found.groups[0].communication.steps}
    counts = {"all": 6, "plan": 3, "question": 1, "update": 1, "other": 1}
    assert {name: share.inputs["k"] for name, share in shares.items()} == counts
    assert {share.n for share in shares.values()} == {20}
    assert shares["plan"].value == 3 / 20
    assert shares["all"].inputs["runs"] == 2
    assert any("in no share of steps: 1 run." in note for note in found.notes)
    # Where no call is named, a step is what an agent wrote.
    steps = [{"role": role, "content": role} for role in ("user", "assistant", "user", "assistant")]
    folder = run(tmp_path / "wrote", 1, [PLAN])
    (folder / "agent1_traj.json").write_text(json.dumps({"messages": steps}))
    [share, *_] = [one.share for one in stats(tmp_path / "wrote").groups[0].communication.steps]
    assert (share.value, share.n) == (1 / 2, 2)


def test_without_tasks_intervals_are_wilsons_and_newcombes(talks):
    talk = stats(talks, cluster=()).groups[0].communication
    share, plain = talk.openings[0].conflicts, compute_wilson_interval(1, 3)
    assert (share.low, share.high) == (plain.low, plain.high)
    assert share.inputs["clusters"] is None


def test_runs_of_one_task_have_a_design_effect(tmp_path):
    for task, merge in ((1, "clean"), (2, "conflicts"), (3, "clean"), (4, "conflicts")):
        for n in range(4):
            run(tmp_path, n, [PLAN], merge=merge, run=f"r{n}", task=task)
    share = stats(tmp_path).groups[0].communication.openings[0].conflicts
    assert (share.value, share.n, share.inputs["clusters"]) == (0.5, 16, 4)
    # All runs of a task are the same: 4 tasks tell as much as 4 runs, times G / (G - 1).
    assert share.inputs["design_effect"] == pytest.approx(4 * 4 / 3)


def test_a_merge_of_unknown_word_says_nothing_of_its_steps(tmp_path):
    run(tmp_path, 1, [], merge="clean")
    run(tmp_path, 2, [], merge="merged")
    steps = stats(tmp_path, cluster=()).groups[0].merge_success[0]
    assert (steps.naive.n, steps.naive.value, steps.final.n) == (1, 1.0, 1)


def test_merges_by_strategy_and_what_passed_after_each_step(tmp_path):
    merged(tmp_path, 1, "clean", "naive", passed=True)
    merged(tmp_path, 2, "conflicts", "union", passed=True)
    merged(tmp_path, 3, "conflicts", "union", passed=False)
    merged(tmp_path, 4, "conflicts", "solo-agent1", passed=True)
    group = stats(tmp_path, cluster=()).groups[0]
    rows = {(one.merge, one.strategy): one for one in group.merges}
    assert rows["conflicts", "union"].share.value == 2 / 4
    assert rows["conflicts", "union"].passed.value == 1 / 2
    steps = group.merge_success[0]
    assert [one.value for one in (steps.naive, steps.union, steps.final)] == [1 / 4, 2 / 4, 3 / 4]
    plain = compute_wilson_interval(1, 4)  # what a step adds is a share of the same runs
    for gain in (steps.union_gain, steps.final_gain):
        assert (gain.value, gain.low, gain.high) == (1 / 4, plain.low, plain.high)


def test_without_union_merges_their_success_is_not_known(tmp_path):
    """Those of another setting are of that one."""
    merged(tmp_path, 1, "clean", "naive", passed=True)
    others = [
        Trace(strategy, "generic", "", attributes={"setting": "team"},
              outcome=Outcome(passed=True, merge="conflicts", strategy=strategy))
        for strategy in ("naive", "union")
    ]  # fmt: skip
    found = count([*read_traces([str(tmp_path / "logs")]), *others])
    steps, team = found.groups[0].merge_success
    assert team.union.value == 0.5
    assert steps.union.value is None
    assert steps.union.reason == steps.union_gain.reason == "no union merges"
    assert steps.final_gain.value == 0.0


def paired_rows(found: Stats):
    return {one.of: one for one in found.groups[0].paired}


def test_runs_with_and_without_messages_are_compared_on_the_same_pairs(tmp_path):
    # Clean merges. Task 1: 1/2 with messages, 1/1 without; task 2: 1/1 and 0/1; task 3 has no
    # partner; tasks 4 to 6: 1/1 and 1/1.
    run(tmp_path, 1, [PLAN], merge="clean", task=1, run="a")
    run(tmp_path, 1, [PLAN], merge="conflicts", passed=False, task=1, run="b")
    run(tmp_path, 1, [], merge="clean", passed=False, task=1, run="c")
    run(tmp_path, 1, [PLAN], merge="clean", task=2, run="a")
    run(tmp_path, 1, [], merge="conflicts", passed=False, task=2, run="c")
    run(tmp_path, 1, [PLAN], merge="conflicts", passed=False, task=3, run="a")
    few = paired_rows(stats(tmp_path))["merged without a conflict"]
    assert (few.first.value, few.second.value, few.difference.value) == (0.75, 0.5, None)
    assert few.difference.reason == "2 pairs of 2 tasks; a difference needs 5 pairs of 5 tasks"
    for task in (4, 5, 6):
        run(tmp_path, 1, [PLAN], merge="clean", task=task, run="a")
        run(tmp_path, 1, [], merge="clean", passed=False, task=task, run="c")
    found = paired_rows(stats(tmp_path))
    clean, passed = found["merged without a conflict"], found["passed, in the end"]
    assert clean.groups == ("spoke", "did not speak")
    assert (clean.first.value, clean.second.value) == (0.9, 0.8)
    assert (clean.difference.value, clean.difference.n) == (pytest.approx(0.1), 5)
    assert clean.difference.method == "cluster_bootstrap_percentile"
    assert (passed.first.value, passed.second.value) == (0.9, 0.0)
    union = found["passed, then union"]
    assert (union.difference.value, union.difference.reason) == (None, "no union merges")


def test_single_runs_of_tasks_of_their_own_have_newcombes_interval_for_pairs(tmp_path):
    ends = ["cc", "cx", "cx", "xc", "xx"]  # with and without messages: clean or conflict
    for task, pair_of_ends in enumerate(ends, 1):
        for talk, end in zip(([PLAN], []), pair_of_ends, strict=True):
            merge = "clean" if end == "c" else "conflicts"
            run(tmp_path, 1, talk, merge=merge, task=task, run="a" if talk else "b")
    gap = paired_rows(stats(tmp_path))["merged without a conflict"].difference
    expected = estimate_paired_difference(1, 2, 1, 1)
    assert (gap.value, gap.low, gap.high) == (expected.value, expected.low, expected.high)
    assert gap.method == "newcombe_paired"


def dead(folder: Path, why: str) -> None:
    """Make a run one that has nothing to merge; its harness called the merge clean."""
    if why == "empty":
        (folder / "agent2.patch").write_text(" \n")
    else:
        agents = {"agent1": {"status": "Submitted"}, "agent2": {"status": "Error"}}
        edit(folder / "result.json", agents=agents)


@pytest.mark.parametrize("why", ["empty", "crashed"])
def test_runs_with_nothing_to_merge_are_counted_apart_and_in_no_rate(graded, why):
    # graded: 12 clean coop runs of model m without messages. Model n: a clean run with messages and
    # one without messages that conflicts, and then two dead runs.
    run(graded, 1, [PLAN], merge="clean", task=1, run="a", model="n")
    run(graded, 1, [], merge="conflicts", passed=False, task=1, run="b", model="n")
    before = stats(graded, by="model")
    dead(run(graded, 1, [], merge="clean", passed=False, task=1, run="c", model="n"), why)
    dead(run(graded, 1, [QUESTION], merge="clean", passed=True, task=3, run="d", model="n"), why)
    found = stats(graded, by="model")
    whole, _, of_model = found.groups
    for group, n in ((whole, 14), (of_model, 2)):
        talk = group.communication
        assert talk.nothing_to_merge == 2
        rates = {one.of: one.conflicts for one in talk.openings}
        assert (rates["all"].inputs["k"], rates["all"].n) == (1, n)
        apart = rates["nothing to merge"]
        assert (apart.value, apart.n, apart.inputs["k"]) == (None, 2, None)
        assert apart.reason == "nothing to merge: an agent crashed or a patch is empty"
        rows = {(one.merge, one.strategy): one.share for one in group.merges}
        assert {share.n for share in rows.values() if share.value is not None} == {n}
        apart = rows["nothing to merge", "-"]
        assert (apart.value, apart.inputs["k"]) == (None, 2)
        assert group.merge_success[0].final.n == n
    silent = whole.communication.silent, before.groups[0].communication.silent
    assert silent == (14, 13)  # one dead run has no messages
    assert measures(found)["messages per run"].every.n == 2  # an agent of a dead run may write
    pair_row = paired_rows(found)["merged without a conflict"]
    assert (pair_row.first.value, pair_row.second.value, pair_row.first.n) == (1.0, 0.0, 1)
    assert found.groups[0].paired[:4] == before.groups[0].paired[:4]  # the last is of all runs
    assert found.groups[0].paired[4] != before.groups[0].paired[4]
    assert found.difficulty.conflicts == before.difficulty.conflicts
    # They ran and did or did not pass: that is no merge.
    assert whole.success[0].coop.n == before.groups[0].success[0].coop.n + 2
    assert any("no rate of conflicts or merges: 2 runs." in note for note in found.notes)


def timed(name: str, times: str, start: float | None = None, end: float | None = None) -> Trace:
    """A run whose messages are a sender and a second each: "a0 b3"; "a?" has no time."""
    messages = tuple(
        Message(n, word[0], (), "Hello.", time=None if word[1:] == "?" else float(word[1:]))
        for n, word in enumerate(times.split(), 1)
    )
    outcome = Outcome(started=start, ended=end)
    return Trace(name, "generic", "", messages, outcome=outcome, attributes={"setting": "coop"})


def test_messages_that_cross_and_how_late_the_first_one_is():
    traces = (
        timed("1", "a0 b3 b4 a9", -10.0, 90.0),  # 3 s cross; b to b is no change; 5 s do not cross
        timed("2", "b20 a16 b12", 0.0, 40.0),  # by time: 4 s twice; the first at 12 of 40
        timed("3", "a0 b60"),  # nobody tells when it started
        timed("4", "a50 b55", 60.0, 70.0),  # a message before the start: the clocks differ
        timed("5", "a0 b? a1", -1.0, 1.0),  # not all have a time
    )
    crossing, late = (one.share for one in count(traces).groups[0].timing)
    assert (crossing.inputs["k"], crossing.n, crossing.value) == (3, 6, 0.5)
    assert (late.n, late.value) == (2, pytest.approx((0.1 + 0.3) / 2))


def test_messages_that_no_partner_can_read_any_more(tmp_path):
    """Of a's 2 and b's 3 messages with known ends (a at 10, b at 8): a's at 9 comes after b's end,
    b's at 9 before a's, b's at 11 after it: 2 of 5. The second run tells no ends.
    """
    folder = run(tmp_path, 1, [PLAN], merge="clean")
    run(tmp_path, 2, [PLAN], merge="clean")
    talk = [("agent1", 1), ("agent2", 2), ("agent1", 9), ("agent2", 9.5), ("agent2", 11)]
    lines = [{"from": who, "to": "", "message": "Hello.", "timestamp": at} for who, at in talk]
    (folder / "conversation.json").write_text(json.dumps(lines))
    ends = {
        agent: {"ended_at": f"1970-01-01T00:00:{second:02}Z"}
        for agent, second in (("agent1", 10), ("agent2", 8))
    }
    edit(folder / "result.json", agents=ends)
    rows = {row.of: row.share for row in stats(tmp_path).groups[0].timing}
    share = rows["messages after all partners had ended"]
    assert (share.inputs["k"], share.n, share.value) == (2, 5, 0.4)


def test_without_times_there_is_no_table_and_without_a_start_a_reason():
    for times, shown in (("a? b?", False), ("a1 b9", True)):
        text = render(tabulate(count([timed("1", times)])), "table")
        assert ("times of messages" in text) == shown
        assert ("no trace has a start and an end" in text) == shown


def test_overlapping_edits_with_and_without_messages(tmp_path):
    one, other = PATCHES[1], PATCHES[2]
    elsewhere = other.replace("parser.py", "printer.py")
    for number, (talk, second) in enumerate(
        [
            ([PLAN], other),  # both insert after line 1, another text
            ([PLAN], one),  # the same text
            ([PLAN], elsewhere),
            ([], other),
            ([], elsewhere),
            ([], " "),  # nothing to merge, so nothing to overlap
        ],
        1,
    ):
        folder = run(tmp_path, number, talk)
        (folder / "agent2.patch").write_text(second)
    found = stats(tmp_path)
    assert counts_of(found, "edits overlap") == {"spoke": (2, 3), "did not speak": (1, 2)}
    assert counts_of(found, "edits differ") == {"spoke": (1, 3), "did not speak": (1, 2)}
    gap = found.groups[0].talk_differences[0].shares["edits overlap"]
    assert gap.value is None
    assert gap.reason.startswith("spoke: 3 runs of 3 tasks;")
    for n in range(20):
        run(tmp_path, n, [PLAN] if n % 2 else [], task=100 + n)
    # All of these overlap: 12 of 13 with messages, 11 of 12 without.
    gap = stats(tmp_path).groups[0].talk_differences[0].shares["edits overlap"]
    assert gap.value == pytest.approx(12 / 13 - 11 / 12)


# Task: whether run_name says that agents could write, whether they did, merge, passed.
CHANNEL_RUNS = [
    ("msg_1", [PLAN], "clean", True),
    ("msg_1", [QUESTION], "conflicts", False),
    ("msg_2", [], "conflicts", False),
    ("chat", [], "clean", True),
    ("quiet_1", [], "conflicts", False),
    ("quiet_1", [], "clean", True),
    ("quiet_2", [], "conflicts", False),
    ("quiet_2", [PLAN], "conflicts", True),  # the attribute is wrong
    (None, [PLAN], "clean", True),
    (None, [], "conflicts", False),
]
COULD = parse_channel(["comm=msg_*", "comm=chat"])


def channel_traces(runs=CHANNEL_RUNS, task=lambda n: n):
    for n, (value, talk, merge, passed) in enumerate(runs):
        at = {"setting": "coop", "model": "m", "task": f"{task(n)}"}
        at |= {"comm": value} if value else {}
        messages = tuple(Message(1, who, (), text) for who, text in talk)
        patches = {"agent1": PATCHES[1], "agent2": PATCHES[2]}
        outcome = Outcome(passed=passed, merge=merge)
        yield Trace(f"t{n}", "generic", "", messages, patches, outcome, at)


def counts_of(found: Stats, measure: str) -> dict[str, tuple[int, int]]:
    """Runs with a result and all runs, by whether they spoke."""
    shares = {group.of: group.shares[measure] for group in found.groups[0].talk_groups}
    return {of: (share.inputs["k"], share.n) for of, share in shares.items()}


@pytest.mark.parametrize(
    ("channel", "conflicts", "passed"),
    [
        (None, [(2, 4), (4, 6)], [(3, 4), (2, 6)]),
        (COULD, [(2, 4), (1, 2), (2, 4), (2, 3)], [(3, 4), (1, 2), (2, 4), (1, 3)]),
    ],
)
def test_runs_that_could_not_speak_are_told_from_those_that_did_not(channel, conflicts, passed):
    silent = ("could but did not", "all that could", "could not") if channel else ("did not speak",)
    conflicts, passed = (
        dict(zip(("spoke", *silent), pairs, strict=True)) for pairs in (conflicts, passed)
    )
    found = count(channel_traces(), channel=channel)
    assert counts_of(found, "merge conflicts") == conflicts
    assert counts_of(found, "passed") == passed
    unknown = "2 runs of several agents without comm: whether they could speak is unknown."
    assert any(note.startswith(unknown) for note in found.notes) == bool(channel)
    silent = [of for of in conflicts if of not in ("spoke", "all that could")]
    openings = {one.of: one.conflicts for one in found.groups[0].communication.openings}
    assert {of: (openings[of].inputs["k"], openings[of].n) for of in silent} == {
        of: conflicts[of] for of in silent
    }


@pytest.mark.parametrize("spoke_anyway", [False, True])
def test_silent_runs_of_a_value_with_which_others_spoke_are_no_control_group(spoke_anyway):
    """Ten tasks with a run of either kind. Where one of those that "could not" spoke, the rest are
    chosen by their silence.
    """
    runs = [("msg", [PLAN], "clean", True), ("no", [], "conflicts", False)] * 10
    runs += [("no", [PLAN], "clean", True)] * spoke_anyway
    found = count(channel_traces(runs, lambda n: n // 2), channel=parse_channel("comm=msg"))
    [whole] = found.groups
    gaps = [gap.shares["passed"] for gap in whole.talk_differences]
    gaps += [pair.difference for pair in whole.paired if pair.of == "passed, all runs"]
    assert [gap.value for gap in gaps] == [None if spoke_anyway else 1.0] * 4
    if spoke_anyway:
        assert {gap.reason for gap in gaps} == {"1 run spoke although they could not"}


def test_a_value_that_only_solo_runs_have_is_no_channel():
    traces = [*channel_traces([("msg", [PLAN], "clean", True)])]
    solo = replace(traces[0], attributes=traces[0].attributes | {"setting": "solo", "comm": "-"})
    with pytest.raises(AnnotatorError, match="comm=-: no run of several agents has this value"):
        count([*traces, solo], channel=parse_channel("comm=-"))


def test_all_that_could_are_compared_with_those_that_could_not_on_the_same_pairs():
    """By hand, merged without a conflict: five tasks have runs of both, 1/2 against 1/1, and four
    times 1/1 against 0/1; of the runs that spoke, 1/1 in each of them.
    """
    spoke, silent = ("msg", [PLAN], "clean", True), ("no", [], "conflicts", False)
    first = [spoke, ("msg", [], "conflicts", False), ("no", [], "clean", True)]
    runs = [*first, *[spoke, silent] * 4, spoke]
    tasks = [0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5]
    options = {"channel": parse_channel("comm=msg"), "by": "model"}
    found = count(channel_traces(runs, lambda n: tasks[n]), **options)
    rows = {
        pair.groups: (pair.first.value, pair.second.value, pair.difference.value, pair.first.n)
        for pair in found.groups[1].paired
        if pair.of == "merged without a conflict"
    }
    assert rows == {
        ("all that could", "could not"): pytest.approx((0.9, 0.2, 0.7, 5)),
        ("spoke", "could not"): pytest.approx((1.0, 0.2, 0.8, 5)),
    }
    text = render(tabulate(found), "md")
    title = "the same pairs, all that could against could not by model"
    cells = printed_rows(text, title)["merged without a conflict, m"]
    assert cells[:4] == ["90.0", "20.0", "5", "+70.0"]
    assert text.index(title) < text.index("the same pairs, spoke against could not by model")


@pytest.mark.parametrize(
    ("channel", "message"),
    [
        (["colour=red"], "--channel colour: no trace has this attribute, only framework, merge, "),
        (
            ["run_name=dusk"],
            "--channel run_name=dusk: no run of several agents has this value, only night",
        ),
        (["run_name=night", "model=m"], "--channel: expected one attribute, found run_name, model"),
    ],
)
def test_a_channel_that_no_trace_has_is_refused(tmp_path, annotate_cli, channel, message):
    run(tmp_path, 1, [PLAN], merge=None)
    options = [part for name in channel for part in ("--channel", name)]
    done = annotate_cli("stats", tmp_path / "logs", *options)
    assert done.code == 2
    assert message in done.err
    with pytest.raises(AnnotatorError):
        summarize(tmp_path / "logs", channel=channel)


def test_the_channel_is_in_every_table_of_the_command_and_of_python(tmp_path, annotate_cli):
    run(tmp_path, 1, [PLAN], merge="clean", run="msg_1")
    run(tmp_path, 2, [], merge="conflicts", run="quiet_1")
    done = annotate_cli("stats", tmp_path / "logs", "--channel", "run_name=msg_*", "-v")
    summary = summarize(tmp_path / "logs", channel="run_name=msg_*")
    assert done.raw == f"{render(summary.tables, 'table')}\n"
    document = json.loads(render(summary.tables, "json"))
    assert document["channel"] == {"attribute": "run_name", "values": ["msg_*"]}
    assert document["groups"][0]["talk_groups"][3]["of"] == "could not"


def test_runs_of_different_models_are_no_pair(tmp_path):
    run(tmp_path, 1, [PLAN], task=1, run="a", model="m")
    run(tmp_path, 1, [], task=1, run="b", model="other")
    for one in stats(tmp_path).groups[0].paired[:2]:
        assert (one.difference.value, one.difference.n) == (None, 0)
        assert one.difference.reason == "no pair has runs in both groups (spoke, did not speak)"


def test_success_by_number_of_agents(tmp_path):
    for number, (agents, passed) in enumerate([(2, True), (2, True), (2, False), (3, False)], 1):
        folder = run(tmp_path, number, [PLAN], passed=passed)
        team = {f"agent{n}": {"feature_id": n} for n in range(1, agents + 1)}
        edit(folder / "result.json", agents=team)
    run(tmp_path, 9, setting="solo")
    talk = (Message(1, "a", (), "Hello."), Message(2, "b", (), "Hi."))
    others = [  # of no number that is compared
        Trace(setting, "generic", "", messages, attributes={"setting": setting},
              outcome=Outcome(passed=True))
        for setting, messages in (("solo", talk), ("coop", ()))
    ]  # fmt: skip
    sizes = count([*read_traces([str(tmp_path / "logs")]), *others]).groups[0].sizes
    counts = [(size, share.inputs["k"], share.n) for size, share in sizes.shares]
    assert counts == [(1, 1, 1), (2, 2, 3), (3, 0, 1)]
    assert sizes.difference.value == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("setting", "why"), [("coop", "all runs of several agents have 2"), ("solo", "no such runs")]
)
def test_one_number_of_agents_has_no_difference(tmp_path, setting, why):
    run(tmp_path, 1, [PLAN], setting=setting)
    difference = stats(tmp_path).groups[0].sizes.difference
    assert (difference.value, difference.reason) == (None, why)


@pytest.fixture
def graded(tmp_path):
    """Three difficulties, 0, 1/2 and 1: solo rates 1, 1/2, 0 and coop rates 3/4, 1/4, 0."""
    pair(tmp_path, 1, "pp", "pppf")
    pair(tmp_path, 2, "pf", "pfff")
    pair(tmp_path, 3, "ff", "ffff")
    return tmp_path


def test_curves_areas_and_retention(graded):
    found = stats(graded).difficulty
    assert [one.low for one in found.pooled.buckets] == [0.0, 0.5, 0.9]
    assert [one.solo.value for one in found.pooled.buckets] == [1.0, 0.5, 0.0]
    assert [one.coop.value for one in found.pooled.buckets] == [0.75, 0.25, 0.0]
    # Midpoints .05, .55, .95.
    assert found.pooled.auc_solo.value == pytest.approx(0.5 * 1.5 / 2 + 0.4 * 0.5 / 2)
    assert found.pooled.auc_coop.value == pytest.approx(0.5 * 1.0 / 2 + 0.4 * 0.25 / 2)
    assert found.pooled.retention.value == pytest.approx(0.3 / 0.475)
    assert found.pooled.gap.value == pytest.approx(0.175)
    assert (found.pairs, found.pooled.pairs, found.models) == (3, 3, 1)
    empty = "0.1-0.2, 0.2-0.3, 0.3-0.4, 0.4-0.5, 0.6-0.7, 0.7-0.8, 0.8-0.9."
    assert any(note.endswith(f"straight across: {empty}") for note in stats(graded).notes)
    assert any("rests on the solo runs of one model" in note for note in stats(graded).notes)


@pytest.mark.parametrize(("cluster", "clusters"), [(("project", "task"), 3), (("project",), 1)])
def test_curves_are_over_the_clusters_asked_for(graded, cluster, clusters):
    curve = stats(graded, cluster=cluster).difficulty.pooled
    assert (curve.pairs, curve.solo.clusters) == (3, clusters)
    assert (curve.retention.low is None) == (clusters == 1)


def test_conflicts_by_difficulty_and_first_message(graded):
    # Besides the silent runs of graded, all clean: two openings on the hardest task.
    run(graded, 1, [PLAN], merge="conflicts", passed=False, task=3, run="x")
    run(graded, 2, [QUESTION], merge="clean", passed=False, task=3, run="y")
    run(graded, 3, [QUESTION], merge="conflicts", passed=False, task=9, run="z")
    found = stats(graded).difficulty.conflicts
    assert [(one.low, one.high, one.pairs) for one in found] == [
        (0.0, 0.1, 1),
        (0.5, 0.6, 1),
        (0.9, 1.0, 1),
    ]
    assert [(name, share.k, share.n) for name, share in found[-1].conflicts] == [
        ("first message is a plan", 1, 1),
        ("first message is no plan", 0, 1),
        ("did not speak", 0, 4),
        ("all", 1, 6),
    ]


@pytest.mark.parametrize(
    ("solo", "why"),
    [("", "no task has solo runs with a known outcome"), ("p", "all tasks are equally difficult")],
)
def test_conflicts_without_a_difficulty_say_why(tmp_path, solo, why):
    pair(tmp_path, 1, solo, "p")
    found = stats(tmp_path).difficulty
    assert found.conflicts == ()
    assert found.no_conflicts.startswith(why)


def test_difficulty_is_the_mean_over_models_and_pooled_curves_sum_counts(tmp_path):
    # d: task 1 (0 + 0)/2, task 2 (1/4 + 1)/2, task 3 1; a model with more runs has no more weight.
    pair(tmp_path, 1, "pppp", "pp", "a")
    pair(tmp_path, 2, "pppf", "pf", "a")
    pair(tmp_path, 3, "ffff", "ff", "a")
    pair(tmp_path, 1, "p", "f", "b")
    pair(tmp_path, 2, "f", "f", "b")
    pair(tmp_path, 3, "f", "f", "b")
    found = stats(tmp_path).difficulty
    assert [one.low for one in found.pooled.buckets] == [0.0, 0.6, 0.9]
    middle = found.pooled.buckets[1]
    assert (middle.solo.k, middle.solo.n, middle.coop.k, middle.coop.n) == (3, 5, 1, 3)
    assert [one.model for one in found.by_model] == ["a", "b"]
    assert found.by_model[1].retention.value == 0.0
    assert found.models == 2


def test_pairs_with_one_setting_are_left_out_and_counted(graded):
    pair(graded, 4, "", "pp")
    pair(graded, 5, "p", "")
    found = stats(graded)
    assert (found.difficulty.coop_only, found.difficulty.solo_only) == (1, 1)
    assert found.difficulty.pooled.coop.n == 12
    assert any("leave out 1 pair (" in note for note in found.notes)


@pytest.mark.parametrize(
    ("solo", "coop", "why"),
    [("p", "p", "all tasks are equally difficult"), ("p", "", "no task has both")],
)
def test_what_has_no_curve_says_why(tmp_path, solo, coop, why):
    pair(tmp_path, 1, solo, coop)
    pair(tmp_path, 2, solo, coop)
    curve = stats(tmp_path).difficulty.pooled
    assert curve.buckets == ()
    for one in (curve.auc_solo, curve.auc_coop, curve.gap, curve.retention):
        assert one.value is None
        assert one.reason.startswith(why)


def test_nothing_solved_solo_has_no_retention(tmp_path):
    # Model b solves nothing by itself; the difficulty comes from model a.
    for task, solo in ((1, "p"), (2, "f")):
        pair(tmp_path, task, solo, "p", "a")
        pair(tmp_path, task, "f", "p", "b")
    curve = stats(tmp_path).difficulty.by_model[1]
    assert curve.auc_solo.value == 0.0
    assert curve.retention.value is None
    assert curve.retention.reason == "nothing was solved solo, so nothing can be kept"


def test_unknown_outcomes_are_left_out_and_counted(tmp_path):
    run(tmp_path, 1, [PLAN], passed=None)
    run(tmp_path, 2, [PLAN], passed=True)
    found = stats(tmp_path)
    assert found.groups[0].unknown == 1
    assert (found.groups[0].success[0].coop.value, found.groups[0].success[0].coop.n) == (1.0, 1)
    assert any("in no success rate: 1 trace." in note for note in found.notes)


@pytest.mark.parametrize(
    ("raw", "place"), [("0", 0), ("1/10", 1), ("3/10", 3), ("7/10", 7), ("99/100", 9), ("1", 9)]
)
def test_edges_of_buckets_are_exact(raw, place):
    assert find_bucket(Fraction(raw), Fraction(0), Fraction(1)) == place


def test_areas_of_resamples_are_those_of_validation():
    random = np.random.default_rng(1)
    totals = random.integers(0, 4, size=(200, 10, 4)).astype(float)
    totals[:, :, 1] = np.where(random.random((200, 10)) < 0.6, 0, totals[:, :, 0] + 1)
    totals[:, :, 3] = np.where(totals[:, :, 1] == 0, 0, totals[:, :, 2] + 2)
    totals[:, :, [0, 2]] *= totals[:, :, [1]] > 0
    solo, coop = compute_areas(totals.reshape(200, 40))
    for row, one, other in zip(totals, solo, coop, strict=True):
        for k, n, found in ((0, 1, one), (2, 3, other)):
            points = [(m / 10, cell[k] / cell[n]) for m, cell in enumerate(row) if cell[n]]
            expected = trapezoid([y for _, y in points], [x for x, _ in points])
            assert np.isnan(found) if len(points) < 2 else found == pytest.approx(expected)


def test_by_gives_the_statistics_of_each_value(talks, annotate_cli):
    run(talks, 7, [PLAN], model="other")
    found = stats(talks, by="model")
    assert [group.group for group in found.groups] == [None, ("model", "m"), ("model", "other")]
    assert [group.traces for group in found.groups] == [7, 6, 1]
    done = annotate_cli("stats", talks / "logs", "--by", "no_such")
    assert done.code == 2
    assert "no trace has this attribute" in done.err


def printed_rows(text: str, title: str) -> dict[str, list[str]]:
    """The cells of a Markdown table by their first cell."""
    _, block = text.split(f"**{title}**")
    lines = block.strip().split("\n\n")[0].splitlines()[2:]
    return {name: cells for name, *cells in ([*line.strip("| ").split(" | ")] for line in lines)}


def test_success_and_retention_by_model(tmp_path):
    """By hand: the tasks have difficulty 0, .5 and 1, so midpoints .05, .55, .95. Areas of a: solo
    .5 * 1 + .4 * .5 = .7, coop .5 * .5 = .25; of b: .25 and 0; of all: .475 and .125.
    """
    for task, ends in enumerate(("pp", "pf", "ff"), 1):
        pair(tmp_path, task, *ends, "a")
    for task, ends in enumerate(("pf", "ff", "ff"), 1):
        pair(tmp_path, task, *ends, "b")
    pair(tmp_path, 4, "", "p", "c")
    found = stats(tmp_path, by="model")
    kept = {group.group: group.retention.value for group in found.groups}
    a, b, c = (("model", name) for name in "abc")
    assert kept == pytest.approx({None: 0.125 / 0.475, a: 0.25 / 0.7, b: 0.0, c: None})
    by_model = {curve.model: curve.retention for curve in found.difficulty.by_model}
    assert {name: by_model[name] for name in "abc"} == {
        group.group[1]: group.retention for group in found.groups[1:]
    }
    rows = printed_rows(render(tabulate(found), "md"), "success and retention by model")
    counts = {name: (*cells[:2], *cells[4:6], cells[10], cells[11]) for name, cells in rows.items()}
    assert counts == {
        "a": ("2", "3", "1", "3", "3", "0.36"),
        "b": ("1", "3", "0", "3", "3", "0.00"),
        "c": ("0", "0", "1", "1", "0", "-"),
        "all": ("3", "6", "2", "7", "3", "0.26"),
    }
    text = render(tabulate(found), "table")
    assert "- c, retention: no task has both solo and coop runs with a known outcome" in text
    assert "by model" not in render(tabulate(stats(tmp_path)), "table")


def test_the_same_pairs_by_model(tmp_path):
    """By hand: a merges 5 of 5 with messages and 4 of 5 without; b 0 of 1 and 1 of 1."""
    for model, task, talk, merge, passed in (
        ("a", 1, [PLAN], "clean", True),
        ("a", 1, [], "conflicts", False),
        ("a", 2, [PLAN], "clean", False),
        ("a", 2, [], "clean", True),
        *(("a", task, talk, "clean", True) for task in (3, 4, 5) for talk in ([PLAN], [])),
        ("b", 1, [PLAN], "conflicts", False),
        ("b", 1, [], "clean", True),
        ("c", 1, [PLAN], "clean", True),
    ):
        at = {"run": f"{model}{len(talk)}", "task": task}
        run(tmp_path, 1, talk, merge=merge, passed=passed, model=model, **at)
    tables = tabulate(stats(tmp_path, by="model"))
    title = "the same pairs, spoke against did not speak by model"
    rows = {name: cells[:4] for name, cells in printed_rows(render(tables, "md"), title).items()}
    merged, ended = "merged without a conflict", "passed, in the end"
    expected = {
        f"{merged}, a": ["100.0", "80.0", "5", "+20.0"],
        f"{merged}, b": ["0.0", "100.0", "1", "-"],
        f"{merged}, c": ["-", "-", "0", "-"],
        f"{merged}, all": ["83.3", "83.3", "6", "+0.0"],
        f"{ended}, a": ["80.0", "80.0", "5", "+0.0"],
        f"{ended}, b": ["0.0", "100.0", "1", "-"],
        f"{ended}, all": ["66.7", "83.3", "6", "-16.7"],
    }
    assert {name: rows[name] for name in expected} == expected
    [c] = [x for x in json.loads(render(tables, "json"))["groups"] if x["group"] == ["model", "c"]]
    why = "no pair has runs in both groups (spoke, did not speak)"
    assert c["paired"][0]["difference"]["reason"] == why


NASTY = 'x|y\x1b[31m\u202e=1+1,\n"q" </td>'


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("what", ["talks", "graded", "one", "none"])
def test_every_format_shows_every_case(request, tmp_path, format_, what):
    if what == "one":
        run(tmp_path, 1, [("agent1", "x" * 100_000)], merge=NASTY, model=NASTY)
        run(tmp_path, 2, [PLAN], setting="team", passed=None)
    elif what != "none":
        request.getfixturevalue(what)
    found = stats(tmp_path, by="model") if what != "none" else count([])
    text = render(tabulate(found), format_)
    assert "nan" not in text.lower().replace("tenant", "")
    assert "\x1b" not in text
    if format_ == "json":
        json.loads(text, parse_constant=pytest.fail)
    if format_ == "csv":
        rows = list(csv.DictReader(io.StringIO(text)))
        assert all(bool(row["number"]) or row["reason"] for row in rows)
        assert all(row["n"] for row in rows)
    if format_ == "md":
        tables = [block.splitlines() for block in text.split("\n\n") if block.startswith("| ")]
        for lines in tables:
            assert len({line.replace("\\|", "").count("|") for line in lines}) == 1


def test_records_without_tasks_or_settings(tmp_path):
    talk = [{"from": "a", "text": PLAN[1]}, {"from": "b", "text": QUESTION[1]}]
    lines = [
        {"id": merge, "attributes": {"merge": merge}, "messages": talk}
        for merge in ("clean", "conflicts")
    ]
    file = tmp_path / "runs.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    group = count(read_traces([str(file)])).groups[0]
    assert group.settings == (("coop", 2),)
    assert group.tasks is None
    assert group.communication.openings[0].conflicts.value == 0.5


def test_command_line(talks, annotate_cli):
    done = annotate_cli("stats", talks / "logs")
    assert done.code == 0
    assert done.out.startswith("6 traces of 6 tasks (project+task): 6 coop\n")
    (talks / "logs" / "night" / "coop" / "shop_task" / "1" / "f1_f2" / "eval.json").write_text("{")
    done = annotate_cli("stats", talks / "logs", "--format", "csv")
    assert done.code == 1
    assert "unreadable  night/coop/shop_task/1/f1_f2: eval.json" in done.err
    (talks / "none").mkdir()
    done = annotate_cli("stats", talks / "none")
    assert done.code == 2
    assert "no traces in" in done.err
    found = count([Ignored("a", "no"), Unreadable("b", "b", "no"), Ignored("c", "no")] * 2)
    assert (found.groups[0].traces, found.unreadable, found.ignored) == (0, 2, 4)


def test_the_first_screen_says_the_result_and_leaves_out_empty_rows(talks, annotate_cli):
    """By hand: 2 of 5 known ends passed; 3 of 5 merges conflict; 4 + 2 + 3 + 1 + 1 messages."""
    done = annotate_cli("stats", talks / "logs", "--cluster", "none")
    head, result, table, gaps, notes = done.raw.split("\n\n")
    assert head == "6 traces: 6 coop"
    assert " ".join(result.split()).startswith(
        "Passed: 40 % of 5 coop runs. Merge conflicts: 60 % of 5 merges. Agents wrote messages in"
        " 5 runs, 2.2 a run"
    )
    rows = [re.match(r" *(.+?) +(\d/\d) +([\d.]+)", line) for line in table.splitlines()[2:]]
    assert [row and row.groups() for row in rows] == [
        ("passed, coop", "2/5", "40.0"),
        ("spoke", "2/4", "50.0"),
        ("did not speak", "0/1", "0.0"),
        ("merge conflicts", "3/5", "60.0"),
        ("first message is a plan", "1/3", "33.3"),
        ("first message is no plan", "1/1", "100.0"),
        ("did not speak", "1/1", "100.0"),
    ]
    assert gaps == (
        "Not shown (no run to count): passed, solo.\n"
        "Not shown (no trace tells the steps of its agents): messages per step."
    )
    assert notes.splitlines()[-1] == "13 more tables and 5 more notes: -v"
    assert notes.startswith("Not known whether they passed, so in no success rate: 1 trace.")
    assert all(len(line) <= 80 for line in f"{result}\n{table}\n{gaps}".splitlines())
    assert "next: annotate " in done.err


def test_traces_and_stats_count_the_same_merges_and_steps(tmp_path, annotate_cli):
    """Of 4 runs one has an empty patch, so 3 merges; one passed after a conflict. Each agent's
    trajectory has two calls, their results and a remark: 4 steps of their own in one run.
    """
    merged(tmp_path, 1, "clean", "naive", passed=True)
    (run(tmp_path, 2, [PLAN], passed=False) / "agent2.patch").write_text("")
    merged(tmp_path, 3, "conflicts", "naive", passed=False)
    merged(tmp_path, 4, "conflicts", "solo-agent1", passed=True)
    for agent in (1, 2):
        trajectory(place(tmp_path, 1, "coop"), agent, 2)
    options = {"traces": (), "stats": ("--cluster", "none")}
    counted, brief = (
        " ".join(annotate_cli(name, tmp_path / "logs", *more).out.split())
        for name, more in options.items()
    )
    why = "1 run with a conflict passed what the harness tested instead (solo-agent1 1)"
    assert f"merges conflicts 2, clean 1, nothing to merge 1; {why}" in counted
    assert "steps 10, of them 4 of the agents (calls, else texts)" in counted
    assert f"Merge conflicts: 67 % of 3 merges; {why}." in brief
    assert "messages per step 1/4" in brief


def test_the_first_screen_by_an_attribute_has_a_row_for_each_value(talks, annotate_cli):
    run(talks, 7, [PLAN], model="a model with a very long name that a table has no room for")
    table = annotate_cli("stats", talks / "logs", "--by", "model").out.split("\n\n")[2]
    header, _, *rows = table.splitlines()
    assert header.split() == ["model", "coop", "%", "conflicts", "%", "messages"]
    assert rows[0].split() == ["m", "2/5", "40.0", "3/5", "60.0", "2.2", "(5)"]
    assert rows[1].split()[-6:] == ["1/1", "100.0", "0/1", "0.0", "1.0", "(1)"]
    assert rows[-1].split() == ["all", "3/6", "50.0", "3/6", "50.0", "2.0", "(6)"]
    assert max(map(len, table.splitlines())) <= 80


def test_the_first_screen_of_traces_that_tell_nothing(tmp_path, annotate_cli):
    (tmp_path / "t.jsonl").write_text(json.dumps({"id": "a", "messages": []}))
    done = annotate_cli("stats", tmp_path / "t.jsonl")
    assert "No trace tells an outcome, a merge or a message." in done.out
    assert "Not shown (no run to count): passed, coop; passed, solo; merge conflicts." in done.out
    assert (done.code, done.err) == (0, "")
    assert "for --by" not in annotate_cli("traces", tmp_path / "t.jsonl").out


def test_an_interval_says_if_resamples_are_left_out(tmp_path):
    # One task has the only question of conflict-free runs: many a resample has none.
    for task in range(1, 21):
        talk = [PLAN] if 1 < task < 11 else [PLAN, QUESTION]
        run(tmp_path, task, talk, merge="clean" if task < 11 else "conflicts")
    found = stats(tmp_path)
    text = render(tabulate(found), "table")
    left = measures(found)["plans per question"].difference.inputs["undefined_resamples"]
    assert left > 0
    assert f"plans per question, difference: undefined in {left} of 10000 resamples" in text


# Two pairs of one task: 1+2 passes solo and fails in cooperation, 3+4 the other way round.
# (features, who spoke, setting, merge, strategy, passed)
RECORDS = [
    ((1, 2), "a", "solo", None, None, True),
    ((2, 1), "", "coop", "conflicts", "naive", False),  # two agents, none wrote
    ((3, 4), "a", "solo", None, None, False),
    ((4, 3), "a", "coop", "conflicts", "union", True),  # of two agents one wrote
]


def record_of(form: str, features, speaker, setting, merge, strategy, passed):
    team = ["a"] if setting == "solo" else ["a", "b"]
    said = [{"from": speaker, "text": NOTHING[1]}] if speaker else []
    record = {"task": "t", "setting": setting, "passed": passed}
    plain = {"merge": merge, "strategy": strategy}
    match form:
        case "lists":
            return record | plain | {"messages": said, "features": features, "agents": team}
        case "pair and number":
            text = "+".join(map(str, sorted(features)))
            pair = text if setting == "solo" else features  # both ways of writing are one pair
            return record | plain | {"messages": said, "pair": pair, "agents": len(team)}
        case _:
            end = {"word": merge, "how": strategy}
            run = {"talk": said, "features": features, "team": len(team), "end": end}
            return record | {"run": run}


@pytest.mark.parametrize("form", ["lists", "pair and number", "map"])
def test_records_say_their_pair_their_team_and_their_merge(tmp_path, form):
    lines = [json.dumps(record_of(form, *run)) for run in RECORDS]
    (tmp_path / "runs.jsonl").write_text("\n".join(lines))
    (tmp_path / "map.yaml").write_text(
        "messages: run.talk\nsender: from\ntext: text\nfeatures: run.features\nagents: run.team\n"
        "merge: run.end.word\nstrategy: run.end.how\n"
    )
    reader = f"map:{tmp_path}/map.yaml" if form == "map" else "auto"
    found = count(read_traces([str(tmp_path / "runs.jsonl")], reader))
    sizes = {size: (share.value, share.n) for size, share in found.groups[0].sizes.shares}
    assert sizes == {1: (0.5, 2), 2: (0.5, 2)}
    # The difficulties are 0 (pair 1+2) and 1 (pair 3+4): one bucket each, at both ends.
    buckets = found.difficulty.pooled.buckets
    curve = [(bucket.low, bucket.solo.value, bucket.coop.value) for bucket in buckets]
    assert curve == [(0.0, 1.0, 0.0), (0.9, 0.0, 1.0)]
    merges = {(one.merge, one.strategy): one.passed.value for one in found.groups[0].merges}
    assert merges == {("conflicts", "naive"): 0.0, ("conflicts", "union"): 1.0}
