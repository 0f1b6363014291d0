"""A trace, an annotation, a label and a rubric as the JSON that the pages read."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from math import isfinite
from typing import Any

from annotator.base.errors import UnreadableTrace
from annotator.base.text import replace_surrogates
from annotator.labels import Label
from annotator.rubrics import Rubric
from annotator.rubrics.annotations import Annotation, Finding
from annotator.traces import Step, Trace, Unreadable
from annotator.traces.model import join_pieces

STEPS = 50  # of an agent in one answer


def dump(value: Any) -> str:
    """Return a value as compact JSON that UTF-8 can hold and every browser reads: NaN and the
    infinities, which JSON lacks, become texts.
    """
    write = partial(json.dumps, ensure_ascii=False, separators=(",", ":"), default=str)
    try:
        return replace_surrogates(write(value, allow_nan=False))
    except ValueError:
        return replace_surrogates(write(_replace_infinite(value)))


def _replace_infinite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _replace_infinite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_infinite(item) for item in value]
    return value if not isinstance(value, float) or isfinite(value) else json.dumps(value)


def _pick(item: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(item, name) for name in names}


def serialize_trace(trace: Trace, quoted: Collection[str] = ()) -> dict[str, Any]:
    """Return a trace with the steps whose source ids are ``quoted``; other steps are not read."""
    outcome, messages = trace.outcome, trace.messages
    feature = ("name", "agent", "passed", "passed_alone", "alone_reason")
    return {
        "id": trace.id,
        "format": trace.format,
        # The agents, then other senders.
        "agents": list(dict.fromkeys((*trace.agents, *(message.sender for message in messages)))),
        "attributes": dict(trace.attributes),
        "problems": list(trace.problems),
        "messages": [
            _pick(message, "n", "sender", "recipients", "text", "kind", "author")
            for message in messages
        ],
        "patches": [{"agent": agent, "text": text} for agent, text in trace.patches.items()],
        "outcome": {
            **_pick(outcome, "passed", "merge", "strategy"),
            "text": join_pieces(outcome.reports)[0] if outcome.reports else "",
            "features": [_pick(each, *feature) for each in outcome.features],
            "agents": [_pick(agent, "agent", "status", "error") for agent in outcome.agents],
        },
        "steps": list(_find_quoted_steps(trace, quoted)),
    }


def _find_quoted_steps(trace: Trace, quoted: Collection[str]) -> Iterator[dict[str, Any]]:
    if not any(source.startswith("step:") for source in quoted):
        return
    try:
        for agent, steps in trace.steps.items():
            for step in steps:
                if f"step:{agent}:{step.n}" in quoted:
                    yield _serialize_step(agent, step)
    except UnreadableTrace:
        return  # the page says that a quote's source is missing


def _serialize_step(agent: str, step: Step) -> dict[str, Any]:
    step_id = f"step:{agent}:{step.n}"
    return {"id": step_id, "agent": agent, **_pick(step, "n", "author", "tool", "text")}


def serialize_steps(trace: Trace, agent: str, first: int) -> dict[str, Any]:
    """Return up to ``STEPS`` steps of an agent from its ``first`` on, counted from 1, and how many
    it has.

    Raises:
        UnreadableTrace: the steps cannot be read.
    """
    steps = trace.steps.get(agent, ())
    start = max(0, first - 1)
    page = [_serialize_step(agent, step) for step in steps[start : start + STEPS]]
    return {"count": len(steps), "steps": page}


def serialize_unreadable(trace: Unreadable) -> dict[str, Any]:
    """Return an unreadable trace: its id and the reason, all else empty."""
    outcome = {"passed": None, "merge": None, "strategy": None, "text": ""}
    lists: dict[str, Any] = {"agents": [], "messages": [], "patches": [], "steps": []}
    return lists | {
        "id": trace.id,
        "format": "unreadable",
        "attributes": {},
        "problems": [trace.reason],
        "outcome": outcome | {"features": [], "agents": []},
    }


def serialize_annotation(run: int, annotation: Annotation) -> dict[str, Any]:
    """Return an annotation of the run with this number."""
    return {
        "run": run,
        **_pick(annotation, "rubric", "judge", "status", "primary", "secondary"),
        **_pick(annotation, "reason", "error", "read", "agreement", "tie", "contradictions"),
        "findings": [_serialize_finding(finding) for finding in annotation.findings],
        "refuted": [_serialize_finding(finding) for finding in annotation.refuted],
        "rejected": [asdict(rejected) for rejected in annotation.rejected],
        "truncated": dict(annotation.truncated),
        "votes": [
            {
                **_pick(vote, "judge", "sample", "status"),
                "codes": [code for code in (vote.primary, *vote.secondary) if code],
                "error": vote.error or vote.reason,
            }
            for vote in annotation.votes
        ],
    }


def _serialize_finding(finding: Finding) -> dict[str, Any]:
    return {
        **_pick(finding, "code", "rationale", "votes"),
        "evidence": [asdict(evidence) for evidence in finding.evidence],
        "critique": finding.critique and asdict(finding.critique),
    }


def serialize_label(label: Label) -> dict[str, Any]:
    """Return a person's label."""
    names = ("rubric", "annotator", "primary", "secondary", "evidence", "note", "confidence")
    return _pick(label, *names) | {"spans": [asdict(span) for span in label.spans]}


def list_quoted_sources(
    annotations: Iterable[Annotation], labels: Iterable[Label] = ()
) -> set[str]:
    """Return the ids of the sources that findings and labels quote from."""
    sources = {
        evidence.source
        for annotation in annotations
        for finding in (*annotation.findings, *annotation.refuted)
        for evidence in finding.evidence
    }
    return sources | {span.source for label in labels for span in label.spans}


def serialize_rubric(rubric: Rubric) -> dict[str, Any]:
    """Return a rubric as the page to label shows it."""
    return {
        **_pick(rubric, "id", "version", "sha256", "title", "choice", "instructions", "precedence"),
        "codes": [
            {
                **_pick(code, "id", "name", "definition", "evidence"),
                "not": code.not_,
                "wants": rubric.describe_quotes(code.id),
                "example": code.example and _pick(code.example, "quotes", "why"),
            }
            for code in rubric.codes
        ],
    }
