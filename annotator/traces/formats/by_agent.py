"""Runs in which each agent has a list of messages of its own: ``agents.NAME.messages``.

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
    read_message,
    read_time,
    split_message,
)
from annotator.traces.model import INTEGRATED, AgentEnd, Outcome, Trace
from annotator.traces.records import (
    expect_object,
    get_dict,
    get_first_text,
    get_list,
    get_text,
    parse_nested,
    parse_number,
    read_attributes,
    read_outcome,
)
from annotator.traces.unread import note_unread

name = "by-agent"

_SENDS = ("send_message", "send_message_to_agent", "message_agent")
_TO = ("recipient", "to", "target", "agent", "agent_id", "recipients")
_WORDS = ("content", "message", "text", "body")
_NAMES = ("name", "agent_id", "agent", "id")
_AGENT_KEYS = ("agent_id", "name", "status", "steps", "error", "messages", "role", "id", "agent")
_MESSAGE_KEYS = (
    *("role", "content", "tool_calls", "tool_call_id", "name", "timestamp", "extra", "time"),
    *("id", "type", "reasoning_content", "thinking", "reasoning", "refusal", "function_call"),
)


def matches(document: Any) -> bool:
    """Whether a document is such a run."""
    if not isinstance(document, dict) or isinstance(document.get("messages"), list):
        return False
    agents = [agent for _, agent in _list_agents(document)]
    return any(isinstance(agent.get("messages"), list) for agent in agents)


def identify(document: Any) -> str | None:
    """Return the run's id: in ``meta`` the run, and the instance that it solved."""
    meta = get_dict(document, "meta")
    names = [text for key in ("run", "instance") if (text := get_text(meta.get(key)))]
    return get_first_text(document, "id", "run_id", "trace_id") or "/".join(names) or None


def read(document: Any, trace_id: str, path: str) -> Trace:
    """Return the trace of a run; raises UnreadableTrace for a message that is no object."""
    chat = Conversation()
    rows = []
    ends = []
    for agent, fields in _list_agents(document):
        note_unread(chat, "agent", fields, _AGENT_KEYS)
        status, error = get_text(fields.get("status")), get_text(fields.get("error"))
        ends.append(AgentEnd(agent, None, status, error))
        if not isinstance(fields.get("messages"), list):
            chat.problems.append(f"agents.{agent}: no list of messages")
        for n, item in enumerate(get_list(fields, "messages"), 1):
            message = expect_object(item, f"agents.{agent}: message {n}")
            note_unread(chat, "message", message, _MESSAGE_KEYS)
            time = read_time({**get_dict(message, "extra"), **message})
            rows += [(time, replace(utterance, time=time)) for utterance in _read(message, agent)]
    if all(time is not None for time, _ in rows):
        rows.sort(key=lambda row: row[0] or 0.0)
    elif len(ends) > 1:
        chat.problems.append("the agents' messages have no times: one list after another")
    for _, utterance in rows:
        chat.add(utterance, "agents")
    patches = {}
    if isinstance(patch := document.get("integrated_patch"), str):
        patches[INTEGRATED] = patch
    meta = get_dict(document, "meta")
    for fields, consumed in (
        (document, ("integrated_patch", "meta", "agents")),
        (meta, ("agents",)),
    ):
        attributes, problems = read_attributes(fields, consumed)
        chat.attributes |= attributes
        chat.problems += problems
    passed, rule = _read_outcome(meta, chat)
    passed, rule = (passed, rule) if rule else read_outcome({**document, **meta, "score": None})
    if rule:
        chat.attributes |= {"passed": passed, "outcome_rule": rule}
    chat.outcome = Outcome(passed=passed, agents=tuple(ends))
    return chat.trace(name, trace_id, path, patches=patches)


def _list_agents(document: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    agents = document.get("agents")
    if isinstance(agents, dict):
        return [(key, get_dict(agent)) for key, agent in agents.items()]
    items = [get_dict(agent) for agent in get_list(agents)]
    return [
        (get_first_text(agent, *_NAMES) or f"agent{n}", agent) for n, agent in enumerate(items, 1)
    ]


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
    if get_text(function.get("name")) not in _SENDS:
        return None
    arguments = get_dict(parse_nested(function.get("arguments", function.get("input"))))
    text = get_first_text(arguments, *_WORDS)
    value = next((arguments[key] for key in _TO if arguments.get(key)), None)
    names = [get_text(item) for item in (value if isinstance(value, list) else [value])]
    if not text:
        return None
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
