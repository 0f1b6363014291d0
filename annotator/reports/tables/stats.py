"""The statistics as tables for every format; the same digits in each."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from annotator.reports.digits import UNDEFINED, Share, limits, percent, points
from annotator.reports.stats.communication import OPENINGS
from annotator.reports.stats.model import Communication, Curve, Difficulty, Group, Sizes, Stats
from annotator.reports.table import Line, Table, columns_of
from annotator.text import one_line
from validation import Estimate, Interval

_INTERVAL = "95 % interval"
_COLUMNS = columns_of(
    *("attribute", "value", "table", "row", "column", "number", "low", "high", "count", "n"),
    *("method", "confidence", "design_effect", "tasks", "reason"),
)


def tabulate(stats: Stats) -> list[Table]:
    """Return the statistics as tables: prose with all the numbers first and the notes last, between
    them the tables of the groups and then of the whole. The records are not in percent.
    """
    head = Table(
        title=_heading(stats),
        records=[_record(*number) for number in _numbers(stats)],
        columns=_COLUMNS,
        document=asdict(stats),
    )
    tables = [table for group in stats.groups for table in _tables_of(group)]
    tables += [_paired(stats), _conflicts(stats.difficulty), *_curves(stats)]
    return [head, *tables, Table(notes=stats.notes)]


def _record(
    group: tuple[str, str] | None, table: str, row: str, column: str, share: Share
) -> dict[str, Any]:
    attribute, value = group or (None, None)
    inputs = share.inputs if isinstance(share, Estimate) else {}
    known = share.value is not None
    return {
        **{"attribute": attribute, "value": value, "table": table, "row": row, "column": column},
        "number": share.value,
        "low": share.low if known else None,
        "high": share.high if known else None,
        "count": share.k if isinstance(share, Interval) else inputs.get("k"),
        "n": share.n,
        "method": share.method,
        "confidence": share.confidence,
        "design_effect": inputs.get("design_effect"),
        "tasks": inputs.get("clusters"),
        "reason": share.reason,
    }


def _table(title: str, header: Line, rows: Sequence[Line], lines: Sequence[str] = ()) -> Table:
    return Table(title=title, header=header, rows=rows, lines=lines, name=f"stats-{title}")


def _heading(stats: Stats) -> str:
    whole = stats.groups[0]
    settings = ", ".join(f"{_name(name)} {n}" for name, n in whole.settings)
    tasks = "tasks unknown"
    if whole.tasks is not None:
        tasks = f"{whole.tasks} tasks ({_name('+'.join(stats.cluster))})"
    left = f"unreadable {stats.unreadable}  not traces {stats.ignored}"
    return f"{whole.traces} traces ({settings})  {tasks}  {left}"


def _tables_of(group: Group) -> Iterator[Table]:
    of = f"  {_name(group.group[0])} = {_name(group.group[1])}" if group.group else ""
    if group.communication.runs + group.communication.silent:
        yield _talk(group.communication, of)
        yield _steps(group.communication, of)
        yield _openings(group.communication, of)
    if group.merges:
        yield _merges(group, of)
    if group.merge_success:
        yield _merge_success(group, of)
    yield _success(group, of)
    yield _sizes(group.sizes, of)


def _talk(talk: Communication, of: str) -> Table:
    header = ("runs with messages", "all", "n", "conflict-free", "n", "conflict", "n")
    rows = []
    for one in talk.measures:
        sides = (one.every, one.clean, one.conflict)
        cells = [cell for side in sides for cell in (_number(side), str(side.n))]
        rows.append((one.name, *cells, _number(one.difference, "+"), _range(one.difference)))
    named = [
        (f"{one.name}, {name}", side)
        for one in talk.measures
        for name, side in zip(header[1::2], (one.every, one.clean, one.conflict), strict=True)
        if side.value is None
    ]
    named += [(f"{one.name}, difference", one.difference) for one in talk.measures]
    title = f"communication{of}"
    return _table(title, (*header, "difference", _INTERVAL), rows, _why(named))


def _steps(talk: Communication, of: str) -> Table:
    rows = []
    for one in talk.steps:
        name = "all messages" if one.of == "all" else one.of
        rows.append((name, *_share(one.share)[:4], str(one.share.inputs["runs"])))
    header = ("main type of the message", "messages", "steps", "%", _INTERVAL, "runs")
    named = [("share of steps", one.share) for one in talk.steps[:1]]
    return _table(f"messages as a share of steps{of}", header, rows, _why(named))


def _openings(talk: Communication, of: str) -> Table:
    header = ("runs", "conflicts", *_SHARE)
    rows = [(one.of, *_share(one.conflicts)) for one in talk.openings]
    below = _gap_line("difference, plan minus no plan", talk.difference)
    return _table(f"merge conflicts by the first message{of}", header, rows, below)


# Of the ways in which a run may open, those that a table has room for.
_OPENINGS = ("all", "first message is a plan", "first message is no plan")
_SHARE = ("n", "%", _INTERVAL, "tasks", "design effect")


def _merges(group: Group, of: str) -> Table:
    header = ("setting, merge, strategy", "runs", *_SHARE[:3], "passed", *_SHARE[:3])
    rows = []
    for one in group.merges:
        name = ", ".join(map(_name, (one.setting, one.merge, one.strategy)))
        rows.append((name, *_share(one.share)[:4], *_share(one.passed)[:4]))
    return _table(f"merges{of}", header, rows)


def _merge_success(group: Group, of: str) -> Table:
    header = ("merged runs that passed", "passed", *_SHARE)
    rows, named = [], []
    below: list[str] = []
    for one in group.merge_success:
        setting = _name(one.setting)
        steps = (("naive", one.naive), ("then union", one.union), ("in the end", one.final))
        for step, share in steps:
            rows.append((f"{setting}, {step}", *_share(share)))
            named.append((f"{setting}, {step}", share))
        gains = (("naive, then union", one.union_gain), ("then in the end", one.final_gain))
        for step, gain in gains:
            below += _gap_line(f"gain of the same runs, {setting}, {step}", gain)
    return _table(f"merge success{of}", header, rows, (*below, *_why(named)))


def _success(group: Group, of: str) -> Table:
    rows: list[Line] = []
    named: list[tuple[str, Estimate]] = []
    below: list[str] = []
    for one in group.success:
        model = "all models" if one.model is None else _name(one.model)
        sides = ((f"{model}, solo", one.solo), (f"{model}, coop", one.coop))
        rows += [(name, *_share(share)) for name, share in sides]
        named += sides
        below += _gap_line(f"difference, {model}, solo minus coop", one.gap)
    header = ("runs", "passed", *_SHARE)
    return _table(f"success{of}", header, rows, (*below, *_why(named)))


def _sizes(sizes: Sizes, of: str) -> Table:
    header = ("number of agents", "passed", *_SHARE)
    rows = [(str(size), *_share(share)) for size, share in sizes.shares]
    below = _gap_line("difference, fewest of several minus most", sizes.difference)
    return _table(f"success by number of agents{of}", header, rows, below)


def _paired(stats: Stats) -> Table:
    rows = []
    for one in stats.paired:
        shares = percent(one.talked), percent(one.silent), str(one.difference.n)
        rows.append((one.of, *shares, *points(one.difference)))
    header = ("coop runs", "with messages %", "without %", "pairs", "difference", _INTERVAL)
    named = [(one.of, one.difference) for one in stats.paired]
    return _table("the same pairs with and without messages", header, rows, _why(named))


def _conflicts(found: Difficulty) -> Table:
    sides = [cell for name in _OPENINGS for cell in (name, "n", "%", _INTERVAL)]
    rows = []
    for one in found.conflicts:
        shares = dict(zip(OPENINGS.values(), one.conflicts, strict=True))
        cells = [cell for name in _OPENINGS for cell in _plain(shares[name])]
        rows.append((f"{one.low:.1f}-{one.high:.1f}", str(one.pairs), *cells))
    why = found.no_conflicts or "no coop run of a task with a difficulty tells its merge"
    below = () if rows else (f"{UNDEFINED} conflicts: {why}",)
    header = ("difficulty", "pairs", *sides)
    return _table("merge conflicts by difficulty", header, rows, below)


def _plain(share: Interval) -> Line:
    return str(share.k), str(share.n), percent(share), limits(share)


def _curves(stats: Stats) -> Iterator[Table]:
    found = stats.difficulty
    header = ("difficulty", "pairs", "solo", "n", "%", _INTERVAL, "coop", "n", "%", _INTERVAL)
    if found.pooled.buckets:
        buckets = [
            (f"{one.low:.1f}-{one.high:.1f}", str(one.pairs), *_plain(one.solo), *_plain(one.coop))
            for one in found.pooled.buckets
        ]
        span = f"raw difficulty {found.lowest:.2f} to {found.highest:.2f} of {found.pairs} pairs"
        yield _table(f"success by difficulty, pooled  ({span})", header, buckets)
    curves = found.by_model if len(found.by_model) > 1 else ()
    columns = ("model", "pairs", "solo", "n", "coop", "n", "AUC solo", "AUC coop", "gap")
    named = [(_model(curve), curve.retention) for curve in (*curves, found.pooled)]
    rows = [retention_cells(curve) for curve in (*curves, found.pooled)]
    yield _table("retention", (*columns, "retention", _INTERVAL), rows, _why(named))


def retention_cells(one: Curve) -> Line:
    """Return the row of a curve in the table of retention."""
    counts = (one.solo.k, one.solo.n, one.coop.k, one.coop.n)
    areas = (_number(area, digits=3) for area in (one.auc_solo, one.auc_coop, one.gap))
    kept = _number(one.retention), _range(one.retention, "")
    return _model(one), str(one.pairs), *map(str, counts), *areas, *kept


def _model(curve: Curve) -> str:
    return "pooled" if curve.model is None else _name(curve.model)


def _name(text: str) -> str:
    """Return a stranger's name as it can be shown in a cell."""
    return one_line(text, 80)


def _share(one: Estimate) -> Line:
    """Return the cells under "count" and ``_SHARE``."""
    inputs = one.inputs
    effect, tasks = inputs.get("design_effect"), inputs.get("clusters")
    known = one.value is not None and tasks is not None
    return (
        UNDEFINED if one.value is None and one.n else str(inputs["k"]),
        str(one.n),
        percent(one),
        limits(one),
        str(tasks) if known else UNDEFINED,
        f"{effect:.2f}" if known and effect is not None else UNDEFINED,
    )


def _gap_line(name: str, gap: Estimate) -> Line:
    """Return a difference of shares as a line, in percentage points."""
    if gap.value is None or gap.low is None or gap.high is None:
        return (f"{name}: {UNDEFINED} ({gap.reason})",)
    value = f"{100 * gap.value:+.1f} [{100 * gap.low:+.1f}, {100 * gap.high:+.1f}] points"
    return (f"{name}: {value}, n {gap.n}",)


def _number(one: Estimate, sign: str = "", digits: int = 2) -> str:
    return UNDEFINED if one.value is None else f"{one.value:{sign}.{digits}f}"


def _range(one: Estimate, sign: str = "+") -> str:
    if one.value is None or one.low is None or one.high is None:
        return UNDEFINED
    return f"[{one.low:{sign}.2f}, {one.high:{sign}.2f}]"


def _why(named: list[tuple[str, Estimate]]) -> Line:
    """Return a line for each reason why numbers or intervals are missing, or rest on less."""
    reasons: dict[str, list[str]] = {}
    for name, one in named:
        if one.reason or one.inputs.get("undefined_resamples"):
            reasons.setdefault(one.reason or _left_out(one), []).append(name)
    return tuple(
        f"{UNDEFINED} {_some(names)}: {one_line(reason)}" for reason, names in reasons.items()
    )


def _left_out(one: Estimate) -> str:
    undefined, drawn = one.inputs["undefined_resamples"], one.inputs["resamples"]
    return f"undefined in {undefined} of {drawn} resamples, which the interval leaves out"


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return "; ".join(names[:3]) + more


Number = tuple[tuple[str, str] | None, str, str, str, Share]


def _numbers(stats: Stats) -> Iterator[Number]:
    """Yield every number with its group, table, row and column."""
    for group in stats.groups:
        for table, row, column, one in _numbers_of(group):
            yield group.group, table, row, column, one
    for pair in stats.paired:
        yield None, "paired", pair.of, "with messages", pair.talked
        yield None, "paired", pair.of, "without", pair.silent
        yield None, "paired", pair.of, "difference", pair.difference
    for tenth in stats.difficulty.conflicts:
        row = f"{tenth.low:.1f}-{tenth.high:.1f}"
        for name, conflicts in zip(OPENINGS.values(), tenth.conflicts, strict=True):
            yield None, "conflicts by difficulty", row, name, conflicts
    for curve in (*stats.difficulty.by_model, stats.difficulty.pooled):
        model = curve.model if curve.model is not None else "pooled"
        for bucket in curve.buckets:
            row = f"{model}, {bucket.low:.1f}-{bucket.high:.1f}"
            yield None, "curve", row, "solo", bucket.solo
            yield None, "curve", row, "coop", bucket.coop
        for area in (curve.auc_solo, curve.auc_coop, curve.gap, curve.retention):
            yield None, "retention", model, area.measure, area


def _numbers_of(group: Group) -> Iterator[tuple[str, str, str, Estimate]]:
    talk = group.communication
    for one in talk.measures:
        sides = {"all": one.every, "conflict-free": one.clean, "conflict": one.conflict}
        for column, share in (*sides.items(), ("difference", one.difference)):
            yield "communication", one.name, column, share
    for part in talk.steps:
        yield "steps", part.of, "share", part.share
    for opening in talk.openings:
        yield "conflicts", opening.of, "share", opening.conflicts
    yield "conflicts", "plan minus no plan", "difference", talk.difference
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
