"""A triage as a table and as a ticket, with changes since an earlier run, and with quotes."""

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

from annotator.base.text import (
    Note,
    format_count,
    list_first,
    measure,
    sanitize_line,
    wrap_line,
    wrap_lines,
)
from annotator.reports.digits import (
    UNDEFINED,
    find_bar,
    find_limits,
    format_number,
    format_p,
    format_percent,
    format_points,
)
from annotator.reports.formats.markdown import escape, quote_code
from annotator.reports.notes import rank_notes, select_notes
from annotator.reports.table import Table
from annotator.reports.tables import frequency
from annotator.reports.tables.brief import (
    WIDTH,
    find_share,
    get_share,
    write_name,
    write_rows,
    write_summary,
    write_title,
)
from annotator.reports.triage import CodeChange, Triage, TriagedCode

_QUOTES = 3
_NOTES = 2  # of a ticket
_NAMED = 4  # codes in a sentence
_ABOUT = (
    *("rubric", "version", "rubric_sha256", "judge", "judge_sha256"),
    *("judged", "undecided", "failed"),
)


def tabulate(result: Triage) -> Table:
    """Return a row for each code that was found; changes and quotes are in lines below."""
    counted, rows = result.counted, [code.row for code in result.found_codes]
    columns = {}
    if result.comparison:
        columns["change"] = [x.change.kind if x.change else UNDEFINED for x in result.found_codes]
    header, cells = write_rows(rows, counted, columns)
    notes = rank_notes(_list_notes(result), corrected=bool(counted.correction))
    table = Table(
        title=f"{write_title(counted)}\n\n{wrap_lines(write_advice(result))}",
        header=header,
        rows=cells,
        notes=notes,
        lines=_write_lines(result, rationales=True),
        instead=["", *(notes if counted.judged else frequency.explain_unjudged(counted))]
        if not rows
        else (),
        name=f"{counted.rubric}-triage",
        bars=[find_bar(get_share(row)) for row in rows],
        document=_make_document(result),
    )
    lines = _write_lines(result, rationales=False)
    return replace(table, brief=replace(table, notes=select_notes(notes), lines=lines))


def _write_lines(result: Triage, *, rationales: bool) -> list[str]:
    changes = [wrap_line(line, "    ") for line in _list_changes(result)]
    codes = result.found_codes[: result.top]
    quotes = [line for code in codes for line in _show_quotes(code, rationales)]
    return [line for block in (changes, quotes) if block for line in ("", *block)][1:]


def _describe_attribution(code: TriagedCode) -> str:
    """Return the agent and the step that most findings name; "" if two are named as often."""
    findings = sum(each.counted for each in code.findings)
    parts = []
    for name in ("agent", "step"):
        first, second = (*code.count(name).most_common(2), ("", 0), ("", 0))[:2]
        if first[1] > second[1]:
            parts.append(f"{name} {sanitize_line(first[0], 60)} in {first[1]}/{findings}")
    return f"  most often {', '.join(parts)}" if parts else ""


def write_advice(result: Triage) -> str:
    """Return which code to fix first, in a sentence or two."""
    counted, codes = result.counted, result.found_codes
    if not counted.judged:
        return write_summary(counted)
    if not codes:
        return f"No code was found in {format_count(counted.judged, 'judged trace')}."
    first = codes[0].row
    value, share = find_share(first), get_share(first)
    if not value:
        names = [f"{write_name(code.row)} in {code.row.count}" for code in codes if code.row.count]
        total = format_count(counted.n + counted.undecided + counted.failed, "trace")
        return (
            f"Found in {total}: {list_first(names, _NAMED)}. The order is by count, because no code"
            " has a share above 0."
        )
    ends = find_limits(share)
    size = f"{first.count} of {format_count(counted.n, 'judged trace')}"
    if counted.correction:
        labels = format_count(counted.correction.labels, "label")
        size = f"{format_percent(share)} % of traces, corrected by {labels}"
    limit = f" (at least {format_number(100 * ends[0], 1)} % by the interval)" if ends else ""
    near = [
        write_name(x.row)
        for x in codes[1:]
        if (find_limits(get_share(x.row)) or (0, 0))[1] >= value
    ]
    perhaps = f" Perhaps as common, by the intervals: {list_first(near, _NAMED)}." if near else ""
    return f"Fix {write_name(first)} first: {size}{limit}.{perhaps}"


def _list_changes(result: Triage) -> list[str]:
    """Return what changed since the earlier run, a line each; [] without one."""
    if not (compared := result.comparison):
        return []
    comparable = [row.code for row in compared.rows]
    lines = [f"  {_describe_change(x.row.code, x.change)}" for x in result.codes if x.change]
    if comparable and not lines:
        lines.append("  No code is new or gone, and none is shown to have risen or fallen.")
    if unknown := [code.row.code for code in result.found_codes if code.row.code not in comparable]:
        lines.append(f"  Not known, as a judge cannot rule them out: {', '.join(unknown)}.")
    if len(compared.judges) > 1:
        lines.append("  The runs have different judges: a change may be the judge's.")
    tests = f" (Holm over {format_count(compared.tests, 'test')})" if compared.tests else ""
    since = sanitize_line(result.since, 1000)
    return [f"Since {since}, by the judge's own shares{tests}:", *lines]


def _describe_change(code: str, change: CodeChange) -> str:
    now, before = change.now, change.before
    text = f"{code} {change.kind}: {before.k}/{before.n} before, {now.k}/{now.n} now"
    absent = {"new": before, "gone": now}.get(change.kind)
    if ends := find_limits(absent):
        when = "before" if absent is before else "now"
        text += f"; at most {format_number(100 * ends[1], 1)} % {when}"
    if change.p is not None:
        text += f"; {' '.join(format_points(change.difference))} points, p {format_p(change.p)}"
    return text


def _show_quotes(code: TriagedCode, rationales: bool) -> Iterator[str]:
    yield f"{write_name(code.row)}{_describe_attribution(code)}"
    for trace, source, quote, rationale in _list_quotes(code):
        text = f'"{sanitize_line(quote, WIDTH - 8 - measure(source))}"  {source}'
        gap = "  " if measure(trace + text) <= WIDTH - 4 else "\n    "
        yield from f"  {trace}{gap}{text}".split("\n")
        if rationales and rationale:
            yield f"    {sanitize_line(rationale, WIDTH - 4)}"


def _list_quotes(code: TriagedCode) -> Iterator[tuple[str, str, str, str]]:
    """Yield the trace, the source, the first quote and the first line of the rationale."""
    for each in code.findings[:_QUOTES]:
        item, rationale = each.finding.evidence[0], each.finding.rationale.strip()
        trace, source = sanitize_line(each.trace_id, 1000), sanitize_line(item.source, 30)
        yield trace, source, item.quote, rationale.partition("\n")[0]


def _list_notes(result: Triage) -> Iterator[str]:
    codes, counted = result.found_codes, result.counted
    compared = result.comparison.notes if result.comparison else ()
    yield from counted.notes
    for note in compared:
        yield Note(f"The comparison: {note}", getattr(note, "id", ""))
    unranked = [code.row.code for code in codes if find_share(code.row) is None]
    if unranked and len(unranked) < len(codes):
        yield Note(f"Without a share, and so last, by count: {', '.join(unranked)}.", "last")


def _make_document(result: Triage) -> dict[str, Any]:
    return {
        "run": result.run,
        **{name: getattr(result.counted, name) for name in _ABOUT},
        "summary": write_advice(result),
        "since": result.since or None,
        "codes": [_describe_code(code, result) for code in result.codes],
        "notes": list(_list_notes(result)),
    }


def _describe_code(code: TriagedCode, result: Triage) -> dict[str, Any]:
    return {
        **frequency.describe_row(code.row, result.counted),
        "agents": dict(code.count("agent").most_common()),
        "steps": dict(code.count("step").most_common()),
        "change": code.change and asdict(code.change),
        "findings": [asdict(each) for each in code.findings[:_QUOTES]],
    }


def write_ticket(result: Triage) -> str:
    """Return a ticket in Markdown. Texts of traces and judges are code in it."""
    table = tabulate(result)
    named = [write_name(x.row) for x in result.found_codes if x.row.count or find_share(x.row)]
    first = f"Fix {escape(named[0])} first" if named else "Nothing to fix"
    about = f"Run {quote_code(result.run)}, {escape(write_title(result.counted))}."
    changes = [f"- {quote_code(line)}" for line in _list_changes(result)]
    parts = [f"# {first}", f"{escape(write_advice(result))} {about}", "\n".join(changes)]
    for n, (code, (_, *cells)) in enumerate(zip(result.found_codes, table.rows, strict=True)):
        pairs = zip(table.header[1:], cells, strict=True)
        values = (f"{name}: {value}" for name, value in pairs if value != UNDEFINED)
        attribution = _describe_attribution(code).strip()
        cell = escape(", ".join(values)) + (f", {quote_code(attribution)}" if attribution else "")
        parts.append(f"- [ ] **{escape(write_name(code.row))}**: {cell}")
        for trace, source, quote, rationale in _list_quotes(code) if n < result.top else ():
            texts = [quote_code(quote), f"{quote_code(trace)}, {quote_code(source)}"]
            texts += [quote_code(rationale)] if rationale else []
            parts.append("\n  >\n".join(f"  > {text}" for text in texts))
    parts.append(escape(" ".join(table.sentences[:_NOTES])))
    return "\n\n".join(filter(None, parts))
