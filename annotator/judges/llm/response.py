"""A response: its text, calls and usage, or the error of a call."""

import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import TypeAdapter

from annotator.base.errors import AnnotatorError
from annotator.base.text import list_first, replace_surrogates, sanitize_line
from annotator.judges.llm.provider import GENERIC, Provider, read_responses_answer
from annotator.rubrics.annotations import FailureKind, Usage

LONGEST_RESPONSE = 16 << 20  # bytes
TRANSIENT = frozenset([408, 409, 429])  # statuses below 500 of what may be answered another time
_MOST_TOKENS = 10**8  # in one call; more is no count
_LONGEST_NAME = 120  # characters of a model's name
_MOST_DOLLARS = 10_000.0
# Other words for the same ends: cut off, stopped by a filter (Gemini's compatible layer passes on
# its own words), broken off by the server.
_CUT = ("length", "max_tokens", "model_length", "max_output_tokens")
_FILTERED = re.compile(
    r"content_filter|safety|recitation|prohibited|blocklist|spii|refusal|sensitive|guardrail",
    re.IGNORECASE,
)
_BROKEN = ("error", "abort", "insufficient_system_resource")

# How servers say that a prompt is too long, and by how much.
_OVERFLOW = re.compile(
    r"context.{0,12}(length|size|window|exceed)|too (long|many tokens)|maximum.{0,40}tokens"
    r"|exceeds?.{0,40}(context|token)|longer than the maximum|n_ctx",
    re.IGNORECASE,
)
_CERTAIN = re.compile(r"range of input length|maximum prompt length", re.IGNORECASE)
_SETTING = re.compile(
    r"(unsupported|unknown|unrecognized|invalid).{0,20}parameter|max_\w*tokens\W.{0,30}too large",
    re.IGNORECASE,
)
# What is refused is then the longest answer that was asked for, unless the prompt is named, too.
_CAP = re.compile(
    r"max_?(?:completion|output|new)?_?tokens|maximum tokens you requested", re.IGNORECASE
)
_PROMPT = re.compile(r"\binput|prompt|messages", re.IGNORECASE)
_LIMIT = re.compile(
    r"(?:context|model|sequence|maximum prompt)\W+(?:length|size|window|len)\D{0,30}?(\d{3,9})"
    r"|(\d{3,9}) maximum|input length should be \[\d+, ?(\d{1,9})"
    r"|(?:n_ctx \(|tokens allowed \(?|\d >) ?(\d{3,9})",
    re.IGNORECASE,
)
# The second group: the longest answer, which Anthropic adds.
_PROMPT_TOKENS = re.compile(
    r"(?:requested|resulted in|has|contains|prompt \(length|too long:|you sent|limit:|first|n_keep"
    r"|input|token count)\D{0,12}(\d{3,9})(?: \+ (\d+) >)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ModelResponse:
    """One answer. ``calls``: the tools called, as (id, name, arguments).

    ``finish`` is the server's word for the end, ``model`` its name for the model that answered, ""
    where it gives none. ``limit``: the prompt was too long for the model; the reply is then an
    error of the server, ``text`` its words, and ``limit`` and ``asked`` the tokens that the model
    can read and that the prompt had, 0 where the server does not say.
    """

    text: str = ""
    calls: tuple[tuple[str, str, str], ...] = ()
    refusal: str = ""
    finish: str = "stop"
    too_long: bool = False
    limit: int = 0
    asked: int = 0
    model: str = ""

    def to_json(self) -> str:
        """Return the response as JSON, for the cache."""
        fields = asdict(self)
        if not self.model:  # as in replies from before there was one
            del fields["model"]
        return json.dumps(fields)

    @classmethod
    def from_json(cls, text: str) -> "ModelResponse":
        """Return the response in a text of :meth:`to_json`; raises ValueError."""
        return _RESPONSE.validate_json(text, strict=True)


_RESPONSE = TypeAdapter(ModelResponse)


class CallFailed(AnnotatorError):
    """The trace could not be judged; the message is the reason, ``failure`` its kind."""

    def __init__(self, reason: str, failure: FailureKind = "server") -> None:
        super().__init__(reason)
        self.failure = failure


class FormatRefused(CallFailed):
    """The server refuses the request in this format (a 4xx, or a 5xx that repeats)."""

    def __init__(self, reason: str, status: int) -> None:
        super().__init__(reason)
        self.status = status


class Unavailable(CallFailed):
    """The server did not answer in any attempt."""


class Unanswered(CallFailed):
    """The request has no answer, and cannot be sent."""


def read_response(body: object, clean: Callable[[str], str]) -> ModelResponse:
    """Return the response in a body; ``redact`` masks secrets in the server's own words.

    Raises:
        ValueError: it holds no message; the reason.
    """
    answer = body if isinstance(body, dict) else {}
    if isinstance(answer.get("output"), list):
        answer = read_responses_answer(answer)
    if answer.get("error"):
        error = answer["error"]
        message = error.get("message") if isinstance(error, dict) else error
        raise ValueError(f"the server says: {sanitize_line(clean(str(message)), 300)}")
    choices = answer.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise ValueError(f"the answer is no chat completion but {_describe_body(body)}")
    if isinstance(broken := choice.get("error"), dict):  # of the provider behind OpenRouter
        raise ValueError(
            f"the server says: {sanitize_line(clean(str(broken.get('message'))), 300)}"
        )
    finish = replace_surrogates(clean(str(choice.get("finish_reason") or "stop")))
    if finish.lower() in _BROKEN:
        raise ValueError(f"the server broke its answer off: {finish}")
    if finish == "model_context_window_exceeded":  # Anthropic's: the prompt left no room for it
        reason = "the trace is too long for the model: its context ended before its answer did"
        return ModelResponse(reason, too_long=True)
    name = clean(str(answer.get("model") or answer.get("modelVersion") or ""))
    calls = tuple(_read_calls(message.get("tool_calls"), clean))
    text = _join_text(message.get("content"))
    if not (text or calls or message.get("refusal")) and _normalize_finish(finish) == "stop":
        text = _find_misplaced_answer(message)
    return ModelResponse(
        replace_surrogates(text),
        calls,
        replace_surrogates(clean(str(message.get("refusal") or ""))),
        _normalize_finish(finish),
        model=sanitize_line(name, _LONGEST_NAME),
    )


def _describe_body(body: object) -> str:
    """Return the keys of an answer, or its beginning if it is no object."""
    if isinstance(body, dict) and body:
        names = list_first([sanitize_line(str(key), 40) for key in body], 6)
        return f"an object with the keys {names}"
    return sanitize_line(json.dumps(body), 60)


def _find_misplaced_answer(message: dict[str, Any]) -> str:
    """Return the JSON object that stands in place of the reasoning (vLLM), else ""."""
    for name in ("reasoning_content", "reasoning"):
        text = message.get(name)
        if isinstance(text, str):
            with suppress(ValueError, RecursionError):
                if isinstance(json.loads(text), dict):
                    return text
    return ""


def _normalize_finish(finish: str) -> str:
    """Return OpenAI's word for the end of an answer, or the server's own."""
    if finish.lower() in _CUT:
        return "length"
    return "content_filter" if _FILTERED.search(finish) else finish


def _join_text(content: object) -> str:
    """Return the text of a message's content, a string or a list of parts."""
    if isinstance(content, str):
        return content
    parts = (
        [piece for piece in content if isinstance(piece, dict)] if isinstance(content, list) else []
    )
    texts = [piece.get("text") for piece in parts if piece.get("type") in ("text", "output_text")]
    return "".join(text for text in texts if isinstance(text, str))


def _read_calls(value: object, clean: Callable[[str], str]) -> list[tuple[str, str, str]]:
    calls = []
    for n, call in enumerate(value if isinstance(value, list) else []):
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            arguments = function.get("arguments")
            text = arguments if isinstance(arguments, str) else json.dumps(arguments)
            name = clean(str(function.get("name") or "answer"))
            identity = clean(str(call.get("id") or f"call_{n}"))
            calls.append(
                (replace_surrogates(identity), replace_surrogates(name), replace_surrogates(text))
            )
    return calls


def read_usage(body: object, provider: Provider = GENERIC) -> Usage | None:
    """Return the usage in a response body, or None if it has none.

    Without output tokens the cost is unknown.
    """
    usage = (body.get("usage") or body.get("usageMetadata")) if isinstance(body, dict) else None
    if not isinstance(usage, dict):
        return None
    read, written = _find_first(usage, _READ), _find_first(usage, _WRITTEN)
    if not read:
        return None
    if "prompt_tokens" not in usage:  # Anthropic's own counts leave out what concerns its cache
        read += sum(_parse_count(usage.get(name)) or 0 for name in _APART)
    total, thoughts = (_find_first(usage, names) or 0 for names in (_TOTAL, _REASONING))
    # xAI's models count their thoughts beside the answer wherever they are served: the sum tells.
    apart = provider.thoughts_apart or total == read + (written or 0) + thoughts
    if apart and (written is not None or total > read):
        written = max(written or 0, total - read)
    cached = _find_first(usage, _CACHED) or 0
    if cached > read:  # nor do those of some gateways to it
        read += cached
    return Usage(
        cost_usd=None if written is None else 0.0,
        input_tokens=read,
        cached_tokens=cached,
        cache_write_tokens=min(read - cached, _find_first(usage, _CACHE_WRITE) or 0),
        output_tokens=written or 0,
        reasoning_tokens=thoughts,
    )


def read_dollars(body: object) -> float | None:
    """Return the cost in a response body (OpenRouter), or None.

    With the user's own key, the provider's charge is added.
    """
    usage = body.get("usage") if isinstance(body, dict) else None
    if not isinstance(usage, dict) or (dollars := _parse_dollars(usage.get("cost"))) is None:
        return None
    details = usage.get("cost_details")
    if usage.get("is_byok") is True and isinstance(details, dict):
        upstream = _parse_dollars(details.get("upstream_inference_cost"))
        return None if upstream is None else dollars + upstream
    return dollars


def _parse_dollars(value: object) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and 0 <= value < _MOST_DOLLARS else None  # type: ignore[arg-type, operator]


# The names of the same count at different servers, and in their own APIs.
_READ = (("prompt_tokens",), ("input_tokens",), ("promptTokenCount",))
_WRITTEN = (("completion_tokens",), ("output_tokens",), ("candidatesTokenCount",))
_TOTAL = (("total_tokens",), ("totalTokenCount",))
_CACHED = (
    ("prompt_tokens_details", "cached_tokens"),
    ("input_tokens_details", "cached_tokens"),
    ("cache_read_input_tokens",),
    ("prompt_cache_hit_tokens",),  # DeepSeek's
    ("cached_tokens",),  # Moonshot's
    ("cachedContentTokenCount",),
)
_CACHE_WRITE = (
    ("prompt_tokens_details", "cache_write_tokens"),
    ("input_tokens_details", "cache_write_tokens"),
    ("prompt_tokens_details", "cache_creation_tokens"),
    ("cache_creation_input_tokens",),
)
_APART = ("cache_read_input_tokens", "cache_creation_input_tokens")
_REASONING = (
    ("completion_tokens_details", "reasoning_tokens"),
    ("output_tokens_details", "reasoning_tokens"),
    ("output_tokens_details", "thinking_tokens"),
    ("reasoning_tokens",),  # SGLang's
    ("thoughtsTokenCount",),
)


def _find_first(usage: dict[str, Any], paths: Sequence[tuple[str, ...]]) -> int | None:
    """Return the first count at these paths that is not 0, else 0 or None."""
    first = None
    for path in paths:
        if path[0] not in usage:  # as most of them
            continue
        value: object = usage
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        if count := _parse_count(value):
            return count
        first = count if first is None else first
    return first


def _parse_count(value: object) -> int | None:
    """Return a plausible number of tokens, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if value == value // 1 and 0 <= value < _MOST_TOKENS else None


def parse_overflow(
    message: str, body: object, code: str = "", certain: bool = False
) -> ModelResponse | None:
    """Return the response for an error that says that the prompt is too long, else None.

    Args:
        message: the server's message.
        body: the fields of the error (llama.cpp has the numbers there).
        code: the server's name of the error.
        certain: the HTTP status alone says so.
    """
    text = f"{code} {message}"
    of_cap = _CAP.search(message) and not _PROMPT.search(message)
    overflow = _OVERFLOW.search(text) and not (of_cap or _SETTING.search(message))
    if not (certain or overflow or _CERTAIN.search(text)):
        return None
    limit, size = _find_lengths(body, message)
    reason = f"the trace is too long for the model: {message}"
    return ModelResponse(reason, too_long=True, limit=limit, asked=size)


def _find_lengths(body: object, message: str) -> tuple[int, int]:
    """Return the model's limit and the tokens sent; 0 if the error lacks them."""
    fields = body if isinstance(body, dict) else {}
    limit, size = fields.get("n_ctx"), fields.get("n_prompt_tokens")
    if isinstance(limit, int) and isinstance(size, int) and 0 < limit < size < 10**8:
        return limit, size
    room, sent = _LIMIT.search(message), _PROMPT_TOKENS.search(message)
    return (
        int(next(filter(None, room.groups()))) if room else 0,
        sum(map(int, filter(None, sent.groups()))) if sent else 0,
    )
