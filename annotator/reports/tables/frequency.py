"""Frequency tables as tables for every format; the same digits in each."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from annotator.base.text import Note, format_count, sanitize_line
from annotator.reports.counts import list_reasons
from annotator.reports.digits import (
    UNDEFINED,
    describe_effective,
    format_bounds,
    format_limits,
    format_number,
    format_percent,
)
from annotator.reports.frequency import FrequencyTable, Row
from annotator.reports.table import Line, Sort, Table, flatten, name_judge, name_rubric
from annotator.reports.tables.brief import explain_labels, find_share, make_brief
from annotator.reports.votes import Votes
from annotator.rubrics import read_definitions
from annotator.rubrics.annotations import DECISIONS, Decision
from annotator.runs.failures import ADVICE
from validation import Interval

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_NAMES_ONLY = (
    "Meanings are the codes' names: annotate has no definitions of this version of the rubric."
)

# The keys of the records: the columns of CSV and Parquet.
SCHEMA: dict[str, type] = {
    **{"rubric": str, "version": int, "rubric_sha256": str, "choice": str, "judge": str},
    **{"judge_sha256": str, "run": str, "run_status": str, "limit": int, "attribute": str},
    **{"attribute_value": str, "kind": str, "code": str, "name": str, "count": int, "n": int},
    **{"value": float, "low": float, "high": float, "confidence": float, "method": str},
    **{"reason": str, "percent": str, "interval_percent": str, "bounds_low": float},
    **{"bounds_high": float, "bounds_percent": str, "primary_or_secondary": int},
    **{"labelled": int, "none": int, "undecided": int, "skipped": int, "failed": int},
    **{"flips": int, "flips_n": int, "corrected_n": int},
    **{"corrected_value": float, "corrected_low": float},
    **{"corrected_high": float, "corrected_confidence": float, "corrected_method": str},
    **{"corrected_reason": str, "corrected_percent": str, "corrected_interval_percent": str},
    **{"labels_flagged": int, "labels_missed": int, "mark": str, "labels": int},
    **{"transferred": bool, "notes": str, "of_labelled": bool, "design_effect": float},
    **{"clusters": int, "clusters_with": int, "annotators": str, "label_files": str},
    **{"labels_sha256": str, "split": str, "design": str},
}


def tabulate(
    counted: Sequence[FrequencyTable], sort: Sort | None = None, *, meanings: bool = False
) -> list[Table]:
    """Return frequency tables as tables, each with a record for each code and group of codes.

    ``sort``: the order of the rubric, or by ``share``, as the brief form is by default;
    ``meanings`` adds a column with the first sentence of each code's definition.
    """
    tables = []
    for table in counted:
        by_share = sort_by_share(table)
        made = _make_table(by_share if sort == "share" else table, meanings)
        brief = make_brief(table if sort == "rubric" else by_share, made)
        tables.append(made if meanings else replace(made, brief=brief))
    return tables


def sort_by_share(table: FrequencyTable) -> FrequencyTable:
    """Return the table with the largest share first; none stays last of its rows."""
    *codes, none = table.rows
    rows = (*sorted(codes, key=_find_size, reverse=True), none)
    groups = tuple(sorted(table.code_groups, key=_find_size, reverse=True))
    return replace(table, rows=rows, code_groups=groups)


def _find_size(row: Row) -> tuple[float, int]:
    """Return what a row is sorted by: its share, corrected if it can be, and then its count."""
    value = find_share(row)
    if value is None and row.bounds and not row.labels:
        value = row.bounds[0]
    return -1.0 if value is None else value, -1 if row.count is None else row.count


def _make_table(table: FrequencyTable, meanings: bool) -> Table:
    document = _make_document(table)
    names, rows = list_headings(table), [write_cells(row, table) for row in table.all_rows]
    intervals = ", with 95 % intervals" if any(row.share for row in table.all_rows) else ""
    notes = table.notes
    if table.correction:
        marks = explain_labels(row.labels.mark for row in table.all_rows if row.labels)
        notes = (*notes, Note(marks, "marks"))
    if meanings:
        definitions = read_definitions(table.rubric, table.rubric_sha256)
        names = (names[0], "meaning", *names[1:])
        rows = [
            (first, _explain_code(row, definitions), *rest)
            for row, (first, *rest) in zip(table.all_rows, rows, strict=True)
        ]
        if not definitions:
            notes = (*notes, _NAMES_ONLY)
    return Table(
        title=write_heading(table),
        header=names,
        rows=rows,
        notes=notes,
        lines=[*(describe_votes(table.votes) if table.votes else ()), *describe_critiques(table)],
        last=True,
        below=len(table.code_groups),
        texts=2 if meanings else 1,
        instead=() if table.judged else ["", *explain_unjudged(table)],
        caption=f"{write_heading(table)}. Counted: {table.counted}{intervals}.",
        name="-".join((table.rubric, *(table.group or ()), table.run_name)),
        records=list(_make_records(table, document)),
        schema=SCHEMA,
        columns=list(SCHEMA),
        document=document,
    )


def _explain_code(row: Row, definitions: Mapping[str, str]) -> str:
    """Return the first sentence of a code's definition, else the row's name."""
    text = definitions.get(row.code, row.name) if row.kind == "code" else row.name
    return sanitize_line(_SENTENCE_END.split(text, 1)[0], 400)


def write_heading(table: FrequencyTable) -> str:
    """Return the line over a table: rubric, group, judge, run and numbers of traces."""
    parts = [name_rubric(table.rubric, table.version, table.rubric_sha256)]
    if table.group:
        parts.append(f"{sanitize_line(table.group[0], 60)} = {sanitize_line(table.group[1], 120)}")
    run = [f"run {sanitize_line(table.run_name, 120)}"] if table.run_name else []
    if people := table.people:
        names = sanitize_line(", ".join(people.annotators), 120)
        files = ", ".join(sanitize_line(file, 120) for file in people.files)
        parts += [f"labels of {names}, not a judge's", files, *run]
        parts += [] if people.split == "all" else [f"{people.split} split"]
        parts.append(f"n {table.judged} (with a code {table.labelled}, none {table.none})")
    else:
        parts.append(f"judge {name_judge(table.judge or '', table.judge_sha256 or '')}")
        parts += [*(["a screen"] if table.screen else []), *run]
        parts.append(f"judged {table.judged} (labelled {table.labelled}, none {table.none})")
        parts += [f"undecided {table.undecided}"] if table.undecided else []
        parts += [f"skipped {table.skipped}", f"failed {table.failed}"]
    return "  ".join(parts)


def list_headings(table: FrequencyTable) -> Line:
    """Return the names of the columns of a table."""
    names: Line = ("code", "count", "n", "%", "95 % interval")
    names += ("bounds %",) if table.bounded else ()
    names += ("primary or secondary",) if table.choice == "primary" else ()
    if not table.correction:
        return names
    level = f"{100 * table.correction.confidence:g} % interval"
    return (*names, "corrected %", level, "labels", "mark")


def write_cells(row: Row, table: FrequencyTable) -> Line:
    """Return one row's cells as text, in the order of :func:`list_headings`."""
    line = [sanitize_line(row.code, 64) + (" (group)" if row.kind == "group" else "")]
    line += [UNDEFINED if row.count is None else str(row.count), str(table.n)]
    line += [format_percent(row.share), format_limits(row.share)]
    if table.bounded:
        line.append(format_bounds(row.bounds) if row.bounds else UNDEFINED)
    if table.choice == "primary":
        line.append(UNDEFINED if row.anywhere is None else str(row.anywhere))
    if labels := row.labels:
        line += [format_percent(labels.corrected), format_limits(labels.corrected)]
        line += [f"{labels.flagged}+{labels.missed}", labels.mark]
    elif table.correction:
        line += [UNDEFINED] * 4
    return tuple(line)


_ADVICE: Mapping[str, str] = {
    **{str(kind): advice for kind, advice in ADVICE.items()},
    "tie": "The votes disagree. Take more --samples, or another `require`.",
    "part": "Too little of them was read. Give a larger --context, or a smaller --least-read.",
    "lost": "Too few votes count. annotate view RUN shows them.",
    "open": "The judge left them open. Ask a model (--model), or label some: annotate sample.",
    "skipped": "The rubric is not for them. If only their outcome excludes them: --all.",
    "authors": "Name the authors of messages: --map, --agent-name. See annotate traces --explain.",
}


def explain_unjudged(table: FrequencyTable) -> Iterator[str]:
    """Yield why no trace could be judged: each reason with an example, and the remedy."""
    if not table.counts.unjudged:
        yield "No table: no trace was judged yet."
        return
    yield "No table: no trace could be judged. The reasons:"
    reasons = sorted(
        table.counts.unjudged.items(), key=lambda item: (item[0] == "skipped", -item[1].count)
    )
    for kind, reason in reasons:
        yield ""
        yield f"{kind}: {format_count(reason.count, 'trace')} {reason.status}"
        if len(reason.reasons) > 1:
            yield f"  {list_reasons(reason.reasons)}"
        yield f"  for example {sanitize_line(reason.trace_id, 200)}: {reason.why}"
        yield f"  {_ADVICE[kind]}"
    if table.status and table.status != "finished":
        yield ""
        yield f"The run is not finished (status: {sanitize_line(table.status, 60)})."
    if table.votes:
        yield ""


def describe_votes(votes: Votes) -> list[str]:
    """Return how far the votes agree, a line each."""
    missing = same = ""
    if votes.incomplete:
        missing = f", votes missing in {format_count(votes.incomplete, 'trace')}"
        same = " (where no vote is missing)"
    lines = [
        f"votes unanimous  {_write_share(votes.unanimous)}{missing}",
        describe_effective(votes.effective, "correlation"),
    ]
    for pair in votes.pairs:
        kappa = pair.kappa
        value = UNDEFINED if kappa.value is None else format_number(kappa.value, 2)
        if kappa.value is not None and kappa.low is not None and kappa.high is not None:
            value += f" [{format_number(max(kappa.low, -1.0), 2)}, {format_number(kappa.high, 2)}]"
        reason = f" ({kappa.reason})" if kappa.reason else ""
        lines.append(f"kappa  {sanitize_line(pair.name, 120)}  {value}{reason}  n {kappa.n}")
    lines.append(
        f"flips: traces where some votes have the code and some have not, of those with any{same}"
    )
    lines += [
        f"  {sanitize_line(code, 64)}  {_write_share(flip)}"
        for code, flip in votes.flips.items()
        if flip.value is not None
    ]
    never = [sanitize_line(code, 64) for code, flip in votes.flips.items() if flip.value is None]
    return lines + ([f"  in no vote{same}: {', '.join(never)}"] if never else [])


def describe_critiques(table: FrequencyTable) -> list[str]:
    """Return a critic's decisions: a line for all findings, and one for each code."""
    counts = table.counts.critiques
    codes = [row.code for row in table.rows if row.code in counts]

    def describe(decisions: Counter[Decision]) -> str:
        rest = (f", {decisions[x]} {x}" for x in DECISIONS[1:] if decisions[x])
        findings = format_count(decisions.total(), "finding")
        return f"{decisions['upheld']} of {findings} upheld{''.join(rest)}"

    lines = [f"  {sanitize_line(code, 64)}  {describe(counts[code])}" for code in codes]
    return [f"critic: {describe(sum(counts.values(), start=Counter()))}", *lines] if codes else []


def _write_share(share: Interval) -> str:
    return f"{share.k}/{share.n}  {format_percent(share)} %  {format_limits(share)}"


_ABOUT = ("rubric", "version", "rubric_sha256", "choice", "judge", "judge_sha256", "run")
_PEOPLE = ("annotators", "label_files", "labels_sha256", "split", "design")
_COUNTS = ("labelled", "none", "undecided", "skipped", "failed")
_NO_SHARE = dict.fromkeys(field.name for field in fields(Interval))


def _pick(value: object, *names: str) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}


def _make_document(table: FrequencyTable) -> dict[str, Any]:
    people, correction, counts = table.people, table.correction, table.counts
    names = ("annotators", "files", "sha256", "n", "split", "design", "clusters")
    failed = {kind: x.count for kind, x in counts.unjudged.items() if x.status == "failed"}
    return {
        **_pick(table, *_ABOUT),
        "run_status": table.status,
        **_pick(table, "limit", "judged", *_COUNTS, "screen"),
        "rejected_findings": counts.rejected,
        "traces_with_rejected_findings": counts.rejected_traces,
        "none_after_rejection": counts.emptied,
        **_pick(counts, "outcome_unknown", "truncated", "of_labelled"),
        "least_read": counts.least_read if counts.least_read < 1 else None,
        "undecided_because": dict(counts.reasons),
        "failed_because": failed,
        "votes": _record_votes(table.votes),
        **({"critic": counts.critiques} if counts.critiques else {}),
        "counted": table.counted,
        "group": dict(zip(("attribute", "value"), table.group, strict=True))
        if table.group
        else None,
        **({"people": _pick(people, *names)} if people else {}),
        "labels": correction and correction.labels,
        "transferred": correction and correction.transferred,
        "rows": [describe_row(row, table) for row in table.rows],
        "code_groups": [describe_row(row, table) for row in table.code_groups],
        "notes": list(table.notes),
    }


def _make_records(table: FrequencyTable, document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    attribute, value = table.group or (None, None)
    common = {name: document[name] for name in document if name in SCHEMA}
    common |= {"attribute": attribute, "attribute_value": value, "notes": "\n".join(table.notes)}
    common["n"] = table.n
    if people := table.people:
        names, files = ", ".join(people.annotators), ", ".join(people.files)
        cells = (names, files, people.sha256, people.split, people.design)
        common |= zip(_PEOPLE, cells, strict=True)
    described = (*document["rows"], *document["code_groups"])
    for row, description in zip(table.all_rows, described, strict=True):
        voted = table.votes.flips.get(row.code) if table.votes and row.kind == "code" else None
        yield {
            **common,
            **flatten(description),
            **{"kind": row.kind, "count": row.count},
            "bounds_percent": format_bounds(row.bounds) if row.bounds else None,
            "flips": voted.k if voted else None,
            "flips_n": voted.n if voted else None,
        }


def describe_row(row: Row, table: FrequencyTable) -> dict[str, object]:
    """Return a row as JSON has it: counts, shares with their intervals, and bounds."""
    share = row.share.as_dict() if row.share else {**_NO_SHARE, "reason": row.unknown}
    description = {
        **{"code": row.code, "name": row.name, **share, "k": row.count, "n": table.n},
        "percent": format_percent(row.share),
        "interval_percent": format_limits(row.share),
        "bounds": dict(zip(("low", "high"), row.bounds, strict=True)) if row.bounds else None,
        "bounds_percent": format_bounds(row.bounds) if row.bounds else UNDEFINED,
        "primary_or_secondary": row.anywhere,
    }
    labels = row.labels
    return (
        description
        if not labels
        else {
            **description,
            "corrected": labels.corrected.as_dict(),
            "corrected_percent": format_percent(labels.corrected),
            "corrected_interval_percent": format_limits(labels.corrected),
            "precision": labels.precision.as_dict(),
            "recall": labels.recall.as_dict(),
            **{
                "labels_flagged": labels.flagged,
                "labels_missed": labels.missed,
                "mark": labels.mark,
            },
        }
    )


def _record_votes(votes: Votes | None) -> dict[str, object] | None:
    if votes is None:
        return None
    return {
        "unanimous": votes.unanimous.as_dict(),
        **_pick(votes, "incomplete", "ties", "failed"),
        "effective": votes.effective.as_dict(),
        "pairs": [_pick(pair, "first", "second") | pair.kappa.as_dict() for pair in votes.pairs],
        "flips": {code: flip.as_dict() for code, flip in votes.flips.items()},
    }
