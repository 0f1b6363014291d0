"""The statistics as tables for every format; the same digits in each."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from annotator.base.text import list_first, sanitize_line
from annotator.cooperbench.stats import channel
from annotator.cooperbench.stats.communication import ALL, NO_PLAN, PLAN
from annotator.cooperbench.stats.model import (
    Communication,
    Curve,
    Difficulty,
    Group,
    PairComparison,
    Sizes,
    Stats,
)
from annotator.reports.digits import (
    UNDEFINED,
    Share,
    format_limits,
    format_number,
    format_percent,
    format_points,
)
from annotator.reports.table import Line, Table, make_columns
from annotator.reports.tables.stats_brief import make_brief
from validation import Estimate, Interval

_INTERVAL = "95 % interval"
_COLUMNS = make_columns("""
    attribute value table row column number low high count n method confidence design_effect tasks
    reason
""")


def tabulate(stats: Stats) -> list[Table]:
    """Return the statistics as tables: prose with all the numbers first and the notes last, between
    them the tables of the groups and then of the whole. The records are not in percent. The brief
    form of the first is that of all.
    """
    tables = [table for group in stats.groups for table in _tabulate_group(group)]
    tables += [_compare_success(stats.groups)] if stats.groups[1:] else []
    tables += [
        *_compare_pairs(stats.groups),
        _tabulate_conflicts(stats.difficulty),
        *_tabulate_curves(stats),
    ]
    brief = make_brief(stats, len(tables))
    head = Table(
        title=brief.title.split("\n")[0],
        records=[_make_record(*number) for number in _list_numbers(stats)],
        columns=_COLUMNS,
        document=asdict(stats),
        brief=brief,
    )
    return [head, *tables, Table(notes=stats.notes)]


def _make_record(
    group: tuple[str, str] | None, table: str, row: str, column: str, share: Share
) -> dict[str, Any]:
    attribute, value = group or (None, None)
    inputs = share.inputs if isinstance(share, Estimate) else {}
    return {
        **{"attribute": attribute, "value": value, "table": table, "row": row, "column": column},
        "number": share.value,
        "low": share.low,
        "high": share.high,
        "count": share.k if isinstance(share, Interval) else inputs.get("k"),
        "n": share.n,
        "method": share.method,
        "confidence": share.confidence,
        "design_effect": inputs.get("design_effect"),
        "tasks": inputs.get("clusters"),
        "reason": share.reason,
    }


def _make_table(title: str, header: Line, rows: Sequence[Line], lines: Sequence[str] = ()) -> Table:
    return Table(title=title, header=header, rows=rows, lines=lines, name=f"stats-{title}")


def _make_shares(
    title: str, names: Line, shares: Sequence[tuple[str, Estimate]], lines: Sequence[str]
) -> Table:
    rows = [(name, *_write_share(share)) for name, share in shares]
    return _make_table(title, (*names, *_SHARE), rows, lines)


def _tabulate_group(group: Group) -> Iterator[Table]:
    of = f"  {_clean_name(group.group[0])} = {_clean_name(group.group[1])}" if group.group else ""
    if group.communication.runs + group.communication.silent:
        yield _tabulate_talk(group.communication, of)
        yield _tabulate_steps(group.communication, of)
        yield _tabulate_openings(group.communication, of)
    if group.timing:
        yield _tabulate_timing(group, of)
    yield from _tabulate_talk_groups(group, of)
    if group.merges:
        yield _tabulate_merges(group, of)
    if group.merge_success:
        yield _tabulate_merge_success(group, of)
    yield _tabulate_success(group, of)
    yield _tabulate_sizes(group.sizes, of)


def _tabulate_talk(talk: Communication, of: str) -> Table:
    header = ("runs with messages", "all", "n", "conflict-free", "n", "conflict", "n")
    rows, estimates = [], []
    for measure in talk.measures:
        sides, gap = measure.sides, measure.difference
        cells = [cell for side in sides.values() for cell in (_write_number(side), str(side.n))]
        rows.append((measure.name, *cells, _write_number(gap, "+"), _write_range(gap)))
        undefined = [(name, side) for name, side in sides.items() if side.value is None]
        estimates += [(f"{measure.name}, {name}", side) for name, side in undefined]
    estimates += [(f"{measure.name}, difference", measure.difference) for measure in talk.measures]
    title = f"communication{of}"
    return _make_table(title, (*header, "difference", _INTERVAL), rows, _list_reasons(estimates))


def _tabulate_steps(talk: Communication, of: str) -> Table:
    rows = []
    for step in talk.steps:
        name = "all messages" if step.of == "all" else step.of
        rows.append((name, *_write_share(step.share)[:4], str(step.share.inputs["runs"])))
    header = ("main type of the message", "messages", "steps", "%", _INTERVAL, "runs")
    estimates = [("share of steps", step.share) for step in talk.steps[:1]]
    return _make_table(f"messages as a share of steps{of}", header, rows, _list_reasons(estimates))


def _tabulate_openings(talk: Communication, of: str) -> Table:
    shares = [(opening.of, opening.conflicts) for opening in talk.openings]
    below = _write_gap("difference, plan minus no plan", talk.difference)
    title = f"merge conflicts by the first message{of}"
    return _make_shares(title, ("runs", "conflicts"), shares, below)


def _tabulate_timing(group: Group, of: str) -> Table:
    rows = []
    for timing in group.timing:
        share = timing.share
        k = UNDEFINED if share.inputs["k"] is None else str(share.inputs["k"])
        rows.append((timing.of, k, str(share.n), format_percent(share), format_limits(share)))
    header = ("time", "count", "n", "%", _INTERVAL)
    estimates = [(timing.of, timing.share) for timing in group.timing]
    return _make_table(f"times of messages{of}", header, rows, _list_reasons(estimates))


_TALK_TABLES = {
    "with and without messages": (channel.CONFLICTS, channel.PASSED),
    "overlapping edits": (channel.OVERLAP, channel.DIFFERENT),
}


def _tabulate_talk_groups(group: Group, of: str) -> Iterator[Table]:
    """Yield two results of the runs that spoke, that could but did not, and so on, in each table
    with the differences, the main ones first.
    """
    for title, measures in _TALK_TABLES.items():
        rows: list[Line] = []
        for talk in group.talk_groups:
            rows.append(
                (talk.of, *(x for name in measures for x in _write_share(talk.shares[name])[:4]))
            )
        header = ("runs", *(cell for name in measures for cell in (name, *_SHARE[:3])))
        below: list[str] = []
        for gap in group.talk_differences:
            for name in measures:
                below += _write_gap(f"{name}, {' minus '.join(gap.groups)}", gap.shares[name])
        if any(talk.shares[name].n for talk in group.talk_groups for name in measures):
            yield _make_table(f"{title}{of}", header, rows, below)


# Of the ways in which a run may open, those that a table has room for.
_OPENINGS = (ALL, PLAN, NO_PLAN)
_SHARE = ("n", "%", _INTERVAL, "tasks", "design effect")


def _tabulate_merges(group: Group, of: str) -> Table:
    header = ("setting, merge, strategy", "runs", *_SHARE[:3], "passed", *_SHARE[:3])
    rows = []
    for merge in group.merges:
        name = ", ".join(map(_clean_name, (merge.setting, merge.merge, merge.strategy)))
        rows.append((name, *_write_share(merge.share)[:4], *_write_share(merge.passed)[:4]))
    return _make_table(f"merges{of}", header, rows)


def _tabulate_merge_success(group: Group, of: str) -> Table:
    shares: list[tuple[str, Estimate]] = []
    below: list[str] = []
    for merge in group.merge_success:
        setting = _clean_name(merge.setting)
        steps = (("naive", merge.naive), ("then union", merge.union), ("in the end", merge.final))
        shares += [(f"{setting}, {step}", share) for step, share in steps]
        gains = (("naive, then union", merge.union_gain), ("then in the end", merge.final_gain))
        for step, gain in gains:
            below += _write_gap(f"gain of the same runs, {setting}, {step}", gain)
    names = "merged runs that passed", "passed"
    return _make_shares(f"merge success{of}", names, shares, (*below, *_list_reasons(shares)))


def _tabulate_success(group: Group, of: str) -> Table:
    shares: list[tuple[str, Estimate]] = []
    below: list[str] = []
    for success in group.success:
        model = "all models" if success.model is None else _clean_name(success.model)
        shares += ((f"{model}, solo", success.solo), (f"{model}, coop", success.coop))
        below += _write_gap(f"difference, {model}, solo minus coop", success.gap)
    below += _list_reasons(shares)
    return _make_shares(f"success{of}", ("runs", "passed"), shares, below)


def _tabulate_sizes(sizes: Sizes, of: str) -> Table:
    shares = [(str(size), share) for size, share in sizes.shares]
    below = _write_gap("difference, fewest of several minus most", sizes.difference)
    names = "number of agents", "passed"
    return _make_shares(f"success by number of agents{of}", names, shares, below)


def _compare_success(groups: Sequence[Group]) -> Table:
    """Return success, solo and coop, and its retention: a row for each group, all traces last."""
    rows: list[Line] = []
    estimates: list[tuple[str, Estimate]] = []
    for group in (*groups[1:], groups[0]):
        name, success, kept = _name_value(group), group.success[0], group.retention
        sides = [cell for side in (success.solo, success.coop) for cell in _write_share(side)[:4]]
        gap = format_points(success.gap)
        rows.append((name, *sides, *gap, str(kept.n), _write_number(kept), _write_range(kept, "")))
        estimates += ((f"{name}, solo", success.solo), (f"{name}, coop", success.coop))
        estimates += ((f"{name}, difference", success.gap), (f"{name}, retention", kept))
    attribute = _name_attribute(groups)
    sides = [name for side in ("solo", "coop") for name in (side, *_SHARE[:3])]
    header = (attribute, *sides, "difference", _INTERVAL, "pairs", "retention", _INTERVAL)
    return _make_table(
        f"success and retention by {attribute}", header, rows, _list_reasons(estimates)
    )


def _compare_pairs(groups: Sequence[Group]) -> Iterator[Table]:
    """Yield a table of the same pairs for each comparison: of each measure each group of traces,
    then all traces.
    """
    by = f" by {_name_attribute(groups)}" if groups[1:] else ""
    ordered = (*groups[1:], groups[0])
    by_sides: dict[tuple[str, str], list[tuple[str, PairComparison]]] = {}
    for compared in zip(*(group.paired for group in ordered), strict=True):
        for group, pair in zip(ordered, compared, strict=True):
            name = f"{pair.of}, {_name_value(group)}" if by else pair.of
            by_sides.setdefault(pair.groups, []).append((name, pair))
    seen: list[list[Line]] = []
    for (first, second), pairs in by_sides.items():
        rows: list[Line] = []
        for name, pair in pairs:
            shares = format_percent(pair.first), format_percent(pair.second), str(pair.difference.n)
            rows.append((name, *shares, *format_points(pair.difference)))
        if rows in seen:  # nobody could speak and did not
            continue
        seen.append(rows)
        header = ("coop runs", f"{first} %", f"{second} %", "pairs", "difference", _INTERVAL)
        why = _list_reasons([(name, pair.difference) for name, pair in pairs])
        yield _make_table(f"the same pairs, {first} against {second}{by}", header, rows, why)


def _name_attribute(groups: Sequence[Group]) -> str:
    return next(_clean_name(group.group[0]) for group in groups if group.group)


def _name_value(group: Group) -> str:
    return _clean_name(group.group[1]) if group.group else "all"


def _tabulate_conflicts(difficulty: Difficulty) -> Table:
    sides = [cell for name in _OPENINGS for cell in (name, "n", "%", _INTERVAL)]
    rows = []
    for bucket in difficulty.conflicts:
        shares = dict(bucket.conflicts)
        cells = [cell for name in _OPENINGS for cell in _write_counts(shares[name])]
        rows.append((bucket.name, str(bucket.pairs), *cells))
    why = difficulty.no_conflicts or "no coop run of a task with a difficulty tells its merge"
    below = () if rows else (f"{UNDEFINED} conflicts: {why}",)
    header = ("difficulty", "pairs", *sides)
    return _make_table("merge conflicts by difficulty", header, rows, below)


def _write_counts(share: Interval) -> Line:
    return str(share.k), str(share.n), format_percent(share), format_limits(share)


def _tabulate_curves(stats: Stats) -> Iterator[Table]:
    difficulty = stats.difficulty
    header = ("difficulty", "pairs", "solo", "n", "%", _INTERVAL, "coop", "n", "%", _INTERVAL)
    if difficulty.pooled.buckets:
        buckets = [
            (
                bucket.name,
                str(bucket.pairs),
                *_write_counts(bucket.solo),
                *_write_counts(bucket.coop),
            )
            for bucket in difficulty.pooled.buckets
        ]
        span = f"raw difficulty {difficulty.lowest:.2f} to {difficulty.highest:.2f}"
        span += f" of {difficulty.pairs} pairs"
        yield _make_table(f"success by difficulty, pooled  ({span})", header, buckets)
    curves = difficulty.by_model if len(difficulty.by_model) > 1 else ()
    columns = ("model", "pairs", "solo", "n", "coop", "n", "AUC solo", "AUC coop", "gap")
    estimates = [(_name_model(curve), curve.retention) for curve in (*curves, difficulty.pooled)]
    rows = [write_retention(curve) for curve in (*curves, difficulty.pooled)]
    yield _make_table(
        "retention", (*columns, "retention", _INTERVAL), rows, _list_reasons(estimates)
    )


def write_retention(curve: Curve) -> Line:
    """Return the row of a curve in the table of retention."""
    counts = (curve.solo.k, curve.solo.n, curve.coop.k, curve.coop.n)
    areas = (_write_number(area, digits=3) for area in (curve.auc_solo, curve.auc_coop, curve.gap))
    retention = _write_number(curve.retention), _write_range(curve.retention, "")
    return _name_model(curve), str(curve.pairs), *map(str, counts), *areas, *retention


def _name_model(curve: Curve) -> str:
    return "pooled" if curve.model is None else _clean_name(curve.model)


def _clean_name(text: str) -> str:
    """Return a stranger's name as it can be shown in a cell."""
    return sanitize_line(text, 80)


def _write_share(share: Estimate) -> Line:
    """Return the cells under "count" and ``_SHARE``."""
    inputs = share.inputs
    effect, tasks = inputs.get("design_effect"), inputs.get("clusters")
    clustered = share.value is not None and tasks is not None
    return (
        UNDEFINED if share.value is None and share.n else str(inputs["k"]),
        str(share.n),
        format_percent(share),
        format_limits(share),
        str(tasks) if clustered else UNDEFINED,
        f"{effect:.2f}" if clustered and effect is not None else UNDEFINED,
    )


def _write_gap(name: str, gap: Estimate) -> Line:
    """Return a difference of shares as a line, in percentage points."""
    if gap.value is None or gap.low is None or gap.high is None:
        return (f"{name}: {UNDEFINED} ({gap.reason})",)
    return (f"{name}: {' '.join(format_points(gap))} points, n {gap.n}",)


def _write_number(estimate: Estimate, sign: str = "", digits: int = 2) -> str:
    return UNDEFINED if estimate.value is None else format_number(estimate.value, digits, sign)


def _write_range(estimate: Estimate, sign: str = "+") -> str:
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return UNDEFINED
    return f"[{format_number(estimate.low, 2, sign)}, {format_number(estimate.high, 2, sign)}]"


def _list_reasons(estimates: list[tuple[str, Estimate]]) -> Line:
    """Return a line for each reason why numbers or intervals are missing, or rest on less."""
    reasons: dict[str, list[str]] = {}
    for name, estimate in estimates:
        if estimate.reason or estimate.inputs.get("undefined_resamples"):
            reasons.setdefault(estimate.reason or _explain_resamples(estimate), []).append(name)
    return tuple(
        f"{UNDEFINED} {list_first(names, 3, '; ')}: {sanitize_line(reason)}"
        for reason, names in reasons.items()
    )


def _explain_resamples(estimate: Estimate) -> str:
    undefined, resamples = estimate.inputs["undefined_resamples"], estimate.inputs["resamples"]
    return f"undefined in {undefined} of {resamples} resamples, which the interval leaves out"


Number = tuple[tuple[str, str] | None, str, str, str, Share]


def _list_numbers(stats: Stats) -> Iterator[Number]:
    """Yield every number with its group, table, row and column."""
    for group in stats.groups:
        for table, row, column, share in _list_group_numbers(group):
            yield group.group, table, row, column, share
        for pair in group.paired:
            first, second = pair.groups
            table = f"paired, {first} against {second}"
            yield group.group, table, pair.of, first, pair.first
            yield group.group, table, pair.of, second, pair.second
            yield group.group, table, pair.of, "difference", pair.difference
        if group.group:  # that of all traces is in the table of retention
            yield group.group, "retention", "all models", "retention", group.retention
    for tenth in stats.difficulty.conflicts:
        for name, conflicts in tenth.conflicts:
            yield None, "conflicts by difficulty", tenth.name, name, conflicts
    for curve in (*stats.difficulty.by_model, stats.difficulty.pooled):
        model = curve.model if curve.model is not None else "pooled"
        for bucket in curve.buckets:
            row = f"{model}, {bucket.name}"
            yield None, "curve", row, "solo", bucket.solo
            yield None, "curve", row, "coop", bucket.coop
        for area in (curve.auc_solo, curve.auc_coop, curve.gap, curve.retention):
            yield None, "retention", model, area.measure, area


def _list_group_numbers(group: Group) -> Iterator[tuple[str, str, str, Estimate]]:
    talk = group.communication
    for measure in talk.measures:
        for column, share in (*measure.sides.items(), ("difference", measure.difference)):
            yield "communication", measure.name, column, share
    for step in talk.steps:
        yield "steps", step.of, "share", step.share
    for opening in talk.openings:
        yield "conflicts", opening.of, "share", opening.conflicts
    yield "conflicts", "plan minus no plan", "difference", talk.difference
    for timing in group.timing:
        yield "times", timing.of, "share", timing.share
    for title, names in _TALK_TABLES.items():
        for side in group.talk_groups:
            yield from ((title, side.of, name, side.shares[name]) for name in names)
        for gap in group.talk_differences:
            row = " minus ".join(gap.groups)
            yield from ((title, row, name, gap.shares[name]) for name in names)
    for merge in group.merges:
        row = f"{merge.setting}, {merge.merge}, {merge.strategy}"
        yield "merges", row, "share", merge.share
        yield "merges", row, "passed", merge.passed
    for after in group.merge_success:
        for name in ("naive", "union", "final", "union_gain", "final_gain"):
            yield "merge success", after.setting, name.replace("_", " "), getattr(after, name)
    for success in group.success:
        model = success.model if success.model is not None else "all models"
        sides = {"solo": success.solo, "coop": success.coop, "difference": success.gap}
        for column, share in sides.items():
            yield "success", model, column, share
    for size, share in group.sizes.shares:
        yield "agents", str(size), "share", share
    yield "agents", "fewest of several minus most", "difference", group.sizes.difference
