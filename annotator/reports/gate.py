"""The gate: whether a new version of an agent system fails more than the one before, by code."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from statistics import NormalDist
from typing import Literal

from annotator.base.errors import AnnotatorError
from annotator.base.text import Note, list_first, sanitize_line, suggest
from annotator.calibration.drift import CodeDrift, measure_drift
from annotator.calibration.model import Calibrations
from annotator.reports.comparison import (
    NOT_COMPARABLE,
    ComparedCode,
    ConditionComparison,
    adjust_tests,
    compare,
    list_groups,
)
from annotator.reports.corrected import count_labels
from annotator.reports.digits import Share, format_points
from annotator.reports.notes import rank_notes
from annotator.reports.sides import RUN
from annotator.rubrics import Scheme, name_group
from annotator.rubrics.annotations import JUDGED, Finding
from annotator.runs.anchors import Anchors
from annotator.runs.manifest import JUDGING, list_differences
from annotator.runs.run import Run, name_runs
from annotator.traces.clusters import DEFAULT_CLUSTER
from validation import Estimate, Test, subtract_estimates
from validation.intervals import compute_quantile

GateWord = Literal["worse", "moved", "not decided", "better", "held"]
POWER = 0.8
_POWER_QUANTILE = NormalDist().inv_cdf(POWER)
_OPEN = 0.05  # of the traces; the note on more undecided and failed ones comes first
_LARGEST = 3  # drifts in a note
_LABELLED = "The labels correct the judge of each run: the anchors are not used."
_QUOTES = 3  # of what got worse
Quoted = tuple[str, Finding]  # with the trace id


@dataclass(frozen=True, slots=True)
class GateRow:
    """One code, or group of codes, and its word.

    ``difference``: new minus base, in [-1, 1]. ``adjusted``: p by Holm. ``more``: how many more
    traces a side (with corrected shares: labels) decide it with 80 % power if the difference stays
    as estimated; None if it is decided, or with a ``reason``. A moved code has a reason if its
    group is not decided. ``detects``: the smallest rise that
    is called worse with 80 % power.
    """

    code: str
    word: GateWord
    base: Share
    new: Share
    difference: Estimate
    test: Test
    adjusted: float | None
    corrected: bool
    more: int | None = None
    detects: float | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class GatedRubric:
    """The rows of one rubric. ``tolerance``: a share. ``left_out``: codes that are not gated.
    ``quotes``: findings of the new run, of codes that are worse. ``drift``: of the judge between
    the runs, by the anchors.
    """

    compared: ConditionComparison
    rows: tuple[GateRow, ...]
    groups: tuple[GateRow, ...]
    tolerance: float
    left_out: tuple[str, ...]
    notes: tuple[str, ...]
    quotes: tuple[Quoted, ...]
    drift: tuple[CodeDrift, ...] = ()

    @property
    def exit_code(self) -> int:
        """1 if a row is worse, else 4 if one is not decided, else 0."""
        results = {row.word for row in (*self.rows, *self.groups)}
        if "worse" in results:
            return 1
        return 4 if "not decided" in results else 0  # a moved code follows its group


def is_held(difference: Estimate, tolerance: float) -> bool:
    """Whether the interval excludes a rise beyond the tolerance."""
    return difference.high is not None and difference.high <= tolerance


def decide_rows(
    rows: Sequence[ComparedCode],
    groups: Sequence[ComparedCode],
    members: Mapping[str, Sequence[str]],
    tolerance: float,
    level: float = 0.05,
) -> tuple[list[GateRow], list[GateRow]]:
    """Return the rows of codes and of groups with their words.

    Args:
        rows: codes of a comparison of two sides, with differences new minus base. Corrected ones
            replace the judge's own.
        groups: groups of codes; Holm counts their tests apart.
        members: the codes of each group.
        tolerance: the largest rise that passes, as a share.
        level: of the tests, adjusted by Holm.
    """
    codes, totals = (_decide_family(family, tolerance, level) for family in (rows, groups))
    moved: dict[str, str | None] = {}
    for total in totals:
        gap = total.difference.value
        is_flat = gap is not None and abs(gap) <= tolerance
        if not is_flat or _is_significant(total, level):
            continue
        of_group = [row for row in codes if row.code in members[total.code]]
        significant = [x for x in of_group if _is_significant(x, level)]
        if significant:  # one test is passed: its level is free for the rest of the group
            rest = [x for x in of_group if x not in significant]
            adjusted = zip(rest, adjust_tests([x.test for x in rest]), strict=True)
            significant += [x for x, p in adjusted if p is not None and p <= level]
        # Of traces with several codes the total may be flat though more came than went.
        came = sum(row.difference.value or 0.0 for row in of_group)
        signs = {(row.difference.value or 0.0) > 0 for row in significant}
        if came <= tolerance and len(signs) == 2:
            why = None if total.word == "held" else "its group is not decided"
            moved |= dict.fromkeys([row.code for row in significant], why)
    marked = [
        replace(row, word="moved", reason=moved[row.code]) if row.code in moved else row
        for row in codes
    ]
    return marked, totals


def _is_significant(row: GateRow, level: float) -> bool:
    return row.adjusted is not None and row.adjusted <= level


def _decide_family(rows: Sequence[ComparedCode], tolerance: float, level: float) -> list[GateRow]:
    """Return the rows of a family of tests, each decided by itself."""
    decided = [row for row in map(_start_row, rows) if row]
    adjusted = adjust_tests([row.test for row in decided])
    tests = max(1, sum(p is not None for p in adjusted))
    planned = []
    for row, p in zip(decided, adjusted, strict=True):
        row, gap = replace(row, adjusted=p), row.difference.value or 0.0
        if _is_significant(row, level) and gap > tolerance:
            row = replace(row, word="worse")
        elif _is_significant(row, level) and gap < 0:
            row = replace(row, word="better")
        elif is_held(row.difference, tolerance):
            row = replace(row, word="held")
        planned.append(_plan(row, tolerance, level / tests))
    return planned


def _start_row(row: ComparedCode) -> GateRow | None:
    """Return a row that is not decided yet; None if it has no difference."""
    shares: Sequence[Share] = row.shares
    gap, test, is_corrected = row.difference, row.test, row.corrected_test is not None
    if row.corrected_test:
        shares, gap, test = row.corrected, row.corrected_difference, row.corrected_test
    base, new = shares
    if gap is None:
        return None
    return GateRow(row.code, "not decided", base, new, gap, test, None, is_corrected)


def _plan(row: GateRow, tolerance: float, level: float) -> GateRow:
    """Return a row with the rise that it detects, and the traces that would decide it."""
    gap = row.difference
    why = (gap.reason or row.test.reason or "").replace("cluster", "task").replace("item", "trace")
    if gap.value is None or gap.low is None or gap.high is None:
        return replace(row, reason=why or "no interval")
    df = gap.inputs.get("df")
    limit, critical = compute_quantile(gap.confidence, df), compute_quantile(1 - level, df)
    error = (gap.high - gap.low) / 2 / limit
    row = replace(row, detects=find_detectable(row.base, error, critical, tolerance))
    if row.word != "not decided":
        return row
    beyond = gap.value - tolerance
    if beyond > 0 and row.test.p is None:
        return replace(row, reason=why)
    if not beyond:
        return replace(row, reason="the difference is the tolerance")
    need = (limit + _POWER_QUANTILE) / -beyond
    if beyond > 0:
        need = max((critical + _POWER_QUANTILE) / gap.value, _POWER_QUANTILE / beyond)
    # More traces leave the error of the judge's drift as it is.
    fixed = (gap.inputs.get("b_high", 0.0) - gap.inputs.get("b_low", 0.0)) / 2 / limit
    if need * fixed >= 1:
        return replace(row, reason="too few anchors")
    n = max(
        count_labels(share) if isinstance(share, Estimate) else share.n
        for share in (row.base, row.new)
    )
    times = (error**2 - fixed**2) / (1 / need**2 - fixed**2)
    return replace(row, more=max(1, math.ceil((times - 1) * n)))


def find_detectable(base: Share, error: float, critical: float, tolerance: float) -> float | None:
    """Return the smallest rise that is called worse with 80 % power; None if there is none.

    Args:
        base: the share of the base, in [0, 1], with its interval.
        error: the standard error of the difference.
        critical: the quantile of the test, adjusted for the number of tests.
        tolerance: the largest rise that passes, as a share.

    The variance of a share grows with the rise as that of single traces does. What it gains is not
    shared with the base, as the rise may differ from task to task.
    """
    n = count_labels(base) if isinstance(base, Estimate) else base.n
    share = ((base.value or 0.0) * n + 0.5) / (n + 1)  # one of 0 varies, too
    of_base = ((base.high or 0.0) - (base.low or 0.0)) / 2 / compute_quantile(base.confidence)
    rise = 0.0
    for _ in range(100):
        raised = min(1.0, share + rise)
        growth = raised * (1 - raised) / (share * (1 - share)) - 1
        scaled = math.sqrt(error**2 + of_base**2 * max(0.0, growth))
        rise = max(tolerance, critical * scaled) + _POWER_QUANTILE * scaled
    return rise if share + rise <= 1 else None


# Runs


def gate_runs(
    base: Run,
    new: Run,
    *,
    rubrics: Sequence[str] = (),
    codes: Sequence[str] = (),
    tolerance: float = 0.05,
    calibrations: Calibrations | None = None,
    cluster: Sequence[str] | None = None,
    anchors: Anchors | None = None,
) -> list[GatedRubric]:
    """Return the gate of two runs for each rubric. Arguments and errors are those of
    :func:`annotator.api.gate`; ``tolerance`` is a share.
    """
    names = rubrics or [name for name in base.schemes if name in new.schemes]
    schemes = [base.scheme(name) for name in names]
    _check_judges(base, new, schemes)
    available = [code for scheme in schemes for code in scheme.ids]
    for code in codes:
        if code not in available:
            raise AnnotatorError(f"--codes {code}: no such code{suggest(code, available)}")
    if anchors and anchors.rubric.id not in names:
        raise AnnotatorError(f"{anchors.folder}: its rubric, {anchors.rubric.id}, is not gated")
    gated, empty = [], []
    for scheme in schemes:
        selected = [code for code in scheme.ids if code in codes or not codes]
        compared, why = _compare_runs(base, new, scheme.id, calibrations, cluster)
        rows = {row.code: _subtract_first(row) for row in (*compared.rows, *compared.code_groups)}
        drift: tuple[CodeDrift, ...] = ()
        notes: list[Note] = []
        kept = [code for code in selected if code in rows and _has_share(rows[code])]
        left_out = tuple(code for code in selected if code not in kept)
        if left_out and (codes or not kept):
            empty.append(f"{list_first(left_out, 3)} cannot be gated by {base.judge}")
        elif kept:
            families = kept, list_groups(scheme, kept)
            if anchors and anchors.rubric.id == scheme.id and why:
                by = DEFAULT_CLUSTER if cluster is None else tuple(cluster)
                drift = measure_drift(base, new, anchors, by, compared.confidence)
                if drift:
                    notes += _describe_drift(drift, {code: rows[code] for code in kept}, anchors)
            elif anchors and anchors.rubric.id == scheme.id:
                notes.append(Note(_LABELLED, "labelled"))
            left, totals = (
                [_subtract_drift(rows[code], drift) for code in family] for family in families
            )
            decided, groups = decide_rows(
                left,
                totals,
                {name_group(name): ids for name, ids in scheme.groups.items()},
                tolerance,
                1 - compared.confidence,
            )
            if why and (open_ := _compare_open(base, new, scheme.id)):
                decided, groups = ([_mark_open(x, open_) for x in y] for y in (decided, groups))
            worse = [row.code for row in decided if row.word == "worse"]
            gated.append(
                GatedRubric(
                    compared,
                    tuple(decided),
                    tuple(groups),
                    tolerance,
                    left_out,
                    (*notes, *_list_notes(compared, (base, new), left_out, why)),
                    _select_quotes(new, scheme, worse),
                    drift,
                )
            )
    if empty and (codes or not gated):
        raise AnnotatorError(
            f"{'; '.join(empty)}: {NOT_COMPARABLE}. Labels of both runs give it a share: annotate"
            f" sample {new}"
        )
    notes = [Note(f"Not gated: {text}: {NOT_COMPARABLE}.", "no-rule") for text in empty]
    return [replace(each, notes=(*notes, *each.notes)) for each in gated]


def _check_judges(base: Run, new: Run, schemes: Sequence[Scheme]) -> None:
    """Raise :class:`AnnotatorError` unless both runs are by one judge, and of two systems."""
    if not schemes:
        raise AnnotatorError(f"{base} and {new} have no rubric in common")
    changed = [
        f"{scheme.id} was v{scheme.version} ({scheme.sha256[:12]}), is now"
        f" v{later.version} ({later.sha256[:12]})"
        for scheme in schemes
        if (later := new.scheme(scheme.id)).sha256 != scheme.sha256
    ]
    changed += [
        sanitize_line(line, 200) for line in list_differences(base.manifest, new.manifest, JUDGING)
    ]
    if changed:
        raise AnnotatorError(
            f"the judge changed between {base} and {new}, not only the system:"
            f" {list_first(changed, 3, '; ')}. Judge both in the same way, or look at both with"
            " annotate compare"
        )


def _compare_runs(
    base: Run,
    new: Run,
    rubric: str,
    calibrations: Calibrations | None,
    cluster: Sequence[str] | None,
) -> tuple[ConditionComparison, str]:
    """Return the comparison of two runs, and why it is not corrected by labels, "" if it is."""
    runs = base, new
    # Equal ids do not make the labels of one run those of the other.
    labels = [x for x in (calibrations or {}).get(rubric, ()) if x.run in (base.id, new.id)]
    lacking = [run for run in runs if run.id not in {x.run for x in labels}]
    names = " and ".join(map(str, lacking))
    why = f"no labels of {names}: annotate sample {lacking[0]}" if lacking else ""
    if calibrations is None:
        why = "no calibration is used"
    while True:
        source = None if why else {rubric: labels}
        try:
            [compared] = compare(
                *(runs, RUN, name_runs(runs), source),
                cluster=cluster,
                labelled=True,
                rubrics=[rubric],
                rerun=True,
            )
            return compared, why
        except AnnotatorError as error:
            if why:
                raise
            why = str(error)


def _has_share(row: ComparedCode) -> bool:
    return bool(row.corrected_test) or row.test.reason != NOT_COMPARABLE


def _subtract_first(row: ComparedCode) -> ComparedCode:
    """Return a row whose differences are second minus first."""
    gaps = {}
    for name in ("difference", "corrected_difference"):
        if (gap := getattr(row, name)) and gap.value is not None:
            low, high = (None if end is None else -end for end in (gap.high, gap.low))
            gaps[name] = replace(gap, value=-gap.value, low=low, high=high)
    return replace(row, **gaps)


def _describe_drift(
    drifts: Sequence[CodeDrift], rows: Mapping[str, ComparedCode], anchors: Anchors
) -> Iterator[Note]:
    """Yield the two parts of the differences with the largest drifts, and the codes without."""
    parts, named = [], {each.code for each in drifts}
    for each in sorted(drifts, key=lambda each: -abs(each.drift.value or 0.0)):
        if each.code not in rows:
            continue
        of_all = rows[each.code].difference
        gaps = of_all, each.drift, _subtract_drift(rows[each.code], drifts).difference
        total, of_judge, of_system = (format_points(gap)[0] for gap in gaps)
        parts.append(f"{each.code}: {total} = {of_judge} judge, {of_system} system")
    n = len(anchors.trace_ids)
    if parts:
        text = f"The judge's part, measured on {n} anchors, is taken out"
        yield Note(f"{text}. Largest: {'; '.join(parts[:_LARGEST])}.", "drift")
    if rare := [code for code in rows if code not in named]:
        yield Note(f"None of {n} anchors has {', '.join(rare)}: nothing is taken out.", "rare")


def _subtract_drift(row: ComparedCode, drifts: Sequence[CodeDrift]) -> ComparedCode:
    """Return a row with the system's part of its difference, if the anchors have its code."""
    for each in drifts:
        if row.difference and each.code == row.code:
            system = subtract_estimates(row.difference, each.drift)
            why = system.reason and system.reason.replace("the second", "the judge's drift")
            system = replace(system, reason=why)
            return replace(row, difference=system, test=_test_system(system))
    return row


def _test_system(system: Estimate) -> Test:
    """Return the normal test by the distance to the limit on the side of 0."""
    if system.value is None or system.low is None or system.high is None:
        return Test("mover", None, None, system.n, system.reason)
    limit = system.low if system.value > 0 else system.high
    z = compute_quantile(system.confidence) * system.value / (abs(system.value - limit) or math.inf)
    return Test("mover", z, 2 * NormalDist().cdf(-abs(z)), system.n, None)


def _list_notes(
    compared: ConditionComparison, runs: Sequence[Run], left_out: Sequence[str], why: str
) -> tuple[str, ...]:
    """Return the notes, the most damaging first."""
    notes = rank_notes(compared.notes, corrected=not why)
    for run in runs:
        count, total = _count_open(run, compared.rubric.id)
        if why and count > _OPEN * total:
            notes.sort(key=lambda note: getattr(note, "id", "") != "undecided")
    extra = []
    if why:
        text = f"The judge's own shares, not corrected by labels ({why}): its errors may differ."
        extra.append(Note(text, "judge-only"))
    if left_out:
        extra.append(Note(f"Not gated, {NOT_COMPARABLE}: {', '.join(left_out)}.", "no-rule"))
    ids = {note.id for note in extra}
    return (*extra, *(note for note in notes if getattr(note, "id", "") not in ids))


def _count_open(run: Run, rubric: str) -> tuple[int, int]:
    """Return the number of undecided and failed traces, and of all that were not skipped."""
    statuses = [x.status for x in run.annotations(rubric) if x.status != "skipped"]
    return sum(status not in JUDGED for status in statuses), len(statuses)


def _compare_open(base: Run, new: Run, rubric: str) -> str | None:
    """Return why nothing held, if one run has many more undecided and failed traces."""
    counts = [_count_open(run, rubric) for run in (base, new)]
    shares = [count / total if total else 0.0 for count, total in counts]
    if abs(shares[1] - shares[0]) <= _OPEN:
        return None
    named = "as {} of {} traces of base and {} of {} of new are undecided or failed"
    return named.format(*counts[0], *counts[1])


def _mark_open(row: GateRow, why: str) -> GateRow:
    """Return a row that held or is better as not decided; a moved code follows its group."""
    if row.word == "moved":
        return replace(row, reason=row.reason or "its group is not decided")
    if row.word not in ("held", "better"):
        return row
    return replace(row, word="not decided", reason=why)


def _select_quotes(run: Run, scheme: Scheme, codes: Sequence[str]) -> tuple[Quoted, ...]:
    """Return findings of codes, of each code in turn."""
    findings: dict[str, list[Quoted]] = {code: [] for code in codes}
    for trace in run.annotations(scheme.id) if codes else ():
        labels = scheme.labels_of(trace) if trace.status in JUDGED else ()
        for finding in trace.findings:
            if finding.code in codes and finding.code in labels:
                findings[finding.code].append((trace.trace_id, finding))
    turns = zip_longest(*(quoted[:_QUOTES] for quoted in findings.values()))
    return tuple(quoted for turn in turns for quoted in turn if quoted)[:_QUOTES]
