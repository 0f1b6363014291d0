"""Answers in the exports of annotation tools: questions, and the options picked for each."""

from collections.abc import Mapping, Sequence
from typing import Any

from annotator.base.errors import AnnotatorError
from annotator.base.text import sanitize_line
from annotator.labels.checking import is_none
from annotator.labels.convert import find_code
from annotator.labels.model import ID_NAMES
from annotator.rubrics import Scheme
from annotator.traces.records import get_first_text, get_text

# Questions without codes.
BESIDE = ("note", "evidence", "confidence")
_IDS = ("trace_id", "rubric", "rubric_sha256", "task", "split", "design")


def pick_codes(answers: Mapping[str, Sequence[str]], scheme: Scheme, where: str) -> dict[str, Any]:
    """Return the fields ``primary`` and ``secondary`` from the options picked for each question.

    Without questions of these names, that for codes is the one named like the rubric, else the only
    one, else the only one with a code as answer; AnnotatorError if there are several.
    """
    picked = {name: list(picks) for name, picks in answers.items() if picks and name not in BESIDE}
    if "primary" in picked or "secondary" in picked:
        primary = picked.get("primary", [])
        fields: dict[str, Any] = {"secondary": picked.get("secondary", [])}
        return fields | (
            {"primary": primary[0] if len(primary) == 1 else primary} if primary else {}
        )
    if not picked:
        return {}
    candidates = [scheme.id] if scheme.id in picked else list(picked)
    if len(candidates) > 1:
        candidates = [name for name in picked if any(is_code(p, scheme) for p in picked[name])]
    if len(candidates) != 1:
        names = sanitize_line(", ".join(sorted(picked)), 200)
        raise AnnotatorError(
            f"{where}: which question is for codes cannot be told from their names ({names}); "
            "name it primary"
        )
    first, *rest = picked[candidates[0]]
    return {"primary": first, "secondary": rest}


def is_code(word: Any, scheme: Scheme) -> bool:
    """Whether a word names a code of the rubric, or is ``none``."""
    return isinstance(word, str) and (is_none(word) or find_code(word.strip(), scheme) is not None)


def read_ids(data: Mapping[str, Any], scheme: Scheme) -> dict[str, Any]:
    """Return the fields that identify a task from its data; the rubric's default is ``scheme``, the
    trace's id may have another usual name.
    """
    # Tools that import tables make numbers of ids that look like them.
    fields: dict[str, Any] = {name: get_text(data.get(name)) for name in _IDS}
    fields["inclusion_probability"] = data.get("inclusion_probability")
    fields["trace_id"] = get_first_text(data, *ID_NAMES)
    return {"rubric": scheme.id} | {
        name: value for name, value in fields.items() if value not in (None, "")
    }


def drop_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are filled in."""
    return {name: value for name, value in fields.items() if value not in (None, "", [])}
