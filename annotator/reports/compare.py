"""Two groups of traces, or two runs, side by side: differences with intervals and tests."""

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from annotator.annotations import Annotation
from annotator.calibration.correct import Calibrations
from annotator.calibration.frame import (
    DEFAULT_CLUSTER,
    RubricInfo,
    cluster_of,
    found,
    read_checked,
    rubrics_of,
)
from annotator.errors import AnnotatorError
from annotator.reports.frequency import FrequencyTable, frequency_tables, value_of
from annotator.reports.writers import UNDEFINED, percent, ruled
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
    rows: tuple[Difference, ...]
    tests: int
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Seen:
    """A judged trace: what pairs it, its task, and the labels that are counted."""

    key: Hashable
    task: str | None
    labels: tuple[str, ...]


def compare(
    runs: Sequence[Path],
    attribute: str,
    first: str,
    second: str,
    calibrations: Calibrations | None = None,
    *,
    transfer: bool = False,
) -> list[Compared]:
    """Compare the traces of ``runs`` with one value of an attribute with those with another, by
    every rubric that the runs have in common.

    ``attribute`` may be ``run`` (the names of the run directories) or ``judge``. Traces are paired
    by id between runs and judges, else by task and the last part of the id; where that names a
    trace twice on a side, or leaves most without a partner, the groups are not paired.

    Raises:
        AnnotatorError: the runs have no rubric in common, or no judged trace has one of the values.
    """
    known = [rubrics_of(run) for run in runs]
    shared = [
        info
        for name, info in known[0].items()
        if all(name in other and other[name].sha256 == info.sha256 for other in known)
    ]
    if not shared:
        raise AnnotatorError("the runs have no rubric (of the same version) in common")
    tables = {
        (table.rubric, side): table
        for run in runs
        for table in _tables(run, attribute, calibrations, transfer=transfer)
        if (side := table.group[1] if table.group else run.name) in (first, second)
    }
    names = (attribute, first, second)
    return [_compared(info, _sides(runs, info, *names), names, tables) for info in shared]


def _tables(
    run: Path, attribute: str, calibrations: Calibrations | None, *, transfer: bool
) -> list[FrequencyTable]:
    if not calibrations:
        return []
    by = None if attribute in (RUN, JUDGE) else attribute
    return frequency_tables(run, calibrations, transfer=transfer, by=by)


def _sides(
    runs: Sequence[Path], info: RubricInfo, attribute: str, first: str, second: str
) -> tuple[list[_Seen], list[_Seen]]:
    """Return the judged traces of both sides."""
    sides: dict[str, list[_Seen]] = {first: [], second: []}
    values: Counter[str] = Counter()
    for run in runs:
        for annotation in read_checked(run, info):
            if annotation.status not in ("labelled", "none"):
                continue
            value = _value(annotation, attribute, run)
            values[value] += 1
            if value in sides:
                sides[value].append(_seen(annotation, info, attribute))
    for name, traces in sides.items():
        if not traces:
            there = ", ".join(f"{one} ({n})" for one, n in values.most_common(12))
            raise AnnotatorError(
                f"--compare {name}: no trace judged by {info.id} has {attribute} = {name}; there"
                f" are {there or 'none at all'}"
            )
    return sides[first], sides[second]


def _value(annotation: Annotation, attribute: str, run: Path) -> str:
    if attribute == RUN:
        return run.name
    return annotation.judge if attribute == JUDGE else value_of(annotation, attribute)


def _seen(annotation: Annotation, info: RubricInfo, attribute: str) -> _Seen:
    task = cluster_of(annotation.attributes, DEFAULT_CLUSTER)
    key: Hashable = annotation.trace_id
    if attribute not in (RUN, JUDGE) and task is not None:
        key = (task, annotation.trace_id.rpartition("/")[2])
    return _Seen(key, task, found(annotation, info))


def _compared(
    info: RubricInfo,
    sides: tuple[list[_Seen], list[_Seen]],
    names: tuple[str, str, str],
    tables: Mapping[tuple[str, str], FrequencyTable],
) -> Compared:
    attribute, first, second = names
    kind, alone = _kind(*sides), (0, 0)
    if kind == "paired":
        pairs = _pairs(*sides)
        alone = (len(sides[0]) - len(pairs), len(sides[1]) - len(pairs))
        sides = ([one for one, _ in pairs], [other for _, other in pairs])
    codes = [code for code in info.labels if code == "none" or code in info.judged]
    found_ = [_difference(code, sides, kind) for code in codes]
    adjusted = adjust([test.p for _, test in found_], "holm")
    rows = []
    for code, (estimate, test), p in zip(codes, found_, adjusted, strict=True):
        counts = [sum(code in one.labels for one in side) for side in sides]
        shares = [wilson(k, len(side)) for k, side in zip(counts, sides, strict=True)]
        corrected = _corrected(code, tables.get((info.id, first)), tables.get((info.id, second)))
        rows.append(Difference(code, shares[0], shares[1], estimate, test, p, corrected))
    return Compared(
        info,
        attribute,
        first,
        second,
        kind,
        (len(sides[0]), len(sides[1])),
        alone,
        tuple(rows),
        sum(p is not None for p in adjusted),
        tuple(_notes(kind, alone, sides, calibrated=bool(tables))),
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


def _difference(
    code: str, sides: tuple[list[_Seen], list[_Seen]], kind: Kind
) -> tuple[Estimate, Test]:
    flags = [[code in one.labels for one in side] for side in sides]
    if kind == "paired":
        cells = Counter(zip(*flags, strict=True))
        discordant = cells[True, False], cells[False, True]
        estimate = paired_difference(cells[True, True], *discordant, cells[False, False])
        return estimate, mcnemar(*discordant)
    (k1, n1), (k2, n2) = [(sum(side), len(side)) for side in flags]
    test = fisher([[k1, n1 - k1], [k2, n2 - k2]])
    if kind == "independent":
        return difference(k1, n1, k2, n2), test
    return _over_tasks(sides, flags), test


def _over_tasks(
    sides: tuple[list[_Seen], list[_Seen]], flags: Sequence[Sequence[bool]]
) -> Estimate:
    """Return the difference with an interval by resampling tasks, which both sides share."""
    rows: dict[Hashable, int] = {}
    totals: list[list[float]] = []
    for side, (traces, own) in enumerate(zip(sides, flags, strict=True)):
        for one, flag in zip(traces, own, strict=True):
            row = rows.setdefault(one.task or (side, one.key), len(rows))
            if row == len(totals):
                totals.append([0.0] * 4)
            totals[row][2 * side] += flag
            totals[row][2 * side + 1] += 1

    def gap(sums: np.ndarray[Any, np.dtype[np.float64]]) -> np.ndarray[Any, np.dtype[np.float64]]:
        with np.errstate(invalid="ignore", divide="ignore"):
            gaps: np.ndarray[Any, np.dtype[np.float64]] = (
                sums[:, 0] / sums[:, 1] - sums[:, 2] / sums[:, 3]
            )
        return gaps

    made = cluster_bootstrap(np.asarray(totals), gap)
    return Estimate(
        "difference",
        made.value,
        made.low,
        made.high,
        sum(map(len, sides)),
        0.95,
        "cluster_bootstrap",
        made.reason,
        made.as_dict(),
    )


def _corrected(
    code: str, first: FrequencyTable | None, second: FrequencyTable | None
) -> Estimate | None:
    shares = [
        row.labels.corrected
        for table in (first, second)
        if table
        for row in table.rows
        if row.code == code and row.labels
    ]
    return mover(*shares) if len(shares) == 2 else None


def _notes(
    kind: Kind,
    alone: tuple[int, int],
    sides: tuple[list[_Seen], list[_Seen]],
    *,
    calibrated: bool,
) -> list[str]:
    how = {
        "paired": "Paired by trace: Newcombe's interval for pairs, exact McNemar test"
        " (pairs of one task are treated as independent).",
        "same tasks": "The same tasks on both sides, but no partner for each trace: interval by"
        " resampling tasks; the Fisher test treats traces as independent.",
        "independent": "Independent groups: Newcombe's interval, Fisher's exact test"
        " (traces of one task are treated as independent).",
    }[kind]
    notes = [how]
    if any(alone):
        notes.append(
            f"{alone[0]} and {alone[1]} judged traces without a partner are left out of the pairs."
        )
    if not calibrated:
        notes.append(
            "Differences of the judge's own shares: its errors are not corrected (no calibration)."
        )
    else:
        notes.append(
            "Corrected differences: both sides corrected by their own labels, limits combined by"
            " MOVER."
        )
    return notes


_HEADER = ("code", "first", "%", "second", "%", "difference", "95 % interval", "p", "p (Holm)")
_CORRECTED = ("corrected", "95 % interval")


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
    return _HEADER + (_CORRECTED if corrected else ()), rows


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
        names = map(harmless, (one.rubric.id, one.attribute, one.first, one.second, one.kind))
        common = list(names)
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
