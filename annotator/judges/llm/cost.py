"""Prices, the cost of calls, and the budget of a run."""

import asyncio
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from annotator.base.errors import AnnotatorError, BudgetReached
from annotator.base.text import describe_validation
from annotator.base.yaml import read_yaml
from annotator.judges.llm.provider import Provider
from annotator.judges.llm.response import read_dollars, read_usage
from annotator.judges.llm.settings import is_local
from annotator.rubrics.annotations import Usage

if TYPE_CHECKING:
    from decimal import Decimal

    from genai_prices.types import PriceCalculation, TieredPrices

_SHIPPED = Path(__file__).with_name("prices.yaml")
_UNPRICED = 0.01  # dollars, of a first call that the server alone knows the price of
_LONG_ANSWER = 8_000  # tokens that a budget sets aside for the first one, thoughts included
_DATE = re.compile(r"-\d{4}-?\d{2}-?\d{2}")


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per million tokens.

    ``cached``: input from the provider's cache; ``cache_write``: input written to it (None: as
    input).
    """

    input: float
    output: float
    cached: float
    source: str
    cache_write: float | None = None

    def of(self, usage: Usage) -> float:
        """Return the dollars for the tokens of ``usage``."""
        fresh, cached, put = _split_input(usage)
        dollars = fresh * self.input + cached * self.cached + usage.output_tokens * self.output
        dollars += put * (self.input if self.cache_write is None else self.cache_write)
        return dollars / 1_000_000

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers and their source, for the record of a run."""
        return {name: getattr(self, name) for name in Price.__slots__}

    def __str__(self) -> str:
        return (
            f"{self.input:g} USD per million tokens of input and {self.output:g} of output"
            f" ({self.source})"
        )


@dataclass(frozen=True, slots=True)
class TieredPrice(Price):
    """A price of genai-prices, which may depend on the length of the input and on the hour.

    The numbers are those of a short input.
    """

    model: str = ""
    url: str = ""
    in_batches: bool = False

    def of(self, usage: Usage) -> float:
        """Return the dollars for the tokens of one call."""
        _, cached, put = _split_input(usage)
        tokens = {"cache_read_tokens": cached, "cache_write_tokens": put}
        tokens |= {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
        bill = _compute_bill(self.model, self.url, self.in_batches, tokens)
        return float(bill.total_price)


def _compute_bill(
    model: str, url: str, in_batches: bool, tokens: Mapping[str, int]
) -> "PriceCalculation":
    """Return what genai-prices computes. Raises LookupError if it does not list the model."""
    from genai_prices import Usage as Tokens
    from genai_prices import calc_price

    context = {"processing": "batch"} if in_batches else None
    return calc_price(Tokens(**tokens), model, provider_api_url=url, price_context=context)


def _split_input(usage: Usage) -> tuple[int, int, int]:
    """Return the tokens of input that are new, from the provider's cache, and written to it."""
    cached = min(usage.cached_tokens, usage.input_tokens)
    put = min(usage.cache_write_tokens, usage.input_tokens - cached)
    return usage.input_tokens - cached - put, cached, put


class _PriceEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    model: str
    host: str | None = None
    input: float | None = Field(default=None, ge=0)
    output: float | None = Field(default=None, ge=0)
    cached: float | None = Field(default=None, ge=0)
    cache_write: float | None = Field(default=None, ge=0)
    batch: float = Field(default=1.0, gt=0, le=1)
    context: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def check_prices(self) -> "_PriceEntry":
        """Raise ValueError for half a price."""
        if (self.input is None) != (self.output is None):
            raise ValueError("input and output are given together")
        return self

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
class ModelListing:
    """The first entry of the price files about a model at a URL, and the file's name and date."""

    model: str
    url: str
    entry: _PriceEntry | None = None
    source: str = ""

    @property
    def context(self) -> int | None:
        """The longest input in tokens; None: unknown.

        genai-prices does not decide it: its windows may include the answer, and a newer list must
        not change what a judge reads.
        """
        return self.entry.context if self.entry else None

    def find_price(self, *, in_batches: bool) -> Price | None:
        """Return the price of the entry, else that of genai-prices; None: unknown."""
        entry = self.entry
        if entry is None or entry.input is None or entry.output is None:
            return _find_public_price(self.model, self.url, in_batches)
        factor = entry.batch if in_batches else 1.0
        cached = entry.input if entry.cached is None else entry.cached
        write = None if entry.cache_write is None else entry.cache_write * factor
        return Price(
            entry.input * factor, entry.output * factor, cached * factor, self.source, write
        )


def find_listing(model: str, url: str, files: Sequence[Path] = ()) -> ModelListing:
    """Return the listing of ``model`` at ``url``; ``files`` come before the shipped list.

    Raises:
        AnnotatorError: a file cannot be read, or a field of it is wrong.
    """
    host = urlsplit(url).hostname or ""
    for path in (*files, _SHIPPED):
        file = _read_file(path)
        fitting = [entry for entry in file.models if entry.is_for(model, host)]
        if fitting:  # an entry with the date goes before one without
            entry = max(fitting, key=lambda entry: entry.model == model)
            return ModelListing(model, url, entry, f"{path.name} as of {file.as_of}")
    return ModelListing(model, url)


def _find_public_price(model: str, url: str, in_batches: bool) -> Price | None:
    """Return the price of a model at a public address by genai-prices; None: unknown."""
    if is_local(url):
        return None
    try:
        prices = _compute_bill(model, url, in_batches, {}).model_price
    except LookupError:
        return None
    read, written = _find_base(prices.input_mtok), _find_base(prices.output_mtok)
    if read is None or written is None:
        return None
    cached = _find_base(prices.cache_read_mtok)
    source = f"genai-prices {version('genai-prices')}, newest price {_find_newest()}"
    if any(rate is not None and hasattr(rate, "tiers") for rate in vars(prices).values()):
        source += ", dearer for long prompts"
    return TieredPrice(
        *(read, written, read if cached is None else cached, source),
        *(_find_base(prices.cache_write_mtok), model, url, in_batches),
    )


def _find_base(rate: "Decimal | TieredPrices | None") -> float | None:
    """Return the dollars per million tokens of a short input."""
    from genai_prices.types import TieredPrices

    base = rate.base if isinstance(rate, TieredPrices) else rate
    return None if base is None else float(base)


def _find_newest() -> date:
    """Return the date of the newest price of genai-prices that is in force."""
    from genai_prices.data_snapshot import get_snapshot

    today = datetime.now(UTC).date()
    models = [model for provider in get_snapshot().providers for model in provider.models]
    dated = [price for model in models if isinstance(model.prices, list) for price in model.prices]
    variants = [variant for model in models for variant in model.price_variants or ()]
    limits = (*(price.constraint for price in dated), *(price.constraint for price in variants))
    starts = (getattr(limit, "start_date", today) for limit in limits)
    return max(start for start in starts if start < today)


@lru_cache(maxsize=16)
def _read_file(path: Path) -> _PriceFile:
    value, _ = read_yaml(path)
    if isinstance(value, dict) and "as_of" in value:
        value["as_of"] = str(value["as_of"])  # YAML makes a date of it
    try:
        return _PriceFile.model_validate(value)
    except ValidationError as error:
        raise AnnotatorError(f"{path}: {describe_validation(error, 'the file')}") from error


def estimate_dollars(price: Price | None, tokens: int, cap: int | None) -> tuple[float, float]:
    """Return the dollars for ``tokens`` of prompt and for a long answer of at most ``cap`` tokens.

    Without a price the second is a guess.
    """
    if price is None:
        return 0.0, _UNPRICED
    answer = min(_LONG_ANSWER, cap or _LONG_ANSWER)
    prompt = price.of(Usage(input_tokens=tokens))
    return prompt, price.of(Usage(input_tokens=tokens, output_tokens=answer)) - prompt


def count_minimum_tokens(body: Mapping[str, Any]) -> int:
    """Return the fewest tokens that a request can have: one for eight characters.

    The schema does not count: not every server reads it.
    """
    items = body.get("messages") or body.get("input") or ()
    return int(sum(len(item.get("content") or "") for item in items) / 8)


def read_cost(
    body: object, price: Price | None, provider: Provider, minimum_tokens: int = 0
) -> Usage:
    """Return the usage of a call from its response body.

    The cost is unknown without tokens or price, unless the server reports it. If the server counts
    fewer input tokens than ``minimum_tokens``, its input and the cost are unknown.
    """
    usage = read_usage(body, provider)
    if usage and usage.input_tokens < minimum_tokens:
        written, thoughts = usage.output_tokens, usage.reasoning_tokens
        return Usage(output_tokens=written, reasoning_tokens=thoughts, calls=1, cost_usd=None)
    if provider.costs and (dollars := read_dollars(body)) is not None:
        return replace(usage or Usage(), calls=1, cost_usd=dollars)
    if usage is None or usage.cost_usd is None or price is None:
        return replace(usage or Usage(), calls=1, cost_usd=None)
    return replace(usage, calls=1, cost_usd=price.of(usage))


@dataclass(slots=True)
class _ModelCosts:
    """The costs of one model's calls so far.

    ``dearest``: the highest cost; ``more``: the most that a call cost beyond the estimate of its
    prompt (None: no answer yet).
    """

    dearest: float = 0.0
    more: float | None = None
    in_flight: int = 0

    def expects(self, prompt: float, answer: float) -> float:
        if self.more is None and not self.dearest:
            return prompt + answer
        return max(self.dearest, prompt + (self.more or 0.0))

    @property
    def is_blank(self) -> bool:
        return self.more is None and not self.dearest


class Budget:
    """Dollars that a run may cost, with earlier cost and reservations for calls in flight.

    A call reserves the dearest cost of its model so far; the first call of a model goes alone and
    reserves an estimate. If a call does not fit, it waits for those in flight; if none is left, the
    budget is reached. No answer is cut short for money: a run exceeds its budget at most by the
    excess of the calls in flight over the dearest call before them.

    Args:
        maximum: the budget.
        spent: dollars spent before.
        dearest: the cost of the dearest call of an earlier part of the run; 0: not known.
    """

    def __init__(self, maximum: float, spent: float = 0.0, dearest: float = 0.0) -> None:
        self.maximum = maximum
        self.spent = spent
        self._reserved = 0.0
        self._in_flight = 0
        self._costs_by_model: dict[str, _ModelCosts] = defaultdict(lambda: _ModelCosts(dearest))
        self._changed = asyncio.Condition()

    def check(self, dollars: float) -> None:
        """Raise :class:`BudgetReached` if a batch may cost more than is left."""
        if self.spent + dollars > self.maximum:
            raise self._reached("batch", dollars)

    def _reached(self, what: str, dollars: float) -> BudgetReached:
        return BudgetReached(
            f"the next {what} may cost {dollars:.4f} USD, and {self.spent:.4f} of"
            f" {self.maximum:.4f} USD (--max-cost) are spent"
        )

    async def reserve(self, call: "CallEstimate") -> float:
        """Wait until a call fits; return the dollars reserved.

        Raises:
            BudgetReached: it does not fit, and no call is in flight.
        """
        costs = self._costs_by_model[call.model]
        async with self._changed:
            while True:
                dollars = call.dollars if call.tiny else costs.expects(call.prompt, call.answer)
                fits = self.spent + self._reserved + dollars <= self.maximum
                if fits and not (costs.is_blank and costs.in_flight):
                    self._reserved += dollars
                    self._in_flight += 1
                    costs.in_flight += 1
                    return dollars
                if not self._in_flight:
                    raise self._reached("call", dollars)
                await self._changed.wait()

    async def settle(
        self, call: "CallEstimate", reserved: float, dollars: float | None, *, telling: bool
    ) -> None:
        """Replace a reservation by the cost; an unknown cost (None) counts as the reservation.

        ``telling``: a judgement was answered, so its cost is typical.
        """
        costs = self._costs_by_model[call.model]
        async with self._changed:
            self._reserved -= reserved
            self._in_flight -= 1
            costs.in_flight -= 1
            cost = reserved if dollars is None else dollars
            self.spent += cost
            if telling and not call.tiny:
                costs.dearest = max(costs.dearest, cost)
                costs.more = max(costs.more or 0.0, cost - call.prompt)
            self._changed.notify_all()


@dataclass(frozen=True, slots=True)
class CallEstimate:
    """The estimate of a call.

    ``tokens``: in all. ``prompt``, ``answer``: dollars, the first rather high, the second for a
    long answer. ``tiny``: it is no judgement. ``minimum_tokens``: the fewest tokens that the
    prompt can have.
    """

    model: str
    tokens: int
    prompt: float
    answer: float
    tiny: bool = False
    minimum_tokens: int = 0

    @property
    def dollars(self) -> float:
        """The most that it is expected to cost."""
        return self.prompt + self.answer
