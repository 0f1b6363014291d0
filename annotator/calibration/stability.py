"""The answers of a judge, and those of the same judge where only details of the asking differ."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from annotator.calibration.judged_sample import JudgedSample, read_judged_sample
from annotator.calibration.matching import join_labels
from annotator.calibration.model import OPEN, OPEN_ANSWERS, count_answer
from annotator.runs.run import Run
from annotator.traces.clusters import find_cluster, name_lone_cluster
from validation import Estimate, bootstrap_mean, estimate_clustered_share, measure_agreement

Stability = Literal["stable", "unstable", "unclear"]
AGAIN = "again"
"""The variant that asks the same once more."""
LEAST_TRACES = 10  # with a code, for a verdict about it
Answers = Mapping[str, frozenset[str]]
"""The counted labels by trace."""


@dataclass(frozen=True, slots=True)
class CodeFlips:
    """A code that a judge gives and takes back: ``lost``, of the traces that have it in the base;
    ``gained``, of the other ones. ``verdict``: None for too few traces.
    """

    code: str
    lost: Estimate
    gained: Estimate
    verdict: Stability | None


@dataclass(frozen=True, slots=True)
class VariantResult:
    """A variant beside the base, on the traces that neither failed to judge.

    Attributes:
        same: the share of traces with the same codes; an undecided trace has none of them.
        beyond: the share of traces with other codes less that of the variant ``again``; None for
            that one, or without it.
        kappa: of the base and the variant.
        open: the number of undecided and failed traces.
        uncut: traces that it was not asked about, because they are too short to be cut.
        flips: by code.
    """

    name: str
    run: str
    same: Estimate
    beyond: Estimate | None
    kappa: Estimate
    open: int
    uncut: int
    flips: tuple[CodeFlips, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeCheck:
    """A judge asked again in other ways.

    Attributes:
        traces: the number of traces that were drawn, of ``population``.
        n: those that the base and every variant judged without a failure, of ``tasks`` tasks (None:
            no trace names one).
        same: the share of them with the same codes in every variant.
        flips: by code, in any variant.
        maximum: the share of flips that still counts as stable.
    """

    rubric: str
    judge: str
    judge_sha256: str
    rubric_sha256: str
    id: str
    run: str
    traces: int
    population: int
    n: int
    tasks: int | None
    same: Estimate
    flips: tuple[CodeFlips, ...]
    variants: tuple[VariantResult, ...]
    maximum: float
    confidence: float
    seed: int

    def __repr__(self) -> str:
        return f"<JudgeCheck of {self.judge} on {self.n} traces, {len(self.variants)} variants>"

    def check(self, maximum: float) -> Literal["met", "missed", "undecided"]:
        """Return whether the share of traces with other codes is at most ``maximum``."""
        low, high = 1 - (self.same.high or 0), 1 - (self.same.low or 0)
        return "met" if high <= maximum else "missed" if low > maximum else "undecided"


def measure_stability(
    base: Run,
    variants: Mapping[str, Run],
    trace_ids: Sequence[str],
    *,
    rubric: str,
    population: int,
    cluster: tuple[str, ...],
    maximum: float,
    confidence: float,
    seed: int,
) -> JudgeCheck:
    """Compare the runs of variants, by name, with the base, on ``trace_ids``, which were drawn from
    ``population`` traces. ``cluster``: the attributes that name a task.
    """
    sample = read_judged_sample(base, rubric, select=set(trace_ids))
    first = {x: labels for x, labels in _list_answers(sample).items() if not _is_failed(labels)}
    tasks = {x: find_cluster(sample.selected[x].attributes, cluster) for x in first}
    compared = _BaseAnswers(
        base.schemes[rubric].labels,
        first,
        {x: tasks[x] or name_lone_cluster(x) for x in first} if any(tasks.values()) else None,
        maximum,
        confidence,
        seed,
    )
    answers = {
        name: _list_answers(read_judged_sample(run, rubric, select=set(trace_ids)))
        for name, run in variants.items()
    }
    # A trace that a variant was not asked about differs in nothing from the base.
    others = [{**first, **each} for each in answers.values()]
    units = [x for x in first if not any(_is_failed(labels[x]) for labels in others)]
    clusters = compared.select_clusters(units)
    return JudgeCheck(
        rubric=rubric,
        judge=base.judge,
        judge_sha256=base.judge_sha256,
        rubric_sha256=base.schemes[rubric].sha256,
        id=base.id,
        run=str(base),
        traces=len(trace_ids),
        population=population,
        n=len(units),
        tasks=len({*clusters}) if clusters else None,
        same=compared.share([all(x[u] == first[u] for x in others) for u in units], units),
        flips=compared.count_flips(units, others),
        variants=tuple(
            compared.measure(name, str(variants[name]), labels, answers.get(AGAIN))
            for name, labels in answers.items()
        ),
        maximum=maximum,
        confidence=confidence,
        seed=seed,
    )


def _list_answers(sample: JudgedSample) -> Answers:
    judged = {x: item for x, item in sorted(sample.selected.items()) if item.status != "skipped"}
    return {x: frozenset(count_answer(item, sample.rubric)) for x, item in judged.items()}


def _is_failed(labels: frozenset[str]) -> bool:
    return OPEN["failed"] in labels


@dataclass(frozen=True, slots=True)
class _BaseAnswers:
    """The answers of the base, ``first``, with which others are compared."""

    codes: Sequence[str]
    first: Answers
    clusters: Mapping[str, str] | None
    maximum: float
    confidence: float
    seed: int

    def select_clusters(self, units: Sequence[str]) -> list[str] | None:
        """Return the tasks of traces, None if no trace names one."""
        return [self.clusters[unit] for unit in units] if self.clusters else None

    def share(self, values: Sequence[bool], units: Sequence[str]) -> Estimate:
        """Return a share of traces."""
        clusters = self.select_clusters(units)
        return estimate_clustered_share(
            values, clusters, confidence=self.confidence, least_design_effect=1.0
        )

    def count_flips(self, units: Sequence[str], others: Sequence[Answers]) -> tuple[CodeFlips, ...]:
        """Return how often any of the others takes a code back or adds it."""
        flips = []
        for code in self.codes:
            having = [unit for unit in units if code in self.first[unit]]
            rest = [unit for unit in units if code not in self.first[unit]]
            lost = self.share([not all(code in x[unit] for x in others) for unit in having], having)
            gained = self.share([any(code in x[unit] for x in others) for unit in rest], rest)
            if having or gained.value:
                flips.append(CodeFlips(code, lost, gained, self._judge(lost)))
        return tuple(flips)

    def _judge(self, lost: Estimate) -> Stability | None:
        if lost.n < LEAST_TRACES or lost.low is None or lost.high is None:
            return None
        if lost.high <= self.maximum:
            return "stable"
        return "unstable" if lost.low > self.maximum else "unclear"

    def measure(self, name: str, run: str, labels: Answers, again: Answers | None) -> VariantResult:
        """Return a variant beside the base."""
        first = self.first
        units = [x for x in first if x in labels and not _is_failed(labels[x])]
        beyond = None
        if again and again is not labels:
            paired = [x for x in units if x in again and not _is_failed(again[x])]
            beyond = bootstrap_mean(
                "beyond_again",
                [float(labels[x] != first[x]) - float(again[x] != first[x]) for x in paired],
                clusters=self.select_clusters(paired),
                confidence=self.confidence,
                seed=self.seed,
            )
        agreement = measure_agreement(
            *([join_labels(x[unit]) for unit in units] for x in (first, labels)),
            clusters=self.select_clusters(units),
            confidence=self.confidence,
        )
        return VariantResult(
            name=name,
            run=run,
            same=self.share([labels[x] == first[x] for x in units], units),
            beyond=beyond,
            kappa=agreement.kappa,
            open=sum(not OPEN_ANSWERS.isdisjoint(each) for each in labels.values()),
            uncut=len(first.keys() - labels.keys()),
            flips=self.count_flips(units, [labels]),
        )
