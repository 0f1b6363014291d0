"""What a statistic returns: a number, its interval, and what is needed to compute it again."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its interval.

    ``measure`` says what it is, ``method`` how the interval was made ("none": there is none, and
    ``low`` and ``high`` are None). Where the number is undefined, ``value`` is None and ``reason``
    says why. ``n`` counts the units it rests on. ``inputs`` holds, as JSON values, what a reader
    needs to compute it again, and the numbers on the way.
    """

    measure: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    confidence: float
    method: str
    reason: str | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as JSON-serialisable values."""
        return asdict(self)
