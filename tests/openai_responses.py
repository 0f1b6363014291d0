"""The Responses API of :class:`tests.openai_server.OpenAIServer`, as OpenAI documents it.

A request with a field that it does not have is refused, as it is there.
"""

from typing import Any

from tests.apis import Api

FIELDS = frozenset(
    [
        *("model", "input", "store", "tools", "tool_choice", "text", "reasoning", "temperature"),
        *("max_output_tokens", "top_p", "metadata", "instructions", "include", "service_tier"),
    ]
)


def _unknown_field(body: dict[str, Any]) -> str:
    """What is said to the first field that the API does not take."""
    return next((f"Unknown parameter: '{name}'." for name in body if name not in FIELDS), "")


def as_chat(body: dict[str, Any]) -> dict[str, Any]:
    """The request as a chat completion's, for the responders of the tests."""
    messages = []
    for item in body["input"]:
        if item.get("type") == "function_call_output":
            said = {"tool_call_id": item["call_id"], "content": item["output"]}
            messages.append({"role": "tool", **said})
        elif item.get("type") == "function_call":
            function = {"name": item["name"], "arguments": item["arguments"]}
            calls = [{"id": item["call_id"], "type": "function", "function": function}]
            messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        else:
            messages.append(item)
    chat = {"model": body["model"], "messages": messages, "sent": body}
    if tools := body.get("tools"):
        chat["tools"] = [{"type": "function", "function": tool} for tool in tools]
        chat["tool_choice"] = body["tool_choice"]
    if form := body.get("text", {}).get("format"):
        assert {"name", "schema"} <= form.keys()
        chat["response_format"] = {"type": form["type"], "json_schema": form}
    return chat


def as_response(completion: dict[str, Any]) -> dict[str, Any]:
    """A chat completion as the Responses API answers it."""
    [choice] = completion["choices"]
    message = choice["message"]
    output: list[dict[str, Any]] = [{"type": "reasoning", "id": "rs_1", "summary": []}]
    for call in message.get("tool_calls") or []:
        function = {"name": call["function"]["name"], "arguments": call["function"]["arguments"]}
        output.append({"type": "function_call", "id": "fc", "call_id": call["id"], **function})
    text, refusal = message.get("content"), message.get("refusal")
    if text is not None or refusal is not None:
        part = {"type": "output_text", "text": text, "annotations": []}
        if refusal is not None:
            part = {"type": "refusal", "refusal": refusal}
        output.append({"type": "message", "role": "assistant", "content": [part]})
    finish = choice["finish_reason"]
    cut = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(finish)
    usage = completion["usage"]
    return {
        "id": "resp_1",
        "object": "response",
        "error": None,
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": cut} if cut else None,
        "model": completion["model"],
        "output": output,
        "usage": {
            "input_tokens": usage["prompt_tokens"],
            "input_tokens_details": {"cached_tokens": 5},
            "output_tokens": usage["completion_tokens"],
            "output_tokens_details": {"reasoning_tokens": 3},
            "total_tokens": usage["total_tokens"],
        },
    }


RESPONSES = Api(_unknown_field, lambda body, path: as_chat(body), as_response)
