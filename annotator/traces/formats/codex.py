"""Sessions ("rollouts") of the Codex CLI: JSON lines, a file is a session.

Looked at: rollout files of 2025 (``session_meta``, ``response_item``, ``event_msg``,
``turn_context``). Only response items are what was said; events repeat them for the screen.
"""

from collections import Counter
from dataclasses import replace
from typing import Any

from annotator.base.errors import UnreadableTrace
from annotator.traces.conversation import Conversation, read_message
from annotator.traces.model import Trace
from annotator.traces.records import get_text, parse_time

name = "codex"

_TYPES = {"session_meta", "response_item", "event_msg", "turn_context", "compacted"}
_REPEATS = {"user_message", "agent_message", "agent_reasoning", "token_count", "task_started"} | {
    *("task_complete", "turn_started", "turn_complete", "agent_reasoning_raw_content"),
}
_UNSPOKEN = ("ghost_snapshot", "compaction", "compaction_summary", "other")
_NOT_TYPED = (
    *("<environment_context>", "<user_instructions>", "# AGENTS.md", "<permissions"),
    *("<turn_aborted>", "<user_shell_command>", "<subagent_notification>"),
)


def matches(record: Any) -> bool:
    """Whether a record is a line of such a session."""
    return (
        isinstance(record, dict)
        and record.get("type") in ("session_meta", "response_item", "event_msg", "turn_context")
        and isinstance(record.get("payload"), dict)
    )


def group(record: Any) -> str | None:
    """Return "": all lines of a file are one session."""
    return ""


def read(records: Any, trace_id: str, path: str) -> Trace:
    """Return the trace of a session's lines."""
    chat = Conversation()
    others: Counter[str] = Counter()
    attributes: dict[str, Any] = {}
    lines = records if isinstance(records, list) else [records]
    _refuse_several(lines)
    for record in lines:
        payload = record.get("payload") if isinstance(record, dict) else None
        kind = get_text(record.get("type")) if isinstance(payload, dict) else None
        if not isinstance(payload, dict) or kind not in _TYPES:
            others[kind or "unknown"] += 1
        elif kind == "response_item" and payload.get("type") in _UNSPOKEN:
            others[get_text(payload["type"]) or ""] += 1
        elif kind == "compacted":
            others[kind] += 1
        elif kind == "response_item":
            chat.add(_read(payload, parse_time(record.get("timestamp"))), "session")
        elif kind == "event_msg":
            event = get_text(payload.get("type")) or "unknown"
            others.update([f"event {event}"] if event not in _REPEATS else [])
        else:
            for key in ("model", "cli_version", "originator"):
                if text := get_text(payload.get(key)):
                    attributes[key] = text
    for kind, n in others.items():
        chat.problems.append(f"{n} lines of type {kind} left out: no messages")
    return chat.trace(name, trace_id, path, attributes=attributes)


def _refuse_several(lines: list[Any]) -> None:
    """Raise UnreadableTrace for a file of several sessions, but one that goes on with another."""
    heads = [
        line["payload"]
        for line in lines
        if isinstance(line, dict)
        and line.get("type") == "session_meta"
        and isinstance(line.get("payload"), dict)
    ]
    ids = {get_text(head.get("id")) for head in heads}
    if len(ids) > 1 and not any("forked_from_id" in head for head in heads):
        raise UnreadableTrace(f"{len(ids)} sessions in one file, whose lines say of none: split it")


def _read(payload: dict[str, Any], time: float | None) -> Any:
    message = read_message({**payload, "name": None} if "role" in payload else payload, True, False)
    first = next(iter(message.pieces), "").lstrip()
    if message.author == "agent":
        return replace(message, sender="assistant", time=time)
    if message.author == "human" and first.startswith(_NOT_TYPED):
        return replace(message, sender="system", author="system", time=time)
    return replace(message, time=time)
