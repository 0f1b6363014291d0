"""ATIF, Harbor's format of trajectories: steps by source, with calls and observations.

Tested with harbor 0.25, ATIF-v1.0 to v1.8. A step of the ``agent`` has a message, its
reasoning and calls, and the results of its tools. The steps of a subagent come before the result
that refers to it (else at the end): an agent of its own, whose user is the agent that called it. A
step copied from an earlier trajectory has the kind ``copied context``.
"""

from typing import Any

from annotator.traces.conversation import (
    HARMLESS,
    Conversation,
    list_call_texts,
    read_parts,
    read_time,
)
from annotator.traces.model import Author
from annotator.traces.records import get_dict, get_list, get_text

_READ = {
    *HARMLESS,
    *("source", "message", "tool_calls", "reasoning_content", "observation", "timestamp"),
    *("is_copied_context", "metrics", "reasoning_effort"),
}


def matches(document: Any) -> bool:
    has_steps = isinstance(document.get("steps"), list)
    return has_steps and str(document.get("schema_version", "")).startswith("ATIF")


def identify(document: Any) -> str | None:
    return get_text(document.get("trajectory_id")) or get_text(document.get("session_id"))


def read(document: Any) -> Conversation:
    subagents = {
        get_text(inner.get("trajectory_id")) or f"subagent {n}": inner
        for n, inner in enumerate(get_list(document, "subagent_trajectories"), 1)
        if isinstance(inner, dict)
    }
    chat = Conversation()
    _add_steps(chat, document, "human", subagents)
    while subagents:  # to which no result refers
        _add_steps(chat, subagents.pop(next(iter(subagents))), "system", subagents)
    consumed = ("steps", "agent", "schema_version", "trajectory_id", "final_metrics")
    chat.read_attributes(document, (*consumed, "subagent_trajectories"))
    about = get_dict(document, "agent")
    chat.set_attributes(framework=about.get("name"), model=about.get("model_name"))
    chat.read_outcome(document)
    return chat


def _add_steps(
    chat: Conversation, document: dict[str, Any], user: Author, subagents: dict[str, Any]
) -> None:
    agent = get_text(get_dict(document, "agent").get("name")) or "agent"
    if user == "system" and any(message.sender == agent for message in chat.messages):
        agent = get_text(document.get("trajectory_id")) or f"{agent} below"  # of the same name
    authors: dict[str | None, Author] = {"agent": "agent", "user": user, "system": "system"}
    for step in chat.list_objects(get_list(document, "steps"), "step", "steps", _READ):
        source = get_text(step.get("source"))
        author = authors.get(source, "unknown")
        _add_message(chat, step, agent if author == "agent" else source or "", author)
        for result in get_list(step.get("observation"), "results"):
            fields = result if isinstance(result, dict) else {"content": result}
            for ref in get_list(fields, "subagent_trajectory_ref"):
                subagent = get_text(get_dict(ref).get("trajectory_id"))
                if subagent in subagents:
                    _add_steps(chat, subagents.pop(subagent), "system", subagents)
            parts = read_parts(fields.get("content"))
            if any(parts.texts) or parts.omitted:
                chat.add(parts.utter("tool", "tool", read_time(step), reasoning=()), "steps")


def _add_message(chat: Conversation, step: dict[str, Any], sender: str, author: Author) -> None:
    parts = read_parts(step.get("message"))
    for call in get_list(step, "tool_calls"):
        fields = get_dict(call)
        parts.texts += list_call_texts({**fields, "name": fields.get("function_name")})
    thought = get_text(step.get("reasoning_content"))
    if any(parts.texts) or thought or not step.get("observation"):
        kind = "copied context" if step.get("is_copied_context") is True else None
        parts.reasoning = [thought] if thought else []
        chat.add(parts.utter(sender, author, read_time(step), kind=kind), "steps")
