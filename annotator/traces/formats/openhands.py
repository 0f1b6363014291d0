"""OpenHands: ``output.jsonl`` of evaluations, and lists of events.

Tested with OpenHands 0.9 (``source``, ``action`` or ``observation``, ``args``, ``content``) and its
evaluation outputs (``instance_id``, ``history``, ``test_result``), and the events of openhands-sdk
1.58 (``kind``, ``llm_message``, ``tool_call``). An observation is the environment's, whatever its
source. The thought beside a call belongs to the message; that of the action ``think``, and
reasoning, are steps. The text of ``finish`` is a message.
"""

from typing import Any

from annotator.base.errors import UnreadableTrace
from annotator.traces.conversation import (
    HARMLESS,
    Conversation,
    Utterance,
    list_call_texts,
    read_parts,
    read_time,
)
from annotator.traces.model import Author
from annotator.traces.records import (
    expect_object,
    get_dict,
    get_text,
    name_type,
    read_outcome,
    walk_path,
)

documents = (dict, list)

_AUTHORS: dict[str, Author] = {"agent": "agent", "user": "human"}
_AUTHORS |= {"environment": "system", "system": "system"}
_NO_MESSAGES = {"null", "change_agent_state", "agent_state_changed", "recall"}
_NO_MESSAGES.add("condensation_request")
_CONSUMED = (
    *("history", "trajectory", "instance_id", "instruction", "instance", "error", "metrics"),
    "test_result",
)
_REPORTS = ("test_result.report", "test_result.result", "report")
_NOTICES = {"Condensation": "summary", "ConversationErrorEvent": "detail"}
_READ = {
    *(*HARMLESS, "source", "timestamp", "action", "args", "message", "observation", "content"),
    *("kind", "llm_message", "tool_call", "tool_name", "thought", "reasoning_content", "summary"),
    *("system_prompt", "error", "detail", "rejection_reason", "rejection_source"),
    *("extended_content", "tools", "cause", "action_id", "timeout", "success", "sender"),
    *("tool_call_metadata", "llm_metrics", "extras"),  # of the request; of the content
    *("llm_response_id", "security_risk", "activated_skills", "activated_microagents"),
    *("code", "classification"),  # of an error
}


def matches(document: Any) -> bool:
    if isinstance(document, list):
        return _are_events(document)
    events = _find_events(document)
    empty = events == [] and "instance_id" in document and "test_result" in document
    return empty or _are_events(events) or _is_event(document)


def group(document: Any) -> str | None:
    return "" if _is_event(document) else None


def read(document: Any) -> Conversation:
    record = document if isinstance(document, dict) else {"history": document}
    record = {"history": [record]} if _is_event(record) else record
    chat = converse(_find_events(record) or [])
    chat.read_attributes(record, _CONSUMED)
    for path_to_model in ("metadata.llm_config.model", "metadata.llm.model"):
        if isinstance(model := walk_path(record, path_to_model), str):
            chat.attributes["model"] = model
    reports = (walk_path(record, key) for key in _REPORTS)
    report = next((report for report in reports if isinstance(report, dict)), {})
    passed, rule = read_outcome({**record, **report})
    rule = rule and f"test_result {rule}"
    chat.set_outcome(passed, rule, error=get_text(record.get("error")))
    patch = get_text(walk_path(record, "test_result.git_patch"))
    chat.patches = {"agent": patch} if patch else {}
    return chat


def _find_events(record: dict[str, Any]) -> list[Any] | None:
    lists = (record.get(key) for key in ("history", "trajectory"))
    return next((items for items in lists if isinstance(items, list)), None)


def _are_events(items: Any) -> bool:
    pairs = [item if isinstance(item, list) else [item] for item in (items or [])[:20]]
    return any(_is_event(event) for pair in pairs for event in pair)


def _is_event(value: Any) -> bool:
    if not isinstance(value, dict) or value.get("source") not in (*_AUTHORS, "hook"):
        return False
    marks = (("action", {"args"}), ("observation", {"content"}), ("kind", {"id", "timestamp"}))
    return any(isinstance(value.get(key), str) and keys <= value.keys() for key, keys in marks)


def converse(events: list[Any]) -> Conversation:
    """Return the conversation in the events of a session; raises UnreadableTrace."""
    chat = Conversation()
    for n, item in enumerate(events, 1):
        pair = item if isinstance(item, list) else [item]  # older: an action and its observation
        for event in pair:
            utterance = _read(expect_object(event, f"event {n}"))
            if utterance is not None:
                chat.note_unread("events", event, _READ)
                chat.add(utterance, "events")
    if not events:
        raise UnreadableTrace(f"history: found {name_type(events)} without events")
    return chat


def _read(event: dict[str, Any]) -> Utterance | None:
    if isinstance(event.get("kind"), str):
        return _read_event(event)
    time = read_time(event)
    if (observation := get_text(event.get("observation"))) is not None:
        if text := get_text(event.get("content")):
            return Utterance("environment", "tool", [text], time=time, kind=observation)
        return None
    action, fields = get_text(event.get("action")) or "", get_dict(event, "args")
    if action in _NO_MESSAGES:
        return None
    thought = get_text(fields.get("thought")) or ""
    source = get_text(event.get("source")) or ""
    author = _AUTHORS.get(source, "unknown")
    if action == "think":
        return Utterance(source, author, time=time, reasoning=[thought])
    if action == "condensation":
        summary = get_text(fields.get("summary"))
        return Utterance("condenser", "system", [summary], time=time) if summary else None
    if action in ("message", "system"):
        texts = [get_text(fields.get("content")) or get_text(event.get("message")) or ""]
    elif action == "finish":
        answer = get_text(fields.get("final_thought")) or get_text(event.get("message")) or ""
        texts = [text for text in dict.fromkeys((thought, answer)) if text] or [action]
    else:
        call = {key: value for key, value in fields.items() if key != "thought"}
        texts = [thought, *list_call_texts({"name": action, "arguments": call})]
    if action == "system":
        source, author = "system", "system"
    pictures = [fields[key] for key in ("image_urls", "images_urls") if fields.get(key)]
    return Utterance(source, author, texts, time=time, omitted=["pictures"] if pictures else [])


def _read_event(event: dict[str, Any]) -> Utterance | None:
    """Return the utterance of an event of the SDK; None for one of its state."""
    time, source = read_time(event), get_text(event.get("source")) or ""
    author = _AUTHORS.get(source, "unknown")
    thought = get_text(event.get("reasoning_content")) or ""
    message = event.get("llm_message")
    call = event.get("tool_call")
    if isinstance(message, dict):
        parts = read_parts(message.get("content"))
        thought = get_text(message.get("reasoning_content")) or thought
        if event.get("extended_content"):  # the harness's, behind a person's words
            parts.omitted.append("what the harness added to it")
        return Utterance(source, author, parts.texts, (), time, None, [thought], parts.omitted)
    if isinstance(call, dict):
        ends = call.get("name") == "finish"
        last = get_text(walk_path(event, "action.message")) if ends else None
        call_texts = [last] if last else list_call_texts(call)
        texts = [*read_parts(event.get("thought")).texts, *call_texts]
        return Utterance(source, author, texts, time=time, reasoning=[thought])
    if "system_prompt" in event:
        return Utterance("system", "system", read_parts(event["system_prompt"]).texts, time=time)
    for key in ("observation", "error", "rejection_reason"):
        if event.get(key):
            content = event[key]
            content = content.get("content") if isinstance(content, dict) else content
            sender = get_text(event.get("tool_name")) or "environment"
            if event.get("rejection_source") == "user":
                return Utterance("user", "human", read_parts(content).texts, time=time)
            return Utterance(sender, "tool", read_parts(content).texts, time=time)
    notice = get_text(event.get(_NOTICES.get(event["kind"], "")))
    return Utterance("environment", "system", [notice], time=time) if notice else None
