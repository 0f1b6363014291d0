"""The language-model judge: any OpenAI-compatible endpoint, answers checked and asked for again."""

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from annotator.annotations import Usage, Verdict
from annotator.errors import AnnotatorError, JudgeStopped, Pending, UnreadableTrace
from annotator.judges.base import MODES, Mode
from annotator.judges.llm.cache import MODE, judged
from annotator.judges.llm.failures import CallFailed, ModeRefused, Unanswered, Unavailable
from annotator.judges.llm.keys import api_key, checked_url, is_local, without_secrets
from annotator.judges.llm.lengths import (
    LEAST,
    LONGEST_ANSWER,
    SHRINKS,
    Reader,
    TooLong,
    read_in_full,
)
from annotator.judges.llm.prices import Price, listed
from annotator.judges.llm.question import (
    Question,
    answer_text,
    form_of,
    form_sha256,
    libraries,
)
from annotator.judges.llm.reply import Reply
from annotator.judges.llm.schema import Answer, Probe, Wrong, answer_schema, read_answer
from annotator.judges.llm.session import Outbox, Session
from annotator.judges.llm.settings import Options
from annotator.judges.llm.together import FirstAlone, merged, together
from annotator.judges.llm.tokens import BYTES_PER_TOKEN, DEAREST_BYTES_PER_TOKEN
from annotator.prompts import Prompt, facts_sha256, prompt_sha256, tiny_question
from annotator.rubrics import Rubric
from annotator.text import one_line
from annotator.traces import Trace

if TYPE_CHECKING:  # takes a second to import, and is not needed where every answer is known
    from annotator.judges.llm.endpoint import Endpoint

TYPICAL_ANSWER = 400  # tokens


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
        return judged(self.rubric.id, self.trace.id)


class LLMJudge:
    """Judges with one language model; its answers are checked and, where wrong, asked for again.

    Raises:
        AnnotatorError: no usable URL, or no API key for a URL that is not on this machine.
    """

    def __init__(self, options: Options, session: Session | None = None) -> None:
        self.options = options
        self.session = session or Session()
        self.outbox: Outbox | None = None  # where questions go instead of to the endpoint
        self.mode: Mode = options.mode
        self._overhead = Usage()
        self._in_doubt = False  # whether the mode was found out while the server failed
        url = checked_url(options.base_url)
        self._key = "" if self.session.offline else api_key(url, options.api_key_env)
        self._listed = listed(options.model, options.base_url, self.session.prices)
        self._reader = Reader(options, options.context or self._listed.context)
        self._first: dict[str, asyncio.Event] = {}  # per rubric: the call that warms the cache

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
        return {
            "model": options.model,
            "base_url": options.address,
            "mode": options.mode,
            "reasks": options.reasks,
            "parameters": options.parameters(1),
            "context": self._reader.context,
            "windows": options.windows,
            **facts,
            "in_batches": self.session.in_batches,
            "form_sha256": form_sha256(),
            "libraries": libraries(),
            "prompt_sha256": prompt_sha256(),
        }

    @property
    def overhead(self) -> Usage:
        """What finding the mode cost, and answers that led to no annotation."""
        return self._overhead + (self.outbox.spent if self.outbox else Usage())

    @property
    def learned(self) -> Mapping[str, Any]:
        """The form in which this endpoint answers, the price that costs were computed with, and
        what bounds a call.
        """
        options = self.options
        limits = {"attempts": options.attempts, "max_wait": options.max_wait}
        price = asdict(self.price) if self.price else None
        return {"mode": self.mode, "price": price, **limits, "timeout": options.timeout}

    @property
    def state(self) -> str:
        """See :attr:`annotator.judges.base.Judge.state`."""
        return self.session.pace.state

    @cached_property
    def price(self) -> Price | None:
        """Dollars per million tokens, or None if they are not known."""
        options = self.options
        price = self._listed.batch if self.session.in_batches else self._listed.price
        if options.price_in is None and options.price_out is None and options.price_cached is None:
            return price
        if options.price_in is None or options.price_out is None:
            raise AnnotatorError(
                "--price-in and --price-out are given together, or none of the prices"
            )
        cached = options.price_in if options.price_cached is None else options.price_cached
        return Price(options.price_in, options.price_out, cached, "--price-in and --price-out")

    def unsupported(self, rubric: Rubric) -> str | None:
        """A model can be asked about any rubric."""
        return None

    def codes(self, rubric: Rubric) -> frozenset[str]:
        """A model can give any code."""
        return frozenset(code.id for code in rubric.codes)

    def screens(self, rubric: Rubric) -> frozenset[str]:
        """It is asked about every code alike: what it does not find, it says is not there."""
        return frozenset()

    def recall(self, learned: Mapping[str, Any]) -> None:
        """See :meth:`annotator.judges.base.Judge.recall`."""
        if self.mode == "auto" and learned.get("mode") in MODES:
            self.mode = learned["mode"]

    @cached_property
    def _endpoint(self) -> "Endpoint":
        # Built inside the event loop, as its connections belong to it.
        from annotator.judges.llm.endpoint import Endpoint

        session = self.session
        return Endpoint(self.options, self._key, session.pace, session.budget, self.price)

    async def open(self) -> None:
        """Find out, with two tiny questions at most, in which form this endpoint answers.

        Named tools first, then a JSON schema; plain JSON with the schema in the prompt asks nothing
        of a server and needs no call. A server can fail at a form in three ways: an error, a 500,
        or an answer in plain text that ignores it. What it was found to do is cached with the
        answers. Questions that go into a batch use a JSON schema.

        Raises:
            JudgeStopped: the endpoint cannot be reached, or refuses the key or the model.
        """
        if self.mode != "auto":
            return
        if self.outbox:
            self.mode = "json_schema"
            return
        cache = self.session.cache
        if known := self._known_mode():
            self.mode = known
            return
        spent = self._overhead
        for mode in ("tools", "json_schema"):
            if await self._answers_in(mode):
                self.mode = mode
                break
        else:
            self.mode = "json"
        if cache and self._overhead.calls > spent.calls and not self._in_doubt:
            cache.put(self._mode_key, self.options.model, Reply(self.mode), Usage(), "")
            cache.recorded([self._mode_key])

    def _known_mode(self) -> Mode | None:
        """Return the form that was found out by an earlier run, if it is cached."""
        known = self.session.cache and self.session.cache.get(self._mode_key, "")
        found = known.reply.text if known and known.reply else ""
        return next((mode for mode in MODES if mode == found), None)

    @property
    def _mode_key(self) -> str:
        decides = f"{self.options.identity(1)} {libraries()} {tiny_question()}"
        return f"{MODE}{hashlib.sha256(decides.encode()).hexdigest()}"

    async def _answers_in(self, mode: Mode) -> bool:
        """Ask a tiny question in one form; return whether the answer came in it."""
        try:
            Probe.model_validate_json(answer_text(await self._tiny(mode), mode) or "")
        except (CallFailed, ValueError) as error:
            # A 500 may be a server's way to reject a form, or an outage.
            self._in_doubt |= isinstance(error, ModeRefused) and error.status >= 500
            return False
        return True

    async def _takes(self, mode: Mode) -> bool:
        """Whether the server takes a tiny question in one form, whatever it answers."""
        try:
            await self._tiny(mode)
        except CallFailed:
            return False
        return True

    async def _tiny(self, mode: Mode) -> Reply:
        """Return the reply to a tiny question.

        Raises:
            JudgeStopped: the server does not answer it.
            CallFailed: it does not take it.
        """
        messages = [{"role": "user", "content": tiny_question()}]
        body = {"model": self.options.model, "messages": messages, **form_of(Probe, mode)}
        body |= self.options.parameters(1)
        self._bound(body)
        most = self._dearest(1_000, body)
        data = to_json(body)
        try:
            return await self._endpoint.complete(data, 300, most, self._spent, probe=True)
        except Unavailable as error:
            url = without_secrets(self.options.base_url)
            raise JudgeStopped(f"{url} does not answer: {error}") from error

    def _spent(self, usage: Usage) -> None:
        self._overhead += usage

    async def close(self) -> None:
        """Close the connections."""
        if "_endpoint" in self.__dict__:
            await self._endpoint.close()
            del self.__dict__["_endpoint"]

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
        return replace(verdict, usage=judgement.usage)

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
                verdicts = await together([self._conversed(judgement, one) for one in prompts])
            except TooLong as error:
                if error.most < LEAST:
                    judgement.bad += judgement.keys
                    return Verdict(error=str(error))
                most, words = error.most, str(error)
                continue
            return merged(verdicts, prompts, judgement.trace, judgement.rubric)
        judgement.bad += judgement.keys
        return Verdict(error=words)

    async def _conversed(self, judgement: Judgement, prompt: Prompt) -> Verdict:
        """Ask until an answer stands or the re-asks are used up.

        If the last answer had the right form and only its quotes were wrong, it is passed on: the
        findings that do not stand will be rejected. Anything else is a failure.
        """
        asked: list[str] = []
        verdict = await self._dialogue(judgement, prompt, asked)
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
                return self._read(reply, judgement).verdict()
            except Wrong as error:
                wrong = error
                question = question.again(reply, error)
        if wrong.answer is not None:
            return wrong.answer.verdict()
        return Verdict(error=f"malformed answer: {one_line(str(wrong), 300)}")

    def _read(self, reply: Reply, judgement: Judgement) -> Answer:
        text = answer_text(reply, self.mode)
        if text is None:
            what = "call the function exactly once" if self.mode == "tools" else "one JSON object"
            raise Wrong(f"there is not one answer in it: {what}")
        return read_answer(text, judgement.trace, judgement.rubric)

    def _no_judgement(self, reply: Reply) -> str | None:
        """Return why a reply is no judgement, if it is none; asking again would not help."""
        if reply.refusal:
            return f"the model refuses: {one_line(reply.refusal, 300)}"
        if reply.finish == "content_filter":
            return "the server's content filter stopped the answer"
        if reply.finish == "length":
            ours = self.session.budget and not _longest_answer(self.options.parameters(1))
            why = f" of {LONGEST_ANSWER} that --max-cost sets; see --max-output-tokens"
            return f"the answer was cut off at the token limit{why if ours else ''}"
        return None

    async def _answered(self, judgement: Judgement, question: Question, key: str) -> Reply:
        """Return the answer to one question: a known one, or the endpoint's."""
        cache = self.session.cache
        known = cache.get(key, judgement.name) if cache else None
        paid = known is not None and known.unrecorded and key not in judgement.keys
        if known and not known.reply:
            judgement.usage += known.usage if paid else Usage()
            judgement.keys.append(key)
        elif known and known.reply:
            judgement.usage += known.usage if paid else Usage(cache_hits=1)
            if paid and self.outbox:  # an answer out of a batch does not know what it was
                judgement.usage += Usage(retries=int(bool(question.turns)))
            judgement.keys.append(key)
            read_in_full(question.prompt, known.reply, known.usage.input_tokens)
            return known.reply
        spent = Usage(retries=int(bool(question.turns)))

        def count(usage: Usage) -> None:
            nonlocal spent
            spent += usage
            judgement.usage += usage

        judgement.usage += spent
        reply = await self._asked(question, key, count)
        read_in_full(question.prompt, reply, spent.input_tokens)
        judgement.keys.append(key)
        if cache:
            cache.put(key, self.options.model, reply, spent, judgement.name)
        return reply

    async def _asked(self, question: Question, key: str, count: Any) -> Reply:
        body = question.body(self.options)
        self._bound(body)
        data = to_json(body)
        # The JSON is a little longer than what the model reads: escapes, the schema.
        most = self._dearest(int(len(data) / DEAREST_BYTES_PER_TOKEN), body)
        if self.outbox:
            return self.outbox.ask(key, body, most)
        tokens = int(len(data) / BYTES_PER_TOKEN) + TYPICAL_ANSWER
        async with FirstAlone(self._first, question.rubric.sha256, self._warms):
            try:
                return await self._endpoint.complete(data, tokens, most, count)
            except Unavailable:
                # Is it this trace, or would it be so for every trace? A tiny question tells.
                await self._takes(self.mode)
                raise
            except ModeRefused as error:
                if not await self._takes(self.mode):
                    if self.session.cache:
                        self.session.cache.forget([self._mode_key])
                    raise JudgeStopped(f"{error}{self._sent_settings()}") from error
                raise

    def expects(self, trace: Trace, rubric: Rubric) -> Usage:
        """See :meth:`annotator.judges.base.Judge.expects`."""
        return self.forecast(trace, rubric, 1)

    def forecast(self, trace: Trace, rubric: Rubric, sample: int) -> Usage:
        """Return what the sample-th judgement of a trace is expected to use; raises as
        :meth:`annotator.judges.llm.lengths.Reader.prompts`.
        """
        auto = self.mode == "auto"
        mode: Mode = (self._known_mode() or "tools") if auto else self.mode
        expected = Usage()
        for prompt in self._reader.prompts(trace, rubric):
            key = Question(rubric, prompt, mode, sample).key(self.options)
            known = self.session.cache and self.session.cache.get(key, "")
            if known and known.reply:
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

    def _bound(self, body: dict[str, Any]) -> None:
        """Bound the answer to a request to what the budget sets aside for it.

        An answer that is not cut off is the same with and without; one that is, is no judgement.
        """
        if self.session.budget and not _longest_answer(body):
            body["max_completion_tokens"] = LONGEST_ANSWER

    def _sent_settings(self) -> str:
        sent = self.options.parameters(1)
        if self.session.budget and not _longest_answer(sent):
            sent["max_completion_tokens (for --max-cost)"] = LONGEST_ANSWER
        shown = ", ".join(f"{key}={value!r}" for key, value in sent.items())
        return f"; the request sets {one_line(shown, 300)}" if shown else ""

    @property
    def _warms(self) -> bool:
        warm = self.options.warm
        return not is_local(self.options.base_url) if warm is None else warm

    def _dearest(self, tokens: int, body: Mapping[str, Any]) -> float:
        """Return the dollars that a request of at most so many tokens can cost with its answer."""
        if self.price is None:
            return 0.0
        output = _longest_answer(body) or LONGEST_ANSWER
        return self.price.of(Usage(input_tokens=tokens, output_tokens=output))


def _longest_answer(body: Mapping[str, Any]) -> int:
    """Return the tokens to which a request bounds its answer, 0 if it does not."""
    bounds = [body.get("max_completion_tokens"), body.get("max_tokens")]
    return max((one for one in bounds if isinstance(one, int)), default=0)
