"""What a server or a library says, without the keys and passwords that it was told."""

import os
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from urllib.parse import parse_qsl, unquote, urlsplit
from urllib.request import getproxies

from annotator.judges.llm.settings import CUSTOM_HEADERS, Options

_MASK = b"[secret]"
_SHORTEST, _SHORTEST_WORD = 6, 8  # characters; what is shorter is guessed, and stands in any text
_HEAD = 16  # of a long secret: its beginning gives it away where an error cuts it off
# Keys that servers without keys are sent, by their own documentation.
_NO_SECRETS = frozenset(["none", "empty", "dummy", "ollama", "lm-studio", "sk-no-key-required"])

# What stands in no text by chance; words and names of models are not written so.
_RANDOM = re.compile(r"(?=.*\d)(?=.*[a-z])(?=.*[A-Z])\S+|[0-9a-f]+|[0-9A-F]+")
_PLACE = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#@]*+(?!@)", re.IGNORECASE)

_DEEPEST = 6  # how often one escape may stand within another

# Patterns take no time that grows faster than a text of megabytes, whatever stands in it: they are
# possessive, and a row of backslashes is read from its beginning only.
_REST = rb"(?:[\w.+/=-]++|\\++u00[2-7][0-9a-f]|\\++/|%[2-7][0-9a-f]|&#x?[0-9a-f]{2,3};)*+"
_NAMED = {b"quot": b'"', b"apos": b"'", b"amp": b"&", b"lt": b"<", b"gt": b">", b"bsol": b"\\"}
_ESCAPE = re.compile(  # without its backslashes
    rb"%([2-9a-f][0-9a-f])|u(d[89ab][0-9a-f]{2})u(d[c-f][0-9a-f]{2})|u([0-9a-f]{4})"
    rb"|&#x0{0,9}([0-9a-f]{2,5});|&#0{0,9}([0-9]{2,6});|&(quot|apos|amp|lt|gt|bsol);"
)


class Secrets:
    """Takes the secrets of one endpoint out of every text that comes from there.

    They are its key, the user and password of its address and of the proxies on the way, the values
    of its query and of the user's own headers: in any case, and as JSON, URLs and HTML write them;
    of a long one its beginning, too. A text in which one stands in another way (what is escaped is
    escaped again, or the beginning is cut off) is taken out as a whole. Not those of fewer than six
    characters, or of seven letters and no more: such words stand in answers by chance, which would
    then quote nobody.
    """

    def __init__(self, values: Iterable[str]) -> None:
        secrets = {value.strip() for value in values}
        secrets = {value for value in secrets if _is_secret(value)}
        longest_first = sorted(secrets, key=lambda value: (-len(value), value))
        heads = {_encode(_head(value)).lower() for value in secrets}
        whole = {_encode(value).lower() for value in secrets}
        parts = {_encode(part).lower() for value in secrets for part in _parts(value)}
        plain = {level for text in heads | whole | parts for level in _levels(text)}
        self._plain = {text for text in plain if len(text) >= _SHORTEST}
        # What is hardly more than backslashes is looked for in every text.
        self._always = any(len(head.replace(b"\\", b"")) < _SHORTEST for head in heads)
        patterns = rb"(?<!\\)(?:" + b"|".join(map(_pattern, longest_first)) + b")"
        self._pattern = re.compile(patterns.lower()) if secrets else None

    @classmethod
    def of(cls, options: Options, key: str) -> "Secrets":
        """Return those of the endpoint of ``options``."""
        return cls([key, *_of_address(options.base_url), *_of_proxies(), *_of_headers(options)])

    def clean(self, data: bytes) -> bytes:
        """Return a text in UTF-8 without them. JSON may come in UTF-16, too: without its zeros, it
        is clean as what it is read as.
        """
        data = data.replace(b"\0", b"")
        if self._pattern is None:
            return data
        escaped = self._always or any(sign in data for sign in (rb"\u", b"%", b"&"))
        if not (escaped or self._stands_in(data)):
            return data  # the common case, in a fraction of the time
        pieces: list[bytes] = []
        at = 0
        for match in self._pattern.finditer(data.lower()):
            pieces += data[at : match.start()], _MASK
            at = match.end()
        data = b"".join((*pieces, data[at:]))
        return _MASK if self._stands_in(data) else data

    def _stands_in(self, data: bytes) -> bool:
        return any(value in level for level in _levels(data.lower()) for value in self._plain)

    def clean_text(self, text: str) -> str:
        """Return a text without them."""
        return self.clean(_encode(text)).decode(errors="surrogatepass")

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Let no error leave the block with them in its words, nor with the errors behind it: a
        library's name addresses and headers in full.
        """
        try:
            yield
        except BaseException as error:
            error.args = tuple(
                self.clean_text(part) if isinstance(part, str) else part for part in error.args
            )
            error.__cause__ = error.__context__ = None
            raise


def _is_secret(value: str) -> bool:
    shortest = _SHORTEST_WORD if value.isalpha() else _SHORTEST
    return len(value) >= shortest and value.lower() not in _NO_SECRETS


def _head(value: str) -> str:
    """Return the beginning of a secret that gives it away; the host of an address does not, and
    stands in many a trace.
    """
    place = _PLACE.match(value)
    return value[: _HEAD + (place.end() if place else 0)]


def _parts(value: str) -> Iterator[str]:
    """Yield pieces of a long secret, one of which stands in what is left of it where its beginning
    is cut off: in any 23 characters, if it is as random as keys are.
    """
    for at in range(len(_head(value)) - _HEAD // 2, len(value) - _HEAD + 1, _HEAD // 2):
        if _RANDOM.fullmatch(part := value[at : at + _HEAD]):
            yield part


def _encode(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _levels(text: bytes) -> Iterator[bytes]:
    """Yield a text without backslashes; then what its escapes stand for, theirs, and so on."""
    for _ in range(_DEEPEST):
        text = text.replace(b"\\", b"")
        yield text
        if not any(sign in text for sign in (b"u", b"%", b"&")):
            return
        text, before = _ESCAPE.sub(lambda match: _unescape(match[0]), text), text
        if text == before:
            return


@lru_cache(maxsize=4096)
def _unescape(escape: bytes) -> bytes:
    whole = _ESCAPE.fullmatch(escape)
    byte, high, low, unit, in_hex, decimal, name = whole.groups() if whole else [b""] * 7
    if name:
        return _NAMED[name]
    if byte:
        return bytes([int(byte, 16)]).lower()
    if high:
        return bytes.fromhex((high + low).decode()).decode("utf-16-be").encode()
    return _encode(chr(int(decimal) if decimal else int(unit or in_hex, 16))).lower()


def _pattern(value: str) -> bytes:
    """Return the pattern of a secret, each character of which may be escaped; of a long one, its
    beginning and whatever of it, or like it, follows.
    """
    parts = [_part_pattern(part) for part in re.findall(r"\\+|[^\\]", value)]
    long = len(_head(value))
    pattern, rest = b"".join(parts[:long]), b"".join(parts[long:])
    if re.search(r"[^\w.+/=-]", value[long:]):
        pattern += b"(?:" + rest + b")?+"
    return pattern + (_REST if rest else b"")


def _part_pattern(part: str) -> bytes:
    """Return the pattern of a character, or of a row of backslashes."""
    if part[0] == "\\":
        n = len(part)
        return rb"(?:\\{%d,}+|(?:\\*+u005c|%%5c|&#92;|&#x5c;){%d})" % (n, n)
    forms = [b"&" + name + b";" for name, sign in _NAMED.items() if sign == _encode(part)]
    for char in (part, part.lower(), part.upper()) if part.isascii() else (part,):
        units = re.findall("....", char.encode("utf-16-be", "surrogatepass").hex())
        forms += [re.escape(_encode(char)), rb"\\*+".join(b"u" + unit.encode() for unit in units)]
        forms += [b"".join(b"%%%02x" % byte for byte in _encode(char))]
        forms += [b"&#%d;" % ord(char), b"&#x%x;" % ord(char)]
    # Each once: where two are the same, each character doubles what is tried in vain.
    return rb"\\*+(?:" + b"|".join(dict.fromkeys(form.lower() for form in forms)) + b")"


def _of_address(url: str) -> Iterator[str]:
    """Yield what is secret in an address, as it stands there and as it is sent."""
    parts = urlsplit(url)
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    yield from (parts.username or "", parts.password or "", user, password)
    if user or password:
        yield f"{user}:{password}"
        yield b64encode(_encode(f"{user}:{password}")).decode()
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
