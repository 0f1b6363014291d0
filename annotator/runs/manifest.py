"""``run.json``: the settings of a run, its judge, and how it went."""

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
from annotator.base.files import read_bounded
from annotator.base.remote import find_url, is_hub, name_place
from annotator.base.text import describe_validation, hide_url_secrets, replace_surrogates
from annotator.judges.base import RunJudge
from annotator.rubrics import Rubric, Scheme
from annotator.runs.conditions import Condition
from annotator.traces import load_readers

COUNTING = ("only", "rejected", "least_read")
"""The settings that decide which traces count, and with which status."""
JUDGING = ("prompt_sha256", "judge", *COUNTING, "redaction")
"""The settings that make runs those of one judge."""
# The settings that a resumed run shares with the first one, and shards with each other.
_SAME = ("rubrics", *JUDGING, "sources", "format", "format_plugin", "conditions")

IfRejected = Literal["undecided", "none"]


@dataclass(frozen=True, slots=True)
class Criteria:
    """When a verdict counts; otherwise its trace is undecided.

    ``rejected``: the status of a trace if the quotes of all its findings were rejected.
    ``least_read``: the share of a trace, in [0, 1], that the judge must have read.

    Raises:
        AnnotatorError: a value is invalid.
    """

    rejected: IfRejected = "undecided"
    least_read: float = 0.9

    def __post_init__(self) -> None:
        if self.rejected not in get_args(IfRejected):
            values = " or ".join(get_args(IfRejected))
            raise AnnotatorError(f"rejected: expected {values}, found {self.rejected!r}")
        if not 0 <= self.least_read <= 1:
            raise AnnotatorError(
                f"least_read: expected a share from 0 to 1, found {self.least_read!r}"
            )


DEFAULT_CRITERIA = Criteria()


class JudgeRecord(BaseModel):
    """The judge's id, and its settings as further fields."""

    model_config = ConfigDict(extra="allow", frozen=True)

    id: str


class Manifest(BaseModel):
    """The content of ``run.json``. It keeps the fields that this version does not know.

    Attributes:
        sources: absolute paths and URLs.
        redaction: the hash of the redaction rules, if the traces were redacted.
        rejected: as in :class:`Criteria`, like ``least_read``; the defaults are those of old runs.
        totals: annotations by status, and their usage.
        overhead: the usage that belongs to no recorded annotation.
        learned: facts about the endpoint that a resumed run needs.
        shard: its share of the traces, such as ``3-of-16``.
        listed: all traces that the shards share.
        shards: the ids of the runs that were merged into it.
        conditions: those of ``--group``.
        anchors: the look at anchors before it: their ``folder``, ``look``, its ``run``, and the
            codes whose drift was shown.
        pilot: the number of ``traces`` sampled, and ``of`` how many.
        selection: the number of traces that were chosen by their ids, for example labelled ones.
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
    selection: int | None = None
    conditions: tuple[Condition, ...] = ()
    anchors: Mapping[str, Any] = {}

    @cached_property
    def judge_sha256(self) -> str:
        """The hash of the judge's settings, its prompt, and the redaction."""
        settings = [self.judge.model_dump(), self.prompt_sha256]
        settings += [self.redaction] if self.redaction else []
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()

    @property
    def limitations(self) -> tuple[str, ...]:
        """Why some traces have no annotation, a sentence each."""
        reasons = []
        if self.limit is not None:
            reasons.append(f"Only the first {self.limit} traces were read (--limit).")
        if self.pilot:
            size, of = self.pilot["traces"], self.pilot["of"]
            if size < of:
                reasons.append(f"The run is a pilot of {size} of {of} traces, drawn at random.")
        if self.selection:
            reasons.append(f"The run is of {self.selection} traces that were chosen, not drawn.")
        if self.status != "finished":
            reasons.append(
                f"The run is not finished (status: {self.status}): this is a part of it."
            )
        if self.shard:
            reasons.append(f"The run is a share of the traces (shard {self.shard}).")
        return tuple(reasons)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields that are set, as JSON values."""
        return self.model_dump(mode="json", exclude_unset=True)

    def copy_with(self, changes: Mapping[str, Any]) -> "Manifest":
        """Return a manifest with these fields changed."""
        return Manifest.model_validate({**self.as_dict(), **changes})


def format_now() -> str:
    """Return the time as ISO 8601, UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


INDUCTION, CODEBOOK = "induction.json", "codebook.json"
"""The files of an induction; the second one is written at its end."""


def is_induction(folder: Path) -> bool:
    """Whether a folder holds an induction, finished or not."""
    return (folder / INDUCTION).exists()


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest in a run directory."""
    file = folder / "run.json"
    try:
        return Manifest.model_validate(json.loads(read_bounded(file)))
    except FileNotFoundError as error:
        reason = "not a run directory (no run.json)"
        if is_induction(folder):
            reason = "an unfinished induction: go on with annotate induce and --resume"
            if (folder / CODEBOOK).exists():
                reason = "an induction, not a run: read it with annotate view"
        raise AnnotatorError(f"{name_place(folder)}: {reason}") from error
    except OSError as error:
        raise AnnotatorError(f"{name_place(file)}: {error.strerror or error}") from error
    except ValidationError as error:
        reason = describe_validation(error)
        raise AnnotatorError(f"{name_place(file)}: not the manifest of a run: {reason}") from error
    except (ValueError, RecursionError) as error:
        raise AnnotatorError(f"{name_place(file)}: not valid JSON: {error}") from error


def make_manifest(
    *,
    rubrics: Sequence[Rubric],
    judge: RunJudge,
    sources: Sequence[str],
    format: str,
    command: str,
    criteria: Criteria = DEFAULT_CRITERIA,
    limit: int | None = None,
    **fields: Any,
) -> Manifest:
    """Return the manifest of a run that begins now, without secrets. ``fields``: others of it."""
    settings = dict(judge.settings)
    fields["format_plugin"] = load_readers(format).origin
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
            "limit": limit,
            "cwd": replace_surrogates(str(Path.cwd())),
            "started": format_now(),
            "ended": None,
            "status": "running",
            **asdict(criteria),
            **{name: value for name, value in fields.items() if value},
        }
    )


def resolve_source(source: str) -> str:
    """Return the absolute path, or the URL, of a source."""
    url = source if is_hub(source) else find_url(source)
    return replace_surrogates(url or os.path.abspath(source))


def list_differences(
    first: Manifest, second: Manifest, settings: Sequence[str] = _SAME
) -> list[str]:
    """Return the settings that differ between two runs, each with both values. Default: those that
    keep the runs from being one.
    """
    old, new = _collect_settings(first), _collect_settings(second)
    return [
        f"{key}: {_describe_difference(old[key], new[key])}"
        for key in settings
        if old[key] != new[key]
    ]


def _collect_settings(manifest: Manifest) -> dict[str, Any]:
    fields = {"rejected": manifest.rejected, "least_read": manifest.least_read}
    fields |= manifest.as_dict()
    fields["rubrics"] = {
        scheme.id: f"version {scheme.version}, {scheme.sha256}" for scheme in manifest.rubrics
    }
    fields["conditions"] = [
        # A table is compared, and shown, by its hash, wherever it is.
        f"column {condition.name} {_hash_values(condition)}"
        if condition.pattern is None
        else str(condition)
        for condition in manifest.conditions
    ]
    return {key: fields.get(key) for key in _SAME}


def _hash_values(condition: Condition) -> str:
    values = json.dumps(dict(condition.values), sort_keys=True)
    return hashlib.sha256(values.encode()).hexdigest()[:12]


def _describe_difference(before: Any, after: Any) -> str:
    """Return the values that differ, with their keys."""
    if isinstance(before, dict) and isinstance(after, dict):
        keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
        return ", ".join(
            f"{key} {_describe_difference(before.get(key), after.get(key))}" for key in keys
        )
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
        return ", ".join(_describe_difference(*pair) for pair in pairs)
    return f"was {json.dumps(before)}, is now {json.dumps(after)}"
