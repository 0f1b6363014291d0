"""Results of tau-bench and tau2-bench: simulations of a customer, an agent and its tools.

Looked at: tau-bench's results (a list of ``{task_id, trial, reward, traj}``) and tau2's
(``{"simulations": [...]}``). The customer is played by a model: a human by role, which the
attribute ``user`` says. The reward tells the outcome: 1 is passed; not of a simulation that tau2
itself counts as not evaluable. Agents without tool calls (ReAct)
get what a tool returned as the customer's message, ``API output: ...``: it is the tool's.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from annotator.base.errors import UnreadableTrace
from annotator.traces.conversation import read_chat
from annotator.traces.model import Message, Trace
from annotator.traces.records import (
    describe_outcome,
    get_text,
    name_type,
    read_attributes,
    walk_path,
)

name = "tau-bench"

_NOT_EVALUABLE = ("infrastructure_error", "context_window_exceeded")


def matches(document: Any) -> bool:
    """Whether a document is a simulation, or tau2's results."""
    if not isinstance(document, dict):
        return False
    if isinstance(document.get("simulations"), list):
        return True
    return "task_id" in document and ("traj" in document or "reward_info" in document)


def split(document: Any) -> Iterator[Any]:
    """Yield the simulations, each with what the results say of all."""
    simulations = document.get("simulations")
    if not isinstance(simulations, list):
        yield document
        return
    told = {
        "model": walk_path(document, "info.agent_info.llm"),
        "domain": walk_path(document, "info.environment_info.domain_name"),
    }
    for simulation in simulations:
        yield {**told, **simulation} if isinstance(simulation, dict) else simulation


def identify(document: Any) -> str | None:
    """Return the task and the trial."""
    if not isinstance(document, dict):
        return None
    parts = (get_text(document.get(key)) for key in ("task_id", "trial"))
    return "/".join(part for part in parts if part) or None


def read(document: Any, trace_id: str, path: str) -> Trace:
    """Return the trace.

    Raises:
        UnreadableTrace: a simulation is no object, or has no messages.
    """
    fields = document if isinstance(document, dict) else {}
    key = "traj" if "traj" in fields else "messages"
    items = fields.get(key)
    if not isinstance(items, list):
        raise UnreadableTrace(f"{key}: found {name_type(items)}, expected a list of messages")
    chat = read_chat(items, key)
    chat.messages = [_mark_output(message) for message in chat.messages]
    reward = fields.get("reward", walk_path(fields, "reward_info.reward"))
    record = {name: value for name, value in fields.items() if name not in (key, "ticks", "id")}
    attributes, problems = read_attributes(record, ("info", "reward_info"))
    chat.problems += problems
    attributes = {"user": "simulated", "task": get_text(fields.get("task_id")), **attributes}
    if fields.get("termination_reason") in _NOT_EVALUABLE:
        reward = None
    outcome, attributes = describe_outcome({"reward": reward}, attributes)
    if error := get_text(walk_path(fields, "info.error")):
        outcome = replace(outcome, error=error)
    return chat.trace(name, trace_id, path, outcome=outcome, attributes=attributes)


def _mark_output(message: Message) -> Message:
    if message.author == "human" and message.text.startswith("API output:"):
        return replace(message, author="tool", sender="tool")
    return message
