"""Sessions of the Gemini CLI (and Qwen Code): ``session-*.json``, and their lines in ``.jsonl``.

Tested with the layout of gemini-cli 0.61 (``chatRecordingTypes.ts``). Of lines with one id the last
is read, at the place of the first. What was taken back (``$rewindTo``) is left out and counted.
"""

import json
from collections.abc import Mapping
from typing import Any

from annotator.base.text import format_count
from annotator.traces.conversation import Conversation, list_call_texts, read_parts
from annotator.traces.model import Author
from annotator.traces.records import get_dict, get_first_text, get_list, get_text, parse_time

_TYPES = {"user", "gemini", "info", "error", "warning"}
_AUTHORS: Mapping[str, Author] = {"user": "human", "gemini": "agent", "qwen": "agent"}
_KEYS = (
    *("id", "timestamp", "type", "content", "toolCalls", "thoughts", "tokens", "model"),
    "displayContent",  # the same content, as the screen shows it
)
_CALL_KEYS = ("id", "name", "args", "result", "status", "timestamp", "displayName", "description")
_SCREEN_KEYS = ("resultDisplay", "renderOutputAsMarkdown", "agentId")
_SESSION_KEYS = ("sessionId", "projectHash", "startTime", "lastUpdated", "messages", "summary")


def matches(document: Any) -> bool:
    is_session = isinstance(document.get("sessionId"), str) and "projectHash" in document
    if is_session or {"$set", "$rewindTo"} & document.keys():
        return True
    is_message = {"id", "timestamp", "type", "content"} <= document.keys()
    return is_message and bool(document["type"] == "gemini")


def group(document: Any) -> str | None:
    return None if get_list(document, "messages") else get_text(document.get("sessionId")) or ""


def identify(document: Any) -> str | None:
    return get_text(get_dict(document).get("sessionId"))


def read(document: Any) -> Conversation:
    chat = Conversation()
    for message in _list_messages(chat, document if isinstance(document, list) else [document]):
        _add_message(chat, message)
    return chat


def _list_messages(chat: Conversation, lines: list[Any]) -> list[dict[str, Any]]:
    """Return the messages that a session's lines leave, each in its last version."""
    messages: dict[str, dict[str, Any]] = {}
    taken_back = 0
    for n, line in enumerate(map(get_dict, lines)):
        change = get_dict(line, "$set") or line
        if "$rewindTo" in line:
            ids = list(messages)
            target = get_text(line["$rewindTo"])
            gone = ids[ids.index(target) :] if target in messages else ids
            taken_back += len(gone)
            messages = {key: messages[key] for key in ids if key not in gone}
        elif "type" in line and "messages" not in line:
            messages[get_text(line.get("id")) or f"line {n}"] = line
        else:
            for m, item in enumerate(get_list(change, "messages")):
                message = get_dict(item)
                messages[get_text(message.get("id")) or f"line {n}.{m}"] = message
            session = {key: value for key, value in change.items() if key != "messages"}
            chat.note_unread("session", session, (*_SESSION_KEYS, "kind", "directories", "$set"))
            chat.set_attributes(summary=change.get("summary"), kind=change.get("kind"))
    if taken_back:
        count = format_count(taken_back, "message")
        chat.problems.append(f"{count} taken back ($rewindTo), left out")
    return list(messages.values())


def _add_message(chat: Conversation, fields: Mapping[str, Any]) -> None:
    chat.note_unread("message", fields, _KEYS)
    kind = get_text(fields.get("type")) or ""
    author = _AUTHORS.get(kind, "system" if kind in _TYPES else "unknown")
    time = parse_time(fields.get("timestamp"))
    parts = read_parts(fields.get("content"))
    for thought in map(get_dict, get_list(fields, "thoughts")):
        texts = [get_text(thought.get(key)) for key in ("subject", "description")]
        parts.reasoning.append("\n".join(text for text in texts if text))
    calls = [get_dict(call) for call in get_list(fields, "toolCalls")]
    for call in calls:
        chat.note_unread("tool call", call, (*_CALL_KEYS, *_SCREEN_KEYS))
        parts.texts += list_call_texts({"name": call.get("name"), "arguments": call.get("args")})
    if parts.has_result and author == "human":  # the session feeds a tool's result back
        author = "tool"
    if any(parts.texts) or parts.omitted or parts.reasoning:
        chat.add(parts.utter(kind, author, time), "messages")
    elif not calls:
        chat.ignored[f"{kind or 'unknown'} without content"] += 1
    for call in calls:
        _add_result(chat, call)
    if author == "agent":
        chat.set_attributes(model=fields.get("model"))


def _add_result(chat: Conversation, call: Mapping[str, Any]) -> None:
    """Add what a tool returned: to the model, else to the screen."""
    result = call.get("result")
    responses = [
        get_dict(item, "functionResponse").get("response")
        for item in (result if isinstance(result, list) else [result])
    ]
    texts = [
        get_first_text(get_dict(response), "output", "error")
        or json.dumps(response, ensure_ascii=False)
        for response in responses
        if response
    ] or [text for text in read_parts(result).texts if text]
    display = get_text(call.get("resultDisplay"))
    if texts := texts or [display] if display else texts:
        tool = get_text(call.get("name")) or "tool"
        chat.say("tools", tool, "tool", *texts, time=parse_time(call.get("timestamp")))
