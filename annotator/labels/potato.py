"""Potato's annotation output.

Written against Potato's sources (github.com/davidjurgens/potato):

* Potato 2: ``annotation_output/<user>/user_state.json``, where ``instance_id_to_label_to_value``
  maps an instance to ``[[{"schema", "name"}, value], ...]`` (``InMemoryUserState.to_json``) or, as
  its export command still reads, to ``{schema: {name: value}}``.
* Potato 2's export to JSONL (``instance_id``, ``user_id``, ``labels``, ``spans`` with their text)
  and to CSV or TSV with columns ``schema.name`` (``export/tabular_exporter.py``).
* Potato 1: ``annotated_instances.jsonl`` or ``.json``, one object per line with
  ``label_annotations``; of all users with ``user_id`` (``save_all_annotations``), or in a folder
  per user without (``save_user_state``); and as CSV or TSV with columns ``schema:::name``.

An option's value is its key or its name, so that any value but an empty or false one means that it
was picked (the tenth option's key is "0"). Spans of Potato 1 and of ``user_state.json`` hold no
text and are not read, nor are pages of a survey (``*.html``) and raters that are machines.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from annotator.base.text import sanitize_line
from annotator.labels.answers import BESIDE, drop_empty, pick_codes
from annotator.labels.checking import parse_number
from annotator.labels.model import LabelRow
from annotator.rubrics import Scheme
from annotator.traces.records import expect_object, get_text

_STATE = "instance_id_to_label_to_value"
_TEXT = ("text_box", "free_response", "text")
_NOT_PICKED = ("", "false", "False")  # but 0 is a key

Answers = dict[str, dict[str, Any]]  # question -> option, or "text_box" -> its value


def is_state(value: Mapping[str, Any]) -> bool:
    """Whether a record is a ``user_state.json``."""
    return _STATE in value


def is_record(value: Mapping[str, Any]) -> bool:
    """Whether a record is one instance of one user."""
    return "label_annotations" in value or ("instance_id" in value and "labels" in value)


def is_table(header: list[str]) -> bool:
    """Whether these are the columns of one of Potato's tables."""
    return "instance_id" in header and ("user" in header or "user_id" in header)


def read_state(
    state: Mapping[str, Any], where: str, path: Path, scheme: Scheme
) -> Iterator[LabelRow]:
    """Yield a row for each instance that was assigned to the user.

    Raises:
        AnnotatorError: a part has an unexpected form.
    """
    if _is_machine(state):
        return
    user = get_text(state.get("user_id")) or path.absolute().parent.name
    labels = expect_object(state[_STATE], f"{where}: {_STATE}")
    for instance, value in labels.items():
        position = f"{where}, instance {sanitize_line(instance, 120)}"
        if not instance.endswith(".html"):
            yield _make_row(instance, user, _read_answers(value, position), [], position, scheme)
    assigned = state.get("instance_id_ordering")
    for trace_id in map(get_text, assigned if isinstance(assigned, list) else []):
        if trace_id and trace_id not in labels and not trace_id.endswith(".html"):
            yield LabelRow(where, {"trace_id": trace_id, "rubric": scheme.id, "annotator": user})


def read_record(
    record: Mapping[str, Any], where: str, path: Path, scheme: Scheme
) -> Iterator[LabelRow]:
    """Yield the row of one instance of one user, by default the folder's name.

    Raises:
        AnnotatorError: a part has an unexpected form.
    """
    if _is_machine(record):
        return
    instance = get_text(record.get("instance_id", record.get("id"))) or ""
    user = get_text(record.get("user_id")) or path.absolute().parent.name
    answers = _read_answers(record.get("label_annotations", record.get("labels")), where)
    if not instance.endswith(".html"):
        yield _make_row(instance, user, answers, _list_quotes(record.get("spans")), where, scheme)


def read_table_rows(cells: Mapping[str, str], where: str, scheme: Scheme) -> Iterator[LabelRow]:
    """Yield the row of a line of a table; a label's column is ``schema:::name`` or ``schema.name``.

    Raises:
        AnnotatorError: several questions, and none of them is named primary.
    """
    if _is_machine(cells):
        return
    separator = ":::" if any(":::" in name for name in cells) else "."
    answers: Answers = {}
    for column, value in cells.items():
        schema, is_label, name = column.partition(separator)
        if is_label and schema != "span_annotation" and not name.startswith("_"):
            answers.setdefault(schema, {})[name] = value
    user = cells.get("user") or cells.get("user_id") or ""
    yield _make_row(cells.get("instance_id", ""), user, answers, [], where, scheme)


def _is_machine(record: Mapping[str, Any]) -> bool:
    """Whether a rater is a machine: any origin but ``human``, if there is one."""
    origin = record.get("origin") or record.get("annotator_origin")
    return bool(origin) and (origin.get("kind") if isinstance(origin, dict) else origin) != "human"


def _read_answers(value: Any, where: str) -> Answers:
    """Return the answers on one instance from any of Potato's forms."""
    if isinstance(value, list):
        pairs: Answers = {}
        for pair in value:
            label = pair[0] if isinstance(pair, list) and len(pair) == 2 else None
            label = expect_object(label, f"{where}: label")
            schema, name = str(label.get("schema")), str(label.get("name"))
            pairs.setdefault(schema, {})[name] = pair[1]
        return pairs
    answers = {}
    for schema, names in expect_object(value, f"{where}: labels").items():
        if isinstance(names, dict):  # its documentation has the options one level deeper
            answers[schema] = names["labels"] if isinstance(names.get("labels"), dict) else names
        else:
            answers[schema] = {str(names): names} if isinstance(names, str) else {}
    return answers


def _make_row(
    instance: str, user: str, answers: Answers, quotes: list[str], where: str, scheme: Scheme
) -> LabelRow:
    picks = {
        schema: [name for name, value in names.items() if _is_picked(value) and name not in _TEXT]
        for schema, names in answers.items()
        if schema not in BESIDE
    }
    fields = {
        "evidence": quotes + _split_lines(answers.get("evidence")),
        "note": "\n".join(_split_lines(answers.get("note"))),
        "confidence": _parse_degree(answers.get("confidence")),
    }
    ids = {"trace_id": instance, "rubric": scheme.id, "annotator": user}
    return LabelRow(where, ids | drop_empty(fields) | pick_codes(picks, scheme, where))


def _is_picked(value: Any) -> bool:
    return value is not None and value is not False and value not in _NOT_PICKED


def _split_lines(names: Mapping[str, Any] | None) -> list[str]:
    """Return the lines of a text question."""
    texts = [value for value in (names or {}).values() if isinstance(value, str)]
    return [line.strip() for text in texts for line in text.splitlines() if line.strip()]


def _parse_degree(names: Mapping[str, Any] | None) -> Any:
    """Return a number on a scale: from the option's name (``3``, ``scale_3``), else its value."""
    for name, value in (names or {}).items():
        if _is_picked(value):
            digits = name.removeprefix("scale_")
            return parse_number(digits if digits.isdigit() else value)
    return None


def _list_quotes(spans: Any) -> list[str]:
    """Return the texts of the spans in an export of Potato 2."""
    groups = spans.values() if isinstance(spans, dict) else []
    texts = [
        span.get("text")
        for group in groups
        for span in (group if isinstance(group, list) else [])
        if isinstance(span, dict)
    ]
    return [text for text in texts if isinstance(text, str) and text.strip()]
