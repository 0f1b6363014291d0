"""Rubric files: found by name, read, and combined with the rubric that they extend."""

import difflib
import hashlib
import os
from collections.abc import Hashable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from annotator.base.errors import AnnotatorError, RubricError
from annotator.base.files import find_resources
from annotator.base.remote import find_url, localize
from annotator.base.text import replace_surrogates, suggest
from annotator.base.yaml import read_yaml
from annotator.rubrics.model import Code, Rubric, Scheme

_MOST_BASES = 8


def list_built_in() -> Iterator[Path]:
    """Yield the files of the built-in rubrics, sorted by name."""
    yield from sorted(find_resources("rubrics").glob("*.yaml"))


def load_rubric(name_or_file: str) -> Rubric:
    """Return a built-in rubric by its name, or the one in a YAML file.

    A file that ``extends`` another (a name, or a file beside it) inherits its fields. Codes are
    merged by id, field by field; ``remove: true`` drops one. The hash covers both files.

    Raises:
        RubricError: unknown name (with the nearest ones), unreadable file, or a wrong field.
    """
    # A base is never fetched: a stranger's file could name any address.
    path = localize(name_or_file) if find_url(name_or_file) else _find(name_or_file, Path())
    file = "" if path in list_built_in() else replace_surrogates(os.path.abspath(path))
    return _validate(path, *_read(path), file)


def read_definitions(name: str, sha256: str) -> dict[str, str]:
    """Return the definitions of a built-in rubric's codes, if it has this hash."""
    if name not in {path.stem for path in list_built_in()}:  # a run must not name files to be read
        return {}
    rubric = load_rubric(name)
    return {code.id: code.definition for code in rubric.codes} if rubric.sha256 == sha256 else {}


def load_recorded(scheme: Scheme) -> Rubric | None:
    """Return the rubric of a scheme, if its file, or the built-in one, has still the same hash."""
    # A run may be a stranger's: nothing is fetched for it, and its ids name no files.
    built_in = [scheme.id] if scheme.id in {path.stem for path in list_built_in()} else []
    files = [] if find_url(scheme.file) else [scheme.file]
    for source in filter(None, (*files, *built_in)):
        with suppress(RubricError):
            if (rubric := load_rubric(source)).sha256 == scheme.sha256:
                return rubric
    return None


def _validate(path: Path, value: dict[str, Any], digest: str, file: str = "") -> Rubric:
    try:
        return Rubric.model_validate(value | {"sha256": digest, "file": file})
    except ValidationError as error:
        lines = [_explain(problem, value) for problem in error.errors(include_url=False)]
        raise RubricError(f"{path}: " + "; ".join(lines)) from error


def _find(name: str, beside: Path) -> Path:
    names = {path.stem: path for path in list_built_in()}
    if name in names:
        return names[name]
    path = beside / name
    # A pipe, or a link that leads nowhere, is refused where it is read.
    if os.path.lexists(path) and not os.path.isdir(path):  # noqa: PTH112 - is_dir() may raise
        return path
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else f"built-in: {', '.join(names)}"
    raise RubricError(f"no rubric {name!r}, and no such file; {hint}")


def _read(path: Path, above: int = 0) -> tuple[dict[str, Any], str]:
    """Return the fields of a file and its bases, and the hash of them all."""
    try:
        value, data = read_yaml(path)
    except AnnotatorError as error:
        raise RubricError(str(error)) from error
    if not isinstance(value, dict):
        raise RubricError(f"{path}: expected a mapping with id, version, codes ...")
    if "sha256" in value:
        raise RubricError(f"{path}: sha256: unknown field")
    digest = hashlib.sha256(data).hexdigest()
    base_name = value.pop("extends", None)
    if base_name is None:
        return value, digest
    try:
        base_path = _find(str(base_name), path.parent)
    except RubricError as error:
        raise RubricError(f"{path}: extends: {error}") from error
    if above > _MOST_BASES:
        raise RubricError(f"{path}: extends: {base_name} extends this one in turn")
    base, base_digest = _read(base_path, above + 1)
    _validate(base_path, base, base_digest)
    full_digest = hashlib.sha256(f"{digest}{base_digest}".encode()).hexdigest()
    return _extend(base, value, path), full_digest


def _extend(base: Mapping[str, Any], value: dict[str, Any], path: Path) -> dict[str, Any]:
    for key in ("id", "version"):
        if key not in value:
            raise RubricError(f"{path}: {key}: missing; what extends a rubric is another one")
    changes = value.get("codes", [])
    if not isinstance(changes, list) or not all(map(_is_change, changes)):
        raise RubricError(f"{path}: codes: expected a list of codes to change or to add")
    codes = {code["id"]: code for code in base["codes"]}
    removed = set()
    for change in changes:
        code_id = change.get("id")
        if change.get("remove") is True:
            if code_id not in codes:
                ids = suggest(str(code_id), map(str, codes))
                raise RubricError(f"{path}: codes: remove: there is no code {code_id!r}{ids}")
            removed.add(code_id)
        else:
            codes[code_id] = codes.get(code_id, {}) | change
    kept = [code for code_id, code in codes.items() if code_id not in removed]
    order = {"precedence": [key for key in base["precedence"] if key not in removed]}
    return {**base, **(order if "precedence" in base else {}), **value, "codes": kept}


def _is_change(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("id"), Hashable)


def _explain(error: Any, value: dict[str, Any]) -> str:
    """Return a problem of a rubric file: the field, in the user's words, and the message."""
    where = [str(key) for key in error["loc"]]
    codes = value.get("codes")
    if where[:1] == ["codes"] and len(where) > 1 and isinstance(codes, list):
        code = codes[int(where[1])] if where[1].isdigit() else None
        label = code.get("id") if isinstance(code, dict) else None
        where[1] = str(label or f"number {int(where[1]) + 1}")
    message = str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        message = "unknown field"
        names = [field.alias or name for name, field in Code.model_fields.items()]
        message += suggest(where[-1], [*names, *Rubric.model_fields, "extends"])
    elif error["type"] == "too_short":
        message = "an empty list; expected at least one"
    elif error["type"] == "string_type" and isinstance(error["input"], bool | int | float):
        message += f"; to YAML {error['input']} is no text: write it in quotes"
    return f"{'.'.join(where)}: {message}" if where else message
