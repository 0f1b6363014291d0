"""Which codes stand in the same traces."""

import csv
import io
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

from annotator.reports import latex
from annotator.reports.markdown import escape, piped
from annotator.reports.writers import UNDEFINED, dumped, ruled
from annotator.runs.run import Run, name_runs
from annotator.text import harmless, one_line


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


def _shown(count: int | None) -> str:
    return UNDEFINED if count is None else str(count)


_NONE = "no rubric of this run allows more than one code"


def _title(one: CoOccurrence) -> str:
    return (
        f"{one_line(one.rubric)} v{one.version} ({one.rubric_sha256[:12]})"
        f"  judge {one_line(one.judge, 120)} ({one.judge_sha256[:12]})"
        f"  {one_line(one.folder, 80)}: judged traces with both codes, primary or secondary"
        f" (n={one.judged})"
    )


def _numbered(one: CoOccurrence) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the heading and the rows; columns are numbered as the rows."""
    names = [f"{n} {one_line(code, 64)}" for n, code in enumerate(one.codes, 1)]
    header = ("code", *(str(n) for n in range(1, len(names) + 1)))
    return header, [(name, *map(_shown, row)) for name, row in zip(names, one.counts, strict=True)]


def as_table(counted: Sequence[CoOccurrence]) -> str:
    """Return the counts as aligned text."""
    parts = []
    for one in counted:
        header, rows = _numbered(one)
        notes = ["", *one.notes] if one.notes else []
        parts.append("\n".join([_title(one), "", *ruled([header, *rows], last=False), *notes]))
    return "\n\n".join(parts) or _NONE


def as_markdown(counted: Sequence[CoOccurrence]) -> str:
    """Return the counts in Markdown."""
    parts = []
    for one in counted:
        codes = [one_line(code, 64) for code in one.codes]
        rows = [(code, *map(_shown, row)) for code, row in zip(codes, one.counts, strict=True)]
        lines = piped([("code", *codes), *rows])
        notes = ["", escape(" ".join(one.notes))] if one.notes else []
        parts.append("\n".join([f"**{escape(_title(one))}**", "", *lines, *notes]))
    return "\n\n".join(parts) or _NONE


def as_latex(counted: Sequence[CoOccurrence]) -> str:
    """Return the counts for a paper."""
    return latex.document(
        [
            latex.Sheet(
                f"{one.rubric}-co-occurrence", [f"{_title(one)}.", *one.notes], *_numbered(one)
            )
            for one in counted
        ],
        notes=() if counted else (_NONE,),
    )


def as_csv(counted: Sequence[CoOccurrence]) -> str:
    """Return the counts as CSV, a row for each pair of codes."""
    out = io.StringIO()
    write = csv.writer(out, lineterminator="\n")
    write.writerow(_COLUMNS)
    for one in counted:
        about = (one.run, one.rubric, one.rubric_sha256, one.judge, one.judge_sha256)
        for code, row in zip(one.codes, one.counts, strict=True):
            for other, count in zip(one.codes, row, strict=True):
                names = [harmless(one_line(name)) for name in (*about, code, other)]
                write.writerow((*names, count, one.judged, " ".join(one.notes)))
    return out.getvalue().rstrip("\n")


_COLUMNS = (
    *("run", "rubric", "rubric_sha256", "judge", "judge_sha256"),
    *("code", "other", "count", "n", "notes"),
)


def as_json(counted: Sequence[CoOccurrence]) -> str:
    """Return the counts as JSON."""
    values = [
        {
            "run": one.run,
            "rubric": one.rubric,
            "version": one.version,
            "rubric_sha256": one.rubric_sha256,
            "judge": one.judge,
            "judge_sha256": one.judge_sha256,
            "codes": one.codes,
            "counts": one.counts,
            "n": one.judged,
            "notes": one.notes,
        }
        for one in counted
    ]
    return dumped(values)


WRITERS: dict[str, Callable[[Sequence[CoOccurrence]], str]] = {
    "table": as_table,
    "csv": as_csv,
    "json": as_json,
    "md": as_markdown,
    "latex": as_latex,
}
