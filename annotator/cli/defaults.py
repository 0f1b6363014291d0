"""Defaults of options from files: ``annotate.toml``, ``[tool.annotate]``, and keys from ``.env``.

A file in the current folder may come with somebody else's traces. So it cannot choose where a key
is sent or which code runs: only the command line, the environment and the user's own file can.
"""

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from annotator.base.errors import AnnotatorError
from annotator.base.files import explain_unreadable, read_bounded
from annotator.base.text import suggest

_NOT_OF_A_PROJECT = {"base-url", "url", "api-key-env", "prices", "out"}
_KEY = "_API_KEY"
_MOST_BYTES = 1 << 20


def find_defaults(command: click.Command, name: str) -> tuple[dict[str, Any], list[str]]:
    """Return a command's defaults by parameter name, and a notice for each file that sets some."""
    values: dict[str, Any] = {}
    notices = []
    for file, section in _read_sections(name):
        if not isinstance(section, dict):
            raise AnnotatorError(f"{file}: {name}: expected options of the command, as a table")
        for key, value in section.items():
            option, converted = _read_default(command, file, key, value)
            values[option] = converted
        if section:
            notices.append(f"{file} sets {', '.join(sorted(section))}")
    return values, notices


def load_keys() -> None:
    """Set the keys in ``.env`` (names that end with ``_API_KEY``) that the environment lacks."""
    file = Path(".env")
    if file.is_dir() or not os.path.lexists(file):  # a folder: a virtual environment
        return
    from dotenv import dotenv_values

    for name, value in dotenv_values(stream=io.StringIO(_read(file)), interpolate=False).items():
        if name.upper().endswith(_KEY) and value:
            os.environ.setdefault(name, value)


def _find_user_file() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(os.path.expanduser(base), "annotator", "annotate.toml")  # noqa: PTH111 - homeless


def _read_sections(name: str) -> Iterator[tuple[Path, Any]]:
    """Yield the defaults of a command in each file, the user's own first."""
    import tomllib

    files = [_find_user_file(), Path("annotate.toml"), Path("pyproject.toml")]
    for file in filter(os.path.lexists, files):
        try:
            table: Any = tomllib.loads(_read(file))
        except (ValueError, RecursionError) as error:
            raise AnnotatorError(f"{file}: not valid TOML: {error}") from error
        if file == files[2]:
            table = table.get("tool", {}).get("annotate", {})
        yield file, table.get(name, {})
        if file == files[1]:
            break


def _read(file: Path) -> str:
    try:
        with explain_unreadable(file):
            return read_bounded(file, _MOST_BYTES).decode()
    except UnicodeDecodeError as error:
        raise AnnotatorError(f"{file}: not UTF-8; save it as UTF-8, or take it away") from error


def _read_default(command: click.Command, file: Path, key: str, value: Any) -> tuple[str, Any]:
    """Return the parameter that a key names, and its value as on the command line."""
    params = [option for option in command.params if isinstance(option, click.Option)]
    options = {flag.lstrip("-"): x for x in params for flag in (*x.opts, *x.secondary_opts)}
    flag, where = key.replace("_", "-"), f"{file}: {key}"
    option = options.get(flag)
    if option is None:
        near = suggest(flag, options)
        raise AnnotatorError(f"{where}: no option of annotate {command.name}{near}")
    # A judge file can send the key to any address, and a plug-in may be a file of this folder.
    is_risky = flag == "judge" and str(value).endswith((".yaml", ".yml"))
    is_risky |= flag in ("judge", "format") and ":" in str(value)
    if file != _find_user_file() and (flag in _NOT_OF_A_PROJECT or is_risky):
        raise AnnotatorError(
            f"{where}: not from a project's file, which may be a stranger's: give it on the command"
            f" line, or in {_find_user_file()}"
        )
    if option.is_flag:
        if not isinstance(value, bool):
            raise AnnotatorError(f"{where}: expected true or false")
        names = {name[2:] for name in (*option.opts, *option.secondary_opts)}
        if option.secondary_opts and not value:  # it could mean the other one, or neither
            [other] = names - {flag}
            raise AnnotatorError(f"{where}: false: set {other} = true, or leave both out")
        return option.name or "", value and f"--{flag}" not in option.secondary_opts
    many = option.multiple or option.nargs != 1
    if isinstance(value, dict) or (isinstance(value, list) and not many):
        raise AnnotatorError(f"{where}: expected {'texts or numbers' if many else 'one value'}")
    values = [str(each) for each in (value if isinstance(value, list) else [value])]
    return option.name or "", values if many else values[0]
