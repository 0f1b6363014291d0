"""Calls to an endpoint: HTTP clients, retries, and the meaning of errors."""

import asyncio
import email.utils
import json
import os
import random
import re
import ssl
import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any
from urllib.parse import parse_qs, parse_qsl, unquote, urlsplit, urlunsplit

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
from annotator.judges.llm.provider import APIS, Api
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
from annotator.judges.llm.settings import Options, is_local, read_headers, strip_secrets
from annotator.rubrics.annotations import Usage

_PACKINGS = ("identity", "gzip", "deflate")
_FRAMING = (b"content-encoding", b"content-length", b"content-type", b"transfer-encoding")


class Transient(Exception):
    """An error worth another attempt; ``after``: Retry-After in seconds, or None."""

    def __init__(self, reason: str, after: float | None = None, status: int | None = None) -> None:
        super().__init__(reason)
        self.after = after
        self.status = status


class _HttpClient(DefaultAioHttpClient):
    """The library's HTTP client without cookies and redirects, and with our headers.

    An answer that is not streamed has a longest length.
    """

    def __init__(self, adapt: "_Headers", secrets: Secrets, **options: Any) -> None:
        super().__init__(**options)
        self._adapt = adapt
        self._secrets = secrets

    def build_request(self, *args: Any, headers: Any = None, **options: Any) -> httpx2.Request:
        """Return a request with the headers that the API expects."""
        return super().build_request(*args, headers=self._adapt(dict(headers)), **options)

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Return the response; raise :class:`Transient` if it is too long."""
        response = await self.open(request)
        if options.get("stream") and response.is_success:
            return response
        return _copy_response(response, await _read_body(response))

    async def open(self, request: httpx2.Request, headers: Any = None) -> httpx2.Response:
        """Return the response before its content is read.

        ``headers``: those of the request in a dict, which aiohttp reads faster.
        """
        # Not by way of httpx2, whose cookies, redirects and logs take half as long as the call.
        find = getattr(self, "_transport_for_url", None)  # private: another version may lack it
        transport = find(request.url) if find else None
        if session := getattr(transport, "client", None):
            session.cookie_jar.clear()  # the library beneath keeps them
            request.headers = headers or request.headers
        try:
            response = await (
                transport.handle_async_request(request)
                if transport
                else super().send(request, stream=True, follow_redirects=False)
            )
        except aiohttp.ClientError as error:  # no HTTP; httpx2 does not map it
            reason = self._secrets.redact(str(error))  # openai logs it
            raise httpx2.RemoteProtocolError(reason, request=request) from None
        response.request = request
        packing = response.headers.get("content-encoding", "identity").lower()
        if packing not in _PACKINGS:  # a few bytes of another may hold gigabytes
            await response.aclose()
            reason = f"answer packed in a way that was not asked for: {sanitize_line(packing, 60)}"
            raise Transient(reason)
        return response


async def _read_body(response: httpx2.Response) -> bytes:
    """Return the content of a response, and close it."""
    # httpx2 takes as long to pass bytes on as the receiving.
    packed = "content-encoding" in response.headers
    pieces: Any = response.aiter_bytes() if packed else response.stream
    data = bytearray()
    try:
        async for piece in pieces:
            data += piece
            if len(data) > LONGEST_RESPONSE:
                raise Transient(f"answer longer than {LONGEST_RESPONSE >> 20} MB")
    finally:
        await response.aclose()
    return bytes(data)


def _copy_response(response: httpx2.Response, data: bytes) -> httpx2.Response:
    """Return a response with its content."""
    headers = [field for field in response.headers.raw if field[0].lower() not in _FRAMING]
    kind = response.headers.get("content-type", "").partition(";")[0]  # whatever its charset
    headers.append((b"content-type", kind.encode(errors="replace")))
    return httpx2.Response(
        response.status_code, headers=headers, content=data, request=response.request
    )


class _Client(AsyncOpenAI):
    """openai's client. The calls to one address differ only in their bodies, so only the first goes
    by way of the library, whose own work takes as long as the sending.
    """

    def __init__(self, http_client: _HttpClient, **options: Any) -> None:
        super().__init__(http_client=http_client, **options)
        self._http = http_client
        self._sent: dict[str, tuple[httpx2.Request, dict[str, str]]] = {}

    async def send(self, url: str, body: bytes) -> bytes:
        """Return the answer to a request; raises as the library's ``post``."""
        if url not in self._sent:
            # The library parses only answers that are declared as JSON.
            response = await self.post(url, content=body, cast_to=httpx2.Response)
            del response.request.headers["Content-Length"]  # aiohttp sets it
            self._sent[url] = response.request, dict(response.request.headers)
            return response.content
        first, headers = self._sent[url]
        # Without the library's four times, since the caller bounds the full call.
        content = httpx2.ByteStream(body)
        request = httpx2.Request("POST", first.url, headers=first.headers, stream=content)
        request.read()
        try:
            response = await self._http.open(request, headers)
            data = await _read_body(response)
        except Exception as error:
            raise APIConnectionError(request=request) from error
        if not response.is_success:
            raise self._make_status_error_from_response(_copy_response(response, data))
        return data


def open_client(
    options: Options, key: str, connections: int, attempts: int, *, batches: bool = False
) -> _Client:
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
    parts = urlsplit(options.base_url)
    path = parts.path.partition("/deployments/")[0] if batches else parts.path
    netloc = parts.netloc.rpartition("@")[2]
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    user_headers = {"User-Agent": f"failure-annotator/{__version__}", **read_headers(options)}
    secrets = Secrets.of(options, key)
    with secrets.kept():
        try:
            http = _HttpClient(
                _choose_headers(options, key, user_headers),
                secrets,
                verify=_read_certificates(os.getenv("SSL_CERT_FILE"), os.getenv("SSL_CERT_DIR")),
                # No proxy leads to this machine.
                mounts={f"all://{host}": None} if is_local(options.base_url) else None,
                limits=httpx2.Limits(max_connections=connections),
                headers={"Accept-Encoding": "gzip, deflate"},
            )
            return _Client(
                api_key=key,
                base_url=urlunsplit(parts._replace(netloc=netloc, path=path, query="")),
                default_headers=user_headers,
                default_query=dict(parse_qsl(parts.query, keep_blank_values=True)),
                timeout=options.timeout,
                max_retries=attempts - 1,
                http_client=http,
            )
        except (httpx2.InvalidURL, OpenAIError, OSError, ValueError) as error:  # SSL_CERT_FILE
            reason = sanitize_line(secrets.redact(hide_url_secrets(str(error))), 200)
            where = strip_secrets(options.base_url)
            raise AnnotatorError(f"{where} cannot be called: {reason}") from error


_Headers = Callable[[dict[str, str]], dict[str, str]]


def _choose_headers(options: Options, key: str, user_headers: Mapping[str, str]) -> _Headers:
    """Return the function that makes an API's headers of openai's, which are in lower case."""
    parts = urlsplit(options.base_url)
    user = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    api, name = options.own_api, options.provider.key_header
    if "api-version" in parse_qs(parts.query):
        name = "api-key"

    def adapt(headers: dict[str, str]) -> dict[str, str]:
        if api:  # the organization, say, is OpenAI's business
            named = {name: value.format(key=key) for name, value in api.headers.items()}
            named = {"content-type": "application/json", **named, **user_headers}
            headers = {name.lower(): value for name, value in named.items()}
        elif name != "Authorization":  # openai's client knows only that header
            headers.setdefault(name, key)
            if headers.get("authorization") == f"Bearer {key}":
                del headers["authorization"]
        if parts.username or parts.password:  # sent in place of the key
            headers["authorization"] = f"Basic {b64encode(user.encode()).decode()}"
        return headers

    return adapt


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
    """Sends requests to one model by an ``api``."""

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
        self._client = open_client(options, key, rate_limiter.maximum, attempts=1)
        self._address = str(self._client.base_url).rstrip("/")
        self.api = APIS["chat" if options.api == "auto" else options.api]

    async def close(self) -> None:
        """Close the connections, also if the task is cancelled."""
        closing = asyncio.ensure_future(self._client.close())
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
            return await self._complete_with_retries(body, call, count)

    async def _complete_with_retries(
        self, body: bytes, call: CallEstimate, count: Callable[[Usage], None]
    ) -> ModelResponse:
        """Return the answer, after further attempts if one fails for a reason that may pass.

        The time in the queue does not count. tenacity sees only calls that failed once, as it takes
        a tenth of the CPU of a call.
        """
        options = self._options
        begun = time.monotonic()
        attempts, seconds_queued = 0, 0.0
        first_error: Transient | None = None

        async def attempt() -> ModelResponse:
            nonlocal attempts, seconds_queued, first_error
            if first_error:  # tenacity begins with the attempt that it has not seen
                error, first_error = first_error, None
                raise error
            start = time.monotonic()
            async with self._rate_limiter.slot(call.tokens):
                reserved = await self._budget.reserve(call) if self._budget else 0.0
                seconds_queued += time.monotonic() - start
                attempts += 1
                return await self._attempt(body, call, attempts, reserved, count)

        def stop(state: RetryCallState) -> bool:
            is_hopeless = call.tiny and _get_error(state).status in (500, 501)
            seconds = time.monotonic() - begun - seconds_queued + state.upcoming_sleep
            return seconds > options.max_wait or attempts >= (
                2 if is_hopeless else options.attempts
            )

        try:
            return await attempt()
        except Transient as error:
            first_error = error
        retry = retry_if_exception_type(Transient)
        retrying = AsyncRetrying(stop=stop, wait=_compute_pause, retry=retry, reraise=True)
        try:
            return await retrying(attempt)
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
        api = self.api
        try:
            return await self._post(body, api)
        except APIStatusError as error:
            text = f"{error.message} {error.body}"
            if (
                api.name != "chat"
                or self._options.api != "auto"
                or not _ONLY_RESPONSES.search(text)
            ):
                raise
            self.api = APIS["responses"]
        return await self._post(body, self.api)

    async def _post(self, body: bytes, api: Api) -> object:
        """Return the JSON answer; raises APIStatusError, JudgeStopped or Transient."""
        if api.write:
            body = to_json(api.write(json.loads(body)))
        url = api.locate(self._address, self._options.model)
        try:
            # Bounds the full call: a server may send blanks forever.
            async with asyncio.timeout(self._options.timeout):
                content = await self._client.send(url, body)
            answer: object = json.loads(content)
            return api.read(answer) if api.read else answer
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
