"""A judge that was asked again in other ways, as tables: what changes, and which codes flip."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from annotator.base.text import format_count, sanitize_line, wrap_line, wrap_lines
from annotator.calibration.stability import (
    AGAIN,
    LEAST_TRACES,
    JudgeCheck,
    VariantResult,
)
from annotator.reports.digits import (
    UNDEFINED,
    describe_limits,
    format_limits,
    format_number,
    format_percent,
    format_points,
    format_ratio,
)
from annotator.reports.table import Table
from annotator.reports.tables.brief import fit_rows
from annotator.rubrics import NONE
from validation import Estimate

_MEANINGS = {
    AGAIN: "the same question once more; at temperature 0 only the server's own chance",
    "order": "the codes in another order",
    "layout": "the rubric after the trace instead of before it, or the reverse",
    "paraphrase": "the rubric in other words",
    "short": "a part of each trace, as a model with less context reads it",
}


def tabulate(result: JudgeCheck, *, verbose: bool = False) -> list[Table]:
    """Return a table of the variants, one of the codes, and if ``verbose`` one of both. The first
    one's document has all numbers.
    """
    tables = [_tabulate_variants(result), _tabulate_codes(result)]
    return [*tables, *([_tabulate_flips(result)] if verbose else [])]


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
    level = f"{100 * result.confidence:g} %"
    header = ("variant", "same codes", "%", level, "kappa", "beyond again", "open")
    rows = []
    for variant in result.variants:
        gap, ends = format_points(variant.beyond)
        beyond = gap if ends == UNDEFINED else f"{gap} {ends}"
        kappa = variant.agreement.kappa.value
        rows.append(
            (
                variant.name,
                format_ratio(variant.same),
                format_percent(variant.same),
                format_limits(variant.same),
                UNDEFINED if kappa is None else format_number(kappa, 2),
                beyond,
                str(variant.undecided + variant.failed),
            )
        )
    title = f"{sanitize_line(result.rubric)}, judge {sanitize_line(result.judge, 60)}"
    lines = [f"{each.name}: {_MEANINGS[each.name]}" for each in result.variants]
    return Table(
        title=f"{title}\n\n{wrap_lines(summarize(result))}",
        header=header,
        rows=rows,
        lines=["", *(wrap_line(line, "   ") for line in lines)],
        name=f"{result.rubric}-check",
        document=asdict(result),
    )


def _tabulate_codes(result: JudgeCheck) -> Table:
    codes = sorted(result.flips, key=lambda flips: (flips.code == NONE, -(flips.lost.value or 0)))
    columns = {
        "lost": [format_ratio(flips.lost) for flips in codes],
        "%": [format_percent(flips.lost) for flips in codes],
        f"{100 * result.confidence:g} % interval": [_write_limits(x.lost) for x in codes],
        "gained": [format_ratio(flips.gained) for flips in codes],
        "most in": [_find_worst(flips.code, result.variants) for flips in codes],
        "verdict": [flips.verdict or UNDEFINED for flips in codes],
    }
    header, rows = fit_rows([sanitize_line(flips.code, 64) for flips in codes], columns)
    return Table(header=header, rows=rows, notes=list(_list_notes(result)))


def _tabulate_flips(result: JudgeCheck) -> Table:
    level = f"{100 * result.confidence:g} %"
    header = ("variant", "code", "lost", "%", level, "gained", "%", level)
    rows = [
        (
            variant.name,
            sanitize_line(flips.code, 64),
            *(format_ratio(flips.lost), format_percent(flips.lost), _write_limits(flips.lost)),
            *(format_ratio(flips.gained), format_percent(flips.gained)),
            _write_limits(flips.gained),
        )
        for variant in result.variants
        for flips in variant.flips
    ]
    return Table(header=header, rows=rows, texts=2)


def _write_limits(share: Estimate) -> str:
    return format_limits(share) if share.n else UNDEFINED


def _find_worst(code: str, variants: Sequence[VariantResult]) -> str:
    """Return the variants in which a code flips most often; "-" if it flips in none."""
    counts = {
        variant.name: flips.lost.inputs["k"] + flips.gained.inputs["k"]
        for variant in variants
        for flips in variant.flips
        if flips.code == code
    }
    maximum = max(counts.values(), default=0)
    names = [name for name, n in counts.items() if n and n == maximum]
    return ", ".join(names) or UNDEFINED


def _list_notes(result: JudgeCheck) -> Iterator[str]:
    """Yield two notes, and what was left out."""
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
    lost = result.traces - result.n
    if lost:
        traces = format_count(lost, "trace")
        yield f"{traces} left out: the base or a variant failed to judge it."
    if result.tasks is None:
        yield "No trace names a task: intervals take traces as independent."
    uncut = max((variant.uncut for variant in result.variants), default=0)
    if uncut:
        yield f"{format_count(uncut, 'trace')} too short to be cut: not in the row short."
