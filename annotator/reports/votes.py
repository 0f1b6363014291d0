"""The agreement of several votes: between judges, of one judge with itself, and by code."""

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

from annotator.rubrics import NONE
from annotator.rubrics.annotations import JUDGED, Annotation, Vote
from annotator.traces.clusters import ClusterCounts
from validation import Estimate, Interval, compute_wilson_interval


@dataclass(frozen=True, slots=True)
class VoterPair:
    """Cohen's kappa of two voters; ``second`` is ``first`` if a judge is compared with itself."""

    first: str
    second: str
    kappa: Estimate

    @property
    def name(self) -> str:
        """The names of the pair."""
        return (
            f"{self.first} again" if self.first == self.second else f"{self.first}, {self.second}"
        )


@dataclass(frozen=True, slots=True)
class Votes:
    """The agreement of the votes of a run. ``unanimous``, ``flips`` and ``effective`` are of the
    traces, undecided ones too, whose votes all count.
    """

    unanimous: Interval  # traces whose votes are all the same
    incomplete: int  # the other traces with votes
    flips: dict[str, Interval]  # by code: of those with a vote for it, those with another one
    pairs: tuple[VoterPair, ...]  # empty if traces can have many labels
    effective: Estimate  # the number of independent votes that they count as
    ties: int  # no label had a majority, or a code exactly half of the votes
    failed: int  # votes in judged traces


@dataclass(slots=True)
class VoteCounts:
    """The counts of votes; their size grows with tasks, not with traces.

    ``clusters`` counts, by task, the traces whose votes all count (``complete``); of these the
    ``unanimous`` ones and those in which a code is ``voted`` and ``flipped``; and each pair of
    labels of two voters. ``together`` counts these traces by two voters, by their number, and a
    code that both give. ``undecided``: such votes on traces that others decided.
    """

    traces: int = 0
    incomplete: int = 0
    ties: int = 0
    failed: int = 0
    undecided: int = 0
    clusters: ClusterCounts = field(default_factory=ClusterCounts)
    pairs: dict[tuple[str, str], set[tuple[str, str]]] = field(default_factory=dict)
    voters: int = 0
    together: Counter[tuple[int, int, str]] = field(default_factory=Counter)

    def add(self, annotation: Annotation, cluster: str | None) -> None:
        """Count the votes of a judged trace, if it has any."""
        if not annotation.votes or annotation.status not in ("labelled", "none", "undecided"):
            return
        complete = all(vote.status in JUDGED for vote in annotation.votes)
        self.traces += 1
        self.incomplete += not complete
        self.ties += bool(annotation.tie)
        self.failed += sum(vote.status == "failed" for vote in annotation.votes)
        if annotation.status != "undecided":
            self.undecided += sum(vote.status == "undecided" for vote in annotation.votes)
        counts: list[Hashable] = ["complete"] if complete else []
        if complete and annotation.unanimous:
            counts.append("unanimous")
        voted = frozenset[str]().union(*(vote.codes for vote in annotation.votes if complete))
        for code in voted:
            counts.append(("voted", code))
            if not all(code in vote.codes for vote in annotation.votes):
                counts.append(("flipped", code))
        self.voters = max(self.voters, len(annotation.votes))
        codes = [vote.codes if complete else frozenset() for vote in annotation.votes]
        for (n, first), (m, second) in product(enumerate(codes), repeat=2):
            self.together.update((n, m, code) for code in first & second)
        for names, labels in _pair_labels(annotation.votes):
            self.pairs.setdefault(names, set()).add(labels)
            counts.append((names, labels))
        self.clusters.add(cluster, counts)

    def summary(self, codes: Sequence[str], *, labelled: bool) -> Votes | None:
        """Return the agreement of the votes, if any; ``labelled``: a vote has one label."""
        if not self.traces:
            return None
        flips = {code: self._share(("flipped", code), ("voted", code)) for code in codes}
        pairs = [VoterPair(*names, self._kappa(names)) for names in sorted(self.pairs) if labelled]
        unanimous = self._share("unanimous", "complete")
        return Votes(
            *(unanimous, self.incomplete, flips, tuple(pairs), self._count_effective(codes)),
            *(self.ties, self.failed),
        )

    def _count_effective(self, codes: Sequence[str]) -> Estimate:
        from validation import compute_effective_votes

        voters = range(self.voters)
        counts = [[[self.together[n, m, code] for code in codes] for m in voters] for n in voters]
        return compute_effective_votes(self.traces - self.incomplete, counts)

    def _share(self, count: Hashable, of: Hashable) -> Interval:
        """Return the share of the traces with one count among those with another, over tasks."""
        # Takes numpy, which not every run needs.
        from validation import estimate_share_of_totals

        k, n = (self.clusters.totals(label)[0] for label in (count, of))
        if self.clusters.named:
            return estimate_share_of_totals(k, n)
        return compute_wilson_interval(sum(k), sum(n))

    def _kappa(self, names: tuple[str, str]) -> Estimate:
        from validation import measure_agreement

        items: list[tuple[str, str, Hashable]] = []
        named = len(self.clusters.in_cluster)
        for labels in sorted(self.pairs[names]):
            for n, count in enumerate(self.clusters.totals((names, labels))[0]):
                # A trace without a task is a cluster by itself, also for other pairs of labels.
                cluster = n if n < named else (labels, n)
                items += [(*labels, cluster)] * count
        first, second, tasks = zip(*items, strict=True)
        clusters = tasks if self.clusters.named else None
        return measure_agreement(first, second, clusters=clusters).kappa


def _pair_labels(votes: tuple[Vote, ...]) -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    """Yield judges and labels of each pair: the first answers of two, and the first two of one."""
    firsts = [vote for vote in votes if vote.sample == 1]
    for n, first in enumerate(firsts):
        again = [vote for vote in votes if vote.judge == first.judge and vote.sample == 2]
        for second in again + firsts[n + 1 :]:
            if first.status in JUDGED and second.status in JUDGED:
                yield (first.judge, second.judge), (first.primary or NONE, second.primary or NONE)
