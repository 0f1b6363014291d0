"""The frequency of each code in a run: counts, shares and their intervals."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from annotator.base.errors import AnnotatorError
from annotator.reports.counts import TraceCounts
from annotator.reports.notes import describe_caveats
from annotator.reports.votes import Votes
from annotator.rubrics import NONE, SchemeCode
from annotator.rubrics.annotations import STATUSES, get_attribute
from annotator.runs.run import Run, name_runs
from annotator.traces.clusters import DEFAULT_CLUSTER
from validation import Interval

if TYPE_CHECKING:  # they need scipy, which a table without a calibration must not wait for
    from annotator.calibration.correct import Correction
    from annotator.calibration.estimates import CodeEstimates
    from annotator.calibration.model import Calibrations, LabelsUsed

NO_RULE = "the judge has no rule for this code"
SCREEN = "the judge is a screen for this code: what it does not find is not known"
NEVER_NONE = "the judge is a screen for every code: it cannot tell that there is none"
LABELLED_ONLY = "shares are of the labelled traces alone"
PARTLY = "the judge cannot find every code of this group, or is a screen for some"


@dataclass(frozen=True, slots=True)
class Row:
    """One code, none, or a group of codes, which counts each trace once."""

    kind: Literal["code", "none", "group"]
    code: str
    name: str
    count: int | None  # None: the judge cannot find it, or is a screen and found none
    share: Interval | None
    unknown: str | None = None  # why there is no share
    bounds: tuple[float, float] | None = None  # if any trace is open: the possible shares
    anywhere: int | None = None  # traces with it as primary or secondary
    labels: "CodeEstimates | None" = None  # the corrected share


@dataclass(frozen=True, slots=True)
class FrequencyTable:
    """The table of one run and rubric, or of the labels of ``people``, which have no judge."""

    rubric: str
    version: int
    rubric_sha256: str
    choice: str
    judge: str | None
    judge_sha256: str | None
    run: str | None
    status: str | None
    limit: int | None
    rows: tuple[Row, ...]
    code_groups: tuple[Row, ...]  # to be added to no other row
    screen: bool  # the judge is a screen for every code that it can find
    labelled: int
    none: int
    undecided: int
    skipped: int
    failed: int
    counts: TraceCounts
    votes: Votes | None
    notes: tuple[str, ...]
    group: tuple[str, str] | None = None  # the attribute and the value that the traces share
    correction: "Correction | None" = None
    run_name: str = ""  # see mark_runs
    people: "LabelsUsed | None" = None

    @property
    def judged(self) -> int:
        """Traces with a judgement: labelled or none."""
        return self.counts.judged

    @property
    def n(self) -> int:
        """The traces that shares are of."""
        return self.counts.n

    @property
    def all_rows(self) -> tuple[Row, ...]:
        """The rows of the codes, of none, and of the groups."""
        return self.rows + self.code_groups

    @property
    def bounded(self) -> bool:
        """Whether any row has bounds."""
        return any(row.bounds for row in self.all_rows)

    @property
    def counted(self) -> str:
        """The name of the counts."""
        return (
            "traces with the code" if self.choice == "many" else "traces with the code as primary"
        )


def count_runs(
    runs: Sequence[Run], calibrations: "Calibrations | None" = None, **options: Any
) -> list[FrequencyTable]:
    """Return the tables of runs, with names where they need them. If a calibration fits another
    table, one that it does not fit is not corrected, and a note says so.
    """
    misfits: list[AnnotatorError] = []
    tables = [
        table
        for run in runs
        for table in count_frequencies(run, calibrations, misfits=misfits, **options)
    ]
    if misfits and not any(table.correction for table in tables):
        raise misfits[0]
    return mark_runs(tables, runs)


def count_frequencies(
    run: Run,
    calibrations: "Calibrations | None" = None,
    *,
    transfer: bool = False,
    by: str | None = None,
    of_labelled: bool = False,
    cluster: Sequence[str] | None = None,
    joint: bool = False,
    misfits: list[AnnotatorError] | None = None,
) -> list[FrequencyTable]:
    """Return the tables of a run, one per rubric; annotations are read as a stream.

    Arguments and errors are those of :func:`annotator.api.count`. A calibration of another judge or
    of other traces is added to ``misfits`` without ``transfer``; without ``misfits`` it is refused.
    """
    if of_labelled and calibrations:
        raise AnnotatorError("a calibration corrects shares of all judged traces, not of labelled")
    if joint and not calibrations:
        raise AnnotatorError("a joint correction needs a calibration")
    samples = None
    if calibrations:
        from annotator.reports.samples import JudgedSamples

        samples = JudgedSamples(run, calibrations, cluster)
    cluster_by = DEFAULT_CLUSTER if cluster is None else tuple(cluster)
    counts: dict[tuple[str, str | None], TraceCounts] = {
        (name, None): TraceCounts(scheme, of_labelled, cluster_by)
        for name, scheme in run.schemes.items()
    }
    attributes: set[str] = set()
    for annotation in run.annotations():
        attributes.update(annotation.attributes if by or cluster else ())
        group = get_attribute(annotation.attributes, by) if by else None
        key = annotation.rubric, group
        if key not in counts:
            counts[key] = TraceCounts(run.schemes[annotation.rubric], of_labelled, cluster_by)
        counts[key].add(annotation)
        if samples:
            samples.add(annotation, group)
    check_attributes(attributes, by, cluster, f"no trace of {run}")
    source: dict[str, Any] = {"judge": run.judge, "judge_sha256": run.judge_sha256, "run": run.id}
    source |= {"status": run.manifest.status, "limit": run.manifest.limit}
    tables = []
    order = list(run.schemes)
    keys = [key for key in counts if (key[1] is None) == (not by)]
    # The largest group of a rubric first.
    keys.sort(key=lambda key: (order.index(key[0]), -counts[key].status.total(), key[1] or ""))
    for name, group in keys:
        correction, uncorrected = None, ""
        try:
            correction = samples.correct(name, group, transfer, joint) if samples else None
        except AnnotatorError as error:
            if misfits is None or not (uncorrected := getattr(error, "reason", "")):
                raise
            misfits.append(error)
        counted = counts[name, group]
        describe = partial(
            describe_caveats, run, counted, correction=correction, uncorrected=uncorrected
        )
        named = (by, group) if by and group is not None else None
        tables.append(build_table(counted, named, describe, correction=correction, **source))
    return tables


def check_attributes(
    attributes: Collection[str], by: str | None, cluster: Sequence[str] | None, no_trace: str
) -> None:
    """Raise :class:`AnnotatorError` if traces have no attribute to group or to cluster them by."""
    names = ", ".join(sorted(attributes)) or "none at all"
    if by and by not in attributes:
        raise AnnotatorError(f"--by {by}: {no_trace} has this attribute, only {names}")
    if cluster and attributes and set(attributes).isdisjoint(cluster):  # else as if independent
        raise AnnotatorError(f"--cluster {','.join(cluster)}: {no_trace} has this, only {names}")


def mark_runs(tables: Iterable[FrequencyTable], runs: Sequence[Run]) -> list[FrequencyTable]:
    """Return tables with the names of their runs, if their rubric, judge and group are the same."""
    tables = list(tables)
    sources = Counter((table.rubric_sha256, table.judge, table.group) for table in tables)
    names = {run.id: name for run, name in zip(runs, name_runs(runs), strict=True)}
    return [
        replace(table, run_name=names.get(table.run or "", table.run_name))
        if sources[table.rubric_sha256, table.judge, table.group] > 1
        else table
        for table in tables
    ]


def build_table(
    counts: TraceCounts,
    group: tuple[str, str] | None,
    describe: Callable[[Mapping[str, Interval]], Iterable[str]],
    *,
    correction: "Correction | None" = None,
    **source: Any,
) -> FrequencyTable:
    """Return a table of counted traces. ``describe`` takes the shares by code, and returns notes.
    ``source``: the fields that say whose labels these are.
    """
    scheme = counts.rubric
    rows = (
        *(_count_code(code, counts, correction) for code in scheme.codes),
        _count_none(counts, correction),
    )
    code_groups = tuple(_count_group(*each, counts, correction) for each in scheme.groups.items())
    shares = {row.code: row.share for row in (*rows, *code_groups) if row.share}
    statuses: dict[str, Any] = {name: counts.status[name] for name in STATUSES}
    return FrequencyTable(
        rubric=scheme.id,
        version=scheme.version,
        rubric_sha256=scheme.sha256,
        choice=scheme.choice,
        rows=rows,
        code_groups=code_groups,
        screen=scheme.only_screens,
        **statuses,
        counts=counts,
        votes=counts.votes.summary(scheme.ids, labelled=scheme.choice != "many"),
        notes=tuple(describe(shares)),
        group=group,
        correction=correction,
        **source,
    )


def _count_code(code: SchemeCode, counts: TraceCounts, correction: "Correction | None") -> Row:
    count, anywhere = counts.labels[code.id], counts.anywhere[code.id]
    why = NO_RULE if not code.judged else SCREEN if code.screen else counts.selection
    return Row(
        "code",
        code.id,
        code.name,
        count if code.judged and (count or not code.screen) else None,
        None if why else counts.share(code.id),
        unknown=why,
        bounds=counts.bounds(count, screen=code.screen) if code.judged else None,
        anywhere=anywhere
        if counts.rubric.choice == "primary" and code.judged and (anywhere or not code.screen)
        else None,
        labels=correction.codes[code.id] if correction else None,
    )


def _count_none(counts: TraceCounts, correction: "Correction | None") -> Row:
    count = counts.status["none"]
    why = NEVER_NONE if counts.rubric.only_screens else None
    why = why or (LABELLED_ONLY if counts.of_labelled else counts.selection)
    return Row(
        "none",
        NONE,
        "no code found",
        count,
        None if why else counts.share(NONE),
        unknown=why,
        bounds=None if counts.of_labelled else counts.bounds(count),
        labels=correction.codes[NONE] if correction else None,
    )


def _count_group(
    name: str, codes: Sequence[str], counts: TraceCounts, correction: "Correction | None"
) -> Row:
    scheme, count = counts.rubric, counts.groups[name]
    judged, screen = not scheme.judged.isdisjoint(codes), not scheme.screens.isdisjoint(codes)
    ruled = scheme.judged.issuperset(codes)
    complete = ruled and not screen and not counts.selection
    return Row(
        "group",
        name,
        ", ".join(codes),
        count if judged and (count > 0 or not screen) else None,
        counts.share((name,)) if complete else None,
        unknown=None if complete else PARTLY,
        bounds=counts.bounds(count, screen=screen or not ruled) if judged else None,
        labels=correction.groups.get(name) if correction else None,
    )
