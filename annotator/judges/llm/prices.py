"""What a model costs: the price file, and the price of what was used."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from annotator.base.errors import AnnotatorError
from annotator.base.text import describe_validation
from annotator.base.yaml import read_yaml
from annotator.judges.llm.dialects import Dialect
from annotator.judges.llm.reply import read_dollars, read_usage
from annotator.rubrics.annotations import Usage

_SHIPPED = Path(__file__).with_name("prices.yaml")
_UNPRICED = 0.01  # dollars, of a first call that the server alone knows the price of
_LONG_ANSWER = 8_000  # tokens that a budget sets aside for the first one, thoughts included
_DATE = re.compile(r"-\d{4}-?\d{2}-?\d{2}")


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per million tokens. ``cached``: input that the provider had in its cache;
    ``cache_write``: input that it put there, None for the price of input.
    """

    input: float
    output: float
    cached: float
    source: str
    cache_write: float | None = None

    def of(self, usage: Usage) -> float:
        """Return the dollars for the tokens of ``usage``."""
        cached = min(usage.cached_tokens, usage.input_tokens)
        put = min(usage.cache_write_tokens, usage.input_tokens - cached)
        fresh = usage.input_tokens - cached - put
        dollars = fresh * self.input + cached * self.cached + usage.output_tokens * self.output
        dollars += put * (self.input if self.cache_write is None else self.cache_write)
        return dollars / 1_000_000


class _PriceEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    model: str
    host: str | None = None
    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cached: float | None = Field(default=None, ge=0)
    cache_write: float | None = Field(default=None, ge=0)
    batch: float = Field(default=1.0, gt=0, le=1)
    context: int | None = Field(default=None, ge=1)

    def is_for(self, model: str, host: str) -> bool:
        """Whether this is the entry of a model at a host."""
        if self.host not in (None, host):
            return False
        dated = model.startswith(self.model) and _DATE.fullmatch(model[len(self.model) :])
        return model == self.model or bool(dated)


class _PriceFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    as_of: str
    models: tuple[_PriceEntry, ...]


@dataclass(frozen=True, slots=True)
class Listed:
    """What the price files say of one model; None where they say nothing."""

    price: Price | None = None
    batch: Price | None = None
    context: int | None = None


def find_listing(model: str, url: str, files: Sequence[Path] = ()) -> Listed:
    """Return what is known of ``model`` at ``url``; ``files`` win over the shipped list, in order.

    Raises:
        AnnotatorError: a file cannot be read, or a field of it is wrong.
    """
    host = urlsplit(url).hostname or ""
    for path in (*files, _SHIPPED):
        file = _read(path)
        fitting = [entry for entry in file.models if entry.is_for(model, host)]
        if fitting:
            entry = max(
                fitting, key=lambda entry: entry.model == model
            )  # before entry without the date
            source = f"{path.name} as of {file.as_of}"
            prices = _price(entry, 1.0, source), _price(entry, entry.batch, source)
            return Listed(*prices, entry.context)
    return Listed()


def _price(entry: _PriceEntry, factor: float, source: str) -> Price:
    cached = entry.input if entry.cached is None else entry.cached
    write = None if entry.cache_write is None else entry.cache_write * factor
    return Price(entry.input * factor, entry.output * factor, cached * factor, source, write)


@lru_cache(maxsize=16)
def _read(path: Path) -> _PriceFile:
    value, _ = read_yaml(path)
    if isinstance(value, dict) and "as_of" in value:
        value["as_of"] = str(value["as_of"])  # YAML makes a date of it
    try:
        return _PriceFile.model_validate(value)
    except ValidationError as error:
        raise AnnotatorError(f"{path}: {describe_validation(error, 'the file')}") from error


def expect_dollars(price: Price | None, tokens: int, cap: int | None) -> tuple[float, float]:
    """Return the dollars for a prompt of so many tokens, and for a long answer of at most ``cap``;
    where the server alone knows the price, a guess.
    """
    if price is None:
        return 0.0, _UNPRICED
    answer = min(_LONG_ANSWER, cap or _LONG_ANSWER)
    return price.of(Usage(input_tokens=tokens)), price.of(Usage(output_tokens=answer))


def least_tokens(body: Mapping[str, Any]) -> int:
    """Return the number of tokens that a request has at least: one for eight characters, fewer
    than any text has. The schema does not count: not every server reads it.
    """
    items = body.get("messages") or body.get("input") or ()
    return int(sum(len(item.get("content") or "") for item in items) / 8)


def read_cost(body: object, price: Price | None, dialect: Dialect, least: int = 0) -> Usage:
    """Return what the call used that a response answers; without the tokens or without a price,
    its cost is not known, unless the server itself says what it was. Neither that nor the input is
    where the server counts fewer tokens than the ``least`` that the prompt can have.
    """
    usage = read_usage(body, dialect)
    if usage and usage.input_tokens < least:
        written, thoughts = usage.output_tokens, usage.reasoning_tokens
        return Usage(output_tokens=written, reasoning_tokens=thoughts, calls=1, cost_usd=None)
    if dialect.costs and (dollars := read_dollars(body)) is not None:
        return replace(usage or Usage(), calls=1, cost_usd=dollars)
    if usage is None or usage.cost_usd is None or price is None:
        return replace(usage or Usage(), calls=1, cost_usd=None)
    return replace(usage, calls=1, cost_usd=price.of(usage))
