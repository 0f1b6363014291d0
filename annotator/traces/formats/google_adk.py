"""Sessions of Google's Agent Development Kit: events with an author and content parts.

Tested with google-adk 2.13 (`Session.model_dump`, in snake and in camel case). ``contents`` of the
Gemini API itself are read as `generic`.
"""

from typing import Any

from annotator.traces.conversation import HARMLESS, Conversation, read_parts
from annotator.traces.model import Author
from annotator.traces.records import get_dict, get_list, get_text, parse_time

_READ = {
    *HARMLESS,
    *("author", "content", "timestamp", "actions", "invocationId", "nodeInfo", "node_info"),
}


def matches(document: Any) -> bool:
    first = get_dict(next(iter(get_list(document, "events")), None))
    return "author" in first and "content" in first


def read(document: Any) -> Conversation:
    chat = Conversation()
    for event in chat.list_objects(document["events"], "event", "events", _READ):
        parts = read_parts(get_dict(event, "content").get("parts"))
        if not (parts.texts or parts.reasoning or parts.omitted):
            continue  # of a state, or of a transfer: nothing was said
        sender = get_text(event.get("author")) or ""
        author: Author = "human" if sender == "user" else "agent" if sender else "unknown"
        author = "tool" if parts.has_result else author
        chat.add(parts.utter(sender, author, parse_time(event.get("timestamp"))), "events")
    chat.read_attributes(document, ("id", "events", "state"))
    return chat
