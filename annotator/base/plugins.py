"""Plug-ins: readers, judges, report formats and engines, by entry point or ``module:name``.

A plug-in is imported when its name is used, so that a broken one breaks nothing else.
"""

import hashlib
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from annotator.base.errors import AnnotatorError
from annotator.base.text import sanitize_line

if TYPE_CHECKING:  # 20 ms, for those who name a plug-in
    from importlib.metadata import EntryPoint

Kind = Literal["readers", "judges", "formats", "engines"]


@dataclass(frozen=True, slots=True)
class Plugin:
    """An imported plug-in. ``origin`` identifies its code in manifests and hashes: the distribution
    and its version, or else the module and the beginning of its file's SHA-256.
    """

    name: str
    value: Any
    origin: str

    def make(self, *members: str) -> Any:
        """Return an object with these members: the value itself, or the result of calling it (a
        class or a factory).
        """
        made = self.value
        if isinstance(made, type) or not all(hasattr(made, member) for member in members):
            made = made() if callable(made) else made
        lacks = [member for member in members if not hasattr(made, member)]
        if lacks:
            raise AnnotatorError(
                f"{self}: expected an object with {', '.join(members)}, or what returns one;"
                f" {type(made).__name__} lacks {', '.join(lacks)}"
            )
        return made

    def __str__(self) -> str:
        return f"the plug-in {self.name!r} ({self.origin})"


def list_plugins(kind: Kind) -> tuple[str, ...]:
    """Return the sorted names of the installed plug-ins, without an import of them."""
    return tuple(sorted({entry.name for entry in _list_entries(kind)}))


def is_plugin(kind: Kind, name: str) -> bool:
    """Whether a name is a plug-in's: ``module:name`` or an entry point."""
    return _is_reference(name) or bool(_list_entries(kind, name))


def load_plugin(kind: Kind, name: str) -> Plugin:
    """Import an entry point of the group ``failure_annotator.<kind>``, or ``module:name``, which
    may be in the current folder.
    """
    if entries := _list_entries(kind, name):
        return Plugin(name, _load(entries[0], _format_owner(entries[0])), _format_owner(entries[0]))
    if not _is_reference(name):
        installed = ", ".join(list_plugins(kind)) or "none"
        raise AnnotatorError(
            f"no plug-in {name!r}: installed {kind}: {installed}; or name an object as module:name"
        )
    from importlib.metadata import EntryPoint

    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)  # at the end: a file there hides no installed module
    value = _load(EntryPoint(name, name, f"failure_annotator.{kind}"), "")
    return Plugin(name, value, find_origin(name.partition(":")[0]))


def find_origin(module: str) -> str:
    """Return the ``origin`` of an imported module, as in :class:`Plugin`."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if module == "__main__" or not file:
        return module
    from importlib.metadata import packages_distributions, version

    owners = packages_distributions().get(module.partition(".")[0], [])
    if len({*owners}) == 1:
        return f"{owners[0]} {version(owners[0])}"
    return f"{module} {hashlib.sha256(Path(file).read_bytes()).hexdigest()[:12]}"


def describe_error(error: BaseException) -> str:
    """Return an error of a plug-in in one line: its type and its message."""
    message = sanitize_line(str(error), 200)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _list_entries(kind: Kind, name: str | None = None) -> "list[EntryPoint]":
    from importlib.metadata import entry_points

    group = entry_points(group=f"failure_annotator.{kind}")
    return [entry for entry in group if name in (None, entry.name)]


def _format_owner(entry: "EntryPoint") -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.module


def _is_reference(name: str) -> bool:
    """Whether a name has the form ``package.module:name``."""
    module, colon, attribute = name.partition(":")
    return bool(colon) and all(
        segment.isidentifier() for segment in (*module.split("."), *attribute.split("."))
    )


def _load(entry: "EntryPoint", owner: str) -> Any:
    whose = f" ({owner})" if owner else ""
    try:
        return entry.load()
    except Exception as error:
        raise AnnotatorError(
            f"the plug-in {entry.name!r}{whose} cannot be imported: {describe_error(error)}"
        ) from error


def explain_extra(extra: str) -> str:
    """Return the command that installs an extra of this package."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        requirements = requires("failure-annotator") or []
    except PackageNotFoundError:  # run from a checkout that is not installed
        requirements = []
    mark = f'extra == "{extra}"'
    needed = [
        line.partition(";")[0].strip() for line in requirements if mark in line.replace("'", '"')
    ]
    packages = " ".join(f"'{package}'" for package in needed)
    package = packages or f"'failure-annotator[{extra}]'"
    return f"{shlex.quote(sys.executable)} -m pip install {package}"
