"""How many calls are in flight and how many start each minute; a 429 lowers the first."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_DECREASE = 0.7  # the factor for the calls in flight after a 429
_STEPS = 16  # round trips from no calls in flight back to the maximum


class _Rate:
    """Spreads amounts evenly over each minute, without a burst at the start."""

    def __init__(self, per_minute: float | None) -> None:
        self._seconds_each = 60.0 / per_minute if per_minute else 0.0
        self._next_start = 0.0

    def reserve(self, amount: int) -> float:
        """Take an amount; return the seconds until it may start."""
        now = time.monotonic()
        start = max(now, self._next_start)
        self._next_start = start + amount * self._seconds_each
        return start - now

    def correct(self, amount: int) -> None:
        """Add what a call used more than it reserved, or (negative) less."""
        self._next_start += amount * self._seconds_each


class RateLimiter:
    """Bounds the calls in flight, the calls a minute (``rpm``) and the tokens a minute (``tpm``).

    ``maximum`` calls are in flight at first. A 429 lowers ``limit`` to 0.7 of itself, once for all
    calls that were in flight together. Each success raises it again: by a sixteenth of the maximum
    in a round trip (additive increase, multiplicative decrease).
    """

    def __init__(
        self, maximum: int = 8, rpm: float | None = None, tpm: float | None = None
    ) -> None:
        self.maximum = maximum
        self.limit = float(maximum)
        self.reductions = 0  # so many times the limit was lowered
        self._calls = _Rate(rpm)
        self._tokens = _Rate(tpm)
        self._in_flight = 0
        self._waiters: deque[asyncio.Future[None]] = deque()

    @property
    def state(self) -> str:
        """A note for the progress line if the limit is lowered, else ""."""
        if int(self.limit) >= self.maximum:
            return ""
        return f"slowed down to {int(self.limit)}/{self.maximum}"

    @asynccontextmanager
    async def slot(self, tokens: int) -> AsyncIterator[None]:
        """Wait until a call of so many tokens may start, and count it as in flight."""
        await self._acquire()
        try:
            pause = max(self._calls.reserve(1), self._tokens.reserve(tokens))
            if pause > 0:
                await asyncio.sleep(pause)
            yield
        finally:
            self._in_flight -= 1
            self._start_waiters()

    def correct_tokens(self, difference: int) -> None:
        """Count tokens that a call used beyond its estimate, or (negative) did not use."""
        self._tokens.correct(difference)

    def increase(self) -> None:
        """Raise the limit a little, after a success."""
        if self.limit < self.maximum:
            step = max(1, self.maximum / _STEPS) / self.limit
            self.limit = min(self.maximum, self.limit + step)
            self._start_waiters()

    def reduce(self, reductions: int) -> None:
        """Lower the limit after a 429, unless it was lowered since the call began.

        Args:
            reductions: the value of ``reductions`` when the call began.
        """
        if reductions == self.reductions:
            self.reductions += 1
            self.limit = max(1.0, min(self.limit, max(self._in_flight, 1)) * _DECREASE)

    async def _acquire(self) -> None:
        if self._in_flight < int(self.limit) and not self._waiters:
            self._in_flight += 1
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():  # its slot goes to the next
                self._in_flight -= 1
                self._start_waiters()
            raise

    def _start_waiters(self) -> None:
        while self._waiters and self._in_flight < int(self.limit):
            waiter = self._waiters.popleft()
            if not waiter.done():
                self._in_flight += 1
                waiter.set_result(None)
