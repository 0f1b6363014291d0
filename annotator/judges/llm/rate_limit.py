"""How many calls are in flight, and how many a minute: what a server's 429 changes."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_LOWER = 0.7  # of the calls in flight are left after a 429
_STEPS = 16  # round trips that it takes to come back from nothing


class _Meter:
    """Lets amounts pass at so many a minute, evenly: without a burst at the start."""

    def __init__(self, per_minute: float | None) -> None:
        self._each = 60.0 / per_minute if per_minute else 0.0
        self.free_at = 0.0

    def wait(self, amount: int) -> float:
        """Take an amount; return the seconds until its turn."""
        now = time.monotonic()
        turn = max(now, self.free_at)
        self.free_at = turn + amount * self._each
        return turn - now

    def correct(self, amount: int) -> None:
        """Add what was used more than was taken, or give back what was used less."""
        self.free_at += amount * self._each


class Pace:
    """The calls in flight: at most ``limit``, fewer after the server said "too many requests".

    A 429 lowers the window to 0.7 of itself, at most once for the calls that were in flight
    together; every call that succeeds widens it again, by a sixteenth of the limit each round trip
    (additive increase, multiplicative decrease). ``rpm`` and ``tpm`` are calls and tokens a minute.
    """

    def __init__(self, limit: int = 8, rpm: float | None = None, tpm: float | None = None) -> None:
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
