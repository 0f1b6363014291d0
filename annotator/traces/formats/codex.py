"""Sessions ("rollouts") of the Codex CLI: JSON lines, a file is a session.

Tested with rollout files of 2025 (``session_meta``, ``response_item``, ``event_msg``,
``turn_context``). Only response items are messages; events repeat them for the screen.
"""

from dataclasses import replace
from typing import Any

from annotator.base.errors import UnreadableTrace
from annotator.traces.conversation import Conversation, Utterance, read_message
from annotator.traces.records import get_dict, get_text, parse_time

_TYPES = ("session_meta", "response_item", "event_msg", "turn_context")
_REPEATS = {"user_message", "agent_message", "agent_reasoning", "token_count", "task_started"} | {
    *("task_complete", "turn_started", "turn_complete", "agent_reasoning_raw_content")
}
_NO_MESSAGES = ("ghost_snapshot", "compaction", "compaction_summary", "other")
_NOTICES = (
    *("<environment_context>", "<user_instructions>", "# AGENTS.md", "<permissions"),
    *("<turn_aborted>", "<user_shell_command>", "<subagent_notification>"),
)


def matches(record: Any) -> bool:
    return record.get("type") in _TYPES and isinstance(record.get("payload"), dict)


def group(record: Any) -> str | None:
    return ""


def read(records: Any) -> Conversation:
    chat = Conversation()
    _refuse_several(records)
    for record in map(get_dict, records):
        payload = get_dict(record, "payload")
        kind = ("payload" in record and get_text(record.get("type"))) or "unknown"
        inner = get_text(payload.get("type")) or "unknown"
        if kind not in _TYPES:
            chat.ignored[kind] += 1
        elif kind == "response_item" and inner in _NO_MESSAGES:
            chat.ignored[inner] += 1
        elif kind == "response_item":
            chat.add(_read(payload, parse_time(record.get("timestamp"))), "session")
        elif kind == "event_msg":
            chat.ignored.update([f"event {inner}"] if inner not in _REPEATS else [])
        else:
            keys = ("model", "cli_version", "originator")
            chat.set_attributes(**{key: payload.get(key) for key in keys})
    return chat


def _refuse_several(lines: list[Any]) -> None:
    """Raise UnreadableTrace for a file of several sessions that do not continue one another."""
    metas = (line for line in map(get_dict, lines) if line.get("type") == "session_meta")
    headers = [get_dict(line, "payload") for line in metas]
    ids = {get_text(header.get("id")) for header in headers if header}
    if len(ids) > 1 and not any("forked_from_id" in header for header in headers):
        raise UnreadableTrace(
            f"{len(ids)} sessions in one file, and its lines do not name theirs: split it"
        )


def _read(payload: dict[str, Any], time: float | None) -> Utterance:
    message = read_message({**payload, "name": None} if "role" in payload else payload)
    first = next(iter(message.pieces), "").lstrip()
    if message.author == "agent":
        return replace(message, sender="assistant", time=time)
    if message.author == "human" and first.startswith(_NOTICES):
        return replace(message, sender="system", author="system", time=time)
    return replace(message, time=time)
