"""The answers of a judge, and those of the same judge where only details of the asking differ."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from annotator.calibration.judged_sample import read_judged_sample
from annotator.calibration.matching import join_labels
from annotator.calibration.model import OPEN, count_answer
from annotator.rubrics.annotations import Annotation
from annotator.runs.run import Run
from annotator.traces.clusters import find_cluster, name_lone_cluster
from validation import (
    Estimate,
    RaterAgreement,
    bootstrap_mean,
    estimate_clustered_share,
    measure_agreement,
)

Stability = Literal["stable", "unstable", "unclear"]
AGAIN = "again"
"""The variant that asks the same once more."""
LEAST_TRACES = 10  # with a code, for a verdict about it


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
        agreement: the base and the variant.
        undecided, failed: the numbers of such traces.
        uncut: traces that it was not asked about, because they are too short to be cut.
        flips: by code.
    """

    name: str
    run: str
    same: Estimate
    beyond: Estimate | None
    agreement: RaterAgreement
    undecided: int
    failed: int
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
        return _check(1 - (self.same.high or 0), 1 - (self.same.low or 0), maximum)


def _check(low: float, high: float, maximum: float) -> Literal["met", "missed", "undecided"]:
    return "met" if high <= maximum else "missed" if low > maximum else "undecided"


@dataclass(frozen=True, slots=True)
class _VariantAnswers:
    """The counted labels of a run by trace; a failed trace has none."""

    labels: dict[str, frozenset[str]]
    annotations: Mapping[str, Annotation]


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
    """Compare the runs of variants with the base.

    Args:
        base: the judge as it is.
        variants: a run for each variant, by its name.
        trace_ids: the traces that were drawn.
        rubric: its id.
        population: the number of traces that they were drawn from.
        cluster: the attributes that name a task.
        maximum: the share of flips that still counts as stable.
        confidence: of the intervals.
        seed: of resampled intervals.

    Raises:
        AnnotatorError: a run cannot be read.
    """
    first = _read(base, rubric, trace_ids)
    clusters = {
        trace_id: find_cluster(item.attributes, cluster)
        for trace_id, item in first.annotations.items()
    }
    compared = _BaseAnswers(
        codes=base.schemes[rubric].labels,
        first=first.labels,
        clusters=clusters if any(clusters.values()) else None,
        maximum=maximum,
        settings={"confidence": confidence, "seed": seed},
    )
    answers = {name: _read(run, rubric, trace_ids) for name, run in variants.items()}
    results = [
        compared.measure(name, run, answers[name], answers.get(AGAIN))
        for name, run in variants.items()
    ]
    # A trace that a variant was not asked about differs in nothing from the base.
    others = [
        each.labels | {x: first.labels[x] for x in first.labels.keys() - each.annotations.keys()}
        for each in answers.values()
    ]
    units = [x for x in first.labels if all(x in labels for labels in others)]
    tasks = compared.select_clusters(units)
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
        tasks=len(set(tasks)) if tasks else None,
        same=compared.share([all(x[u] == first.labels[u] for x in others) for u in units], units),
        flips=compared.count_flips(units, others),
        variants=tuple(results),
        maximum=maximum,
        confidence=confidence,
        seed=seed,
    )


def _read(run: Run, rubric: str, trace_ids: Sequence[str]) -> _VariantAnswers:
    sample = read_judged_sample(run, rubric, select=set(trace_ids))
    judged = {x: item for x, item in sample.selected.items() if item.status != "skipped"}
    labels = {
        x: frozenset(count_answer(judged[x], sample.rubric))
        for x in trace_ids
        if x in judged and judged[x].status != "failed"
    }
    return _VariantAnswers(labels, judged)


@dataclass(frozen=True, slots=True)
class _BaseAnswers:
    """The answers of the base, with which others are compared."""

    codes: Sequence[str]
    first: Mapping[str, frozenset[str]]
    clusters: Mapping[str, str | None] | None
    maximum: float
    settings: Mapping[str, Any]

    def select_clusters(self, units: Sequence[str]) -> list[str] | None:
        """Return the tasks of traces, None if no trace names one."""
        if self.clusters is None:
            return None
        return [self.clusters[unit] or name_lone_cluster(unit) for unit in units]

    def share(self, values: Sequence[bool], units: Sequence[str]) -> Estimate:
        """Return a share of traces."""
        return estimate_clustered_share(
            values,
            self.select_clusters(units),
            confidence=self.settings["confidence"],
            least_design_effect=1.0,
        )

    def count_flips(
        self, units: Sequence[str], others: Sequence[Mapping[str, frozenset[str]]]
    ) -> tuple[CodeFlips, ...]:
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
        verdicts: dict[str, Stability] = {
            "met": "stable",
            "missed": "unstable",
            "undecided": "unclear",
        }
        return verdicts[_check(lost.low, lost.high, self.maximum)]

    def measure(
        self, name: str, run: Run, answers: _VariantAnswers, again: _VariantAnswers | None
    ) -> VariantResult:
        """Return a variant beside the base."""
        labels = answers.labels
        units = [unit for unit in self.first if unit in labels]
        sides = [[join_labels(x[u]) for u in units] for x in (self.first, labels)]
        beyond = None
        if again and again is not answers:
            paired = [unit for unit in units if unit in again.labels]
            beyond = bootstrap_mean(
                "beyond_again",
                [
                    float((labels[x] != self.first[x]) - (again.labels[x] != self.first[x]))
                    for x in paired
                ],
                clusters=self.select_clusters(paired),
                **self.settings,
            )
        return VariantResult(
            name=name,
            run=str(run),
            same=self.share([labels[x] == self.first[x] for x in units], units),
            beyond=beyond,
            agreement=measure_agreement(
                *sides,
                clusters=self.select_clusters(units),
                confidence=self.settings["confidence"],
            ),
            undecided=sum(OPEN["undecided"] in labels[x] for x in units),
            failed=sum(item.status == "failed" for item in answers.annotations.values()),
            uncut=len(self.first.keys() - answers.annotations.keys()),
            flips=self.count_flips(units, [labels]),
        )
