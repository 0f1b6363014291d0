"""What a model is asked: the form of the request, the turns so far, and the key of its answer."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import version
from typing import Any

from pydantic import BaseModel

from annotator.judges.base import Mode
from annotator.judges.llm.answer import (
    Wrong,
    answer_model,
    answer_schema,
    schema_outlines,
)
from annotator.judges.llm.reply import Reply
from annotator.judges.llm.settings import Options
from annotator.prompts.render import Considered, Prompt, render_json_request, render_retry
from annotator.rubrics import Rubric

_VERSION = 5  # of how a request is put together; another one makes all cached answers unknown


@dataclass(frozen=True, slots=True)
class Turn:
    """An answer that was not accepted, and what was said to it."""

    reply: Reply
    words: str


@dataclass(frozen=True, slots=True)
class Question:
    """One request of a judgement; ``turns`` are the answers before it. ``mode`` is not ``auto``."""

    prompt: Prompt
    mode: Mode
    sample: int = 1
    turns: tuple[Turn, ...] = ()

    def again(self, reply: Reply, wrong: Wrong) -> "Question":
        """Return the question after a wrong answer.

        Neither the answer nor our words hold the tags of the prompt. If this longer prompt is cut,
        the model must not find them there.
        """
        words = render_retry(map(self._hide_tags, wrong.reasons), quotes=wrong.verdict is not None)
        calls = tuple((number, name, self._hide_tags(text)) for number, name, text in reply.calls)
        reply = replace(reply, text=self._hide_tags(reply.text), calls=calls)
        return replace(self, turns=(*self.turns, Turn(reply, words)))

    def _hide_tags(self, text: str) -> str:
        tags = f"{self.prompt.first_tag}|{self.prompt.last_tag}"
        return re.sub(tags, "[tag]", text, flags=re.IGNORECASE)

    def key(self, options: Options) -> str:
        """Return the hash of everything that decides the answer."""
        rubric, considered = self.prompt.rubric, self.prompt.layout.considered
        identity = options.identity(self.sample)
        asked = _hash_form(rubric, considered, self.mode, identity, self.prompt.system)
        # Who gave an answer does not decide the next.
        turns = [(replace(turn.reply, model="").to_json(), turn.words) for turn in self.turns]
        decides = f"{asked} {self.sample} {self.prompt.tag} {json.dumps(turns)}"
        return hashlib.sha256(decides.encode()).hexdigest()

    def body(self, options: Options) -> dict[str, Any]:
        """Return the request as it is sent."""
        asked = (self.prompt.rubric, self.prompt.layout.considered, self.mode)
        more, reminder = _form_words(*asked)
        shown, mark, tag = self.prompt.user.rpartition('"last_tag": ')  # which is its last line
        messages = [
            {"role": "system", "content": self.prompt.system + more},
            {"role": "user", "content": shown + reminder + mark + tag},
        ]
        for turn in self.turns:
            messages += _messages(turn, self.mode)
        common = {"model": options.model, "messages": messages, **_form(*asked, options.api)}
        return common | options.parameters(self.sample)


def _messages(turn: Turn, mode: Mode) -> list[dict[str, Any]]:
    """Return a wrong answer and what was said to it as messages."""
    text = turn.reply.text if turn.reply.text.strip() else ""  # Anthropic refuses blanks alone
    if mode not in ("tools", "named") or not turn.reply.calls:
        answer = text or "(no answer)"
        return [{"role": "assistant", "content": answer}, {"role": "user", "content": turn.words}]
    calls = [
        {"id": number, "type": "function", "function": {"name": name, "arguments": arguments}}
        for number, name, arguments in turn.reply.calls
    ]
    return [
        {"role": "assistant", "content": text or None, "tool_calls": calls},
        *({"role": "tool", "tool_call_id": call["id"], "content": turn.words} for call in calls),
    ]


@lru_cache(maxsize=64)
def _hash_form(
    rubric: Rubric, considered: Considered, mode: Mode, identity: str, system: str
) -> str:
    """Return the hash of what decides an answer besides the trace, the sample and the turns.

    The words of the templates are in the tag of the prompt, too. What instructor makes of the
    schema follows from its version, so that it need not be loaded where the answer is known.
    """
    decides = [_VERSION, libraries(), identity, mode, answer_schema(rubric, considered), system]
    return hashlib.sha256(json.dumps(decides).encode()).hexdigest()


@lru_cache(maxsize=1)
def libraries() -> dict[str, str]:
    """Return the versions of the libraries that shape a request."""
    return {name: version(name) for name in ("instructor", "openai")}


@lru_cache(maxsize=1)
def form_sha256() -> str:
    """Return the hash of how a request is put together: our version of it, and what the schema of
    an answer says besides a rubric's codes.
    """
    return hashlib.sha256(json.dumps([_VERSION, schema_outlines()]).encode()).hexdigest()


@lru_cache(maxsize=16)
def _form_words(rubric: Rubric, considered: Considered, mode: Mode) -> tuple[str, str]:
    """Return what is added to the system's message, and before the last line of the user's."""
    if mode != "json":
        return "", ""
    schema = answer_model(rubric, considered).model_json_schema()
    return render_json_request(json.dumps(schema, indent=2))


@lru_cache(maxsize=64)
def _form(rubric: Rubric, considered: Considered, mode: Mode, api: str) -> Mapping[str, Any]:
    return form_of(answer_model(rubric, considered), mode, api)


def form_of(model: type[BaseModel], mode: Mode, api: str) -> dict[str, Any]:
    """Return the fields of a request that ask for an answer of the form of ``model``: those of a
    chat completion, and Anthropic's own tools where its API is asked.

    instructor makes them, once and not for every call, where it would build a new class and a new
    schema each time. It sees no trace, and what it would say to the model is not sent: every word
    that is stands in /prompts. Of other native forms it makes none: for Anthropic's structured
    outputs it asks for a parameter that the SDK has no more, and falls back to words of its own;
    for Gemini's it needs a package more, and switches the provider's safety filters off. Those
    are made of a chat completion's (:mod:`annotator.judges.llm.native`).

    Two forms it does not have. ``strict`` is its JSON schema without what providers that hold to a
    schema strictly do not take; lengths are then held to when the answer is read. ``tools``
    demands a call and leaves it to the model which: a server that is told the function makes the
    model begin with its arguments, and a model that thinks first could not.
    """
    from instructor import Mode as Form
    from instructor import Provider
    from instructor.v2.core.response import handle_response_model  # without all providers: 1.4 s

    anthropic = api == "anthropic" and mode in ("tools", "named")
    provider = Provider.ANTHROPIC if anthropic else Provider.OPENAI
    # The last: the schema stands in the prompt; a plain or a fenced JSON answer is taken.
    forms = {
        **dict.fromkeys(("strict", "json_schema"), Form.JSON_SCHEMA),
        **dict.fromkeys(("tools", "named"), Form.TOOLS),
        "json": Form.MD_JSON,
    }
    nothing = [{"role": "user", "content": ""}]
    request: dict[str, Any]
    _, request = handle_response_model(model, forms[mode], provider, messages=nothing)
    form = {key: value for key, value in request.items() if key != "messages"}
    if mode == "tools":
        any_tool = {"type": "any", "disable_parallel_tool_use": True}
        form["tool_choice"] = any_tool if anthropic else "required"
    if mode == "strict":
        asked = form["response_format"]["json_schema"]
        lean = {**asked, "schema": _make_lean(asked["schema"]), "strict": True}
        form["response_format"] = {"type": "json_schema", "json_schema": lean}
    return form


def _make_lean(schema: Any) -> Any:
    """Return a JSON schema with nothing but what every provider takes under ``strict``: types,
    enums, descriptions, and objects whose fields are all required and that have no others.
    """
    if isinstance(schema, list):
        return [_make_lean(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    lean = {name: value for name, value in schema.items() if name in _STRICT}
    for name in ("$defs", "properties"):  # whose keys are names of the answer's own
        if name in lean:
            lean[name] = {key: _make_lean(part) for key, part in lean[name].items()}
    for name in ("items", "anyOf"):
        if name in lean:
            lean[name] = _make_lean(lean[name])
    if "const" in schema:
        lean["enum"] = [schema["const"]]
    if "properties" in lean:
        lean |= {"required": list(lean["properties"]), "additionalProperties": False}
    return lean


_STRICT = frozenset(
    ["$defs", "$ref", "type", "properties", "items", "anyOf", "enum", "description"]
)
