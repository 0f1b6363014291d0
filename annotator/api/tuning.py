"""Tuning a rubric on people's labels."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from annotator.api.calibrating import make_request
from annotator.base.errors import AnnotatorError
from annotator.runs.arms import SelectedTraces, Trial, extract_limits
from annotator.runs.execute import RubricSource, RunProgress, ignore, refuse_running_loop
from annotator.runs.rejudge import open_traces, restore_model, restore_rubric
from annotator.runs.run import Run
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
    resume: bool = False,
    on_notice: Callable[[str], None] = ignore,
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
        resume: go on with what is in ``out``.
        on_notice: called with messages for the user.
        options: ``candidates`` (tried in a round, 6), ``rounds`` (1), ``folds`` (that check, 4),
            ``quote_traces`` (examples may quote labelled traces), ``max_cost`` (in dollars, for
            everything), ``concurrency``, ``on_progress``; ``final`` (open the test split),
            ``seed``, ``annotators``, ``cluster`` and others of a calibration.

    Raises:
        BudgetReached: the next call may cost more than is left; ``resume=True`` goes on.
        Pending: a stage waits for answers in files.
        AnnotatorError: labels, rubric, traces or judge cannot be used, or there are too few labels.
    """
    refuse_running_loop("call annotator.tune in a thread of its own")
    loaded, run = open_traces(traces)
    plan = plan_tuning(loaded, run, labels, rubric, judge, out=Path(out), **options)
    return plan.run(on_notice, "annotator.tune(...)", resume=resume)


def plan_tuning(
    traces: Traces,
    run: Run | None,
    labels: str | Path | Sequence[str | Path],
    rubric: RubricSource | None,
    judge: Any,
    *,
    out: Path,
    candidates: int = 6,
    rounds: int = 1,
    folds: int = 4,
    quote_traces: bool = False,
    on_progress: Callable[[RunProgress], None] = ignore,
    **options: Any,
) -> "Tuner":
    """Return the plan of a tuning; arguments and errors as :func:`tune`. ``run``: the run of these
    traces, if there is one.
    """
    from annotator.calibration.matching import read_reference
    from annotator.calibration.tuner import Tuner
    from annotator.calibration.tuning import TuningPlan

    settings = restore_model(run, judge)
    rubric = restore_rubric(run, rubric)
    limits = extract_limits(options)
    request = make_request(labels, **options)
    about = (request, rubric.scheme(), run, traces.places)
    dev = read_reference(*about, final=False)
    if request.final and dev.split == "all":
        raise AnnotatorError("--final opens the test split, and the labels have none")
    test = read_reference(*about, final=True) if request.final else None
    trace_ids = {*dev.labels, *(test.labels if test else ())}
    tuner = Tuner(
        rubric=rubric,
        settings=settings,
        request=request,
        plan=TuningPlan(candidates, rounds, folds, request.seed),
        quote_traces=quote_traces,
        dev=dev,
        test=test,
        trial=Trial(SelectedTraces(traces, trace_ids), out, only="rubric", **limits),
        progress=on_progress,
    )
    tuner.check_labels()
    return tuner
