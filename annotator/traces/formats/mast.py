"""Records of the MAST data set (MAD), and of AG2 runs in the same form.

Looked at: the records of arXiv 2503.13657 and of its followers. ``trace_id`` repeats over
frameworks and models, so that the id is ``mas_name/llm_name/benchmark_name/trace_id``. A
``trajectory`` is a list of messages, or the log of a framework as one text, of which nobody can
tell who wrote what: one message of an unknown author. Modes are labels of people.
"""

from dataclasses import replace
from typing import Any

from annotator.base.errors import UnreadableTrace
from annotator.traces.conversation import Conversation, Utterance, read_chat
from annotator.traces.model import Message, Trace
from annotator.traces.records import get_text, name_type, parse_nested, read_attributes

name = "mast"

_ID = ("mas_name", "llm_name", "benchmark_name", "trace_id")


def matches(document: Any) -> bool:
    """Whether a document is such a record."""
    return isinstance(document, dict) and "mas_name" in document and "trace" in document


def identify(document: Any) -> str | None:
    """Return the id, of all that tells one record from another."""
    parts = [text for key in _ID if (text := get_text(document.get(key)))]
    return "/".join(parts) if get_text(document.get("trace_id")) else None


def read(document: Any, trace_id: str, path: str) -> Trace:
    """Return the trace.

    Raises:
        UnreadableTrace: there is no trajectory in it.
    """
    held, problem = parse_nested(document["trace"]), None
    for _ in range(3):  # as a rule once, in MAD's AG2 runs twice
        if isinstance(held, dict):
            problem = held.get("problem_statement", problem)
            held = parse_nested(held.get("trajectory"))
    statement = problem[0] if isinstance(problem, list) and problem else problem
    if isinstance(held, list):
        chat = read_chat(held, "trajectory")
        chat.messages = [_mark_task(message, get_text(statement)) for message in chat.messages]
    elif text := get_text(held):
        chat = Conversation()
        chat.add(
            Utterance(get_text(document["mas_name"]) or "log", "unknown", [text]), "trajectory"
        )
    else:
        raise UnreadableTrace(
            f"trace: trajectory: found {name_type(held)}, expected messages or a text"
        )
    attributes, problems = read_attributes(document, ("trace",))
    chat.problems += problems
    names = {"mas_name": "framework", "llm_name": "model", "benchmark_name": "benchmark"}
    attributes = {names.get(key, key): value for key, value in attributes.items()}
    return chat.trace(name, trace_id, path, attributes=attributes)


def _mark_task(message: Message, statement: str | None) -> Message:
    """Return the first message as the harness's, where it only repeats the task."""
    if message.n > 1 or not statement or message.text.strip() != statement.strip():
        return message
    return replace(message, author="system", recipients=(message.sender,), sender="task")
