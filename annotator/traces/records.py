"""What a record says beside its messages: its id, how it ended, and facts to group by."""

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from annotator.base.errors import UnreadableTrace
from annotator.base.text import replace_surrogates
from annotator.traces.document import get_text, parse_json
from annotator.traces.model import AgentEnd, Feature, Outcome

_IDS = ("id", "trace_id", "instance_id", "session_id", "conversation_id", "thread_id", "uuid")
_NAME_LISTS = ("features", "pair", "agents")
RESULT_KEYS = ("passed", "resolved", "success", "is_correct", "correct", "reward", "score")
_LARGEST_TEAM = 10_000
_LONG = 1_000  # characters of a text that is no attribute to group by
# What people said of a run. It is for `calibrate`: no judge and no labeller may see it.
LABEL_KEYS = frozenset(
    (
        *("labels", "label", "annotations", "mast_annotation", "mistake_agent", "mistake_step"),
        *(
            "mistake_reason",
            "mistake_type",
            "failure_category",
            "failure_categories",
            "failure_mode",
            "root_cause",
        ),
    )
)


def find_record_id(record: Any) -> str | None:
    """Return a record's own id, if it has one."""
    if not isinstance(record, dict):
        return None
    return next(
        (text for key in _IDS if (text := get_text(record.get(key))) and text.strip()), None
    )


def read_outcome(record: Mapping[str, Any]) -> tuple[bool | None, str | None]:
    """Return whether a run passed, and the rule by which that is known; None where it is not.

    The first key that holds a result decides: a boolean (also as text or as 0 and 1); a reward of
    at least 1; a score only if it is 0 or 1, since nothing says what another one is worth.
    """
    for key in RESULT_KEYS:
        value = record.get(key)
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


def parse_number(value: Any) -> Any:
    """Return a number, also one in a text as tables hold it, to be compared; else what it is."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return value
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return value
    return number if math.isfinite(number) else None


def read_attributes(
    record: Mapping[str, Any], consumed: Collection[str] = (), where: str = ""
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the scalars of a record as attributes, and what is left out, in words.

    What was ``consumed`` is in the trace already; labels of people are left out and named.
    """
    attributes: dict[str, Any] = {}
    problems: list[str] = []
    nested: list[str] = []
    for key, value in record.items():
        name = replace_surrogates(key)
        if key in consumed:
            continue
        if key in LABEL_KEYS:
            problems.append(f"{where}{name}: a label of people, kept from judges and labellers")
        elif isinstance(value, float) and not math.isfinite(value):
            problems.append(f"{where}{name} is {value}, left out")
        elif isinstance(value, str) and len(value) > _LONG:
            nested.append(name)
        elif value is None or isinstance(value, bool | int | float | str):
            attributes[name] = replace_surrogates(value) if isinstance(value, str) else value
        elif value:
            nested.append(name)
    if nested:
        problems.append(f"{where}not short scalars, left out: {', '.join(sorted(nested)[:12])}")
    return attributes, tuple(problems)


def describe_outcome(
    record: Mapping[str, Any], attributes: dict[str, Any]
) -> tuple[Outcome, dict[str, Any]]:
    """Return how a record says that the run ended, and its attributes with ``passed`` and the
    ``outcome_rule`` by which that is known.
    """
    passed, rule = read_outcome(record)
    if rule:
        told = {} if rule == "passed" else {"outcome_rule": rule}
        attributes = {**attributes, "passed": passed, **told}
    return Outcome(passed=passed, merge=get_text(attributes.get("merge"))), attributes


def read_pair_and_team(fields: Mapping[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """Return which features a run was to build, who took part, and how the patches were merged.

    Args:
        fields: may hold ``features`` (a list), or ``pair`` (a list, or a text like "3+4");
            ``agents`` (a list of names, or a number); and ``strategy``.

    Returns:
        Fields of an :class:`~annotator.traces.model.Outcome`, and the keys of the lists it read.
    """
    outcome: dict[str, Any] = {}
    lists = {key: names for key in _NAME_LISTS if (names := _read_names(fields.get(key)))}
    pair = get_text(fields.get("pair"))
    names = tuple(part.strip() for part in (pair or "").split("+"))
    names = names if all(names) else (pair,) if pair else ()
    features = lists.get("features") or lists.get("pair") or names
    if features:
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
    """Return the patches of an object by agent; nothing of any other value."""
    value = parse_nested(value)
    patches = value if isinstance(value, dict) else {}
    return patches if all(isinstance(text, str) for text in patches.values()) else {}


def _read_names(value: Any) -> tuple[str, ...]:
    """Return the texts and numbers of a list as texts; nothing if it is no list of these alone."""
    value = parse_nested(value)
    names = tuple(map(get_text, value)) if isinstance(value, list) else ()
    return tuple(name for name in names if name) if all(names) else ()


def walk_path(record: Any, path: str) -> Any:
    """Return what stands at a dotted path (``trace.trajectory``, ``runs.0.id``), None if nothing.

    A key that itself holds dots is found as it is; JSON in a text on the way is parsed.
    """
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


def parse_nested(value: Any) -> Any:
    """Return the JSON object or list in a text, or the value as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return parse_json(value, "a text")
        except UnreadableTrace:
            return value
    return value
