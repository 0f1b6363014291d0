"""One OpenAI-compatible endpoint: calls, retries, and what its errors mean."""

import email.utils
import json
import os
import random
import re
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from urllib.parse import urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type
from tenacity.wait import wait_random_exponential

from annotator import __version__
from annotator.annotations import Usage
from annotator.errors import JudgeStopped
from annotator.judges.llm.budget import Budget
from annotator.judges.llm.failures import CallFailed, ModeRefused, Unavailable
from annotator.judges.llm.keys import is_local
from annotator.judges.llm.overflow import too_long
from annotator.judges.llm.pace import Pace
from annotator.judges.llm.prices import Price, priced
from annotator.judges.llm.reply import Reply, read_reply
from annotator.judges.llm.settings import Options
from annotator.text import decoded, one_line, without_url_secrets

_LONGEST_PAUSE = 60.0  # between two attempts, where the server does not say how long
_LONGEST_RESPONSE = 16 << 20  # bytes
_TRANSIENT = frozenset([408, 409, 429])
_FILTERED = re.compile(r"content.?(filter|policy|management)|moderation|flagged", re.IGNORECASE)
_FORM = re.compile(r"tool|function|response_format|json|structured", re.IGNORECASE)


class _Transient(Exception):
    """Worth another attempt. ``after`` is the server's Retry-After in seconds, if it sent one."""

    def __init__(self, reason: str, after: float | None = None, status: int | None = None) -> None:
        super().__init__(reason)
        self.after = after
        self.status = status


class _NoConnection(_Transient):
    """The request was never sent."""


class _Refused(Exception):
    """An answer with another status than 200. ``fields``: what the error in it holds."""

    def __init__(self, status: int, headers: Mapping[str, str], answer: object) -> None:
        super().__init__(status)
        self.status = status
        self.headers = headers
        given = answer.get("error", answer) if isinstance(answer, dict) else answer
        self.fields: dict[str, object] = given if isinstance(given, dict) else {}
        self.code = str(self.fields.get("code") or self.fields.get("type") or "")
        words = self.fields.get("message") or self.fields.get("detail") or given
        self.said = one_line(str(words), 300) or "no words"


class Endpoint:
    """Sends chat completions of one model."""

    def __init__(
        self, options: Options, key: str, pace: Pace, budget: Budget | None, price: Price | None
    ) -> None:
        self._options = options
        self._pace = pace
        self._budget = budget
        self._price = price
        self._url = completions_url(options.base_url)
        # aiohttp itself and not openai's client, which takes three times the CPU for the same call:
        # bench/judging.py. As many connections as calls in flight, which the pace bounds.
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=_certificates(options.base_url)),
            headers=_headers(key, options.base_url),
            timeout=aiohttp.ClientTimeout(total=options.timeout),
            proxy=_proxy(options.base_url),
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()

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
            JudgeStopped: the key or the model is refused.
            BudgetReached: there is not enough left for it.
            ModeRefused: the server rejects the request.
            Unavailable: all attempts failed.
            CallFailed: its content is refused.
        """
        options = self._options
        begun = time.monotonic()
        attempts, queued = 0, 0.0  # seconds in which it was not its turn
        failed: _Transient | None = None

        async def once() -> Reply:
            nonlocal attempts, queued
            asked = time.monotonic()
            async with self._pace.turn(tokens):
                reserved = await self._budget.reserve(most, tiny=probe) if self._budget else 0.0
                queued += time.monotonic() - asked
                attempts += 1
                repeat = Usage(retries=int(attempts > 1))
                return await self._attempt(
                    body, tokens, reserved, probe, lambda usage: count(usage + repeat)
                )

        def stop(state: RetryCallState) -> bool:
            hopeless = probe and _error(state).status in (500, 501)
            trying = time.monotonic() - begun - queued
            late = trying + state.upcoming_sleep > options.max_wait
            return late or attempts >= (2 if hopeless else options.attempts)

        async def again() -> Reply:
            nonlocal failed
            if failed:  # the first attempt
                error, failed = failed, None
                raise error
            return await once()

        try:
            try:
                reply = await once()
            except _Transient as error:
                # Only now: tenacity takes a tenth of the CPU of a call that succeeds.
                failed = error
                reply = await AsyncRetrying(
                    stop=stop, wait=_wait, retry=retry_if_exception_type(_Transient), reraise=True
                )(again)
        except _Transient as error:
            words = f"{error} (the last of {attempts} attempts)"
            if error.after and error.after > options.max_wait:
                words += f"; it asks to wait {error.after:.0f} s, longer than --max-wait"
            if error.status in (500, 501):
                raise ModeRefused(words, error.status) from error
            raise Unavailable(words) from error
        return reply

    async def _attempt(
        self, body: bytes, tokens: int, reserved: float, tiny: bool, count: Callable[[Usage], None]
    ) -> Reply:
        usage = Usage(calls=1, unreported_calls=1)  # until there is an answer
        begun, narrowed = time.monotonic(), self._pace.narrowed
        try:
            answer = await self._sent(body)
            usage = priced(answer, self._price)
            reply = read_reply(answer)
            self._pace.succeeded()
            self._pace.used(usage.input_tokens + usage.output_tokens - tokens)
            return reply
        except _Refused as error:
            usage = Usage(calls=1)  # an error is not charged
            if error.status == 429:
                self._pace.refused(narrowed)
            return _meaning(error)
        except ValueError as error:
            raise _Transient(str(error)) from error
        except _NoConnection:
            usage = Usage(calls=1)  # nobody heard it
            raise
        finally:
            count(replace(usage, seconds=time.monotonic() - begun))
            if self._budget:
                known = usage.cost_usd if not usage.unreported_calls else None
                telling = bool(usage.input_tokens) and not tiny
                await self._budget.settle(reserved, known, telling=telling)

    async def _sent(self, body: bytes) -> object:
        """Return the JSON that the server answers."""
        try:
            async with self._http.post(self._url, data=body, allow_redirects=False) as response:
                data = await _read(response)
        except TimeoutError as error:  # of the call as a whole, however often a blank came
            raise _Transient("no answer in time") from error
        except aiohttp.ClientConnectorError as error:
            reason = error.os_error.strerror or str(error.os_error)
            raise _NoConnection(f"connection failed: {one_line(reason, 200)}") from error
        except (aiohttp.ClientError, OSError) as error:
            words = without_url_secrets(str(error)) or type(error).__name__
            raise _Transient(f"connection failed: {one_line(words, 200)}") from error
        try:
            answer: object = json.loads(data)
        except (ValueError, RecursionError) as error:
            answer = decoded(data)
            if response.status == 200:
                said = one_line(str(error), 200)
                raise _Transient(f"answer not understood: {said}") from error
        if response.status != 200:
            raise _Refused(response.status, response.headers, answer)
        return answer


def completions_url(base_url: str) -> str:
    """Return where completions are asked for below a base URL, whose query is kept."""
    parts = urlsplit(base_url)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/chat/completions"))


def _headers(key: str, base_url: str) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "User-Agent": f"failure-annotator/{__version__}"}
    if not urlsplit(base_url).username:  # else these are sent in its place
        headers["Authorization"] = f"Bearer {key}"
    for name, variable in (("Organization", "OPENAI_ORG_ID"), ("Project", "OPENAI_PROJECT_ID")):
        if value := os.environ.get(variable):
            headers[f"OpenAI-{name}"] = value
    return headers


def _proxy(url: str) -> str | None:
    """Return the proxy that the environment names for a URL. aiohttp would look for it, and for a
    .netrc in a thread, at every call.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    return None if proxy_bypass(host) or is_local(url) else getproxies().get(parts.scheme)


def _certificates(url: str) -> ssl.SSLContext | bool:
    """Return the certificates to trust: the system's and, as some have none, those of certifi,
    which comes with openai.
    """
    if not url.startswith("https"):
        return True  # none are needed, and they take long to read
    context = ssl.create_default_context()
    with suppress(ImportError):
        context.load_verify_locations(import_module("certifi").where())
    return context


async def _read(response: aiohttp.ClientResponse) -> bytes:
    data = bytearray()
    async for piece in response.content.iter_any():
        data += piece
        if len(data) > _LONGEST_RESPONSE:
            raise _Transient(f"answer longer than {_LONGEST_RESPONSE >> 20} MB")
    return bytes(data)


_backoff = wait_random_exponential(multiplier=0.5, max=_LONGEST_PAUSE)


def _wait(state: RetryCallState) -> float:
    """Return the seconds until the next attempt: what the server asks for, or a random pause."""
    after = _error(state).after
    if after is None:
        return _backoff(state)
    least = 0.05 * 2.0 ** min(state.attempt_number, 10)  # where it says 0 again and again
    return max(least, after) * random.uniform(1.0, 1.1)  # noqa: S311


def _error(state: RetryCallState) -> _Transient:
    error = state.outcome.exception() if state.outcome else None
    return error if isinstance(error, _Transient) else _Transient("")


def _meaning(error: _Refused) -> Reply:
    """Return the reply that an HTTP error is: that the prompt is too long for the model.

    Raises:
        CallFailed, JudgeStopped, ModeRefused, _Transient: what any other means for the run.
    """
    status, code, said = error.status, error.code, error.said
    words = f"HTTP {status}: {said}"
    request = status < 500 and status not in _TRANSIENT  # what the server has to say of ours
    if request and (reply := too_long(words, error.fields, code, status == 413)):
        return reply
    if request and _FILTERED.search(f"{code} {said}"):
        raise CallFailed(f"the server refuses the content: {words}")
    if status in (401, 402, 403) or code == "insufficient_quota":
        raise JudgeStopped(f"the server refuses the key or the account: {words}")
    if status == 404 and not _FORM.search(said):
        raise JudgeStopped(f"no such model or address: {words}")
    if status in _TRANSIENT or status >= 500:
        raise _Transient(words, _retry_after(error.headers), status)
    raise ModeRefused(f"the server rejects the request: {words}", status)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "")
        try:
            return max(0.0, float(value) * unit)
        except ValueError:
            with suppress(ValueError, OverflowError, TypeError):
                moment = email.utils.parsedate_to_datetime(value)
                return max(0.0, moment.timestamp() - time.time())
    return None
