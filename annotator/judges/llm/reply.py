"""What a server answers: the parts of a chat completion that matter, whatever else it holds."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from annotator.annotations import Usage
from annotator.text import one_line, storable

_MOST_TOKENS = 10**8  # in one call; more is no count


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


def read_reply(body: object) -> Reply:
    """Return the answer in the body of a response.

    Servers differ in everything else (ids, tiers, words for the end), and none of that matters.

    Raises:
        ValueError: it holds no message; the reason, with the server's own words if it sent some.
    """
    answer = body if isinstance(body, dict) else {}
    if answer.get("error"):
        error = answer["error"]
        said = error.get("message") if isinstance(error, dict) else error
        raise ValueError(f"the server says: {one_line(str(said), 300)}")
    choices = answer.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise ValueError("answer is no chat completion: no message in it")
    content = message.get("content")
    return Reply(
        storable(content) if isinstance(content, str) else "",
        tuple(_tool_calls(message.get("tool_calls"))),
        storable(str(message.get("refusal") or "")),
        storable(str(choice.get("finish_reason") or "stop")),
    )


def _tool_calls(calls: object) -> list[tuple[str, str, str]]:
    found = []
    for n, call in enumerate(calls if isinstance(calls, list) else []):
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            arguments = function.get("arguments")
            text = arguments if isinstance(arguments, str) else json.dumps(arguments)
            name = str(function.get("name") or "answer")
            identity = str(call.get("id") or f"call_{n}")
            found.append((storable(identity), storable(name), storable(text)))
    return found


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
