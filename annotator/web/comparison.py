"""The comparison of judges and people, or of conditions, as the pages show it."""

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from typing import TYPE_CHECKING, Any

from annotator.base.errors import AnnotatorError
from annotator.base.text import sanitize_line
from annotator.calibration.agreement import Basis
from annotator.calibration.calibrate import compare_annotators, measure_labels
from annotator.calibration.model import Request
from annotator.calibration.sample.design import list_trace_ids
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
from annotator.reports.frequency import FrequencyTable, Row
from annotator.reports.people import count_people
from annotator.reports.tables.comparison import explain_cells, summarize, tabulate
from annotator.rubrics import NONE, Scheme
from annotator.rubrics.annotations import Annotation
from annotator.runs.run import Run, name_runs
from annotator.web.index import Index
from annotator.web.payload import serialize_share
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
    table: FrequencyTable | None
    problem: str = ""

    @property
    def run(self) -> int | None:
        """The number of the run; None of a person."""
        return int(self.key) if self.key.isdigit() else None


class _LabelledPart(Run):
    """A run without the annotations of traces that nobody labelled."""

    def annotations(self, rubric: str | None = None) -> Iterator[Annotation]:
        """Yield the annotations in memory."""
        return (each for each in self.memory if rubric in (None, each.rubric))


def serialize_comparisons(
    pages: "PageRequest", tables: Sequence[FrequencyTable], index: Index
) -> list[dict[str, Any]]:
    """Return the comparison of each rubric that has two sides. ``tables`` are those of the runs."""
    if pages.by:
        return _compare_conditions(pages)
    schemes = ChainMap(*(dict(run.schemes) for run in pages.runs))
    compared = (_ComparedSides(pages, scheme, tables, index) for scheme in schemes.values())
    return [each.serialize() for each in compared if len(each.sides) > 1]


class _ComparedSides:
    """The sides of one rubric. People are compared with the labelled part of each run."""

    def __init__(
        self, pages: "PageRequest", scheme: Scheme, tables: Sequence[FrequencyTable], index: Index
    ) -> None:
        self._pages, self._scheme, self._index = pages, scheme, index
        by_run = {table.run: table for table in tables if table.rubric == scheme.id}
        judging = {
            number: run for number, run in enumerate(pages.runs) if scheme in run.schemes.values()
        }
        names = name_runs(pages.runs)
        self.sides = [
            _Side(
                str(number),
                sanitize_line(
                    f"{names[number]} ({run.judge})" if len(names) > 1 else run.judge, 60
                ),
                by_run.get(run.id),
            )
            for number, run in judging.items()
        ]
        self._parts: dict[int, Run] = {}
        if pages.label_files:
            self._parts = self._select_labelled(judging)
            of_traces = pages.labels.get(scheme.id, {}).values()
            people = dict.fromkeys(label.annotator for labels in of_traces for label in labels)
            self.sides += map(self._count_person, people)
        del self.sides[_MOST_SIDES:]

    def _select_labelled(self, judging: Mapping[int, Run]) -> dict[int, Run]:
        files = LabelFiles(self._pages.label_files)
        of_designs = list_trace_ids(None, self._scheme.id, None, files.paths)
        read = files.read(self._scheme, chain(of_designs, self._index.trace_ids))
        annotations: dict[int, list[Annotation]] = {number: [] for number in judging}
        for trace_id in dict.fromkeys(label.trace_id for label in read.labels):
            for number, annotation in self._index.annotations(trace_id):
                if number in annotations:
                    annotations[number].append(annotation)
        return {
            number: _LabelledPart(
                run.manifest, run.folder, annotations[number], run.shard_folders, run.added
            )
            for number, run in judging.items()
        }

    def _count_person(self, person: str) -> _Side:
        key, name = f"p.{person}", sanitize_line(person, 60)
        try:
            [table] = count_people(self._ask(person), run=next(iter(self._parts.values())))
        except AnnotatorError as error:
            return _Side(key, name, None, str(error))
        return _Side(key, name, table)

    def _ask(self, *people: str) -> Request:
        """Return the request of these people's labels."""
        files, cluster = LabelFiles(self._pages.label_files), self._pages.cluster
        request = Request(files, rubrics=(self._scheme.id,), annotators=people)
        return request if cluster is None else replace(request, cluster=tuple(cluster))

    def serialize(self) -> dict[str, Any]:
        """Return the shares of each side, and kappa of each pair."""
        sides = self.sides
        names = {code.id: code.name for code in self._scheme.codes} | {NONE: "no code"}
        cells: dict[str, list[dict[str, Any]]] = {label: [] for label in names}
        for side in sides:
            rows = {row.code: row for row in side.table.rows} if side.table else {}
            for label in names:
                cells[label].append(_serialize_row(rows.get(label), side.table))
        return {
            "rubric": self._scheme.id,
            "title": self._scheme.id,
            "sides": [
                {"key": side.key, "name": side.name, "n": side.table.n if side.table else None}
                for side in sides
            ],
            "more": [],
            "rows": [
                {"code": label, "name": name, "sides": cells[label], "more": []}
                for label, name in names.items()
            ],
            "pairs": [
                {"sides": [first.key, second.key], **self._measure(first, second)}
                for first, second in combinations(sides, 2)
            ],
            "many": self._scheme.choice == "many",
            "first": [
                f"{side.name}: {share} ({reason})."
                for side in sides
                for share, reason in _list_undefined(side)
            ],
            "notes": [],
        }

    def _measure(self, first: _Side, second: _Side) -> dict[str, Any]:
        """Return kappa as ``annotate calibrate`` prints it, and the traces that it rests on."""
        try:
            if first.run is None:
                run = next(iter(self._parts.values()))
                pair = compare_annotators(
                    self._scheme, self._ask(), first.key[2:], second.key[2:], run
                )
                kappa: Estimate | None = pair.comparison.agreement.kappa
            elif second.run is None:
                run, request = self._parts[first.run], self._ask(second.key[2:])
                kappa = measure_labels(run, self._scheme.id, request).kappa
            else:
                kappa = self._compare_runs(first.run, second.run)
        except AnnotatorError as error:
            return {"kappa": f"- ({error})", "n": 0}
        if kappa is None:
            return {"kappa": "- (no trace was judged by both)", "n": 0}
        return {"kappa": write_estimate(kappa), "n": kappa.n}

    def _compare_runs(self, *numbers: int) -> Estimate | None:
        first, second = (
            self._index.answers.get((number, self._scheme.id), {}) for number in numbers
        )
        basis = Basis(self._scheme, self._index.clusters[numbers[0]], None, 0.95)
        compared = basis.compare("", first, second)
        return compared.agreement.kappa if compared else None


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


def _serialize_row(row: Row | None, table: FrequencyTable | None) -> dict[str, Any]:
    if row is None or table is None:
        return _serialize_side(None)
    count = "" if row.count is None else f"{row.count}/{table.n}"
    return _serialize_side(row.share, row.labels.corrected if row.labels else None, count)


def _serialize_side(
    share: Share | None, corrected: Share | None = None, count: str = ""
) -> dict[str, Any]:
    """Return a share, and the corrected one, as text and as numbers to draw."""
    return {
        "count": count,
        "share": _write(share) if share or not corrected else "",
        "corrected": _write(corrected) if corrected else "",
        "drawn": [serialize_share(share), serialize_share(corrected)],
    }


def _write(share: Share | None) -> str:
    if share is None or share.value is None:
        return UNDEFINED
    return f"{format_percent(share)} {format_limits(share)}"


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
