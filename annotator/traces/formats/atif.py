"""ATIF, Harbor's format of trajectories: steps by source, with calls and observations.

Looked at: harbor 0.25, ATIF-v1.0 to v1.8. A step of the ``agent`` has a message, its
reasoning and calls; what its tools returned is in the same step.
"""

from typing import Any

from annotator.traces.conversation import Conversation, Utterance, call_texts, read_parts, read_time
from annotator.traces.document import mapping, text_of
from annotator.traces.model import Author, Trace
from annotator.traces.records import describe_outcome, read_attributes

name = "atif"


def matches(document: Any) -> bool:
    """Whether a document is such a trajectory."""
    if not isinstance(document, dict) or not isinstance(document.get("steps"), list):
        return False
    return str(document.get("schema_version", "")).startswith("ATIF")


def read(document: Any, trace_id: str, path: str) -> Trace:
    """Return the trace; raises UnreadableTrace for a step that is no object."""
    agent = document.get("agent")
    about = agent if isinstance(agent, dict) else {}
    agent_name = text_of(about.get("name")) or "agent"
    chat = Conversation()
    for n, item in enumerate(document["steps"], 1):
        _add_step(chat, mapping(item, f"step {n}"), agent_name)
    taken = ("steps", "agent", "schema_version", "session_id", "trajectory_id", "final_metrics")
    attributes, problems = read_attributes(document, taken)
    chat.problems += problems
    for key, value in (("framework", about.get("name")), ("model", about.get("model_name"))):
        if text := text_of(value):
            attributes[key] = text
    outcome, attributes = describe_outcome(document, attributes)
    return chat.trace(name, trace_id, path, outcome=outcome, attributes=attributes)


def _add_step(chat: Conversation, step: dict[str, Any], agent: str) -> None:
    source = text_of(step.get("source"))
    authors: dict[str | None, Author] = {"agent": "agent", "user": "human", "system": "system"}
    author = authors.get(source, "unknown")
    parts = read_parts(step.get("message"))
    calls = step.get("tool_calls")
    for call in calls if isinstance(calls, list) else []:
        fields = call if isinstance(call, dict) else {}
        parts.texts += call_texts({**fields, "name": fields.get("function_name")})
    thought = text_of(step.get("reasoning_content"))
    if any(parts.texts) or thought or not step.get("observation"):
        sender = agent if author == "agent" else source or ""
        chat.add(
            Utterance(
                sender,
                author,
                parts.texts,
                time=read_time(step),
                reasoning=[thought] if thought else [],
                omitted=parts.omitted,
            ),
            "steps",
        )
    observation = step.get("observation")
    results = observation.get("results") if isinstance(observation, dict) else None
    for result in results if isinstance(results, list) else []:
        texts = read_parts(result.get("content") if isinstance(result, dict) else result)
        if any(texts.texts) or texts.omitted:
            told = Utterance(
                "tool", "tool", texts.texts, time=read_time(step), omitted=texts.omitted
            )
            chat.add(told, "steps")
