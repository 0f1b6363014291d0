"""Lists of messages, in the spellings that agent frameworks use."""

import json
import re
from collections.abc import Iterator
from typing import Any, Literal

from annotator.text import storable
from annotator.traces.document import kind, mapping, text_of, time_of
from annotator.traces.model import Message, Step, join_pieces

_SENDER = ("from", "sender", "sender_id", "name", "role")
_TEXT = ("message", "content", "text")
_RECIPIENT = ("to", "recipient", "recipients", "recipient_id")
_TIME = ("timestamp", "time", "created_at")
_KIND = ("kind", "message_type")
_EVERYBODY = {"broadcast", "all", "everyone", "*", ""}
_TOOLS = {"tool", "function", "ipython", "environment"}
_NOT_AN_AGENT = _TOOLS | {"system", "developer"}
_CALL = re.compile(r"\[tool_use ([\w.-]{1,80})\]")


def is_message(value: Any) -> bool:
    """Whether a JSON value looks like a message: an object that has a sender and a text."""
    return (
        isinstance(value, dict)
        and not isinstance(value.get("messages"), list)  # that is a record, whatever else it has
        and any(key in value for key in _SENDER)
        and any(key in value for key in (*_TEXT, "tool_calls"))
    )


def read_messages(items: list[Any], where: str) -> tuple[tuple[Message, ...], tuple[str, ...]]:
    """Return the messages in ``items`` and what was found wrong with them.

    A message without text or sender is kept (so that numbers stay those of the file) and listed as
    a problem.

    Raises:
        UnreadableTrace: an item is not an object.
    """
    messages: list[Message] = []
    problems: list[str] = []
    for n, item in enumerate(items, 1):
        fields = mapping(item, f"{where}: message {n}")
        pieces, has_tool_text, omitted = _pieces(fields)
        if not pieces:
            problems.append(f"{where}: message {n} has no text")
        for what in omitted:
            problems.append(f"{where}: message {n}: {what} left out, not text")
        sender = _first_text(fields, _SENDER)
        if not sender:
            problems.append(f"{where}: message {n} has no sender")
        text, breaks = join_pieces(pieces)
        messages.append(
            Message(
                n=n,
                sender=sender or "unknown",
                recipients=_recipients(fields),
                text=text,
                time=_time(fields),
                kind=_first_text(fields, _KIND),
                tool=has_tool_text or text_of(fields.get("role")) in _NOT_AN_AGENT,
                breaks=breaks,
            )
        )
    return tuple(messages), tuple(problems)


def read_steps(items: list[Any], where: str) -> tuple[Step, ...]:
    """Return an agent's trajectory from a list of ``{role, content}``.

    Raises:
        UnreadableTrace: an item is not an object.
    """
    steps = []
    for n, item in enumerate(items, 1):
        fields = mapping(item, f"{where}: step {n}")
        pieces, has_tool_text, _ = _pieces(fields)
        text, breaks = join_pieces(pieces)
        role = text_of(fields.get("role"))
        call = _CALL.match(text)
        author: Literal["agent", "tool", "task"] = "task"
        if role == "assistant":
            author = "agent"
        elif has_tool_text or role in _TOOLS or text.startswith("[tool_result]"):
            author = "tool"
        name = call.group(1) if call and author == "agent" else None
        steps.append(Step(n, author, text, name, breaks))
    return tuple(steps)


def _first(fields: dict[str, Any], keys: tuple[str, ...], nothing: tuple[Any, ...]) -> Any:
    for key in keys:
        if (value := fields.get(key)) not in nothing:
            return value
    return None


def _first_text(fields: dict[str, Any], keys: tuple[str, ...]) -> str | None:
    for key in keys:
        if text := text_of(fields.get(key)):
            return text
    return None


def _time(fields: dict[str, Any]) -> float | None:
    for key in _TIME:
        if (time := time_of(fields.get(key))) is not None:
            return time
    return None


def _recipients(fields: dict[str, Any]) -> tuple[str, ...]:
    value = _first(fields, _RECIPIENT, (None,))
    names = []
    for item in value if isinstance(value, list) else [value]:
        name = text_of(item)
        if name is not None and name.lower() not in _EVERYBODY:
            names.append(name)
    return tuple(names)


def _pieces(fields: dict[str, Any]) -> tuple[list[str], bool, list[str]]:
    """Return a message's texts, whether a tool wrote any of them, and what is not text."""
    content = _first(fields, _TEXT, (None, "", []))
    if isinstance(content, str) and "tool_calls" not in fields:  # as most are
        return [storable(content)], False, []
    pieces: list[str] = []
    omitted: list[str] = []
    has_tool_text = False
    for part in content if isinstance(content, list) else [content]:
        text = text_of(part)
        if text is not None:
            pieces.append(text)
        elif isinstance(part, dict):
            has_tool_text |= text_of(part.get("type")) in {"tool_result", "function_call_output"}
            texts = list(_part_texts(part))
            pieces += texts
            if not texts:
                omitted.append(f"a part of type {text_of(part.get('type')) or 'unknown'}")
        elif part is not None:
            omitted.append(kind(part))
    calls = fields.get("tool_calls")
    for call in calls if isinstance(calls, list) else []:
        if isinstance(call, dict):
            pieces += _call_texts(call.get("function", call))
    return [piece for piece in pieces if piece], has_tool_text, omitted


def _part_texts(part: dict[str, Any]) -> Iterator[str]:
    """Yield the texts of one content part (OpenAI's and Anthropic's shapes)."""
    if text_of(part.get("type")) in {"tool_use", "function_call"}:
        yield from _call_texts(part)
        return
    for key in ("text", "refusal", "output", "content"):
        value = part.get(key)
        text = text_of(value)
        if text:
            yield text
        for inner in value if isinstance(value, list) else []:
            if isinstance(inner, dict) and (text := text_of(inner.get("text"))):
                yield text


def _call_texts(call: Any) -> list[str]:
    """Return the name and the arguments of a tool call; arguments given as an object as JSON."""
    if not isinstance(call, dict):
        return []
    arguments = call.get("arguments", call.get("input"))
    if isinstance(arguments, dict | list):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return [text for text in (text_of(call.get("name")), text_of(arguments)) if text]
