"""Records of other formats, read by the user's map of their keys."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from annotator.base.errors import AnnotatorError, UnreadableTrace
from annotator.base.text import sanitize_line
from annotator.base.yaml import read_yaml
from annotator.traces.authors import classify_word, find_author, has_named_speakers, has_role_words
from annotator.traces.conversation import Conversation, Utterance, read_parts
from annotator.traces.model import Author, Outcome, Trace
from annotator.traces.records import (
    LABEL_KEYS,
    expect_object,
    find_record_id,
    find_task,
    get_text,
    name_type,
    parse_nested,
    parse_number,
    parse_time,
    read_attributes,
    read_outcome,
    read_pair_and_team,
    walk_path,
)

_COMPARISON = re.compile(r"(?P<path>.+?)\s*(?P<sign>>=|<=|==|!=|>|<)\s*(?P<value>.+)")
_SIGNS = {
    ">=": lambda left, right: left >= right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    "<": lambda left, right: left < right,
}
_TEXTS = ("content", "text", "message", "body", "value", "output", "response", "utterance")
_SENDERS = ("name", "sender", "from", "source", "speaker", "agent", "role", "author", "type")


class Map(BaseModel):
    """The keys of a format, as the file of ``--map`` names them; each is a dotted path.

    ``messages``: the list of messages in a record; without it each record is a message, and
    ``group_by`` says which of them belong together. Of a message: ``sender``, ``text``,
    ``author`` (a role or type), ``recipients``, ``time``, ``kind``. Of a record: ``id``, ``passed``
    (a path, or a comparison such as ``reward >= 1``), ``patches`` (an object from agents to diffs),
    ``outcome`` (texts that tell how it ended), ``attributes``; ``features`` or ``pair``,
    ``agents``, ``merge`` and ``strategy``, as :func:`~annotator.traces.records.read_pair_and_team`
    reads them. ``authors`` says of senders and roles who they are: agent, human, tool, system.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    messages: str | None = None
    text: str = "content"
    sender: str = "sender"
    author: str | None = None
    recipients: str | None = None
    time: str | None = None
    kind: str | None = None
    id: str | None = None
    group_by: str | None = None
    passed: str | None = None
    patches: str | None = None
    outcome: tuple[str, ...] = ()
    features: str = "features"
    pair: str = "pair"
    agents: str = "agents"
    merge: str = "merge"
    strategy: str = "strategy"
    attributes: tuple[str, ...] | None = None
    authors: Mapping[str, Author] = {}

    @field_validator("outcome", "attributes", mode="before")
    @classmethod
    def _wrap(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value


class MapReader:
    """The reader of one :class:`Map`; ``origin`` names its file and SHA-256 for ``run.json``."""

    name = "map"

    def __init__(self, keys: Map, origin: str) -> None:
        self.keys = keys
        self.origin = origin

    def matches(self, document: Any) -> bool:
        """Whether a document has the messages, or the text of one, where the map says."""
        if not isinstance(document, dict):
            return False
        if self.keys.messages is None:
            return walk_path(document, self.keys.text) is not None
        return isinstance(parse_nested(walk_path(document, self.keys.messages)), list)

    def group(self, record: Any) -> str | None:
        """Return the id that records of one trace share; None if each is a trace."""
        if self.keys.group_by is not None:
            return get_text(walk_path(record, self.keys.group_by)) or ""
        return "" if self.keys.messages is None else None

    def identify(self, document: Any) -> str | None:
        """Return the record's own id."""
        if self.keys.id is not None:
            return get_text(walk_path(document, self.keys.id))
        return find_record_id(document)

    def read(self, document: Any, trace_id: str, path: str) -> Trace:
        """Return the trace of a record or a group; UnreadableTrace if the map finds no text."""
        records = document if isinstance(document, list) else [document]
        items: list[Any] = []
        for record in records:
            items += self._list_messages(record)
        chat = self._converse(items)
        first = records[0] if isinstance(records[0], dict) else {}
        passed, rule = self._read_outcome(first)
        paths = {key: getattr(self.keys, key) for key in ("features", "pair", "agents", "strategy")}
        run, lists = read_pair_and_team({k: walk_path(first, path) for k, path in paths.items()})
        self._read_attributes(first, chat, [paths[key] for key in lists])
        if merge := get_text(walk_path(first, self.keys.merge)):
            chat.attributes["merge"] = merge
        if passed is not None:
            rules = {} if rule == "passed" else {"outcome_rule": rule}
            chat.attributes |= {"passed": passed} | rules
        texts = (get_text(walk_path(first, key)) for key in self.keys.outcome)
        error = "\n".join(text for text in texts if text) or None
        chat.outcome = Outcome(passed=passed, merge=merge, error=error, **run)
        patches = self._read_patches(first, chat)
        return chat.trace(self.name, trace_id, path, patches=patches)

    def _list_messages(self, record: Any) -> list[Any]:
        if self.keys.messages is None:
            return [record]
        items = parse_nested(walk_path(record, self.keys.messages))
        if not isinstance(items, list):
            raise UnreadableTrace(
                f"{self.keys.messages}: found {name_type(items)}, expected a list"
            )
        return items

    def _converse(self, items: Sequence[Any]) -> Conversation:
        keys, chat = self.keys, Conversation()
        objects = [expect_object(item, f"message {n}") for n, item in enumerate(items, 1)]
        has_roles, has_names = has_role_words(objects), has_named_speakers(objects)
        for item in objects:
            parts = read_parts(parse_nested(walk_path(item, keys.text)))
            sender = get_text(walk_path(item, keys.sender)) or ""
            role = get_text(walk_path(item, keys.author)) if keys.author else None
            author = keys.authors.get(sender) or keys.authors.get(role or "")
            if author is None and role is not None:
                author = classify_word(role) or ("agent" if sender else "unknown")
            if author is None:
                fields = item if keys.sender in item else {"sender": sender}
                author = find_author(
                    {**fields, "sender": sender}, has_roles=has_roles, has_names=has_names
                )
            to = walk_path(item, keys.recipients) if keys.recipients else None
            names = (get_text(name) for name in (to if isinstance(to, list) else [to]))
            chat.add(
                Utterance(
                    sender,
                    "tool" if parts.has_result else author,
                    parts.texts,
                    tuple(name for name in names if name),
                    parse_time(walk_path(item, keys.time)) if keys.time else None,
                    get_text(walk_path(item, keys.kind)) if keys.kind else None,
                    parts.reasoning,
                    parts.omitted,
                ),
                keys.messages or "record",
            )
        if items and not any(message.text for message in chat.messages):
            raise UnreadableTrace(f"no message has a text at {keys.text!r}; see the map")
        return chat

    def _read_outcome(self, record: Mapping[str, Any]) -> tuple[bool | None, str | None]:
        rule = self.keys.passed
        if rule is None:
            return read_outcome(record)
        match = _COMPARISON.fullmatch(rule)
        if match is None:
            passed, _ = read_outcome({"passed": walk_path(record, rule)})
            return passed, rule
        value = parse_number(walk_path(record, match["path"]))
        bound: Any = parse_number(match["value"].strip("'\""))
        value = float(value) if isinstance(bound, float) and isinstance(value, bool) else value
        if match["sign"] in ("==", "!="):
            same = None if value is None else str(value).lower() == str(bound).lower()
            return (same if match["sign"] == "==" or same is None else not same), rule
        try:
            return _SIGNS[match["sign"]](float(value), float(bound)), rule
        except (TypeError, ValueError):
            return None, rule

    def _read_attributes(
        self, record: Mapping[str, Any], chat: Conversation, lists: Sequence[str]
    ) -> None:
        keys = self.keys
        if keys.attributes is None:
            used = (keys.messages, keys.patches, keys.id, keys.passed, keys.text, keys.sender)
            consumed = {path.split(".")[0] for path in (*used, *keys.outcome, *lists) if path}
            chat.read_attributes(record, consumed)
        else:
            named = {path: walk_path(record, path) for path in keys.attributes}
            chat.attributes, problems = read_attributes(named, tasks=())
            chat.problems += problems
            chat.task = find_task(record)

    def _read_patches(self, record: Mapping[str, Any], chat: Conversation) -> dict[str, str]:
        if self.keys.patches is None:
            return {}
        value = parse_nested(walk_path(record, self.keys.patches))
        if isinstance(value, dict):
            return {agent: get_text(patch) or "" for agent, patch in value.items()}
        if value is not None:
            problem = f"found {name_type(value)}, expected an object of agents and their diffs"
            chat.problems.append(f"{self.keys.patches}: {problem}")
        return {}


def load_map(file: str) -> MapReader:
    """Return the reader for the map in a YAML file.

    Raises:
        AnnotatorError: the file cannot be read, or has an unknown key or a wrong value.
    """
    value, data = read_yaml(Path(file))
    if not isinstance(value, dict):
        raise AnnotatorError(f"{file}: expected keys such as messages: trace.trajectory")
    try:
        keys = Map.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        fields = ", ".join(Map.model_fields)
        unknown = first["type"] == "extra_forbidden"
        reason = f"unknown; known: {fields}" if unknown else first["msg"]
        raise AnnotatorError(f"{file}: {where}: {reason}") from error
    if keys.passed and "=" in keys.passed and not _COMPARISON.fullmatch(keys.passed):
        raise AnnotatorError(f"{file}: passed: {keys.passed!r}: expected a path, or == to compare")
    return MapReader(keys, f"{Path(file).name} sha256 {hashlib.sha256(data).hexdigest()[:16]}")


def suggest_map(document: Any) -> str:
    """Return a likely map for an unknown document and its keys, as YAML with comments."""
    lists = sorted(_find_lists(document, ""), key=lambda pair: -_score(pair[1]))
    if document and not isinstance(document, dict | list):
        return f"# {name_type(document)}: no record"
    keys = sanitize_line(", ".join(sorted(map(str, document))[:30]), 2000) if document else ""
    lines = [f"# keys: {keys}" if document else "# empty"]
    if lists and _score(lists[0][1]) > 0:
        path, items = lists[0]
        lines += [f"messages: {_spell(path)}"] if path else []
        lines += _suggest_keys(items[0])
    elif isinstance(document, dict) and _score([document]) > 0:
        lines += ["# each record is a message:", *_suggest_keys(document)]
        group = next((key for key in document if key.endswith("_id")), None)
        lines.append(f"group_by: {_spell(group)}" if group else "# group_by: KEY of a conversation")
    else:
        lines.append("# nothing in it looks like a list of messages")
    if isinstance(document, dict):
        key = next((key for key in document if key == "id" or key.endswith("_id")), None)
        lines += [f"id: {_spell(key)}"] if key else []
        hidden = sorted(LABEL_KEYS & document.keys())
        lines += [f"# labels of people, never shown to a judge: {', '.join(hidden)}"] * bool(hidden)
    return "\n".join(lines)


def _spell(path: str) -> str:
    """Return a path as a YAML scalar: a stranger's key may be any text."""
    if re.fullmatch(r"[\w.-]+", path) and yaml.safe_load(path) == path:
        return path
    return str(yaml.safe_dump(path, default_style='"', width=float("inf"))).strip()


def _find_lists(value: Any, path: str) -> list[tuple[str, list[Any]]]:
    value = parse_nested(value)
    if isinstance(value, list):
        return [(path, value)] if value and isinstance(value[0], dict) else []
    pairs = value.items() if isinstance(value, dict) and path.count(".") < 4 else ()
    return [
        inner_list
        for key, inner in pairs
        for inner_list in _find_lists(inner, f"{path}.{key}" if path else key)
    ]


def _score(items: list[Any]) -> int:
    """Return how much a list looks like messages, from 0."""
    first = items[0]
    texts = any(isinstance(first.get(key), str | list) for key in _TEXTS)
    speakers = any(isinstance(first.get(key), str) for key in _SENDERS)
    return (2 * texts + speakers) * min(len(items), 100) if texts else 0


def _suggest_keys(item: Mapping[str, Any]) -> list[str]:
    lines = []
    speaker = next((key for key in _SENDERS if isinstance(item.get(key), str)), None)
    text = next((key for key in _TEXTS if isinstance(item.get(key), str | list)), None)
    lines += [f"sender: {speaker}"] if speaker else ["# sender: KEY of who speaks"]
    lines += [f"text: {text}"] if text else []
    if speaker not in ("role", "type", None):
        lines += [f"author: {key}" for key in ("role", "type") if isinstance(item.get(key), str)][
            :1
        ]
    return lines
