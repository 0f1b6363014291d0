"""Labels in a user's own table, or in records with keys like its columns.

A row has a trace id, and categories in one cell (several are separated), in a cell for each
annotator (``annotator_1``), or in a column for each code with yes and no. A record may hold its
labels by annotator in ``annotations``, ``labels`` or the like.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from annotator.base.text import (
    find_encoding_problem,
    format_count,
    sanitize_line,
    unescape_formula,
)
from annotator.labels.cells import list_codes, read_mark, split_codes
from annotator.labels.checking import Problems, is_none
from annotator.labels.model import ID_NAMES, ForeignLabel
from annotator.labels.sheets import LabelTable
from annotator.traces.records import LABEL_KEYS, get_dict, get_list, get_text, parse_nested

# Names of columns, in lower case with "_" between words; the first one in the table counts.
_NAMES = {"id": list(ID_NAMES)} | {
    field: names.split()
    for field, names in {
        "category": "category categories code codes label labels failure_category failure_mode"
        " failure_modes failure_type mode modes error_type primary accept",
        "annotator": "annotator rater labeler labeller annotated_by annotator_id _annotator_id"
        " _session_id",
        "present": "present is_present applies vote value",
        "agent": "agent failed_agent responsible_agent mistake_agent",
        "step": "step step_number responsible_step",
        "note": "note notes comment comments reason rationale",
    }.items()
}
_PERSON = re.compile(r"(annotator|rater|labell?er|coder|annotation|label)_?([0-9]+|[a-c])")
_NESTED = (
    *("annotations", "annotators", "labels", "label", "ratings", "human_labels", "root_causes"),
    *("spans", "entities"),
)
_SPANS = {"label", "start"}, {"label", "start_offset"}  # of Prodigy and Doccano

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
    """Return the labels in a sheet, and notices. ``is_code`` of a text: whether it names a code.
    Rows of one trace and person become one label without a decisive category.
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
            f"{table.name}: expected either a column category (or failure_mode, code, ...), or"
            " columns named by codes of the rubric, or annotator_1, annotator_2, ...; has"
            f" {'more than one of them: ' if count else ''}{names}"
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
    notices = []
    if columns.unused:
        names = sanitize_line(", ".join(columns.unused), 300)
        notices.append(f"{table.name}: columns not used: {names}")
    merged = _merge_labels(labels, problems)
    if more := len(labels) - len(merged):
        rows = format_count(more, "row")
        notices.append(f"{table.name}: {rows} joined to another of the same trace and annotator")
    return merged, notices


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
        if any(isinstance(row.get(name), list) for name in _NAMES["category"]):
            row.pop("value", None)  # it tells nothing of several codes
        columns = _place_columns(list(row), is_code)
        if _count_kinds(columns) != 1:
            continue
        coded = {columns.places.get("category"), *columns.people}
        cells = [
            "[]" if value == [] and n in coded else _write_cell(value)  # none, or not labelled yet?
            for n, value in enumerate(row.values())
        ]
        if "id" not in columns.places or not cells[columns.places["id"]]:
            cells.append(fallback)
            places = {**columns.places, "id": len(cells) - 1}
            columns = _Columns(places, columns.people, columns.codes, [])
        labels += _read_row(cells, columns, is_code, where, problems)
    labels = _merge_labels(labels, problems)
    for label in labels if record.get("answer") in ("reject", "ignore") else ():  # of Prodigy
        label.labelled = False
    return labels


def _list_rows(record: Mapping[str, Any], is_code: IsCode) -> Iterator[Mapping[str, Any]]:
    """Yield the record, or the rows below one of its keys, each with the record's id and annotator.

    Of a tool's task, the id of the trace is in its metadata.
    """
    for about in (get_dict(record, "meta"), get_dict(record, "metadata")):
        record = {"trace_id": about["trace_id"], **record} if "trace_id" in about else record
    nested = {key: parse_nested(record.get(key)) for key in _NESTED}
    for key, value in nested.items():
        rows: list[Mapping[str, Any]] = [row for row in get_list(value) if isinstance(row, dict)]
        if key in ("spans", "entities"):
            rows = [row for row in rows if any(keys <= row.keys() for keys in _SPANS)]
        if isinstance(value, dict):
            by_code = all(is_code(name) or is_none(name) for name in value)
            rows = [value] if by_code else list(_list_by_person(value))
        if rows:
            plain = {name: _normalize(name) for name in record if name != key}
            ids = {name: record[name] for name, normal in plain.items() if normal in ID_NAMES}
            people = {name: record[name] for name, n in plain.items() if n in _NAMES["annotator"]}
            for row in rows:
                is_named = any(_normalize(name) in _NAMES["annotator"] for name in row)
                yield {**ids, **({} if is_named else people), **row}
            return
    yield record


def _list_by_person(value: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for name, content in value.items():
        fields = content if isinstance(content, dict) else {"category": content}
        yield {"annotator": name, **fields}


def _write_cell(value: Any) -> str:
    if isinstance(value, (list, dict)):
        return "\n".join(list_codes(value))
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
    codes |= {n: text for n, text in others.items() if codes and is_none(text)}
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
    marks: dict[str, bool | None] = {}
    for index, code in columns.codes.items():
        try:
            marks[code] = read_mark(cells[index])
        except ValueError as error:
            problems.add(f"{where}, {sanitize_line(code, 60)}: {error}")
    step = content.get("step", "")
    if step and not step.isdecimal():
        problems.add(f"{where}: step {sanitize_line(step, 60)!r}: expected a number from 1")
    ticked = [code for code, mark in marks.items() if mark]
    if not ticked and any(is_none(code) for code, mark in marks.items() if mark is False):
        problems.add(f"{where}: no code, and not none; mark one of them")
    denied = [code for code, mark in marks.items() if mark is False and not is_none(code)]
    people: list[tuple[str | None, str]]
    people = [(name, cells[index]) for index, name in columns.people.items()]
    present = None
    try:
        present = read_mark(content.get("present"))
    except ValueError as error:
        problems.add(f"{where}, whether the code is present: {error}")
    for person, cell in people or [(content.get("annotator"), content.get("category", ""))]:
        named = ticked or split_codes(cell, lambda text: is_none(text) or is_code(text))
        codes = [name for name in named if not is_none(name)] if present is not False else []
        if codes and len(codes) < len(named):
            text = sanitize_line(", ".join(named), 60)
            problems.add(f"{where}: a code and none: {text!r}; keep one of them")
        yield ForeignLabel(
            content["id"],
            tuple(codes),
            decided=len(ticked) < 2,
            agent=content.get("agent") or None,
            step=int(step) if step.isdecimal() else None,
            note=content.get("note", ""),
            annotator=person or None,
            labelled=bool(named) or any(mark is not None for mark in marks.values()),
            denied=(*denied, *(() if codes else named)),
            where=where,
        )


def _merge_labels(labels: Iterable[ForeignLabel], problems: Problems) -> list[ForeignLabel]:
    """Return one label for each trace and person; of several, none is decisive."""
    merged: dict[tuple[str, str | None], ForeignLabel] = {}
    for label in labels:
        earlier = merged.setdefault((label.id, label.annotator), label)
        if earlier is not label:
            if _is_denied(label, earlier) or _is_denied(earlier, label):
                problem = f"trace {sanitize_line(label.id, 120)!r}, the contrary of {earlier.where}"
                problems.add(f"{label.where}: {problem}; keep one of them")
            _merge(earlier, label)
    return list(merged.values())


def _is_denied(label: ForeignLabel, other: ForeignLabel) -> bool:
    """Whether a category of the label does not apply by another one."""
    has_none = any(map(is_none, other.denied))
    return any(has_none or name in other.denied for name in label.categories)


def _merge(label: ForeignLabel, other: ForeignLabel) -> None:
    same = not (label.categories and other.categories) or label.categories == other.categories
    label.decided = same and label.decided and other.decided
    label.denied += other.denied
    label.categories = tuple(dict.fromkeys((*label.categories, *other.categories)))
    label.labelled = label.labelled or other.labelled
    label.agent, label.step = label.agent or other.agent, label.step or other.step
    label.note = " ".join(filter(None, (label.note, other.note)))
