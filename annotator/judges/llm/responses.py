"""The Responses API: its requests made of chat completions, its answers read as such.

Some models are served nowhere else. What is asked, cached and hashed is the same in both.
"""

from collections.abc import Mapping
from typing import Any

from annotator.base.errors import JudgeStopped

_CAPS = ("max_completion_tokens", "max_tokens")
_OURS = frozenset(["messages", "tools", "tool_choice", "response_format", "reasoning_effort"])


def as_responses(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request for a chat completion as one of the Responses API.

    Nothing is to be kept there: the traces are the user's.

    Raises:
        JudgeStopped: it sets a seed, which that API does not take.
    """
    if body.get("seed") is not None:
        raise JudgeStopped("the Responses API takes no seed: leave --seed out")
    request: dict[str, Any] = {"input": _items(body["messages"]), "store": False}
    for name, value in body.items():
        if name in _CAPS:
            request["max_output_tokens"] = value
        elif name not in _OURS:
            request[name] = value
    if effort := body.get("reasoning_effort"):
        request["reasoning"] = {**request.get("reasoning", {}), "effort": effort}
    if tools := body.get("tools"):
        request["tools"] = [{"type": "function", **tool["function"]} for tool in tools]
    if isinstance(choice := body.get("tool_choice"), Mapping):
        request["tool_choice"] = {"type": "function", "name": choice["function"]["name"]}
    elif choice:
        request["tool_choice"] = choice
    if form := body.get("response_format"):
        shape = form.get("json_schema")
        request["text"] = {"format": {"type": form["type"], **shape} if shape else form}
    return request


def _items(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages as items of input; calls of tools and what was said to them are own."""
    items: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] == "tool":
            answered = {"call_id": message["tool_call_id"], "output": message["content"]}
            items.append({"type": "function_call_output", **answered})
            continue
        if message.get("content"):
            items.append({"role": message["role"], "content": message["content"]})
        for call in message.get("tool_calls") or ():
            function = call["function"]
            named = {"name": function["name"], "arguments": function["arguments"]}
            items.append({"type": "function_call", "call_id": call["id"], **named})
    return items


def as_completion(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer of the Responses API as a chat completion; what is none has no message."""
    texts, refusals, calls = [], [], []
    items = [item for item in answer["output"] if isinstance(item, dict)]
    for item in items:
        if item.get("type") == "function_call":
            function = {"name": item.get("name"), "arguments": item.get("arguments")}
            calls.append({"id": item.get("call_id"), "function": function})
        parts = item.get("content") if item.get("type") == "message" else None
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict):
                texts.append(str(part.get("text") or ""))
                refusals.append(str(part.get("refusal") or ""))
    if not items and answer.get("status") != "incomplete":
        return dict(answer)
    message = {"content": "".join(texts), "tool_calls": calls, "refusal": "".join(refusals)}
    details = answer.get("incomplete_details")
    why = details.get("reason") if isinstance(details, dict) else None
    finish = {"max_output_tokens": "length"}.get(str(why), why) or "stop"
    return {**answer, "choices": [{"message": message, "finish_reason": finish}]}
