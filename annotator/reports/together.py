"""Which codes stand in the same traces."""

from collections import Counter
from dataclasses import dataclass
from itertools import combinations_with_replacement

from annotator.runs.run import Run, name_runs


@dataclass(frozen=True, slots=True)
class CoOccurrence:
    """How many judged traces of a run have two codes, wherever they stand (primary or secondary).

    ``counts`` has a row and a column for each of ``codes``; on the diagonal are the traces with
    that code. A count is None where the judge cannot find one of the codes. ``folder``: the run's
    name. ``notes``: why these are not all traces of the run.
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


def co_occurrence(*runs: Run) -> list[CoOccurrence]:
    """Count the pairs of codes in each run, for each of its rubrics that allows more than one.

    Raises:
        AnnotatorError: there is no run, or a line of it is damaged.
    """
    named = zip(runs, name_runs(runs), strict=True)
    return [one for run, name in named for one in _counted(run, name)]


def _counted(run: Run, name: str) -> list[CoOccurrence]:
    counted = []
    for info in run.schemes.values():
        if info.choice == "one":
            continue
        pairs: Counter[tuple[str, str]] = Counter()
        judged = 0
        for annotation in run.annotations(info.id):
            if annotation.status in ("labelled", "none"):
                judged += 1
                pairs.update(combinations_with_replacement(sorted(set(annotation.codes)), 2))
        counts = tuple(
            tuple(
                pairs[min(one, other), max(one, other)] if {one, other} <= info.judged else None
                for other in info.ids
            )
            for one in info.ids
        )
        about = run.id, name, info.id, info.version, info.sha256, run.judge, run.judge_sha256
        counted.append(CoOccurrence(*about, info.ids, counts, judged, run.manifest.partial))
    return counted


def left_out(*runs: Run) -> list[str]:
    """Return which rubrics of the runs :func:`co_occurrence` does not count, a line each.

    Raises:
        AnnotatorError: there is no run.
    """
    return [
        f"{info.id} ({name}): a trace has one code at most, nothing to count"
        for run, name in zip(runs, name_runs(runs), strict=True)
        for info in run.schemes.values()
        if info.choice == "one"
    ]
