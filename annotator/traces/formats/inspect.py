"""Logs of Inspect, JSON or ``.eval``: each epoch of each sample is a trace.

Tested with logs of inspect_ai 0.3. The first message of a user is the sample's input. A scorer's
``C`` or ``I``, 1 or 0, tells the outcome, if all scorers agree; explanations can be quoted.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from annotator.base.errors import UnreadableTrace
from annotator.traces.conversation import Conversation, read_chat
from annotator.traces.model import Feature, Message, Outcome
from annotator.traces.records import (
    expect_object,
    get_dict,
    get_list,
    get_text,
    name_type,
    walk_path,
)

_ATTACHMENT = "attachment://"
_NAME = re.compile(r"\[([\w-]{1,60})\] ")
_PASSED = dict.fromkeys(("C", "1", "1.0", "true"), True)
_PASSED |= dict.fromkeys(("I", "0", "0.0", "false"), False)


def matches(document: Any) -> bool:
    is_log = "samples" in document or "status" in document
    return is_log and isinstance(document.get("eval"), dict)


def split(document: Any) -> Iterator[Any]:
    for sample in get_list(document, "samples"):
        yield {"eval": document["eval"], "sample": sample}


def identify(item: Any) -> str | None:
    sample = get_dict(item, "sample")
    sample_id, epoch = get_text(sample.get("id")), get_text(sample.get("epoch"))
    return None if sample_id is None else f"{sample_id}/{epoch or 1}"


def read(item: Any) -> Conversation:
    sample, about = expect_object(item["sample"], "sample"), item["eval"]
    items = sample.get("messages")
    if not isinstance(items, list):
        raise UnreadableTrace(f"messages: found {name_type(items)}, expected a list")
    chat = read_chat(_resolve(items, sample.get("attachments")), "messages")
    chat.messages = list(_assign_senders(chat.messages, items))
    features = tuple(_read_scores(get_dict(sample, "scores")))
    results = {feature.passed for feature in features}
    passed = results.pop() if len(results) == 1 else None
    error = sample.get("error")
    error = error.get("message") if isinstance(error, dict) else error
    chat.outcome = Outcome(passed=passed, features=features, error=get_text(error))
    paths = {"model": "model", "task": "task", "dataset": "dataset.name"}
    chat.attributes = {key: get_text(walk_path(about, path)) for key, path in paths.items()}
    epoch = sample.get("epoch") if isinstance(sample.get("epoch"), int) else None
    chat.attributes |= {"epoch": epoch, "passed": passed}
    if passed is not None:
        chat.attributes["outcome_rule"] = " and ".join(f"score {item.name}" for item in features)
    return chat


def _assign_senders(messages: list[Message], items: list[Any]) -> Iterator[Message]:
    """Yield messages with their senders: names in brackets after a handover; users but no input."""
    calls = re.findall(r"\btransfer_to_([\w-]+)", json.dumps(items, default=str))
    sources = [item.get("source") for item in items if isinstance(item, dict)]
    users = (item.get("source") for item in items if item.get("role") == "user")
    for message in messages:
        if message.author == "human":
            source = next(users, None)
            if "input" in sources and source != "input":
                message = replace(message, author="system", sender="system")
        elif message.author == "agent" and (match := _NAME.match(message.text)):
            sender = match[1] if match[1] in calls else message.sender
            message = replace(message, sender=sender)
        yield message


def _resolve(value: Any, attachments: Any) -> Any:
    """Return messages with their attachments, the long texts of a log, in their places."""
    if not isinstance(attachments, dict) or not attachments:
        return value
    if isinstance(value, str) and value.startswith(_ATTACHMENT):
        return attachments.get(value.removeprefix(_ATTACHMENT), value)
    if isinstance(value, list):
        return [_resolve(item, attachments) for item in value]
    if isinstance(value, dict):
        return {key: _resolve(item, attachments) for key, item in value.items()}
    return value


def _read_scores(scores: dict[str, Any]) -> Iterator[Feature]:
    for scorer, score in scores.items():
        fields = score if isinstance(score, dict) else {"value": score}
        value = fields.get("value")
        word = str(value).lower() if isinstance(value, bool) else get_text(value) or ""
        explanation = get_text(fields.get("explanation")) or ""
        yield Feature(scorer, passed=_PASSED.get(word), output=explanation)
