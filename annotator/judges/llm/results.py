"""Batch results: read line by line, held against what was asked, and put among the answers."""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from annotator.base.files import explain_unreadable, open_checked
from annotator.base.text import replace_surrogates, sanitize_line
from annotator.judges.llm.cache import AnswerCache
from annotator.judges.llm.context import DEAREST_BYTES_PER_TOKEN
from annotator.judges.llm.prices import Price, expect_dollars, least_tokens, read_cost
from annotator.judges.llm.reply import (
    LONGEST_RESPONSE,
    TRANSIENT,
    ModeRefused,
    Reply,
    read_reply,
    too_long,
)
from annotator.judges.llm.secrets import Secrets
from annotator.judges.llm.settings import Options
from annotator.rubrics.annotations import Usage

NO_RESULT = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
_CONTRADICTION = "the results hold two different answers to this one request"


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """What the results say instead of an answer to a request, with the ``status`` of HTTP; 0 where
    it was never asked, or is not known to have been.
    """

    words: str
    status: int = 0

    @property
    def may_pass(self) -> bool:
        """Whether the same request may be answered another time."""
        return self.status in (0, *TRANSIENT) or self.status >= 500

    @property
    def refused(self) -> bool:
        """Whether the server does not take the request, however often it is asked."""
        return self.status >= 400 and not self.may_pass

    @property
    def refusal(self) -> ModeRefused | None:
        """What a request that was asked at once would have been refused with, if it would."""
        taken = not self.refused and self.status not in (500, 501)
        return None if taken else ModeRefused(self.words, self.status)


def find_alike(missed: Collection[NoAnswer]) -> str:
    """Return how requests failed, if all did in one way, but for numbers in it, that will not pass;
    else "". One may have failed for what is in it.
    """
    ways = {re.sub(r"\d+", "#", why.words) for why in missed}
    if len(missed) < 2 or len(ways) > 1 or any(why.may_pass for why in missed):
        return ""
    return next(why.words for why in missed)


@dataclass(frozen=True, slots=True)
class Result:
    """One line of batch results. ``words``: why it is no answer, "" if it is one."""

    key: str
    body: object
    words: str = ""
    status: int = 200
    fields: Mapping[str, object] = field(default_factory=dict)

    @property
    def too_long(self) -> Reply | None:
        """The reply that it is if it says that the prompt was too long."""
        if not self.words or self.status in TRANSIENT or self.status >= 500:
            return None
        code = str(self.fields.get("code") or self.fields.get("type") or "")
        return too_long(self.words, self.fields, code, self.status == 413)


def is_damaged(line: bytes) -> bool:
    """Whether a line is no result, whatever else it says: too long, or with zeros in it, in whose
    place something may have stood.
    """
    return len(line) > LONGEST_RESPONSE or b"\0" in line


def clean_line(line: bytes, secrets: Secrets) -> bytes:
    """Return a line of results to be stored: without the secrets, but an answer's text as it is."""
    if is_damaged(line):
        return b"damaged"
    with suppress(*NO_RESULT):
        if not _result(value := json.loads(line), secrets).words:
            cleaned = _clean(value, secrets)
            return line if cleaned == value else json.dumps(cleaned).encode()
    return secrets.clean_text(line.decode(errors="replace")).encode()


def _clean(value: Any, secrets: Secrets, name: str = "") -> Any:
    """Return a part of an answer, the value of the field ``name``, without the secrets."""
    if isinstance(value, dict):
        return {key: _clean(part, secrets, key) for key, part in value.items()}
    if isinstance(value, list):
        return [_clean(part, secrets, name) for part in value]
    is_words = isinstance(value, str) and name not in ("content", "text", "arguments")
    return secrets.clean_text(value) if is_words else value


def read_results(file: Path, secrets: Secrets) -> Iterator[tuple[int, Result | None]]:
    """Yield the lines of a file of batch results, OpenAI's or those of ``vllm run-batch``, with
    their numbers; None for one that is no result. Errors are cleaned of the secrets.

    Raises:
        AnnotatorError: the file cannot be read.
    """
    with explain_unreadable(file), open_checked(file) as lines:
        n = 0
        while line := lines.readline(LONGEST_RESPONSE + 1):
            n += 1
            if not line.strip():
                continue
            try:
                if is_damaged(line):
                    while line and not line.endswith(b"\n"):
                        line = lines.readline(LONGEST_RESPONSE)
                    raise ValueError
                yield n, _result(json.loads(line), secrets)
            except NO_RESULT:
                yield n, None


def _result(value: dict[str, Any], secrets: Secrets) -> Result:
    key, response = replace_surrogates(str(value["custom_id"])), value.get("response") or {}
    status, body = int(response.get("status_code") or 200), response.get("body")
    if status == 200 and body is not None and not value.get("error"):
        return Result(key, body)
    given = body.get("error", body) if isinstance(body, dict) and status != 200 else None
    given = given or value.get("error")
    while isinstance(given, dict) and isinstance(given.get("error"), dict):
        given = given["error"]
    fields = given if isinstance(given, dict) else {}
    words = str(fields.get("message") or fields.get("code") or given or "no answer")
    reason = sanitize_line(secrets.clean_text(words), 300)
    return Result(
        key, body, f"HTTP {status}: {reason}" if status != 200 else reason, status, fields
    )


@dataclass(frozen=True, slots=True)
class SentRequest:
    """What a request must have used at ``least``, in tokens, and what it may cost in dollars."""

    least: int = 0
    dollars: float = 0.0

    @classmethod
    def of(
        cls, body: Mapping[str, Any], size: int, options: Options, price: Price | None
    ) -> "SentRequest":
        """Return that of a request of so many bytes."""
        cap = options.max_output_tokens
        dollars = sum(expect_dollars(price, int(size / DEAREST_BYTES_PER_TOKEN), cap))
        return cls(least_tokens(body), dollars)


class Intake:
    """Puts the answers of files of results that belong together into ``cache``.

    ``asked``: the requests that were sent, by key, where they are known; a result of no other is
    taken, but counted in ``strays``. Two results of one request that do not agree are no answer to
    it, and its key is in ``contradicted``; but where ``asked`` is not known, the files may be of
    several attempts, and an error goes against no answer. ``errors``: what results say instead of
    an answer, by key; ``results``: how many there are, ``unread``: how many lines are none
    (``problem`` in words); ``lost``: what was used for no answer; ``dollars``: for answers, where
    the server's own count cannot be as many as were set aside.
    """

    def __init__(
        self,
        cache: AnswerCache,
        options: Options,
        price: Price | None,
        secrets: Secrets,
        asked: Mapping[str, SentRequest] | None = None,
    ) -> None:
        self.errors: dict[str, NoAnswer] = {}
        self.contradicted: set[str] = set()
        self.strays = self.results = self.unread = 0
        self.first_unread = ""
        self.lost = Usage()
        self.dollars = 0.0
        self._cache = cache
        self._options = options
        self._price = price
        self._secrets = secrets
        self._asked = asked
        self._given: dict[str, bytes] = {}  # the hash of what the first result of a key says

    def take(self, file: Path) -> None:
        """Take the results in a file; what is known already stays.

        Raises:
            AnnotatorError: as :func:`read_results`.
        """
        for n, result in read_results(file, self._secrets):
            if result is None:
                self.unread += 1
                self.first_unread = self.first_unread or f"{file}, line {n}"
                continue
            self.results += 1
            if self._asked is not None and result.key not in self._asked:
                self.strays += 1
            elif result.key not in self.contradicted:
                self._take(result)

    @property
    def problem(self) -> str:
        """What is wrong with lines that are no results, or ""."""
        if not self.unread:
            return ""
        more = f" ({self.unread} lines are none)" if self.unread > 1 else ""
        return (
            f"{self.first_unread}: expected a line of batch results with custom_id and response, of"
            f" at most {LONGEST_RESPONSE >> 20} MB and without NUL{more}"
        )

    def _take(self, result: Result) -> None:
        key, cache = result.key, self._cache
        sent = (self._asked or {}).get(key, SentRequest())
        usage, reply, words = Usage(calls=1), result.too_long, result.words
        if not words:
            usage = read_cost(result.body, self._price, self._options.spoken, sent.least)
            try:
                reply = read_reply(result.body, self._secrets.clean_text)
            except ValueError as wrong:
                words = str(wrong)
        says = blake2b((reply.to_json() if reply else words).encode(), digest_size=16).digest()
        once, again = reply or self._asked is not None, key in self._given
        before = self._given.setdefault(key, says) if once else says
        held = cache.get(key)
        if before != says or (reply and held and held.reply != reply):
            self.contradicted.add(key)
            self.errors[key] = NoAnswer(_CONTRADICTION)
            self.lost += usage + (held.usage if held else Usage())
            cache.forget([key])
        elif reply is None:
            ran = result.status != 200 or result.body is not None
            self.errors[key] = NoAnswer(words, result.status if ran else 0)
            self.lost += usage if ran and not again else Usage()  # else it was never asked
        elif held is None or (held.reply, held.usage) != (reply, usage):
            cache.put(key, self._options.model, reply, usage)
            self.dollars += sent.dollars if usage.cost_usd is None else usage.cost_usd
