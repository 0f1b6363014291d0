"""YAML that users write (rubrics, judges, prices, maps) and strangers send."""

from pathlib import Path
from typing import Any

import yaml

from annotator.base.errors import AnnotatorError
from annotator.base.files import explain_unreadable, read_bounded
from annotator.base.text import find_repeated

_MOST_BYTES = 1 << 20
_MOST_DEEP = 50
_MOST_NODES = 100_000  # with aliases resolved
_BASE = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_BASE):  # type: ignore[misc, valid-type]
    """YAML's safe loader that refuses a repeated key, which would silently replace the first."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for twice in find_repeated(keys):
            line = node.start_mark.line + 1
            raise yaml.YAMLError(f"the mapping at line {line} has {twice!r} twice")
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


def read_yaml(path: Path) -> tuple[Any, bytes]:
    """Return the value in a YAML file, and the file's bytes.

    Raises:
        AnnotatorError: the file cannot be read, is larger than 1 MB, is no YAML, has a key twice,
            or is too deep or (with its aliases) too large.
    """
    with explain_unreadable(path):
        data = read_bounded(path, _MOST_BYTES)
    try:
        _check_size(data)
        return yaml.load(data, _Loader), data  # noqa: S506 - a safe loader
    except Exception as error:  # constructors raise whatever a wrong value leads to
        raise AnnotatorError(f"{path}: not valid YAML: {_describe(error)}") from error


def _check_size(data: bytes) -> None:
    """Raise YAMLError for a value that is too deep or, with its aliases, too large.

    It reads the parser's events, before any value is built.
    """
    sizes: dict[str, int] = {}
    open_nodes: list[tuple[str | None, int]] = []
    total = 0
    for event in yaml.parse(data, _BASE):
        mark = event.start_mark
        where = f"at line {mark.line + 1}" if mark else "somewhere"
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                raise yaml.YAMLError(f"{event.anchor!r} stands for nothing, or for itself, {where}")
            total += sizes[event.anchor]
        elif isinstance(event, yaml.NodeEvent):
            total += 1
            if isinstance(event, yaml.CollectionStartEvent):
                open_nodes.append((event.anchor, total))
            elif event.anchor:
                sizes[event.anchor] = 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_nodes.pop()
            if anchor:
                sizes[anchor] = total - before + 1
        if len(open_nodes) > _MOST_DEEP:
            raise yaml.YAMLError(f"nested more than {_MOST_DEEP} deep {where}")
        if total > _MOST_NODES:
            raise yaml.YAMLError(f"more than {_MOST_NODES} values, with its aliases, {where}")


def _describe(error: Exception) -> str:
    message = " ".join(str(error).split())
    return (
        message if isinstance(error, yaml.YAMLError | ValueError) else f"a wrong value ({message})"
    )
