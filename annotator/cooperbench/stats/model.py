"""The values that ``annotate stats`` computes."""

from collections.abc import Mapping
from dataclasses import dataclass

from validation import Estimate, Interval


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure in all runs, in those without and with a merge conflict; without minus with."""

    name: str
    every: Estimate
    clean: Estimate
    conflict: Estimate
    difference: Estimate

    @property
    def sides(self) -> dict[str, Estimate]:
        """The number in each group of runs, by the name of the group."""
        return {"all": self.every, "conflict-free": self.clean, "conflict": self.conflict}


@dataclass(frozen=True, slots=True)
class Opening:
    """The conflict rate of the runs that open in one way; ``of`` says how."""

    of: str
    conflicts: Estimate


@dataclass(frozen=True, slots=True)
class NamedShare:
    """A share; ``of`` names the messages or runs that it counts."""

    of: str
    share: Estimate


@dataclass(frozen=True, slots=True)
class Communication:
    """Communication in the runs of several agents.

    ``runs`` have messages, ``silent`` runs do not. ``unmerged`` runs have messages and an unknown
    merge. In ``nothing_to_merge`` runs an agent crashed or handed in an empty patch. ``difference``
    is the conflict rate of runs whose first message is a plan minus that of the others. ``steps``
    are messages per step, by main type and of all, ``unread_steps`` the runs whose steps cannot be
    read.
    """

    runs: int
    silent: int
    unmerged: int
    nothing_to_merge: int
    measures: tuple[Measure, ...]
    openings: tuple[Opening, ...]
    difference: Estimate
    steps: tuple[NamedShare, ...]
    unread_steps: int


@dataclass(frozen=True, slots=True)
class Merge:
    """One outcome of merges: its share of the setting's merges, and how many of its runs passed."""

    setting: str
    merge: str
    strategy: str
    share: Estimate
    passed: Estimate


@dataclass(frozen=True, slots=True)
class Success:
    """The share of a model's (None: all models') runs that passed; ``gap`` is solo minus coop."""

    model: str | None
    solo: Estimate
    coop: Estimate
    gap: Estimate


@dataclass(frozen=True, slots=True)
class MergeSuccess:
    """The share of a setting's merged runs that passed: after a naive merge, with union merges of
    conflicts too, and in the end. The gains are the shares that each step adds.
    """

    setting: str
    naive: Estimate
    union: Estimate
    final: Estimate
    union_gain: Estimate
    final_gain: Estimate


@dataclass(frozen=True, slots=True)
class PairComparison:
    """A result on the pairs with runs of both groups: mean shares, and first minus second."""

    of: str
    groups: tuple[str, str]
    first: Estimate
    second: Estimate
    difference: Estimate


@dataclass(frozen=True, slots=True)
class Sizes:
    """The share of runs that passed by number of agents; smallest minus largest team."""

    shares: tuple[tuple[int, Estimate], ...]
    difference: Estimate


@dataclass(frozen=True, slots=True)
class Channel:
    """The values of an attribute that runs have whose agents could write; ``*`` is any text."""

    attribute: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TalkGroup:
    """The runs that spoke, that could but did not, and so on: the share with each result."""

    of: str
    shares: Mapping[str, Estimate]


@dataclass(frozen=True, slots=True)
class TalkDifference:
    """The difference of each share between two of these groups (first minus second)."""

    groups: tuple[str, str]
    shares: Mapping[str, Estimate]


@dataclass(frozen=True, slots=True)
class Group:
    """The traces with one value of an attribute (``group``: attribute and value), or all of them.

    ``settings`` counts traces by setting, ``unknown`` those without an outcome, ``tasks`` the
    clusters (None: no trace has a task). ``retention`` is the coop area over the solo area under
    the curve of success by difficulty; the solo runs of all traces give the difficulty.
    ``no_channel_value`` counts runs of several agents without the channel's attribute,
    ``spoke_without_value`` those that spoke, ``spoke_anyway`` runs that spoke without a channel.
    """

    group: tuple[str, str] | None
    traces: int
    settings: tuple[tuple[str, int], ...]
    unknown: int
    tasks: int | None
    communication: Communication
    timing: tuple[NamedShare, ...]
    talk_groups: tuple[TalkGroup, ...]
    talk_differences: tuple[TalkDifference, ...]
    no_channel_value: int
    spoke_without_value: int
    spoke_anyway: int
    merges: tuple[Merge, ...]
    merge_success: tuple[MergeSuccess, ...]
    success: tuple[Success, ...]
    sizes: Sizes
    paired: tuple[PairComparison, ...]
    retention: Estimate


@dataclass(frozen=True, slots=True)
class Tenth:
    """A tenth of the range of difficulty, ``low`` to ``high``, with its pairs."""

    low: float
    high: float
    pairs: int

    @property
    def name(self) -> str:
        """The range, as it is printed."""
        return f"{self.low:.1f}-{self.high:.1f}"


@dataclass(frozen=True, slots=True)
class Bucket(Tenth):
    """A tenth with its success rates."""

    solo: Interval
    coop: Interval


@dataclass(frozen=True, slots=True)
class ConflictBucket(Tenth):
    """A tenth with the conflict rates of its coop runs by opening, then of all."""

    conflicts: tuple[tuple[str, Interval], ...]


@dataclass(frozen=True, slots=True)
class Curve:
    """Success by difficulty of one model (None: pooled), its areas and what they give.

    ``gap`` is the solo area minus the coop area, ``retention`` the coop area over the solo area.
    Buckets without pairs are not among ``buckets``.
    """

    model: str | None
    pairs: int
    solo: Interval
    coop: Interval
    buckets: tuple[Bucket, ...]
    auc_solo: Estimate
    auc_coop: Estimate
    gap: Estimate
    retention: Estimate


@dataclass(frozen=True, slots=True)
class Difficulty:
    """The curves: pooled, and of each model.

    ``pairs`` have a solo outcome, and so a difficulty. ``solo_only`` and ``coop_only`` count pairs
    of a model without the other setting, ``unplaced`` runs without a task. ``lowest`` and
    ``highest`` are the raw difficulties that become 0 and 1. ``models`` have solo runs; ``partial``
    pairs lack one of these models. ``unequal``: pairs have different numbers of runs.
    ``no_conflicts`` says why there are no ``conflicts`` by difficulty.
    """

    pairs: int
    solo_only: int
    coop_only: int
    unplaced: int
    models: int
    partial: int
    unequal: bool
    lowest: float | None
    highest: float | None
    pooled: Curve
    by_model: tuple[Curve, ...]
    conflicts: tuple[ConflictBucket, ...]
    no_conflicts: str | None


@dataclass(frozen=True, slots=True)
class Stats:
    """All of it. ``groups``: the whole first, then one per value of the attribute asked for."""

    cluster: tuple[str, ...]
    channel: Channel | None
    unreadable: int
    ignored: int
    groups: tuple[Group, ...]
    difficulty: Difficulty
    notes: tuple[str, ...]
