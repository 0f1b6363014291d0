"""Sessions of opencode: `opencode export`, and the lines of `opencode run --format json`.

Tested with the layout of opencode 1.14: messages with ``info`` (role, agent) and ``parts`` (text,
reasoning, tool with its state, ...). Lines are events of a session, each with a part; they name no
agent and hold no words of the user.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from annotator.traces.conversation import Conversation, Utterance, list_call_texts
from annotator.traces.model import Author, Outcome
from annotator.traces.records import get_dict, get_first_text, get_list, get_text, parse_time

takes_records_apart = True

_EVENTS = {"text", "reasoning", "tool_use", "step_start", "step_finish"}
_MARKS = {"step-start", "step-finish", "snapshot", "patch", "compaction", "retry"}
_AUTHORS: Mapping[str | None, Author] = {"user": "human", "assistant": "agent"}
_IDS = frozenset(("id", "type", "sessionID", "messageID", "time", "metadata", "synthetic"))
_PART_KEYS = _IDS | {
    *("text", "callID", "tool", "state", "filename", "mime", "url", "source"),
    *("prompt", "description", "agent", "name", "command"),
}
_STATE_KEYS = ("status", "input", "output", "error", "title", "metadata", "time", "raw")
_INFO_KEYS = (
    *("id", "role", "agent", "mode", "sessionID", "parentID", "modelID", "providerID", "model"),
    *("path", "cost", "tokens", "time", "finish", "system", "tools", "summary", "error"),
    *("variant", "format"),
)


def matches(document: Any) -> bool:
    if "sessionID" in document and isinstance(document.get("part"), dict):
        return document.get("type") in _EVENTS
    first = get_dict(next(iter(get_list(document, "messages")), None))
    return isinstance(first.get("info"), dict) and isinstance(first.get("parts"), list)


def group(document: Any) -> str | None:
    if "messages" in document:
        return None
    return get_text(document.get("sessionID")) or ""


def identify(document: Any) -> str | None:
    return get_text(get_dict(document, "info").get("id"))


def read(document: Any) -> Conversation:
    chat = Conversation()
    if isinstance(document, dict) and "messages" in document:
        about = get_dict(document, "info")
        chat.note_unread("session", document, ("info", "messages"))
        for item in get_list(document, "messages"):
            _add_message(chat, get_dict(item))
        chat.set_attributes(title=about.get("title"), cli_version=about.get("version"))
    else:
        _add_events(chat, document if isinstance(document, list) else [document])
    return chat


def _add_message(chat: Conversation, item: Mapping[str, Any]) -> None:
    info = get_dict(item, "info")
    chat.note_unread("message", item, ("info", "parts"))
    chat.note_unread("info of a message", info, _INFO_KEYS)
    role = get_text(info.get("role"))
    author = _AUTHORS.get(role, "unknown")
    agent = get_first_text(info, "agent", "mode") or "assistant"
    sender = agent if author == "agent" else role or ""
    recipients = (agent,) if author == "human" else ()
    time = parse_time(get_dict(info, "time").get("created"))
    for prompt in get_list(info, "system"):  # old versions repeat it in each answer
        if isinstance(prompt, str) and all(prompt != message.text for message in chat.messages):
            chat.say("info", "system", "system", prompt, recipients=(agent,), time=time)
    _add_parts(chat, get_list(item, "parts"), Utterance(sender, author, (), recipients, time))
    if error := info.get("error"):
        errors = (chat.outcome.error, _describe_error(error))
        chat.outcome = Outcome(error="\n".join(filter(None, errors)) or None)
    if author == "agent":
        chat.set_attributes(model=info.get("modelID"))


def _add_events(chat: Conversation, events: Sequence[Any]) -> None:
    for message, items in groupby(map(get_dict, events), _get_message_id):
        lines = list(items)
        if message is not None:
            speaker = Utterance("assistant", "agent", time=parse_time(lines[0].get("timestamp")))
            _add_parts(chat, [line["part"] for line in lines], speaker)
            continue
        for line in lines:
            kind = get_text(line.get("type")) or "unknown"
            if kind == "error":
                chat.outcome = Outcome(error=_describe_error(line.get("error")))
            elif kind != "done":
                chat.ignored[kind] += 1


def _get_message_id(event: Mapping[str, Any]) -> str | None:
    block = event.get("part")
    return get_text(block.get("messageID")) or "" if isinstance(block, dict) else None


def _add_parts(chat: Conversation, parts: Sequence[Any], speaker: Utterance) -> None:
    """Add the message in some parts, in pieces where the results of tools lie between them."""
    pieces: list[str] = []
    omitted: list[str] = []
    for block in map(get_dict, parts):
        kind = get_text(block.get("type")) or "unknown"
        if kind in _MARKS:
            continue
        chat.note_unread(f"part of type {kind}", block, _PART_KEYS)
        text = get_first_text(block, "text", "prompt") or ""
        if kind == "reasoning":
            chat.add(replace(speaker, reasoning=[text]), "parts")
        elif kind == "text" and speaker.author == "human" and block.get("synthetic") is True:
            if pieces:
                chat.add(replace(speaker, pieces=pieces), "parts")
                pieces = []
            chat.add(replace(speaker, author="system", pieces=[text]), "parts")  # the harness's own
        elif kind in ("text", "subtask"):
            pieces += [text] if text.strip() else []
        elif kind == "tool":
            tool, state = get_text(block.get("tool")) or "tool", get_dict(block, "state")
            pieces += list_call_texts({"name": tool, "input": state.get("input")})
            chat.add(replace(speaker, pieces=pieces, omitted=omitted), "parts")
            pieces, omitted = [], []
            chat.note_unread("state of a tool", state, _STATE_KEYS)
            result = state.get("output", state.get("error"))
            if result is not None:
                text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
                ended = parse_time(get_dict(state, "time").get("end")) or speaker.time
                chat.add(Utterance(tool, "tool", [text], time=ended), "parts")
        else:
            omitted.append(f"a part of type {kind}")
    if pieces:
        chat.add(replace(speaker, pieces=pieces, omitted=omitted), "parts")
    else:
        chat.problems += [f"parts: {omission} left out, not text" for omission in omitted]


def _describe_error(error: Any) -> str | None:
    inner = get_dict(get_dict(error).get("data")).get("message")
    return get_text(inner) or get_first_text(get_dict(error), "message", "name") or get_text(error)
