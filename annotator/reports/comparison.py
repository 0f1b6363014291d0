"""Conditions, or runs, side by side: each code's share in each, their differences, and tests."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from typing import TypeVar

import numpy as np

from annotator.base.errors import AnnotatorError
from annotator.base.text import Note, find_repeated, list_first
from annotator.calibration.correct import list_sums
from annotator.calibration.estimates import explain_few_labels
from annotator.calibration.model import Calibrations
from annotator.reports.comparison_notes import (
    UNADJUSTED,
    describe_correction,
    describe_own_test,
    describe_rare,
    describe_traces,
)
from annotator.reports.corrected import (
    CorrectedSide,
    correct_differences,
    correct_sides,
    keep_counted,
)
from annotator.reports.sides import (
    JUDGE,
    RUN,
    EmptySide,
    JudgedTrace,
    Kind,
    ReadSides,
    Sides,
    Terms,
    count_groups,
    find_kind,
    is_clustered,
    pair_traces,
    read_sides,
)
from annotator.rubrics import NONE, Scheme, name_group
from annotator.runs.manifest import COUNTING, list_differences
from annotator.runs.run import Run, name_runs
from validation import (
    Estimate,
    Interval,
    SideTotals,
    Test,
    adjust_p_values,
    compute_wilson_interval,
    estimate_clustered_difference,
    estimate_difference,
    estimate_paired_difference,
    estimate_share_of_totals,
    explain_rare,
    permute_clusters,
    run_fisher_test,
    run_mcnemar_test,
)
from validation.comparison import floor_variance

NOT_COMPARABLE = "a judge cannot find it, or only reports what it recognises"


@dataclass(frozen=True, slots=True)
class ComparedCode:
    """One code: its share on each side, and a test that all are equal, with its p by Holm over the
    codes. Of two sides also the difference, first minus second.
    """

    code: str
    shares: tuple[Interval, ...]
    test: Test
    adjusted: float | None = None
    difference: Estimate | None = None
    corrected: tuple[Estimate, ...] = ()  # the shares, with a calibration
    corrected_difference: Estimate | None = None
    corrected_test: Test | None = None
    corrected_adjusted: float | None = None  # the smallest of all differences


@dataclass(frozen=True, slots=True)
class PairDifference:
    """The difference of a code's shares in two conditions, with a test and its p by Holm."""

    code: str
    first: str
    second: str
    difference: Estimate
    test: Test
    adjusted: float | None


Tested = TypeVar("Tested", ComparedCode, PairDifference)


@dataclass(frozen=True, slots=True)
class ConditionComparison:
    """The traces with each of ``values`` of an attribute, by one rubric in ``runs`` (ids), judged
    by ``judges`` (id and hash of each).
    """

    rubric: Scheme
    judges: tuple[tuple[str, str], ...]
    attribute: str
    values: tuple[str, ...]
    kind: Kind
    n: tuple[int, ...]  # the judged traces with each value
    alone: tuple[int, ...]  # of two values: those without a partner, which pairs leave out
    confidence: float
    rows: tuple[ComparedCode, ...]
    notes: tuple[str, ...]
    runs: tuple[str, ...]
    code_groups: tuple[ComparedCode, ...]  # a family of tests of their own for Holm
    pairs: tuple[PairDifference, ...]  # of more values: corrected ones, else if asked for
    all_pairs: bool  # the pairs are asked for, and have a table
    two: bool  # there are two values, and their differences

    @property
    def tests(self) -> int:
        """The number of tests of the judge's own shares that Holm counts."""
        return sum(row.adjusted is not None for row in self.rows)

    @property
    def corrected_tests(self) -> int:
        """The number of tests of corrected shares that Holm counts."""
        if self.two:
            return sum(row.corrected_adjusted is not None for row in self.rows)
        return sum(pair.adjusted is not None for pair in self.pairs) if self.corrected else 0

    @property
    def corrected(self) -> bool:
        """Whether there are corrected shares, or differences of them."""
        return any(row.corrected or row.corrected_difference for row in self.rows)


def compare(
    runs: Sequence[Run],
    attribute: str,
    values: Sequence[str] | None = None,
    calibrations: Calibrations | None = None,
    *,
    cluster: Sequence[str] | None = None,
    labelled: bool = False,
    pairs: bool = False,
    without: Sequence[str] = (),
    rubrics: Sequence[str] = (),
    rerun: bool = False,
    notice: Callable[[str], None] | None = None,
) -> list[ConditionComparison]:
    """Compare the traces with the values of an attribute, by every rubric that the runs share.

    Two groups of traces are paired by id between runs and judges, else by task and the last part of
    the id. If this names a trace twice on a side, or leaves most without a partner, they are not
    paired. Arguments and errors are those of :func:`annotator.api.compare`; ``values`` None: all.
    ``rubrics``: only these. ``rerun``: the same id in two runs is the same task, not one trace.
    """
    for value in find_repeated(values or ()):
        raise AnnotatorError(f"{attribute} = {value}: both sides of the comparison are the same")
    schemes = [run.schemes for run in runs]
    shared = [
        scheme
        for name, scheme in schemes[0].items()
        if all(name in other and other[name].sha256 == scheme.sha256 for other in schemes)
        and (not rubrics or name in rubrics)
    ]
    if not shared:
        raise AnnotatorError("the runs have no rubric (of the same version) in common")
    names, partial = name_runs(runs), []
    for name, run in zip(names, runs, strict=True):
        partial += [Note(f"{name}: {text}", "part") for text in run.manifest.limitations]
        if gaps := list_differences(runs[0].manifest, run.manifest, COUNTING):
            text = f"{name} does not count traces as {names[0]} does: {'; '.join(gaps)}."
            partial.append(Note(text, "counting"))
    comparable: list[tuple[Scheme, ReadSides]] = []
    empty = []
    for scheme in shared:
        stored = (calibrations or {}).get(scheme.id, ())
        try:
            read = read_sides(runs, scheme, attribute, values, stored, cluster, without)
        except EmptySide as error:
            empty.append(str(error))
            continue
        if labelled and stored:
            _check_labels(read, same=attribute in (RUN, JUDGE) and not rerun)
        comparable.append((scheme, replace(read, notes=(*read.notes, *partial))))
    if not comparable:
        raise EmptySide("; ".join(empty))
    if notice:
        for reason in empty:
            notice(f"not compared: {reason}")
    two = all(len(read.sides) == 2 for _, read in comparable)  # one kind of table for all rubrics
    return [
        _compare_sides(
            scheme,
            runs,
            attribute,
            read,
            two=two,
            calibrated=bool((calibrations or {}).get(scheme.id)),
            pairs=pairs,
            rerun=rerun,
        )
        for scheme, read in comparable
    ]


def _check_labels(read: ReadSides, *, same: bool) -> None:
    """Raise :class:`AnnotatorError` if labels cannot correct the shares of every side. ``same``:
    traces of one id are the same.
    """
    decided = tuple([trace for trace in side if not trace.open] for side in read.sides)
    if same and find_kind(decided) == "paired":
        raise AnnotatorError("the same traces have the same true shares")
    counted, _ = keep_counted(read.sides, pairs=False)
    few = {}
    for value, side in zip(read.values, counted, strict=True):
        people = [trace.person for trace in side if trace.person]
        if not people:
            raise AnnotatorError(f"no trace of {value} has a label")
        if why := explain_few_labels(people, read.terms.population):
            few[value] = why
    if len(few) > len(counted) - 2:
        names = list_first(list(few), 3)
        raise AnnotatorError(f"{next(iter(few.values()))} in {names}")


def _compare_sides(
    scheme: Scheme,
    runs: Sequence[Run],
    attribute: str,
    read: ReadSides,
    *,
    two: bool,
    calibrated: bool,
    pairs: bool,
    rerun: bool,
) -> ConditionComparison:
    terms = read.terms
    sides: Sides = tuple([trace for trace in side if not trace.open] for side in read.sides)
    kind = find_kind(sides)
    decided = tuple(map(len, sides))
    if two and kind == "paired":
        sides = pair_traces(sides)
    # The same trace in several runs is one task, even if it names none.
    paired = kind == "paired" or (attribute in (RUN, JUDGE) and not two)
    # The same traces have the same true shares: their labels distinguish judges, not traces.
    same = kind == "paired" and attribute in (RUN, JUDGE) and not rerun
    calibrated = calibrated and not same
    counted, left = keep_counted(read.sides, pairs=two and kind == "paired")
    codes = list_comparable(scheme, runs)
    # If labels are of all answers, corrected shares do not depend on what a judge can find.
    visible = list(scheme.labels) if calibrated and "undecided" not in left else codes

    def compare_family(
        sides: Sides, counted: Sides, codes: Sequence[str], visible: Sequence[str]
    ) -> tuple[list[ComparedCode], list[CorrectedSide], list[PairDifference]]:
        compare_codes = _compare_two if two else _compare_all
        compared = {row.code: row for row in compare_codes(sides, codes, kind, paired, terms)}
        rows = [compared.get(code) or _count_only(code, sides, two, terms) for code in visible]
        if not calibrated:
            return rows, [], []
        corrected = correct_sides(counted, visible, kind, terms)
        carried = count_by_cluster(_add_labels(counted), visible, paired=paired)
        gaps = _correct_pairs(read.values, corrected, carried, visible, terms)
        for n, row in enumerate(rows):
            adjusted = [x.adjusted for x in gaps if x.code == row.code and x.adjusted is not None]
            rows[n] = replace(
                row,
                corrected=tuple(side.shares[row.code] for side in corrected),
                corrected_difference=gaps[n].difference if two else None,
                corrected_test=gaps[n].test if two else None,
                corrected_adjusted=min(adjusted, default=None),
            )
        return rows, corrected, gaps

    rows, corrected, gaps = compare_family(sides, counted, codes, visible)
    group_rows, _, group_gaps = compare_family(
        *(count_groups(sides, scheme), count_groups(counted, scheme)),
        *(list_groups(scheme, codes), list_groups(scheme, visible)),
    )
    alone = tuple(n - len(side) for n, side in zip(decided, sides, strict=True))
    left_out = [code for code in scheme.labels if code not in codes]
    totals = count_by_cluster(sides, (), paired=paired)
    every = (*rows, *group_rows)
    tests = [(row.code, row.test) for row in every]
    if calibrated:
        tested = {row.code for row in every if row.corrected_adjusted is not None}
        tests = [(x.code, x.test) for x in (*gaps, *group_gaps) if x.code not in tested]
    elif pairs and not two:
        gaps = _compare_pairs(sides, codes, read, paired=paired)
    return ConditionComparison(
        scheme,
        tuple(dict.fromkeys((run.judge, run.judge_sha256) for run in runs)),
        attribute,
        read.values,
        kind,
        tuple(map(len, sides)),
        alone,
        terms.confidence,
        tuple(rows),
        (
            *describe_own_test(
                kind, read.values, sides, totals, terms, two=two, calibrated=calibrated
            ),
            *describe_rare(tests),
            *describe_traces(read.values, alone, left_out, calibrated=calibrated),
            *describe_correction(read, corrected, counted, left, two=two, same=same),
            *(list_sums(scheme, is_group=True) if corrected else ()),
            *read.notes,
            UNADJUSTED,
        ),
        tuple(run.id for run in runs),
        tuple(group_rows),
        () if two else tuple(gaps),
        pairs and not two,
        two,
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


def _count_only(code: str, sides: Sides, two: bool, terms: Terms) -> ComparedCode:
    """Return the counts of a code that a judge cannot rule out, without a share."""
    ks = [sum(code in trace.labels for trace in side) for side in sides]
    unknown = 0.0, 1.0
    shares = tuple(
        Interval(None, *unknown, k, len(side), terms.confidence, "none", NOT_COMPARABLE)
        for k, side in zip(ks, sides, strict=True)
    )
    n, why = sum(map(len, sides)), NOT_COMPARABLE
    gap = Estimate("difference", None, None, None, n, terms.confidence, "none", why)
    return ComparedCode(
        code, shares, Test("none", None, None, n, why), difference=gap if two else None
    )


def count_by_cluster(sides: Sides, codes: Sequence[str], *, paired: bool) -> tuple[SideTotals, ...]:
    """Return each side's traces by task (without one each is its own), and those with each code."""
    clusters = [
        [trace.cluster or (0 if paired else n, trace.key) for trace in side]
        for n, side in enumerate(sides)
    ]
    # Sorted: the arrangements that a test draws do not depend on the order of judging.
    numbers = {name: n for n, name in enumerate(sorted(set(chain(*clusters)), key=str))}
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


def _compare_all(
    sides: Sides, codes: Sequence[str], kind: Kind, paired: bool, terms: Terms
) -> list[ComparedCode]:
    """Return a row for each code: the shares, and a permutation test over tasks."""
    totals = count_by_cluster(sides, codes, paired=paired)
    clustered = is_clustered(sides)

    def estimate(side: SideTotals) -> Interval:
        if clustered:
            return estimate_share_of_totals(side.k.tolist(), side.n.tolist(), terms.confidence)
        return compute_wilson_interval(int(side.k.sum()), int(side.n.sum()), terms.confidence)

    rows = [
        ComparedCode(code, tuple(estimate(side.of(n)) for side in totals), test)
        for n, (code, test) in enumerate(zip(codes, permute_clusters(*totals), strict=True))
    ]
    return _adjust(rows)


def _compare_two(
    sides: Sides, codes: Sequence[str], kind: Kind, paired: bool, terms: Terms
) -> list[ComparedCode]:
    """Return a row for each code with the difference of two sides; exact for independent traces."""
    if not is_clustered(sides):
        return _adjust([_compare_independent(code, sides, kind, terms) for code in codes])
    totals = count_by_cluster(sides, codes, paired=paired)
    rows = []
    for n, row in enumerate(_compare_all(sides, codes, kind, paired, terms)):
        minimum = 0.0  # of the variance
        if kind == "paired":
            _, b, c, _ = _count_pairs(row.code, sides)
            size = len(sides[0])
            differ = (b + c) / size - ((b - c) / size) ** 2
            minimum = floor_variance(differ / size, size)
        first, second = (side.of(n) for side in totals)
        gap = estimate_clustered_difference(first, second, terms.confidence, minimum)
        rows.append(replace(row, difference=gap))
    return rows


def _compare_independent(code: str, sides: Sides, kind: Kind, terms: Terms) -> ComparedCode:
    """Return the row of a code for independent traces, or pairs of them."""
    flags = [[code in trace.labels for trace in side] for side in sides]
    first, second = (
        compute_wilson_interval(sum(side), len(side), terms.confidence) for side in flags
    )
    if kind == "paired":
        counts = _count_pairs(code, sides)
        estimate = estimate_paired_difference(*counts, terms.confidence)
        test = run_mcnemar_test(*counts[1:3])
    else:
        estimate = estimate_difference(first.k, first.n, second.k, second.n, terms.confidence)
        test = run_fisher_test([[first.k, first.n - first.k], [second.k, second.n - second.k]])
    if first.k + second.k in (0, first.n + second.n):  # nothing to test
        which = "every" if first.k else "no"
        test = replace(test, p=None, reason=f"{which} trace of either side has it")
    return ComparedCode(code, (first, second), test, difference=estimate)


def _count_pairs(code: str, sides: Sides) -> tuple[int, int, int, int]:
    """Return how many pairs have the code on both sides, the first, the second, and neither."""
    partners = zip(*sides, strict=True)
    pairs = Counter((code in trace.labels, code in partner.labels) for trace, partner in partners)
    return pairs[True, True], pairs[True, False], pairs[False, True], pairs[False, False]


def _adjust(rows: Sequence[Tested]) -> list[Tested]:
    adjusted = adjust_tests([row.test for row in rows])
    return [replace(row, adjusted=p) for row, p in zip(rows, adjusted, strict=True)]


def adjust_tests(tests: Sequence[Test]) -> list[float | None]:
    """Return each p by Holm, not counting codes in which nothing differs: their p is 1 by rule."""
    formal = [test.p == 1 and bool(test.reason) and test.name != "fisher" for test in tests]
    p_values = [None if skip else test.p for test, skip in zip(tests, formal, strict=True)]
    return adjust_p_values(p_values, "holm")


def _compare_pairs(
    sides: Sides, codes: Sequence[str], read: ReadSides, *, paired: bool
) -> list[PairDifference]:
    named = zip(read.values, count_by_cluster(sides, codes, paired=paired), strict=True)
    rows = []
    for (first, side1), (second, side2) in combinations(named, 2):
        tests = permute_clusters(side1, side2)
        for n, (code, test) in enumerate(zip(codes, tests, strict=True)):
            gap = estimate_clustered_difference(side1.of(n), side2.of(n), read.terms.confidence)
            rows.append(PairDifference(code, first, second, gap, test, None))
    return _adjust(rows)


def _add_labels(sides: Sides) -> Sides:
    """Return the traces with the labels of the judge and those of the person together."""

    def add(trace: JudgedTrace) -> JudgedTrace:
        human = trace.person.counted.human if trace.person else ()
        return replace(trace, labels=tuple(dict.fromkeys((*trace.labels, *human))))

    return tuple([add(trace) for trace in side] for side in sides)


def _correct_pairs(
    values: Sequence[str],
    sides: Sequence[CorrectedSide],
    carried: Sequence[SideTotals],
    codes: Sequence[str],
    terms: Terms,
) -> list[PairDifference]:
    """Return the corrected difference of each code in every two conditions. A code that too few
    traces have, by the judge or a label (``carried``), is not tested.
    """
    rows = []
    for n, m in combinations(range(len(values)), 2):
        gaps = correct_differences((sides[n], sides[m]), codes, terms)
        reasons = explain_rare(carried[n], carried[m])
        for code, (gap, test), reason in zip(codes, gaps, reasons, strict=True):
            if reason and test.p is not None:
                test = replace(test, statistic=None, p=None, reason=reason)
            rows.append(PairDifference(code, values[n], values[m], gap, test, None))
    return _adjust(rows)
