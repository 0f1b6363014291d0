"""A matrix of the codes in the same traces."""

from annotator.base.errors import AnnotatorError
from annotator.reports.figures import FigureSource, Plot
from annotator.reports.figures.matrix import draw_matrix
from annotator.reports.figures.style import escape_text, stack


def draw_figure(source: FigureSource) -> Plot:
    """Draw a matrix for each run and rubric."""
    if not source.co_occurrences:
        raise AnnotatorError("figure: no rubric of these runs allows more than one code")
    panels = []
    for pairs in source.co_occurrences:
        title = f"{escape_text(pairs.rubric)}  {escape_text(pairs.folder)}"
        title = title if len(source.co_occurrences) > 1 else ""
        caption = (
            f"Judged traces with both codes (n = {pairs.judged}); on the diagonal, with the code."
        )
        codes = [escape_text(code) for code in pairs.codes]
        panels.append(draw_matrix(title, codes, pairs.counts, caption, pairs.notes))
    return Plot(stack(panels))
