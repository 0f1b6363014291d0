"""ATIF, Harbor's format of trajectories: steps by source, with calls and observations.

Looked at: harbor 0.25, ATIF-v1.0 to v1.8. A step of the ``agent`` has a message, its
reasoning and calls; what its tools returned is in the same step. The steps of a subagent stand
before the result that refers to it (else at the end): an agent of its own, whose user is the
agent that called it. A step copied from an earlier trajectory has the kind ``copied context``.
"""

from typing import Any

from annotator.traces.conversation import (
    Conversation,
    Utterance,
    list_call_texts,
    read_parts,
    read_time,
)
from annotator.traces.model import Author, Trace
from annotator.traces.records import describe_outcome, expect_object, get_text, read_attributes

name = "atif"


def matches(document: Any) -> bool:
    """Whether a document is such a trajectory."""
    if not isinstance(document, dict) or not isinstance(document.get("steps"), list):
        return False
    return str(document.get("schema_version", "")).startswith("ATIF")


def identify(document: Any) -> str | None:
    """Return the id of the trajectory, else that of the run, which its continuations share."""
    return get_text(document.get("trajectory_id")) or get_text(document.get("session_id"))


def read(document: Any, trace_id: str, path: str) -> Trace:
    """Return the trace; raises UnreadableTrace for a step that is no object."""
    about = _about(document)
    subagents = {
        get_text(inner.get("trajectory_id")) or f"subagent {n}": inner
        for n, inner in enumerate(_list(document.get("subagent_trajectories")), 1)
        if isinstance(inner, dict)
    }
    chat = Conversation()
    _add_steps(chat, document, "human", subagents)
    while subagents:  # to which no result refers
        _add_steps(chat, subagents.pop(next(iter(subagents))), "system", subagents)
    taken = ("steps", "agent", "schema_version", "trajectory_id", "final_metrics")
    attributes, problems = read_attributes(document, (*taken, "subagent_trajectories"))
    chat.problems += problems
    for key, value in (("framework", about.get("name")), ("model", about.get("model_name"))):
        if text := get_text(value):
            attributes[key] = text
    outcome, attributes = describe_outcome(document, attributes)
    return chat.trace(name, trace_id, path, outcome=outcome, attributes=attributes)


def _about(document: dict[str, Any]) -> dict[str, Any]:
    agent = document.get("agent")
    return agent if isinstance(agent, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _add_steps(
    chat: Conversation, document: dict[str, Any], user: Author, subagents: dict[str, Any]
) -> None:
    agent = get_text(_about(document).get("name")) or "agent"
    if user == "system" and any(message.sender == agent for message in chat.messages):
        agent = get_text(document.get("trajectory_id")) or f"{agent} below"  # of the same name
    authors: dict[str | None, Author] = {"agent": "agent", "user": user, "system": "system"}
    for n, item in enumerate(_list(document.get("steps")), 1):
        step = expect_object(item, f"step {n}")
        source = get_text(step.get("source"))
        author = authors.get(source, "unknown")
        _add_words(chat, step, agent if author == "agent" else source or "", author)
        observation = step.get("observation")
        results = observation.get("results") if isinstance(observation, dict) else None
        for result in _list(results):
            fields = result if isinstance(result, dict) else {"content": result}
            for ref in _list(fields.get("subagent_trajectory_ref")):
                told = get_text(ref.get("trajectory_id")) if isinstance(ref, dict) else None
                if told in subagents:
                    _add_steps(chat, subagents.pop(told), "system", subagents)
            parts = read_parts(fields.get("content"))
            if any(parts.texts) or parts.omitted:
                time, omitted = read_time(step), parts.omitted
                told_by = Utterance("tool", "tool", parts.texts, time=time, omitted=omitted)
                chat.add(told_by, "steps")


def _add_words(chat: Conversation, step: dict[str, Any], sender: str, author: Author) -> None:
    parts = read_parts(step.get("message"))
    for call in _list(step.get("tool_calls")):
        fields = call if isinstance(call, dict) else {}
        parts.texts += list_call_texts({**fields, "name": fields.get("function_name")})
    thought = get_text(step.get("reasoning_content"))
    if any(parts.texts) or thought or not step.get("observation"):
        utterance = Utterance(
            sender,
            author,
            parts.texts,
            time=read_time(step),
            kind="copied context" if step.get("is_copied_context") is True else None,
            reasoning=[thought] if thought else [],
            omitted=parts.omitted,
        )
        chat.add(utterance, "steps")
