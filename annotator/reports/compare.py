"""Two groups of traces, or two runs, side by side: differences with intervals and tests."""

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from annotator.annotations import Annotation
from annotator.calibration.correct import Calibrations, Stored, labelled_in, misfit, own
from annotator.calibration.estimates import Judged, Labelled, estimate_code
from annotator.calibration.frame import (
    DEFAULT_CLUSTER,
    RubricInfo,
    cluster_of,
    empty_frame,
    found,
    read_checked,
    read_frame,
    rubrics_of,
)
from annotator.errors import AnnotatorError
from annotator.reports.frequency import value_of
from annotator.reports.writers import UNDEFINED, percent, ruled
from annotator.rubrics import NONE
from annotator.text import harmless, one_line
from validation import (
    Estimate,
    Interval,
    Test,
    adjust,
    cluster_bootstrap,
    difference,
    fisher,
    mcnemar,
    mover,
    paired_difference,
    wilson,
)
from validation.resampling import Floats

RUN, JUDGE = "run", "judge"  # what can be compared besides attributes
Kind = Literal["paired", "same tasks", "independent"]
_ENOUGH = 0.5  # of the smaller side must have a partner for a paired comparison


@dataclass(frozen=True, slots=True)
class Difference:
    """One code: its share on both sides, their difference (first minus second), and a test.

    ``adjusted`` is the test's p by Holm over the codes. ``corrected`` is the difference of the
    shares corrected for the judge's errors, None without a calibration.
    """

    code: str
    first: Interval
    second: Interval
    difference: Estimate
    test: Test
    adjusted: float | None
    corrected: Estimate | None


@dataclass(frozen=True, slots=True)
class Compared:
    """Two groups by one rubric. ``kind`` says how they belong together: ``paired`` by trace,
    ``same tasks`` without a partner for each trace, or ``independent``. ``alone``: the judged
    traces of each side that have no partner and are left out of a paired comparison.
    """

    rubric: RubricInfo
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


@dataclass(frozen=True, slots=True)
class _Seen:
    """A judged trace: what pairs it, its task, the labels that are counted, and a person's."""

    key: Hashable
    task: str | None
    labels: tuple[str, ...]
    person: Labelled | None


_Sides = tuple[list[_Seen], list[_Seen]]


def compare(
    runs: Sequence[Path],
    attribute: str,
    first: str,
    second: str,
    calibrations: Calibrations | None = None,
) -> list[Compared]:
    """Compare the traces of ``runs`` with one value of an attribute with those with another, by
    every rubric that the runs have in common.

    ``attribute`` may be ``run`` (the names of the run directories) or ``judge``. Traces are paired
    by id between runs and judges, else by task and the last part of the id; where that names a
    trace twice on a side, or leaves most without a partner, the groups are not paired.

    Raises:
        AnnotatorError: the runs have no rubric in common, no judged trace has one of the values, or
            a calibration is not of its run.
    """
    known = [rubrics_of(run) for run in runs]
    shared = [
        info
        for name, info in known[0].items()
        if all(name in other and other[name].sha256 == info.sha256 for other in known)
    ]
    if not shared:
        raise AnnotatorError("the runs have no rubric (of the same version) in common")
    names = (attribute, first, second)
    found_ = []
    for info in shared:
        stored = (calibrations or {}).get(info.id, ())
        sides, confidence = _sides(runs, info, names, stored)
        judged = [other[info.id].judged for other in known]
        found_.append(_compared(info, sides, names, judged, confidence, calibrated=bool(stored)))
    return found_


def _sides(
    runs: Sequence[Path],
    info: RubricInfo,
    names: tuple[str, str, str],
    calibrations: Sequence[Stored],
) -> tuple[_Sides, float]:
    """Return the judged traces of both sides, and the confidence of the calibrations."""
    attribute, *values = names
    sides: dict[str, list[_Seen]] = {value: [] for value in values}
    there: Counter[str] = Counter()
    levels: set[float] = set()
    for run in runs:
        people: dict[str, Labelled] = {}
        if calibrations:
            people, level = _people(run, info, calibrations)
            levels.add(level)
        for annotation in read_checked(run, info):
            if annotation.status not in ("labelled", "none"):
                continue
            value = _value(annotation, attribute, run, runs)
            there[value] += 1
            if value in sides:
                person = people.get(annotation.trace_id)
                sides[value].append(_seen(annotation, info, attribute, person))
    for name, traces in sides.items():
        if not traces:
            counts = ", ".join(f"{one} ({n})" for one, n in there.most_common(12))
            raise AnnotatorError(
                f"--compare {name}: no trace judged by {info.id} has {attribute} = {name}; there"
                f" are {counts or 'none at all'}"
            )
    if len(levels) > 1:
        raise AnnotatorError("the calibrations have different confidences: calibrate again")
    return (sides[values[0]], sides[values[1]]), max(levels, default=0.95)


def _people(
    run: Path, info: RubricInfo, calibrations: Sequence[Stored]
) -> tuple[dict[str, Labelled], float]:
    """Return the labelled traces of a run, weighted so that they stand for all it has judged."""
    frame = empty_frame(run, info.id)
    stored = own(calibrations, frame)
    wanted = {one.trace_id for one in stored.joined}
    frame = read_frame(run, info.id, wanted=wanted, cluster=stored.cluster_by)
    if why := misfit(stored, frame, run):
        raise AnnotatorError(
            f"the calibration for {info.id} does not fit: {why}. Groups are compared by the labels"
            " of their own traces: calibrate this run"
        )
    rows = labelled_in(stored, frame)
    scale = frame.total / sum(row.weight for row in rows) if rows else 1.0
    people = {row.trace_id: replace(row, weight=row.weight * scale) for row in rows}
    return people, stored.confidence


def _value(annotation: Annotation, attribute: str, run: Path, runs: Sequence[Path]) -> str:
    if attribute == RUN:
        same = sum(other.resolve().name == run.resolve().name for other in runs) > 1
        return str(run) if same else run.resolve().name
    return annotation.judge if attribute == JUDGE else value_of(annotation, attribute)


def _seen(
    annotation: Annotation, info: RubricInfo, attribute: str, person: Labelled | None
) -> _Seen:
    task = cluster_of(annotation.attributes, DEFAULT_CLUSTER)
    key: Hashable = annotation.trace_id
    if attribute not in (RUN, JUDGE) and task is not None:
        key = (task, annotation.trace_id.rpartition("/")[2])
    return _Seen(key, task, found(annotation, info), person)


def _compared(
    info: RubricInfo,
    sides: _Sides,
    names: tuple[str, str, str],
    judged: Sequence[frozenset[str]],
    confidence: float,
    *,
    calibrated: bool,
) -> Compared:
    kind, alone = _kind(*sides), (0, 0)
    if kind == "paired":
        pairs = _pairs(*sides)
        alone = (len(sides[0]) - len(pairs), len(sides[1]) - len(pairs))
        sides = ([one for one, _ in pairs], [other for _, other in pairs])
    codes = [code for code in info.codes if all(code in one for one in judged)]
    codes += [NONE] if len(set(judged)) == 1 else []
    gaps = [_difference(code, sides, kind, confidence) for code in codes]
    adjusted = adjust([test.p for _, test in gaps], "holm")
    rows = []
    for code, (estimate, test), p in zip(codes, gaps, adjusted, strict=True):
        counts = [sum(code in one.labels for one in side) for side in sides]
        one, other = (
            wilson(k, len(side), confidence) for k, side in zip(counts, sides, strict=True)
        )
        corrected = _corrected(code, sides, confidence) if calibrated else None
        rows.append(Difference(code, one, other, estimate, test, p, corrected))
    left = [code for code in info.labels if code not in codes]
    return Compared(
        info,
        *names,
        kind,
        (len(sides[0]), len(sides[1])),
        alone,
        confidence,
        tuple(rows),
        sum(p is not None for p in adjusted),
        tuple(_notes(kind, alone, left, sides if calibrated else None)),
    )


def _kind(first: list[_Seen], second: list[_Seen]) -> Kind:
    keys = [[one.key for one in side] for side in (first, second)]
    both = set(keys[0]) & set(keys[1])
    unique = all(len(set(side)) == len(side) for side in keys)
    if unique and len(both) >= _ENOUGH * min(map(len, keys)):
        return "paired"
    tasks = [{one.task for one in side} - {None} for side in (first, second)]
    return "same tasks" if tasks[0] & tasks[1] else "independent"


def _pairs(first: list[_Seen], second: list[_Seen]) -> list[tuple[_Seen, _Seen]]:
    partners = {one.key: one for one in second}
    return [(one, partners[one.key]) for one in first if one.key in partners]


def _difference(code: str, sides: _Sides, kind: Kind, confidence: float) -> tuple[Estimate, Test]:
    flags = [[code in one.labels for one in side] for side in sides]
    if kind == "paired":
        cells = Counter(zip(*flags, strict=True))
        alone = cells[True, False], cells[False, True]
        both, neither = cells[True, True], cells[False, False]
        return paired_difference(both, *alone, neither, confidence), mcnemar(*alone)
    (k1, n1), (k2, n2) = [(sum(side), len(side)) for side in flags]
    test = fisher([[k1, n1 - k1], [k2, n2 - k2]])
    if kind == "independent":
        return difference(k1, n1, k2, n2, confidence), test
    return _over_tasks(sides, flags, confidence), test


def _over_tasks(sides: _Sides, flags: Sequence[Sequence[bool]], confidence: float) -> Estimate:
    """Return the difference with an interval by resampling tasks, which both sides share."""
    rows: dict[Hashable, int] = {}
    totals: list[list[float]] = []
    for side, (traces, flagged) in enumerate(zip(sides, flags, strict=True)):
        for one, flag in zip(traces, flagged, strict=True):
            row = rows.setdefault(one.task or (side, one.key), len(rows))
            if row == len(totals):
                totals.append([0.0] * 4)
            totals[row][2 * side] += flag
            totals[row][2 * side + 1] += 1

    def gap(sums: Floats) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            gaps: Floats = sums[:, 0] / sums[:, 1] - sums[:, 2] / sums[:, 3]
        return gaps

    made = cluster_bootstrap(np.asarray(totals), gap, confidence=confidence)
    n = sum(map(len, sides))
    return made.estimate("difference", n, {"tasks": len(totals)}, "a side has no traces")


def _corrected(code: str, sides: _Sides, confidence: float) -> Estimate:
    """Return the difference of the corrected shares, each side by the labels of its traces."""
    shares = []
    for side in sides:
        tasks: dict[str, list[int]] = {}
        for n, one in enumerate(side):
            counts = tasks.setdefault(one.task or f"{n}", [0, 0])
            counts[0] += code in one.labels
            counts[1] += 1
        columns = tuple(zip(*tasks.values(), strict=True))
        people = [one.person for one in side if one.person]
        flagged = sum(code in one.labels for one in side)
        judged = Judged(len(side), flagged, (columns[0], columns[1]))
        shares.append(estimate_code(code, judged, people, confidence).corrected)
    return mover(*shares)


def _notes(
    kind: Kind, alone: tuple[int, int], left: Sequence[str], calibrated: _Sides | None
) -> Iterator[str]:
    yield {
        "paired": "Paired by trace: Newcombe's interval for pairs, exact McNemar test"
        " (pairs of one task are treated as independent).",
        "same tasks": "The same tasks on both sides, but no partner for each trace: interval by"
        " resampling tasks; the Fisher test treats traces as independent.",
        "independent": "Independent groups: Newcombe's interval, Fisher's exact test"
        " (traces of one task are treated as independent).",
    }[kind]
    if any(alone):
        yield f"{alone[0]} and {alone[1]} judged traces without a partner are left out."
    if left:
        yield f"Not compared, because a judge cannot find them: {', '.join(left)}."
    if calibrated is None:
        yield "Differences of the judge's own shares: its errors are not corrected."
        return
    labels = [sum(one.person is not None for one in side) for side in calibrated]
    yield (
        f"Corrected: each side by the labels of its own traces ({labels[0]} and {labels[1]}),"
        " limits combined by MOVER as if the sides were independent."
    )


def _rows(one: Compared) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the heading and the rows of a comparison as text; differences in points."""
    corrected = any(row.corrected for row in one.rows)
    rows: list[tuple[str, ...]] = []
    for row in one.rows:
        cells: tuple[str, ...] = (
            one_line(row.code, 64),
            f"{row.first.k}/{row.first.n}",
            percent(row.first),
            f"{row.second.k}/{row.second.n}",
            percent(row.second),
            *_points(row.difference),
            _p(row.test.p),
            _p(row.adjusted),
        )
        rows.append((*cells, *_points(row.corrected)) if corrected else cells)
    level = f"{100 * one.confidence:g} % interval"
    header = ("code", "first", "%", "second", "%", "difference", level, "p", "p (Holm)")
    return (*header, "corrected", level) if corrected else header, rows


def _points(one: Estimate | None) -> tuple[str, str]:
    """Return a difference and its interval in percentage points, "-" where there is none."""
    if one is None or one.value is None:
        return UNDEFINED, UNDEFINED
    value = f"{100 * one.value:+.1f}"
    if one.low is None or one.high is None:
        return value, UNDEFINED
    return value, f"[{100 * one.low:+.1f}, {100 * one.high:+.1f}]"


def _p(value: float | None) -> str:
    if value is None:
        return UNDEFINED
    return "<.0001" if value < 0.0001 else f"{value:.4f}"


def _title(one: Compared) -> str:
    name = one_line(one.attribute, 60)
    sides = f"first {one_line(one.first, 80)} (n={one.n[0]}), second {one_line(one.second, 80)}"
    return (
        f"{one.rubric.id} v{one.rubric.version} ({one.rubric.sha256[:12]})  by {name}:"
        f" {sides} (n={one.n[1]}); {one.kind}, Holm over {one.tests} tests"
    )


def as_table(compared: Sequence[Compared]) -> str:
    """Return comparisons as aligned text for a terminal."""
    parts = []
    for one in compared:
        header, rows = _rows(one)
        parts.append("\n".join([_title(one), "", *ruled([header, *rows]), "", *one.notes]))
    return "\n\n".join(parts)


def as_markdown(compared: Sequence[Compared]) -> str:
    """Return comparisons in Markdown."""
    parts = []
    for one in compared:
        header, rows = _rows(one)
        lines = [header, ("---", *["---:"] * (len(header) - 1)), *rows]
        table = [f"| {' | '.join(row)} |" for row in lines]
        parts.append("\n".join([f"**{_title(one)}**", "", *table, "", " ".join(one.notes)]))
    return "\n\n".join(parts)


def as_csv(compared: Sequence[Compared]) -> str:
    """Return comparisons as one CSV; differences in points, what is undefined is empty."""
    out = io.StringIO()
    write = csv.writer(out, lineterminator="\n")
    write.writerow(_COLUMNS)
    for one in compared:
        names = (one.rubric.id, one.attribute, one.first, one.second, one.kind)
        common = [harmless(one_line(name)) for name in names]
        for row in one.rows:
            numbers: list[object] = [row.first.k, row.first.n, row.second.k, row.second.n]
            for gap in (row.difference, row.corrected):
                value, interval = _points(gap)
                low, _, high = interval.strip("[]").partition(", ")
                numbers += ["" if cell == UNDEFINED else cell for cell in (value, low, high)]
            tests = [row.difference.method, row.test.name, row.test.p, row.adjusted]
            write.writerow([*common, row.code, *numbers, *tests])
    return out.getvalue().rstrip("\n")


_COLUMNS = (
    *("rubric", "attribute", "first", "second", "kind", "code", "first_count", "first_n"),
    *("second_count", "second_n", "difference", "low", "high", "corrected_difference"),
    *("corrected_low", "corrected_high", "method", "test", "p", "p_holm"),
)


def as_json(compared: Sequence[Compared]) -> str:
    """Return comparisons as JSON, with all that is needed to compute each number again."""
    values = []
    for one in compared:
        value = asdict(one)
        value["rubric"] = one.rubric.id
        value["rubric_sha256"] = one.rubric.sha256
        values.append(value)
    return json.dumps(values, ensure_ascii=False, indent=2, allow_nan=False)


WRITERS: dict[str, Callable[[Sequence[Compared]], str]] = {
    "table": as_table,
    "csv": as_csv,
    "json": as_json,
    "md": as_markdown,
}
