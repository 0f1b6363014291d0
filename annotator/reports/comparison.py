"""Two groups of traces, or two runs, side by side: differences with intervals and tests."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter

import numpy as np

from annotator.base.errors import AnnotatorError
from annotator.calibration.estimates import list_cautions
from annotator.calibration.model import Calibrations
from annotator.reports.comparison_corrected import (
    CorrectedDifferences,
    choose_answers,
    correct_differences,
)
from annotator.reports.comparison_sides import (
    JUDGE,
    RUN,
    EmptySide,
    JudgedTrace,
    Kind,
    Sides,
    Terms,
    count_groups,
    drop_repeated,
    read_sides,
)
from annotator.rubrics import NONE, Scheme, name_group
from annotator.runs.run import Run, name_runs
from validation import (
    LEAST_CLUSTERS,
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
    permute_clusters,
    run_fisher_test,
    run_mcnemar_test,
)

_ENOUGH = 0.5  # of both sides must have a partner for a paired comparison


@dataclass(frozen=True, slots=True)
class Difference:
    """One code: its share on both sides, their difference (first minus second), and a test.

    ``adjusted`` is the test's p by Holm over the codes. ``corrected`` is the difference of the
    shares corrected for the judge's errors, with its test and its p by Holm; None without a
    calibration.
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


@dataclass(frozen=True, slots=True)
class GroupComparison:
    """Two groups by one rubric in ``runs`` (ids), judged by ``judges`` (id and hash of each).

    ``kind`` says how they belong together: ``paired`` by trace, ``same tasks`` without a partner
    for each trace, or ``independent``. ``alone``: the judged traces of each side that have no
    partner and are left out of a paired comparison. ``code_groups``: the rows of groups of codes, a
    family of tests of their own for Holm. ``pooled``: the corrected differences take the judge's
    error rates from the labels of both sides together.
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
    first: str,
    second: str,
    calibrations: Calibrations | None = None,
    *,
    cluster: Sequence[str] | None = None,
    pool: bool = False,
    notice: Callable[[str], None] | None = None,
) -> list[GroupComparison]:
    """Compare the traces of ``runs`` with one value of an attribute with those with another, by
    every rubric that the runs have in common.

    ``attribute`` may be ``run`` (see :func:`name_runs`) or ``judge``. Traces are paired by id
    between runs and judges, else by task and the last part of the id; where that names a trace
    twice on a side, or leaves most without a partner, the groups are not paired. ``cluster``: the
    attributes that name a trace's task, none for independent traces; None: project and task, or
    those of the calibrations. ``pool``: see :func:`correct_differences`. ``notice`` is told why a
    rubric is not compared: by it no judged trace has one of the values.

    Raises:
        AnnotatorError: the runs have no rubric in common, none of them can be compared, or a
            calibration is not of its run.
    """
    if first == second:
        raise AnnotatorError(f"{attribute} = {first}: both sides of the comparison are the same")
    schemes = [run.schemes for run in runs]
    shared = [
        scheme
        for name, scheme in schemes[0].items()
        if all(name in other and other[name].sha256 == scheme.sha256 for other in schemes)
    ]
    if not shared:
        raise AnnotatorError("the runs have no rubric (of the same version) in common")
    judges = tuple(dict.fromkeys((run.judge, run.judge_sha256) for run in runs))
    names = (attribute, first, second)
    ids = tuple(run.id for run in runs)
    parts = [
        f"{name}: {note}"
        for name, run in zip(name_runs(runs), runs, strict=True)
        for note in run.manifest.limitations
    ]
    comparisons, empty = [], []
    for scheme in shared:
        stored = (calibrations or {}).get(scheme.id, ())
        try:
            sides, terms, left = read_sides(runs, scheme, names, stored, cluster)
        except EmptySide as error:
            empty.append(str(error))
            continue
        versions = [other[scheme.id] for other in schemes]  # by what each judge can find
        judged = [frozenset() if version.screens else version.judged for version in versions]
        comparison = _compare_by(
            scheme, judges, sides, names, judged, terms, calibrated=bool(stored), pool=pool
        )
        comparisons.append(replace(comparison, runs=ids, notes=(*comparison.notes, *left, *parts)))
    if not comparisons:
        raise EmptySide("; ".join(empty))
    if notice:
        for reason in empty:
            notice(f"not compared: {reason}")
    return comparisons


def _compare_by(
    scheme: Scheme,
    judges: tuple[tuple[str, str], ...],
    sides: Sides,
    names: tuple[str, str, str],
    judged: Sequence[frozenset[str]],
    terms: Terms,
    *,
    calibrated: bool,
    pool: bool,
) -> GroupComparison:
    everything = sides
    sides = _keep_decided(sides)
    kind, alone = _kind(*sides), (0, 0)
    if pool and terms.population == "corpus":
        raise AnnotatorError("--pool is not for calibrations of a corpus: leave it out")
    if pool and kind != "independent":
        raise AnnotatorError(
            f"--pool is for independent groups, and these are {kind}: leave it out"
        )
    if kind == "paired":
        sizes = [len(side) for side in sides]
        sides = _pair(sides)
        alone = (sizes[0] - len(sides[0]), sizes[1] - len(sides[1]))
    everything, left = _keep_counted(everything, kind)
    # The same traces have the same true shares: their labels distinguish judges, not traces.
    same = kind == "paired" and names[0] in (RUN, JUDGE)
    codes = [code for code in scheme.ids if code in frozenset.intersection(*judged)]
    codes += [NONE] if len(set(judged)) == 1 and judged[0] else []
    correctable = calibrated and not same
    # Labels tell of every code, whatever a judge can find, if they are of all its answers.
    shown = list(scheme.labels) if correctable and "undecided" not in left else codes
    groups, shown_groups = (
        [name_group(name) for name, ids in scheme.groups.items() if set(ids) <= set(some)]
        for some in (codes, shown)
    )
    corrected: CorrectedDifferences | None = None
    rows = _compare_shown(sides, codes, shown, kind, terms.confidence)
    grouped = count_groups(sides, scheme)
    group_rows = _compare_shown(grouped, groups, shown_groups, kind, terms.confidence)
    if correctable:
        corrected = correct_differences(everything, shown, kind, terms, pool=pool)
        rows = _add_corrected(rows, corrected)
        of_groups = count_groups(everything, scheme)
        group_rows = _add_corrected(
            group_rows, correct_differences(of_groups, shown_groups, kind, terms, pool=pool)
        )
    left_out = [code for code in scheme.labels if code not in codes]
    return GroupComparison(
        scheme,
        judges,
        *names,
        kind,
        (len(sides[0]), len(sides[1])),
        alone,
        terms.confidence,
        tuple(rows),
        sum(row.adjusted is not None for row in rows),
        tuple(_notes(kind, alone, left_out, sides, corrected, left, terms, same=same)),
        code_groups=tuple(group_rows),
        pooled=pool and correctable,
    )


def _compare_shown(
    sides: Sides, codes: Sequence[str], shown: Sequence[str], kind: Kind, confidence: float
) -> list[Difference]:
    """Return a row for each code that is shown; of those that the judges cannot be compared on, its
    counts alone.
    """
    rows = {row.code: row for row in compare_codes(sides, codes, kind, confidence)}
    reason = "a judge cannot find it, or is a screen"
    n = sum(map(len, sides))
    for code in shown:
        if code not in rows:
            first, second = (
                Interval(
                    *(None, 0.0, 1.0, sum(code in trace.labels for trace in side), len(side)),
                    *(confidence, "none", reason),
                )
                for side in sides
            )
            gap = Estimate("difference", None, None, None, n, confidence, "none", reason)
            test = Test("none", None, None, n, reason)
            rows[code] = Difference(code, first, second, gap, test, None)
    return [rows[code] for code in shown]


def _add_corrected(rows: list[Difference], corrected: CorrectedDifferences) -> list[Difference]:
    gaps = zip(rows, corrected.gaps, corrected.tests, corrected.adjusted, strict=True)
    return [
        replace(row, corrected=gap, corrected_test=test, corrected_adjusted=p)
        for row, gap, test, p in gaps
    ]


def _keep_decided(sides: Sides) -> Sides:
    """Return the traces of both sides that the judge decided."""
    first, second = ([trace for trace in side if not trace.open] for side in sides)
    return first, second


def _keep_counted(sides: Sides, kind: Kind) -> tuple[Sides, list[str]]:
    """Return the traces of both sides that count in corrected shares, as :func:`choose_answers`
    says, of pairs both or neither; and the statuses of those that do not count.
    """
    counted, left = choose_answers(sides)
    first, second = ([trace for trace in side if trace.open in counted] for side in sides)
    if kind == "paired":
        first, second = (drop_repeated(side, attrgetter("key")) for side in (first, second))
        first, second = _pair((first, second))
        # The labels that made an answer count may have been of traces without a partner.
        if choose_answers((first, second))[1]:
            kept, more = _keep_counted((first, second), kind)
            return kept, [*left, *more]
    return (first, second), left


def _kind(first: list[JudgedTrace], second: list[JudgedTrace]) -> Kind:
    keys = [[trace.key for trace in side] for side in (first, second)]
    shared = set(keys[0]) & set(keys[1])
    unique = all(len(set(side)) == len(side) for side in keys)
    if unique and len(shared) >= _ENOUGH * max(map(len, keys)):
        return "paired"
    tasks = [{trace.cluster for trace in side} - {None} for side in (first, second)]
    return "same tasks" if tasks[0] & tasks[1] else "independent"


def _pair(sides: Sides) -> Sides:
    """Return the traces of both sides that have a partner, in the same order."""
    partners = {trace.key: trace for trace in sides[1]}
    first = [trace for trace in sides[0] if trace.key in partners]
    return first, [partners[trace.key] for trace in first]


def compare_codes(
    sides: Sides, codes: Sequence[str], kind: Kind, confidence: float
) -> list[Difference]:
    """Return a row for each code, over tasks where any trace tells its own."""
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
    # What no pair and no task differs in (p is 1 by convention) is no test that Holm would count.
    untested = [r.test.p == 1 and bool(r.test.reason) and r.test.name != "fisher" for r in rows]
    p_values = [None if no else row.test.p for row, no in zip(rows, untested, strict=True)]
    adjusted = adjust_p_values(p_values, "holm")
    return [replace(row, adjusted=p) for row, p in zip(rows, adjusted, strict=True)]


def _compare_independent(code: str, sides: Sides, kind: Kind, confidence: float) -> Difference:
    """Return the row of a code where traces, or pairs of them, are independent."""
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
    if first.k + second.k in (0, first.n + second.n):  # nothing to test, nor for Holm to count
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
    least = 0.0
    if kind == "paired":
        _, b, c, _ = _count_pairs(code, sides)
        n = len(sides[0])
        least = ((b + c) / n - ((b - c) / n) ** 2) / n
    gap = estimate_clustered_difference(*totals, confidence, least)
    return Difference(code, first, second, gap, _UNTESTED, None)


_UNTESTED = Test("permutation", None, None, 0)


def _count_pairs(code: str, sides: Sides) -> tuple[int, int, int, int]:
    """Return how many pairs have the code on both sides, the first, the second, and none."""
    partners = zip(*sides, strict=True)
    pairs = Counter((code in trace.labels, code in partner.labels) for trace, partner in partners)
    return pairs[True, True], pairs[True, False], pairs[False, True], pairs[False, False]


def count_by_cluster(
    sides: Sides, codes: Sequence[str], *, paired: bool
) -> tuple[SideTotals, SideTotals]:
    """Return both sides' traces by task, and those with each code; a trace that tells none is of
    its own, or of its pair's.
    """
    clusters = [
        [trace.cluster or (0 if paired else n, trace.key) for trace in side]
        for n, side in enumerate(sides)
    ]
    places = {name: place for place, name in enumerate(dict.fromkeys(chain(*clusters)))}
    first, second = (
        _count_side(side, [places[name] for name in names], codes, len(places))
        for side, names in zip(sides, clusters, strict=True)
    )
    return first, second


def _count_side(
    side: Sequence[JudgedTrace], places: Sequence[int], codes: Sequence[str], clusters: int
) -> SideTotals:
    k, n = np.zeros((len(codes), clusters)), np.zeros(clusters)
    rows = {code: row for row, code in enumerate(codes)}
    for trace, place in zip(side, places, strict=True):
        n[place] += 1
        for label in trace.labels:
            if label in rows:
                k[rows[label], place] += 1
    return SideTotals(k, n)


def _notes(
    kind: Kind,
    alone: tuple[int, int],
    left_out: Sequence[str],
    sides: Sides,
    corrected: CorrectedDifferences | None,
    left: Sequence[str],
    terms: Terms,
    *,
    same: bool,
) -> Iterator[str]:
    tasks = [len({trace.cluster for trace in side} - {None}) for side in sides]
    if any(tasks):
        way = {
            "paired": "Paired by trace; the test swaps the sides of whole tasks",
            "same tasks": "The same tasks on both sides, but no partner for each trace; the test"
            " swaps the sides of whole tasks",
            "independent": "Independent groups; the test deals whole tasks to the sides anew",
        }[kind]
        by = "+".join(terms.cluster_by)
        yield (
            f"{way} (10,000 times at most), the interval is from the variance over tasks, Student's"
            f" t ({tasks[0]} and {tasks[1]} tasks by {by}; a trace that tells none is of its own)."
        )
        if min(tasks) < LEAST_CLUSTERS:
            yield (
                f"Fewer than {LEAST_CLUSTERS} tasks on a side: no interval and no p"
                " (--cluster none treats traces as independent)."
            )
    else:
        why = "no trace tells its task" if terms.cluster_by else "--cluster none"
        yield {
            "paired": "Paired by trace: Newcombe's interval for pairs, exact McNemar test",
            "same tasks": "",
            "independent": "Independent groups: Newcombe's interval, Fisher's exact test",
        }[kind] + f" ({why}: traces are treated as independent)."
    if any(alone):
        yield (
            f"{alone[0]} and {alone[1]} judged traces without a judged partner are left out of the"
            " judge's own shares."
        )
    if left_out:
        why = "a judge cannot find them, or only reports what it recognises"
        by = "" if corrected is None else " by the judge alone"
        yield f"Not compared{by}, because {why}: {', '.join(left_out)}."
    if corrected is None:
        yield "Differences of the judge's own shares: its errors are not corrected."
        if same:
            yield "The same traces have the same true shares: corrected ones are not compared."
        return
    yield from corrected.notes
    if left:
        yield (
            f"Corrected shares leave out {' and '.join(left)} traces: on a side none of them has a"
            " label."
        )
    for name, people, shares in zip(
        ("first", "second"), corrected.people, corrected.shares, strict=True
    ):
        for caution in list_cautions(people, shares):
            yield f"{name}: {caution}"
    yield from terms.warnings
