"""What a server or a library says, without the keys and passwords that it was told."""

import json
import os
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from urllib.parse import parse_qsl, unquote, urlsplit
from urllib.request import getproxies

from annotator.judges.llm.settings import CUSTOM_HEADERS, Options

_MASK = b"[secret]"
_SHORTEST, _SHORTEST_WORD = 6, 8  # characters; what is shorter is guessed, and stands in any text
_HEAD = 24  # of a long secret: its beginning gives it away where an error cuts it off
# Possessive: what may be taken back is remembered for every character of megabytes.
_REST = rb"(?:[\w.+/=-]++|\\u00[2-7][0-9a-f]|%[2-7][0-9a-f]|&#x?[0-9a-f]{2,3};)*+"
# Keys that servers without keys are sent, by their own documentation.
_NO_SECRETS = frozenset(["none", "empty", "dummy", "ollama", "lm-studio", "sk-no-key-required"])
_ESCAPES = (b"\\u00", b"%", b"&#")  # that may stand for any character


class Secrets:
    """Takes the secrets of one endpoint out of every text that comes from there.

    They are its key, the user and password of its address and of the proxies on the way, the values
    of its query and of the user's own headers: in any case, and as JSON, URLs and HTML write them;
    of a long one its beginning, too. Not those of fewer than six characters, or of seven letters
    and no more: such words stand in answers by chance, which would then quote nobody.
    """

    def __init__(self, values: Iterable[str]) -> None:
        secrets = {value.strip() for value in values}
        secrets = {value for value in secrets if _is_secret(value)}
        longest_first = sorted(secrets, key=lambda value: (-len(value), value))
        heads = [value[:_HEAD].lower() for value in longest_first]
        quoted = [json.dumps(head)[1:-1] for head in heads]
        slashed = [text.replace("/", r"\/") for text in quoted]
        self._literal = {text.encode() for text in (*heads, *quoted, *slashed)}
        patterns = b"|".join(map(_pattern, longest_first))
        self._pattern = re.compile(patterns, re.IGNORECASE) if patterns else None

    @classmethod
    def of(cls, options: Options, key: str) -> "Secrets":
        """Return those of the endpoint of ``options``."""
        return cls([key, *_of_address(options.base_url), *_of_proxies(), *_of_headers(options)])

    def clean(self, data: bytes) -> bytes:
        """Return a text in UTF-8 without them."""
        if self._pattern is None:
            return data
        lowered = data.lower()
        if not any(value in lowered for value in (*self._literal, *_ESCAPES)):
            return data  # the common case, in a fraction of the time
        return self._pattern.sub(_MASK, data)

    def clean_text(self, text: str) -> str:
        """Return a text without them."""
        return self.clean(text.encode(errors="surrogatepass")).decode(errors="surrogatepass")

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Let no error leave the block with them in its words."""
        try:
            yield
        except Exception as error:
            error.args = tuple(
                self.clean_text(part) if isinstance(part, str) else part for part in error.args
            )
            raise


def _is_secret(value: str) -> bool:
    shortest = _SHORTEST_WORD if value.isalpha() else _SHORTEST
    return len(value) >= shortest and value.lower() not in _NO_SECRETS


def _pattern(value: str) -> bytes:
    """Return the pattern of a secret, each character of which may be escaped."""
    head = value[:_HEAD] if len(value) > _HEAD else value
    characters = []
    for byte in head.encode():
        plain = re.escape(bytes([byte]))
        escaped = rb"\\u00%02x|%%%02x|&#%d;|&#x%x;" % (byte, byte, byte, byte)
        quoted = rb"|\\" + plain if bytes([byte]) in b'"\\/' else b""
        characters.append(b"(?:" + plain + b"|" + escaped + quoted + b")")
    return b"".join(characters) + (_REST if len(value) > _HEAD else b"")


def _of_address(url: str) -> Iterator[str]:
    """Yield what is secret in an address, as it stands there and as it is sent."""
    parts = urlsplit(url)
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    yield from (parts.username or "", parts.password or "", user, password)
    if user or password:
        yield f"{user}:{password}"
        yield b64encode(f"{user}:{password}".encode()).decode()
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name != "api-version":
            yield value


def _of_proxies() -> Iterator[str]:
    for name, url in getproxies().items():
        if name != "no" and "@" in url:
            try:
                yield from _of_address(url if "://" in url else f"http://{url}")
            except ValueError:  # it is refused where it would be used
                yield url.rpartition("@")[0].rpartition("/")[2]


def _of_headers(options: Options) -> Iterator[str]:
    for variable in options.headers.values():
        yield (value := os.environ.get(variable, ""))
        yield value.partition(" ")[2]  # without the word for its kind: Bearer, Basic
    for variable in CUSTOM_HEADERS:
        for line in os.environ.get(variable, "").splitlines():
            yield line.partition(":")[2] or line
