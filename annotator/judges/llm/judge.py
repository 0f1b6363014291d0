"""The language-model judge: any OpenAI-compatible endpoint, answers checked and asked for again."""

import asyncio
import json
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
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
    MAX_SHRINKS,
    MIN_CHARACTERS,
    ModelRequest,
    PromptBuilder,
    TooLong,
    hash_format,
    list_libraries,
)
from annotator.judges.llm.response import CallFailed, ModelResponse, Unanswered
from annotator.judges.llm.settings import Options, hash_environment_headers
from annotator.prompts.parts import measure_reading
from annotator.prompts.render import (
    Prompt,
    facts_sha256,
    first_claims,
    prompt_sha256,
)
from annotator.prompts.windows import leave_open, leave_unseen_open, merge
from annotator.rubrics import Rubric
from annotator.rubrics.annotations import Usage, UsageRange, Verdict
from annotator.traces import Trace

T = TypeVar("T")
_GUESSES = 2  # how often a prompt is made shorter for its tags alone
_LONGEST_ANSWER = 1 << 20  # characters, with the thoughts that some models write into it


@dataclass(slots=True)
class JudgeCall:
    """One trace being judged, and what it cost so far.

    ``keys`` are those of the answers it rests on, ``bad`` of the ones that led to a failure,
    ``names`` what the server calls the model that gave them.
    """

    trace: Trace
    rubric: Rubric
    sample: int = 1
    usage: Usage = field(default_factory=Usage)
    keys: list[str] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The rubric and the trace, as the cache knows them."""
        return f"{self.rubric.id}\n{self.trace.id}"


class LLMJudge(Model):
    """Judges with one language model; its answers are checked and, where wrong, asked for again.

    Raises:
        AnnotatorError: no usable URL, or no API key for a URL that is not on this machine.
    """

    def __init__(self, options: Options, session: Session | None = None) -> None:
        super().__init__(options, session)
        self._context = options.context or self._listed.context
        self._prompt_builder = PromptBuilder(options, self._context)

    @property
    def id(self) -> str:
        """``llm:<model>``."""
        return f"llm:{self.options.model}"

    @property
    def settings(self) -> Mapping[str, Any]:
        """What decides the answers; the key is not among it."""
        options = self.options
        # Named only where they are asked for, so that runs from before there were any go on.
        layout = {"considered": options.considered, "rubric_last": options.rubric_last}
        facts = {"facts": True, "facts_sha256": facts_sha256()} if options.facts else {}
        headers: dict[str, Any] = (
            {"headers_sha256": digest} if (digest := hash_environment_headers(options.api)) else {}
        )
        headers |= {"headers": options.headers_sha256} if options.headers else {}
        provider_setting = {"dialect": options.dialect} if options.dialect else {}
        api = {"api": options.api} if options.api != "auto" else {}
        return {
            "model": options.model,
            "base_url": options.address,
            "mode": options.mode,
            "reasks": options.reasks,
            "parameters": hide_values(options.parameters(1)),
            "context": self._context,
            "windows": options.windows,
            **layout,
            **facts,
            **headers,
            **provider_setting,
            **api,
            "in_batches": self.session.in_batches,
            "form_sha256": hash_format(),
            "libraries": list_libraries(),
            "prompt_sha256": prompt_sha256(),
        }

    @property
    def learned(self) -> Mapping[str, Any]:
        """The form and the API in which this endpoint answers, and the forms that it refused; that
        the temperature is its own; the price that costs were computed with, and what bounds a call.
        """
        options = self.options
        limits = {"attempts": options.attempts, "max_wait": options.max_wait}
        price = asdict(self.price) if self.price else None
        api = {"api": self.api} if self.api != options.api else {}
        sent = json.dumps(options.parameters(1))
        unsent = {} if '"temperature"' in sent else {"temperature": "the server's"}
        learned: dict[str, Any] = {
            "mode": self.response_format,
            **unsent,
            **api,
            "price": price,
            **limits,
            "timeout": options.timeout,
        }
        if self._refused:
            learned["refused_modes"] = dict(self._refused)
        if self.answered_by:
            learned["answered_by"] = dict(self.answered_by)
        return learned

    @property
    def state(self) -> str:
        """See :attr:`annotator.judges.base.Judge.state`."""
        return self.session.rate_limiter.state

    def codes(self, rubric: Rubric) -> frozenset[str]:
        """A model can give any code."""
        return frozenset(code.id for code in rubric.codes)

    def screens(self, rubric: Rubric) -> frozenset[str]:
        """It is asked about every code alike: what it does not find, it says is not there."""
        return frozenset()

    async def judge(self, trace: Trace, rubric: Rubric) -> Verdict:
        """Return the model's verdict; see :meth:`annotator.judges.base.Judge.judge`."""
        judge_call = JudgeCall(trace, rubric)
        verdict = await self.decide(judge_call)
        self.file(judge_call, verdict)
        return verdict

    async def decide(self, judge_call: JudgeCall) -> Verdict:
        """Return the verdict of one judgement, to be filed; raises as :meth:`judge`."""
        try:
            verdict = await self._judge_trace(judge_call)
        except Pending:
            raise
        except BaseException:
            self.drop(judge_call)
            raise
        for name in judge_call.names:
            self._count_name(name)
        return replace(verdict, usage=judge_call.usage)

    def file(self, judge_call: JudgeCall, verdict: Verdict) -> None:
        """Note that the cost of a judgement is recorded. If it failed, forget its bad answers."""
        self._bill(judge_call, judge_call.bad if verdict.error else ())

    def drop(self, judge_call: JudgeCall) -> None:
        """Count the cost of a judgement without an annotation: the run was stopped."""
        self._overhead += judge_call.usage
        self._bill(judge_call, judge_call.bad)

    def _bill(self, judge_call: JudgeCall, bad: Sequence[str]) -> None:
        if cache := self.session.cache:
            cache.bill(judge_call.keys)
            if not self.outbox or self.outbox.asks_again:
                cache.forget(bad)

    async def _judge_trace(self, judge_call: JudgeCall) -> Verdict:
        """Ask about the whole trace, or about as much of it as the model can read."""
        most, words, failure = None, "", None
        guessed = 0  # how often only the tags of an answer said that the prompt was cut
        for _ in range(MAX_SHRINKS):
            try:
                prompts = self._prompt_builder.prompts(judge_call.trace, judge_call.rubric, most)
            except (UnreadableTrace, CallFailed) as error:
                return _make_failure(error)
            try:
                verdicts = await gather_all(
                    [self._converse(judge_call, prompt) for prompt in prompts]
                )
            except TooLong as error:
                guessed += not error.sure
                if error.most < MIN_CHARACTERS or guessed > _GUESSES:
                    judge_call.bad += judge_call.keys
                    return _make_failure(error)
                most, words, failure = error.most, str(error), error.failure
                continue
            verdict = merge(verdicts, prompts, judge_call.rubric)
            if words and verdict.error:
                return replace(verdict, error=f"{words}; of less of it: {verdict.error}")
            if len(prompts) > 1 and not verdict.error and any(c.evidence for c in verdict.claims):
                room = max(len(prompt.shown) for prompt in prompts)
                confirmed = await self._confirm(judge_call, verdict, most, room // 2)
                # What was proposed without a quote that stands was not decided about.
                open_ = () if confirmed.error else [c for c in verdict.claims if not c.evidence]
                claims = (*confirmed.claims, *open_)
                verdict = replace(confirmed, truncated=verdict.truncated, claims=claims)
            share = measure_reading(judge_call.trace, judge_call.rubric, verdict.truncated)
            return replace(verdict, read=share)
        judge_call.bad += judge_call.keys
        return Verdict(error=words, failure=failure)

    async def _confirm(
        self, judge_call: JudgeCall, proposed: Verdict, most: int | None, aside: int
    ) -> Verdict:
        """Decide about the findings of windows, with what the others held beside them, as far as
        they are told in ``aside`` characters.
        """
        trace, rubric = judge_call.trace, judge_call.rubric
        claims = [claim for claim in proposed.claims if claim.evidence]
        first = first_claims(claims, aside)
        guessed = 0
        for _ in range(MAX_SHRINKS):
            try:
                prompt = self._prompt_builder.confirmation(trace, rubric, first, most)
                verdict = await self._converse(judge_call, prompt)
            except (UnreadableTrace, CallFailed) as error:
                return _make_failure(error, "confirming call: ")
            except TooLong as error:
                # The proposals stand in it however short the trace is made.
                most, last = error.most - len(prompt.aside), error
                guessed += not error.sure
                if most < MIN_CHARACTERS or guessed > _GUESSES:
                    break
                continue
            if verdict.error:
                return replace(verdict, error=f"confirming call: {verdict.error}")
            return leave_unseen_open(leave_open(verdict, prompt, rubric), prompt, claims)
        judge_call.bad += judge_call.keys
        return _make_failure(last, "confirming call: ")

    async def _converse(self, judge_call: JudgeCall, prompt: Prompt) -> Verdict:
        """Ask until an answer stands or the re-asks are used up.

        If the last answer had the right form and only its quotes were wrong, it is passed on: the
        findings that do not stand will be rejected. If all quotes of an answer are true and it only
        contradicts itself, it counts before the answers after it. Anything else is a failure.
        """
        asked: list[str] = []
        response_format = self._choose_format(prompt, judge_call.sample)
        while True:
            try:
                verdict = await self._run_dialogue(judge_call, prompt, response_format, asked)
                break
            except FormatChanged:  # at most once for each form
                response_format = self.response_format
        if verdict.error:
            judge_call.bad += asked
        return verdict

    async def _run_dialogue(
        self,
        judge_call: JudgeCall,
        prompt: Prompt,
        response_format: ResponseFormat,
        asked: list[str],
    ) -> Verdict:
        request = ModelRequest(prompt, response_format, judge_call.sample)
        wrong, text, read = InvalidAnswer(["no answer"]), "", False
        verified: Verdict | None = None  # the last whose quotes are all true
        for turn in range(1 + self.options.reasks):
            try:
                response = await self._ask_longer(judge_call, request, asked)
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
                break  # it repeats itself, and would go on
            try:
                if answer is None:
                    calls = request.response_format in ("tools", "named")
                    what = "call the function exactly once" if calls else "one JSON object"
                    raise InvalidAnswer([f"there is not one answer in it: {what}"])
                return read_answer(answer, judge_call.trace, prompt)
            except InvalidAnswer as error:
                if error.unread and read:
                    break  # an answer to the same prompt had the tags: this one forgot them
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

    def _find_failure(self, response: ModelResponse) -> Verdict | None:
        """Return the failure that a reply is, if it is one; asking again would not help."""
        if response.refusal:
            reason = f"the model refuses: {sanitize_line(response.refusal, 300)}"
            return Verdict(error=reason, failure="refusal")
        if response.finish == "content_filter":
            reason = "the server's content filter stopped the answer"
            return Verdict(error=reason, failure="refusal")
        if response.finish == "length":
            return Verdict(error=_describe_cut(self.options.max_output_tokens), failure="length")
        size = len(response.text) + sum(len(arguments) for _, _, arguments in response.calls)
        if size > _LONGEST_ANSWER:  # it would be sent back with every re-ask
            reason = f"an answer of {size} characters, which is more than any judgement has"
            return Verdict(error=reason, failure="form")
        return None

    async def _ask_longer(
        self, judge_call: JudgeCall, request: ModelRequest, asked: list[str]
    ) -> ModelResponse:
        """Return the answer to one question; where the user's longest one cut it off, the answer
        to the same with twice that. ``asked`` takes the keys.
        """
        cap = self.options.max_output_tokens
        response = await self._ask_once(judge_call, request, self.options, asked)
        if response.finish != "length" or response.too_long or not cap:
            return response
        longer = replace(self.options, max_output_tokens=2 * cap)
        words = f"the answer was cut off at {cap} tokens, and for one of {2 * cap}: "
        try:
            response = await self._ask_once(judge_call, request, longer, asked)
        except CallFailed as error:
            kind = Unanswered if isinstance(error, Unanswered) else CallFailed
            raise kind(words + str(error), "length") from error
        if response.too_long:  # not the prompt, which was read a moment ago
            raise CallFailed(words + response.text, "length")
        return response

    async def _ask_once(
        self, judge_call: JudgeCall, request: ModelRequest, options: Options, asked: list[str]
    ) -> ModelResponse:
        """Return the answer to one request: a known one, or the endpoint's."""
        key = request.key(options)
        asked.append(key)
        again = options is not self.options or bool(request.retries)
        cache = self.session.cache
        kept = cache.get(key, judge_call.name) if cache else None
        if kept:
            if kept.unbilled and key not in judge_call.keys:
                judge_call.usage += kept.usage + Usage(retries=int(again))
            else:
                judge_call.usage += Usage(cache_hits=1)
            judge_call.keys.append(key)
            return kept.response
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
        """See :meth:`annotator.judges.base.Judge.expects`."""
        return self.forecast(trace, rubric, 1)

    def forecast(self, trace: Trace, rubric: Rubric, sample: int) -> UsageRange:
        """Return what the sample-th judgement of a trace is expected to use; raises as
        :meth:`annotator.judges.llm.request.PromptBuilder.prompts`.
        """
        auto = self.response_format == "auto"
        response_format: ResponseFormat = (
            (self._load_format() or self._format_fallbacks[0]) if auto else self.response_format
        )
        expected = UsageRange()
        for prompt in self._prompt_builder.prompts(trace, rubric):
            key = ModelRequest(prompt, response_format, sample).key(self.options)
            if self.session.cache and self.session.cache.get(key):
                expected += UsageRange(Usage(cache_hits=1), Usage(cache_hits=1))
                continue
            count, schema = (
                self._prompt_builder.tokens.count,
                build_answer_schema(rubric, self.options.considered),
            )
            tokens = count(prompt.user) + count(prompt.system + schema)
            expected += UsageRange(*(self._call(tokens, n) for n in (SHORT_ANSWER, LONG_ANSWER)))
        return expected

    def _call(self, prompt: int, answer: int) -> Usage:
        """Return what a call uses, with a prompt and an answer of so many tokens."""
        usage = Usage(input_tokens=prompt, output_tokens=self._cap(answer), calls=1)
        return replace(usage, cost_usd=self.price.of(usage) if self.price else None)

    @property
    def assumption(self) -> str:
        """See :attr:`annotator.judges.base.Judge.assumption`."""
        price = self.price
        priced = (
            f"{price.input:g} USD per million tokens of input and {price.output:g} of output"
            f" ({price.source}), nothing cached by the provider"
            if price
            else "price not known (--price-in, --price-out, or --prices FILE)"
        )
        short, long = self._cap(SHORT_ANSWER), self._cap(LONG_ANSWER)
        answer = f"{short:,} to {long:,}" if short < long else f"{long:,}"
        return (
            f"{self.options.model}: {self._prompt_builder.tokens}; answers of {answer} tokens;"
            f" no answer is asked for again and no call is repeated; {priced}"
        )


async def gather_all(asked: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Return all results; each is awaited to its end, also if another one fails.

    Raises:
        Pending: one is pending and none failed. Else the first failure is raised.
    """
    if len(asked) == 1:
        return [await asked[0]]
    results = await asyncio.gather(*asked, return_exceptions=True)
    errors = [result for result in results if isinstance(result, BaseException)]
    for error in sorted(errors, key=lambda result: isinstance(result, Pending)):
        raise error
    return [result for result in results if not isinstance(result, BaseException)]


def _make_failure(error: UnreadableTrace | CallFailed | TooLong, where: str = "") -> Verdict:
    """Return the verdict that an error about one trace is; ``where`` begins its message."""
    failure = "unreadable" if isinstance(error, UnreadableTrace) else error.failure
    return Verdict(error=f"{where}{error}", failure=failure)


def _describe_cut(cap: int | None) -> str:
    """Return why an answer that was cut off is no judgement."""
    if cap is None:
        return (
            "the answer was cut off at the server's token limit; set max_output_tokens in a judge"
            " file"
        )
    return (
        f"the answer was cut off at {cap} tokens, and at {2 * cap} when it was asked once more:"
        " set a larger max_output_tokens in a judge file, or none"
    )
