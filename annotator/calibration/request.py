"""A request to calibrate, and the answer to it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from annotator.base.errors import AnnotatorError
from annotator.calibration.model import Calibration
from annotator.labels import Label, LabelFiles
from annotator.rubrics import Scheme, load_rubric
from annotator.rubrics.annotations import Annotation
from annotator.runs.run import Run
from annotator.traces.clusters import DEFAULT_CLUSTER


@dataclass(frozen=True, slots=True)
class Request:
    """What to compare a judge with, and how.

    ``annotators``: whose labels decide, as :func:`annotator.calibration.matching.select_labels`
    says. ``against``: other runs of the same traces. ``final`` opens the test split. ``design``:
    the file that ``annotate sample`` wrote beside its last sheet; None: the one that the labels
    name, which is recorded with the run. ``ledger``: where looks are noted, if not beside the
    labels.
    """

    labels: LabelFiles
    rubrics: tuple[str, ...] = ()
    annotators: tuple[str, ...] = ()
    against: tuple[Run, ...] = ()
    cluster: tuple[str, ...] = DEFAULT_CLUSTER
    design: Path | None = None
    ledger: Path | None = None
    final: bool = False
    confidence: float = 0.95
    seed: int = 0
    population: Literal["process", "corpus"] = "process"

    def __post_init__(self) -> None:
        """Raise :class:`AnnotatorError` for a confidence in percent, say."""
        if not 0.5 <= self.confidence <= 0.9999:
            raise AnnotatorError(
                f"confidence: expected a number from 0.5 to 0.9999, found {self.confidence!r}"
            )

    def schemes(self, run: Run | None = None) -> list[Scheme]:
        """Return the rubrics that are asked for, or else those that the labels name.

        Raises:
            AnnotatorError: there is none, the labels cannot be read, or a rubric is not in the run
                or, without a run, not built in and no file.
        """
        named = self.labels.count_rubrics()
        if run is None:
            names = self.rubrics or tuple(sorted(named))
            if not names:
                raise AnnotatorError("the labels name no rubric; say which with --rubric NAME|FILE")
            return [load_rubric(name).scheme() for name in names]
        for name in self.rubrics:
            if name not in run.schemes:
                raise AnnotatorError(f"--rubric {name}: the run has only {', '.join(run.schemes)}")
        names = self.rubrics or tuple(name for name in run.schemes if name in named or not named)
        if not names:
            raise AnnotatorError(
                f"the labels are for {', '.join(sorted(named))}, the run judged by"
                f" {', '.join(run.schemes)}"
            )
        return [run.schemes[name] for name in names]


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A calibration, and by trace the labels and annotations that were compared."""

    calibration: Calibration
    labels: Mapping[str, Label]
    annotations: Mapping[str, Annotation]
