"""Trajectories of SWE-agent (``.traj``) and mini-SWE-agent (``.traj.json``): one agent and a shell.

Looked at: SWE-agent 1.x (``history``, ``trajectory``, ``info``) and mini-swe-agent 1.x and 2.x
(``messages``, ``info``, ``trajectory_format``). What the user's role says are the task and the
outputs of commands. Whether the patch passes is not in the file: the outcome is not known.
"""

from dataclasses import replace
from typing import Any

from annotator.errors import UnreadableTrace
from annotator.traces.conversation import Conversation, Utterance, read_message
from annotator.traces.document import kind, mapping, text_of
from annotator.traces.model import Author, Outcome, Trace
from annotator.traces.records import read_attributes, read_outcome, walk_path

name = "swe-agent"

_AGENT = "agent"


def matches(document: Any) -> bool:
    """Whether a document is such a trajectory."""
    if not isinstance(document, dict) or not isinstance(info := document.get("info"), dict):
        return False
    old = isinstance(document.get("trajectory"), list) and "history" in document
    mini = isinstance(document.get("messages"), list) and "exit_status" in info
    return old or mini or str(document.get("trajectory_format", "")).startswith("mini-swe-agent")


def identify(document: Any) -> str | None:
    """Return the instance."""
    return text_of(document.get("instance_id")) if isinstance(document, dict) else None


def read(document: Any, trace_id: str, path: str) -> Trace:
    """Return the trace; raises UnreadableTrace where it has no list of messages."""
    items = document.get("history") or document.get("messages")
    if not isinstance(items, list):
        raise UnreadableTrace(f"history: found {kind(items)}, expected a list of messages")
    chat = Conversation()
    answered = False
    for n, item in enumerate(items, 1):
        fields = mapping(item, f"message {n}")
        chat.add(_read(fields, answered), "history")
        answered |= fields.get("role") == "assistant"
    info = document["info"]
    taken = ("history", "messages", "trajectory", "info", "instance_id", "trajectory_format")
    attributes, problems = read_attributes(document, taken)
    chat.problems += problems
    for key, value in (
        ("model", walk_path(info, "config.model.model_name")),
        ("exit_status", info.get("exit_status")),
        ("api_calls", walk_path(info, "model_stats.api_calls")),
    ):
        if (text := text_of(value)) is not None:
            attributes[key] = value if isinstance(value, int) else text
    passed, rule = read_outcome(document)
    attributes |= {"passed": passed, "outcome_rule": rule} if rule else {}
    patch = text_of(info.get("submission"))
    return chat.trace(
        name,
        trace_id,
        path,
        outcome=Outcome(passed=passed),
        attributes=attributes,
        patches={_AGENT: patch} if patch else {},
    )


def _read(fields: dict[str, Any], answered: bool) -> Utterance:
    """Return what is said: of the user's role the outputs are those after the first answer."""
    message = read_message({**fields, "thought": None}, kinds=True, named=False)  # in the text, too
    author: Author = message.author
    if author == "human":
        author = "tool" if answered else "system"
    if fields.get("is_demo") or fields.get("role") == "exit":
        author = "system"
    sender = {"agent": _AGENT, "tool": "shell", "system": "system"}.get(author, message.sender)
    return replace(message, author=author, sender=sender, kind=None)
