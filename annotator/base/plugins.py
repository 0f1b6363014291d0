"""What others add: readers, judges, report formats, engines; an entry point or ``module:name``.

Nothing is imported before it is asked for by its name, so that a plug-in that is broken breaks
nothing but itself. A new kind of plug-in is one more group.
"""

import hashlib
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
    """What a name stands for. ``origin`` says whose it is, for manifests and hashes: the
    distribution and its version, or for a module that belongs to none its name and the beginning of
    its file's SHA-256.
    """

    name: str
    value: Any
    origin: str

    def make(self, *members: str) -> Any:
        """Return the value itself if it has all these members, else what it returns when called
        without arguments: a class, or a factory.

        Raises:
            AnnotatorError: what there is lacks a member.
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
    """Return the names of the plug-ins that are installed, in order; none of them is imported."""
    return tuple(sorted({entry.name for entry in _entries(kind)}))


def is_plugin(kind: Kind, name: str) -> bool:
    """Whether a name is one of a plug-in: ``module:name``, or that of an entry point."""
    return _is_reference(name) or bool(_entries(kind, name))


def load_plugin(kind: Kind, name: str) -> Plugin:
    """Import what a name stands for: an entry point of the group ``failure_annotator.<kind>``, or
    an object given as ``module:name``, for which modules in the current folder are found, too.

    Raises:
        AnnotatorError: there is no such plug-in, or it cannot be imported (the reason).
    """
    if entries := _entries(kind, name):
        return Plugin(name, _load(entries[0], _owner(entries[0])), _owner(entries[0]))
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
    """Return whose an imported module is, as in :class:`Plugin`; of one without a file its name
    alone.
    """
    file = getattr(sys.modules.get(module), "__file__", None)
    if module == "__main__" or not file:
        return module
    from importlib.metadata import distributions

    levels = module.count(".") + (Path(file).stem == "__init__")
    folder = [Path(file), *Path(file).parents][: levels + 2][-1]
    path = Path(file).relative_to(folder).as_posix()
    for owner in distributions(path=[str(folder)]):
        # Parsed is only the list in which it may stand: there are hundreds.
        if path in (owner.read_text("RECORD") or "") and any(
            str(owner.locate_file(listed)) == file for listed in owner.files or ()
        ):
            return f"{owner.name} {owner.version}"
    return f"{module} {hashlib.sha256(Path(file).read_bytes()).hexdigest()[:12]}"


def describe_error(error: BaseException) -> str:
    """Return what a stranger's code raised, in one line: the error's name and its message."""
    message = sanitize_line(str(error), 200)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _entries(kind: Kind, name: str | None = None) -> "list[EntryPoint]":
    from importlib.metadata import entry_points

    group = entry_points(group=f"failure_annotator.{kind}")
    return [entry for entry in group if name in (None, entry.name)]


def _owner(entry: "EntryPoint") -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.module


def _is_reference(name: str) -> bool:
    """Whether a name has the form of an object in a module: ``package.module:name``."""
    module, colon, attribute = name.partition(":")
    return bool(colon) and all(
        part.isidentifier() for part in (*module.split("."), *attribute.split("."))
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
    """Return the command that installs an extra: its packages, with their bounds."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        stated = requires("failure-annotator") or []
    except PackageNotFoundError:  # run from a checkout that is not installed
        stated = []
    mark = f'extra == "{extra}"'
    needed = [line.partition(";")[0].strip() for line in stated if mark in line.replace("'", '"')]
    packages = " ".join(f"'{package}'" for package in needed)
    return f"pip install {packages or f'failure-annotator[{extra}]'}"
