"""Anchors: freezing a judge's answers to some traces, and asking for them again."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any, cast

from annotator.api.checking import draw_judged
from annotator.base.errors import SettingsError
from annotator.base.files import write_file
from annotator.base.text import dump_json
from annotator.judges.build import ModelSettings
from annotator.runs.anchors import Anchors, open_anchors
from annotator.runs.arms import (
    Arm,
    SelectedTraces,
    Trial,
    forecast_arms,
    judge_arms,
    read_run_cost,
    run_trial,
)
from annotator.runs.execute import Callbacks, Plan, RubricSource, ignore, refuse_running_loop
from annotator.runs.forecast import Forecast
from annotator.runs.rejudge import open_traces, restore_criteria, restore_model, restore_rubric
from annotator.runs.run import Run, open_run
from annotator.traces.clusters import DEFAULT_CLUSTER

if TYPE_CHECKING:  # statistics are slow to import
    from annotator.calibration.drift import CodeDrift, JudgeDrift

ASKS = 2
"""How often each trace is asked again when it is frozen."""


@dataclass(frozen=True)
class AnchorPlan:
    """The runs that freeze anchors, or the next look at them.

    Attributes:
        run_frozen: the run whose answers are frozen; None for a look.
        options: of :func:`annotator.calibration.drift.measure_looks`.
    """

    anchors: Anchors
    trial: Trial
    run_frozen: Run | None
    options: Mapping[str, Any]

    def forecast(self) -> Forecast:
        """Return the expected usage, without calls."""
        return forecast_arms(self.trial)

    def run(
        self, on_notice: Callable[[str], None], command: str, *, resume: bool
    ) -> "JudgeDrift | Anchors":
        """Ask, and return the drift, or the anchors if they are new."""
        if self.run_frozen:
            self.anchors.save(self.run_frozen, self.trial.traces)
        run_trial(self.trial, on_notice, command, resume=resume)
        if not self.run_frozen:
            return self.measure()
        from annotator.calibration.drift import find_early_drift

        if codes := find_early_drift(self.anchors):
            on_notice(
                f"the judge already differs from {self.run_frozen} in {', '.join(codes)}: judge a"
                " new run and freeze that"
            )
        return self.anchors

    def measure(self) -> "JudgeDrift":
        """Return the drift at the last look, and write it."""
        from annotator.calibration.drift import measure_looks

        drift = measure_looks(self.anchors, **self.options)
        write_file(self.anchors.folder / "drift.json", dump_json(asdict(drift), 1) + "\n")
        return drift


def anchor(
    run: str | Path,
    *,
    out: str | Path,
    on_notice: Callable[[str], None] = ignore,
    resume: bool = False,
    **options: Any,
) -> Anchors:
    """Freeze the answers of a run to some random traces, and return the anchors.

    Args:
        run: the run directory.
        out: the directory of the anchors.
        on_notice: called with messages for the user.
        resume: go on with the anchors in ``out``.
        options: ``n`` (traces, 60), ``asks`` (of each trace again at once, 2), ``rubric``,
            ``judge`` (the run's, for a secret that ``run.json`` does not keep), ``seed``,
            ``max_cost`` (in dollars), ``concurrency``.

    Raises:
        BudgetReached: the next call may bring the cost above ``max_cost``.
        AnnotatorError: the run, its traces or its judge cannot be used, or asks no model.
    """
    refuse_running_loop("call annotator.anchor in a thread of its own")
    plan = plan_anchors(run, out=Path(out), **options)
    plan.run(on_notice, "annotator.anchor(...)", resume=resume)
    return plan.anchors


def ask_anchors(
    anchors: str | Path,
    *,
    on_notice: Callable[[str], None] = ignore,
    resume: bool = False,
    **options: Any,
) -> "JudgeDrift":
    """Ask the judge of anchors again, and return how its answers drifted.

    Args:
        anchors: the directory of the anchors.
        on_notice: called with messages for the user.
        resume: go on with a look that was stopped.
        options: ``judge``, ``max_cost``, ``concurrency`` as for :func:`anchor`; ``cluster``,
            ``confidence``.

    Raises:
        BudgetReached: the next call may bring the cost above ``max_cost``.
        AnnotatorError: there are no anchors, or the judge is not the one that was frozen.
    """
    refuse_running_loop("call annotator.ask_anchors in a thread of its own")
    drift = plan_look(anchors, **options).run(
        on_notice, "annotator.ask_anchors(...)", resume=resume
    )
    return cast("JudgeDrift", drift)


def plan_anchors(
    source: str | Path,
    rubric: RubricSource | None = None,
    judge: Any = None,
    *,
    out: Path,
    n: int = 60,
    asks: int = ASKS,
    seed: int = 0,
    **limits: Any,
) -> AnchorPlan:
    """Return the plan that freezes the answers of a run; arguments and errors as :func:`anchor`."""
    traces, run = open_traces(source)
    if run is None:
        raise SettingsError(f"{source}: neither a run directory nor anchors")
    settings, rubric = restore_model(run, judge), restore_rubric(run, rubric)
    run.scheme(rubric.id)
    only, _ = restore_criteria(run)
    # Drawn with equal chances, whatever the judge answered. If traces were chosen by their answers,
    # the next answers would move back to the mean by themselves.
    selected, population = draw_judged(traces, run, rubric, only, n, seed)
    ids = tuple(sorted(selected.trace_ids))
    anchors = Anchors(out, run.id, rubric, asks + 1, ids, population, seed)
    names = anchors.frozen_names[1:]
    trial = _make_trial(anchors, selected, run, settings, names, limits)
    return AnchorPlan(anchors, trial, run, {})


def plan_look(
    folder: str | Path,
    judge: Any = None,
    *,
    cluster: tuple[str, ...] = DEFAULT_CLUSTER,
    confidence: float = 0.95,
    **limits: Any,
) -> AnchorPlan:
    """Return the plan of the next look; arguments and errors as :func:`ask_anchors`."""
    anchors = open_anchors(folder)
    anchors.open_frozen()
    base = anchors.base
    name = f"looks/{len(anchors.open_looks()) + 1}"
    trial = _make_trial(
        *(anchors, anchors.read_traces(), base, restore_model(base, judge), [name], limits)
    )
    return AnchorPlan(anchors, trial, None, {"cluster": cluster, "confidence": confidence})


def _make_trial(
    anchors: Anchors,
    traces: SelectedTraces,
    base: Run,
    settings: ModelSettings,
    names: list[str],
    limits: Mapping[str, Any],
) -> Trial:
    """Return the runs that ask the anchors' judge, after a check that it is the same.

    Raises:
        AnnotatorError: it is another judge.
    """
    only, criteria = restore_criteria(base)
    population = anchors.population
    trial = Trial(traces, anchors.folder, only=only, population=population, **limits)
    # An answer from the cache would hide a drift.
    settings = replace(settings, cached=False)
    arms = []
    for name in names:
        limited = trial.limit(settings, name, None)  # with files of requests it is another judge
        arm = Arm(name, anchors.rubric, limited, criteria=criteria)
        anchors.check_judge(base.manifest, trial.plan(arm, offline=True).make_manifest(""))
        if limited.by_file:
            # Else a file with the answers of one look would answer the next one, too.
            kind, _, number = name.partition("/")
            before = int(number) - 1 + (anchors.frozen if kind == "looks" else 0)
            first = settings.first_sample + settings.samples * before
            arm = replace(arm, judge=replace(limited, first_sample=first))
        arms.append(arm)
    return replace(trial, arms=arms)


async def look_before(
    anchors: str | Path,
    plan: Plan,
    folder: Path | None,
    callbacks: Callbacks,
    command: str,
    *,
    resume: bool,
) -> Mapping[str, Any]:
    """Ask anchors before a run is judged, and return the entry of its ``run.json``. It is that of
    the run in ``folder`` if there is one, unless it goes on without any. The look counts for
    ``max_cost``.

    Raises:
        AnnotatorError: the run's judge or rubric is not that of the anchors, or it is judged in
            batches; or as :func:`ask_anchors`.
    """
    look = plan_run_look(anchors, plan)
    if folder and (folder / "run.json").exists():
        before = open_run(folder).manifest.anchors
        if before or not resume:  # without it, the run is refused: nothing is asked
            return before
    for arm in look.trial.arms:  # half a look is of another time
        rmtree(look.trial.locate(arm), ignore_errors=True)
    [run] = await judge_arms(look.trial, Callbacks(notice=callbacks.notice), command)
    assert plan.built.settings  # noqa: S101 - the look has asked its model
    left = look.trial.subtract(read_run_cost(run))
    plan.built.settings = replace(plan.built.settings, max_cost=left)
    drift = look.measure()
    from annotator.reports.drift import summarize

    callbacks.notice(f"{look.anchors.folder}: {summarize(drift)}")
    where = {"folder": str(look.anchors.folder.absolute()), "look": drift.look, "run": run.id}
    return {**where, "drifted": list(drift.drifted)}


def plan_run_look(anchors: str | Path, plan: Plan) -> AnchorPlan:
    """Return the plan of the look before a run, which then does not use the cache either: older
    answers are not of the time of the look. Errors as :func:`look_before`.
    """
    settings = plan.built.settings
    if not settings or settings.batch or settings.by_file:
        raise SettingsError("--anchors asks a model at once: leave out other judges and batches")
    plan.built.settings = replace(settings, cached=False)
    look = plan_look(anchors, settings, concurrency=plan.concurrency, max_cost=settings.max_cost)
    look.anchors.check_judge(look.anchors.base.manifest, plan.make_manifest(""))
    return look


def measure_drift(
    base: Run,
    new: Run,
    anchors: str | Path,
    *,
    cluster: tuple[str, ...] = DEFAULT_CLUSTER,
    confidence: float = 0.95,
) -> "tuple[CodeDrift, ...]":
    """Return the drift of the judge from one run to another, by code and group: between the looks
    that their ``run.json`` name. Nothing if it is the same look.

    The run that was frozen counts as a look, too. :func:`validation.subtract_estimates` takes a
    drift from a difference of the two runs.

    Raises:
        AnnotatorError: a run names no look at these anchors, or the looks are in the wrong order.
    """
    from annotator.calibration import drift

    return drift.measure_drift(base, new, open_anchors(anchors), cluster, confidence)
