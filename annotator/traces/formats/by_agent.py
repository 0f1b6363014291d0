"""Runs in which each agent has a list of messages of its own: ``agents.NAME.messages``, or
``agent_histories.NAME`` and the like.

Tested with the layout that CooperBench's harness of teams exports (``meta``, ``agents``,
``integrated_patch``). A call of ``send_message`` is a message to the agent that it names. Lists
are merged by time if all their messages have one, else read one after another. A user's words are
the harness's: it gives the tasks, and hands over what others sent.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from annotator.traces.conversation import (
    Conversation,
    Utterance,
    is_message,
    read_message,
    read_time,
    split_message,
)
from annotator.traces.model import INTEGRATED, AgentEnd
from annotator.traces.records import (
    get_dict,
    get_first_text,
    get_list,
    get_text,
    parse_nested,
    parse_number,
    read_attributes,
    read_outcome,
)

_SENDS = ("send_message", "send_message_to_agent", "message_agent")
_TO = ("recipient", "to", "target", "agent", "agent_id", "recipients")
_WORDS = ("content", "message", "text", "body")
_NAMES = ("name", "agent_id", "agent", "id")
_LISTS = ("messages", "history", "trajectory", "conversation", "chat_history")
_AGENT_KEYS = ("agent_id", "name", "status", "steps", "error", "messages", "role", "id", "agent")
_MESSAGE_KEYS = (
    *("role", "content", "tool_calls", "tool_call_id", "name", "timestamp", "extra", "time"),
    *("id", "type", "reasoning_content", "thinking", "reasoning", "refusal", "function_call"),
)


def matches(document: Any) -> bool:
    return not isinstance(document.get("messages"), list) and bool(_find_agents(document))


def identify(document: Any) -> str | None:
    meta = get_dict(document, "meta")
    names = [text for key in ("run", "instance") if (text := get_text(meta.get(key)))]
    return get_first_text(document, "id", "run_id", "trace_id") or "/".join(names) or None


def read(document: Any) -> Conversation:
    chat = Conversation()
    rows = []
    ends = []
    agents_key = _find_agents(document)
    for agent, fields in _list_agents(document[agents_key]):
        chat.note_unread("agent", fields, _AGENT_KEYS)
        status, error = get_text(fields.get("status")), get_text(fields.get("error"))
        ends.append(AgentEnd(agent, None, status, error))
        if "messages" not in fields:
            chat.problems.append(f"{agents_key}.{agent}: no list of messages")
        items, noun = get_list(fields, "messages"), f"{agents_key}.{agent}: message"
        for message in chat.list_objects(items, noun, "message", _MESSAGE_KEYS):
            time = read_time({**get_dict(message, "extra"), **message})
            rows += [
                (time, replace(utterance, time=time, unread=()))  # those are noted above
                for utterance in _read(message, agent)
            ]
    if all(time is not None for time, _ in rows):
        rows.sort(key=lambda row: row[0] or 0.0)
    elif len(ends) > 1:
        chat.problems.append("the agents' messages have no times: one list after another")
    for _, utterance in rows:
        chat.add(utterance, "agents")
    meta = get_dict(document, "meta")
    consumed = ("integrated_patch", "meta", agents_key)
    for attributes, problems in (
        read_attributes(document, consumed),
        read_attributes(meta, ("agents",)),
    ):
        chat.attributes |= attributes
        chat.problems += problems
    passed, rule = _read_outcome(meta, chat)
    passed, rule = (passed, rule) if rule else read_outcome({**document, **meta, "score": None})
    chat.set_outcome(passed, rule, agents=tuple(ends))
    patch = document.get("integrated_patch")
    patches = {INTEGRATED: patch} if isinstance(patch, str) else {}
    chat.patches = patches
    return chat


def _find_agents(document: Mapping[str, Any]) -> str:
    """Return the key under which a run has its agents; "" if it has none with a list."""
    keys = sorted((key for key in document if "agent" in key.lower()), key=len)
    return next((key for key in keys if _list_agents(document[key])), "")


def _list_agents(agents: Any) -> list[tuple[str, dict[str, Any]]]:
    """Return agents by name, each with its ``messages``; [] if none has a list of these."""
    pairs = list(agents.items()) if isinstance(agents, dict) else []
    if any(key in _LISTS or not isinstance(value, dict | list) for key, value in pairs):
        return []  # one agent, or something else of agents
    if isinstance(agents, list):
        items = list(map(get_dict, agents))
        names = (get_first_text(item, *_NAMES) or f"agent{n}" for n, item in enumerate(items, 1))
        pairs = list(zip(names, items, strict=True))
    named = [(agent, _normalize(value)) for agent, value in pairs]
    return named if any("messages" in fields for _, fields in named) else []


def _normalize(value: Any) -> dict[str, Any]:
    """Return an agent with its list as ``messages``, if it has one, or is one."""
    fields = {"messages": value} if isinstance(value, list) else dict(get_dict(value))
    for key in _LISTS:
        items = fields.get(key)
        if isinstance(items, list) and (not items or is_message(items[0])):
            return {**{k: v for k, v in fields.items() if k != key}, "messages": items}
    return {k: v for k, v in fields.items() if k != "messages"}


def _read(message: Mapping[str, Any], agent: str) -> Iterator[Utterance]:
    """Yield what a message of an agent's list says, and what it sends to others."""
    for fields in split_message(message):
        calls = [get_dict(call) for call in get_list(fields, "tool_calls")]
        sent = [(call, sending) for call in calls if (sending := _read_sending(call, agent))]
        rest = [call for call in calls if all(call is not other for other, _ in sent)]
        utterance = read_message({**fields, "tool_calls": rest} if sent else fields)
        if utterance.author == "agent":
            utterance = replace(utterance, sender=agent)
        elif utterance.author != "tool":  # also the harness's last word, `exit`
            utterance = replace(utterance, author="system", recipients=(agent,))
        if any(utterance.pieces) or utterance.reasoning or utterance.omitted or not sent:
            yield utterance
        for _, sending in sent:
            yield sending


def _read_sending(call: Mapping[str, Any], agent: str) -> Utterance | None:
    """Return the message that a call sends to another agent; None for any other call."""
    function = get_dict(call, "function") or call
    arguments = get_dict(parse_nested(function.get("arguments", function.get("input"))))
    text = get_first_text(arguments, *_WORDS)
    if not text or get_text(function.get("name")) not in _SENDS:
        return None
    value = next((arguments[key] for key in _TO if arguments.get(key)), None)
    names = [get_text(item) for item in (value if isinstance(value, list) else [value])]
    others = {key: inner for key, inner in arguments.items() if key not in (*_TO, *_WORDS)}
    pieces = [text, *([json.dumps(others, ensure_ascii=False)] if others else [])]
    recipients = tuple(to for to in names if to and to.lower() not in ("all", "broadcast", "*"))
    return Utterance(agent, "agent", pieces, recipients, kind="message")


def _read_outcome(meta: Mapping[str, Any], chat: Conversation) -> tuple[bool | None, str | None]:
    """Return whether all tests passed: the score is their share in percent."""
    score = parse_number(meta.get("score"))
    if not isinstance(score, float):
        return None, None
    if 0 < score <= 1:
        chat.problems.append(f"meta.score is {score:g}: a share or a percentage, not known which")
        return None, None
    return score >= 100, "meta.score >= 100"
