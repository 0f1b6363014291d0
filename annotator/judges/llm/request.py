"""A request: the prompt cut to the model's context, the response format, earlier answers, and
the cache key.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import version
from typing import Any

from annotator.judges.base import ResponseFormat
from annotator.judges.llm.answer import (
    InvalidAnswer,
    build_answer_model,
    build_answer_schema,
    list_schema_outlines,
)
from annotator.judges.llm.response import CallFailed, ModelResponse
from annotator.judges.llm.settings import Options
from annotator.prompts.render import (
    AnswerKind,
    Layout,
    Prompt,
    render,
    render_json_request,
    render_retry,
    render_windows,
)
from annotator.rubrics import Rubric
from annotator.rubrics.annotations import FailureKind
from annotator.traces import Trace

LONGEST_ANSWER = 4_000  # tokens reserved for an answer without a limit
MAX_SHRINKS = 6  # attempts to make a prompt fit
MIN_CHARACTERS = 2_000  # a shorter part of a trace is not worth judging
_FIXED_MARGIN = 1.1  # rubrics are plain prose: 4.6 bytes a token, counted as 4

BYTES_PER_TOKEN = 4.0
"""A typical text: 4.0 is the median of 88 real prompts in OpenAI's o200k (2.96 to 4.87)."""
HOW_COUNTED = f"tokens estimated from the length, {BYTES_PER_TOKEN:g} bytes each"
MIN_BYTES_PER_TOKEN = 2.9
"""Denser than all real prompts; a denser one is cut after the server refuses it."""
BUDGET_BYTES_PER_TOKEN = 2.5
"""Conservative, for budgets."""


BuildPrompts = Callable[[int | None, Layout], list[Prompt]]
"""Builds prompts of at most so many characters each, None: any number."""


class TooLong(Exception):
    """A prompt is too long for the model; ``max_characters``: the characters that fit.

    Not ``sure``: the answer lacks a tag, which may also be a weak model.
    """

    def __init__(self, message: str, max_characters: int, *, sure: bool = True) -> None:
        super().__init__(message)
        self.max_characters = max_characters
        self.sure = sure
        self.failure: FailureKind = "length" if sure else "tags"


class PromptBuilder:
    """Builds prompts that fit into ``context`` tokens of input (None: not known).

    ``share``: of the characters that would fit, those that are shown, without windows.
    """

    def __init__(self, options: Options, context: int | None, share: float = 1.0) -> None:
        self.context = context
        self._share = share
        self._windows = options.windows and share == 1
        self._layout = options.layout
        self._longest_answer = options.max_output_tokens

    def prompts(
        self, trace: Trace, rubric: Rubric, max_characters: int | None = None
    ) -> list[Prompt]:
        """Return the prompts about a trace: one, or one for each window.

        Args:
            trace: the trace.
            rubric: the rubric.
            max_characters: the most characters of a prompt; None: not known.

        Raises:
            UnreadableTrace: the rubric needs the agents' steps and they cannot be read.
            CallFailed: there is no room for anything worth judging.
        """

        def build(limit: int | None, layout: Layout) -> list[Prompt]:
            if limit is None or not self._windows:
                return [render(trace, rubric, limit, layout=layout)]
            return render_windows(trace, rubric, limit, layout)

        prompts = self.fit(build, max_characters)
        if self._share == 1 or max_characters is not None:
            return prompts
        length = int(len(prompts[0].trace_section) * self._share)
        return [render(trace, rubric, max(length, MIN_CHARACTERS), layout=self._layout)]

    def fit(self, build: BuildPrompts, max_characters: int | None) -> list[Prompt]:
        """Return the prompts that ``build`` returns for the characters that fit; raises as
        :meth:`prompts`.
        """
        for _ in range(1 + MAX_SHRINKS):
            prompts = build(max_characters, self._layout)
            room = self._compute_room(prompts[0])
            if room is None:
                return prompts
            long = [x for x in prompts if estimate_max_tokens(x.trace_section) > room]
            if not long:
                return prompts
            shortest = min(self._compute_length(prompt, room) for prompt in long)
            max_characters = max(shortest, MIN_CHARACTERS)
        reason = f"the model's context of {self.context} tokens leaves no room for the trace"
        raise CallFailed(reason, "length")

    def cut(self, prompt: Prompt, message: str) -> TooLong:
        """Return the new limit for a prompt whose tags the answer does not repeat."""
        where = "start" if "first_tag" in message else "end"
        reason = (
            f"The model did not repeat the check word at the {where} of the prompt: the prompt was"
            " cut, or the model is too weak"
        )
        return TooLong(reason, int(len(prompt.trace_section) * 0.7), sure=False)

    def refused(self, response: ModelResponse, prompt: Prompt) -> TooLong:
        """Return the new limit for a prompt that the server found too long."""
        size, aside = len(prompt.trace_section), len(prompt.aside)
        max_characters, aside_is_enough = int(size * 0.7), True
        if response.limit and response.asked > response.limit:
            over = response.asked - response.limit + self._compute_answer_room(response.limit)
            over_characters = over * (len(prompt.system) + len(prompt.user)) / response.asked
            max_characters = min(int((size - over_characters) * 0.97), size - 1)
            aside_is_enough = over_characters < aside
        if aside and aside_is_enough:
            max_characters = max(max_characters, size - aside)
        return TooLong(response.text, max_characters)

    def _compute_room(self, prompt: Prompt) -> int | None:
        """Return the tokens for the trace; None: the context is not known."""
        if self.context is None:
            return None
        schema = build_answer_schema(prompt.rubric, prompt.layout.considered)
        fixed = sum(
            int(estimate_tokens(text) * _FIXED_MARGIN)
            for text in (prompt.system + schema, prompt.end)
        )
        return max(self.context - fixed - self._compute_answer_room(self.context), 1)

    def _compute_length(self, prompt: Prompt, room: int) -> int:
        """Return about how many characters of the trace fit into ``room`` tokens."""
        section = prompt.trace_section
        length = int(len(section) * room / estimate_max_tokens(section))
        return min(length, len(section) - 1) - len(prompt.aside)

    def _compute_answer_room(self, context: int) -> int:
        """Return the tokens reserved for the answer and a re-ask."""
        return (self._longest_answer or min(LONGEST_ANSWER, context // 8)) + 200


def estimate_tokens(text: str) -> int:
    """Return the usual number of tokens of a text of this length."""
    return int(_count_bytes(text) / BYTES_PER_TOKEN) + 1


def estimate_max_tokens(text: str) -> int:
    """Return a number of tokens that hardly any text of this length exceeds."""
    return int(_count_bytes(text) / MIN_BYTES_PER_TOKEN) + 1


def _count_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


_VERSION = 5  # of the request layout; a new one makes all cached answers unknown


@dataclass(frozen=True, slots=True)
class Retry:
    """A rejected answer, and the message sent back."""

    response: ModelResponse
    message: str


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request of one judge call; ``retries`` are the rejected answers before it.

    ``response_format`` is never ``auto``.
    """

    prompt: Prompt
    response_format: ResponseFormat
    sample: int = 1
    retries: tuple[Retry, ...] = ()

    def again(self, response: ModelResponse, wrong: InvalidAnswer) -> "ModelRequest":
        """Return the next request after a rejected answer.

        The tags of the prompt are masked in the answer and the message: if this longer prompt is
        cut, the model must not find them there.
        """
        reasons = map(self._hide_tags, wrong.reasons)
        message = render_retry(reasons, quotes=wrong.verdict is not None)
        calls = tuple(
            (number, name, self._hide_tags(text)) for number, name, text in response.calls
        )
        response = replace(response, text=self._hide_tags(response.text), calls=calls)
        return replace(self, retries=(*self.retries, Retry(response, message)))

    def _hide_tags(self, text: str) -> str:
        tags = f"{self.prompt.first_tag}|{self.prompt.last_tag}"
        return re.sub(tags, "[tag]", text, flags=re.IGNORECASE)

    def key(self, options: Options) -> str:
        """Return the cache key: a hash of everything that decides the answer."""
        rubric, considered = self.prompt.rubric, self.prompt.layout.considered
        identity = options.identity(self.sample)
        format_hash = _hash_request_format(
            rubric, considered, self.response_format, identity, self.prompt.system
        )
        # The model's name does not decide the next answer.
        retries = [
            (replace(retry.response, model="").to_json(), retry.message) for retry in self.retries
        ]
        decides = f"{format_hash} {self.sample} {self.prompt.tag} {json.dumps(retries)}"
        return hashlib.sha256(decides.encode()).hexdigest()

    def body(self, options: Options) -> dict[str, Any]:
        """Return the request as JSON fields."""
        answer_format = (self.prompt.rubric, self.prompt.layout.considered, self.response_format)
        more, reminder = _render_schema(*answer_format)
        content, mark, tag = self.prompt.user.rpartition('"last_tag": ')  # the last line
        messages = [
            {"role": "system", "content": self.prompt.system + more},
            {"role": "user", "content": content + reminder + mark + tag},
        ]
        for retry in self.retries:
            messages += _write_messages(retry, self.response_format)
        common = {
            "model": options.model,
            "messages": messages,
            **build_format(*answer_format, options.api),
        }
        return common | options.parameters(self.sample)


def _write_messages(retry: Retry, response_format: ResponseFormat) -> list[dict[str, Any]]:
    """Return a rejected answer and the message to it."""
    text = (
        retry.response.text if retry.response.text.strip() else ""
    )  # Anthropic refuses blanks alone
    if response_format not in ("tools", "named") or not retry.response.calls:
        answer = text or "(no answer)"
        return [
            {"role": "assistant", "content": answer},
            {"role": "user", "content": retry.message},
        ]
    calls = [
        {"id": number, "type": "function", "function": {"name": name, "arguments": arguments}}
        for number, name, arguments in retry.response.calls
    ]
    return [
        {"role": "assistant", "content": text or None, "tool_calls": calls},
        *({"role": "tool", "tool_call_id": call["id"], "content": retry.message} for call in calls),
    ]


@lru_cache(maxsize=64)
def _hash_request_format(
    rubric: Rubric,
    considered: AnswerKind,
    response_format: ResponseFormat,
    identity: str,
    system: str,
) -> str:
    """Return the hash of everything but the trace, the sample and the retries."""
    # The templates are in the prompt's tag; instructor's schema follows from its version.
    decides = [
        _VERSION,
        list_libraries(),
        identity,
        response_format,
        build_answer_schema(rubric, considered),
        system,
    ]
    return hashlib.sha256(json.dumps(decides).encode()).hexdigest()


@lru_cache(maxsize=1)
def list_libraries() -> dict[str, str]:
    """Return the versions of the libraries that shape a request."""
    return {name: version(name) for name in ("instructor", "openai")}


@lru_cache(maxsize=2)
def hash_format(kind: AnswerKind = "codes") -> str:
    """Return the hash of the request layout: our version, and the schemas without codes."""
    return hashlib.sha256(json.dumps([_VERSION, list_schema_outlines(kind)]).encode()).hexdigest()


@lru_cache(maxsize=16)
def _render_schema(
    rubric: Rubric, considered: AnswerKind, response_format: ResponseFormat
) -> tuple[str, str]:
    """Return the texts added to the system's message and before the user's last line."""
    if response_format != "json":
        return "", ""
    schema = build_answer_model(rubric, considered).model_json_schema()
    return render_json_request(json.dumps(schema, indent=2))


@lru_cache(maxsize=64)
def build_format(
    rubric: Rubric, considered: AnswerKind, response_format: ResponseFormat, api: str
) -> Mapping[str, Any]:
    """Return the fields of a request that demand an answer in this format.

    They are those of a chat completion, or Anthropic's tools for its API. instructor makes them,
    once for a rubric; it sees no trace, and its own texts for the model are not sent. Two formats
    are ours: ``strict`` is the JSON schema without lengths, which are checked when the answer is
    read; ``tools`` demands a call and names no function, so that a model can think first.
    """
    from instructor import Mode as Form
    from instructor import Provider
    from instructor.v2.core.response import handle_response_model  # without all providers: 1.4 s

    # MD_JSON: the schema is in the prompt; the answer is plain or fenced JSON.
    forms = {
        **dict.fromkeys(("strict", "json_schema"), Form.JSON_SCHEMA),
        **dict.fromkeys(("tools", "named"), Form.TOOLS),
        "json": Form.MD_JSON,
    }
    model = build_answer_model(rubric, considered)
    nothing = [{"role": "user", "content": ""}]
    request: dict[str, Any]
    _, request = handle_response_model(
        model, forms[response_format], Provider.OPENAI, messages=nothing
    )
    form = {key: value for key, value in request.items() if key != "messages"}
    if response_format == "tools":
        form["tool_choice"] = "required"
    if api == "anthropic" and "tools" in form:
        function = form["tools"][0]["function"]
        named = {name: function[name] for name in ("name", "description")}
        choice = {"type": "tool", "name": named["name"]}
        if response_format == "tools":
            choice = {"type": "any"}
        form["tools"] = [{**named, "input_schema": model.model_json_schema()}]
        form["tool_choice"] = {**choice, "disable_parallel_tool_use": True}
    if response_format == "strict":
        json_schema = form["response_format"]["json_schema"]
        lean = {**json_schema, "schema": _make_lean(json_schema["schema"]), "strict": True}
        form["response_format"] = {"type": "json_schema", "json_schema": lean}
    return form


def _make_lean(schema: Any) -> Any:
    """Return a JSON schema with only the keywords that every provider takes under ``strict``."""
    if isinstance(schema, list):
        return [_make_lean(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    lean = {name: value for name, value in schema.items() if name in _STRICT}
    for name in ("$defs", "properties"):  # their keys are names of fields
        if name in lean:
            lean[name] = {key: _make_lean(subschema) for key, subschema in lean[name].items()}
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
