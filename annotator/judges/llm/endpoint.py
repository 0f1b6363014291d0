"""One OpenAI-compatible endpoint: calls, retries, and what its errors mean."""

import asyncio
import email.utils
import ipaddress
import json
import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import openai
from openai import AsyncOpenAI, DefaultAioHttpClient
from openai.types.chat import ChatCompletion
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
    r"|exceeds?.{0,40}(context|token)|longer than the maximum",
    re.IGNORECASE,
)
_FILTERED = re.compile(r"content.?(filter|policy|management)|moderation|flagged", re.IGNORECASE)
_SETTING = re.compile(r"(unsupported|unknown|unrecognized|invalid).{0,20}parameter", re.IGNORECASE)
_FORM = re.compile(r"tool|function|response_format|json|structured", re.IGNORECASE)


class CallFailed(AnnotatorError):
    """This trace could not be judged; the message is the reason."""


class ModeRefused(CallFailed):
    """The server does not take the request in this form (a 4xx, or a 5xx that repeats)."""

    def __init__(self, reason: str, status: int) -> None:
        super().__init__(reason)
        self.status = status


class Unavailable(CallFailed):
    """The server did not answer, however often it was asked."""


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
    if not key.isascii():
        raise AnnotatorError(f"the API key in {env} holds characters that no key can have")
    if not key and not is_local(url):
        raise AnnotatorError(
            f"no API key for {without_secrets(url)}: set the environment variable {env}, or name"
            " another one with --api-key-env (a server on this machine needs none)"
        )
    return key or "none"


def checked_url(url: str) -> str:
    """Return ``url`` if it can be called.

    Raises:
        AnnotatorError: no http(s) URL with a host and, if any, a port that is a number.
    """
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1)
    except ValueError:
        fine = False
    if not fine:
        raise AnnotatorError(f"--base-url {url!r} is no URL such as http://localhost:8000/v1")
    return url


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
        self._timeout = timeout
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
            hopeless = probe and _error(state).status in (500, 501)
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
            if error.status in (500, 501):
                raise ModeRefused(words, error.status) from error
            raise Unavailable(words) from error
        self.worked = self.worked or not probe
        return completion

    async def _attempt(
        self, body: dict[str, Any], count: Callable[[Usage], None]
    ) -> ChatCompletion:
        begun = time.monotonic()
        usage = Usage(calls=1, unreported_calls=1)
        try:
            # The client's own timeout is for each read: a server that sends a blank now and then
            # would never meet it.
            async with asyncio.timeout(self._timeout):
                answer = await self._client.post("/chat/completions", body=body, cast_to=object)
            usage = _usage(answer)
            return _completion(answer)
        except openai.APIStatusError as error:
            usage = Usage(calls=1)  # an error is not charged
            raise _meaning(error) from error
        except TimeoutError as error:
            raise _Transient("no answer in time") from error
        except openai.APIConnectionError as error:  # a refused connection is a timeout to openai
            cause = error.__cause__ or error
            if isinstance(error, openai.APITimeoutError) and "Connect" not in type(cause).__name__:
                raise _Transient("no answer in time") from error
            raise _Transient(f"connection failed: {one_line(str(cause), 200)}") from error
        except (openai.APIError, ValueError) as error:
            raise _Transient(f"answer not understood: {one_line(str(error), 200)}") from error
        finally:
            count(usage + Usage(seconds=time.monotonic() - begun))


def _error(state: RetryCallState) -> _Transient:
    error = state.outcome.exception() if state.outcome else None
    return error if isinstance(error, _Transient) else _Transient("")


def _completion(answer: object) -> ChatCompletion:
    """Return a chat completion with what is needed of the answer.

    Servers differ in everything else (ids, tiers, words for the end), and none of that matters.
    """
    body = answer if isinstance(answer, dict) else {}
    if body.get("error"):
        said = body["error"].get("message") if isinstance(body["error"], dict) else body["error"]
        raise _Transient(f"the server says: {one_line(str(said), 300)}")
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise _Transient("answer is no chat completion: no message in it")
    finish = choice.get("finish_reason")
    known = ("stop", "length", "tool_calls", "content_filter")
    content = message.get("content")
    return ChatCompletion.model_validate(
        {
            "id": "",
            "object": "chat.completion",
            "created": 0,
            "model": "",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": finish if finish in known else "stop",
                    "message": {
                        "role": "assistant",
                        "content": content if isinstance(content, str) else None,
                        "refusal": str(message.get("refusal") or "") or None,
                        "tool_calls": _tool_calls(message.get("tool_calls")) or None,
                    },
                }
            ],
        }
    )


def _tool_calls(calls: object) -> list[dict[str, Any]]:
    found = []
    for n, call in enumerate(calls if isinstance(calls, list) else []):
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            arguments = function.get("arguments")
            text = arguments if isinstance(arguments, str) else json.dumps(arguments)
            name = str(function.get("name") or "answer")
            given = {"name": name, "arguments": text}
            identity = str(call.get("id") or f"call_{n}")
            found.append({"id": identity, "type": "function", "function": given})
    return found


def _usage(answer: object) -> Usage:
    """Return what an answer says it used; without that, its cost is not known."""
    usage = answer.get("usage") if isinstance(answer, dict) else None
    if not isinstance(usage, dict) or not _count(usage.get("prompt_tokens")):
        return Usage(calls=1, cost_usd=None)
    details = usage.get("prompt_tokens_details")
    cached = _count(details.get("cached_tokens")) if isinstance(details, dict) else 0
    return Usage(
        _count(usage["prompt_tokens"]), cached, _count(usage.get("completion_tokens")), calls=1
    )


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _meaning(error: openai.APIStatusError) -> Exception:
    """Return what an HTTP error means for the run: stop, try again, or give this trace up."""
    status = error.status_code
    body = error.body if isinstance(error.body, dict) else {}
    code = str(body.get("code") or body.get("type") or "")
    said = one_line(str(body.get("message") or error.message), 300)
    words = f"HTTP {status}: {said}"
    text = f"{code} {said}"
    request = status < 500 and status not in _TRANSIENT  # what the server has to say of ours
    if status == 413 or (request and _OVERFLOW.search(text) and not _SETTING.search(said)):
        return CallFailed(f"the trace is too long for the model: {words}")
    if request and _FILTERED.search(text):
        return CallFailed(f"the server refuses the content: {words}")
    if status in (401, 402, 403) or code == "insufficient_quota":
        return JudgeStopped(f"the server refuses the key or the account: {words}")
    if status == 404 and not _FORM.search(said):
        return JudgeStopped(f"no such model or address: {words}")
    if status in _TRANSIENT or status >= 500:
        return _Transient(words, _retry_after(error), status)
    return ModeRefused(f"the server rejects the request: {words}", status)


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
