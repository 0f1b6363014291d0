"""The way in from Python: a value in, a value out. The command line is a thin layer over it.

Nothing here prints or reads the command line; progress and notices come through callbacks, and the
errors are those of the command line (:class:`~annotator.errors.AnnotatorError`).
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Union

from annotator.annotations import DEFAULT_CLUSTER, Annotation, Usage
from annotator.errors import AnnotatorError, Interrupted
from annotator.judges.base import BUILT_IN, MODES, Judge, PaidJudge
from annotator.judges.build import (
    BuiltJudge,
    ModelSettings,
    build_judge,
    model_settings,
    read_settings,
)
from annotator.rubrics import Rubric, load_rubric
from annotator.runs.execute import Forecast, Only, Plan, carry_out, forecast_plan
from annotator.runs.manifest import new_manifest, read_manifest
from annotator.runs.run import Run, name_runs, open_run, open_runs
from annotator.runs.store import RunDirectory, read_done
from annotator.traces import Traces, TraceSource, Unreadable, load_traces

if TYPE_CHECKING:  # a run that is only made needs no statistics
    from annotator.calibration.model import Calibration, Calibrations
    from annotator.calibration.session import Annotators, Calibrated, Request
    from annotator.reports.frequency import FrequencyTable
    from annotator.reports.table import Table

__all__ = [
    "BUILT_IN",
    "MODES",
    "AnnotatorError",
    "BuiltJudge",
    "Forecast",
    "ModelSettings",
    "Only",
    "PaidJudge",
    "Recorded",
    "Rubric",
    "Run",
    "Traces",
    "Unreadable",
    "aannotate",
    "annotate",
    "build_judge",
    "calibrate",
    "calibrate_rubrics",
    "compare",
    "compare_annotators",
    "count",
    "count_pairs",
    "describe",
    "draw",
    "forecast",
    "llm",
    "load_rubric",
    "load_traces",
    "model_settings",
    "name_runs",
    "open_run",
    "open_runs",
    "read_calibrations",
    "read_settings",
]

JudgeSource = str | Path | Mapping[str, Any] | ModelSettings | Judge | BuiltJudge
"""What :func:`annotator.judges.build.build_judge` takes."""
CalibrationSource = Union["Calibration", Iterable["Calibration"], "Calibrations", None]
"""A calibration, several, or what :func:`read_calibrations` returns."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """How far a run is: how many annotations there are, by status, and what they used."""

    annotations: int
    counts: Mapping[str, int]
    usage: Usage


def annotate(
    traces: TraceSource | Traces,
    rubric: str | Rubric | Sequence[str | Rubric],
    judge: JudgeSource = "rules",
    **options: Any,
) -> Run:
    """Judge traces by a rubric or several, and return the run. ``options`` as in :func:`aannotate`.

    Raises:
        AnnotatorError: as :func:`aannotate`; or an event loop is running here, as in a notebook:
            there it is ``await aannotate(...)``.
        Interrupted: Ctrl-C. What was judged is kept: in ``out``, or as the error's ``run``.
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
        error = Interrupted(f"what was judged is kept{where}")
        error.run = kept[0] if kept else None
        raise error from None


async def aannotate(
    traces: TraceSource | Traces,
    rubric: str | Rubric | Sequence[str | Rubric],
    judge: JudgeSource = "rules",
    *,
    out: str | Path | None = None,
    resume: bool = False,
    format: str = "auto",
    limit: int | None = None,
    only: Only = "rubric",
    concurrency: int = 8,
    on_progress: Callable[[Recorded], None] | None = None,
    on_notice: Callable[[str], None] | None = None,
    command: str = "annotator.annotate(...)",
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
        on_progress: told after every annotation.
        on_notice: told what the user should know.
        command: what the manifest says the run was made by.

    Raises:
        AnnotatorError: a source, rubric or judge is wrong, no trace was found, the judge had to
            stop, or the run cannot be written. What was judged until then is kept in ``out``.
    """
    if resume and not out:
        raise AnnotatorError("resume=True needs out, the run directory to go on with")
    notice = on_notice or (lambda text: None)
    built, plan = _prepare(traces, rubric, judge, format, limit, only, concurrency)
    if resume and out:
        built.judge.recall(read_manifest(Path(out)).learned)
    if out:
        return await _execute(plan, Path(out), built, resume, on_progress, notice, command)
    with TemporaryDirectory(prefix="annotator-") as folder:
        try:
            run = await _execute(plan, Path(folder), built, False, on_progress, notice, command)
        except BaseException:
            if _kept is not None and (Path(folder) / "run.json").is_file():
                _kept.append(_hold(open_run(folder)))
            raise
        return _hold(run)


def forecast(
    traces: TraceSource | Traces,
    rubric: str | Rubric | Sequence[str | Rubric],
    judge: JudgeSource = "rules",
    *,
    resumed: str | Path | None = None,
    format: str = "auto",
    limit: int | None = None,
    only: Only = "rubric",
    on_notice: Callable[[str], None] | None = None,
) -> Forecast:
    """Return how many calls, tokens and dollars :func:`annotate` would take with these arguments;
    nothing is called and nothing written, and no key is needed.

    ``resumed``: the run directory of an unfinished run, whose annotations would not be made again.

    Raises:
        AnnotatorError: a source, rubric or judge is wrong, or the unfinished run cannot be read.
    """
    built, plan = _prepare(traces, rubric, judge, format, limit, only, offline=True)
    is_done: Callable[[str, str], bool] = lambda trace_id, rubric: False  # noqa: E731
    if resumed:
        built.judge.recall(read_manifest(Path(resumed)).learned)
        is_done = read_done(Path(resumed))
    built.preview()
    try:
        return forecast_plan(plan, is_done)
    finally:
        built.end(on_notice or (lambda text: None))


def _prepare(
    traces: TraceSource | Traces,
    rubric: str | Rubric | Sequence[str | Rubric],
    judge: JudgeSource,
    format: str,
    limit: int | None,
    only: Only,
    concurrency: int = 8,
    *,
    offline: bool = False,
) -> tuple[BuiltJudge, Plan]:
    sources = [rubric] if isinstance(rubric, (str, Rubric)) else list(rubric)
    rubrics = tuple(load_rubric(item) if isinstance(item, str) else item for item in sources)
    if not rubrics or len({item.id for item in rubrics}) < len(rubrics):
        raise AnnotatorError("rubric: name one, or several with different ids")
    built = build_judge(judge, concurrency=concurrency, offline=offline)
    if not isinstance(traces, Traces):
        traces = load_traces(traces, format=format)
    return built, Plan(traces, rubrics, built.judge, limit, only, concurrency)


async def _execute(
    plan: Plan,
    folder: Path,
    built: BuiltJudge,
    resume: bool,
    on_progress: Callable[[Recorded], None] | None,
    notice: Callable[[str], None],
    command: str,
) -> Run:
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
    start = RunDirectory.resume if resume else RunDirectory.create
    run = start(folder, manifest)

    def record(_: Annotation) -> None:
        if on_progress:
            on_progress(Recorded(sum(run.counts.values()), dict(run.counts), run.usage))

    seen = await carry_out(plan, run, built, record, notice)
    for line in seen.describe():
        notice(line)
    return open_run(folder)


def _hold(run: Run) -> Run:
    """Return a run with its annotations in memory."""
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
    calibration: CalibrationSource = None,
    transfer: bool = False,
    by: str | None = None,
    of_labelled: bool = False,
) -> "list[Table]":
    """Return the frequency tables of runs, one for each rubric, or for each value of an attribute
    (``by``), as ``annotate report`` prints them.

    ``calibration`` adds the shares corrected for the judge's errors; ``transfer`` lets it be of
    another judge or of other traces. ``of_labelled``: shares of the labelled traces alone.

    Raises:
        AnnotatorError: a run is damaged, or given twice; a calibration does not fit; no trace has
            the attribute.
    """
    from annotator.reports.tables import frequency

    corrections = _group(calibration)
    return list(frequency.tabulate(_count(runs, corrections, transfer, by, of_labelled)))


def _count(
    runs: Sequence[Run],
    corrections: "Calibrations | None",
    transfer: bool,
    by: str | None,
    of_labelled: bool = False,
) -> "list[FrequencyTable]":
    from annotator.reports.frequency import frequency_tables, mark_runs

    if len({run.id for run in runs}) < len(runs):
        raise AnnotatorError("a run was given twice, and would count as often")
    tables = [
        table
        for run in runs
        for table in frequency_tables(
            run, corrections, transfer=transfer, by=by, of_labelled=of_labelled
        )
    ]
    return mark_runs(tables, runs)


def count_pairs(*runs: Run, on_notice: Callable[[str], None] | None = None) -> "list[Table]":
    """Return how often two codes stand in the same trace, a table for each run and rubric.

    ``on_notice`` is told of each rubric that allows one code alone, and has no pairs.

    Raises:
        AnnotatorError: a run is damaged.
    """
    from annotator.reports.co_occurrence import count_co_occurrences, list_uncounted
    from annotator.reports.tables import co_occurrence

    counts = count_co_occurrences(*runs)
    if on_notice:
        for line in list_uncounted(*runs):
            on_notice(line)
    return list(co_occurrence.tabulate(counts))


def compare(
    *runs: Run,
    by: str = "run",
    values: tuple[str, str] | None = None,
    calibration: CalibrationSource = None,
    on_notice: Callable[[str], None] | None = None,
) -> "list[Table]":
    """Return how two runs differ, or two groups of traces in ``runs``: those whose attribute ``by``
    has one of two ``values``. ``on_notice`` is told which rubric cannot be compared.

    Raises:
        AnnotatorError: nothing can be compared, or a calibration is not of its run.
    """
    from annotator.reports.comparison import compare as compare_sides
    from annotator.reports.tables import comparison

    names = tuple(name_runs(runs))
    if values is None and (by != "run" or len(names) != 2):
        raise AnnotatorError(f"{len(runs)} runs by {by}: say which two groups with values=(A, B)")
    first, second = values or (names[0], names[1])
    notice = on_notice or (lambda text: None)
    compared = compare_sides(runs, by, first, second, _group(calibration), notice=notice)
    return list(comparison.tabulate(compared))


def draw(
    *runs: Run,
    out: str | Path,
    plot: str = "frequency",
    calibration: CalibrationSource = None,
    transfer: bool = False,
    by: str | None = None,
    on_notice: Callable[[str], None] | None = None,
) -> None:
    """Draw the shares of codes with their intervals into a .svg, .png or .pdf, or another figure:
    ``plot`` is ``frequency``, ``co-occurrence``, ``confusion`` or ``reliability`` (the last two
    need a calibration). ``on_notice`` is told what the figure leaves out.

    Raises:
        AnnotatorError: as :func:`count`; matplotlib is not installed, there is nothing of this kind
            to draw, or the file cannot be written.
    """
    from annotator.reports import figures
    from annotator.reports.co_occurrence import count_co_occurrences, list_uncounted

    file = Path(out)
    figures.check(file)
    if plot == "co-occurrence":
        source = figures.FigureSource(co_occurrences=count_co_occurrences(*runs))
        left_out = list_uncounted(*runs)
    else:
        corrections = _group(calibration)
        tables = _count(runs, corrections, transfer, by)
        source = figures.FigureSource(runs, tables, corrections)
        left_out = []
    for line in (*left_out, *figures.draw(plot, source, file)):
        if on_notice:
            on_notice(line)


def describe(
    traces: TraceSource | Traces,
    *,
    cluster: Collection[str] = DEFAULT_CLUSTER,
    by: str | None = None,
    figure: str | Path | None = None,
    on_notice: Callable[[str], None] | None = None,
    on_unreadable: Callable[[Unreadable], None] | None = None,
) -> "list[Table]":
    """Return what can be counted in traces without a judge, as ``annotate stats`` prints it.

    Args:
        traces: what :func:`load_traces` returns, or takes.
        cluster: the attributes that together name a task; none of them: runs are independent.
        by: tables for each value of this attribute, too.
        figure: where to draw success by difficulty, a .svg, .png or .pdf.
        on_notice: told what the figure leaves out.
        on_unreadable: told of each trace that cannot be read, and is left out.

    Raises:
        AnnotatorError: no trace was found, none has the attribute, or the figure cannot be drawn.
    """
    from annotator.reports import figures
    from annotator.reports.stats import StatsCounts, statistics
    from annotator.reports.tables import stats

    if figure:
        figures.check(Path(figure))
    if not isinstance(traces, Traces):
        traces = load_traces(traces)
    counts = StatsCounts(cluster=cluster, by=by)
    for item in traces.find():
        counts.add(item)
        if isinstance(item, Unreadable) and on_unreadable:
            on_unreadable(item)
    described = statistics(counts)
    if not described.groups[0].traces:
        raise AnnotatorError(f"no traces in {', '.join(traces.places) or 'what was given'}")
    if figure:
        drawing = figures.FigureSource(stats=described)
        for line in figures.draw(figures.DIFFICULTY, drawing, Path(figure)):
            if on_notice:
                on_notice(line)
    return list(stats.tabulate(described))


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


def read_calibrations(*files: str | Path) -> "Calibrations":
    """Return what ``annotate calibrate`` wrote, for :func:`count` and the like; of several for one
    rubric each run takes its own.

    Raises:
        AnnotatorError: a file cannot be read, or is not what ``annotate calibrate`` writes.
    """
    from annotator.calibration import model

    return model.read_calibrations(map(Path, files))


def _group(calibration: CalibrationSource) -> "Calibrations | None":
    if calibration is None or isinstance(calibration, Mapping):
        return calibration
    from annotator.calibration.model import Calibration, group_by_rubric

    return group_by_rubric([calibration] if isinstance(calibration, Calibration) else calibration)
