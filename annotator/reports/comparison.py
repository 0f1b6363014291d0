"""Two groups of traces, or two runs, side by side: differences with intervals and tests."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from annotator.base.errors import AnnotatorError
from annotator.base.text import Note, find_repeated
from annotator.calibration.model import Calibrations
from annotator.reports.conditions import (
    SAME_TRACES,
    UNADJUSTED,
    ConditionComparison,
    adjust_tests,
    compare_conditions,
    count_by_cluster,
    count_only,
    describe_rare,
    describe_uncompared,
    list_comparable,
    list_groups,
    list_side_cautions,
)
from annotator.reports.corrected import (
    CorrectedDifferences,
    choose_answers,
    correct_differences,
)
from annotator.reports.sides import (
    JUDGE,
    RUN,
    EmptySide,
    Kind,
    ReadSides,
    Sides,
    Terms,
    count_groups,
    drop_repeated,
    find_kind,
    pair_traces,
    read_sides,
)
from annotator.rubrics import Scheme
from annotator.runs.run import Run, name_runs
from validation import (
    LEAST_CLUSTERS,
    Estimate,
    Interval,
    SideTotals,
    Test,
    compute_wilson_interval,
    estimate_clustered_difference,
    estimate_difference,
    estimate_paired_difference,
    estimate_share_of_totals,
    permute_clusters,
    run_fisher_test,
    run_mcnemar_test,
)


@dataclass(frozen=True, slots=True)
class Difference:
    """One code: its share on both sides, their difference (first minus second), and a test.

    ``adjusted`` is the test's p by Holm over the codes. ``corrected`` is the difference of the
    shares corrected for the judge's errors, with its test and its p by Holm, and these shares; None
    without a calibration. A pooled difference is not that of two shares.
    """

    code: str
    first: Interval
    second: Interval
    difference: Estimate
    test: Test
    adjusted: float | None
    corrected: Estimate | None = None
    corrected_test: Test | None = None
    corrected_adjusted: float | None = None
    corrected_first: Estimate | None = None
    corrected_second: Estimate | None = None


@dataclass(frozen=True, slots=True)
class GroupComparison:
    """Two groups by one rubric in ``runs`` (ids), judged by ``judges`` (id and hash of each).

    Attributes:
        kind: ``paired`` by trace, ``same tasks`` without a partner for each trace, or
            ``independent``.
        alone: the judged traces of each side without a partner, which a paired comparison leaves
            out.
        tests: the number of tests that Holm counts.
        code_groups: the rows of groups of codes, a family of tests of their own for Holm.
        pooled: the corrected differences take the judge's error rates from the labels of both
            sides together.
    """

    rubric: Scheme
    judges: tuple[tuple[str, str], ...]
    attribute: str
    first: str
    second: str
    kind: Kind
    n: tuple[int, int]
    alone: tuple[int, int]
    confidence: float
    rows: tuple[Difference, ...]
    tests: int
    notes: tuple[str, ...]
    runs: tuple[str, ...] = ()
    code_groups: tuple[Difference, ...] = ()
    pooled: bool = False


def compare(
    runs: Sequence[Run],
    attribute: str,
    values: Sequence[str] | None = None,
    calibrations: Calibrations | None = None,
    *,
    cluster: Sequence[str] | None = None,
    labelled: bool = False,
    pool: bool = False,
    pairs: bool = False,
    without: Sequence[str] = (),
    notice: Callable[[str], None] | None = None,
) -> list[GroupComparison | ConditionComparison]:
    """Compare the traces with the values of an attribute, by every rubric that the runs share.

    Two groups of traces are paired by id between runs and judges, else by task and the last part of
    the id. If this names a trace twice on a side, or leaves most without a partner, they are not
    paired.

    Args:
        runs: the runs with the traces.
        attribute: an attribute, or ``run`` (see :func:`name_runs`), or ``judge``.
        values: the values that are compared; None: all.
        calibrations: they add corrected differences, or for three or more values corrected shares.
        cluster: the attributes that name a trace's task, none for independent traces; None:
            project and task, or those of the calibrations.
        labelled: raise an error if the calibrations cannot correct each value's shares.
        pool: see :func:`correct_differences`.
        pairs: of three or more values, compare every two, too.
        without: values that are left out.
        notice: is called with the reason why a rubric is not compared: by it no judged trace has
            one of the values.

    Raises:
        AnnotatorError: the runs have no rubric in common, none of them can be compared, a
            calibration is not of its run, or see ``labelled``.
    """
    for value in find_repeated(values or ()):
        raise AnnotatorError(f"{attribute} = {value}: both sides of the comparison are the same")
    schemes = [run.schemes for run in runs]
    shared = [
        scheme
        for name, scheme in schemes[0].items()
        if all(name in other and other[name].sha256 == scheme.sha256 for other in schemes)
    ]
    if not shared:
        raise AnnotatorError("the runs have no rubric (of the same version) in common")
    partial = [
        Note(f"{name}: {text}", "part")
        for name, run in zip(name_runs(runs), runs, strict=True)
        for text in run.manifest.limitations
    ]
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
            _check_labels(read, attribute)
        comparable.append((scheme, replace(read, notes=(*read.notes, *partial))))
    if not comparable:
        raise EmptySide("; ".join(empty))
    if notice:
        for reason in empty:
            notice(f"not compared: {reason}")
    two = all(len(read.sides) == 2 for _, read in comparable)  # one kind of table for all rubrics
    if pool and not two:
        raise AnnotatorError("--pool is for two groups: name them with --values A B")
    return [
        _compare_by(scheme, runs, attribute, read, calibrated=calibrated, pool=pool)
        if two
        else compare_conditions(scheme, runs, attribute, read, calibrated=calibrated, pairs=pairs)
        for scheme, read in comparable
        for calibrated in [bool((calibrations or {}).get(scheme.id))]
    ]


def _check_labels(read: ReadSides, attribute: str) -> None:
    """Raise :class:`AnnotatorError` if labels cannot correct the shares of every side."""
    decided = [[trace for trace in side if not trace.open] for side in read.sides]
    if attribute in (RUN, JUDGE) and find_kind(decided) == "paired":
        raise AnnotatorError("the same traces have the same true shares")
    counted, _ = choose_answers(read.sides)
    for value, side in zip(read.values, read.sides, strict=True):
        if not any(trace.person and trace.open in counted for trace in side):
            raise AnnotatorError(f"no trace of {value} has a label")


def _compare_by(
    scheme: Scheme,
    runs: Sequence[Run],
    attribute: str,
    read: ReadSides,
    *,
    calibrated: bool,
    pool: bool,
) -> GroupComparison:
    everything, terms = read.sides, read.terms
    first, second = ([trace for trace in side if not trace.open] for side in everything)
    sides: Sides = (first, second)
    alone = (0, 0)
    kind = find_kind(sides)
    if pool and terms.population == "corpus":
        raise AnnotatorError("--pool is not for calibrations of a corpus: leave it out")
    if pool and kind != "independent":
        raise AnnotatorError(
            f"--pool is for independent groups, and these are {kind}: leave it out"
        )
    if kind == "paired":
        sides = pair_traces(sides)
        alone = (len(first) - len(sides[0]), len(second) - len(sides[1]))
    # The same traces have the same true shares: their labels distinguish judges, not traces.
    same = kind == "paired" and attribute in (RUN, JUDGE)
    calibrated = calibrated and not same
    counted, left = _keep_counted(everything, kind)
    codes = list_comparable(scheme, runs)
    # If labels are of all answers, corrected shares do not depend on what a judge can find.
    visible = list(scheme.labels) if calibrated and "undecided" not in left else codes

    def compare_family(
        sides: Sides, counted: Sides, codes: Sequence[str], visible: Sequence[str]
    ) -> tuple[list[Difference], CorrectedDifferences | None]:
        rows = _compare_visible(sides, codes, visible, kind, terms.confidence)
        if not calibrated:
            return rows, None
        corrected = correct_differences(counted, visible, kind, terms, pool=pool)
        columns = zip(rows, corrected.gaps, corrected.tests, corrected.adjusted, strict=True)
        rows = [
            replace(row, corrected=gap, corrected_test=test, corrected_adjusted=p)
            for row, gap, test, p in columns
        ]
        if not pool:
            left, right = (side.shares for side in corrected.sides)
            rows = [
                replace(row, corrected_first=left[row.code], corrected_second=right[row.code])
                for row in rows
            ]
        return rows, corrected

    rows, corrected = compare_family(sides, counted, codes, visible)
    groups, visible_groups = (list_groups(scheme, some) for some in (codes, visible))
    grouped = count_groups(sides, scheme), count_groups(counted, scheme)
    group_rows, _ = compare_family(*grouped, groups, visible_groups)
    notes = [
        *_describe_method(kind, sides, terms),
        *describe_rare([(row.code, row.test) for row in (*rows, *group_rows)]),
        *_describe_traces(
            read.values, alone, [x for x in scheme.labels if x not in codes], corrected
        ),
        *_describe_correction(read.values, corrected, left, terms, same=same),
    ]
    return GroupComparison(
        scheme,
        tuple(dict.fromkeys((run.judge, run.judge_sha256) for run in runs)),
        attribute,
        read.values[0],
        read.values[1],
        kind,
        (len(sides[0]), len(sides[1])),
        alone,
        terms.confidence,
        tuple(rows),
        sum(row.adjusted is not None for row in rows),
        (*notes, *read.notes, UNADJUSTED),
        tuple(run.id for run in runs),
        tuple(group_rows),
        pool and calibrated,
    )


def _compare_visible(
    sides: Sides, codes: Sequence[str], visible: Sequence[str], kind: Kind, confidence: float
) -> list[Difference]:
    """Return a row for each visible code: counts alone if the judges cannot be compared on it."""
    rows = {row.code: row for row in compare_codes(sides, codes, kind, confidence)}
    n = sum(map(len, sides))
    for code in visible:
        if code not in rows:
            first, second = (count_only(code, side, confidence) for side in sides)
            reason = first.reason
            gap = Estimate("difference", None, None, None, n, confidence, "none", reason)
            test = Test("none", None, None, n, reason)
            rows[code] = Difference(code, first, second, gap, test, None)
    return [rows[code] for code in visible]


def _keep_counted(sides: Sides, kind: Kind) -> tuple[Sides, list[str]]:
    """Return the traces of both sides that count in corrected shares (see :func:`choose_answers`),
    of pairs both or neither, and the statuses of those that do not count.
    """
    counted, left = choose_answers(sides)
    first, second = ([trace for trace in side if trace.open in counted] for side in sides)
    if kind != "paired":
        return (first, second), left
    sides = pair_traces(
        (drop_repeated(first, attrgetter("key")), drop_repeated(second, attrgetter("key")))
    )
    # The labels that made an answer count may be of traces without a partner.
    if choose_answers(sides)[1]:
        sides, more = _keep_counted(sides, kind)
        left += more
    return sides, left


def compare_codes(
    sides: Sides, codes: Sequence[str], kind: Kind, confidence: float
) -> list[Difference]:
    """Return a row for each code, over tasks if any trace tells its own."""
    if not any(trace.cluster for side in sides for trace in side):
        rows = [_compare_independent(code, sides, kind, confidence) for code in codes]
    else:
        totals = count_by_cluster(sides, codes, paired=kind == "paired")
        tests = permute_clusters(*totals)
        rows = [
            _compare_over_tasks(code, sides, kind, (totals[0].of(n), totals[1].of(n)), confidence)
            for n, code in enumerate(codes)
        ]
        rows = [replace(row, test=test) for row, test in zip(rows, tests, strict=True)]
    adjusted = adjust_tests([row.test for row in rows])
    return [replace(row, adjusted=p) for row, p in zip(rows, adjusted, strict=True)]


def _compare_independent(code: str, sides: Sides, kind: Kind, confidence: float) -> Difference:
    """Return the row of a code for independent traces, or pairs of them."""
    flags = [[code in trace.labels for trace in side] for side in sides]
    first, second = (compute_wilson_interval(sum(side), len(side), confidence) for side in flags)
    if kind == "paired":
        counts = _count_pairs(code, sides)
        estimate, test = (
            estimate_paired_difference(*counts, confidence),
            run_mcnemar_test(*counts[1:3]),
        )
    else:
        estimate = estimate_difference(first.k, first.n, second.k, second.n, confidence)
        test = run_fisher_test([[first.k, first.n - first.k], [second.k, second.n - second.k]])
    if first.k + second.k in (0, first.n + second.n):  # nothing to test
        which = "every" if first.k else "no"
        test = replace(test, p=None, reason=f"{which} trace of either side has it")
    return Difference(code, first, second, estimate, test, None)


def _compare_over_tasks(
    code: str,
    sides: Sides,
    kind: Kind,
    totals: tuple[SideTotals, SideTotals],
    confidence: float,
) -> Difference:
    """Return the row of a code, without its test."""
    first, second = (
        estimate_share_of_totals(side.k.tolist(), side.n.tolist(), confidence) for side in totals
    )
    minimum = 0.0  # of the variance
    if kind == "paired":
        _, b, c, _ = _count_pairs(code, sides)
        n = len(sides[0])
        minimum = ((b + c) / n - ((b - c) / n) ** 2) / n
    gap = estimate_clustered_difference(*totals, confidence, minimum)
    return Difference(code, first, second, gap, Test("permutation", None, None, 0), None)


def _count_pairs(code: str, sides: Sides) -> tuple[int, int, int, int]:
    """Return how many pairs have the code on both sides, the first, the second, and neither."""
    partners = zip(*sides, strict=True)
    pairs = Counter((code in trace.labels, code in partner.labels) for trace, partner in partners)
    return pairs[True, True], pairs[True, False], pairs[False, True], pairs[False, False]


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


def _describe_method(kind: Kind, sides: Sides, terms: Terms) -> Iterator[str]:
    tasks = [side.clusters for side in count_by_cluster(sides, (), paired=kind == "paired")]
    if not any(trace.cluster for side in sides for trace in side):
        why = "no trace tells its task" if terms.cluster_by else "--cluster none"
        text = f"{_INDEPENDENT[kind]} ({why}: traces are treated as independent)."
        yield Note(text, "independent")
        return
    yield Note(
        f"{_OVER_TASKS[kind]} (at most 10,000 times). The intervals allow for traces that share"
        f" one of {tasks[0]} and {tasks[1]} tasks ({'+'.join(terms.cluster_by)}; a trace without a"
        " task counts as one).",
        "tasks",
    )
    if min(tasks) < LEAST_CLUSTERS:
        yield Note(
            f"Fewer than {LEAST_CLUSTERS} tasks on a side: no interval and no p"
            " (--cluster none treats traces as independent).",
            "few-tasks",
        )


def _describe_traces(
    values: Sequence[str],
    alone: tuple[int, int],
    left_out: Sequence[str],
    corrected: CorrectedDifferences | None,
) -> Iterator[str]:
    if any(alone):
        sizes = " and ".join(f"{n} of {value}" for value, n in zip(values, alone, strict=True) if n)
        yield Note(
            f"Judged traces without a judged partner are left out of the judge's own shares:"
            f" {sizes}.",
            "alone",
        )
    if left_out:
        yield describe_uncompared(left_out, " by the judge alone" if corrected else "")


def _describe_correction(
    values: Sequence[str],
    corrected: CorrectedDifferences | None,
    left: Sequence[str],
    terms: Terms,
    *,
    same: bool,
) -> Iterator[str]:
    if corrected is None:
        text = "Differences of the judge's own shares: its errors are not corrected."
        yield Note(text, "judge-only")
        if same:
            yield SAME_TRACES
        return
    yield from corrected.notes
    if left:
        yield (
            f"Corrected shares leave out {' and '.join(left)} traces: on a side none of them has a"
            " label."
        )
    yield from list_side_cautions(values, corrected.sides)
    yield from terms.warnings
