"""Conditions side by side as tables: codes down, conditions across; and every two of them."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from annotator.base.text import cut_middle, sanitize_line, wrap_line, wrap_lines
from annotator.reports.comparison import GroupComparison
from annotator.reports.conditions import (
    UNADJUSTED,
    ConditionComparison,
    ConditionRow,
    PairDifference,
)
from annotator.reports.digits import (
    UNDEFINED,
    Share,
    find_limits,
    format_limits,
    format_number,
    format_p,
    format_percent,
    format_points,
)
from annotator.reports.notes import rank_notes, select_notes
from annotator.reports.table import (
    Column,
    Line,
    Table,
    flatten,
    make_columns,
    name_judge,
    name_rubric,
)
from annotator.reports.tables.brief import (
    WIDTH,
    round_percent,
)
from annotator.rubrics import NONE
from validation import Test

_NARROWEST = 6  # columns of a share
_LONGEST_CODE = 24  # before its middle is left out
_FIRST = ("corrected", "few-labels")  # notes
_PAIRS = 10  # that a terminal shows
WITHOUT_CODE = "The share of traces without a code differs:"
_INTERVALS = "Every share with its interval: -v"

# One row for each code and condition; for each code and pair of conditions in the other table.
_COLUMNS = (
    *make_columns("rubric rubric_sha256 judges attribute kind row code condition other count n"),
    *make_columns("value low high method confidence"),
    *(Column("test", "test_name"), Column("p", "test_p"), Column("p_holm", "adjusted")),
    *make_columns("corrected_value corrected_low corrected_high corrected_method runs notes"),
)


def tabulate_conditions(compared: ConditionComparison) -> list[Table]:
    """Return the table of the conditions, and that of their pairs if they were compared. The
    records hold shares; cells hold percent, or percentage points.
    """
    return [_make_table(compared), *([_make_pairs(compared)] if compared.pairs else [])]


def _make_table(compared: ConditionComparison) -> Table:
    rows = (*compared.rows, *compared.code_groups)
    title = f"{_write_title(compared)}; {compared.kind}, Holm over {compared.tests} tests"
    names = [f"{sanitize_line(value, 60)} (n={n})" for value, n in _list_sizes(compared)]
    corrected = any(row.corrected for row in rows)
    blocks: tuple[int, ...] = (len(names) + 2,)
    header = (*names, "p", "p (Holm)")
    if corrected:
        header = (*(f"{name} judged" for name in names), "judged p", "judged p (Holm)")
        header += tuple(f"{name} corrected" for name in names)
        blocks += (len(names),)
    about = _describe(compared)
    table = Table(
        title=title,
        header=("code", *header),
        blocks=blocks,
        rows=[_write_cells(row) for row in rows],
        notes=compared.notes,
        last=any(row.code == NONE for row in compared.rows),
        below=len(compared.code_groups),
        caption=f"{title}; percent, {100 * compared.confidence:g} % intervals.",
        name=f"{compared.rubric.id}-{compared.attribute}",
        records=[about | record for row in rows for record in _make_records(row, compared)],
        columns=_COLUMNS,
        document=asdict(compared) | _identify(compared),
    )
    return replace(table, brief=_make_brief(compared, table))


def _identify(compared: ConditionComparison) -> dict[str, Any]:
    judges = [{"judge": judge, "judge_sha256": sha256} for judge, sha256 in compared.judges]
    return {
        "rubric": compared.rubric.id,
        "rubric_sha256": compared.rubric.sha256,
        "judges": judges,
    }


def _describe(compared: ConditionComparison) -> dict[str, Any]:
    """Return the fields of every record."""
    fields = {key: getattr(compared, key) for key in ("attribute", "kind", "confidence", "runs")}
    judges = [f"{judge} {sha256}" for judge, sha256 in compared.judges]
    return {
        **_identify(compared),
        **fields,
        "judges": judges,
        "notes": "\n".join(compared.notes),
    }


def _make_records(row: ConditionRow, compared: ConditionComparison) -> list[dict[str, Any]]:
    records = []
    for n, (value, share) in enumerate(zip(compared.values, row.shares, strict=True)):
        record: dict[str, Any] = {
            "row": "share",
            "code": row.code,
            "condition": value,
            "count": share.k,
        }
        record |= asdict(share) | {"adjusted": row.adjusted}
        record |= flatten({"test": asdict(row.test)})
        if row.corrected:
            record |= flatten({"corrected": asdict(row.corrected[n])})
        records.append(record)
    return records


def _list_sizes(compared: ConditionComparison) -> list[tuple[str, int]]:
    return list(zip(compared.values, compared.n, strict=True))


def _write_title(compared: ConditionComparison) -> str:
    sides = ", ".join(f"{sanitize_line(value, 80)} (n={n})" for value, n in _list_sizes(compared))
    rubric = compared.rubric
    judges = ", ".join(name_judge(judge, sha256) for judge, sha256 in compared.judges)
    return (
        f"{name_rubric(rubric.id, rubric.version, rubric.sha256)}"
        f"  judge {judges}  by {sanitize_line(compared.attribute, 60)}: {sides}"
    )


def _write_cells(row: ConditionRow) -> Line:
    judged, corrected = (map(write_share, shares) for shares in (row.shares, row.corrected))
    p = format_p(row.test.p), format_p(row.adjusted)
    return (sanitize_line(row.code, 64), *judged, *p, *corrected)


def write_share(share: Share | None) -> str:
    """Return a share in percent with its interval: ``41.2 [19.8, 63.0]``."""
    limits = format_limits(share)
    value = format_percent(share)
    return value if limits == UNDEFINED else f"{value} {limits}"


def _make_brief(compared: ConditionComparison, full: Table) -> Table:
    """Return the table for a terminal: whole percent, and as much of it as 80 columns hold."""
    codes = [row for row in compared.rows if row.code != NONE]
    none = [row for row in compared.rows if row.code == NONE]
    rows = [*sorted(codes, key=_find_largest, reverse=True), *none]
    rows += sorted(compared.code_groups, key=_find_largest, reverse=True)
    p = [format_p(row.adjusted) for row in rows]
    corrected = any(row.corrected for row in rows)
    p_name = "judged p" if corrected else "p (Holm)"
    longest = min(max([len(row.code) for row in rows], default=0), _LONGEST_CODE)
    room = WIDTH - 2 - max(map(len, (p_name, *p))) - longest
    each = room // len(compared.values) - 2
    intervals = False  # whether the intervals are there
    if each < _NARROWEST:
        names = ["lowest", "in", "highest", "in"]
        cells = [_find_extremes(row, compared.values, room // 2 - 10) for row in rows]
    else:
        names = name_columns(compared.values, each)
        cells = [[round_share(share) for share in _choose_shares(row)] for row in rows]
        intervals = max((len(cell) for line in cells for cell in line), default=0) <= each
        if not intervals:
            cells = [[format_percent(share) for share in _choose_shares(row)] for row in rows]
    columns = [list(column) for column in zip(names, *cells, strict=True)]
    used = sum(2 + max(map(len, column)) for column in [*columns, [p_name, *p]])
    codes_ = [cut_middle(sanitize_line(row.code, 64), WIDTH - used) for row in rows]
    head = write_head(compared, compared.values, names)
    return replace(
        full,
        title=f"{head}\n\n{wrap_lines(_summarize(compared))}",
        header=("code", *names, p_name) if rows else (),
        rows=[(code, *line, end) for code, line, end in zip(codes_, cells, p, strict=True)],
        lines=wrap_line(
            _explain_cells(compared, corrected=corrected, intervals=intervals), ""
        ).split("\n")
        if rows
        else (),
        notes=[
            *select_notes(rank_comparison_notes(compared.notes)),
            *([] if intervals or not rows else [_INTERVALS]),
        ],
        records=(),
        brief=None,
    )


def _explain_cells(compared: ConditionComparison, *, corrected: bool, intervals: bool) -> str:
    whose = ", corrected by the labels" if corrected else ""
    p = "p tests the judge's own shares and" if corrected else "p"
    if not intervals:
        return f"Percent{whose}; {p} is adjusted for the number of tests (Holm)."
    return (
        f"Percent{whose}, with {100 * compared.confidence:g} % intervals, not adjusted for the"
        f" number of tests; {p} is adjusted (Holm)."
    )


def rank_comparison_notes(notes: Sequence[str], first_ids: Sequence[str] = _FIRST) -> list[str]:
    """Return the notes without the one that the lines below the rows say; beside corrected shares
    first what they and the p are, and their labels.
    """
    ranked = [x for x in rank_notes(notes, corrected=False) if not _is_kind(x, UNADJUSTED.id)]
    first = [note for id_ in first_ids for note in ranked if _is_kind(note, id_)]
    return [*first, *(note for note in ranked if note not in first)]


def _is_kind(note: str, id_: str) -> bool:
    return getattr(note, "id", "") == id_


def name_columns(values: Sequence[str], room: int) -> list[str]:
    """Return names of columns that fit, or numbers if shorter names are not unique."""
    names = [cut_middle(sanitize_line(value, 60), max(room, _NARROWEST)) for value in values]
    if len(set(names)) < len(names):
        return [str(n) for n in range(1, len(values) + 1)]
    return names


def write_head(
    compared: ConditionComparison | GroupComparison, values: Sequence[str], names: Sequence[str]
) -> str:
    """Return rubric, judges, and each condition with its size."""
    judges = ", ".join(dict.fromkeys(sanitize_line(judge, 60) for judge, _ in compared.judges))
    numbered = names[0] == "1"
    sides = [
        f"{f'{n} ' if numbered else ''}{sanitize_line(value, 60)} (n={size})"
        for n, (value, size) in enumerate(zip(values, compared.n, strict=True), 1)
    ]
    rubric = f"{sanitize_line(compared.rubric.id)} v{compared.rubric.version}"
    by = sanitize_line(compared.attribute, 40)
    return wrap_lines(f"{rubric}, judge {judges}, by {by}: {', '.join(sides)}")


def _choose_shares(row: ConditionRow) -> Sequence[Share]:
    return row.corrected or row.shares


def _find_largest(row: ConditionRow) -> float:
    return max((share.value or 0.0 for share in _choose_shares(row)), default=0.0)


def round_share(share: Share | None) -> str:
    """Return a share with its interval in whole percent: ``33 [20, 49]``."""
    if share is None or share.value is None:
        return UNDEFINED
    ends = find_limits(share)
    limits = " [{}, {}]".format(*(format_number(100 * end, 0) for end in ends)) if ends else ""
    return f"{round_percent(share.value)}{limits}"


def _find_extremes(row: ConditionRow, values: Sequence[str], room: int) -> list[str]:
    """Return the lowest and the highest share, each with its condition or their number."""
    shares = [share.value for share in _choose_shares(row)]
    present = [share for share in shares if share is not None]
    if not present:
        return [UNDEFINED] * 4
    cells = []
    for end in (min(present), max(present)):
        name = cut_middle(sanitize_line(values[shares.index(end)], 60), room)
        count = shares.count(end)
        cells += [format_number(100 * end, 1), name if count == 1 else f"{count} values"]
    return cells


def _summarize(compared: ConditionComparison) -> str:
    """Return the result in a sentence: the code that differs most, by its p."""
    count = f"{len(compared.values)} values of {sanitize_line(compared.attribute, 40)}"
    tested = [row for row in compared.rows if row.adjusted is not None and row.code != NONE]
    if not tested:
        why = explain_untested([row.test for row in compared.rows], "condition")
        return f"No code can be tested among the {count}: {why}."
    top = min(tested, key=lambda row: (row.test.p or 0.0, -_measure_gap(row)))
    whose = "By the judge alone, among" if any(row.corrected for row in compared.rows) else "Among"
    p = f"p {format_relation(top.adjusted)} (Holm over {compared.tests} tests)"
    limit = 1 - compared.confidence
    if (top.adjusted or 0.0) < limit:
        return f"{whose} the {count}, {top.code} differs most: {_write_gap(top, compared)}, {p}."
    text = (
        f"{whose} the {count}, no code differs beyond chance; the smallest p is that of {top.code}:"
        f" {_write_gap(top, compared)}, {p}."
    )
    for row in compared.rows:
        if row.code == NONE and row.adjusted is not None and row.adjusted < limit:
            p = f"p {format_relation(row.adjusted)}"
            text += f" {WITHOUT_CODE} {_write_gap(row, compared)}, {p}."
    return text


def explain_untested(tests: Sequence[Test | None], side: str = "side") -> str:
    """Return why none of the tests has a p."""
    reasons = dict.fromkeys(test.reason for test in tests if test and test.reason)
    text = "; ".join(filter(None, reasons)).replace("cluster", "task").replace("item", "trace")
    return (
        text.replace("of either side ", "").replace("side", side)
        or "a judge cannot find them, or only reports what it recognises"
    )


def format_relation(p: float | None) -> str:
    """Return a p with its sign: ``= 0.0123``, or ``< .0001``."""
    text = format_p(p)
    return f"< {text[1:]}" if text.startswith("<") else f"= {text}"


def _measure_gap(row: ConditionRow) -> float:
    values = [share.value or 0.0 for share in row.shares]
    return max(values) - min(values)


def _write_gap(row: ConditionRow, compared: ConditionComparison) -> str:
    shares = [(share.value or 0.0, n) for n, share in enumerate(row.shares)]
    ends = [
        f"{round_percent(share)} % ({sanitize_line(compared.values[n], 40)})"
        for share, n in (min(shares), max(shares))
    ]
    return " to ".join(ends)


def _make_pairs(compared: ConditionComparison) -> Table:
    level = f"{100 * compared.confidence:g} % interval"
    tests = sum(pair.adjusted is not None for pair in compared.pairs)
    corrected = any(row.corrected for row in compared.rows)
    whose = ", by the judge alone" if corrected else ""
    title = f"{_write_title(compared)}; every two{whose}, Holm over {tests} tests"
    about = _describe(compared)
    table = Table(
        title=title,
        header=("code: first - second", "difference", level, "p", "p (Holm)"),
        rows=[_write_pair(pair) for pair in compared.pairs],
        notes=compared.notes,
        caption=f"{title}; differences in percentage points.",
        name=f"{compared.rubric.id}-{compared.attribute}-pairs",
        records=[about | _make_pair_record(pair) for pair in compared.pairs],
        columns=_COLUMNS,
        document={
            **_identify(compared),
            **{"attribute": compared.attribute, "tests": tests},
            "pairs": [asdict(pair) for pair in compared.pairs],
        },
    )
    ranked = sorted(compared.pairs, key=lambda pair: 2.0 if pair.test.p is None else pair.test.p)
    lines = [_write_pair(pair) for pair in ranked[:_PAIRS]]
    names = [_name_pair(pair) for pair in ranked[:_PAIRS]]
    beyond = sum((pair.adjusted or 1.0) < 1 - compared.confidence for pair in compared.pairs)
    result = "no difference can be tested"
    if tests:
        result = f"{beyond} of {tests} differences that can be tested are beyond chance"
    visible = min(_PAIRS, len(ranked))
    text = (
        f"{visible} of {len(ranked)} differences in percentage points, the smallest p first"
        f"{'; all: -v' if visible < len(ranked) else ''}."
    )
    if untested := len(ranked) - tests:
        text += f" {untested} of the {len(ranked)} cannot be tested: p is -."
    text += " Intervals are not adjusted for the number of tests; p is."
    brief = replace(
        table,
        title=wrap_lines(
            f"Every two of the {len(compared.values)} values of"
            f" {sanitize_line(compared.attribute, 40)}{whose}: {result}."
        ),
        header=("code: first - second", "difference", level, "p (Holm)"),
        rows=[(name, *line[1:3], line[4]) for name, line in zip(names, lines, strict=True)],
        lines=["", *wrap_line(text, "").split("\n")],
        notes=(),
        records=(),
    )
    return replace(table, brief=brief)


def _name_pair(pair: PairDifference) -> str:
    """Return a code and its two conditions in 42 columns."""
    sides = [cut_middle(sanitize_line(side, 60), 10) for side in (pair.first, pair.second)]
    room = 37 - sum(map(len, sides))
    return f"{cut_middle(sanitize_line(pair.code, 64), room)}: {' - '.join(sides)}"


def _write_pair(pair: PairDifference) -> Line:
    name = sanitize_line(f"{pair.code}: {pair.first} - {pair.second}", 120)
    points = format_points(pair.difference)
    return (name, *points, format_p(pair.test.p), format_p(pair.adjusted))


def _make_pair_record(pair: PairDifference) -> dict[str, Any]:
    record: dict[str, Any] = {"row": "pair", "code": pair.code, "condition": pair.first}
    record |= {"other": pair.second, "adjusted": pair.adjusted}
    return record | asdict(pair.difference) | flatten({"test": asdict(pair.test)})
