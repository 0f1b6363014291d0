"""From spans to a conversation: what was said, in the order of time, each text once.

A call of a model records all that was said before it. So of the messages that a call was sent only
those are new which nobody said, or was told, as often before it in the trace; what it answered is
always new. The answers of calls are the words of the nearest agent above them. Where no call of a
model was recorded, the inputs and outputs of agents take their place.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from annotator.base.errors import UnreadableTrace
from annotator.base.text import format_count
from annotator.traces.conversation import Conversation, Utterance, read_message
from annotator.traces.formats.langchain import unwrap_message
from annotator.traces.model import Author, Outcome, Trace
from annotator.traces.records import get_text, parse_nested

Role = Literal["agent", "model", "tool", "other"]


@dataclass(frozen=True, slots=True)
class SpanRecord:
    """A span in the words of no vendor. ``told`` and ``answered``: messages as chat APIs write
    them, or texts; ``agent``: the name of the agent that it is, or that it says it belongs to.
    """

    id: str
    parent: str | None = None
    role: Role = "other"
    name: str = ""
    agent: str | None = None
    begin: float | None = None
    end: float | None = None
    told: Sequence[Any] = ()
    answered: Sequence[Any] = ()
    model: str | None = None
    error: str | None = None


def converse(spans: Iterable[SpanRecord], format: str, trace_id: str, path: str) -> Trace:
    """Return the trace of some spans, in any order; raises UnreadableTrace if they say nothing."""
    ordered = sorted(spans, key=lambda span: (span.begin is None, span.begin or 0.0))
    by_id = {span.id: span for span in ordered}
    speakers = [span for span in ordered if span.role == "model" and (span.answered or span.told)]
    speakers = speakers or [span for span in ordered if span.role == "agent"]
    shown = {span.id for span in speakers}
    chat = Conversation()
    texts = Counter[str]()
    for moment, span, answers in _moments(ordered, shown):
        agent = _agent_above(span, by_id)
        items = span.answered if answers else span.told or _told_above(span, by_id)
        here = Counter[str]()  # who says "yes" twice has said it twice
        for utterance in _read_all(items, agent, answers, span, moment):
            key = "\n".join(utterance.pieces).strip()
            here[key] += 1
            told_before = here[key] <= texts[key] and (not answers or span.role == "tool")
            if told_before or (not key and not utterance.reasoning and not utterance.omitted):
                continue
            texts[key] += 1
            chat.add(utterance, "spans")
    if ordered and not chat.messages:
        raise UnreadableTrace(f"no message in its {format_count(len(ordered), 'span')}")
    models = {span.model for span in ordered if span.model}
    told = {"model": ", ".join(sorted(models))} if models else {}
    root = next((span for span in ordered if span.parent not in by_id), None)
    outcome = Outcome(error=root.error if root else None)
    return chat.trace(format, trace_id, path, outcome=outcome, attributes=told)


def _moments(
    spans: Sequence[SpanRecord], shown: set[str]
) -> Iterator[tuple[float | None, SpanRecord, bool]]:
    """Yield what is said, in order: what a call was told when it began, what it said at its end."""
    moments = []
    for n, span in enumerate(spans):
        if span.id in shown:
            moments.append((span.begin or 0.0, n, 0, span, False))
        if span.id in shown or span.role == "tool":
            end = span.end if span.end is not None else span.begin
            moments.append((end or 0.0, n, 1, span, True))
    for at, _, _, span, answers in sorted(moments, key=lambda moment: moment[:3]):
        yield at or None, span, answers


def _agent_above(span: SpanRecord, by_id: Mapping[str, SpanRecord]) -> str:
    current: SpanRecord | None = span
    for _ in range(1000):  # a parent may be its own child, in what strangers write
        if current is None:
            break
        if current.agent:
            return current.agent
        current = by_id.get(current.parent or "")
    return "assistant"


def _told_above(span: SpanRecord, by_id: Mapping[str, SpanRecord]) -> Sequence[Any]:
    """Return what the nearest span above a call was told: calls whose own prompt is recorded as one
    text are in a step that was given the messages.
    """
    current = by_id.get(span.parent or "")
    for _ in range(1000):
        if current is None or span.role != "model":
            break
        if current.told and all(isinstance(item, dict) for item in current.told):
            return current.told
        current = by_id.get(current.parent or "")
    return ()


def _read_all(
    items: Sequence[Any], agent: str, answers: bool, span: SpanRecord, moment: float | None
) -> Iterator[Utterance]:
    for item in items:
        if span.role == "tool":
            text = get_text(item) or get_text(getattr(item, "get", lambda _: None)("content"))
            yield Utterance(span.name or "tool", "tool", [text or ""], time=moment)
        elif isinstance(item, dict):
            message = read_message(item, kinds=True, named=False)
            if message.author == "agent" or (answers and message.author == "unknown"):
                message = replace(message, sender=agent, author="agent")
            yield replace(message, time=moment)
        elif text := get_text(item):
            author: Author = "agent" if answers else "human"
            yield Utterance(agent if answers else "user", author, [text], time=moment)


def find_messages(value: Any) -> list[Any]:
    """Return the messages in the inputs or outputs of a call, as SDKs and tracers record them: a
    list, an object with one, choices, generations, or a text.
    """
    value = parse_nested(value)
    if isinstance(value, str):
        return [value] if value else []
    if isinstance(value, list):
        lists = [inner for inner in value if isinstance(inner, list)]
        return find_messages(lists[0]) if lists else [_unwrap(item) for item in value]
    if not isinstance(value, dict):
        return []
    for key in ("messages", "input", "contents", "generations", "choices", "candidates", "output"):
        if value.get(key):
            return find_messages(value[key])
    for key in ("content", "text", "value", "result", "message"):
        if key in value:
            return [_unwrap(value)]
    return []


def _unwrap(item: Any) -> Any:
    """Return a message out of what holds it: a choice, a generation, a constructor's form."""
    if isinstance(item, dict) and isinstance(message := item.get("message"), dict):
        item = message
    return unwrap_message(item)


def read_tool_text(value: Any) -> str | None:
    """Return what a tool returned as text, out of what tracers wrap it in."""
    held = parse_nested(value)
    for _ in range(4):
        held = unwrap_message(held)
        if held is None or isinstance(held, str):
            return held
        keys = [key for key in ("content", "output", "result") if has_content(held, key)]
        if not keys:
            break
        held = held[keys[0]]
    value = parse_nested(value)
    return json.dumps(value, ensure_ascii=False, default=str)


def has_content(value: Any, key: str) -> bool:
    """Whether an object holds a text, or an object again, under a key."""
    return isinstance(value, dict) and isinstance(value.get(key), str | dict)
