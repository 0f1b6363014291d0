"""A likely map for records of no known format, and what it would leave out."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import yaml

from annotator.base.text import format_count, list_first, sanitize_line
from annotator.traces.formats.generic import CONVERSATION_KEYS
from annotator.traces.records import (
    LABEL_KEYS,
    RESULT_KEYS,
    find_record_id,
    get_dict,
    get_list,
    get_text,
    name_type,
    parse_cell,
    walk_path,
    walk_paths,
)

_TEXTS = ("content", "text", "message", "body", "value", "output", "response", "utterance")
_SENDERS = ("name", "sender", "from", "source", "speaker", "agent", "role", "author", "type")
_TIMES = ("timestamp", "time", "created_at", "at")
_RECIPIENTS = ("to", "recipient", "recipients")
_OF_MESSAGE = re.compile(r"(?:^|_)(?:message|msg|speaker|sender|agent|user|author|turn)_id$")
_WRAPPERS = ("message", "msg", "data", "payload", "event")
_RUN_KEYS = frozenset(RESULT_KEYS)
_DEEPEST = 6
_MOST_LISTS = 2_000
_PEEK = 100  # messages whose keys are looked at

Path = tuple[str | int, ...]


def suggest_map(document: Any) -> str:
    """Return a likely map for an unknown document and its keys, as YAML with comments."""
    if document and not isinstance(document, dict | list):
        return f"# {name_type(document)}: no record"
    names = sanitize_line(", ".join(sorted(map(str, document))[:30]), 2000) if document else ""
    lines = [f"# keys: {names}" if document else "# empty"]
    candidates = islice(_find_lists(document, ()), _MOST_LISTS)
    lists = {path: items for path, items in candidates if _score(items) > 0}
    if lists:
        lines += _suggest_lists(document, lists)
    elif isinstance(document, dict) and _score([document]) > 0:
        lines += ["# each record is a message:", *_suggest_keys(document, is_named=False)]
        group = next((key for key in CONVERSATION_KEYS if key in document), None)
        ids = (key for key in document if key.endswith("_id") and not _OF_MESSAGE.search(key))
        group = group or next(ids, None)
        lines.append(f"group_by: {_spell(group)}" if group else "# group_by: KEY of a conversation")
    else:
        lines.append("# nothing in it looks like a list of messages")
    if isinstance(document, dict):
        key = next((key for key in document if key == "id" or key.endswith("_id")), None)
        lines += [f"id: {_spell(key)}"] if key and lists else []
        hidden = sorted(LABEL_KEYS & document.keys())
        lines += [f"# labels of people, never shown to a judge: {', '.join(hidden)}"] * bool(hidden)
    return "\n".join(lines)


def _suggest_lists(document: Any, lists: Mapping[Path, list[Any]]) -> list[str]:
    best = max(lists, key=lambda path: _score(lists[path]))
    pattern, members = _merge_paths(best, lists, document)
    path = _join(pattern)
    items = [item for member in members for item in lists[member][:_PEEK]]
    runs, inner = _split_runs(document, path)
    if pattern[-1:] == ("*",) and _are_runs(document, pattern, items):
        runs, inner = path, "messages"
    is_named = "*" in pattern and not runs
    lines = [f"records: {_spell(runs)}"] if runs else []
    lines += [f"messages: {_spell(inner)}"] if inner else []
    keys = _suggest_keys(_join_keys(items), is_named=is_named)
    if runs:
        lines.append(f"# {format_count(len(members), 'record')}, each a trace")
    elif is_named:
        counted = list_first([f"{_join(member)} ({len(lists[member])})" for member in members], 6)
        noun = format_count(len(members), "list")
        sender = "" if any(line.startswith("sender") for line in keys) else ", the * is the sender"
        lines.append(f"# {noun} of messages{sender}: {_clean(counted)}")
        if pattern[-1] == "*":
            lines.append(f"# if they are runs: records: {_spell(path)}, messages: messages")
    lines += keys
    used = {line.partition(": ")[2].strip('"') for line in keys}
    others = [other for other in lists if other not in members]
    for other in others[:10]:
        count = format_count(len(lists[other]), "message")
        lines.append(f"# left out: {_clean(_join(other) or 'the list')} ({count})")
    lines += [f"# left out: {len(others) - 10} more lists of messages"] * bool(others[10:])
    used = {head for path in used for head in (path, path.partition(".")[0])}
    rest = {key for item in items if isinstance(item, dict) for key in item} - used
    lines += _describe_rest("of each message", rest)
    if isinstance(document, dict):
        heads = {str(member[0]) for member in members if member}
        nested = {
            key for key in document if document[key] and isinstance(document[key], dict | list)
        }
        lines += _describe_rest("of the record", nested - heads - LABEL_KEYS)
    return lines


def _merge_paths(
    best: Path, lists: Mapping[Path, list[Any]], document: Any
) -> tuple[Path, list[Path]]:
    """Return a path with ``*`` for a key in which lists of one kind differ, and these lists."""
    options: list[tuple[Path, list[Path]]] = [(best, [best])]
    for at in range(len(best)):
        pattern = (*best[:at], "*", *best[at + 1 :])
        is_item = isinstance(best[at], int)
        members = [path for path in lists if (*path[:at], "*", *path[at + 1 :]) == pattern]
        values = list(walk_paths(document, _join(pattern)))
        is_last = at == len(best) - 1  # the lists themselves: all beside them must be such lists
        if is_item or (len(members) > 1 and (not is_last or len(values) == len(members))):
            options.append((pattern, members))
    return max(options, key=lambda option: (len(option[1]), "*" in option[0]))


def _join_keys(items: Sequence[Any]) -> dict[str, Any]:
    """Return the keys of all messages with the first value of each: not all have a name."""
    joined: dict[str, Any] = {}
    for item in items:
        for key, value in get_dict(item).items():
            if joined.get(key) is None:
                joined[key] = value
    return joined


def _split_runs(document: Any, path: str) -> tuple[str, str]:
    """Return the path of a list of runs, and that of the messages in each; "" and the path if the
    items of the list are parts of one run: they have neither an id nor an outcome.
    """
    runs, star, inner = path.partition(".*.")
    value = walk_path(document, runs) if star else None
    items = list(value.values()) if isinstance(value, dict) else get_list(value)
    are_runs = all(find_record_id(item) or _RUN_KEYS & get_dict(item).keys() for item in items)
    return (runs, inner) if items and are_runs else ("", path)


def _are_runs(document: Any, pattern: Path, items: Sequence[Any]) -> bool:
    """Whether lists are runs and not agents: they have no keys, or speakers of other names."""
    holder = walk_path(document, _join(pattern[:-1]))
    fields = _join_keys(items)
    speaker = _find_key(fields, _SENDERS, str)
    names = {get_text(walk_path(item, speaker)) for item in items} if speaker else set()
    has_names = speaker != _find_key(fields, ("role", "type"), str)
    return isinstance(holder, list) or (has_names and names.isdisjoint(get_dict(holder)))


def _join(path: Path) -> str:
    return ".".join(map(str, path))


def _describe_rest(holder: str, keys: set[str]) -> list[str]:
    names = sorted(map(str, keys))
    return [f"# left out {holder}: {_clean(list_first(names, 12))}"] if names else []


def _clean(text: str) -> str:
    return sanitize_line(text, 500)


def _spell(path: str) -> str:
    """Return a path as a YAML scalar: a stranger's key may be any text."""
    if re.fullmatch(r"[\w-][\w.*-]*", path) and yaml.safe_load(path) == path:
        return path
    return str(yaml.safe_dump(path, default_style='"', width=float("inf"))).strip()


def _find_lists(value: Any, path: Path) -> Iterator[tuple[Path, list[Any]]]:
    value = parse_cell(value)
    if isinstance(value, list) and value and isinstance(value[0], dict):
        yield path, value
        if _score(value) > 0:
            return  # the lists in messages are their parts
    if len(path) < _DEEPEST and isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value[:_PEEK])
        for key, inner in pairs:
            yield from _find_lists(inner, (*path, key))


def _score(items: Sequence[Any]) -> int:
    """Return how much a list looks like messages, from 0."""
    text = _find_key(items[0], _TEXTS, str | list)
    speaker = _find_key(items[0], _SENDERS, str)
    return (2 + bool(speaker)) * min(len(items), 100) if text else 0


def _find_key(item: Mapping[str, Any], names: Sequence[str], kind: Any) -> str | None:
    """Return the first of some keys that a message has, or an object in it: ``message.content``."""
    for outer in ("", *_WRAPPERS):
        fields: Any = item if not outer else item.get(outer)
        for name in names if isinstance(fields, dict) else ():
            if isinstance(fields.get(name), kind):
                return f"{outer}.{name}" if outer else name
    return None


def _suggest_keys(item: Mapping[str, Any], *, is_named: bool) -> list[str]:
    """Return the keys of a message; ``is_named``: the path of its list has a ``*``, its sender."""
    text = _find_key(item, _TEXTS, str | list)
    role = _find_key(item, ("role", "type"), str)
    speaker = _find_key(item, _SENDERS, str)
    speaker = None if is_named and speaker == role else speaker
    lines = [f"sender: {_spell(speaker)}"] if speaker else []
    lines += ["# sender: KEY of who speaks"] if not (speaker or is_named) else []
    lines += [f"text: {_spell(text)}"] if text else []
    if role and role != speaker and (is_named or speaker):
        lines.append(f"author: {role}")
    for name, keys in (("recipients", _RECIPIENTS), ("time", _TIMES)):
        lines += [f"{name}: {key}" for key in keys if item.get(key)][:1]
    return lines
