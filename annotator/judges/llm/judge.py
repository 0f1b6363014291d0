"""The judge of one language model: it asks, checks each answer, and asks again."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from annotator.base.errors import Pending, UnreadableTrace
from annotator.base.text import hide_values, sanitize_line
from annotator.judges.base import ResponseFormat
from annotator.judges.llm.answer import (
    InvalidAnswer,
    build_answer_schema,
    extract_answer,
    read_answer,
)
from annotator.judges.llm.model import LONG_ANSWER, SHORT_ANSWER, FormatChanged, Model, Session
from annotator.judges.llm.request import (
    HOW_COUNTED,
    MAX_SHRINKS,
    MIN_CHARACTERS,
    ModelRequest,
    PromptBuilder,
    TooLong,
    estimate_tokens,
    hash_format,
    list_libraries,
)
from annotator.judges.llm.response import CallFailed, ModelResponse, Unanswered
from annotator.judges.llm.settings import Options, hash_environment_headers
from annotator.prompts.parts import measure_reading
from annotator.prompts.render import (
    Prompt,
    hash_prompts,
    limit_claims,
    render_confirmation,
)
from annotator.prompts.verdicts import mark_undecided, mark_unseen, merge_verdicts
from annotator.rubrics import Rubric
from annotator.rubrics.annotations import Finding, Usage, UsageRange, Verdict
from annotator.traces import Trace

T = TypeVar("T")
_GUESSES = 2  # shorter prompts tried because of missing tags alone
_LONGEST_ANSWER = 1 << 20  # characters, with thoughts


@dataclass(slots=True)
class JudgeCall:
    """One trace, a rubric and a sample, with the usage so far.

    ``keys``: the cache keys of its answers; ``bad``: those of answers that led to a failure;
    ``names``: the server's names for the model. ``findings``: of another judge, for a critic.
    """

    trace: Trace
    rubric: Rubric
    sample: int = 1
    usage: Usage = field(default_factory=Usage)
    keys: list[str] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    findings: tuple[Finding, ...] = ()

    @property
    def name(self) -> str:
        """The rubric and the trace, as stored in the cache."""
        return f"{self.rubric.id}\n{self.trace.id}"


class LLMJudge(Model):
    """Judges with one language model.

    Raises:
        AnnotatorError: the URL is unusable, or a URL of another machine has no API key.
    """

    def __init__(self, options: Options, session: Session | None = None) -> None:
        super().__init__(options, session)
        self._context = options.context or self._listed.context
        self._prompt_builder = PromptBuilder(options, self._context, self.session.share)
        self._unrecorded: dict[str, dict[int, JudgeCall]] = {}  # decided calls, by name and sample

    @property
    def id(self) -> str:
        """``llm:<model>``."""
        return f"llm:{self.options.model}"

    @property
    def settings(self) -> Mapping[str, Any]:
        """Everything that decides the answers; no key."""
        options = self.options
        # Only if set, so that older runs can be resumed.
        optional = {
            "headers_sha256": hash_environment_headers(options.api),
            "headers": options.headers_sha256,
            "dialect": options.dialect,
            "api": options.api if options.api != "auto" else None,
            "facts": None if options.facts else "off",
            "first_sample": self.session.first_sample - 1 and self.session.first_sample,
            "share": None if self.session.share == 1 else self.session.share,
        }
        return {
            "model": options.model,
            "base_url": options.address,
            "mode": options.mode,
            "reasks": options.reasks,
            "parameters": hide_values(options.parameters(1)),
            "context": self._context,
            "windows": options.windows,
            "considered": options.considered,
            "rubric_last": options.rubric_last,
            **{name: value for name, value in optional.items() if value},
            "in_batches": self.session.in_batches,
            "form_sha256": hash_format(),
            "libraries": list_libraries(),
            "prompt_sha256": hash_prompts(),
        }

    @property
    def learned(self) -> Mapping[str, Any]:
        """The response format, API, price and limits in use, and the refused formats."""
        options = self.options
        sent = json.dumps(options.parameters(1))
        optional = {"refused_modes": dict(self._refused), "answered_by": dict(self.answered_by)}
        return {
            "mode": self.response_format,
            **({} if '"temperature"' in sent else {"temperature": "the server's"}),
            **({"api": self.api} if self.api != options.api else {}),
            "price": self.price.as_dict() if self.price else None,
            "attempts": options.attempts,
            "max_wait": options.max_wait,
            "timeout": options.timeout,
            **{name: value for name, value in optional.items() if value},
        }

    @property
    def state(self) -> str:
        """See :attr:`annotator.judges.base.RunJudge.state`."""
        return self.session.rate_limiter.state

    async def judge(self, trace: Trace, rubric: Rubric) -> Verdict:
        """Return the verdict; see :meth:`annotator.judges.base.Judge.judge`."""
        return await self.decide(JudgeCall(trace, rubric, self.session.first_sample))

    async def decide(self, judge_call: JudgeCall) -> Verdict:
        """Return the verdict of one call, still to be recorded; raises as :meth:`judge`."""
        try:
            verdict = await self._judge_trace(judge_call)
        except Pending:
            raise
        except BaseException:
            self._drop(judge_call)
            raise
        for name in judge_call.names:
            self._count_name(name)
        if not verdict.error:
            judge_call.bad.clear()
        self._unrecorded.setdefault(judge_call.name, {})[judge_call.sample] = judge_call
        return replace(verdict, usage=judge_call.usage)

    def record(self, trace: Trace, rubric: Rubric) -> None:
        """See :meth:`annotator.judges.base.RunJudge.record`; bad answers are forgotten."""
        for judge_call in self._take_calls(trace, rubric):
            self._bill(judge_call)

    def drop(self, trace: Trace, rubric: Rubric) -> None:
        """See :meth:`annotator.judges.base.RunJudge.drop`."""
        for judge_call in self._take_calls(trace, rubric):
            self._drop(judge_call)

    def _take_calls(self, trace: Trace, rubric: Rubric) -> list[JudgeCall]:
        return [*self._unrecorded.pop(JudgeCall(trace, rubric).name, {}).values()]

    def _drop(self, judge_call: JudgeCall) -> None:
        self._overhead += judge_call.usage
        self._bill(judge_call)

    def _bill(self, judge_call: JudgeCall) -> None:
        if cache := self.session.cache:
            cache.bill(judge_call.keys)
            if not self.outbox or self.outbox.asks_again:
                cache.forget(judge_call.bad)

    async def _judge_trace(self, judge_call: JudgeCall) -> Verdict:
        """Ask about the full trace, or about the part that the model can read."""
        build = partial(self._prompt_builder.prompts, judge_call.trace, judge_call.rubric)
        verdicts, prompts, too_long = await self._ask_shrinking(judge_call, build)
        if not prompts:
            return verdicts[0]
        verdict = merge_verdicts(verdicts, prompts, judge_call.rubric)
        if too_long and verdict.error:
            return replace(verdict, error=f"{too_long}; of less of it: {verdict.error}")
        if len(prompts) > 1 and not verdict.error and any(c.evidence for c in verdict.claims):
            room = max(len(prompt.trace_section) for prompt in prompts)
            limit = too_long.max_characters if too_long else None
            confirmed = await self._confirm(judge_call, verdict, limit, room // 2)
            # Findings without a verified quote stay undecided.
            undecided = () if confirmed.error else [c for c in verdict.claims if not c.evidence]
            claims = (*confirmed.claims, *undecided)
            verdict = replace(confirmed, truncated=verdict.truncated, claims=claims)
        share_read = measure_reading(judge_call.trace, judge_call.rubric, verdict.truncated)
        return replace(verdict, read=share_read) if share_read < 1 else verdict

    async def _confirm(
        self, judge_call: JudgeCall, proposed: Verdict, max_characters: int | None, aside: int
    ) -> Verdict:
        """Decide about findings of windows in one call; ``aside``: the most characters for them."""
        trace, rubric = judge_call.trace, judge_call.rubric
        claims = [claim for claim in proposed.claims if claim.evidence]
        render = partial(render_confirmation, trace, rubric, limit_claims(claims, aside))
        build = self._fit_one(render)
        [verdict], prompts, _ = await self._ask_shrinking(judge_call, build, max_characters)
        if verdict.error or not prompts:
            return replace(verdict, error=f"confirming call: {verdict.error}")
        return mark_unseen(mark_undecided(verdict, prompts[0], rubric), prompts[0], claims)

    def _fit_one(self, render: Callable[..., Prompt]) -> Callable[[int | None], list[Prompt]]:
        """Return the function that builds the one prompt of ``render`` for so many characters."""
        return partial(self._prompt_builder.fit, lambda *limits: [render(*limits)])

    async def _ask_shrinking(
        self,
        judge_call: JudgeCall,
        build: Callable[[int | None], list[Prompt]],
        max_characters: int | None = None,
    ) -> tuple[list[Verdict], list[Prompt], TooLong | None]:
        """Return the verdicts on prompts that fit, the prompts, and why they are no longer. After a
        failure it is the only verdict, without prompts.
        """
        unsure_count, too_long = 0, None  # prompts that only a missing tag declared too long
        for _ in range(MAX_SHRINKS):
            try:
                prompts = build(max_characters)
                calls = [self._converse(judge_call, prompt) for prompt in prompts]
                return await gather_all(calls), prompts, too_long
            except (UnreadableTrace, CallFailed) as error:
                return [_make_failure(error)], [], too_long
            except TooLong as error:
                # The list of findings keeps its length.
                max_characters, too_long = error.max_characters - len(prompts[0].aside), error
                unsure_count += not error.sure
                if max_characters < MIN_CHARACTERS or unsure_count > _GUESSES:
                    break
        judge_call.bad += judge_call.keys
        assert too_long  # noqa: S101 - else it has returned
        return [_make_failure(too_long)], [], too_long

    async def _converse(self, judge_call: JudgeCall, prompt: Prompt) -> Verdict:
        """Ask until an answer is accepted or no re-ask is left.

        If only quotes of the last answer are wrong, it is returned: its false findings are rejected
        later. If an answer contradicts itself and all its quotes are true, it wins over later
        answers. Any other answer is a failure.
        """
        request_keys: list[str] = []
        response_format = self._choose_format(prompt, judge_call.sample)
        while True:
            try:
                verdict = await self._run_dialogue(
                    judge_call, prompt, response_format, request_keys
                )
                break
            except FormatChanged:  # at most once for each format
                response_format = self.response_format
        if verdict.error:
            judge_call.bad += request_keys
        return verdict

    async def _run_dialogue(
        self,
        judge_call: JudgeCall,
        prompt: Prompt,
        response_format: ResponseFormat,
        request_keys: list[str],
    ) -> Verdict:
        request = ModelRequest(prompt, response_format, judge_call.sample)
        wrong, text, read = InvalidAnswer(["no answer"]), "", False
        verified: Verdict | None = None  # the last verdict with true quotes only
        for turn in range(1 + self.options.reasks):
            try:
                response = await self._ask_longer(judge_call, request, request_keys)
            except CallFailed as error:
                if verified or (request.retries and isinstance(error, Unanswered)):
                    break
                return _make_failure(error)
            if response.too_long:
                if verified:
                    break
                raise self._prompt_builder.refused(response, prompt)
            judge_call.names.append(response.model)
            if failed := self._find_failure(response):
                return verified or failed
            answer = extract_answer(response, request.response_format)
            before, text = text, answer or response.text
            if text and text == before and not wrong.unread:
                break  # the model repeats itself
            try:
                if answer is None:
                    calls = request.response_format in ("tools", "named")
                    what = "call the function exactly once" if calls else "one JSON object"
                    raise InvalidAnswer([f"there is not one answer in it: {what}"])
                return self._read(answer, judge_call, prompt)
            except InvalidAnswer as error:
                if error.unread and read:
                    break  # an earlier answer had the tags, so the prompt was read
                if error.unread and (turn or not self.options.reasks):
                    raise self._prompt_builder.cut(prompt, str(error)) from error
                wrong, read = error, read or error.unread is False
                if error.verdict and all(claim.evidence for claim in error.verdict.claims):
                    verified = error.verdict
                request = request.again(response, error)
        if verdict := verified or wrong.verdict:
            return verdict
        reason = f"malformed answer: {sanitize_line(str(wrong), 300)}"
        return Verdict(error=reason, failure="tags" if wrong.unread else "form")

    def _read(self, answer: str, judge_call: JudgeCall, prompt: Prompt) -> Verdict:
        """Return the verdict in a JSON text; raises InvalidAnswer."""
        return read_answer(answer, judge_call.trace, prompt)

    def _find_failure(self, response: ModelResponse) -> Verdict | None:
        """Return the failure of a response that no re-ask can mend, or None."""
        if response.refusal:
            reason = f"the model refuses: {sanitize_line(response.refusal, 300)}"
            return Verdict(error=reason, failure="refusal")
        if response.finish == "content_filter":
            reason = "the server's content filter stopped the answer"
            return Verdict(error=reason, failure="refusal")
        if response.finish == "length":
            return Verdict(error=_describe_cut(self.options.max_output_tokens), failure="length")
        size = len(response.text) + sum(len(arguments) for _, _, arguments in response.calls)
        if size > _LONGEST_ANSWER:  # every re-ask would send it back
            reason = f"an answer of {size} characters, which is more than any judgement has"
            return Verdict(error=reason, failure="form")
        return None

    async def _ask_longer(
        self, judge_call: JudgeCall, request: ModelRequest, request_keys: list[str]
    ) -> ModelResponse:
        """Return the response; ask again with twice the limit if the limit cut it off."""
        cap = self.options.max_output_tokens
        response = await self._ask_once(judge_call, request, self.options, request_keys)
        if response.finish != "length" or response.too_long or not cap:
            return response
        longer = replace(self.options, max_output_tokens=2 * cap)
        message = f"the answer was cut off at {cap} tokens, and for one of {2 * cap}: "
        try:
            response = await self._ask_once(judge_call, request, longer, request_keys)
        except CallFailed as error:
            kind = Unanswered if isinstance(error, Unanswered) else CallFailed
            raise kind(message + str(error), "length") from error
        if response.too_long:  # the prompt itself was accepted before
            raise CallFailed(message + response.text, "length")
        return response

    async def _ask_once(
        self,
        judge_call: JudgeCall,
        request: ModelRequest,
        options: Options,
        request_keys: list[str],
    ) -> ModelResponse:
        """Return the response from the cache or the endpoint."""
        key = request.key(options)
        request_keys.append(key)
        again = options is not self.options or bool(request.retries)
        cache = self.session.cache
        cached = cache.get(key, judge_call.name) if cache else None
        if cached:
            if cached.unbilled and key not in judge_call.keys:
                judge_call.usage += cached.usage + Usage(retries=int(again))
            else:
                judge_call.usage += Usage(cache_hits=1)
            judge_call.keys.append(key)
            return cached.response
        spent = Usage(retries=int(again))

        def count(usage: Usage) -> None:
            nonlocal spent
            spent += usage
            judge_call.usage += usage

        judge_call.usage += spent
        response = await self._ask(request, options, key, count)
        judge_call.keys.append(key)
        if cache:
            cache.put(key, self.options.model, response, spent)
        return response

    def expects(self, trace: Trace, rubric: Rubric) -> UsageRange:
        """See :meth:`annotator.judges.base.RunJudge.expects`."""
        return self.forecast(trace, rubric, self.session.first_sample)

    def forecast(self, trace: Trace, rubric: Rubric, sample: int) -> UsageRange:
        """Estimate the usage of a sample of a trace; raises as
        :meth:`annotator.judges.llm.request.PromptBuilder.prompts`.
        """
        response_format = self.response_format
        if response_format == "auto":
            response_format = self._load_format() or self._format_fallbacks[0]
        expected = UsageRange()
        for prompt in self._prompt_builder.prompts(trace, rubric):
            key = ModelRequest(prompt, response_format, sample).key(self.options)
            if self.session.cache and self.session.cache.get(key):
                expected += UsageRange(Usage(cache_hits=1), Usage(cache_hits=1))
                continue
            if (keys := self.session.forecast_keys) is not None:
                if key in keys:
                    continue
                keys.add(key)
            schema = build_answer_schema(rubric, self.options.considered)
            tokens = estimate_tokens(prompt.user) + estimate_tokens(prompt.system + schema)
            expected += UsageRange(
                *(self.expect_call(tokens, n) for n in (SHORT_ANSWER, LONG_ANSWER))
            )
        return expected

    def expect_call(self, prompt: int, answer: int) -> Usage:
        """Return the usage of a call with so many tokens of prompt and answer."""
        usage = Usage(input_tokens=prompt, output_tokens=self._cap(answer), calls=1)
        return replace(usage, cost_usd=self.price.of(usage) if self.price else None)

    @property
    def assumption(self) -> str:
        """See :attr:`annotator.judges.base.RunJudge.assumption`."""
        price = self.price
        priced = (
            f"{price}, nothing cached by the provider"
            if price
            else "price not known (--price-in, --price-out, or --prices FILE)"
        )
        short, long = self._cap(SHORT_ANSWER), self._cap(LONG_ANSWER)
        answer = f"{short:,} to {long:,}" if short < long else f"{long:,}"
        return (
            f"{self.options.model}: {HOW_COUNTED}; answers of {answer} tokens;"
            f" no answer is asked for again and no call is repeated; {priced}"
        )


async def gather_all(coroutines: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Return all results; every coroutine runs to its end, also if another one fails.

    Raises:
        Pending: one is pending and none failed. Else the first failure is raised.
    """
    if len(coroutines) == 1:
        return [await coroutines[0]]
    results = await asyncio.gather(*coroutines, return_exceptions=True)
    errors = [result for result in results if isinstance(result, BaseException)]
    for error in sorted(errors, key=lambda result: isinstance(result, Pending)):
        raise error
    return [result for result in results if not isinstance(result, BaseException)]


def _make_failure(error: UnreadableTrace | CallFailed | TooLong) -> Verdict:
    """Return the failed verdict for an error."""
    failure = "unreadable" if isinstance(error, UnreadableTrace) else error.failure
    return Verdict(error=str(error), failure=failure)


def _describe_cut(cap: int | None) -> str:
    """Return the message for an answer that was cut off."""
    if cap is None:
        return (
            "the answer was cut off at the server's token limit; set max_output_tokens in a judge"
            " file"
        )
    return (
        f"the answer was cut off at {cap} tokens, and at {2 * cap} when it was asked once more:"
        " set a larger max_output_tokens in a judge file, or none"
    )
