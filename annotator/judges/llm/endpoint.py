"""One OpenAI-compatible endpoint: calls, retries, and what its errors mean."""

import asyncio
import email.utils
import random
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import openai
from openai import AsyncOpenAI, DefaultAioHttpClient
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type
from tenacity.wait import wait_random_exponential

from annotator.annotations import Usage
from annotator.errors import JudgeStopped
from annotator.judges.llm.budget import Budget
from annotator.judges.llm.failures import CallFailed, ModeRefused, Unavailable
from annotator.judges.llm.keys import without_secrets
from annotator.judges.llm.overflow import too_long
from annotator.judges.llm.pace import Pace
from annotator.judges.llm.prices import Price
from annotator.judges.llm.reply import Reply, read_reply, read_usage
from annotator.judges.llm.settings import Options
from annotator.text import one_line

_LONGEST_PAUSE = 60.0  # between two attempts, where the server does not say how long
_TRANSIENT = frozenset([408, 409, 429])
_FILTERED = re.compile(r"content.?(filter|policy|management)|moderation|flagged", re.IGNORECASE)
_FORM = re.compile(r"tool|function|response_format|json|structured", re.IGNORECASE)


class _Transient(Exception):
    """Worth another attempt. ``after`` is the server's Retry-After in seconds, if it sent one."""

    def __init__(self, reason: str, after: float | None = None, status: int | None = None) -> None:
        super().__init__(reason)
        self.after = after
        self.status = status


class Endpoint:
    """Sends chat completions of one model. ``worked``: whether any judgement was answered yet."""

    def __init__(
        self, options: Options, key: str, pace: Pace, budget: Budget | None, price: Price | None
    ) -> None:
        self.worked = False
        self._options = options
        self._pace = pace
        self._budget = budget
        self._price = price
        self._client = AsyncOpenAI(
            base_url=options.base_url,
            api_key=key,
            timeout=options.timeout,
            max_retries=0,  # retries are counted here
            http_client=DefaultAioHttpClient(),
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def complete(
        self,
        body: bytes,
        tokens: int,
        most: float,
        count: Callable[[Usage], None],
        *,
        probe: bool = False,
    ) -> Reply:
        """Return the answer to one request; every attempt is reported to ``count``.

        Args:
            body: the request, as JSON.
            tokens: how many tokens it will take, roughly.
            most: dollars that it will hardly exceed.
            count: is told what each attempt used.
            probe: do not insist on an error 500: it may be the server's way to reject a form.

        Raises:
            JudgeStopped: the key or the model is refused, or the server cannot be reached.
            BudgetReached: there is not enough left for it.
            ModeRefused: the server rejects the request.
            CallFailed: its content is refused, or all attempts failed.
        """
        options = self._options
        backoff = wait_random_exponential(multiplier=0.5, max=_LONGEST_PAUSE)

        def wait(state: RetryCallState) -> float:
            after = _error(state).after
            return backoff(state) if after is None else after * random.uniform(1.0, 1.1)  # noqa: S311

        def stop(state: RetryCallState) -> bool:
            hopeless = probe and _error(state).status in (500, 501)
            late = (state.seconds_since_start or 0.0) + state.upcoming_sleep > options.max_wait
            return late or state.attempt_number >= (2 if hopeless else options.attempts)

        retrying = AsyncRetrying(
            stop=stop, wait=wait, retry=retry_if_exception_type(_Transient), reraise=True
        )
        attempts = 0

        async def once() -> Reply:
            nonlocal attempts
            attempts += 1
            repeat = Usage(retries=int(attempts > 1))
            return await self._attempt(body, tokens, most, lambda usage: count(usage + repeat))

        try:
            reply: Reply = await retrying(once)
        except _Transient as error:
            words = f"{error} (the last of {attempts} attempts)"
            if error.after and error.after > options.max_wait:
                words += f"; it asks to wait {error.after:.0f} s, longer than --max-wait"
            if not self.worked and error.status is None:
                raise JudgeStopped(f"{without_secrets(options.base_url)}: {words}") from error
            if error.status in (500, 501):
                raise ModeRefused(words, error.status) from error
            raise Unavailable(words) from error
        self.worked = self.worked or not probe
        return reply

    async def _attempt(
        self, body: bytes, tokens: int, most: float, count: Callable[[Usage], None]
    ) -> Reply:
        async with self._pace.turn(tokens):
            reserved = await self._budget.reserve(most) if self._budget else 0.0
            usage = Usage(calls=1, unreported_calls=1)  # until there is an answer
            begun = time.monotonic()
            try:
                answer = await self._sent(body)
                usage = self._priced(answer)
                reply = read_reply(answer)
                self._pace.succeeded()
                self._pace.used(usage.input_tokens + usage.output_tokens - tokens)
                return reply
            except openai.APIStatusError as error:
                usage = Usage(calls=1)  # an error is not charged
                if error.status_code == 429:
                    self._pace.refused(begun)
                return _meaning(error)
            except ValueError as error:
                raise _Transient(str(error)) from error
            finally:
                count(replace(usage, seconds=time.monotonic() - begun))
                if self._budget:
                    known = usage.cost_usd if not usage.unreported_calls else None
                    await self._budget.settle(reserved, known)

    async def _sent(self, body: bytes) -> object:
        try:
            # The client's own timeout is for each read: a server that sends a blank now and then
            # would never meet it.
            async with asyncio.timeout(self._options.timeout):
                return await self._client.post("/chat/completions", content=body, cast_to=object)
        except openai.APIStatusError:
            raise
        except TimeoutError as error:
            raise _Transient("no answer in time") from error
        except openai.APIConnectionError as error:  # a refused connection is a timeout to openai
            cause = error.__cause__ or error
            if isinstance(error, openai.APITimeoutError) and "Connect" not in type(cause).__name__:
                raise _Transient("no answer in time") from error
            raise _Transient(f"connection failed: {one_line(str(cause), 200)}") from error
        except (openai.APIError, ValueError) as error:
            raise _Transient(f"answer not understood: {one_line(str(error), 200)}") from error

    def _priced(self, answer: object) -> Usage:
        """Return what an answer used; without tokens or without a price, its cost is not known."""
        usage = read_usage(answer)
        if usage is None or self._price is None:
            return replace(usage or Usage(), calls=1, cost_usd=None)
        return replace(usage, calls=1, cost_usd=self._price.of(usage))


def _error(state: RetryCallState) -> _Transient:
    error = state.outcome.exception() if state.outcome else None
    return error if isinstance(error, _Transient) else _Transient("")


def _meaning(error: openai.APIStatusError) -> Reply:
    """Return the reply that an HTTP error is: that the prompt is too long for the model.

    Raises:
        CallFailed, JudgeStopped, ModeRefused, _Transient: what any other means for the run.
    """
    status = error.status_code
    body = error.body if isinstance(error.body, dict) else {}
    code = str(body.get("code") or body.get("type") or "")
    said = one_line(str(body.get("message") or error.message), 300)
    words = f"HTTP {status}: {said}"
    text = f"{code} {said}"
    request = status < 500 and status not in _TRANSIENT  # what the server has to say of ours
    if (status == 413 or request) and (reply := too_long(words, error.body, code, status == 413)):
        return reply
    if request and _FILTERED.search(text):
        raise CallFailed(f"the server refuses the content: {words}")
    if status in (401, 402, 403) or code == "insufficient_quota":
        raise JudgeStopped(f"the server refuses the key or the account: {words}")
    if status == 404 and not _FORM.search(said):
        raise JudgeStopped(f"no such model or address: {words}")
    if status in _TRANSIENT or status >= 500:
        raise _Transient(words, _retry_after(error), status)
    raise ModeRefused(f"the server rejects the request: {words}", status)


def _retry_after(error: openai.APIStatusError) -> float | None:
    headers = error.response.headers
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "")
        try:
            return max(0.0, float(value) * unit)
        except ValueError:
            with suppress(ValueError, OverflowError, TypeError):
                moment = email.utils.parsedate_to_datetime(value)
                return max(0.0, moment.timestamp() - time.time())
    return None
