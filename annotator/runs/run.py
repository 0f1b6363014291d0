"""A run that can be read: its settings, and its annotations."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from annotator.base.errors import AnnotatorError
from annotator.base.files import explain_errors, replace_folder, write_file
from annotator.base.remote import localize, name_place, refuse_url
from annotator.base.text import sanitize_line
from annotator.rubrics import Scheme
from annotator.rubrics.annotations import STATUSES, Annotation, find_annotations, read_placed
from annotator.runs.conditions import Condition, join_conditions
from annotator.runs.dataset import COLUMNS, build_dataset, make_rows
from annotator.runs.manifest import Manifest, read_manifest
from annotator.runs.shards import is_in_shards, read_shards

if TYPE_CHECKING:
    from datasets import Dataset
    from pandas import DataFrame  # type: ignore[import-untyped]

IN_MEMORY = "the run in memory"
_QUOTE = ("quote", "source", "start", "end", "match")


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """A run: its manifest, as it was when the run was opened, and its annotations.

    Attributes:
        manifest: the content of ``run.json``.
        folder: the run directory; None: the annotations are in ``memory``.
        shard_folders: the directories of its shards, until they are merged.
        added: conditions of its traces, besides those that ``run.json`` keeps.
    """

    manifest: Manifest
    folder: Path | None = None
    memory: Sequence[Annotation] = ()
    shard_folders: tuple[Path, ...] = ()
    added: tuple[Condition, ...] = ()

    def __str__(self) -> str:
        return name_place(self.folder) if self.folder else IN_MEMORY

    def __repr__(self) -> str:
        counts = [f"{count} {status}" for status, count in self._count_statuses()]
        rubrics = ", ".join(self.schemes)
        if self.manifest.status != "finished":  # whose totals may be older
            counts = [self.manifest.status]
        text = f"{rubrics}, judge {self.judge}, {', '.join(counts) or 'no annotations'}"
        return f"<Run {sanitize_line(f'{self}: {text}', 400)}>"

    def _repr_html_(self) -> str:
        """Return the run as a notebook shows it."""
        facts = [("run", str(self)), ("rubrics", ", ".join(self.schemes)), ("judge", self.judge)]
        facts += [(status, str(count)) for status, count in self._count_statuses()]
        rows = (
            f"<tr><th>{escape(name)}</th><td>{escape(sanitize_line(text, 200))}</td></tr>"
            for name, text in facts
        )
        return f"<table>{''.join(rows)}</table>"

    def _count_statuses(self) -> list[tuple[str, float]]:
        totals = self.manifest.totals
        return [(status, count) for status in STATUSES if (count := totals.get(status))]

    @property
    def id(self) -> str:
        """The id of the run, which its copies share."""
        return self.manifest.id

    @property
    def judge(self) -> str:
        """The id of its judge."""
        return self.manifest.judge.id

    @property
    def judge_sha256(self) -> str:
        """The hash of the judge's settings and prompt."""
        return self.manifest.judge_sha256

    @cached_property
    def schemes(self) -> Mapping[str, Scheme]:
        """The rubrics it was judged by, by their ids."""
        return {scheme.id: scheme for scheme in self.manifest.rubrics}

    def scheme(self, rubric: str) -> Scheme:
        """Return one of the rubrics. Raises :class:`AnnotatorError` if the run does not have it."""
        if rubric not in self.schemes:
            names = ", ".join(self.schemes)
            raise AnnotatorError(f"{self}: no rubric {rubric!r} in this run, only {names}")
        return self.schemes[rubric]

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The conditions of its traces."""
        return (*self.manifest.conditions, *self.added)

    def group(self, annotation: Annotation) -> Annotation:
        """Return an annotation with the conditions of its trace among the attributes.

        Raises:
            AnnotatorError: the trace has an attribute of this name with another value.
        """
        if not self.conditions:
            return annotation
        joined = join_conditions(self.conditions, annotation.trace_id, annotation.attributes)
        return replace(annotation, attributes=joined)

    def annotations(self, rubric: str | None = None) -> Iterator[Annotation]:
        """Yield the annotations, or those by one rubric, one in memory at a time. Their attributes
        include the conditions of their traces.

        A last line without an end is left out: a killed run leaves such a line.

        Raises:
            AnnotatorError: the file is missing, a line is damaged or does not fit the run, a trace
                has two annotations, or lines of a finished run are lost.
        """
        hashes: set[int] = set()
        for line, annotation in self._read_placed():
            key = hash((annotation.trace_id, annotation.rubric))
            problem = self._find_problem(annotation)
            if not problem and key in hashes:
                problem = f"has a second annotation by {annotation.rubric}"
            if problem:
                raise AnnotatorError(f"{line}: {annotation.trace_id} {problem}")
            hashes.add(key)
            if rubric is None or annotation.rubric == rubric:
                yield self.group(annotation)
        total = self.manifest.totals.get("annotations")
        if self.manifest.status == "finished" and len(hashes) != total:
            raise AnnotatorError(
                f"{self}: the finished run recorded {total} annotations, {len(hashes)} are left"
            )

    def _find_problem(self, annotation: Annotation) -> str:
        """Return why an annotation is none of the run; "" if it is."""
        scheme = self.schemes.get(annotation.rubric)
        if scheme is None:
            return f"is by {annotation.rubric!r}, which is no rubric of the run"
        if annotation.rubric_sha256 != scheme.sha256:
            return f"was judged by another version of {scheme.id}"
        if unknown := [code for code in annotation.codes if code not in scheme.ids]:
            return f"has {min(unknown)!r}, which is no code of {scheme.id}"
        if bool(annotation.codes) != (annotation.status == "labelled"):
            return f"is {annotation.status}, and it has {', '.join(annotation.codes) or 'no code'}"
        unrefuted = [x.code for x in annotation.refuted if not x.is_refuted]
        wrong = [finding.code for finding in annotation.findings if finding.is_refuted] + unrefuted
        if wrong:
            return f"counts or leaves out {wrong[0]} against the critic's decision"
        return ""

    def to_pandas(self) -> "DataFrame":
        """Return a row for each annotation, in the columns that ``annotate report --format
        dataset`` writes. Raises as :meth:`annotations` does.
        """
        import pandas as pd

        return pd.DataFrame(list(make_rows([self])), columns=list(COLUMNS))

    def findings(self) -> "DataFrame":
        """Return a row for each quote of each accepted finding: trace, rubric, code, whether the
        code is the primary one, rationale, quote, source, offsets, and attributes of the trace.

        Raises as :meth:`annotations` does.
        """
        import pandas as pd

        rows = [
            {
                "trace_id": annotation.trace_id,
                "rubric": annotation.rubric,
                "code": finding.code,
                "primary": finding.code == annotation.primary,
                "rationale": finding.rationale,
                **{name: getattr(quote, name) for name in _QUOTE},
                **{f"attribute_{key}": value for key, value in annotation.attributes.items()},
            }
            for annotation in self.annotations()
            for finding in annotation.findings
            for quote in finding.evidence
        ]
        columns = ["trace_id", "rubric", "code", "primary", "rationale", *_QUOTE]
        return pd.DataFrame(rows, columns=None if rows else columns)

    def to_dataset(self) -> "Dataset":
        """Return the same rows as a data set in memory. Raises as :meth:`annotations` does."""
        dataset: Dataset = build_dataset([self])
        return dataset

    def save(self, path: Path | str) -> "Run":
        """Write the run into a new directory, and return that run.

        Raises:
            AnnotatorError: the path exists already, or cannot be written.
        """
        refuse_url(path, "a run is written on this machine: name a folder here and copy it")
        folder = Path(path)
        with explain_errors(folder):
            folder.parent.mkdir(parents=True, exist_ok=True)
        with replace_folder(folder, _is_empty) as target:
            target.mkdir()
            lines = "".join(f"{annotation.to_json()}\n" for annotation in self.annotations())
            write_file(target / "annotations.jsonl", lines, private=True)
            manifest = json.dumps(self.manifest.as_dict(), ensure_ascii=False, indent=2)
            write_file(target / "run.json", f"{manifest}\n", private=True)
        return open_run(folder)

    def _read_placed(self) -> Iterator[tuple[str, Annotation]]:
        if self.folder is None:
            yield from ((str(self), annotation) for annotation in self.memory)
        for file in self.files:
            yield from read_placed(file)

    @property
    def files(self) -> tuple[Path, ...]:
        """The files of its annotations; empty for a run in memory."""
        folders = self.shard_folders or ((self.folder,) if self.folder else ())
        return tuple(map(find_annotations, folders))


def _is_empty(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def is_run(path: Path | str) -> bool:
    """Whether a path holds a run, whole or in shards."""
    folder = localize(path, ("run.json",), again=True)
    return os.path.lexists(folder / "run.json") or is_in_shards(folder)


def open_run(path: Path | str) -> Run:
    """Return the run in a directory or at a URL (``s3://...``). Shards that are not merged are
    returned as one run.

    Raises:
        AnnotatorError: no run there, or its ``run.json`` is invalid.
    """
    folder = localize(path, ("run.json", "annotations.jsonl"), again=True)
    if is_in_shards(folder):
        manifest, shard_folders = read_shards(folder)
        return Run(manifest, folder, shard_folders=shard_folders)
    return Run(read_manifest(folder), folder)


def load_run(folder: Path) -> Run:
    """Return the run in a directory, with its annotations in memory."""
    run = open_run(folder)
    return Run(run.manifest, None, tuple(run.annotations()))


def open_runs(paths: Iterable[Path | str]) -> tuple[Run, ...]:
    """Return several runs.

    Raises:
        AnnotatorError: as :func:`open_run`; or a run, or its copy, is given twice.
    """
    runs: dict[str, Run] = {}
    for path in paths:
        run = open_run(path)
        if run.id in runs:
            raise AnnotatorError(f"{run}: this run was given twice")
        runs[run.id] = run
    return tuple(runs.values())


def name_runs(runs: Sequence[Run]) -> list[str]:
    """Return a short name for each run: the end of its path that no other run has, or the start of
    the id of a run in memory.
    """
    paths = [
        Path(name_place(run.folder.resolve())) if run.folder else Path(run.id[:12]) for run in runs
    ]
    return [_name_path(path, [other for other in paths if other != path]) for path in paths]


def _name_path(path: Path, others: Sequence[Path]) -> str:
    for depth in range(1, len(path.parts) + (not path.is_absolute())):
        name = path.parts[-depth:]
        if all(other.parts[-depth:] != name for other in others):
            return "/".join(name)
    return str(path)
