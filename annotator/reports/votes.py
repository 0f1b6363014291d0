"""How far several votes agree: between judges, of one judge with itself, and code by code."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from annotator.rubrics import NONE
from annotator.rubrics.annotations import Annotation, Vote
from annotator.traces.clusters import ClusterCounts
from validation import Estimate, Interval, compute_wilson_interval

_COUNTED = ("labelled", "none")  # votes that say something


@dataclass(frozen=True, slots=True)
class VoterPair:
    """Cohen's kappa of two voters; ``second`` is ``first`` where a judge is held against itself."""

    first: str
    second: str
    kappa: Estimate

    @property
    def name(self) -> str:
        """The pair in words."""
        return (
            f"{self.first} again" if self.first == self.second else f"{self.first}, {self.second}"
        )


@dataclass(frozen=True, slots=True)
class Votes:
    """What the votes of a run say about its judges.

    ``unanimous``: of the traces judged, undecided ones too, those whose votes all say the same.
    ``flips``: by code, of the traces in which any vote has it, those in which not every vote does.
    ``ties``: traces in which no label had a majority, or a code exactly half of the votes;
    ``failed``: votes that failed in judged traces. ``pairs`` is empty where the rubric has no one
    label (choice many).
    """

    unanimous: Interval
    flips: dict[str, Interval]
    pairs: tuple[VoterPair, ...]
    ties: int
    failed: int


@dataclass(slots=True)
class VoteCounts:
    """Counts votes while annotations pass by; what it holds grows with tasks, not with traces.

    ``clusters`` counts, by task, the traces with votes, and of these the ``unanimous`` ones, those
    where a code is ``voted`` and ``flipped``, and each pair of labels of two voters. ``undecided``:
    such votes on traces that others decided.
    """

    traces: int = 0
    ties: int = 0
    failed: int = 0
    undecided: int = 0
    clusters: ClusterCounts = field(default_factory=ClusterCounts)
    pairs: dict[tuple[str, str], set[tuple[str, str]]] = field(default_factory=dict)

    def add(self, annotation: Annotation, cluster: str | None) -> None:
        """Count the votes of a judged trace; one without votes is not counted."""
        if not annotation.votes or annotation.status not in ("labelled", "none", "undecided"):
            return
        counted = [vote for vote in annotation.votes if vote.status in _COUNTED]
        self.traces += 1
        self.ties += bool(annotation.tie)
        self.failed += sum(vote.status == "failed" for vote in annotation.votes)
        if annotation.status != "undecided":
            self.undecided += sum(vote.status == "undecided" for vote in annotation.votes)
        counts: list[Hashable] = ["unanimous"] if annotation.unanimous else []
        for code in frozenset[str]().union(*(vote.codes for vote in counted)):
            counts.append(("voted", code))
            if not all(code in vote.codes for vote in counted):
                counts.append(("flipped", code))
        for names, labels in _pair_labels(annotation.votes):
            self.pairs.setdefault(names, set()).add(labels)
            counts.append((names, labels))
        self.clusters.add(cluster, counts)

    def summary(self, codes: Sequence[str], *, labelled: bool) -> Votes | None:
        """Return what was counted, or None if there were no votes.

        ``labelled``: whether a vote has one label that another can be held against.
        """
        if not self.traces:
            return None
        flips = {code: self._share(("flipped", code), ("voted", code)) for code in codes}
        pairs = [VoterPair(*names, self._kappa(names)) for names in sorted(self.pairs) if labelled]
        return Votes(self._share("unanimous", None), flips, tuple(pairs), self.ties, self.failed)

    def _share(self, count: Hashable, of: Hashable) -> Interval:
        """Return the share of the traces with one count among those with another, over tasks."""
        from validation import (
            estimate_share_of_totals,
        )  # takes numpy, which a run without votes does not need

        totals = [self.clusters.totals(label)[0] for label in (count, of) if label is not None]
        k, n = totals if of is not None else (totals[0], self.clusters.totals(count)[1])
        return (
            estimate_share_of_totals(k, n)
            if self.clusters.named
            else compute_wilson_interval(sum(k), sum(n))
        )

    def _kappa(self, names: tuple[str, str]) -> Estimate:
        """Return the kappa of two voters, over tasks."""
        from validation import measure_agreement

        items: list[tuple[str, str, Hashable]] = []
        named = len(self.clusters.in_cluster)
        for labels in sorted(self.pairs[names]):
            for place, count in enumerate(self.clusters.totals((names, labels))[0]):
                # A trace that tells no task is of its own, not of that of another pair of labels.
                cluster = place if place < named else (labels, place)
                items += [(*labels, cluster)] * count
        first, second, places = zip(*items, strict=True)
        clusters = places if self.clusters.named else None
        return measure_agreement(first, second, clusters=clusters).kappa


def _pair_labels(votes: tuple[Vote, ...]) -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    """Yield the judges of each pair compared, and their labels: the first answers of two judges,
    and the first two answers of one.
    """
    firsts = [vote for vote in votes if vote.sample == 1]
    for n, first in enumerate(firsts):
        again = [vote for vote in votes if vote.judge == first.judge and vote.sample == 2]
        for second in again + firsts[n + 1 :]:
            if first.status in _COUNTED and second.status in _COUNTED:
                yield (first.judge, second.judge), (first.primary or NONE, second.primary or NONE)
