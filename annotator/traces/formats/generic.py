"""JSON records with a list of messages, and messages on lines of their own."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from annotator.traces.conversation import Conversation, is_message, read_chat, read_time
from annotator.traces.records import (
    RESULT_KEYS,
    find_record_id,
    find_task,
    get_dict,
    get_first_text,
    parse_cell,
    parse_number,
    read_attributes,
    read_outcome,
    read_pair_and_team,
    read_patches,
)

documents = (dict, list)
takes_records_apart = True  # a record among messages is a trace by itself

_LISTS = (
    *("messages", "conversation", "conversations", "history", "chat_history", "trajectory"),
    *("contents", "turns", "dialogue", "chat", "dialog", "transcript", "utterances", "chat_log"),
)
_NUMBERS = (
    *("message_index", "index", "idx", "n", "turn", "turn_id", "step", "message_number"),
    *("position", "seq", "sequence", "order"),
)
_PROMPTS = ("system", "system_instruction", "systemInstruction")
CONVERSATION_KEYS = (
    *("conversation_id", "session_id", "thread_id", "trace_id", "chat_id", "run_id"),
    *("dialogue_id", "dialog_id", "conv_id", "episode_id"),
)


def matches(document: Any) -> bool:
    if isinstance(document, dict):
        return bool(_find_list(document)) or is_message(document)
    return bool(document) and is_message(document[0])


def group(document: Any) -> str | None:
    if isinstance(document, list):
        return None
    if not isinstance(document, dict):
        return ""
    if _find_list(document):
        return None
    return get_first_text(document, *CONVERSATION_KEYS) or ""


def read(document: Any) -> Conversation:
    record: Mapping[str, Any] = document if isinstance(document, dict) else {}
    key, messages = (_find_list(record) or ("", [])) if record else ("", document)
    items = list(messages) if key else _sort_rows(messages)
    for name_of_prompt in _PROMPTS:
        prompt = record.get(name_of_prompt)
        prompt = prompt.get("parts") if isinstance(prompt, dict) else prompt
        if isinstance(prompt, str | list) and prompt:
            items.insert(0, {"role": "system", "content": prompt})
    chat = read_chat(items, "messages")
    results = {name for item in map(get_dict, items) for name in RESULT_KEYS if name in item}
    if results:
        chat.problems.append(
            f"an outcome on a message, left out: {', '.join(sorted(results))}; put it into the"
            " record that holds the messages"
        )
    fields = get_dict(record, "attributes")
    run, lists = read_pair_and_team({**record, **fields})
    inner, problems = read_attributes(fields, lists, "attributes: ", tasks=())
    ids = ["id"] if find_record_id(record) else []
    patches = read_patches(record.get("patches"))
    consumed = {key, *_PROMPTS, "attributes", *ids, *lists, *(["patches"] if patches else [])}
    outer, more = read_attributes(record, consumed)
    chat.problems += (*problems, *more)
    if not isinstance(inner.get("passed"), bool | None):
        wrong = inner.pop("passed")
        chat.problems.append(f"attributes: passed is {wrong!r}, not true or false")
    wrong = outer.pop("passed", None)  # read_outcome sets it again if it is a result
    if wrong is not None and read_outcome({"passed": wrong})[0] is None:
        chat.problems.append(f"passed is {wrong!r}, not true or false")
    chat.attributes, chat.task = {**outer, **inner}, find_task(record)
    chat.read_outcome({**record, **chat.attributes})
    chat.outcome = replace(chat.outcome, **run)
    chat.patches = patches
    return chat


def _sort_rows(items: list[Any]) -> list[Any]:
    """Return messages by a number that each has, or turned if the newest is the first."""
    rows = list(map(get_dict, items))
    for key in _NUMBERS:
        numbers = [parse_number(row.get(key)) for row in rows]
        if all(isinstance(n, float) for n in numbers) and len(set(numbers)) == len(numbers):
            return [
                item for _, item in sorted(zip(numbers, items, strict=True), key=lambda p: p[0])
            ]
    times = [read_time(row) for row in rows]
    is_known = None not in times and len(set(times)) == len(times) > 1
    return items[::-1] if is_known and times == sorted(times, reverse=True) else items  # type: ignore[type-var]


def _find_list(record: Mapping[str, Any]) -> tuple[str, list[Any]] | None:
    """Return the messages of a record, and the key that holds them or an object with them."""
    for key in _LISTS:
        value = parse_cell(record.get(key))
        if isinstance(value, dict) and key != "messages" and "messages" in value:
            value = parse_cell(value["messages"])
        if isinstance(value, list) and (key == "messages" or (value and is_message(value[0]))):
            return key, value
    return None
