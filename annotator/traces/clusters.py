"""Clusters of traces, such as those of one task, and the labels counted in each."""

import json
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from validation import Interval

# Traces of one task share code and requirements: they are not independent of each other.
DEFAULT_CLUSTER = ("project", "task")


def find_cluster(attributes: Mapping[str, Any], names: Collection[str]) -> str | None:
    """Return a trace's cluster by its attributes; None if it has none of ``names``."""
    values = [attributes.get(name) for name in names]
    if "task" in names and attributes.get("task") is None:  # it is a text
        values = [attributes.get("task_hash" if name == "task" else name) for name in names]
    if all(value is None for value in values):
        return None
    plain = [value for value in values if isinstance(value, str) and "/" not in value]
    return "/".join(plain) if len(plain) == len(values) else json.dumps(values)


def name_lone_cluster(trace_id: str) -> str:
    """Return the name of the cluster of a trace that has no cluster among traces that do."""
    return f"trace:{trace_id}"


@dataclass(slots=True)
class ClusterCounts:
    """The numbers of traces in each cluster; a trace without a cluster is one of its own."""

    in_cluster: dict[str, Counter[Hashable]] = field(default_factory=dict)
    alone: Counter[Hashable] = field(default_factory=Counter)

    def add(
        self, cluster: str | None, labels: Iterable[Hashable], *, in_total: bool = True
    ) -> None:
        """Count a trace with its labels (never None); ``in_total`` False: in no total."""
        counts = self.alone if cluster is None else self.in_cluster.setdefault(cluster, Counter())
        counts[None] += in_total
        counts.update(labels)

    def include(self, other: "ClusterCounts") -> None:
        """Add the counts of other traces."""
        for cluster, counts in other.in_cluster.items():
            self.in_cluster.setdefault(cluster, Counter()).update(counts)
        self.alone += other.alone

    @property
    def named(self) -> bool:
        """Whether any trace has a cluster; else traces are independent."""
        return bool(self.in_cluster)

    def __len__(self) -> int:
        return sum(counts[None] > 0 for counts in self.in_cluster.values()) + self.alone[None]

    def totals(self, label: Hashable) -> tuple[list[int], list[int]]:
        """Return, per cluster, the traces with a label and all traces: first the clusters with a
        name, then the traces without one, those with the label first.
        """
        clusters = self.in_cluster.values()
        alone, having = self.alone[None], self.alone[label]
        with_label = [counts[label] for counts in clusters]
        totals = [counts[None] for counts in clusters]
        return with_label + [1] * having + [0] * (alone - having), totals + [1] * alone

    def answer_totals(
        self,
        answers: Sequence[Callable[[Counter[Hashable]], int]],
        traces: Iterable[tuple[str | None, int]],
    ) -> tuple[list[str], list[list[int]], list[int]]:
        """Return the number of traces of each cluster with each answer, and the rows of traces.

        Args:
            answers: take the counts of a cluster, and return how many have the answer.
            traces: the cluster of each trace and the number of its only answer.

        Returns:
            The names of the clusters that have any; a row for each of these, then one for each
            trace without a cluster, with a column for each answer; the row of each of ``traces``.
        """
        by_name = {
            name: row
            for name, counts in self.in_cluster.items()
            if any(row := [answer(counts) for answer in answers])
        }
        rows, numbers = list(by_name.values()), {name: n for n, name in enumerate(by_name)}
        following = []
        for column, answer in enumerate(answers):
            following.append(len(rows))
            row = [int(column == other) for other in range(len(answers))]
            rows += [row] * answer(self.alone)
        of_traces = []
        for cluster, column in traces:
            if cluster is not None and cluster in numbers:
                of_traces.append(numbers[cluster])
            else:
                of_traces.append(following[column])
                following[column] += 1
        return list(by_name), rows, of_traces


def compute_share(clusters: ClusterCounts, label: Hashable) -> "Interval":
    """Return the share of the traces with a label: Wilson's interval, for the effective number of
    traces if they share tasks.
    """
    from validation import compute_wilson_interval  # not at start-up: readers need no statistics

    if not clusters.named:
        return compute_wilson_interval(clusters.alone[label], clusters.alone[None])
    from validation import estimate_share_of_totals  # takes numpy, which not every report needs

    return estimate_share_of_totals(*clusters.totals(label))
