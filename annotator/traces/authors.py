"""Who wrote a message: an agent, a person, a tool, the harness, or nobody knows.

The words are those that frameworks write in ``role``, ``type`` and the sender's name: OpenAI,
Anthropic, Gemini, LangChain, AutoGen, ShareGPT and what resembles them.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from annotator.traces.model import Author
from annotator.traces.records import get_text

_WORDS: Mapping[str, Author] = {
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
}
_KEYS = ("role", "type", "from", "source", "sender", "sender_id", "name")
_NOT_LETTERS = re.compile(r"[^a-z]")


def classify_word(value: Any) -> Author | None:
    """Return the kind of author that a role, a type or a class name stands for; None if it stands
    for none: it may be a name.
    """
    return _WORDS.get(_letters(text)) if (text := get_text(value)) else None


def is_call_role(word: Any) -> bool:
    """Whether a role is that of calls, which some write beside the role of the agent that calls."""
    return _letters(get_text(word) or "") in ("functioncall", "toolcall")


@lru_cache(maxsize=256)  # a trace has few words, and each of them many times
def _letters(word: str) -> str:
    return _NOT_LETTERS.sub("", word.lower())


def has_role_words(items: Iterable[Any]) -> bool:
    """Whether the roles in a list of messages are kinds of authors and not names.

    They are names in chats of named agents, where no message is an assistant's: ``critic`` among
    ``writer`` and ``editor`` is an agent, beside ``assistant`` it is not known who that is.
    """
    return any(
        classify_word(word) == "agent" and word.islower()  # in capitals it is a name
        for item in items
        if isinstance(item, dict)
        for key in ("role", "type", "from")
        if isinstance(word := item.get(key), str)
    )


def find_author(fields: Mapping[str, Any], *, kinds: bool, named: bool) -> Author:
    """Return who wrote a message.

    A role (else a type, else the sender) that is a word for a kind decides; a type that is a tool's
    holds whatever the role. Where all are
    ``named``, the name decides of users and assistants: every participant of such a chat has one of
    these roles and a name of its own, an agent's unless it is a word for a person or a tool. A
    sender that is no such word is the name of an agent; a role that is none is one, unless roles
    are ``kinds``.
    """
    word = None
    for key in _KEYS:
        if (word := classify_word(fields.get(key))) is not None:
            break
        if key in ("role", "from") and get_text(fields.get(key)) and (kinds or key == "role"):
            return "unknown" if kinds else "agent"
    type_ = fields.get("type")
    if classify_word(type_) == "tool" and type_ != "function":  # a call has that type, too
        return "tool"
    if word in ("agent", "human") and named and (name := get_text(fields.get("name"))):
        return classify_word(name) or "agent"
    if word is None:
        speaks = any(get_text(fields.get(key)) for key in _KEYS if key != "type")
        return "agent" if speaks else "unknown"
    return word


def has_named_speakers(items: Iterable[Any]) -> bool:
    """Whether a list of messages is a chat of named participants (AG2's): each message of a user or
    an assistant has a name, but for the calls of tools where results are in AG2's form.
    """
    items = [item for item in items if isinstance(item, dict)]
    called = any("tool_responses" in item for item in items)
    speakers = [
        get_text(item.get("name"))
        for item in items
        if not (called and item.get("tool_calls"))
        and classify_word(item.get("role") or item.get("type")) in ("agent", "human")
    ]
    return bool(speakers) and all(speakers)
