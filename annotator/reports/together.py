"""Which codes stand in the same traces."""

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from pathlib import Path

from annotator.calibration.frame import read_checked, rubrics_of
from annotator.reports.writers import UNDEFINED, piped, ruled
from annotator.text import harmless, one_line


@dataclass(frozen=True, slots=True)
class CoOccurrence:
    """How many judged traces of a run have two codes, wherever they stand (primary or secondary).

    ``counts`` has a row and a column for each of ``codes``; on the diagonal are the traces with
    that code. A count is None where the judge cannot find one of the codes.
    """

    run: str
    rubric: str
    codes: tuple[str, ...]
    counts: tuple[tuple[int | None, ...], ...]
    judged: int


def co_occurrence(run: Path) -> list[CoOccurrence]:
    """Count the pairs of codes in a run, for each of its rubrics that allows more than one.

    Raises:
        AnnotatorError: there is no run, or a line of it is damaged.
    """
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
        counted.append(CoOccurrence(run.name, info.id, info.codes, counts, judged))
    return counted


def _shown(count: int | None) -> str:
    return UNDEFINED if count is None else str(count)


def as_table(counted: Sequence[CoOccurrence]) -> str:
    """Return the counts as aligned text; columns are numbered as the rows."""
    parts = []
    for one in counted:
        names = [f"{n} {one_line(code, 64)}" for n, code in enumerate(one.codes, 1)]
        header = ("code", *(str(n) for n in range(1, len(names) + 1)))
        rows = [(name, *map(_shown, row)) for name, row in zip(names, one.counts, strict=True)]
        title = (
            f"{one.rubric}  {one_line(one.run, 80)}: judged traces with both codes, primary or"
            f" secondary (n={one.judged})"
        )
        parts.append("\n".join([title, "", *ruled([header, *rows], last=False)]))
    return "\n\n".join(parts) or "no rubric of this run allows more than one code"


def as_markdown(counted: Sequence[CoOccurrence]) -> str:
    """Return the counts in Markdown."""
    parts = []
    for one in counted:
        rows = [(code, *map(_shown, row)) for code, row in zip(one.codes, one.counts, strict=True)]
        lines = piped([("code", *one.codes), *rows])
        parts.append("\n".join([f"**{one.rubric}** (n={one.judged})", "", *lines]))
    return "\n\n".join(parts)


def as_csv(counted: Sequence[CoOccurrence]) -> str:
    """Return the counts as CSV, a row for each pair of codes."""
    out = io.StringIO()
    write = csv.writer(out, lineterminator="\n")
    write.writerow(("run", "rubric", "code", "other", "count", "n"))
    for one in counted:
        for code, row in zip(one.codes, one.counts, strict=True):
            for other, count in zip(one.codes, row, strict=True):
                write.writerow(
                    (harmless(one_line(one.run)), one.rubric, code, other, count, one.judged)
                )
    return out.getvalue().rstrip("\n")


def as_json(counted: Sequence[CoOccurrence]) -> str:
    """Return the counts as JSON."""
    values = [
        {
            "run": one.run,
            "rubric": one.rubric,
            "codes": one.codes,
            "counts": one.counts,
            "n": one.judged,
        }
        for one in counted
    ]
    return json.dumps(values, ensure_ascii=False, indent=2)


WRITERS: dict[str, Callable[[Sequence[CoOccurrence]], str]] = {
    "table": as_table,
    "csv": as_csv,
    "json": as_json,
    "md": as_markdown,
}
