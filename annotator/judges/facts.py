"""The facts that a prompt shows beside a trace: which, in which order, and how many."""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from annotator.base.text import escape_header, sanitize_line
from annotator.prompts.render import NO_OBSERVATIONS, Observations
from annotator.traces import Trace

if TYPE_CHECKING:
    from annotator.cooperbench.facts.model import Fact

MOST_LINES = 60
MOST_CHARACTERS = 8_000
AT_A_TIME = 8  # facts of one kind, before other kinds
_LINE = 300  # characters of a sentence
_MOST_SOURCES = 8  # named with one fact

FIRST = (
    # Words and work disagree.
    *("assurance_refuted", "order_lost", "partner_work", "retraction", "work_carried"),
    # The end of the run.
    *("run_error", "agent_crashed", "patch_empty", "merge_result", "feature_lost"),
    "feature_failed",
    # Contact of the patches, and open points.
    *("representation_conflict", "hunks_overlap", "no_reply", "clash_stated"),
    # Words.
    *("assurance", "order_agreed", "bound", "completion_claim", "question"),
    *("proposal", "acceptance", "merge_simulated", "hunks_adjoin", "not_read"),
)
"""Kinds of facts, the most telling first. Other kinds come last."""


def describe_facts(trace: Trace) -> Observations:
    """Return the facts about a trace, a line each."""
    from annotator.cooperbench.facts import draw_facts

    facts = list(draw_facts(trace))
    lines: list[str] = []
    room = MOST_CHARACTERS
    for fact in _interleave_kinds(facts):
        line = _format_fact(fact)
        room -= len(line) + 1
        if len(lines) == MOST_LINES or room < 0:
            break
        lines.append(line)
    return Observations(tuple(lines), len(facts) - len(lines)) if lines else NO_OBSERVATIONS


def _interleave_kinds(facts: list["Fact"]) -> Iterator["Fact"]:
    """Yield the facts, some of each kind before more of any."""
    ranks = {kind: rank for rank, kind in enumerate(FIRST)}
    seen: Counter[str] = Counter()
    order: list[tuple[int, int]] = []
    for fact in facts:
        order.append((seen[fact.kind] // AT_A_TIME, ranks.get(fact.kind, len(FIRST))))
        seen[fact.kind] += 1
    for at in sorted(range(len(facts)), key=order.__getitem__):
        yield facts[at]


def _format_fact(fact: "Fact") -> str:
    """Return a fact as one line."""
    sources = list(dict.fromkeys(escape_header(span.source) for span in fact.spans))
    named = sources[:_MOST_SOURCES] + ["..."] * (len(sources) > _MOST_SOURCES)
    where = f" ({', '.join(named)})" if sources else ""
    return f"{fact.kind}{where}: {sanitize_line(fact.says, _LINE)}"
