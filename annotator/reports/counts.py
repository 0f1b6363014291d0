"""What is counted of a run's annotations while they pass by; nothing of it grows with traces, but
with their tasks.
"""

import re
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field

from annotator.reports.votes import VoteCounts
from annotator.rubrics import Scheme
from annotator.rubrics.annotations import ALL_REJECTED, SURPLUS, Annotation
from annotator.runs.failures import explain_failure
from annotator.traces.clusters import DEFAULT_CLUSTER, ClusterCounts, find_cluster
from validation import Interval, compute_wilson_interval

JUDGED = ("labelled", "none")  # the traces with a judgement that is counted
_BY_FINDING = "the judge reports what it recognises, and what it left open is no random sample"


TIE, PART, REJECTED, LOST, OTHER = "tie", "part", "rejected", "lost", "other"
"""Why a trace is undecided: no code has enough votes; too little of it was read; all findings were
rejected; too few votes count; the judge says so itself."""
_PART = re.compile(r"read [\d.]+ % of it")


def name_reason(annotation: Annotation) -> str:
    """Return which of these is why a trace is undecided."""
    reason = annotation.reason or ""
    if annotation.tie:
        return TIE
    if _PART.fullmatch(reason):
        return PART
    if annotation.votes and " votes failed or are undecided" in reason:
        return LOST
    return REJECTED if reason == ALL_REJECTED else OTHER


def name_unjudged(annotation: Annotation) -> str:
    """Return why a trace has no countable judgement: its kind of failure, ``skipped``, or why it is
    undecided.
    """
    if annotation.status == "skipped":
        return "skipped"
    if annotation.status == "failed":
        return annotation.failure or "other"
    reason = name_reason(annotation)
    return {REJECTED: "quotes", OTHER: "open"}.get(reason, reason)


@dataclass(slots=True)
class Unjudged:
    """How many traces have no countable judgement for one reason: their status, and the first of
    them in order of their ids, with why.
    """

    count: int = 0
    status: str = ""
    trace_id: str = ""
    why: str = ""

    def add(self, annotation: Annotation) -> None:
        """Count a trace."""
        self.count += 1
        if self.count == 1 or annotation.trace_id < self.trace_id:
            self.status, self.trace_id = annotation.status, annotation.trace_id
            self.why = explain_failure(annotation)


@dataclass(slots=True)
class TraceCounts:
    """The counts of one rubric, of all traces or of those with one value of an attribute.

    ``labels``: what counts once for a trace (its primary code, or each of many), ``anywhere``: the
    codes wherever they stand. ``emptied``: traces counted as none whose findings were all rejected.
    ``findings``: those that stand in the traces; ``unproven``: those that do not. ``halves``:
    labelled traces with a code beside that half of the votes have. ``truncated``: traces that were
    judged or left undecided and of which a part was not read; ``least_read``: the smallest share of
    one of them that was, as far as it is known. ``contradictory``: traces about which the judge
    contradicts itself. ``reasons``: why traces are undecided, as :func:`name_reason` says.
    ``unjudged``: the traces that have no countable judgement, by what :func:`name_unjudged` says.
    ``clusters``: labels by task, of the traces that shares are of; groups of codes by their name in
    a tuple.
    """

    rubric: Scheme
    of_labelled: bool = False
    cluster_by: tuple[str, ...] = DEFAULT_CLUSTER
    status: Counter[str] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)
    groups: Counter[str] = field(default_factory=Counter)
    anywhere: Counter[str] = field(default_factory=Counter)
    findings: int = 0
    rejected: int = 0
    unproven: int = 0
    rejected_traces: int = 0
    emptied: int = 0
    outcome_unknown: int = 0
    halves: int = 0
    truncated: int = 0
    contradictory: int = 0
    least_read: float = 1.0
    reasons: Counter[str] = field(default_factory=Counter)
    votes: VoteCounts = field(default_factory=VoteCounts)
    unjudged: dict[str, Unjudged] = field(default_factory=dict)
    clusters: ClusterCounts = field(default_factory=ClusterCounts)

    @property
    def judged(self) -> int:
        """Traces with a judgement that is counted."""
        return self.status["labelled"] + self.status["none"]

    @property
    def n(self) -> int:
        """What shares are of."""
        return self.status["labelled"] if self.of_labelled else self.judged

    @property
    def open(self) -> int:
        """Traces of which it is not known what they hold."""
        return self.status["undecided"] + self.status["failed"]

    @property
    def selection(self) -> str | None:
        """Why even what the judge finds all of has no share, None if it has."""
        return _BY_FINDING if self.rubric.screens and self.status["undecided"] else None

    def add(self, annotation: Annotation) -> None:
        """Count an annotation."""
        self.status[annotation.status] += 1
        cluster = find_cluster(annotation.attributes, self.cluster_by)
        self.votes.add(annotation, cluster)
        self.anywhere.update(set(annotation.codes))
        self.findings += len(annotation.findings)
        self.rejected += len(annotation.rejected)
        surplus = sum(claim.reason.startswith(SURPLUS) for claim in annotation.rejected)
        self.unproven += len(annotation.rejected) - surplus
        self.rejected_traces += bool(annotation.rejected)
        self.contradictory += bool(annotation.contradictions)
        self.emptied += bool(annotation.rejected) and annotation.status == "none"
        if annotation.status in JUDGED:
            labels = self.rubric.labels_of(annotation)
            self.labels.update(set(labels))
            rubric_groups = self.rubric.groups.items()
            groups = [name for name, codes in rubric_groups if not set(codes).isdisjoint(labels)]
            self.groups.update(groups)
            self.outcome_unknown += annotation.attributes.get("passed") is None
            if annotation.status == "labelled" or not self.of_labelled:
                self.clusters.add(cluster, {*labels, *((name,) for name in groups)})
        if annotation.status in (*JUDGED, "undecided"):
            # Facts beside a trace, where they are shown, are no part of it.
            left_out = annotation.truncated.keys() - {"observations"}
            self.truncated += bool(left_out) or annotation.read < 1
            self.least_read = min(self.least_read, annotation.read)
        self.halves += bool(annotation.tie) and annotation.status == "labelled"
        if annotation.status == "undecided":
            self.reasons[name_reason(annotation)] += 1
        if annotation.status not in JUDGED:
            self.unjudged.setdefault(name_unjudged(annotation), Unjudged()).add(annotation)

    def share(self, label: Hashable) -> Interval:
        """Return the share of the traces with a label, or with a group of codes by its name in a
        tuple: Wilson's interval, for the effective number of traces where they share tasks.
        """
        if not self.clusters.named:
            return compute_wilson_interval(self.clusters.alone[label], self.clusters.alone[None])
        from validation import estimate_share_of_totals  # takes numpy, which not every report needs

        return estimate_share_of_totals(*self.clusters.totals(label))

    def bounds(self, count: int, *, screen: bool = False) -> tuple[float, float] | None:
        """Return the least and the greatest share that undecided and failed traces leave possible
        where ``count`` traces have a code, and for what is only screened for, all others.
        """
        total = self.n + self.open
        if not total or not (self.open or screen):
            return None
        return count / total, 1.0 if screen else (count + self.open) / total
