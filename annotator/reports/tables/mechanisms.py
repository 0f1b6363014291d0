"""The groups of a code's findings as a table, with quotes of each below it."""

from collections.abc import Iterator
from dataclasses import asdict, replace

from annotator.base.text import Note, cut_names, format_count, sanitize_line, wrap_line
from annotator.reports.digits import (
    describe_limits,
    find_bar,
    format_limits,
    format_number,
    format_percent,
)
from annotator.reports.mechanisms import Mechanism, Mechanisms
from annotator.reports.notes import select_notes
from annotator.reports.table import Record, Table, describe_share
from annotator.reports.tables.brief import WIDTH

_QUOTES = 3
_LONGEST_NAME = 46  # in the table; a model's sentence is below it
_COLUMNS = (
    *("run", "rubric", "code", "group", "name", "sentence", "named_by", "findings", "count", "n"),
    *("value", "low", "high", "confidence", "method", "design_effect", "tasks", "reason"),
    *("quotes", "trace_ids"),
)


def tabulate(result: Mechanisms) -> Table:
    """Return a row and a record for each group; its first findings are in lines below."""
    names = cut_names([sanitize_line(group.name, 200) for group in result.groups], _LONGEST_NAME)
    title, summary = _write_title(result), _write_summary(result)
    notes = list(_list_notes(result))
    full = Table(
        title=f"{title}: {summary.removesuffix('.')}",
        header=("way it happens", "traces", "%", "95 % interval"),
        rows=[
            (
                f"{n} {name}",
                f"{group.share.k}/{group.share.n}",
                format_percent(group.share),
                format_limits(group.share),
            )
            for n, (name, group) in enumerate(zip(names, result.groups, strict=True), 1)
        ],
        bars=[find_bar(group.share) for group in result.groups],
        lines=[line for n, group in enumerate(result.groups, 1) for line in _show_group(n, group)],
        notes=notes,
        name=f"{result.rubric}-{result.code}-mechanisms",
        records=[_make_record(result, n, group) for n, group in enumerate(result.groups, 1)],
        columns=_COLUMNS,
        document=asdict(result),
    )
    title = f"{title}\n\n{wrap_line(summary, '')}"
    return replace(full, brief=replace(full, title=title, notes=select_notes(notes)))


def _write_title(result: Mechanisms) -> str:
    code, name = sanitize_line(result.code, 64), sanitize_line(result.code_name, 64)
    tells = name and name.lower().replace(" ", "_") != code.lower()
    about = f"{code} ({name})" if tells else code
    return f"{about}, {sanitize_line(result.rubric)}, run {sanitize_line(result.run, 1000)}"


def _write_summary(result: Mechanisms) -> str:
    top = result.groups[0].share
    tasks = f" of {format_count(result.tasks, 'task')}" if result.tasks else ""
    text = (
        f"{format_count(result.n, 'trace')}{tasks} with {format_count(result.findings, 'finding')}"
    )
    text += f", primary or secondary, in {len(result.groups)} groups. The largest has"
    return f"{text} {top.k}/{top.n} traces, {format_percent(top)} %{describe_limits(top)}."


def _show_group(number: int, group: Mechanism) -> Iterator[str]:
    yield wrap_line(f"{number} {sanitize_line(group.name, 200)}", "  ")
    if text := group.sentence or group.findings[0].rationale:
        yield wrap_line(f"  {sanitize_line(text, 300)}", "  ")
    for finding in group.findings[:_QUOTES]:
        trace = sanitize_line(finding.trace_id, 1000)
        source = sanitize_line(finding.evidence[0].source, 30)
        yield f"    {trace}  {source}"
        yield f'      "{sanitize_line(finding.evidence[0].quote, WIDTH - 8)}"'


def _list_notes(result: Mechanisms) -> Iterator[str]:
    yield from (Note(text, "part") for text in result.notes)
    yield Note(
        "A program found these groups, and nobody has checked them: they are no codes. To make"
        " codes of them: annotate induce, then annotate label.",
        "groups",
    )
    stability, silhouette = (format_number(x, 2) for x in (result.stability, result.silhouette))
    yield Note(
        "Groups are of findings with similar words in their rationales. Without a tenth of the"
        f" findings they agree with these by {stability} (adjusted Rand; 1: the same, 0: chance).",
        "stability",
    )
    yield Note(f"Silhouette {silhouette} (1: groups lie far apart, 0: they overlap).", "silhouette")
    if result.named_by:
        yield Note(f"Names and sentences: {sanitize_line(result.named_by, 60)}.", "names")
    else:
        yield Note("A group's name is its most central quote; --model NAME asks a model.", "names")
    if result.tasks is None:
        yield Note("Intervals treat traces as independent: no trace names a task.", "independent")
    else:
        yield Note(
            f"95 % intervals allow for traces that share one of {result.tasks} tasks. They do not"
            " include errors of the judge or of the grouping.",
            "tasks",
        )


def _make_record(result: Mechanisms, number: int, group: Mechanism) -> Record:
    about = {name: getattr(result, name) for name in ("run", "rubric", "code", "named_by")}
    first = [(x.trace_id, x.evidence[0]) for x in group.findings[:_QUOTES]]
    return {
        **about,
        "group": number,
        "name": group.name,
        "sentence": group.sentence,
        "findings": len(group.findings),
        **describe_share(group.share),
        "quotes": [f"{trace_id} {item.source}: {item.quote}" for trace_id, item in first],
        "trace_ids": list(dict.fromkeys(finding.trace_id for finding in group.findings)),
    }
