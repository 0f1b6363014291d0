"""Values of JSON records: texts, times, ids, outcomes and facts to group by."""

import ast
import hashlib
import json
import math
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from pydantic_core import from_json

from annotator.base.errors import UnreadableTrace
from annotator.base.text import decode, replace_surrogates
from annotator.traces.model import AgentEnd, Feature

_LONGEST_LITERAL = 4_000_000  # characters; Python's own parser takes a hundred times their memory
_LATEST_TIME = 1e11  # seconds since 1970: the year 5138
_IDS = ("id", "trace_id", "instance_id", "session_id", "conversation_id", "thread_id", "uuid")
_NAME_LISTS = ("features", "pair", "agents")
_ITEM_NAMES = ("name", "agent", "agent_name", "agent_id")
_LARGEST_TEAM = 10_000
_LONGEST_ATTRIBUTE = 1_000  # characters
_TYPE_NAMES: Mapping[type, str] = {
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "a list",
    type(None): "null",
}

RESULT_KEYS = ("passed", "resolved", "success", "is_correct", "correct", "reward", "score")
"""Keys that may hold the result of a run; the first that does decides."""

_OTHER_RESULTS = (
    *("is_corrected", "solved", "is_solved", "succeeded", "successful", "is_successful"),
    *("is_success", "is_resolved", "is_passed", "task_success"),
)
# Objects that hold results, or words for them: {"outcome": {"status": "failure"}}.
_OUTCOMES = (
    *("outcome", "result", "results", "evaluation", "eval", "eval_result", "evaluation_result"),
    *("verdict", "grade", "test_result", "status", "final_status", "other_data"),
)
_STATUSES = ("status", "outcome", "result", "verdict", "label")
_WORDS = {
    **dict.fromkeys(("success", "succeeded", "successful", "passed", "pass", "resolved"), True),
    **dict.fromkeys(("solved", "correct"), True),
    **dict.fromkeys(("failure", "failed", "fail", "unresolved", "unsolved", "incorrect"), False),
    **dict.fromkeys(("unsuccessful", "not resolved", "not_resolved", "wrong"), False),
}

TASK_KEYS = (
    *("question", "task", "instruction", "problem_statement", "goal", "objective", "query"),
    *("task_description", "user_request", "prompt"),
)
"""Keys that say what a run was asked."""
_WRAPPERS = ("inputs", "input", "data", "info", "metadata")
_TASK_TEXTS = (*TASK_KEYS, "description", "text", "content")

LABEL_KEYS = frozenset(
    (
        *("labels", "label", "annotations", "mast_annotation", "mistake_agent", "mistake_step"),
        *("mistake_reason", "mistake_type", "failure_category", "failure_categories"),
        *("failure_mode", "root_cause"),
    )
)
"""Keys of people's labels. They are for `calibrate`: no judge and no labeller may see them."""

LABELS_NOTE = "labels of people and judges, kept from judges and labellers"


def parse_json(text: str | bytes, name: str, *, line: int | None = None) -> Any:
    """Return the JSON value in ``text``; UnreadableTrace says ``name`` and ``line``."""
    try:
        return from_json(text)  # in half the time
    except (TypeError, ValueError):
        pass  # not JSON, or only the standard library reads it: a lone surrogate, a byte order mark
    where = f"{name}, line {line}" if line else name
    text = decode(text) if isinstance(text, bytes) else text
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        if "\x00" in text[:4096] or text[:4096].count("\ufffd") > 8:
            raise UnreadableTrace(f"{where}: binary data, not JSON") from error
        at = f"column {error.colno}" if line else f"line {error.lineno}, column {error.colno}"
        raise UnreadableTrace(f"{where}: not valid JSON: {error.msg} at {at}") from error
    except RecursionError as error:
        raise UnreadableTrace(f"{where}: JSON nested too deeply to be read") from error
    except ValueError as error:
        raise UnreadableTrace(f"{where}: not valid JSON: {error}") from error


def parse_nested(value: Any) -> Any:
    """Return the JSON object or list in a text; any other value as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return parse_json(value, "a text")
        except UnreadableTrace:
            return value
    return value


def parse_cell(value: Any) -> Any:
    """Return the list or object in a text, as JSON or as pandas writes it; else the value."""
    return (
        _parse_cell(value) if isinstance(value, str) and value.lstrip()[:1] in ("{", "[") else value
    )


@lru_cache(maxsize=2)  # a reader asks for the same cell some times
def _parse_cell(text: str) -> Any:
    value = parse_nested(text)
    if isinstance(value, str) and "'" in text and len(text) < _LONGEST_LITERAL:
        value = parse_literal(text.strip())
    return value if isinstance(value, list | dict) else text


def parse_literal(text: str) -> Any:
    """Return a value that Python wrote; None for any other text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def name_type(value: Any) -> str:
    """Return the type of a JSON value for an error message: ``a list``."""
    return _TYPE_NAMES.get(type(value), "an object")


def expect_object(value: Any, where: str) -> dict[str, Any]:
    """Return ``value`` if it is a JSON object, else raise :class:`UnreadableTrace`."""
    if not isinstance(value, dict):
        raise UnreadableTrace(f"{where}: found {name_type(value)}, expected an object")
    return value


def get_list(value: Any, key: str | None = None) -> list[Any]:
    """Return a list, or with ``key`` the list under it in an object; [] for anything else."""
    if key is not None:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, list) else []


def list_items(document: Any, key: str) -> list[Any]:
    """Return a document that is a list, or the list under a key of an object; else []."""
    return get_list(document, None if isinstance(document, list) else key)


def get_dict(value: Any, key: str | None = None) -> dict[str, Any]:
    """Return an object, or with ``key`` the object under it in one; {} for anything else."""
    if key is not None:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def get_text(value: Any) -> str | None:
    """Return a string or number as text without lone surrogates; None for anything else."""
    if isinstance(value, str):
        return value if value.isascii() else replace_surrogates(value)
    if value is None or isinstance(value, (bool, list, dict)):
        return None
    return str(value)


def get_first_text(fields: Mapping[str, Any], *keys: str) -> str | None:
    """Return the first of some values that is a text and not empty."""
    for key in filter(fields.__contains__, keys):
        if text := get_text(fields[key]):
            return text
    return None


def read_flag(value: Any) -> bool | None:
    """Return a JSON boolean; None for anything else."""
    return value if isinstance(value, bool) else None


def parse_time(value: Any) -> float | None:
    """Return seconds since 1970 from a number, an ISO 8601 text (UTC if zoneless) or a datetime.

    A number after the year 5000 is in milli-, micro- or nanoseconds.
    """
    try:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            for scale in (1, 1e3, 1e6, 1e9):
                if abs(seconds := float(value) / scale) < _LATEST_TIME:
                    return seconds
        elif isinstance(value, (str, datetime)):
            moment = datetime.fromisoformat(value) if isinstance(value, str) else value
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        pass
    return None


def parse_number(value: Any) -> Any:
    """Return a number, or a text that is one, as a float; None if infinite; other values as is."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return value
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return value
    return number if math.isfinite(number) else None


def walk_path(record: Any, path: str) -> Any:
    """Return the value at a dotted path (``runs.0.id``), also through JSON in a text; else None."""
    return next(_walk(record, path), None)


def _walk(value: Any, path: str) -> Iterator[Any]:
    value = parse_nested(value) if path else value
    if not path:
        yield value
    elif isinstance(value, dict):
        parts = path.split(".")
        for end in range(len(parts), 0, -1):
            key = ".".join(parts[:end])
            if key in value:
                yield from _walk(value[key], ".".join(parts[end:]))
                return
    elif isinstance(value, list):
        first, _, rest = path.partition(".")
        if first.isdecimal() and len(first) < 9 and int(first) < len(value):
            yield from _walk(value[int(first)], rest)


def walk_paths(record: Any, path: str) -> Iterator[tuple[str | None, Any]]:
    """Yield the values at a path in which ``*`` stands for any key or item, each with its name.

    The name is the key that the last ``*`` stands for, or the ``name`` of the item; else None.
    """
    keys = path.split(".")
    at = keys.index("*") if "*" in keys else len(keys)
    value = parse_nested(walk_path(record, ".".join(keys[:at])))
    if at == len(keys):
        if value is not None:
            yield None, value
        return
    pairs: list[tuple[str | None, Any]] = list(get_dict(value).items())
    if isinstance(value, list):
        pairs = [(get_first_text(get_dict(item), *_ITEM_NAMES), item) for item in value]
    for key, inner in pairs:
        for name, match in walk_paths(inner, ".".join(keys[at + 1 :])):
            yield name or key, match


def find_record_id(record: Any) -> str | None:
    """Return a record's own id, if it has one."""
    if not isinstance(record, dict):
        return None
    ids = (text for key in _IDS if (text := get_text(record.get(key))) and text.strip())
    return next(ids, None)


def read_outcome(record: Mapping[str, Any]) -> tuple[bool | None, str | None]:
    """Return whether a run passed, and the rule that says so; None and None if not known.

    A boolean (also as text, or as 0 and 1) and a reward of at least 1 count. A score counts only
    if it is 0 or 1: nothing says what another one is worth. Without any of ``RESULT_KEYS`` other
    words for a result count, if they do not contradict each other: ``solved``, or
    ``outcome.status`` with a word such as ``failure``.
    """
    for key in RESULT_KEYS:
        passed, rule = _read_result(key, record.get(key))
        if passed is not None:
            return passed, rule
    results = [pair for pair in _list_results(record) if pair[0] is not None]
    same = len({passed for passed, _ in results}) == 1
    return results[0] if same else (None, None)


def _list_results(record: Mapping[str, Any]) -> Iterator[tuple[bool | None, str | None]]:
    """Yield what the other words of a record say, each with its rule."""
    for key in _OTHER_RESULTS:
        yield _read_result(key, record.get(key))
    for name in _OUTCOMES:
        value = record.get(name)
        yield _read_word(name, value)
        for key, inner in get_dict(value).items():
            if key == "correct" and not isinstance(inner, bool):
                continue  # the right answer
            if key in RESULT_KEYS or key in _OTHER_RESULTS:
                passed, rule = _read_result(key, inner)
                yield passed, f"{name}.{rule}"
            elif key in _STATUSES:
                yield _read_word(f"{name}.{key}", inner)


def _read_result(key: str, value: Any) -> tuple[bool | None, str | None]:
    if isinstance(value, bool):
        return value, key
    value = parse_number(value)
    if isinstance(value, float):
        if key == "reward":
            return value >= 1, "reward >= 1"
        if value in (0, 1):
            return value == 1, f"{key} == 1"
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true", key
    return None, None


def _read_word(path: str, value: Any) -> tuple[bool | None, str | None]:
    if not isinstance(value, str):
        return None, None
    word = value.strip().lower()
    return _WORDS.get(word), f"{path} == {word}"


def _is_outcome(key: str, value: Any) -> bool:
    """Whether an object holds results only, so that :func:`read_outcome` reads all of it."""
    result_keys = {*RESULT_KEYS, *_OTHER_RESULTS, *_STATUSES}
    return key in _OUTCOMES and isinstance(value, dict) and result_keys.issuperset(value)


def find_task(record: Mapping[str, Any]) -> str:
    """Return what a run was asked: the texts under ``TASK_KEYS`` of its record, else of an object
    in it (``inputs``, ``data``); or ""."""
    texts = (_read_task(record.get(key)) for key in TASK_KEYS)
    task = "\n\n".join(dict.fromkeys(text for text in texts if text))
    inner = (find_task(value) for key in _WRAPPERS if isinstance(value := record.get(key), dict))
    return task or next((text for text in inner if text), "")


def _read_task(value: Any) -> str:
    """Return a text, the texts of a list, or the first text of an object; numbers are no texts."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        value = "\n".join(value)
    if isinstance(value, dict):
        value = next((value[key] for key in _TASK_TEXTS if isinstance(value.get(key), str)), "")
    return replace_surrogates(value.strip()) if isinstance(value, str) else ""


def read_attributes(
    record: Mapping[str, Any],
    consumed: Collection[str] = (),
    where: str = "",
    tasks: Collection[str] = TASK_KEYS,
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the scalars of a record as attributes, and a note for each value left out.

    What the run was asked (``tasks``) is no attribute, but a ``task`` of one word is. For a longer
    one there is ``task_hash``: runs of one task are a cluster.
    """
    attributes: dict[str, Any] = {}
    _, rule = read_outcome(record)
    problems: list[str] = []
    nested: list[str] = []
    for key, value in record.items():
        name = replace_surrogates(key)
        if key in consumed:
            continue
        if key in tasks and (task := _read_task(value)):
            if key == "task":
                is_name = isinstance(value, str) and len(task.split()) == 1 and len(task) <= 200
                digest = hashlib.sha256(task.encode()).hexdigest()[:12]
                attributes |= {"task": task} if is_name else {"task_hash": digest}
        elif key in LABEL_KEYS:
            problems.append(f"{where}{name}: a label of people, kept from judges and labellers")
        elif isinstance(value, float) and not math.isfinite(value):
            problems.append(f"{where}{name} is {value}, left out")
        elif isinstance(value, str) and len(value) > _LONGEST_ATTRIBUTE:
            nested.append(name)
        elif value is None or isinstance(value, bool | int | float | str):
            attributes[name] = replace_surrogates(value) if isinstance(value, str) else value
        elif value and not (_is_outcome(key, value) and (rule or "").startswith(f"{key}.")):
            nested.append(name)
    if nested:
        problems.append(f"{where}not short scalars, left out: {', '.join(sorted(nested)[:12])}")
    return attributes, tuple(problems)


def read_pair_and_team(fields: Mapping[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """Return fields of an :class:`~annotator.traces.model.Outcome`, and the keys of the lists read.

    Args:
        fields: may hold ``features`` (a list), or ``pair`` (a list, or a text like "3+4");
            ``agents`` (a list of names, or a number); and ``strategy``.
    """
    outcome: dict[str, Any] = {}
    lists = {key: names for key in _NAME_LISTS if (names := _read_names(fields.get(key)))}
    pair = get_text(fields.get("pair"))
    names = tuple(name.strip() for name in (pair or "").split("+"))
    names = names if all(names) else (pair,) if pair else ()
    if features := lists.get("features") or lists.get("pair") or names:
        outcome["features"] = tuple(map(Feature, features))
    if "agents" in lists:
        outcome["agents"] = tuple(map(AgentEnd, lists["agents"]))
    size = parse_number(fields.get("agents"))
    if isinstance(size, float) and size.is_integer() and 0 < size <= _LARGEST_TEAM:
        outcome["team_size"] = int(size)
    if strategy := get_text(fields.get("strategy")):
        outcome["strategy"] = strategy
    return outcome, set(lists)


def read_patches(value: Any) -> dict[str, str]:
    """Return the patches of an object by agent; {} for any other value."""
    patches = get_dict(parse_nested(value))
    return patches if all(isinstance(text, str) for text in patches.values()) else {}


def _read_names(value: Any) -> tuple[str, ...]:
    """Return a list of texts and numbers as texts; () for any other value."""
    names = tuple(map(get_text, get_list(parse_nested(value))))
    return tuple(name for name in names if name) if all(names) else ()
