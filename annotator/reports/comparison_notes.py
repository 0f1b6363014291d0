"""The notes below a comparison: its test, its intervals, its labels, and what is left out."""

from collections.abc import Iterator, Sequence

from annotator.base.text import Note, list_first
from annotator.calibration.estimates import FEW_LABELS, list_cautions
from annotator.calibration.model import OPEN
from annotator.reports.corrected import CorrectedSide
from annotator.reports.sides import Kind, ReadSides, Sides, Terms, is_clustered
from annotator.reports.tables.brief import MARKS
from validation import LEAST_CLUSTERS, TOO_RARE, SideTotals, Test

_UNEQUAL = 5  # times as many traces in the largest condition as in the smallest
UNADJUSTED = Note(
    "Intervals are not adjusted for the number of tests; p (Holm) is. So an interval may leave out"
    " 0 where p shows no difference.",
    "unadjusted",
)
_OVER_TASKS = {
    "paired": "Paired by trace; the test swaps the sides of whole tasks",
    "same tasks": "The same tasks on both sides, but no partner for each trace; the test swaps the"
    " sides of whole tasks",
    "independent": "Independent groups; the test deals whole tasks to the sides anew",
}
_INDEPENDENT = {
    "paired": "Paired by trace: Newcombe's interval for pairs, exact McNemar test",
    "independent": "Independent groups: Newcombe's interval, Fisher's exact test",
}
_DEALT = {
    "paired": "deals the conditions of each task anew",
    "same tasks": "deals the conditions of each task anew",
    "independent": "deals whole tasks to the conditions anew",
}


def describe_own_test(
    kind: Kind,
    values: Sequence[str],
    sides: Sides,
    totals: Sequence[SideTotals],
    terms: Terms,
    *,
    two: bool,
    calibrated: bool,
) -> Iterator[Note]:
    """Yield how the judge's own shares are compared, if others are the corrected ones."""
    describe = _describe_difference_test if two else _describe_test
    for note in describe(kind, values, sides, totals, terms):
        yield Note(f"The judge's own shares: {note}", note.id) if calibrated else note


def _describe_difference_test(
    kind: Kind, values: Sequence[str], sides: Sides, totals: Sequence[SideTotals], terms: Terms
) -> Iterator[Note]:
    """Yield how two sides are compared."""
    if not is_clustered(sides):
        why = _explain_independence(terms)
        text = f"{_INDEPENDENT[kind]} ({why}: traces are treated as independent)."
        yield Note(text, "independent")
        return
    first, second = (side.clusters for side in totals)
    yield Note(
        f"{_OVER_TASKS[kind]} (at most 10,000 times). The intervals allow for traces that share"
        f" one of {first} and {second} tasks ({'+'.join(terms.cluster_by)}; a trace without a"
        " task counts as one).",
        "tasks",
    )
    if min(first, second) < LEAST_CLUSTERS:
        yield Note(
            f"Fewer than {LEAST_CLUSTERS} tasks on a side: no interval and no p"
            " (--cluster none treats traces as independent).",
            "few-tasks",
        )


def _explain_independence(terms: Terms) -> str:
    return "no trace tells its task" if terms.cluster_by else "--cluster none"


def _describe_test(
    kind: Kind, values: Sequence[str], sides: Sides, totals: Sequence[SideTotals], terms: Terms
) -> Iterator[Note]:
    """Yield how more conditions are compared, and which of them are too small."""
    few = [
        f"{value} has {side.clusters}"
        for value, side in zip(values, totals, strict=True)
        if side.clusters < LEAST_CLUSTERS
    ]
    sizes = sorted(map(len, sides))
    test = "p: a permutation test of equal shares in all conditions (chi-squared, Rao and Scott)"
    clustered = is_clustered(sides)
    if few:
        unit = "tasks" if clustered else "traces"
        advice = [f"leave {'it' if len(few) == 1 else 'them'} out (--without)"]
        advice = advice if len(sides) - len(few) > 1 else []
        advice += ["treat traces as independent (--cluster none)"] if clustered else []
        text = f"No p: each condition needs {LEAST_CLUSTERS} {unit}, and {list_first(few, 3)}."
        if advice:
            text += f" You can {', or '.join(advice)}."
        yield Note(text, "few-tasks")
    elif sizes[-1] >= _UNEQUAL * sizes[0]:
        yield Note(
            f"The p of a code in few traces may be too small: the conditions differ much in size"
            f" ({sizes[0]} to {sizes[-1]} traces).",
            "sizes",
        )
    if not clustered:
        by = "within pairs" if kind == "paired" else "among the conditions"
        how = "" if few else f"{test}. It deals traces anew {by}. "
        yield Note(f"{how}Intervals: Wilson ({_explain_independence(terms)}).", "independent")
        return
    how = (
        "The intervals"
        if few
        else f"{test}. It {_DEALT[kind]} (10,000 times). It and the intervals"
    )
    yield Note(
        f"{how} allow for traces that share one of {len(totals[0].n)} tasks"
        f" ({'+'.join(terms.cluster_by)}; a trace without a task counts as one).",
        "tasks",
    )


def describe_rare(tests: Sequence[tuple[str, Test]]) -> Iterator[Note]:
    """Yield the note about codes in too few traces to be tested."""
    if codes := dict.fromkeys(code for code, test in tests if test.reason == TOO_RARE):
        yield Note(
            f"No p for {', '.join(codes)}: too few traces have the code, or lack it, where a task"
            " has more traces on one side than on another.",
            "rare",
        )


def describe_traces(
    values: Sequence[str], alone: Sequence[int], left_out: Sequence[str], *, calibrated: bool
) -> Iterator[Note]:
    """Yield which traces and which codes the judge's own shares leave out."""
    if any(alone):
        sizes = " and ".join(f"{n} of {value}" for value, n in zip(values, alone, strict=True) if n)
        yield Note(
            f"Pairs only: judged traces without a judged partner are in no share: {sizes}.",
            "alone",
        )
    if left_out:
        by = " by the judge alone" if calibrated else ""
        yield Note(
            f"Not compared{by}, because a judge cannot find them, or only reports what it"
            f" recognises: {', '.join(left_out)}.",
            "no-rule",
        )


def describe_correction(
    read: ReadSides,
    corrected: Sequence[CorrectedSide],
    counted: Sides,
    left: Sequence[str],
    *,
    two: bool,
    same: bool,
) -> Iterator[str]:
    """Yield how the shares are corrected, or that they are not."""
    if not corrected:
        what = "Differences of the judge's own shares" if two else "Shares of the judge alone"
        yield Note(f"{what}: its errors are not corrected.", "judge-only")
        if same:
            yield "The same traces have the same true shares: corrected ones are not compared."
        return
    labels = " and ".join(str(len(side.people)) for side in corrected)
    text = (
        "Corrected: each condition by the labels of its own traces, and p is the smallest of the"
        " differences of every two conditions (Student's t)."
    )
    if two:
        text = f"Corrected: each side by its own labels ({labels})."
    if left:
        text += (
            f" Corrected shares leave out {' and '.join(left)} traces: in a condition none has a"
            " label."
        )
    for status, answer in OPEN.items():
        sizes = [sum(trace.open == answer for trace in side) for side in counted]
        if any(sizes):
            listed = [f"{value} {n}" for value, n in zip(read.values, sizes, strict=True) if n]
            text += f" They count {status} traces, too: {', '.join(listed)}."
    yield Note(text, "corrected")
    yield from _list_side_cautions(read.values, corrected)
    yield from read.terms.warnings


def _list_side_cautions(
    values: Sequence[str], corrected: Sequence[CorrectedSide]
) -> Iterator[Note]:
    """Yield cautions about the labels and the marks of each condition."""
    sides = list(zip(values, corrected, strict=True))
    if any(len(side.people) < FEW_LABELS for side in corrected):
        sizes = ", ".join(f"{value} {len(side.people)}" for value, side in sides)
        text = f"Labels: {sizes}. With fewer than {FEW_LABELS} the shares are hardly known."
        yield Note(text, "few-labels")
    reasons: dict[str, list[str]] = {}
    for value, side in sides:
        if side.few:
            reasons.setdefault(side.few, []).append(f"{value} ({len(side.people)})")
    for why, names in reasons.items():
        yield Note(f"Not corrected, {why}: {list_first(names, 12)}.", "too-few-labels")
    sides = [(value, side) for value, side in sides if not side.few]
    for mark, meaning in MARKS.items():
        marked = [
            f"{value}: {', '.join(codes)}"
            for value, side in sides
            if (codes := [code for code in side.shares if side.marks[code] == mark])
        ]
        if marked:
            yield Note(f"{mark} ({meaning}): {'; '.join(marked)}.", f"mark-{mark}")
    for value, side in sides:
        for caution in list_cautions(side.people, side.shares):
            if (id_ := getattr(caution, "id", "")) != "few-labels":
                yield Note(f"{value}: {caution}", id_)
