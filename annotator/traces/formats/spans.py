"""Conversations in spans: every text once, in the order of time.

The input of a model's call repeats the conversation before it, so a message of it is new only if
it occurs more often than before in the trace. An output is always new, and a message of the nearest
agent above the call. Of an agent without calls of models, its own inputs and outputs are read.
Arguments of a tool that no message shows stand before its result. Other spans are named if they
hold a text that no message holds.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal

from annotator.base.errors import UnreadableTrace
from annotator.base.text import format_count
from annotator.traces.conversation import (
    HARMLESS,
    Conversation,
    Utterance,
    list_call_texts,
    read_message,
)
from annotator.traces.formats.langchain import unwrap_message
from annotator.traces.model import AgentEnd, Author, Outcome
from annotator.traces.records import (
    get_dict,
    get_list,
    get_text,
    parse_cell,
    parse_nested,
    read_attributes,
)

Role = Literal["agent", "model", "tool", "other"]

_WORDLESS = HARMLESS | {"role", "type", "name"}


@dataclass(frozen=True, slots=True)
class SpanRecord:
    """A span of any vendor. ``inputs`` and ``outputs`` are chat messages or texts; ``agent`` is the
    name of the agent that it is, or that it names.
    """

    id: str
    parent: str | None = None
    role: Role = "other"
    name: str = ""
    agent: str | None = None
    begin: float | None = None
    end: float | None = None
    inputs: Sequence[Any] = ()
    outputs: Sequence[Any] = ()
    model: str | None = None
    error: str | None = None


def converse(spans: Iterable[SpanRecord]) -> Conversation:
    """Return what some spans say, in any order; raises UnreadableTrace without a message."""
    ordered = sorted(spans, key=lambda span: (span.begin is None, span.begin or 0.0))
    by_id = {span.id: span for span in ordered}
    models = [span for span in ordered if span.role == "model" and (span.outputs or span.inputs)]
    above = {each.id for span in models for each in _list_ancestors(span, by_id)}
    agents = [span for span in ordered if span.role == "agent" and span.id not in above]
    speakers = [*models, *agents]
    speaker_ids = {span.id for span in speakers}
    speaking = {_find_agent(span, by_id) for span in speakers}
    texts = Counter[str]()
    read: list[tuple[Utterance, SpanRecord, bool]] = []
    for moment, span, is_output in _list_moments(ordered, by_id, speaker_ids):
        agent = _find_agent(span, by_id)
        items = span.outputs if is_output else span.inputs or _find_inputs(span, by_id)
        if is_output and span.role == "tool" and not any(items):
            items = [span.error]
        elif span.role == "agent" and span.id not in speaker_ids:  # its models said most of it
            items = [item for item in items if _is_new_answer(item, texts)]
        counts = Counter[str]()  # two equal messages of one call are two
        for utterance in _read_all(items, agent, is_output, span, moment):
            key = "\n".join(utterance.pieces).strip()
            counts[key] += 1
            is_old = counts[key] <= texts[key] and (not is_output or span.role == "tool")
            if utterance.author == "human" and _is_below_agent(span, by_id, speaking):
                utterance = replace(utterance, author="system")  # an agent's task for another one
            is_new = not is_old and bool(key or utterance.reasoning or utterance.omitted)
            texts[key] += is_new
            if is_new or span.role == "tool":
                read.append((utterance, span, is_new))
    chat = Conversation()
    contents = [*texts, *(thought for utterance, _, _ in read for thought in utterance.reasoning)]
    for utterance, span, is_new in read:
        arguments = list_call_texts({"arguments": span.inputs[0]}) if span.role == "tool" else []
        if arguments and not _is_called(span, contents):
            chat.add(replace(utterance, pieces=[*arguments, *utterance.pieces]), "spans")
            contents += arguments
        elif is_new:
            chat.add(utterance, "spans")
    others = (span for span in ordered if span.role != "tool" and span.id not in speaker_ids)
    _note_unread(others, contents, chat)
    if ordered and not chat.messages:
        raise UnreadableTrace(f"no message in its {format_count(len(ordered), 'span')}")
    chat.set_attributes(model=", ".join(sorted({span.model for span in ordered if span.model})))
    failed = [span for span in ordered if span.error and span.role != "tool"]
    heard = {message.sender for message in chat.messages}
    crashed = [span for span in failed if span.role == "agent" and span.agent not in (None, *heard)]
    ends = [AgentEnd(span.agent or "", None, "error", span.error) for span in crashed]
    errors = dict.fromkeys(span.error for span in failed if span.error and span not in crashed)
    chat.outcome = Outcome(error="\n".join(errors) or None, agents=tuple(dict.fromkeys(ends)))
    chat.describe_unread()
    return chat


def add_record(chat: Conversation, record: Mapping[str, Any], consumed: Collection[str]) -> None:
    """Add the attributes of the record that held the spans; those of the spans come first."""
    attributes, problems = read_attributes(record, consumed)
    chat.attributes = {**attributes, **chat.attributes}
    chat.problems += problems


def _is_called(span: SpanRecord, texts: Sequence[str]) -> bool:
    """Whether a message names a tool and holds all texts and numbers of its arguments."""
    leaves = [_spell(leaf) for leaf in _list_leaves(list(span.inputs))]
    return not leaves or any(
        span.name in text and all(any(form in text for form in forms) for forms in leaves)
        for text in texts
    )


def _note_unread(spans: Iterable[SpanRecord], texts: Sequence[str], chat: Conversation) -> None:
    """Note the spans with a text that no message holds; a bare name in them is no text."""
    hidden: dict[str, bool] = {}
    for span in spans:
        for side, items in (("input", span.inputs), ("output", span.outputs)):
            leaves = set(_list_leaves(list(items)))
            for leaf in leaves - hidden.keys():
                forms = () if leaf.isascii() and leaf.isidentifier() else _spell(leaf)
                hidden[leaf] = bool(forms) and not any(
                    form in text for form in forms for text in texts
                )
            if any(hidden[leaf] for leaf in leaves):
                chat.unread["spans", f"{side} of {span.name or span.role}"] += 1


def _spell(leaf: str) -> set[str]:
    """Return a text as it is and as JSON writes it."""
    return {leaf, json.dumps(leaf)[1:-1], json.dumps(leaf, ensure_ascii=False)[1:-1]}


def _list_leaves(value: Any) -> Iterator[str]:
    """Yield the texts and numbers in a value, but those under keys without words."""
    value = parse_cell(value)
    if isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for inner in (inner for key, inner in pairs if key not in _WORDLESS):
            yield from _list_leaves(inner)
    elif text := (get_text(value) or "").strip():
        yield text


def _is_new_answer(item: Any, texts: Iterable[str]) -> bool:
    """Whether an agent's output is a text that no message before it holds."""
    text = item.strip() if isinstance(item, str) else ""
    return text[:1] not in ("", "{", "[") and not any(text in other for other in texts)


def _list_moments(
    spans: Sequence[SpanRecord], by_id: Mapping[str, SpanRecord], speaker_ids: set[str]
) -> Iterator[tuple[float | None, SpanRecord, bool]]:
    """Yield each span at its begin for its inputs and at its end for its outputs, by time."""
    moments = []
    ends: dict[str, float] = {}
    for span in spans:
        for each in _list_ancestors(span, by_id):
            ends[each.id] = max(ends.get(each.id, 0.0), span.end or span.begin or 0.0)
    for n, span in enumerate(spans):
        if span.id in speaker_ids:
            moments.append((span.begin or 0.0, n, 0, span, False))
        if span.id in speaker_ids or span.role == "tool":
            end = span.end if span.end is not None else span.begin
            moments.append((end or 0.0, n, 1, span, True))
        elif span.role == "agent":  # after all that is below it
            moments.append((ends[span.id], 2 * len(spans) - n, 1, span, True))
    for at, _, _, span, is_output in sorted(moments, key=lambda moment: moment[:3]):
        yield at or None, span, is_output


def _list_ancestors(span: SpanRecord, by_id: Mapping[str, SpanRecord]) -> Iterator[SpanRecord]:
    """Yield a span, and those above it."""
    current: SpanRecord | None = span
    for _ in range(1000):  # a parent may be its own child, in what strangers write
        if current is None:
            return
        yield current
        current = by_id.get(current.parent or "")


def _find_agent(span: SpanRecord, by_id: Mapping[str, SpanRecord]) -> str:
    names = (each.agent for each in _list_ancestors(span, by_id) if each.agent)
    return next(names, "assistant")


def _is_below_agent(span: SpanRecord, by_id: Mapping[str, SpanRecord], speaking: set[str]) -> bool:
    """Whether the agent of a span works for another one: a speaker whose span is above its own."""
    others = speaking - {_find_agent(span, by_id)}
    return any(each.agent in others for each in _list_ancestors(span, by_id))


def _find_inputs(span: SpanRecord, by_id: Mapping[str, SpanRecord]) -> Sequence[Any]:
    """Return the messages of the nearest span above a call that records no input of its own."""
    above = islice(_list_ancestors(span, by_id), 1, None) if span.role == "model" else ()
    lists = (each.inputs for each in above if each.inputs)
    return next((items for items in lists if all(isinstance(item, dict) for item in items)), ())


def _read_all(
    items: Sequence[Any], agent: str, is_output: bool, span: SpanRecord, moment: float | None
) -> Iterator[Utterance]:
    for item in items:
        if span.role == "tool":
            text = get_text(item) or get_text(getattr(item, "get", lambda _: None)("content"))
            yield Utterance(span.name or "tool", "tool", [text or ""], time=moment)
        elif isinstance(item, dict):
            message = read_message(item)
            if message.author == "agent" or (is_output and message.author == "unknown"):
                message = replace(message, sender=agent, author="agent")
            yield replace(message, time=moment)
        elif text := get_text(item):
            author: Author = "agent" if is_output else "human"
            yield Utterance(agent if is_output else "user", author, [text], time=moment)


def list_objects(item: Any, *keys: str) -> list[dict[str, Any]]:
    """Return the objects in the list under the first of some keys that an object has."""
    value = next((item[key] for key in keys if key in item), None) if isinstance(item, dict) else ()
    return [inner for inner in get_list(value) if isinstance(inner, dict)]


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
    is_message = {"content", "text", "value", "result", "message"} & value.keys()
    return [_unwrap(value)] if is_message else []


def find_inputs(value: Any, role: Role) -> list[Any]:
    """Return the messages that a model got, a tool's arguments, or all that another span got."""
    return [value] if role == "tool" else (find_messages if role == "model" else find_texts)(value)


def find_texts(value: Any) -> list[Any]:
    """Return the messages in what an agent got or returned; an object without any as JSON."""
    value = parse_nested(value)
    texts = list(value.values()) if isinstance(value, dict) else []
    if len(texts) == 1 and isinstance(texts[0], str):  # the argument of a function
        return texts
    messages = [item for item in find_messages(value) if item not in (None, "")]
    return messages or ([json.dumps(value, ensure_ascii=False, default=str)] if value else [])


def _unwrap(item: Any) -> Any:
    """Return the message in a choice, a generation, or a constructor's form."""
    if isinstance(item, dict) and isinstance(message := item.get("message"), dict):
        item = message
    return unwrap_message(item)


def read_tool_text(value: Any) -> str | None:
    """Return a tool's result as text, out of the objects that tracers wrap it in."""
    content = parse_nested(value)
    for _ in range(4):
        content = unwrap_message(content)
        if content is None or isinstance(content, str):
            return content
        values = (get_dict(content).get(key) for key in ("content", "output", "result"))
        content = next((inner for inner in values if isinstance(inner, str | dict)), None)
        if content is None:
            break
    return json.dumps(parse_nested(value), ensure_ascii=False, default=str)
