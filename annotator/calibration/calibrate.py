"""Calibrate a judge: a run and people's labels go in, a calibration comes out."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from annotator.base.errors import AnnotatorError
from annotator.base.text import Note, format_count
from annotator.calibration.agreement import (
    Basis,
    compare_attribution,
    compare_groups,
    compare_people,
    compare_reference,
    compare_reruns,
    compare_votes,
    list_judge_answers,
    suspect_fit,
)
from annotator.calibration.estimates import (
    clear_share,
    correct_share,
    count_judged,
    count_open,
    describe_model_labels,
    describe_open,
    estimate_code,
    is_withheld,
    list_cautions,
    withhold_share,
)
from annotator.calibration.judged_sample import JudgedSample, read_judged_sample
from annotator.calibration.ledger import hash_label_files
from annotator.calibration.matching import (
    GOLD,
    MatchedLabels,
    describe_unlabelled,
    join_labels,
    match_labels,
    read_reference,
)
from annotator.calibration.model import (
    CORPUS_OF_SPLIT,
    CORPUS_ONLY,
    Calibrated,
    Calibration,
    CodeRow,
    Comparison,
    LabelledTrace,
    LabelsUsed,
    Request,
    count_labels,
)
from annotator.calibration.sample.design import Design, find_design, list_trace_ids
from annotator.labels import Label, Labels
from annotator.rubrics import NONE, Scheme
from annotator.runs.run import Run
from annotator.traces.clusters import find_cluster
from validation import (
    Estimate,
    RaterAgreement,
    compute_wilson_interval,
    measure_set_agreement,
    score_codes,
)


def measure_labels(run: Run, rubric: str, request: Request) -> RaterAgreement:
    """Return the agreement of a run's judge with people, as in their calibration.

    Raises:
        AnnotatorError: as :func:`run_calibration`.
    """
    scheme, sources = run.schemes[rubric], run.manifest.sources
    reference = read_reference(request, scheme, run, sources, final=request.final)
    sample = read_judged_sample(
        run, rubric, select=reference.labels.keys(), cluster=request.cluster
    )
    matched = match_labels(sample, reference.labels, request.cluster, reference.design)
    return _agree(matched, scheme, (), request.confidence)


def run_calibration(run: Run, rubric: str, request: Request) -> Calibrated:
    """Return the calibration of a run's judge for one rubric. The ledger is not written.

    Raises:
        AnnotatorError: the labels cannot be read or are not of this run, or the annotator or the
            split has to be chosen.
    """
    # Read the labels, and match them with annotations.
    scheme, sources = run.schemes[rubric], run.manifest.sources
    reference = read_reference(request, scheme, run, sources, final=request.final)
    labels, selected, design = reference.all, reference.labels, reference.design
    split = reference.split
    if request.population == "corpus" and split != "all":
        raise AnnotatorError(f"--population corpus: {CORPUS_OF_SPLIT}")
    labelled = {label.trace_id for label in labels.labels}
    sample = read_judged_sample(run, rubric, select=labelled, cluster=request.cluster)
    matched = match_labels(sample, selected, request.cluster, design)

    # Compare people with each other, and the judge with people and other runs.
    clusters = {
        trace_id: find_cluster(annotation.attributes, request.cluster)
        for trace_id, annotation in sample.selected.items()
    }
    weights = _find_weights(labels, design)
    of_people = Basis(scheme, clusters, weights, request.confidence, request.seed)
    sampled = matched.traces if matched.design != "unknown" else ()
    of_reference = replace(of_people, weights=_find_weights(labels, design, sampled))
    # Judges are compared on traces that only other people labelled, too; the weights of the
    # matched traces do not fit those.
    in_split = [label for label in labels.labels if label.split in (None, split)]
    is_complete = all(label.trace_id in selected for label in in_split)
    of_judges = of_reference if is_complete else of_people
    between, alpha = compare_people(labels, of_people)
    other_samples = _read_others(sample, labelled, request)
    judges = [
        _compare_run(sample, other, (run, other_run), of_judges)
        for other_run, other in zip(request.against, other_samples, strict=True)
    ]
    same_judge = [other for other in other_samples if other.judge_sha256 == sample.judge_sha256]
    attribution, baselines = compare_attribution(sample, matched, selected, request.confidence)

    # Measure the judge, and correct the shares.
    human = [trace.counted.human for trace in matched.traces]
    judge = [trace.counted.judge for trace in matched.traces]
    report = score_codes(
        list(scheme.labels),
        human,
        judge,
        weights=matched.weights,
        clusters=matched.clusters,
        confidence=request.confidence,
        seed=request.seed,
    )
    rows = tuple(
        _measure_code(code, sample, matched.all, report.per_code[code].f1, request)
        for code in scheme.labels
    )
    open_answers = sorted({trace.counted.judge[0] for trace in matched.not_decided})
    sets = None
    if scheme.choice != "one":
        sets = measure_set_agreement(
            [frozenset(trace.human.codes) for trace in matched.traces],
            [frozenset(trace.judge.codes) for trace in matched.traces],
            weights=matched.weights,
            clusters=matched.clusters,
            confidence=request.confidence,
            seed=request.seed,
        )
    suspicion = suspect_fit(labels, selected, sample, of_judges)
    calibration = Calibration(
        run=sample.run,
        judge=sample.judge,
        judge_sha256=sample.judge_sha256,
        rubric=scheme.id,
        rubric_version=scheme.version,
        rubric_sha256=scheme.sha256,
        choice=scheme.choice,
        codes=scheme.ids,
        judged_codes=tuple(code for code in scheme.ids if code in scheme.judged),
        judged=sample.total,
        clusters=len(sample.clusters) if sample.clusters.named else None,
        cluster_by=request.cluster if sample.clusters.named else (),
        ids_sha256=sample.ids_sha256,
        labels=_summarize_labels(request, reference.annotators, split, matched, design),
        look=None,
        agreement=_agree(matched, scheme, (), request.confidence),
        agreement_of_all=_agree(
            replace(matched, traces=matched.all), scheme, open_answers, request.confidence
        )
        if open_answers
        else None,
        sets=sets,
        rows=_add_annotator_ranges(rows, sample, matched.all, labels),
        averages={"micro": report.micro, "macro": report.macro},
        between=between,
        people_alpha=alpha,
        references=compare_reference(labels, selected, sample, of_reference),
        groups=compare_groups(scheme, matched, request.confidence),
        attribution=attribution,
        attribution_baselines=baselines,
        judges=tuple(filter(None, judges)),
        reruns=compare_reruns([sample, *same_judge], of_people),
        effective_votes=compare_votes(sample, matched, request.confidence, request.seed),
        joined=matched.traces,
        not_decided=matched.not_decided,
        confidence=request.confidence,
        seed=request.seed,
        population=request.population,
        cautions=(
            *describe_model_labels(reference.annotators, sample.judge),
            *describe_open(sample.statuses, sample.total, count_open(sample.statuses, matched.all)),
            *list_cautions(matched.all, {row.code: row.corrected for row in rows}),
        ),
        warnings=(
            *labels.notes,
            *reference.notes,
            *_describe_labels(sample, matched, labels, selected, design, split),
            *(
                f"No labelled trace was judged both here and in {other_run}: not compared."
                for other_run, comparison in zip(request.against, judges, strict=True)
                if comparison is None
            ),
            *_list_warnings(sample, matched, request, selected if not attribution else {}),
            *([suspicion] if suspicion else []),
        ),
    )
    return Calibrated(calibration, selected, sample.selected)


def _find_weights(
    labels: Labels, design: Design | None, sampled: Iterable[LabelledTrace] = ()
) -> dict[str, float] | None:
    """Return the weights of all labelled traces: those of the ``sampled`` ones, else the inverse
    inclusion probability. None if a trace lacks one, or if all are equal.
    """
    probabilities = design.probabilities if design else {}
    chances = {
        label.trace_id: probabilities.get(label.trace_id, label.inclusion_probability)
        for label in labels.labels
    }
    weights = {trace_id: 1 / chance for trace_id, chance in chances.items() if chance}
    weights |= {trace.trace_id: trace.weight for trace in sampled}
    return weights if len(weights) == len(chances) and len(set(weights.values())) > 1 else None


def _read_others(sample: JudgedSample, labelled: set[str], request: Request) -> list[JudgedSample]:
    others: list[JudgedSample] = []
    for run in request.against:
        other = read_judged_sample(run, sample.rubric.id, select=labelled, cluster=request.cluster)
        if other.rubric.sha256 != sample.rubric.sha256:
            raise AnnotatorError(
                f"--against {run}: judged by another version of {sample.rubric.id}"
                f" ({other.rubric.sha256[:12]}, not {sample.rubric.sha256[:12]})"
            )
        if other.run == sample.run:
            raise AnnotatorError(f"--against {run}: this is the run itself")
        if other.run in {before.run for before in others}:
            raise AnnotatorError(f"--against {run}: this run was given twice")
        others.append(other)
    return others


def _compare_run(
    sample: JudgedSample, other: JudgedSample, runs: tuple[Run, Run], basis: Basis
) -> Comparison | None:
    is_rerun = other.judge_sha256 == sample.judge_sha256
    note = None
    if is_rerun and any(run.manifest.totals.get("cache_hits") for run in runs):
        note = "answers out of the cache: it agrees with itself by construction"
    elif is_rerun and sample.judge == "rules":
        note = "the rules judge always answers the same"
    name = f"{sample.judge} again" if is_rerun else f"{sample.judge} and {other.judge}"
    return basis.compare(name, list_judge_answers(sample), list_judge_answers(other), note)


def _summarize_labels(
    request: Request,
    annotators: tuple[str, ...],
    split: str,
    matched: MatchedLabels,
    design: Design | None,
) -> LabelsUsed:
    files = request.labels
    sampled, labelled = matched.sampled or (None, None)
    return LabelsUsed(
        files=tuple(map(str, files.paths)),
        sha256=hash_label_files(files.paths, files.digests),
        annotators=annotators,
        n=len(matched.traces),
        split=split,
        design=matched.design,
        clusters=len(set(matched.clusters)) if matched.clusters else None,
        not_in_run=matched.not_in_run,
        skipped=matched.skipped,
        failed=matched.failed,
        undecided=matched.undecided,
        drawn=sampled,
        labelled=labelled,
        strata_by=design.strata_by if design else None,
        sampled_from=design.size if design else None,
    )


def _agree(
    matched: MatchedLabels, scheme: Scheme, answers: Sequence[str], confidence: float
) -> RaterAgreement:
    return matched.agree(
        [join_labels(trace.counted.human) for trace in matched.traces],
        [join_labels(trace.counted.judge) for trace in matched.traces],
        None if scheme.choice == "many" else (*scheme.labels, *answers),
        confidence,
    )


def _add_annotator_ranges(
    rows: tuple[CodeRow, ...],
    sample: JudgedSample,
    traces: Sequence[LabelledTrace],
    labels: Labels,
) -> tuple[CodeRow, ...]:
    complete = []
    for name in labels.annotators:
        by_id = labels.of(name)
        if name == GOLD or not all(trace.trace_id in by_id for trace in traces):
            continue
        counted = [count_labels(by_id[trace.trace_id], sample.rubric) for trace in traces]
        complete.append(
            [
                replace(trace, counted=replace(trace.counted, human=human))
                for trace, human in zip(traces, counted, strict=True)
            ]
        )
    if len(complete) < 2:
        return rows
    ranged = []
    for row in rows:
        judged = replace(count_judged(row.code, sample, traces), clusters=None)
        shares = [correct_share(row.code, judged, labelled) for labelled in complete]
        values = [share.value for share in shares if share.value is not None]
        has_all = len(values) == len(complete) and row.corrected.value is not None
        ranged.append(replace(row, over_annotators=(min(values), max(values)) if has_all else None))
    return tuple(ranged)


def _measure_code(
    code: str,
    sample: JudgedSample,
    traces: Sequence[LabelledTrace],
    f1: Estimate,
    request: Request,
) -> CodeRow:
    rubric, judged = sample.rubric, count_judged(code, sample, traces)
    estimates = estimate_code(
        code, judged, traces, request.confidence, request.seed, request.population
    )
    can_find = code == NONE or code in rubric.judged
    screen = code in rubric.screens or (code == NONE and rubric.only_screens)
    unsure = code in rubric.screened and sample.statuses["undecided"] > 0
    if is_withheld(code, sample, judged.open):
        estimates = withhold_share(estimates)
    elif not can_find:
        reason = "the judge has no rule for this code"
        estimates = replace(estimates, recall=clear_share(estimates.recall, reason))
    return CodeRow(
        code=code,
        judged=compute_wilson_interval(judged.flagged, judged.total, request.confidence)
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


def _describe_labels(
    sample: JudgedSample,
    matched: MatchedLabels,
    labels: Labels,
    selected: Mapping[str, Label],
    design: Design | None,
    split: str,
) -> list[str]:
    """Return notes about labels that are not compared or not blind, and about weights."""
    notes: list[str] = []
    if reviewed := sum(label.reviewed for label in selected.values()):
        notes.append(
            Note(
                f"{reviewed} of the {len(selected)} labels were given with the judge's answer in"
                " sight (annotate view --review): agreement, kappa and the corrected shares"
                " flatter the judge.",
                "reviewed",
            )
        )
    if design and design.judge_sha256 not in (None, sample.judge_sha256):
        notes.append(
            "The sample was stratified by another judge's codes; its weights hold all the same."
        )
    if matched.not_in_run:
        notes.append(f"{len(matched.not_in_run)} labelled traces are not in the run.")
    if skipped := len(matched.skipped):
        notes.append(f"Left out: {format_count(skipped, 'labelled trace')} that the run skipped.")
    notes += describe_unlabelled(matched, labels)
    if matched.undecided:
        codes = Counter(
            code
            for trace_id in matched.undecided
            for code in sample.rubric.labels_of(selected[trace_id])
        )
        counts = ", ".join(f"{code} {codes[code]}" for code in sample.rubric.labels if codes[code])
        notes.append(
            f"The judge left {format_count(len(matched.undecided), 'labelled trace')}"
            " undecided, where"
            f" people say {counts}."
        )
    weight, size = sum(trace.weight for trace in matched.traces), sample.total
    weighted = matched.design != "unknown" and not design and split == "all"
    if weighted and abs(weight - size) > 0.02 * size:
        notes.append(
            f"The weights of the {len(matched.traces)} labels add up to {weight:.0f} traces, the"
            f" sample was drawn from {size}: some are not labelled, or the probabilities are"
            " another sample's."
        )
    return notes


def _list_warnings(
    sample: JudgedSample,
    matched: MatchedLabels,
    request: Request,
    without_attribution: Mapping[str, Label],
) -> list[str]:
    warnings = []
    if any(label.agent or label.step for label in without_attribution.values()):
        warnings.append(
            "The labels name agents or steps, the judge's findings none (the rubric has no"
            " attribution, or the run is older than it): not compared."
        )
    if matched.design == "unknown":
        warnings.append(
            "The labels carry no inclusion probabilities: treated as a uniform random sample."
        )
    if not sample.clusters.named:
        by = "+".join(request.cluster)
        reason = f"No trace tells its {by}" if by else "--cluster none"
        warnings.append(f"{reason}: traces are treated as independent.")
    if sample.rubric.choice == "primary":
        warnings.append("Agreement and shares are of the primary code; none is a code.")
    if sample.rubric.choice == "many":
        warnings.append("Agreement is of whole sets of codes; shares do not add up to 100 %.")
    if request.population == "corpus":
        warnings.append(CORPUS_ONLY)
    return warnings


@dataclass(frozen=True, slots=True)
class Annotators:
    """The agreement of two people, with the pairs of labels that differ, and notes on the files of
    labels.
    """

    rubric: Scheme
    comparison: Comparison
    differing: tuple[tuple[Label, Label], ...]
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "rubric": self.rubric.id,
            "rubric_sha256": self.rubric.sha256,
            "between": self.comparison.what,
            "n": self.comparison.n,
            "agreement": self.comparison.agreement.as_dict(),
            "differing": [label.trace_id for label, _ in self.differing],
        }


def compare_annotators(
    scheme: Scheme, request: Request, first: str, second: str, run: Run | None = None
) -> Annotators:
    """Return the agreement of two annotators for one rubric.

    Clusters come from ``run``, without it from the labels' tasks.

    Raises:
        AnnotatorError: an annotator has no labels, or they have no trace in common.
    """
    if first == second:
        raise AnnotatorError(f"--between: {first!r} is one annotator; name two")
    trace_ids = list_trace_ids(run, scheme.id, request.design, request.labels.paths)
    sources = run.manifest.sources if run else ()
    labels = request.labels.read(scheme, trace_ids, sources)
    for name in (first, second):
        if name not in labels.annotators:
            raise AnnotatorError(
                f"--between: no labels of {name!r} for {scheme.id}, only of"
                f" {', '.join(labels.annotators)}"
            )
    sides = labels.of(first), labels.of(second)
    clusters = {label.trace_id: label.task for label in labels.labels}
    if run:
        sample = read_judged_sample(run, scheme.id, select=clusters, cluster=request.cluster)
        for trace_id, annotation in sample.selected.items():
            clusters[trace_id] = find_cluster(annotation.attributes, request.cluster)
    reached = {label.trace_id: label for label in labels.labels}
    design, _ = find_design(run, reached, scheme.id, request.design, request.labels.paths)
    basis = Basis(scheme, clusters, _find_weights(labels, design), request.confidence)
    answers = [basis.answers_of(side) for side in sides]
    comparison = basis.compare(f"{first} and {second}", answers[0], answers[1])
    if comparison is None:
        raise AnnotatorError(f"{first} and {second} labelled no trace in common ({scheme.id})")
    differing = tuple(
        (sides[0][unit], sides[1][unit])
        for unit, answer in answers[0].items()
        if answers[1].get(unit, answer) != answer
    )
    return Annotators(scheme, comparison, differing, labels.notes)
