"""The first screen of ``annotate stats``: a sentence, the main shares, two notes."""

from collections.abc import Iterator, Sequence

from annotator.base.text import cut_names, format_count, sanitize_line, wrap_line, wrap_lines
from annotator.cooperbench.stats import channel
from annotator.cooperbench.stats.communication import ALL
from annotator.cooperbench.stats.model import Group, Stats
from annotator.reports.digits import (
    UNDEFINED,
    describe_limits,
    find_bar,
    format_limits,
    format_number,
    format_percent,
    format_points,
    format_ratio,
)
from annotator.reports.notes import describe_fallbacks, rank_notes, select_notes
from annotator.reports.table import Line, Table
from annotator.reports.tables.brief import LEAST_NAME, WIDTH
from annotator.traces.model import NOTHING
from validation import Estimate

_COLUMNS = "coop, solo: runs that passed; messages: a run that has any, and these runs"

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
        lines=[_COLUMNS, *lines] if groups else lines if rows else ["", *lines],
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
        columns.append(("messages", *map(_write_mean, means)))
    room = max(LEAST_NAME, WIDTH - sum(2 + max(map(len, column)) for column in columns))
    attribute = next(group.group[0] for group in groups if group.group)
    values = [group.group[1] if group.group else "all" for group in groups]
    names = cut_names([sanitize_line(name, 80) for name in (attribute, *values)], room)
    header, *rows = zip(names, *columns, strict=True)
    return header, rows


def _write_mean(mean: Estimate) -> str:
    return UNDEFINED if mean.value is None else f"{format_number(mean.value, 1)} ({mean.n})"


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
