"""Asking a judge again in ways that should not matter."""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from annotator.base.errors import AnnotatorError, BudgetReached, SettingsError, UnreadableTrace
from annotator.base.files import read_bounded, write_file
from annotator.base.text import dump_json, format_count, suggest
from annotator.judges.build import ModelSettings, build_judge
from annotator.prompts.render import render
from annotator.rubrics import Rubric, load_rubric
from annotator.rubrics.annotations import ANSWERED
from annotator.rubrics.changes import dump_rubric, shuffle_codes
from annotator.runs.arms import Arm, SelectedTraces, Trial, forecast_arms, run_trial
from annotator.runs.execute import (
    Only,
    RubricSource,
    explain_skip,
    ignore,
    refuse_running_loop,
)
from annotator.runs.forecast import Forecast
from annotator.runs.rejudge import (
    open_traces,
    restore_criteria,
    restore_model,
    restore_rubric,
)
from annotator.runs.run import Run
from annotator.traces import Trace, Traces, TraceSource
from annotator.traces.clusters import DEFAULT_CLUSTER

if TYPE_CHECKING:  # statistics are slow to import
    from annotator.calibration.stability import JudgeCheck

VARIANTS = ("again", "order", "layout", "paraphrase", "short")
"""The same once more; the codes in another order; the rubric after the trace, or before it; the
rubric in other words; a part of the trace."""
SHARE = 0.7  # of a trace, in the variant short
_BASE, _PARAPHRASE = "base", "paraphrase"


@dataclass(frozen=True)
class CheckPlan:
    """The base and its variants, and how to compare them.

    Attributes:
        trial: its arms are the variants, and first the base unless ``base`` is a run.
        base: the run that is the base.
        unwritten: the variant whose rubric in other words the model still has to write.
        notes: why variants are left out.
        options: those of :func:`annotator.calibration.stability.measure_stability`.
    """

    trial: Trial
    base: Run | None
    unwritten: Arm | None
    notes: tuple[str, ...]
    options: Mapping[str, Any]

    @property
    def paraphrase_file(self) -> Path:
        """Where the rubric in other words is written."""
        return self.trial.folder / "paraphrase.yaml"

    def forecast(self) -> Forecast:
        """Return the expected usage of all arms, without calls; raises as :func:`check_judge`."""
        expected = forecast_arms(self.trial)
        if arm := self.unwritten:
            expected.usage += _make_author(arm.judge, offline=True).expects_paraphrase(arm.rubric)
        return expected

    def run(self, on_notice: Callable[[str], None], command: str, *, resume: bool) -> "JudgeCheck":
        """Judge the traces in every variant and compare them; raises as :func:`check_judge`."""
        from annotator.calibration.stability import measure_stability

        for note in self.notes:
            on_notice(note)
        trial = (
            asyncio.run(self._write_paraphrase(self.unwritten)) if self.unwritten else self.trial
        )
        runs = run_trial(trial, on_notice, command, resume=resume)
        by_name = {arm.name: run for arm, run in zip(trial.arms, runs, strict=True)}
        base = self.base or by_name.pop(_BASE)
        result = measure_stability(base, by_name, sorted(trial.traces.trace_ids), **self.options)
        write_file(trial.folder / "check.json", dump_json(asdict(result), 1) + "\n")
        return result

    async def _write_paraphrase(self, arm: Arm) -> Trial:
        """Let the model write the rubric of an arm, and return the trial with it."""
        author = _make_author(replace(arm.judge, max_cost=self.trial.max_cost), offline=False)
        try:
            rubric = await author.paraphrase(arm.rubric)
        except BudgetReached as error:
            raise BudgetReached(f"{_PARAPHRASE}: {error}") from error
        self.trial.folder.mkdir(parents=True, exist_ok=True)
        usage = dump_json(asdict(author.overhead), 1)
        write_file(self.paraphrase_file.with_suffix(".json"), f"{usage}\n")
        write_file(self.paraphrase_file, dump_rubric(rubric))
        arms = [replace(x, rubric=rubric) if x is arm else x for x in self.trial.arms]
        return replace(
            self.trial, arms=arms, max_cost=self.trial.subtract(author.overhead.cost_usd)
        )


def _make_author(settings: ModelSettings, *, offline: bool) -> Any:
    """Return the first model of a judge, to write a paraphrase."""
    from annotator.judges.llm.cost import Budget
    from annotator.judges.llm.paraphrase import Paraphraser

    built = build_judge(settings, offline=offline)
    if built.session and settings.max_cost is not None:
        built.session.budget = Budget(settings.max_cost)
    return Paraphraser(built.members[0].options, built.session)


def check_judge(
    traces: TraceSource | Traces,
    rubric: RubricSource | None = None,
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
            the rubric in other words; by default the model writes it), ``maximum`` (share of flips
            that still counts as stable, .2), ``max_cost`` (in dollars, for everything),
            ``concurrency``, ``cluster``, ``confidence``, ``seed``.

    Raises:
        BudgetReached: the next call may bring everything above ``max_cost``.
        AnnotatorError: a setting, the rubric or the traces cannot be used, or no judge with a model
            is named; what was judged is kept.
    """
    refuse_running_loop("call annotator.check_judge in a thread of its own")
    loaded, run = open_traces(traces)
    plan = plan_check(loaded, run, rubric, judge, out=Path(out), resume=resume, **options)
    return plan.run(on_notice, "annotator.check_judge(...)", resume=resume)


def plan_check(
    traces: Traces,
    run: Run | None,
    rubric: RubricSource | None,
    judge: Any,
    *,
    out: Path,
    resume: bool = False,
    n: int = 40,
    variants: Sequence[str] = VARIANTS,
    paraphrase: Path | None = None,
    seed: int = 0,
    maximum: float = 0.2,
    cluster: tuple[str, ...] = DEFAULT_CLUSTER,
    confidence: float = 0.95,
    **limits: Any,
) -> CheckPlan:
    """Return the plan of a check; arguments and errors as :func:`check_judge`.

    ``run``: the run of these traces, if there is one.
    """
    for name in variants:
        if name not in VARIANTS:
            names = f"{suggest(name, VARIANTS)}; there are {', '.join(VARIANTS)}"
            raise SettingsError(f"--variants {name}: no such one{names}")
    settings, rubric = restore_model(run, judge), restore_rubric(run, rubric)
    only, criteria = restore_criteria(run)
    base = Arm(_BASE, rubric, settings, criteria=criteria)
    selected, population = draw_judged(traces, run, rubric, only, n, seed)
    here = [item for item in selected.items if isinstance(item, Trace)]
    trial = Trial(selected, out, only=only, **limits)
    written = out / "paraphrase.yaml"
    if not paraphrase and written.exists():
        if not resume:
            raise AnnotatorError(
                f"{out}: a check is there; go on with --resume, or name another --out"
            )
        paraphrase, about = written, json.loads(read_bounded(written.with_suffix(".json")))
        trial = replace(trial, max_cost=trial.subtract(about["cost_usd"]))
    arms, notes = [], []
    for name in dict.fromkeys(variants):
        arm, reason = _make_variant(name, base, here, seed)
        if name == _PARAPHRASE and paraphrase:
            arm = replace(arm, rubric=_read_paraphrase(paraphrase, rubric))
        elif name == _PARAPHRASE and (trial.batch_file or trial.batch_results):
            reason = "with files of requests it needs --paraphrase FILE"
        if reason:
            notes.append(f"the variant {name} is left out: {reason}")
        else:
            arms.append(arm)
    if not arms:
        raise SettingsError("; ".join(notes))
    # The answers of a run count as those of the base, if its judge is the same in everything.
    manifest = trial.plan(base, offline=True).make_manifest("")
    is_base = (
        run
        and run.judge_sha256 == manifest.judge_sha256
        and rubric.sha256 in {scheme.sha256 for scheme in run.schemes.values()}
    )
    options = {"cluster": cluster, "maximum": maximum, "confidence": confidence, "seed": seed}
    return CheckPlan(
        trial=replace(trial, arms=arms if is_base else [base, *arms]),
        base=run if is_base else None,
        unwritten=next((x for x in arms if x.name == _PARAPHRASE and not paraphrase), None),
        notes=tuple(notes),
        options={"rubric": rubric.id, "population": population, **options},
    )


def draw_judged(
    traces: Traces, run: Run | None, rubric: Rubric, only: Only, n: int, seed: int
) -> tuple[SelectedTraces, int]:
    """Return ``n`` random traces of those with an answer of the run, or that a model would be asked
    about, and the number of all these.

    Raises:
        AnnotatorError: ``n`` is too small, or a drawn trace cannot be read.
    """
    if n < 1:
        raise SettingsError(f"n: expected a number from 1, found {n}")
    ids = sorted(_list_judged(traces, run, rubric, only))
    drawn_ids = Random(seed).sample(ids, min(n, len(ids)))  # noqa: S311 - no secret
    selected = SelectedTraces(traces, drawn_ids)
    here = sum(isinstance(item, Trace) for item in selected.items)
    if not here or here < len(drawn_ids):
        raise AnnotatorError(
            f"of {format_count(len(drawn_ids), 'judged trace')} {here} can be read in"
            f" {', '.join(traces.places)}: there must be one at least, and all that the run judged"
        )
    return selected, len(ids)


def _list_judged(traces: Traces, run: Run | None, rubric: Rubric, only: Only) -> Iterator[str]:
    """Yield the ids of traces with an answer of the run, or that a model would be asked about."""
    if run and rubric.id in run.schemes:
        for annotation in run.annotations(rubric.id):
            if annotation.status in ANSWERED and not annotation.unasked:
                yield annotation.trace_id
        return
    for trace in traces:
        if explain_skip(trace, rubric, only) is None and rubric.leaves_open(trace) is None:
            yield trace.id


def _make_variant(name: str, base: Arm, traces: Sequence[Trace], seed: int) -> tuple[Arm, str]:
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
    if name == _PARAPHRASE:
        return replace(arm, rubric=rubric.model_copy(update={"sha256": "0" * 64})), ""
    long = [x.id for x in traces if _can_be_cut(x, rubric, judge)]
    criteria = replace(base.criteria, least_read=0.0)
    short = replace(arm, judge=replace(judge, share=SHARE), trace_ids=long, criteria=criteria)
    return short, "" if long else "all traces are too short to be cut"


def _can_be_cut(trace: Trace, rubric: Rubric, judge: ModelSettings) -> bool:
    from annotator.judges.llm.request import MIN_CHARACTERS

    try:
        prompt = render(trace, rubric, layout=judge.models[0].layout)
    except UnreadableTrace:
        return False
    return len(prompt.trace_section) * SHARE > MIN_CHARACTERS


def _read_paraphrase(file: Path, rubric: Rubric) -> Rubric:
    reworded = load_rubric(str(file))
    if reworded.id != rubric.id or {x.id for x in reworded.codes} != {x.id for x in rubric.codes}:
        raise SettingsError(f"--paraphrase {file}: expected the codes, and the id, of {rubric.id}")
    if reworded.sha256 == rubric.sha256:
        raise SettingsError(f"--paraphrase {file}: this is the rubric itself")
    return reworded
