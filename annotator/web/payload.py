"""A trace, an annotation, a label and a rubric as the JSON that the pages read."""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from math import isfinite
from typing import Any

from annotator.base.errors import UnreadableTrace
from annotator.base.text import replace_surrogates
from annotator.labels import Label
from annotator.reports.digits import Share
from annotator.rubrics import Rubric
from annotator.rubrics.annotations import Annotation
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


def pick(item: Any, *names: str) -> dict[str, Any]:
    """Return some attributes by name."""
    return {name: getattr(item, name) for name in names}


def serialize_share(share: Share | None) -> list[float | None] | None:
    """Return low, value and high of a share; None if it is undefined."""
    return None if share is None or share.value is None else [share.low, share.value, share.high]


def serialize_trace(trace: Trace | Unreadable, quoted: Collection[str] = ()) -> dict[str, Any]:
    """Return a trace with the steps whose source ids are ``quoted``; other steps are not read. An
    unreadable one has its id and the reason, and all else empty.
    """
    if isinstance(trace, Unreadable):
        trace = Trace(trace.id, "unreadable", trace.path, problems=(trace.reason,))
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
            pick(message, "n", "sender", "recipients", "text", "kind", "author")
            for message in messages
        ],
        "patches": [{"agent": agent, "text": text} for agent, text in trace.patches.items()],
        "outcome": {
            **pick(outcome, "passed", "merge", "strategy"),
            "text": join_pieces(outcome.reports)[0] if outcome.reports else "",
            "features": [pick(each, *feature) for each in outcome.features],
            "agents": [pick(agent, "agent", "status", "error") for agent in outcome.agents],
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
    return {"id": step_id, "agent": agent, **pick(step, "n", "author", "tool", "text")}


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


def serialize_annotation(run: int, annotation: Annotation) -> dict[str, Any]:
    """Return an annotation of the run with this number."""
    fields = json.loads(annotation.to_json())
    return {"run": run, "refuted": [], **fields, **pick(annotation, "read", "contradictions")}


def serialize_label(label: Label) -> dict[str, Any]:
    """Return a person's label."""
    names = ("rubric", "annotator", "primary", "secondary", "evidence", "note", "confidence")
    return pick(label, *names) | {"spans": [asdict(span) for span in label.spans]}


def serialize_rubric(rubric: Rubric) -> dict[str, Any]:
    """Return a rubric as the page to label shows it."""
    fields = rubric.model_dump(mode="json", by_alias=True)
    for code in fields["codes"]:
        code["wants"] = rubric.describe_quotes(code["id"])
    return fields | {"sha256": rubric.sha256}
