"""One OpenAI-compatible endpoint: calls, retries, and what its errors mean."""

import email.utils
import ipaddress
import os
import re
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import openai
from openai import AsyncOpenAI, DefaultAioHttpClient
from openai.types.chat import ChatCompletion
from pydantic import ValidationError
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type
from tenacity.wait import wait_random_exponential

from annotator.annotations import Usage
from annotator.errors import AnnotatorError, JudgeStopped
from annotator.text import one_line

DEFAULT_URL = "https://api.openai.com/v1"
_LONGEST_WAIT = 60.0
_TRANSIENT = frozenset([408, 409, 429])
_OVERFLOW = re.compile(
    r"context.{0,12}(length|size|window|exceed)|too (long|many tokens)|maximum.{0,40}tokens"
    r"|exceeds?.{0,40}(context|token)",
    re.IGNORECASE,
)
_FILTERED = re.compile(r"content.?(filter|policy|management)|safety", re.IGNORECASE)


class CallFailed(AnnotatorError):
    """This trace could not be judged; the message is the reason."""


class ModeRefused(CallFailed):
    """The server does not take the request in this form (a 4xx, or a 5xx that repeats)."""

    def __init__(self, reason: str, status: int) -> None:
        super().__init__(reason)
        self.status = status


class _Transient(Exception):
    """Worth another attempt. ``after`` is the server's Retry-After in seconds, if it sent one."""

    def __init__(self, reason: str, after: float | None = None, status: int | None = None) -> None:
        super().__init__(reason)
        self.after = after
        self.status = status


def is_local(url: str) -> bool:
    """Whether a URL names this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def api_key(url: str, env: str) -> str:
    """Return the key from the environment variable ``env``; a local URL needs none.

    Raises:
        AnnotatorError: the variable is not set and the URL is not local.
    """
    key = os.environ.get(env, "").strip()
    if not key and not is_local(url):
        raise AnnotatorError(
            f"no API key for {without_secrets(url)}: set the environment variable {env}, or name"
            " another one with --api-key-env (a server on this machine needs none)"
        )
    return key or "none"


def without_secrets(url: str) -> str:
    """Return a URL without user name, password and query."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"


class Endpoint:
    """Sends chat completions. ``worked``: whether any judgement of this process was answered."""

    def __init__(self, url: str, key: str, *, timeout: float, attempts: int) -> None:
        self.url = url
        self.worked = False
        self._attempts = attempts
        self._client = AsyncOpenAI(
            base_url=url,
            api_key=key,
            timeout=timeout,
            max_retries=0,  # retries are counted here
            http_client=DefaultAioHttpClient(),
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def complete(
        self, body: dict[str, Any], count: Callable[[Usage], None], *, probe: bool = False
    ) -> ChatCompletion:
        """Return the answer to one request; every attempt is reported to ``count``.

        A ``probe`` does not insist on an error of the server: it may be its way to reject a form.

        Raises:
            JudgeStopped: the key or the model is refused, or the server cannot be reached.
            ModeRefused: the server rejects the form of the request.
            CallFailed: the trace is too long, its content is refused, or all attempts failed.
        """
        backoff = wait_random_exponential(multiplier=0.5, max=_LONGEST_WAIT)

        def wait(state: RetryCallState) -> float:
            after = _error(state).after
            return backoff(state) if after is None else min(after, _LONGEST_WAIT)

        def stop(state: RetryCallState) -> bool:
            hopeless = probe and (_error(state).status or 0) >= 500
            return state.attempt_number >= (2 if hopeless else self._attempts)

        retrying = AsyncRetrying(
            stop=stop, wait=wait, retry=retry_if_exception_type(_Transient), reraise=True
        )
        try:
            completion: ChatCompletion = await retrying(self._attempt, body, count)
        except _Transient as error:
            words = f"{error} (the last of {retrying.statistics['attempt_number']} attempts)"
            if not self.worked and error.status is None:
                raise JudgeStopped(f"{without_secrets(self.url)}: {words}") from error
            if (error.status or 0) >= 500:
                raise ModeRefused(words, error.status or 0) from error
            raise CallFailed(words) from error
        self.worked = self.worked or not probe
        return completion

    async def _attempt(
        self, body: dict[str, Any], count: Callable[[Usage], None]
    ) -> ChatCompletion:
        begun = time.monotonic()
        usage = Usage(calls=1, cost_usd=None)
        try:
            answer = await self._client.post("/chat/completions", body=body, cast_to=object)
            completion = _completion(answer)
            usage = _usage(completion)
        except openai.APIStatusError as error:
            raise _meaning(error) from error
        except openai.APIConnectionError as error:  # a refused connection is a timeout to openai
            cause = error.__cause__ or error
            if isinstance(error, openai.APITimeoutError) and "Connect" not in type(cause).__name__:
                raise _Transient("no answer in time") from error
            raise _Transient(f"connection failed: {one_line(str(cause), 200)}") from error
        except (openai.APIError, ValueError) as error:
            raise _Transient(f"answer not understood: {one_line(str(error), 200)}") from error
        finally:
            count(usage + Usage(seconds=time.monotonic() - begun))
        return completion


def _error(state: RetryCallState) -> _Transient:
    error = state.outcome.exception() if state.outcome else None
    return error if isinstance(error, _Transient) else _Transient("")


def _completion(answer: object) -> ChatCompletion:
    try:
        completion = ChatCompletion.model_validate(answer)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "body"
        raise _Transient(f"answer is no chat completion: {where}: {first['msg']}") from error
    if not completion.choices:
        raise _Transient("answer without choices")
    return completion


def _usage(completion: ChatCompletion) -> Usage:
    usage = completion.usage
    if usage is None:
        return Usage(calls=1, cost_usd=None)
    details = usage.prompt_tokens_details
    cached = (details.cached_tokens or 0) if details else 0
    return Usage(usage.prompt_tokens, cached, usage.completion_tokens, calls=1, cost_usd=None)


def _meaning(error: openai.APIStatusError) -> Exception:
    """Return what an HTTP error means for the run: stop, try again, or give this trace up."""
    status = error.status_code
    body = error.body if isinstance(error.body, dict) else {}
    code = str(body.get("code") or body.get("type") or "")
    said = one_line(str(body.get("message") or error.message), 300)
    words = f"HTTP {status}: {said}"
    if status in (401, 403) or code == "insufficient_quota":
        return JudgeStopped(f"the server refuses the key: {words}")
    if status == 404:
        return JudgeStopped(f"no such model or address: {words}")
    if status in _TRANSIENT or status >= 500:
        return _Transient(words, _retry_after(error), status)
    if _OVERFLOW.search(f"{code} {said}"):
        return CallFailed(f"the trace is too long for the model: {words}")
    if _FILTERED.search(f"{code} {said}"):
        return CallFailed(f"the server refuses the content: {words}")
    return ModeRefused(f"the server rejects the request: {words}", status)


def _retry_after(error: openai.APIStatusError) -> float | None:
    headers = error.response.headers
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "")
        try:
            return max(0.0, float(value) * unit)
        except ValueError:
            moment = email.utils.parsedate_tz(value)
            if moment:
                return max(0.0, email.utils.mktime_tz(moment) - time.time())
    return None
