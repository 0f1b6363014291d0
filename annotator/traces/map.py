"""Records of other formats, read by the user's map of their keys."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from annotator.base.errors import AnnotatorError, UnreadableTrace
from annotator.base.yaml import read_yaml
from annotator.traces.authors import classify_word, find_author, has_named_speakers, has_role_words
from annotator.traces.conversation import Conversation, Utterance, read_parts
from annotator.traces.formats.recognise import Reader
from annotator.traces.model import Author, Outcome, Trace
from annotator.traces.records import (
    expect_object,
    find_record_id,
    find_task,
    get_dict,
    get_list,
    get_text,
    name_type,
    parse_cell,
    parse_nested,
    parse_number,
    parse_time,
    read_attributes,
    read_outcome,
    read_pair_and_team,
    walk_path,
    walk_paths,
)

_COMPARISON = re.compile(r"(?P<path>.+?)\s*(?P<sign>>=|<=|==|!=|>|<)\s*(?P<value>.+)")
_SIGNS = {
    ">=": lambda left, right: left >= right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    "<": lambda left, right: left < right,
}
_TEAM = ("features", "pair", "agents", "strategy")
# Keys of a message that tell who wrote it, or where it stands.
_HARMLESS = ("id", "index", "n", "turn", "role", "type", "name", "from", "source", "sender")


class Map(BaseModel):
    """The keys of a format, as the file of ``--map`` names them; each is a dotted path.

    ``records``: the list of records in a document that holds several runs, or the object whose
    keys are their ids (``*``: the document). A record that is a list has it as ``messages``.
    ``messages``: the list of messages in a record; a ``*`` in it stands for any key, which is the
    sender of the agents' messages in the list there. Without it each record is a message, and
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
    records: str | None = None
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


class MapReader(Reader):
    """The reader of one :class:`Map`; ``origin`` names its file and SHA-256 for ``run.json``."""

    name = "map"

    def __init__(self, keys: Map, origin: str) -> None:
        self.keys = keys
        self.origin = origin
        if keys.records is not None:
            self.split = self._split

    def matches(self, document: Any) -> bool:
        """Whether a document has the messages, or the text of one, where the map says."""
        if self.keys.records is not None:
            return bool(self._split(document))
        if self.keys.messages is None:
            return self._find(document, "text") is not None
        return self._has_list(document)

    def _find(self, record: Any, key: str) -> Any:
        """Return the value at the path under a key of the map; None without a path."""
        path = getattr(self.keys, key)
        return walk_path(record, path) if path else None

    def _split(self, document: Any) -> list[Any]:
        """Return the records in a document, which are traces or messages."""
        path = (self.keys.records or "").removesuffix("*").removesuffix(".")
        value = parse_cell(walk_path(document, path))
        if isinstance(value, dict) and all(isinstance(v, dict | list) for v in value.values()):
            return [{"id": key, **_wrap_list(inner)} for key, inner in value.items()]
        return [_wrap_list(item) for item in get_list(value)]

    def _has_list(self, record: Mapping[str, Any]) -> bool:
        lists = (parse_cell(value) for _, value in walk_paths(record, self.keys.messages or ""))
        return any(isinstance(items, list) for items in lists)

    def explain(self, document: Any) -> str:
        """Return in a few words which key of the map a document lacks."""
        if not isinstance(document, dict):
            return f"{name_type(document)}, no record"
        key = "text" if self.keys.messages is None else "messages"
        key = "records" if self.keys.records else key
        path, file = getattr(self.keys, key), self.origin.rpartition(" sha256 ")[0]
        expected = "text" if key == "text" else f"list of {key}"
        return f"no {expected} at {path} ({key} in {file})"

    def group(self, record: Any) -> str | None:
        """Return the id that records of one trace share; None if each is a trace."""
        if self.keys.group_by is not None:
            return get_text(self._find(record, "group_by")) or ""
        return "" if self.keys.messages is None else None

    def identify(self, document: Any) -> str | None:
        """Return the record's own id."""
        has_path = self.keys.id is not None
        return get_text(self._find(document, "id")) if has_path else find_record_id(document)

    def read(self, document: Any, trace_id: str, path: str) -> Trace:
        """Return the trace of a record or a group; UnreadableTrace if the map finds no text."""
        records = document if isinstance(document, list) else [document]
        chat = self._converse([item for record in records for item in self._list_messages(record)])
        first = get_dict(records[0])
        run, lists = read_pair_and_team({key: self._find(first, key) for key in _TEAM})
        varying = set() if self.keys.messages else _find_varying(list(map(get_dict, records)))
        fixed = {key: value for key, value in first.items() if key not in varying}
        self._read_attributes(fixed, chat, [getattr(self.keys, key) for key in lists])
        if merge := get_text(self._find(first, "merge")):
            chat.attributes["merge"] = merge
        passed, rule = self._read_outcome(first)
        if passed is not None:
            rules = {} if rule == "passed" else {"outcome_rule": rule}
            chat.attributes |= {"passed": passed} | rules
        texts = (get_text(walk_path(first, key)) for key in self.keys.outcome)
        error = "\n".join(text for text in texts if text) or None
        chat.outcome = Outcome(passed=passed, merge=merge, error=error, **run)
        chat.patches = self._read_patches(first, chat)
        return chat.trace(self.name, trace_id, path)

    def _list_messages(self, record: Any) -> list[tuple[str | None, Any]]:
        """Return the messages, each with the key that the map's ``*`` stands for."""
        path = self.keys.messages
        if path is None:
            return [(None, record)]
        lists = [(owner, parse_cell(value)) for owner, value in walk_paths(record, path)]
        if "*" in path.split("."):
            lists = [pair for pair in lists if isinstance(pair[1], list)]
        for _, items in lists:
            if not isinstance(items, list):
                raise UnreadableTrace(f"{path}: found {name_type(items)}, expected a list")
        return [(owner, item) for owner, items in lists for item in items]

    def _converse(self, items: Sequence[tuple[str | None, Any]]) -> Conversation:
        keys, chat = self.keys, Conversation()
        where = keys.messages or "record"
        objects = [expect_object(item, f"message {n}") for n, (_, item) in enumerate(items, 1)]
        flags = {"has_roles": has_role_words(objects), "has_names": has_named_speakers(objects)}
        owners = [owner for owner, _ in items]
        pairs = zip(owners, objects, strict=True)
        utterances = [self._read_message(item, owner, flags) for owner, item in pairs]
        if len(set(owners)) > 1:
            if all(utterance.time is not None for utterance in utterances):
                utterances.sort(key=lambda utterance: utterance.time or 0.0)
            else:
                problem = "not all messages have a time: one list after another"
                chat.problems.append(f"{where}: {problem}")
        for utterance in utterances:
            chat.add(utterance, where)
        self._note_unread(objects, chat)
        if items and not any(message.text for message in chat.messages):
            raise UnreadableTrace(f"no message has a text at {keys.text!r}; see the map")
        return chat

    def _read_message(
        self, item: Mapping[str, Any], owner: str | None, flags: Mapping[str, bool]
    ) -> Utterance:
        keys = self.keys
        parts = read_parts(parse_nested(self._find(item, "text")))
        role = get_text(self._find(item, "author"))
        sender = get_text(self._find(item, "sender")) or role or ""
        author = keys.authors.get(sender) or keys.authors.get(role or "")
        if author is None and role is not None:
            author = classify_word(role) or ("agent" if sender and not owner else "unknown")
        if author is None:
            is_whole = keys.sender in item or (owner and not sender)
            fields = {**(item if is_whole else {}), "sender": sender}
            author = find_author(fields, **flags)
            author = "agent" if owner and not sender and author == "unknown" else author
        to = self._find(item, "recipients")
        names = [get_text(name) for name in (to if isinstance(to, list) else [to])]
        if owner and author == "agent" and (not sender or classify_word(sender) == "agent"):
            sender = owner
        elif owner:
            sender = sender or get_text(item.get("role")) or ""
            names = names if any(names) or author == "agent" else [owner]
        return parts.utter(
            sender,
            "tool" if parts.has_result else author,
            parse_time(self._find(item, "time")),
            recipients=tuple(name for name in names if name),
            kind=get_text(self._find(item, "kind")),
        )

    def _note_unread(self, objects: Sequence[Mapping[str, Any]], chat: Conversation) -> None:
        """Name the keys of messages that the map does not name; nested ones beside the text."""
        keys = self.keys
        where = f"messages at {keys.messages}" if keys.messages else "messages"
        paths = (keys.text, keys.sender, keys.author, keys.recipients, keys.time, keys.kind)
        group = () if keys.messages else (keys.group_by, keys.id)
        used = [path for path in (*paths, *group) if path]
        parent = keys.text.rpartition(".")[0]
        names = {head for path in used for head in (path, path.split(".")[0])}
        same = () if keys.messages else objects[0].keys() - _find_varying(objects)
        for item in objects:
            chat.note_unread(where, item, {*names, *_HARMLESS, *same})
        for item in objects if parent else ():
            inner = {path.removeprefix(f"{parent}.") for path in used}
            chat.note_unread(f"{where}: {parent}", get_dict(walk_path(item, parent)), inner)

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
            if "*" in consumed and keys.messages:
                read = (key for key in record if self._has_list({key: record[key]}))
                consumed.update(read)
            chat.read_attributes(record, consumed)
        else:
            named = {path: walk_path(record, path) for path in keys.attributes}
            chat.attributes, problems = read_attributes(named, tasks=())
            chat.problems += problems
            chat.task = find_task(record)

    def _read_patches(self, record: Mapping[str, Any], chat: Conversation) -> dict[str, str]:
        value = parse_nested(self._find(record, "patches"))
        if isinstance(value, dict):
            return {agent: get_text(patch) or "" for agent, patch in value.items()}
        if value is not None:
            problem = f"found {name_type(value)}, expected an object of agents and their diffs"
            chat.problems.append(f"{self.keys.patches}: {problem}")
        return {}


def _wrap_list(item: Any) -> Any:
    return {"messages": item} if isinstance(item, list) else item


def _find_varying(records: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the keys of the first of some records that others have with another value."""
    first = records[0]
    return {key for key in first if any(item.get(key) != first[key] for item in records)}


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
