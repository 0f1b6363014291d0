"""Comparisons as tables: codes down, conditions across; and every two of many conditions."""

import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from annotator.base.text import cut_middle, format_count, sanitize_line, wrap_line, wrap_lines
from annotator.reports.comparison import ComparedCode, ConditionComparison, PairDifference
from annotator.reports.comparison_notes import UNADJUSTED
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
from annotator.reports.table import Line, Table, flatten, name_judge, name_rubric
from annotator.reports.tables.brief import LEAST_NAME, WIDTH, round_percent
from annotator.rubrics import NONE
from validation import Estimate

_LONGEST_SIDE = 13  # of two names that head columns
_NARROWEST = 6  # columns of a share
_LONGEST_CODE = 24  # before its middle is left out
_PAIRS = 10  # that a terminal shows
_PAPER = 3  # notes
_OPTION = re.compile(r" \([^()]*--[a-z][^()]*\)")
_SMALLEST = "corrected smallest p (Holm)"  # of a code's differences
_INTERVALS = "Every share with its interval: -v"

# One row for each code and condition, or pair of conditions.
_COLUMNS = """
    rubric rubric_sha256 judges attribute kind row code condition other count n value low high
    method confidence test p p_holm corrected_value corrected_low corrected_high corrected_method
    corrected_p corrected_p_holm runs notes
"""


def tabulate(comparisons: Sequence[ConditionComparison]) -> list[Table]:
    """Return comparisons as tables, in percent; their records hold shares, not in percent."""
    tables: list[Table] = []
    for compared in comparisons:
        tables.append(_make_table(compared))
        tables += [_make_pairs(compared)] if compared.all_pairs else []
    return tables


def _make_table(compared: ConditionComparison) -> Table:
    title = f"{_write_title(compared)}; {compared.kind}, Holm over {compared.tests} tests"
    if compared.corrected:
        title += f" of the judge's own shares and {compared.corrected_tests} of corrected ones"
    header, rows = _write_rows(compared)
    unit = "percent and percentage points" if compared.two else "percent"
    name = [compared.rubric.id, compared.attribute, *(compared.values if compared.two else ())]
    all_rows = (*compared.rows, *compared.code_groups)
    table = Table(
        title=title,
        header=header,
        rows=rows,
        notes=compared.notes,
        last=any(row.code == NONE for row in compared.rows),
        below=len(compared.code_groups),
        caption=f"{title}; {unit}, {100 * compared.confidence:g} % intervals.",
        name="-".join(name),
        paper=_select_paper_notes(compared),
        records=[record for row in all_rows for record in _make_records(row, compared)],
        columns=_COLUMNS.split(),
        document=_make_document(compared),
    )
    return replace(table, brief=_make_brief(compared, table))


# For machines


def _make_document(compared: ConditionComparison) -> dict[str, Any]:
    names = ("attribute", "values", "kind", "n", "alone", "confidence", "tests", "corrected_tests")
    return {
        **_identify(compared),
        **{name: getattr(compared, name) for name in (*names, "notes", "runs")},
        "rows": [asdict(row) for row in compared.rows],
        "code_groups": [asdict(row) for row in compared.code_groups],
        "pairs": _describe_pairs(compared),
    }


def _identify(compared: ConditionComparison) -> dict[str, Any]:
    judges = [{"judge": judge, "judge_sha256": sha256} for judge, sha256 in compared.judges]
    rubric = compared.rubric
    return {"rubric": rubric.id, "rubric_sha256": rubric.sha256, "judges": judges}


def _describe(compared: ConditionComparison) -> dict[str, Any]:
    """Return the fields of every record."""
    names = ("attribute", "kind", "confidence", "runs")
    judges = [f"{judge} {sha256}" for judge, sha256 in compared.judges]
    fields = {name: getattr(compared, name) for name in names}
    return _identify(compared) | fields | {"judges": judges, "notes": "\n".join(compared.notes)}


def _make_records(row: ComparedCode, compared: ConditionComparison) -> list[dict[str, Any]]:
    about = _describe(compared)
    records = []
    test = {"test": row.test.name, "p": row.test.p, "p_holm": row.adjusted}
    for n, (value, share) in enumerate(zip(compared.values, row.shares, strict=True)):
        record = about | {"row": "share", "code": row.code, "condition": value, "count": share.k}
        record |= asdict(share) | test | {"corrected_p_holm": row.corrected_adjusted}
        if row.corrected:
            record |= flatten({"corrected": asdict(row.corrected[n])})
        records.append(record)
    if row.difference:
        first, second = compared.values
        pair = PairDifference(row.code, first, second, row.difference, row.test, row.adjusted)
        corrected = None
        if (gap := row.corrected_difference) and (tested := row.corrected_test):
            corrected = replace(pair, difference=gap, test=tested, adjusted=row.corrected_adjusted)
        records.append(about | _make_pair_record(pair, corrected))
    return records


def _make_pair_record(
    pair: PairDifference | None, corrected: PairDifference | None
) -> dict[str, Any]:
    """Return the record of the judge's own difference, of the corrected one, or of both."""
    record: dict[str, Any] = {"row": "pair"}
    for prefix, each in (("corrected_", corrected), ("", pair)):
        if each:
            record |= {"code": each.code, "condition": each.first, "other": each.second}
            test = {"test": each.test.name, "p": each.test.p, "p_holm": each.adjusted}
            record |= {"n": each.difference.n} | flatten(asdict(each.difference) | test, prefix)
    return record


# All columns


def _write_title(compared: ConditionComparison) -> str:
    sizes = _name_sides(compared, 80)
    if compared.two:
        sizes = [f"first {sizes[0]}", f"second {sizes[1]}"]
    rubric = compared.rubric
    judges = ", ".join(name_judge(judge, sha256) for judge, sha256 in compared.judges)
    return (
        f"{name_rubric(rubric.id, rubric.version, rubric.sha256)}"
        f"  judge {judges}  by {sanitize_line(compared.attribute, 60)}: {', '.join(sizes)}"
    )


def _name_sides(compared: ConditionComparison, limit: int) -> list[str]:
    sizes = zip(compared.values, compared.n, strict=True)
    return [f"{sanitize_line(value, limit)} (n={n})" for value, n in sizes]


def _write_rows(compared: ConditionComparison) -> tuple[Line, list[Line]]:
    """Return the heading and the rows as text."""
    sides = _name_sides(compared, 60)
    gaps = [*(["difference"] if compared.two else ()), "p", "p (Holm)"]
    rows = []
    for row in (*compared.rows, *compared.code_groups):
        cells = [sanitize_line(row.code, 64), *map(_write_side, row.shares)]
        cells += [_join(*format_points(row.difference))] if compared.two else []
        cells += [format_p(row.test.p), format_p(row.adjusted)]
        cells += map(_write_share, row.corrected)
        if row.corrected_test:
            cells.append(_join(*format_points(row.corrected_difference)))
            cells.append(format_p(row.corrected_test.p))
        cells += [format_p(row.corrected_adjusted)] if compared.corrected else []
        rows.append(tuple(cells))
    if not compared.corrected:
        return ("code", *sides, *gaps), rows
    header = ["code", *(f"{side} judged" for side in sides), *(f"judged {name}" for name in gaps)]
    header += [f"{side} corrected" for side in sides]
    header += [f"corrected {name}" for name in gaps] if compared.two else [_SMALLEST]
    return tuple(header), rows


def _write_side(share: Share) -> str:
    """Return a share with its interval, or the count of what a judge cannot rule out."""
    k = getattr(share, "k", 0)
    return f"{k}/{share.n}" if share.value is None and k else _write_share(share)


def _write_share(share: Share) -> str:
    """Return a share in percent with its interval: ``41.2 [19.8, 63.0]``."""
    return _join(format_percent(share), format_limits(share))


def _join(value: str, limits: str) -> str:
    return value if limits == UNDEFINED else f"{value} {limits}"


# For a terminal of 80 columns


def _make_brief(compared: ConditionComparison, full: Table) -> Table:
    """Return the table for a terminal: whole percent, the largest share first, in 80 columns."""
    codes = [row for row in compared.rows if row.code != NONE]
    none = [row for row in compared.rows if row.code == NONE]
    rows = [*sorted(codes, key=_find_largest, reverse=True), *none]
    rows += sorted(compared.code_groups, key=_find_largest, reverse=True)
    ends = {"difference": [round_points(_get_gap(row)) for row in rows]} if compared.two else {}
    adjusted = [row.corrected_adjusted if compared.corrected else row.adjusted for row in rows]
    ends["p (Holm)"] = list(map(format_p, adjusted))
    shares = [[_round_share(share) for share in _choose_shares(row)] for row in rows]
    room = WIDTH - sum(2 + max(map(len, (name, *cells))) for name, cells in ends.items())
    room -= min(max([len(row.code) for row in rows], default=0), _LONGEST_CODE)
    each = _LONGEST_SIDE if compared.two else room // len(compared.values) - 2
    intervals = compared.two or max((len(x) for line in shares for x in line), default=0) <= each
    if not intervals:
        shares = [[format_percent(share) for share in _choose_shares(row)] for row in rows]
    names = _name_columns(compared.values, each)
    if each < _NARROWEST:
        names, intervals = ["lowest", "in", "highest", "in"], False
        shares = [_find_extremes(row, compared.values, room // 2 - 10) for row in rows]
    columns = [[name, *cells] for name, *cells in zip(names, *shares, strict=True)]
    columns += [[name, *cells] for name, cells in ends.items()]
    used = sum(2 + max(map(len, column)) for column in columns)
    room = max(LEAST_NAME, WIDTH - used) if compared.two else WIDTH - used
    column = ["code", *(cut_middle(sanitize_line(row.code, 64), room) for row in rows)]
    header, *lines = zip(column, *columns, strict=True)
    first = ["too-few-labels", "few-labels", "sums"] if compared.corrected else []
    first = ["alone", *first, "corrected"] if compared.two else first
    return replace(
        full,
        title=f"{_write_head(compared, names)}\n\n{wrap_lines(summarize(compared))}",
        header=header if rows else (),
        rows=lines,
        lines=wrap_line(explain_cells(compared, intervals), "").split("\n") if rows else (),
        notes=[
            *select_notes(_rank_notes(compared.notes, first)),
            *([] if intervals or not rows else [_INTERVALS]),
        ],
        records=(),
        brief=None,
    )


def explain_cells(compared: ConditionComparison, intervals: bool) -> str:
    """Return what the cells hold, and what is adjusted for the number of tests."""
    level = f"{100 * compared.confidence:g} %"
    if compared.two:
        text = "Percent and percentage points"
        if compared.corrected:
            text += "; shares, differences and p are corrected by the labels"
        return f"{text}. Intervals ({level}) are not adjusted for the number of tests; p is."
    whose, p, more = "", "p", ""
    if compared.corrected:
        whose = ", corrected by the labels"
        p = "p, of the two conditions that differ most,"
        more = " The judge's own shares and p: --no-calibration."
    if not intervals:
        return f"Percent{whose}; {p} is adjusted for the number of tests (Holm).{more}"
    return (
        f"Percent{whose}, with {level} intervals, not adjusted for the number of tests; {p} is"
        f" adjusted (Holm).{more}"
    )


def _rank_notes(notes: Sequence[str], first_ids: Sequence[str]) -> list[str]:
    """Return the notes, ``first_ids`` first, without the one that the lines below the rows have."""
    ranked = [note for note in rank_notes(notes, corrected=False) if note != UNADJUSTED]
    first = [note for id_ in first_ids for note in ranked if getattr(note, "id", "") == id_]
    return [*first, *(note for note in ranked if note not in first)]


def _select_paper_notes(compared: ConditionComparison) -> list[str]:
    """Return the notes that a reader of a paper needs, without options of the command line."""
    first = ["part", "no-condition", "too-few-labels"]
    first += ["corrected", "sums"] if compared.corrected else ["tasks", "independent", "judge-only"]
    notes = [_OPTION.sub("", note) for note in _rank_notes(compared.notes, first)]
    return [sanitize_line(note, 2000) for note in notes if " --" not in note][:_PAPER]


def _name_columns(values: Sequence[str], room: int) -> list[str]:
    """Return names of columns that fit, or numbers if shorter names are not unique."""
    names = [cut_middle(sanitize_line(value, 60), max(room, _NARROWEST)) for value in values]
    if len(set(names)) < len(names):
        return [str(n) for n in range(1, len(values) + 1)]
    return names


def _write_head(compared: ConditionComparison, names: Sequence[str]) -> str:
    """Return rubric, judges, and each condition with its size."""
    judges = ", ".join(dict.fromkeys(sanitize_line(judge, 60) for judge, _ in compared.judges))
    sides = _name_sides(compared, 60)
    if names[0] == "1":
        sides = [f"{n} {side}" for n, side in enumerate(sides, 1)]
    rubric = f"{sanitize_line(compared.rubric.id)} v{compared.rubric.version}"
    by = sanitize_line(compared.attribute, 40)
    return wrap_lines(f"{rubric}, judge {judges}, by {by}: {', '.join(sides)}")


def _choose_shares(row: ComparedCode) -> Sequence[Share]:
    return row.corrected or row.shares


def _find_largest(row: ComparedCode) -> float:
    return max(share.value or 0.0 for share in _choose_shares(row))


def _get_gap(row: ComparedCode) -> Estimate | None:
    return row.corrected_difference or row.difference


def _get_test(row: ComparedCode) -> tuple[float | None, float | None, str | None]:
    """Return the p of the test that the brief table shows, that by Holm, and why there is none."""
    if row.corrected_test:
        return row.corrected_test.p, row.corrected_adjusted, row.corrected_test.reason
    return row.test.p, row.adjusted, row.test.reason


def _round_share(share: Share) -> str:
    """Return a share with its interval in whole percent: ``33 [20, 49]``."""
    if share.value is None:
        return UNDEFINED
    ends = find_limits(share)
    limits = " [{}, {}]".format(*(format_number(100 * end, 0) for end in ends)) if ends else ""
    return f"{round_percent(share.value)}{limits}"


def round_points(gap: Estimate | None) -> str:
    """Return a difference with its interval in whole percentage points: ``+24 [+1, +46]``."""
    if gap is None or gap.value is None:
        return UNDEFINED
    value, *ends = (
        format_number(100 * x, 0, "+") for x in (gap.value, gap.low, gap.high) if x is not None
    )
    return f"{value} [{', '.join(ends)}]" if len(ends) == 2 else value


def _find_extremes(row: ComparedCode, values: Sequence[str], room: int) -> list[str]:
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


def summarize(compared: ConditionComparison) -> str:
    """Return the result in a sentence: the code that differs most, by its p."""
    count = f"{len(compared.values)} values of {sanitize_line(compared.attribute, 40)}"
    if compared.corrected and not compared.two:
        return _summarize_pairs(compared.pairs, f"every two of the {count}", compared)
    between = f"among the {count}"
    if compared.two:
        between = f"between {' and '.join(sanitize_line(x, 40) for x in compared.values)}"
    tests = [_get_test(row) for row in compared.rows]
    tested = [
        (p, -_measure_gap(row), row.code, row, adjusted)
        for row, (p, adjusted, _) in zip(compared.rows, tests, strict=True)
        if p is not None and adjusted is not None and row.code != NONE
    ]
    if not tested:
        side = "side" if compared.two else "condition"
        why = _explain_untested([reason for *_, reason in tests], side)
        return f"No code can be tested {between}: {why}."
    *_, top, smallest = min(tested, key=lambda each: each[:2])
    family = sum(adjusted is not None for _, adjusted, _ in tests)
    p = f"p {_format_relation(smallest)} (Holm over {family} tests)"
    result = f"{_write_gap(top, compared)}, {p}."
    lead = f"{between[0].upper()}{between[1:]}"
    limit = 1 - compared.confidence
    if smallest < limit:
        return f"{lead}, {top.code} differs most: {result}"
    text = f"{lead}, no code differs beyond chance; the smallest p is that of {top.code}: {result}"
    for row, (_, adjusted, _) in zip(compared.rows, tests, strict=True):
        if row.code == NONE and adjusted is not None and adjusted < limit:
            text += (
                f" The share of traces without a code differs: {_write_gap(row, compared)}, p"
                f" {_format_relation(adjusted)}."
            )
    return text


def _explain_untested(reasons: Sequence[str | None], side: str) -> str:
    """Return why none of the tests has a p."""
    text = "; ".join(filter(None, dict.fromkeys(reasons)))
    text = text.replace("cluster", "task").replace("item", "trace")
    return (
        text.replace("of either side ", "").replace("side", side)
        or "a judge cannot find them, or only reports what it recognises"
    )


def _format_relation(p: float | None) -> str:
    """Return a p with its sign: ``= 0.0123``, or ``< .0001``."""
    text = format_p(p)
    return f"< {text[1:]}" if text.startswith("<") else f"= {text}"


def _summarize_pairs(
    pairs: Sequence[PairDifference], which: str, compared: ConditionComparison
) -> str:
    """Return how many differences are beyond chance, and the one with the smallest p."""
    whose = " of corrected shares" if compared.corrected else ""
    tested = [pair for pair in pairs if pair.adjusted is not None]
    if not tested:
        reasons = [(pair.test.reason or "").rpartition("side: ")[2] for pair in pairs]
        why = _explain_untested(reasons, "condition")
        return f"No difference{whose} can be tested ({which}): {why}."
    limit = 1 - compared.confidence
    beyond = sum((pair.adjusted or 0.0) < limit for pair in tested)
    top = min(tested, key=lambda pair: (pair.test.p, -abs(pair.difference.value or 0.0)))
    count = f"{beyond or 'None'} of the {len(tested)}"
    if len(tested) == 1:
        count = "The" if beyond else "Not even the"
    verb = "is" if beyond < 2 else "are"
    names = " - ".join(sanitize_line(value, 40) for value in (top.first, top.second))
    return (
        f"{count} tested {'difference' if len(tested) == 1 else 'differences'}{whose} ({which})"
        f" {verb} beyond chance; the smallest p is that of {sanitize_line(top.code, 64)}, {names}:"
        f" {_write_points(top.difference, compared)}, p {_format_relation(top.adjusted)} (Holm over"
        f" {format_count(len(tested), 'test')})."
    )


def _measure_gap(row: ComparedCode) -> float:
    if gap := _get_gap(row):
        return abs(gap.value or 0.0)
    values = [share.value or 0.0 for share in row.shares]
    return max(values) - min(values)


def _write_gap(row: ComparedCode, compared: ConditionComparison) -> str:
    if not compared.two:
        shares = [(share.value or 0.0, n) for n, share in enumerate(row.shares)]
        ends = [
            f"{round_percent(share)} % ({sanitize_line(compared.values[n], 40)})"
            for share, n in (min(shares), max(shares))
        ]
        return " to ".join(ends)
    first, second = (round_percent(share.value or 0.0) for share in _choose_shares(row))
    text = f"{first} % against {second} %"
    text += ", corrected by the labels" if compared.corrected else ""
    return f"{text}, {_write_points(_get_gap(row), compared)}"


def _write_points(gap: Estimate | None, compared: ConditionComparison) -> str:
    points, limits = format_points(gap)
    level = f" ({100 * compared.confidence:g} % interval {limits})" if limits != UNDEFINED else ""
    return f"{points} points{level}"


# Every two of more conditions


def _make_pairs(compared: ConditionComparison) -> Table:
    level = f"{100 * compared.confidence:g} % interval"
    tests = sum(pair.adjusted is not None for pair in compared.pairs)
    whose = ", corrected by the labels" if compared.corrected else ""
    title = f"{_write_title(compared)}; every two{whose}, Holm over {tests} tests"
    about = _describe(compared)
    both = [(None, pair) if compared.corrected else (pair, None) for pair in compared.pairs]
    table = Table(
        title=title,
        header=("code: first - second", "difference", level, "p", "p (Holm)"),
        rows=[_write_pair(pair) for pair in compared.pairs],
        notes=compared.notes,
        caption=f"{title}; differences in percentage points.",
        name=f"{compared.rubric.id}-{compared.attribute}-pairs",
        paper=_select_paper_notes(compared),
        records=[about | _make_pair_record(*sides) for sides in both],
        columns=_COLUMNS.split(),
        document={
            **_identify(compared),
            **{"attribute": compared.attribute, "tests": tests},
            "pairs": _describe_pairs(compared),
        },
    )
    ranked = sorted(compared.pairs, key=lambda pair: 2.0 if pair.test.p is None else pair.test.p)
    lines = [(_name_pair(pair), *_write_pair(pair)[1:]) for pair in ranked[:_PAIRS]]
    text = (
        f"{len(lines)} of {len(ranked)} differences in percentage points, the smallest p first"
        f"{'; all: -v' if len(lines) < len(ranked) else ''}."
    )
    if untested := len(ranked) - tests:
        text += f" {untested} of the {len(ranked)} cannot be tested: p is -."
    text += " Intervals are not adjusted for the number of tests; p is."
    count = f"{len(compared.values)} values of {sanitize_line(compared.attribute, 40)}"
    summary = f"Every two of the {count}, corrected by the labels:"  # the result is above
    if not compared.corrected:
        summary = _summarize_pairs(compared.pairs, f"every two of the {count}", compared)
    brief = replace(
        table,
        title=wrap_lines(summary),
        header=("code: first - second", "difference", level, "p (Holm)"),
        rows=[(*line[:3], line[4]) for line in lines],
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


def _describe_pairs(compared: ConditionComparison) -> list[dict[str, Any]]:
    return [{"corrected": compared.corrected, **asdict(pair)} for pair in compared.pairs]
