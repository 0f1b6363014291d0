"""YAML that users write (rubrics, judges, prices, maps) and strangers send."""

from pathlib import Path
from typing import Any

import yaml

from annotator.base.errors import AnnotatorError
from annotator.base.files import explain_unreadable, read_bounded
from annotator.base.text import find_repeated

_MOST_BYTES = 1 << 20
_MOST_DEEP = 50
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
    """Return the value in a YAML file, and the file's bytes."""
    with explain_unreadable(path):
        data = read_bounded(path, _MOST_BYTES)
    try:
        _check_depth(data)
        return yaml.load(data, _Loader), data  # noqa: S506 - a safe loader
    except Exception as error:  # constructors raise whatever a wrong value leads to
        raise AnnotatorError(f"{path}: not valid YAML: {_describe(error)}") from error


def _check_depth(data: bytes) -> None:
    """Raise YAMLError for a value that is too deep: it would crash the parser."""
    depth = 0
    for event in yaml.parse(data, _BASE):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _MOST_DEEP:
            raise yaml.YAMLError(f"nested more than {_MOST_DEEP} deep")


def _describe(error: Exception) -> str:
    message = " ".join(str(error).split())
    is_plain = isinstance(error, yaml.YAMLError | ValueError)
    return message if is_plain else f"a wrong value ({message})"
