"""Correcting a run's table by a calibration: of this judge on these traces, or carried over."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter

from annotator.calibration.choose import explain_misfit
from annotator.calibration.estimates import (
    CodeEstimates,
    correct_by_error_rates,
    count_judged,
    count_open,
    describe_open,
    empty_share,
    estimate_code,
    is_withheld,
    list_cautions,
    list_uncorrected,
    withhold_guess,
    withhold_share,
)
from annotator.calibration.frame import Frame
from annotator.calibration.model import OPEN, Calibration, Codes, LabelledTrace, count_answer
from annotator.clusters import cluster_of, lone_cluster
from annotator.errors import AnnotatorError
from annotator.rubrics import NONE, Scheme, group_label
from annotator.runs.run import Run
from validation import joint_shares
from validation.joint import FOUND_IN


@dataclass(frozen=True, slots=True)
class Correction:
    """Shares of one rubric (of one group of its traces) corrected by labels; ``notes`` say how.

    They are of so many ``traces``, those that the judge left undecided among them where labels tell
    of these. ``groups``: those of groups of codes, by their names. ``transferred``: the labels are
    of other traces or another judge.
    """

    codes: Mapping[str, CodeEstimates]
    labels: int
    traces: int
    transferred: bool
    confidence: float
    notes: tuple[str, ...]
    groups: Mapping[str, CodeEstimates] = field(default_factory=dict)


def correction_of(
    calibration: Calibration,
    frame: Frame,
    whole: Frame,
    run: Run,
    *,
    transfer: bool,
    cluster: Sequence[str] | None = None,
    joint: bool = False,
) -> Correction:
    """Return the corrected shares of a frame: all that a run judged (``whole``) or a group of it.

    ``cluster``: by what the frame was counted, if not as the calibration. ``joint``: as
    :func:`correct`.

    Raises:
        AnnotatorError: the calibration is of another version of the rubric; or of another judge or
            of other traces, and ``transfer`` does not allow for that.
    """
    reason = explain_misfit(calibration, whole, run)
    if not reason:
        return correct(calibration, frame, cluster, joint=joint)
    if not transfer:
        raise AnnotatorError(
            f"the calibration for {whole.rubric.id} does not fit: {reason}. Calibrate this run, or"
            " carry the error rates over with --transfer"
        )
    if joint:
        raise AnnotatorError(f"--joint needs labels of these traces: {reason}")
    return carry_over(calibration, frame, reason, clustered=cluster is None or bool(cluster))


def correct(
    calibration: Calibration,
    frame: Frame,
    cluster: Sequence[str] | None = None,
    *,
    joint: bool = False,
) -> Correction:
    """Return the corrected shares of the frame, by the labels of its own traces.

    The judge's label of each labelled trace is the one in the frame; labels of traces that are not
    kept in it (another group) are left out. ``joint``: all codes are corrected at once, so that
    their shares add up, and with limits that hold together; a note names the codes left out.

    Raises:
        AnnotatorError: ``joint``, and a trace can have several codes that count, or the calibration
            is of a corpus.
    """
    traces = match_traces(calibration, frame, cluster)
    codes = {
        code: estimate_code(
            code,
            count_judged(code, frame, traces),
            traces,
            calibration.confidence,
            calibration.seed,
            calibration.population,
        )
        for code in frame.rubric.labels
    }
    if joint and calibration.population == "corpus":
        raise AnnotatorError(
            "--joint is of what makes such traces, not of a corpus: calibrate again"
        )
    how = "post-stratified by the judge's answer, code by code: they need not add up to 100 %"
    opened = count_open(frame.statuses, traces)
    unsure: list[str] = []
    if joint:
        codes = _correct_jointly(codes, traces, frame, opened, calibration.confidence)
        unsure = _list_unsure(codes, frame)
        how = (
            "post-stratified by the judge's answer, all codes at once (Dirichlet): they add up"
            f" to 100 %, and the intervals hold all together (Bonferroni over {len(codes)}): a code"
            " whose interval lies above all others is the commonest"
        )
    _withhold_open(codes, frame, opened)
    over = "" if calibration.population == "corpus" else _describe_tasks(codes, frame, traces)
    notes = (
        f"Corrected shares rest on {len(traces)} labels of"
        f" {', '.join(calibration.labels.annotators)} ({describe_labels(calibration)}),"
        f" {100 * calibration.confidence:g} %, {how}{over}.",
        *unsure,
        *describe_open(frame.statuses, frame.total, opened),
        *calibration.warnings,
        *list_cautions(traces, {code: estimates.corrected for code, estimates in codes.items()}),
    )
    grouped = _with_groups(traces, frame.rubric)
    groups = {
        name: estimate_code(
            group_label(name),
            count_judged(group_label(name), frame, grouped),
            grouped,
            calibration.confidence,
            calibration.seed,
            calibration.population,
        )
        for name in _countable_groups(frame, opened)
    }
    size = frame.total + sum(opened.values())
    return Correction(codes, len(traces), size, False, calibration.confidence, notes, groups)


def _describe_tasks(
    codes: Mapping[str, CodeEstimates], frame: Frame, traces: Sequence[LabelledTrace]
) -> str:
    """Return how many tasks have labels, and how much more shares vary than of independent ones."""
    if not frame.clusters.named:
        return "; traces are treated as independent"
    inputs = [each.corrected.inputs for each in codes.values()]
    effects = [given["design_effect"] for given in inputs if given.get("design_effect")]
    spread = f", design effects {min(effects):.1f} to {max(effects):.1f}" if effects else ""
    return f"; labels of {len({trace.cluster for trace in traces})} tasks{spread}"


def _correct_jointly(
    codes: Mapping[str, CodeEstimates],
    traces: Sequence[LabelledTrace],
    frame: Frame,
    opened: Mapping[str, int],
    confidence: float,
) -> dict[str, CodeEstimates]:
    """Return the estimates with shares that were corrected together."""
    if frame.rubric.choice == "many":
        raise AnnotatorError("--joint: a trace can have several codes; their shares do not add up")
    clusters: list[int] | None = None
    judged = {code: [frame.with_code[code]] for code in codes}
    judged |= {answer: [size] for answer, size in opened.items()}
    if frame.clusters.named:
        numbers = {answer: number for number, answer in enumerate(judged)}
        placed = ((trace.cluster, numbers[trace.counted.judge[0]]) for trace in traces)
        _, rows, clusters = frame.clusters.answer_totals([*map(itemgetter, judged)], placed)
        judged = {answer: [row[number] for row in rows] for answer, number in numbers.items()}
    shares = joint_shares(
        judged,
        [trace.counted.judge[0] for trace in traces],
        [trace.counted.human[0] for trace in traces],
        weights=[trace.weight for trace in traces],
        clusters=clusters,
        confidence=confidence,
        codes=list(codes),
    )
    return {
        code: replace(each, corrected=withhold_guess(shares[code])) for code, each in codes.items()
    }


def _list_unsure(codes: Mapping[str, CodeEstimates], frame: Frame) -> list[str]:
    """Return a note that names the codes whose joint intervals are not promised, if there are."""
    names = [code for code, each in codes.items() if not each.corrected.inputs["promised"]]
    if not names:
        return []
    units = "tasks" if frame.clusters.named else "traces"
    return [
        f"People found these codes in fewer than {FOUND_IN} {units}, so their intervals are not"
        f" among those that hold all together: {', '.join(names)}."
    ]


def match_traces(
    calibration: Calibration, frame: Frame, cluster: Sequence[str] | None = None
) -> list[LabelledTrace]:
    """Return the labelled traces that a frame keeps, with its judge's answer and with their
    cluster, by other attributes if there are.
    """
    traces, by = [], calibration.cluster_by if cluster is None else cluster
    for trace in calibration.labelled:
        annotation = frame.wanted.get(trace.trace_id)
        if annotation and annotation.status != "skipped":
            judge = Codes(annotation.primary, annotation.secondary)
            counted = replace(trace.counted, judge=count_answer(annotation, frame.rubric))
            name = cluster_of(annotation.attributes, by)
            name = name or (lone_cluster(trace.trace_id) if frame.clusters.named else None)
            traces.append(replace(trace, judge=judge, counted=counted, cluster=name))
    return traces


def describe_labels(calibration: Calibration) -> str:
    """Return how the labels were drawn and used, in words."""
    labels = calibration.labels
    words = "" if labels.drawn is None else f"{labels.labelled} of {labels.drawn} drawn, "
    words += f"design {labels.design}, split {labels.split}"
    if look := calibration.look:
        words += f", look {look.look}"
        words += f", {look.judges} judges" if look.judges > 1 else ""
    return words


def carry_over(
    calibration: Calibration, frame: Frame, why: str, *, clustered: bool = True
) -> Correction:
    """Return the shares of the frame corrected by the error rates that the judge showed elsewhere.

    Rogan and Gladen's estimate with the interval of Lang and Reiczigel: it assumes that the judge
    errs here as often as it did there. ``clustered``: labels of one task are not independent.
    """
    traces = list(calibration.joined)
    if not clustered:
        traces = [replace(trace, cluster=None) for trace in traces]
    codes = {}
    for code in frame.rubric.labels:
        estimates = correct_by_error_rates(
            code, count_judged(code, frame, traces), traces, calibration.confidence
        )
        if reason := _not_carried(code, calibration, frame):
            estimates = replace(estimates, corrected=empty_share(estimates.corrected, reason))
        codes[code] = estimates
    _withhold_open(codes, frame, ())
    n = len(calibration.joined)
    notes = (
        f"TRANSFERRED: {why}. Corrected by the error rates of {n} labels made elsewhere"
        f" ({describe_labels(calibration)}; Rogan-Gladen, Lang-Reiczigel,"
        f" {100 * calibration.confidence:g} %): right only if the judge errs here as it did there.",
        *_describe_left_out(frame),
        *list_uncorrected({code: estimates.corrected for code, estimates in codes.items()}),
        *calibration.warnings,
    )
    grouped = _with_groups(traces, frame.rubric)
    groups = {
        name: correct_by_error_rates(
            group_label(name),
            count_judged(group_label(name), frame, grouped),
            grouped,
            calibration.confidence,
        )
        for name in _countable_groups(frame, ())
        if not any(_not_carried(code, calibration, frame) for code in frame.rubric.groups[name])
    }
    return Correction(codes, n, frame.total, True, calibration.confidence, notes, groups)


def _describe_left_out(frame: Frame) -> list[str]:
    left = " and ".join(f"{frame.statuses[s]} {s}" for s in OPEN if frame.statuses[s])
    return [f"Corrected shares leave out the {left} traces."] if left else []


def _with_groups(traces: Sequence[LabelledTrace], rubric: Scheme) -> list[LabelledTrace]:
    """Return labelled traces with their groups of codes among what is counted of them."""
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


def _countable_groups(frame: Frame, open: Collection[str]) -> list[str]:
    """Return the groups that have a corrected share: those whose codes the judge can all find, and
    all groups where labels tell what stands in the traces that it left undecided.
    """
    if OPEN["undecided"] in open:
        return list(frame.rubric.groups)
    if frame.statuses["undecided"] and frame.rubric.screened:
        return []
    return [
        name
        for name, codes in frame.rubric.groups.items()
        if frame.rubric.judged.issuperset(codes) and frame.rubric.screens.isdisjoint(codes)
    ]


def _withhold_open(codes: dict[str, CodeEstimates], frame: Frame, open: Collection[str]) -> None:
    """Take the shares of what a judge screens for where no undecided trace has a label."""
    codes |= {code: withhold_share(codes[code]) for code in codes if is_withheld(code, frame, open)}


def _not_carried(code: str, calibration: Calibration, frame: Frame) -> str | None:
    """Return why a code's error rates say nothing of this judge, None if they may."""
    if code != NONE:
        if code not in frame.rubric.judged:
            return "the judge has no rule for this code"
        if code not in calibration.judged_codes:
            return "the calibrated judge had no rule for this code"
        return None
    if set(calibration.judged_codes) != frame.rubric.judged:
        return "none is what is left of other codes than the calibrated judge can find"
    return None
