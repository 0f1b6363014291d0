"""An induction on one screen: the codes, and how many failed and passed runs have each."""

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

from annotator.base.text import cut_middle, format_count, sanitize_line, wrap_line, wrap_lines
from annotator.induction.codebook import InducedCode
from annotator.induction.passed import FEWEST_PASSED, CodeShares
from annotator.induction.result import Induction
from annotator.reports.digits import (
    UNDEFINED,
    describe_limits,
    find_bar,
    format_limits,
    format_percent,
)
from annotator.reports.notes import select_notes
from annotator.reports.table import Table

_EXAMPLES = 3


def tabulate_induction(induction: Induction) -> Table:
    """Return the codes as a table of 80 columns, with two notes in its brief form."""
    rows = [*_list_rows(induction)]
    record = induction.record
    cost = record.usage.cost_usd
    spent = "cost unknown" if cost is None else f"${cost:.2f}"
    has_passed = any(each.passed.n for _, _, each in rows)
    header = ("code", "runs", "share", "95 % interval", *(("passed",) if has_passed else ()))
    table = Table(
        title=wrap_lines(" ".join(_summarize(induction))),
        header=header if rows else (),
        rows=[(label, *_write_shares(each, has_passed=has_passed)) for label, _, each in rows],
        bars=[find_bar(each.failed) for _, _, each in rows],
        notes=[*_list_notes(induction)],
        lines=[*_show_examples(induction), f"{record.usage.calls:,} calls, {spent}."],
        records=[record for _, record, _ in rows],
    )
    return replace(table, brief=replace(table, notes=select_notes(table.notes)))


def _list_rows(induction: Induction) -> Iterator[tuple[str, dict[str, Any], CodeShares]]:
    """Yield the label, the record and the shares of each group, of its codes below it, and then of
    the codes without a group.
    """
    left = list(induction.shares)
    for group in induction.group_shares:
        yield _label(group.code, group.code.name, 42), _describe_shares(group), group
        for each in induction.shares:
            if each.code.group == group.code.name:
                yield f"  {_label(each.code, each.code.id, 40)}", _describe_code(each), each
                left.remove(each)
    for each in left:
        yield _label(each.code, each.code.id), _describe_code(each), each


def _label(code: InducedCode, name: str, width: int = 30) -> str:
    return cut_middle(sanitize_line(name, 60), width) + (" *" if code.in_passed else "")


def describe_induction(induction: Induction) -> dict[str, Any]:
    """Return the induction as JSON values."""
    record = asdict(induction.record)
    return {
        **record,
        "findings": len(induction.findings),
        "uncoded": len(induction.book.uncoded),
        "unseen": induction.unseen.as_dict(),
        "codes": [_describe_code(each) for each in induction.shares],
        "groups": [_describe_shares(each) for each in induction.group_shares],
    }


def _describe_code(shares: CodeShares) -> dict[str, Any]:
    code = shares.code
    return _describe_shares(shares) | {
        "group": code.group or None,
        "definition": code.definition,
        "also_in_passed": code.in_passed,
        "accepted": code.accepted,
    }


def _describe_shares(shares: CodeShares) -> dict[str, Any]:
    """Return the shares of a code or of a group."""
    difference = shares.difference
    return {
        "code": shares.code.id,
        "name": shares.code.name,
        "findings": len(shares.code.findings),
        "failed": shares.failed.as_dict(),
        "passed": shares.passed.as_dict(),
        "difference": difference.as_dict() if difference else None,
    }


def _write_shares(shares: CodeShares, *, has_passed: bool) -> tuple[str, ...]:
    failed, passed = shares.failed, shares.passed
    return (
        f"{failed.k}/{failed.n}",
        format_percent(failed),
        format_limits(failed),
        *((f"{passed.k}/{passed.n}" if passed.n else UNDEFINED,) if has_passed else ()),
    )


def _summarize(induction: Induction) -> Iterator[str]:
    record, codes = induction.record, induction.codes
    outcomes = [traces.get("passed") for traces in induction.book.traces.values()]
    names = ((False, "failed"), (True, "passed"), (None, "of unknown outcome"))
    counts = ", ".join(f"{n} {name}" for value, name in names if (n := outcomes.count(value)))
    findings = format_count(len(induction.findings), "finding")
    yield f"{format_count(record.read, 'trace')}{counts and f' ({counts})'}: {findings}"
    if not codes:
        yield "and no code."
        return
    groups = induction.group_shares
    in_groups = f" of {len(groups)} groups" if groups else ""
    if induction.decisions:
        number = format_count(len(induction.decisions), "decision")
        yield f"in {format_count(len(codes), 'code')}{in_groups}, after {number} by people."
    else:
        last = record.batches[-1]
        new = format_count(last.codes, "new code") if last.codes else "no new one"
        yield f"in {format_count(len(codes), 'code')}{in_groups};"
        yield f"the last batch of {last.traces} brought {new}."
    first = (groups or induction.shares)[0]
    if first.failed.k and first.failed.value is not None:
        yield (
            f"Most common: {sanitize_line(first.code.id, 80)}, {format_percent(first.failed)} % of"
            f" {'failed runs' if False in outcomes else 'runs'}{describe_limits(first.failed)}."
        )


def _list_notes(induction: Induction) -> Iterator[str]:
    record, book, shares = induction.record, induction.book, induction.shares
    passed = sum(traces.get("passed") is True for traces in book.traces.values())
    if marked := [x.code for x in (*shares, *induction.group_shares) if x.code.in_passed]:
        yield (
            f"* also in passed runs, not clearly less often: {_name(marked)}. Such a code is left"
            " out of rubric.yaml unless a person accepts it (annotate view); its group counts it"
            " here."
        )
    elif shares and passed < FEWEST_PASSED:
        runs = format_count(passed, "passed run")
        yield (
            f"False alarms are not known: {runs} read, and at least {FEWEST_PASSED} are needed to"
            " tell whether passed runs have a code as often."
        )
    elif undecided := [
        each.code
        for each in shares
        if each.passed.k and each.difference and each.difference.low is None
    ]:
        yield (
            f"Not decided whether passed runs have it as often, there are too few tasks:"
            f" {_name(undecided)}."
        )
    if record.unjudged:
        counts = ", ".join(f"{n} {status}" for status, n in record.unjudged.items())
        again = " --resume reads failed ones again." if "failed" in record.unjudged else ""
        yield f"Without a judgement, and in no share: {counts}.{again}"
    unseen = induction.unseen
    if unseen.value is not None:
        yield (
            f"The chance that the next finding has none of these codes is"
            f" {format_percent(unseen)} %{describe_limits(unseen)}, by {unseen.n} findings,"
            f" {len(book.uncoded)} of them without a code. That is too low: the codes were written"
            " to fit these findings."
        )
    if not record.saturated and record.batches and record.batches[-1].codes:
        yield (
            "The sample ended before a batch without a new code: --resume with a larger --sample"
            " may find more."
        )
    unknown = sum(traces.get("passed") is None for traces in book.traces.values())
    if unknown:
        runs = format_count(unknown, "run")
        yield f"{runs} with an unknown outcome are counted with the failed ones."
    if record.dropped:
        names = ", ".join(record.dropped)
        yield f"Left out, with a reason in induction.json: {names}."
    population = sum(record.population.values())
    if left := population - record.read - sum(record.unjudged.values()):
        yield f"{left} of {population} traces were not read."


def _name(codes: list[InducedCode]) -> str:
    return ", ".join(sanitize_line(code.id, 80) for code in codes)


def _show_examples(induction: Induction) -> Iterator[str]:
    """Yield a finding of each of the most frequent codes, with its quote."""
    for code in induction.codes[:_EXAMPLES]:
        finding = induction.book.by_id[code.findings[0]] if code.findings else None
        if finding:
            yield wrap_line(
                sanitize_line(f"{code.id}: {finding.trace_id}: {finding.rationale}", 400)
            )
            quote = finding.evidence[0]
            yield f'  {sanitize_line(quote.source)}: "{sanitize_line(quote.quote, 160)}"'
            yield ""
