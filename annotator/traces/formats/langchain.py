"""LangChain's messages and LangGraph's states, their histories and streams of updates.

Tested with langchain-core 1.x (`messages_to_dict`, `dumpd`, `model_dump`), langgraph 1.x (states,
`get_state_history`, streams of updates, checkpoints). The ``type`` or the class of a message tells
its author: a tool's never is an agent's, whatever its name. Of several states of one thread the
longest is read: each holds the messages of the one before it.
"""

from dataclasses import replace
from typing import Any

from annotator.traces.authors import classify_word
from annotator.traces.conversation import Conversation, read_message, split_message
from annotator.traces.records import get_dict, get_list, get_text, walk_path

documents = (dict, list)

_LISTS = ("messages", "values.messages", "channel_values.messages", "output.messages")
_THREADS = ("config.configurable.thread_id", "checkpoint.thread_id")
_TYPES = {"human", "ai", "tool", "system", "function", "chat", "remove", "developer"}


def matches(document: Any) -> bool:
    _, items = _find_list(document)
    if items is None:
        return _is_message(document) or bool(_read_update(document))
    return bool(items) and _is_message(items[0])


def group(document: Any) -> str | None:
    """Return "" for a message or an update on a line of its own: all of a file are one trace. For a
    state of a thread the thread and the id of its first message, which all of its states have.
    """
    if not isinstance(document, dict):
        return None
    items = _find_list(document)[1]
    if items is None:
        return "" if _is_message(document) or _read_update(document) else None
    first = unwrap_message(items[0]) if items else None
    number = get_text(first.get("id")) if isinstance(first, dict) else None
    threads = (get_text(walk_path(document, path)) for path in _THREADS)
    thread = next((thread for thread in threads if thread), None)
    return f"{thread}:{number}" if thread and number else None


def read(document: Any) -> Conversation:
    records = document if isinstance(document, list) else [document]
    states = [(key, items, record) for record in records for key, items in [_find_list(record)]]
    states = [state for state in states if state[1]]
    key, items, record = max(states, key=lambda state: len(state[1] or ()), default=("", None, {}))
    items = items or [message for each in records for message in _read_update(each) or [each]]
    chat = _read_chat(items, key or "messages")
    other = sum(1 for _, messages, _ in states if messages != items[: len(messages or ())])
    if other:
        chat.problems.append(f"{other} of {len(states)} states hold other messages, left out")
    chat.read_attributes(record, {key.partition(".")[0], "id"})
    chat.read_outcome(record)
    return chat


def _read_chat(items: list[Any], where: str) -> Conversation:
    """Return the conversation. A human message with the name of an agent is the agent's."""
    chat = Conversation()
    messages = chat.list_objects(map(unwrap_message, items), f"{where}: message")
    people = [get_text(item.get("name")) for item in messages if item.get("type") == "human"]
    agents = {get_text(item.get("name")) for item in messages if item.get("type") == "ai"} - {None}
    unsure = len(set(people)) > 1
    for message in messages:
        for fields in split_message(message):
            utterance = read_message(fields)
            if utterance.author == "human" and utterance.sender in agents:
                utterance = replace(utterance, author="agent")
            elif utterance.author == "human" and classify_word(utterance.sender) is None and unsure:
                utterance = replace(utterance, author="unknown")
            elif utterance.author == "agent" and not fields.get("name"):
                utterance = replace(utterance, sender="ai")
            chat.add(utterance, where)
    return chat


def unwrap_message(item: Any) -> Any:
    """Return a message with its fields beside its ``type``."""
    if not isinstance(item, dict):
        return item
    fields = item
    if isinstance(data := item.get("data"), dict):
        fields = {**data, "type": item.get("type")}
    elif isinstance(inner := item.get("kwargs"), dict) and isinstance(item.get("id"), list):
        fields = {**inner, "type": str((item["id"] or [""])[-1])}
    type_ = get_text(fields.get("type"))
    if type_ and type_.endswith(("Message", "MessageChunk")):  # a class: those of one agent differ
        fields = {**fields, "type": type_.removesuffix("Chunk").removesuffix("Message").lower()}
    extra = fields.get("additional_kwargs")
    if isinstance(extra, dict) and isinstance(thought := extra.get("reasoning_content"), str):
        fields = {**fields, "reasoning_content": thought}
    return fields


def _read_update(document: Any) -> list[Any]:
    """Return the messages in a stream's update, by default named by the graph's nodes."""
    messages = []
    for node, value in get_dict(document).items():
        items = get_list(value, "messages")
        for item in items if all(map(_is_message, items)) else []:
            fields = unwrap_message(item)
            has_name = fields.get("name") or fields.get("type") != "ai"
            messages.append(fields if has_name else {**fields, "name": node})
    return messages


def _find_list(document: Any) -> tuple[str, list[Any] | None]:
    if isinstance(document, list):
        return "", document
    pairs = ((key, walk_path(document, key)) for key in _LISTS)
    return next(((key, items) for key, items in pairs if isinstance(items, list)), ("", None))


def _is_message(item: Any) -> bool:
    """Whether an object has the marks of a message of LangChain's in one of its three forms."""
    if not isinstance(item, dict):
        return False
    fields = unwrap_message(item)
    if get_text(fields.get("type")) not in _TYPES or "content" not in fields:
        return False
    wrapped = any(isinstance(item.get(key), dict) for key in ("data", "kwargs"))
    return wrapped or bool({"additional_kwargs", "response_metadata"} & fields.keys())
