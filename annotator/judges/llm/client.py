"""openai's client for an endpoint: where it is, how the key is shown there, and what it reads."""

import os
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

import aiohttp
import httpx2
from openai import APIStatusError, AsyncAzureOpenAI, AsyncOpenAI, DefaultAioHttpClient, OpenAIError

from annotator import __version__
from annotator.base.errors import AnnotatorError
from annotator.base.files import open_checked
from annotator.base.text import hide_url_secrets, sanitize_line
from annotator.judges.llm.reply import LONGEST_RESPONSE
from annotator.judges.llm.secrets import Secrets
from annotator.judges.llm.settings import Options, is_local, own_headers, without_secrets

_PACKINGS = ("identity", "gzip", "deflate")
_FRAMING = (b"content-encoding", b"content-length", b"content-type", b"transfer-encoding")


class Transient(Exception):
    """Worth another attempt. ``after`` is the server's Retry-After in seconds, if it sent one."""

    def __init__(self, reason: str, after: float | None = None, status: int | None = None) -> None:
        super().__init__(reason)
        self.after = after
        self.status = status


class _Client(DefaultAioHttpClient):
    """The library's HTTP client, which reads no answer that has no end.

    A download that the library streams to a file (of batch results) is not held in memory: who
    asked for it bounds it.
    """

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Return the response; raise :class:`Transient` if it is longer than any answer is."""
        for transport in (self._transport, *self._mounts.values()):
            if session := getattr(transport, "client", None):
                session.cookie_jar.clear()  # the library beneath keeps them, too
        try:
            response = await super().send(request, **options | {"stream": True})
        except aiohttp.ClientError as error:  # what is no HTTP, which the library does not know
            raise httpx2.RemoteProtocolError(str(error), request=request) from None
        try:
            packing = response.headers.get("content-encoding", "identity").lower()
            if packing not in _PACKINGS:  # of any other a few bytes may hold gigabytes
                words = (
                    f"answer packed in a way that was not asked for: {sanitize_line(packing, 60)}"
                )
                raise Transient(words)
            if options.get("stream") and response.is_success:
                return response
            data = await _read(response)
        except BaseException:
            await response.aclose()
            raise
        await response.aclose()
        headers = [field for field in response.headers.raw if field[0].lower() not in _FRAMING]
        kind = response.headers.get("content-type", "").partition(";")[0]  # whatever its charset
        headers.append((b"content-type", kind.encode(errors="replace")))
        return httpx2.Response(response.status_code, headers=headers, content=data, request=request)


async def _read(response: httpx2.Response) -> bytes:
    data = bytearray()
    async for piece in response.aiter_bytes():
        data += piece
        if len(data) > LONGEST_RESPONSE:
            raise Transient(f"answer longer than {LONGEST_RESPONSE >> 20} MB")
    return bytes(data)


class _OtherHeader(AsyncOpenAI):
    """The library's client for servers that take the key in a header of another name."""

    key_header = "api-key"

    @property
    def auth_headers(self) -> dict[str, str]:
        """The header with the key."""
        return {self.key_header: self.api_key}

    def _auth_headers(self, security: Any) -> dict[str, str]:
        return self.auth_headers

    def _validate_headers(self, headers: Any, custom_headers: Any) -> None:
        """Miss no Authorization."""


def open_client(
    options: Options, key: str, connections: int, attempts: int, *, batches: bool = False
) -> AsyncOpenAI:
    """Return openai's client for the endpoint of ``options``, with at most so many connections.

    Keys, the headers of OPENAI_ORG_ID, OPENAI_PROJECT_ID and OPENAI_CUSTOM_HEADERS, proxies and
    certificates are the library's; an address with an ``api-version`` is Azure's, which takes its
    key in a header of its own. A redirect is not followed: the key would go with it. ``batches``:
    for files and batches, which belong to no deployment of Azure.

    Raises:
        AnnotatorError: the library cannot use the address, or a proxy of the environment; or a
            header of the user's own has no value.
    """
    address, query = split_address(options.base_url, batches)
    with explain_address(options, key):
        given: dict[str, Any] = {
            "api_key": key,
            "base_url": address,
            "default_headers": all_headers(options),
            "default_query": query,
            "timeout": options.timeout,
            "max_retries": attempts - 1,
            "http_client": open_http(options, connections),
        }
        if version := query.get("api-version"):
            azure = AsyncAzureOpenAI(api_version=version, **given)
            azure._azure_ad_token = None  # of the environment: it would go in place of the key
            return azure
        if (header := options.spoken.key_header) == "Authorization":
            return AsyncOpenAI(**given)
        client: type[AsyncOpenAI] = type("Client", (_OtherHeader,), {"key_header": header})
        return client(**given)


def split_address(url: str, batches: bool = False) -> tuple[str, dict[str, str]]:
    """Return a URL without what is secret in it, and its query; as in :func:`open_client`."""
    parts = urlsplit(url)
    path = parts.path.partition("/deployments/")[0] if batches else parts.path
    netloc = parts.netloc.rpartition("@")[2]
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    return urlunsplit(parts._replace(netloc=netloc, path=path, query="")), query


def all_headers(options: Options) -> dict[str, str]:
    """Return the headers of every request besides those of the key; raises as own_headers."""
    return {"User-Agent": f"failure-annotator/{__version__}", **own_headers(options)}


def open_http(options: Options, connections: int, **more: Any) -> httpx2.AsyncClient:
    """Return the HTTP client of every API, with at most so many connections.

    Raises:
        ValueError, OSError, httpx2.InvalidURL: see :func:`explain_address`.
    """
    parts = urlsplit(options.base_url)
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a name stands twice in its query")
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    password = unquote(parts.username or ""), unquote(parts.password or "")
    return _Client(
        verify=_read_certificates(os.getenv("SSL_CERT_FILE"), os.getenv("SSL_CERT_DIR")),
        # No proxy leads to this machine.
        mounts={f"all://{host}": None} if is_local(options.base_url) else None,
        auth=password if any(password) else None,  # it is sent in place of the key
        follow_redirects=False,
        limits=httpx2.Limits(max_connections=connections),
        headers={"Accept-Encoding": "gzip, deflate"},
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),  # they grow without end
        **more,
    )


@cache  # 20 ms for each client, and as much for each proxy
def _read_certificates(file: str | None, _folder: str | None) -> ssl.SSLContext:
    try:
        if file:
            open_checked(file).close()  # to open a pipe would block
        return httpx2.create_ssl_context()
    except OSError as error:
        raise OSError(f"SSL_CERT_FILE or SSL_CERT_DIR: {error.strerror or error}") from error


def describe_redirect(error: APIStatusError) -> str:
    """Return what to do about an error that sends a call elsewhere; "" of any other."""
    status = error.status_code
    if status not in (301, 302, 303, 307, 308):
        return ""
    place = re.match(
        r"https?://(?:[^/?#]*@)?([\w.:-]+)", error.response.headers.get("location", "")
    )
    where = f" to {sanitize_line(place[1], 200)}" if place else ""
    return (
        f"the server sends every call elsewhere (HTTP {status}{where}), where a key must not"
        " follow: give the address that answers as --base-url"
    )


@contextmanager
def explain_address(options: Options, key: str) -> Iterator[None]:
    """Raise :class:`AnnotatorError` where a client cannot use the address or a proxy."""
    secrets = Secrets.of(options, key)
    with secrets.kept():
        try:
            yield
        except (httpx2.InvalidURL, OpenAIError, OSError, ValueError) as error:  # SSL_CERT_FILE
            words = sanitize_line(secrets.clean_text(hide_url_secrets(str(error))), 200)
            where = without_secrets(options.base_url)
            raise AnnotatorError(f"{where} cannot be called: {words}") from error
