"""Reports of runs and traces: tables, and figures of them."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from annotator.api.calibrating import make_request
from annotator.base.errors import AnnotatorError
from annotator.base.text import find_repeated, list_names
from annotator.runs.conditions import (
    Condition,
    ConditionSource,
    check_conditions,
    check_name,
    read_conditions,
)
from annotator.runs.run import Run, name_runs
from annotator.traces import Traces, TraceSource, Unreadable, load_traces
from annotator.traces.clusters import DEFAULT_CLUSTER

if TYPE_CHECKING:  # statistics are slow to import
    from annotator.calibration.model import Calibration, Calibrations
    from annotator.cooperbench.stats import Stats
    from annotator.reports.frequency import FrequencyTable
    from annotator.reports.table import Sort, Table
    from annotator.reports.triage import Triage

    CalibrationSource = Calibration | str | Path | Iterable[Calibration | str | Path]


def group_runs(
    runs: Sequence[Run],
    groups: str | Path | Sequence[str | Path],
    on_notice: Callable[[str], None] | None = None,
) -> tuple[Run, ...]:
    """Return runs whose traces have the conditions of a study as attributes, besides those that
    the runs keep.

    Args:
        runs: the runs.
        groups: ``"NAME=REGEX"`` on the trace id, ``"NAME=ATTRIBUTE:REGEX"``, or a table (.csv) with
            a column trace_id.
        on_notice: called with the number of traces that have no condition, and with the rows of a
            table whose traces are in no run.

    Raises:
        AnnotatorError: a group is malformed, no trace matches it, or a trace has an attribute of
            its name with another value.
    """
    sources = read_conditions(groups)
    return _add_conditions(runs, sources, on_notice)


def _add_conditions(
    runs: Sequence[Run],
    sources: Sequence[ConditionSource],
    on_notice: Callable[[str], None] | None = None,
) -> tuple[Run, ...]:
    if not sources:
        return tuple(runs)
    traces = (
        (annotation.trace_id, annotation.attributes)
        for run in runs
        for annotation in run.annotations()
    )
    for line in check_conditions(sources, traces):
        (on_notice or _ignore)(line)
    added = tuple(chain.from_iterable(source.conditions for source in sources))
    return tuple(replace(run, added=(*run.added, *added)) for run in runs)


By = str | Mapping[str, object]
"""An attribute, or the value of each trace by its id: a mapping, or a pandas Series."""


def _divide(runs: Sequence[Run], by: By | None) -> tuple[Sequence[Run], str | None]:
    """Return the runs, and the attribute that has the values of ``by``."""
    if by is None or isinstance(by, str):
        return runs, by
    name = str(getattr(by, "name", None) or "group")
    check_name(name, "by")
    for trace_id in find_repeated(str(trace_id) for trace_id, _ in by.items()):
        raise AnnotatorError(f"by: {trace_id} has two values")
    values = {
        str(trace_id): json.dumps(value) if isinstance(value, bool) else str(value)
        for trace_id, value in by.items()
        if value is not None and value == value  # not NaN
    }
    condition = Condition(name=name, values=values)
    return _add_conditions(runs, [ConditionSource((condition,), {})]), name


def count(
    *runs: Run,
    calibration: "CalibrationSource | None" = None,
    transfer: bool = False,
    by: By | None = None,
    of_labelled: bool = False,
    cluster: Sequence[str] | None = None,
    joint: bool = False,
    sort: "Sort | None" = None,
    meanings: bool = False,
) -> "list[Table]":
    """Return the tables that ``annotate report`` prints: how often each code was found.

    Args:
        runs: a table is returned for each run and rubric.
        calibration: calibrations, or their files; adds shares corrected for the judge's errors.
        transfer: the calibration may be of another judge or of other traces.
        by: one table for each value of this attribute; or a mapping ``{trace_id: value}``, or a
            Series with trace ids as its index.
        of_labelled: shares of the traces with a code alone.
        cluster: the attributes that make a task, ``()`` for none; default: project and task, or
            those of the calibration. Traces of one task are not independent.
        joint: correct all codes at once: their shares add up to 100 %, with joint intervals for
            codes that people found in five tasks or more.
        sort: ``"share"`` puts the largest share first, ``"rubric"`` keeps the rubric's order;
            default: the rubric's, in what ``print`` shows the largest share first.
        meanings: adds a column with the first sentence of each code's definition.

    Raises:
        AnnotatorError: a run is damaged or given twice, a calibration does not fit, or no trace has
            the attribute.
    """
    from annotator.reports.tables import frequency

    calibrations = group_calibrations(calibration)
    divided, by = _divide(runs, by)
    counted = _count(divided, calibrations, transfer, by, of_labelled, cluster, joint)
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
    sort: "Sort | None" = None,
    meanings: bool = False,
    **options: Any,
) -> "list[Table]":
    """Return the tables that ``annotate report --labels`` prints: how often people gave each code.

    Args:
        labels: the files of labels.
        rubrics: names or files; default: the rubrics that the labels name.
        run: count only the traces of this run, with their attributes there.
        traces: count only these, with their attributes. Without ``run`` and ``traces`` the only
            attribute is the label's ``task``.
        by: one table for each value of this attribute.
        of_labelled: shares of the traces with a code alone.
        cluster: the attributes that make a task, ``()`` for none; default: project and task.
        sort: ``"share"`` puts the largest share first, ``"rubric"`` keeps the rubric's order;
            default: the rubric's, in what ``print`` shows the largest share first.
        meanings: adds a column with the first sentence of each code's definition.
        options: ``annotators``, ``final`` and ``design``, as :func:`annotator.api.calibrate`.

    Raises:
        AnnotatorError: the labels are unreadable or of other traces, several rubrics or annotators
            are possible, or no trace has the attribute.
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
    from annotator.reports.frequency import count_runs

    _check_once(runs)
    return count_runs(
        runs,
        calibrations,
        transfer=transfer,
        by=by,
        of_labelled=of_labelled,
        cluster=None if cluster is None else list_names(cluster),
        joint=joint,
    )


def describe_methods(
    *runs: Run,
    calibration: "CalibrationSource | None" = None,
    transfer: bool = False,
    by: str | None = None,
    cluster: Sequence[str] | None = None,
    joint: bool = False,
) -> list[str]:
    """Return the paragraphs on methods for a paper: one for each rubric of a run; with ``by`` one
    on what all groups share, and one for each. Arguments and errors are those of :func:`count`.
    """
    from annotator.reports.methods import describe_methods as describe

    tables = _count(runs, group_calibrations(calibration), transfer, by, False, cluster, joint)
    by_id = {run.id: run for run in runs}
    grouped = groupby(tables, key=lambda table: (table.run or "", table.rubric))
    return [text for (id_, _), some in grouped for text in describe(by_id[id_], list(some))]


def find_calibrations(*runs: Run, on_notice: Callable[[str], None] | None = None) -> list[Path]:
    """Return the ``calibration.json`` in the directory of each run that has one, if it fits the
    run's judge and traces. ``on_notice`` is called with the reason if one is not used.
    """
    from annotator.calibration.model import read_calibrations

    places = [(run, run.folder / "calibration.json") for run in runs if run.folder]
    fitting = []
    for run, file in places:
        if not file.is_file():
            continue
        reasons = []
        try:
            for rubric, calibrations in read_calibrations([file]).items():
                if rubric in run.schemes:
                    reasons.append(_explain_misfit(run, rubric, calibrations))
        except AnnotatorError as error:
            reasons = [str(error)]
        if all(reasons):  # the tables name the reason where one of several does not fit
            reason = next(iter(reasons), "it is for no rubric of this run")
            (on_notice or _ignore)(f"{file} is not used: {reason}. Calibrate {run} again")
        else:
            fitting.append(file)
    return fitting


def _explain_misfit(run: Run, rubric: str, calibrations: "Sequence[Calibration]") -> str:
    from annotator.calibration.correct import Misfit, fit_calibration

    try:
        return fit_calibration(run, rubric, calibrations)[2]
    except Misfit as error:
        return error.reason


def _check_once(runs: Sequence[Run]) -> None:
    if len({run.id for run in runs}) < len(runs):
        raise AnnotatorError("a run was given twice, and would count as often")


def count_together(*runs: Run, on_notice: Callable[[str], None] | None = None) -> "list[Table]":
    """Return how often two codes are in one trace, a table for each run and rubric. ``on_notice``
    is called with each rubric that does not have two codes.

    Raises:
        AnnotatorError: a run is damaged, or given twice.
    """
    from annotator.reports import co_occurrence

    _check_once(runs)
    tables = co_occurrence.tabulate(co_occurrence.count_co_occurrences(*runs))
    for line in co_occurrence.list_uncounted(*runs):
        (on_notice or _ignore)(line)
    return tables


def count_causes(
    *runs: Run,
    cluster: str | Sequence[str] = DEFAULT_CLUSTER,
    on_notice: Callable[[str], None] | None = None,
) -> "list[Table]":
    """Return which agents caused the failures, at which agents they show, and in which third of the
    run they were caused: three tables for each run and rubric with attribution.

    Args:
        runs: the decisive finding of each judged trace counts: that of the primary code.
        cluster: the attributes that make a task, ``()`` for none.
        on_notice: called with each rubric without attribution.

    Raises:
        AnnotatorError: a run is damaged or given twice, or no finding names an agent.
    """
    from annotator.reports import where

    _check_once(runs)
    counted, left = where.count_causes(*runs, cluster=list_names(cluster))
    for line in left:
        (on_notice or _ignore)(line)
    return where.tabulate(counted)


def compare(
    *runs: Run,
    by: By = "run",
    values: Sequence[str] | None = None,
    calibration: "CalibrationSource | None" = None,
    cluster: Sequence[str] | None = None,
    labelled: bool = False,
    pairs: bool = False,
    without: Sequence[str] = (),
    on_notice: Callable[[str], None] | None = None,
) -> "list[Table]":
    """Return how the share of each code differs between runs, or between conditions.

    ``compare(run, by="arm")`` compares the traces with each value of the attribute arm. Two values
    give differences with intervals and tests. Three or more give each condition's share and one
    test a code.

    Args:
        runs: two runs or more; or any number, with conditions by an attribute.
        by: the attribute of the conditions; or a mapping ``{trace_id: value}``, or a Series with
            trace ids as its index. A trace that is not in it has no condition.
        values: the values that are compared; None: all, at most 20.
        calibration: as in :func:`count`. Three or more conditions: corrected shares, and tests of
            the judge's own.
        cluster: as in :func:`count`.
        labelled: raise an error if the calibration has no label of one of the values.
        pairs: of three or more conditions, compare every two: adds a table, with Holm over all
            pairs and codes.
        without: values that are left out.
        on_notice: called with each rubric that cannot be compared.

    Returns:
        A table for each rubric. Its ``records``: a row for each code and condition, and of two
        conditions one for their difference.

    Raises:
        AnnotatorError: nothing can be compared, a run is given twice, a calibration is not of its
            run, or see ``labelled``.
    """
    from annotator.reports.comparison import compare as compare_sides
    from annotator.reports.tables import comparison

    _check_once(runs)
    divided, attribute = _divide(runs, by)
    if values is None and attribute == "run":
        values = [name for name in name_runs(runs) if name not in without]
        if len(values) < 2:
            raise AnnotatorError("one run has nothing to compare: give two, or --by ATTRIBUTE")
    compared = compare_sides(
        divided,
        attribute or "run",
        values,
        group_calibrations(calibration),
        cluster=None if cluster is None else list_names(cluster),
        labelled=labelled,
        pairs=pairs,
        without=list_names(without),
        notice=on_notice or _ignore,
    )
    return list(comparison.tabulate(compared))


def triage(
    run: Run,
    since: Run | None = None,
    *,
    rubric: str | None = None,
    calibration: "CalibrationSource | None" = None,
    cluster: Sequence[str] | None = None,
    top: int = 5,
) -> "Triage":
    """Return the codes of a run, those first that are common beyond doubt, with quotes.

    Args:
        run: the run.
        since: an earlier run: which codes are new, gone, risen or fallen since then.
        rubric: the rubric, if the run has several.
        calibration: as in :func:`count`; the order is then by corrected shares.
        cluster: as in :func:`count`.
        top: the number of codes that are shown with quotes.

    Raises:
        AnnotatorError: a run is damaged, the calibration does not fit, or the runs cannot be
            compared.
    """
    from annotator.reports.triage import triage as rank_codes

    _check_once([run, *filter(None, [since])])
    names = None if cluster is None else list_names(cluster)
    return rank_codes(run, since, rubric, group_calibrations(calibration), names, top)


def check_figure(out: str | Path) -> None:
    """Raise :class:`AnnotatorError` if a figure cannot be drawn into ``out``."""
    from annotator.reports import figures

    figures.check(Path(out))


def draw(
    *runs: Run,
    out: str | Path,
    plot: str = "frequency",
    calibration: "CalibrationSource | None" = None,
    transfer: bool = False,
    by: By | None = None,
    cluster: Sequence[str] | None = None,
    joint: bool = False,
    on_notice: Callable[[str], None] | None = None,
) -> None:
    """Draw a figure of runs into ``out``, a .svg, .png or .pdf file.

    ``plot``: ``frequency`` or ``co-occurrence``; with a calibration ``confusion`` or
    ``reliability``. ``on_notice`` is called with a line for everything that the figure leaves out.
    The other arguments are those of :func:`count`.

    Raises:
        AnnotatorError: as :func:`count`; or no such figure, nothing to draw, more than fits,
            matplotlib is not installed, or the file cannot be written.
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
        divided, by = _divide(runs, by)
        tables = _count(divided, calibrations, transfer, by, cluster=cluster, joint=joint)
        source = figures.FigureSource(divided, tables, calibrations)
    for line in (*uncounted, *figures.draw(plot, source, Path(out))):
        (on_notice or _ignore)(line)


@dataclass(frozen=True, slots=True)
class StatsSummary:
    """Counts of traces without a judge."""

    stats: "Stats"

    @property
    def tables(self) -> "list[Table]":
        """The tables that ``annotate stats`` prints."""
        from annotator.reports.tables import stats

        return list(stats.tabulate(self.stats))

    def draw(self, out: str | Path) -> tuple[str, ...]:
        """Draw success by difficulty into ``out``; return what the figure leaves out, a line each.
        Raises as :func:`draw` does.
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
    """Count traces without a judge: messages, merge conflicts, success solo and in cooperation.

    Args:
        traces: paths, traces, or the result of :func:`load_traces`.
        cluster: the attributes that make a task.
        by: adds tables for each value of this attribute.
        channel: the attribute and values of the runs whose agents could write messages, such as
            ``"comm=true"`` or ``["run_name=msg_*", "run_name=chat_*"]``.
        on_unreadable: called with each trace that cannot be read.

    Raises:
        AnnotatorError: no trace was found, or no trace has the attribute ``by``, that of the
            channel, or one of its values.
    """
    from annotator.cooperbench.stats import StatsCounts, compute_statistics, parse_channel

    loaded = traces if isinstance(traces, Traces) else load_traces(traces)
    counts = StatsCounts(list_names(cluster), by, parse_channel(channel))
    for item in loaded.find():
        counts.add(item)
        if isinstance(item, Unreadable) and on_unreadable:
            on_unreadable(item)
    stats = compute_statistics(counts)
    if not stats.groups[0].traces:
        raise AnnotatorError(f"no traces in {', '.join(loaded.places) or 'what was given'}")
    return StatsSummary(stats)


def load_calibrations(*files: str | Path) -> "list[Calibration]":
    """Return the calibrations in files of ``annotate calibrate``.

    Raises:
        AnnotatorError: a file is unreadable or not of ``annotate calibrate``.
    """
    from annotator.calibration.model import read_calibrations

    return list(chain.from_iterable(read_calibrations(map(Path, files)).values()))


def group_calibrations(source: "CalibrationSource | None") -> "Calibrations | None":
    """Return calibrations, also those in files, by rubric."""
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
    """Do nothing with a notice."""
