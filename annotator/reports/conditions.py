"""Several conditions side by side: each code's share in each, and a test of all together."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations

import numpy as np

from annotator.base.text import Note, list_first
from annotator.calibration.estimates import FEW_LABELS, list_cautions
from annotator.calibration.model import OPEN
from annotator.reports.corrected import CorrectedSide, choose_answers, correct_sides
from annotator.reports.sides import (
    JUDGE,
    RUN,
    JudgedTrace,
    Kind,
    ReadSides,
    Terms,
    count_groups,
    find_kind,
)
from annotator.reports.tables.brief import MARKS
from annotator.rubrics import NONE, Scheme, name_group
from annotator.runs.run import Run
from validation import (
    LEAST_CLUSTERS,
    TOO_RARE,
    Estimate,
    Interval,
    SideTotals,
    Test,
    adjust_p_values,
    compute_wilson_interval,
    estimate_clustered_difference,
    estimate_share_of_totals,
    permute_clusters,
)

_UNEQUAL = 5  # times as many traces in the largest condition as in the smallest
UNADJUSTED = Note(
    "Intervals are not adjusted for the number of tests; p (Holm) is. So an interval may leave out"
    " 0 where p shows no difference.",
    "unadjusted",
)
NOT_COMPARABLE = "a judge cannot find it, or is a screen"
SAME_TRACES = "The same traces have the same true shares: corrected ones are not compared."


@dataclass(frozen=True, slots=True)
class ConditionRow:
    """One code: its share in each condition, a test that all are equal, and the test's p by Holm
    over the codes. ``corrected``: the shares corrected for the judge's errors, with a calibration.
    """

    code: str
    shares: tuple[Interval, ...]
    test: Test
    adjusted: float | None
    corrected: tuple[Estimate, ...] = ()


@dataclass(frozen=True, slots=True)
class PairDifference:
    """The difference of a code's shares in two conditions, first minus second, with a test and its
    p by Holm over all codes and pairs.
    """

    code: str
    first: str
    second: str
    difference: Estimate
    test: Test
    adjusted: float | None


@dataclass(frozen=True, slots=True)
class ConditionComparison:
    """The traces with each of ``values`` of an attribute, by one rubric in ``runs`` (ids), judged
    by ``judges`` (id and hash of each).

    Attributes:
        kind: ``paired`` by trace, ``same tasks``, or ``independent``.
        n: the judged traces with each value.
        tests: the number of tests that Holm counts.
        code_groups: the rows of groups of codes, a family of tests of their own for Holm.
        pairs: every code in every two conditions, if they are compared.
    """

    rubric: Scheme
    judges: tuple[tuple[str, str], ...]
    attribute: str
    values: tuple[str, ...]
    kind: Kind
    n: tuple[int, ...]
    confidence: float
    rows: tuple[ConditionRow, ...]
    tests: int
    notes: tuple[str, ...]
    runs: tuple[str, ...]
    code_groups: tuple[ConditionRow, ...]
    pairs: tuple[PairDifference, ...] = ()


def compare_conditions(
    scheme: Scheme,
    runs: Sequence[Run],
    attribute: str,
    read: ReadSides,
    *,
    calibrated: bool,
    pairs: bool,
) -> ConditionComparison:
    """Return the shares of each code in all conditions, with a test of no difference.

    Args:
        scheme: the rubric.
        runs: the runs that the sides are from.
        attribute: the attribute that divides the traces.
        read: the sides.
        calibrated: add shares corrected by the labels of each side's own traces.
        pairs: compare every two conditions, too.
    """
    sides = tuple([trace for trace in side if not trace.open] for side in read.sides)
    kind, codes = find_kind(sides), list_comparable(scheme, runs)
    same = kind == "paired" and attribute in (RUN, JUDGE)
    # The same trace in two runs is one task, even if it names none.
    paired = kind == "paired" or attribute in (RUN, JUDGE)
    calibrated = calibrated and not same
    counted, left = choose_answers(read.sides)
    # If labels are of all answers, corrected shares do not depend on what a judge can find.
    visible = list(scheme.labels) if calibrated and "undecided" not in left else codes
    judged = tuple([x for x in side if x.open in counted] for side in read.sides)

    def compare_family(
        sides: Sequence[list[JudgedTrace]],
        judged: Sequence[list[JudgedTrace]],
        codes: Sequence[str],
        visible: Sequence[str],
    ) -> tuple[list[ConditionRow], list[CorrectedSide]]:
        rows = {row.code: row for row in _make_rows(sides, codes, read.terms, paired=paired)}
        made = [rows.get(code) or _count_row(code, sides, read.terms) for code in visible]
        if not calibrated:
            return made, []
        corrected = correct_sides(judged, visible, kind, read.terms)
        made = [
            replace(row, corrected=tuple(side.shares[row.code] for side in corrected))
            for row in made
        ]
        return made, corrected

    rows, corrected = compare_family(sides, judged, codes, visible)
    group_rows, _ = compare_family(
        *(count_groups(sides, scheme), count_groups(judged, scheme)),
        *(list_groups(scheme, codes), list_groups(scheme, visible)),
    )
    notes: list[str] = [
        *_describe_test(kind, sides, read.values, read.terms, paired=paired),
        *describe_rare([(row.code, row.test) for row in (*rows, *group_rows)]),
    ]
    if left_out := [code for code in scheme.labels if code not in codes]:
        notes.append(describe_uncompared(left_out, " by the judge alone" if calibrated else ""))
    if calibrated:
        notes.insert(0, Note(_explain_correction(read, counted, left), "corrected"))
        notes += list_side_cautions(read.values, corrected)
        notes += read.terms.warnings
    else:
        notes.append(Note("Shares of the judge alone: its errors are not corrected.", "judge-only"))
        notes += [SAME_TRACES] if same else []
    return ConditionComparison(
        scheme,
        tuple(dict.fromkeys((run.judge, run.judge_sha256) for run in runs)),
        attribute,
        read.values,
        kind,
        tuple(map(len, sides)),
        read.terms.confidence,
        tuple(rows),
        sum(row.adjusted is not None for row in rows),
        (*notes, *read.notes, UNADJUSTED),
        tuple(run.id for run in runs),
        tuple(group_rows),
        _compare_pairs(sides, codes, read, paired=paired) if pairs else (),
    )


def list_comparable(scheme: Scheme, runs: Sequence[Run]) -> list[str]:
    """Return the codes that each run's judge can find and rule out."""
    versions = [run.schemes[scheme.id] for run in runs]
    judged = [frozenset() if run.screens else run.judged for run in versions]
    codes = [code for code in scheme.ids if all(code in ids for ids in judged)]
    return [*codes, NONE] if len(set(judged)) == 1 and judged[0] else codes


def list_groups(scheme: Scheme, codes: Sequence[str]) -> list[str]:
    """Return the names of the groups whose codes are all among ``codes``."""
    return [name_group(name) for name, ids in scheme.groups.items() if set(ids) <= set(codes)]


def describe_uncompared(codes: Sequence[str], by: str = "") -> Note:
    """Return the note about codes that are in no row."""
    return Note(
        f"Not compared{by}, because a judge cannot find them, or only reports what it recognises:"
        f" {', '.join(codes)}.",
        "no-rule",
    )


def describe_rare(tests: Sequence[tuple[str, Test]]) -> Iterator[Note]:
    """Yield the note about codes in too few traces to be tested."""
    if codes := [code for code, test in tests if test.reason == TOO_RARE]:
        yield Note(
            f"No p for {', '.join(codes)}: too few traces have the code, or lack it, where a task"
            " has more traces on one side than on another.",
            "rare",
        )


def count_by_cluster(
    sides: Sequence[Sequence[JudgedTrace]], codes: Sequence[str], *, paired: bool
) -> tuple[SideTotals, ...]:
    """Return each side's traces by task, and those with each code. A trace without a task, or its
    pair, is a task by itself.
    """
    clusters = [
        [trace.cluster or (0 if paired else n, trace.key) for trace in side]
        for n, side in enumerate(sides)
    ]
    numbers = {name: n for n, name in enumerate(dict.fromkeys(chain(*clusters)))}
    return tuple(
        _count_side(side, [numbers[name] for name in names], codes, len(numbers))
        for side, names in zip(sides, clusters, strict=True)
    )


def _count_side(
    side: Sequence[JudgedTrace], columns: Sequence[int], codes: Sequence[str], clusters: int
) -> SideTotals:
    k, n = np.zeros((len(codes), clusters)), np.zeros(clusters)
    rows = {code: row for row, code in enumerate(codes)}
    for trace, column in zip(side, columns, strict=True):
        n[column] += 1
        for label in trace.labels:
            if label in rows:
                k[rows[label], column] += 1
    return SideTotals(k, n)


def adjust_tests(tests: Sequence[Test]) -> list[float | None]:
    """Return each p by Holm. A code in which nothing differs is not counted: its p is 1 by
    convention.
    """
    formal = [test.p == 1 and bool(test.reason) and test.name != "fisher" for test in tests]
    p_values = [None if skip else test.p for test, skip in zip(tests, formal, strict=True)]
    return adjust_p_values(p_values, "holm")


def count_only(code: str, side: Sequence[JudgedTrace], confidence: float) -> Interval:
    """Return the count of a code that a judge cannot rule out, without a share."""
    k = sum(code in trace.labels for trace in side)
    return Interval(None, 0.0, 1.0, k, len(side), confidence, "none", NOT_COMPARABLE)


def _count_row(code: str, sides: Sequence[Sequence[JudgedTrace]], terms: Terms) -> ConditionRow:
    shares = tuple(count_only(code, side, terms.confidence) for side in sides)
    test = Test("none", None, None, sum(map(len, sides)), NOT_COMPARABLE)
    return ConditionRow(code, shares, test, None)


def _make_rows(
    sides: Sequence[Sequence[JudgedTrace]], codes: Sequence[str], terms: Terms, *, paired: bool
) -> list[ConditionRow]:
    totals = count_by_cluster(sides, codes, paired=paired)
    clustered = any(trace.cluster for side in sides for trace in side)
    tests = permute_clusters(*totals)
    adjusted = adjust_tests(tests)
    return [
        ConditionRow(
            code,
            tuple(_estimate_share(side.of(n), terms, clustered=clustered) for side in totals),
            tests[n],
            adjusted[n],
        )
        for n, code in enumerate(codes)
    ]


def _estimate_share(side: SideTotals, terms: Terms, *, clustered: bool) -> Interval:
    if clustered:
        return estimate_share_of_totals(side.k.tolist(), side.n.tolist(), terms.confidence)
    return compute_wilson_interval(int(side.k.sum()), int(side.n.sum()), terms.confidence)


def _compare_pairs(
    sides: Sequence[Sequence[JudgedTrace]], codes: Sequence[str], read: ReadSides, *, paired: bool
) -> tuple[PairDifference, ...]:
    totals = count_by_cluster(sides, codes, paired=paired)
    rows = []
    named = zip(read.values, totals, strict=True)
    for (first, side1), (second, side2) in combinations(named, 2):
        tests = permute_clusters(side1, side2)
        for n, (code, test) in enumerate(zip(codes, tests, strict=True)):
            gap = estimate_clustered_difference(side1.of(n), side2.of(n), read.terms.confidence)
            rows.append(PairDifference(code, first, second, gap, test, None))
    adjusted = adjust_tests([row.test for row in rows])
    return tuple(replace(row, adjusted=p) for row, p in zip(rows, adjusted, strict=True))


_DEALT = {
    "paired": "deals the conditions of each task anew",
    "same tasks": "deals the conditions of each task anew",
    "independent": "deals whole tasks to the conditions anew",
}


def _describe_test(
    kind: Kind,
    sides: Sequence[Sequence[JudgedTrace]],
    values: Sequence[str],
    terms: Terms,
    *,
    paired: bool,
) -> Iterator[Note]:
    totals = count_by_cluster(sides, (), paired=paired)
    total = len(totals[0].n)
    few = [
        f"{value} has {side.clusters}"
        for value, side in zip(values, totals, strict=True)
        if side.clusters < LEAST_CLUSTERS
    ]
    sizes = sorted(map(len, sides))
    test = "p: a permutation test of equal shares in all conditions (chi-squared, Rao and Scott)"
    clustered = any(trace.cluster for side in sides for trace in side)
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
        why = "no trace tells its task" if terms.cluster_by else "--cluster none"
        by = "within pairs" if kind == "paired" else "among the conditions"
        how = "" if few else f"{test}. It deals traces anew {by}. "
        yield Note(f"{how}Intervals: Wilson ({why}).", "independent")
        return
    how = (
        "The intervals"
        if few
        else f"{test}. It {_DEALT[kind]} (10,000 times). It and the intervals"
    )
    yield Note(
        f"{how} allow for traces that share one of {total} tasks ({'+'.join(terms.cluster_by)}; a"
        " trace without a task counts as one).",
        "tasks",
    )


def list_side_cautions(values: Sequence[str], corrected: Sequence[CorrectedSide]) -> Iterator[Note]:
    """Yield cautions about the labels of each condition; those about their number together, and
    the marks.
    """
    sides = list(zip(values, corrected, strict=True))
    if any(len(side.people) < FEW_LABELS for side in corrected):
        sizes = ", ".join(f"{value} {len(side.people)}" for value, side in sides)
        text = f"Labels: {sizes}. With fewer than {FEW_LABELS} the shares are hardly known."
        yield Note(text, "few-labels")
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


def _explain_correction(
    read: ReadSides, counted: Collection[str | None], left: Sequence[str]
) -> str:
    text = (
        "Corrected shares: each condition by the labels of its own traces. p tests the judge's own"
        " shares; to test corrected ones, name two conditions with --values."
    )
    if left:
        text += f" They leave out {' and '.join(left)} traces: in a condition none has a label."
    for status, answer in OPEN.items():
        sizes = [sum(trace.open == answer for trace in side) for side in read.sides]
        if answer in counted and any(sizes):
            named = zip(read.values, sizes, strict=True)
            listed = ", ".join(f"{value} {size}" for value, size in named if size)
            text += f" They count {status} traces, too: {listed}."
    return text
