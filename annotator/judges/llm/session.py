"""What all judges of one run share: how fast they ask, what the run may cost, what is known."""

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, Protocol

from annotator.annotations import Usage
from annotator.errors import BudgetReached
from annotator.judges.llm.cache import AnswerCache

_LOWER = 0.7  # of the calls in flight are left after a 429
_STEPS = 16  # round trips that it takes to come back from nothing


class _Meter:
    """Lets amounts pass at so many a minute, evenly: without a burst at the start."""

    def __init__(self, per_minute: int | None) -> None:
        self._each = 60.0 / per_minute if per_minute else 0.0
        self._free_at = 0.0

    def wait(self, amount: int) -> float:
        """Take an amount; return the seconds until its turn."""
        now = time.monotonic()
        turn = max(now, self._free_at)
        self._free_at = turn + amount * self._each
        return turn - now

    def correct(self, amount: int) -> None:
        """Add what was used more than was taken, or give back what was used less."""
        self._free_at += amount * self._each


class Pace:
    """The calls in flight: at most ``limit``, fewer after the server said "too many requests".

    A 429 lowers the window to 0.7 of itself, at most once for the calls that were in flight
    together; every call that succeeds widens it again, by a sixteenth of the limit each round trip
    (additive increase, multiplicative decrease). ``rpm`` and ``tpm`` are calls and tokens a minute.
    """

    def __init__(self, limit: int = 8, rpm: int | None = None, tpm: int | None = None) -> None:
        self.limit = limit
        self.window = float(limit)
        self.narrowed = 0  # how often the window was
        self._calls = _Meter(rpm)
        self._tokens = _Meter(tpm)
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def state(self) -> str:
        """What there is to say on the progress line: that the server wants fewer calls."""
        if int(self.window) >= self.limit:
            return ""
        return f"slowed down to {int(self.window)}/{self.limit}"

    @asynccontextmanager
    async def turn(self, tokens: int) -> AsyncIterator[None]:
        """Wait for a place in flight, and for the rates to allow a call of so many tokens."""
        await self._enter()
        try:
            pause = max(self._calls.wait(1), self._tokens.wait(tokens))
            if pause > 0:
                await asyncio.sleep(pause)
            yield
        finally:
            self._in_flight -= 1
            self._wake()

    def used(self, more_tokens: int) -> None:
        """Say that a call used so many tokens more than expected (or, negative, fewer)."""
        self._tokens.correct(more_tokens)

    def succeeded(self) -> None:
        """Widen the window a little."""
        if self.window < self.limit:
            self.window = min(self.limit, self.window + max(1, self.limit / _STEPS) / self.window)
            self._wake()

    def refused(self, narrowed: int) -> None:
        """Narrow the window, unless it was since the call began, when it had been so often."""
        if narrowed == self.narrowed:
            self.narrowed += 1
            self.window = max(1.0, min(self.window, max(self._in_flight, 1)) * _LOWER)

    async def _enter(self) -> None:
        if self._in_flight < int(self.window) and not self._waiting:
            self._in_flight += 1
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():  # it was given, and is not taken
                self._in_flight -= 1
                self._wake()
            raise

    def _wake(self) -> None:
        while self._waiting and self._in_flight < int(self.window):
            place = self._waiting.popleft()
            if not place.done():
                self._in_flight += 1
                place.set_result(None)


@dataclass(slots=True)
class _Outlook:
    """What calls of one model have cost so far: what the next one is expected to.

    ``more``: the most that one has cost beyond what its prompt was expected to; None: none has been
    answered yet.
    """

    dearest: float = 0.0
    more: float | None = None
    in_flight: int = 0

    def expects(self, prompt: float, answer: float) -> float:
        if self.more is None and not self.dearest:
            return prompt + answer
        return max(self.dearest, prompt + (self.more or 0.0))

    @property
    def is_blank(self) -> bool:
        return self.more is None and not self.dearest


class Budget:
    """Dollars that a run may cost in all, spent before and reserved for calls in flight included.

    ``dearest``: what a call has cost in an earlier part of the run, 0 if nothing is known.

    Nothing bounds an answer for the sake of money, so that what a call costs is known when it is
    answered and not before. It reserves what calls of its model have cost so far, the dearest of
    them; the first one of a model goes alone and reserves a guess. Where a call does not fit, it
    waits for those in flight to turn out cheaper; if none is left, the budget is reached. So a run
    exceeds its budget at most by what the calls in flight at one moment cost more than the dearest
    before them: nothing where answers are alike, and never by more than one answer for each.
    """

    def __init__(self, most: float, spent: float = 0.0, dearest: float = 0.0) -> None:
        self.most = most
        self.spent = spent
        self._reserved = 0.0
        self._in_flight = 0
        self._outlooks: dict[str, _Outlook] = defaultdict(lambda: _Outlook(dearest))
        self._changed = asyncio.Condition()

    def check(self, dollars: float) -> None:
        """Raise :class:`BudgetReached` if a batch may cost more than is left."""
        if self.spent + dollars > self.most:
            raise self._reached("batch", dollars)

    def _reached(self, what: str, dollars: float) -> BudgetReached:
        return BudgetReached(
            f"the next {what} may cost {dollars:.4f} USD, and {self.spent:.4f} of"
            f" {self.most:.4f} USD (--max-cost) are spent"
        )

    async def reserve(self, call: "Expected") -> float:
        """Wait until a call fits; return what was reserved for it.

        Raises:
            BudgetReached: it does not fit, and nothing is in flight.
        """
        outlook = self._outlooks[call.model]
        async with self._changed:
            while True:
                wanted = call.dollars if call.tiny else outlook.expects(call.prompt, call.answer)
                fits = self.spent + self._reserved + wanted <= self.most
                if fits and not (outlook.is_blank and outlook.in_flight):
                    self._reserved += wanted
                    self._in_flight += 1
                    outlook.in_flight += 1
                    return wanted
                if not self._in_flight:
                    raise self._reached("call", wanted)
                await self._changed.wait()

    async def settle(
        self, call: "Expected", reserved: float, dollars: float | None, *, telling: bool
    ) -> None:
        """End a call: it cost ``dollars``; what is not known counts as all that was reserved.

        ``telling``: a judgement was answered, so that this is what one can cost.
        """
        outlook = self._outlooks[call.model]
        async with self._changed:
            self._reserved -= reserved
            self._in_flight -= 1
            outlook.in_flight -= 1
            cost = reserved if dollars is None else dollars
            self.spent += cost
            if telling and not call.tiny:
                outlook.dearest = max(outlook.dearest, cost)
                outlook.more = max(outlook.more or 0.0, cost - call.prompt)
            self._changed.notify_all()


@dataclass(frozen=True, slots=True)
class Expected:
    """What a call is expected to use before anything of its model is known.

    ``tokens``: in all, roughly. ``prompt``: dollars for what is sent, rather more; ``answer``: for
    a long answer. ``tiny``: it is no judgement.
    """

    model: str
    tokens: int
    prompt: float
    answer: float
    tiny: bool = False

    @property
    def dollars(self) -> float:
        """What it may cost in all."""
        return self.prompt + self.answer


class Outbox(Protocol):
    """Takes questions that are not answered at once.

    ``asks_again``: what was answered badly can be asked again in a resumed run. ``spent``: what it
    used for no answer.
    """

    asks_again: bool
    spent: Usage

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
