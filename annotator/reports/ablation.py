"""Arms beside each other, as a table: which rubric, model or setting agrees best with people."""

from collections.abc import Iterator
from dataclasses import asdict, replace

from annotator.base.text import format_count, sanitize_line, wrap_lines
from annotator.calibration.ablation import Ablation
from annotator.reports.digits import format_ends, format_number, format_p, format_value
from annotator.reports.notes import select_notes
from annotator.reports.table import Table
from annotator.reports.tables.brief import fit_rows
from validation import LEAST_CLUSTERS, Estimate


def tabulate(result: Ablation) -> Table:
    """Return the arms as a table with a sentence above."""
    header, rows = _make_rows(result, verbose=True)
    brief_header, brief_rows = _make_rows(result, verbose=False)
    notes = list(_list_notes(result))
    title = f"{sanitize_line(result.rubric)}: {format_count(len(result.arms), 'arm')}"
    table = Table(f"{title}\n\n{wrap_lines(summarize(result))}", header, rows, notes)
    return replace(
        table,
        brief=replace(table, header=brief_header, rows=brief_rows, notes=select_notes(notes)),
        document=asdict(result),
    )


def summarize(result: Ablation) -> str:
    """Return which arm to use, in two or three sentences."""
    of = format_count(result.n, "label")
    of += f" of {format_count(result.tasks, 'task')}" if result.tasks else ""
    if result.winner is None or result.best is None:
        return f"No arm can be chosen on {of}: people gave all of them one label."
    winner, best = result.arms[result.winner], result.arms[result.best]
    text = f"Use {winner.name}: kappa {_write_kappa(winner.agreement.kappa)} on {of}."
    if winner is not best:
        costs = [getattr(arm.cost, result.unit) for arm in (winner, best)]
        text += (
            f" {best.name} has {format_value(best.agreement.kappa)}, at most one standard error"
            f" more, at {'the same' if costs[0] == costs[1] else 'a higher'} cost."
        )
    if result.checked and result.gain and len(result.arms) > 1:
        text += f" Checked on tasks that did not choose: kappa {_write_kappa(result.checked.kappa)}"
        if result.choices[0] < sum(result.choices):
            gain = f"{format_value(result.gain, '+')} {format_ends(result.gain)}"
            text += f", gain over the first arm {gain}"
        text += "."
    return text


def _make_rows(result: Ablation, *, verbose: bool) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the header and the rows; without ``verbose`` in 80 columns."""
    arms = result.arms
    columns = {
        "kappa": [format_value(arm.agreement.kappa) for arm in arms],
        f"{100 * result.confidence:g} %": [format_ends(arm.agreement.kappa) for arm in arms],
        "gap": [format_value(arm.difference, "+") if arm.difference else "base" for arm in arms],
    }
    if verbose:
        columns["its ends"] = [format_ends(arm.difference) for arm in arms]
    columns["p (Holm)"] = [format_p(arm.adjusted) for arm in arms]
    if result.unit == "tokens":
        columns["tokens"] = [f"{arm.cost.tokens:,.0f}" for arm in arms]
    else:
        columns["$/1000"] = [format_number(1000 * (arm.cost.dollars or 0.0), 2) for arm in arms]
    if verbose:
        columns["agree"] = [format_value(arm.agreement.observed) for arm in arms]
        columns["undecided"] = [str(arm.undecided) for arm in arms]
        columns["failed"] = [str(arm.failed) for arm in arms]
    elif any(arm.undecided or arm.failed for arm in arms):
        columns["open"] = [str(arm.undecided + arm.failed) for arm in arms]
    names = [f"{'> ' if n == result.winner else '  '}{arm.name}" for n, arm in enumerate(arms)]
    if not verbose:
        return fit_rows(names, columns, "arm")
    return ("arm", *columns), list(zip(names, *columns.values(), strict=True))


def _list_notes(result: Ablation) -> Iterator[str]:
    if result.split == "all":
        yield (
            "The labels have no test split, so the winner's own kappa is too high: it was chosen by"
            " it. Publish the agreement with labels that no arm was judged on."
        )
    else:
        yield (
            "Only labels of the development split were used. annotate calibrate --final opens the"
            " test split, once."
        )
    if result.left_out:
        yield (
            f"{format_count(result.left_out, 'labelled trace')} left out: not in the traces, or not"
            " judged by every arm because its rubric is not for it."
        )
    yield (
        "An undecided or failed trace counts as a disagreement. > is the cheapest arm whose kappa"
        " is at most one standard error below the best; of equally cheap ones the first."
    )
    if result.winner is not None and not result.checked:
        yield (
            "The choice is not checked on other tasks: that takes two tasks at least, and different"
            " labels in what is left without one of five parts."
        )
    if result.tasks == 1:
        yield "All labels are of one task: no interval, and the best arm wins."
    if any(arm.p is None for arm in result.arms[1:]):
        yield f"No p: a test takes labels of {LEAST_CLUSTERS} tasks."
    if any(not arm.cost.n for arm in result.arms):
        yield "Costs are forecasts: most answers of some arm were known from before."
    if result.unit == "tokens":
        yield "The price of a model is not known: arms are cheaper by tokens a trace."
    if result.tasks is None:
        yield "No trace names a task: intervals and tests take traces as independent."


def _write_kappa(number: Estimate) -> str:
    ends = "(no interval)" if number.low is None else format_ends(number)
    return f"{format_value(number)} {ends}"
