"""The comparison of judges and people, or of conditions, as the pages show it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

from annotator.base.errors import AnnotatorError
from annotator.base.text import sanitize_line
from annotator.calibration.agreement import Basis
from annotator.calibration.calibrate import compare_annotators, measure_labels
from annotator.calibration.matching import join_labels
from annotator.calibration.model import Request
from annotator.labels import LabelFiles
from annotator.reports.calibration import write_estimate
from annotator.reports.comparison import ComparedCode, ConditionComparison, compare
from annotator.reports.digits import (
    UNDEFINED,
    Share,
    format_limits,
    format_p,
    format_percent,
    format_points,
)
from annotator.reports.frequency import FrequencyTable
from annotator.reports.people import count_people
from annotator.reports.tables.comparison import explain_cells, summarize, tabulate
from annotator.rubrics import Scheme
from annotator.runs.run import Run, name_runs
from annotator.traces.clusters import DEFAULT_CLUSTER, find_cluster
from validation import Estimate

if TYPE_CHECKING:
    from annotator.web.reading import PageRequest

_MOST_SIDES = 8


@dataclass(frozen=True)
class _Side:
    """A judge's run, or a person; ``table`` has the shares, or ``problem`` says why there are none.

    ``key`` names it in addresses: the number of the run, or "p." and the person's name.
    """

    key: str
    name: str
    run: Run | None
    table: FrequencyTable | None
    problem: str = ""
    answers: dict[str, str] = field(default_factory=dict)


def serialize_comparisons(
    pages: "PageRequest", tables: Sequence[FrequencyTable]
) -> list[dict[str, Any]]:
    """Return the comparison of each rubric that has two sides. ``tables`` are those of the runs."""
    if pages.by:
        return _compare_conditions(pages)
    comparisons = []
    schemes: dict[str, Scheme] = {}
    for run in pages.runs:
        schemes = {**run.schemes, **schemes}
    for scheme in schemes.values():
        sides = list(_list_sides(pages, scheme, tables))[:_MOST_SIDES]
        if len(sides) > 1:
            comparisons.append(_serialize(pages, scheme, sides))
    return comparisons


def _list_sides(
    pages: "PageRequest", scheme: Scheme, tables: Sequence[FrequencyTable]
) -> Iterator[_Side]:
    names = name_runs(pages.runs)
    by_run = {table.run: table for table in tables if table.rubric == scheme.id}
    judging = []
    for n, (run, name) in enumerate(zip(pages.runs, names, strict=True)):
        if scheme.id in run.schemes and run.schemes[scheme.id].sha256 == scheme.sha256:
            judging.append(run)
            title = f"{name} ({run.judge})" if len(pages.runs) > 1 else run.judge
            yield _Side(str(n), sanitize_line(title, 60), run, by_run.get(run.id))
    people = dict.fromkeys(
        label.annotator for labels in pages.labels.get(scheme.id, {}).values() for label in labels
    )
    for person in people if pages.label_files else ():
        try:
            [table] = count_people(_ask(pages, scheme, person), run=judging[0])
            yield _Side(f"p.{person}", sanitize_line(person, 60), None, table)
        except AnnotatorError as error:
            yield _Side(f"p.{person}", sanitize_line(person, 60), None, None, str(error))


def _ask(pages: "PageRequest", scheme: Scheme, *people: str) -> Request:
    """Return the request of these people's labels."""
    request = Request(LabelFiles(pages.label_files), rubrics=(scheme.id,), annotators=people)
    return request if pages.cluster is None else replace(request, cluster=tuple(pages.cluster))


def _serialize(pages: "PageRequest", scheme: Scheme, sides: Sequence[_Side]) -> dict[str, Any]:
    shares = [{row.code: row for row in side.table.rows} if side.table else {} for side in sides]
    rows = []
    for label, name in (*((code.id, code.name) for code in scheme.codes), ("none", "no code")):
        by_side = [table.get(label) for table in shares]
        cells = [
            _serialize_side(
                row.share if row else None,
                row.labels.corrected if row and row.labels else None,
                f"{row.count}/{side.table.n}"
                if row and side.table and row.count is not None
                else "",
            )
            for row, side in zip(by_side, sides, strict=True)
        ]
        rows.append({"code": label, "name": name, "sides": cells, "more": []})
    return {
        "rubric": scheme.id,
        "title": scheme.id,
        "sides": [
            {"key": side.key, "name": side.name, "n": side.table.n if side.table else None}
            for side in sides
        ],
        "more": [],
        "rows": rows,
        "pairs": [
            {"sides": [first.key, second.key], **_measure_pair(pages, scheme, first, second)}
            for first, second in combinations(sides, 2)
        ],
        "many": scheme.choice == "many",
        "first": [
            f"{side.name}: {share} ({reason})."
            for side in sides
            for share, reason in _list_undefined(side)
        ],
        "notes": [],
    }


def _list_undefined(side: _Side) -> Iterator[tuple[str, str]]:
    """Yield why a side has no shares, or no shares of some codes."""
    if not side.table:
        yield "no shares", side.problem
        return
    codes: dict[str, list[str]] = {}
    for row in side.table.rows:
        if row.share is None and row.unknown:
            codes.setdefault(row.unknown, []).append(row.code)
    for reason, ids in codes.items():
        names = "any code" if len(ids) == len(side.table.rows) else ", ".join(ids)
        yield f"no share of {names}", reason


def _serialize_side(
    share: Share | None, corrected: Share | None = None, count: str = ""
) -> dict[str, Any]:
    """Return a share, and the corrected one, as text and as numbers to draw."""
    return {
        "count": count,
        "share": _write(share) if share or not corrected else "",
        "corrected": _write(corrected) if corrected else "",
        "drawn": [_list_numbers(share), _list_numbers(corrected)],
    }


def _write(share: Share | None) -> str:
    if share is None or share.value is None:
        return UNDEFINED
    return f"{format_percent(share)} {format_limits(share)}"


def _list_numbers(share: Share | None) -> list[float | None] | None:
    return None if share is None or share.value is None else [share.low, share.value, share.high]


def _measure_pair(
    pages: "PageRequest", scheme: Scheme, first: _Side, second: _Side
) -> dict[str, Any]:
    """Return kappa as ``annotate calibrate`` prints it, and the traces that it rests on."""
    try:
        if first.run and second.run:
            kappa = _compare_runs(pages, scheme, first, second)
        elif first.run:
            kappa = measure_labels(first.run, scheme.id, _ask(pages, scheme, second.key[2:])).kappa
        else:
            request = _ask(pages, scheme)
            run = next(run for run in pages.runs if scheme.id in run.schemes)
            pair = compare_annotators(scheme, request, first.key[2:], second.key[2:], run)
            kappa = pair.comparison.agreement.kappa
    except AnnotatorError as error:
        return {"kappa": f"- ({error})", "n": 0}
    if kappa is None:
        return {"kappa": "- (no trace was judged by both)", "n": 0}
    return {"kappa": write_estimate(kappa), "n": kappa.n}


def _compare_runs(
    pages: "PageRequest", scheme: Scheme, first: _Side, second: _Side
) -> Estimate | None:
    by = DEFAULT_CLUSTER if pages.cluster is None else pages.cluster
    clusters: dict[str, str | None] = {}
    for side in (first, second):
        for annotation in side.run.annotations(scheme.id) if side.run and not side.answers else ():
            if annotation.status in ("labelled", "none"):
                side.answers[annotation.trace_id] = join_labels(scheme.labels_of(annotation))
    for annotation in first.run.annotations(scheme.id) if first.run else ():
        clusters[annotation.trace_id] = find_cluster(annotation.attributes, by)
    compared = Basis(scheme, clusters, None, 0.95).compare("", first.answers, second.answers)
    return compared.agreement.kappa if compared else None


def _compare_conditions(pages: "PageRequest") -> list[dict[str, Any]]:
    """Return the comparison of the conditions, with the numbers of ``annotate compare --by``."""
    by, cluster = pages.by or "", pages.cluster
    uncorrected = ""
    try:
        try:
            compared = compare(
                pages.runs, by, None, pages.calibrations, cluster=cluster, labelled=True
            )
        except AnnotatorError as error:  # no labels of one condition, say
            compared = compare(pages.runs, by, None, cluster=cluster)
            uncorrected = f"Not corrected by the calibration: {error}. "
    except AnnotatorError as error:
        return [{"title": str(pages.by), "problem": str(error)}]
    notes = [_divide_notes(table) for table in compared]
    return [
        {
            "rubric": table.rubric.id,
            "title": f"{table.rubric.id} by {sanitize_line(table.attribute, 60)}",
            "by": table.attribute,
            "sides": [
                {"key": value, "name": sanitize_line(value, 60), "n": n}
                for value, n in zip(table.values, table.n, strict=True)
            ],
            "sentence": summarize(table),
            "more": ["difference", "p (Holm)"] if table.two else ["p (Holm)"],
            "rows": [
                {
                    "code": row.code,
                    "name": "",
                    "sides": [
                        _serialize_side(None, share) if table.corrected else _serialize_side(share)
                        for share in row.corrected or row.shares
                    ],
                    "more": _list_tests(row, table),
                }
                for row in table.rows
            ],
            "cells": uncorrected + explain_cells(table, intervals=True),
            "pairs": [],
            "many": False,
            "first": first,
            "notes": more,
        }
        for table, (first, more) in zip(compared, notes, strict=True)
    ]


def _divide_notes(table: ConditionComparison) -> tuple[list[str], list[str]]:
    """Return the notes that a terminal shows, and the others."""
    brief = tabulate([table])[0].brief
    first = [note for note in brief.notes if note in table.notes] if brief else []
    return first, [note for note in table.notes if note not in first]


def _list_tests(row: ComparedCode, table: ConditionComparison) -> list[str]:
    """Return the difference of two conditions and p; of corrected shares if the table has them."""
    gap, p = row.difference, row.adjusted
    if table.corrected:
        gap, p = row.corrected_difference, row.corrected_adjusted
    return [*([" ".join(format_points(gap))] if table.two else ()), format_p(p)]
