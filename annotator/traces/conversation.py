"""Messages in the spellings that agent frameworks use, and what becomes a trace of them."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from annotator.base.text import replace_surrogates
from annotator.traces.authors import (
    classify_word,
    find_author,
    has_named_speakers,
    has_role_words,
    is_call_role,
)
from annotator.traces.model import Author, Message, Outcome, Step, Trace, join_pieces
from annotator.traces.records import expect_object, get_text, name_type, parse_time

_SENDER = ("from", "sender", "sender_id", "name", "role", "source", "type")
_AUTHORS = ("role", "sender", "from", "source")
_TEXT = ("message", "content", "text", "value")
_RECIPIENT = ("to", "recipient", "recipients", "recipient_id")
_TIME = ("timestamp", "time", "created_at")
_KIND = ("kind", "message_type")
_REASONING = ("reasoning_content", "reasoning", "thinking", "thought")
_EVERYBODY = {"broadcast", "all", "everyone", "*", ""}
_CALL_TYPE = re.compile(r"(?:.*[-_])?(?:tool_use|call)|mcp_approval_request|program")
_RESULT_TYPE = re.compile(
    r"(?:.*[-_])?(?:tool[-_](?:result|response|output)|call_(?:output|response)|search_output)"
    r"|mcp_approval_response|program_output"
)
_THOUGHTS = {"thinking", "reasoning", "redacted_thinking"}
_GEMINI_RESULTS = (
    *("functionResponse", "function_response", "codeExecutionResult", "code_execution_result"),
)
_ARGUMENTS = ("arguments", "input", "args", "action", "query", "queries", "code", "operation")
_RETURNED = ("output", "outputs", "result", "results", "stdout", "stderr", "logs")
_IN_ITEMS = {"call_id", "arguments", "input", "action", "output", "summary", "content", "thinking"}
_PART_TEXTS = (
    *("text", "value", "refusal", "output", "content", "result", "response"),
    *("logs", "stdout", "stderr"),
)
_EXECUTED = re.compile(r"exitcode: -?\d+ \(execution (?:succeeded|failed)")
_CALL = re.compile(r"\[tool_use ([\w.-]{1,80})\]")


@dataclass(frozen=True, slots=True)
class Utterance:
    """What one item of a conversation says, before it is a numbered :class:`Message`.

    ``pieces``: its texts, which no quote may run across; ``reasoning``: what the agent thought
    (steps of it, no message to others); ``omitted``: what it holds that is no text, in words.
    """

    sender: str
    author: Author
    pieces: Sequence[str] = ()
    recipients: tuple[str, ...] = ()
    time: float | None = None
    kind: str | None = None
    reasoning: Sequence[str] = ()
    omitted: Sequence[str] = ()


@dataclass(slots=True)
class Conversation:
    """Numbered messages, what the agents thought, and what was found wrong."""

    messages: list[Message] = field(default_factory=list)
    steps: dict[str, list[Step]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def add(self, utterance: Utterance, where: str) -> None:
        """Append what was said. A message without text or sender is kept (so that numbers stay
        those of the file) and listed as a problem; one that only thinks is a step.
        """
        pieces = [replace_surrogates(piece) for piece in utterance.pieces if piece]
        sender = replace_surrogates(utterance.sender)
        thoughts = [replace_surrogates(thought) for thought in utterance.reasoning if thought]
        if utterance.reasoning and not thoughts and not pieces:
            self.problems.append(f"{where}: reasoning without a text (encrypted), left out")
            return
        for thought in thoughts:
            steps = self.steps.setdefault(sender or "unknown", [])
            steps.append(Step(len(steps) + 1, utterance.author, thought))
        if thoughts and not pieces:
            return
        n = len(self.messages) + 1
        if not pieces:
            self.problems.append(f"{where}: message {n} has no text")
        for what in utterance.omitted:
            self.problems.append(f"{where}: message {n}: {what} left out, not text")
        if not sender:
            self.problems.append(f"{where}: message {n} has no sender")
        elif utterance.author == "unknown":
            self.problems.append(
                f"{where}: message {n}: it is not known whether {sender[:80]!r} is an agent"
            )
        text, breaks = join_pieces(pieces)
        message = Message(
            n=n,
            sender=sender or "unknown",
            recipients=tuple(map(replace_surrogates, utterance.recipients)),
            text=text,
            time=utterance.time,
            kind=utterance.kind,
            author=utterance.author,
            breaks=breaks,
        )
        self.messages.append(message)

    def trace(
        self,
        format: str,
        trace_id: str,
        path: str,
        *,
        outcome: Outcome | None = None,
        attributes: Mapping[str, Any] | None = None,
        tasks: Mapping[str, str] | None = None,
        patches: Mapping[str, str] | None = None,
    ) -> Trace:
        """Return the trace of what was said."""
        steps = {agent: tuple(thoughts) for agent, thoughts in self.steps.items()}
        return Trace(
            id=trace_id,
            format=format,
            path=path,
            messages=tuple(self.messages),
            patches={
                replace_surrogates(agent): replace_surrogates(text)
                for agent, text in (patches or {}).items()
            },
            outcome=outcome or Outcome(),
            attributes=attributes or {},
            problems=tuple(self.problems),
            read_steps=lambda: steps,
            read_tasks=lambda: tasks or {},
        )


def is_message(value: Any) -> bool:
    """Whether a JSON value looks like a message: an object that has a sender and a text."""
    if not isinstance(value, dict) or isinstance(value.get("messages"), list):
        return False  # with such a list it is a record, whatever else it has
    if _is_item(value):
        return bool(_IN_ITEMS & value.keys())
    told = any(key in value for key in _SENDER[:-1]) or classify_word(value.get("type")) is not None
    return told and any(key in value for key in (*_TEXT, "tool_calls", "parts"))


def read_chat(items: Iterable[Any], where: str) -> Conversation:
    """Return the conversation in a list of messages as chat APIs and frameworks write them.

    Raises:
        UnreadableTrace: an item is not an object.
    """
    items = items if isinstance(items, list) else list(items)
    kinds, named = has_role_words(items), has_named_speakers(items)
    parts = [
        part
        for n, item in enumerate(items, 1)
        for part in split_message(expect_object(item, f"{where}: message {n}"))
    ]
    utterances = [read_message(part, kinds, named) for part in parts]
    agents = [
        (part, message.sender)
        for part, message in zip(parts, utterances, strict=True)
        if message.author == "agent" and not is_call_role(message.sender)
    ]
    names = {sender for part, sender in agents if part.get("name")}
    caller = next((sender for _, sender in agents), "assistant")
    chat = Conversation()
    for part, message in zip(parts, utterances, strict=True):
        if message.author == "agent" and is_call_role(message.sender):  # a role beside the agent's
            message = replace(message, sender=caller)
        elif message.author == "agent" and named and len(names) == 1 and not part.get("name"):
            message = replace(message, sender=min(names))
        chat.add(message, where)
    return chat


def split_message(fields: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return a message as several where one holds what tools returned beside what its author wrote:
    a person's words behind results, results of tools that run at the provider in an agent's.
    """
    if _is_item(fields):
        return _divide_call(fields)
    key = "content" if fields.get("content") else "parts"
    content = fields.get(key)
    if not isinstance(content, list) or classify_word(fields.get("role")) == "tool":
        return [fields]
    content = [inner for part in content for inner in _divide_call(part)]
    runs = [(kind, list(run)) for kind, run in groupby(content, _is_result)]
    if len(runs) < 2:
        return [fields]
    calling = [kind for kind, _ in runs].index(False)
    alone = {name: value for name, value in fields.items() if name != "tool_calls"}
    return [{**(fields if n == calling else alone), key: run} for n, (_, run) in enumerate(runs)]


def _divide_call(part: Any) -> list[Any]:
    """Return a call that holds what the tool returned as the two that it is, else the part."""
    if not isinstance(part, dict) or _RESULT_TYPE.fullmatch(get_text(part.get("type")) or ""):
        return [part]
    results = [part[key] for key in _RETURNED if part.get(key)]
    if not results or not any(part.get(key) is not None for key in _ARGUMENTS):
        return [part]
    call = {key: value for key, value in part.items() if key not in _RETURNED}
    tool = (
        get_text(part.get("name")) or get_text(part.get("toolName")) or get_text(part.get("type"))
    )
    texts = [json.dumps(item) if isinstance(item, dict) else item for item in results]
    return [
        {**call, "type": "function_call", "name": tool},
        {"type": "tool_result", "name": tool, "content": texts},
    ]


def read_message(fields: Mapping[str, Any], kinds: bool, named: bool) -> Utterance:
    """Return what a message of a chat says; ``kinds`` and ``named`` as
    :func:`annotator.traces.authors.find_author` takes them.
    """
    parts = _read_parts(fields)
    author = find_author(fields, kinds=kinds, named=named)
    sender = _first_text(fields, _SENDER) or ""
    if _is_item(fields):  # a name in it is that of the tool
        author, sender = ("tool", sender) if parts.has_result else ("agent", "assistant")
    executed = bool(parts.texts) and _EXECUTED.match(parts.texts[0])  # AG2's
    if parts.has_result or executed or fields.get("tool_call_id") or fields.get("tool_use_id"):
        author, sender = "tool", "tool" if classify_word(sender) in ("human", "agent") else sender
    return Utterance(
        sender=sender,
        author=author,
        pieces=parts.texts,
        recipients=_recipients(fields),
        time=read_time(fields),
        kind=_first_text(fields, _KIND),
        reasoning=parts.reasoning,
        omitted=parts.omitted,
    )


def _is_item(fields: Mapping[str, Any]) -> bool:
    """Whether a message is an item of the Responses API that is a part by itself."""
    type_ = fields.get("type")
    if not isinstance(type_, str) or not fields.keys().isdisjoint(_AUTHORS):
        return False
    return _is_part_of_agents(type_)


def _is_part_of_agents(type_: str) -> bool:
    patterns = (_CALL_TYPE, _RESULT_TYPE)
    return type_ in _THOUGHTS or any(pattern.fullmatch(type_) for pattern in patterns)


def _is_result(part: Any) -> bool:
    """Whether a part of a content is what a tool returned."""
    if not isinstance(part, dict):
        return False
    type_ = part.get("type")
    if isinstance(type_, str) and _RESULT_TYPE.fullmatch(type_):
        return True
    if "tool_use_id" in part or any(part.get(key) for key in _GEMINI_RESULTS):
        return True
    called = isinstance(type_, str) and _CALL_TYPE.fullmatch(type_) is not None
    return not (called or part.get("text")) and any(part.get(key) for key in _RETURNED)


def read_steps(items: list[Any], where: str) -> tuple[Step, ...]:
    """Return an agent's trajectory from a list of ``{role, content}``; what is neither the agent's
    nor a tool's are the prompts it was given.

    Raises:
        UnreadableTrace: an item is not an object.
    """
    steps = []
    for n, item in enumerate(items, 1):
        fields = expect_object(item, f"{where}: step {n}")
        parts = _read_parts(fields)
        text, breaks = join_pieces([text for text in (*parts.reasoning, *parts.texts) if text])
        call = _CALL.match(text)
        author = classify_word(fields.get("role"))
        if author != "agent":
            result = parts.has_result or author == "tool" or text.startswith("[tool_result]")
            author = "tool" if result else "system"
        name = call.group(1) if call and author == "agent" else None
        steps.append(Step(n, author, text, name, breaks))
    return tuple(steps)


def read_time(fields: Mapping[str, Any]) -> float | None:
    """Return the first of the usual keys that is a time, in seconds since 1970."""
    for key in _TIME:
        if (time := parse_time(fields.get(key))) is not None:
            return time
    return None


def _first(fields: Mapping[str, Any], keys: Sequence[str], nothing: tuple[Any, ...]) -> Any:
    for key in keys:
        if (value := fields.get(key)) not in nothing:
            return value
    return None


def _first_text(fields: Mapping[str, Any], keys: Sequence[str]) -> str | None:
    for key in keys:
        if text := get_text(fields.get(key)):
            return text
    return None


def _recipients(fields: Mapping[str, Any]) -> tuple[str, ...]:
    value = _first(fields, _RECIPIENT, (None,))
    names = []
    for item in value if isinstance(value, list) else [value]:
        name = get_text(item)
        if name is not None and name.lower() not in _EVERYBODY:
            names.append(name)
    return tuple(names)


@dataclass(slots=True)
class Parts:
    """The texts of a message's content, and what else it holds."""

    texts: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    omitted: list[str] = field(default_factory=list)
    has_result: bool = False  # of a tool
    has_call: bool = False

    def add(self, part: Any) -> None:
        """Add one part of a content: a text, or a part in the shape of a provider."""
        text = get_text(part)
        if text is not None:
            self.texts.append(text)
        elif isinstance(part, dict):
            self._add_object(part)
        elif part is not None:
            self.omitted.append(name_type(part))

    def _add_object(self, part: Mapping[str, Any]) -> None:
        type_ = get_text(part.get("type")) or ""
        self.has_result |= _is_result(part)
        self.has_call |= _CALL_TYPE.fullmatch(type_) is not None
        if type_ in _THOUGHTS or part.get("thought") is True:
            self.reasoning += list(_thought_texts(part)) or [""]  # it may be encrypted
            return
        texts = list(_part_texts(part, type_))
        self.texts += texts
        if not texts:
            self.omitted.append(f"a part of type {type_ or 'unknown'}")


def read_parts(content: Any) -> Parts:
    """Return the parts of a content: a text, a part, or a list of them."""
    parts = Parts()
    for part in content if isinstance(content, list) else [content]:
        parts.add(part)
    return parts


def _read_parts(fields: Mapping[str, Any]) -> Parts:
    content = _first(fields, (*_TEXT, "parts"), (None, "", []))
    if _is_item(fields):
        return read_parts(fields)
    if isinstance(content, str) and "tool_calls" not in fields:  # as most are
        parts = Parts([replace_surrogates(content)])
    else:
        parts = read_parts(content)
    for key in _REASONING:
        if isinstance(thought := fields.get(key), str) and thought:
            parts.reasoning.append(thought)
    if refusal := get_text(fields.get("refusal")):
        parts.texts.append(refusal)
    calls = [] if parts.has_call else fields.get("tool_calls")  # some write both
    calls = [*_list(calls), *_list(fields.get("invalid_tool_calls"))]
    for call in calls:
        if isinstance(call, dict):
            function = call.get("function", call.get("custom", call))
            named = call | {"name": function}  # Inspect's
            parts.texts += list_call_texts(named if isinstance(function, str) else function)
    if isinstance(call := fields.get("function_call"), dict):
        parts.texts += list_call_texts(call)
    parts.texts = [text for text in parts.texts if text]
    return parts


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _thought_texts(part: Mapping[str, Any]) -> Iterator[str]:
    for key in ("thinking", "reasoning", "text"):
        if text := get_text(part.get(key)):
            yield text
    for key in ("summary", "content"):
        for inner in items if isinstance(items := part.get(key), list) else []:
            if isinstance(inner, dict) and (text := get_text(inner.get("text"))):
                yield text


def _part_texts(part: Mapping[str, Any], type_: str) -> Iterator[str]:
    """Yield the texts of one content part (OpenAI's, Anthropic's and Gemini's shapes)."""
    if _CALL_TYPE.fullmatch(type_):
        yield from list_call_texts(part)
        return
    for key in ("functionCall", "function_call", "executableCode", *_GEMINI_RESULTS):
        if isinstance(call := part.get(key), dict):
            keys = ("args", "response", "output", "code")
            arguments = next((call[key] for key in keys if call.get(key) is not None), None)
            yield from list_call_texts({"name": call.get("name"), "arguments": arguments})
    for key in _PART_TEXTS:
        yield from _inner_texts(part.get(key))


def _inner_texts(value: Any) -> Iterator[str]:
    if text := get_text(value):
        yield text
    elif isinstance(value, list):
        for inner in value:
            yield from _inner_texts(inner)
    elif isinstance(value, dict):
        for key in _PART_TEXTS:
            yield from _inner_texts(value.get(key))


def list_call_texts(call: Any) -> list[str]:
    """Return the name and the arguments of a tool call; arguments given as an object as JSON."""
    if not isinstance(call, dict):
        return []
    arguments = next((call[key] for key in _ARGUMENTS if call.get(key) is not None), None)
    if isinstance(arguments, dict | list):
        arguments = json.dumps(arguments, ensure_ascii=False)
    tool = (
        get_text(call.get("name")) or get_text(call.get("toolName")) or get_text(call.get("type"))
    )
    return [text for text in (tool, get_text(arguments)) if text]
