"""Label Studio's JSON export: a list of tasks with ``data``, ``annotations`` (once
``completions``) and ``predictions``; and its JSON-MIN: a record for each annotation, with the data
beside the answers.

Written against Label Studio's "task format" page. Predictions are a judge's suggestions and are
never read.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from annotator.labels.answers import BESIDE, drop_empty, is_code, pick_codes, read_ids
from annotator.labels.cells import list_codes
from annotator.labels.model import FIELDS, LabelRow
from annotator.rubrics import Scheme
from annotator.traces.records import expect_object, get_dict, get_list, get_text

_RATINGS = ("rating", "number", "choices", "text")


def is_task(value: Mapping[str, Any]) -> bool:
    """Whether a record is a task of the JSON export."""
    return "data" in value and any(
        name in value for name in ("annotations", "completions", "predictions")
    )


def is_min(value: Mapping[str, Any]) -> bool:
    """Whether a record is of the JSON-MIN export."""
    return "annotation_id" in value and "lead_time" in value


def read_task(task: Mapping[str, Any], where: str, scheme: Scheme) -> Iterator[LabelRow]:
    """Yield a row for each annotation, or one without an annotator; raises AnnotatorError.

    A cancelled or empty annotation is not labelled yet.
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
    """Yield the row of a record of JSON-MIN. A key with another name than ``primary``,
    ``secondary`` or the rubric's is a question for codes if its answer is a code, or ``choices``.
    """
    answers = {name: _list_answers(value) for name, value in record.items()}
    names = ("primary", "secondary", scheme.id)
    picks = {
        name: texts
        for name, texts in answers.items()
        if name in names
        or "choices" in get_dict(record[name])
        or (name not in FIELDS and any(is_code(text, scheme) for text in texts))
    }
    marked = {name for name in picks if any(map(get_dict, get_list(record[name])))}  # spans
    picks = {name: picks[name] for name in picks.keys() - marked or marked}
    spans = (get_dict(span) for value in record.values() for span in get_list(value))
    beside = {
        "evidence": [
            text for span in spans if "labels" in span for text in list_codes(span.get("text"))
        ]
        + answers.get("evidence", []),
        "note": "\n".join(answers.get("note", [])),
        "confidence": record.get("confidence"),
    }
    data = {name: value for name, value in record.items() if name != "id"}  # of the task
    fields = read_ids(data, scheme) | _read_annotator(record.get("annotator"))
    yield LabelRow(where, fields | drop_empty(beside) | pick_codes(picks, scheme, where))


def _list_answers(value: Any) -> list[str]:
    """Return the texts of an answer as :func:`list_codes`, or below ``text``; of a number none."""
    texts = list_codes(value) if isinstance(value, (str, list, dict)) else []
    return list_codes(get_dict(value).get("text")) or texts


def _read_annotator(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        value = value.get("email") or value.get("id")
    name = get_text(value)
    return {"annotator": name} if name else {}


def _read_answers(results: Any, scheme: Scheme, where: str) -> dict[str, Any]:
    picks: dict[str, list[str]] = {}
    marked: dict[str, dict[str, None]] = {}  # the labels of spans: codes if no question has them
    beside: dict[str, Any] = {"evidence": [], "note": [], "confidence": None}
    for result in results if isinstance(results, list) else []:
        result = expect_object(result, f"{where}: result")
        name, sort = str(result.get("from_name")), str(result.get("type"))
        value = result.get("value")
        if not isinstance(value, dict):
            continue
        if sort in ("choices", "taxonomy") and name not in BESIDE:
            picks.setdefault(name, []).extend(list_codes(value))
        elif name == "confidence" or sort == "rating":
            rating = next((value[key] for key in _RATINGS if key in value), None)
            beside["confidence"] = rating[0] if isinstance(rating, list) else rating
        elif sort == "textarea":
            beside["evidence" if name == "evidence" else "note"] += list_codes(value.get("text"))
        elif sort.endswith("labels"):
            beside["evidence"] += list_codes(value.get("text"))
            marked.setdefault(name, {}).update(dict.fromkeys(list_codes(value.get(sort))))
    beside["note"] = "\n".join(beside["note"])
    spans = {name: [*codes] for name, codes in marked.items() if name not in BESIDE}
    return drop_empty(beside) | pick_codes(picks or spans, scheme, where)
