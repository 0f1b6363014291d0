"""Memories of smolagents: the steps of a run, in a list or in the result of the run.

Tested with smolagents 1.26 (`memory.get_full_steps`, `get_succinct_steps`, `RunResult.dict`). The
model's input repeats the steps before it and is not read again.
"""

from typing import Any

from annotator.traces.conversation import (
    HARMLESS,
    Conversation,
    Utterance,
    list_call_texts,
    read_parts,
)
from annotator.traces.records import get_dict, get_list, get_text, list_items, parse_time, walk_path

documents = (dict, list)

_AGENT = "agent"
_MARKS = {"task", "system_prompt", "step_number", "plan"}
_OTHER_MARKS = {"task_images", "observations", "model_output_message", "model_output"}
_READ = {
    *HARMLESS,
    *("model_output", "model_output_message", "plan", "tool_calls", "error", "observations"),
    *("system_prompt", "task", "timing"),
    *("step_number", "code_action", "action_output", "is_final_answer"),  # said elsewhere, too
}


def matches(document: Any) -> bool:
    keys = get_dict(next(iter(list_items(document, "steps")), None)).keys()
    return bool(_MARKS & keys and _OTHER_MARKS & keys) or keys == {"system_prompt"}


def read(document: Any) -> Conversation:
    chat = Conversation()
    for step in chat.list_objects(list_items(document, "steps"), "step", "steps", _READ):
        for utterance in _read(step):
            if utterance.pieces or utterance.omitted:
                chat.add(utterance, "steps")
    chat.read_attributes(get_dict(document), ("steps", "messages", "output"))
    return chat


def _read(step: dict[str, Any]) -> list[Utterance]:
    """Return the utterances of a step: prompt, task, the agent's text, plan and calls, results."""
    begin = parse_time(walk_path(step, "timing.start_time"))
    end = parse_time(walk_path(step, "timing.end_time"))
    parts = read_parts(step.get("model_output", walk_path(step, "model_output_message.content")))
    parts.texts = parts.texts or _list_texts(step.get("plan"))
    for call in get_list(step, "tool_calls"):
        texts = list_call_texts(walk_path(call, "function"))
        parts.texts += texts if texts[1:] and texts[1] not in "".join(parts.texts) else []
    error = step.get("error")
    message = error.get("message", error.get("type")) if isinstance(error, dict) else error
    results = _list_texts(step.get("observations"), message)
    return [
        Utterance("system", "system", _list_texts(step.get("system_prompt"))),
        Utterance("user", "human", _list_texts(step.get("task"))),
        Utterance(_AGENT, "agent", parts.texts, time=begin, omitted=parts.omitted),
        Utterance("tool", "tool", results, time=end),
    ]


def _list_texts(*values: Any) -> list[str]:
    return [text for text in map(get_text, values) if text]
