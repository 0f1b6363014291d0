"""What ``annotate stats`` computes, as values; how they are made stands with the functions."""

from collections.abc import Mapping
from dataclasses import dataclass

from validation import Estimate, Interval


@dataclass(frozen=True, slots=True)
class Measure:
    """One number of the communication in all runs, in those whose patches merged without a conflict
    and in those with one, and the difference (without minus with).
    """

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
class StepShare:
    """The messages of one main type (``of``; "all" of them) per step of the agents."""

    of: str
    share: Estimate


@dataclass(frozen=True, slots=True)
class Communication:
    """How the agents of the runs of several agents talk.

    ``runs`` are those with messages, ``silent`` those without any; ``unmerged`` are the runs with
    messages of which nothing is known of a merge, ``nothing_to_merge`` all runs in which an agent
    crashed or handed in an empty patch. ``difference`` is the conflict rate of runs
    whose first message is a plan minus that of the others. ``steps``: what part of their steps
    agents spend on messages, in the runs whose steps are known; ``unread_steps`` are runs whose
    steps cannot be read.
    """

    runs: int
    silent: int
    unmerged: int
    nothing_to_merge: int
    measures: tuple[Measure, ...]
    openings: tuple[Opening, ...]
    difference: Estimate
    steps: tuple[StepShare, ...]
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
    """How many of one model's runs passed, solo and in cooperation; ``gap`` is solo minus coop.

    ``model`` None is all models together.
    """

    model: str | None
    solo: Estimate
    coop: Estimate
    gap: Estimate


@dataclass(frozen=True, slots=True)
class MergeSuccess:
    """How many of a setting's merged runs passed: after a naive merge; after a naive or, where that
    conflicted, a union merge; by whatever way the harness took in the end. The gains are the shares
    of the same runs that only the union merge (``final_gain``: what came after it) made pass.
    """

    setting: str
    naive: Estimate
    union: Estimate
    final: Estimate
    union_gain: Estimate
    final_gain: Estimate


@dataclass(frozen=True, slots=True)
class PairComparison:
    """One result of merges on the pairs that have runs of two groups (``groups``): the mean share
    of either, and the difference (first minus second).
    """

    of: str
    groups: tuple[str, str]
    first: Estimate
    second: Estimate
    difference: Estimate


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many runs passed, by the number of agents; solo runs are those of one agent.

    ``difference`` is the share of the smallest number of several agents minus the largest's.
    """

    shares: tuple[tuple[int, Estimate], ...]
    difference: Estimate


@dataclass(frozen=True, slots=True)
class Timing:
    """A share of the messages or of the runs; ``of`` says which."""

    of: str
    share: Estimate


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

    ``settings`` counts traces by setting, ``unknown`` those that do not tell whether they passed,
    ``tasks`` the clusters; None where no trace tells its task. ``paired``: two groups of runs on
    the same pairs. ``retention``: the coop area under the curve of success by difficulty over the
    solo area; the solo runs of all traces say how difficult a pair is. ``no_channel_value`` counts
    runs of several agents that lack the channel's attribute, ``spoke_without_value`` those of them
    that spoke, ``spoke_anyway`` those that spoke although the attribute says that they could not.
    """

    group: tuple[str, str] | None
    traces: int
    settings: tuple[tuple[str, int], ...]
    unknown: int
    tasks: int | None
    communication: Communication
    timing: tuple[Timing, ...]
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
    """A tenth with the conflict rates of its coop runs, by the way in which they open; the last is
    of all.
    """

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

    ``pairs`` have a solo outcome, and so a difficulty; ``solo_only`` and ``coop_only`` count pairs
    of a model that lack the other setting, ``unplaced`` runs that tell no task. ``lowest`` and
    ``highest`` are the raw difficulties that become 0 and 1. ``models`` is how many have solo runs,
    ``partial`` how many pairs lack one of these. ``unequal``: pairs have different numbers of runs.
    ``conflicts`` are merge conflicts by difficulty, ``no_conflicts`` why there is no difficulty.
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
