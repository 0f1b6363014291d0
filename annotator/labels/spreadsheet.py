"""Labels in a user's spreadsheet, saved as CSV or TSV."""

import csv
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from annotator.base.errors import AnnotatorError
from annotator.base.text import sanitize_line, unescape_formula
from annotator.labels.checking import Problems, is_none
from annotator.labels.model import ForeignLabel

# Names of columns, in lower case with "_" between words; the first one in the table counts.
_NAMES = {
    field: names.split()
    for field, names in {
        "id": "trace_id id trajectory_id instance_id question_id run_id trace run session_id"
        " conversation_id file filename uuid",
        "category": "category categories code codes label labels failure_category failure_mode"
        " failure_modes failure_type mode modes error_type primary",
        "annotator": "annotator rater labeler labeller annotated_by",
        "agent": "agent failed_agent responsible_agent mistake_agent",
        "step": "step step_number responsible_step",
        "note": "note notes comment comments reason rationale",
    }.items()
}
_YES, _NO = {"1", "x", "yes", "y", "true"}, {"0", "no", "n", "false", "-"}


@dataclass(frozen=True, slots=True)
class _Columns:
    """The positions of fields, the columns of codes, and the unused headings."""

    places: Mapping[str, int]
    codes: Mapping[int, str]
    unused: list[str]


def read_sheet(
    text: str, name: str, is_code: Callable[[str], bool]
) -> tuple[list[ForeignLabel], list[str]]:
    """Return the labels in a sheet, and its unused columns; raises AnnotatorError.

    A sheet has a column of trace ids, and either a column of categories (several in a cell with
    ``;`` between them) or a column for each code (``is_code`` of its heading) with yes and no, 1
    and 0, or x. Rows of one trace and person become one label without a decisive category.
    """
    first = next((line for line in text.splitlines() if line.strip()), "")
    reader = csv.reader(io.StringIO(text, ""), delimiter=max(",;\t", key=first.count), strict=True)
    rows = []
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                rows.append((reader.line_num, [unescape_formula(cell.strip()) for cell in cells]))
    except csv.Error as error:
        raise AnnotatorError(f"{name}, line {reader.line_num}: not a table: {error}") from error
    if not rows:
        raise AnnotatorError(f"{name}: an empty table")
    problems = Problems()
    columns = _place_columns(rows[0][1], is_code, name, problems)
    problems.raise_if_any()
    labels: dict[tuple[str, str | None], ForeignLabel] = {}
    for line, cells in rows[1:]:
        label = _read_row(cells, columns, f"{name}, line {line}", problems)
        if label:
            earlier = labels.setdefault((label.id, label.annotator), label)
            if earlier is not label:
                _merge(earlier, label)
    problems.raise_if_any()
    return list(labels.values()), columns.unused


def _place_columns(
    headings: list[str], is_code: Callable[[str], bool], name: str, problems: Problems
) -> _Columns:
    plain = [heading.lower().replace(" ", "_").replace("-", "_") for heading in headings]
    if {"trace_id", "rubric", "annotator"} <= set(plain):
        problems.add(f"{name}: these are annotate's own columns: calibrate takes the file as it is")
    places = {
        what: next(plain.index(alias) for alias in aliases if alias in plain)
        for what, aliases in _NAMES.items()
        if not set(aliases).isdisjoint(plain)
    }
    others = {n: text for n, text in enumerate(headings) if n not in places.values() and text}
    codes = {n: text for n, text in others.items() if is_code(text)}
    names = sanitize_line(", ".join(headings), 300)
    if "id" not in places:
        expected = ", ".join(_NAMES["id"][:6])
        problems.add(f"{name}: no column of trace ids: expected one of {expected} ...; has {names}")
    if ("category" in places) is bool(codes):
        problems.add(
            f"{name}: expected either a column category (or failure_mode, code, ...) or columns"
            f" named by codes of the rubric; has {'both: ' if codes else ''}{names}"
        )
    return _Columns(places, codes, [text for n, text in others.items() if n not in codes])


def _read_row(
    cells: list[str], columns: _Columns, where: str, problems: Problems
) -> ForeignLabel | None:
    cells = cells + [""] * (1 + max([*columns.places.values(), *columns.codes]) - len(cells))
    content = {what: cells[index] for what, index in columns.places.items()}
    marks = {code: cells[index].lower() for index, code in columns.codes.items()}
    if not content["id"]:
        problems.add(f"{where}: no trace id")
        return None
    for code, mark in marks.items():
        if mark and mark not in _YES | _NO:
            problems.add(
                f"{where}, {sanitize_line(code, 60)}: {sanitize_line(mark, 60)!r}; expected 1 or 0,"
                " yes or no, x or nothing"
            )
    named = [text.strip() for text in content.get("category", "").split(";") if text.strip()]
    step = content.get("step", "")
    if step and not step.isdecimal():
        problems.add(f"{where}: step {sanitize_line(step, 60)!r}: expected a number from 1")
    ticked = [code for code, mark in marks.items() if mark in _YES]
    return ForeignLabel(
        content["id"],
        tuple(ticked or (name for name in named if not is_none(name))),
        decided=len(ticked) < 2,
        agent=content.get("agent") or None,
        step=int(step) if step.isdecimal() else None,
        note=content.get("note", ""),
        annotator=content.get("annotator") or None,
        labelled=bool(named or any(marks.values())),
    )


def _merge(label: ForeignLabel, other: ForeignLabel) -> None:
    """Add another row of the same trace."""
    label.decided = not (label.categories and other.categories) and (
        label.decided and other.decided
    )
    label.categories = tuple(dict.fromkeys((*label.categories, *other.categories)))
    label.labelled = label.labelled or other.labelled
    label.agent, label.step = label.agent or other.agent, label.step or other.step
    label.note = " ".join(filter(None, (label.note, other.note)))
