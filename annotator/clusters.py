"""Which traces belong together, those of one task say, and how many of each cluster have what."""

import json
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# Traces of one task share code and requirements: they are not independent of each other.
DEFAULT_CLUSTER = ("project", "task")


def cluster_of(attributes: Mapping[str, Any], names: Collection[str]) -> str | None:
    """Return the cluster a trace belongs to by its attributes, None if it lacks all of them."""
    values = [attributes.get(name) for name in names]
    if all(value is None for value in values):
        return None
    plain = [value for value in values if isinstance(value, str) and "/" not in value]
    return "/".join(plain) if len(plain) == len(values) else json.dumps(values)


def lone_cluster(trace_id: str) -> str:
    """Return the cluster of a trace that tells none, where others do: it is one of its own."""
    return f"trace:{trace_id}"


@dataclass(slots=True)
class ClusterCounts:
    """How many traces there are in each cluster, and how many of them have each label, whatever a
    label is; in memory for each cluster, not for each trace. Traces that tell no cluster are one
    each of their own.
    """

    in_cluster: dict[str, Counter[Hashable]] = field(default_factory=dict)
    alone: Counter[Hashable] = field(default_factory=Counter)

    def add(self, cluster: str | None, labels: Iterable[Hashable]) -> None:
        """Count a trace with its labels, none of which is None."""
        counts = self.alone if cluster is None else self.in_cluster.setdefault(cluster, Counter())
        counts[None] += 1
        counts.update(labels)

    def include(self, other: "ClusterCounts") -> None:
        """Count what others have counted, of other traces."""
        for cluster, counts in other.in_cluster.items():
            self.in_cluster.setdefault(cluster, Counter()).update(counts)
        self.alone += other.alone

    @property
    def named(self) -> bool:
        """Whether any trace tells its cluster; else traces are independent."""
        return bool(self.in_cluster)

    def __len__(self) -> int:
        return len(self.in_cluster) + self.alone[None]

    def totals(self, label: Hashable) -> tuple[list[int], list[int]]:
        """Return, per cluster, the traces with a label and all traces: the clusters with a name as
        :meth:`places` says, then the traces without one, those with the label first.
        """
        clusters = self.in_cluster.values()
        alone, having = self.alone[None], self.alone[label]
        with_label = [counts[label] for counts in clusters]
        totals = [counts[None] for counts in clusters]
        return with_label + [1] * having + [0] * (alone - having), totals + [1] * alone

    def places(self, label: Hashable, traces: Iterable[tuple[str | None, bool]]) -> Iterator[int]:
        """Yield for each of some counted traces, of which the cluster is given and whether it has
        the label, where its cluster stands in :meth:`totals`.
        """
        numbers = {cluster: place for place, cluster in enumerate(self.in_cluster)}
        lone = [len(numbers) + self.alone[label], len(numbers)]  # without the label, with it
        for cluster, having in traces:
            if cluster is not None and cluster in numbers:
                yield numbers[cluster]
            else:
                yield lone[having]
                lone[having] += 1

    def exclusive_totals(
        self, labels: Sequence[str], traces: Iterable[tuple[str | None, str]]
    ) -> tuple[dict[str, list[int]], list[int]]:
        """Return, per label, the traces with it per cluster, where each trace has exactly one of
        the labels; and where the cluster of each of some counted traces stands in these lists, by
        its cluster and its label.
        """
        numbers = {cluster: place for place, cluster in enumerate(self.in_cluster)}
        count, begin = len(self), len(numbers)
        totals: dict[str, list[int]] = {}
        lone: dict[str, int] = {}
        for label in labels:
            having = [counts[label] for counts in self.in_cluster.values()]
            lone[label] = begin
            end = begin + self.alone[label]
            zeros = begin - len(numbers)
            totals[label] = having + [0] * zeros + [1] * (end - begin) + [0] * (count - end)
            begin = end
        places = []
        for cluster, label in traces:
            if cluster is not None and cluster in numbers:
                places.append(numbers[cluster])
            else:
                places.append(lone[label])
                lone[label] += 1
        return totals, places
