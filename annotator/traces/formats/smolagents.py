"""Memories of smolagents: the steps of a run, in a list or in the result of the run.

Looked at: smolagents 1.26 (`memory.get_full_steps`, `get_succinct_steps`, `RunResult.dict`). What
the model was asked repeats the steps before it and is not read again.
"""

from typing import Any

from annotator.traces.conversation import Conversation, Utterance, list_call_texts, read_parts
from annotator.traces.model import Trace
from annotator.traces.records import expect_object, get_text, parse_time, read_attributes, walk_path

name = "smolagents"

_AGENT = "agent"
_MARKS = {"task", "system_prompt", "step_number", "plan"}
_WITH = {"task_images", "observations", "model_output_message", "model_output"}


def matches(document: Any) -> bool:
    """Whether a document is a list of steps, or a result with one."""
    items = _items(document)
    first = items[0] if items else None
    if not isinstance(first, dict) or not _MARKS & first.keys():
        return False
    return bool(_WITH & first.keys()) or first.keys() == {"system_prompt"}


def read(document: Any, trace_id: str, path: str) -> Trace:
    """Return the trace; raises UnreadableTrace for what is no step."""
    chat = Conversation()
    for n, item in enumerate(_items(document), 1):
        step = expect_object(item, f"step {n}")
        for utterance in _read(step):
            if utterance.pieces or utterance.omitted:
                chat.add(utterance, "steps")
    record = document if isinstance(document, dict) else {}
    attributes, problems = read_attributes(record, ("steps", "messages", "output"))
    chat.problems += problems
    return chat.trace(name, trace_id, path, attributes=attributes)


def _read(step: dict[str, Any]) -> list[Utterance]:
    """Return what a step says: a task, a plan, or what the agent wrote and called, and what the
    tools returned.
    """
    begin = parse_time(walk_path(step, "timing.start_time"))
    end = parse_time(walk_path(step, "timing.end_time"))
    prompts = [text for text in (get_text(step.get("system_prompt")),) if text]
    task = [text for text in (get_text(step.get("task")),) if text]
    written = read_parts(step.get("model_output", walk_path(step, "model_output_message.content")))
    pieces = written.texts or [text for text in (get_text(step.get("plan")),) if text]
    calls = step.get("tool_calls")
    for call in calls if isinstance(calls, list) else []:
        texts = list_call_texts(walk_path(call, "function"))
        pieces += texts if texts[1:] and texts[1] not in "".join(pieces) else []
    error = step.get("error")
    told = error.get("message", error.get("type")) if isinstance(error, dict) else error
    results = [text for text in map(get_text, (step.get("observations"), told)) if text]
    return [
        Utterance("system", "system", prompts),
        Utterance("user", "human", task),
        Utterance(_AGENT, "agent", pieces, time=begin, omitted=written.omitted),
        Utterance("tool", "tool", results, time=end),
    ]


def _items(document: Any) -> list[Any]:
    items = document.get("steps") if isinstance(document, dict) else document
    return items if isinstance(items, list) else []
