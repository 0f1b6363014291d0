"""Tuning a rubric on people's labels."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from annotator.api.calibrating import make_request
from annotator.base.errors import AnnotatorError, SettingsError
from annotator.judges.build import build_judge
from annotator.rubrics import Rubric, load_rubric
from annotator.runs.arms import SelectedTraces, Trial
from annotator.runs.execute import RubricSource, RunProgress, ignore, refuse_running_loop
from annotator.runs.forecast import Forecast
from annotator.runs.restore import open_traces, restore_rubric, restore_settings
from annotator.traces import Traces, TraceSource

if TYPE_CHECKING:  # statistics and models are slow to import
    from annotator.calibration.tuner import Tuner
    from annotator.calibration.tuning import Tuning


def tune(
    traces: TraceSource | Traces,
    labels: str | Path | Sequence[str | Path],
    rubric: RubricSource | None = None,
    judge: Any = None,
    *,
    out: str | Path,
    **options: Any,
) -> "Tuning":
    """Improve a rubric on people's labels, and measure on other tasks whether that helped.

    Writes ``out/tuning.json``; if a change was kept, also ``out/rubric.yaml`` and
    ``out/judge.yaml``.

    Args:
        traces: as of :func:`annotate`, or one run directory, whose rubric and judge are then the
            defaults.
        labels: people's labels, as of :func:`calibrate`.
        rubric: the rubric to improve.
        judge: a model's name, a judge file, or settings (:func:`llm`).
        out: the directory of the result, and of the runs that it rests on.
        options: ``candidates`` (tried in a round, 6), ``rounds`` (1), ``folds`` (that check, 4),
            ``quote_traces`` (examples may quote labelled traces), ``resume`` (go on with what is in
            ``out``), ``max_cost`` (in dollars, for everything), ``concurrency``, ``on_notice``,
            ``on_progress``; ``final`` (open the test split), ``seed``, ``annotators``, ``cluster``
            and others of a calibration.

    Raises:
        BudgetReached: the next call may cost more than is left; ``resume=True`` goes on.
        Pending: a stage waits for answers in files.
        AnnotatorError: labels, rubric, traces or judge cannot be used, or there are too few labels.
    """
    refuse_running_loop("call annotator.tune in a thread of its own")
    return asyncio.run(_prepare(traces, labels, rubric, judge, out=out, **options).tune())


def forecast_tuning(*arguments: Any, **options: Any) -> Forecast:
    """Return the usage that :func:`tune` is expected to need, without calls; as its arguments."""
    return _prepare(*arguments, **options).forecast()


def _prepare(
    traces: TraceSource | Traces,
    labels: Any,
    rubric: RubricSource | None,
    judge: Any,
    *,
    out: str | Path,
    candidates: int = 6,
    rounds: int = 1,
    folds: int = 4,
    quote_traces: bool = False,
    resume: bool = False,
    max_cost: float | None = None,
    concurrency: int = 8,
    batch_file: Path | None = None,
    batch_results: tuple[Path, ...] = (),
    on_notice: Callable[[str], None] = ignore,
    on_progress: Callable[[RunProgress], None] = ignore,
    **options: Any,
) -> "Tuner":
    from annotator.calibration.matching import select_labels, select_split
    from annotator.calibration.sample.design import list_trace_ids
    from annotator.calibration.tuner import Tuner
    from annotator.calibration.tuning import TuningPlan

    traces, run = open_traces(traces)
    judge = judge or (restore_settings(run) if run else "rules")
    if run and not isinstance(rubric, Rubric):
        rubric = restore_rubric(run, None if rubric is None else str(rubric))
    if rubric is None:
        raise SettingsError("--rubric NAME|FILE is missing: the rubric to improve")
    rubric = rubric if isinstance(rubric, Rubric) else load_rubric(str(rubric))
    settings = build_judge(judge, offline=True).settings
    if settings is None:
        raise SettingsError("tuning asks a model: name it with --model")
    if settings.batch:
        raise SettingsError(
            "--batch would wait for one rubric after the other: use --batch-file, which has all of"
            " a stage"
        )
    request, scheme = make_request(labels, **options), rubric.scheme()
    trace_ids = list_trace_ids(run, scheme.id, request.design, request.labels.paths)
    read = request.labels.read(scheme, trace_ids, traces.places)
    selected, annotators = select_labels(read, request.annotators)
    dev, split = select_split(selected, final=False)
    if request.final and split == "all":
        raise AnnotatorError("--final opens the test split, and the labels have none")
    test = select_split(selected, final=True)[0] if request.final else {}
    tuner = Tuner(
        rubric=rubric,
        settings=settings,
        request=request,
        plan=TuningPlan(candidates, rounds, folds, request.seed),
        quote_traces=quote_traces,
        labels=dev,
        test=test,
        about={"split": split, "annotators": annotators},
        trial=Trial(
            *(SelectedTraces(traces, {*dev, *test}), (), (), Path(out), "rubric", concurrency),
            *(max_cost, batch_file, batch_results),
        ),
        resume=resume,
        notice=on_notice,
        progress=on_progress,
    )
    tuner.check_labels()
    return tuner
