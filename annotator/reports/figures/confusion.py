"""What a person and a judge call the same traces."""

from collections.abc import Sequence
from dataclasses import dataclass

from annotator.calibration.correct import describe_labels, match_traces
from annotator.calibration.fit import fit_calibration
from annotator.calibration.model import Calibration, Calibrations
from annotator.errors import AnnotatorError
from annotator.reports.figures import FigureSource, Plot
from annotator.reports.figures.matrix import Matrix
from annotator.reports.figures.style import stack, to_glyphs
from annotator.reports.headings import name_judge
from annotator.rubrics import NONE, Scheme
from annotator.runs.run import Run, name_runs
from validation import confusion_matrix


@dataclass(frozen=True, slots=True)
class _Confusion:
    """The ``n`` labelled traces that the judge decided, and the number of ``open`` ones.
    ``counts`` has the person's labels in rows, and None where the judge cannot find the code.
    """

    run: str
    rubric: Scheme
    calibration: Calibration
    counts: Sequence[Sequence[int | None]]
    n: int
    open: int


def figure(source: FigureSource) -> Plot:
    """Draw a matrix for each calibrated run and rubric.

    Raises:
        AnnotatorError: there is no calibration, it was made for another judge or other traces, or a
            trace can have several codes by every rubric.
    """
    if not source.calibrations:
        raise AnnotatorError("--plot confusion needs people's labels: --calibration FILE")
    confusions: list[_Confusion] = []
    left_out = []
    for run, name in zip(source.runs, name_runs(source.runs), strict=True):
        for rubric in run.schemes.values():
            if rubric.id not in source.calibrations:
                left_out.append(f"{rubric.id} ({name}): not calibrated, not drawn")
            elif rubric.choice == "many":
                reason = "a trace can have many codes, there is no one confusion"
                left_out.append(f"{rubric.id}: {reason}")
            else:
                confusions.append(_count(run, name, rubric, source.calibrations))
    if not confusions:
        raise AnnotatorError(
            f"--plot confusion: nothing to draw: {'; '.join(left_out)}; see --plot reliability"
        )
    panels = [_panel(confusion, alone=len(confusions) == 1) for confusion in confusions]
    names = dict.fromkeys(confusion.rubric.id for confusion in confusions)
    about = [_about(confusion) for confusion in confusions]
    return Plot(stack(panels), f"confusion: {', '.join(names)}", about, left_out)


def _count(run: Run, name: str, rubric: Scheme, calibrations: Calibrations) -> _Confusion:
    calibration, frame, reason = fit_calibration(run, rubric.id, calibrations[rubric.id])
    if reason:
        raise AnnotatorError(
            f"--plot confusion: the calibration for {rubric.id} does not fit: {reason}; name the"
            " run that was calibrated"
        )
    labelled = match_traces(calibration, frame)
    traces = [trace for trace in labelled if trace.decided]
    human = [label for trace in traces for label in trace.counted.human]  # one for each trace
    judge = [label for trace in traces for label in trace.counted.judge]
    findable = rubric.judged | {NONE}
    counts = [
        [
            count if count or label in findable else None
            for label, count in zip(rubric.labels, row, strict=True)
        ]
        for row in confusion_matrix(human, judge, rubric.labels)
    ]
    return _Confusion(name, rubric, calibration, counts, len(traces), len(labelled) - len(traces))


def _panel(confusion: _Confusion, *, alone: bool) -> Matrix:
    rubric = confusion.rubric
    title = "" if alone else f"{to_glyphs(rubric.id)} v{rubric.version}  {to_glyphs(confusion.run)}"
    people = to_glyphs(", ".join(confusion.calibration.labels.annotators))
    code = "primary code" if rubric.choice == "primary" else "code"
    n = f"n = {confusion.n}, labels of {people}"
    below = f"Labelled traces by their {code} ({n}); not weighted."
    codes = [to_glyphs(label) for label in rubric.labels]
    notes = [f"Undecided, not counted: {confusion.open}."] if confusion.open else []
    return Matrix(title, codes, confusion.counts, below, notes, sides=("person", "judge"))


def _about(confusion: _Confusion) -> str:
    rubric, calibration = confusion.rubric, confusion.calibration
    return (
        f"{rubric.id} v{rubric.version} (sha256 {rubric.sha256})"
        f"  judge {name_judge(calibration.judge, calibration.judge_sha256)}  run {calibration.run}"
        f"  {confusion.n} labels of {', '.join(calibration.labels.annotators)}"
        f" ({describe_labels(calibration)}), not weighted"
    )
