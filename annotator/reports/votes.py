"""How far several votes agree: between judges, of one judge with itself, and code by code."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from annotator.annotations import Annotation, Vote
from annotator.rubrics import NONE
from validation import Agreement, Interval, cohen_kappa, wilson

_COUNTED = ("labelled", "none")  # votes that say something


@dataclass(frozen=True, slots=True)
class VoterPair:
    """Cohen's kappa of two voters; ``second`` is ``first`` where a judge is held against itself."""

    first: str
    second: str
    kappa: Agreement

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
    """Counts votes while annotations pass by; nothing of it grows with the traces."""

    traces: int = 0
    unanimous: int = 0
    ties: int = 0
    failed: int = 0
    voted: Counter[str] = field(default_factory=Counter)
    flipped: Counter[str] = field(default_factory=Counter)
    pairs: dict[tuple[str, str], Counter[tuple[str, str]]] = field(default_factory=dict)

    def add(self, annotation: Annotation) -> None:
        """Count the votes of a judged trace; one without votes is not counted."""
        if not annotation.votes or annotation.status not in ("labelled", "none", "undecided"):
            return
        counted = [vote for vote in annotation.votes if vote.status in _COUNTED]
        self.traces += 1
        self.ties += bool(annotation.tie)
        self.failed += sum(vote.status == "failed" for vote in annotation.votes)
        self.unanimous += annotation.unanimous
        for code in frozenset[str]().union(*(vote.codes for vote in counted)):
            self.voted[code] += 1
            self.flipped[code] += not all(code in vote.codes for vote in counted)
        for names, labels in _pair_labels(annotation.votes):
            self.pairs.setdefault(names, Counter())[labels] += 1

    def summary(self, codes: Sequence[str], *, labelled: bool) -> Votes | None:
        """Return what was counted, or None if there were no votes.

        ``labelled``: whether a vote has one label that another can be held against.
        """
        if not self.traces:
            return None
        return Votes(
            wilson(self.unanimous, self.traces),
            {code: wilson(self.flipped[code], self.voted[code]) for code in codes},
            tuple(
                VoterPair(*names, cohen_kappa(table))
                for names, table in self.pairs.items()
                if labelled
            ),
            self.ties,
            self.failed,
        )


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
