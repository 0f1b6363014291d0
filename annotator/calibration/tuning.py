"""Tune a rubric on people's labels: what is asked, what is kept, and whether it helped.

The functions are generators: they yield tasks for judges and models, and get the replies. So all
folds advance in step, and a simulation can reply in the place of models.
"""

import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

from annotator.base.errors import AnnotatorError
from annotator.calibration.agreement import Answers
from annotator.rubrics import Rubric
from annotator.rubrics.changes import ClauseChange, Proposal, ProposedChange, Turn, derive_rubric
from validation import Estimate, RaterAgreement, estimate_gains, measure_agreement

LEAST_TASKS, LEAST_LABELS = 4, 30
_LEAST_OUTSIDE = 3  # tasks outside a fold: one to propose changes, two to check them


@dataclass(frozen=True, slots=True)
class JudgeTask:
    """Traces to be judged by a rubric; the reply is :data:`Answers`."""

    name: str
    rubric: Rubric
    trace_ids: tuple[str, ...]

    @property
    def folder(self) -> str:
        """The directory of its run; with more labels the same name may be another rubric."""
        return f"{self.name}-{self.rubric.sha256[:8]}"


@dataclass(frozen=True, slots=True)
class ProposalTask:
    """Traces on which a rubric is to be improved; the reply is a :class:`Proposal`. ``judged``: the
    name of the task that judged them.
    """

    name: str
    rubric: Rubric
    trace_ids: tuple[str, ...]
    judged: str


Task = JudgeTask | ProposalTask
Steps = Generator[list[Task], list[Any], Any]
"""Yields tasks and gets their replies, in the same order."""


@dataclass(frozen=True, slots=True)
class Gain:
    """Two rubrics compared with people on the same ``n`` traces of so many ``tasks``.

    ``kappa`` and ``agreement``: those of the ``second`` less those of the ``first``; ``more``: how
    many more answers are right. An undecided or failed trace is a disagreement.
    """

    first: RaterAgreement
    second: RaterAgreement
    kappa: Estimate
    agreement: Estimate
    more: int
    n: int
    tasks: int

    @property
    def is_sure(self) -> bool:
        """Whether the interval of the gain in kappa lies above 0."""
        return self.kappa.low is not None and self.kappa.low > 0

    @property
    def helps(self) -> bool:
        """Whether kappa rises by more than one standard error over tasks, and more than one answer
        more is right: a single one is a rise of one standard error.
        """
        value, error = self.kappa.value, self.kappa.inputs["standard_error"]
        return self.more > 1 and value is not None and error is not None and value > error + 1e-9


@dataclass(frozen=True, slots=True)
class LabelledSet:
    """People's answers on some traces, and the ``tasks`` and ``weights`` of these, by trace id.

    ``weights`` is None if all traces count the same.
    """

    human: Answers
    tasks: Mapping[str, str]
    weights: Mapping[str, float] | None = None

    def divide(self, folds: int, seed: int) -> list[tuple[str, ...]]:
        """Return the trace ids of each of some folds; a task is in one fold."""
        from sklearn.model_selection import GroupKFold

        ids = sorted(self.human)
        groups = [self.tasks[name] for name in ids]
        parts = GroupKFold(folds, shuffle=True, random_state=seed).split(ids, groups=groups)
        return [tuple(ids[n] for n in numbers) for _, numbers in parts]

    def select(self, trace_ids: Sequence[str]) -> "LabelledSet":
        """Return the same for some traces."""
        return replace(self, human={name: self.human[name] for name in trace_ids})

    def compare(self, second: Answers, first: Answers, confidence: float = 0.95) -> Gain:
        """Return the gain of the ``second`` answers over the ``first``."""
        ids = sorted(self.human)
        people, old, new, tasks = (
            [values[name] for name in ids] for values in (self.human, first, second, self.tasks)
        )
        basis: dict[str, Any] = {"clusters": tasks, "confidence": confidence}
        basis["weights"] = self.weights and [self.weights[name] for name in ids]
        sides = measure_agreement(people, old, **basis), measure_agreement(people, new, **basis)
        right = [sum(a == b for a, b in zip(people, side, strict=True)) for side in (old, new)]
        gains = estimate_gains(people, new, old, **basis)
        return Gain(*sides, *gains, right[1] - right[0], len(ids), len(set(tasks)))


@dataclass(frozen=True, slots=True)
class TriedChange:
    """A change that was tried: its ``gain`` on traces that did not propose it, and whether the
    rubric has it. ``name``: the directory of its run; ``trace_ids``: those whose differences it
    should settle.
    """

    name: str
    change: ClauseChange
    summary: str
    trace_ids: tuple[str, ...]
    gain: Gain
    kept: bool = False


@dataclass(slots=True)
class Procedure:
    """One way from labels to a rubric: on all labels, or on those outside a fold.

    ``proposing`` and ``checking``: the numbers of traces. ``together``: the gain of all candidates
    that help, put together; None for fewer than two.
    """

    name: str
    rubric: Rubric
    proposing: int
    checking: int
    turns: list[Turn] = field(default_factory=list)
    candidates: list[TriedChange] = field(default_factory=list)
    together: Gain | None = None

    @property
    def changes(self) -> list[ClauseChange]:
        """The changes that the rubric has."""
        return [candidate.change for candidate in self.candidates if candidate.kept]


@dataclass(frozen=True, slots=True)
class TuningPlan:
    """How to tune: ``rounds`` of at most ``candidates`` changes each, and ``folds`` to check."""

    candidates: int = 6
    rounds: int = 1
    folds: int = 4
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """A rubric tuned on labels, and whether that helped.

    Attributes:
        rubric: the one before.
        product: the result on all labels, with its candidates.
        folds: the same on the labels outside each fold.
        gain: their rubrics on their folds over ``rubric``: no label there has proposed or checked a
            change.
        final: the product over ``rubric`` on the test split; None if it stayed closed.
        split: ``dev``, or ``all`` if the labels have no split.
        look: the number of the look at the labels used last.
        calls, cost_usd: of everything but known answers; None: the cost is unknown.
        judged_open: undecided and failed judgements.
        failures: requests for changes without a usable answer, which count as no change.
    """

    rubric: Rubric
    product: Procedure
    folds: tuple[Procedure, ...]
    gain: Gain
    final: Gain | None
    plan: TuningPlan
    split: str
    look: int
    annotators: tuple[str, ...]
    label_files: tuple[str, ...]
    labels_sha256: str
    calls: int
    cost_usd: float | None
    judged_open: int
    failures: tuple[str, ...]

    def __repr__(self) -> str:
        kept = len(self.product.changes)
        return f"<Tuning of {self.rubric.id}: {kept} changes kept, gain {self.gain.kappa.value}>"

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        value: dict[str, Any] = _serialize(self)
        return value


def _serialize(value: Any) -> Any:
    if isinstance(value, Rubric):
        return {"id": value.id, "version": value.version, "sha256": value.sha256}
    if isinstance(value, Estimate | RaterAgreement):
        return value.as_dict()
    if isinstance(value, tuple | list):
        return [*map(_serialize, value)]
    if is_dataclass(value):
        content = {item.name: _serialize(getattr(value, item.name)) for item in fields(value)}
        return content | ({"clause": value.clause} if isinstance(value, ClauseChange) else {})
    return value


def limit_folds(labelled: LabelledSet, folds: int) -> int:
    """Return the number of folds, which cannot be larger than that of the tasks.

    Raises:
        AnnotatorError: there are too few labels or tasks, or too few tasks outside a fold.
    """
    tasks = len({labelled.tasks[name] for name in labelled.human})
    if tasks < LEAST_TASKS or len(labelled.human) < LEAST_LABELS:
        raise AnnotatorError(
            f"{len(labelled.human)} labels of {tasks} tasks are too few to tune and to check it:"
            f" label at least {LEAST_LABELS} traces of {LEAST_TASKS} tasks (annotate sample)"
        )
    folds = min(folds, tasks)
    # With one task to check, no change has a standard error: nothing would ever be kept.
    if tasks - math.ceil(tasks / folds) < _LEAST_OUTSIDE:
        raise AnnotatorError(
            f"--folds {folds} leaves fewer than {_LEAST_OUTSIDE} of {tasks} tasks to tune on: use"
            f" --folds {tasks}"
        )
    return folds


def tune_and_check(
    labelled: LabelledSet, base: Answers, rubric: Rubric, plan: TuningPlan
) -> Generator[list[Task], list[Any], tuple[Procedure, list[Procedure], Answers]]:
    """Tune on all labels, and on those outside each fold.

    ``base``: the answers by ``rubric``.

    Returns:
        The first procedure, those of the folds, and the answers of their rubrics on their folds.
    """
    folds = labelled.divide(limit_folds(labelled, plan.folds), plan.seed)
    steps = [
        _tune("all", labelled, base, rubric, plan),
        *(_check(f"fold-{n}", x, labelled, base, rubric, plan) for n, x in enumerate(folds, 1)),
    ]
    product, *checked = yield from _run_in_step(steps)
    answers = {trace_id: answer for _, side in checked for trace_id, answer in side.items()}
    return product, [procedure for procedure, _ in checked], answers


def _run_in_step(steps: Sequence[Steps]) -> Generator[list[Task], list[Any], list[Any]]:
    """Yield the next tasks of all generators at once, and return their results."""
    results: list[Any] = [None] * len(steps)
    replies: dict[int, list[Any] | None] = dict.fromkeys(range(len(steps)))
    while replies:
        waiting: dict[int, list[Task]] = {}
        for n, reply in replies.items():
            try:
                waiting[n] = next(steps[n]) if reply is None else steps[n].send(reply)
            except StopIteration as stop:
                results[n] = stop.value
        tasks = [task for each in waiting.values() for task in each]
        answers: Iterator[Any] = iter((yield tasks) if tasks else [])
        replies = {n: [next(answers) for _ in each] for n, each in waiting.items()}
    return results


def _check(
    name: str,
    fold: Sequence[str],
    labelled: LabelledSet,
    base: Answers,
    rubric: Rubric,
    plan: TuningPlan,
) -> Steps:
    """Tune on the traces outside a fold; return the procedure, and its answers on the fold."""
    others = [trace_id for trace_id in labelled.human if trace_id not in set(fold)]
    result = yield from _tune(name, labelled.select(others), base, rubric, plan)
    if not result.changes:
        return result, {trace_id: base[trace_id] for trace_id in fold}
    [answers] = yield [JudgeTask(f"{name}/held-out", result.rubric, tuple(fold))]
    return result, answers


def _tune(
    name: str, labelled: LabelledSet, base: Answers, rubric: Rubric, plan: TuningPlan
) -> Steps:
    """Return the procedure on some labels: half of the tasks propose changes, the others check."""
    checking, proposing = labelled.divide(2, plan.seed)
    check, answers, judged = labelled.select(checking), dict(base), "base"
    result = Procedure(name, rubric, len(proposing), len(checking))
    for n in range(1, plan.rounds + 1):
        stage = name if n == 1 else f"{name}/round-{n}"
        if n > 1:
            judged = f"{stage}/before"
            answers |= (yield [JudgeTask(judged, result.rubric, proposing)])[0]
        if all(answers[trace_id] == labelled.human[trace_id] for trace_id in proposing):
            break
        [proposal] = yield [ProposalTask(stage, result.rubric, proposing, judged)]
        result.turns += proposal.turns
        tried = yield from _judge_candidates(stage, proposal, check, answers, rubric, result)
        result.candidates += tried
        if not any(candidate.kept for candidate in tried):
            break
        result.rubric = derive_rubric(rubric, result.changes)
    return result


def _judge_candidates(
    stage: str,
    proposal: Proposal,
    check: LabelledSet,
    answers: dict[str, str],
    base: Rubric,
    result: Procedure,
) -> Generator[list[Task], list[Answers], list[TriedChange]]:
    """Judge by each candidate, then by all that help; return them. ``answers`` become those by what
    is kept.
    """
    ids, before = tuple(sorted(check.human)), result.changes

    def make_task(name: str, proposed: Sequence[ProposedChange | TriedChange]) -> JudgeTask:
        changes = [*before, *(each.change for each in proposed)]
        return JudgeTask(f"{stage}/{name}", derive_rubric(base, changes), ids)

    tasks = [make_task(f"candidate-{n}", [x]) for n, x in enumerate(proposal.candidates, 1)]
    replies = (yield [*tasks]) if tasks else []
    tried = [
        TriedChange(task.folder, x.change, x.summary, x.trace_ids, check.compare(reply, answers))
        for task, x, reply in zip(tasks, proposal.candidates, replies, strict=True)
    ]
    gains = {n: x.gain.kappa.value or 0.0 for n, x in enumerate(tried) if x.gain.helps}
    best = _drop_rivals(tried, sorted(gains, key=lambda n: -gains[n]))
    kept, reply = best[:1], replies[best[0]] if best else {}
    if len(best) > 1:
        [together] = yield [make_task("together", [tried[n] for n in best])]
        gain = result.together = check.compare(together, answers)
        if gain.helps and (gain.kappa.value or 0.0) > gains[best[0]] + 1e-9:
            kept, reply = best, together
    answers |= reply
    return [replace(candidate, kept=n in kept) for n, candidate in enumerate(tried)]


def _drop_rivals(candidates: Sequence[TriedChange], order: Sequence[int]) -> list[int]:
    """Return the candidates in this order without those that replace a text of an earlier one."""
    clauses: set[str] = set()
    numbers = []
    for n in order:
        change = candidates[n].change
        if change.clause not in clauses or change.is_added:
            numbers.append(n)
        clauses.add(change.clause)
    return numbers
