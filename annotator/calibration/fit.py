"""Which calibration belongs to a run, and why one does not."""

from collections.abc import Sequence

from annotator.base.errors import AnnotatorError
from annotator.calibration.judged_sample import (
    JudgedSample,
    read_judged_sample,
    start_judged_sample,
)
from annotator.calibration.model import Calibration
from annotator.runs.run import Run


def select_calibration(calibrations: Sequence[Calibration], sample: JudgedSample) -> Calibration:
    """Return the calibration made for a run: by its id, else for its judge, else the first.

    Raises:
        AnnotatorError: several were made for this very run.
    """
    if sum(calibration.run == sample.run for calibration in calibrations) > 1:
        raise AnnotatorError(
            f"several calibrations for {sample.rubric.id} were made for this run: name one of them"
        )

    def fits(calibration: Calibration) -> tuple[bool, bool]:
        return calibration.run == sample.run, calibration.judge_sha256 == sample.judge_sha256

    return max(calibrations, key=fits)


def explain_misfit(calibration: Calibration, judged: JudgedSample, run: Run) -> str:
    """Return why a calibration is not of a run's judge and traces, "" if it is.

    Raises:
        AnnotatorError: it is of another version of the rubric.
    """
    if calibration.rubric_sha256 != judged.rubric.sha256:
        raise AnnotatorError(
            f"the calibration is for another version of {judged.rubric.id}"
            f" ({calibration.rubric_sha256[:12]}; {run} has {judged.rubric.sha256[:12]}), by which"
            " codes mean something else: judge the labelled traces by this version, and calibrate"
            " that run"
        )
    if calibration.judge_sha256 != judged.judge_sha256:
        same = (
            ", the same name but asked in another way (prompts, settings, or the versions of what"
            " shapes a request: see judge in the run.json of both)"
        )
        return (
            f"it was made for another judge, {calibration.judge}"
            f" ({calibration.judge_sha256[:12]}), and {run} was judged by {judged.judge}"
            f" ({judged.judge_sha256[:12]})" + (same if calibration.judge == judged.judge else "")
        )
    if calibration.ids_sha256 != judged.ids_sha256:
        return f"it was made on other traces than {run} judged (or the run has grown since)"
    return ""


def fit_calibration(
    run: Run,
    rubric: str,
    calibrations: Sequence[Calibration],
    cluster: Sequence[str] | None = None,
) -> tuple[Calibration, JudgedSample, str]:
    """Return the calibration made for a run, the run's judged traces with the labelled ones
    selected, and why the two do not fit, "" if they do. ``cluster``: the attributes that make a
    cluster, if not those of the calibration.

    Raises:
        AnnotatorError: as :func:`select_calibration`, :func:`explain_misfit` and
            :func:`annotator.calibration.judged_sample.read_judged_sample`.
    """
    calibration = select_calibration(calibrations, start_judged_sample(run, rubric))
    labelled = {trace.trace_id for trace in calibration.labelled}
    by = calibration.cluster_by if cluster is None else cluster
    sample = read_judged_sample(run, rubric, select=labelled, cluster=by)
    return calibration, sample, explain_misfit(calibration, sample, run)
