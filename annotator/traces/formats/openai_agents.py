"""Items of the OpenAI Agents SDK: of sessions, of runs (by agent), and raw responses.

Tested with openai-agents 0.24 (`Session.get_items` with their session, `RunResult.new_items`,
`ModelResponse`). Lists of input items are read as `generic`, spans as `span-export`.
"""

from dataclasses import replace
from typing import Any

from annotator.traces.conversation import Conversation, read_message, split_message
from annotator.traces.records import get_dict, get_text

documents = (dict, list)


def matches(document: Any) -> bool:
    records = split(document)[:2]
    return bool(records) and all(map(_is_record, records))


def group(document: Any) -> str | None:
    return get_text(document.get("session_id")) or "" if isinstance(document, dict) else None


def split(document: Any) -> list[Any]:
    return document if isinstance(document, list) else [document]


def read(records: Any) -> Conversation:
    chat = Conversation()
    for fields in chat.list_objects(records, "item"):
        agent = fields.get("agent")
        agent_name = get_text(agent.get("name") if isinstance(agent, dict) else agent)
        inner, output = fields.get("item", fields.get("raw_item")), fields.get("output")
        items = output if inner is None and isinstance(output, list) else [inner]
        for item in chat.list_objects(items, "item"):
            for entry in split_message(item):
                message = read_message(entry)
                if message.author == "agent" and agent_name:
                    message = replace(message, sender=agent_name)
                chat.add(message, "items")
    return chat


def _is_record(item: Any) -> bool:
    item = get_dict(item)
    session = "session_id" in item and isinstance(item.get("item"), dict)
    run = "agent" in item and isinstance(item.get("raw_item"), dict)
    return session or run or {"output", "response_id", "usage"} <= item.keys()
