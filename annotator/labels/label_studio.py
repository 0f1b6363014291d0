"""Label Studio's JSON and JSON-MIN exports.

Written against Label Studio's "task format" page and its converter (``annotation_result_from_task``
and ``convert_to_json_min`` of label-studio-sdk): the JSON export is a list of tasks with
``data``, ``annotations`` (once ``completions``) and ``predictions``; the JSON-MIN export is a list
with one record per annotation, the task's data beside the answers by the names of their controls.
Predictions are a judge's suggestions and are never read.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from annotator.labels.answers import BESIDE, drop_empty, is_code, pick_codes, read_ids
from annotator.labels.checking import parse_number
from annotator.labels.model import FIELDS, LabelRow
from annotator.rubrics import Scheme
from annotator.traces.records import expect_object, get_text

_RATINGS = ("rating", "number", "choices", "text")


def is_task(value: Mapping[str, Any]) -> bool:
    """Whether a record is a task of the JSON export."""
    return "data" in value and any(
        name in value for name in ("annotations", "completions", "predictions")
    )


def is_min(value: Mapping[str, Any]) -> bool:
    """Whether a record is one of the JSON-MIN export."""
    return "annotation_id" in value and "lead_time" in value


def read_task(task: Mapping[str, Any], where: str, scheme: Scheme) -> Iterator[LabelRow]:
    """Yield a row for each annotation, or one without an annotator.

    A cancelled or empty annotation is not labelled yet.

    Raises:
        AnnotatorError: a part has an unexpected form.
    """
    where = f"{where} (task {task['id']})" if isinstance(task.get("id"), int) else where
    ids = read_ids(expect_object(task.get("data"), f"{where}: data"), scheme)
    annotations = task.get("annotations", task.get("completions")) or []
    if not isinstance(annotations, list) or not annotations:
        yield LabelRow(where, ids)
        return
    for n, value in enumerate(annotations, 1):
        position = f"{where}, annotation {n}"
        annotation = expect_object(value, position)
        fields = ids | _read_annotator(annotation.get("completed_by"))
        if not (annotation.get("was_cancelled") or annotation.get("skipped")):
            fields |= _read_answers(annotation.get("result") or [], scheme, position)
        yield LabelRow(position, fields)


def read_min(record: Mapping[str, Any], where: str, scheme: Scheme) -> Iterator[LabelRow]:
    """Yield the row of a record of JSON-MIN, in which answers and data are side by side.

    A question with an unknown name is one for codes if its answer is a code. A record without such
    an answer is not labelled yet.
    """
    questions = ("primary", "secondary", scheme.id)
    answers = {name: _list_picks(value) for name, value in record.items()}
    picks = {
        name: choices
        for name, choices in answers.items()
        if name in questions
        or (name not in FIELDS and any(is_code(choice, scheme) for choice in choices))
    }
    evidence = [
        span["text"]
        for value in record.values()
        if isinstance(value, list)
        for span in value
        if isinstance(span, dict) and isinstance(span.get("text"), str) and "labels" in span
    ]
    fields = read_ids(record, scheme) | _read_annotator(record.get("annotator"))
    beside = {
        "evidence": evidence + _list_texts(record.get("evidence")),
        "note": "\n".join(_list_texts(record.get("note"))),
        "confidence": _parse_rating(record.get("confidence")),
    }
    yield LabelRow(where, fields | drop_empty(beside) | pick_codes(picks, scheme, where))


def _read_annotator(value: Any) -> dict[str, Any]:
    """Return the annotator: a number, or the user's fields."""
    if isinstance(value, dict):
        value = value.get("email") or value.get("id")
    name = get_text(value)
    return {"annotator": name} if name else {}


def _read_answers(results: Any, scheme: Scheme, where: str) -> dict[str, Any]:
    """Return the fields of one annotation from its choices, spans, texts and ratings."""
    picks: dict[str, list[str]] = {}
    beside: dict[str, Any] = {"evidence": [], "note": [], "confidence": None}
    for result in results if isinstance(results, list) else []:
        result = expect_object(result, f"{where}: result")
        name, sort = str(result.get("from_name")), str(result.get("type"))
        value = result.get("value")
        if not isinstance(value, dict):
            continue
        if sort == "choices" and name not in BESIDE:
            picks.setdefault(name, []).extend(_list_picks(value))
        elif name == "confidence" or sort == "rating":
            beside["confidence"] = _parse_rating(value)
        elif sort == "textarea":
            beside["evidence" if name == "evidence" else "note"].extend(_list_texts(value))
        elif sort.endswith("labels"):
            beside["evidence"].extend(_list_texts(value))
    beside["note"] = "\n".join(beside["note"])
    return drop_empty(beside) | pick_codes(picks, scheme, where)


def _list_picks(value: Any) -> list[str]:
    """Return the picks: from one word, or from {"choices": [...]}."""
    if isinstance(value, str):
        return [value] if value.strip() else []
    if isinstance(value, dict):
        value = value.get("choices")
    if not isinstance(value, list):
        return []
    groups = ([item] if isinstance(item, str) else _list_choices(item) for item in value)
    return [pick for group in groups for pick in group]


def _list_choices(item: Any) -> list[str]:
    """Return the picks of a region; the deeper lists of a taxonomy are not read."""
    choices = item.get("choices") if isinstance(item, dict) else None
    texts = choices if isinstance(choices, list) else []
    return [choice for choice in texts if isinstance(choice, str)]


def _list_texts(value: Any) -> list[str]:
    """Return texts from one, a list of them, or {"text": one or a list}."""
    value = value.get("text") if isinstance(value, dict) else value
    if isinstance(value, str):
        value = [value]
    texts = value if isinstance(value, list) else []
    return [text for text in texts if isinstance(text, str) and text.strip()]


def _parse_rating(value: Any) -> Any:
    """Return a rating: a number, or within ``rating``, ``number`` or the only choice."""
    value = _take_first(value)
    if isinstance(value, dict):
        value = next((value[name] for name in _RATINGS if name in value), None)
    return parse_number(_take_first(value))


def _take_first(value: Any) -> Any:
    return (value[0] if value else None) if isinstance(value, list) else value
