"""Records of the MAST data set (MAD), and of AG2 runs in the same form.

Tested with the records of arXiv 2503.13657 and of its followers. ``trace_id`` repeats over
frameworks and models, so the id is ``mas_name/llm_name/benchmark_name/trace_id``. A ``trajectory``
is a list of messages, or a framework's log as text: split by speaker (``framework_log``), else a
message of an unknown author. Failure modes are people's labels.
"""

from dataclasses import replace
from typing import Any

from annotator.base.errors import UnreadableTrace
from annotator.traces.conversation import Conversation, Utterance, read_chat
from annotator.traces.formats.framework_log import read_log
from annotator.traces.records import find_task, get_text, name_type, parse_nested

_ID = ("mas_name", "llm_name", "benchmark_name", "trace_id")
_ATTRIBUTES = {"mas_name": "framework", "llm_name": "model", "benchmark_name": "benchmark"}


def matches(document: Any) -> bool:
    return "mas_name" in document and "trace" in document


def identify(document: Any) -> str | None:
    parts = [text for key in _ID if (text := get_text(document.get(key)))]
    return "/".join(parts) if get_text(document.get("trace_id")) else None


def read(document: Any) -> Conversation:
    content, problem, other = parse_nested(document["trace"]), None, None
    for _ in range(3):  # as a rule once, in MAD's AG2 runs twice
        if isinstance(content, dict):
            problem = content.get("problem_statement", content.get("prompt", problem))
            other = content.get("other_data", other)
            content = parse_nested(content.get("trajectory", content.get("content")))
    statement = get_text(problem[0] if isinstance(problem, list) and problem else problem)
    if isinstance(content, list) and content and isinstance(content[0], str):
        content = "\n".join(map(str, content))  # a log, line by line
    if isinstance(content, list):
        chat = read_chat(content, "trajectory")
        first = chat.messages[0] if chat.messages else None
        if first and statement and first.text.strip() == statement.strip():  # it repeats the task
            to = (first.sender,)
            chat.messages[0] = replace(first, author="system", recipients=to, sender="task")
    elif text := get_text(content):
        chat = read_log(text) or Conversation()
        if not chat.messages:
            system = get_text(document["mas_name"]) or "log"
            chat.add(Utterance(system, "unknown", [text]), "trajectory")
    else:
        problem = f"found {name_type(content)}, expected messages or a text"
        raise UnreadableTrace(f"trace: trajectory: {problem}")
    chat.read_attributes(document, ("trace",))
    chat.read_outcome({"other_data": other, **document})
    chat.task = find_task({"problem_statement": problem}) or chat.task
    chat.attributes = {_ATTRIBUTES.get(key, key): value for key, value in chat.attributes.items()}
    return chat
