"""A tuning on one screen: whether it helped, and each change that was tried."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from annotator.base.text import cut_middle, format_count, sanitize_line, wrap_lines
from annotator.calibration.tuning import Gain, TriedChange, Tuning
from annotator.reports.calibration import write_estimate
from annotator.reports.digits import UNDEFINED, format_number, format_value
from annotator.reports.table import Table
from annotator.reports.tables.brief import WIDTH
from validation import Estimate

_NOTES = 2  # of a brief table


def tabulate_tuning(tuning: Tuning) -> Table:
    """Return the tuning as a table of 80 columns, with two notes in its brief form."""
    tried = tuning.product.candidates
    header = ("clause", "change", "n", "gain", "error", "kept")
    rows = [_write_row(change) for change in tried]
    used = sum(
        2 + max(map(len, cells)) for n, cells in enumerate(zip(header, *rows, strict=True)) if n - 1
    )
    rows = [(row[0], sanitize_line(row[1], max(WIDTH - used, 16)), *row[2:]) for row in rows]
    rubric = f"{sanitize_line(tuning.rubric.id)} v{tuning.rubric.version}"
    cost = "cost unknown" if tuning.cost_usd is None else f"${tuning.cost_usd:.2f}"
    table = Table(
        title=f"{rubric}\n\n{wrap_lines(' '.join(_summarize(tuning)))}",
        header=header if rows else (),
        rows=rows,
        notes=[*_list_notes(tuning)],
        lines=[f"{tuning.calls:,} calls, {cost}."],
        texts=2,
    )
    brief = replace(table, notes=table.notes[:_NOTES])
    return replace(table, lines=[*table.lines, "", *_describe_turns(tuning)], brief=brief)


def _write_row(tried: TriedChange) -> tuple[str, ...]:
    error = tried.gain.kappa.inputs["standard_error"]
    return (
        cut_middle(sanitize_line(tried.change.clause, 90), 24),
        tried.summary,
        str(len(tried.trace_ids)),
        format_value(tried.gain.kappa, "+"),
        UNDEFINED if error is None else format_number(error, 2),
        "yes" if tried.kept else "no",
    )


def _summarize(tuning: Tuning) -> Iterator[str]:
    gain, tried = tuning.gain, tuning.product.candidates
    kept = sum(change.kept for change in tried)
    more = f"gain {_write_gain(gain.kappa)} on {gain.n} labels of"
    more += f" {format_count(gain.tasks, 'task')}"
    if not kept:
        yield f"No candidate helps: {more}; keep the rubric."
    else:
        yield f"{'Tuned' if gain.is_sure else 'Not proven'}: {_write_kappas(gain)}, {more}, each"
        yield f"held out once; {kept} of {format_count(len(tried), 'candidate')} kept."
        if not gain.is_sure:
            yield "Keep the present rubric, or label more traces."
    if final := tuning.final:
        number = f" (look {tuning.look})" if tuning.look else ""
        yield (
            f"On the test split{number}: {_write_kappas(final)}, gain {_write_gain(final.kappa)} on"
            f" {final.n} labels of {format_count(final.tasks, 'task')}."
        )


def _write_kappas(gain: Gain) -> str:
    return f"kappa {format_value(gain.first.kappa)} → {format_value(gain.second.kappa)}"


def _write_gain(estimate: Estimate) -> str:
    """Return a gain with its interval, which it lacks if no answer changed."""
    return write_estimate(estimate) if estimate.value else format_value(estimate)


def _list_notes(tuning: Tuning) -> Iterator[str]:
    product, gain = tuning.product, tuning.gain
    if tuning.failures:
        requests = format_count(len(tuning.failures), "request")
        yield (
            f"{requests} for changes without a usable answer count as no change:"
            f" {sanitize_line(tuning.failures[0], 200)}"
        )
    if tuning.judged_open:
        judgements = format_count(tuning.judged_open, "judgement")
        yield f"{judgements} undecided or failed: they count as disagreements."
    yield (
        f"Table: {product.proposing} labels suggested the changes, the other {product.checking}"
        " checked them. n: differences that a change should settle. gain: rise of kappa where it"
        " was checked; error: its standard error over tasks. A change is kept if its gain is"
        " above one error and at least two more answers are right."
    )
    yield (
        f"Gain above: the rubric was tuned {len(tuning.folds)} more times, each time without one"
        f" fold of tasks and then compared there. In agreement the gain is"
        f" {_write_gain(gain.agreement)}."
    )


def _describe_turns(tuning: Tuning) -> Iterator[str]:
    """Yield on which clauses the differences of judge and people turn."""
    counts = Counter(turn.clause for turn in tuning.product.turns)
    if counts:
        clauses = ", ".join(f"{sanitize_line(name, 40)} {n}" for name, n in counts.most_common())
        yield f"The differences turn on: {clauses}."
    for tried in tuning.product.candidates:
        quotes = "".join(f' "{sanitize_line(quote)}"' for quote in tried.change.quotes)
        text = sanitize_line(tried.change.text, 1000)
        yield f"{tried.change.clause}: {text}{quotes}"
