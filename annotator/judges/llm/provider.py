"""Differences between providers: a table with one row each, and translations of requests and
answers for the APIs that are no chat completions.

Requests are cached and hashed as chat completions, whatever the API.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

from annotator.base.errors import JudgeStopped
from annotator.judges.base import ResponseFormat

KeyHeader = Literal["Authorization", "api-key"]

# Models that think before they answer: greedy decoding makes many of them repeat themselves, and
# hosted ones reject a temperature.
_THINKS = re.compile(
    r"\bo[1345]\b|gpt-?5|gpt-oss|deepseek-?r|qwq|qwen-?3|magistral|think|reason|\br1\b|glm-?[45]",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Provider:
    """The differences of one provider.

    ``hosts``: names, ends of names that begin with a dot, or local ports that begin with a colon.
    ``cap``, ``seed``: its names for the longest answer and the seed. ``key_header``: the header of
    the key. ``forms``: its response formats, the surest first. ``sends``: fields of every request.
    ``local``: it serves open models, with a default temperature above 0. ``costs``: its usage has
    dollars. ``thoughts_apart``: ``completion_tokens`` leaves thoughts out. ``cache_write``: the
    price of input written to its cache, as a factor. ``batch_url``: the path in the lines of a
    batch.
    """

    name: str
    hosts: tuple[str, ...] = ()
    cap: str = "max_completion_tokens"
    seed: str = "seed"
    key_header: KeyHeader = "Authorization"
    forms: tuple[ResponseFormat, ...] = ("json_schema", "tools", "named", "json")
    sends: Mapping[str, Any] = field(default_factory=dict)
    local: bool = False
    costs: bool = False
    thoughts_apart: bool = False
    cache_write: float = 1.0
    batch_url: str = "/v1/chat/completions"

    def format_fallbacks(self, here: bool) -> tuple[ResponseFormat, ...]:
        """Return the response formats to try, in order.

        ``strict`` comes first, but not on this machine (``here``): local servers enforce any
        schema, and only the full one bounds the lengths of texts and lists.
        """
        strict: tuple[ResponseFormat, ...] = ("strict",)
        return self.forms if here or "json_schema" not in self.forms else strict + self.forms

    def temperature(self, model: str, here: bool) -> float | None:
        """Return the default temperature; None: the server's own. ``here``: on this machine."""
        greedy = self.local or (here and self.name == GENERIC.name)  # a pickled one is another
        return 0.0 if greedy and not _THINKS.search(model) else None


_SCHEMA_OR_JSON: tuple[ResponseFormat, ...] = ("json_schema", "json")

PROVIDERS = (
    Provider("openai", (".openai.com",)),
    Provider(
        "azure",
        (".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com"),
        key_header="api-key",
        batch_url="/chat/completions",
    ),
    Provider("mistral", (".mistral.ai",), cap="max_tokens", seed="random_seed"),
    Provider(
        "gemini",
        ("generativelanguage.googleapis.com", "aiplatform.googleapis.com"),
        cap="max_tokens",
        thoughts_apart=True,
    ),
    Provider(
        "openrouter",
        (".openrouter.ai",),
        cap="max_tokens",
        # Where the model reads 8,192 tokens or less, or the account has it so, the middle of a
        # longer prompt is left out. https://openrouter.ai/docs/guides/features/message-transforms
        sends={"plugins": [{"id": "context-compression", "enabled": False}]},
        costs=True,
    ),
    # It takes tools, and leaves it to the model to call one.
    Provider("ollama", (":11434", ".ollama.com"), "max_tokens", forms=_SCHEMA_OR_JSON, local=True),
    Provider("lmstudio", (":1234",), "max_tokens", forms=_SCHEMA_OR_JSON, local=True),
    # A named tool is answered in plain text.
    Provider("llamacpp", (":8080",), "max_tokens", forms=_SCHEMA_OR_JSON, local=True),
    Provider("vllm", (":8000",), local=True),
    Provider("sglang", (":30000",), local=True),
    Provider(
        "anthropic",
        (".anthropic.com",),
        cap="max_tokens",
        forms=("tools", "named", "json"),  # it ignores response_format
        cache_write=1.25,
    ),
)
GENERIC = Provider("generic")
PROVIDER_NAMES = tuple(provider.name for provider in (*PROVIDERS, GENERIC))


def find_native_provider(api: str) -> Provider:
    """Return the provider for its own API, which takes no full schema."""
    return replace(find_provider("", api), forms=("strict", "tools", "named", "json"))


def find_provider(url: str, name: str | None = None) -> Provider:
    """Return the provider of a name, else that of the host of ``url``, else the generic one."""
    if name is not None:
        return next(provider for provider in (*PROVIDERS, GENERIC) if provider.name == name)
    parts = urlsplit(url)
    if "api-version" in parse_qs(parts.query):  # through a gateway, too
        return find_provider(url, "azure")
    host = f".{parts.hostname or ''}"
    here = parts.hostname in ("localhost", "127.0.0.1", "::1")
    for provider in PROVIDERS:
        for suffix in provider.hosts:
            at_port = suffix.startswith(":") and here and suffix == f":{parts.port}"
            if at_port or (not suffix.startswith(":") and host.endswith(f".{suffix.lstrip('.')}")):
                return provider
    return GENERIC


_CAPS = ("max_completion_tokens", "max_tokens")
_OURS = frozenset(["messages", "tools", "tool_choice", "response_format", "reasoning_effort"])


def write_responses_request(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request for a chat completion as one of the Responses API.

    Raises:
        JudgeStopped: it sets a seed, which that API does not take.
    """
    if body.get("seed") is not None:
        raise JudgeStopped("the Responses API takes no seed: leave --seed out")
    request: dict[str, Any] = {"input": _write_items(body["messages"]), "store": False}
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


def _write_items(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages as input items; calls and their results are items of their own."""
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


def read_responses_answer(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer of the Responses API as a chat completion."""
    texts, refusals, calls = [], [], []
    items = [item for item in answer["output"] if isinstance(item, dict)]
    for item in items:
        if item.get("type") == "function_call":
            function = {"name": item.get("name"), "arguments": item.get("arguments")}
            calls.append({"id": item.get("call_id"), "function": function})
        parts = item.get("content") if item.get("type") == "message" else None
        for piece in parts if isinstance(parts, list) else ():
            if isinstance(piece, dict):
                texts.append(str(piece.get("text") or ""))
                refusals.append(str(piece.get("refusal") or ""))
    if not items and answer.get("status") != "incomplete":
        return dict(answer)
    message = {"content": "".join(texts), "tool_calls": calls, "refusal": "".join(refusals)}
    details = answer.get("incomplete_details")
    why = details.get("reason") if isinstance(details, dict) else None
    finish = {"max_output_tokens": "length"}.get(str(why), why) or "stop"
    return {**answer, "choices": [{"message": message, "finish_reason": finish}]}


_SIGNED = "signature:"  # begins the id of a call that Gemini signed
_ENDS = {"STOP": "stop", "MAX_TOKENS": "length", "CONTINUATION": "length"}
# The model erred, and can be asked again. What else ends an answer of Gemini's is no answer.
_ERRED = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE")

Fields = dict[str, Any]


def write_anthropic_request(body: Mapping[str, Any]) -> Fields:
    """Return a request for a chat completion as one of Anthropic's Messages.

    The instructions are the same for all traces of a rubric, and go into the cache; the trace does
    not.
    """
    request = {name: value for name, value in body.items() if name not in _OURS}
    request |= {name: body[name] for name in ("tools", "tool_choice") if name in body}
    request["messages"] = _join_results(map(_write_anthropic_turn, _list_turns(body)), "content")
    if system := _join_system(body):
        request["system"] = [
            {"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}
        ]
    config = {"effort": body["reasoning_effort"]} if "reasoning_effort" in body else {}
    if schema := _find_schema(body):
        config["format"] = {"type": "json_schema", "schema": schema}
    if config:
        request["output_config"] = _get_extra(body, "output_config") | config
    return request


def _write_anthropic_turn(turn: Fields) -> Fields:
    if turn["role"] == "tool":
        result = {"tool_use_id": turn["tool_call_id"], "content": turn["content"]}
        return {"role": "user", "content": [{"type": "tool_result", "is_error": True, **result}]}
    calls = [
        {"type": "tool_use", "id": call["id"], **_write_function(call, "input")}
        for call in turn.get("tool_calls") or ()
    ]
    if not calls:
        return {"role": turn["role"], "content": turn["content"]}
    text = [{"type": "text", "text": turn["content"]}] if turn.get("content") else []
    return {"role": turn["role"], "content": text + calls}


def read_anthropic_answer(answer: Any) -> Any:
    """Return Anthropic's answer as a chat completion."""
    blocks = _list_objects(answer, "content")
    if blocks is None:
        return answer
    texts = [str(block.get("text") or "") for block in blocks if block.get("type") == "text"]
    calls = [
        _write_call(block.get("id"), block.get("name"), block.get("input"))
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    stop = str(answer.get("stop_reason") or "stop")
    refusal = ""
    if stop == "refusal":
        stop_details = answer.get("stop_details")
        details = stop_details if isinstance(stop_details, dict) else {}
        reasons = (details.get("category"), details.get("explanation"))
        refusal = ": ".join(str(word) for word in reasons if word) or "it gives no reason"
    return answer | _write_choice("".join(texts), calls, refusal, stop)


def write_gemini_request(body: Mapping[str, Any]) -> Fields:
    """Return a request for a chat completion as one of Gemini's ``generateContent``."""
    names = {"max_tokens": "maxOutputTokens", "temperature": "temperature", "seed": "seed"}
    request = {
        name: value
        for name, value in body.items()
        if name not in _OURS and name not in names and name != "model"
    }
    turns = (_write_gemini_turn(turn, body) for turn in _list_turns(body))
    request["contents"] = _join_results(turns, "parts")
    if system := _join_system(body):
        request["systemInstruction"] = {"parts": [{"text": system}]}
    config = {names[name]: body[name] for name in names if name in body}
    if effort := body.get("reasoning_effort"):
        config["thinkingConfig"] = {"thinkingLevel": str(effort).upper()}
    if schema := _find_schema(body):
        config |= {"responseMimeType": "application/json", "responseJsonSchema": schema}
    if config := _get_extra(body, "generationConfig") | config:
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


def _write_gemini_turn(turn: Fields, body: Mapping[str, Any]) -> Fields:
    """Return a turn; a signed call keeps its signature, else newer models refuse it."""
    if turn["role"] == "tool":
        name = body["tools"][0]["function"]["name"]
        response = {"name": name, "response": {"error": turn["content"]}}
        return {"role": "user", "parts": [{"functionResponse": response}]}
    parts: list[Fields] = [{"text": turn["content"]}] if turn.get("content") else []
    for call in turn.get("tool_calls") or ():
        piece: Fields = {"functionCall": _write_function(call, "args")}
        if call["id"].startswith(_SIGNED):
            piece["thoughtSignature"] = call["id"].removeprefix(_SIGNED)
        parts.append(piece)
    return {"role": "user" if turn["role"] == "user" else "model", "parts": parts}


def read_gemini_answer(answer: Any) -> Any:
    """Return Gemini's first candidate as a chat completion, without thoughts."""
    if not isinstance(answer, dict):
        return answer
    candidates = _list_objects(answer, "candidates")
    if not candidates:
        feedback = answer.get("promptFeedback")
        reason = feedback.get("blockReason") if isinstance(feedback, dict) else None
        blocked = (
            _write_choice("", [], f"the prompt is blocked: {reason}", "stop") if reason else {}
        )
        return answer | blocked
    candidate = candidates[0]
    parts = [
        piece
        for piece in _list_objects(candidate.get("content"), "parts") or ()
        if not piece.get("thought")
    ]
    calls = []
    for piece in parts:
        if isinstance(function := piece.get("functionCall"), dict):
            signature = piece.get("thoughtSignature")
            identity = f"{_SIGNED}{signature}" if signature else None
            calls.append(_write_call(identity, function.get("name"), function.get("args")))
    reason = str(candidate.get("finishReason") or "STOP")
    refusal = ""
    if reason not in _ENDS and reason not in _ERRED:
        refusal = f"the answer is blocked: {reason}"
    text = "".join(str(piece.get("text") or "") for piece in parts)
    return answer | _write_choice(text, calls, refusal, _ENDS.get(reason, "stop"))


def _list_turns(body: Mapping[str, Any]) -> list[Fields]:
    return [message for message in body["messages"] if message["role"] != "system"]


def _join_results(turns: Iterable[Fields], name: str) -> list[Fields]:
    """Return the turns with the results of one turn's calls joined, as both APIs demand."""
    joined: list[Fields] = []
    for turn in turns:
        if joined and joined[-1]["role"] == turn["role"]:
            joined[-1] |= {name: joined[-1][name] + turn[name]}
        else:
            joined.append(turn)
    return joined


def _join_system(body: Mapping[str, Any]) -> str:
    systems = [message["content"] for message in body["messages"] if message["role"] == "system"]
    return "\n\n".join(systems)


def _find_schema(body: Mapping[str, Any]) -> Fields | None:
    form = body.get("response_format") or {}
    schema: Fields | None = form.get("json_schema", {}).get("schema")
    return schema


def _get_extra(body: Mapping[str, Any], name: str) -> Fields:
    """Return the user's object in a field that has settings of ours, too."""
    extra = body.get(name, {})
    if not isinstance(extra, dict):
        raise JudgeStopped(f"extra_body: {name}: expected an object")
    return extra


def _write_function(call: Fields, arguments: str) -> Fields:
    function = call["function"]
    return {"name": function["name"], arguments: json.loads(function["arguments"])}


def _write_call(identity: object, name: object, arguments: object) -> Fields:
    return {"id": identity, "function": {"name": name, "arguments": json.dumps(arguments)}}


def _write_choice(text: str, calls: list[Fields], refusal: str, finish: str) -> Fields:
    message = {"content": text, "tool_calls": calls, "refusal": refusal}
    return {"choices": [{"message": message, "finish_reason": finish}]}


def _list_objects(value: object, name: str) -> list[Fields] | None:
    """Return the objects in a list field, None without such a list."""
    items = value.get(name) if isinstance(value, dict) else None
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else None


@dataclass(frozen=True, slots=True)
class Api:
    """How an API is asked; every request is written, cached and hashed as a chat completion.

    ``path``: the path of requests, below ``version`` unless the address ends in one. ``write`` and
    ``read`` translate a request, and an answer to one as a chat completion. Of a provider's own
    API: ``url`` and ``key_env`` are the defaults of its address and of the variable with the key,
    ``headers`` its own.
    """

    name: str
    path: str
    write: Callable[[Mapping[str, Any]], Fields] | None = None
    read: Callable[[Any], Any] | None = None
    version: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    url: str = ""
    key_env: str = ""

    def locate(self, address: str, model: str) -> str:
        """Return the URL of requests to a model."""
        if self.name == "responses":  # at Azure it belongs to no deployment
            address = address.partition("/deployments/")[0]
        if self.version and not re.search(r"/v\d\w*$", address):
            address = f"{address}/{self.version}"
        return f"{address}/{self.path.format(model=model.removeprefix('models/'))}"


APIS = {
    api.name: api
    for api in (
        Api("chat", "chat/completions"),
        # Its answers are read as those of batches, which are the same.
        Api("responses", "responses", write_responses_request),
        Api(
            *("anthropic", "messages", write_anthropic_request, read_anthropic_answer, "v1"),
            headers={"Authorization": "Bearer {key}", "anthropic-version": "2023-06-01"},
            url="https://api.anthropic.com",
            key_env="ANTHROPIC_API_KEY",
        ),
        Api(
            *("gemini", "models/{model}:generateContent", write_gemini_request),
            *(read_gemini_answer, "v1beta"),
            headers={"x-goog-api-key": "{key}"},
            url="https://generativelanguage.googleapis.com",
            key_env="GEMINI_API_KEY",
        ),
    )
}
