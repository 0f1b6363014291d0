"""Conflicts of representation as tables, and as a list with the lines that show them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from annotator.base.text import format_count, sanitize_line
from annotator.reports.conflicts import KINDS, PairCounts, PatchPair, count_pairs
from annotator.reports.digits import UNDEFINED, format_limits, format_percent
from annotator.reports.table import Line, Table, flatten, make_columns
from validation import Estimate

_Group = tuple[str | None, Sequence[PatchPair]]
_ROWS = (*KINDS, "any", "none")
_HEADER = ("pairs", "n", "%", "95 % interval", "tasks")
_SHARES = make_columns("""
    attribute attribute_value kind count n value low high method confidence design_effect tasks
    reason
""")
_LIST = make_columns("""
    trace_id kind path name ours_patch ours_says ours_lines theirs_patch theirs_says theirs_lines
""")
_MISSES = (
    "True shares of conflicts are higher: in a test on 48 unseen pairs, 20 of 24 conflicts were"
    " found, and all 20 were right (docs/reference/stats.md)."
)


def tabulate(counts: PairCounts) -> list[Table]:
    """Return the shares of pairs with a conflict: by kind, and by each value of an attribute.

    The first table is the heading and has all numbers, the last one has the notes.
    """
    values = sorted({pair.value for pair in counts.pairs if pair.value is not None})
    groups = [(value, [x for x in counts.pairs if x.value == value]) for value in values]
    every: list[_Group] = [(None, counts.pairs), *groups]
    records = [_make_record(counts.by, *group, kind) for group in every for kind in _ROWS]
    document = {**asdict(counts), "shares": records}
    head = Table(title=_write_heading(counts), records=records, columns=_SHARES, document=document)
    tables = [head, _tabulate_kinds("conflicts by kind", counts.pairs)]
    if counts.by:
        by = sanitize_line(counts.by, 80)
        rows = [
            (sanitize_line(value, 80), *_write_cells(count_pairs(pairs))) for value, pairs in groups
        ]
        title = f"conflicts by {by}"
        tables.append(Table(title=title, header=(by, *_HEADER), rows=rows, name=title))
        tables += [
            _tabulate_kinds(f"conflicts, {by} = {row[0]}", x[1])
            for row, x in zip(rows, groups, strict=True)
        ]
    return [*tables, Table(notes=list(_write_notes(counts, every)))]


def _write_heading(counts: PairCounts) -> str:
    size = (
        f"{format_count(len(counts.pairs), 'pair')} of patches in"
        f" {format_count(counts.traces, 'trace')}"
    )
    tasks = len({pair.task for pair in counts.pairs if pair.task})
    named = (
        f"{format_count(tasks, 'task')} ({'+'.join(counts.cluster)})" if tasks else "tasks unknown"
    )
    return f"{size}  {sanitize_line(named)}  unreadable {counts.unreadable}"


def _tabulate_kinds(title: str, pairs: Sequence[PatchPair]) -> Table:
    rows = [(kind, *_write_cells(count_pairs(pairs, kind))) for kind in _ROWS]
    return Table(title=title, header=("kind", *_HEADER), rows=rows, last=True, below=1, name=title)


def _write_cells(share: Estimate) -> Line:
    tasks = share.inputs.get("clusters")
    count = UNDEFINED if tasks is None else str(tasks)
    return str(share.inputs["k"]), str(share.n), format_percent(share), format_limits(share), count


def _make_record(
    by: str | None, value: str | None, pairs: Sequence[PatchPair], kind: str
) -> dict[str, Any]:
    share = count_pairs(pairs, kind)
    return {
        **{"attribute": None if value is None else by, "attribute_value": value, "kind": kind},
        **{"count": share.inputs["k"], "n": share.n, "value": share.value},
        **{"low": share.low, "high": share.high, "method": share.method},
        "confidence": share.confidence,
        "design_effect": share.inputs.get("design_effect"),
        "tasks": share.inputs.get("clusters"),
        "reason": share.reason,
    }


def _write_notes(counts: PairCounts, groups: Sequence[_Group]) -> Iterator[str]:
    yield "pairs: pairs of patches with such a conflict; a pair may have several kinds."
    yield _MISSES
    for reason, n in Counter(x.uncounted for x in counts.pairs if x.uncounted).items():
        yield f"In no share: {format_count(n, 'pair')} ({reason})."
    if counts.alone:
        yield f"Without two patches: {format_count(counts.alone, 'trace')}."
    if counts.missing:
        yield f"Of the run, but not where it was read: {format_count(counts.missing, 'trace')}."
    shares = [count_pairs(pairs) for _, pairs in groups]
    reasons = [share.reason if share.n else "no pair to compare" for share in shares]
    for reason in dict.fromkeys(filter(None, reasons)):
        yield f"{UNDEFINED}: {reason}."


def list_conflicts(pairs: Sequence[PatchPair]) -> Table:
    """Return every conflict: how each patch uses the thing, with the lines that show it."""
    records = [
        flatten({
            **{"trace_id": pair.trace_id, "kind": conflict.kind, "path": conflict.path},
            "name": conflict.name,
            **{
                side: {**asdict(use), "lines": [f"{n}: {text}" for n, text in use.lines]}
                for side, use in zip(("ours", "theirs"), conflict.uses, strict=True)
            },
        })
        for pair in pairs
        for conflict in pair.conflicts
    ]  # fmt: skip
    title = (
        f"{format_count(len(records), 'conflict')} in {format_count(len(pairs), 'pair')} of patches"
    )
    document = {"pairs": [asdict(pair) for pair in pairs]}
    lines = [line for pair in pairs for line in _write_lines(pair)]
    return Table(title=title, lines=lines, records=records, columns=_LIST, document=document)


def _write_lines(pair: PatchPair) -> Iterator[str]:
    if pair.trace_id and pair.conflicts:
        yield sanitize_line(pair.trace_id)
    if pair.uncounted and not pair.trace_id:
        yield f"  Not all is compared: {pair.uncounted}."
    for conflict in pair.conflicts:
        yield f"  {conflict.kind}: {sanitize_line(conflict.name)} in {sanitize_line(conflict.path)}"
        for use in conflict.uses:
            yield f"    {sanitize_line(use.patch)}: {sanitize_line(use.says)}"
            yield from (f"      line {n}: {sanitize_line(text)}" for n, text in use.lines)
