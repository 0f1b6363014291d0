"""Anthropic's Messages and Gemini's generateContent, as these providers document them, for
:class:`tests.openai_server.OpenAIServer`: what they refuse, it refuses.
"""

import itertools
import json
from typing import Any

from tests.apis import Api, Fields

_MESSAGES = frozenset(
    [
        *("model", "max_tokens", "messages", "system", "tools", "tool_choice", "output_config"),
        *("thinking", "temperature", "top_p", "top_k", "metadata", "stop_sequences"),
    ]
)
_CONTENTS = frozenset(
    [
        *("contents", "systemInstruction", "generationConfig", "tools", "toolConfig"),
        *("safetySettings", "cachedContent"),
    ]
)
_BOUNDS = frozenset(["minLength", "maxLength", "minItems", "maxItems", "minimum", "maximum"])


def _bound(schema: Any) -> str | None:
    """A keyword in a schema that strict forms do not take."""
    if isinstance(schema, list):
        return next(filter(None, map(_bound, schema)), None)
    if not isinstance(schema, dict):
        return None
    return next((n for n in schema if n in _BOUNDS), None) or _bound(list(schema.values()))


def _wrong_messages(body: Fields) -> str:
    unknown = next((name for name in body if name not in _MESSAGES), None)
    if unknown:
        return f"{unknown}: Extra inputs are not permitted"
    if not isinstance(body.get("max_tokens"), int):
        return "max_tokens: Field required"
    form = body.get("output_config", {}).get("format")
    if form and (name := _bound(form["schema"])):
        return f"output_config.format.schema: property '{name}' is not supported"
    calls: set[str] = set()
    for turn in body["messages"]:
        blocks = turn["content"] if isinstance(turn["content"], list) else []
        texts = [block["text"] for block in blocks if "text" in block]
        texts += [] if blocks else [turn["content"]]
        if not all(text.strip() for text in texts):
            return "messages: text content blocks must contain non-whitespace text"
        unanswered = calls
        calls = {block["id"] for block in blocks if block["type"] == "tool_use"}
        results = {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}
        if results != unanswered or (results and turn["role"] != "user"):
            return "messages: tool_use ids without tool_result blocks immediately after, or others"
    return "" if body["messages"][0]["role"] == "user" else "messages: first must be user"


def _messages_as_chat(body: Fields, path: str) -> Fields:
    blocks = body.get("system", [])
    messages: list[Fields] = [{"role": "system", "content": block["text"]} for block in blocks]
    for turn in body["messages"]:
        content = turn["content"]
        for block in content if isinstance(content, list) else [{"type": "text", "text": content}]:
            if block["type"] == "tool_use":
                function = {"name": block["name"], "arguments": json.dumps(block["input"])}
                calls = [{"id": block["id"], "function": function}]
                messages.append({"role": "assistant", "content": None, "tool_calls": calls})
            else:
                text = block.get("text") or block["content"]
                messages.append({"role": turn["role"], "content": text})
    chat: Fields = {"model": body["model"], "messages": messages, "sent": body}
    if tools := body.get("tools"):
        functions = [{"name": tool["name"], "parameters": tool["input_schema"]} for tool in tools]
        chat["tools"] = [{"type": "function", "function": function} for function in functions]
        chat["tool_choice"] = "required" if body["tool_choice"]["type"] == "any" else {}
    if form := body.get("output_config", {}).get("format"):
        chat["response_format"] = {"json_schema": {"schema": form["schema"], "strict": True}}
    return chat


def _message(completion: Fields) -> Fields:
    [choice] = completion["choices"]
    message, usage = choice["message"], completion["usage"]
    content: list[Fields] = [{"type": "thinking", "thinking": "hm", "signature": "s"}]
    if message.get("content"):
        content.append({"type": "text", "text": message["content"]})
    for call in message.get("tool_calls") or []:
        given = json.loads(call["function"]["arguments"])
        named = {"id": f"toolu_{call['id']}", "name": call["function"]["name"], "input": given}
        content.append({"type": "tool_use", **named})
    ends = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": completion["model"],
        "content": content,
        "stop_reason": ends.get(choice["finish_reason"], choice["finish_reason"]),
        "usage": {
            "input_tokens": max(1, usage["prompt_tokens"] - 300),
            "cache_creation_input_tokens": 200,
            "cache_read_input_tokens": 100,
            "output_tokens": usage["completion_tokens"],
            "output_tokens_details": {"thinking_tokens": 3},
        },
    }


def _wrong_contents(body: Fields) -> str:
    unknown = next((name for name in body if name not in _CONTENTS), None)
    if unknown:
        return f'Invalid JSON payload received. Unknown name "{unknown}": Cannot find field.'
    schema = body.get("generationConfig", {}).get("responseJsonSchema")
    if name := _bound(schema):
        return f"response_json_schema: '{name}' is not supported"
    calls = [part for turn in body["contents"] for part in turn["parts"] if "functionCall" in part]
    if any("thoughtSignature" not in part for part in calls):
        return "Function call is missing a thought_signature in functionCall parts."
    for turn, said in itertools.pairwise(body["contents"]):
        asked, answered = (
            sum(kind in part for part in one["parts"])
            for one, kind in ((turn, "functionCall"), (said, "functionResponse"))
        )
        if asked != answered:
            return "the number of function response parts is not that of function call parts"
    return ""


def _contents_as_chat(body: Fields, path: str) -> Fields:
    instruction = body.get("systemInstruction", {"parts": []})
    messages = [{"role": "system", "content": part["text"]} for part in instruction["parts"]]
    for turn in body["contents"]:
        for part in turn["parts"]:
            said = part.get("text") or part.get("functionResponse", {}).get("response", {}).get(
                "error"
            )
            role = "user" if turn["role"] == "user" else "assistant"
            messages.append({"role": role, "content": said})
    model = path.rpartition("/models/")[2].partition(":")[0]
    chat: Fields = {"model": model, "messages": messages, "sent": body}
    if tools := body.get("tools"):
        functions = [
            {"name": given["name"], "parameters": given["parametersJsonSchema"]}
            for given in tools[0]["functionDeclarations"]
        ]
        chat["tools"] = [{"type": "function", "function": function} for function in functions]
        named = body["toolConfig"]["functionCallingConfig"].get("allowedFunctionNames")
        chat["tool_choice"] = {} if named else "required"
    if schema := body.get("generationConfig", {}).get("responseJsonSchema"):
        chat["response_format"] = {"json_schema": {"schema": schema, "strict": True}}
    return chat


def _candidates(completion: Fields) -> Fields:
    [choice] = completion["choices"]
    message, usage = choice["message"], completion["usage"]
    parts: list[Fields] = [{"text": "I think.", "thought": True}]
    if message.get("content"):
        parts.append({"text": message["content"]})
    for call in message.get("tool_calls") or []:
        given = json.loads(call["function"]["arguments"])
        function = {"name": call["function"]["name"], "args": given}
        parts.append({"functionCall": function, "thoughtSignature": "c2ln"})
    ends = {"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS"}
    finish = ends.get(choice["finish_reason"], choice["finish_reason"])
    read, written = usage["prompt_tokens"], usage["completion_tokens"]
    return {
        "candidates": [{"content": {"parts": parts, "role": "model"}, "finishReason": finish}],
        "usageMetadata": {
            "promptTokenCount": read,
            "cachedContentTokenCount": 100,
            "candidatesTokenCount": written,
            "thoughtsTokenCount": 7,
            "totalTokenCount": read + written + 7,
        },
        "modelVersion": completion["model"],
    }


ANTHROPIC = Api(_wrong_messages, _messages_as_chat, _message)
GEMINI = Api(_wrong_contents, _contents_as_chat, _candidates)
