"""``run.json``: what a run was asked to do, by whom, and how it went."""

import hashlib
import json
import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from annotator import __version__
from annotator.base.errors import AnnotatorError
from annotator.base.regular import read_bounded
from annotator.base.remote import find_url, is_hub, name_place
from annotator.base.text import hide_url_secrets, replace_surrogates
from annotator.judges.base import PaidJudge
from annotator.rubrics import Rubric, Scheme
from annotator.traces import Shard, readers

IfRejected = Literal["undecided", "none"]


@dataclass(frozen=True, slots=True)
class Criteria:
    """What a verdict must be for its result to be counted; else the trace is undecided.

    ``rejected``: what a trace is whose findings were all rejected, because their quotes do not
    stand in it. ``least_read``: the share of a trace, in [0, 1], of which less must not be read.

    Raises:
        AnnotatorError: a value is none of these.
    """

    rejected: IfRejected = "undecided"
    least_read: float = 0.9

    def __post_init__(self) -> None:
        if self.rejected not in get_args(IfRejected):
            words = " or ".join(get_args(IfRejected))
            raise AnnotatorError(f"rejected: expected {words}, found {self.rejected!r}")
        if not 0 <= self.least_read <= 1:
            raise AnnotatorError(
                f"least_read: expected a share from 0 to 1, found {self.least_read!r}"
            )


DEFAULT_CRITERIA = Criteria()


class JudgeRecord(BaseModel):
    """Who judged: the judge's id, and its settings as further fields."""

    model_config = ConfigDict(extra="allow", frozen=True)

    id: str


class Manifest(BaseModel):
    """``run.json``. Fields that this version does not know are kept as they are.

    ``sources`` are absolute; ``overhead`` is what the judge used for no trace in particular and
    ``learned`` what it found out; ``totals`` count annotations by status and what they used.
    ``redaction``: the hash of what was taken out of the traces, that annotations are of; None:
    nothing was. ``rejected`` and ``least_read`` are as in :class:`Criteria`; runs from before
    there were any counted everything. ``shard``: the share of the traces that it judges, as
    ``3-of-16``, of all those that are ``listed``; ``shards``: the ids of the runs that it was put
    together of. ``pilot``: how many ``traces`` were drawn, and ``of`` how many.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    id: str
    tool: str | None = None
    command: str | None = None
    rubrics: tuple[Scheme, ...]
    prompt_sha256: str | None = None
    judge: JudgeRecord
    sources: tuple[str, ...] = ()
    format: str = "auto"
    format_plugin: str | None = None
    only: str | None = None
    redaction: str | None = None
    rejected: str = "none"
    least_read: float = 0.0
    limit: int | None = None
    concurrency: int | None = None
    cwd: str | None = None
    started: str | None = None
    ended: str | None = None
    status: str
    resumed: tuple[str, ...] = ()
    totals: Mapping[str, int | float | None] = {}
    overhead: Mapping[str, int | float | None] = {}
    learned: Mapping[str, Any] = {}
    traces: int | None = None
    ignored: int | None = None
    problems: tuple[str, ...] = ()
    shard: str | None = None
    shards: tuple[str, ...] = ()
    listed: str | None = None
    pilot: Mapping[str, int] = {}

    @cached_property
    def judge_sha256(self) -> str:
        """The hash of what makes a judge: its model and settings, and the prompt."""
        makes = [self.judge.model_dump(), self.prompt_sha256]
        makes += [self.redaction] if self.redaction else []
        return hashlib.sha256(json.dumps(makes, sort_keys=True).encode()).hexdigest()

    @property
    def limitations(self) -> tuple[str, ...]:
        """Why the annotations of the run are not of all its traces, a sentence each."""
        reasons = []
        if self.limit is not None:
            reasons.append(f"Only the first {self.limit} traces were read (--limit).")
        if self.pilot:
            size, of = self.pilot["traces"], self.pilot["of"]
            if size < of:
                reasons.append(f"The run is a pilot of {size} of {of} traces, drawn at random.")
        if self.status != "finished":
            reasons.append(
                f"The run is not finished (status: {self.status}): this is a part of it."
            )
        if self.shard:
            reasons.append(f"The run is a share of the traces (shard {self.shard}).")
        return tuple(reasons)

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values: the fields that are set."""
        return self.model_dump(mode="json", exclude_unset=True)

    def copy_with(self, changes: Mapping[str, Any]) -> "Manifest":
        """Return the manifest with other values of some fields."""
        return Manifest.model_validate({**self.as_dict(), **changes})


def format_now() -> str:
    """Return the time as ISO 8601, UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def read_manifest(folder: Path) -> Manifest:
    """Return ``run.json`` of a run directory.

    Raises:
        AnnotatorError: there is none, or it is not what this tool writes.
    """
    file = folder / "run.json"
    try:
        return Manifest.model_validate(json.loads(read_bounded(file)))
    except FileNotFoundError as error:
        raise AnnotatorError(f"{name_place(folder)}: not a run directory (no run.json)") from error
    except OSError as error:
        raise AnnotatorError(f"{name_place(file)}: {error.strerror or error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise AnnotatorError(
            f"{name_place(file)}: not the manifest of a run: {where}: {first['msg']}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise AnnotatorError(f"{name_place(file)}: not valid JSON: {error}") from error


def make_manifest(
    *,
    rubrics: Sequence[Rubric],
    judge: PaidJudge,
    sources: Sequence[str],
    format: str,
    only: str,
    limit: int | None,
    concurrency: int,
    command: str,
    criteria: Criteria = DEFAULT_CRITERIA,
    shard: Shard | None = None,
    pilot: Mapping[str, int] | None = None,
    redaction: str | None = None,
) -> Manifest:
    """Return the manifest of a run that begins now; it holds no secrets.

    Raises:
        AnnotatorError: the judge cannot judge by a rubric, or the plug-in of the format is broken.
    """
    settings = dict(judge.settings)
    origin = readers(format).origin
    return Manifest.model_validate(
        {
            "id": uuid.uuid4().hex,
            "tool": f"failure-annotator {__version__}",
            "command": replace_surrogates(hide_url_secrets(command)),
            "rubrics": [
                rubric.scheme(judge.codes(rubric), judge.screens(rubric)) for rubric in rubrics
            ],
            "prompt_sha256": settings.pop("prompt_sha256", None),
            "judge": {"id": judge.id, **settings},
            "sources": [resolve_source(source) for source in sources],
            "format": format,
            **({"format_plugin": origin} if origin else {}),
            "only": only,
            **({"redaction": redaction} if redaction else {}),
            **asdict(criteria),
            "limit": limit,
            **({"shard": str(shard)} if shard else {}),
            **({"pilot": pilot} if pilot else {}),
            "concurrency": concurrency,
            "cwd": replace_surrogates(str(Path.cwd())),
            "started": format_now(),
            "ended": None,
            "status": "running",
        }
    )


def resolve_source(source: str) -> str:
    """Return a source as it is known from any folder."""
    url = source if is_hub(source) else find_url(source)
    return replace_surrogates(url or os.path.abspath(source))
