"""Results of tau-bench and tau2-bench: simulations of a customer, an agent and its tools.

Tested with tau-bench's results (a list of ``{task_id, trial, reward, traj}``) and tau2's
(``{"simulations": [...]}``). A model plays the customer: a human by role; the attribute ``user``
says so. A reward of 1 is passed, except in simulations that tau2 counts as not evaluable. Agents
without tool calls (ReAct) get a tool's result as the customer's message, ``API output: ...``.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from annotator.base.errors import UnreadableTrace
from annotator.traces.conversation import Conversation, read_chat
from annotator.traces.model import Message
from annotator.traces.records import get_dict, get_text, name_type, walk_path

_NOT_EVALUABLE = ("infrastructure_error", "context_window_exceeded")


def matches(document: Any) -> bool:
    if isinstance(document.get("simulations"), list):
        return True
    return "task_id" in document and ("traj" in document or "reward_info" in document)


def split(document: Any) -> Iterator[Any]:
    simulations = document.get("simulations")
    if not isinstance(simulations, list):
        yield document
        return
    shared = {
        "model": walk_path(document, "info.agent_info.llm"),
        "domain": walk_path(document, "info.environment_info.domain_name"),
    }
    for simulation in simulations:
        yield {**shared, **simulation} if isinstance(simulation, dict) else simulation


def identify(document: Any) -> str | None:
    parts = (get_text(get_dict(document).get(key)) for key in ("task_id", "trial"))
    return "/".join(text for text in parts if text) or None


def read(document: Any) -> Conversation:
    fields = get_dict(document)
    key = "traj" if "traj" in fields else "messages"
    items = fields.get(key)
    if not isinstance(items, list):
        raise UnreadableTrace(f"{key}: found {name_type(items)}, expected a list of messages")
    chat = read_chat(items, key)
    chat.messages = list(map(_mark_output, chat.messages))
    chat.attributes = {"user": "simulated", "task": get_text(fields.get("task_id"))}
    chat.read_attributes(fields, (key, "ticks", "id", "info", "reward_info"))
    reward = fields.get("reward", walk_path(fields, "reward_info.reward"))
    evaluable = fields.get("termination_reason") not in _NOT_EVALUABLE
    chat.read_outcome({"reward": reward if evaluable else None})
    if error := get_text(walk_path(fields, "info.error")):
        chat.outcome = replace(chat.outcome, error=error)
    return chat


def _mark_output(message: Message) -> Message:
    if message.author == "human" and message.text.startswith("API output:"):
        return replace(message, author="tool", sender="tool")
    return message
