"""Trajectories of SWE-agent (``.traj``) and mini-SWE-agent (``.traj.json``): one agent and a shell.

Tested with SWE-agent 1.x (``history``, ``trajectory``, ``info``), mini-swe-agent 1.17 and 2.4
(``messages``, ``info``, ``trajectory_format``), and the rows of data sets of SWE-agent's runs:
nebius/SWE-agent-trajectories (``trajectory``, ``generated_patch``, ``target``) and SWE-smith's
(``messages`` as a text, ``traj_id``, ``resolved``). Messages of the user are the task and the
outputs of commands. Only the rows say whether the patch passes.
"""

from dataclasses import replace
from typing import Any

from annotator.base.errors import UnreadableTrace
from annotator.traces.conversation import Conversation, Utterance, read_message
from annotator.traces.model import Author
from annotator.traces.records import (
    get_first_text,
    get_text,
    name_type,
    parse_nested,
    read_outcome,
    walk_path,
)

_AGENT = "agent"
_FACTS = {"model": "config.model.model_name", "exit_status": "exit_status"} | {
    "api_calls": "model_stats.api_calls"
}


def matches(document: Any) -> bool:
    if _is_row(document):
        return True
    if not isinstance(info := document.get("info"), dict):
        return False
    old = isinstance(document.get("trajectory"), list) and "history" in document
    mini = isinstance(document.get("messages"), list) and "exit_status" in info
    return old or mini or str(document.get("trajectory_format", "")).startswith("mini-swe-agent")


def _is_row(document: dict[str, Any]) -> bool:
    """Whether a document is a row of a data set of runs."""
    if "instance_id" not in document:
        return False
    nebius = isinstance(document.get("trajectory"), list) and "generated_patch" in document
    return nebius or (isinstance(document.get("messages"), str) and "traj_id" in document)


def identify(document: Any) -> str | None:
    return get_text(document.get("traj_id" if _is_row(document) else "instance_id"))


def read(document: Any) -> Conversation:
    row = _is_row(document)
    key = "trajectory" if row and "generated_patch" in document else "messages"
    items = parse_nested(document.get("history") or document.get(key))
    if not isinstance(items, list):
        raise UnreadableTrace(f"history: found {name_type(items)}, expected a list of messages")
    chat = Conversation()
    answered = False
    for fields in chat.list_objects(items, "message"):
        utterance = _read(fields, answered)
        chat.add(utterance, "history")
        answered |= utterance.author == "agent"
    info = document if row else document["info"]
    consumed = ["history", "messages", "trajectory", "info", "trajectory_format"]
    consumed += ["generated_patch", "patch", "traj_id"] if row else ["instance_id"]
    chat.read_attributes(document, consumed)
    for key, fact in _FACTS.items():
        if (text := get_text(value := walk_path(info, fact))) is not None:
            chat.attributes[key] = value if isinstance(value, int) else text
    is_target = row and isinstance(document.get("target"), bool)
    chat.set_outcome(*((document["target"], "target") if is_target else read_outcome(document)))
    keys = ("generated_patch", "patch") if row else ("submission",)
    patch = get_first_text(info, *keys)
    chat.patches = {_AGENT: patch} if patch else {}
    return chat


def _read(fields: dict[str, Any], answered: bool) -> Utterance:
    """Return the utterance of a message. User messages after the first answer are outputs."""
    fields = {**fields, "thought": None, "action": None, "extra": None}  # in the text, too
    if not fields.get("content") and not fields.get("text"):
        fields["content"] = fields.get("system_prompt") or fields.get("content")
    message = read_message(fields)
    author: Author = message.author
    if author == "human":
        author = "tool" if answered else "system"
    if fields.get("is_demo") or fields.get("role") == "exit":
        author = "system"
    sender = {"agent": _AGENT, "tool": "shell", "system": "system"}.get(author, message.sender)
    return replace(message, author=author, sender=sender, kind=None)
