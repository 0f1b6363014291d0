"""The result of a statistic: a number, its interval and its inputs."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


class Serializable:
    """The base of all results, which are dataclasses."""

    __slots__ = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as JSON-serialisable values."""
        return asdict(self)  # type: ignore[call-overload, no-any-return]


@dataclass(frozen=True, slots=True)
class Estimate(Serializable):
    """A number with its interval.

    ``measure`` names the number, ``method`` the interval ("none": ``low`` and ``high`` are None).
    If the number is undefined, ``value`` is None and ``reason`` says why. ``n`` counts the units.
    ``inputs`` holds the JSON values from which it can be computed again.
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
