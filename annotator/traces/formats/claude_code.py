"""Sessions of Claude Code: JSON lines with a ``sessionId``; and its streams
(``--output-format stream-json``), with a ``session_id``.

Tested with sessions of versions 1 and 2. A line is a message of the person, of the model or of a
tool, or a note of the program. User messages that no person wrote (``isMeta``, summaries, outputs
of commands) are the harness's. A sidechain is an agent of its own with prompts by the main agent.
"""

import re
from typing import Any

from annotator.traces.conversation import (
    HARMLESS,
    Conversation,
    Parts,
    read_parts,
    read_time,
)
from annotator.traces.model import Author
from annotator.traces.records import get_dict, get_first_text, get_text

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
_MARKS = ("isMeta", "isCompactSummary", "isApiErrorMessage")
_TEAMMATE = re.compile(r'<teammate-message teammate_id="([^"]{1,80})"[^>]*>\s*(\{)?')


_READ = {*HARMLESS, "role", "content", "type"}
_RECORD_KEYS = {
    *(*HARMLESS, *_IDS, *_TEXTS, "type", "timestamp", "version", "agentId", "parent_tool_use_id"),
    *(*_MARKS, "isSidechain"),
    "toolUseResult",  # the result in the message, in parts
    *("parentUuid", "logicalParentUuid", "leafUuid", "requestId", "promptId", "slug", "level"),
    *("userType", "entrypoint", "cwd", "gitBranch", "permissionMode", "subtype", "teamName"),
    *("isVisibleInTranscriptOnly", "thinkingMetadata", "compactMetadata", "toolUseID"),
    *("sourceToolUseID", "sourceToolAssistantUUID"),
}


def matches(record: Any) -> bool:
    kind = get_text(record.get("type"))
    if kind == "summary":
        return "leafUuid" in record
    if "session_id" in record and "sessionId" not in record:  # others have such an id, too
        marks = isinstance(record.get("message"), dict) or "subtype" in record or "event" in record
        if not marks or "role" in record:
            return False
    return kind in _MESSAGES | _OTHER and any(key in record for key in _IDS)


def group(record: Any) -> str | None:
    return get_first_text(get_dict(record), *_IDS[:2]) or ""


def read(records: Any) -> Conversation:
    chat = Conversation()
    for record in map(get_dict, records):
        kind = get_text(record.get("type"))
        if kind not in _MESSAGES or not any(record.get(key) for key in _TEXTS):
            chat.ignored[kind or "unknown"] += 1
            continue
        message = get_dict(record, "message")
        for key, value in (("model", message.get("model")), ("version", record.get("version"))):
            if (text := get_text(value)) and text != "<synthetic>":
                chat.attributes.setdefault(key, text)
        chat.note_unread("messages", message, _READ)
        chat.note_unread("records", record, _RECORD_KEYS)
        parts = read_parts(message.get("content", record.get("content", record.get("summary"))))
        sender, author, recipients = _find_speaker(record, message, parts)
        utterance = parts.utter(sender, author, read_time(record), recipients=recipients)
        chat.add(utterance, "session")
    return chat


def _find_speaker(
    record: dict[str, Any], message: dict[str, Any], parts: Parts
) -> tuple[str, Author, tuple[str, ...]]:
    kind = record["type"]
    if parts.has_result or "toolUseResult" in record:
        return "tool", "tool", ()
    is_notice = message.get("model") == "<synthetic>" or any(map(record.get, _MARKS))
    text = parts.texts[0].lstrip() if parts.texts else ""
    aside = get_text(record.get("agentId")) or "sidechain" if record.get("isSidechain") else ""
    aside = aside or get_text(record.get("parent_tool_use_id")) or ""  # the call that started it
    if kind == "assistant" and not is_notice:
        return aside or _AGENT, "agent", ()
    if is_notice or kind != "user" or text.startswith(_NOTICES):
        return "system", "system", ()
    if teammate := _TEAMMATE.match(text):  # its words, or in JSON a notice of its program
        return (teammate[1], "system" if teammate[2] else "agent", (_AGENT,))
    return (_AGENT, "agent", (aside,)) if aside else ("user", "human", ())
