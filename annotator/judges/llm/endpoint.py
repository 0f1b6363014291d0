"""Calls to an endpoint: HTTP clients, retries, and the meaning of errors."""

import asyncio
import email.utils
import json
import logging
import os
import random
import re
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from importlib import import_module
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

import aiohttp
import httpx2
from openai import (
    APIConnectionError,
    APIStatusError,
    AsyncOpenAI,
    DefaultAioHttpClient,
    OpenAIError,
)
from pydantic_core import to_json
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type
from tenacity.wait import wait_random_exponential

from annotator import __version__
from annotator.base.errors import AnnotatorError, JudgeStopped
from annotator.base.text import format_count, hide_url_secrets, sanitize_line
from annotator.judges.llm.cost import Budget, CallEstimate, Price, read_cost
from annotator.judges.llm.provider import (
    Fields,
    read_anthropic_answer,
    read_gemini_answer,
    write_anthropic_request,
    write_gemini_request,
    write_responses_request,
)
from annotator.judges.llm.rate_limit import RateLimiter
from annotator.judges.llm.redact import Secrets
from annotator.judges.llm.response import (
    LONGEST_RESPONSE,
    TRANSIENT,
    CallFailed,
    FormatRefused,
    ModelResponse,
    Unavailable,
    parse_overflow,
    read_response,
)
from annotator.judges.llm.settings import NATIVE, Options, is_local, read_headers, strip_secrets
from annotator.rubrics.annotations import Usage

_VERSION = re.compile(r"/(v\d\w*)/*$")
_PACKINGS = ("identity", "gzip", "deflate")
_FRAMING = (b"content-encoding", b"content-length", b"content-type", b"transfer-encoding")


class Transient(Exception):
    """An error worth another attempt; ``after``: Retry-After in seconds, or None."""

    def __init__(self, reason: str, after: float | None = None, status: int | None = None) -> None:
        super().__init__(reason)
        self.after = after
        self.status = status


class _HttpClient(DefaultAioHttpClient):
    """The library's HTTP client with a bound on the length of an answer that is not streamed."""

    def __init__(
        self, key: str, secrets: Secrets, key_header: str = "Authorization", **options: Any
    ) -> None:
        super().__init__(**options)
        self._key_header = key_header
        self._key = key
        self._secrets = secrets

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Return the response; raise :class:`Transient` if it is too long."""
        if self._key_header != "Authorization":  # openai's client knows only that header
            request.headers.setdefault(self._key_header, self._key)
            if request.headers.get("Authorization") == f"Bearer {self._key}":
                del request.headers["Authorization"]
        for transport in (self._transport, *self._mounts.values()):
            if session := getattr(transport, "client", None):
                session.cookie_jar.clear()  # the library beneath keeps them, too
        try:
            response = await super().send(request, **options | {"stream": True})
        except aiohttp.ClientError as error:  # no HTTP; httpx2 does not map it
            reason = self._secrets.redact(str(error))  # openai logs it
            raise httpx2.RemoteProtocolError(reason, request=request) from None
        try:
            packing = response.headers.get("content-encoding", "identity").lower()
            if packing not in _PACKINGS:  # a few bytes of another may hold gigabytes
                reason = (
                    f"answer packed in a way that was not asked for: {sanitize_line(packing, 60)}"
                )
                raise Transient(reason)
            if options.get("stream") and response.is_success:
                return response
            data = await _read_body(response)
        except BaseException:
            await response.aclose()
            raise
        await response.aclose()
        headers = [field for field in response.headers.raw if field[0].lower() not in _FRAMING]
        kind = response.headers.get("content-type", "").partition(";")[0]  # whatever its charset
        headers.append((b"content-type", kind.encode(errors="replace")))
        return httpx2.Response(response.status_code, headers=headers, content=data, request=request)


async def _read_body(response: httpx2.Response) -> bytes:
    data = bytearray()
    async for piece in response.aiter_bytes():
        data += piece
        if len(data) > LONGEST_RESPONSE:
            raise Transient(f"answer longer than {LONGEST_RESPONSE >> 20} MB")
    return bytes(data)


def open_client(
    options: Options, key: str, connections: int, attempts: int, *, batches: bool = False
) -> AsyncOpenAI:
    """Return openai's client for an endpoint.

    The library reads OPENAI_ORG_ID, OPENAI_PROJECT_ID, OPENAI_CUSTOM_HEADERS, proxies and
    certificates. An address with an ``api-version`` is Azure's.

    Args:
        options: the endpoint and the model.
        key: the API key.
        connections: the most connections at a time.
        attempts: so many times each call is tried.
        batches: the client is for files and batches, which belong to no deployment of Azure.

    Raises:
        AnnotatorError: the library cannot use the address or a proxy of the environment, or a
            header of the user's own has no value.
    """
    address, query = split_address(options.base_url, batches)
    header = "api-key" if "api-version" in query else options.provider.key_header
    with explain_address(options, key):
        return AsyncOpenAI(
            api_key=key,
            base_url=address,
            default_headers=build_headers(options),
            default_query=query,
            timeout=options.timeout,
            max_retries=attempts - 1,
            http_client=open_http(options, key, connections, key_header=header),
        )


def split_address(url: str, batches: bool = False) -> tuple[str, dict[str, str]]:
    """Return a URL without secrets and query, and the query; see :func:`open_client`."""
    parts = urlsplit(url)
    path = parts.path.partition("/deployments/")[0] if batches else parts.path
    netloc = parts.netloc.rpartition("@")[2]
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    return urlunsplit(parts._replace(netloc=netloc, path=path, query="")), query


def build_headers(options: Options) -> dict[str, str]:
    """Return the headers of every request, without the key; raises as read_headers."""
    return {"User-Agent": f"failure-annotator/{__version__}", **read_headers(options)}


def open_http(options: Options, key: str, connections: int, **more: Any) -> httpx2.AsyncClient:
    """Return the HTTP client of an API, with at most so many connections.

    Raises:
        ValueError, OSError, httpx2.InvalidURL: see :func:`explain_address`.
    """
    parts = urlsplit(options.base_url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    password = unquote(parts.username or ""), unquote(parts.password or "")
    return _HttpClient(
        key,
        Secrets.of(options, key),
        verify=_read_certificates(os.getenv("SSL_CERT_FILE"), os.getenv("SSL_CERT_DIR")),
        # No proxy leads to this machine.
        mounts={f"all://{host}": None} if is_local(options.base_url) else None,
        auth=password if any(password) else None,  # it is sent in place of the key
        follow_redirects=False,
        limits=httpx2.Limits(max_connections=connections),
        headers={"Accept-Encoding": "gzip, deflate"},
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),  # they would grow without end
        **more,
    )


@cache  # 20 ms for each client, and as much for each proxy
def _read_certificates(_file: str | None, _folder: str | None) -> ssl.SSLContext:
    try:
        return httpx2.create_ssl_context()
    except OSError as error:
        raise OSError(f"SSL_CERT_FILE or SSL_CERT_DIR: {error.strerror or error}") from error


def describe_redirect(error: APIStatusError) -> str:
    """Return advice about a redirect; "" for any other error."""
    status = error.status_code
    if status not in (301, 302, 303, 307, 308):
        return ""
    host = re.match(r"https?://(?:[^/?#]*@)?([\w.:-]+)", error.response.headers.get("location", ""))
    where = f" to {sanitize_line(host[1], 200)}" if host else ""
    return (
        f"the server sends every call elsewhere (HTTP {status}{where}), where a key must not"
        " follow: give the address that answers as --base-url"
    )


@contextmanager
def explain_address(options: Options, key: str) -> Iterator[None]:
    """Raise :class:`AnnotatorError` if a client cannot use the address or a proxy."""
    secrets = Secrets.of(options, key)
    with secrets.kept():
        try:
            yield
        except (httpx2.InvalidURL, OpenAIError, OSError, ValueError) as error:  # SSL_CERT_FILE
            reason = sanitize_line(secrets.redact(hide_url_secrets(str(error))), 200)
            where = strip_secrets(options.base_url)
            raise AnnotatorError(f"{where} cannot be called: {reason}") from error


class _AnthropicClient:
    """Anthropic's Messages, without its SDK's answer classes."""

    def __init__(self, options: Options, key: str, connections: int) -> None:
        address, query = split_address(options.base_url)
        self._sdk: Any = import_module("anthropic")
        self._client = self._sdk.AsyncAnthropic(
            api_key=key,
            base_url=address.rstrip("/").removesuffix("/v1"),
            default_headers=build_headers(options),
            default_query=query,
            timeout=options.timeout,
            max_retries=0,
            http_client=open_http(options, key, connections),
        )

    async def post(self, body: Mapping[str, Any]) -> object:
        """Send a request for a chat completion, and return the answer as one.

        Raises:
            openai.APIStatusError, openai.APIConnectionError: as openai's client.
            ValueError: the answer cannot be read.
            JudgeStopped: this API cannot take the request.
        """
        try:
            request = write_anthropic_request(body)
            answer = await self._client.post("/v1/messages", body=request, cast_to=object)
        except self._sdk.APIStatusError as error:
            raise APIStatusError(error.message, response=error.response, body=error.body) from error
        except self._sdk.APIConnectionError as error:
            raise APIConnectionError(request=error.request) from error
        except self._sdk.AnthropicError as error:
            raise ValueError(str(error)) from error
        return read_anthropic_answer(json.loads(answer) if isinstance(answer, str) else answer)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


class _GeminiClient:
    """Gemini's ``generateContent``; its SDK gets the request as JSON."""

    def __init__(self, options: Options, key: str, connections: int) -> None:
        address, query = split_address(options.base_url)
        # It logs which environment variable it would read the key from.
        logging.getLogger("google_genai").setLevel(logging.ERROR)
        genai: Any = import_module("google.genai")
        self._error: type[Any] = import_module("google.genai.errors").APIError
        self._http = open_http(options, key, connections, params=query)
        version = _VERSION.search(address)
        http: Fields = {
            "base_url": address[: version.start()] if version else address,
            "api_version": version[1] if version else "v1beta",
            "headers": build_headers(options),
            "httpx_async_client": self._http,
        }
        self._client = genai.Client(api_key=key, vertexai=False, http_options=http)

    async def post(self, body: Mapping[str, Any]) -> object:
        """See :meth:`_AnthropicClient.post`."""
        config: Fields = {
            "http_options": {"extra_body": write_gemini_request(body)},
            "should_return_http_response": True,
            "automatic_function_calling": {"disable": True},
        }
        models = self._client.aio.models
        try:  # extra_body replaces the contents
            answer = await models.generate_content(model=body["model"], contents="-", config=config)
        except self._error as error:
            message = str(error.message)
            raise APIStatusError(message, response=error.response, body=error.details) from error
        except httpx2.RequestError as error:
            raise APIConnectionError(request=error.request) from error
        except (
            AttributeError,
            TypeError,
        ) as error:  # the SDK does not expect the form of the error
            raise ValueError(str(error)) from error
        return read_gemini_answer(json.loads(answer.sdk_http_response.body or ""))

    async def close(self) -> None:
        """Close the connections."""
        self._client.close()  # its synchronous client, which it always opens
        await self._client.aio.aclose()
        await self._http.aclose()


_NativeClient = _AnthropicClient | _GeminiClient


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
_ABOUT_FORMAT = re.compile(
    r"tool|function|response_format|json|structured|strict|requested parameters", re.IGNORECASE
)


class _NoConnection(Transient):
    """The request was never sent; ``early``: no other request had reached the server either."""

    early = False


class Endpoint:
    """Sends requests to one model; ``by_responses``: whether to the Responses API."""

    def __init__(
        self,
        options: Options,
        key: str,
        rate_limiter: RateLimiter,
        budget: Budget | None,
        price: Price | None,
        notice: Callable[[str], None],
    ) -> None:
        self._options = options
        self._secrets = Secrets.of(options, key)
        self._rate_limiter = rate_limiter
        self._budget = budget
        self._price = price
        self._notice = notice
        self._reached = self._noticed = False  # the server; that nothing has reached it
        # The rate limiter bounds the connections. Retries are ours: they keep rates and budget.
        self._native: _NativeClient | None = None
        if options.api in NATIVE:
            native = _AnthropicClient if options.api == "anthropic" else _GeminiClient
            with explain_address(options, key):
                self._native = native(options, key, rate_limiter.maximum)
        else:
            self._client = open_client(options, key, rate_limiter.maximum, attempts=1)
            # Full addresses, built once.
            address = str(self._client.base_url).rstrip("/")
            self._url = f"{address}/chat/completions"
            # At Azure it belongs to no deployment.
            self._responses_url = f"{address.partition('/deployments/')[0]}/responses"
        self.by_responses = options.api == "responses"

    async def close(self) -> None:
        """Close the connections, also if the task is cancelled."""
        closing = asyncio.ensure_future((self._native or self._client).close())
        try:
            await asyncio.shield(closing)
        finally:
            await closing

    async def complete(
        self,
        body: bytes,
        call: CallEstimate,
        count: Callable[[Usage], None],
    ) -> ModelResponse:
        """Return the response to one request.

        Args:
            body: the request for a chat completion, as JSON.
            call: its estimate. A 500 to a ``tiny`` one may be a refused format: it is tried twice.
            count: receives the usage of each attempt.

        Raises:
            JudgeStopped: the key or the model is refused.
            BudgetReached: the budget is too small for it.
            FormatRefused: the server rejects the request.
            Unavailable: all attempts failed.
            CallFailed: its content is refused.
        """
        with self._secrets.kept():
            return await self._complete(body, call, count)

    async def _complete(
        self, body: bytes, call: CallEstimate, count: Callable[[Usage], None]
    ) -> ModelResponse:
        options = self._options
        begun = time.monotonic()
        attempts, queued = 0, 0.0  # seconds spent waiting for a slot
        failed: Transient | None = None

        async def once() -> ModelResponse:
            nonlocal attempts, queued, failed
            if failed:  # of the first attempt, for tenacity
                error, failed = failed, None
                raise error
            start = time.monotonic()
            async with self._rate_limiter.slot(call.tokens):
                reserved = await self._budget.reserve(call) if self._budget else 0.0
                queued += time.monotonic() - start
                attempts += 1
                return await self._attempt(body, call, attempts, reserved, count)

        def stop(state: RetryCallState) -> bool:
            hopeless = call.tiny and _get_error(state).status in (500, 501)
            trying = time.monotonic() - begun - queued
            late = trying + state.upcoming_sleep > options.max_wait
            return late or attempts >= (2 if hopeless else options.attempts)

        try:
            return await once()
        except Transient as error:
            failed = error  # only now: tenacity takes a tenth of the CPU of a successful call
        retry = retry_if_exception_type(Transient)
        try:
            return await AsyncRetrying(stop=stop, wait=_compute_pause, retry=retry, reraise=True)(
                once
            )
        except Transient as error:
            raise _build_failure(error, attempts, options.max_wait) from error

    async def _attempt(
        self,
        body: bytes,
        call: CallEstimate,
        n: int,
        reserved: float,
        count: Callable[[Usage], None],
    ) -> ModelResponse:
        usage, sent = Usage(calls=1, unreported_calls=1), True  # until there is an answer
        begun, reductions = time.monotonic(), self._rate_limiter.reductions
        try:
            answer = await self._send_body(body)
            usage = read_cost(answer, self._price, self._options.provider, call.minimum_tokens)
            response = read_response(answer, self._secrets.redact)
            self._rate_limiter.increase()
            self._rate_limiter.correct_tokens(
                usage.input_tokens + usage.output_tokens - call.tokens
            )
            return response
        except APIStatusError as error:
            usage = Usage(calls=1)  # an error is not charged
            if error.status_code == 429:
                self._rate_limiter.reduce(reductions)
            return _interpret_error(error, self._secrets)
        except ValueError as error:
            raise Transient(str(error)) from error
        except _NoConnection as error:
            usage, sent = Usage(calls=1), False
            error.early = not self._reached
            self._announce_retries(error)
            raise
        finally:
            self._reached |= sent
            count(replace(usage, retries=int(n > 1), seconds=time.monotonic() - begun))
            if self._budget:
                cost = usage.cost_usd if not usage.unreported_calls else None
                telling = cost is not None and bool(usage.input_tokens)
                await self._budget.settle(call, reserved, cost, telling=telling)

    def _announce_retries(self, error: _NoConnection) -> None:
        """Print once that no request has reached the server, and that more follow."""
        if error.early and not self._noticed and (retries := self._options.attempts - 1):
            self._noticed = True
            address = strip_secrets(self._options.base_url)
            self._notice(
                f"no answer from {address} ({error}); trying again, up to"
                f" {format_count(retries, 'time')}"
            )

    async def _send_body(self, body: bytes) -> object:
        """Return the JSON answer; change to the Responses API if the model is only there."""
        responses = self.by_responses
        try:
            return await self._post(body, responses)
        except APIStatusError as error:
            text = f"{error.message} {error.body}"
            if responses or self._options.api != "auto" or not _ONLY_RESPONSES.search(text):
                raise
            self.by_responses = True
        return await self._post(body, responses=True)

    async def _post(self, body: bytes, responses: bool) -> object:
        """Return the JSON answer; raises APIStatusError, JudgeStopped or Transient."""
        if responses:
            body = to_json(write_responses_request(json.loads(body)))
        try:
            # Bounds the full call: a server may send blanks forever.
            async with asyncio.timeout(self._options.timeout):
                if self._native:
                    return await self._native.post(json.loads(body))
                url = self._responses_url if responses else self._url
                answer: object = await self._client.post(url, content=body, cast_to=object)
            # The library parses only answers that are declared as JSON.
            return json.loads(answer) if isinstance(answer, str) else answer
        except TimeoutError as error:
            raise Transient("no answer in time") from error
        except APIConnectionError as error:
            raise _explain_lost(error, self._secrets) from error
        except json.JSONDecodeError as error:
            start = sanitize_line(self._secrets.redact(error.doc[:1000]), 60)
            raise Transient(f"the answer is no JSON, but begins {start!r}") from error
        except (ValueError, RecursionError) as error:
            raise Transient(f"answer not understood: {sanitize_line(str(error), 200)}") from error


def _explain_lost(error: APIConnectionError, secrets: Secrets) -> Transient:
    """Return the error of a call without an answer."""
    # openai's classes call a dropped connection a timeout; aiohttp's error is among the causes.
    cause: BaseException = error
    while not isinstance(cause, Transient | aiohttp.ClientConnectorError) and cause.__cause__:
        cause = cause.__cause__
    if isinstance(cause, Transient):
        return cause
    if isinstance(cause, aiohttp.ClientConnectorError):
        if isinstance(cause.os_error, ConnectionRefusedError):
            return _NoConnection("connection refused")
        reason = cause.os_error.strerror or str(cause.os_error)
        return _NoConnection(f"connection failed: {sanitize_line(reason, 200)}")
    if isinstance(cause, TimeoutError):
        return Transient("no answer in time")
    # Mask before cutting: half a secret is not recognised.
    message = secrets.redact(hide_url_secrets(str(cause))) or type(cause).__name__
    return Transient(f"connection failed: {sanitize_line(message, 200)}")


_backoff = wait_random_exponential(multiplier=0.5, max=_LONGEST_PAUSE)


def _compute_pause(state: RetryCallState) -> float:
    """Return the seconds until the next attempt: the server's wish, or a random pause.

    A server that nothing has reached is starting, or is not there: 8 attempts take 7 seconds.
    """
    error = _get_error(state)
    if isinstance(error, _NoConnection) and error.early:
        return 0.25 * state.attempt_number
    after = error.after
    if after is None:
        return _backoff(state)
    minimum = 0.05 * 2.0 ** min(state.attempt_number, 10)  # if it says 0 each time
    return max(minimum, after) * random.uniform(1.0, 1.1)  # noqa: S311


def _get_error(state: RetryCallState) -> Transient:
    error = state.outcome.exception() if state.outcome else None
    return error if isinstance(error, Transient) else Transient("")


def _build_failure(error: Transient, attempts: int, max_wait: float) -> CallFailed:
    """Return the error of a call whose attempts all failed; the last one had ``error``."""
    reason = f"{error} (the last of {attempts} attempts)"
    if error.after and error.after > max_wait:
        reason += f"; it asks to wait {error.after:.0f} s, longer than max_wait in a judge file"
    status = error.status
    return FormatRefused(reason, status) if status in (500, 501) else Unavailable(reason)


def _interpret_error(error: APIStatusError, secrets: Secrets) -> ModelResponse:
    """Return the response for a prompt that is too long; raise the meaning of any other error."""
    status = error.status_code
    fields = _find_error_fields(error.body)
    code = str(fields.get("code") or fields.get("type") or "")
    raw_message = fields.get("message") or fields.get("detail") or fields or error.body
    message = sanitize_line(secrets.redact(str(raw_message)), 300)
    message = message or "no words"
    description = f"HTTP {status}: {message}"
    request = status < 500 and status not in TRANSIENT  # an error of our request
    if request and (response := parse_overflow(description, fields, code, status == 413)):
        return response
    if request and _FILTERED.search(f"{code} {message}"):
        raise CallFailed(f"the server refuses the content: {description}", "refusal")
    if elsewhere := describe_redirect(error):
        raise JudgeStopped(elsewhere)
    if status in (401, 402, 403) or code == "insufficient_quota" or _NO_KEY.search(message):
        raise JudgeStopped(f"the server refuses the key or the account: {description}")
    if status == 404 and not _ABOUT_FORMAT.search(message):
        path = urlsplit(str(error.request.url)).path
        hint = "" if "/v1" in path else "; the URL has no /v1, which most servers have at its end"
        raise JudgeStopped(f"no such model or address: {description}{hint}")
    if status == 429 and message.lower().startswith("request too large"):  # OpenAI's words
        reason = f"more than the account may send in a minute; --context fits it: {description}"
        raise CallFailed(reason, "length")
    if status in TRANSIENT or status >= 500:
        after = _read_retry_after(error.response.headers)
        raise Transient(description, _read_retry_delay(fields) if after is None else after, status)
    raise FormatRefused(f"the server rejects the request: {description}", status)


def _find_error_fields(body: object) -> dict[str, Any]:
    """Return the fields of an error; Gemini's are in a list."""
    if isinstance(body, list) and len(body) == 1:
        body = body[0]
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        body = body["error"]
    return body if isinstance(body, dict) else {}


def _read_retry_delay(fields: Mapping[str, Any]) -> float | None:
    """Return the seconds to wait in Gemini's error, or None."""
    details = fields.get("details")
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str) and (seconds := _SECONDS.fullmatch(delay)):
            return float(seconds[1])
    return None


def _read_retry_after(headers: Mapping[str, str]) -> float | None:
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "")
        try:
            return max(0.0, float(value) * unit)
        except ValueError:
            with suppress(ValueError, OverflowError, TypeError):
                moment = email.utils.parsedate_to_datetime(value)
                return max(0.0, moment.timestamp() - time.time())
    return None
