"""The author of a message: an agent, a person, a tool, the harness, or unknown.

The words are those that frameworks write in ``role``, ``type`` and the sender's name: OpenAI,
Anthropic, Gemini, LangChain, AutoGen, ShareGPT and what resembles them.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from annotator.traces.model import Author
from annotator.traces.records import get_text

_AUTHORS_BY_WORD: Mapping[str, Author] = {
    **dict.fromkeys(("assistant", "ai", "model", "agent", "gpt", "bot", "chatbot"), "agent"),
    **dict.fromkeys(("aimessage", "aimessagechunk", "assistantmessage", "functioncall"), "agent"),
    **dict.fromkeys(("toolcall", "toolcallrequestevent"), "agent"),
    **dict.fromkeys(("user", "human", "customer", "humanmessage", "usermessage"), "human"),
    **dict.fromkeys(("userproxy", "userproxyagent", "usersimulator", "humanuser"), "human"),
    **dict.fromkeys(("humanproxy", "humanproxyagent", "enduser"), "human"),
    **dict.fromkeys(("tool", "function", "ipython", "environment", "observation"), "tool"),
    **dict.fromkeys(("toolresult", "toolresponse", "toolmessage", "functionmessage"), "tool"),
    **dict.fromkeys(("functioncalloutput", "functionresponse", "functionresult"), "tool"),
    **dict.fromkeys(("tooloutput", "tooluseresult", "env", "terminal", "computer"), "tool"),
    **dict.fromkeys(("toolcallexecutionevent", "toolcallsummarymessage"), "tool"),
    **dict.fromkeys(("functionexecutionresultmessage", "codeexecutionevent"), "tool"),
    **dict.fromkeys(("computerterminal", "codeexecutor", "executor", "shell"), "tool"),
    **dict.fromkeys(("tools", "toolnode", "toolexecutor"), "tool"),
    **dict.fromkeys(("system", "developer", "systemmessage", "systemprompt"), "system"),
    **dict.fromkeys(("unknown", "none", "null", "nan"), "unknown"),  # of a missing name
}
_KEYS = (
    *("role", "type", "from", "source", "sender", "sender_id", "name"),
    *("speaker", "agent", "agent_name", "author"),
)
_NOT_LETTERS = re.compile(r"[^a-z]")


def classify_word(value: Any) -> Author | None:
    """Return the author that a role, a type or a class name means; None for another word: it may
    be a name.
    """
    return _AUTHORS_BY_WORD.get(_letters(value)) if isinstance(value, str) else None


def is_call_role(word: Any) -> bool:
    """Whether a role is that of calls, which some write beside the role of the agent that calls."""
    return isinstance(word, str) and _letters(word) in ("functioncall", "toolcall")


@lru_cache(maxsize=256)  # a trace has few words, and each of them many times
def _letters(word: str) -> str:
    return _NOT_LETTERS.sub("", word.lower())


def has_role_words(items: Iterable[Any]) -> bool:
    """Whether roles in a list of messages are kinds of authors: one is an assistant's."""
    return any(
        classify_word(word) == "agent" and word.islower()  # in capitals it is a name
        for item in items
        if isinstance(item, dict)
        for key in ("role", "type", "from")
        if isinstance(word := item.get(key), str)
    )


def find_author(fields: Mapping[str, Any], *, has_roles: bool, has_names: bool) -> Author:
    """Return the author of a message: the first word for a kind decides, of the role, the type, the
    sender. Any other word is an agent's name.

    Args:
        fields: the message.
        has_roles: roles are words for kinds, so another role is unknown.
        has_names: each speaker has a name, which decides for users and assistants.
    """
    word = None
    keys = list(filter(fields.__contains__, _KEYS))
    for key in keys:
        if (word := classify_word(fields[key])) is not None:
            break
        if key in ("role", "from") and get_text(fields[key]) and (has_roles or key == "role"):
            return "unknown" if has_roles else "agent"
    type_ = fields.get("type")
    if classify_word(type_) == "tool" and type_ != "function":  # a call has that type, too
        return "tool"
    if word in ("agent", "human") and has_names and (name := get_text(fields.get("name"))):
        return classify_word(name) or "agent"
    if word is None:
        speaks = any(get_text(fields[key]) for key in keys if key != "type")
        return "agent" if speaks else "unknown"
    return word


def has_named_speakers(items: Iterable[Any]) -> bool:
    """Whether each message of a user or an assistant has a name; calls in AG2's form need none."""
    items = [item for item in items if isinstance(item, dict)]
    has_results = any("tool_responses" in item for item in items)
    speakers = [
        get_text(item.get("name"))
        for item in items
        if not (has_results and item.get("tool_calls"))
        and classify_word(item.get("role") or item.get("type")) in ("agent", "human")
    ]
    return bool(speakers) and all(speakers)
