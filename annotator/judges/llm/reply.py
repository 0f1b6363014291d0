"""What comes of a question: the parts of a chat completion that matter, or how asking failed.

What fails for every trace is :class:`~annotator.errors.JudgeStopped`.
"""

import json
import re
from dataclasses import asdict, dataclass
from typing import Any

from annotator.annotations import Usage
from annotator.errors import AnnotatorError
from annotator.text import one_line, storable

_MOST_TOKENS = 10**8  # in one call; more is no count

# How servers say that a prompt is too long, and by how much.
_OVERFLOW = re.compile(
    r"context.{0,12}(length|size|window|exceed)|too (long|many tokens)|maximum.{0,40}tokens"
    r"|exceeds?.{0,40}(context|token)|longer than the maximum",
    re.IGNORECASE,
)
_CERTAIN = re.compile(r"range of input length|maximum prompt length", re.IGNORECASE)
_SETTING = re.compile(
    r"(unsupported|unknown|unrecognized|invalid).{0,20}parameter|max_\w*tokens\W.{0,30}too large",
    re.IGNORECASE,
)
_LIMIT = re.compile(
    r"(?:context|model|sequence|maximum prompt)\W+(?:length|size|window|len)\D{0,30}?(\d{3,9})"
    r"|(\d{3,9}) maximum|input length should be \[\d+, ?(\d{1,9})",
    re.IGNORECASE,
)
_ASKED = re.compile(
    r"(?:requested|resulted in|has|contains|prompt \(length|too long:|you sent)\D{0,12}(\d{3,9})",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer. ``calls``: the tools called, as (id, name, arguments).

    ``finish`` is the server's word for the end. ``limit``: the prompt was too long for the model;
    the reply is then an error of the server, ``text`` its words, and ``limit`` and ``asked`` the
    tokens that the model can read and that the prompt had, 0 where the server does not say.
    """

    text: str = ""
    calls: tuple[tuple[str, str, str], ...] = ()
    refusal: str = ""
    finish: str = "stop"
    too_long: bool = False
    limit: int = 0
    asked: int = 0

    def to_json(self) -> str:
        """Return the reply as JSON, for the cache."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Reply":
        """Return the reply in a text that :meth:`to_json` wrote."""
        value = json.loads(text)
        return cls(**value | {"calls": tuple(tuple(call) for call in value["calls"])})


class CallFailed(AnnotatorError):
    """This trace could not be judged; the message is the reason."""


class ModeRefused(CallFailed):
    """The server does not take the request in this form (a 4xx, or a 5xx that repeats)."""

    def __init__(self, reason: str, status: int) -> None:
        super().__init__(reason)
        self.status = status


class Unavailable(CallFailed):
    """The server did not answer, however often it was asked."""


class Unanswered(CallFailed):
    """There is no answer to this question, and nobody to ask."""


def read_reply(body: object) -> Reply:
    """Return the answer in the body of a response.

    Servers differ in everything else (ids, tiers, words for the end), and none of that matters.

    Raises:
        ValueError: it holds no message; the reason, with the server's own words if it sent some.
    """
    answer = body if isinstance(body, dict) else {}
    if answer.get("error"):
        error = answer["error"]
        message = error.get("message") if isinstance(error, dict) else error
        raise ValueError(f"the server says: {one_line(str(message), 300)}")
    choices = answer.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise ValueError("answer is no chat completion: no message in it")
    # What a model thought (reasoning, reasoning_content, parts of that type) is not its answer.
    return Reply(
        storable(_join_text(message.get("content"))),
        tuple(_tool_calls(message.get("tool_calls"))),
        storable(str(message.get("refusal") or "")),
        storable(str(choice.get("finish_reason") or "stop")),
    )


def _join_text(content: object) -> str:
    """Return the text of a message's content, which may be a list of parts."""
    if isinstance(content, str):
        return content
    parts = (
        [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    )
    texts = [part.get("text") for part in parts if part.get("type") in ("text", "output_text")]
    return "".join(text for text in texts if isinstance(text, str))


def _tool_calls(value: object) -> list[tuple[str, str, str]]:
    calls = []
    for n, call in enumerate(value if isinstance(value, list) else []):
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            arguments = function.get("arguments")
            text = arguments if isinstance(arguments, str) else json.dumps(arguments)
            name = str(function.get("name") or "answer")
            identity = str(call.get("id") or f"call_{n}")
            calls.append((storable(identity), storable(name), storable(text)))
    return calls


def read_usage(body: object) -> Usage | None:
    """Return the tokens that a response says it used, or None if it does not say.

    If it does not tell the output, the cost is not known.
    """
    usage = body.get("usage") if isinstance(body, dict) else None
    if not isinstance(usage, dict):
        return None
    read, written = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    if not read:
        return None
    return Usage(
        cost_usd=None if written is None else 0.0,
        input_tokens=read,
        cached_tokens=min(read, _detail(usage, "prompt_tokens_details", "cached_tokens")),
        output_tokens=written or 0,
        reasoning_tokens=_detail(usage, "completion_tokens_details", "reasoning_tokens"),
    )


def _detail(usage: dict[str, Any], group: str, name: str) -> int:
    details = usage.get(group)
    return (_count(details.get(name)) or 0) if isinstance(details, dict) else 0


def _count(value: object) -> int | None:
    """Return a number of tokens that can be one, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if value == value // 1 and 0 <= value < _MOST_TOKENS else None


def too_long(words: str, body: object, code: str = "", certain: bool = False) -> Reply | None:
    """Return the reply that an error is if it says that the prompt is too long, else None.

    Args:
        words: what the server says.
        body: the error's fields, if it has any (llama.cpp gives the numbers there).
        code: the server's own name of the error.
        certain: whether its status alone says so.
    """
    text = f"{code} {words}"
    overflow = _OVERFLOW.search(text) and not _SETTING.search(words)
    if not (certain or overflow or _CERTAIN.search(text)):
        return None
    limit, asked = _lengths(body, words)
    reason = f"the trace is too long for the model: {words}"
    return Reply(reason, too_long=True, limit=limit, asked=asked)


def _lengths(body: object, message: str) -> tuple[int, int]:
    """Return the tokens that the model can read and those that it was sent; 0 if not said."""
    fields = body if isinstance(body, dict) else {}
    limit, asked = fields.get("n_ctx"), fields.get("n_prompt_tokens")
    if isinstance(limit, int) and isinstance(asked, int) and 0 < limit < asked < 10**8:
        return limit, asked
    room, sent = _LIMIT.search(message), _ASKED.search(message)
    return (
        int(next(filter(None, room.groups()))) if room else 0,
        int(sent.group(1)) if sent else 0,
    )
