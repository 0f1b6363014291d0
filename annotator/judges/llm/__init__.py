"""The language-model judge: any OpenAI-compatible endpoint, answers checked and asked for again."""

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import instructor
from instructor.core import IncompleteOutputException, InstructorRetryException
from openai.types.chat import ChatCompletion
from pydantic import ValidationError

from annotator.annotations import Usage, Verdict
from annotator.errors import AnnotatorError, JudgeStopped, UnreadableTrace
from annotator.judges.base import Mode
from annotator.judges.llm.endpoint import (
    DEFAULT_URL,
    CallFailed,
    Endpoint,
    ModeRefused,
    Unavailable,
    api_key,
    checked_url,
    without_secrets,
)
from annotator.judges.llm.schema import Judgement, Probe, answer_model, current
from annotator.prompts import prompt_sha256, render
from annotator.rubrics import Rubric
from annotator.text import one_line
from annotator.traces import Trace

_INSTRUCTOR = {
    "tools": instructor.Mode.TOOLS,
    "json_schema": instructor.Mode.JSON_SCHEMA,
    # The schema stands in the prompt; a plain or a fenced JSON answer is taken.
    "json": instructor.Mode.MD_JSON,
}

# instructor logs every failed attempt as an error; what failed is in the annotation.
logging.getLogger("instructor").setLevel(logging.CRITICAL)


@dataclass(frozen=True)
class Options:
    """How a model is asked.

    ``reasks``: how often a model may answer again after a wrong quote or a malformed answer.
    ``attempts``: how often one call is tried on errors that may pass. ``price_in``, ``price_out``:
    dollars per million tokens; None is "not known".
    """

    model: str
    base_url: str = DEFAULT_URL
    api_key_env: str = "OPENAI_API_KEY"
    mode: Mode = "auto"
    reasks: int = 2
    attempts: int = 5
    timeout: float = 120.0
    max_output_tokens: int | None = None
    price_in: float | None = None
    price_out: float | None = None


class LLMJudge:
    """Judges with a language model; its answers are checked and, where wrong, asked for again.

    Raises:
        AnnotatorError: no usable URL, or no API key for a URL that is not on this machine.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.mode: Mode = options.mode
        self._overhead = Usage()
        self._key = api_key(checked_url(options.base_url), options.api_key_env)

    @property
    def id(self) -> str:
        """``llm:<model>``."""
        return f"llm:{self.options.model}"

    @property
    def settings(self) -> Mapping[str, Any]:
        """What decides the answers; the key is not among it."""
        return {
            "model": self.options.model,
            "base_url": without_secrets(self.options.base_url),
            "mode": self.options.mode,
            "reasks": self.options.reasks,
            "max_output_tokens": self.options.max_output_tokens,
            "prompt_sha256": prompt_sha256(),
        }

    @property
    def overhead(self) -> Usage:
        """What finding the mode cost."""
        return self._overhead

    @property
    def learned(self) -> Mapping[str, Any]:
        """The form in which this endpoint answers."""
        return {"mode": self.mode}

    def unsupported(self, rubric: Rubric) -> str | None:
        """A model can be asked about any rubric."""
        return None

    def codes(self, rubric: Rubric) -> frozenset[str]:
        """A model can give any code."""
        return frozenset(code.id for code in rubric.codes)

    @cached_property
    def _endpoint(self) -> Endpoint:
        # Built inside the event loop, as its connections belong to it.
        options = self.options
        return Endpoint(
            options.base_url, self._key, timeout=options.timeout, attempts=options.attempts
        )

    @cached_property
    def _ask(self) -> Mapping[str, Any]:
        return {
            name: instructor.patch(create=self._create, mode=mode)
            for name, mode in _INSTRUCTOR.items()
        }

    async def open(self) -> None:
        """Find out, with two tiny questions at most, in which form this endpoint answers.

        Named tools first, then a JSON schema; plain JSON with the schema in the prompt asks nothing
        of a server and needs no call. A server can fail at a form in three ways: an error, a 500,
        or an answer in plain text that ignores it.

        Raises:
            JudgeStopped: the endpoint cannot be reached, or refuses the key or the model.
        """
        if self.mode != "auto":
            return
        forms: tuple[Mode, ...] = ("tools", "json_schema")
        for mode in forms:
            if await self._answers_in(mode):
                self.mode = mode
                return
        self.mode = "json"

    async def _answers_in(self, mode: Mode) -> bool:
        """Ask a tiny question in one form; return whether the answer came in it."""
        messages = [{"role": "user", "content": 'Set "answer" to "ready" and "number" to 7.'}]
        token = current.set(None)
        try:
            await self._ask[mode](response_model=Probe, messages=messages, max_retries=0)
        except InstructorRetryException as error:
            cause = error.__cause__
            if isinstance(cause, JudgeStopped):
                raise cause from error
            if isinstance(cause, Unavailable):
                raise JudgeStopped(f"the endpoint does not answer: {cause}") from error
            return False
        except IncompleteOutputException:
            return False
        finally:
            current.reset(token)
        return True

    async def close(self) -> None:
        """Close the connections."""
        if "_endpoint" in self.__dict__:
            await self._endpoint.close()

    async def judge(self, trace: Trace, rubric: Rubric) -> Verdict:
        """Return the model's verdict; see :meth:`annotator.judges.base.Judge.judge`."""
        judgement = Judgement(trace, rubric)
        token = current.set(judgement)
        try:
            return await self._judge(judgement)
        except BaseException:  # stopped or cancelled: what it cost is in no annotation
            self._overhead += judgement.usage
            raise
        finally:
            current.reset(token)

    async def _judge(self, judgement: Judgement) -> Verdict:
        try:
            prompt = render(judgement.trace, judgement.rubric)
        except UnreadableTrace as error:
            return Verdict(error=str(error))
        messages = [
            {"role": "system", "content": prompt.system},
            {"role": "user", "content": prompt.user},
        ]
        try:
            answer = await self._ask[self.mode](
                response_model=answer_model(judgement.rubric),
                messages=messages,
                max_retries=self.options.reasks,
            )
        except IncompleteOutputException:
            return Verdict(usage=judgement.usage, error="the answer was cut off at the token limit")
        except InstructorRetryException as error:
            return await self._given_up(error, judgement)
        verdict: Verdict = answer.verdict(judgement.usage)
        return verdict

    async def _given_up(self, error: InstructorRetryException, judgement: Judgement) -> Verdict:
        """Return the verdict after the last re-ask.

        If the last answer had the right form and only its quotes were wrong, it is passed on: the
        findings that do not stand will be rejected. Anything else is a failure.
        """
        cause = error.__cause__
        refused = isinstance(cause, ModeRefused) and cause.status < 500
        if refused and not self._endpoint.worked and not await self._answers_in(self.mode):
            raise JudgeStopped(str(cause)) from error  # it would be so for every trace
        if isinstance(cause, JudgeStopped):
            raise cause from error
        if isinstance(cause, AnnotatorError):
            return Verdict(usage=judgement.usage, error=str(cause))
        if judgement.answer is not None:
            return judgement.answer.verdict(judgement.usage)
        if isinstance(cause, ValidationError):
            wrong = "; ".join(_described(one) for one in cause.errors(include_url=False)[:3])
        else:
            wrong = one_line(str(cause or error), 300)
        return Verdict(usage=judgement.usage, error=f"malformed answer: {wrong}")

    async def _create(self, **request: Any) -> ChatCompletion:
        """Send one request for instructor, count it, and refuse what is no answer."""
        judgement = current.get()

        def count(usage: Usage) -> None:
            known = usage.cost_usd is not None
            priced = replace(usage, cost_usd=self._cost(usage) if known else None)
            if judgement:
                judgement.usage += priced
                judgement.last_input = usage.input_tokens
            else:
                self._overhead += priced

        if judgement:
            judgement.answer = None
        body = {"model": self.options.model, **request}
        if self.options.max_output_tokens:
            body["max_completion_tokens"] = self.options.max_output_tokens
        completion = await self._endpoint.complete(body, count, probe=judgement is None)
        choice = completion.choices[0]
        if choice.message.refusal:
            raise CallFailed(f"the model refuses: {one_line(choice.message.refusal, 300)}")
        if choice.finish_reason == "content_filter":
            raise CallFailed("the server's content filter stopped the answer")
        if len(choice.message.tool_calls or []) > 1:
            choice.message.tool_calls = None  # not one answer: instructor would read the first
        if judgement:
            _read_in_full(request["messages"], judgement)
            if self.mode == "json" and choice.finish_reason != "length":
                choice.message.content = _only_answer(choice.message.content or "")
        return completion

    def _cost(self, usage: Usage) -> float | None:
        options = self.options
        if options.price_in is None or options.price_out is None:
            return None
        tokens = usage.input_tokens * options.price_in + usage.output_tokens * options.price_out
        return tokens / 1_000_000


_THOUGHT = re.compile(r"^\s*<think>.*?</think>", re.DOTALL)
_FENCED = re.compile(r"(?ims)^```(?:json)?[ \t]*\n?(.*?)\n?```[ \t]*$")


def _only_answer(text: str) -> str:
    """Return the answer in a text that is nothing but it, or holds it in its only code block.

    Anything else is "". instructor would take the last JSON of any text; but a model that refuses
    and quotes the trace, or says what it would else have answered, gives a JSON that is not its
    answer.
    """
    text = _THOUGHT.sub("", text)
    blocks = _FENCED.findall(text)
    answer = blocks[0] if len(blocks) == 1 else text
    try:
        return answer if isinstance(json.loads(answer), dict) else ""
    except (ValueError, RecursionError):
        return ""


_MOST_PER_TOKEN = 12  # characters: no tokenizer averages that over a trace


def _read_in_full(messages: list[dict[str, Any]], judgement: Judgement) -> None:
    """Raise :class:`CallFailed` if the server cut the prompt off without a word, as some do."""
    longest = max(len(one.get("content") or "") for one in messages if one["role"] == "user")
    tokens = judgement.last_input
    if tokens and longest > 20_000 and longest > _MOST_PER_TOKEN * tokens:
        raise CallFailed(
            f"the server read {tokens} tokens of a trace of {longest} characters:"
            " its context is too small for it"
        )


def _described(error: Any) -> str:
    where = ".".join(map(str, error["loc"]))
    said = one_line(str(error["msg"]).removeprefix("Value error, "), 300)
    return f"{where}: {said}" if where else said
