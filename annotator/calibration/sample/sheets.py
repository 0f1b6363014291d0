"""Label sheets: the traces to label, in random order, without the judge's answers."""

import csv
import io
import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from annotator.base.errors import AnnotatorError
from annotator.base.files import write_file
from annotator.base.text import escape_formula
from annotator.calibration.judged_sample import read_judged_sample
from annotator.calibration.sample.design import (
    DIVIDED,
    EVERYTHING,
    UNANIMOUS,
    UNDECIDED,
    Candidate,
    Design,
    Strata,
    assign_split,
)
from annotator.labels.blinding import blind
from annotator.rubrics import NONE, Rubric
from annotator.rubrics.annotations import ANSWERED, JUDGED, Annotation
from annotator.runs.run import Run
from annotator.traces import Trace, Unreadable, read_traces
from annotator.traces.clusters import find_cluster

FIELDS = (
    *("order", "trace_id", "rubric", "rubric_sha256", "task", "split", "inclusion_probability"),
    *("design", "rater", "annotator", "primary", "secondary", "evidence", "note", "confidence"),
)


@dataclass(frozen=True, slots=True)
class Population:
    """The traces of one split that a sample is taken from.

    ``judge_sha256`` is None without a judge. ``left_out`` counts the traces that cannot be labelled
    or judged, ``with_code`` the traces with each of the judge's labels, by stratum.
    """

    rubric: str
    rubric_sha256: str
    judge_sha256: str | None
    candidates: tuple[Candidate, ...]
    tasks_known: bool
    left_out: int
    with_code: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Split:
    """A part of the tasks: ``dev``, ``test`` or ``all``."""

    name: str
    salt: str
    dev_share: float

    def of(self, task: str) -> str | None:
        """Return ``dev`` or ``test`` for a task, None for ``all``."""
        return None if self.name == "all" else assign_split(task, self.salt, self.dev_share)

    def holds(self, task: str) -> bool:
        """Whether a task belongs to this split."""
        return self.name == "all" or self.of(task) == self.name


def find_judged(
    run: Run,
    rubric: str,
    split: Split,
    cluster: Collection[str],
    *,
    strata: Strata,
    undecided: bool = False,
) -> Population:
    """Return the judged traces of a run in their strata; ``undecided`` adds the undecided ones.

    If a trace can have many codes, its stratum is the code that is rarest in the run.

    Raises:
        AnnotatorError: the split has no judged trace, a trace has no votes to stratify by, or as
            :func:`annotator.calibration.judged_sample.read_judged_sample`.
    """
    statuses = ANSWERED if undecided else JUDGED
    population: list[tuple[Annotation, str | None, str | None]] = []

    def keep(annotation: Annotation) -> None:
        if annotation.status in statuses:
            task = find_cluster(annotation.attributes, cluster)
            stratum = _name_stratum(annotation, strata, run)
            population.append((annotation, task, stratum))

    sample = read_judged_sample(run, rubric, cluster=cluster, visit=keep)
    many = sample.rubric.choice == "many"
    candidates = []
    with_code: dict[str, Counter[str]] = {}
    for annotation, task, named in population:
        trace_id, codes = annotation.trace_id, annotation.codes
        labels = (codes if many else codes[:1]) or (NONE,)
        rarest = min(labels, key=lambda code: (sample.with_code[code], code))
        stratum = rarest if named is None else named
        if split.holds(task or trace_id):
            candidates.append(Candidate(trace_id, task or trace_id, stratum))
            for code in labels if annotation.status != "undecided" else ():
                with_code.setdefault(code, Counter())[stratum] += 1
    if not candidates:
        raise AnnotatorError(
            f"nothing to draw from: no judged trace in the {split.name} split of {run}"
        )
    left_out = sample.statuses.total() - sum(sample.statuses[status] for status in statuses)
    return Population(
        rubric,
        sample.rubric.sha256,
        sample.judge_sha256,
        tuple(candidates),
        sample.clusters.named,
        left_out,
        with_code,
    )


def _name_stratum(annotation: Annotation, strata: Strata, run: Run) -> str | None:
    if strata == "none":
        return EVERYTHING
    if annotation.status == "undecided":
        return UNDECIDED
    if strata == "votes":
        if not annotation.votes:
            raise AnnotatorError(
                f"{run}: {annotation.trace_id!r} has no votes to stratify by: judge with --samples,"
                " or with several --model"
            )
        return UNANIMOUS if annotation.unanimous else DIVIDED
    return None


def find_traces(
    sources: Sequence[str], format: str, rubric: Rubric, split: Split, cluster: Collection[str]
) -> Population:
    """Return the traces of ``sources`` that a rubric applies to, in one stratum.

    Raises:
        AnnotatorError: as :func:`annotator.traces.read_traces`, or the split has no such trace.
    """
    candidates, left_out, tasks_known, unread = [], 0, False, ""
    for trace in read_traces(sources, format):
        if isinstance(trace, Unreadable):
            left_out += 1
            unread = unread or f": {trace.path or trace.id}: {trace.reason}"
        elif isinstance(trace, Trace) and rubric.excludes(trace) is not None:
            left_out += 1
        elif isinstance(trace, Trace):
            task = find_cluster(trace.attributes, cluster)
            tasks_known = tasks_known or task is not None
            if split.holds(task or trace.id):
                candidates.append(Candidate(trace.id, task or trace.id))
    if not candidates:
        raise AnnotatorError(
            f"nothing to draw from: no trace to label in the {split.name} split of"
            f" {', '.join(sources)}{unread or ' (see annotate traces)'}"
        )
    return Population(rubric.id, rubric.sha256, None, tuple(candidates), tasks_known, left_out)


def make_rows(
    selected: Sequence[Candidate],
    doubles: Collection[Candidate],
    design: Design,
    split: Split,
    *,
    blinded: bool,
) -> list[dict[str, Any]]:
    """Return the rows of a sheet, one per trace and rater, without anything from a judge.

    ``blinded``: without the traces' own ids, which may name a model or a condition, and without
    inclusion probabilities, which tell the judge's codes.
    """
    second = {trace.trace_id for trace in doubles}
    design_id, probabilities = design.id, design.probabilities  # properties that read all traces
    raters = [
        *((1, trace) for trace in selected),
        *((2, trace) for trace in selected if trace.trace_id in second),
    ]
    return [
        {
            "order": order,
            "trace_id": blind(trace.trace_id) if blinded else trace.trace_id,
            "rubric": design.rubric,
            "rubric_sha256": design.rubric_sha256,
            "task": None if blinded and trace.task == trace.trace_id else trace.task,
            "split": split.of(trace.task),
            "inclusion_probability": None if blinded else probabilities[trace.trace_id],
            "design": design_id,
            "rater": rater,
        }
        for order, (rater, trace) in enumerate(raters, 1)
    ]


def write_sheet(file: Path, sheet: Sequence[Mapping[str, Any]]) -> None:
    """Write a sheet, as CSV if the file's name ends in ``.csv``, else as JSONL.

    A row without ``primary`` is not labelled yet.

    Raises:
        AnnotatorError: the file exists (it may hold labels), or cannot be written.
    """
    write_file(
        file, _format_csv(sheet) if file.suffix == ".csv" else _format_jsonl(sheet), exclusive=True
    )


def _format_jsonl(sheet: Iterable[Mapping[str, Any]]) -> str:
    rows = ({name: cell for name, cell in row.items() if cell is not None} for row in sheet)
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _format_csv(sheet: Sequence[Mapping[str, Any]]) -> str:
    out = io.StringIO()
    chances = any(row["inclusion_probability"] for row in sheet)
    names = [name for name in FIELDS if chances or name != "inclusion_probability"]
    write = csv.DictWriter(out, names, restval="", lineterminator="\r\n")
    write.writeheader()
    for row in sheet:
        cells = {name: row.get(name) for name in names}
        write.writerow({k: escape_formula(cell) for k, cell in cells.items() if cell is not None})
    return out.getvalue()
