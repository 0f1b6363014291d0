"""What all judges of one run share: how fast they ask, what the run may cost, what is known."""

import asyncio
import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from pydantic_core import to_json

from annotator.base.errors import AnnotatorError, JudgeStopped
from annotator.base.text import sanitize_line
from annotator.judges.base import MODES, Mode
from annotator.judges.llm.answer import answer_model, answer_schema, answer_text
from annotator.judges.llm.cache import MODE, AnswerCache
from annotator.judges.llm.cost import (
    Budget,
    Expected,
    Price,
    expect_dollars,
    find_listing,
    least_tokens,
)
from annotator.judges.llm.provider import as_responses
from annotator.judges.llm.rate_limit import Pace
from annotator.judges.llm.request import (
    BYTES_PER_TOKEN,
    DEAREST_BYTES_PER_TOKEN,
    Question,
    form_of,
    libraries,
)
from annotator.judges.llm.response import CallFailed, ModeRefused, Reply, Unavailable
from annotator.judges.llm.settings import (
    Options,
    api_key,
    is_local,
    need_sdk,
    own_headers,
    without_secrets,
)
from annotator.prompts.render import Prompt, tiny_question
from annotator.rubrics import Rubric
from annotator.rubrics.annotations import Usage

if TYPE_CHECKING:
    from annotator.judges.llm.endpoint import Endpoint


class Outbox(Protocol):
    """Takes questions that are not answered at once.

    ``asks_again``: what was answered badly can be asked again in a resumed run. ``spent``: what it
    used for no answer.
    """

    asks_again: bool
    spent: Usage

    def refusal(self, key: str) -> ModeRefused | None:
        """Return why the server does not take a question, if that is what its results say."""

    def ask(self, key: str, body: Mapping[str, Any], most: float) -> NoReturn:
        """Take a question that may cost ``most`` dollars.

        Raises Pending, or CallFailed if it will not be answered.
        """

    def close(self) -> None:
        """Drop the questions that are neither kept nor sent."""


@dataclass
class Session:
    """One pace and one budget for all models, one cache of answers, and the user's price files.

    ``in_batches``: the questions go into batches, which have prices of their own. ``offline``:
    nothing is called, and no key is needed.
    """

    pace: Pace = field(default_factory=Pace)
    budget: Budget | None = None
    cache: AnswerCache | None = None
    prices: tuple[Path, ...] = ()
    in_batches: bool = False
    offline: bool = False


SHORT_ANSWER, LONG_ANSWER = 1_500, 4_000
"""Tokens of an answer: measured were 1,490 to 4,046, by model."""

# How servers say that it is the form that they do not take.
_OF_FORM = re.compile(
    r"response_?format|json_?schema|tool_choice|\btools?\b|function.?call|grammar|\bschema\b"
    r"|structured.?output|output_?(?:config|format)",
    re.IGNORECASE,
)


_MOST_NAMES = 20  # that are counted one by one
_SNAPSHOT = re.compile(r"[-@:](?:\d{4}-?\d{2}-?\d{2}|\d{3,4}|latest)")


def _names_same(answered: str, asked: str) -> bool:
    """Whether a server's name is that of the model that was asked for: in any case, with the date
    of its snapshot, and with or without its provider.
    """
    if answered == "unnamed":
        return True
    long, short = (name.lower().removeprefix("models/") for name in (answered, asked))
    names = {long, long.rpartition("/")[2]}, {short, short.rpartition("/")[2]}
    return any(
        name == other or (name.startswith(other) and _SNAPSHOT.fullmatch(name[len(other) :]))
        for name in names[0]
        for other in names[1]
    )


class FormChanged(Exception):
    """The server does not take questions in this form: ask again in the one that is taken now."""


class Model:
    """Asks one model, one question at a time.

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
        self._refused: dict[Mode, str] = {}  # forms that a real request was refused in, and why
        offline = self.session.offline
        self._key = "" if offline else api_key(options.base_url, options.api_key_env)
        if not offline:
            own_headers(options)
            need_sdk(options.api)
        self._listed = find_listing(options.model, options.base_url, self.session.prices)
        self.answered_by: Counter[str] = Counter()  # answers by the server's name for the model
        self._first: dict[str, asyncio.Event] = {}  # per rubric: the call that warms the cache

    @property
    def overhead(self) -> Usage:
        """What finding the mode cost, and answers that led to no annotation."""
        return self._overhead + (self.outbox.spent if self.outbox else Usage())

    @cached_property
    def price(self) -> Price | None:
        """Dollars per million tokens, or None if they are not known."""
        options = self.options
        price = self._listed.batch if self.session.in_batches else self._listed.price
        if price and price.cache_write is None:
            price = replace(price, cache_write=price.input * options.spoken.cache_write)
        if options.price_in is None and options.price_out is None and options.price_cached is None:
            return price
        if options.price_in is None or options.price_out is None:
            raise AnnotatorError(
                "--price-in and --price-out are given together, or none of the prices"
            )
        cached = options.price_in if options.price_cached is None else options.price_cached
        write = options.price_in * options.spoken.cache_write
        source = "--price-in and --price-out"
        return Price(options.price_in, options.price_out, cached, source, write)

    def recall(self, learned: Mapping[str, Any]) -> None:
        """See :meth:`annotator.judges.base.Judge.recall`."""
        if self.options.mode == "auto" and learned.get("mode") in MODES:
            self.mode = learned["mode"]
        if isinstance(refused := learned.get("refused_modes"), Mapping):
            self._refused.update(refused)
        if isinstance(counts := learned.get("answered_by"), Mapping):
            earlier = {name: n for name, n in counts.items() if isinstance(n, int)}
            self.answered_by.update(earlier)

    def _note_name(self, name: str) -> None:
        """Count an answer of the model that has this name at the server."""
        if name not in self.answered_by and len(self.answered_by) >= _MOST_NAMES:
            name = "others"
        self.answered_by[name or "unnamed"] += 1

    @property
    def other_names(self) -> str:
        """What there is to say where another model than the one asked for has answered."""
        asked = self.options.model
        others = [name for name in self.answered_by if not _names_same(name, asked)]
        counts = ", ".join(f"{name!r} ({self.answered_by[name]} answers)" for name in others)
        return counts and (
            f"{sanitize_line(asked, 120)!r} was asked for, and the server says that it"
            " was answered by"
            f" {counts}"
        )

    @cached_property
    def _endpoint(self) -> "Endpoint":
        # Built inside the event loop, as its connections belong to it.
        from annotator.judges.llm.endpoint import Endpoint

        session = self.session
        return Endpoint(self.options, self._key, session.pace, session.budget, self.price)

    @property
    def _forms(self) -> tuple[Mode, ...]:
        return self.options.spoken.ladder(is_local(self.options.base_url))

    async def open(self, rubrics: Sequence[Rubric]) -> None:
        """Find out, with a few tiny questions, in which form this endpoint answers: the real form,
        of the rubric with the longest schema.

        Plain JSON with the schema in the prompt asks nothing of a server and needs no call. A
        server can fail at a form in three ways: an error, a 500, or an answer in plain text that
        ignores it. What it was found to do is cached with the answers. Questions that go into a
        batch begin with a JSON schema, until a result says that it is refused.

        Raises:
            JudgeStopped: the endpoint cannot be reached, or refuses the key or the model.
        """
        if self.mode != "auto":
            return
        if self.outbox:
            self.mode = "json_schema"
            return
        if cached := self._recall_mode():
            self.mode = cached
            return
        considered = self.options.considered
        rubric = max(rubrics, key=lambda rubric: len(answer_schema(rubric, considered)))
        for mode in self._forms[:-1]:
            if await self._answers_in(mode, rubric):
                self.mode = mode
                break
        else:
            self.mode = "json"
        if not self._in_doubt:
            self._remember_mode()

    def _remember_mode(self) -> None:
        if cache := self.session.cache:
            cache.put(self._mode_key, self.options.model, Reply(self.mode), Usage())

    def _recall_mode(self) -> Mode | None:
        """Return the form that was found out by an earlier run, if it is cached."""
        kept = self.session.cache and self.session.cache.get(self._mode_key)
        name = kept.reply.text if kept else ""
        return next((mode for mode in MODES if mode == name), None)

    @property
    def _mode_key(self) -> str:
        decides = f"{self.options.identity(1)} {libraries()} {tiny_question()}"
        return f"{MODE}{hashlib.sha256(decides.encode()).hexdigest()}"

    async def _answers_in(self, mode: Mode, rubric: Rubric) -> bool:
        """Ask a tiny question in one form; return whether the answer came in it."""
        try:
            reply = await self._tiny(mode, rubric)
            if reply.finish == "length":  # it was cut off: how it begins tells
                return bool(reply.calls) or reply.text.lstrip().startswith("{")
            answer_model(rubric, self.options.considered).model_validate_json(
                answer_text(reply, mode) or ""
            )
        except (CallFailed, ValueError) as error:
            # A 500 may be a server's way to reject a form, or an outage.
            self._in_doubt |= isinstance(error, ModeRefused) and error.status >= 500
            return False
        return True

    async def _takes(self, mode: Mode, rubric: Rubric) -> Reply | None:
        """Return what the server answers to a tiny question in one form, None if it takes none."""
        try:
            return await self._tiny(mode, rubric)
        except CallFailed:
            return None

    @property
    def api(self) -> str:
        """The API by which the model answers."""
        found_out = "_endpoint" in self.__dict__ and self._endpoint.by_responses
        return "responses" if found_out else self.options.api

    async def _tiny(self, mode: Mode, rubric: Rubric) -> Reply:
        """Return the reply to a tiny question in the form of the answers by a rubric.

        Raises:
            JudgeStopped: the server does not answer it.
            CallFailed: it does not take it.
        """
        messages = [{"role": "user", "content": tiny_question()}]
        body = {
            "model": self.options.model,
            "messages": messages,
            **form_of(answer_model(rubric, self.options.considered), mode, self.options.api),
        }
        body |= self.options.parameters(1)
        tokens = int(len(to_json(body)) / BYTES_PER_TOKEN)
        call = self._expected(self.options, body, tokens, tokens, tiny=True)
        try:
            return await self._endpoint.complete(to_json(body), call, self._spent)
        except Unavailable as error:
            url = without_secrets(self.options.base_url)
            raise JudgeStopped(f"{url} does not answer: {error}") from error

    def _capped(self, tokens: int) -> int:
        """Return so many tokens, or those of the longest answer that is asked for."""
        return min(tokens, self.options.max_output_tokens or tokens)

    def _spent(self, usage: Usage) -> None:
        self._overhead += usage

    async def close(self) -> None:
        """Close the connections."""
        if "_endpoint" in self.__dict__:
            await self._endpoint.close()
            del self.__dict__["_endpoint"]

    async def _asked(self, question: Question, options: Options, key: str, count: Any) -> Reply:
        body = question.body(options)
        data = to_json(body)
        # The JSON is a little longer than what the model reads: escapes, the schema.
        tokens = int(len(data) / BYTES_PER_TOKEN) + self._capped(LONG_ANSWER)
        call = self._expected(options, body, int(len(data) / DEAREST_BYTES_PER_TOKEN), tokens)
        if self.outbox:
            if refusal := self.outbox.refusal(key):
                await self._step_down(question, refusal)
            responses = self.options.api == "responses"
            return self.outbox.ask(key, as_responses(body) if responses else body, call.dollars)
        async with FirstAlone(self._first, question.prompt.rubric.sha256, self.warms):
            try:
                return await self._endpoint.complete(data, call, count)
            except Unavailable:
                # Is it this trace, or would it be so for every trace? A tiny question tells.
                await self._takes(question.mode, question.prompt.rubric)
                raise
            except ModeRefused as error:
                await self._step_down(question, error)
                raise

    async def _step_down(self, question: Question, error: ModeRefused) -> None:
        """Take the next form if it is the form of a question that the server refuses; return if it
        refuses this one question.

        Raises:
            FormChanged: the question is to be asked again, in the form that is taken now.
            JudgeStopped: it would refuse every question.
        """
        mode, rubric = question.mode, question.prompt.rubric
        lower = self._forms[self._forms.index(mode) + 1 :] if mode in self._forms else ()
        below = next(iter(lower if self.options.mode == "auto" else ()), None)
        if mode == self.mode and not (below and _OF_FORM.search(str(error))):
            if self.outbox or await self._takes(mode, rubric):  # no tiny question is put in batches
                return
            if mode == self.mode and not (below and await self._takes(below, rubric)):
                if self.session.cache:
                    self.session.cache.forget([self._mode_key])
                raise JudgeStopped(f"{error}{self._sent_settings()}") from error
        if mode == self.mode and below:  # else another question was refused before
            self._refused[mode] = sanitize_line(str(error), 300)
            self.mode = below
            self._remember_mode()
        raise FormChanged

    def _form_of(self, prompt: Prompt, sample: int) -> Mode:
        """Return the form to ask in: one left since, where an answer in it is known."""
        cache = self.session.cache
        for mode in self._refused if cache else ():
            if cache and cache.get(Question(prompt, mode, sample).key(self.options)):
                return mode
        return self.mode

    def _sent_settings(self) -> str:
        sent, sent_to = self.options.parameters(1), self.options.model
        shown = ", ".join(f"{key}={value!r}" for key, value in sent.items())
        if not shown:
            return ""
        here = is_local(self.options.base_url)
        ours = sent.get("temperature") == 0 == self.options.spoken.temperature(sent_to, here)
        why = "; 0 is sent to servers on this machine without --temperature, and not with dialect"
        return f"; the request sets {sanitize_line(shown, 300)}{why + ' openai' if ours else ''}"

    @property
    def warms(self) -> bool:
        """Whether a call goes first, so that others find the provider's cache warm."""
        warm = self.options.warm
        return not is_local(self.options.base_url) if warm is None else warm

    def _expected(
        self,
        options: Options,
        body: Mapping[str, Any],
        prompt_tokens: int,
        tokens: int,
        *,
        tiny: bool = False,
    ) -> Expected:
        """Return what a request of at most so many tokens is expected to cost, a long answer
        included.
        """
        dollars = expect_dollars(self.price, prompt_tokens, options.max_output_tokens)
        return Expected(options.model, tokens, *dollars, tiny, least_tokens(body))


class FirstAlone:
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
