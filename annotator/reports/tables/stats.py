"""The statistics as tables for every format, and the first screen of them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from annotator.base.text import (
    cut_names,
    format_count,
    list_first,
    sanitize_line,
    wrap_line,
    wrap_lines,
)
from annotator.cooperbench.stats import channel
from annotator.cooperbench.stats.communication import ALL, NO_PLAN, PLAN
from annotator.cooperbench.stats.model import (
    Communication,
    Curve,
    Difficulty,
    Group,
    PairComparison,
    Stats,
)
from annotator.reports.digits import (
    UNDEFINED,
    Share,
    describe_limits,
    find_bar,
    format_limits,
    format_number,
    format_percent,
    format_points,
    format_ratio,
)
from annotator.reports.notes import describe_fallbacks, rank_notes, select_notes
from annotator.reports.table import Line, Record, Table, describe_share
from annotator.reports.tables.brief import LEAST_NAME, WIDTH
from annotator.traces.model import NOTHING
from validation import Estimate, Interval

_INTERVAL = "95 % interval"
_SHARE = ("n", "%", _INTERVAL, "tasks", "design effect")  # the cells beside a count
_OPENINGS = (ALL, PLAN, NO_PLAN)  # of the ways in which a run may open, those with room
_COLUMNS = """
    attribute value table row column number low high count n method confidence design_effect tasks
    reason
"""
_TALK_TABLES = {
    "with and without messages": (channel.CONFLICTS, channel.PASSED),
    "overlapping edits": (channel.OVERLAP, channel.DIFFERENT),
}
Of = tuple[str, str] | None  # the attribute and the value of a group of traces
Named = tuple[str, Estimate]


def tabulate(stats: Stats) -> list[Table]:
    """Return the statistics as tables: prose with all the numbers first and the notes last, between
    them the tables of the groups and then of all traces. The records are not in percent. The brief
    form of the first is that of all.
    """
    tables = [table for group in stats.groups for table in _tabulate_group(group)]
    tables += [_compare_success(stats.groups)] if stats.groups[1:] else []
    tables += [
        *_compare_pairs(stats.groups),
        _tabulate_conflicts(stats.difficulty),
        *_tabulate_curves(stats.difficulty),
    ]
    brief = make_brief(stats, len(tables))
    head = Table(
        title=brief.title.split("\n")[0],
        records=[record for table in tables for record in table.records],
        columns=_COLUMNS.split(),
        document=asdict(stats),
        brief=brief,
    )
    return [head, *tables, Table(notes=stats.notes)]


def _make_table(
    title: str,
    header: Sequence[str],
    rows: Sequence[Line],
    lines: Sequence[str] = (),
    records: Sequence[Record] = (),
) -> Table:
    name = f"stats-{title}"
    return Table(title, header=tuple(header), rows=rows, lines=lines, name=name, records=records)


def _make_shares(
    of: Of,
    title: str,
    heads: Sequence[str],
    rows: Iterable[tuple[Line, Sequence[Share]]],
    gaps: Sequence[Named] = (),
    *,
    width: int = 3,
    why: bool = False,
) -> Table:
    """Return a table of shares. ``heads`` name the columns of texts and of shares, ``width`` is the
    number of cells beside each count. Below the rows are the ``gaps`` and, for ``why``, the reasons
    of undefined shares.
    """
    rows = list(rows)
    lines = [line for name, gap in gaps for line in _write_gap(name, gap)]
    if why:
        lines += _list_reasons([(texts[0], share) for texts, shares in rows for share in shares])
    texts = len(heads) - len(rows[0][1]) if rows else 1
    header = [*heads[:texts], *(x for head in heads[texts:] for x in (head, *_SHARE[:width]))]
    records = [
        _make_record(of, title, texts[0], head, share)
        for texts, shares in rows
        for head, share in zip(heads[len(texts) :], shares, strict=True)
    ]
    records += [_make_record(of, title, name, "difference", gap) for name, gap in gaps]
    cells = [
        (*texts, *(x for share in shares for x in _write_share(share)[: width + 1]))
        for texts, shares in rows
    ]
    return _make_table(f"{title}{_name_group(of)}", header, cells, lines, records)


def _make_record(of: Of, table: str, row: str, column: str, share: Share) -> Record:
    attribute, value = of or (None, None)
    about = {"attribute": attribute, "value": value, "table": table, "row": row, "column": column}
    return describe_share(share) | about | {"number": share.value}


def _name_group(of: Of) -> str:
    return f"  {_clean_name(of[0])} = {_clean_name(of[1])}" if of else ""


def _tabulate_group(group: Group) -> Iterator[Table]:
    of, talk, sizes = group.group, group.communication, group.sizes
    if talk.runs + talk.silent:
        yield _tabulate_talk(of, talk)
        yield _tabulate_steps(of, talk)
        openings = [((x.of,), (x.conflicts,)) for x in talk.openings]
        gap = ("difference, plan minus no plan", talk.difference)
        heads, title = ("runs", "conflicts"), "merge conflicts by the first message"
        yield _make_shares(of, title, heads, openings, [gap], width=5)
    if group.timing:
        times = [((timing.of,), (timing.share,)) for timing in group.timing]
        yield _make_shares(of, "times of messages", ("time", "count"), times, why=True)
    yield from _tabulate_talk_groups(group)
    if group.merges:
        merges = [
            ((", ".join(map(_clean_name, (x.setting, x.merge, x.strategy))),), (x.share, x.passed))
            for x in group.merges
        ]
        yield _make_shares(of, "merges", ("setting, merge, strategy", "runs", "passed"), merges)
    if group.merge_success:
        yield _tabulate_merge_success(group)
    yield _tabulate_success(group)
    by_size = [((str(size),), (share,)) for size, share in sizes.shares]
    gap = ("difference, fewest of several minus most", sizes.difference)
    heads, title = ("number of agents", "passed"), "success by number of agents"
    yield _make_shares(of, title, heads, by_size, [gap], width=5)


def _tabulate_talk(of: Of, talk: Communication) -> Table:
    header: Line = ("runs with messages", "all", "n", "conflict-free", "n", "conflict", "n")
    header += ("difference", _INTERVAL)
    rows, records, estimates = [], [], []
    for measure in talk.measures:
        sides, gap = measure.sides, measure.difference
        cells = [cell for side in sides.values() for cell in (_write_number(side), str(side.n))]
        rows.append((measure.name, *cells, _write_number(gap, "+"), _write_range(gap)))
        for column, share in (*sides.items(), ("difference", gap)):
            records.append(_make_record(of, "communication", measure.name, column, share))
        undefined = [(name, side) for name, side in sides.items() if side.value is None]
        estimates += [(f"{measure.name}, {name}", side) for name, side in undefined]
    estimates += [(f"{measure.name}, difference", measure.difference) for measure in talk.measures]
    title = f"communication{_name_group(of)}"
    return _make_table(title, header, rows, _list_reasons(estimates), records)


def _tabulate_steps(of: Of, talk: Communication) -> Table:
    rows, records = [], []
    title = "messages as a share of steps"
    for step in talk.steps:
        name = "all messages" if step.of == "all" else step.of
        rows.append((name, *_write_share(step.share)[:4], str(step.share.inputs["runs"])))
        records.append(_make_record(of, title, name, "share", step.share))
    header = ("main type of the message", "messages", "steps", "%", _INTERVAL, "runs")
    why = _list_reasons([("share of steps", step.share) for step in talk.steps[:1]])
    return _make_table(f"{title}{_name_group(of)}", header, rows, why, records)


def _tabulate_talk_groups(group: Group) -> Iterator[Table]:
    """Yield the results of the runs that spoke, that could but did not, and so on."""
    for title, names in _TALK_TABLES.items():
        rows = [((talk.of,), [talk.shares[name] for name in names]) for talk in group.talk_groups]
        gaps = [
            (f"{name}, {' minus '.join(gap.groups)}", gap.shares[name])
            for gap in group.talk_differences
            for name in names
        ]
        if any(share.n for _, shares in rows for share in shares):
            yield _make_shares(group.group, title, ("runs", *names), rows, gaps)


def _tabulate_merge_success(group: Group) -> Table:
    rows: list[tuple[Line, Sequence[Share]]] = []
    gaps: list[Named] = []
    for merge in group.merge_success:
        setting = _clean_name(merge.setting)
        steps = (("naive", merge.naive), ("then union", merge.union), ("in the end", merge.final))
        rows += [((f"{setting}, {step}",), (share,)) for step, share in steps]
        gains = (("naive, then union", merge.union_gain), ("then in the end", merge.final_gain))
        gaps += [(f"gain of the same runs, {setting}, {step}", gain) for step, gain in gains]
    heads = ("merged runs that passed", "passed")
    return _make_shares(group.group, "merge success", heads, rows, gaps, width=5, why=True)


def _tabulate_success(group: Group) -> Table:
    rows: list[tuple[Line, Sequence[Share]]] = []
    gaps: list[Named] = []
    for success in group.success:
        model = "all models" if success.model is None else _clean_name(success.model)
        rows += [((f"{model}, solo",), (success.solo,)), ((f"{model}, coop",), (success.coop,))]
        gaps.append((f"difference, {model}, solo minus coop", success.gap))
    heads = ("runs", "passed")
    return _make_shares(group.group, "success", heads, rows, gaps, width=5, why=True)


def _compare_success(groups: Sequence[Group]) -> Table:
    """Return success, solo and coop, and its retention: a row for each group, all traces last."""
    rows: list[Line] = []
    records: list[Record] = []
    estimates: list[Named] = []
    for group in (*groups[1:], groups[0]):
        name, success, kept = _name_value(group), group.success[0], group.retention
        sides = [cell for side in (success.solo, success.coop) for cell in _write_share(side)[:4]]
        gap = format_points(success.gap)
        rows.append((name, *sides, *gap, str(kept.n), _write_number(kept), _write_range(kept, "")))
        estimates += ((f"{name}, solo", success.solo), (f"{name}, coop", success.coop))
        estimates += ((f"{name}, difference", success.gap), (f"{name}, retention", kept))
        if group.group:  # that of all traces is in the table of retention
            records.append(_make_record(group.group, "retention", "all models", "retention", kept))
    attribute = _name_attribute(groups)
    header = [attribute, *(name for side in ("solo", "coop") for name in (side, *_SHARE[:3]))]
    header += ["difference", _INTERVAL, "pairs", "retention", _INTERVAL]
    title = f"success and retention by {attribute}"
    return _make_table(title, header, rows, _list_reasons(estimates), records)


def _compare_pairs(groups: Sequence[Group]) -> Iterator[Table]:
    """Yield a table for each comparison on the same pairs: of each measure a row a group."""
    by = f" by {_name_attribute(groups)}" if groups[1:] else ""
    ordered = (*groups[1:], groups[0])
    by_sides: dict[tuple[str, str], list[tuple[Group, PairComparison]]] = {}
    for compared in zip(*(group.paired for group in ordered), strict=True):
        for group, pair in zip(ordered, compared, strict=True):
            by_sides.setdefault(pair.groups, []).append((group, pair))
    seen: list[list[Line]] = []
    for (first, second), pairs in by_sides.items():
        title = f"the same pairs, {first} against {second}"
        rows: list[Line] = []
        records: list[Record] = []
        estimates: list[Named] = []
        for group, pair in pairs:
            name = f"{pair.of}, {_name_value(group)}" if by else pair.of
            shares = format_percent(pair.first), format_percent(pair.second), str(pair.difference.n)
            rows.append((name, *shares, *format_points(pair.difference)))
            estimates.append((name, pair.difference))
            sides = (first, pair.first), (second, pair.second), ("difference", pair.difference)
            records += [_make_record(group.group, title, pair.of, *side) for side in sides]
        if rows in seen:  # nobody could speak and did not
            continue
        seen.append(rows)
        header = ("coop runs", f"{first} %", f"{second} %", "pairs", "difference", _INTERVAL)
        yield _make_table(f"{title}{by}", header, rows, _list_reasons(estimates), records)


def _name_attribute(groups: Sequence[Group]) -> str:
    return next(_clean_name(group.group[0]) for group in groups if group.group)


def _name_value(group: Group) -> str:
    return _clean_name(group.group[1]) if group.group else "all"


def _tabulate_conflicts(difficulty: Difficulty) -> Table:
    title, heads = "merge conflicts by difficulty", ("difficulty", "pairs", *_OPENINGS)
    rows = [
        ((x.name, str(x.pairs)), [dict(x.conflicts)[name] for name in _OPENINGS])
        for x in difficulty.conflicts
    ]
    if rows:
        records = [
            _make_record(None, title, x.name, name, share)
            for x in difficulty.conflicts
            for name, share in x.conflicts
        ]
        return replace(_make_shares(None, title, heads, rows), records=records)
    why = difficulty.no_conflicts or "no coop run of a task with a difficulty tells its merge"
    header = [*heads[:2], *(x for name in _OPENINGS for x in (name, *_SHARE[:3]))]
    return _make_table(title, header, (), (f"{UNDEFINED} conflicts: {why}",))


def _tabulate_curves(difficulty: Difficulty) -> Iterator[Table]:
    by_model = [_tabulate_buckets(curve) for curve in difficulty.by_model]
    if difficulty.pooled.buckets:
        yield _tabulate_buckets(difficulty.pooled, difficulty)
    curves = [*(difficulty.by_model if len(by_model) > 1 else ()), difficulty.pooled]
    records = [record for table in by_model for record in table.records]
    for curve in (*difficulty.by_model, difficulty.pooled):
        for area in (curve.auc_solo, curve.auc_coop, curve.gap, curve.retention):
            records.append(_make_record(None, "retention", _name_model(curve), area.measure, area))
    header = ("model", "pairs", "solo", "n", "coop", "n", "AUC solo", "AUC coop", "gap")
    why = _list_reasons([(_name_model(curve), curve.retention) for curve in curves])
    rows = [write_retention(curve) for curve in curves]
    yield _make_table("retention", (*header, "retention", _INTERVAL), rows, why, records)


def _tabulate_buckets(curve: Curve, difficulty: Difficulty | None = None) -> Table:
    rows = [((x.name, str(x.pairs)), (x.solo, x.coop)) for x in curve.buckets]
    title = f"success by difficulty, {_name_model(curve)}"
    if difficulty:
        title += f"  (raw difficulty {difficulty.lowest:.2f} to {difficulty.highest:.2f}"
        title += f" of {difficulty.pairs} pairs)"
    return _make_shares(None, title, ("difficulty", "pairs", "solo", "coop"), rows)


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


def _write_share(share: Share) -> Line:
    """Return the count and the cells under ``_SHARE``."""
    if isinstance(share, Interval):
        return str(share.k), str(share.n), format_percent(share), format_limits(share)
    inputs = share.inputs
    k, effect, tasks = (inputs.get(name) for name in ("k", "design_effect", "clusters"))
    clustered = share.value is not None and tasks is not None
    return (
        UNDEFINED if k is None or (share.value is None and share.n) else str(k),
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


def _list_reasons(numbers: Sequence[tuple[str, Share]]) -> list[str]:
    """Return a line for each reason why numbers or intervals are missing, or rest on less."""
    reasons: dict[str, list[str]] = {}
    for name, number in numbers:
        inputs: Any = number.inputs if isinstance(number, Estimate) else {}
        if why := number.reason or _explain_resamples(inputs):
            reasons.setdefault(why, []).append(name)
    return [
        f"{UNDEFINED} {list_first(names, 3, '; ')}: {sanitize_line(reason)}"
        for reason, names in reasons.items()
    ]


def _explain_resamples(inputs: Any) -> str:
    if not (undefined := inputs.get("undefined_resamples")):
        return ""
    of = f"{undefined} of {inputs['resamples']}"
    return f"undefined in {of} resamples, which the interval leaves out"


_LEGEND = "coop, solo: runs that passed; messages: a run that has any, and these runs"

_Shares = Sequence[tuple[str, Estimate]]  # name -> share; "passed: spoke" is of a group


def make_brief(stats: Stats, tables: int) -> Table:
    """Return the first screen of the statistics, which have so many tables."""
    overall, *groups = stats.groups
    shares = _list_shares(overall)
    header, rows = _tabulate_groups([*groups, overall]) if groups else _tabulate_shares(shares)
    lines = [*_list_differences(overall), *_explain_gaps(shares)]
    return Table(
        title=f"{_write_title(stats)}\n\n{wrap_lines(_write_summary(overall))}",
        header=header if rows else (),
        rows=rows,
        last=bool(groups),
        bars=() if groups else [find_bar(share) for _, share in shares if share.n],
        lines=[_LEGEND, *lines] if groups else lines if rows else ["", *lines],
        notes=select_notes(rank_notes(stats.notes, corrected=False), tables=tables),
    )


def _write_title(stats: Stats) -> str:
    overall = stats.groups[0]
    of = ""
    if overall.tasks:
        of = f" of {format_count(overall.tasks, 'task')} ({sanitize_line('+'.join(stats.cluster))})"
    settings = ", ".join(f"{n} {sanitize_line(name, 40)}" for name, n in overall.settings)
    left = {"unreadable": stats.unreadable, "ignored (no trace)": stats.ignored}
    others = [f"{n} {why}" for why, n in left.items() if n]
    return "; ".join([f"{format_count(overall.traces, 'trace')}{of}: {settings}", *others])


def _write_summary(group: Group) -> str:
    """Return the main results in a few sentences."""
    talk, shares = group.communication, dict(_list_shares(group))
    sentences = []
    passed = [
        f"{_round(shares[f'passed, {name}'])} of {format_count(n, f'{name} run')}"
        for name in ("coop", "solo")
        if (n := shares[f"passed, {name}"].n)
    ]
    if passed:
        sentences.append(f"Passed: {', '.join(passed)}.")
    if n := shares["merge conflicts"].n:
        merges = format_count(n, "merge")
        text = f"Merge conflicts: {_round(shares['merge conflicts'])} of {merges}"
        passed_by = {
            merge.strategy: merge.passed.inputs["k"]
            for merge in group.merges
            if merge.merge == "conflicts" and merge.passed.value
        }
        sentences.append(f"{text}; {describe_fallbacks(passed_by)}." if passed_by else f"{text}.")
    if talk.runs:
        mean, steps = talk.measures[0].every, shares["messages per step"]
        text = f"Agents wrote messages in {format_count(talk.runs, 'run')}"
        text += f", {format_number(mean.value or 0, 1)} a run"
        text += describe_limits(mean, 1, unit=1)
        if steps.value is not None:
            text += f"; messages are {_round(steps)} of their steps"
        sentences.append(f"{text}.")
    return " ".join(sentences) or "No trace tells an outcome, a merge or a message."


def _round(share: Estimate) -> str:
    return f"{format_number(100 * (share.value or 0), 0)} %"


def _list_shares(group: Group) -> _Shares:
    success, talk = group.success[0], group.communication
    openings = {x.of: x.conflicts for x in talk.openings if x.of != NOTHING}
    return [
        ("passed, coop", success.coop),
        *((f"passed, coop: {x.of}", x.shares[channel.PASSED]) for x in group.talk_groups),
        ("passed, solo", success.solo),
        ("merge conflicts", openings.pop(ALL)),
        *((f"merge conflicts: {name}", share) for name, share in openings.items()),
        ("messages per step", talk.steps[0].share),
    ]


def _tabulate_shares(shares: _Shares) -> tuple[Line, list[Line]]:
    rows: list[Line] = [
        (_write_name(name), format_ratio(share), format_percent(share), format_limits(share))
        for name, share in shares
        if share.n
    ]
    return ("share", "count", "%", "95 % interval"), rows


def _write_name(name: str) -> str:
    measure, _, group = name.partition(": ")
    return f"  {group}" if group else measure


def _tabulate_groups(groups: Sequence[Group]) -> tuple[Line, list[Line]]:
    """Return a row for each value of the attribute, in 80 columns, and one for all traces."""
    columns: list[Line] = []  # each with its head
    for name in ("passed, coop", "passed, solo", "merge conflicts"):
        shares = [dict(_list_shares(group))[name] for group in groups]
        if any(share.n for share in shares):
            columns.append((name.split()[-1], *map(format_ratio, shares)))
            columns.append(("%", *map(format_percent, shares)))
    means = [group.communication.measures[0].every for group in groups]
    if any(mean.n for mean in means):
        cells = (
            f"{format_number(x.value, 1)} ({x.n})" if x.value is not None else UNDEFINED
            for x in means
        )
        columns.append(("messages", *cells))
    room = max(LEAST_NAME, WIDTH - sum(2 + max(map(len, column)) for column in columns))
    attribute = next(group.group[0] for group in groups if group.group)
    values = [group.group[1] if group.group else "all" for group in groups]
    names = cut_names([sanitize_line(name, 80) for name in (attribute, *values)], room)
    header, *rows = zip(names, *columns, strict=True)
    return header, rows


def _list_differences(group: Group) -> Iterator[str]:
    """Yield the differences that are defined, in percentage points."""
    gaps = [
        ("passed, solo minus coop", group.success[0].gap),
        ("merge conflicts, plan minus no plan", group.communication.difference),
        *((f"passed, {' minus '.join(x.groups)}", x.shares[channel.PASSED])
          for x in group.talk_differences[:1]),
    ]  # fmt: skip
    for name, gap in gaps:
        if gap.value is not None:
            yield f"{name}: {' '.join(format_points(gap))} points"


def _explain_gaps(shares: _Shares) -> list[str]:
    """Return the lines that name the shares of no run, and those without an interval, and why."""
    reasons: dict[str, list[str]] = {}
    empty = {name for name, share in shares if not share.n}
    for name, share in shares:
        measure = name.partition(": ")[0]
        if not share.n and (measure == name or measure not in empty):
            why = "no run to count" if share.reason == "no items" else share.reason
            reasons.setdefault(f"Not shown ({why})", []).append(name)
        elif share.n and share.low is None:
            reasons.setdefault(f"No interval ({share.reason})", []).append(name)
    texts = (wrap_line(f"{why}: {'; '.join(names)}.") for why, names in reasons.items())
    return [line for text in texts for line in text.splitlines()]
