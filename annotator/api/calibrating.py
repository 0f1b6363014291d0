"""Comparing judges, and people, with people's labels."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from annotator.base.errors import AnnotatorError
from annotator.base.text import list_names
from annotator.runs.run import Run

if TYPE_CHECKING:
    from annotator.calibration.calibrate import Annotators
    from annotator.calibration.model import Calibrated, Calibration, Request
    from annotator.rubrics import Scheme


class CalibrationOptions(TypedDict, total=False):
    """Options of a calibration, as fields of :class:`annotator.calibration.model.Request`."""

    annotators: str | Sequence[str]
    against: Sequence[Run]
    cluster: str | Sequence[str]
    design: Path | None
    ledger: Path | None
    final: bool
    confidence: float
    seed: int
    population: Literal["process", "corpus"]


def calibrate(
    run: Run,
    labels: str | Path | Sequence[str | Path],
    rubric: str | None = None,
    **options: Unpack[CalibrationOptions],
) -> "Calibration":
    """Compare the judge of a run with people's labels for one rubric, as ``annotate calibrate``
    does. The ledger beside the labels records this use.

    ``rubric`` may be omitted if the labels are for one rubric of the run. ``options``: fields of
    :class:`annotator.calibration.model.Request`, such as ``annotators`` or ``confidence``.

    Raises:
        AnnotatorError: the labels are unreadable or not of this run, or several rubrics, annotators
            or splits are possible.
    """
    request = make_request(labels, rubrics=(rubric,) if rubric else (), **options)
    schemes = request.schemes(run)
    if len(schemes) > 1:
        names = ", ".join(scheme.id for scheme in schemes)
        raise AnnotatorError(f"the labels are for {names}: say which with rubric=")
    return _calibrate(run, request, schemes)[0].calibration


def calibrate_rubrics(
    run: Run,
    labels: str | Path | Sequence[str | Path],
    rubrics: Sequence[str] = (),
    **options: Unpack[CalibrationOptions],
) -> "list[Calibrated]":
    """Calibrate a run for each rubric with labels, or for those named, as :func:`calibrate` does;
    return each calibration with the labels and annotations that it compares.
    """
    request = make_request(labels, rubrics=list_names(rubrics), **options)
    return _calibrate(run, request, request.schemes(run))


def _calibrate(run: Run, request: "Request", schemes: "list[Scheme]") -> "list[Calibrated]":
    from annotator.calibration.calibrate import run_calibration
    from annotator.calibration.ledger import record_look

    calibrated = [run_calibration(run, scheme.id, request) for scheme in schemes]
    # Recorded only after the labels of all rubrics fit.
    return [record_look(run, each, request) for each in calibrated]


def compare_annotators(
    labels: str | Path | Sequence[str | Path],
    first: str,
    second: str,
    rubrics: Sequence[str] = (),
    run: Run | None = None,
    **options: Unpack[CalibrationOptions],
) -> "list[Annotators]":
    """Compare one annotator with another, for each rubric with labels, or for those named; the
    ledger does not record it. ``options`` as in :func:`calibrate`; ``run`` has the tasks of the
    traces.

    Raises:
        AnnotatorError: the labels are unreadable, an annotator has none, they have no trace in
            common, or a rubric is unknown.
    """
    from annotator.calibration import calibrate

    request = make_request(labels, rubrics=list_names(rubrics), **options)
    return [
        calibrate.compare_annotators(scheme, request, first, second, run)
        for scheme in request.schemes(run)
    ]


def make_request(labels: str | Path | Sequence[str | Path], **options: Any) -> "Request":
    """Return a request for these labels; ``options`` are its other fields."""
    from annotator.calibration.model import Request
    from annotator.labels import LabelFiles

    for option in ("annotators", "cluster"):
        if option in options:
            options[option] = list_names(options[option])
    paths = (labels,) if isinstance(labels, (str, Path)) else labels
    return Request(LabelFiles(map(Path, paths)), **options)
