"""Conversations as agent frameworks write them, and the traces that they become."""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from annotator.base.text import format_count, list_first, replace_surrogates, sanitize_line
from annotator.traces.authors import (
    classify_word,
    find_author,
    has_named_speakers,
    has_role_words,
    is_call_role,
)
from annotator.traces.model import EVERYBODY, Author, Message, Outcome, Step, Trace, join_pieces
from annotator.traces.records import (
    RESULT_KEYS,
    expect_object,
    find_task,
    get_dict,
    get_first_text,
    get_list,
    get_text,
    name_type,
    parse_nested,
    parse_time,
    read_attributes,
    read_outcome,
)

_NAMES = ("from", "sender", "sender_id", "name", "role", "source")
_SENDER = (*_NAMES, "type")
_SPEAKERS = ("speaker", "agent", "agent_name", "author")  # of tables; beside a role, its name
_AUTHORS = ("role", "sender", "from", "source")
_TEXT = ("message", "content", "text", "value", "utterance", "body")
_TEXTS = (*_TEXT, "parts")
_RECIPIENT = ("to", "recipient", "recipients", "recipient_id")
_TIME = ("timestamp", "time", "created_at")
_KIND = ("kind", "message_type")
_REASONING = ("reasoning_content", "reasoning", "thinking", "thought", "thoughts")
_CALLS = (
    *("tool_calls", "toolCalls", "toolInvocations", "tool_invocations", "invalid_tool_calls"),
    *("function_calls", "functionCalls", "tool_uses", "toolUses"),
)
_RESULTS = ("tool_results", "toolResults", "tool_outputs", "toolOutputs")
_WITH_RESULTS = (*_RESULTS, *(key for key in _CALLS if key != "invalid_tool_calls"))
# Keys of a message without words of the conversation, or with words that another key has, too.
HARMLESS = frozenset(
    (
        *("id", "_id", "uuid", "message_index", "index", "idx", "n", "step", "step_id", "turn"),
        *("turn_id", "round", "message_number", "position", "seq", "sequence", "order"),
        *("message_id", "parent_id", "parent", "parentId", "run_id", "session_id", "thread_id"),
        *("dialogue_id", "dialog_id", "conv_id", "episode_id"),
        *("conversation_id", "trace_id", "chat_id", "call_id", "tool_call_id", "tool_use_id"),
        *("toolCallId", "toolUseId", "date", "created", "createdAt", "updated_at", "completed_at"),
        *("usage", "usage_metadata", "token_usage", "tokens", "token_count", "cost", "latency"),
        *("model", "model_name", "provider", "finish_reason", "stop_reason", "stop_sequence"),
        *("status", "state", "is_error", "isError", "object", "logprobs", "phase"),
        *("cache_control", "response_metadata", "additional_kwargs", "metadata", "lc", "example"),
        *("reasoning_details", "thinking_blocks", "encrypted_content", "tool_responses"),
        *("turn_idx", "requestor", "tool_call_ids", "function", "mask", "cutoff_date"),
        *RESULT_KEYS,
        *("signature", "is_demo", "weight", "version", "format", "event_id", "invocation_id"),
    )
)
_EVERYBODY = {"broadcast", "all", "everyone", "*", ""}
_CALL_TYPE = re.compile(r"(?:.*[-_])?(?:tool_use|call)|mcp_approval_request|program")
_RESULT_TYPE = re.compile(
    r"(?:.*[-_])?(?:tool[-_](?:result|response|output)|call_(?:output|response)|search_output)"
    r"|mcp_approval_response|program_output"
)
_THOUGHTS = {"thinking", "reasoning", "redacted_thinking"}
_GEMINI_CALLS = ("functionCall", "function_call", "executableCode")
_GEMINI_RESULTS = (
    *("functionResponse", "function_response", "codeExecutionResult", "code_execution_result"),
)
_ARGUMENTS = ("arguments", "input", "args", "action", "query", "queries", "code", "operation")
_TOOL = ("name", "toolName", "type")
_RETURNED = ("output", "outputs", "result", "results", "stdout", "stderr", "logs")
_CALL_RETURNED = (*_RETURNED, "response", "observation", "error")
_IN_ITEMS = {"call_id", "arguments", "input", "action", "output", "summary", "content", "thinking"}
_PART_TEXTS = (
    *("text", "value", "refusal", "output", "content", "result", "response"),
    *("logs", "stdout", "stderr"),
)
_HIT_TEXTS = ("title", "url", "error_code")  # of a search by the provider
_READ = HARMLESS | frozenset(
    (*_SENDER, *_SPEAKERS, *_RECIPIENT, *_TIME, *_KIND, *_CALLS, "function_call", "refusal")
)
_EXECUTED = re.compile(r"exitcode: -?\d+ \(execution (?:succeeded|failed)")
_CALL = re.compile(r"\[tool_use ([\w.-]{1,80})\]")


@dataclass(slots=True)
class Utterance:
    """A message before it is numbered; ``reasoning`` becomes steps; ``omitted`` is no text;
    ``unread`` are its keys that hold something and are neither read nor harmless.
    """

    sender: str
    author: Author
    pieces: Sequence[str] = ()
    recipients: tuple[str, ...] = ()
    time: float | None = None
    kind: str | None = None
    reasoning: Sequence[str] = ()
    omitted: Sequence[str] = ()
    unread: Sequence[str] = ()


@dataclass(slots=True)
class Conversation:
    """The messages, thoughts, attributes and outcome of a trace while it is read."""

    messages: list[Message] = field(default_factory=list)
    steps: dict[str, list[Step]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    outcome: Outcome = field(default_factory=Outcome)
    task: str = ""  # what the run was asked, if the record has it
    ignored: Counter[str] = field(default_factory=Counter)  # lines without messages, by type
    unread: Counter[tuple[str, str]] = field(default_factory=Counter)  # keys, by where they are
    tasks: dict[str, str] = field(default_factory=dict)  # what each agent was asked
    patches: Mapping[str, str] = field(default_factory=dict)

    def add(self, utterance: Utterance, where: str) -> None:
        """Append a message, and its thoughts as steps; thoughts alone are no message."""
        for key in utterance.unread:
            self.unread[where, key] += 1
        pieces = [replace_surrogates(piece) for piece in utterance.pieces if piece]
        sender = replace_surrogates(utterance.sender)
        if utterance.reasoning:
            thoughts = [replace_surrogates(thought) for thought in utterance.reasoning if thought]
            if not thoughts and not pieces:
                self.problems.append(f"{where}: reasoning without a text (encrypted), left out")
                return
            steps = self.steps.setdefault(sender or "unknown", []) if thoughts else []
            for thought in thoughts:
                steps.append(Step(len(steps) + 1, utterance.author, thought))
            if thoughts and not pieces:
                return
        n = len(self.messages) + 1
        if not pieces:
            self.problems.append(f"{where}: message {n} has no text")
        for omission in utterance.omitted:
            self.problems.append(f"{where}: message {n}: {omission} left out, not text")
        if not sender:
            self.problems.append(f"{where}: message {n} has no sender")
        elif utterance.author == "unknown":
            self.problems.append(
                f"{where}: message {n}: it is not known whether {sender[:80]!r} is an agent"
            )
        text, breaks = join_pieces(pieces)
        recipients = tuple(map(replace_surrogates, utterance.recipients))
        message = Message(
            *(n, sender or "unknown", recipients, text),
            *(utterance.time, utterance.kind, utterance.author, breaks),
        )
        self.messages.append(message)

    def say(
        self, where: str, sender: str, author: Author, *pieces: str | None, **fields: Any
    ) -> None:
        """Append a message of these texts."""
        texts = [piece for piece in pieces if piece]
        self.add(Utterance(sender, author, texts, **fields), where)

    def list_objects(
        self, items: Iterable[Any], noun: str, where: str = "", read: Collection[str] = ()
    ) -> list[dict[str, Any]]:
        """Return items that must be objects; note their unread keys if they lie at a place."""
        objects = [expect_object(item, f"{noun} {n}") for n, item in enumerate(items, 1)]
        for fields in objects if where else ():
            self.note_unread(where, fields, read)
        return objects

    def note_unread(self, where: str, fields: Mapping[str, Any], read: Collection[str]) -> None:
        """Note the keys that hold something and are not in ``read`` (with the harmless ones)."""
        self.unread.update((where, key) for key in _list_unread(fields, read))

    def read_attributes(self, record: Mapping[str, Any], consumed: Iterable[str] = ()) -> None:
        """Take the scalars of a record as attributes, but those under ``consumed`` keys."""
        keys = frozenset(consumed)
        rest = {key: value for key, value in record.items() if key not in keys}
        self.task = find_task(rest) or self.task
        attributes, problems = read_attributes(rest)
        self.attributes |= attributes
        self.problems += problems

    def read_outcome(self, record: Mapping[str, Any]) -> None:
        """Take the outcome of a record, and the attributes that name it."""
        passed, rule = read_outcome(record)
        merge = get_text(self.attributes.get("merge"))
        self.set_outcome(passed, None if rule == "passed" else rule, merge=merge)
        self.attributes |= {"passed": passed} if rule == "passed" else {}

    def set_outcome(self, passed: bool | None, rule: str | None, **fields: Any) -> None:
        """Set the outcome, and the attributes that name it and the rule that decided it."""
        self.attributes |= {"passed": passed, "outcome_rule": rule} if rule else {}
        self.outcome = Outcome(passed=passed, **fields)

    def set_attributes(self, **values: Any) -> None:
        """Set the attributes that are texts and not empty."""
        self.attributes |= {key: text for key, value in values.items() if (text := get_text(value))}

    def describe_unread(self) -> None:
        """Add a problem for the keys that were not read, those of one place and number together."""
        kinds: dict[tuple[str, int], list[str]] = {}
        for (where, key), n in self.unread.items():
            kinds.setdefault((where, n), []).append(sanitize_line(key, 80))
        for (where, n), keys in kinds.items():
            names = f"key{'s' if len(keys) > 1 else ''} {list_first(sorted(keys), 12)}"
            self.problems.append(f"{where}: {names} left out ({format_count(n, 'time')})")
        self.unread.clear()

    def trace(self, format: str, trace_id: str, path: str) -> Trace:
        """Return the trace of this conversation."""
        requests = (m.text for m in self.messages if m.author in ("human", "system"))
        if self.task and not any(self.task in text for text in requests):
            self.tasks = {EVERYBODY: self.task, **self.tasks}
        for kind, n in self.ignored.items():
            self.problems.append(f"{n} lines of type {kind} left out: no messages")
        self.describe_unread()
        steps = {agent: tuple(thoughts) for agent, thoughts in self.steps.items()}
        tasks = self.tasks
        return Trace(
            id=trace_id,
            format=format,
            path=path,
            messages=tuple(self.messages),
            patches={
                replace_surrogates(agent): replace_surrogates(text)
                for agent, text in self.patches.items()
            },
            outcome=self.outcome,
            attributes=self.attributes,
            problems=tuple(self.problems),
            read_steps=lambda: steps,
            read_tasks=lambda: tasks,
        )


def is_message(value: Any) -> bool:
    """Whether a JSON value is an object with a sender and a text."""
    if not isinstance(value, dict) or isinstance(value.get("messages"), list):
        return False  # with such a list it is a record, whatever else it has
    if _is_item(value):
        return bool(_IN_ITEMS & value.keys())
    has_sender = any(key in value for key in _NAMES) or classify_word(value.get("type"))
    has_speaker = any(isinstance(value.get(key), str) for key in _SPEAKERS)
    return bool(has_sender or has_speaker) and any(key in value for key in (*_TEXTS, "tool_calls"))


def read_chat(items: Iterable[Any], where: str) -> Conversation:
    """Return the conversation in a list of messages; raises UnreadableTrace."""
    items = items if isinstance(items, list) else list(items)
    has_roles, has_names = has_role_words(items), has_named_speakers(items)
    parts = [
        fields
        for n, item in enumerate(items, 1)
        for fields in split_message(expect_object(item, f"{where}: message {n}"))
    ]
    utterances = [read_message(fields, has_roles, has_names) for fields in parts]
    agents = [
        (fields, message.sender)
        for fields, message in zip(parts, utterances, strict=True)
        if message.author == "agent" and not is_call_role(message.sender)
    ]
    names = {sender for fields, sender in agents if fields.get("name")}
    caller = next((sender for _, sender in agents), "assistant")
    chat = Conversation()
    for fields, message in zip(parts, utterances, strict=True):
        if message.author == "agent" and is_call_role(message.sender):
            message = replace(message, sender=caller)  # a role beside the agent's
        elif message.author == "agent" and has_names and len(names) == 1 and not fields.get("name"):
            message = replace(message, sender=min(names))
        chat.add(message, where)
    return chat


def split_message(fields: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return a message as several if it holds results of tools beside the words of its author."""
    if _is_item(fields):
        return _split_call(fields)
    if results := list(_list_results(fields)):
        return [*split_message(_drop_results(fields)), *results]
    key = "content" if fields.get("content") else "parts"
    content = fields.get(key)
    if not isinstance(content, list) or classify_word(fields.get("role")) == "tool":
        return [fields]
    content = [inner for block in content for inner in _split_call(block)]
    runs = [(is_result, list(run)) for is_result, run in groupby(content, _is_result)]
    if len(runs) < 2:
        return [fields]
    calling = [is_result for is_result, _ in runs].index(False)
    without_calls = {name: value for name, value in fields.items() if name != "tool_calls"}
    return [
        {**(fields if n == calling else without_calls), key: run} for n, (_, run) in enumerate(runs)
    ]


def _list_calls(fields: Mapping[str, Any], keys: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield the calls under some keys, each with its key: a list, an object, or one as text."""
    for key in filter(fields.__contains__, keys):
        value = parse_nested(fields[key])
        for call in [value] if isinstance(value, dict) else get_list(value):
            yield key, call


def _list_results(fields: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the results that a message holds beside its calls, or in them, as messages."""
    for key, item in _list_calls(fields, _WITH_RESULTS):
        inner = get_dict(item)
        flat = {**inner, **get_dict(inner, "function")}
        names = _CALL_RETURNED if key in _CALLS else (*_CALL_RETURNED, *_PART_TEXTS)
        values = [flat[name] for name in dict.fromkeys(names) if flat.get(name)]
        values = [item] if key in _RESULTS and isinstance(item, str) else values
        texts = [
            text
            for value in values
            for text in list(_list_inner_texts(value)) or [json.dumps(value, ensure_ascii=False)]
        ]
        if texts:
            block = {"type": "tool_result", "content": texts}
            tool = get_first_text(flat, *_TOOL[:2])
            time = {key: fields[key] for key in _TIME if key in fields}
            yield {"role": "tool", "name": tool, "content": [block], **time}


def _drop_results(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message without the results of its calls."""
    rest = {key: value for key, value in fields.items() if key not in _RESULTS}
    for key in _CALLS:
        if calls := [call for _, call in _list_calls(fields, [key])]:
            rest[key] = [
                {name: value for name, value in call.items() if name not in _CALL_RETURNED}
                if isinstance(call, dict)
                else call
                for call in calls
            ]
    return rest


def _split_call(block: Any) -> list[Any]:
    """Return a call that holds the tool's result as a call and a result; other parts as they are"""
    if not isinstance(block, dict) or _RESULT_TYPE.fullmatch(get_text(block.get("type")) or ""):
        return [block]
    results = [block[key] for key in _RETURNED if block.get(key)]
    if not results or not any(block.get(key) is not None for key in _ARGUMENTS):
        return [block]
    call = {key: value for key, value in block.items() if key not in _RETURNED}
    tool = get_first_text(block, *_TOOL)
    texts = [json.dumps(item) if isinstance(item, dict) else item for item in results]
    return [
        {**call, "type": "function_call", "name": tool},
        {"type": "tool_result", "name": tool, "content": texts},
    ]


def read_message(
    fields: Mapping[str, Any], has_roles: bool = True, has_names: bool = False
) -> Utterance:
    """Return the utterance of a chat message; the flags are those of ``find_author``."""
    is_item = _is_item(fields)
    parts = read_parts(fields) if is_item else _read_parts(fields)
    author = find_author(fields, has_roles=has_roles, has_names=has_names)
    sender = get_first_text(fields, *_NAMES) or ""
    if not sender or (author == "agent" and classify_word(sender) == "agent"):
        sender = get_first_text(fields, *_SPEAKERS, *_SENDER) or ""
    if is_item:  # a name in it is the tool's
        author, sender = ("tool", sender) if parts.has_result else ("agent", "assistant")
    executed = bool(parts.texts) and _EXECUTED.match(parts.texts[0])  # AG2's
    if parts.has_result or executed or fields.get("tool_call_id") or fields.get("tool_use_id"):
        author = "tool"
        sender = "tool" if classify_word(sender) in ("human", "agent") else sender
    return parts.utter(
        sender,
        author,
        read_time(fields),
        recipients=_read_recipients(fields),
        kind=get_first_text(fields, *_KIND),
        unread=() if is_item else _list_unread_words(fields),
    )


def _list_unread(fields: Mapping[str, Any], read: Collection[str]) -> list[str]:
    return [
        key
        for key, value in fields.items()
        if key not in read and value not in (None, "", [], {}, False)
    ]


def _list_unread_words(fields: Mapping[str, Any]) -> list[str]:
    """Return the unread keys of a chat message; a second key with the same text is harmless."""
    text = _find_text(fields)
    return [
        key
        for key in _list_unread(fields, _READ)
        if fields[key] != text and not (key in _REASONING and isinstance(fields[key], str))
    ]


def _find_text(fields: Mapping[str, Any]) -> Any:
    """Return the content of a message: the first of its keys that holds something."""
    for key in filter(fields.__contains__, _TEXTS):
        if (value := fields[key]) not in (None, "", []):
            return value
    return None


def _is_item(fields: Mapping[str, Any]) -> bool:
    """Whether a message is an item of the Responses API: a part by itself."""
    type_ = fields.get("type")
    if not isinstance(type_, str) or not fields.keys().isdisjoint(_AUTHORS):
        return False
    return type_ in _THOUGHTS or bool(_CALL_TYPE.fullmatch(type_) or _RESULT_TYPE.fullmatch(type_))


def _is_result(block: Any) -> bool:
    """Whether a part of a content is a tool's result."""
    if not isinstance(block, dict):
        return False
    type_ = block.get("type")
    type_ = type_ if isinstance(type_, str) else ""
    if _RESULT_TYPE.fullmatch(type_) or "tool_use_id" in block:
        return True
    if any(block.get(key) for key in _GEMINI_RESULTS):
        return True
    says = _CALL_TYPE.fullmatch(type_) or block.get("text")
    return not says and any(block.get(key) for key in _RETURNED)


def read_steps(items: list[Any], where: str) -> tuple[Step, ...]:
    """Return an agent's trajectory from a list of ``{role, content}``; prompts are ``system``."""
    steps = []
    for n, item in enumerate(items, 1):
        fields = expect_object(item, f"{where}: step {n}")
        parts = read_parts(fields) if _is_item(fields) else _read_parts(fields)
        text, breaks = join_pieces([text for text in (*parts.reasoning, *parts.texts) if text])
        call = _CALL.match(text)
        author = classify_word(fields.get("role"))
        if author != "agent":
            is_result = parts.has_result or author == "tool" or text.startswith("[tool_result]")
            author = "tool" if is_result else "system"
        tool = call.group(1) if call and author == "agent" else None
        steps.append(Step(n, author, text, tool, breaks))
    return tuple(steps)


def read_time(fields: Mapping[str, Any]) -> float | None:
    """Return the first of the usual keys that is a time, in seconds since 1970."""
    for key in filter(fields.__contains__, _TIME):
        if (time := parse_time(fields[key])) is not None:
            return time
    return None


def _read_recipients(fields: Mapping[str, Any]) -> tuple[str, ...]:
    for key in filter(fields.__contains__, _RECIPIENT):
        if (value := fields[key]) is not None:
            names = map(get_text, value if isinstance(value, list) else [value])
            return tuple([name for name in names if name and name.lower() not in _EVERYBODY])
    return ()


@dataclass(slots=True)
class Parts:
    """The texts of a message's content, the agent's reasoning, and the names of other parts."""

    texts: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    omitted: list[str] = field(default_factory=list)
    has_result: bool = False  # of a tool
    has_call: bool = False

    def utter(
        self, sender: str, author: Author, time: float | None = None, **fields: Any
    ) -> Utterance:
        """Return the utterance of these parts."""
        fields.setdefault("reasoning", self.reasoning)
        return Utterance(sender, author, self.texts, time=time, omitted=self.omitted, **fields)

    def add(self, block: Any) -> None:
        """Add a part of a content: a text, or an object in a provider's shape."""
        text = get_text(block)
        if text is not None:
            self.texts.append(text)
        elif isinstance(block, dict):
            self._add_object(block)
        elif block is not None:
            self.omitted.append(name_type(block))

    def _add_object(self, block: Mapping[str, Any]) -> None:
        type_ = get_text(block.get("type")) or ""
        self.has_result |= _is_result(block)
        self.has_call |= _CALL_TYPE.fullmatch(type_) is not None
        if type_ in _THOUGHTS or block.get("thought") is True:
            self.reasoning += list(_list_thoughts(block)) or [""]  # it may be encrypted
            return
        texts = list(_list_texts(block, type_))
        if not texts and _RESULT_TYPE.fullmatch(type_):
            texts = list(_list_inner_texts(block.get("content"), _HIT_TEXTS))
        self.texts += texts
        if not texts:
            self.omitted.append(f"a part of type {type_ or 'unknown'}")


def read_parts(content: Any) -> Parts:
    """Return the parts of a content: a text, a part, or a list of them."""
    parts = Parts()
    for block in content if isinstance(content, list) else [content]:
        parts.add(block)
    return parts


def _read_parts(fields: Mapping[str, Any]) -> Parts:
    """Return the parts of a message: of its content, its reasoning and its calls."""
    content = _find_text(fields)
    parts = read_parts(content)
    if isinstance(content, dict) and not (parts.texts or parts.reasoning or "type" in content):
        parts = Parts([json.dumps(content, ensure_ascii=False)])  # an answer in a form of its own
    for key in filter(fields.__contains__, _REASONING):
        if isinstance(thought := fields[key], str) and thought:
            parts.reasoning.append(thought)
    if refusal := get_text(fields.get("refusal")):
        parts.texts.append(refusal)
    in_content = parts.has_call  # some write calls there, too
    for key, call in _list_calls(fields, _CALLS):
        if isinstance(call, str):
            parts.texts.append(call)
        elif isinstance(call, dict) and (not in_content or key == "invalid_tool_calls"):
            function = call.get("function", call.get("custom", call))
            function = call | {"name": function} if isinstance(function, str) else function
            parts.texts += list_call_texts(function)  # a name is Inspect's
    parts.texts += list_call_texts(fields.get("function_call"))
    parts.texts = [text for text in parts.texts if text]
    return parts


def _list_thoughts(block: Mapping[str, Any]) -> Iterator[str]:
    for key in ("thinking", "reasoning", "text", "content"):
        if text := get_text(block.get(key)):
            yield text
    for key in ("summary", "content"):
        for inner in get_list(block, key):
            if isinstance(inner, dict) and (text := get_text(inner.get("text"))):
                yield text


def _list_texts(block: Mapping[str, Any], type_: str) -> Iterator[str]:
    """Yield the texts of one content part (OpenAI's, Anthropic's and Gemini's shapes)."""
    if _CALL_TYPE.fullmatch(type_):
        yield from list_call_texts(block)
        return
    for key in (*_GEMINI_CALLS, *_GEMINI_RESULTS):
        if isinstance(call := block.get(key), dict):
            keys = ("args", "response", "output", "code")
            arguments = next((call[key] for key in keys if call.get(key) is not None), None)
            yield from list_call_texts({"name": call.get("name"), "arguments": arguments})
    for key in _PART_TEXTS:
        yield from _list_inner_texts(block.get(key))


def _list_inner_texts(value: Any, keys: Sequence[str] = _PART_TEXTS) -> Iterator[str]:
    if text := get_text(value):
        yield text
    elif isinstance(value, list):
        for inner in value:
            yield from _list_inner_texts(inner, keys)
    elif isinstance(value, dict):
        for key in keys:
            yield from _list_inner_texts(value.get(key), keys)


def list_call_texts(call: Any) -> list[str]:
    """Return the name and the arguments of a tool call; arguments given as an object as JSON."""
    if not isinstance(call, dict):
        return []
    arguments = next((call[key] for key in _ARGUMENTS if call.get(key) is not None), None)
    if isinstance(arguments, dict | list):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return [text for text in (get_first_text(call, *_TOOL), get_text(arguments)) if text]
