"""One OpenAI-compatible endpoint: calls, retries, and what its errors mean."""

import asyncio
import email.utils
import json
import random
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from openai import APIConnectionError, APIStatusError
from pydantic_core import to_json
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type
from tenacity.wait import wait_random_exponential

from annotator.base.errors import JudgeStopped
from annotator.base.text import hide_url_secrets, sanitize_line
from annotator.judges.llm.budget import Budget, Expected
from annotator.judges.llm.client import Transient, describe_redirect, open_client
from annotator.judges.llm.native import Native, open_native
from annotator.judges.llm.pace import Pace
from annotator.judges.llm.prices import Price, read_cost
from annotator.judges.llm.reply import (
    TRANSIENT,
    CallFailed,
    ModeRefused,
    Reply,
    Unavailable,
    read_reply,
    too_long,
)
from annotator.judges.llm.responses import as_responses
from annotator.judges.llm.secrets import Secrets
from annotator.judges.llm.settings import NATIVE, Options
from annotator.rubrics.annotations import Usage

_LONGEST_PAUSE = 60.0  # between two attempts, where the server does not say how long
_FILTERED = re.compile(r"content.?(filter|policy|management)|moderation|flagged", re.IGNORECASE)
_ONLY_RESPONSES = re.compile(
    r"only (?:supported|available|served) in (?:the )?/?(?:v1/)?responses"
    r"|use (?:the )?/?(?:v1/)?responses|not a chat model",
    re.IGNORECASE,
)
# Gemini says so with status 400.
_NO_KEY = re.compile(r"api.?key (?:is )?(?:not valid|invalid|expired)", re.IGNORECASE)
_SECONDS = re.compile(r"(\d{1,6}(?:\.\d+)?)s")
_FORM = re.compile(
    r"tool|function|response_format|json|structured|strict|requested parameters", re.IGNORECASE
)


class _NoConnection(Transient):
    """The request was never sent."""


class Endpoint:
    """Sends chat completions of one model."""

    def __init__(
        self, options: Options, key: str, pace: Pace, budget: Budget | None, price: Price | None
    ) -> None:
        self._options = options
        self._secrets = Secrets.of(options, key)
        self._pace = pace
        self._budget = budget
        self._price = price
        # As many connections as calls in flight, which the pace bounds. Retries are ours: they keep
        # the pace and the budget.
        self._native: Native | None = None
        if options.api in NATIVE:
            self._native = open_native(options, key, pace.limit)
        else:
            self._client = open_client(options, key, pace.limit, attempts=1)
            # In full, so that they are not put together at every call.
            address = str(self._client.base_url).rstrip("/")  # without one where it has no path
            self._url = f"{address}/chat/completions"
            # At Azure it belongs to no deployment.
            self._responses_url = f"{address.partition('/deployments/')[0]}/responses"
        self._responses = options.api == "responses"

    @property
    def by_responses(self) -> bool:
        """Whether the model is asked by the Responses API."""
        return self._responses

    async def close(self) -> None:
        """Close the connections, where the task is cancelled meanwhile too."""
        closing = asyncio.ensure_future((self._native or self._client).close())
        try:
            await asyncio.shield(closing)
        finally:
            await closing

    async def complete(
        self,
        body: bytes,
        call: Expected,
        count: Callable[[Usage], None],
    ) -> Reply:
        """Return the answer to one request; every attempt is reported to ``count``.

        Args:
            body: the request for a chat completion, as JSON.
            call: what it is expected to use. With a tiny one an error 500 is not insisted on: it
                may be the server's way to reject a form.
            count: is told what each attempt used.

        Raises:
            JudgeStopped: the key or the model is refused.
            BudgetReached: there is not enough left for it.
            ModeRefused: the server rejects the request.
            Unavailable: all attempts failed.
            CallFailed: its content is refused.
        """
        with self._secrets.kept():
            return await self._complete(body, call, count)

    async def _complete(self, body: bytes, call: Expected, count: Callable[[Usage], None]) -> Reply:
        options = self._options
        begun = time.monotonic()
        attempts, queued = 0, 0.0  # seconds in which it was not its turn
        failed: Transient | None = None

        async def once() -> Reply:
            nonlocal attempts, queued
            asked = time.monotonic()
            async with self._pace.turn(call.tokens):
                reserved = await self._budget.reserve(call) if self._budget else 0.0
                queued += time.monotonic() - asked
                attempts += 1
                repeat = Usage(retries=int(attempts > 1))
                return await self._attempt(
                    body, call, reserved, lambda usage: count(usage + repeat)
                )

        def stop(state: RetryCallState) -> bool:
            hopeless = call.tiny and _error(state).status in (500, 501)
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
            except Transient as error:
                # Only now: tenacity takes a tenth of the CPU of a call that succeeds.
                failed = error
                reply = await AsyncRetrying(
                    stop=stop, wait=_wait, retry=retry_if_exception_type(Transient), reraise=True
                )(again)
        except Transient as error:
            words = f"{error} (the last of {attempts} attempts)"
            if error.after and error.after > options.max_wait:
                words += f"; it asks to wait {error.after:.0f} s, longer than max_wait"
            if error.status in (500, 501):
                raise ModeRefused(words, error.status) from error
            raise Unavailable(words) from error
        return reply

    async def _attempt(
        self, body: bytes, call: Expected, reserved: float, count: Callable[[Usage], None]
    ) -> Reply:
        usage = Usage(calls=1, unreported_calls=1)  # until there is an answer
        begun, narrowed = time.monotonic(), self._pace.narrowed
        try:
            answer = await self._sent(body)
            usage = read_cost(answer, self._price, self._options.spoken, call.least)
            reply = read_reply(answer, self._secrets.clean_text)
            self._pace.succeeded()
            self._pace.used(usage.input_tokens + usage.output_tokens - call.tokens)
            return reply
        except APIStatusError as error:
            usage = Usage(calls=1)  # an error is not charged
            if error.status_code == 429:
                self._pace.refused(narrowed)
            return _meaning(error, self._secrets)
        except ValueError as error:
            raise Transient(str(error)) from error
        except _NoConnection:
            usage = Usage(calls=1)  # nobody heard it
            raise
        finally:
            count(replace(usage, seconds=time.monotonic() - begun))
            if self._budget:
                cost = usage.cost_usd if not usage.unreported_calls else None
                telling = cost is not None and bool(usage.input_tokens)
                await self._budget.settle(call, reserved, cost, telling=telling)

    async def _sent(self, body: bytes) -> object:
        """Return the JSON that the server answers: by the Responses API, where it says that it has
        the model there alone; raises as :meth:`_posted`.
        """
        responses = self._responses
        try:
            return await self._posted(body, responses)
        except APIStatusError as error:
            words = f"{error.message} {error.body}"
            if responses or self._options.api != "auto" or not _ONLY_RESPONSES.search(words):
                raise
            self._responses = True
        return await self._posted(body, responses=True)

    async def _posted(self, body: bytes, responses: bool) -> object:
        """Return the JSON that the server answers.

        Raises:
            openai.APIStatusError: it answers with an error.
            JudgeStopped: the request cannot be put to the Responses API.
            Transient: it does not answer, or not with JSON.
        """
        if responses:
            body = to_json(as_responses(json.loads(body)))
        try:
            # Of the call as a whole, however often a blank comes.
            async with asyncio.timeout(self._options.timeout):
                if self._native:
                    return await self._native.post(json.loads(body))
                url = self._responses_url if responses else self._url
                answer: object = await self._client.post(url, content=body, cast_to=object)
            # The library parses what the server calls JSON.
            return json.loads(answer) if isinstance(answer, str) else answer
        except TimeoutError as error:
            raise Transient("no answer in time") from error
        except APIConnectionError as error:
            raise _explain_lost(error, self._secrets) from error
        except (ValueError, RecursionError) as error:
            raise Transient(f"answer not understood: {sanitize_line(str(error), 200)}") from error


def _explain_lost(error: APIConnectionError, secrets: Secrets) -> Transient:
    """Return what a call was that ended without an answer.

    The library's own classes call a dropped connection a timeout; what aiohttp said is below them.
    """
    cause: BaseException = error
    while not isinstance(cause, Transient | aiohttp.ClientConnectorError) and cause.__cause__:
        cause = cause.__cause__
    if isinstance(cause, Transient):
        return cause
    if isinstance(cause, aiohttp.ClientConnectorError):
        reason = cause.os_error.strerror or str(cause.os_error)
        return _NoConnection(f"connection failed: {sanitize_line(reason, 200)}")
    if isinstance(cause, TimeoutError):
        return Transient("no answer in time")
    # Before it is cut: half a secret is found no more.
    words = secrets.clean_text(hide_url_secrets(str(cause))) or type(cause).__name__
    return Transient(f"connection failed: {sanitize_line(words, 200)}")


_backoff = wait_random_exponential(multiplier=0.5, max=_LONGEST_PAUSE)


def _wait(state: RetryCallState) -> float:
    """Return the seconds until the next attempt: what the server asks for, or a random pause."""
    after = _error(state).after
    if after is None:
        return _backoff(state)
    least = 0.05 * 2.0 ** min(state.attempt_number, 10)  # where it says 0 again and again
    return max(least, after) * random.uniform(1.0, 1.1)  # noqa: S311


def _error(state: RetryCallState) -> Transient:
    error = state.outcome.exception() if state.outcome else None
    return error if isinstance(error, Transient) else Transient("")


def _meaning(error: APIStatusError, secrets: Secrets) -> Reply:
    """Return the reply that an HTTP error is: that the prompt is too long for the model.

    Raises:
        CallFailed, JudgeStopped, ModeRefused, Transient: what any other means for the run.
    """
    status = error.status_code
    fields = _error_fields(error.body)
    code = str(fields.get("code") or fields.get("type") or "")
    given = fields.get("message") or fields.get("detail") or fields or error.body
    message = sanitize_line(secrets.clean_text(str(given)), 300)
    message = message or "no words"
    words = f"HTTP {status}: {message}"
    request = status < 500 and status not in TRANSIENT  # what the server has to say of ours
    if request and (reply := too_long(words, fields, code, status == 413)):
        return reply
    if request and _FILTERED.search(f"{code} {message}"):
        raise CallFailed(f"the server refuses the content: {words}", "refusal")
    if elsewhere := describe_redirect(error):
        raise JudgeStopped(elsewhere)
    if status in (401, 402, 403) or code == "insufficient_quota" or _NO_KEY.search(message):
        raise JudgeStopped(f"the server refuses the key or the account: {words}")
    if status == 404 and not _FORM.search(message):
        path = urlsplit(str(error.request.url)).path
        hint = "" if "/v1" in path else "; the URL has no /v1, which most servers have at its end"
        raise JudgeStopped(f"no such model or address: {words}{hint}")
    if status == 429 and message.lower().startswith("request too large"):  # OpenAI's words
        reason = f"more than the account may send in a minute; --context fits it: {words}"
        raise CallFailed(reason, "length")
    if status in TRANSIENT or status >= 500:
        after = _retry_after(error.response.headers)
        raise Transient(words, _retry_delay(fields) if after is None else after, status)
    raise ModeRefused(f"the server rejects the request: {words}", status)


def _error_fields(body: object) -> dict[str, Any]:
    """Return the fields of an error; Gemini's stand in a list of one."""
    if isinstance(body, list) and len(body) == 1:
        body = body[0]
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        body = body["error"]
    return body if isinstance(body, dict) else {}


def _retry_delay(fields: Mapping[str, Any]) -> float | None:
    """Return the seconds to wait for that Gemini gives in its error and in no header."""
    details = fields.get("details")
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str) and (seconds := _SECONDS.fullmatch(delay)):
            return float(seconds[1])
    return None


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
