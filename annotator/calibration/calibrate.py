"""Calibrating a judge: its annotations held against people's labels."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from annotator.calibration.estimates import (
    correct_share,
    count_judged,
    count_open,
    describe_open,
    empty_share,
    estimate_code,
    is_withheld,
    list_cautions,
    withhold_share,
)
from annotator.calibration.frame import Frame
from annotator.calibration.join import Joined, join_labels
from annotator.calibration.model import (
    CORPUS_ONLY,
    Calibration,
    CodeRow,
    Comparison,
    Counted,
    LabelledTrace,
    LabelsUsed,
    Look,
)
from annotator.calibration.raters import compare_groups
from annotator.rubrics import NONE
from validation import (
    Estimate,
    Interval,
    RaterAgreement,
    Retest,
    agreement_of,
    code_report,
    set_agreement,
    wilson,
)


def calibrate(
    frame: Frame,
    joined: Joined,
    *,
    labels: LabelsUsed,
    cluster_by: Sequence[str] = (),
    look: Look | None = None,
    between: Sequence[Comparison] = (),
    people_alpha: Estimate | None = None,
    references: Sequence[Comparison] = (),
    others: Sequence[Mapping[str, Counted]] = (),
    judges: Sequence[Comparison] = (),
    reruns: Retest | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    population: Literal["process", "corpus"] = "process",
    attribution: Mapping[str, Interval] | None = None,
    notes: Sequence[str] = (),
) -> Calibration:
    """Return what the labels say about the judge of a run.

    ``labels`` describes them, for the record. ``others``: the labels that are counted of each trace
    by each of several people; the other arguments stand in the result as they are.
    """
    traces, everything = joined.traces, joined.all
    human = [trace.counted.human for trace in traces]
    judge = [trace.counted.judge for trace in traces]
    answers = sorted({trace.counted.judge[0] for trace in joined.not_decided})
    many = frame.rubric.choice == "many"
    report = code_report(
        list(frame.rubric.labels),
        human,
        judge,
        weights=joined.weights,
        clusters=joined.clusters,
        confidence=confidence,
        seed=seed,
    )
    rows = tuple(
        _row(code, frame, everything, report.per_code[code].f1, confidence, seed, population)
        for code in frame.rubric.labels
    )
    rows = _range_over(rows, frame, everything, others)
    return Calibration(
        run=frame.run,
        judge=frame.judge,
        judge_sha256=frame.judge_sha256,
        rubric=frame.rubric.id,
        rubric_version=frame.rubric.version,
        rubric_sha256=frame.rubric.sha256,
        choice=frame.rubric.choice,
        codes=frame.rubric.ids,
        judged_codes=tuple(code for code in frame.rubric.ids if code in frame.rubric.judged),
        judged=frame.total,
        clusters=len(frame.clusters) if frame.clusters.named else None,
        cluster_by=tuple(cluster_by) if frame.clusters.named else (),
        ids_sha256=frame.ids_sha256,
        labels=labels,
        look=look,
        agreement=_agree(joined, None if many else frame.rubric.labels, confidence),
        agreement_of_all=_agree(
            replace(joined, traces=everything),
            None if many else (*frame.rubric.labels, *answers),
            confidence,
        )
        if answers
        else None,
        sets=None
        if frame.rubric.choice == "one"
        else set_agreement(
            [frozenset(trace.human.codes) for trace in traces],
            [frozenset(trace.judge.codes) for trace in traces],
            weights=joined.weights,
            clusters=joined.clusters,
            confidence=confidence,
            seed=seed,
        ),
        rows=rows,
        averages={"micro": report.micro, "macro": report.macro},
        between=tuple(between),
        people_alpha=people_alpha,
        references=tuple(references),
        groups=compare_groups(frame.rubric, joined, confidence),
        attribution=attribution or {},
        judges=tuple(judges),
        reruns=reruns,
        joined=traces,
        not_decided=joined.not_decided,
        confidence=confidence,
        seed=seed,
        population=population,
        cautions=(
            *describe_open(frame.statuses, frame.total, count_open(frame.statuses, everything)),
            *list_cautions(everything, {row.code: row.corrected for row in rows}),
        ),
        warnings=(
            *notes,
            *_list_warnings(frame, joined, cluster_by),
            *([CORPUS_ONLY] if population == "corpus" else []),
        ),
    )


def _agree(joined: Joined, categories: Sequence[str] | None, confidence: float) -> RaterAgreement:
    return agreement_of(
        [join_labels(trace.counted.human) for trace in joined.traces],
        [join_labels(trace.counted.judge) for trace in joined.traces],
        weights=joined.weights,
        clusters=joined.clusters,
        confidence=confidence,
        categories=categories,
    )


def _range_over(
    rows: tuple[CodeRow, ...],
    frame: Frame,
    traces: Sequence[LabelledTrace],
    others: Sequence[Mapping[str, Counted]],
) -> tuple[CodeRow, ...]:
    """Return the rows with the range of their corrected shares over the people who labelled all of
    the traces.
    """
    complete = [
        [
            replace(trace, counted=replace(trace.counted, human=labels[trace.trace_id]))
            for trace in traces
        ]
        for labels in others
        if all(trace.trace_id in labels for trace in traces)
    ]
    if len(complete) < 2:
        return rows
    ranged = []
    for row in rows:
        judged = replace(count_judged(row.code, frame, traces), clusters=None)
        shares = [correct_share(row.code, judged, labelled) for labelled in complete]
        values = [share.value for share in shares if share.value is not None]
        whole = len(values) == len(complete) and row.corrected.value is not None
        ranged.append(replace(row, over_annotators=(min(values), max(values)) if whole else None))
    return tuple(ranged)


def _row(
    code: str,
    frame: Frame,
    traces: Sequence[LabelledTrace],
    f1: Estimate,
    confidence: float,
    seed: int,
    population: Literal["process", "corpus"],
) -> CodeRow:
    judged = count_judged(code, frame, traces)
    estimates = estimate_code(code, judged, traces, confidence, seed, population)
    can_find = code == NONE or code in frame.rubric.judged
    screen = code in frame.rubric.screens or (code == NONE and frame.rubric.only_screens)
    unsure = code in frame.rubric.screened and frame.statuses["undecided"] > 0
    if is_withheld(code, frame, judged.open):
        estimates = withhold_share(estimates)
    elif not can_find:
        reason = "the judge has no rule for this code"
        estimates = replace(estimates, recall=empty_share(estimates.recall, reason))
    return CodeRow(
        code=code,
        judged=wilson(judged.flagged, judged.total, confidence)
        if can_find and not (screen or unsure)
        else None,
        corrected=estimates.corrected,
        precision=estimates.precision,
        recall=estimates.recall,
        f1=f1,
        flagged=estimates.flagged,
        missed=estimates.missed,
        mark=estimates.mark,
    )


def _list_warnings(frame: Frame, joined: Joined, cluster_by: Sequence[str]) -> list[str]:
    warnings = []
    if joined.design == "unknown":
        warnings.append(
            "The labels carry no inclusion probabilities: treated as a uniform random sample."
        )
    if not frame.clusters.named:
        reason = f"No trace tells its {'+'.join(cluster_by)}" if cluster_by else "--cluster none"
        warnings.append(f"{reason}: traces are treated as independent.")
    if frame.rubric.choice == "primary":
        warnings.append("Agreement and shares are of the primary code; none is a code.")
    if frame.rubric.choice == "many":
        warnings.append("Agreement is of whole sets of codes; shares do not add up to 100 %.")
    return warnings
