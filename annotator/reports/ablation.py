"""Arms beside each other, as a table: which rubric, model or setting agrees best with people."""

from collections.abc import Iterator
from dataclasses import asdict, replace

from annotator.base.text import cut_names, format_count, sanitize_line, wrap_lines
from annotator.calibration.ablation import Ablation, ArmResult
from annotator.reports.digits import UNDEFINED, format_number, format_p
from annotator.reports.notes import select_notes
from annotator.reports.table import Table
from annotator.reports.tables.brief import LEAST_NAME, WIDTH
from validation import LEAST_CLUSTERS, Estimate

_COLUMNS = (
    *("arm", "rubric", "rubric_version", "rubric_sha256", "judge", "judge_sha256", "n"),
    *("undecided", "failed", "agreement", "agreement_low", "agreement_high"),
    *("kappa", "kappa_low", "kappa_high", "difference", "difference_low", "difference_high"),
    *("p", "p_holm", "standard_error", "dollars_per_1000", "tokens_per_trace"),
    *("calls_per_trace", "winner"),
)
_COST = {"dollars": "$/1000", "tokens": "tokens"}


def tabulate(result: Ablation) -> Table:
    """Return the arms as a table with a sentence above, and all numbers as records."""
    header, rows = _make_rows(result, verbose=True)
    brief_header, brief_rows = _make_rows(result, verbose=False)
    notes = list(_list_notes(result))
    title = f"{sanitize_line(result.rubric)}: {format_count(len(result.arms), 'arm')}"
    table = Table(f"{title}\n\n{wrap_lines(summarize(result))}", header, rows, notes)
    return replace(
        table,
        brief=replace(table, header=brief_header, rows=brief_rows, notes=select_notes(notes)),
        name=f"{result.rubric}-ablation",
        records=[_record(result, n) for n in range(len(result.arms))],
        columns=_COLUMNS,
        document=asdict(result),
    )


def summarize(result: Ablation) -> str:
    """Return which arm to use, in two or three sentences."""
    of = f"{format_count(result.n, 'label')}"
    of += f" of {format_count(result.tasks, 'task')}" if result.tasks else ""
    if result.winner is None or result.best is None:
        return f"No arm can be chosen on {of}: people gave all of them one label."
    winner, best = result.arms[result.winner], result.arms[result.best]
    text = f"Use {winner.name}: kappa {_write_kappa(winner.agreement.kappa)} on {of}."
    if winner is not best:
        text += (
            f" {best.name} has {_write(best.agreement.kappa)}, at most one standard error more, at"
            f" {'the same' if _get_cost(best, result) == _get_cost(winner, result) else 'a higher'}"
            " cost."
        )
    if result.checked and result.gain and len(result.arms) > 1:
        kappa = _write_kappa(result.checked.kappa)
        text += f" Checked on tasks that did not choose: kappa {kappa}"
        if result.choices[0] < sum(result.choices):
            gain = _write(result.gain, "+"), _write_ends(result.gain)
            text += f", gain over the first arm {' '.join(gain)}"
        text += "."
    return text


def _make_rows(result: Ablation, *, verbose: bool) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the header and the rows; without ``verbose`` in 80 columns."""
    arms = result.arms
    columns = {
        "kappa": [_write(arm.agreement.kappa) for arm in arms],
        f"{100 * result.confidence:g} %": [_write_ends(arm.agreement.kappa) for arm in arms],
        "gap": [_write(arm.difference, "+") if arm.difference else "base" for arm in arms],
    }
    if verbose:
        columns["its ends"] = [_write_ends(arm.difference) for arm in arms]
    columns["p (Holm)"] = [format_p(arm.adjusted) for arm in arms]
    columns[_COST[result.unit]] = [_write_cost(arm, result.unit) for arm in arms]
    if verbose:
        columns["agree"] = [_write(arm.agreement.observed) for arm in arms]
        columns["undecided"] = [str(arm.undecided) for arm in arms]
        columns["failed"] = [str(arm.failed) for arm in arms]
    elif any(arm.undecided or arm.failed for arm in arms):
        columns["open"] = [str(arm.undecided + arm.failed) for arm in arms]
    names = [f"{'> ' if n == result.winner else '  '}{arm.name}" for n, arm in enumerate(arms)]
    if not verbose:
        used = sum(2 + max(map(len, (title, *cells))) for title, cells in columns.items())
        names = cut_names(names, max(LEAST_NAME, WIDTH - used))
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


def _record(result: Ablation, n: int) -> dict[str, object]:
    arm = result.arms[n]
    numbers = {
        "agreement": arm.agreement.observed,
        "kappa": arm.agreement.kappa,
        "difference": arm.difference,
    }
    ends = {
        f"{name}{end}": getattr(number, field) if number else None
        for name, number in numbers.items()
        for end, field in (("", "value"), ("_low", "low"), ("_high", "high"))
    }
    dollars = arm.cost.dollars
    return {
        "arm": arm.name,
        "rubric": result.rubric,
        **{name: getattr(arm, name) for name in ("rubric_version", "rubric_sha256")},
        **{name: getattr(arm, name) for name in ("judge", "judge_sha256", "undecided", "failed")},
        "n": result.n,
        **ends,
        "p": arm.p,
        "p_holm": arm.adjusted,
        "standard_error": arm.standard_error,
        "dollars_per_1000": None if dollars is None else 1000 * dollars,
        "tokens_per_trace": arm.cost.tokens,
        "calls_per_trace": arm.cost.calls,
        "winner": n == result.winner,
    }


def _write(number: Estimate | None, sign: str = "") -> str:
    if number is None or number.value is None:
        return UNDEFINED
    return format_number(number.value, 2, sign)


def _write_ends(number: Estimate | None) -> str:
    if number is None or number.low is None or number.high is None:
        return UNDEFINED
    return f"[{format_number(number.low, 2)}, {format_number(number.high, 2)}]"


def _write_kappa(number: Estimate) -> str:
    ends = "(no interval)" if number.low is None else _write_ends(number)
    return f"{_write(number)} {ends}"


def _get_cost(arm: ArmResult, result: Ablation) -> float | None:
    return arm.cost.dollars if result.unit == "dollars" else arm.cost.tokens


def _write_cost(arm: ArmResult, unit: str) -> str:
    if unit == "tokens":
        return f"{arm.cost.tokens:,.0f}"
    return UNDEFINED if arm.cost.dollars is None else format_number(1000 * arm.cost.dollars, 2)
