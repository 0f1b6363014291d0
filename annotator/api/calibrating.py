"""Holding judges and people against people's labels."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from annotator.errors import AnnotatorError
from annotator.runs.run import Run
from annotator.text import list_names

if TYPE_CHECKING:
    from annotator.calibration.model import Calibration
    from annotator.calibration.session import Annotators, Calibrated, Request


def calibrate(
    run: Run,
    labels: str | Path | Sequence[str | Path],
    rubric: str | None = None,
    **options: Any,
) -> "Calibration":
    """Hold the judge of a run against people's labels for one rubric, as ``annotate calibrate``
    does; the look is noted beside the labels.

    ``rubric`` may be left out where the labels are for one rubric of the run. ``options``: fields
    of :class:`annotator.calibration.session.Request`, such as ``annotators`` or ``confidence``.

    Raises:
        AnnotatorError: the labels are not readable or not of this run, or a choice has to be made
            (which rubric, which annotator, which split).
    """
    from annotator.calibration.session import calibrate_run, choose_rubrics

    request = make_request(labels, rubrics=(rubric,) if rubric else (), **options)
    rubrics = choose_rubrics(run, request)
    if len(rubrics) > 1:  # before any look is noted
        raise AnnotatorError(f"the labels are for {', '.join(rubrics)}: say which with rubric=")
    [calibrated] = calibrate_run(run, request)
    return calibrated.calibration


def calibrate_rubrics(
    run: Run,
    labels: str | Path | Sequence[str | Path],
    rubrics: Sequence[str] = (),
    **options: Any,
) -> "list[Calibrated]":
    """Calibrate a run for each of its rubrics that has labels, or for those named; with each
    calibration the labels and annotations that it holds side by side. As :func:`calibrate`.
    """
    from annotator.calibration.session import calibrate_run

    return calibrate_run(run, make_request(labels, rubrics=list_names(rubrics), **options))


def compare_annotators(
    labels: str | Path | Sequence[str | Path],
    first: str,
    second: str,
    rubrics: Sequence[str] = (),
    run: Run | None = None,
    **options: Any,
) -> "list[Annotators]":
    """Hold one annotator against another, for each rubric that has labels, or for those named; no
    look is noted. ``options`` as in :func:`calibrate`; ``run`` tells the tasks of the traces.

    Raises:
        AnnotatorError: the labels are not readable, an annotator has none, they have no trace in
            common, or a rubric is not known.
    """
    from annotator.calibration import session

    request = make_request(labels, rubrics=list_names(rubrics), **options)
    return session.compare_annotators(request, first, second, run)


def make_request(labels: str | Path | Sequence[str | Path], **options: Any) -> "Request":
    """Return a request for these labels; ``options`` are its other fields."""
    from annotator.calibration.session import Request
    from annotator.labels import LabelFiles

    for option in ("annotators", "cluster"):
        if option in options:
            options[option] = list_names(options[option])
    paths = (labels,) if isinstance(labels, (str, Path)) else labels
    return Request(LabelFiles(map(Path, paths)), **options)
