"""Argilla's records, as ``dataset.records.to_json`` writes them, and those of Argilla 1.

Written against Argilla's sources. Responses are by question (``[{"value", "user_id"}]``), or by
user (``[{"user_id", "values": {question: {"value"}}}]``); flat records have them in
``question.responses`` and their users in ``question.responses.users``. Suggestions are a judge's
and are never read. The trace's id is ``trace_id`` in the metadata or the fields, else the record's.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from annotator.labels.answers import BESIDE, drop_empty, pick_codes, read_ids
from annotator.labels.cells import list_codes
from annotator.labels.model import LabelRow
from annotator.rubrics import Scheme
from annotator.traces.records import get_dict, get_first_text, get_list, get_text, parse_nested

_FLAT = ".responses"
_NOTES = ("note", "notes", "comment", "comments", "reason", "rationale")
_UNFINISHED = ("draft", "discarded")


def is_record(value: Mapping[str, Any]) -> bool:
    """Whether a record is Argilla's."""
    return ("responses" in value and "fields" in value) or any(key.endswith(_FLAT) for key in value)


def read_record(record: Mapping[str, Any], where: str, scheme: Scheme) -> Iterator[LabelRow]:
    """Yield a row for each user, or one without an annotator; raises AnnotatorError.

    A draft or a discarded response is not labelled yet.
    """
    metadata = get_dict(parse_nested(record.get("metadata")))
    data = dict(record) | get_dict(record.get("fields")) | metadata
    if own_id := get_first_text(record, "external_id", "id"):
        data.setdefault("trace_id", own_id)
    ids = read_ids(data, scheme)
    answers: dict[str, dict[str, Any]] = defaultdict(dict)
    for user, question, value, status in _list_responses(record):
        answers[user].update({} if status in _UNFINISHED else {question: value})
    if not answers:
        yield LabelRow(where, ids)
    for user, values in answers.items():
        beside = {
            "evidence": list_codes(values.get("evidence")),
            "note": "\n".join(text for name in _NOTES for text in list_codes(values.get(name))),
            "confidence": values.get("confidence"),
        }
        picks = {
            name: list_codes(value)
            for name, value in values.items()
            if name not in (*BESIDE, *_NOTES)
        }
        fields = ids | {"annotator": user} | drop_empty(beside)
        yield LabelRow(f"{where}, {user}", fields | pick_codes(picks, scheme, where))


def _list_responses(record: Mapping[str, Any]) -> Iterator[tuple[str, str, Any, Any]]:
    """Yield user, question, value and status of each response."""
    responses = parse_nested(record.get("responses"))
    for question, by_user in get_dict(responses).items():
        for response in map(get_dict, get_list(by_user)):
            yield _name(response), question, response.get("value"), response.get("status")
    for response in map(get_dict, get_list(responses)):
        for question, answer in get_dict(response, "values").items():
            yield _name(response), question, get_dict(answer).get("value"), response.get("status")
    for key in (key for key in record if key.endswith(_FLAT)):
        users, states = (get_list(record, f"{key}.{name}") for name in ("users", "status"))
        for n, value in enumerate(get_list(record, key)):
            user = get_text(users[n]) if n < len(users) else None
            state = states[n] if n < len(states) else None
            yield user or "", key.removesuffix(_FLAT), value, state


def _name(response: Mapping[str, Any]) -> str:
    return get_text(response.get("user_id")) or ""
