"""Conflicts of representation as tables, and as a list with the lines that show them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from annotator.base.text import Note, cut_middle, format_count, sanitize_line, wrap_lines
from annotator.reports.conflicts import KINDS, PairCounts, PatchPair, count_pairs
from annotator.reports.digits import (
    UNDEFINED,
    describe_limits,
    find_bar,
    format_limits,
    format_percent,
    format_ratio,
)
from annotator.reports.notes import rank_notes, select_notes
from annotator.reports.table import Line, Table, describe_share, flatten
from validation import Estimate

_MEANINGS = {
    "shape": "of an attribute: list, dict, ...",
    "element": "of an attribute's elements",
    "result": "of a function",
    "signature": "parameters of a function",
    "names": "two names for one role",
    "class": "its kind or its fields",
}
_EXAMPLES = 2
_Group = tuple[str | None, Sequence[PatchPair]]
_ROWS = (*KINDS, "any", "none")
_HEADER = ("pairs", "n", "%", "95 % interval", "tasks")
_BRIEF_HEADER = ("pairs", "%", "95 % interval")
_SHARES = """
    attribute attribute_value kind count n value low high method confidence design_effect tasks
    reason
"""
_LIST = """
    trace_id kind path name ours_patch ours_says ours_lines theirs_patch theirs_says theirs_lines
"""
_MISSES = Note(
    "True shares of conflicts are higher: in a test on 48 unseen pairs, 20 of 24 conflicts were"
    " found, and all 20 were right (docs/reference/stats.md).",
    "conflicts-missed",
)


def tabulate(counts: PairCounts) -> list[Table]:
    """Return the shares of pairs with a conflict: by kind, and by each value of an attribute.

    The first table is the heading and has all numbers, the last one has the notes. The brief form
    of the first is that of all.
    """
    values = sorted({pair.value for pair in counts.pairs if pair.value is not None})
    groups = [(value, [x for x in counts.pairs if x.value == value]) for value in values]
    every: list[_Group] = [(None, counts.pairs), *groups]
    records = [_make_record(counts.by, *group, kind) for group in every for kind in _ROWS]
    document = {**asdict(counts), "shares": records}
    tables = [_tabulate_kinds("conflicts by kind", counts.pairs)]
    if counts.by:
        by = sanitize_line(counts.by, 80)
        named = [(sanitize_line(value, 80), pairs) for value, pairs in groups]
        rows = [(name, *_write_cells(count_pairs(pairs))) for name, pairs in named]
        title = f"conflicts by {by}"
        tables.append(Table(title=title, header=(by, *_HEADER), rows=rows, name=title))
        tables += [_tabulate_kinds(f"conflicts, {by} = {name}", pairs) for name, pairs in named]
    notes = list(_write_notes(counts, every))
    head = Table(
        title=_write_size(counts),
        records=records,
        columns=_SHARES.split(),
        document=document,
        brief=_make_brief(counts, groups, notes, len(tables)),
    )
    return [head, *tables, Table(notes=notes)]


def _make_brief(
    counts: PairCounts, groups: Sequence[_Group], notes: Sequence[str], tables: int
) -> Table:
    """Return the first screen: a sentence, the kinds or the groups, two examples, two notes."""
    every = count_pairs(counts.pairs)
    if not every.n:
        notes = [note for note in notes if getattr(note, "id", "") in ("", "uncounted")]
    if groups:
        names = [sanitize_line(str(value), 40) for value, _ in groups]
        shares = [count_pairs(pairs) for _, pairs in groups]
        header = cut_middle(sanitize_line(counts.by or ""), 40), *_BRIEF_HEADER
    else:
        names = [f"{kind} ({_MEANINGS[kind]})" for kind in KINDS]
        shares = [count_pairs(counts.pairs, kind) for kind in KINDS]
        header = "kind", *_BRIEF_HEADER
    cells = zip([*names, "any" if not groups else "all"], [*shares, every], strict=True)
    examples = [replace(x, conflicts=x.conflicts[:1]) for x in counts.pairs if x.conflicts]
    lines = [line for pair in examples[:_EXAMPLES] for line in _write_lines(pair)]
    rows = [(name, format_ratio(x), format_percent(x), format_limits(x)) for name, x in cells]
    return Table(
        title=f"{_write_size(counts)}\n\n{wrap_lines(_write_summary(counts, every))}",
        header=header if every.n else (),
        rows=rows if every.n else (),
        last=True,
        bars=[find_bar(share) for share in (*shares, every)] if every.n else (),
        lines=wrap_lines("\n".join(["For example:", *lines])).splitlines() if lines else [],
        notes=select_notes(rank_notes(notes, corrected=False), tables=tables),
    )


def _write_size(counts: PairCounts) -> str:
    tasks = len({pair.task for pair in counts.pairs if pair.task})
    by = sanitize_line("+".join(counts.cluster))
    of = f" of {format_count(tasks, 'task')} ({by})" if tasks else ""
    unreadable = f"; {counts.unreadable} unreadable" if counts.unreadable else ""
    pairs, traces = len(counts.pairs), counts.traces
    size = f"{format_count(pairs, 'pair')} of patches in {format_count(traces, 'trace')}"
    return f"{size}{of}{unreadable}"


def _write_summary(counts: PairCounts, share: Estimate) -> str:
    if not share.n:
        return "No pair can be compared."
    counted = [pair.conflicts for pair in counts.pairs if not pair.uncounted]
    kinds = Counter(kind for conflicts in counted for kind in {x.kind for x in conflicts})
    by_kind = ", ".join(f"{kind} in {n}" for kind, n in kinds.most_common())
    size = f"In {share.inputs['k']} of {share.n} pairs, {format_percent(share)} %"
    tail = f": {by_kind}" if by_kind else ""
    return f"{size}{describe_limits(share, 1)}, the patches do not fit together{tail}."


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
    attribute = None if value is None else by
    about = {"attribute": attribute, "attribute_value": value, "kind": kind}
    return about | describe_share(count_pairs(pairs, kind))


def _write_notes(counts: PairCounts, groups: Sequence[_Group]) -> Iterator[str]:
    yield Note(
        "pairs: pairs of patches with such a conflict; a pair may have several kinds.", "pairs"
    )
    yield _MISSES
    if uncounted := Counter(x.uncounted for x in counts.pairs if x.uncounted):
        reasons = (f"{format_count(n, 'pair')} ({why})" for why, n in uncounted.most_common())
        yield Note(f"In no share: {', '.join(reasons)}.", "uncounted")
    if counts.alone:
        yield f"Without two patches: {format_count(counts.alone, 'trace')}."
    if counts.missing:
        yield Note(
            f"Of the run, but not where it was read: {format_count(counts.missing, 'trace')}.",
            "missing",
        )
    shares = [count_pairs(pairs) for _, pairs in groups]
    undefined = [share.reason if share.n else "no pair to compare" for share in shares]
    for reason in dict.fromkeys(filter(None, undefined)):
        yield Note(f"{UNDEFINED}: {reason}.", "undefined")


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
    return Table(
        title=title, lines=lines, records=records, columns=_LIST.split(), document=document
    )


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
