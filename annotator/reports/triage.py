"""The codes of a run in the order in which a fix would be worth most, with quotes."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from annotator.base.errors import AnnotatorError
from annotator.calibration.model import Calibrations
from annotator.reports.comparison import ComparedCode, ConditionComparison, compare
from annotator.reports.digits import find_limits
from annotator.reports.frequency import FrequencyTable, Row, count_runs
from annotator.reports.table import Table
from annotator.reports.tables.brief import find_share, get_share
from annotator.rubrics.annotations import JUDGED, Finding
from annotator.runs.run import Run, name_runs
from annotator.traces.clusters import find_cluster
from validation import Estimate, Interval

_SIGNIFICANT = 0.05


@dataclass(frozen=True, slots=True)
class CodeChange:
    """A code's change since an earlier run. ``p``: of the ``difference``, by Holm over codes."""

    kind: Literal["new", "risen", "fallen", "gone"]
    before: Interval
    now: Interval
    difference: Estimate | None
    p: float | None


@dataclass(frozen=True, slots=True)
class TracedFinding:
    """A finding with its trace and the trace's task. ``counted``: its code is in the share."""

    trace_id: str
    task: str | None
    counted: bool
    finding: Finding


@dataclass(frozen=True, slots=True)
class TriagedCode:
    """A code with its counts. ``findings``: counted ones first, of them each task once before any
    twice. ``change``: None if none is shown, or if it cannot be known.
    """

    row: Row
    findings: tuple[TracedFinding, ...]
    change: CodeChange | None = None

    def count(self, name: str) -> Counter[str]:
        """Return how many counted findings name each ``agent``, or each ``step``."""
        values = (getattr(each.finding, name) for each in self.findings if each.counted)
        return Counter(str(value) for value in values if value is not None)


@dataclass(frozen=True, slots=True)
class Triage:
    """The codes of a run, and of the earlier run ``since``: by the lower limit of their shares, the
    corrected ones if there is a calibration; then those without a share, by their counts.

    Attributes:
        comparison: both runs, by the judge's own shares.
        top: the number of codes that are shown with quotes.
    """

    run: str
    counted: FrequencyTable
    codes: tuple[TriagedCode, ...]
    top: int
    since: str = ""
    comparison: ConditionComparison | None = None

    @property
    def found_codes(self) -> list[TriagedCode]:
        """The codes that the run has, as primary or secondary ones; not those that are gone."""
        rows = ((code, code.row) for code in self.codes)
        return [code for code, row in rows if row.count or row.anywhere or find_share(row)]

    @property
    def tables(self) -> list[Table]:
        """The table that ``annotate triage`` prints."""
        from annotator.reports.tables import triage

        return [triage.tabulate(self)]

    @property
    def markdown(self) -> str:
        """A ticket in Markdown."""
        from annotator.reports.tables import triage

        return triage.write_ticket(self)


def triage(
    run: Run,
    since: Run | None,
    rubric: str | None,
    calibrations: Calibrations | None,
    cluster: Sequence[str] | None,
    top: int,
) -> Triage:
    """Return the triage of a run. Arguments and errors are those of :func:`annotator.triage`."""
    if not rubric and len(run.schemes) > 1:
        raise AnnotatorError(f"{run}: choose a rubric (--rubric) of {', '.join(run.schemes)}")
    scheme = run.scheme(rubric or next(iter(run.schemes)))
    counted = _count(run, scheme.id, calibrations, cluster)
    findings = defaultdict[str, list[TracedFinding]](list)
    for annotation in run.annotations(scheme.id):
        if annotation.status in JUDGED:
            labels = scheme.labels_of(annotation)
            task = find_cluster(annotation.attributes, counted.counts.cluster_by)
            for each in annotation.findings:
                traced = TracedFinding(annotation.trace_id, task, each.code in labels, each)
                findings[each.code].append(traced)
    rows = [row for row in counted.rows if row.kind == "code"]
    changes: dict[str, CodeChange | None] = {}
    comparison = None
    if since and counted.judged:
        comparison = _compare(run, since, scheme.id, cluster)
        compared = {row.code: row for row in comparison.rows}
        before = {row.code: row for row in _count(since, scheme.id, None, cluster).rows}
        changes = {x.code: _find_change(x, before[x.code], compared.get(x.code)) for x in rows}
    codes = tuple(
        TriagedCode(row, _arrange(findings[row.code]), changes.get(row.code))
        for row in sorted(rows, key=_rank)
    )
    return Triage(str(run), counted, codes, top, str(since or ""), comparison)


def _count(
    run: Run, rubric: str, calibrations: Calibrations | None, cluster: Sequence[str] | None
) -> FrequencyTable:
    tables = count_runs([run], calibrations, cluster=cluster)
    return next(table for table in tables if table.rubric == rubric)


def _rank(row: Row) -> tuple[bool, float, float, int]:
    """Return a sort key: the lower limit of the share, the share, and the count (or in all)."""
    value, (low, _) = find_share(row), find_limits(get_share(row)) or (0.0, 1.0)
    return value is None, -low if value else 0.0, -(value or 0.0), -(row.count or row.anywhere or 0)


def _arrange(findings: Iterable[TracedFinding]) -> tuple[TracedFinding, ...]:
    turns = Counter[str]()  # of each task
    order: list[tuple[bool, int, int, TracedFinding]] = []
    for each in sorted(findings, key=lambda x: (not x.counted, x.trace_id)):
        task = each.task or each.trace_id
        order.append((not each.counted, turns[task], len(order), each))
        turns[task] += 1
    return tuple(each for *_, each in sorted(order))


def _compare(
    run: Run, since: Run, rubric: str, cluster: Sequence[str] | None
) -> ConditionComparison:
    """Return both runs by the judge's own shares: a trace id in both is two runs of one scenario,
    and a label is of only one of them.
    """
    runs = (run, since)
    for compared in compare(runs, "run", name_runs(runs), cluster=cluster, rerun=True):
        if compared.rubric.id == rubric:
            return compared
    raise AnnotatorError(f"{since} was not judged by this version of {rubric}")


def _find_change(row: Row, before: Row, compared: ComparedCode | None) -> CodeChange | None:
    if not (row.share and before.share and compared):  # a judge cannot rule the code out
        return None
    values = before.share, row.share, compared.difference, compared.adjusted
    if row.count and not (before.count or before.anywhere):
        return CodeChange("new", *values)
    if before.count and not (row.count or row.anywhere):
        return CodeChange("gone", *values)
    if compared.adjusted is None or compared.adjusted > _SIGNIFICANT:
        return None
    rises = compared.difference and (compared.difference.value or 0.0) > 0
    return CodeChange("risen" if rises else "fallen", *values)
