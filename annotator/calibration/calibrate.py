"""Calibrating a judge: its annotations held against people's labels."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from annotator.calibration.estimates import Judged, Labelled, cautions, estimate_code, screened
from annotator.calibration.frame import Frame
from annotator.calibration.join import Joined, Pair, one_label
from annotator.calibration.model import CORPUS_ONLY, Calibration, CodeRow, Comparison
from annotator.rubrics import NONE, Scheme
from validation import (
    Estimate,
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
    labels: Mapping[str, Any],
    cluster_by: Sequence[str] = (),
    look: Mapping[str, Any] | None = None,
    between: Sequence[Comparison] = (),
    people_alpha: Estimate | None = None,
    judges: Sequence[Comparison] = (),
    reruns: Retest | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    population: Literal["process", "corpus"] = "process",
    notes: Sequence[str] = (),
) -> Calibration:
    """Return what the labels say about the judge of a run.

    ``labels`` describes them, for the record; the other arguments stand in the result as they are.
    """
    rows = labelled(joined.pairs, frame.rubric)
    many = frame.rubric.choice == "many"
    report = code_report(
        list(frame.rubric.labels),
        [row.human for row in rows],
        [row.judge for row in rows],
        weights=joined.weights,
        clusters=joined.clusters,
        confidence=confidence,
        seed=seed,
    )
    code_rows = tuple(
        _row(code, frame, rows, report.per_code[code].f1, confidence, seed, population)
        for code in frame.rubric.labels
    )
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
        clusters=frame.clusters if frame.clustered else None,
        cluster_by=tuple(cluster_by) if frame.clustered else (),
        ids_sha256=frame.ids_sha256,
        labels=labels,
        look=look,
        agreement=agreement_of(
            [one_label(row.human) for row in rows],
            [one_label(row.judge) for row in rows],
            weights=joined.weights,
            clusters=joined.clusters,
            confidence=confidence,
            categories=None if many else frame.rubric.labels,
        ),
        sets=None
        if frame.rubric.choice == "one"
        else set_agreement(
            [frozenset(pair.label.codes) for pair in joined.pairs],
            [frozenset(pair.annotation.codes) for pair in joined.pairs],
            weights=joined.weights,
            clusters=joined.clusters,
            confidence=confidence,
            seed=seed,
        ),
        rows=code_rows,
        averages={"micro": report.micro, "macro": report.macro},
        between=tuple(between),
        people_alpha=people_alpha,
        judges=tuple(judges),
        reruns=reruns,
        joined=tuple(_record(pair, row) for pair, row in zip(joined.pairs, rows, strict=True)),
        confidence=confidence,
        seed=seed,
        population=population,
        cautions=tuple(cautions(rows, {row.code: row.corrected for row in code_rows})),
        warnings=(
            *notes,
            *_warnings(frame, joined, cluster_by),
            *([CORPUS_ONLY] if population == "corpus" else []),
        ),
    )


def labelled(pairs: Sequence[Pair], rubric: Scheme) -> list[Labelled]:
    """Return the labelled traces as they are counted."""
    return [
        Labelled(
            pair.trace_id,
            frozenset(rubric.labels_of(pair.label)),
            frozenset(rubric.labels_of(pair.annotation)),
            pair.weight,
            pair.cluster,
        )
        for pair in pairs
    ]


def _row(
    code: str,
    frame: Frame,
    rows: Sequence[Labelled],
    f1: Estimate,
    confidence: float,
    seed: int,
    population: Literal["process", "corpus"],
) -> CodeRow:
    flagged = frame.with_code[code]
    clusters = frame.cluster_totals(code) if frame.clustered else None
    judged = Judged(frame.total, flagged, clusters)
    one = estimate_code(code, judged, rows, confidence, seed, population)
    known = code == NONE or code in frame.rubric.judged
    screen = code in frame.rubric.screens or (code == NONE and frame.rubric.only_screens)
    unsure = code in frame.rubric.screened and frame.statuses["undecided"] > 0
    if unsure:
        one = screened(one)
    counted = known and not (screen or unsure)
    return CodeRow(
        code=code,
        judged=wilson(flagged, frame.total, confidence) if counted else None,
        corrected=one.corrected,
        precision=one.precision,
        recall=one.recall if known or unsure else _unknown(one.recall),
        f1=f1,
        flagged=one.flagged,
        missed=one.missed,
        mark=one.mark,
    )


def _unknown(recall: Estimate) -> Estimate:
    reason = "the judge has no rule for this code"
    return replace(recall, value=None, low=0.0, high=1.0, reason=reason)


def _record(pair: Pair, row: Labelled) -> dict[str, Any]:
    return {
        "trace_id": pair.trace_id,
        "human": {"primary": pair.label.primary, "secondary": list(pair.label.secondary)},
        "judge": {
            "primary": pair.annotation.primary,
            "secondary": list(pair.annotation.secondary),
        },
        "counted": {"human": sorted(row.human), "judge": sorted(row.judge)},
        "weight": pair.weight,
        "cluster": row.cluster,
    }


def _warnings(frame: Frame, joined: Joined, cluster_by: Sequence[str]) -> list[str]:
    warnings = []
    if undecided := frame.statuses["undecided"]:
        warnings.append(
            f"Shares and recall are of the traces that the judge decided; {undecided} undecided"
            " ones are in none."
        )
    if joined.design == "unknown":
        warnings.append(
            "The labels carry no inclusion probabilities: treated as a uniform random sample."
        )
    clusters = joined.clusters
    if clusters is None:
        why = f"No trace tells its {'+'.join(cluster_by)}" if cluster_by else "--cluster none"
        warnings.append(f"{why}: traces are treated as independent.")
    if frame.rubric.choice == "primary":
        warnings.append("Agreement and shares are of the primary code; none is a code.")
    if frame.rubric.choice == "many":
        warnings.append("Agreement is of whole sets of codes; shares do not add up to 100 %.")
    return warnings
