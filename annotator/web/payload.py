"""A trace, an annotation, a label and a rubric as the JSON that the pages read."""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict
from functools import partial
from math import isfinite
from typing import Any

from annotator.annotations import Annotation
from annotator.errors import UnreadableTrace
from annotator.labels import Label
from annotator.rubrics import Rubric
from annotator.text import storable
from annotator.traces import Step, Trace, Unreadable
from annotator.traces.model import join_pieces

STEPS = 50  # of an agent that are sent at once


def dumped(value: Any) -> str:
    """Return a value as compact JSON that UTF-8 can hold and every browser reads: NaN and the
    infinities, which JSON does not have, become texts.
    """
    write = partial(json.dumps, ensure_ascii=False, separators=(",", ":"), default=str)
    try:
        return storable(write(value, allow_nan=False))
    except ValueError:
        return storable(write(_finite(value)))


def _finite(value: Any) -> Any:
    """Return a value with the numbers that are none as texts, as tables show them."""
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return value if not isinstance(value, float) or isfinite(value) else json.dumps(value)


def trace_value(trace: Trace, quoted: Collection[str] = ()) -> dict[str, Any]:
    """Return a trace: everything but the agents' steps, of which only those ``quoted`` by their
    source ids are read.
    """
    return {
        "id": trace.id,
        "format": trace.format,
        "agents": list(_agents(trace)),
        "attributes": dict(trace.attributes),
        "problems": list(trace.problems),
        "messages": [
            {
                "n": one.n,
                "sender": one.sender,
                "recipients": list(one.recipients),
                "text": one.text,
                "kind": one.kind,
                "tool": one.tool,
            }
            for one in trace.messages
        ],
        "patches": [{"agent": agent, "text": text} for agent, text in trace.patches.items()],
        "outcome": _outcome(trace),
        "steps": list(_quoted_steps(trace, quoted)),
    }


def _agents(trace: Trace) -> Iterable[str]:
    """Return who acts in a trace, in order: its agents, and who else sends messages."""
    return dict.fromkeys((*trace.agents, *(one.sender for one in trace.messages)))


def _outcome(trace: Trace) -> dict[str, Any]:
    end = trace.outcome
    return {
        "passed": end.passed,
        "merge": end.merge,
        "strategy": end.strategy,
        "text": join_pieces(end.reports)[0] if end.reports else "",
        "features": [
            {
                "name": one.name,
                "agent": one.agent,
                "passed": one.passed,
                "passed_alone": one.passed_alone,
                "alone_reason": one.alone_reason,
            }
            for one in end.features
        ],
        "agents": [
            {"agent": one.agent, "status": one.status, "error": one.error} for one in end.agents
        ],
    }


def _quoted_steps(trace: Trace, quoted: Collection[str]) -> Iterable[dict[str, Any]]:
    if not any(one.startswith("step:") for one in quoted):
        return
    try:
        for agent, steps in trace.steps.items():
            for step in steps:
                if f"step:{agent}:{step.n}" in quoted:
                    yield _step(agent, step)
    except UnreadableTrace:
        return  # the page says that a quote's source is not there


def _step(agent: str, step: Step) -> dict[str, Any]:
    return {
        "id": f"step:{agent}:{step.n}",
        "agent": agent,
        "n": step.n,
        "role": step.role,
        "tool": step.tool,
        "text": step.text,
    }


def steps_value(trace: Trace, agent: str, first: int) -> dict[str, Any]:
    """Return some steps of an agent from its ``first`` on, counted from 1, and how many it has.

    Raises:
        UnreadableTrace: the steps cannot be read.
    """
    steps = trace.steps.get(agent, ())
    shown = steps[max(0, first - 1) : max(0, first - 1) + STEPS]
    return {"count": len(steps), "steps": [_step(agent, one) for one in shown]}


def unreadable_value(found: Unreadable) -> dict[str, Any]:
    """Return a trace that cannot be read, as far as it can be shown."""
    outcome = {"passed": None, "merge": None, "strategy": None, "text": ""}
    return {
        "id": found.id,
        "format": "unreadable",
        "agents": [],
        "attributes": {},
        "problems": [found.reason],
        "messages": [],
        "patches": [],
        "outcome": outcome | {"features": [], "agents": []},
        "steps": [],
    }


def annotation_value(run: int, one: Annotation) -> dict[str, Any]:
    """Return an annotation of the run with this number."""
    return {
        "run": run,
        "rubric": one.rubric,
        "judge": one.judge,
        "status": one.status,
        "primary": one.primary,
        "secondary": list(one.secondary),
        "findings": [
            {
                "code": finding.code,
                "rationale": finding.rationale,
                "votes": finding.votes,
                "evidence": [asdict(evidence) for evidence in finding.evidence],
            }
            for finding in one.findings
        ],
        "rejected": [asdict(rejected) for rejected in one.rejected],
        "reason": one.reason,
        "error": one.error,
        "truncated": dict(one.truncated),
        "agreement": one.agreement,
        "tie": list(one.tie),
        "votes": [
            {
                "judge": vote.judge,
                "sample": vote.sample,
                "status": vote.status,
                "codes": [code for code in (vote.primary, *vote.secondary) if code],
                "error": vote.error,
            }
            for vote in one.votes
        ],
    }


def label_value(one: Label) -> dict[str, Any]:
    """Return what a person said."""
    return {
        "rubric": one.rubric,
        "annotator": one.annotator,
        "primary": one.primary,
        "secondary": list(one.secondary),
        "evidence": list(one.evidence),
        "spans": [asdict(span) for span in one.spans],
        "note": one.note,
        "confidence": one.confidence,
    }


def quoted_sources(annotations: Iterable[Annotation], labels: Iterable[Label] = ()) -> set[str]:
    """Return the ids of the sources that findings and labels quote from."""
    found = {
        evidence.source
        for one in annotations
        for finding in one.findings
        for evidence in finding.evidence
    }
    return found | {span.source for one in labels for span in one.spans}


def rubric_value(rubric: Rubric) -> dict[str, Any]:
    """Return a rubric with all that a person needs to label by it."""
    return {
        "id": rubric.id,
        "version": rubric.version,
        "sha256": rubric.sha256,
        "title": rubric.title,
        "choice": rubric.choice,
        "instructions": rubric.instructions,
        "precedence": list(rubric.precedence),
        "codes": [
            {
                "id": code.id,
                "name": code.name,
                "definition": code.definition,
                "evidence": code.evidence,
                "not": code.not_,
                "quotes": rubric.quotes_needed(code.id),
                "example": code.example
                and {"quotes": list(code.example.quotes), "why": code.example.why},
            }
            for code in rubric.codes
        ],
    }
