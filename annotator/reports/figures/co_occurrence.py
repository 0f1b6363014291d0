"""Which codes stand in the same traces."""

from annotator.errors import AnnotatorError
from annotator.reports.figures import Drawing, Drawn
from annotator.reports.figures.matrix import Matrix
from annotator.reports.figures.style import shown, stacked
from annotator.text import one_line


def figure(source: Drawing) -> Drawn:
    """Draw a matrix for each run and rubric.

    Raises:
        AnnotatorError: no rubric allows more than one code in a trace.
    """
    if not source.together:
        raise AnnotatorError("figure: no rubric of these runs allows more than one code")
    panels = []
    for one in source.together:
        title = f"{shown(one.rubric)}  {shown(one.folder)}" if len(source.together) > 1 else ""
        below = f"Judged traces with both codes (n = {one.judged}); on the diagonal, with the code."
        if any(count is None for row in one.counts for count in row):
            below += " Hatched: the judge cannot find the code."
        below = " ".join((below, *one.notes))
        panels.append(Matrix(title, [shown(code) for code in one.codes], one.counts, below))
    names = dict.fromkeys(one.rubric for one in source.together)
    about = [
        f"{one.rubric} v{one.version} (sha256 {one.rubric_sha256})  judge"
        f" {one_line(one.judge, 120)} ({one.judge_sha256[:12]})  run {one.run}  judged {one.judged}"
        for one in source.together
    ]
    width = max(panel.width for panel in panels)
    return Drawn(stacked(panels, width), f"co-occurrence: {', '.join(names)}", about)
