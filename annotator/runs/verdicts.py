"""From the verdict on a trace to its annotation: quotes are verified, votes counted."""

from dataclasses import replace
from typing import Any

from annotator.base.text import floor_percent
from annotator.rubrics import Rubric
from annotator.rubrics.annotations import (
    ALL_REJECTED,
    SURPLUS,
    Annotation,
    Rejected,
    Status,
    Verdict,
)
from annotator.rubrics.evidence import check_verdict
from annotator.runs.manifest import DEFAULT_CRITERIA, Criteria
from annotator.runs.votes import elect
from annotator.traces import Trace, Unreadable


def conclude(
    verdict: Verdict,
    trace: Trace,
    rubric: Rubric,
    judge: str,
    criteria: Criteria = DEFAULT_CRITERIA,
) -> Annotation:
    """Return the annotation that follows from a verdict.

    A finding counts if every quote of it is in the trace. If the judge's primary code does not
    count, the first counted code by the rubric's precedence becomes primary; a rubric of ``many``
    codes has no primary one. Without claims the status is ``none``, unless the judge left the trace
    open. If all claims are rejected, or too little was read, ``criteria`` decide. Ballots are
    concluded one by one, and then counted.
    """
    if verdict.ballots:
        ballots = [
            (ballot.sample, conclude(ballot.verdict, trace, rubric, ballot.judge, criteria))
            for ballot in verdict.ballots
        ]
        blank = make_annotation(trace, rubric, judge, usage=verdict.usage)
        return _apply_critiques(
            elect(blank, ballots, rubric, verdict.require), verdict, rubric, criteria
        )
    seen: dict[str, Any] = {
        "usage": verdict.usage,
        "truncated": verdict.truncated,
        "read": verdict.read,
        "contradictions": verdict.contradictions,
    }
    if verdict.error is not None:
        seen |= {"error": verdict.error, "failure": verdict.failure or "other"}
        return make_annotation(trace, rubric, judge, "failed", **seen)
    findings, rejected = check_verdict(verdict, trace, rubric)
    codes = sorted({finding.code for finding in findings}, key=rubric.rank)
    primary = None
    if codes and rubric.choice != "many":
        primary = verdict.primary if verdict.primary in codes else codes[0]
    if primary and rubric.choice == "one":
        for finding in findings:
            if finding.code != primary:
                quotes = tuple(quote.quote for quote in finding.evidence)
                surplus = f"{SURPLUS}, and {primary} is it"
                rejected.append(Rejected(finding.code, surplus, quotes))
        findings = [finding for finding in findings if finding.code == primary]
        codes = [primary]
    status, reason = _decide(verdict, codes, rejected, criteria)
    if status == "undecided":  # its findings stay, but have no code
        primary, codes = None, []
    annotation = make_annotation(
        *(trace, rubric, judge, status),
        **seen,
        reason=reason,
        failure="quotes" if reason == ALL_REJECTED else None,
        primary=primary,
        secondary=tuple(code for code in codes if code != primary),
        findings=tuple(findings),
        rejected=tuple(rejected),
    )
    return _apply_critiques(annotation, verdict, rubric, criteria)


def _apply_critiques(
    annotation: Annotation, verdict: Verdict, rubric: Rubric, criteria: Criteria
) -> Annotation:
    """Return the annotation with a critic's decisions: a finding that is not upheld does not count.

    If the primary code is refuted, the first of the others by the rubric's precedence is primary.
    If no code is left, the status is ``none``, or ``undecided`` if :func:`_find_doubt` has a doubt.
    """
    if not (decided := verdict.critiques):
        return annotation
    findings = [replace(each, critique=decided.get(each.code)) for each in annotation.findings]
    refuted = tuple(finding for finding in findings if finding.is_refuted)
    if not refuted:
        return replace(annotation, findings=tuple(findings))
    kept = tuple(finding for finding in findings if not finding.is_refuted)
    codes = [code for code in annotation.codes if code in {finding.code for finding in kept}]
    primary = annotation.primary
    if primary and primary not in codes:
        primary = min(codes, key=rubric.rank, default=None)
    annotation = replace(
        annotation,
        findings=kept,
        refuted=refuted,
        primary=primary,
        secondary=tuple(code for code in codes if code != primary),
        agreement=None,
    )
    if codes:
        return annotation
    if doubt := _find_doubt(annotation, verdict, rubric, criteria):
        reason = f"the critic upheld no finding, and {doubt}"
        return replace(annotation, status="undecided", reason=reason)
    return replace(annotation, status="none")


def _find_doubt(
    annotation: Annotation, verdict: Verdict, rubric: Rubric, criteria: Criteria
) -> str | None:
    """Return why a trace whose findings are all refuted may still have a code, or None.

    The critic names another code, whose quotes nobody checked. The judge was to report one code, or
    left the rest open. Half of the votes have another code. The finding of another code was
    rejected.
    """
    others = {x.critique.code for x in annotation.refuted if x.critique and x.critique.code}
    if others:
        return f"names {' and '.join(sorted(others))} instead, without verified quotes"
    if rubric.choice == "one":
        return "the judge was to report one code, so that others are not ruled out"
    if annotation.tie:
        return f"half of the votes have {' and '.join(annotation.tie)}"
    refuted = {finding.code for finding in annotation.refuted}
    rejected = {claim.code for claim in annotation.rejected} - refuted
    if rejected and criteria.rejected == "undecided":
        return f"the finding of {' and '.join(sorted(rejected))} was rejected"
    return "the judge left the rest open" if verdict.undecided else None


def _decide(
    verdict: Verdict, codes: list[str], rejected: list[Rejected], criteria: Criteria
) -> tuple[Status, str | None]:
    """Return the status, and the reason if it is undecided."""
    if verdict.read < criteria.least_read:
        return "undecided", f"read {floor_percent(verdict.read)} of it"
    if verdict.left_open is not None:
        return "undecided", verdict.left_open
    if codes:
        return "labelled", None
    if verdict.undecided is not None:
        return "undecided", verdict.undecided
    if rejected and criteria.rejected == "undecided":
        return "undecided", ALL_REJECTED
    return "none", None


def make_annotation(
    trace: Trace | Unreadable, rubric: Rubric, judge: str, status: Status = "none", **fields: Any
) -> Annotation:
    """Return an annotation without findings. An unreadable trace has failed."""
    if isinstance(trace, Unreadable):
        status, attributes = "failed", {}
        fields |= {"error": f"unreadable: {trace.reason}", "failure": "unreadable"}
    else:
        attributes = dict(trace.attributes)
    return Annotation(
        trace.id, rubric.id, rubric.sha256, judge, status, attributes=attributes, **fields
    )
