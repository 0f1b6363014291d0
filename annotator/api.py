"""The way in from Python: a value in, a value out. The command line is a thin layer over it.

Nothing here prints or reads the command line; progress and notices come through callbacks, and the
errors are those of the command line (:class:`~annotator.errors.AnnotatorError`).
"""

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from annotator.annotations import Annotation, Usage
from annotator.errors import AnnotatorError, Interrupted
from annotator.judges.base import Judge
from annotator.judges.build import BuiltJudge, ModelSettings, build_judge, model_settings
from annotator.rubrics import Rubric, load_rubric
from annotator.runs.execute import Forecast, Only, Plan, carry_out
from annotator.runs.execute import forecast as forecast_plan
from annotator.runs.manifest import Manifest, new_manifest, read_manifest
from annotator.runs.run import Run, name_runs, open_run, open_runs
from annotator.runs.store import RunDirectory, read_done
from annotator.traces import Traces, TraceSource, Unreadable, load_traces

if TYPE_CHECKING:  # a run that is only made needs no statistics
    from annotator.calibration.model import Calibration, Calibrations
    from annotator.calibration.session import Annotators, Calibrated, Request
    from annotator.reports.frequency import FrequencyTable
    from annotator.reports.stats import Stats
    from annotator.reports.table import Table

    CalibrationSource = Calibration | str | Path | Iterable[Calibration | str | Path]

__all__ = [
    "Annotation",
    "Forecast",
    "JudgeSource",
    "Only",
    "Recorded",
    "RubricSource",
    "Run",
    "StatsSummary",
    "aannotate",
    "annotate",
    "calibrate",
    "calibrate_rubrics",
    "check_figure",
    "compare",
    "compare_annotators",
    "count",
    "count_together",
    "draw",
    "forecast",
    "group_calibrations",
    "llm",
    "load_calibrations",
    "open_run",
    "open_runs",
    "summarize",
]

JudgeSource = str | Path | Mapping[str, Any] | ModelSettings | Judge | BuiltJudge
"""What :func:`annotator.judges.build.build_judge` takes."""
RubricSource = str | os.PathLike[str] | Rubric
"""A rubric, the name of a built-in one, or a YAML file."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """How far a run is: how many annotations there are, by status, and what they used."""

    annotations: int
    counts: Mapping[str, int]
    usage: Usage


def annotate(
    traces: TraceSource | Traces,
    rubric: RubricSource | Sequence[RubricSource],
    judge: JudgeSource = "rules",
    **options: Any,
) -> Run:
    """Judge traces by a rubric or several, and return the run. ``options`` as in :func:`aannotate`.

    Raises:
        AnnotatorError: as :func:`aannotate`; or an event loop is running here, as in a notebook:
            there it is ``await aannotate(...)``.
        Interrupted: Ctrl-C. What was judged is kept: in ``out``, and as the error's ``run``.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise AnnotatorError("an event loop is running here: await aannotate(...) instead")
    kept: list[Run] = []
    try:
        return asyncio.run(aannotate(traces, rubric, judge, **options, _kept=kept))
    except KeyboardInterrupt:
        where = "; go on with resume=True" if options.get("out") else "; it is the error's run"
        error = Interrupted(f"what was judged is kept{where}" if kept else "nothing was judged yet")
        error.run = kept[0] if kept else None
        raise error from None


async def aannotate(
    traces: TraceSource | Traces,
    rubric: RubricSource | Sequence[RubricSource],
    judge: JudgeSource = "rules",
    *,
    out: str | Path | None = None,
    resume: bool = False,
    format: str = "auto",
    limit: int | None = None,
    only: Only = "rubric",
    concurrency: int = 8,
    command: str = "annotator.annotate(...)",
    on_start: Callable[[Run], None] | None = None,
    on_progress: Callable[[Recorded], None] | None = None,
    on_notice: Callable[[str], None] | None = None,
    _kept: list[Run] | None = None,
) -> Run:
    """Judge traces by a rubric or several, inside a running event loop, and return the run.

    Args:
        traces: what :func:`load_traces` returns, or takes.
        rubric: a rubric, the name of a built-in one, a YAML file, or several of them.
        judge: ``rules``, a model's name, a plug-in, a judge file, settings (:func:`llm`), or an
            object with the members of :class:`~annotator.judges.base.Judge`.
        out: the run directory; None: the run is in memory alone (on disk while it is made).
        resume: go on with the unfinished run in ``out``; what failed is judged again.
        format: as what paths are read; see :func:`load_traces`.
        limit: only the first so many traces.
        only: ``rubric`` leaves it to each rubric which traces it is for, ``failed`` skips passed
            runs too, ``all`` judges passed and failed ones alike.
        concurrency: the most calls in flight.
        command: what the manifest says that the run was started by.
        on_start: told when the run has begun, with the run as it then is.
        on_progress: told after every annotation.
        on_notice: told what the user should know.

    Raises:
        AnnotatorError: a source, rubric or judge is wrong, no trace was found, the judge had to
            stop, or the run cannot be written. What was judged until then is the error's ``run``,
            and kept in ``out``.
    """
    if resume and not out:
        raise AnnotatorError("resume=True needs out, the run directory to go on with")
    folder = Path(out) if out else None
    options = (format, limit, only, concurrency)
    plan, built = _make_plan(traces, rubric, judge, *options, folder if resume else None)
    manifest = new_manifest(
        rubrics=plan.rubrics,
        judge=plan.judge,
        sources=plan.traces.places,
        format=plan.traces.format,
        only=plan.only,
        limit=plan.limit,
        concurrency=plan.concurrency,
        command=command,
    )
    callbacks = _Callbacks(on_start, on_progress, on_notice or _ignore)
    kept = [] if _kept is None else _kept
    if folder:
        return await _execute(plan, built, manifest, folder, resume, callbacks, open_run, kept)
    with TemporaryDirectory(prefix="annotator-") as name:
        return await _execute(plan, built, manifest, Path(name), False, callbacks, _hold, kept)


def forecast(
    traces: TraceSource | Traces,
    rubric: RubricSource | Sequence[RubricSource],
    judge: JudgeSource = "rules",
    *,
    resume: str | Path | None = None,
    format: str = "auto",
    limit: int | None = None,
    only: Only = "rubric",
    on_notice: Callable[[str], None] | None = None,
) -> Forecast:
    """Return how many calls, tokens and dollars :func:`annotate` is expected to take; nothing is
    asked and nothing written. ``resume``: the run directory that it would go on with.

    Raises:
        AnnotatorError: as :func:`aannotate`.
    """
    folder = Path(resume) if resume else None
    options = (format, limit, only, 8)
    plan, built = _make_plan(traces, rubric, judge, *options, folder, offline=True)
    built.preview()
    try:
        return forecast_plan(plan, read_done(folder) if folder else lambda trace_id, rubric: False)
    finally:
        built.end(on_notice or _ignore)


@dataclass(frozen=True, slots=True)
class _Callbacks:
    start: Callable[[Run], None] | None
    progress: Callable[[Recorded], None] | None
    notice: Callable[[str], None]


def _ignore(text: str) -> None:
    """Be told nothing."""


def _make_plan(
    traces: TraceSource | Traces,
    rubric: RubricSource | Sequence[RubricSource],
    judge: JudgeSource,
    format: str,
    limit: int | None,
    only: Only,
    concurrency: int,
    resumed: Path | None,
    offline: bool = False,
) -> tuple[Plan, BuiltJudge]:
    sources = [rubric] if isinstance(rubric, (str, os.PathLike, Rubric)) else rubric
    rubrics = tuple(
        source if isinstance(source, Rubric) else load_rubric(os.fspath(source))
        for source in sources
    )
    if not rubrics or len({rubric.id for rubric in rubrics}) < len(rubrics):
        raise AnnotatorError("rubric: name one, or several with different ids")
    if not isinstance(traces, Traces):
        traces = load_traces(traces, format=format)
    built = build_judge(judge, concurrency=concurrency, offline=offline)
    if resumed:
        built.judge.recall(read_manifest(resumed).learned)
    return Plan(traces, rubrics, built.judge, limit, only, concurrency), built


async def _execute(
    plan: Plan,
    built: BuiltJudge,
    manifest: Manifest,
    folder: Path,
    resume: bool,
    callbacks: _Callbacks,
    end: Callable[[Path], Run],
    kept: list[Run],
) -> Run:
    """Carry out a plan in a run directory, and return what ``end`` makes of that; where it stops,
    that is ``kept``, unless nothing was judged.
    """
    directory = (RunDirectory.resume if resume else RunDirectory.create)(folder, manifest)

    def report(_: Annotation) -> None:
        if callbacks.progress:
            counts = dict(directory.counts)
            callbacks.progress(Recorded(sum(counts.values()), counts, directory.usage))

    def begin() -> None:
        if callbacks.start:
            callbacks.start(end(folder))

    try:
        seen = await carry_out(plan, directory, built, report, callbacks.notice, begin)
        run = end(folder)
    except BaseException as error:
        with suppress(AnnotatorError):
            kept.append(end(folder))
            if isinstance(error, AnnotatorError):
                error.run = kept[0]
        raise
    for line in seen.describe(run.folder):
        callbacks.notice(line)
    return run


def _hold(folder: Path) -> Run:
    """Return the run in a directory with its annotations in memory."""
    run = open_run(folder)
    return Run(run.manifest, None, tuple(run.annotations()))


def llm(model: str | Sequence[str], **settings: Any) -> ModelSettings:
    """Return a judge that asks a model, or several that vote, for :func:`annotate`.

    ``settings`` have the names of a judge file (``base_url``, ``samples``, ``temperature`` ...) and
    of :class:`~annotator.judges.build.ModelSettings` (``max_cost``, ``rpm`` ...).

    Raises:
        AnnotatorError: a setting is unknown or wrong.
    """
    if isinstance(model, str):
        return model_settings({"model": model, **settings})
    return model_settings({"models": [{"model": name} for name in model], **settings})


def count(
    *runs: Run,
    calibration: "CalibrationSource | None" = None,
    transfer: bool = False,
    by: str | None = None,
    of_labelled: bool = False,
) -> "list[Table]":
    """Return the frequency tables of runs, one for each rubric, or for each value of an attribute
    (``by``), as ``annotate report`` prints them.

    ``calibration``: calibrations, or the files they are in; adds the shares corrected for the
    judge's errors. ``transfer`` lets it be of another judge or of other traces. ``of_labelled``:
    shares of the labelled traces alone.

    Raises:
        AnnotatorError: a run is damaged, or given twice; a calibration does not fit; no trace has
            the attribute.
    """
    from annotator.reports.tables import frequency

    calibrations = group_calibrations(calibration)
    return list(frequency.tabulate(_count(runs, calibrations, transfer, by, of_labelled)))


def _count(
    runs: Sequence[Run],
    calibrations: "Calibrations | None",
    transfer: bool,
    by: str | None,
    of_labelled: bool = False,
) -> "list[FrequencyTable]":
    from annotator.reports.frequency import frequency_tables, mark_runs

    _check_once(runs)
    tables = [
        table
        for run in runs
        for table in frequency_tables(
            run, calibrations, transfer=transfer, by=by, of_labelled=of_labelled
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
    on_notice: Callable[[str], None] | None = None,
) -> "list[Table]":
    """Return how two runs differ, or two groups of traces in ``runs``: those whose attribute ``by``
    has one of two ``values``. ``on_notice`` is told which rubric cannot be compared.

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
        runs, by, first, second, group_calibrations(calibration), notice=notice
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
        tables = _count(runs, calibrations, transfer, by)
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
    on_unreadable: Callable[[Unreadable], None] | None = None,
) -> StatsSummary:
    """Return what can be counted in traces without a judge: how agents talk, merge conflicts,
    success solo and in cooperation, by difficulty.

    ``cluster``: the attributes that make a task. ``by``: tables for each value of an attribute too.
    ``on_unreadable`` is told of each trace that cannot be read, and is left out.

    Raises:
        AnnotatorError: no trace was found.
    """
    from annotator.reports.stats import StatsCounts, statistics

    loaded = traces if isinstance(traces, Traces) else load_traces(traces)
    counts = StatsCounts(cluster=tuple(cluster), by=by)
    for item in loaded.find():
        counts.add(item)
        if isinstance(item, Unreadable) and on_unreadable:
            on_unreadable(item)
    stats = statistics(counts)
    if not stats.groups[0].traces:
        raise AnnotatorError(f"no traces in {', '.join(loaded.places) or 'what was given'}")
    return StatsSummary(stats)


def calibrate(
    run: Run,
    labels: str | Path | Sequence[str | Path],
    rubric: str | None = None,
    **options: Any,
) -> "Calibration":
    """Hold the judge of a run against people's labels for one rubric, as ``annotate calibrate``
    does; the look is noted beside the labels.

    ``rubric`` may be left out where the labels are for one rubric of the run. ``options``: fields
    of :class:`annotator.calibration.session.Request`, such as ``annotators`` or ``confidence``.

    Raises:
        AnnotatorError: the labels are not readable or not of this run, or a choice has to be made
            (which rubric, which annotator, which split).
    """
    from annotator.calibration.session import calibrate_run, choose_rubrics

    request = _request(labels, rubrics=(rubric,) if rubric else (), **options)
    rubrics = choose_rubrics(run, request)
    if len(rubrics) > 1:  # before any look is noted
        raise AnnotatorError(f"the labels are for {', '.join(rubrics)}: say which with rubric=")
    [calibrated] = calibrate_run(run, request)
    return calibrated.calibration


def calibrate_rubrics(
    run: Run,
    labels: str | Path | Sequence[str | Path],
    rubrics: Sequence[str] = (),
    **options: Any,
) -> "list[Calibrated]":
    """Calibrate a run for each of its rubrics that has labels, or for those named; with each
    calibration the labels and annotations that it holds side by side. As :func:`calibrate`.
    """
    from annotator.calibration.session import calibrate_run

    return calibrate_run(run, _request(labels, rubrics=tuple(rubrics), **options))


def compare_annotators(
    labels: str | Path | Sequence[str | Path],
    first: str,
    second: str,
    rubrics: Sequence[str] = (),
    run: Run | None = None,
    **options: Any,
) -> "list[Annotators]":
    """Hold one annotator against another, for each rubric that has labels, or for those named; no
    look is noted. ``options`` as in :func:`calibrate`; ``run`` tells the tasks of the traces.

    Raises:
        AnnotatorError: the labels are not readable, an annotator has none, they have no trace in
            common, or a rubric is not known.
    """
    from annotator.calibration import session

    request = _request(labels, rubrics=tuple(rubrics), **options)
    return session.compare_annotators(request, first, second, run)


def _request(labels: str | Path | Sequence[str | Path], **options: Any) -> "Request":
    from annotator.calibration.session import Request
    from annotator.labels import LabelFiles

    paths = (labels,) if isinstance(labels, (str, Path)) else labels
    return Request(LabelFiles(map(Path, paths)), **options)


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
