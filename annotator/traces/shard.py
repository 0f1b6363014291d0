"""A share of the traces, for one of several processes that judge them side by side."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from annotator.base.errors import SettingsError

_LARGEST = 100_000
# Variables of an array of jobs or a group of processes: number, count, first number, step.
_VARIABLES = (
    tuple(f"SLURM_ARRAY_TASK_{name}" for name in ("ID", "COUNT", "MIN", "STEP")),
    ("RANK", "WORLD_SIZE", "", ""),
)


@dataclass(frozen=True, slots=True)
class Shard:
    """One of ``of`` shares of the traces, by a hash of their ids; ``number`` counts from 1."""

    number: int
    of: int

    def __post_init__(self) -> None:
        if not (1 <= self.of <= _LARGEST and 1 <= self.number <= self.of):
            expected = f"I/N, I from 1 to N, N at most {_LARGEST}"
            raise SettingsError(f"--shard {self.number}/{self.of}: expected {expected}")

    def __str__(self) -> str:
        return f"{self.number}-of-{self.of}"

    def has(self, trace_id: str) -> bool:
        """Whether a trace belongs to this share."""
        return _hash(trace_id) % self.of == self.number - 1


class Listing:
    """The number of all traces and the sum of their hashes, the same for all shards of them."""

    def __init__(self) -> None:
        self.traces = 0
        self._sum = 0

    def add(self, trace_id: str) -> None:
        """Count a trace."""
        self.traces += 1
        self._sum += _hash(trace_id)

    def __str__(self) -> str:
        return f"{self.traces} traces, {self._sum % 2**64:016x}"


def _hash(trace_id: str) -> int:
    digest = hashlib.blake2b(trace_id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest)


def parse_shard(text: str, environment: Mapping[str, str]) -> Shard:
    """Return the share ``I/N``, with ``auto`` that of Slurm or torch; or SettingsError."""
    if match := re.fullmatch(r"(\d{1,9})/(\d{1,9})", text.strip()):
        return Shard(int(match[1]), int(match[2]))
    if text != "auto":
        raise SettingsError(f"--shard {text!r}: expected I/N (as 3/16), or auto")
    for name, count, minimum, step in _VARIABLES:
        values = {key: environment.get(key, "") for key in (name, count)}
        numbers = [*values.values(), environment.get(minimum) or "0", environment.get(step) or "1"]
        if all(text.isdecimal() for text in numbers):
            number, of, first, step_size = map(int, numbers)
            return Shard((number - first) // max(1, step_size) + 1, of)
        if any(values.values()):
            pairs = ", ".join(f"{key}={value}" for key, value in values.items())
            raise SettingsError(f"--shard auto: expected numbers, found {pairs}")
    names = " or ".join(f"{name} and {count}" for name, count, _, _ in _VARIABLES)
    reason = f"the environment has no {names}; name the share: --shard I/N"
    raise SettingsError(f"--shard auto: {reason}")
