"""Conflicts of representation in pairs of patches: counted, as tables and as a list."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import get_args

from annotator.base.text import Note, cut_middle, format_count, sanitize_line, wrap_lines
from annotator.cooperbench.patches.diff import Patch
from annotator.cooperbench.patches.fragments import PatchTexts
from annotator.cooperbench.patches.representations import Kind, Use, find_representation_conflicts
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
from annotator.traces.clusters import name_lone_cluster
from validation import Estimate, estimate_clustered_share

KINDS: tuple[str, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class PatchUse:
    """How one patch uses a thing, and the lines that show it, each with its number in the patch."""

    patch: str
    says: str
    lines: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class PatchConflict:
    """One thing that two patches represent in incompatible ways. ``name`` includes its class."""

    kind: str
    path: str
    name: str
    uses: tuple[PatchUse, PatchUse]


@dataclass(frozen=True, slots=True)
class PatchPair:
    """Two patches of one trace (of none: ``trace_id`` is empty) and their conflicts. ``uncounted``:
    why the pair is in no share. ``value``: that of the attribute to group by.
    """

    trace_id: str
    patches: tuple[str, str]
    conflicts: tuple[PatchConflict, ...]
    uncounted: str | None
    task: str | None = None
    value: str | None = None


@dataclass(frozen=True, slots=True)
class PairCounts:
    """All pairs of patches of some traces; ``alone`` ones have fewer than two patches, ``missing``
    ones of a run are not where it read them.
    """

    pairs: tuple[PatchPair, ...]
    traces: int = 0
    alone: int = 0
    unreadable: int = 0
    missing: int = 0
    by: str | None = None
    cluster: tuple[str, ...] = ()


def compare_patches(
    patches: Sequence[tuple[str, Patch]],
    trace_id: str = "",
    task: str | None = None,
    value: str | None = None,
) -> Iterator[PatchPair]:
    """Yield every two of some named patches with their conflicts."""
    for (ours, first), (theirs, second) in combinations(patches, 2):
        conflicts = [
            PatchConflict(
                conflict.kind,
                conflict.path,
                f"{conflict.scope}.{conflict.name}" if conflict.scope else conflict.name,
                (
                    _describe_use(ours, first, conflict.ours),
                    _describe_use(theirs, second, conflict.theirs),
                ),
            )
            for conflict in find_representation_conflicts(first, second)
        ]
        why = _explain_uncounted(first, second)
        yield PatchPair(trace_id, (ours, theirs), tuple(conflicts), why, task, value)


def _describe_use(name: str, patch: Patch, use: Use) -> PatchUse:
    text = patch.text
    lines = [(text.count("\n", 0, x.start) + 1, text[x.start : x.end]) for x in use.lines]
    return PatchUse(name, use.says, tuple(lines))


def _explain_uncounted(first: Patch, second: Patch) -> str | None:
    """Return why a pair of patches without conflicts does not count as free of them, or None."""
    if not (first.text.strip() and second.text.strip()):
        return "a patch is empty"
    if first.unread or second.unread:
        return "a patch could not be read in full"
    if not (PatchTexts(first, second).files and PatchTexts(second, first).files):
        return "a patch changes no Python file, or only tests"
    return None


def count_pairs(pairs: Sequence[PatchPair], kind: str = "any") -> Estimate:
    """Return the share of pairs with a conflict of a kind, of ``any``, or with ``none``."""
    counted = [pair for pair in pairs if not pair.uncounted]
    kinds = [{conflict.kind for conflict in pair.conflicts} for pair in counted]
    values = [{"any": bool(has), "none": not has}.get(kind, kind in has) for has in kinds]
    tasks = [pair.task or name_lone_cluster(pair.trace_id) for pair in counted]
    clustered = any(pair.task for pair in counted) or len(set(tasks)) < len(tasks)
    return estimate_clustered_share(values, tasks if clustered else None, least_design_effect=1.0)


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
    """Return the shares of pairs with a conflict; the first table has the numbers of all."""
    values = sorted({pair.value for pair in counts.pairs if pair.value is not None})
    groups = [(value, [x for x in counts.pairs if x.value == value]) for value in values]
    every: list[_Group] = [(None, counts.pairs), *groups]
    records = [
        {"attribute": None if value is None else counts.by, "attribute_value": value, "kind": kind}
        | describe_share(count_pairs(pairs, kind))
        for value, pairs in every
        for kind in _ROWS
    ]
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
