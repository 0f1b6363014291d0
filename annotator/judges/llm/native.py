"""Anthropic's and Gemini's own APIs: requests made of chat completions, answers read as such.

Their OpenAI-compatible layers lose the prompt cache, strict forms, and how an answer ended. What is
asked, cached and hashed is a chat completion here, too, as with the Responses API. Their SDKs (the
extras ``anthropic`` and ``gemini``) know where a request goes and how the key is shown; it goes
over the transport of every other call, and everything that bounds a call stays ours.
"""

import json
import logging
import re
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any, Protocol

import httpx2
from openai import APIConnectionError, APIStatusError

from annotator.base.errors import JudgeStopped
from annotator.judges.llm.client import all_headers, explain_address, open_http, split_address
from annotator.judges.llm.settings import Options

_CHAT = frozenset(["messages", "tools", "tool_choice", "response_format", "reasoning_effort"])
_SIGNED = "signature:"  # begins the id of a call that Gemini signed
_ENDS = {"STOP": "stop", "MAX_TOKENS": "length", "CONTINUATION": "length"}
# The model erred, and can be asked again. What else ends an answer of Gemini's is no answer.
_ERRED = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE")
_VERSION = re.compile(r"/(v\d\w*)/*$")

Fields = dict[str, Any]


class Native(Protocol):
    """Asks a provider by its own API."""

    async def post(self, body: Mapping[str, Any]) -> object:
        """Return the answer to a request for a chat completion, as one; what is none is returned
        as it is.

        Raises:
            openai.APIStatusError, openai.APIConnectionError: as openai's client.
            ValueError: it cannot be read.
            JudgeStopped: the request cannot be put to this API.
        """

    async def close(self) -> None:
        """Close the connections."""


def open_native(options: Options, key: str, connections: int) -> Native:
    """Return the client for the API of ``options``; raises as
    :func:`annotator.judges.llm.client.open_client`.
    """
    with explain_address(options, key):
        return (_Anthropic if options.api == "anthropic" else _Gemini)(options, key, connections)


class _Anthropic:
    """Messages, by the SDK's client; its ``messages.create`` would build classes of an answer."""

    def __init__(self, options: Options, key: str, connections: int) -> None:
        address, query = split_address(options.base_url)
        self._sdk: Any = import_module("anthropic")
        self._client = self._sdk.AsyncAnthropic(
            api_key=key,
            base_url=address.rstrip("/").removesuffix("/v1"),
            default_headers=all_headers(options),
            default_query=query,
            timeout=options.timeout,
            max_retries=0,
            http_client=open_http(options, connections),
        )

    async def post(self, body: Mapping[str, Any]) -> object:
        """See :meth:`Native.post`."""
        try:
            request = as_messages(body)
            answer = await self._client.post("/v1/messages", body=request, cast_to=object)
        except self._sdk.APIStatusError as error:
            raise APIStatusError(error.message, response=error.response, body=error.body) from error
        except self._sdk.APIConnectionError as error:
            raise APIConnectionError(request=error.request) from error
        except self._sdk.AnthropicError as error:
            raise ValueError(str(error)) from error
        return read_messages(json.loads(answer) if isinstance(answer, str) else answer)

    async def close(self) -> None:
        """See :meth:`Native.close`."""
        await self._client.close()


class _Gemini:
    """``generateContent``, by the SDK's client, which is given the whole request as JSON."""

    def __init__(self, options: Options, key: str, connections: int) -> None:
        address, query = split_address(options.base_url)
        # It says which of two variables it takes the key from, and takes it from neither.
        logging.getLogger("google_genai").setLevel(logging.ERROR)
        genai: Any = import_module("google.genai")
        self._error: type[Any] = import_module("google.genai.errors").APIError
        self._http = open_http(options, connections, params=query)
        version = _VERSION.search(address)
        http: Fields = {
            "base_url": address[: version.start()] if version else address,
            "api_version": version[1] if version else "v1beta",
            "headers": all_headers(options),
            "httpx_async_client": self._http,
        }
        self._client = genai.Client(api_key=key, vertexai=False, http_options=http)

    async def post(self, body: Mapping[str, Any]) -> object:
        """See :meth:`Native.post`."""
        config: Fields = {
            "http_options": {"extra_body": as_contents(body)},
            "should_return_http_response": True,
            "automatic_function_calling": {"disable": True},
        }
        models = self._client.aio.models
        try:  # its contents give way to those of the body
            answer = await models.generate_content(model=body["model"], contents="-", config=config)
        except self._error as error:
            words = str(error.message)
            raise APIStatusError(words, response=error.response, body=error.details) from error
        except httpx2.RequestError as error:
            raise APIConnectionError(request=error.request) from error
        except (AttributeError, TypeError) as error:  # an error in a form that it does not expect
            raise ValueError(str(error)) from error
        return read_contents(json.loads(answer.sdk_http_response.body or ""))

    async def close(self) -> None:
        """See :meth:`Native.close`."""
        self._client.close()  # a client for calls that wait, which it opens unasked
        await self._client.aio.aclose()
        await self._http.aclose()


def as_messages(body: Mapping[str, Any]) -> Fields:
    """Return a request for a chat completion as one of Anthropic's Messages.

    The instructions are the same for all traces of a rubric, and are put into the cache with the
    tools before them; the trace is not, which nobody asks about again.
    """
    request = {name: value for name, value in body.items() if name not in _CHAT}
    request |= {name: body[name] for name in ("tools", "tool_choice") if name in body}
    request["messages"] = _join_results(map(_anthropic_turn, _turns(body)), "content")
    if system := _system(body):
        request["system"] = [
            {"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}
        ]
    config = {"effort": body["reasoning_effort"]} if "reasoning_effort" in body else {}
    if schema := _schema(body):
        config["format"] = {"type": "json_schema", "schema": schema}
    if config:
        request["output_config"] = _extra(body, "output_config") | config
    return request


def _anthropic_turn(turn: Fields) -> Fields:
    if turn["role"] == "tool":
        result = {"tool_use_id": turn["tool_call_id"], "content": turn["content"]}
        return {"role": "user", "content": [{"type": "tool_result", "is_error": True, **result}]}
    calls = [
        {"type": "tool_use", "id": call["id"], **_function(call, "input")}
        for call in turn.get("tool_calls") or ()
    ]
    if not calls:
        return {"role": turn["role"], "content": turn["content"]}
    text = [{"type": "text", "text": turn["content"]}] if turn.get("content") else []
    return {"role": turn["role"], "content": text + calls}


def read_messages(answer: Any) -> Any:
    """Return an answer of Anthropic's as a chat completion; its usage is read as it is."""
    blocks = _dicts(answer, "content")
    if blocks is None:
        return answer
    texts = [str(block.get("text") or "") for block in blocks if block.get("type") == "text"]
    calls = [
        _call(block.get("id"), block.get("name"), block.get("input"))
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    stop = str(answer.get("stop_reason") or "stop")
    refusal = ""
    if stop == "refusal":
        told = answer.get("stop_details")
        details = told if isinstance(told, dict) else {}
        given = (details.get("category"), details.get("explanation"))
        refusal = ": ".join(str(word) for word in given if word) or "it gives no reason"
    return answer | _choice("".join(texts), calls, refusal, stop)


def as_contents(body: Mapping[str, Any]) -> Fields:
    """Return a request for a chat completion as one of Gemini's ``generateContent``.

    Its cache is implicit: it goes by how requests begin.
    """
    names = {"max_tokens": "maxOutputTokens", "temperature": "temperature", "seed": "seed"}
    request = {
        name: value
        for name, value in body.items()
        if name not in _CHAT and name not in names and name != "model"
    }
    turns = (_gemini_turn(turn, body) for turn in _turns(body))
    request["contents"] = _join_results(turns, "parts")
    if system := _system(body):
        request["systemInstruction"] = {"parts": [{"text": system}]}
    config = {names[name]: body[name] for name in names if name in body}
    if effort := body.get("reasoning_effort"):
        config["thinkingConfig"] = {"thinkingLevel": str(effort).upper()}
    if schema := _schema(body):
        config |= {"responseMimeType": "application/json", "responseJsonSchema": schema}
    if config := _extra(body, "generationConfig") | config:
        request["generationConfig"] = config
    if tools := body.get("tools"):
        functions = [tool["function"] for tool in tools]
        described = [
            {
                "name": function["name"],
                "description": function["description"],
                "parametersJsonSchema": function["parameters"],
            }
            for function in functions
        ]
        calling: Fields = {"mode": "ANY"}
        if body.get("tool_choice") != "required":
            calling["allowedFunctionNames"] = [function["name"] for function in functions]
        request["tools"] = [{"functionDeclarations": described}]
        request["toolConfig"] = {"functionCallingConfig": calling}
    return request


def _gemini_turn(turn: Fields, body: Mapping[str, Any]) -> Fields:
    """Return a turn; a call that was signed is signed again, else newer models refuse it."""
    if turn["role"] == "tool":
        name = body["tools"][0]["function"]["name"]
        response = {"name": name, "response": {"error": turn["content"]}}
        return {"role": "user", "parts": [{"functionResponse": response}]}
    parts: list[Fields] = [{"text": turn["content"]}] if turn.get("content") else []
    for call in turn.get("tool_calls") or ():
        part: Fields = {"functionCall": _function(call, "args")}
        if call["id"].startswith(_SIGNED):
            part["thoughtSignature"] = call["id"].removeprefix(_SIGNED)
        parts.append(part)
    return {"role": "user" if turn["role"] == "user" else "model", "parts": parts}


def read_contents(answer: Any) -> Any:
    """Return an answer of Gemini's as a chat completion: its first candidate, without thoughts."""
    if not isinstance(answer, dict):
        return answer
    counted = {"usage": _gemini_usage(answer.get("usageMetadata"))}
    candidates = _dicts(answer, "candidates")
    if not candidates:
        feedback = answer.get("promptFeedback")
        reason = feedback.get("blockReason") if isinstance(feedback, dict) else None
        blocked = _choice("", [], f"the prompt is blocked: {reason}", "stop") if reason else {}
        return answer | counted | blocked
    candidate = candidates[0]
    parts = [
        part for part in _dicts(candidate.get("content"), "parts") or () if not part.get("thought")
    ]
    calls = []
    for part in parts:
        if isinstance(function := part.get("functionCall"), dict):
            signature = part.get("thoughtSignature")
            identity = f"{_SIGNED}{signature}" if signature else None
            calls.append(_call(identity, function.get("name"), function.get("args")))
    reason = str(candidate.get("finishReason") or "STOP")
    refusal = ""
    if reason not in _ENDS and reason not in _ERRED:
        refusal = f"the answer is blocked: {reason}"
    text = "".join(str(part.get("text") or "") for part in parts)
    return answer | counted | _choice(text, calls, refusal, _ENDS.get(reason, "stop"))


def _gemini_usage(given: object) -> Fields:
    """Return the counts of an answer by the names of a chat completion; of what is 0 it says
    nothing, and thoughts are charged as output.
    """
    counts = {
        name: value
        for name, value in (given.items() if isinstance(given, dict) else ())
        if isinstance(value, int)
    }
    if "promptTokenCount" not in counts:
        return {}
    read = counts["promptTokenCount"] + counts.get("toolUsePromptTokenCount", 0)
    thoughts = counts.get("thoughtsTokenCount", 0)
    return {
        "prompt_tokens": read,
        "prompt_tokens_details": {"cached_tokens": counts.get("cachedContentTokenCount", 0)},
        "completion_tokens": counts.get("candidatesTokenCount", 0) + thoughts,
        "completion_tokens_details": {"reasoning_tokens": thoughts},
        "total_tokens": counts.get("totalTokenCount", 0),
    }


def _turns(body: Mapping[str, Any]) -> list[Fields]:
    return [message for message in body["messages"] if message["role"] != "system"]


def _join_results(turns: Iterable[Fields], name: str) -> list[Fields]:
    """Return the turns with what is said to several calls of one turn in one turn, too: both APIs
    refuse calls that are not all answered in the next.
    """
    joined: list[Fields] = []
    for turn in turns:
        if joined and joined[-1]["role"] == turn["role"]:
            joined[-1] |= {name: joined[-1][name] + turn[name]}
        else:
            joined.append(turn)
    return joined


def _system(body: Mapping[str, Any]) -> str:
    systems = [message["content"] for message in body["messages"] if message["role"] == "system"]
    return "\n\n".join(systems)


def _schema(body: Mapping[str, Any]) -> Fields | None:
    form = body.get("response_format") or {}
    schema: Fields | None = form.get("json_schema", {}).get("schema")
    return schema


def _extra(body: Mapping[str, Any], name: str) -> Fields:
    """Return what the user wants in a part of the request that has something of ours, too."""
    extra = body.get(name, {})
    if not isinstance(extra, dict):
        raise JudgeStopped(f"extra_body: {name}: expected an object")
    return extra


def _function(call: Fields, arguments: str) -> Fields:
    function = call["function"]
    return {"name": function["name"], arguments: json.loads(function["arguments"])}


def _call(identity: object, name: object, arguments: object) -> Fields:
    return {"id": identity, "function": {"name": name, "arguments": json.dumps(arguments)}}


def _choice(text: str, calls: list[Fields], refusal: str, finish: str) -> Fields:
    message = {"content": text, "tool_calls": calls, "refusal": refusal}
    return {"choices": [{"message": message, "finish_reason": finish}]}


def _dicts(value: object, name: str) -> list[Fields] | None:
    """Return the objects in a list of an object, None if there is no such list."""
    items = value.get(name) if isinstance(value, dict) else None
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else None
