"""Sessions of Claude Code: JSON lines, those of a session known by ``sessionId``.

Looked at: sessions of versions 1 and 2. A line is a message of the person, of the model or of a
tool, or a note of the program. What the person did not write (``isMeta``, summaries, outputs of
commands) is the harness's. A sidechain is an agent of its own, whose prompts the main agent wrote.
"""

from collections import Counter
from typing import Any

from annotator.traces.conversation import Conversation, Utterance, read_parts, read_time
from annotator.traces.document import text_of
from annotator.traces.model import Author, Trace

name = "claude-code"

_AGENT = "assistant"
_SPOKEN = {"user", "assistant", "system", "summary"}
_OTHER = {"file-history-snapshot", "progress", "queue-operation", "attachment", "last-prompt"}
_NOT_TYPED = ("<local-command", "<command-", "<system-reminder>", "Caveat: The messages below")


def matches(record: Any) -> bool:
    """Whether a record is a line of such a session."""
    if not isinstance(record, dict):
        return False
    kind = record.get("type")
    if kind == "summary":
        return "leafUuid" in record
    known_kind = isinstance(kind, str) and kind in _SPOKEN | _OTHER
    return known_kind and ("sessionId" in record or "messageId" in record)


def group(record: Any) -> str | None:
    """Return the session of a line, "" where it does not say."""
    return (text_of(record.get("sessionId")) or "") if isinstance(record, dict) else ""


def read(records: Any, trace_id: str, path: str) -> Trace:
    """Return the trace of a session's lines."""
    chat = Conversation()
    others: Counter[str] = Counter()
    attributes: dict[str, Any] = {}
    for record in records if isinstance(records, list) else [records]:
        kind = text_of(record.get("type")) if isinstance(record, dict) else None
        if kind not in _SPOKEN:
            others[kind or "unknown"] += 1
            continue
        message = record.get("message")
        message = message if isinstance(message, dict) else {}
        for key, value in (("model", message.get("model")), ("version", record.get("version"))):
            if (text := text_of(value)) and text != "<synthetic>":
                attributes.setdefault(key, text)
        chat.add(_read(record, message), "session")
    for other, n in others.items():
        chat.problems.append(f"{n} lines of type {other} left out: no messages")
    return chat.trace(name, trace_id, path, attributes=attributes)


def _read(record: dict[str, Any], message: dict[str, Any]) -> Utterance:
    kind = record["type"]
    content = message.get("content", record.get("content", record.get("summary")))
    parts = read_parts(content)
    aside = text_of(record.get("agentId")) or "sidechain" if record.get("isSidechain") else ""
    sender, author, recipients = _speaker(record, kind, parts.has_result, parts.texts[:1], aside)
    return Utterance(
        sender,
        author,
        parts.texts,
        recipients,
        read_time(record),
        None,
        parts.reasoning,
        parts.omitted,
    )


def _speaker(
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
    if aside:
        return _AGENT, "agent", (aside,)
    typed = not (first and first[0].lstrip().startswith(_NOT_TYPED))
    return ("user", "human", ()) if typed else ("system", "system", ())
