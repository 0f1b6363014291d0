"""Pairs of codes in the same traces, as tables."""

from collections.abc import Iterable, Sequence
from itertools import combinations

from annotator.base.text import cut_names, format_count, sanitize_line, wrap_lines
from annotator.reports.co_occurrence import CoOccurrence
from annotator.reports.digits import UNDEFINED
from annotator.reports.notes import select_notes
from annotator.reports.table import Line, Table, name_judge, name_rubric

NOTHING = "no rubric of this run allows more than one code"
_ABOUT = ("run", "rubric", "rubric_sha256", "judge", "judge_sha256")
_COLUMNS = (*_ABOUT, "code", "other", "count", "n", "notes")


def tabulate(counted: Sequence[CoOccurrence]) -> list[Table]:
    """Return the counts as tables, with a record for each pair of codes; a sentence where there are
    none.
    """
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
