"""Totals by task: what every share, mean and interval of the statistics is made of."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from annotator.base.text import format_count
from validation import Estimate, estimate_clustered_share, subtract_estimates
from validation.resampling import Floats

Key = tuple[str, ...]

NO_UNION = "no union merges"

# With fewer runs or tasks on a side, a few misread messages decide a difference.
# A pair has at least two runs, so that 5 pairs have at least 10.
LEAST_RUNS, LEAST_PAIRS, LEAST_TASKS = 10, 5, 5


def drop_if_few(gap: Estimate, sizes: Mapping[str, tuple[int, int | None]]) -> Estimate:
    """Return a difference, undefined if a group has too few runs or tasks (None: not known)."""
    if gap.value is None:
        return gap
    for name, (runs, tasks) in sizes.items():
        if why := explain_few(runs, tasks, "run", LEAST_RUNS):
            return make_undefined(gap, f"{name}: {why}")
    return gap


def compare_shares(sides: Mapping[str, Estimate]) -> Estimate:
    """Return Newcombe's difference of two groups' shares; undefined if one has no or few runs."""
    gap = subtract_estimates(*sides.values())
    if empty := [name for name, share in sides.items() if not share.n]:
        return replace(gap, reason=f"no such runs: {', '.join(empty)}")
    return drop_if_few(
        gap, {name: (share.n, share.inputs["clusters"]) for name, share in sides.items()}
    )


def explain_few(number: int, tasks: int | None, unit: str, minimum: int) -> str | None:
    """Return why so many runs or pairs are too few for a difference; None if they are enough."""
    if number >= minimum and (tasks is None or tasks >= LEAST_TASKS):
        return None
    size = format_count(number, unit) + (f" of {format_count(tasks, 'task')}" if tasks else "")
    return f"{size}; a difference needs {format_count(minimum, unit)} of {LEAST_TASKS} tasks"


def make_undefined(estimate: Estimate, reason: str) -> Estimate:
    """Return an estimate without its value and interval."""
    return replace(estimate, value=None, low=None, high=None, method="none", reason=reason)


def make_uncounted_share(runs: int, n: int = 0) -> Estimate:
    """Return the undefined share of runs with nothing to merge, with their count."""
    why = "nothing to merge: an agent crashed or a patch is empty"
    return Estimate("share", None, None, None, n, 0.95, "none", why, {"k": None if n else runs})


class Tally:
    """Counts under keys, by task; a run without a task is a task by itself."""

    def __init__(self) -> None:
        self._counts: dict[Hashable, Counter[Key]] = {}
        self._alone = 0

    def add(self, task: str | None, counts: Mapping[Key, int]) -> None:
        """Add the counts of one run."""
        name: Hashable = task
        if task is None:
            self._alone += 1
            name = self._alone
        self._counts.setdefault(name, Counter()).update(counts)

    @property
    def tasks(self) -> int | None:
        """The number of tasks; a run without a task is one. None if no run has a task."""
        return len(self._counts) if self._alone < len(self._counts) else None

    def total(self, key: Key) -> int:
        """Return the sum of a key over all tasks."""
        return sum(counts[key] for counts in self._counts.values())

    def keys(self, first: str) -> list[Key]:
        """Return the keys that begin with this word, in order, each once."""
        keys = {key for counts in self._counts.values() for key in counts if key[0] == first}
        return sorted(keys)

    def table(self, keys: Sequence[Key]) -> Floats:
        """Return the totals of keys, a row per task that has any of them."""
        rows = [[counts[key] for key in keys] for counts in self._counts.values()]
        filled = [row for row in rows if any(row)]
        return np.asarray(filled, dtype=np.float64).reshape(len(filled), len(keys))

    def share(self, k: Key, n: Key) -> Estimate:
        """Return total k over total n with Wilson's interval for the effective number of runs.

        The design effect over tasks is never taken to be below 1: with few tasks it is noisy.
        """
        values: list[int] = []
        tasks: list[Hashable] = []
        for name, counts in self._counts.items():
            values += [1] * counts[k] + [0] * (counts[n] - counts[k])
            tasks += [name] * counts[n]
        clusters = tasks if self.tasks is not None else None
        return estimate_clustered_share(values, clusters, least_design_effect=1.0)
