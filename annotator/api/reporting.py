"""Reports of runs and traces: tables, and figures of them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from annotator.api.calibrating import make_request
from annotator.base.errors import AnnotatorError
from annotator.base.text import list_names
from annotator.runs.run import Run, name_runs
from annotator.traces import Traces, TraceSource, Unreadable, load_traces

if TYPE_CHECKING:  # a run that is only made needs no statistics
    from annotator.calibration.model import Calibration, Calibrations
    from annotator.cooperbench.stats import Stats
    from annotator.reports.frequency import FrequencyTable
    from annotator.reports.table import Sort, Table

    CalibrationSource = Calibration | str | Path | Iterable[Calibration | str | Path]


def count(
    *runs: Run,
    calibration: "CalibrationSource | None" = None,
    transfer: bool = False,
    by: str | None = None,
    of_labelled: bool = False,
    cluster: Sequence[str] | None = None,
    joint: bool = False,
    sort: "Sort" = "rubric",
    meanings: bool = False,
) -> "list[Table]":
    """Return the frequency tables of runs, one for each rubric, or for each value of an attribute
    (``by``), as ``annotate report`` prints them.

    ``calibration``: calibrations, or the files they are in; adds the shares corrected for the
    judge's errors. ``transfer`` lets it be of another judge or of other traces. ``of_labelled``:
    shares of the labelled traces alone. ``cluster``: the attributes that make a task, whose traces
    are not independent, ``()`` for none; default: project and task, or those of the calibration.
    ``joint``: all codes are corrected at once, so that their shares add up to 100 %, with intervals
    that hold all together where people found the code in five tasks or more. ``sort``: the rows are
    in the rubric's order, or those with the largest ``"share"`` come first. ``meanings`` adds a
    column with the first sentence of each code's definition.

    Raises:
        AnnotatorError: a run is damaged, or given twice; a calibration does not fit; no trace has
            the attribute.
    """
    from annotator.reports.tables import frequency

    calibrations = group_calibrations(calibration)
    counted = _count(runs, calibrations, transfer, by, of_labelled, cluster, joint)
    return list(frequency.tabulate(counted, sort, meanings=meanings))


def count_labels(
    labels: str | Path | Sequence[str | Path],
    rubrics: Sequence[str] = (),
    *,
    run: Run | None = None,
    traces: TraceSource | Traces | None = None,
    by: str | None = None,
    of_labelled: bool = False,
    cluster: Sequence[str] | None = None,
    sort: "Sort" = "rubric",
    meanings: bool = False,
    **options: Any,
) -> "list[Table]":
    """Return how often people gave each code: a table for each rubric that the labels name, or for
    those in ``rubrics``, as ``annotate report --labels`` prints them.

    Args:
        labels: the files of labels.
        rubrics: names, or files, of rubrics.
        run: only the traces of this run are counted, by their attributes there.
        traces: only these are counted, by their attributes. Without ``run`` and ``traces`` the only
            attribute is the ``task`` that a label names.
        by: one table for each value of this attribute.
        of_labelled: shares of the traces with a code alone.
        cluster: the attributes that make a task, ``()`` for none; default: project and task.
        sort: ``"share"`` puts the largest share first; default: the rubric's order.
        meanings: adds a column with the first sentence of each code's definition.
        options: ``annotators``, ``final`` and ``design``, as :func:`annotator.api.calibrate`.

    Raises:
        AnnotatorError: the labels cannot be read or are of other traces, a choice has to be made
            (which rubric, which annotator), or no trace has the attribute.
    """
    from annotator.reports.people import count_people
    from annotator.reports.tables import frequency

    names = None if cluster is None else list_names(cluster)
    if names is not None:
        options["cluster"] = names
    request = make_request(labels, rubrics=list_names(rubrics), **options)
    attributes = None
    if traces is not None:
        loaded = traces if isinstance(traces, Traces) else load_traces(traces)
        attributes = {trace.id: trace.attributes for trace in loaded}
    counted = count_people(
        request, run=run, traces=attributes, by=by, of_labelled=of_labelled, cluster=names
    )
    return list(frequency.tabulate(counted, sort, meanings=meanings))


def _count(
    runs: Sequence[Run],
    calibrations: "Calibrations | None",
    transfer: bool,
    by: str | None,
    of_labelled: bool = False,
    cluster: Sequence[str] | None = None,
    joint: bool = False,
) -> "list[FrequencyTable]":
    from annotator.reports.frequency import count_frequencies, mark_runs

    _check_once(runs)
    tables = [
        table
        for run in runs
        for table in count_frequencies(
            run,
            calibrations,
            transfer=transfer,
            by=by,
            of_labelled=of_labelled,
            cluster=None if cluster is None else list_names(cluster),
            joint=joint,
        )
    ]
    return mark_runs(tables, runs)


def _check_once(runs: Sequence[Run]) -> None:
    if len({run.id for run in runs}) < len(runs):
        raise AnnotatorError("a run was given twice, and would count as often")


def count_together(*runs: Run, on_notice: Callable[[str], None] | None = None) -> "list[Table]":
    """Return how often two codes stand in one trace, a table for each run and rubric.
    ``on_notice`` is told which rubric has no two.

    Raises:
        AnnotatorError: a run is damaged, or given twice.
    """
    from annotator.reports.co_occurrence import count_co_occurrences, list_uncounted
    from annotator.reports.tables import co_occurrence

    _check_once(runs)
    tables = list(co_occurrence.tabulate(count_co_occurrences(*runs)))
    for line in list_uncounted(*runs):
        (on_notice or _ignore)(line)
    return tables


def compare(
    *runs: Run,
    by: str = "run",
    values: tuple[str, str] | None = None,
    calibration: "CalibrationSource | None" = None,
    cluster: Sequence[str] | None = None,
    pool: bool = False,
    on_notice: Callable[[str], None] | None = None,
) -> "list[Table]":
    """Return how two runs differ, or two groups of traces in ``runs``: those whose attribute ``by``
    has one of two ``values``. ``cluster``: as :func:`count`. ``pool``: with a calibration, and of
    independent groups: both are corrected by the labels of both. ``on_notice`` is told which
    rubric cannot be compared.

    Raises:
        AnnotatorError: nothing can be compared, a run is given twice, or a calibration is not of
            its run.
    """
    from annotator.reports.comparison import compare as compare_sides
    from annotator.reports.tables import comparison

    _check_once(runs)
    if values is None and (by != "run" or len(runs) != 2):
        raise AnnotatorError(f"{len(runs)} runs by {by}: say which two groups with values=(A, B)")
    first, second = values or name_runs(runs)
    notice = on_notice or _ignore
    compared = compare_sides(
        runs,
        by,
        first,
        second,
        group_calibrations(calibration),
        cluster=None if cluster is None else list_names(cluster),
        pool=pool,
        notice=notice,
    )
    return list(comparison.tabulate(compared))


def check_figure(out: str | Path) -> None:
    """Find out before the work whether a figure can be drawn into ``out``.

    Raises:
        AnnotatorError: it cannot, and why.
    """
    from annotator.reports import figures

    figures.check(Path(out))


def draw(
    *runs: Run,
    out: str | Path,
    plot: str = "frequency",
    calibration: "CalibrationSource | None" = None,
    transfer: bool = False,
    by: str | None = None,
    cluster: Sequence[str] | None = None,
    joint: bool = False,
    on_notice: Callable[[str], None] | None = None,
) -> None:
    """Draw a figure of runs into ``out``, a .svg, .png or .pdf: ``frequency``, ``co-occurrence``,
    or, with a calibration, ``confusion`` or ``reliability``. The other arguments are those of
    :func:`count`; ``on_notice`` is told what the figure leaves out.

    Raises:
        AnnotatorError: as :func:`count`; there is no such figure, nothing to draw, or more than
            fits; or matplotlib is not installed; or the file cannot be written.
    """
    from annotator.reports import figures
    from annotator.reports.co_occurrence import count_co_occurrences, list_uncounted

    if plot not in figures.PLOTS:
        raise AnnotatorError(f"plot: expected one of {', '.join(figures.PLOTS)}, found {plot!r}")
    figures.check(Path(out))
    _check_once(runs)
    calibrations, uncounted = group_calibrations(calibration), []
    if plot == "co-occurrence":
        if by or calibrations:
            raise AnnotatorError("a figure of co-occurrence takes no by and no calibration")
        source = figures.FigureSource(co_occurrences=count_co_occurrences(*runs))
        uncounted = list_uncounted(*runs)
    else:
        tables = _count(runs, calibrations, transfer, by, cluster=cluster, joint=joint)
        source = figures.FigureSource(runs, tables, calibrations)
    for line in (*uncounted, *figures.draw(plot, source, Path(out))):
        (on_notice or _ignore)(line)


@dataclass(frozen=True, slots=True)
class StatsSummary:
    """What was counted in traces without a judge."""

    stats: "Stats"

    @property
    def tables(self) -> "list[Table]":
        """The tables that ``annotate stats`` prints."""
        from annotator.reports.tables import stats

        return list(stats.tabulate(self.stats))

    def draw(self, out: str | Path) -> tuple[str, ...]:
        """Draw success by difficulty into ``out``; return what the figure leaves out, a line each.

        Raises:
            AnnotatorError: as :func:`draw`.
        """
        from annotator.reports import figures

        return figures.draw(figures.DIFFICULTY, figures.FigureSource(stats=self.stats), Path(out))


def summarize(
    traces: TraceSource | Traces,
    *,
    cluster: Sequence[str] = ("project", "task"),
    by: str | None = None,
    channel: str | Sequence[str] | None = None,
    on_unreadable: Callable[[Unreadable], None] | None = None,
) -> StatsSummary:
    """Return what can be counted in traces without a judge: how agents talk, merge conflicts,
    success solo and in cooperation, by difficulty.

    ``cluster``: the attributes that make a task. ``by``: tables for each value of an attribute too.
    ``channel``: the attribute and values of the runs whose agents could write messages, such as
    ``"comm=true"`` or ``["run_name=msg_*", "run_name=chat_*"]``; with another value they could not.
    ``on_unreadable`` is told of each trace that cannot be read, and is left out.

    Raises:
        AnnotatorError: no trace was found, or no trace has the attribute ``by``, that of the
            channel, or one of its values.
    """
    from annotator.cooperbench.stats import StatsCounts, parse_channel, statistics

    loaded = traces if isinstance(traces, Traces) else load_traces(traces)
    counts = StatsCounts(list_names(cluster), by, parse_channel(channel))
    for item in loaded.find():
        counts.add(item)
        if isinstance(item, Unreadable) and on_unreadable:
            on_unreadable(item)
    stats = statistics(counts)
    if not stats.groups[0].traces:
        raise AnnotatorError(f"no traces in {', '.join(loaded.places) or 'what was given'}")
    return StatsSummary(stats)


def load_calibrations(*files: str | Path) -> "list[Calibration]":
    """Return the calibrations in files that ``annotate calibrate`` wrote.

    Raises:
        AnnotatorError: one cannot be read, or is not what ``annotate calibrate`` writes.
    """
    from annotator.calibration.model import read_calibrations

    return list(chain.from_iterable(read_calibrations(map(Path, files)).values()))


def group_calibrations(source: "CalibrationSource | None") -> "Calibrations | None":
    """Return calibrations, and those in files, by rubric."""
    if source is None:
        return None
    from annotator.calibration.model import Calibration, group_by_rubric

    if isinstance(source, (str, Path, Calibration)):
        source = [source]
    calibrations: list[Calibration] = []
    for item in source:
        calibrations += [item] if isinstance(item, Calibration) else load_calibrations(item)
    return group_by_rubric(calibrations)


def _ignore(text: str) -> None:
    """Be told nothing."""
