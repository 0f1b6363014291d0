"""Labels in a user's own table, or in records with keys like its columns.

A row has a trace id, and categories in one cell (several are separated), in a cell for each
annotator (``annotator_1``), or in a column for each code with yes and no. A record may hold its
labels by annotator in ``annotations``, ``labels`` or the like.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from annotator.base.text import find_encoding_problem, sanitize_line, unescape_formula
from annotator.labels.cells import split_codes
from annotator.labels.checking import Problems, is_none
from annotator.labels.model import ID_NAMES, ForeignLabel
from annotator.labels.tables import LabelTable
from annotator.traces.records import LABEL_KEYS, get_list, get_text, parse_nested

# Names of columns, in lower case with "_" between words; the first one in the table counts.
_NAMES = {"id": list(ID_NAMES)} | {
    field: names.split()
    for field, names in {
        "category": "category categories code codes label labels failure_category failure_mode"
        " failure_modes failure_type mode modes error_type primary",
        "annotator": "annotator rater labeler labeller annotated_by annotator_id",
        "agent": "agent failed_agent responsible_agent mistake_agent",
        "step": "step step_number responsible_step",
        "note": "note notes comment comments reason rationale",
    }.items()
}
_YES, _NO = {"1", "x", "yes", "y", "true"}, {"0", "no", "n", "false", "-"}
_PERSON = re.compile(r"(annotator|rater|labell?er|coder|annotation|label)_?([0-9]+|[a-c])")
_NESTED = ("annotations", "annotators", "labels", "label", "ratings", "human_labels")

IsCode = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class _Columns:
    """The positions of fields, of annotators' cells and of codes, and the unused headings."""

    places: Mapping[str, int]
    people: Mapping[int, str]
    codes: Mapping[int, str]
    unused: list[str]


def is_sheet(headings: Sequence[str], is_code: IsCode) -> bool:
    """Whether a table has a column of trace ids, categories or codes."""
    columns = _place_columns(headings, is_code)
    return "id" in columns.places or _count_kinds(columns) > 0


def read_sheet(
    table: LabelTable, is_code: IsCode, problems: Problems
) -> tuple[list[ForeignLabel], list[str]]:
    """Return the labels in a sheet, and its unused columns. ``is_code`` of a text: whether it
    names a code. Rows of one trace and person become one label without a decisive category.
    """
    names = sanitize_line(", ".join(table.columns), 300)
    columns = _place_columns([unescape_formula(name) for name in table.columns], is_code)
    if "id" not in columns.places:
        expected = ", ".join(ID_NAMES[:6])
        problems.add(
            f"{table.name}: no column of trace ids: expected one of {expected} ...; has {names}"
        )
    if (count := _count_kinds(columns)) != 1:
        problems.add(
            f"{table.name}: expected either a column category (or failure_mode, code, ...) or"
            f" columns named by codes of the rubric; has {'both: ' if count else ''}{names}"
        )
    if "id" not in columns.places or count != 1:
        return [], []
    labels: list[ForeignLabel] = []
    for line in table.lines:
        if isinstance(line, str):
            problems.add(line)
            continue
        number, cells = line
        where = f"{table.name}, line {number}"
        if problem := find_encoding_problem(cells):
            problems.add(f"{where}: {problem}")
        cells = [unescape_formula(cell.strip()) for cell in cells]
        cells += [""] * (len(table.columns) - len(cells))
        if not cells[columns.places["id"]]:
            problems.add(f"{where}: no trace id")
        else:
            labels += _read_row(cells, columns, is_code, where, problems)
    return merge_labels(labels), columns.unused


def read_plain(
    record: Mapping[str, Any], fallback: str, is_code: IsCode, where: str, problems: Problems
) -> list[ForeignLabel]:
    """Return the labels in a record with such keys, or below a key for labels; [] without one.

    ``fallback``: the id of a record that has none.
    """
    labels: list[ForeignLabel] = []
    for fields in _list_rows(record, is_code):
        # Of several keys for categories, one that is for labels only says more than "category".
        strict = {*_NAMES["category"]} & LABEL_KEYS & fields.keys()
        loose = {*_NAMES["category"]} - LABEL_KEYS if strict else set()
        row = {key: value for key, value in fields.items() if key not in loose}
        columns = _place_columns(list(row), is_code)
        if _count_kinds(columns) != 1:
            continue
        cells = [_write_cell(value) for value in row.values()]
        if "id" not in columns.places or not cells[columns.places["id"]]:
            cells.append(fallback)
            places = {**columns.places, "id": len(cells) - 1}
            columns = _Columns(places, columns.people, columns.codes, [])
        labels += _read_row(cells, columns, is_code, where, problems)
    return merge_labels(labels)


def _list_rows(record: Mapping[str, Any], is_code: IsCode) -> Iterator[Mapping[str, Any]]:
    """Yield the record, or the rows below one of its keys, each with the record's id."""
    nested = {key: parse_nested(record.get(key)) for key in _NESTED}
    for key, value in nested.items():
        rows: list[Mapping[str, Any]] = [row for row in get_list(value) if isinstance(row, dict)]
        if isinstance(value, dict):
            rows = [value] if all(map(is_code, value)) else list(_list_by_person(value))
        if rows:
            plain = ((name, _normalize(name)) for name in record if name != key)
            ids = {name: record[name] for name, normal in plain if normal in ID_NAMES}
            yield from ({**ids, **row} for row in rows)
            return
    yield record


def _list_by_person(value: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield a row for each annotator by whose name an object holds labels."""
    for name, content in value.items():
        fields = content if isinstance(content, dict) else {"category": content}
        yield {"annotator": name, **fields}


def _write_cell(value: Any) -> str:
    if isinstance(value, list):
        return "\n".join(filter(None, map(get_text, value)))
    return str(value).lower() if isinstance(value, bool) else get_text(value) or ""


def _normalize(heading: str) -> str:
    return heading.strip().lower().replace(" ", "_").replace("-", "_")


def _place_columns(headings: Sequence[str], is_code: IsCode) -> _Columns:
    plain = list(map(_normalize, headings))
    places = {
        what: next(plain.index(alias) for alias in aliases if alias in plain)
        for what, aliases in _NAMES.items()
        if not set(aliases).isdisjoint(plain)
    }
    others = {n: text for n, text in enumerate(headings) if n not in places.values() and text}
    codes = {n: text for n, text in others.items() if is_code(text)}
    people = {n: text for n, text in others.items() if _PERSON.fullmatch(plain[n])}
    used = codes.keys() | people.keys()
    return _Columns(places, people, codes, [text for n, text in others.items() if n not in used])


def _count_kinds(columns: _Columns) -> int:
    """Return in how many ways the columns hold categories: one is clear."""
    return ("category" in columns.places) + bool(columns.codes) + bool(columns.people)


def _read_row(
    cells: Sequence[str], columns: _Columns, is_code: IsCode, where: str, problems: Problems
) -> Iterator[ForeignLabel]:
    content = {what: cells[index] for what, index in columns.places.items()}
    marks = {code: cells[index].lower() for index, code in columns.codes.items()}
    for code, mark in marks.items():
        if mark and mark not in _YES | _NO:
            problems.add(
                f"{where}, {sanitize_line(code, 60)}: {sanitize_line(mark, 60)!r}; expected 1 or 0,"
                " yes or no, x or nothing"
            )
    step = content.get("step", "")
    if step and not step.isdecimal():
        problems.add(f"{where}: step {sanitize_line(step, 60)!r}: expected a number from 1")
    ticked = [code for code, mark in marks.items() if mark in _YES]
    people: list[tuple[str | None, str]]
    people = [(name, cells[index]) for index, name in columns.people.items()]
    for person, cell in people or [(content.get("annotator"), content.get("category", ""))]:
        named = split_codes(cell, lambda text: is_none(text) or is_code(text))
        yield ForeignLabel(
            content["id"],
            tuple(ticked or (name for name in named if not is_none(name))),
            decided=len(ticked) < 2,
            agent=content.get("agent") or None,
            step=int(step) if step.isdecimal() else None,
            note=content.get("note", ""),
            annotator=person or None,
            labelled=bool(named or any(marks.values())),
            where=where,
        )


def merge_labels(labels: Iterable[ForeignLabel]) -> list[ForeignLabel]:
    """Return one label for each trace and person; of several, none is decisive."""
    merged: dict[tuple[str, str | None], ForeignLabel] = {}
    for label in labels:
        earlier = merged.setdefault((label.id, label.annotator), label)
        if earlier is not label:
            _merge(earlier, label)
    return list(merged.values())


def _merge(label: ForeignLabel, other: ForeignLabel) -> None:
    """Add another row of the same trace."""
    label.decided = not (label.categories and other.categories) and (
        label.decided and other.decided
    )
    label.categories = tuple(dict.fromkeys((*label.categories, *other.categories)))
    label.labelled = label.labelled or other.labelled
    label.agent, label.step = label.agent or other.agent, label.step or other.step
    label.note = " ".join(filter(None, (label.note, other.note)))
