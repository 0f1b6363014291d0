"""The language-model judge: any OpenAI-compatible endpoint, answers checked and asked for again."""

import asyncio
import re
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from annotator.annotations import Claim, Usage, Verdict
from annotator.errors import JudgeStopped, Pending, UnreadableTrace
from annotator.evidence import verify
from annotator.judges.base import Mode
from annotator.judges.llm.answer import Wrong, answer_schema, answer_text, read_answer
from annotator.judges.llm.cache import name_judgement
from annotator.judges.llm.context import (
    LEAST,
    LONGEST_ANSWER,
    SHRINKS,
    Reader,
    TooLong,
)
from annotator.judges.llm.local import ServerContext, ask_context
from annotator.judges.llm.model import TYPICAL_ANSWER, FormChanged, Model, longest_answer
from annotator.judges.llm.question import Question, form_sha256, libraries
from annotator.judges.llm.reply import CallFailed, Reply, Unanswered
from annotator.judges.llm.session import Session
from annotator.judges.llm.settings import Options, headers_sha256, is_local
from annotator.prompts import Prompt, facts_sha256, prompt_sha256
from annotator.rubrics import Rubric
from annotator.text import one_line
from annotator.traces import Trace

_ALIKE = 5  # traces that all fail in the same way, before any is judged, stop a run
_NUMBER = re.compile(r"\d+")


@dataclass(slots=True)
class Judgement:
    """One trace being judged, and what it cost so far.

    ``keys`` are those of the answers it rests on, ``bad`` of the ones that led to a failure.
    """

    trace: Trace
    rubric: Rubric
    sample: int = 1
    usage: Usage = field(default_factory=Usage)
    keys: list[str] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """What is judged, as the cache knows it."""
        return name_judgement(self.rubric.id, self.trace.id)


class LLMJudge(Model):
    """Judges with one language model; its answers are checked and, where wrong, asked for again.

    Raises:
        AnnotatorError: no usable URL, or no API key for a URL that is not on this machine.
    """

    def __init__(self, options: Options, session: Session | None = None) -> None:
        super().__init__(options, session)
        self._context = options.context or self._listed.context
        self._asked_context: ServerContext | None = None
        self._alike: dict[str, str] | None = {}  # how the first traces failed, while they all do
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
        facts = {"facts": True, "facts_sha256": facts_sha256()} if options.facts else {}
        headers = {"headers_sha256": digest} if (digest := headers_sha256()) else {}
        return {
            "model": options.model,
            "base_url": options.address,
            "mode": options.mode,
            "reasks": options.reasks,
            "parameters": options.parameters(1),
            "context": self._context,
            "windows": options.windows,
            **facts,
            **headers,
            "in_batches": self.session.in_batches,
            "form_sha256": form_sha256(),
            "libraries": libraries(),
            "prompt_sha256": prompt_sha256(),
        }

    @property
    def learned(self) -> Mapping[str, Any]:
        """The form in which this endpoint answers, and those that it refused; the context that it
        says it has; the price that costs were computed with, and what bounds a call.
        """
        options = self.options
        limits = {"attempts": options.attempts, "max_wait": options.max_wait}
        price = asdict(self.price) if self.price else None
        learned: dict[str, Any] = {
            "mode": self.mode,
            "price": price,
            **limits,
            "timeout": options.timeout,
        }
        if self._refused:
            learned["refused_modes"] = dict(self._refused)
        if asked := self._asked_context:
            learned |= {"context": asked.tokens, "context_from": asked.source}
        return learned

    def recall(self, learned: Mapping[str, Any]) -> None:
        """See :meth:`annotator.judges.base.Judge.recall`."""
        super().recall(learned)
        if isinstance(tokens := learned.get("context"), int):
            self._take_context(ServerContext(tokens, str(learned.get("context_from"))))

    async def open(self, rubrics: Sequence[Rubric]) -> None:
        """Find out the form of answers (:meth:`annotator.judges.llm.model.Model.open`), and how
        much a server on this machine reads, where nobody said so.

        Raises:
            JudgeStopped: the endpoint cannot be reached, or refuses the key or the model.
        """
        await super().open(rubrics)
        options = self.options
        if self._context is not None or self.outbox or not is_local(options.base_url):
            return
        asked = await ask_context(options, self._key)
        if asked and asked.assumed:  # a question loads the model; then it is known
            await self._takes(self.mode, rubrics[0])
            asked = await ask_context(options, self._key) or asked
        if asked:
            self._take_context(asked)

    def _take_context(self, asked: ServerContext) -> None:
        if self._context is None:
            self._asked_context = asked
            self._reader.context = asked.tokens

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
        if words := self._fails_always(judgement, verdict):
            self.file(judgement, verdict)
            self.drop(judgement)
            raise JudgeStopped(f"the first {_ALIKE} traces failed in the same way: {words}")
        return replace(verdict, usage=judgement.usage)

    def _fails_always(self, judgement: Judgement, verdict: Verdict) -> str | None:
        """Return how the first traces failed if they all failed in the same words, and this one
        is the last of them; numbers may differ.
        """
        if self._alike is None or self.outbox:
            return None
        if not verdict.error:
            self._alike = None
            return None
        self._alike[judgement.name] = _NUMBER.sub("#", verdict.error)
        if len(set(self._alike.values())) > 1:
            self._alike = None
            return None
        return verdict.error if len(self._alike) == _ALIKE else None

    def file(self, judgement: Judgement, verdict: Verdict) -> None:
        """Let go of the answers to a judgement that failed: they are to be asked for again."""
        if verdict.error and self.session.cache:
            self.accounted(judgement)
            if not self.outbox or self.outbox.asks_again:
                self.session.cache.forget(judgement.bad)

    def drop(self, judgement: Judgement) -> None:
        """Take note of what a judgement cost that will not be recorded: the run was stopped."""
        self._overhead += judgement.usage
        self.accounted(judgement)

    def accounted(self, judgement: Judgement) -> None:
        """Take note that what a judgement cost is recorded, though its trace is not judged."""
        if self.session.cache:
            self.session.cache.recorded(judgement.keys)

    async def _decided(self, judgement: Judgement) -> Verdict:
        """Ask about the whole trace, or about as much of it as the model can read."""
        most: int | None = None
        for _ in range(SHRINKS):
            try:
                prompts = self._reader.prompts(judgement.trace, judgement.rubric, most)
            except (UnreadableTrace, CallFailed) as error:
                return Verdict(error=str(error))
            try:
                verdicts = await together(
                    [self._conversed(judgement, prompt) for prompt in prompts]
                )
            except TooLong as error:
                if error.most < LEAST:
                    judgement.bad += judgement.keys
                    return Verdict(error=str(error))
                most, words = error.most, str(error)
                continue
            return merge(verdicts, prompts, judgement.trace, judgement.rubric)
        judgement.bad += judgement.keys
        return Verdict(error=words)

    async def _conversed(self, judgement: Judgement, prompt: Prompt) -> Verdict:
        """Ask until an answer stands or the re-asks are used up.

        If the last answer had the right form and only its quotes were wrong, it is passed on: the
        findings that do not stand will be rejected. Anything else is a failure.
        """
        asked: list[str] = []
        while True:
            try:
                verdict = await self._dialogue(judgement, prompt, asked)
                break
            except FormChanged:  # at most once for each form
                continue
        if verdict.error:
            judgement.bad += asked
        return verdict

    async def _dialogue(self, judgement: Judgement, prompt: Prompt, asked: list[str]) -> Verdict:
        question = Question(judgement.rubric, prompt, self.mode, judgement.sample)
        wrong = Wrong("no answer")
        for _ in range(1 + self.options.reasks):
            try:
                asked.append(question.key(self.options))
                reply = await self._answered(judgement, question, asked[-1])
            except Unanswered as error:
                if question.turns:
                    break
                return Verdict(error=str(error))
            except CallFailed as error:
                return Verdict(error=str(error))
            if reply.too_long:
                raise self._reader.refused(reply, prompt)
            if reason := self._no_judgement(reply):
                return Verdict(error=reason)
            try:
                return self._read(reply, judgement)
            except Wrong as error:
                wrong = error
                question = question.again(reply, error)
        if wrong.verdict is not None:
            return wrong.verdict
        return Verdict(error=f"malformed answer: {one_line(str(wrong), 300)}")

    def _read(self, reply: Reply, judgement: Judgement) -> Verdict:
        text = answer_text(reply, self.mode)
        if text is None:
            calls = self.mode in ("tools", "named")
            what = "call the function exactly once" if calls else "one JSON object"
            raise Wrong(f"there is not one answer in it: {what}")
        return read_answer(text, judgement.trace, judgement.rubric)

    def _no_judgement(self, reply: Reply) -> str | None:
        """Return why a reply is no judgement, if it is none; asking again would not help."""
        if reply.refusal:
            return f"the model refuses: {one_line(reply.refusal, 300)}"
        if reply.finish == "content_filter":
            return "the server's content filter stopped the answer"
        if reply.finish == "length":
            ours = self.session.budget and not longest_answer(self.options.parameters(1))
            why = f" of {LONGEST_ANSWER} that --max-cost sets; see --max-output-tokens"
            return f"the answer was cut off at the token limit{why if ours else ''}"
        return None

    async def _answered(self, judgement: Judgement, question: Question, key: str) -> Reply:
        """Return the answer to one question: a known one, or the endpoint's."""
        cache = self.session.cache
        kept = cache.get(key, judgement.name) if cache else None
        paid = kept is not None and kept.unrecorded and key not in judgement.keys
        if kept and not kept.reply:
            judgement.usage += kept.usage if paid else Usage()
            judgement.keys.append(key)
        elif kept and kept.reply:
            judgement.usage += kept.usage if paid else Usage(cache_hits=1)
            if paid and self.outbox:  # an answer out of a batch does not know what it was
                judgement.usage += Usage(retries=int(bool(question.turns)))
            judgement.keys.append(key)
            if self.outbox:  # any other was checked before it was kept
                self._reader.check(
                    question.prompt, question.turns_text, kept.reply, kept.usage.input_tokens
                )
            return kept.reply
        spent = Usage(retries=int(bool(question.turns)))

        def count(usage: Usage) -> None:
            nonlocal spent
            spent += usage
            judgement.usage += usage

        judgement.usage += spent
        reply = await self._asked(question, key, count)
        self._reader.check(question.prompt, question.turns_text, reply, spent.input_tokens)
        judgement.keys.append(key)
        if cache:
            cache.put(key, self.options.model, reply, spent, judgement.name)
        return reply

    def expects(self, trace: Trace, rubric: Rubric) -> Usage:
        """See :meth:`annotator.judges.base.Judge.expects`."""
        return self.forecast(trace, rubric, 1)

    def forecast(self, trace: Trace, rubric: Rubric, sample: int) -> Usage:
        """Return what the sample-th judgement of a trace is expected to use; raises as
        :meth:`annotator.judges.llm.context.Reader.prompts`.
        """
        auto = self.mode == "auto"
        mode: Mode = (self._recall_mode() or self._forms[0]) if auto else self.mode
        expected = Usage()
        for prompt in self._reader.prompts(trace, rubric):
            key = Question(rubric, prompt, mode, sample).key(self.options)
            kept = self.session.cache and self.session.cache.get(key, "")
            if kept and kept.reply:
                expected += Usage(cache_hits=1)
                continue
            count = self._reader.tokens.count
            tokens = count(prompt.user) + count(prompt.system + answer_schema(rubric))
            answer = min(TYPICAL_ANSWER, self.options.max_output_tokens or TYPICAL_ANSWER)
            usage = Usage(input_tokens=tokens, output_tokens=answer, calls=1)
            expected += replace(usage, cost_usd=self.price.of(usage) if self.price else None)
        return expected

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
        return (
            f"{self.options.model}: {self._reader.tokens}; {TYPICAL_ANSWER} tokens an answer;"
            f" no answer is asked for again and no call is repeated; {priced}"
        )


async def together(asked: Sequence[Coroutine[Any, Any, Verdict]]) -> list[Verdict]:
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
    return [result for result in results if isinstance(result, Verdict)]


def merge(
    verdicts: Sequence[Verdict], prompts: Sequence[Prompt], trace: Trace, rubric: Rubric
) -> Verdict:
    """Return one verdict of those on several windows: for each code the first claim that stands,
    else the first. If a window could not be judged, the trace could not be.
    """
    truncated = _never_shown(prompts)
    for n, verdict in enumerate(verdicts, 1):
        if verdict.error:
            where = f"window {n} of {len(verdicts)}: " if len(verdicts) > 1 else ""
            return replace(verdict, error=where + verdict.error, truncated=truncated)
    if len(verdicts) == 1:
        return replace(verdicts[0], truncated=truncated)

    def stands(claim: Claim) -> bool:
        return not verify(claim, trace, rubric)[1]

    claims: dict[str, Claim] = {}
    for claim in (claim for verdict in verdicts for claim in verdict.claims):
        held = claims.get(claim.code)
        if held is None or (not stands(held) and stands(claim)):
            claims[claim.code] = claim
    return Verdict(tuple(claims.values()), truncated=truncated)


def _never_shown(prompts: Sequence[Prompt]) -> dict[str, int]:
    """Return what is missing in every prompt that could have shown it; a window shows what it can
    of the rest of the trace and its own messages, so that a message is missing where it is cut.
    """
    missing: dict[str, int] = {}
    for prompt in prompts:
        for source, characters in prompt.truncated.items():
            missing[source] = min(characters, missing.get(source, characters))
    return missing
