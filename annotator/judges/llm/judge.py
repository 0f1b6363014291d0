"""The language-model judge: any OpenAI-compatible endpoint, answers checked and asked for again."""

import asyncio
import json
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar

from annotator.base.errors import Pending, UnreadableTrace
from annotator.base.text import hide_values, sanitize_line
from annotator.judges.base import Mode
from annotator.judges.llm.answer import Wrong, answer_schema, answer_text, read_answer
from annotator.judges.llm.model import LONG_ANSWER, SHORT_ANSWER, FormChanged, Model, Session
from annotator.judges.llm.request import (
    LEAST,
    SHRINKS,
    Question,
    Reader,
    TooLong,
    form_sha256,
    libraries,
)
from annotator.judges.llm.response import CallFailed, Reply, Unanswered
from annotator.judges.llm.settings import Options, headers_sha256
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
class Judgement:
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
        self._reader = Reader(options, self._context)

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
            {"headers_sha256": digest} if (digest := headers_sha256(options.api)) else {}
        )
        headers |= {"headers": options.headers_sha256} if options.headers else {}
        dialect = {"dialect": options.dialect} if options.dialect else {}
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
            **dialect,
            **api,
            "in_batches": self.session.in_batches,
            "form_sha256": form_sha256(),
            "libraries": libraries(),
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
            "mode": self.mode,
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
        return self.session.pace.state

    def codes(self, rubric: Rubric) -> frozenset[str]:
        """A model can give any code."""
        return frozenset(code.id for code in rubric.codes)

    def screens(self, rubric: Rubric) -> frozenset[str]:
        """It is asked about every code alike: what it does not find, it says is not there."""
        return frozenset()

    async def judge(self, trace: Trace, rubric: Rubric) -> Verdict:
        """Return the model's verdict; see :meth:`annotator.judges.base.Judge.judge`."""
        judgement = Judgement(trace, rubric)
        verdict = await self.decide(judgement)
        self.file(judgement, verdict)
        return verdict

    async def decide(self, judgement: Judgement) -> Verdict:
        """Return the verdict of one judgement, to be filed; raises as :meth:`judge`."""
        try:
            verdict = await self._decided(judgement)
        except Pending:
            raise
        except BaseException:
            self.drop(judgement)
            raise
        for name in judgement.names:
            self._note_name(name)
        return replace(verdict, usage=judgement.usage)

    def file(self, judgement: Judgement, verdict: Verdict) -> None:
        """Note that the cost of a judgement is recorded. If it failed, forget its bad answers."""
        self._bill(judgement, judgement.bad if verdict.error else ())

    def drop(self, judgement: Judgement) -> None:
        """Count the cost of a judgement without an annotation: the run was stopped."""
        self._overhead += judgement.usage
        self._bill(judgement, judgement.bad)

    def _bill(self, judgement: Judgement, bad: Sequence[str]) -> None:
        if cache := self.session.cache:
            cache.bill(judgement.keys)
            if not self.outbox or self.outbox.asks_again:
                cache.forget(bad)

    async def _decided(self, judgement: Judgement) -> Verdict:
        """Ask about the whole trace, or about as much of it as the model can read."""
        most, words, failure = None, "", None
        guessed = 0  # how often only the tags of an answer said that the prompt was cut
        for _ in range(SHRINKS):
            try:
                prompts = self._reader.prompts(judgement.trace, judgement.rubric, most)
            except (UnreadableTrace, CallFailed) as error:
                return _fail(error)
            try:
                verdicts = await together(
                    [self._conversed(judgement, prompt) for prompt in prompts]
                )
            except TooLong as error:
                guessed += not error.sure
                if error.most < LEAST or guessed > _GUESSES:
                    judgement.bad += judgement.keys
                    return _fail(error)
                most, words, failure = error.most, str(error), error.failure
                continue
            verdict = merge(verdicts, prompts, judgement.rubric)
            if words and verdict.error:
                return replace(verdict, error=f"{words}; of less of it: {verdict.error}")
            if len(prompts) > 1 and not verdict.error and any(c.evidence for c in verdict.claims):
                room = max(len(prompt.shown) for prompt in prompts)
                confirmed = await self._confirmed(judgement, verdict, most, room // 2)
                # What was proposed without a quote that stands was not decided about.
                open_ = () if confirmed.error else [c for c in verdict.claims if not c.evidence]
                claims = (*confirmed.claims, *open_)
                verdict = replace(confirmed, truncated=verdict.truncated, claims=claims)
            share = measure_reading(judgement.trace, judgement.rubric, verdict.truncated)
            return replace(verdict, read=share)
        judgement.bad += judgement.keys
        return Verdict(error=words, failure=failure)

    async def _confirmed(
        self, judgement: Judgement, proposed: Verdict, most: int | None, aside: int
    ) -> Verdict:
        """Decide about the findings of windows, with what the others held beside them, as far as
        they are told in ``aside`` characters.
        """
        trace, rubric = judgement.trace, judgement.rubric
        claims = [claim for claim in proposed.claims if claim.evidence]
        first = first_claims(claims, aside)
        guessed = 0
        for _ in range(SHRINKS):
            try:
                prompt = self._reader.confirmation(trace, rubric, first, most)
                verdict = await self._conversed(judgement, prompt)
            except (UnreadableTrace, CallFailed) as error:
                return _fail(error, "confirming call: ")
            except TooLong as error:
                # The proposals stand in it however short the trace is made.
                most, last = error.most - len(prompt.aside), error
                guessed += not error.sure
                if most < LEAST or guessed > _GUESSES:
                    break
                continue
            if verdict.error:
                return replace(verdict, error=f"confirming call: {verdict.error}")
            return leave_unseen_open(leave_open(verdict, prompt, rubric), prompt, claims)
        judgement.bad += judgement.keys
        return _fail(last, "confirming call: ")

    async def _conversed(self, judgement: Judgement, prompt: Prompt) -> Verdict:
        """Ask until an answer stands or the re-asks are used up.

        If the last answer had the right form and only its quotes were wrong, it is passed on: the
        findings that do not stand will be rejected. If all quotes of an answer are true and it only
        contradicts itself, it counts before the answers after it. Anything else is a failure.
        """
        asked: list[str] = []
        mode = self._form_of(prompt, judgement.sample)
        while True:
            try:
                verdict = await self._dialogue(judgement, prompt, mode, asked)
                break
            except FormChanged:  # at most once for each form
                mode = self.mode
        if verdict.error:
            judgement.bad += asked
        return verdict

    async def _dialogue(
        self, judgement: Judgement, prompt: Prompt, mode: Mode, asked: list[str]
    ) -> Verdict:
        question = Question(prompt, mode, judgement.sample)
        wrong, text, read = Wrong(["no answer"]), "", False
        standing: Verdict | None = None  # the last whose quotes are all true
        for turn in range(1 + self.options.reasks):
            try:
                reply = await self._answered(judgement, question, asked)
            except CallFailed as error:
                if standing or (question.turns and isinstance(error, Unanswered)):
                    break
                return _fail(error)
            if reply.too_long:
                if standing:
                    break
                raise self._reader.refused(reply, prompt)
            judgement.names.append(reply.model)
            if failed := self._no_judgement(reply):
                return standing or failed
            answer = answer_text(reply, question.mode)
            before, text = text, answer or reply.text
            if text and text == before and not wrong.unread:
                break  # it repeats itself, and would go on
            try:
                if answer is None:
                    calls = question.mode in ("tools", "named")
                    what = "call the function exactly once" if calls else "one JSON object"
                    raise Wrong([f"there is not one answer in it: {what}"])
                return read_answer(answer, judgement.trace, prompt)
            except Wrong as error:
                if error.unread and read:
                    break  # an answer to the same prompt had the tags: this one forgot them
                if error.unread and (turn or not self.options.reasks):
                    raise self._reader.cut(prompt, str(error)) from error
                wrong, read = error, read or error.unread is False
                if error.verdict and all(claim.evidence for claim in error.verdict.claims):
                    standing = error.verdict
                question = question.again(reply, error)
        if verdict := standing or wrong.verdict:
            return verdict
        reason = f"malformed answer: {sanitize_line(str(wrong), 300)}"
        return Verdict(error=reason, failure="tags" if wrong.unread else "form")

    def _no_judgement(self, reply: Reply) -> Verdict | None:
        """Return the failure that a reply is, if it is one; asking again would not help."""
        if reply.refusal:
            reason = f"the model refuses: {sanitize_line(reply.refusal, 300)}"
            return Verdict(error=reason, failure="refusal")
        if reply.finish == "content_filter":
            reason = "the server's content filter stopped the answer"
            return Verdict(error=reason, failure="refusal")
        if reply.finish == "length":
            return Verdict(error=_cut_off(self.options.max_output_tokens), failure="length")
        size = len(reply.text) + sum(len(arguments) for _, _, arguments in reply.calls)
        if size > _LONGEST_ANSWER:  # it would be sent back with every re-ask
            reason = f"an answer of {size} characters, which is more than any judgement has"
            return Verdict(error=reason, failure="form")
        return None

    async def _answered(self, judgement: Judgement, question: Question, asked: list[str]) -> Reply:
        """Return the answer to one question; where the user's longest one cut it off, the answer
        to the same with twice that. ``asked`` takes the keys.
        """
        cap = self.options.max_output_tokens
        reply = await self._answer(judgement, question, self.options, asked)
        if reply.finish != "length" or reply.too_long or not cap:
            return reply
        longer = replace(self.options, max_output_tokens=2 * cap)
        words = f"the answer was cut off at {cap} tokens, and for one of {2 * cap}: "
        try:
            reply = await self._answer(judgement, question, longer, asked)
        except CallFailed as error:
            kind = Unanswered if isinstance(error, Unanswered) else CallFailed
            raise kind(words + str(error), "length") from error
        if reply.too_long:  # not the prompt, which was read a moment ago
            raise CallFailed(words + reply.text, "length")
        return reply

    async def _answer(
        self, judgement: Judgement, question: Question, options: Options, asked: list[str]
    ) -> Reply:
        """Return the answer to one request: a known one, or the endpoint's."""
        key = question.key(options)
        asked.append(key)
        again = options is not self.options or bool(question.turns)
        cache = self.session.cache
        kept = cache.get(key, judgement.name) if cache else None
        if kept:
            if kept.unbilled and key not in judgement.keys:
                judgement.usage += kept.usage + Usage(retries=int(again))
            else:
                judgement.usage += Usage(cache_hits=1)
            judgement.keys.append(key)
            return kept.reply
        spent = Usage(retries=int(again))

        def count(usage: Usage) -> None:
            nonlocal spent
            spent += usage
            judgement.usage += usage

        judgement.usage += spent
        reply = await self._asked(question, options, key, count)
        judgement.keys.append(key)
        if cache:
            cache.put(key, self.options.model, reply, spent)
        return reply

    def expects(self, trace: Trace, rubric: Rubric) -> UsageRange:
        """See :meth:`annotator.judges.base.Judge.expects`."""
        return self.forecast(trace, rubric, 1)

    def forecast(self, trace: Trace, rubric: Rubric, sample: int) -> UsageRange:
        """Return what the sample-th judgement of a trace is expected to use; raises as
        :meth:`annotator.judges.llm.request.Reader.prompts`.
        """
        auto = self.mode == "auto"
        mode: Mode = (self._recall_mode() or self._forms[0]) if auto else self.mode
        expected = UsageRange()
        for prompt in self._reader.prompts(trace, rubric):
            key = Question(prompt, mode, sample).key(self.options)
            if self.session.cache and self.session.cache.get(key):
                expected += UsageRange(Usage(cache_hits=1), Usage(cache_hits=1))
                continue
            count, schema = (
                self._reader.tokens.count,
                answer_schema(rubric, self.options.considered),
            )
            tokens = count(prompt.user) + count(prompt.system + schema)
            expected += UsageRange(*(self._call(tokens, n) for n in (SHORT_ANSWER, LONG_ANSWER)))
        return expected

    def _call(self, prompt: int, answer: int) -> Usage:
        """Return what a call uses, with a prompt and an answer of so many tokens."""
        usage = Usage(input_tokens=prompt, output_tokens=self._capped(answer), calls=1)
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
        short, long = self._capped(SHORT_ANSWER), self._capped(LONG_ANSWER)
        answer = f"{short:,} to {long:,}" if short < long else f"{long:,}"
        return (
            f"{self.options.model}: {self._reader.tokens}; answers of {answer} tokens;"
            f" no answer is asked for again and no call is repeated; {priced}"
        )


async def together(asked: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
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


def _fail(error: UnreadableTrace | CallFailed | TooLong, where: str = "") -> Verdict:
    """Return the verdict that an error about one trace is; ``where`` begins its message."""
    failure = "unreadable" if isinstance(error, UnreadableTrace) else error.failure
    return Verdict(error=f"{where}{error}", failure=failure)


def _cut_off(cap: int | None) -> str:
    """Return why an answer that was cut off is no judgement."""
    if cap is None:
        return "the answer was cut off at the server's token limit; max_output_tokens sets one"
    return (
        f"the answer was cut off at {cap} tokens, and at {2 * cap} when it was asked once more:"
        " a larger max_output_tokens, or none"
    )
