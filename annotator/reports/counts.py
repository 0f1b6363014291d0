"""The counts of a run's annotations; their size grows with tasks, not with traces."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable
from dataclasses import dataclass, field

from annotator.base.text import sanitize_line
from annotator.reports.votes import VoteCounts
from annotator.rubrics import Scheme
from annotator.rubrics.annotations import (
    ALL_REJECTED,
    ANSWERED,
    AUTHORS_UNKNOWN,
    JUDGED,
    Annotation,
    Decision,
    Finding,
)
from annotator.runs.failures import explain_failure
from annotator.traces.clusters import DEFAULT_CLUSTER, ClusterCounts, compute_share, find_cluster
from validation import Interval

_BY_FINDING = "the judge reports what it recognises, and what it left open is no random sample"


TIE, PARTIAL, REJECTED, LOST, OTHER = "tie", "part", "rejected", "lost", "other"
AUTHORS = "authors"
"""Reasons to be undecided: no code has enough votes; too little of the trace was read; all findings
were rejected; too few votes count; the judge left it open; and authors are unknown, so that no
judge was asked."""
_PARTIAL_PATTERN = re.compile(r"read [\d.]+ % of it")


def name_reason(annotation: Annotation) -> str:
    """Return the reason why a trace is undecided."""
    reason = annotation.reason or ""
    if annotation.tie:
        return TIE
    if _PARTIAL_PATTERN.fullmatch(reason):
        return PARTIAL
    if annotation.votes and " votes failed or are undecided" in reason:
        return LOST
    if AUTHORS_UNKNOWN in reason:
        return AUTHORS
    return REJECTED if reason == ALL_REJECTED else OTHER


def name_unjudged(annotation: Annotation) -> str:
    """Return why a trace has no countable judgement, in a word."""
    if annotation.status == "skipped":
        return "skipped"
    if annotation.status == "failed":
        return annotation.failure or "other"
    reason = name_reason(annotation)
    return {REJECTED: "quotes", OTHER: "open"}.get(reason, reason)


def list_reasons(reasons: Counter[str]) -> str:
    """Return reasons with their numbers, the most frequent first."""
    return "; ".join(f"{sanitize_line(reason, 200)}: {n}" for reason, n in reasons.most_common())


@dataclass(slots=True)
class Unjudged:
    """The traces without a countable judgement for one reason, and the first of them by id."""

    count: int = 0
    status: str = ""
    trace_id: str = ""
    why: str = ""
    reasons: Counter[str] = field(default_factory=Counter)  # of traces without a question

    def add(self, annotation: Annotation) -> None:
        """Count a trace."""
        self.count += 1
        if annotation.unasked:
            self.reasons[annotation.reason or ""] += 1
        if self.count == 1 or annotation.trace_id < self.trace_id:
            self.status, self.trace_id = annotation.status, annotation.trace_id
            self.why = explain_failure(annotation)


@dataclass(slots=True)
class TraceCounts:
    """The counts of one rubric, of all traces or of those with one value of an attribute."""

    rubric: Scheme
    of_labelled: bool = False
    cluster_by: tuple[str, ...] = DEFAULT_CLUSTER
    status: Counter[str] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)  # the primary code, or each of many
    groups: Counter[str] = field(default_factory=Counter)
    anywhere: Counter[str] = field(default_factory=Counter)  # primary or secondary
    findings: int = 0  # accepted ones
    rejected: int = 0
    # Kinds of reasons of rejected findings, surplus ones apart, by their traces: all (""), those
    # counted as none, and those undecided because of it.
    rejections: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    rejected_traces: int = 0  # with rejected findings
    emptied: int = 0  # with no other finding, counted as none
    outcome_unknown: int = 0
    halves: int = 0  # with another code that half of the votes have
    truncated: int = 0  # not read in full
    contradictory: int = 0  # the judge contradicts itself
    critiques: dict[str, Counter[Decision]] = field(default_factory=lambda: defaultdict(Counter))
    least_read: float = 1.0  # the smallest share read
    reasons: Counter[str] = field(default_factory=Counter)  # undecided, by name_reason
    votes: VoteCounts = field(default_factory=VoteCounts)
    unjudged: dict[str, Unjudged] = field(default_factory=dict)  # by name_unjudged
    examples: dict[str, tuple[str, Finding]] = field(default_factory=dict)  # first trace by id
    clusters: ClusterCounts = field(default_factory=ClusterCounts)  # a group: in a tuple

    @property
    def judged(self) -> int:
        """Traces with a judgement that is counted."""
        return self.status["labelled"] + self.status["none"]

    @property
    def n(self) -> int:
        """The traces that shares are of."""
        return self.status["labelled"] if self.of_labelled else self.judged

    @property
    def open(self) -> int:
        """Undecided and failed traces."""
        return self.status["undecided"] + self.status["failed"]

    @property
    def selection(self) -> str | None:
        """The reason why no code has a share, or None."""
        return _BY_FINDING if self.rubric.screens and self.status["undecided"] else None

    def add(self, annotation: Annotation) -> None:
        """Count an annotation."""
        self.status[annotation.status] += 1
        cluster = find_cluster(annotation.attributes, self.cluster_by)
        self.votes.add(annotation, cluster)
        self.anywhere.update(set(annotation.codes))
        self.findings += len(annotation.findings)
        self.rejected += len(annotation.rejected)
        kinds = [claim.kind for claim in annotation.rejected if claim.kind]
        self.rejections[""].update(kinds)
        self.rejected_traces += bool(annotation.rejected)
        self.contradictory += bool(annotation.contradictions)
        for finding in (*annotation.findings, *annotation.refuted):
            if finding.critique:
                self.critiques[finding.code][finding.critique.decision] += 1
        if annotation.rejected and annotation.status == "none":
            self.emptied += 1
            self.rejections["none"].update(kinds)
        if annotation.status in JUDGED:
            labels = self.rubric.labels_of(annotation)
            self.labels.update(set(labels))
            rubric_groups = self.rubric.groups.items()
            groups = [name for name, codes in rubric_groups if not set(codes).isdisjoint(labels)]
            self.groups.update(groups)
            self._add_examples(annotation, labels)
            self.outcome_unknown += annotation.attributes.get("passed") is None
            if annotation.status == "labelled" or not self.of_labelled:
                self.clusters.add(cluster, {*labels, *((name,) for name in groups)})
        if annotation.status in ANSWERED:
            # The facts beside a trace are not part of it.
            left_out = annotation.truncated.keys() - {"observations"}
            self.truncated += bool(left_out) or annotation.read < 1
            self.least_read = min(self.least_read, annotation.read)
        self.halves += bool(annotation.tie) and annotation.status == "labelled"
        if annotation.status == "undecided":
            reason = name_reason(annotation)
            self.reasons[reason] += 1
            if reason == REJECTED:
                self.rejections[REJECTED].update(kinds)
        if annotation.status not in JUDGED:
            self.unjudged.setdefault(name_unjudged(annotation), Unjudged()).add(annotation)

    def _add_examples(self, annotation: Annotation, labels: Collection[str]) -> None:
        for finding in annotation.findings:
            earlier = self.examples.get(finding.code)
            if finding.code in labels and (not earlier or annotation.trace_id < earlier[0]):
                self.examples[finding.code] = annotation.trace_id, finding

    def share(self, label: Hashable) -> Interval:
        """Return the share of the traces with a label, or with a group of codes (its name in a
        tuple); see :func:`compute_share`.
        """
        return compute_share(self.clusters, label)

    def bounds(self, count: int, *, screen: bool = False) -> tuple[float, float] | None:
        """Return the lowest and highest possible share of a code that ``count`` traces have, if
        undecided and failed traces may have it; for a screen all other traces may.
        """
        total = self.n + self.open
        if not total or not (self.open or screen):
            return None
        return count / total, 1.0 if screen else (count + self.open) / total
