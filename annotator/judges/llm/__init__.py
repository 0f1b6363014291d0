"""The language-model judge: any OpenAI-compatible endpoint, answers checked and asked for again."""

import asyncio
import hashlib
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from annotator.annotations import Claim, Usage, Verdict
from annotator.errors import AnnotatorError, JudgeStopped, Pending, UnreadableTrace
from annotator.evidence import verify
from annotator.judges.base import MODES, Mode
from annotator.judges.llm.cache import MODE, judged
from annotator.judges.llm.failures import CallFailed, ModeRefused, Unanswered, Unavailable
from annotator.judges.llm.keys import api_key, checked_url, is_local, without_secrets
from annotator.judges.llm.prices import Price, listed
from annotator.judges.llm.question import Question, answer_text, formed
from annotator.judges.llm.reply import Reply
from annotator.judges.llm.schema import Answer, Probe, Wrong, answer_model, read_answer
from annotator.judges.llm.session import Outbox, Session
from annotator.judges.llm.settings import Options
from annotator.judges.llm.tokens import (
    BYTES_PER_TOKEN,
    DEAREST_BYTES_PER_TOKEN,
    Tokens,
    at_most,
)
from annotator.prompts import Prompt, prompt_sha256, render, render_windows
from annotator.rubrics import Rubric
from annotator.text import one_line
from annotator.traces import Trace

if TYPE_CHECKING:  # takes a second to import, and is not needed where every answer is known
    from annotator.judges.llm.endpoint import Endpoint

TYPICAL_ANSWER = 400  # tokens
_LONGEST_ANSWER = 4_000  # tokens for an answer whose length nothing else limits
_FIXED_MARGIN = 1.1  # rubrics are plain prose: 4.6 bytes a token, counted as 4
_SHRINKS = 6  # how often a prompt that was too long is made shorter
_LEAST = 2_000  # characters of a trace below which there is nothing to judge
_MOST_PER_TOKEN = 8  # characters: of 88 real prompts the sparsest had 4.9


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


class _TooLong(Exception):
    """A prompt that the model cannot read in full; ``most``: characters of a trace that it can."""

    def __init__(self, words: str, most: int) -> None:
        super().__init__(words)
        self.most = most


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
        self._tokens = Tokens(options.model)
        self._first: dict[str, asyncio.Event] = {}  # per rubric: the call that warms the cache

    @property
    def id(self) -> str:
        """``llm:<model>``."""
        return f"llm:{self.options.model}"

    @property
    def settings(self) -> Mapping[str, Any]:
        """What decides the answers; the key is not among it."""
        options = self.options
        return {
            "model": options.model,
            "base_url": options.address,
            "mode": options.mode,
            "reasks": options.reasks,
            "parameters": options.parameters(1),
            "context": self._context,
            "windows": options.windows,
            "in_batches": self.session.in_batches,
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
        price = self.price
        shown = price and {
            "input": price.input,
            "cached": price.cached,
            "output": price.output,
            "source": price.source,
        }
        options = self.options
        limits = {"attempts": options.attempts, "max_wait": options.max_wait}
        return {"mode": self.mode, "price": shown, **limits, "timeout": options.timeout}

    @property
    def state(self) -> str:
        """See :attr:`annotator.judges.base.Judge.state`."""
        return self.session.pace.state

    @cached_property
    def price(self) -> Price | None:
        """Dollars per million tokens, or None if they are not known."""
        options = self.options
        known = listed(options.model, options.base_url, self.session.prices)
        price = known.batch if self.session.in_batches else known.price
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
        return f"{MODE}{hashlib.sha256(self.options.identity(1).encode()).hexdigest()}"

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
        user = 'Set "answer" to "ready" and "number" to 7.'
        form, messages = formed(Probe, mode, "Answer in the form that is asked for.", user)
        body = {"model": self.options.model, "messages": messages, **form}
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
            self.session.cache.recorded(judgement.keys)
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
        for _ in range(_SHRINKS):
            try:
                prompts = self.prompts(judgement.trace, judgement.rubric, most)
            except (UnreadableTrace, CallFailed) as error:
                return Verdict(error=str(error))
            try:
                verdicts = await together([self._conversed(judgement, one) for one in prompts])
            except _TooLong as error:
                if error.most < _LEAST:
                    judgement.bad += judgement.keys
                    return Verdict(error=str(error))
                most, words = error.most, str(error)
                continue
            return _merged(verdicts, prompts, judgement)
        judgement.bad += judgement.keys
        return Verdict(error=words)

    def prompts(self, trace: Trace, rubric: Rubric, most: int | None = None) -> list[Prompt]:
        """Return what is asked about a trace: one prompt, or one for each window.

        ``most``: characters of a trace that are known to fit.

        Raises:
            UnreadableTrace: the rubric needs the agents' steps and they cannot be read.
            CallFailed: there is no room for anything worth judging.
        """
        prompt = render(trace, rubric)
        room = self._room(prompt, rubric)
        if most is None:
            if room is None or self._tokens.fits(prompt.user, room):
                return [prompt]
            most = self._shorter(prompt, room)
        for _ in range(_SHRINKS):
            if most < _LEAST:
                break
            windows = self.options.windows
            prompts = (
                render_windows(trace, rubric, most) if windows else [render(trace, rubric, most)]
            )
            long = [one for one in prompts if room and not self._tokens.fits(one.user, room)]
            if not long or room is None:
                return prompts
            most = min(self._shorter(one, room) for one in long)
        context = f" of {self._context} tokens" if self._context else ""
        raise CallFailed(f"the model's context{context} leaves no room for the trace")

    def _room(self, prompt: Prompt, rubric: Rubric) -> int | None:
        """Return the tokens that are left for a trace, or None if the context is not known."""
        context = self._context
        if context is None:
            return None
        schema = str(answer_model(rubric).model_json_schema())
        margin = 1.0 if self._tokens.exact else _FIXED_MARGIN
        fixed = self._tokens.count(prompt.system + schema) * margin
        return max(context - int(fixed) - self._answer_room(context), 1)

    def _shorter(self, prompt: Prompt, room: int) -> int:
        """Return about how many characters of a prompt fit into so many tokens."""
        user = prompt.user
        tokens = self._tokens.count(user) * 1.05 if self._tokens.exact else at_most(user)
        return min(int(len(user) * room / tokens), len(user) - 1)

    @cached_property
    def _context(self) -> int | None:
        options = self.options
        return (
            options.context or listed(options.model, options.base_url, self.session.prices).context
        )

    def _answer_room(self, context: int) -> int:
        """Return the tokens of a context that are left to the answer and to asking again."""
        return (self.options.max_output_tokens or min(_LONGEST_ANSWER, context // 8)) + 200

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
                raise self._too_long(reply, prompt)
            if reason := self._no_judgement(reply):
                return Verdict(error=reason)
            try:
                return self._read(reply, judgement).verdict()
            except Wrong as error:
                wrong = error
                question = question.again(reply, str(error))
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
            why = f" of {_LONGEST_ANSWER} that --max-cost sets; see --max-output-tokens"
            return f"the answer was cut off at the token limit{why if ours else ''}"
        return None

    def _too_long(self, reply: Reply, prompt: Prompt) -> _TooLong:
        """Return how much shorter a prompt must be that the server refused as too long."""
        size = len(prompt.user)
        if reply.limit and reply.asked > reply.limit:
            over = reply.asked - reply.limit + self._answer_room(reply.limit)
            per_token = (len(prompt.system) + size) / reply.asked
            return _TooLong(reply.text, min(int((size - over * per_token) * 0.97), size - 1))
        return _TooLong(reply.text, int(size * 0.7))

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
            _read_in_full(question.prompt, known.reply, known.usage.input_tokens)
            return known.reply
        spent = Usage(retries=int(bool(question.turns)))

        def count(usage: Usage) -> None:
            nonlocal spent
            spent += usage
            judgement.usage += usage

        judgement.usage += spent
        reply = await self._asked(question, key, count)
        _read_in_full(question.prompt, reply, spent.input_tokens)
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
            return self.outbox.ask(key, self.options.model, body, most)
        tokens = int(len(data) / BYTES_PER_TOKEN) + TYPICAL_ANSWER
        async with _Turn(self._first, question.rubric.sha256, self._warms):
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
        :meth:`prompts`.
        """
        auto = self.mode == "auto"
        mode: Mode = (self._known_mode() or "tools") if auto else self.mode
        prompts = self.prompts(trace, rubric)
        expected = Usage()
        schema = str(answer_model(rubric).model_json_schema())
        for prompt in prompts:
            key = Question(rubric, prompt, mode, sample).key(self.options)
            known = self.session.cache and self.session.cache.get(key, "")
            if known and known.reply:
                expected += Usage(cache_hits=1)
                continue
            tokens = self._tokens.count(prompt.user) + self._tokens.count(prompt.system + schema)
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
            f"{self.options.model}: {self._tokens}; {TYPICAL_ANSWER} tokens an answer; no answer is"
            f" asked for again and no call is repeated; {priced}"
        )

    def _bound(self, body: dict[str, Any]) -> None:
        """Bound the answer to a request to what the budget sets aside for it.

        An answer that is not cut off is the same with and without; one that is, is no judgement.
        """
        if self.session.budget and not _longest_answer(body):
            body["max_completion_tokens"] = _LONGEST_ANSWER

    def _sent_settings(self) -> str:
        sent = self.options.parameters(1)
        if self.session.budget and not _longest_answer(sent):
            sent["max_completion_tokens (for --max-cost)"] = _LONGEST_ANSWER
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
        output = _longest_answer(body) or _LONGEST_ANSWER
        return self.price.of(Usage(input_tokens=tokens, output_tokens=output))


def _longest_answer(body: Mapping[str, Any]) -> int:
    """Return the tokens to which a request bounds its answer, 0 if it does not."""
    bounds = [body.get("max_completion_tokens"), body.get("max_tokens")]
    return max((one for one in bounds if isinstance(one, int)), default=0)


class _Turn:
    """Lets the first call of a rubric go alone, so that the others find the prefix cached."""

    def __init__(self, first: dict[str, asyncio.Event], rubric: str, warms: bool) -> None:
        self._first, self._rubric, self._warms = first, rubric, warms
        self._mine: asyncio.Event | None = None

    async def __aenter__(self) -> None:
        if not self._warms:
            return
        if self._rubric in self._first:
            await self._first[self._rubric].wait()
        else:
            self._mine = self._first[self._rubric] = asyncio.Event()

    async def __aexit__(self, *_: object) -> None:
        if self._mine:
            self._mine.set()


async def together(asked: Sequence[Coroutine[Any, Any, Verdict]]) -> list[Verdict]:
    """Return all results; each is awaited to its end, also if another one fails.

    Raises:
        Pending: one is pending and none failed. Else the first failure is raised.
    """
    if len(asked) == 1:
        return [await asked[0]]
    results = await asyncio.gather(*asked, return_exceptions=True)
    errors = [one for one in results if isinstance(one, BaseException)]
    for error in sorted(errors, key=lambda one: isinstance(one, Pending)):
        raise error
    return [one for one in results if isinstance(one, Verdict)]


def _read_in_full(prompt: Prompt, reply: Reply, tokens: int) -> None:
    """Raise if the server cut the prompt off without a word, as some do."""
    longest = len(prompt.user)
    if not reply.too_long and tokens and longest > max(20_000, _MOST_PER_TOKEN * tokens):
        raise CallFailed(
            f"the server read {tokens} tokens of a trace of {longest} characters:"
            " its context is too small for it"
        )


def _merged(verdicts: list[Verdict], prompts: list[Prompt], judgement: Judgement) -> Verdict:
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
    claims: dict[str, Claim] = {}
    for claim in (claim for verdict in verdicts for claim in verdict.claims):
        held = claims.get(claim.code)
        if held is None or (not _stands(held, judgement) and _stands(claim, judgement)):
            claims[claim.code] = claim
    return Verdict(tuple(claims.values()), truncated=truncated)


def _stands(claim: Claim, judgement: Judgement) -> bool:
    return not verify(claim, judgement.trace, judgement.rubric)[1]


def _never_shown(prompts: list[Prompt]) -> dict[str, int]:
    """Return what is missing in every prompt that could have shown it; a window shows what it can
    of the rest of the trace and its own messages, so that a message is missing where it is cut.
    """
    missing: dict[str, int] = {}
    for prompt in prompts:
        for source, characters in prompt.truncated.items():
            missing[source] = min(characters, missing.get(source, characters))
    return missing
