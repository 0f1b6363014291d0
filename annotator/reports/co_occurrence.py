"""Pairs of codes in the same traces."""

from collections import Counter
from dataclasses import dataclass
from itertools import combinations_with_replacement

from annotator.reports.counts import JUDGED
from annotator.rubrics import Scheme
from annotator.runs.run import Run, name_runs


@dataclass(frozen=True, slots=True)
class CoOccurrence:
    """The judged traces of a run with two codes, primary or secondary.

    ``folder`` is the run's name. ``counts``: a row and a column for each code, with the traces of
    one code on the diagonal; None if the judge cannot find one of the codes, or is a screen for it
    and found none. ``notes``: why these are not all traces of the run.
    """

    run: str
    folder: str
    rubric: str
    version: int
    rubric_sha256: str
    judge: str
    judge_sha256: str
    codes: tuple[str, ...]
    counts: tuple[tuple[int | None, ...], ...]
    judged: int
    notes: tuple[str, ...]


def count_co_occurrences(*runs: Run) -> list[CoOccurrence]:
    """Count the pairs of codes in each run, for each of its rubrics that allows more than one.

    Raises:
        AnnotatorError: there is no run, or a line of it is damaged.
    """
    return [
        _count(run, name, scheme)
        for run, name in zip(runs, name_runs(runs), strict=True)
        for scheme in run.schemes.values()
        if scheme.choice != "one"
    ]


def _count(run: Run, name: str, scheme: Scheme) -> CoOccurrence:
    pairs: Counter[tuple[str, str]] = Counter()
    statuses: Counter[str] = Counter()
    for annotation in run.annotations(scheme.id):
        statuses[annotation.status] += 1
        if annotation.status in JUDGED:
            pairs.update(combinations_with_replacement(sorted(set(annotation.codes)), 2))
    unknown = {code for code in scheme.screens if not pairs[code, code]}
    countable = scheme.judged - unknown
    counts = tuple(
        tuple(
            pairs[min(row, column), max(row, column)] if {row, column} <= countable else None
            for column in scheme.ids
        )
        for row in scheme.ids
    )
    judged = sum(statuses[status] for status in JUDGED)
    left = " and ".join(f"{statuses[x]} {x}" for x in ("undecided", "failed") if statuses[x])
    notes = [f"{left} traces are not counted."] if left else []
    about = run.id, name, scheme.id, scheme.version, scheme.sha256, run.judge, run.judge_sha256
    return CoOccurrence(*about, scheme.ids, counts, judged, (*run.manifest.limitations, *notes))


def list_uncounted(*runs: Run) -> list[str]:
    """Return which rubrics of the runs :func:`count_co_occurrences` leaves out, a line each."""
    return [
        f"{scheme.id} ({name}): a trace has one code at most, nothing to count"
        for run, name in zip(runs, name_runs(runs), strict=True)
        for scheme in run.schemes.values()
        if scheme.choice == "one"
    ]
