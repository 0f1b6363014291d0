"""Inducing codes from traces."""

from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from annotator.base.errors import SettingsError
from annotator.judges.build import ModelSettings, build_judge
from annotator.runs.arms import SelectedTraces, Trial
from annotator.runs.execute import RunProgress, ignore, refuse_running_loop
from annotator.runs.rejudge import open_traces
from annotator.traces import Traces, TraceSource

if TYPE_CHECKING:  # statistics and models are slow to import
    from annotator.induction.inducer import Inducer
    from annotator.induction.result import Induction


def induce(
    traces: TraceSource | Traces,
    model: Any = None,
    *,
    sample: int = 60,
    out: str | Path | None = None,
    resume: bool = False,
    on_notice: Callable[[str], None] = ignore,
    **options: Any,
) -> "Induction":
    """Read traces without a rubric, and return the codes of the failures in them.

    Writes ``out/codebook.json``, ``out/rubric.yaml`` and ``out/induction.json``.

    Args:
        traces: as of :func:`annotate`.
        model: a model's name, a judge file, or settings (:func:`llm`).
        sample: the most traces to read, by outcome and task.
        out: the directory of the result and of the run; None: a temporary one.
        resume: go on with what is in ``out``.
        on_notice: called with messages for the user.
        options: ``batch_size`` (traces before codes are compared, 20), ``failed_only``, ``seed``,
            ``max_cost`` (in dollars, for everything), ``concurrency``, ``batch_file``,
            ``batch_results``, ``on_progress``.

    Raises:
        BudgetReached: the next call may cost more than is left; ``resume=True`` goes on.
        Interrupted: Ctrl-C.
        Pending: a stage waits for answers in files.
        AnnotatorError: the traces or the model cannot be used, or fewer than five can be judged.
    """
    refuse_running_loop("call annotator.induce in a thread of its own")
    folder = Path(out) if out else Path(mkdtemp(prefix="annotator-"))
    plan = plan_induction(open_traces(traces)[0], model, sample=sample, out=folder, **options)
    return plan.run(on_notice, "annotator.induce(...)", resume=resume)


def plan_induction(
    traces: Traces,
    model: Any,
    *,
    out: Path,
    sample: int = 60,
    batch_size: int = 20,
    failed_only: bool = False,
    seed: int = 0,
    on_progress: Callable[[RunProgress], None] = ignore,
    **options: Any,
) -> "Inducer":
    """Return the plan of an induction; arguments and errors as :func:`induce`."""
    from annotator.induction.inducer import Inducer, load_open_rubric
    from annotator.induction.sampling import sample_traces

    for name, number in (("sample", sample), ("batch_size", batch_size)):
        if number < 1:
            raise SettingsError(f"{name}: expected a number from 1, found {number}")
    settings = _choose_model(model)
    selection = sample_traces(traces, load_open_rubric(), sample, seed, failed_only=failed_only)
    about = {"model": settings.models[0].model, "sources": list(traces.places), "sample": sample}
    about |= {"batch_size": batch_size, "seed": seed, "failed_only": failed_only}
    return Inducer(
        settings=settings,
        sample=selection,
        trial=Trial(SelectedTraces(traces, selection.trace_ids), out, **options),
        batch_size=batch_size,
        about=about,
        progress=on_progress,
    )


def _choose_model(model: Any) -> ModelSettings:
    """Return the settings of a single model; raises SettingsError for any other judge."""
    settings = None if model is None else build_judge(model, offline=True).settings
    if settings is None or settings.finder:
        raise SettingsError("an induction asks a model: name it with --model")
    if settings.samples * len(settings.models) > 1 or settings.critic:
        raise SettingsError(
            "an induction asks one model, once a trace: leave out --samples, further models and"
            " --critic"
        )
    if settings.batch:
        raise SettingsError(
            "--batch would wait for one stage after the other: use --batch-file, which has all"
            " requests of a stage"
        )
    return settings
