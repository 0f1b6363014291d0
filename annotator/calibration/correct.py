"""Correct a run's shares by a calibration of this judge on these traces, or of another."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter

from annotator.base.errors import AnnotatorError
from annotator.base.text import Note, format_count
from annotator.calibration.estimates import (
    CodeEstimates,
    clear_share,
    correct_by_error_rates,
    count_judged,
    count_open,
    describe_model_labels,
    describe_open,
    estimate_code,
    explain_few_labels,
    is_withheld,
    list_cautions,
    list_uncorrected,
    withhold_guess,
    withhold_share,
)
from annotator.calibration.judged_sample import (
    JudgedSample,
    read_judged_sample,
    start_judged_sample,
)
from annotator.calibration.model import OPEN, Calibration, Codes, LabelledTrace, count_answer
from annotator.rubrics import NONE, Scheme, name_group
from annotator.runs.run import Run
from annotator.traces.clusters import find_cluster, name_lone_cluster
from validation import estimate_joint_shares
from validation.joint import FOUND_IN


class Misfit(AnnotatorError):
    """A calibration is not for this rubric, judge and traces; ``reason`` says why."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


def select_calibration(calibrations: Sequence[Calibration], sample: JudgedSample) -> Calibration:
    """Return the calibration of this run, else of its judge, else the first.

    Raises:
        AnnotatorError: several were made for this very run.
    """
    if sum(calibration.run == sample.run for calibration in calibrations) > 1:
        raise AnnotatorError(
            f"several calibrations for {sample.rubric.id} were made for this run: name one of them"
        )

    return max(
        calibrations,
        key=lambda each: (each.run == sample.run, each.judge_sha256 == sample.judge_sha256),
    )


def explain_misfit(calibration: Calibration, judged: JudgedSample, run: Run) -> str:
    """Return why a calibration does not fit a run's judge and traces, "" if it does.

    Raises:
        Misfit: it is of another version of the rubric.
    """
    if calibration.rubric_sha256 != judged.rubric.sha256:
        reason = (
            f"for another version of {judged.rubric.id}"
            f" ({calibration.rubric_sha256[:12]}; {run} has {judged.rubric.sha256[:12]})"
        )
        raise Misfit(
            f"the calibration is {reason}. Calibrate a run that was judged by this version",
            f"it is {reason}",
        )
    if calibration.judge_sha256 != judged.judge_sha256:
        text = (
            f"it was made for another judge, {calibration.judge}"
            f" ({calibration.judge_sha256[:12]}), and {run} was judged by {judged.judge}"
            f" ({judged.judge_sha256[:12]})"
        )
        if calibration.judge == judged.judge:
            text += ": the same name with other prompts or settings (compare judge in run.json)"
        return text
    if calibration.ids_sha256 != judged.ids_sha256:
        return f"it was made on other traces than {run} judged (or the run has grown since)"
    return ""


def fit_calibration(
    run: Run,
    rubric: str,
    calibrations: Sequence[Calibration],
    cluster: Sequence[str] | None = None,
) -> tuple[Calibration, JudgedSample, str]:
    """Return the calibration for a run, the run's counted traces, and why the two do not fit.

    The labelled traces are selected in the counted ones; the reason is "" if both fit. ``cluster``:
    the attributes that make a cluster, by default those of the calibration.

    Raises:
        AnnotatorError: as :func:`select_calibration`, :func:`explain_misfit` and
            :func:`annotator.calibration.judged_sample.read_judged_sample`.
    """
    calibration = select_calibration(calibrations, start_judged_sample(run, rubric))
    labelled = {trace.trace_id for trace in calibration.labelled}
    by = calibration.cluster_by if cluster is None else cluster
    sample = read_judged_sample(run, rubric, select=labelled, cluster=by)
    return calibration, sample, explain_misfit(calibration, sample, run)


@dataclass(frozen=True, slots=True)
class Correction:
    """Corrected shares of one rubric, or of one group of its traces.

    ``codes`` and ``groups`` hold the shares of codes and of groups of codes, ``labels`` and
    ``traces`` the numbers that they rest on. Undecided traces are included if some have labels.
    ``transferred``: the labels of ``calibration`` are of other traces or of another judge.
    """

    calibration: Calibration
    codes: Mapping[str, CodeEstimates]
    labels: int
    traces: int
    transferred: bool
    confidence: float
    notes: tuple[str, ...]
    groups: Mapping[str, CodeEstimates] = field(default_factory=dict)


def make_correction(
    calibration: Calibration,
    sample: JudgedSample,
    judged: JudgedSample,
    run: Run,
    *,
    transfer: bool,
    cluster: Sequence[str] | None = None,
    joint: bool = False,
    is_group: bool = False,
) -> Correction:
    """Return the corrected shares of a sample: all ``judged`` traces of the run, or a group.

    ``transfer`` allows for a calibration of another judge or of other traces. ``cluster``: the
    attributes that the sample was counted by, by default the calibration's. ``joint`` and
    ``is_group``: as in :func:`correct`.

    Raises:
        Misfit: the calibration is for another version of the rubric, or does not fit and
            ``transfer`` is off.
    """
    reason = explain_misfit(calibration, judged, run)
    if not reason:
        return correct(calibration, sample, cluster, joint=joint, is_group=is_group)
    if not transfer:
        raise Misfit(
            f"the calibration for {judged.rubric.id} does not fit: {reason}. Calibrate this run, or"
            " carry the error rates over with --transfer",
            reason,
        )
    if joint:
        raise AnnotatorError(f"--joint needs labels of these traces: {reason}")
    return carry_over(calibration, sample, reason, clustered=cluster is None or bool(cluster))


def correct(
    calibration: Calibration,
    sample: JudgedSample,
    cluster: Sequence[str] | None = None,
    *,
    joint: bool = False,
    is_group: bool = False,
) -> Correction:
    """Return the shares of a sample, corrected by the labels of its own traces.

    The judge's answers are those of the sample. Labels of traces that are not selected in it (of
    another group) are left out. ``joint`` corrects all codes at once: the shares add up to 100 %,
    and the intervals hold all together, except for the codes that a note names. ``is_group``: the
    sample is a group of the traces, and has no shares if too few of them have labels.

    Raises:
        AnnotatorError: ``joint`` with a rubric of many codes a trace, or with a calibration of a
            corpus.
    """
    traces = match_traces(calibration, sample, cluster)

    def estimate(label: str, traces: Sequence[LabelledTrace]) -> CodeEstimates:
        return estimate_code(
            label,
            count_judged(label, sample, traces),
            traces,
            calibration.confidence,
            calibration.seed,
            calibration.population,
        )

    codes = {code: estimate(code, traces) for code in sample.rubric.labels}
    if joint and calibration.population == "corpus":
        raise AnnotatorError(
            "--joint needs a calibration without --population corpus: calibrate again"
        )
    how = "post-stratified by the judge's answer, code by code"
    sums = [] if joint else list_sums(sample.rubric, is_group=is_group)
    opened = count_open(sample.statuses, traces)
    unsure: list[str] = []
    if joint:
        codes = _correct_jointly(codes, traces, sample, opened, calibration.confidence)
        unsure = _list_unsure(codes, sample)
        how = (
            "post-stratified by the judge's answer, all codes at once (Dirichlet): they add up"
            f" to 100 %, and the intervals hold all together (Bonferroni over {len(codes)}): a code"
            " whose interval lies above all others is the commonest"
        )
    _withhold_open(codes, sample, opened)
    few = explain_few_labels(traces, calibration.population) if is_group else None
    codes = _withhold_few(codes, few)
    over = "" if calibration.population == "corpus" else _describe_tasks(codes, sample, traces)
    rest = (
        f"Corrected shares rest on {len(traces)} labels of"
        f" {', '.join(calibration.labels.annotators)} ({describe_labels(calibration)}),"
        f" {100 * calibration.confidence:g} %, {how}{over}."
    )
    notes = (
        Note(rest, "corrected"),
        *describe_model_labels(calibration.labels.annotators, calibration.judge),
        *sums,
        *unsure,
        *describe_open(sample.statuses, sample.total, opened),
        *calibration.warnings,
        *list_cautions(traces, {code: estimates.corrected for code, estimates in codes.items()}),
    )
    grouped = _add_groups(traces, sample.rubric)
    groups = {
        name: estimate(name_group(name), grouped) for name in _list_countable_groups(sample, opened)
    }
    groups, size = _withhold_few(groups, few), sample.total + sum(opened.values())
    return Correction(
        calibration, codes, len(traces), size, False, calibration.confidence, notes, groups
    )


def list_sums(rubric: Scheme, *, is_group: bool) -> list[Note]:
    """Return the note that corrected shares of one code a trace need not add up. Of ``is_group`` of
    the traces, with few labels, they may be far from it.
    """
    if rubric.choice == "many":
        return []
    text = "Corrected code by code, shares need not add up to 100 %."
    return [Note(text, "sums" if is_group else "sums-whole")]


def _withhold_few(codes: dict[str, CodeEstimates], reason: str | None) -> dict[str, CodeEstimates]:
    if not reason:
        return codes
    return {
        code: replace(estimates, corrected=clear_share(estimates.corrected, reason))
        for code, estimates in codes.items()
    }


def _describe_tasks(
    codes: Mapping[str, CodeEstimates], sample: JudgedSample, traces: Sequence[LabelledTrace]
) -> str:
    if not sample.clusters.named:
        return "; traces are treated as independent"
    inputs = [estimates.corrected.inputs for estimates in codes.values()]
    effects = [values["design_effect"] for values in inputs if values.get("design_effect")]
    spread = f", design effects {min(effects):.1f} to {max(effects):.1f}" if effects else ""
    return f"; labels of {len({trace.cluster for trace in traces})} tasks{spread}"


def _correct_jointly(
    codes: Mapping[str, CodeEstimates],
    traces: Sequence[LabelledTrace],
    sample: JudgedSample,
    opened: Mapping[str, int],
    confidence: float,
) -> dict[str, CodeEstimates]:
    if sample.rubric.choice == "many":
        raise AnnotatorError("--joint: a trace can have several codes; their shares do not add up")
    clusters: list[int] | None = None
    judged = {code: [sample.with_code[code]] for code in codes}
    judged |= {answer: [size] for answer, size in opened.items()}
    if sample.clusters.named:
        numbers = {answer: number for number, answer in enumerate(judged)}
        placed = ((trace.cluster, numbers[trace.counted.judge[0]]) for trace in traces)
        _, rows, clusters = sample.clusters.answer_totals([*map(itemgetter, judged)], placed)
        judged = {answer: [row[number] for row in rows] for answer, number in numbers.items()}
    shares = estimate_joint_shares(
        judged,
        [trace.counted.judge[0] for trace in traces],
        [trace.counted.human[0] for trace in traces],
        weights=[trace.weight for trace in traces],
        clusters=clusters,
        confidence=confidence,
        codes=list(codes),
    )
    return {
        code: replace(estimates, corrected=withhold_guess(shares[code]))
        for code, estimates in codes.items()
    }


def _list_unsure(codes: Mapping[str, CodeEstimates], sample: JudgedSample) -> list[str]:
    names = [
        code for code, estimates in codes.items() if not estimates.corrected.inputs["promised"]
    ]
    if not names:
        return []
    units = "tasks" if sample.clusters.named else "traces"
    text = (
        f"People found these codes in fewer than {FOUND_IN} {units}, so their intervals are not"
        f" among those that hold all together: {', '.join(names)}."
    )
    return [Note(text, "not-joint")]


def match_traces(
    calibration: Calibration, sample: JudgedSample, cluster: Sequence[str] | None = None
) -> list[LabelledTrace]:
    """Return the labelled traces of a sample with its judge's answers and clusters."""
    traces, by = [], calibration.cluster_by if cluster is None else cluster
    for trace in calibration.labelled:
        annotation = sample.selected.get(trace.trace_id)
        if annotation and annotation.status != "skipped":
            judge = Codes(annotation.primary, annotation.secondary)
            counted = replace(trace.counted, judge=count_answer(annotation, sample.rubric))
            name = find_cluster(annotation.attributes, by)
            name = name or (name_lone_cluster(trace.trace_id) if sample.clusters.named else None)
            traces.append(replace(trace, judge=judge, counted=counted, cluster=name))
    return traces


_DESIGNS = {
    "unknown": "how they were sampled is not recorded",
    "uniform": "a uniform random sample",
    "stratified": "a stratified random sample",
}


def describe_labels(calibration: Calibration) -> str:
    """Return how the labels were sampled and used, as one phrase."""
    labels = calibration.labels
    text = "" if labels.drawn is None else f"{labels.labelled} of {labels.drawn} drawn, "
    text += _DESIGNS[labels.design]
    text += "" if labels.split == "all" else f", of the {labels.split} split"
    if (look := calibration.look) and look.look > 1:
        text += f", used {format_count(look.look - 1, 'time')} before"
        text += f", by {look.judges} judges in all" if look.judges > 1 else ""
    return text


def carry_over(
    calibration: Calibration, sample: JudgedSample, why: str, *, clustered: bool = True
) -> Correction:
    """Return the shares of a sample, corrected by the judge's error rates on other traces.

    Rogan and Gladen's estimate with the interval of Lang and Reiczigel. It assumes that the judge
    errs here as often as it did there. ``clustered``: labels of one task are not independent.
    """
    traces = list(calibration.joined)
    if not clustered:
        traces = [replace(trace, cluster=None) for trace in traces]

    def estimate(label: str, traces: Sequence[LabelledTrace]) -> CodeEstimates:
        judged = count_judged(label, sample, traces)
        return correct_by_error_rates(label, judged, traces, calibration.confidence)

    codes = {}
    for code in sample.rubric.labels:
        estimates = estimate(code, traces)
        if reason := _explain_not_carried(code, calibration, sample):
            estimates = replace(estimates, corrected=clear_share(estimates.corrected, reason))
        codes[code] = estimates
    _withhold_open(codes, sample, ())
    n = len(calibration.joined)
    transferred = (
        f"TRANSFERRED: {why}. Corrected by the error rates of {n} labels made elsewhere"
        f" ({describe_labels(calibration)}; Rogan-Gladen, Lang-Reiczigel,"
        f" {100 * calibration.confidence:g} %): right only if the judge errs here as it did there."
    )
    notes = (
        Note(transferred, "transferred"),
        *_describe_left_out(sample),
        *list_uncorrected({code: estimates.corrected for code, estimates in codes.items()}),
        *calibration.warnings,
    )
    grouped = _add_groups(traces, sample.rubric)
    groups = {
        name: estimate(name_group(name), grouped)
        for name in _list_countable_groups(sample, ())
        if not any(
            _explain_not_carried(code, calibration, sample) for code in sample.rubric.groups[name]
        )
    }
    return Correction(
        calibration, codes, n, sample.total, True, calibration.confidence, notes, groups
    )


def _describe_left_out(sample: JudgedSample) -> list[str]:
    open_counts = " and ".join(f"{sample.statuses[s]} {s}" for s in OPEN if sample.statuses[s])
    return [f"Corrected shares leave out the {open_counts} traces."] if open_counts else []


def _add_groups(traces: Sequence[LabelledTrace], rubric: Scheme) -> list[LabelledTrace]:
    """Return the labelled traces with their groups of codes counted like codes."""
    return [
        replace(
            trace,
            counted=replace(
                trace.counted,
                human=(*trace.counted.human, *rubric.groups_of(trace.counted.human)),
                judge=(*trace.counted.judge, *rubric.groups_of(trace.counted.judge)),
            ),
        )
        for trace in traces
    ]


def _list_countable_groups(sample: JudgedSample, open: Collection[str]) -> list[str]:
    """Return the groups that have a corrected share.

    If undecided traces have labels, these are all groups, else those whose codes the judge can all
    find and rule out.
    """
    if OPEN["undecided"] in open:
        return list(sample.rubric.groups)
    if sample.statuses["undecided"] and sample.rubric.screened:
        return []
    return [
        name
        for name, codes in sample.rubric.groups.items()
        if sample.rubric.judged.issuperset(codes) and sample.rubric.screens.isdisjoint(codes)
    ]


def _withhold_open(
    codes: dict[str, CodeEstimates], sample: JudgedSample, open: Collection[str]
) -> None:
    for code in codes:
        if is_withheld(code, sample, open):
            codes[code] = withhold_share(codes[code])


def _explain_not_carried(code: str, calibration: Calibration, sample: JudgedSample) -> str | None:
    """Return why a code's error rates do not hold for this judge, None if they may."""
    if code != NONE:
        if code not in sample.rubric.judged:
            return "the judge has no rule for this code"
        if code not in calibration.judged_codes:
            return "the calibrated judge had no rule for this code"
        return None
    if set(calibration.judged_codes) != sample.rubric.judged:
        return "none is what is left of other codes than the calibrated judge can find"
    return None
