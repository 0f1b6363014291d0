"""Masks keys and passwords in a server's words: errors, headers, refusals, names and ids.

An answer is never changed: its quotes must match the trace.
"""

import json
import os
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from urllib.request import getproxies

from annotator.judges.llm.settings import CUSTOM_HEADERS, Options

_MASK = "[secret]"
_SHORTEST, _SHORTEST_WORD = 6, 8  # characters: shorter values are common words
_HEAD = 16  # characters: errors often show the beginning of a key


class Secrets:
    """The secrets of one endpoint.

    They are the key, the user and password of the address and of proxies, the values of the query
    and of the user's own headers. Each is found as it is, as JSON and as a URL write it, in any
    case; of a long one, the first 16 characters are enough.
    """

    def __init__(self, values: Iterable[str]) -> None:
        secrets = {value for text in values if _is_secret(value := text.strip())}
        complete = {re.escape(form) for value in secrets for form in _list_spellings(value)}
        heads = {
            re.escape(form) + r"[\w.+/=-]*"  # and the rest that the error shows
            for value in secrets
            if len(value) > _HEAD
            for form in _list_spellings(value[:_HEAD])
        }
        forms = [*sorted(complete, key=len, reverse=True), *sorted(heads, key=len, reverse=True)]
        self._pattern = re.compile("|".join(forms), re.IGNORECASE) if forms else None

    @classmethod
    def of(cls, options: Options, key: str) -> "Secrets":
        """Return the secrets of the endpoint of ``options``."""
        return cls(
            [
                key,
                *_list_address_secrets(options.base_url),
                *_list_proxy_secrets(),
                *_list_header_secrets(options),
            ]
        )

    def redact(self, text: str) -> str:
        """Return a text with every secret masked."""
        return self._pattern.sub(_MASK, text) if self._pattern else text

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Mask secrets in errors that leave the block, and drop their causes."""
        try:
            yield
        except BaseException as error:
            error.args = tuple(
                self.redact(argument) if isinstance(argument, str) else argument
                for argument in error.args
            )
            error.__cause__ = error.__context__ = None
            raise


def _is_secret(value: str) -> bool:
    return len(value) >= (_SHORTEST_WORD if value.isalpha() else _SHORTEST)


def _list_spellings(value: str) -> set[str]:
    return {value, json.dumps(value)[1:-1], quote(value, safe="", errors="replace")}


def _list_address_secrets(url: str) -> Iterator[str]:
    """Yield the user, the password and the query of an address, plain and as sent."""
    parts = urlsplit(url)
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    yield from (parts.username or "", parts.password or "", user, password)
    if user or password:
        yield b64encode(f"{user}:{password}".encode(errors="surrogatepass")).decode()
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name != "api-version":
            yield value


def _list_proxy_secrets() -> Iterator[str]:
    for name, url in getproxies().items():
        if name != "no" and "@" in url:
            try:
                yield from _list_address_secrets(url if "://" in url else f"http://{url}")
            except ValueError:  # the client refuses it later
                yield url.rpartition("@")[0].rpartition("/")[2]


def _list_header_secrets(options: Options) -> Iterator[str]:
    for variable in options.headers.values():
        yield (value := os.environ.get(variable, ""))
        yield value.partition(" ")[2]  # without Bearer or Basic
    for variable in CUSTOM_HEADERS:
        for line in os.environ.get(variable, "").splitlines():
            yield line.partition(":")[2] or line
