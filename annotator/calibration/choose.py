"""Which calibration belongs to a run, and why one does not."""

from collections.abc import Sequence

from annotator.calibration.frame import Frame, empty_frame, read_frame
from annotator.calibration.model import Calibration
from annotator.errors import AnnotatorError
from annotator.runs.run import Run


def choose_calibration(calibrations: Sequence[Calibration], frame: Frame) -> Calibration:
    """Return the calibration made for a run: by its id, else for its judge, else the first.

    Raises:
        AnnotatorError: several were made for this very run.
    """
    if sum(calibration.run == frame.run for calibration in calibrations) > 1:
        raise AnnotatorError(
            f"several calibrations for {frame.rubric.id} were made for this run: name one of them"
        )

    def fits(calibration: Calibration) -> tuple[bool, bool]:
        return calibration.run == frame.run, calibration.judge_sha256 == frame.judge_sha256

    return max(calibrations, key=fits)


def explain_misfit(calibration: Calibration, whole: Frame, run: Run) -> str:
    """Return why a calibration is not of a run's judge and traces, "" if it is.

    Raises:
        AnnotatorError: it is of another version of the rubric, or is damaged.
    """
    if calibration.rubric_sha256 != whole.rubric.sha256:
        raise AnnotatorError(
            f"the calibration is for another version of {whole.rubric.id}"
            f" ({calibration.rubric_sha256[:12]}; {run} has {whole.rubric.sha256[:12]}), by which"
            " codes mean something else: judge the labelled traces by this version, and calibrate"
            " that run"
        )
    if {*calibration.codes} != {*whole.rubric.ids}:
        raise AnnotatorError(
            f"the calibration names other codes than {whole.rubric.id} has: it was changed since it"
            " was made; make it again with annotate calibrate"
        )
    if calibration.judge_sha256 != whole.judge_sha256:
        same = (
            ", the same name but asked in another way (prompts, settings, or the versions of what"
            " shapes a request: see judge in the run.json of both)"
        )
        return (
            f"it was made for another judge, {calibration.judge}"
            f" ({calibration.judge_sha256[:12]}), and {run} was judged by {whole.judge}"
            f" ({whole.judge_sha256[:12]})" + (same if calibration.judge == whole.judge else "")
        )
    if calibration.ids_sha256 != whole.ids_sha256:
        return f"it was made on other traces than {run} judged (or the run has grown since)"
    return ""


def fit_calibration(
    run: Run,
    rubric: str,
    calibrations: Sequence[Calibration],
    cluster: Sequence[str] | None = None,
) -> tuple[Calibration, Frame, str]:
    """Return the calibration made for a run, the run's frame with the labelled traces kept, and why
    the two do not fit, "" if they do. ``cluster``: by what the frame is counted, if not as the
    calibration.

    Raises:
        AnnotatorError: as :func:`choose_calibration`, :func:`explain_misfit` and
            :func:`annotator.calibration.frame.read_frame`.
    """
    calibration = choose_calibration(calibrations, empty_frame(run, rubric))
    wanted = {trace.trace_id for trace in calibration.labelled}
    by = calibration.cluster_by if cluster is None else cluster
    frame = read_frame(run, rubric, wanted=wanted, cluster=by)
    return calibration, frame, explain_misfit(calibration, frame, run)
