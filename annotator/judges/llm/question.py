"""What a model is asked: the form of the request, the turns so far, and the key of its answer."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from pydantic import BaseModel

from annotator.judges.base import Mode
from annotator.judges.llm.reply import Reply
from annotator.judges.llm.schema import answer_model, answer_schema
from annotator.judges.llm.settings import Options
from annotator.prompts import Prompt
from annotator.rubrics import Rubric

_VERSION = 1  # of what is sent besides the prompt; another one makes all cached answers unknown
_PLACE = "\x00trace\x00"  # stands for the trace while the form of a request is made


@dataclass(frozen=True, slots=True)
class Turn:
    """An answer that was not accepted, and what was said to it."""

    reply: Reply
    said: str


@dataclass(frozen=True, slots=True)
class Question:
    """One request of a judgement; ``turns`` are the answers before it. ``mode`` is not ``auto``."""

    rubric: Rubric
    prompt: Prompt
    mode: Mode
    sample: int = 1
    turns: tuple[Turn, ...] = ()

    def again(self, reply: Reply, wrong: str) -> "Question":
        """Return the question after a wrong answer."""
        said = f"The answer was not accepted: {wrong}\nAnswer again, in the same form and in full."
        return replace(self, turns=(*self.turns, Turn(reply, said)))

    def key(self, options: Options) -> str:
        """Return the hash of everything that decides the answer."""
        asked = _asked(self.rubric, self.mode, options.identity(self.sample), self.prompt.system)
        turns = [(turn.reply.to_json(), turn.said) for turn in self.turns]
        decides = f"{asked} {self.sample} {self.prompt.tag} {json.dumps(turns)}"
        return hashlib.sha256(decides.encode()).hexdigest()

    def body(self, options: Options) -> dict[str, Any]:
        """Return the request as it is sent."""
        form, system, before, after = _form(self.rubric, self.mode, self.prompt.system)
        messages = [
            {"role": "system", "content": system},
            {"role": "user", "content": f"{before}{self.prompt.user}{after}"},
        ]
        for turn in self.turns:
            messages += _messages(turn, self.mode)
        common = {"model": options.model, "messages": messages, **form}
        return common | options.parameters(self.sample)


def _messages(turn: Turn, mode: Mode) -> list[dict[str, Any]]:
    """Return a wrong answer and what was said to it as messages."""
    if mode != "tools" or not turn.reply.calls:
        answer = turn.reply.text or "(no answer)"
        return [{"role": "assistant", "content": answer}, {"role": "user", "content": turn.said}]
    calls = [
        {"id": number, "type": "function", "function": {"name": name, "arguments": arguments}}
        for number, name, arguments in turn.reply.calls
    ]
    return [
        {"role": "assistant", "content": turn.reply.text or None, "tool_calls": calls},
        *({"role": "tool", "tool_call_id": call["id"], "content": turn.said} for call in calls),
    ]


@lru_cache(maxsize=64)
def _asked(rubric: Rubric, mode: Mode, identity: str, system: str) -> str:
    """Return the hash of what decides an answer besides the trace, the sample and the turns."""
    decides = json.dumps([_VERSION, identity, mode, answer_schema(rubric), system])
    return hashlib.sha256(decides.encode()).hexdigest()


@lru_cache(maxsize=64)
def _form(rubric: Rubric, mode: Mode, system: str) -> tuple[Mapping[str, Any], str, str, str]:
    """Return what of a request is the same for every trace: all but the messages, the system
    message, and what stands before and after the trace.
    """
    form, messages = formed(answer_model(rubric), mode, system, _PLACE)
    before, _, after = messages[-1]["content"].partition(_PLACE)
    return form, messages[0]["content"], before, after


def formed(
    model: type[BaseModel], mode: Mode, system: str, user: str
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return a request for an answer of the form of ``model``, and its messages.

    instructor makes the request of each form. It is asked once and not for every call, where it
    would build a new class and a new schema each time; and it sees no trace: given a validation
    context it renders every message as a Jinja template.
    """
    from instructor import Mode as Form
    from instructor.processing import handle_response_model

    forms = {
        "tools": Form.TOOLS,
        "json_schema": Form.JSON_SCHEMA,
        # The schema stands in the prompt; a plain or a fenced JSON answer is taken.
        "json": Form.MD_JSON,
    }
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    request: dict[str, Any]
    _, request = handle_response_model(model, mode=forms[mode], messages=messages)
    return {key: value for key, value in request.items() if key != "messages"}, request["messages"]


def answer_text(reply: Reply, mode: Mode) -> str | None:
    """Return the JSON text of the one answer in a reply, or None if there is not exactly one."""
    if mode == "tools":
        return reply.calls[0][2] if len(reply.calls) == 1 else None
    return _only_answer(reply.text)


_THOUGHT = re.compile(r"^\s*<think>.*?</think>", re.DOTALL)
_FENCE = re.compile(r"(?im)^```(?:json)?[ \t]*$|^```(?:json)?[ \t]*(?=\S)|```[ \t]*$")


def _fenced(text: str) -> list[str]:
    """Return what stands between fences: from one that begins a line to one that ends a line."""
    blocks = []
    start: int | None = None
    for fence in _FENCE.finditer(text):
        begins = fence.start() == 0 or text[fence.start() - 1] == "\n"
        ends = fence.end() == len(text) or text[fence.end()] == "\n"
        if start is None:
            start = fence.end() if begins else None
        elif ends:
            blocks.append(text[start : fence.start()].strip("\n"))
            start = None
    return blocks


def _only_answer(text: str) -> str | None:
    """Return the answer in a text that is nothing but it, or holds it in its only code block.

    Nothing else will do: a model that refuses and quotes the trace, or says what it would else have
    answered, gives a JSON that is not its answer.
    """
    text = _THOUGHT.sub("", text, count=1)
    blocks = _fenced(text)
    answer = blocks[0] if len(blocks) == 1 else text
    try:
        return answer if isinstance(json.loads(answer), dict) else None
    except (ValueError, RecursionError):
        return None
