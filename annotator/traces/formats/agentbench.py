"""Lines of AgentBench's ``runs.jsonl`` and ``error.jsonl``: a sample each, with its history.

Tested with the layout of AgentBench 0.2 (``TaskClientOutput``). Roles are ``agent`` and ``user``,
or those of chat APIs. The user is the benchmark, first with the task, then with the environment's
answers.
"""

from dataclasses import replace
from typing import Any

from annotator.base.errors import UnreadableTrace
from annotator.traces.conversation import Conversation, read_message
from annotator.traces.records import (
    RESULT_KEYS,
    get_dict,
    get_list,
    get_text,
    parse_time,
    read_outcome,
)

_ENDED = "completed"
_MESSAGE_KEYS = ("role", "content", "tool_calls", "tool_call_id", "name", "reasoning_content")


def matches(document: Any) -> bool:
    return "index" in document and isinstance(get_dict(document, "output").get("history"), list)


def identify(document: Any) -> str | None:
    return None  # the index repeats in each task's file, so the id is file and line


def read(document: Any) -> Conversation:
    output = get_dict(document, "output")
    history = get_list(output, "history")
    if not history:
        raise UnreadableTrace("output.history: it holds no message")
    chat = Conversation()
    users = 0
    for fields in chat.list_objects(history, "message"):
        if not {"role", "content"} & fields.keys():  # a reward on the way
            chat.note_unread("history", fields, ())
            continue
        chat.note_unread("message", fields, _MESSAGE_KEYS)
        message = read_message(fields)
        if message.author == "human":
            users += 1
            message = replace(message, author="tool" if users > 1 else "system")
        chat.add(message, "output.history")
    chat.read_attributes(document, ("output", "time", "error", "info"))
    ended = get_text(output.get("status"))
    chat.set_attributes(status=ended)
    result = output.get("result")
    chat.note_unread("output.result", get_dict(result), ("result", *RESULT_KEYS))
    reasons = [document.get("error"), document.get("info"), ended if ended != _ENDED else None]
    error = "\n".join(text for reason in reasons if (text := get_text(reason))) or None
    ended_at = parse_time(get_dict(document, "time").get("timestamp"))
    chat.set_outcome(*_read_outcome(result), error=error, ended=ended_at)
    return chat


def _read_outcome(result: Any) -> tuple[bool | None, str | None]:
    """Return whether the sample passed, and the rule; each task has a result of its own form."""
    if isinstance(result, bool):
        return result, "output.result"
    fields = get_dict(result)
    if isinstance(fields.get("result"), bool):
        return fields["result"], "output.result.result"
    passed, rule = read_outcome(fields)
    return passed, rule and f"output.result.{rule}"
