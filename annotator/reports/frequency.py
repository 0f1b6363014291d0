"""How often each code was found in a run: counts, shares and Wilson intervals."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from annotator.annotations import Annotation, read_annotations
from annotator.errors import AnnotatorError
from annotator.reports.votes import VoteCounts, Votes
from annotator.rubrics import NONE
from annotator.runs.manifest import read_manifest
from validation import Interval, wilson

SAMPLING_ONLY = (
    "Intervals: Wilson 95 %, sampling error only; the judge's errors are not measured"
    " (no calibration)."
)


@dataclass(frozen=True, slots=True)
class Row:
    """One code (or none): ``share`` is its share of the judged traces, None if the judge cannot
    find the code at all.

    ``anywhere``: the traces where it is primary or secondary; None where the rubric has no primary.
    """

    code: str
    name: str
    share: Interval | None
    anywhere: int | None = None


@dataclass(frozen=True, slots=True)
class FrequencyTable:
    """The table of one run and rubric. ``judged`` is the n of every share: labelled + none."""

    rubric: str
    version: int
    rubric_sha256: str
    choice: str
    judge: str
    run: str
    status: str
    limit: int | None
    rows: tuple[Row, ...]
    labelled: int
    none: int
    skipped: int
    failed: int
    rejected_traces: int
    rejected: int
    emptied: int
    outcome_unknown: int
    truncated: int
    votes: Votes | None
    failures: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]

    @property
    def judged(self) -> int:
        """Traces with a judgement: labelled or none."""
        return self.labelled + self.none

    @property
    def counted(self) -> str:
        """What a row counts, in words."""
        return (
            "traces with the code" if self.choice == "many" else "traces with the code as primary"
        )


@dataclass(slots=True)
class _Counts:
    status: Counter[str] = field(default_factory=Counter)
    primary: Counter[str] = field(default_factory=Counter)
    anywhere: Counter[str] = field(default_factory=Counter)
    rejected: int = 0
    rejected_traces: int = 0
    emptied: int = 0
    outcome_unknown: int = 0
    truncated: int = 0
    votes: VoteCounts = field(default_factory=VoteCounts)
    failures: list[tuple[str, str]] = field(default_factory=list)

    def add(self, annotation: Annotation) -> None:
        self.status[annotation.status] += 1
        self.votes.add(annotation)
        self.primary[annotation.primary or ""] += 1
        self.anywhere.update(set(annotation.codes))
        self.rejected += len(annotation.rejected)
        self.rejected_traces += bool(annotation.rejected)
        self.emptied += bool(annotation.rejected) and annotation.status == "none"
        if annotation.status in ("labelled", "none"):
            self.outcome_unknown += annotation.attributes.get("passed") is None
            self.truncated += bool(annotation.truncated)
        if annotation.status == "failed" and len(self.failures) < 10:
            self.failures.append((annotation.trace_id, annotation.error or ""))


def frequency_tables(folder: Path) -> list[FrequencyTable]:
    """Return one table per rubric of the run in ``folder``; annotations are read as a stream.

    Raises:
        AnnotatorError: no run there, a damaged line, or an annotation by another rubric or with a
            code that the run's rubric does not have.
    """
    manifest = read_manifest(folder)
    counts = {rubric["id"]: _Counts() for rubric in manifest["rubrics"]}
    codes = {
        rubric["id"]: {code["id"] for code in rubric["codes"]} for rubric in manifest["rubrics"]
    }
    seen: set[int] = set()
    for annotation in read_annotations(folder):
        key = hash((annotation.trace_id, annotation.rubric))
        if key in seen:
            raise AnnotatorError(
                f"{folder}: {annotation.trace_id!r} stands twice for the rubric {annotation.rubric}"
            )
        seen.add(key)
        if annotation.rubric not in counts:
            raise AnnotatorError(
                f"{folder}: {annotation.trace_id}: rubric {annotation.rubric!r}"
                " is not one of the run"
            )
        unknown = set(annotation.codes) - codes[annotation.rubric]
        if unknown:
            raise AnnotatorError(
                f"{folder}: {annotation.trace_id}: {min(unknown)!r} is no code of"
                f" the rubric {annotation.rubric}"
            )
        counts[annotation.rubric].add(annotation)
    recorded = manifest.get("totals", {}).get("annotations")
    if manifest["status"] == "finished" and len(seen) != recorded:
        raise AnnotatorError(
            f"{folder}: the finished run recorded {recorded} annotations, {len(seen)} are left"
        )
    return [_table(manifest, rubric, counts[rubric["id"]]) for rubric in manifest["rubrics"]]


def _table(manifest: dict[str, Any], rubric: dict[str, Any], counts: _Counts) -> FrequencyTable:
    many, primary = rubric["choice"] == "many", rubric["choice"] == "primary"
    judged = counts.status["labelled"] + counts.status["none"]
    per_code = counts.anywhere if many else counts.primary
    rows = [
        Row(
            code["id"],
            code["name"],
            wilson(per_code[code["id"]], judged) if code["judged"] else None,
            counts.anywhere[code["id"]] if primary and code["judged"] else None,
        )
        for code in rubric["codes"]
    ]
    rows.append(Row(NONE, "no code found", wilson(counts.status["none"], judged)))
    table = FrequencyTable(
        rubric=rubric["id"],
        version=rubric["version"],
        rubric_sha256=rubric["sha256"],
        choice=rubric["choice"],
        judge=manifest["judge"]["id"],
        run=manifest["id"],
        status=manifest["status"],
        limit=manifest.get("limit"),
        rows=tuple(rows),
        labelled=counts.status["labelled"],
        none=counts.status["none"],
        skipped=counts.status["skipped"],
        failed=counts.status["failed"],
        rejected=counts.rejected,
        rejected_traces=counts.rejected_traces,
        emptied=counts.emptied,
        outcome_unknown=counts.outcome_unknown,
        truncated=counts.truncated,
        votes=counts.votes.summary([code["id"] for code in rubric["codes"]], labelled=not many),
        failures=tuple(counts.failures),
        notes=tuple(_notes(manifest, rubric, counts)),
    )
    _check(table)
    return table


def _notes(manifest: dict[str, Any], rubric: dict[str, Any], counts: _Counts) -> Iterable[str]:
    if manifest["judge"]["id"] == "rules":
        yield "Judge: rules, a deterministic baseline without a language model."
    unknown = [code["id"] for code in rubric["codes"] if not code["judged"]]
    if unknown:
        yield f"The judge has no rule for {', '.join(unknown)}: not 0, but not known."
    yield SAMPLING_ONLY
    if rubric["choice"] == "many":
        yield "Shares do not add up to 100 %: a trace can have several codes."
    if counts.emptied:
        yield (
            f"{counts.emptied} of the traces counted as none had findings, all rejected because"
            " their quotes do not stand in the trace."
        )
    if rubric["applies_to"].get("passed") is not None and counts.outcome_unknown:
        which = "passed" if rubric["applies_to"]["passed"] else "failed"
        yield (
            f"{counts.outcome_unknown} judged traces do not tell whether the run passed; the rubric"
            f" is for {which} runs."
        )
    if counts.votes.ties and rubric["choice"] == "many":
        yield (
            f"{counts.votes.ties} judged traces had codes that exactly half of the votes have"
            " (tie); these are not counted."
        )
    elif counts.votes.ties:
        yield (
            f"{counts.votes.ties} of the traces counted as none had no majority among the votes"
            " (tie)."
        )
    if counts.votes.failed:
        yield f"{counts.votes.failed} votes in judged traces failed and were not counted."
    if counts.truncated:
        yield (
            f"{counts.truncated} judged traces were longer than what the judge reads; what it left"
            " out is in their annotations (truncated)."
        )
    if manifest.get("limit") is not None:
        yield f"Only the first {manifest['limit']} traces were read (--limit)."
    if manifest["status"] != "finished":
        yield f"The run is not finished (status: {manifest['status']}): this is a part of it."


def _check(table: FrequencyTable) -> None:
    """Hold the table against itself; a wrong number must never be printed."""
    total = sum(row.share.k for row in table.rows if row.share)
    if table.choice != "many" and total != table.judged:
        raise AnnotatorError(
            f"run {table.run}: rows of {table.rubric} add up to {total}, {table.judged} were judged"
        )
