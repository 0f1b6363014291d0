"""Labels of other tools converted to a rubric of ours.

Read are AgentRx's ground truth (``trajectory_id``, ``failures``, ``root_cause``), the labels of
AG2 runs by MAST's modes (``labels``: ``present``), MAD's ``mast_annotation``, and Who&When's
records (``mistake_agent``, ``mistake_step``), which name no category.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from annotator.base.errors import AnnotatorError
from annotator.base.files import read_bounded
from annotator.labels.model import ForeignLabel
from annotator.labels.spreadsheet import read_sheet
from annotator.rubrics import NONE, Rubric
from annotator.traces.records import get_text, parse_json

# Spellings of categories, letters only, by their beginning.
_ALIASES = {
    "instructionplanadherence": "adherence",
    "instructionadherence": "adherence",
    "planadherence": "adherence",
    "inventionof": "invention",
    "invalidinvocation": "invocation",
    "misinterpretationof": "misinterpretation",
    "intentplanmisalignment": "misalignment",
    "underspecified": "underspecified",
    "intentnotsupported": "unsupported",
    "guardrail": "guardrails",
    "systemfailure": "system",
    "inconclusive": "inconclusive",
}


@dataclass(slots=True)
class Converted:
    """Rows of a file of labels, and the labels that could not be converted."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    unmapped: Counter[str] = field(default_factory=Counter)
    without_trace: list[str] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)
    unlabelled: list[str] = field(default_factory=list)


def convert(
    labels: Iterable[ForeignLabel],
    rubric: Rubric,
    annotator: str,
    trace_ids: Iterable[str] | None = None,
    spelled: Mapping[str, str] | None = None,
) -> Converted:
    """Return labels as rows of our own file.

    A category is a code by its id, its name, a usual spelling, or one of the user's (``spelled``).
    A label with any other category is listed and left out. ``trace_ids``: the ids of our traces,
    which end with the ids of the other tool.
    """
    result = Converted()
    ids = None if trace_ids is None else _index(trace_ids)
    for label in labels:
        codes = {name: _find_code(name, rubric, spelled or {}) for name in label.categories}
        unknown = [name for name, code in codes.items() if code is None]
        result.unmapped.update(unknown)
        trace_id = label.id if ids is None else ids.get(_normalize_id(label.id))
        if trace_id is None:
            result.without_trace.append(label.id)
        elif not label.labelled:
            result.unlabelled.append(label.id)
        elif label.agent and not codes and len(rubric.codes) == 1:
            result.rows.append(_make_row(label, trace_id, [rubric.codes[0].id], rubric, annotator))
        elif not label.decided and rubric.choice != "many":
            result.undecided.append(label.id)
        elif not unknown:
            found_codes = [code for code in dict.fromkeys(codes.values()) if code and code != NONE]
            result.rows.append(_make_row(label, trace_id, found_codes, rubric, annotator))
    return result


def read_foreign_labels(
    file: Path, rubric: Rubric, spelled: Mapping[str, str] | None = None
) -> tuple[list[ForeignLabel], list[str]]:
    """Return the labels in a file of another tool or a spreadsheet (CSV, TSV), and the unused
    columns of a spreadsheet. ``rubric`` and ``spelled`` decide which columns are codes.

    Raises:
        AnnotatorError: it cannot be read, or its kind is unknown.
    """
    try:
        text = read_bounded(file).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise AnnotatorError(f"{file}: {getattr(error, 'strerror', None) or error}") from error
    if file.suffix.lower() in (".csv", ".tsv"):
        return read_sheet(
            text, file.name, lambda heading: bool(_find_code(heading, rubric, spelled or {}))
        )
    lines = text.split("\n") if file.suffix.lower() in (".jsonl", ".ndjson") else [text]
    values = [parse_json(line, file.name) for line in lines if line.strip()]
    value = values[0] if len(values) == 1 else values
    records = value if isinstance(value, list) else [value]
    labels = [label for record in records for label in _read_record(record)]
    if not labels:
        raise AnnotatorError(
            f"{file}: no labels that are known: expected AgentRx's ground truth, labels by MAST's"
            " modes, MAD's mast_annotation, Who&When's mistake_agent, or a CSV"
        )
    return labels, []


def _read_record(record: Any) -> Iterator[ForeignLabel]:
    if not isinstance(record, dict):
        return
    if isinstance(record.get("failures"), list) and "trajectory_id" in record:
        yield _read_agentrx(record)
    elif isinstance(labels := record.get("labels"), dict):
        for trace_id, label in labels.items():
            if isinstance(label, dict) and isinstance(label.get("present"), list):
                present = tuple(text for mode in label["present"] if (text := get_text(mode)))
                yield ForeignLabel(trace_id, present, note=get_text(label.get("notes")) or "")
    elif isinstance(modes := record.get("mast_annotation"), dict):
        from annotator.traces.formats.mast import identify

        present = tuple(mode for mode, value in modes.items() if value in (1, True, "1"))
        yield ForeignLabel(identify(record) or "", present)
    elif "mistake_agent" in record:
        step = get_text(record.get("mistake_step"))
        own_id = get_text(record.get("question_ID")) or get_text(record.get("id")) or ""
        yield ForeignLabel(
            own_id,
            (),
            decided=False,
            agent=get_text(record.get("mistake_agent")),
            step=int(step) + 1 if step and step.isdecimal() else None,  # there from 0
            note=get_text(record.get("mistake_reason")) or "",
        )


def _read_agentrx(record: Mapping[str, Any]) -> ForeignLabel:
    failures = [item for item in record["failures"] if isinstance(item, dict)]
    cause = record.get("root_cause")
    about = cause if isinstance(cause, dict) else {}
    root = next((f for f in failures if f.get("failure_id") == about.get("failure_id")), None)
    ordered = ([root] if root else []) + [item for item in failures if item is not root]
    step = get_text(root.get("step_number")) if root else None
    return ForeignLabel(
        get_text(record["trajectory_id"]) or "",
        tuple(text for item in ordered if (text := get_text(item.get("failure_category")))),
        decided=root is not None,
        agent=get_text(root.get("failed_agent")) if root else None,
        step=int(step) if step and step.isdecimal() else None,
        note=get_text(about.get("reason_for_root_cause")) or "",
    )


def _find_code(name: str, rubric: Rubric, spelled: Mapping[str, str]) -> str | None:
    ids = {code.id for code in rubric.codes}
    plain = _simplify_name(name)
    if (code_id := spelled.get(name)) is not None:
        return code_id
    for candidate in (name, name.removeprefix("FM-")):
        if candidate in ids:
            return candidate
    for code in rubric.codes:
        if plain in (_simplify_name(code.id), _simplify_name(code.name)):
            return code.id
    alias = next((code for start, code in _ALIASES.items() if plain.startswith(start)), None)
    return alias if alias in ids else None


def _simplify_name(name: str) -> str:
    return re.sub(r"[^a-z]", "", name.lower()) or name


def _make_row(
    label: ForeignLabel, trace_id: str, codes: list[str], rubric: Rubric, annotator: str
) -> dict[str, Any]:
    many = rubric.choice == "many"
    others = {"many": codes, "primary": codes[1:], "one": []}[rubric.choice]
    row: dict[str, Any] = {
        "trace_id": trace_id,
        "rubric": rubric.id,
        "annotator": label.annotator or annotator,
        **({} if many and codes else {"primary": codes[0] if codes else NONE}),
        "secondary": others,
        "note": label.note,
    }
    row |= {"agent": label.agent} if label.agent else {}
    row |= {"step": label.step} if label.step else {}
    return row


def _index(trace_ids: Iterable[str]) -> dict[str, str]:
    """Return trace ids by the last part of their path without a suffix, if that is unique."""
    by_key: dict[str, list[str]] = {}
    for trace_id in trace_ids:
        for key in {_normalize_id(trace_id), _normalize_id(re.split(r"[/:]", trace_id)[-1])}:
            by_key.setdefault(key, []).append(trace_id)
    return {key: ids[0] for key, ids in by_key.items() if len(ids) == 1}


def _normalize_id(trace_id: str) -> str:
    return re.sub(r"\.(json|jsonl|traj|eval)$", "", trace_id.strip()).lower()


def render_rows(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows as JSON lines."""
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
