"""Tune a rubric: the tasks of :mod:`annotator.calibration.tuning` executed by judges and models."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from annotator.base.errors import AnnotatorError, Pending, UnreadableTrace
from annotator.base.files import write_file
from annotator.base.text import dump_json, format_count
from annotator.calibration.judged_sample import read_judged_sample
from annotator.calibration.ledger import hash_label_files, note_looks
from annotator.calibration.matching import Reference, join_labels, match_labels
from annotator.calibration.model import OPEN, Request, count_answer, count_labels
from annotator.calibration.tuning import (
    JudgeTask,
    LabelledSet,
    ProposalTask,
    Task,
    Tuning,
    TuningPlan,
    limit_folds,
    tune_and_check,
)
from annotator.judges.build import ModelSettings, dump_settings
from annotator.judges.llm.model import LONG_ANSWER, SHORT_ANSWER
from annotator.judges.llm.proposal import list_words, read_proposal
from annotator.labels import Label
from annotator.prompts.proposal import Opinion, render_proposal
from annotator.rubrics import Rubric
from annotator.rubrics.annotations import Usage, UsageRange
from annotator.rubrics.changes import Proposal, dump_rubric
from annotator.runs.arms import Arm, Trial, forecast_arms, judge_arms
from annotator.runs.execute import Callbacks, RunProgress, ignore
from annotator.runs.forecast import Forecast, forecast, scale_usage
from annotator.runs.proposals import PROPOSALS, ask_proposals
from annotator.runs.run import Run
from annotator.traces.clusters import find_cluster, name_lone_cluster

_SHOWN = 40  # differences in one request for changes
_PROMPT = 8_000  # tokens of such a request, assumed


@dataclass(kw_only=True)
class Tuner:
    """Executes the tasks of a tuning. Its arms are the runs of one trial, a stage at a time."""

    rubric: Rubric
    settings: ModelSettings
    request: Request
    plan: TuningPlan
    quote_traces: bool
    dev: Reference
    test: Reference | None
    trial: Trial
    progress: Callable[[RunProgress], None]
    notice: Callable[[str], None] = ignore
    finished: RunProgress = field(default_factory=lambda: RunProgress(0, {}, Usage()))
    latest: RunProgress = field(default_factory=lambda: RunProgress(0, {}, Usage()))
    runs: dict[str, Run] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    failures: list[str] = field(default_factory=list)
    proposals: int = 0
    stage: int = 0

    def run(self, on_notice: Callable[[str], None], command: str, *, resume: bool) -> Tuning:
        """Tune, and write the result; raises as :func:`annotator.tune`."""
        self.notice = on_notice
        return asyncio.run(self._tune(command, resume=resume))

    def check_labels(self) -> int:
        """Return the number of folds; raise AnnotatorError, before anything is paid for, if the
        labels are too few.
        """
        tasks = self._find_tasks(self.dev.labels)
        if self.test:
            self._find_tasks(self.test.labels)
        return limit_folds(LabelledSet(dict.fromkeys(tasks, ""), tasks), self.plan.folds)

    def _find_tasks(self, labels: Mapping[str, Label]) -> dict[str, str]:
        """Return the task of each labelled trace; raise AnnotatorError if there is none."""
        tasks = {
            item.id: find_cluster(item.attributes, self.request.cluster)
            or name_lone_cluster(item.id)
            for item in self.trial.traces
            if item.id in labels and not self.rubric.excludes(item)
        }
        if not tasks:
            name, split = next((each.trace_id, each.split) for each in labels.values())
            where = f" of the {split} split" if split else ""
            raise AnnotatorError(
                f"no labelled trace{where} is among the traces and for the rubric: {name!r}, say"
            )
        return tasks

    async def _tune(self, command: str, *, resume: bool) -> Tuning:
        ids, confidence = tuple(sorted(self.dev.labels)), self.request.confidence

        async def execute(tasks: Sequence[Task]) -> list[Any]:
            return await self._execute(tasks, command, resume=resume)

        [base] = await execute([JudgeTask("base", self.rubric, ids)])
        labelled = self._match("base", self.dev)
        steps = tune_and_check(labelled, base, self.rubric, self.plan)
        try:
            tasks = next(steps)
            while True:
                tasks = steps.send(await execute(tasks))
        except StopIteration as stop:
            product, folds, answers = stop.value
        look, final = self._note_looks(self.dev, self.runs.values()), None
        if self.test and not product.changes:
            self.notice("the test split stays closed: no change was kept")
        elif self.test:
            ids = tuple(sorted(self.test.labels))
            rubrics = {"base": self.rubric, "tuned": product.rubric}
            pair = [JudgeTask(f"test/{name}", x, ids) for name, x in rubrics.items()]
            first, second = await execute(pair)
            final = self._match("test/base", self.test).compare(second, first, confidence)
            look = self._note_looks(self.test, [self.runs[x.name] for x in pair])
        files = self.request.labels
        tuning = Tuning(
            rubric=self.rubric,
            product=product,
            folds=tuple(folds),
            gain=labelled.compare(answers, base, confidence),
            final=final,
            plan=self.plan,
            look=look,
            label_files=tuple(map(str, files.paths)),
            labels_sha256=hash_label_files(files.paths, files.digests),
            calls=self.usage.calls,
            cost_usd=self.usage.cost_usd,
            judged_open=sum(
                int(run.manifest.totals[status] or 0)
                for run in self.runs.values()
                for status in ("undecided", "failed")
            ),
            failures=tuple(self.failures),
            split=self.dev.split,
            annotators=self.dev.annotators,
        )
        self._write(tuning)
        return tuning

    def _note_looks(self, reference: Reference, runs: Iterable[Run]) -> int:
        labels, split = reference.labels, reference.split
        return note_looks(runs, self.rubric.id, labels, split, self.request, self.notice)

    async def _execute(self, tasks: Sequence[Task], command: str, *, resume: bool) -> list[Any]:
        """Return the replies to the tasks of a stage: answers by trace, or a proposal.

        Raises:
            Pending: some wait for answers in files.
        """
        self.stage += 1
        to_judge = [task for task in tasks if isinstance(task, JudgeTask)]
        questions = [task for task in tasks if isinstance(task, ProposalTask)]
        judgements = format_count(sum(len(task.trace_ids) for task in to_judge), "judgement")
        text = f"{judgements} by {format_count(len(to_judge), 'rubric')}"
        requests = f"{format_count(len(questions), 'request')} for changes of the rubric"
        self.notice(f"stage {self.stage}: {text if to_judge else requests}")
        proposals, waiting = await self._propose(questions) if questions else ({}, False)
        trial = replace(
            self.trial,
            arms=[Arm(x.folder, x.rubric, self.settings, trace_ids=x.trace_ids) for x in to_judge],
            max_cost=self.trial.subtract(self.usage.cost_usd),
        )
        # The first run says all that there is to say about the traces.
        notice = self.notice if self.stage == 1 else ignore
        callbacks = Callbacks(self._start_run, self._report, notice)
        runs = await judge_arms(trial, callbacks, command, resume=resume)
        self.runs |= {task.name: run for task, run in zip(to_judge, runs, strict=True)}
        for run in runs:
            waiting |= run.manifest.status == "waiting"
            totals = run.manifest.totals
            self.usage += Usage(calls=int(totals["calls"] or 0), cost_usd=totals["cost_usd"])
        if waiting:
            folders = [PROPOSALS, *(task.folder for task in to_judge)]
            raise Pending(f"stage {self.stage}: {self.trial.gather_requests(folders)}")
        return [
            self._list_answers(task) if isinstance(task, JudgeTask) else proposals[task.name]
            for task in tasks
        ]

    def _start_run(self, run: Run) -> None:
        self.finished = self.latest

    def _report(self, progress: RunProgress) -> None:
        before = self.finished
        self.latest = RunProgress(
            before.annotations + progress.annotations,
            Counter(before.counts) + Counter(progress.counts),
            before.usage + progress.usage,
            before.failure or progress.failure,
        )
        self.progress(self.latest)

    async def _propose(self, tasks: Sequence[ProposalTask]) -> tuple[dict[str, Proposal], bool]:
        texts, trial = self._list_texts(), self.trial
        prompts = {
            task.name: render_proposal(
                *(task.rubric, [*self._list_opinions(task)], _SHOWN, self.plan.candidates, texts),
                quote_traces=self.quote_traces,
            )
            for task in tasks
        }
        settings = trial.limit(self.settings, PROPOSALS, self.usage.cost_usd)
        kept = await ask_proposals(
            *(prompts, settings, trial.folder, trial.concurrency, self.notice),
            *(Proposal, read_proposal),
        )
        self.usage = sum((item.usage for item in kept.values()), start=self.usage)
        failures = [f"{name}: {item.error}" for name, item in kept.items() if item.error]
        if len(failures) == len(prompts) and not self.proposals:
            raise AnnotatorError(f"no proposal could be used; {failures[0]}")
        self.failures += failures
        self.proposals += len(prompts) - len(failures)
        proposals = {name: item.proposal or Proposal() for name, item in kept.items()}
        return proposals, len(kept) < len(prompts)

    def _list_texts(self) -> str:
        """Return the words of the labelled traces, which no proposal may copy."""
        texts = []
        for trace in (each for each in self.trial.traces if each.id in self.dev.labels):
            try:
                texts += [list_words(source.text) for source in trace.sources()]
            except UnreadableTrace:  # its steps, which were not judged either
                texts += [list_words(source.text) for source in trace.sources(steps=False)]
        return "\n".join(texts)

    def _list_opinions(self, task: ProposalTask) -> Iterator[Opinion]:
        run, trace_ids = self.runs[task.judged], set(task.trace_ids)
        scheme = run.scheme(self.rubric.id)
        for annotation in sorted(run.annotations(), key=lambda annotation: annotation.trace_id):
            if annotation.trace_id in trace_ids:
                label = self.dev.labels[annotation.trace_id]
                judge, person = count_answer(annotation, scheme), count_labels(label, scheme)
                sides = join_labels(judge), join_labels(person)
                yield Opinion(annotation, *sides, label.note, label.evidence)

    def _list_answers(self, task: JudgeTask) -> dict[str, str]:
        """Return the answer of a run on each trace; an open one is no label."""
        run = self.runs[task.name]
        scheme = run.scheme(self.rubric.id)
        answers = {x.trace_id: join_labels(count_answer(x, scheme)) for x in run.annotations()}
        return {name: answers.get(name, OPEN["failed"]) for name in task.trace_ids}

    def _match(self, name: str, reference: Reference) -> LabelledSet:
        labels, cluster = reference.labels, self.request.cluster
        sample = read_judged_sample(
            self.runs[name], self.rubric.id, select=labels.keys(), cluster=cluster
        )
        matched = match_labels(sample, labels, cluster, reference.design)
        for note in reference.notes:
            self.notice(note)
        if lost := (*matched.not_in_run, *matched.skipped):
            labelled = format_count(len(lost), "labelled trace")
            self.notice(f"left out: {labelled} not read, or not for the rubric: {lost[0]}")
        if alone := [x.trace_id for x in matched.all if x.cluster is None]:
            labelled = format_count(len(alone), "labelled trace")
            self.notice(f"no task is named by {labelled}: each counts as a task (--cluster)")
        weights = {trace.trace_id: trace.weight for trace in matched.all}
        return LabelledSet(
            {x.trace_id: join_labels(x.counted.human) for x in matched.all},
            {x.trace_id: x.cluster or name_lone_cluster(x.trace_id) for x in matched.all},
            weights if matched.design == "stratified" else None,
        )

    def _write(self, tuning: Tuning) -> None:
        folder = self.trial.folder
        write_file(folder / "tuning.json", f"{dump_json(tuning.as_dict(), 1)}\n", private=True)
        rubric, judge = folder / "rubric.yaml", folder / "judge.yaml"
        if tuning.product.changes:
            write_file(rubric, dump_rubric(tuning.product.rubric))
            write_file(judge, dump_settings(self.settings))
        else:  # those of an earlier result, with fewer labels say
            rubric.unlink(missing_ok=True)
            judge.unlink(missing_ok=True)

    def forecast(self) -> Forecast:
        """Return the expected usage, without calls."""
        ids = tuple(sorted(self.dev.labels))
        folder = JudgeTask("base", self.rubric, ids).folder
        base = Arm(folder, self.rubric, self.settings, trace_ids=ids)
        first = forecast_arms(replace(self.trial, arms=[base]))
        plan = self.trial.plan(base, offline=True)
        expected = forecast(plan)
        member, n, tries = plan.built.members[0], max(expected.judged, 1), self.plan
        folds = self.check_labels()
        checking = n * folds / 2  # half of all labels, and of those outside each fold
        few = tries.candidates * checking
        many = tries.rounds * (few + checking) + (tries.rounds - 1) * checking + n
        many += 2 * len(self.test.labels) if self.test else 0
        ends = []
        for usage, times, rounds, answer in (
            (expected.usage.low, few, 1, SHORT_ANSWER),
            (expected.usage.high, many, tries.rounds, LONG_ANSWER),
        ):
            requests = scale_usage(member.expect_call(_PROMPT, answer), (folds + 1) * rounds)
            ends.append(scale_usage(usage, times / n) + requests)
        assumption = (
            f"{folds + 1} requests for changes, of {_PROMPT:,} tokens; each gives"
            f" {tries.candidates} changes, which are judged on half of its labels; at most the"
            f" changes that help are judged together, and each fold anew; {expected.assumption}"
        )
        return replace(first, usage=first.usage + UsageRange(*ends), assumption=assumption)
