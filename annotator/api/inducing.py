"""Inducing codes from traces."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from annotator.base.errors import AnnotatorError, Interrupted, SettingsError
from annotator.judges.build import ModelSettings, build_judge
from annotator.runs.arms import SelectedTraces, Trial
from annotator.runs.execute import RubricSource, RunProgress, ignore, refuse_running_loop
from annotator.runs.forecast import Forecast
from annotator.runs.restore import open_traces
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
    **options: Any,
) -> "Induction":
    """Read traces without a rubric, and return the codes of the failures in them.

    Writes ``out/codebook.json``, ``out/rubric.yaml`` and ``out/induction.json``.

    Args:
        traces: as of :func:`annotate`.
        model: a model's name, a judge file, or settings (:func:`llm`).
        sample: the most traces to read, by outcome and task.
        out: the directory of the result and of the run; None: a temporary one.
        options: ``batch_size`` (traces before codes are compared, 20), ``failed_only``, ``seed``,
            ``resume`` (go on with what is in ``out``), ``max_cost`` (in dollars, for everything),
            ``concurrency``, ``batch_file``, ``batch_results``, ``on_notice``, ``on_progress``.

    Raises:
        BudgetReached: the next call may cost more than is left; ``resume=True`` goes on.
        Interrupted: Ctrl-C.
        Pending: a stage waits for answers in files.
        AnnotatorError: the traces or the model cannot be used, or fewer than five can be read.
    """
    refuse_running_loop("call annotator.induce in a thread of its own")
    inducer = _prepare(traces, model, sample=sample, out=out, **options)
    try:
        return asyncio.run(inducer.induce())
    except KeyboardInterrupt:
        raise Interrupted("what was answered is kept") from None


def forecast_induction(*arguments: Any, **options: Any) -> Forecast:
    """Return the usage that :func:`induce` is expected to need, without calls; as its arguments."""
    return _prepare(*arguments, **options, offline=True).forecast()


def assign_findings(
    folder: str | Path,
    rubric: RubricSource,
    model: Any,
    *,
    max_cost: float | None = None,
    concurrency: int = 8,
    batch_file: Path | None = None,
    batch_results: tuple[Path, ...] = (),
    on_notice: Callable[[str], None] = ignore,
) -> dict[str, str | None]:
    """Assign the findings of an induction to the codes of another rubric.

    Args:
        folder: the directory of the induction; the answers are kept there.
        rubric: the other rubric, say that of an induction with another seed.
        model: as of :func:`induce`.
        max_cost: in dollars.
        concurrency: the most calls in flight.
        batch_file: only write the requests there.
        batch_results: only read the answers, from the results of such files.
        on_notice: called with messages for the user.

    Returns:
        The code of each finding by its id; None: no code fits.

    Raises:
        Pending: the requests wait for answers in files.
        AnnotatorError: there is no induction, or no usable answer.
    """
    from annotator.induction.inducer import Inducer
    from annotator.induction.result import open_induction
    from annotator.induction.sampling import TraceSample
    from annotator.rubrics import Rubric, load_rubric
    from annotator.traces import load_traces

    refuse_running_loop("call annotator.assign_findings in a thread of its own")
    induction = open_induction(folder)
    rubric = rubric if isinstance(rubric, Rubric) else load_rubric(str(rubric))
    trial = Trial(
        *(load_traces([]), (), (), Path(folder), "all", concurrency),
        *(max_cost, batch_file, batch_results),
    )
    inducer = Inducer(
        settings=_choose_model(model),
        sample=TraceSample((), {}),
        trial=trial,
        batch_size=1,
        about={},
        notice=on_notice,
        progress=ignore,
    )
    return asyncio.run(inducer.assign(induction.findings, rubric))


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


def _prepare(
    traces: TraceSource | Traces,
    model: Any,
    *,
    sample: int = 60,
    out: str | Path | None = None,
    batch_size: int = 20,
    failed_only: bool = False,
    seed: int = 0,
    resume: bool = False,
    max_cost: float | None = None,
    concurrency: int = 8,
    batch_file: Path | None = None,
    batch_results: tuple[Path, ...] = (),
    on_notice: Callable[[str], None] = ignore,
    on_progress: Callable[[RunProgress], None] = ignore,
    offline: bool = False,
) -> "Inducer":
    from annotator.induction.inducer import Inducer, load_open_rubric
    from annotator.induction.result import FILE, InductionRecord, read_record, write_record
    from annotator.induction.sampling import sample_traces

    for name, number in (("sample", sample), ("batch_size", batch_size)):
        if number < 1:
            raise SettingsError(f"{name}: expected a number from 1, found {number}")
    settings = _choose_model(model)
    settings = replace(settings, max_cost=max_cost) if max_cost is not None else settings
    traces, _ = open_traces(traces)
    selection = sample_traces(traces, load_open_rubric(), sample, seed, failed_only=failed_only)
    options = {"sample": sample, "batch_size": batch_size, "seed": seed, "failed_only": failed_only}
    about = {"model": settings.models[0].model, "sources": list(traces.places), **options}
    folder = Path(out) if out else Path(mkdtemp(prefix="annotator-"))
    if not offline:
        begun = (folder / FILE).exists()
        if begun and not resume:
            raise AnnotatorError(
                f"{folder}: an induction is there; go on with --resume, or name another --out"
            )
        if begun:
            before = read_record(folder).settings
            for name, value in about.items():
                if before.get(name) != value:
                    raise AnnotatorError(
                        f"{folder} cannot be resumed: {name} was {before.get(name)!r}, and is now"
                        f" {value!r}; name another --out"
                    )
        folder.mkdir(parents=True, exist_ok=True)
        if not begun:
            write_record(InductionRecord(about), folder)
    on_notice(selection.describe())
    return Inducer(
        settings=settings,
        sample=selection,
        trial=Trial(
            *(SelectedTraces(traces, selection.trace_ids), selection.trace_ids, (), folder, "all"),
            *(concurrency, max_cost, batch_file, batch_results),
        ),
        batch_size=batch_size,
        about=about,
        notice=on_notice,
        progress=on_progress,
    )
