"""What a person and a judge call the same traces."""

from collections.abc import Sequence
from dataclasses import dataclass

from annotator.calibration.correct import Calibrations, Stored, described, fitted, labelled_in
from annotator.errors import AnnotatorError
from annotator.reports.figures import Drawing, Drawn
from annotator.reports.figures.matrix import Matrix
from annotator.reports.figures.style import shown, stacked
from annotator.rubrics import NONE, Scheme
from annotator.runs.run import Run, name_runs
from annotator.text import one_line
from validation import confusion_matrix


@dataclass(frozen=True, slots=True)
class _Confusion:
    """The ``n`` labelled traces of a run: ``counts`` has the person's labels in rows, and None
    where the judge cannot find the code.
    """

    run: str
    rubric: Scheme
    stored: Stored
    counts: Sequence[Sequence[int | None]]
    n: int


def figure(source: Drawing) -> Drawn:
    """Draw a matrix for each calibrated run and rubric.

    Raises:
        AnnotatorError: there is no calibration, it was made for another judge or other traces, or a
            trace can have several codes by every rubric.
    """
    if not source.calibrations:
        raise AnnotatorError("--plot confusion needs people's labels: --calibration FILE")
    found: list[_Confusion] = []
    left = []
    for run, name in zip(source.runs, name_runs(source.runs), strict=True):
        for rubric in run.schemes.values():
            if rubric.id not in source.calibrations:
                left.append(f"{rubric.id} ({name}): not calibrated, not drawn")
            elif rubric.choice == "many":
                left.append(f"{rubric.id}: a trace can have many codes, there is no one confusion")
            else:
                found.append(_count(run, name, rubric, source.calibrations))
    if not found:
        raise AnnotatorError(
            f"--plot confusion: nothing to draw: {'; '.join(left)}; see --plot reliability"
        )
    panels = [_panel(one, alone=len(found) == 1) for one in found]
    names = dict.fromkeys(one.rubric.id for one in found)
    width = max(panel.width for panel in panels)
    about = [_about(one) for one in found]
    return Drawn(stacked(panels, width), f"confusion: {', '.join(names)}", about, left)


def _count(run: Run, name: str, rubric: Scheme, calibrations: Calibrations) -> _Confusion:
    stored, frame, why = fitted(run, rubric.id, calibrations[rubric.id])
    if why:
        raise AnnotatorError(
            f"--plot confusion: the calibration for {rubric.id} does not fit: {why}; name the run"
            " that was calibrated"
        )
    rows = labelled_in(stored, frame)
    human = [label for row in rows for label in row.human]  # one for each trace
    judge = [label for row in rows for label in row.judge]
    findable = rubric.judged | {NONE}
    counts = [
        [
            count if count or label in findable else None
            for label, count in zip(rubric.labels, row, strict=True)
        ]
        for row in confusion_matrix(human, judge, rubric.labels)
    ]
    return _Confusion(name, rubric, stored, counts, len(rows))


def _panel(one: _Confusion, *, alone: bool) -> Matrix:
    title = "" if alone else f"{shown(one.rubric.id)} v{one.rubric.version}  {shown(one.run)}"
    people = shown(", ".join(one.stored.labels.annotators))
    primary = "primary code" if one.rubric.choice == "primary" else "code"
    below = f"Labelled traces by their {primary} (n = {one.n}, labels of {people}); not weighted."
    if any(count is None for row in one.counts for count in row):
        below += " Hatched: the judge cannot find the code."
    codes = [shown(code) for code in one.rubric.labels]
    return Matrix(title, codes, one.counts, below, ("person", "judge"))


def _about(one: _Confusion) -> str:
    return (
        f"{one.rubric.id} v{one.rubric.version} (sha256 {one.rubric.sha256})  judge"
        f" {one_line(one.stored.judge, 120)} ({one.stored.judge_sha256[:12]})  run {one.stored.run}"
        f"  {one.n} labels of {', '.join(one.stored.labels.annotators)}"
        f" ({described(one.stored)}), not weighted"
    )
