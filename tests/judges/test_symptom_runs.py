"""What both judges say of one written example of each symptom, and of one near miss of each.

The language model's answers in ``symptom_answers.json`` were given once by a frontier language
model, through batch files, that saw nothing but each request; they are sent again over HTTP here,
so that what counts is what the tool makes of them: every quote must stand where it says.
"""

import asyncio
import json
from pathlib import Path

import pytest

from annotator.annotations import Annotation
from annotator.judges.llm import LLMJudge
from annotator.judges.llm.settings import Options
from annotator.judges.rules import RulesJudge
from annotator.rubrics import load_rubric
from annotator.runs.annotate import annotate
from tests.judges.symptom_runs import NEAR_MISSES, SYMPTOMS, Example
from tests.server import Reply, Request, Server

RUNS = {run.name: run for run in (*SYMPTOMS, *NEAR_MISSES)}
RUBRIC = load_rubric("symptoms")
ANSWERS = json.loads(Path(__file__).with_name("symptom_answers.json").read_text(encoding="utf-8"))

# What the rules find; all other runs are undecided, and nothing that they find is wrong.
BY_RULES = {
    "almanac": "implementation_failure",
    "lost_property": "implementation_failure",
    "kite_club": "implementation_failure",
}


def answered(request: Request) -> Reply:
    if request.is_probe:
        return Reply(answer={"ready": True})
    first = request.part("message:1")
    [name] = [run.name for run in RUNS.values() if run.trace.messages[0].text == first]
    return Reply(answer=ANSWERS[name])


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_the_rules_find_what_is_there_or_do_not_know(run: Example) -> None:
    one = asyncio.run(annotate(run.trace, RUBRIC, RulesJudge()))
    assert one.rejected == ()
    assert one.primary == BY_RULES.get(run.name)
    assert one.primary in (None, run.truth)
    assert one.status == ("labelled" if run.name in BY_RULES else "undecided")


@pytest.mark.parametrize("name", ANSWERS)
def test_a_language_model_finds_what_is_there(name: str) -> None:
    run = RUNS[name]

    async def judged(address: str) -> Annotation:
        judge = LLMJudge(Options("frontier", address))
        await judge.open([RUBRIC])
        try:
            return await annotate(run.trace, RUBRIC, judge)
        finally:
            await judge.close()

    with Server(answered) as server:
        one = asyncio.run(judged(server.url))
    assert (one.status, one.rejected) == ("labelled", ())
    assert one.primary == run.truth
