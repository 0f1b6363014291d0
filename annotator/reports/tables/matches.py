"""Matched codes as a table."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace

from annotator.base.text import (
    Note,
    cut_names,
    format_count,
    measure,
    sanitize_line,
    wrap_line,
    wrap_lines,
)
from annotator.reports.digits import UNDEFINED, format_number
from annotator.reports.matches import CodeMatch, LoneCode, RubricMatch
from annotator.reports.notes import rank_notes, select_notes
from annotator.reports.table import Line, Table
from annotator.reports.tables.brief import LEAST_NAME, WIDTH
from validation import Estimate


def tabulate(result: RubricMatch) -> Table:
    """Return the pairs that match as rows, and all other codes in lines below them."""
    matches = result.matches
    columns = {
        "A": [str(match.first_count) for match in matches],
        "B": [str(match.second_count) for match in matches],
        "both": [str(match.both) for match in matches],
        "kappa": [format_number(match.kappa.value or 0, 2) for match in matches],
        "95 %": [_format_limits(match.kappa) for match in matches],
        "quotes": [f"{match.overlaps}/{match.first_count}" for match in matches],
    }
    if any(match.n != result.n for match in matches):
        columns = {"n": [str(match.n) for match in matches], **columns}
    rows = zip(*_list_names(matches, columns), *columns.values(), strict=True)
    notes = rank_notes(dict.fromkeys(_list_notes(result)), corrected=False)
    first, second = (sanitize_line(name, 1000) for name in (result.first, result.second))
    full = Table(
        title=f"A: {first}\nB: {second}\n\n{wrap_lines(_write_summary(result))}",
        header=("code of A", "code of B", *columns) if matches else (),
        rows=list(rows) if matches else [],
        texts=2,
        lines=[*([] if matches else [""]), *_list_lines(result)],
        notes=notes,
        below=sum(match.verdict == "open" for match in matches),
        name="rubric-diff",
        document=asdict(result),
    )
    return replace(full, brief=replace(full, notes=select_notes(notes)))


def _list_names(matches: Sequence[CodeMatch], columns: Mapping[str, Sequence[str]]) -> list[Line]:
    """Return the names of both sides, as long as the other columns allow."""
    used = sum(2 + max(map(measure, (title, *cells))) for title, cells in columns.items())
    sides = [[match.first for match in matches], [match.second for match in matches]]
    room = max(LEAST_NAME, (WIDTH - used - 2) // 2)
    return [tuple(cut_names([sanitize_line(name, 64) for name in side], room)) for side in sides]


def _format_limits(kappa: Estimate) -> str:
    if kappa.low is None or kappa.high is None:
        return UNDEFINED
    return f"[{format_number(max(kappa.low, -1.0), 2)}, {format_number(kappa.high, 2)}]"


def _write_summary(result: RubricMatch) -> str:
    verdicts = [match.verdict for match in result.matches]
    tasks = f" of {format_count(result.tasks, 'task')}" if result.tasks else ""
    text = f"On {format_count(result.n, 'trace')}{tasks} that both judged,"
    text += f" codes match in {format_count(verdicts.count('match'), 'pair')}"
    if n := verdicts.count("open"):
        text += f"; too few traces to tell: {format_count(n, 'pair')}"
    only = [sum(code.count > 0 for code in x) for x in (result.only_first, result.only_second)]
    return f"{text}. Only in A: {only[0]}, only in B: {only[1]}."


def _list_lines(result: RubricMatch) -> Iterator[str]:
    for side, codes in (("A", result.only_first), ("B", result.only_second)):
        lone = sorted((code for code in codes if code.count), key=lambda code: -code.count)
        yield from [f"Only in {side}:"] if lone else []
        yield from (wrap_line(f"  {_describe(code, side)}", "      ") for code in lone)
        if absent := [sanitize_line(code.code, 64) for code in codes if not code.count]:
            names = ", ".join(absent)
            yield wrap_line(f"In none of these traces, of {side}: {names}", "   ")


def _describe(code: LoneCode, side: str) -> str:
    text = f"{sanitize_line(code.code, 64)}  {code.count}/{code.n}"
    if code.nearest is None:
        return f"{text}  no code is near"
    name = sanitize_line(code.nearest.second if side == "A" else code.nearest.first, 64)
    kappa = code.nearest.kappa
    limits = f" {_format_limits(kappa)}" if kappa.low is not None else ""
    return f"{text}  nearest: {name}, kappa {format_number(kappa.value or 0, 2)}{limits}"


def _list_notes(result: RubricMatch) -> Iterator[str]:
    yield Note(
        "A pair matches if the interval of its kappa is above 0. Pairs are one to one. Interval"
        " '-': fewer than 10 traces have one of the codes.",
        "matches",
    )
    if result.tasks is None:
        yield Note("Intervals treat traces as independent: no trace names a task.", "independent")
    yield Note(
        "quotes: traces with A's code in which a quote of it overlaps one of B's code.",
        "quotes",
    )
    yield from result.notes
