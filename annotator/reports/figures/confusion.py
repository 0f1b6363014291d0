"""A matrix of the codes that a person and a judge give the same traces."""

from annotator.base.errors import AnnotatorError
from annotator.calibration.correct import fit_calibration, match_traces
from annotator.calibration.model import Calibrations
from annotator.reports.figures import FigureSource, Plot
from annotator.reports.figures.matrix import draw_matrix
from annotator.reports.figures.style import FigurePanel, escape_text, stack
from annotator.rubrics import NONE, Scheme
from annotator.runs.run import Run, name_runs
from validation import tabulate_confusion


def draw_figure(source: FigureSource) -> Plot:
    """Draw a matrix for each calibrated run and rubric, if a trace can have but one code by it."""
    if not source.calibrations:
        raise AnnotatorError("--plot confusion needs people's labels: --calibration FILE")
    selected, left_out = [], []
    for run, name in zip(source.runs, name_runs(source.runs), strict=True):
        for rubric in run.schemes.values():
            if rubric.id not in source.calibrations:
                left_out.append(f"{rubric.id} ({name}): not calibrated, not drawn")
            elif rubric.choice == "many":
                reason = "a trace can have many codes, there is no one confusion"
                left_out.append(f"{rubric.id}: {reason}")
            else:
                selected.append((run, name, rubric))
    if not selected:
        raise AnnotatorError(
            f"--plot confusion: nothing to draw: {'; '.join(left_out)}; see --plot reliability"
        )
    panels = []
    for run, name, rubric in selected:
        title = f"{escape_text(rubric.id)} v{rubric.version}  {escape_text(name)}"
        title = title if len(selected) > 1 else ""
        panels.append(_draw_panel(run, rubric, source.calibrations, title))
    return Plot(stack(panels), left_out)


def _draw_panel(run: Run, rubric: Scheme, calibrations: Calibrations, title: str) -> FigurePanel:
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
        for row in tabulate_confusion(human, judge, rubric.labels)
    ]
    people = ", ".join(calibration.labels.annotators)
    code = "primary code" if rubric.choice == "primary" else "code"
    n = f"n = {len(traces)}, labels of {escape_text(people)}"
    caption = f"Labelled traces by their {code} ({n}); not weighted."
    undecided = len(labelled) - len(traces)
    notes = [f"Undecided, not counted: {undecided}."] if undecided else []
    codes = [escape_text(label) for label in rubric.labels]
    return draw_matrix(title, codes, counts, caption, notes, sides=("person", "judge"))
