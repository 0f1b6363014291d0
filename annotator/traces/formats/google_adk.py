"""Sessions of Google's Agent Development Kit: events, each by an author, with content parts.

Looked at: google-adk 2.13 (`Session.model_dump`, in snake and in camel case). ``contents`` of the
Gemini API itself are read as `generic`.
"""

from typing import Any

from annotator.traces.conversation import Conversation, Utterance, read_parts
from annotator.traces.model import Author, Trace
from annotator.traces.records import expect_object, get_text, parse_time, read_attributes

name = "google-adk"


def matches(document: Any) -> bool:
    """Whether a document is a session."""
    if not isinstance(document, dict) or not isinstance(events := document.get("events"), list):
        return False
    first = events[0] if events else None
    return isinstance(first, dict) and "author" in first and "content" in first


def read(document: Any, trace_id: str, path: str) -> Trace:
    """Return the trace; raises UnreadableTrace for what is no event."""
    chat = Conversation()
    for n, item in enumerate(document["events"], 1):
        event = expect_object(item, f"event {n}")
        content = event.get("content")
        parts = read_parts(content.get("parts") if isinstance(content, dict) else None)
        if not (parts.texts or parts.reasoning or parts.omitted):
            continue  # of a state, or of a transfer: nothing was said
        sender = get_text(event.get("author")) or ""
        author: Author = "human" if sender == "user" else "agent" if sender else "unknown"
        if parts.has_result:
            author = "tool"
        time = parse_time(event.get("timestamp"))
        chat.add(
            Utterance(
                sender,
                author,
                parts.texts,
                time=time,
                reasoning=parts.reasoning,
                omitted=parts.omitted,
            ),
            "events",
        )
    attributes, problems = read_attributes(document, ("id", "events", "state"))
    chat.problems += problems
    return chat.trace(name, trace_id, path, attributes=attributes)
