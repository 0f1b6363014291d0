"""Potato's tables of annotated instances, CSV or TSV.

Written against Potato's sources (github.com/davidjurgens/potato): columns are ``schema:::name`` in
Potato 1 (``output_annotation_format: csv``), ``schema.name`` in the export of Potato 2. An option's
value is its key or its name, so that any value but an empty or false one means that it was picked
(the tenth option's key is "0").
"""

from collections.abc import Mapping
from typing import Any

from annotator.labels.answers import BESIDE, drop_empty, pick_codes
from annotator.labels.model import LabelRow
from annotator.rubrics import Scheme

_TEXT = ("text_box", "free_response", "text")
_NOT_PICKED = ("", "false", "False")  # but 0 is a key


def is_table(header: list[str]) -> bool:
    """Whether these are the columns of one of Potato's tables."""
    return "instance_id" in header and ("user" in header or "user_id" in header)


def is_json(value: Mapping[str, Any]) -> bool:
    """Whether a record is of Potato's JSON, which is not read."""
    forms = ("instance_id_to_label_to_value",), ("label_annotations",), ("instance_id", "labels")
    return any(value.keys() >= {*keys} for keys in forms)


def read_line(cells: Mapping[str, str], where: str, scheme: Scheme) -> LabelRow | None:
    """Return the row of a line of a table; None for that of a machine; raises AnnotatorError."""
    if (cells.get("origin") or cells.get("annotator_origin") or "human") != "human":
        return None
    separator = ":::" if any(":::" in name for name in cells) else "."
    answers: dict[str, dict[str, str]] = {}
    for column, value in cells.items():
        schema, mark, name = column.partition(separator)
        is_label = mark and schema != "span_annotation" and not name.startswith("_")
        if is_label and value not in _NOT_PICKED:
            answers.setdefault(schema, {})[name] = value
    fields = {
        "trace_id": cells.get("instance_id", ""),
        "rubric": scheme.id,
        "annotator": cells.get("user") or cells.get("user_id") or "",
        "evidence": _split_lines(answers.get("evidence")),
        "note": "\n".join(_split_lines(answers.get("note"))),
        "confidence": _parse_degree(answers.get("confidence")),
    }
    picks = {
        schema: [name for name in names if name not in _TEXT]
        for schema, names in answers.items()
        if schema not in BESIDE
    }
    return LabelRow(where, drop_empty(fields) | pick_codes(picks, scheme, where))


def _split_lines(names: Mapping[str, str] | None) -> list[str]:
    lines = [line for text in (names or {}).values() for line in text.splitlines()]
    return [line.strip() for line in lines if line.strip()]


def _parse_degree(names: Mapping[str, str] | None) -> Any:
    """Return a number on a scale: from the option's name (``3``, ``scale_3``), else its value."""
    for name, value in (names or {}).items():
        digits = name.removeprefix("scale_")
        return digits if digits.isdigit() else value
    return None
