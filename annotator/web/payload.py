"""A trace, an annotation, a label and a rubric as the JSON that the pages read."""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict
from functools import partial
from math import isfinite
from typing import Any

from annotator.base.errors import UnreadableTrace
from annotator.base.text import replace_surrogates
from annotator.labels import Label
from annotator.rubrics import Rubric
from annotator.rubrics.annotations import Annotation
from annotator.traces import Step, Trace, Unreadable
from annotator.traces.model import join_pieces

STEPS = 50  # of an agent that are sent at once


def dump(value: Any) -> str:
    """Return a value as compact JSON that UTF-8 can hold and every browser reads: NaN and the
    infinities, which JSON does not have, become texts.
    """
    write = partial(json.dumps, ensure_ascii=False, separators=(",", ":"), default=str)
    try:
        return replace_surrogates(write(value, allow_nan=False))
    except ValueError:
        return replace_surrogates(write(_finite(value)))


def _finite(value: Any) -> Any:
    """Return a value with the numbers that are none as texts, as tables show them."""
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
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
                "n": message.n,
                "sender": message.sender,
                "recipients": list(message.recipients),
                "text": message.text,
                "kind": message.kind,
                "author": message.author,
            }
            for message in trace.messages
        ],
        "patches": [{"agent": agent, "text": text} for agent, text in trace.patches.items()],
        "outcome": _outcome(trace),
        "steps": list(_find_quoted_steps(trace, quoted)),
    }


def _agents(trace: Trace) -> Iterable[str]:
    """Return who acts in a trace, in order: its agents, and who else sends messages."""
    return dict.fromkeys((*trace.agents, *(message.sender for message in trace.messages)))


def _outcome(trace: Trace) -> dict[str, Any]:
    end = trace.outcome
    return {
        "passed": end.passed,
        "merge": end.merge,
        "strategy": end.strategy,
        "text": join_pieces(end.reports)[0] if end.reports else "",
        "features": [
            {
                "name": feature.name,
                "agent": feature.agent,
                "passed": feature.passed,
                "passed_alone": feature.passed_alone,
                "alone_reason": feature.alone_reason,
            }
            for feature in end.features
        ],
        "agents": [
            {"agent": agent.agent, "status": agent.status, "error": agent.error}
            for agent in end.agents
        ],
    }


def _find_quoted_steps(trace: Trace, quoted: Collection[str]) -> Iterable[dict[str, Any]]:
    if not any(source.startswith("step:") for source in quoted):
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
        "author": step.author,
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
    return {"count": len(steps), "steps": [_step(agent, step) for step in shown]}


def unreadable_value(trace: Unreadable) -> dict[str, Any]:
    """Return a trace that cannot be read, as far as it can be shown."""
    outcome = {"passed": None, "merge": None, "strategy": None, "text": ""}
    return {
        "id": trace.id,
        "format": "unreadable",
        "agents": [],
        "attributes": {},
        "problems": [trace.reason],
        "messages": [],
        "patches": [],
        "outcome": outcome | {"features": [], "agents": []},
        "steps": [],
    }


def annotation_value(run: int, annotation: Annotation) -> dict[str, Any]:
    """Return an annotation of the run with this number."""
    return {
        "run": run,
        "rubric": annotation.rubric,
        "judge": annotation.judge,
        "status": annotation.status,
        "primary": annotation.primary,
        "secondary": list(annotation.secondary),
        "findings": [
            {
                "code": finding.code,
                "rationale": finding.rationale,
                "votes": finding.votes,
                "evidence": [asdict(evidence) for evidence in finding.evidence],
            }
            for finding in annotation.findings
        ],
        "rejected": [asdict(rejected) for rejected in annotation.rejected],
        "reason": annotation.reason,
        "error": annotation.error,
        "truncated": dict(annotation.truncated),
        "read": annotation.read,
        "agreement": annotation.agreement,
        "tie": list(annotation.tie),
        "contradictions": list(annotation.contradictions),
        "votes": [
            {
                "judge": vote.judge,
                "sample": vote.sample,
                "status": vote.status,
                "codes": [code for code in (vote.primary, *vote.secondary) if code],
                "error": vote.error or vote.reason,
            }
            for vote in annotation.votes
        ],
    }


def label_value(label: Label) -> dict[str, Any]:
    """Return what a person said."""
    return {
        "rubric": label.rubric,
        "annotator": label.annotator,
        "primary": label.primary,
        "secondary": list(label.secondary),
        "evidence": list(label.evidence),
        "spans": [asdict(span) for span in label.spans],
        "note": label.note,
        "confidence": label.confidence,
    }


def list_quoted_sources(
    annotations: Iterable[Annotation], labels: Iterable[Label] = ()
) -> set[str]:
    """Return the ids of the sources that findings and labels quote from."""
    sources = {
        evidence.source
        for annotation in annotations
        for finding in annotation.findings
        for evidence in finding.evidence
    }
    return sources | {span.source for label in labels for span in label.spans}


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
