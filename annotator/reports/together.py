"""Which codes stand in the same traces."""

from collections import Counter
from dataclasses import dataclass
from itertools import combinations_with_replacement
from pathlib import Path

from annotator.calibration.frame import judge_sha256, read_checked, rubrics_of
from annotator.reports.frequency import partial
from annotator.runs.manifest import read_manifest, run_names


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


def co_occurrence(*runs: Path) -> list[CoOccurrence]:
    """Count the pairs of codes in each run, for each of its rubrics that allows more than one.

    Raises:
        AnnotatorError: there is no run, or a line of it is damaged.
    """
    named = zip(runs, run_names(runs), strict=True)
    return [one for run, name in named for one in _counted(run, name)]


def _counted(run: Path, name: str) -> list[CoOccurrence]:
    manifest = read_manifest(run)
    judge = manifest["judge"]["id"], judge_sha256(manifest)
    counted = []
    for info in rubrics_of(run).values():
        if info.choice == "one":
            continue
        pairs: Counter[tuple[str, str]] = Counter()
        judged = 0
        for annotation in read_checked(run, info):
            if annotation.status in ("labelled", "none"):
                judged += 1
                pairs.update(combinations_with_replacement(sorted(set(annotation.codes)), 2))
        counts = tuple(
            tuple(
                pairs[min(one, other), max(one, other)] if {one, other} <= info.judged else None
                for other in info.codes
            )
            for one in info.codes
        )
        about = manifest["id"], name, info.id, info.version, info.sha256, *judge
        counted.append(CoOccurrence(*about, info.codes, counts, judged, tuple(partial(manifest))))
    return counted


def left_out(*runs: Path) -> list[str]:
    """Return which rubrics of the runs :func:`co_occurrence` does not count, a line each.

    Raises:
        AnnotatorError: there is no run.
    """
    return [
        f"{info.id} ({name}): a trace has one code at most, nothing to count"
        for run, name in zip(runs, run_names(runs), strict=True)
        for info in rubrics_of(run).values()
        if info.choice == "one"
    ]
