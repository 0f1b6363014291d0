"""Defaults of options from files: ``annotate.toml``, ``[tool.annotate]``, and keys from ``.env``.

A file in the current folder may come with somebody else's traces. So it cannot choose where a key
is sent or which code runs: only the command line, the environment and the user's own file can.
"""

import io
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from annotator.base.errors import AnnotatorError
from annotator.base.files import explain_unreadable, read_bounded
from annotator.base.text import suggest

_NOT_OF_A_PROJECT = {"base-url", "api-key-env", "prices", "out"}
_KEY = "_API_KEY"
_MOST_BYTES = 1 << 20


def find_user_file() -> Path:
    """Return the path of the user's own defaults."""
    base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    try:
        folder = Path(base).expanduser()
    except RuntimeError:  # a user without a home has no such file
        folder = Path(os.devnull)
    return folder / "annotator" / "annotate.toml"


def find_defaults(command: click.Command, name: str) -> tuple[dict[str, Any], list[str]]:
    """Return the defaults of a command's options by parameter name, and a notice for each file that
    sets some. The current folder's defaults replace the user's own.

    Raises:
        AnnotatorError: a file cannot be read, names an option that the command does not have, or
            sets one that a project's file must not set.
    """
    values: dict[str, Any] = {}
    notices = []
    for file, table in _read_tables():
        section = table.get(name, {})
        if not isinstance(section, dict):
            raise AnnotatorError(f"{file}: {name}: expected options of the command, as a table")
        options = dict(_parse_options(section, command, file))
        values |= options
        if options:
            notices.append(f"{file} sets {', '.join(sorted(section))}")
    return values, notices


def load_keys() -> None:
    """Set the keys of ``.env`` in the current folder that the environment lacks; it uses only names
    that end with ``_API_KEY``.

    Raises:
        AnnotatorError: it cannot be read.
    """
    file = Path(".env")
    if file.is_dir() or not os.path.lexists(file):  # a folder: a virtual environment
        return
    from dotenv import dotenv_values

    text = _read(file)
    if "\0" in text:
        raise AnnotatorError(f"{file}: a NUL in it; save it as plain UTF-8, or take it away")
    for name, value in dotenv_values(stream=io.StringIO(text), interpolate=False).items():
        if name.upper().endswith(_KEY) and value:
            os.environ.setdefault(name, value)


def _read_tables() -> Iterator[tuple[Path, Mapping[str, Any]]]:
    for file in (find_user_file(), Path("annotate.toml")):
        if os.path.lexists(file):
            yield file, _load(file)
    project = Path("pyproject.toml")
    if os.path.lexists(project) and not os.path.lexists("annotate.toml"):
        tool = _load(project).get("tool", {})
        table = tool.get("annotate") if isinstance(tool, dict) else None
        if isinstance(table, dict):
            yield project, table


def _load(file: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(_read(file))
    except (ValueError, RecursionError) as error:
        raise AnnotatorError(f"{file}: not valid TOML: {error}") from error


def _read(file: Path) -> str:
    try:
        with explain_unreadable(file):
            return read_bounded(file, _MOST_BYTES).decode()
    except UnicodeDecodeError as error:
        raise AnnotatorError(f"{file}: not UTF-8; save it as UTF-8, or take it away") from error


def _parse_options(
    section: Mapping[str, Any], command: click.Command, file: Path
) -> Iterator[tuple[str, Any]]:
    options = {
        flag.lstrip("-"): option
        for option in command.params
        if isinstance(option, click.Option)
        for flag in (*option.opts, *option.secondary_opts)
    }
    for key, value in section.items():
        flag = key.replace("_", "-")
        option = options.get(flag)
        if option is None or option.name is None:
            near = suggest(flag, options)
            raise AnnotatorError(f"{file}: {key}: no option of annotate {command.name}{near}")
        if file != find_user_file() and (flag in _NOT_OF_A_PROJECT or _is_risky(flag, value)):
            raise AnnotatorError(
                f"{file}: {key}: not from a project's file, which may be a stranger's: give it on"
                f" the command line, or in {find_user_file()}"
            )
        yield option.name, _convert(option, flag, value, f"{file}: {key}")


def _convert(option: click.Option, flag: str, value: Any, where: str) -> Any:
    """Return a value as on the command line: a text, or a list for a repeatable option."""
    if option.is_flag:
        if not isinstance(value, bool):
            raise AnnotatorError(f"{where}: expected true or false")
        negated = any(name.startswith("--no-") for name in option.secondary_opts)
        if not value and option.secondary_opts and not negated:
            # It could mean the other option, or neither.
            (other,) = {*option.opts, *option.secondary_opts} - {f"--{flag}"}
            raise AnnotatorError(
                f"{where}: false could mean {other[2:]} or neither: set {other[2:]} = true, or"
                " leave both out"
            )
        return value is not (f"--{flag}" in option.secondary_opts)
    many = option.multiple or option.nargs != 1
    values = value if many and isinstance(value, list) else [value]
    if not all(isinstance(each, str | int | float) for each in values):
        raise AnnotatorError(f"{where}: expected {'texts or numbers' if many else 'one value'}")
    if "\0" in "".join(map(str, values)):  # no command line can hold one
        raise AnnotatorError(f"{where}: a NUL in it")
    return [str(each) for each in values] if many else str(value)


def _is_risky(flag: str, value: Any) -> bool:
    """Return whether an option names a plug-in, which could be a module of the current folder, or a
    judge file, which can send the key to any address.
    """
    is_file = flag == "judge" and str(value).endswith((".yaml", ".yml"))
    return is_file or (flag in ("judge", "format") and ":" in str(value))
