"""``run.json``: what a run was asked to do, by whom, and how it went."""

import json
import os
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from annotator import __version__
from annotator.errors import AnnotatorError
from annotator.judges.base import PaidJudge
from annotator.rubrics import Rubric
from annotator.text import storable, without_url_secrets
from annotator.traces import readers


class _Code(BaseModel):
    id: str
    name: str
    group: str | None = None
    judged: bool
    screen: bool = False


class _Rubric(BaseModel):
    id: str
    version: int
    sha256: str
    title: str
    choice: Literal["one", "primary", "many"]
    applies_to: dict[str, Any]
    codes: list[_Code]


class _Judge(BaseModel):
    id: str


class _Manifest(BaseModel):
    """The parts of ``run.json`` that are read again."""

    id: str
    status: str
    rubrics: list[_Rubric]
    judge: _Judge
    sources: list[str] = []
    format: str = "auto"
    prompt_sha256: str | None = None
    limit: int | None = None
    overhead: dict[str, float | None] = {}
    learned: dict[str, Any] = {}
    resumed: list[str] = []
    totals: dict[str, Any] = {}


def now() -> str:
    """Return the time as ISO 8601, UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return ``run.json`` of a run directory.

    Raises:
        AnnotatorError: there is none, or it is not what this tool writes.
    """
    file = folder / "run.json"
    try:
        value = json.loads(file.read_bytes())
    except FileNotFoundError as error:
        raise AnnotatorError(f"{folder}: not a run directory (no run.json)") from error
    except OSError as error:
        raise AnnotatorError(f"{file}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise AnnotatorError(f"{file}: not valid JSON: {error}") from error
    try:
        _Manifest.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise AnnotatorError(
            f"{file}: not the manifest of a run: {where}: {first['msg']}"
        ) from error
    manifest: dict[str, Any] = value
    return manifest


def read_manifests(folders: Sequence[Path]) -> list[dict[str, Any]]:
    """Return the manifests of several runs.

    Raises:
        AnnotatorError: as :func:`read_manifest`; or a run (or a copy of it) is given twice, and
            would count as often.
    """
    found: dict[str, dict[str, Any]] = {}
    for folder in folders:
        manifest = read_manifest(folder)
        if manifest["id"] in found:
            raise AnnotatorError(f"{folder}: this run was given twice")
        found[manifest["id"]] = manifest
    return list(found.values())


def run_names(folders: Sequence[Path]) -> list[str]:
    """Return a name for each run: its folder's, or as much of its path as tells it from others."""
    paths = [folder.resolve() for folder in folders]
    return [_name(path, [other for other in paths if other != path]) for path in paths]


def _name(path: Path, others: Sequence[Path]) -> str:
    for depth in range(1, len(path.parts)):
        end = path.parts[-depth:]
        if all(other.parts[-depth:] != end for other in others):
            return "/".join(end)
    return str(path)


def new_manifest(
    *,
    rubrics: Sequence[Rubric],
    judge: PaidJudge,
    sources: Sequence[str],
    format: str,
    only: str,
    limit: int | None,
    concurrency: int,
    command: str,
) -> dict[str, Any]:
    """Return the manifest of a run that begins now; it holds no secrets.

    Raises:
        AnnotatorError: the judge cannot judge by a rubric, or the plug-in of the format is broken.
    """
    settings = dict(judge.settings)
    return {
        "id": uuid.uuid4().hex,
        "tool": f"failure-annotator {__version__}",
        "command": storable(without_url_secrets(command)),
        "rubrics": [
            {
                "id": rubric.id,
                "version": rubric.version,
                "sha256": rubric.sha256,
                "title": rubric.title,
                "choice": rubric.choice,
                "applies_to": rubric.applies_to.model_dump(),
                "codes": _codes(rubric, judge),
            }
            for rubric in rubrics
        ],
        "prompt_sha256": settings.pop("prompt_sha256", None),
        "judge": {"id": judge.id, **settings},
        "sources": [absolute(source) for source in sources],
        "format": format,
        **({"format_plugin": origin} if (origin := readers(format).origin) else {}),
        "only": only,
        "limit": limit,
        "concurrency": concurrency,
        "cwd": storable(str(Path.cwd())),
        "started": now(),
        "ended": None,
        "status": "running",
    }


def _codes(rubric: Rubric, judge: PaidJudge) -> list[dict[str, Any]]:
    """Return the codes of a rubric, and which of them the judge can find, or only screens for."""
    judged, screens = judge.codes(rubric), judge.screens(rubric)
    return [
        {
            "id": code.id,
            "name": code.name,
            "group": code.group,
            "judged": code.id in judged,
            "screen": code.id in screens,
        }
        for code in rubric.codes
    ]


def absolute(source: str) -> str:
    """Return a source as it is known from any folder."""
    return source if source.startswith("hf://") else storable(os.path.abspath(source))
