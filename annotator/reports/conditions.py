"""Several conditions side by side: each code's share in each, and a test of all together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations

import numpy as np

from annotator.base.text import Note
from annotator.calibration.estimates import FEW_LABELS, list_cautions
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
from annotator.rubrics import NONE, Scheme, name_group
from annotator.runs.run import Run
from validation import (
    LEAST_CLUSTERS,
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
            replace(row, corrected=tuple(shares[row.code] for shares, _ in corrected))
            for row in made
        ]
        return made, corrected

    rows, corrected = compare_family(sides, judged, codes, visible)
    group_rows, _ = compare_family(
        *(count_groups(sides, scheme), count_groups(judged, scheme)),
        *(list_groups(scheme, codes), list_groups(scheme, visible)),
    )
    notes: list[str] = [*_describe_test(kind, sides, read.terms)]
    if left_out := [code for code in scheme.labels if code not in codes]:
        notes.append(describe_uncompared(left_out, " by the judge alone" if calibrated else ""))
    if calibrated:
        notes.insert(0, Note(_explain_correction(left), "corrected"))
        notes += _list_cautions(read.values, corrected)
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
        (*notes, *read.notes),
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
    kind: Kind, sides: Sequence[Sequence[JudgedTrace]], terms: Terms
) -> Iterator[Note]:
    names = [{trace.cluster for trace in side} - {None} for side in sides]
    tasks, total = list(map(len, names)), len(set().union(*names))
    test = "p: a permutation test of equal shares in all conditions (chi-squared, Rao and Scott)"
    if not any(tasks):
        why = "no trace tells its task" if terms.cluster_by else "--cluster none"
        by = "within pairs" if kind == "paired" else "among the conditions"
        yield Note(f"{test}. It deals traces anew {by}. Intervals: Wilson ({why}).", "independent")
        return
    yield Note(
        f"{test}. It {_DEALT[kind]} (10,000 times). It and the intervals allow for traces that"
        f" share one of {total} tasks ({'+'.join(terms.cluster_by)}).",
        "tasks",
    )
    if min(tasks) < LEAST_CLUSTERS:
        yield Note(
            f"No p: a condition has fewer than {LEAST_CLUSTERS} tasks. Leave it out (--without), or"
            " treat traces as independent (--cluster none).",
            "few-tasks",
        )


def _list_cautions(values: Sequence[str], corrected: Sequence[CorrectedSide]) -> Iterator[Note]:
    """Yield cautions about the labels of each condition; those about their number together."""
    sizes = ", ".join(
        f"{value} {len(people)}" for value, (_, people) in zip(values, corrected, strict=True)
    )
    if any(len(people) < FEW_LABELS for _, people in corrected):
        text = f"Labels: {sizes}. With fewer than {FEW_LABELS} the shares are hardly known."
        yield Note(text, "few-labels")
    for value, (shares, people) in zip(values, corrected, strict=True):
        for caution in list_cautions(people, shares):
            if (id_ := getattr(caution, "id", "")) != "few-labels":
                yield Note(f"{value}: {caution}", id_)


def _explain_correction(left: Sequence[str]) -> str:
    text = (
        "Corrected shares: each condition by the labels of its own traces. p tests the judge's own"
        " shares; to test corrected ones, name two conditions with --values."
    )
    if left:
        text += f" They leave out {' and '.join(left)} traces: in a condition none has a label."
    return text
