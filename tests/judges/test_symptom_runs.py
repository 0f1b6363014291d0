"""What both judges say of written examples of symptoms, and of near misses.

The answers in ``symptom_runs.yaml`` are sent over HTTP: every quote must stand where it says.
"""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from annotator.judges.rules import RulesJudge
from annotator.rubrics import load_rubric
from annotator.runs.verdicts import annotate
from annotator.traces import AgentEnd, Feature, Message, Outcome, Trace
from tests.cooperbench.patches.pairs import Pair
from tests.judges.ask import ask
from tests.server import Server, finding, scripted

RUBRIC = load_rubric("symptoms")
FILE = Path(__file__).with_name("symptom_runs.yaml")
RUNS: dict[str, dict[str, Any]] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
AGENTS = ("agent1", "agent2")
# The rules find these. All other runs are undecided, and nothing that the rules find is wrong.
BY_RULES = {"almanac", "lost_property", "kite_club"}


def make_messages(talk: str) -> tuple[Message, ...]:
    """Return the messages of a talk as the file writes it."""
    parts = re.split(r"^([12]): ", talk, flags=re.MULTILINE)[1:]
    messages = []
    for n, (number, text) in enumerate(zip(parts[::2], parts[1::2], strict=True), 1):
        text = re.sub(r"\n(?!\|)", " ", text.rstrip("\n")).replace("\n|", "\n")
        text = re.sub(r"^ ", "", text, flags=re.MULTILINE)
        to = (AGENTS[number == "1"],)
        messages.append(Message(n, f"agent{number}", to, text))
    return tuple(messages)


def add_git_lines(patch: str) -> str:
    """Return a diff with the lines that git writes above each file."""

    def head(match: re.Match[str]) -> str:
        new = "new file mode 100644\n" if match[1] == "/dev/null" else ""
        return f"diff --git a/{match[2]} b/{match[2]}\n{new}{match[0]}"

    return re.sub(r"^--- (\S+)\n\+\+\+ b/(\S+)$", head, patch, flags=re.MULTILINE)


def make_trace(name: str) -> Trace:
    run = RUNS[name]
    pair = Pair(name, run.get("patches", ""))
    ends = run.get("ends", ({}, {}))
    statuses = run.get("statuses", ("Submitted", "Submitted"))
    outcome = Outcome(
        passed=False,
        merge="clean" if any(end.get("output") for end in ends) else "conflicts",
        features=tuple(
            Feature(
                *(agent[-1], agent, end.get("passed", False), end.get("alone", True)),
                *(end.get("reason"), end.get("output", "")),
            )
            for agent, end in zip(AGENTS, ends, strict=True)
        ),
        agents=tuple(
            AgentEnd(agent, agent[-1], s) for agent, s in zip(AGENTS, statuses, strict=True)
        ),
    )
    patches = dict(zip(AGENTS, map(add_git_lines, (pair.ours, pair.theirs)), strict=True))
    return Trace(name, "cooperbench", "", make_messages(run["talk"]), patches, outcome)


@pytest.mark.parametrize("name", RUNS)
def test_the_rules_find_what_is_there_or_do_not_know(name: str) -> None:
    one = asyncio.run(annotate(make_trace(name), RUBRIC, RulesJudge()))
    assert one.rejected == ()
    assert one.primary == (RUNS[name]["truth"] if name in BY_RULES else None)
    assert one.status == ("labelled" if name in BY_RULES else "undecided")


@pytest.mark.parametrize("name", RUNS)
def test_a_language_model_finds_what_is_there(name: str) -> None:
    [(code, quotes)] = RUNS[name]["answer"].items()
    with Server(scripted(finding(code, *map(tuple, quotes)))) as server:
        one = ask(server, make_trace(name), RUBRIC)
    assert (one.status, one.rejected) == ("labelled", ())
    assert one.primary == RUNS[name]["truth"]
