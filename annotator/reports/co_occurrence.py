"""Pairs of codes in the same traces, counted and as tables."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement

from annotator.base.text import cut_names, format_count, sanitize_line, wrap_lines
from annotator.reports.digits import UNDEFINED
from annotator.reports.notes import select_notes
from annotator.reports.table import Line, Table, name_judge, name_rubric
from annotator.rubrics import Scheme
from annotator.rubrics.annotations import JUDGED
from annotator.runs.run import Run, name_runs


@dataclass(frozen=True, slots=True)
class CoOccurrence:
    """The judged traces of a run with two codes, primary or secondary."""

    run: str
    folder: str  # the run's name
    rubric: str
    version: int
    rubric_sha256: str
    judge: str
    judge_sha256: str
    codes: tuple[str, ...]
    counts: tuple[tuple[int | None, ...], ...]  # None: the judge cannot tell
    judged: int
    notes: tuple[str, ...]


def count_co_occurrences(*runs: Run) -> list[CoOccurrence]:
    """Count the pairs of codes in each run, for each of its rubrics that allows more than one."""
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
    notes = [f"Not counted: {left}."] if left else []
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


NOTHING = "no rubric of this run allows more than one code"
_ABOUT = ("run", "rubric", "rubric_sha256", "judge", "judge_sha256")
_COLUMNS = (*_ABOUT, "code", "other", "count", "n", "notes")


def tabulate(counted: Sequence[CoOccurrence]) -> list[Table]:
    """Return the counts as tables, with a record for each pair of codes; else a sentence."""
    return [_make_table(pairs) for pairs in counted] or [Table(notes=(NOTHING,), columns=_COLUMNS)]


def _make_table(pairs: CoOccurrence) -> Table:
    title = (
        f"{name_rubric(pairs.rubric, pairs.version, pairs.rubric_sha256)}"
        f"  judge {name_judge(pairs.judge, pairs.judge_sha256)}"
        f"  {sanitize_line(pairs.folder, 80)}: judged traces with both codes, primary or secondary"
        f" (n={pairs.judged})"
    )
    names = [sanitize_line(code, 64) for code in pairs.codes]
    about = {key: getattr(pairs, key) for key in _ABOUT}
    below = {"n": pairs.judged, "notes": "\n".join(pairs.notes)}
    return Table(
        title=title,
        brief=_make_brief(pairs),
        header=("code", *names),
        rows=[(name, *_write(row)) for name, row in zip(names, pairs.counts, strict=True)],
        notes=pairs.notes,
        matrix=True,
        name=f"{pairs.rubric}-co-occurrence",
        records=[
            {**about, "code": code, "other": other, "count": count, **below}
            for code, row in zip(pairs.codes, pairs.counts, strict=True)
            for other, count in zip(pairs.codes, row, strict=True)
        ],
        columns=_COLUMNS,
        document={
            **about,
            **{"version": pairs.version, "codes": pairs.codes, "counts": pairs.counts},
            **{"n": pairs.judged, "notes": pairs.notes},
        },
    )


def _write(counts: Iterable[int | None]) -> Line:
    return tuple(UNDEFINED if count is None else str(count) for count in counts)


def _make_brief(pairs: CoOccurrence) -> Table:
    """Return the codes that were found, below a sentence with the most frequent pair."""
    rows = [n for n, code in enumerate(pairs.codes) if pairs.counts[n][n]]
    codes = [sanitize_line(pairs.codes[n]) for n in rows]
    names = dict(zip(rows, cut_names(codes, 32), strict=True))
    together = {(a, b): pairs.counts[a][b] or 0 for a, b in combinations(rows, 2)}
    first, second = max(together, key=lambda pair: together[pair], default=(0, 0))
    top_count = together.get((first, second), 0)
    text = f"None of {format_count(pairs.judged, 'judged trace')} has two codes."
    if top_count:
        text = f"Most often together: {names[first]} and {names[second]}, in {top_count} of"
        text += f" {format_count(pairs.judged, 'judged trace')}."
    others = [sanitize_line(code, 64) for n, code in enumerate(pairs.codes) if n not in names]
    text += f" In no trace, or not known: {', '.join(others)}." if others else ""
    heading = (
        f"{sanitize_line(pairs.rubric)} v{pairs.version}, judge {sanitize_line(pairs.judge, 60)}"
    )
    return Table(
        title=f"{heading}\n\n{wrap_lines(text)}",
        header=("code", *names.values()) if names else (),
        rows=[(names[a], *_write(pairs.counts[a][b] for b in rows)) for a in rows],
        notes=select_notes(pairs.notes),
        matrix=True,
    )
