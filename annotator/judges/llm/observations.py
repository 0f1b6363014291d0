"""Which facts about a trace a model is shown beside it: the kinds that say most, and not too many.

A kind that stands in no list below is shown last: a new one needs no line here.
"""

from collections import Counter
from collections.abc import Iterator

from annotator.facts.model import Fact
from annotator.facts.registry import know
from annotator.prompts import NO_OBSERVATIONS, Observations
from annotator.text import one_line
from annotator.traces import Trace

MOST_LINES = 60
MOST_CHARACTERS = 8_000
AT_A_TIME = 8  # of one kind, before the other kinds have had their turn
_LINE = 300  # characters of a sentence

FIRST = (
    # What is said and what is done do not agree.
    *("assurance_refuted", "order_lost", "partner_work", "retraction", "work_carried"),
    # How it ended.
    *("run_error", "agent_crashed", "patch_empty", "merge_result", "feature_lost"),
    "feature_failed",
    # Where the patches meet, and what stays open.
    *("representation_conflict", "hunks_overlap", "no_reply", "clash_stated"),
    # What is said.
    *("assurance", "order_agreed", "bound", "completion_claim", "question"),
    *("proposal", "acceptance", "merge_simulated", "hunks_adjoin", "not_read"),
)
"""Kinds of facts, those that say most first."""


def observe(trace: Trace) -> Observations:
    """Return the facts about a trace as a model is shown them, a line each."""
    facts = list(know(trace))
    lines: list[str] = []
    room = MOST_CHARACTERS
    for fact in _in_turn(facts):
        line = _line(fact)
        room -= len(line) + 1
        if len(lines) == MOST_LINES or room < 0:
            break
        lines.append(line)
    return Observations(tuple(lines), len(facts) - len(lines)) if lines else NO_OBSERVATIONS


def _in_turn(facts: list[Fact]) -> Iterator[Fact]:
    """Yield the facts kind by kind, some of each before more of any."""
    ranks = {kind: rank for rank, kind in enumerate(FIRST)}
    seen: Counter[str] = Counter()
    order: list[tuple[int, int]] = []
    for fact in facts:
        order.append((seen[fact.kind] // AT_A_TIME, ranks.get(fact.kind, len(FIRST))))
        seen[fact.kind] += 1
    for at in sorted(range(len(facts)), key=order.__getitem__):
        yield facts[at]


def _line(fact: Fact) -> str:
    """Return a fact on one line: no text of a trace in it can begin a line of the prompt."""
    sources = ", ".join(dict.fromkeys(span.source for span in fact.spans))
    where = f" ({one_line(sources, 120)})" if sources else ""
    return f"{fact.kind}{where}: {one_line(fact.says, _LINE)}"
