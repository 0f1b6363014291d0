"""Sessions of Claude Code: JSON lines with a ``sessionId``; and its streams
(``--output-format stream-json``), with a ``session_id``.

Tested with sessions of versions 1 and 2. A line is a message of the person, of the model or of a
tool, or a note of the program. User messages that no person wrote (``isMeta``, summaries, outputs
of commands) are the harness's. A sidechain is an agent of its own with prompts by the main agent.
"""

import re
from typing import Any

from annotator.traces.conversation import HARMLESS, Conversation, Utterance, read_parts, read_time
from annotator.traces.model import Author, Trace
from annotator.traces.records import get_dict, get_text

name = "claude-code"

_AGENT = "assistant"
_TEXTS = ("message", "content", "summary")
_MESSAGES = {"user", "assistant", "system", "summary"}
_OTHER = {"file-history-snapshot", "progress", "queue-operation", "attachment", "last-prompt"} | {
    *("result", "stream_event")
}
_IDS = ("sessionId", "session_id", "messageId")
_NOTICES = (
    *("<local-command", "<command-", "<system-reminder>", "Caveat: The messages below"),
    *("<bash-std", "<task-notification", "<user-prompt-submit-hook", "[Request interrupted by"),
)
_TEAMMATE = re.compile(r'<teammate-message teammate_id="([^"]{1,80})"[^>]*>\s*(\{)?')


_READ = {*HARMLESS, "role", "content", "type"}
_RECORD_KEYS = {
    *(*HARMLESS, *_IDS, *_TEXTS, "type", "timestamp", "version", "agentId", "parent_tool_use_id"),
    *("isMeta", "isCompactSummary", "isApiErrorMessage", "isSidechain"),
    "toolUseResult",  # the result in the message, in parts
    *("parentUuid", "logicalParentUuid", "leafUuid", "requestId", "promptId", "slug", "level"),
    *("userType", "entrypoint", "cwd", "gitBranch", "permissionMode", "subtype", "teamName"),
    *("isVisibleInTranscriptOnly", "thinkingMetadata", "compactMetadata", "toolUseID"),
    *("sourceToolUseID", "sourceToolAssistantUUID"),
}


def matches(record: Any) -> bool:
    if not isinstance(record, dict):
        return False
    kind = record.get("type")
    if kind == "summary":
        return "leafUuid" in record
    matches_kind = isinstance(kind, str) and kind in _MESSAGES | _OTHER
    if "session_id" in record and "sessionId" not in record:  # others have such an id, too
        marks = isinstance(record.get("message"), dict) or "subtype" in record or "event" in record
        matches_kind = matches_kind and marks and "role" not in record
    return matches_kind and any(key in record for key in _IDS)


def group(record: Any) -> str | None:
    ids = (get_text(record.get(key)) for key in _IDS[:2]) if isinstance(record, dict) else ()
    return next((text for text in ids if text), "")


def read(records: Any, trace_id: str, path: str) -> Trace:
    chat = Conversation()
    for record in records if isinstance(records, list) else [records]:
        kind = get_text(record.get("type")) if isinstance(record, dict) else None
        if kind not in _MESSAGES or not any(record.get(key) for key in _TEXTS):
            chat.ignored[kind or "unknown"] += 1
            continue
        message = get_dict(record, "message")
        for key, value in (("model", message.get("model")), ("version", record.get("version"))):
            if (text := get_text(value)) and text != "<synthetic>":
                chat.attributes.setdefault(key, text)
        chat.note_unread("messages", message, _READ)
        chat.note_unread("records", record, _RECORD_KEYS)
        chat.add(_read(record, message), "session")
    return chat.trace(name, trace_id, path)


def _read(record: dict[str, Any], message: dict[str, Any]) -> Utterance:
    kind = record["type"]
    content = message.get("content", record.get("content", record.get("summary")))
    parts = read_parts(content)
    aside = get_text(record.get("agentId")) or "sidechain" if record.get("isSidechain") else ""
    aside = aside or get_text(record.get("parent_tool_use_id")) or ""  # the call that started it
    if message.get("model") == "<synthetic>":
        record = {**record, "isMeta": True}
    sender, author, recipients = _find_speaker(
        record, kind, parts.has_result, parts.texts[:1], aside
    )
    return parts.utter(sender, author, read_time(record), recipients=recipients)


def _find_speaker(
    record: dict[str, Any], kind: str, has_result: bool, first: list[str], aside: str
) -> tuple[str, Author, tuple[str, ...]]:
    if has_result or "toolUseResult" in record:
        return "tool", "tool", ()
    if kind in ("system", "summary") or any(
        record.get(mark) for mark in ("isMeta", "isCompactSummary", "isApiErrorMessage")
    ):
        return "system", "system", ()
    if kind == "assistant":
        return aside or _AGENT, "agent", ()
    text = first[0].lstrip() if first else ""
    if text.startswith(_NOTICES):
        return "system", "system", ()
    if teammate := _TEAMMATE.match(text):  # its words, or in JSON a notice of its program
        return (teammate[1], "system" if teammate[2] else "agent", (_AGENT,))
    return (_AGENT, "agent", (aside,)) if aside else ("user", "human", ())
