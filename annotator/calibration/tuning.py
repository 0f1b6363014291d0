"""Tune a rubric on people's labels: what to ask, what to keep, and whether it helped.

The functions are generators: they yield tasks for a judge or a model, and get the answers. So all
folds advance in step, and a simulation can answer in the place of models.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

from annotator.base.errors import AnnotatorError
from annotator.calibration.agreement import Answers
from annotator.calibration.ledger import hash_label_files
from annotator.calibration.model import Request
from annotator.rubrics import Rubric
from annotator.rubrics.changes import Change, Proposal, ProposedChange, Turn, derive_rubric
from validation import (
    Estimate,
    RaterAgreement,
    bootstrap_mean,
    estimate_kappa_difference,
    measure_agreement,
)

LEAST_TASKS, LEAST_LABELS = 4, 30
_FEW_RESAMPLES = 1_000  # for candidates, which the standard error decides about


@dataclass(frozen=True, slots=True)
class JudgeTask:
    """Traces to be judged by a rubric; the reply is :data:`Answers`."""

    name: str
    rubric: Rubric
    trace_ids: tuple[str, ...]


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

    def compare(
        self, second: Answers, first: Answers, confidence: float = 0.95, **options: Any
    ) -> Estimate:
        """Return the kappa of the ``second`` answers less that of the ``first``."""
        ids, people, basis = self._list_sides(confidence)
        return estimate_kappa_difference(
            (people, [second[name] for name in ids]),
            (people, [first[name] for name in ids]),
            **basis,
            **options,
        )

    def count_more(self, second: Answers, first: Answers) -> int:
        """Return how many more of the ``second`` answers are right than of the ``first``."""
        return sum((second[x] == y) - (first[x] == y) for x, y in self.human.items())

    def measure_gain(
        self, second: Answers, first: Answers, confidence: float = 0.95, seed: int = 0
    ) -> "Gain":
        """Return the agreement of people with both answers, and the differences."""
        ids, people, basis = self._list_sides(confidence)
        sides = [[answers[name] for name in ids] for answers in (first, second)]
        gains = [float(b == x) - (a == x) for a, b, x in zip(*sides, people, strict=True)]
        return Gain(
            measure_agreement(people, sides[0], **basis),
            measure_agreement(people, sides[1], **basis),
            self.compare(second, first, confidence, seed=seed),
            bootstrap_mean("agreement_difference", gains, seed=seed, **basis),
            len(ids),
            len({self.tasks[name] for name in ids}),
        )

    def _list_sides(self, confidence: float) -> tuple[list[str], list[str], dict[str, Any]]:
        ids = sorted(self.human)
        weights = self.weights and [self.weights[name] for name in ids]
        clusters = [self.tasks[name] for name in ids]
        basis = {"clusters": clusters, "weights": weights, "confidence": confidence}
        return ids, [self.human[name] for name in ids], basis


@dataclass(frozen=True, slots=True)
class TriedChange:
    """A change that was tried.

    ``difference``: kappa with it less without it, on traces that did not propose it; ``more``: how
    many more of them are right. ``kept`` says whether the rubric has it.
    """

    name: str
    change: Change
    summary: str
    trace_ids: tuple[str, ...]
    difference: Estimate
    more: int
    kept: bool = False

    @property
    def helps(self) -> bool:
        """Whether it is better than the rubric without it."""
        return is_better(self.difference, self.more)


@dataclass(slots=True)
class Procedure:
    """One way from labels to a rubric: on all labels, or on those outside a fold.

    ``proposing`` and ``checking``: the numbers of traces. ``together``: the difference of all
    candidates that are better, put together; None for fewer than two.
    """

    name: str
    rubric: Rubric
    proposing: int
    checking: int
    turns: list[Turn] = field(default_factory=list)
    candidates: list[TriedChange] = field(default_factory=list)
    together: Estimate | None = None

    @property
    def changes(self) -> list[Change]:
        """The changes that the rubric has."""
        return [candidate.change for candidate in self.candidates if candidate.kept]


@dataclass(frozen=True, slots=True)
class TuningPlan:
    """How to tune: ``rounds`` of at most ``candidates`` changes each, and ``folds`` to check."""

    candidates: int = 6
    rounds: int = 1
    folds: int = 4
    seed: int = 0


def is_better(difference: Estimate, more: int) -> bool:
    """Whether a difference of kappa is above one standard error over tasks, and ``more`` than one
    answer more is right: a single one has a difference of one standard error.
    """
    value, error = difference.value, difference.inputs["standard_error"]
    return more > 1 and value is not None and error is not None and value > error + 1e-9


def tune_on(
    name: str, labelled: LabelledSet, base: Answers, rubric: Rubric, plan: TuningPlan
) -> Steps:
    """Tune a rubric on labels; return a :class:`Procedure`.

    Some tasks propose changes, the others check them. ``base``: the answers by the rubric.
    """
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
        tried = yield from _try_candidates(stage, proposal, check, answers, rubric, result)
        result.candidates += tried
        if not any(candidate.kept for candidate in tried):
            break
        result.rubric = derive_rubric(rubric, result.changes)
    return result


def _try_candidates(
    stage: str,
    proposal: Proposal,
    check: LabelledSet,
    answers: dict[str, str],
    base: Rubric,
    result: Procedure,
) -> Generator[list[Task], list[Answers], list[TriedChange]]:
    """Judge by each candidate, then by those together that help; return the candidates.

    ``answers`` become those of what is kept.
    """
    ids, before = tuple(sorted(check.human)), result.changes

    def make_task(name: str, proposed: Sequence[ProposedChange | TriedChange]) -> JudgeTask:
        changes = [each.change for each in proposed]
        return JudgeTask(f"{stage}/{name}", derive_rubric(base, [*before, *changes]), ids)

    def compare(reply: Answers) -> tuple[Estimate, int]:
        difference = check.compare(reply, answers, resamples=_FEW_RESAMPLES)
        return difference, check.count_more(reply, answers)

    tasks = [make_task(f"candidate-{n}", [x]) for n, x in enumerate(proposal.candidates, 1)]
    replies = (yield [*tasks]) if tasks else []
    tried = [
        TriedChange(task.name, x.change, x.summary, x.trace_ids, *compare(reply))
        for task, x, reply in zip(tasks, proposal.candidates, replies, strict=True)
    ]
    gains = {n: x.difference.value or 0.0 for n, x in enumerate(tried) if x.helps}
    chosen = _leave_out_rivals(tried, sorted(gains, key=lambda n: -gains[n]))
    kept, reply = chosen[:1], replies[chosen[0]] if chosen else {}
    if len(chosen) > 1:
        [together] = yield [make_task("together", [tried[n] for n in chosen])]
        result.together, more = compare(together)
        value = result.together.value or 0.0
        if is_better(result.together, more) and value >= gains[chosen[0]] - 1e-9:
            kept, reply = chosen, together
    answers |= reply
    return [replace(candidate, kept=n in kept) for n, candidate in enumerate(tried)]


def _leave_out_rivals(candidates: Sequence[TriedChange], order: Sequence[int]) -> list[int]:
    """Return the candidates in this order without those that replace a text of an earlier one."""
    clauses: set[str] = set()
    numbers = []
    for n in order:
        change = candidates[n].change
        if change.clause not in clauses or change.is_added:
            numbers.append(n)
        clauses.add(change.clause)
    return numbers


def check_on(
    name: str,
    fold: Sequence[str],
    labelled: LabelledSet,
    base: Answers,
    rubric: Rubric,
    plan: TuningPlan,
) -> Steps:
    """Tune on all traces but those of a fold; return the :class:`Procedure`, and the answers of its
    rubric on the fold.
    """
    others = [trace_id for trace_id in labelled.human if trace_id not in set(fold)]
    result = yield from tune_on(name, labelled.select(others), base, rubric, plan)
    if not result.changes:
        return result, {trace_id: base[trace_id] for trace_id in fold}
    [answers] = yield [JudgeTask(f"{name}/held-out", result.rubric, tuple(fold))]
    return result, answers


@dataclass(frozen=True, slots=True)
class Gain:
    """Two rubrics compared with people on the same ``n`` traces of so many ``tasks``.

    ``kappa`` and ``agreement``: those of the second rubric less those of the first. An undecided or
    failed trace is a disagreement.
    """

    first: RaterAgreement
    second: RaterAgreement
    kappa: Estimate
    agreement: Estimate
    n: int
    tasks: int

    @property
    def is_sure(self) -> bool:
        """Whether the interval of the gain in kappa lies above 0."""
        return self.kappa.low is not None and self.kappa.low > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """A rubric tuned on labels, and whether that helped.

    Attributes:
        rubric: the one before.
        product: the result on all labels, with its candidates.
        folds: the same on the labels outside each fold.
        gain: their rubrics on their folds, less ``rubric``: no label there has proposed or checked
            a change.
        final: the product less ``rubric`` on the test split; None if it stayed closed.
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
        return content | ({"clause": value.clause} if isinstance(value, Change) else {})
    return value


def check_size(labelled: LabelledSet, folds: int) -> int:
    """Return the number of folds: as many as there are tasks at most.

    Raises:
        AnnotatorError: there are too few labels or tasks.
    """
    tasks = len({labelled.tasks[name] for name in labelled.human})
    if tasks < LEAST_TASKS or len(labelled.human) < LEAST_LABELS:
        raise AnnotatorError(
            f"{len(labelled.human)} labels of {tasks} tasks are too few to tune and to check it:"
            f" label at least {LEAST_LABELS} traces of {LEAST_TASKS} tasks (annotate sample)"
        )
    return min(folds, tasks)


def tune_and_check(
    labelled: LabelledSet, base: Answers, rubric: Rubric, plan: TuningPlan
) -> list[Steps]:
    """Return the generators of a tuning: that on all labels, then one for each fold."""
    folds = labelled.divide(check_size(labelled, plan.folds), plan.seed)
    return [
        tune_on("all", labelled, base, rubric, plan),
        *(
            check_on(f"fold-{n}", fold, labelled, base, rubric, plan)
            for n, fold in enumerate(folds, 1)
        ),
    ]


def run_steps(steps: Sequence[Steps]) -> Generator[list[Task], list[Any], list[Any]]:
    """Run generators in step: yield the next tasks of all, and return their results."""
    results: list[Any] = [None] * len(steps)
    replies: dict[int, list[Any] | None] = dict.fromkeys(range(len(steps)))
    while replies:
        waiting: dict[int, list[Task]] = {}
        for n, reply in replies.items():
            try:
                waiting[n] = steps[n].send(reply) if reply is not None else next(steps[n])
            except StopIteration as stop:
                results[n] = stop.value
        tasks = [task for each in waiting.values() for task in each]
        answers: Iterator[Any] = iter((yield tasks) if tasks else [])
        replies = {n: [next(answers) for _ in each] for n, each in waiting.items()}
    return results


def conclude_tuning(
    results: Sequence[Any],
    labelled: LabelledSet,
    base: Answers,
    rubric: Rubric,
    plan: TuningPlan,
    request: Request,
    test: tuple[LabelledSet, Answers, Answers] | None = None,
    **about: Any,
) -> Tuning:
    """Return the tuning from the results of :func:`tune_and_check`.

    Args:
        results: that on all labels, then one of each fold.
        labelled: the labels.
        base: the answers by ``rubric``.
        rubric: the rubric before.
        plan: how it was tuned.
        request: the label files and the options of the statistics.
        test: the labels of the test split, and the answers by both rubrics.
        about: other fields of the result.
    """
    product, *folds = results
    tuned = {trace_id: x for _, answers in folds for trace_id, x in answers.items()}
    paths, digests = request.labels.paths, request.labels.digests
    return Tuning(
        rubric=rubric,
        product=product,
        folds=tuple(procedure for procedure, _ in folds),
        gain=labelled.measure_gain(tuned, base, request.confidence, request.seed),
        final=test and test[0].measure_gain(test[2], test[1], request.confidence, request.seed),
        plan=plan,
        label_files=tuple(map(str, paths)),
        labels_sha256=hash_label_files(paths, digests),
        **about,
    )
