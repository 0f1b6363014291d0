"""A judge that was asked again in other ways, as tables: what changes, and which codes flip."""

from collections.abc import Iterator
from dataclasses import asdict

from annotator.base.text import format_count, sanitize_line, wrap_line, wrap_lines
from annotator.calibration.stability import AGAIN, LEAST_TRACES, JudgeCheck
from annotator.reports.digits import (
    UNDEFINED,
    describe_limits,
    format_limits,
    format_percent,
    format_points,
    format_ratio,
    format_value,
)
from annotator.reports.table import Table
from annotator.reports.tables.brief import fit_rows
from annotator.rubrics import NONE

_MEANINGS = {
    AGAIN: "the same question once more; at temperature 0 only the server's own chance",
    "order": "the codes in another order",
    "layout": "the rubric after the trace instead of before it, or the reverse",
    "paraphrase": "the rubric in other words",
    "short": "a part of each trace, as a model with less context reads it",
}


def tabulate(result: JudgeCheck) -> list[Table]:
    """Return a table of the variants and one of the codes. The first one's document has all
    numbers.
    """
    return [_tabulate_variants(result), _tabulate_codes(result)]


def summarize(result: JudgeCheck) -> str:
    """Return the result in a sentence or two."""
    if not result.n:
        return "No trace was judged by the base and every variant: nothing can be compared."
    same = result.same
    share = f"{format_percent(same)} %{describe_limits(same)}"
    ratio = f"{same.inputs['k']} of {format_count(result.n, 'trace')}"
    text = f"In {ratio} every variant gives the same codes, {share}."
    lost = [flips for flips in result.flips if flips.lost.value and flips.code != NONE]
    if not lost:
        return f"{text} No code is lost in any variant."
    code = max(lost, key=lambda flips: (flips.lost.inputs["k"], flips.lost.value))
    of = f"{code.lost.inputs['k']} of {format_count(code.lost.n, 'trace')}"
    return f"{text} {sanitize_line(code.code, 64)} flips in {of} with it."


def _tabulate_variants(result: JudgeCheck) -> Table:
    rows = []
    for variant in result.variants:
        gap, ends = format_points(variant.beyond)
        rows.append(
            (
                variant.name,
                format_ratio(variant.same),
                format_percent(variant.same),
                format_limits(variant.same),
                format_value(variant.kappa),
                gap if ends == UNDEFINED else f"{gap} {ends}",
                str(variant.open),
            )
        )
    level = f"{100 * result.confidence:g} %"
    title = f"{sanitize_line(result.rubric)}, judge {sanitize_line(result.judge, 60)}"
    lines = [f"{each.name}: {_MEANINGS[each.name]}" for each in result.variants]
    return Table(
        title=f"{title}\n\n{wrap_lines(summarize(result))}",
        header=("variant", "same codes", "%", level, "kappa", "beyond again", "open"),
        rows=rows,
        lines=["", *(wrap_line(line, "   ") for line in lines)],
        document=asdict(result),
    )


def _tabulate_codes(result: JudgeCheck) -> Table:
    codes = sorted(result.flips, key=lambda flips: (flips.code == NONE, -(flips.lost.value or 0)))
    columns = {
        "lost": [format_ratio(flips.lost) for flips in codes],
        "%": [format_percent(flips.lost) for flips in codes],
        f"{100 * result.confidence:g} % interval": [
            format_limits(flips.lost) if flips.lost.n else UNDEFINED for flips in codes
        ],
        "gained": [format_ratio(flips.gained) for flips in codes],
        "most in": [_find_worst(flips.code, result) for flips in codes],
        "verdict": [flips.verdict or UNDEFINED for flips in codes],
    }
    header, rows = fit_rows([sanitize_line(flips.code, 64) for flips in codes], columns)
    return Table(header=header, rows=rows, notes=list(_list_notes(result)))


def _find_worst(code: str, result: JudgeCheck) -> str:
    """Return the variants in which a code flips most often; "-" if it flips in none."""
    counts = {
        variant.name: flips.lost.inputs["k"] + flips.gained.inputs["k"]
        for variant in result.variants
        for flips in variant.flips
        if flips.code == code
    }
    maximum = max(counts.values(), default=0)
    return ", ".join(name for name, n in counts.items() if n and n == maximum) or UNDEFINED


def _list_notes(result: JudgeCheck) -> Iterator[str]:
    yield (
        "lost: of the traces that have the code at first, those where some variant does not give"
        f" it; gained: the reverse. stable: lost in at most {100 * result.maximum:g} %, by the"
        f" whole {100 * result.confidence:g} % interval; -: fewer than {LEAST_TRACES} have it."
    )
    if any(variant.beyond for variant in result.variants):
        yield (
            "beyond again: percentage points of traces with other codes, less those of again. Only"
            " this is due to the change; the rest is chance."
        )
    if lost := result.traces - result.n:
        traces = format_count(lost, "trace")
        yield f"{traces} left out: the base or a variant failed to judge it."
    if result.tasks is None:
        yield "No trace names a task: intervals take traces as independent."
    if uncut := max((variant.uncut for variant in result.variants), default=0):
        yield f"{format_count(uncut, 'trace')} too short to be cut: not in the row short."
