"""Tuning a rubric on people's labels."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from annotator.api.calibrating import make_request
from annotator.base.errors import AnnotatorError, Pending, SettingsError
from annotator.base.files import write_file
from annotator.base.text import dump_json, format_count
from annotator.judges.build import ModelSettings, build_judge, dump_settings
from annotator.rubrics import Rubric, load_rubric
from annotator.rubrics.annotations import Usage, UsageRange
from annotator.rubrics.changes import Proposal, dump_rubric
from annotator.runs.arms import (
    Arm,
    SelectedTraces,
    Trial,
    forecast_arms,
    judge_arms,
    locate_requests,
)
from annotator.runs.execute import Callbacks, RubricSource, ignore, refuse_running_loop
from annotator.runs.forecast import forecast
from annotator.runs.restore import restore_rubric, restore_settings
from annotator.runs.run import Run, is_run, open_run
from annotator.traces import Traces, TraceSource, load_traces

if TYPE_CHECKING:
    from annotator.calibration.model import Request
    from annotator.calibration.tuning import (
        JudgeTask,
        LabelledSet,
        ProposalTask,
        Task,
        Tuning,
        TuningPlan,
    )
    from annotator.labels import Label

_SHOWN = 40  # differences in one request for changes
_PROMPT = 8_000  # tokens of such a request, assumed


@dataclass(frozen=True, slots=True)
class TuningForecast:
    """The expected usage of a tuning on so many ``traces``, and its assumptions."""

    traces: int
    usage: UsageRange
    assumption: str


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
            ``out``), ``max_cost`` (in dollars, for everything), ``concurrency``, ``on_notice``;
            ``final`` (open the test split), ``seed``, ``annotators``, ``cluster`` and others of a
            calibration.

    Raises:
        BudgetReached: the next call may cost more than is left; ``resume=True`` goes on.
        Pending: a stage waits for answers in files.
        AnnotatorError: labels, rubric, traces or judge cannot be used, or there are too few labels.
    """
    refuse_running_loop("call annotator.tune in a thread of its own")
    return asyncio.run(_prepare(traces, labels, rubric, judge, out=out, **options).tune())


def forecast_tuning(*arguments: Any, **options: Any) -> TuningForecast:
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
    **options: Any,
) -> "_Tuner":
    from annotator.calibration.matching import select_labels, select_split
    from annotator.calibration.sample.design import list_trace_ids
    from annotator.calibration.tuning import TuningPlan

    run = open_run(traces) if isinstance(traces, (str, Path)) and is_run(traces) else None
    if run:
        of_run = run.manifest
        traces = load_traces(*of_run.sources, format=of_run.format, redact=bool(of_run.redaction))
        judge = judge or restore_settings(run)
        if not isinstance(rubric, Rubric):
            rubric = restore_rubric(run, None if rubric is None else str(rubric))
    if rubric is None:
        raise SettingsError("--rubric NAME|FILE is missing: the rubric to improve")
    rubric = rubric if isinstance(rubric, Rubric) else load_rubric(str(rubric))
    settings = build_judge(judge or "rules", offline=True).settings
    if settings is None:
        raise SettingsError("tuning asks a model: name it with --model")
    if settings.batch:
        raise SettingsError(
            "--batch would wait for one rubric after the other: use --batch-file, which has all of"
            " a stage"
        )
    traces = traces if isinstance(traces, Traces) else load_traces(traces)
    request, scheme = make_request(labels, **options), rubric.scheme()
    trace_ids = list_trace_ids(run, scheme.id, request.design, request.labels.paths)
    read = request.labels.read(scheme, trace_ids, traces.places)
    selected, annotators = select_labels(read, request.annotators)
    dev, split = select_split(selected, final=False)
    if request.final and split == "all":
        raise AnnotatorError("--final opens the test split, and the labels have none")
    test = select_split(selected, final=True)[0] if request.final else {}
    tuner = _Tuner(
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
    )
    tuner.check_labels()
    return tuner


@dataclass(kw_only=True)
class _Tuner:
    """Executes the tasks of a tuning. Its arms are the runs of one trial, a stage at a time."""

    rubric: Rubric
    settings: ModelSettings
    request: "Request"
    plan: "TuningPlan"
    quote_traces: bool
    labels: "Mapping[str, Label]"
    test: "Mapping[str, Label]"
    about: dict[str, Any]
    trial: Trial
    resume: bool
    notice: Callable[[str], None]
    runs: dict[str, Run] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    failures: list[str] = field(default_factory=list)
    stage: int = 0

    def check_labels(self) -> None:
        """Raise AnnotatorError, before anything is paid for, if the labels are too few."""
        from annotator.calibration.tuning import LabelledSet, check_size
        from annotator.traces.clusters import find_cluster, name_lone_cluster

        tasks = {
            item.id: find_cluster(item.attributes, self.request.cluster)
            or name_lone_cluster(item.id)
            for item in self.trial.traces
            if item.id in self.labels and not self.rubric.excludes(item, any_outcome=True)
        }
        check_size(LabelledSet(dict.fromkeys(tasks, ""), tasks), self.plan.folds)

    async def tune(self) -> "Tuning":
        """Tune, and write the result."""
        from annotator.calibration.ledger import hash_label_files
        from annotator.calibration.tuning import JudgeTask, Tuning, tune_and_check

        [base] = await self._execute([JudgeTask("base", self.rubric, tuple(sorted(self.labels)))])
        labelled = self._match("base", self.labels)
        steps = tune_and_check(labelled, base, self.rubric, self.plan)
        try:
            tasks = next(steps)
            while True:
                tasks = steps.send(await self._execute(tasks))
        except StopIteration as stop:
            product, folds, answers = stop.value
        confidence, final = self.request.confidence, None
        if self.test and not product.changes:
            self.notice("the test split stays closed: no change was kept")
        if self.test and product.changes:
            ids, rubrics = tuple(sorted(self.test)), {"base": self.rubric, "tuned": product.rubric}
            pair = [JudgeTask(f"test/{name}", x, ids) for name, x in rubrics.items()]
            first, second = await self._execute(pair)
            final = self._match("test/base", self.test).compare(second, first, confidence)
        files = self.request.labels
        tuning = Tuning(
            rubric=self.rubric,
            product=product,
            folds=tuple(folds),
            gain=labelled.compare(answers, base, confidence),
            final=final,
            plan=self.plan,
            look=self._note_looks(),
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
            **self.about,
        )
        self._write(tuning)
        return tuning

    async def _execute(self, tasks: "Sequence[Task]") -> list[Any]:
        """Return the replies to the tasks of a stage: answers by trace, or a proposal.

        Raises:
            Pending: some wait for answers in files.
        """
        from annotator.calibration.tuning import JudgeTask, ProposalTask

        self.stage += 1
        to_judge = [task for task in tasks if isinstance(task, JudgeTask)]
        questions = [task for task in tasks if isinstance(task, ProposalTask)]
        judged = sum(len(task.trace_ids) for task in to_judge)
        names = f"{format_count(len(to_judge), 'rubric')}: {format_count(judged, 'judgement')}"
        requests_text = f"{format_count(len(questions), 'request')} for changes"
        self.notice(f"stage {self.stage}, {names if to_judge else requests_text}")
        proposals, waiting = await self._propose(questions)
        arms = [Arm(x.name, x.rubric, self.settings, x.trace_ids) for x in to_judge]
        trial = replace(self.trial, arms=arms, max_cost=self._left)
        # The first run says all that there is to say about the traces.
        callbacks = Callbacks(notice=self.notice if self.stage == 1 else ignore)
        command = "annotator.tune(...)"
        for run in await judge_arms(trial, callbacks, command, resume=self.resume):
            waiting |= run.manifest.status == "waiting"
            self._spend(run.manifest.totals)
            assert run.folder  # noqa: S101 - each arm has one
            self.runs[run.folder.relative_to(self.trial.folder).as_posix()] = run
        if waiting:
            raise Pending(self._gather_requests(tasks))
        return [
            self._list_answers(task) if isinstance(task, JudgeTask) else proposals[task.name]
            for task in tasks
        ]

    @property
    def _left(self) -> float | None:
        limit = self.trial.max_cost
        return None if limit is None else max(limit - (self.usage.cost_usd or 0.0), 0.0)

    def _spend(self, totals: Mapping[str, Any]) -> None:
        self.usage += Usage(calls=totals["calls"], cost_usd=totals["cost_usd"])

    async def _propose(self, tasks: "Sequence[ProposalTask]") -> tuple[dict[str, Proposal], bool]:
        """Return the proposals by the name of their task, and whether some wait for answers."""
        from annotator.prompts.proposal import render_proposal
        from annotator.runs.proposals import ask_proposals

        if not tasks:
            return {}, False
        texts = self._list_texts()
        prompts = {
            task.name: render_proposal(
                *(task.rubric, [*self._list_opinions(task)], _SHOWN, self.plan.candidates, texts),
                quote_traces=self.quote_traces,
            )
            for task in tasks
        }
        folder, files = self.trial.folder, self.trial.batch_file or self.trial.batch_results
        settings = replace(
            self.settings,
            max_cost=self._left,
            batch_file=locate_requests(folder / "proposals") if files else None,
            batch_results=self.trial.batch_results,
        )
        kept = await ask_proposals(prompts, settings, folder, self.trial.concurrency, self.notice)
        for name, item in kept.items():
            self.usage += item.usage
            if item.error:
                self.failures.append(f"{name}: {item.error}")
        if len(self.failures) == len(prompts):
            raise AnnotatorError(f"no proposal could be used; {self.failures[0]}")
        return {name: item.proposal for name, item in kept.items()}, len(kept) < len(prompts)

    def _list_texts(self) -> str:
        """Return the words of all labelled traces, which no proposal may copy."""
        from annotator.judges.llm.proposal import list_words

        texts = (source.text for trace in self.trial.traces for source in trace.sources())
        return "\n".join(map(list_words, texts))

    def _list_opinions(self, task: "ProposalTask") -> Iterator[Any]:
        from annotator.calibration.matching import join_labels
        from annotator.calibration.model import count_answer, count_labels
        from annotator.prompts.proposal import Opinion

        run, trace_ids = self.runs[task.judged], set(task.trace_ids)
        scheme = run.scheme(self.rubric.id)
        for annotation in sorted(run.annotations(), key=lambda annotation: annotation.trace_id):
            if annotation.trace_id in trace_ids:
                label = self.labels[annotation.trace_id]
                judge, person = count_answer(annotation, scheme), count_labels(label, scheme)
                sides = join_labels(judge), join_labels(person)
                yield Opinion(annotation, *sides, label.note, label.evidence)

    def _list_answers(self, task: "JudgeTask") -> dict[str, str]:
        """Return the answer of a run on each trace; an open one is no label."""
        from annotator.calibration.matching import join_labels
        from annotator.calibration.model import OPEN, count_answer

        run = self.runs[task.name]
        scheme = run.scheme(self.rubric.id)
        answers = {x.trace_id: join_labels(count_answer(x, scheme)) for x in run.annotations()}
        return {name: answers.get(name, OPEN["failed"]) for name in task.trace_ids}

    def _match(self, name: str, labels: "Mapping[str, Label]") -> "LabelledSet":
        """Return the labels of the traces that a run judged."""
        from annotator.calibration.judged_sample import read_judged_sample
        from annotator.calibration.matching import join_labels, match_labels
        from annotator.calibration.sample.design import find_design
        from annotator.calibration.tuning import LabelledSet
        from annotator.traces.clusters import name_lone_cluster

        run, request, rubric = self.runs[name], self.request, self.rubric.id
        sample = read_judged_sample(run, rubric, select=set(labels), cluster=request.cluster)
        design, notes = find_design(run, labels, rubric, request.design, request.labels.paths)
        matched = match_labels(sample, labels, request.cluster, design)
        for note in notes:
            self.notice(note)
        if lost := (*matched.not_in_run, *matched.skipped):
            labelled = format_count(len(lost), "labelled trace")
            self.notice(f"left out: {labelled} not read, or not for the rubric: {lost[0]}")
        weights = {trace.trace_id: trace.weight for trace in matched.all}
        return LabelledSet(
            {x.trace_id: join_labels(x.counted.human) for x in matched.all},
            {x.trace_id: x.cluster or name_lone_cluster(x.trace_id) for x in matched.all},
            weights if matched.design == "stratified" else None,
        )

    def _gather_requests(self, tasks: "Sequence[Task]") -> str:
        """Put the requests of a stage into one file, and return what to do with it."""
        file = self.trial.batch_file or self.trial.folder / "requests.jsonl"
        names = ["proposals", *(task.name for task in tasks)]
        requests = [locate_requests(self.trial.folder / name) for name in names]
        data = b"".join(path.read_bytes() for path in requests if path.exists())
        lines = [*dict.fromkeys(data.splitlines(keepends=True))]  # folds may try the same change
        write_file(file, b"".join(lines), private=True)
        number = format_count(len(lines), "request")
        return (
            f"stage {self.stage}: {number} in {file}; when answered, go on with the same command"
            " and --resume --batch-results FILE"
        )

    def _note_looks(self) -> int:
        """Note in the ledgers that the rubrics were compared with labels; return the number of
        looks at the last ones.
        """
        from annotator.calibration.ledger import (
            hash_label_files,
            hash_labels,
            locate_ledgers,
            note_look,
        )
        from annotator.runs.manifest import format_now

        files, look = self.request.labels, 0
        ledgers = [self.request.ledger] if self.request.ledger else locate_ledgers(files.paths)
        for name, run in self.runs.items():
            is_test = name.startswith("test/")
            labels = self.test if is_test else self.labels
            seen = [labels[x.trace_id] for x in run.annotations() if x.trace_id in labels]
            entry = {
                **{"time": format_now(), "run": run.id, "folder": str(run), "judge": run.judge},
                **{"judge_sha256": run.judge_sha256, "rubric": self.rubric.id},
                "rubric_sha256": run.scheme(self.rubric.id).sha256,
                **{"split": "test" if is_test else self.about["split"], "n": len(seen)},
                "labels_sha256": hash_label_files(files.paths, files.digests),
                "labels": hash_labels(seen),
            }
            look = int(note_look(ledgers, entry, self.notice)["look"])
        return look

    def _write(self, tuning: "Tuning") -> None:
        folder = self.trial.folder
        write_file(folder / "tuning.json", f"{dump_json(tuning.as_dict(), 1)}\n", private=True)
        if tuning.product.changes:
            write_file(folder / "rubric.yaml", dump_rubric(tuning.product.rubric))
            write_file(folder / "judge.yaml", dump_settings(self.settings))

    def forecast(self) -> TuningForecast:
        """Return the expected usage, without calls."""
        from annotator.judges.llm.model import LONG_ANSWER, SHORT_ANSWER

        ids = tuple(sorted(self.labels))
        base = Arm("base", self.rubric, self.settings, ids)
        trial = replace(self.trial, arms=[base])
        first = forecast_arms(trial).usage
        plan = trial.plan(base, offline=True)
        expected = forecast(plan)
        member, n, tries = plan.built.members[0], max(expected.judged, 1), self.plan
        checking = n * tries.folds / 2  # half of all labels, and of those outside each fold
        few = tries.candidates * checking
        many = tries.rounds * (few + checking) + (tries.rounds - 1) * checking + n
        requests = tries.folds + 1
        low = first.low + _extrapolate(expected.usage.low, few / n)
        high = first.high + _extrapolate(expected.usage.high, (many + 2 * len(self.test)) / n)
        for answer, times in ((SHORT_ANSWER, requests), (LONG_ANSWER, requests * tries.rounds)):
            call = Usage(input_tokens=_PROMPT, output_tokens=answer, calls=1)
            call = replace(call, cost_usd=member.price.of(call) if member.price else None)
            if answer == SHORT_ANSWER:
                low += _extrapolate(call, times)
            else:
                high += _extrapolate(call, times)
        assumption = (
            f"at least {requests} requests for changes of {_PROMPT:,} tokens, and"
            f" {tries.candidates} changes of each judged on half of its labels; at most also all"
            " of them together, and the labels of every fold; answers known from before are left"
            f" out for the present rubric only; {expected.assumption}"
        )
        return TuningForecast(n, UsageRange(low, high), assumption)


def _extrapolate(usage: Usage, factor: float) -> Usage:
    """Return the usage of ``factor`` times as many judgements."""
    names = ("input_tokens", "output_tokens", "calls")
    dollars = None if usage.cost_usd is None else usage.cost_usd * factor
    return Usage(**{x: round(getattr(usage, x) * factor) for x in names}, cost_usd=dollars)
