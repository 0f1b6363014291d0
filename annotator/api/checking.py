"""Asking a judge again in ways that should not matter."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, cast

from annotator.api.ablating import make_settings
from annotator.base.errors import (
    AnnotatorError,
    BudgetReached,
    Pending,
    SettingsError,
    UnreadableTrace,
)
from annotator.base.files import read_bounded, write_file
from annotator.base.text import dump_json, format_count, suggest
from annotator.judges.build import ModelSettings, build_judge, parse_settings
from annotator.prompts.render import render
from annotator.rubrics import Rubric, load_rubric
from annotator.rubrics.annotations import Usage, UsageRange
from annotator.rubrics.changes import dump_rubric, shuffle_codes
from annotator.runs.arms import Arm, SelectedTraces, Trial, forecast_arms, judge_arms
from annotator.runs.execute import Callbacks, Only, explain_skip, ignore, refuse_running_loop
from annotator.runs.forecast import Forecast
from annotator.runs.manifest import Criteria, IfRejected
from annotator.runs.restore import open_traces, restore_rubric, restore_settings
from annotator.runs.run import Run
from annotator.traces import Trace, TraceOrProblem, Traces, TraceSource
from annotator.traces.clusters import DEFAULT_CLUSTER

if TYPE_CHECKING:  # statistics are slow to import
    from annotator.calibration.stability import JudgeCheck

VARIANTS = ("again", "order", "layout", "paraphrase", "short")
"""The same once more; the codes in another order; the rubric after the trace, or before it; the
rubric in other words; a part of the trace."""
_BASE = "base"
_ANSWERED = ("labelled", "none", "undecided")


@dataclass(frozen=True)
class CheckPlan:
    """The base and its variants, and how to compare them.

    Attributes:
        trial: its arms are the variants, and first the base unless ``run`` is it.
        run: the run that is the base.
        population: the number of traces that those of the trial were drawn from.
        author: the judge whose first model still has to write the paraphrase, if there is one.
        notes: why variants are left out.
        options: those of :func:`annotator.calibration.stability.measure_stability`.
    """

    trial: Trial
    run: Run | None
    rubric: Rubric
    population: int
    author: ModelSettings | None
    notes: tuple[str, ...]
    options: Mapping[str, Any]

    @property
    def paraphrase_file(self) -> Path:
        """Where the rubric in other words is written."""
        return self.trial.folder / "paraphrase.yaml"

    def forecast(self) -> Forecast:
        """Return the expected usage of all arms, without calls; raises as :func:`check_judge`."""
        expected = forecast_arms(self.trial)
        if self.author:
            usage = _make_author(self.author, 1, offline=True).expects_paraphrase(self.rubric)
            expected.usage += UsageRange(usage, usage)
        return expected

    def run_check(
        self,
        on_notice: Callable[[str], None] = ignore,
        command: str = "annotator.check_judge(...)",
        *,
        resume: bool = False,
    ) -> "JudgeCheck":
        """Judge the traces in every variant and compare them; raises as :func:`check_judge`."""
        from annotator.calibration.stability import measure_stability

        for note in self.notes:
            on_notice(note)
        trial = self.trial
        if self.author:
            if not resume and any((trial.locate(x) / "run.json").exists() for x in trial.arms):
                raise AnnotatorError(
                    f"{trial.folder}: a check is there; go on with --resume, or name another --out"
                )
            trial = asyncio.run(self._write_paraphrase(self.author))
        callbacks = Callbacks(notice=on_notice)
        runs = asyncio.run(judge_arms(trial, callbacks, command, resume=resume))
        if any(run.manifest.status == "waiting" for run in runs):
            raise Pending(f"the requests of all variants are in {trial.batch_file}")
        by_name = {arm.name: run for arm, run in zip(trial.arms, runs, strict=True)}
        base = self.run or by_name.pop(_BASE)
        result = measure_stability(
            base,
            by_name,
            sorted(trial.trace_ids),
            rubric=self.rubric.id,
            population=self.population,
            **self.options,
        )
        write_file(trial.folder / "check.json", dump_json(asdict(result), 1) + "\n")
        return result

    async def _write_paraphrase(self, author: ModelSettings) -> Trial:
        """Let the model write the paraphrase, and return the trial with it."""
        settings = replace(author, max_cost=self.trial.max_cost)
        writer = _make_author(settings, self.trial.concurrency, offline=False)
        try:
            rubric, usage = await writer.paraphrase(self.rubric)
        except BudgetReached as error:
            raise BudgetReached(f"paraphrase: {error}") from error
        self.trial.folder.mkdir(parents=True, exist_ok=True)
        about = {"model": writer.options.model, "usage": asdict(usage), "of": self.rubric.sha256}
        write_file(self.paraphrase_file.with_suffix(".json"), dump_json(about, 1) + "\n")
        write_file(self.paraphrase_file, dump_rubric(rubric))
        arms = [
            replace(arm, rubric=rubric) if arm.name == "paraphrase" else arm
            for arm in self.trial.arms
        ]
        return replace(self.trial, arms=arms, max_cost=_subtract(self.trial.max_cost, usage))


def _make_author(settings: ModelSettings, concurrency: int, *, offline: bool) -> Any:
    """Return the first model of a judge, to write a paraphrase."""
    from annotator.judges.llm.cost import Budget
    from annotator.judges.llm.paraphrase import Paraphraser

    built = build_judge(settings, concurrency=concurrency, offline=offline)
    assert built.session  # noqa: S101 - it is a judge of models
    if settings.max_cost is not None:
        built.session.budget = Budget(settings.max_cost)
    return Paraphraser(built.members[0].options, built.session)


def check_judge(
    traces: TraceSource | Traces,
    rubric: str | Rubric | None = None,
    judge: str | Path | Mapping[str, Any] | ModelSettings | None = None,
    *,
    out: str | Path,
    resume: bool = False,
    on_notice: Callable[[str], None] = ignore,
    **options: Any,
) -> "JudgeCheck":
    """Judge random traces again in ways that should not matter, and count the codes that flip.

    Writes ``out/check.json``, a run for each variant, and the rubric in other words.

    Args:
        traces: their sources, or one run directory: it is the base, and its rubric and judge are
            the defaults.
        rubric: the rubric.
        judge: a model's name, a judge file, or its settings.
        out: the directory of the variants and of the result.
        resume: go on with the variants in ``out``.
        on_notice: called with messages for the user.
        options: ``n`` (traces, 40), ``variants`` (of :data:`VARIANTS`), ``paraphrase`` (a file with
            the rubric in other words; by default the model writes it), ``share`` (of a trace in the
            variant ``short``, .7), ``maximum`` (share of flips that still counts as stable, .2),
            ``max_cost`` (in dollars, for everything), ``concurrency``, ``cluster``,
            ``confidence``, ``seed``.

    Raises:
        BudgetReached: the next call may bring everything above ``max_cost``.
        AnnotatorError: a setting, the rubric or the traces cannot be used, or no judge with a model
            is named; what was judged is kept.
    """
    refuse_running_loop("call annotator.check_judge in a thread of its own")
    if judge is not None and not isinstance(judge, ModelSettings):
        judge = make_settings(judge if isinstance(judge, Mapping) else str(judge))({})
    plan = plan_check(traces, rubric, judge, out=Path(out), resume=resume, **options)
    return plan.run_check(on_notice, resume=resume)


def plan_check(
    traces: TraceSource | Traces,
    rubric: str | Rubric | None,
    judge: ModelSettings | None,
    *,
    out: Path,
    resume: bool = False,
    n: int = 40,
    variants: Sequence[str] = VARIANTS,
    paraphrase: Path | None = None,
    share: float = 0.7,
    maximum: float = 0.2,
    max_cost: float | None = None,
    concurrency: int = 8,
    batch_file: Path | None = None,
    batch_results: tuple[Path, ...] = (),
    cluster: tuple[str, ...] = DEFAULT_CLUSTER,
    confidence: float = 0.95,
    seed: int = 0,
    restore: Callable[[Mapping[str, Any]], ModelSettings] = parse_settings,
) -> CheckPlan:
    """Return the plan of a check; arguments and errors as :func:`check_judge`.

    ``restore`` makes the judge of the recorded settings of a run.
    """
    _check_options(n, variants, share, maximum)
    loaded, run = open_traces(traces)
    criteria = Criteria()
    only: Only = "rubric"
    if run:
        of_run = run.manifest
        rubric = rubric if isinstance(rubric, Rubric) else restore_rubric(run, rubric)
        criteria = Criteria(cast("IfRejected", of_run.rejected), of_run.least_read)
        only = cast("Only", of_run.only or only)
        recorded = None if judge else restore_settings(run)
        judge = restore(recorded) if isinstance(recorded, Mapping) else judge
    elif rubric is None:
        raise SettingsError("--rubric NAME|FILE is missing")
    rubric = rubric if isinstance(rubric, Rubric) else load_rubric(rubric)
    if judge is None or judge.finder:
        raise SettingsError("the rules judge always says the same: name a model with --model")
    if judge.batch:
        raise SettingsError(
            "--batch would wait for one variant after the other: use --batch-file, which has all"
        )
    if run and rubric.id in run.schemes:
        annotations = run.annotations(rubric.id)
        ids = sorted(x.trace_id for x in annotations if x.status in _ANSWERED and not x.unasked)
    else:
        ids = sorted(x.id for x in loaded if _is_judged(x, rubric, only))
    drawn_ids = Random(seed).sample(ids, min(n, len(ids)))  # noqa: S311 - no secret
    selected = SelectedTraces(loaded, drawn_ids)
    here = [item for item in selected if item.id in drawn_ids]
    if not here or len(here) < len(drawn_ids):
        raise AnnotatorError(
            f"of {format_count(len(drawn_ids), 'judged trace')} {len(here)} can be read in"
            f" {', '.join(loaded.places)}: there must be one at least, and all that the run judged"
        )
    base = Arm(_BASE, rubric, judge, criteria=criteria)
    file, reworded = out / "paraphrase.yaml", None
    if resume and not paraphrase and file.exists():
        paraphrase = file
        max_cost = _subtract(max_cost, _read_usage(file))
    if paraphrase:
        reworded = _read_paraphrase(paraphrase, rubric)
    in_files = bool(batch_file or batch_results)
    arms, notes = [], []
    for name in variants:
        arm, reason = _make_variant(name, base, here, share, seed)
        if name == "paraphrase" and reworded:
            arm = replace(arm, rubric=reworded)
        elif name == "paraphrase" and in_files:
            reason = "with files of requests it needs --paraphrase FILE"
        if reason:
            notes.append(f"the variant {name} is left out: {reason}")
        else:
            arms.append(arm)
    if not arms:
        raise SettingsError("; ".join(notes))
    limits = (concurrency, max_cost, batch_file, batch_results)
    trial = Trial(selected, drawn_ids, arms, out, only, *limits)
    # The answers of a run count as those of the base, if its judge is the same in everything.
    manifest = trial.plan(base, offline=True).make_manifest("")
    if not (
        run
        and run.judge_sha256 == manifest.judge_sha256
        and rubric.sha256 in {scheme.sha256 for scheme in run.schemes.values()}
    ):
        run, trial = None, replace(trial, arms=[base, *arms])
    is_written = reworded or not any(arm.name == "paraphrase" for arm in arms)
    return CheckPlan(
        trial=trial,
        run=run,
        rubric=rubric,
        population=len(ids),
        author=None if is_written else judge,
        notes=tuple(notes),
        options={"cluster": cluster, "maximum": maximum, "confidence": confidence, "seed": seed},
    )


def _check_options(n: int, variants: Sequence[str], share: float, maximum: float) -> None:
    if n < 1:
        raise SettingsError(f"n: expected a number from 1, found {n}")
    for name, value in (("share", share), ("maximum", maximum)):
        if not 0 < value < 1:
            raise SettingsError(f"{name}: expected a share between 0 and 1, found {value!r}")
    for name in variants:
        if name not in VARIANTS:
            names = f"{suggest(name, VARIANTS)}; there are {', '.join(VARIANTS)}"
            raise SettingsError(f"--variants {name}: no such one{names}")


def _is_judged(item: TraceOrProblem, rubric: Rubric, only: Only) -> bool:
    return (
        isinstance(item, Trace)
        and explain_skip(item, rubric, only) is None
        and rubric.leaves_open(item) is None
    )


def _make_variant(
    name: str, base: Arm, traces: Sequence[Trace], share: float, seed: int
) -> tuple[Arm, str]:
    """Return a variant of the base, and why it cannot be tried, or "". The rubric of the paraphrase
    is still to be written: until then it only has another hash.
    """
    judge, rubric = base.judge, base.rubric
    arm = replace(base, name=name)
    if name == "again":
        again = judge.first_sample + judge.samples
        return replace(arm, judge=replace(judge, first_sample=again)), ""
    if name == "order":
        if len(rubric.codes) < 2:
            return arm, "the rubric has one code"
        return replace(arm, rubric=shuffle_codes(rubric, seed)), ""
    if name == "layout":
        models = tuple(replace(x, rubric_last=not x.rubric_last) for x in judge.models)
        return replace(arm, judge=replace(judge, models=models)), ""
    if name == "paraphrase":
        return replace(arm, rubric=rubric.model_copy(update={"sha256": "0" * 64})), ""
    long = [x.id for x in traces if _can_be_cut(x, rubric, judge, share)]
    return replace(
        arm,
        judge=replace(judge, share=share),
        trace_ids=long,
        criteria=replace(base.criteria, least_read=0.0),
    ), "" if long else "all traces are too short to be cut"


def _can_be_cut(trace: Trace, rubric: Rubric, judge: ModelSettings, share: float) -> bool:
    from annotator.judges.llm.request import MIN_CHARACTERS

    try:
        prompt = render(trace, rubric, layout=judge.models[0].layout)
    except UnreadableTrace:
        return False
    return len(prompt.trace_section) * share > MIN_CHARACTERS


def _read_paraphrase(file: Path, rubric: Rubric) -> Rubric:
    reworded = load_rubric(str(file))
    if reworded.id != rubric.id or {x.id for x in reworded.codes} != {x.id for x in rubric.codes}:
        raise SettingsError(f"--paraphrase {file}: expected the codes, and the id, of {rubric.id}")
    if reworded.sha256 == rubric.sha256:
        raise SettingsError(f"--paraphrase {file}: this is the rubric itself")
    return reworded


def _read_usage(file: Path) -> Usage:
    """Return the usage of the paraphrase in a file that an earlier check wrote."""
    about = json.loads(read_bounded(file.with_suffix(".json")))
    return Usage.from_fields(about["usage"])


def _subtract(max_cost: float | None, usage: Usage) -> float | None:
    return None if max_cost is None else max(max_cost - (usage.cost_usd or 0.0), 0.0)
