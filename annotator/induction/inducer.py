"""Induce codes: open coding in batches, grouping, the codes of a rubric, and their findings."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from annotator.base.errors import AnnotatorError, Interrupted, Pending
from annotator.base.text import format_count
from annotator.induction.calls import (
    MOST_FINDINGS,
    OTHER,
    Assignment,
    CodingPrompt,
    FoundCode,
    Grouping,
    WrittenCodes,
    read_assignment,
    read_codes,
    read_grouping,
    render_assignment,
    render_codes,
    render_grouping,
)
from annotator.induction.codebook import Codebook, OpenFinding, save_codebook
from annotator.induction.result import (
    Batch,
    Induction,
    InductionRecord,
    begin_record,
    open_induction,
    write_record,
)
from annotator.induction.sampling import TraceSample
from annotator.judges.build import ModelSettings
from annotator.rubrics import NONE, Rubric, load_rubric
from annotator.rubrics.annotations import JUDGED, Annotation, Usage, UsageRange
from annotator.rubrics.changes import dump_rubric
from annotator.runs.arms import Arm, SelectedTraces, Trial, read_run_cost
from annotator.runs.execute import Callbacks, RunProgress, ignore, run_plan
from annotator.runs.failures import FailureWatch
from annotator.runs.forecast import Forecast, forecast, scale_usage
from annotator.runs.proposals import ask_proposals
from annotator.runs.run import Run, open_run
from annotator.runs.store import list_judged

T = TypeVar("T")
_FEW, _MANY = 2, 4  # findings of a trace, in a forecast
_OF_FINDING, _OF_CODE, _OF_PROMPT, _OF_RUBRIC = 120, 15, 3_500, 9_000  # tokens, there
_OPEN, _CALLS = "open", "calls"  # directories of the run, and of the answers of the other calls


def load_open_rubric() -> Rubric:
    """Return the rubric of open coding."""
    return load_rubric(str(Path(__file__).with_name("open.yaml")))


@dataclass(kw_only=True)
class Inducer:
    """Executes the stages of an induction. ``trial`` has the sampled traces and the directory;
    ``about``: the settings that decide the codes.
    """

    settings: ModelSettings
    sample: TraceSample
    trial: Trial
    batch_size: int
    about: dict[str, Any]
    progress: Callable[[RunProgress], None] = ignore
    notice: Callable[[str], None] = ignore
    rubric: Rubric = field(default_factory=load_open_rubric)
    usage: Usage = field(default_factory=Usage)  # of the calls after open coding
    stage: int = 0

    def run(self, on_notice: Callable[[str], None], command: str, *, resume: bool) -> Induction:
        """Induce codes, and write the codebook, its rubric and ``induction.json``.

        ``command`` is noted in the run of open coding.

        Raises:
            Interrupted: Ctrl-C.
            Pending: requests wait for answers in files.
            BudgetReached: the next call may cost more than is left.
            AnnotatorError: another induction is there, or one to which ``resume`` is missing.
        """
        self.notice = on_notice
        begin_record(self.trial.folder, self.about, resume=resume)
        on_notice(self.sample.describe())
        try:
            return asyncio.run(self._induce(command))
        except KeyboardInterrupt:
            raise Interrupted("what was answered is kept") from None

    async def _induce(self, command: str) -> Induction:
        ids, size = self.sample.trace_ids, self.batch_size
        codes: list[FoundCode] = []
        grouped: dict[str, list[OpenFinding]] = {OTHER: []}
        batches: list[Batch] = []
        batch_of: dict[str, int] = {}
        saturated = False
        for end in range(size, len(ids) + size, size):
            run = await self._code_openly(ids[:end], command)
            # A trace that failed is judged again, and may come with a later batch.
            annotations = _list_judged(run, ids[:end])
            judged = [each for each in annotations if each.trace_id not in batch_of]
            new = [finding for each in judged for finding in list_findings(each)]
            before = len(codes)
            await self._group(len(batches) + 1, new, codes, grouped)
            batches.append(Batch(len(judged), len(new), len(codes) - before))
            batch_of |= {annotation.trace_id: len(batches) - 1 for annotation in judged}
            if saturated := bool(batches[:-1] and judged and len(codes) == before):
                break
        read = set(ids[:end])
        statuses = Counter(x.status for x in run.annotations() if x.trace_id in read)
        findings = tuple(x for annotation in annotations for x in list_findings(annotation))
        book = Codebook(
            "Induced codes",
            f"induced from {format_count(len(annotations), 'trace')} by {run.judge}",
            (),
            findings,
            {annotation.trace_id: dict(annotation.attributes) for annotation in annotations},
        )
        written = WrittenCodes((), {})
        if codes:
            written = await self._write_codes(codes, grouped)
            book = await self._assign(book, written)
            first = Counter(min(batch_of[x] for x in book.list_traces(code)) for code in book.codes)
            batches = [replace(each, codes=first[n]) for n, each in enumerate(batches)]
        totals = run.manifest.totals
        of_run = {name: totals[name] for name in Usage.__slots__ if name in totals}
        record = InductionRecord(
            settings=self.about,
            population=self.sample.population,
            sampled=len(ids),
            unreadable=self.sample.unreadable,
            unjudged={x: n for x in ("undecided", "failed") if (n := statuses[x])},
            batches=tuple(batches),
            saturated=saturated,
            merged={code.id: code.merged for code in written.codes},
            dropped=dict(written.dropped),
            usage=Usage.from_fields(of_run) + self.usage,
            finished=True,
        )
        folder = self.trial.folder
        save_codebook(book, folder)
        write_record(record, folder)
        return open_induction(folder)

    def forecast(self) -> Forecast:
        """Return the expected usage, without calls: of two batches, and of all."""
        arm = Arm(_OPEN, self.rubric, self.settings)
        plan = self.trial.plan(arm, offline=True)
        folder = self.trial.folder / _OPEN
        plan.built.preview()
        try:
            judged = list_judged(folder) if (folder / "run.json").exists() else ()
            expected = forecast(plan, judged)
        finally:
            plan.built.end(lambda text: None)
        traces, size = len(self.sample.trace_ids), self.batch_size
        few = min(2 * size, traces)
        price = plan.built.members[0].price
        ends = []
        for usage, read, per_trace in (
            (scale_usage(expected.usage.low, few / traces), few, _FEW),
            (expected.usage.high, traces, _MANY),
        ):
            findings = read * per_trace
            calls = -(-read // size) + 1 + -(-findings // MOST_FINDINGS)
            # Each finding is shown twice and gets two codes; the codes are shown in each call.
            tokens = Usage(
                input_tokens=findings * 2 * _OF_FINDING + calls * _OF_PROMPT,
                output_tokens=findings * 2 * _OF_CODE + _OF_RUBRIC,
                calls=calls,
            )
            cost = price.of(tokens) if price else None
            ends.append(usage + replace(tokens, cost_usd=cost))
        assumption = (
            f"{_FEW} to {_MANY} findings a trace; at least {few} of the {traces} traces are read,"
            f" in batches of {size}; {expected.assumption}"
        )
        return replace(expected, usage=UsageRange(*ends), assumption=assumption)

    async def _code_openly(self, trace_ids: Sequence[str], command: str) -> Run:
        """Return the run of open coding over the first traces."""
        trial = replace(self.trial, traces=SelectedTraces(self.trial.traces, trace_ids))
        folder = trial.folder / _OPEN
        begun = (folder / "run.json").exists()
        self._begin(f"open coding of {format_count(len(trace_ids), 'trace')}")
        arm = Arm(_OPEN, self.rubric, self.settings)
        plan = trial.plan(arm, self.usage.cost_usd or 0.0)
        callbacks = Callbacks(progress=self.progress, notice=self.notice)
        manifest = plan.make_manifest(command)
        run = await run_plan(plan, manifest, folder, callbacks, open_run, [], resume=begun)
        if run.manifest.status == "waiting":
            raise Pending(f"stage {self.stage}: {self.trial.gather_requests([_OPEN])}")
        watch = FailureWatch()  # a run looks only before its next trace, and here it has no more
        for n, annotation in enumerate(run.annotations()):
            watch.add(n, annotation)
        if watch.error:
            raise watch.error
        return run

    async def _group(
        self,
        batch: int,
        new: Sequence[OpenFinding],
        codes: list[FoundCode],
        grouped: dict[str, list[OpenFinding]],
    ) -> None:
        """Add the findings of a batch to ``grouped``, and their new codes to ``codes``."""
        if new:
            self._begin(f"codes for {format_count(len(new), 'finding')} of batch {batch}")
        for n, findings in enumerate(_divide(new), 1):
            counts = Counter({name: len(each) for name, each in grouped.items()})
            prompt = render_grouping(self.rubric, codes, counts, findings)
            name = f"group-{batch}-{n}"
            [grouping] = await self._ask({name: prompt}, Grouping, read_grouping)
            codes += grouping.new_codes
            for finding, code in zip(findings, grouping.codes, strict=True):
                grouped.setdefault(code, []).append(finding)

    async def _write_codes(
        self, codes: Sequence[FoundCode], grouped: dict[str, list[OpenFinding]]
    ) -> WrittenCodes:
        self._begin(f"the codes of the rubric, from {format_count(len(codes), 'code')} so far")
        prompt = render_codes(self.rubric, codes, grouped)
        [written] = await self._ask({"codes": prompt}, WrittenCodes, read_codes)
        return written

    async def _assign(self, book: Codebook, written: WrittenCodes) -> Codebook:
        """Return the codebook with codes and their findings."""
        empty = replace(book, codes=tuple(code.make_code() for code in written.codes))
        assigned = await self.assign(book.findings, empty.to_rubric())
        codes = []
        for code in written.codes:
            findings = [each.id for each in book.findings if assigned[each.id] == code.id]
            if findings:
                codes.append(code.make_code(findings))
            else:
                self.notice(f"{code.id} got no finding, and is left out")
        return replace(book, codes=tuple(codes)).compare_passed()

    async def assign(
        self, findings: Sequence[OpenFinding], rubric: Rubric
    ) -> dict[str, str | None]:
        """Return the code of a rubric for each finding, by its id; None: no code."""
        self._begin(f"a code for each of {format_count(len(findings), 'finding')}")
        sha256 = hashlib.sha256(dump_rubric(rubric).encode()).hexdigest()
        rubric = rubric.model_copy(update={"sha256": sha256})
        calls = _divide(findings)
        prompts = {
            f"assign-{n}": render_assignment(rubric, each) for n, each in enumerate(calls, 1)
        }
        answers = await self._ask(prompts, Assignment, read_assignment)
        return {
            finding.id: None if code == NONE else code
            for each, answer in zip(calls, answers, strict=True)
            for finding, code in zip(each, answer.codes, strict=True)
        }

    async def _ask(
        self,
        prompts: dict[str, CodingPrompt],
        kind: type[T],
        read: Callable[[str, CodingPrompt], T],
    ) -> list[T]:
        """Return the answers to the prompts, in order.

        Raises:
            Pending: some wait for answers in files.
            AnnotatorError: one has no usable answer.
        """
        folder, trial = self.trial.folder / _CALLS, self.trial
        spent = (self.usage.cost_usd or 0.0) + read_run_cost(open_run(trial.folder / _OPEN))
        settings = trial.limit(self.settings, _CALLS, spent)
        kept = await ask_proposals(
            prompts, settings, folder, trial.concurrency, self.notice, kind, read
        )
        self.usage = sum((item.usage for item in kept.values()), start=self.usage)
        for name, item in kept.items():
            if item.error:
                raise AnnotatorError(
                    f"{name}: no usable answer: {item.error}; go on with --resume, which asks again"
                )
        if len(kept) < len(prompts):
            raise Pending(f"stage {self.stage}: {trial.gather_requests([_CALLS])}")
        return [proposal for x in prompts if (proposal := kept[x].proposal) is not None]

    def _begin(self, text: str) -> None:
        self.stage += 1
        self.notice(f"stage {self.stage}: {text}")


def list_findings(annotation: Annotation) -> list[OpenFinding]:
    """Return the findings of a trace. The rationale is ``NAME: SENTENCE``."""
    findings = []
    for n, finding in enumerate(annotation.findings, 1):
        name, colon, sentence = finding.rationale.partition(":")
        name, sentence = name.strip(), sentence.strip()
        if not (colon and name and sentence):
            name, sentence = " ".join(finding.rationale.split()[:8]), finding.rationale
        trace_id = annotation.trace_id
        findings.append(OpenFinding(f"{trace_id}#{n}", trace_id, name, sentence, finding.evidence))
    return findings


def _list_judged(run: Run, trace_ids: Sequence[str]) -> list[Annotation]:
    """Return the judged ones of some traces of a run, by their ids."""
    selected = set(trace_ids)
    judged = (x for x in run.annotations() if x.status in JUDGED and x.trace_id in selected)
    return sorted(judged, key=lambda annotation: annotation.trace_id)


def _divide(findings: Sequence[OpenFinding]) -> list[Sequence[OpenFinding]]:
    """Return the findings in calls of about the same size."""
    calls = -(-len(findings) // MOST_FINDINGS)
    return [findings[n::calls] for n in range(calls)]
