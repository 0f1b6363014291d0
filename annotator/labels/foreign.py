"""Records that hold labels of people, as other tools and published data sets write them.

Read are AgentRx's ground truth (``trajectory_id``, ``failures``, ``root_cause``), labels of AG2
runs by MAST's modes (``labels``: ``present``, ``note``: ``options``), MAST's records
(``mast_annotation``) and those of its three annotators (``failure mode``, ``annotator_1``), TRAIL's
errors, Who&When's records (``mistake_agent``, ``mistake_step``), which name no category, records
with keys like the columns of a sheet, and objects of trace ids.
"""

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from annotator.base.text import sanitize_line
from annotator.labels.cells import list_codes, read_mark
from annotator.labels.checking import Problems
from annotator.labels.model import ForeignLabel
from annotator.labels.user_tables import IsCode, read_plain
from annotator.traces.records import (
    find_record_id,
    get_dict,
    get_first_text,
    get_list,
    get_text,
    parse_nested,
)


def read_record(
    record: Mapping[str, Any], where: str, path: str, is_code: IsCode, problems: Problems
) -> list[ForeignLabel]:
    """Return the labels in a record; [] if none are known in it.

    ``path`` is the place of the record, whose name is the label's id if the record has none.
    """
    fallback = PurePosixPath(path).name
    labels = list(_read_known(record, fallback, where, problems))
    labels = labels or read_plain(record, fallback, is_code, where, problems)
    for label in labels:
        label.where, label.path = where, path
    return labels or _read_map(record, where, is_code, problems)


def _read_map(
    value: Mapping[str, Any], where: str, is_code: IsCode, problems: Problems
) -> list[ForeignLabel]:
    """Return the labels in an object of trace ids and their codes, or annotators and theirs; [] if
    no code is in it.
    """
    if find_record_id(value) or not all(isinstance(item, (list, dict)) for item in value.values()):
        return []
    labels: list[ForeignLabel] = []
    for trace_id, codes in value.items():
        entry = f"{where}, {sanitize_line(trace_id, 60)}"
        record = {"trace_id": trace_id, "labels": codes}
        labels += read_plain(record, trace_id, is_code, entry, problems)
    has_code = any(is_code(name) for label in labels for name in label.categories)
    return labels if has_code else []


def _read_known(
    record: Mapping[str, Any], fallback: str, where: str, problems: Problems
) -> Iterator[ForeignLabel]:
    labels = parse_nested(record.get("labels"))
    annotated = get_dict(parse_nested(record.get("mast_annotation")))
    votes = [vote for vote in get_list(record, "annotations") if _find_mode(vote)]
    if isinstance(record.get("failures"), list) and "trajectory_id" in record:
        yield _read_agentrx(record)
    elif present := [
        (trace_id, label)
        for trace_id, label in get_dict(labels).items()
        if isinstance(get_dict(label).get("present"), list)
    ]:
        for trace_id, label in present:
            named = tuple(text for mode in label["present"] if (text := get_text(mode)))
            yield ForeignLabel(trace_id, named, note=get_text(label.get("notes")) or "")
    elif annotated:
        by_person = all(isinstance(modes, dict) for modes in annotated.values())
        own_id = _identify(record, fallback)
        for person, modes in annotated.items() if by_person else ():
            yield _read_modes(own_id, modes, person, where, problems)
        if not by_person:
            yield _read_modes(own_id, annotated, None, where, problems)
    elif votes:
        people = {key for vote in votes for key in vote if key.startswith("annotator")}
        for person in sorted(people):
            modes = {_find_mode(vote): vote.get(person) for vote in votes}
            yield _read_modes(_identify(record, fallback), modes, person, where, problems)
    elif options := get_dict(get_dict(record, "note"), "options"):
        label = _read_modes(find_record_id(record) or fallback, options, None, where, problems)
        label.note = "\n".join(list_codes(record["note"].get("text")))
        label.labelled = bool(label.categories or label.note)  # the runner fills in "no"
        yield label
    elif "mistake_agent" in record:
        step = get_text(record.get("mistake_step"))
        yield ForeignLabel(
            get_first_text(record, "question_ID", "id") or fallback,
            (),
            decided=False,
            agent=get_text(record.get("mistake_agent")),
            step=int(step) + 1 if step and step.isdecimal() else None,  # there from 0
            note=get_text(record.get("mistake_reason")) or "",
        )
    else:
        trail = get_dict(labels) if "errors" in get_dict(labels) else record
        errors = [error for error in get_list(trail, "errors") if "category" in get_dict(error)]
        if errors or ("scores" in trail and trail.get("errors") == []):
            trace = get_dict(parse_nested(record.get("trace")))
            ids = map(find_record_id, (trail, trace, record))
            categories = tuple(text for error in errors if (text := get_text(error["category"])))
            yield ForeignLabel(
                next(filter(None, ids), fallback), categories, decided=len({*categories}) < 2
            )


def _find_mode(vote: Any) -> str:
    """Return the mode that MAST's annotators voted on, without its definition below it."""
    mode = get_dict(vote).get("failure mode")
    return mode.strip().partition("\n")[0].strip() if isinstance(mode, str) else ""


def _read_modes(
    trace_id: str,
    modes: Mapping[str, Any],
    person: str | None,
    where: str,
    problems: Problems,
) -> ForeignLabel:
    """Return the label of one annotator; without any 0 or 1, it is not labelled yet."""
    marks: dict[str, bool | None] = {}
    for mode, value in modes.items():
        try:
            marks[mode] = read_mark(value)
        except ValueError as error:
            problems.add(f"{where}, {sanitize_line(mode, 60)}: {error}")
    present = tuple(mode for mode, mark in marks.items() if mark)
    labelled = any(mark is not None for mark in marks.values())
    return ForeignLabel(trace_id, present, annotator=person, labelled=labelled)


def _identify(record: Mapping[str, Any], fallback: str) -> str:
    from annotator.traces.formats.mast import identify

    return identify(record) or fallback


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
