"""Arms measured by people's labels: one row for each rubric or setting, and the choice of one."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from annotator.base.errors import AnnotatorError
from annotator.calibration.judged_sample import read_judged_sample
from annotator.calibration.ledger import hash_label_files
from annotator.calibration.matching import (
    MatchedLabels,
    Reference,
    join_labels,
    match_labels,
)
from annotator.calibration.model import OPEN, OPEN_ANSWERS, Request
from annotator.rubrics.annotations import Annotation, Usage
from annotator.runs.arms import Arm
from annotator.runs.run import Run
from validation import Estimate, RaterAgreement
from validation.selection import check_choice, compare_arms

if TYPE_CHECKING:
    from pandas import DataFrame  # type: ignore[import-untyped]

Unit = Literal["dollars", "tokens"]


@dataclass(frozen=True, slots=True)
class Cost:
    """The mean cost of a trace: ``dollars`` (None if a price is unknown), ``tokens`` and ``calls``.

    ``n``: the traces that it was measured on; 0 for a forecast.
    """

    dollars: float | None
    tokens: float
    calls: float
    n: int


@dataclass(frozen=True, slots=True)
class ArmResult:
    """An arm, measured by people's labels.

    Attributes:
        settings: the settings that the arms differ in, with this arm's values.
        id, run: the run's id and directory.
        agreement: judge and people on all traces; an undecided or failed one is a disagreement.
        undecided, failed: the numbers of such traces.
        difference: the kappa less that of the first arm; None for the first one.
        p: of no difference to the first arm; ``adjusted`` by Holm over all arms.
        standard_error: of the difference to the best arm.
    """

    name: str
    settings: Mapping[str, str]
    id: str
    run: str
    judge: str
    judge_sha256: str
    rubric_version: int
    rubric_sha256: str
    agreement: RaterAgreement
    undecided: int
    failed: int
    cost: Cost
    difference: Estimate | None
    p: float | None
    adjusted: float | None
    standard_error: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ablation:
    """Arms compared on the same labelled traces.

    Attributes:
        split: ``dev``, or ``all`` if the labels have no split.
        n: the traces, of ``tasks`` tasks (None: no trace names one). ``left_out``: those with a
            label that some arm did not judge.
        winner: the number of the cheapest arm at most one standard error below the best; None if
            people gave all traces one label.
        unit: the unit by which an arm is cheaper.
        checked: people and the arms that other tasks choose, on the tasks that did not choose;
            ``gain``: its kappa less the first arm's. None if there is no such choice.
        choices: how often each arm was chosen there.
    """

    rubric: str
    split: str
    annotators: tuple[str, ...]
    label_files: tuple[str, ...]
    labels_sha256: str
    n: int
    tasks: int | None
    left_out: int
    arms: tuple[ArmResult, ...]
    best: int | None
    winner: int | None
    unit: Unit
    checked: RaterAgreement | None
    gain: Estimate | None
    choices: tuple[int, ...]
    confidence: float
    seed: int

    def __repr__(self) -> str:
        name = "-" if self.winner is None else self.arms[self.winner].name
        return f"<Ablation of {len(self.arms)} arms on {self.n} labels, winner {name}>"

    def to_pandas(self) -> "DataFrame":
        """Return a row for each arm, with its numbers in full precision."""
        import pandas as pd

        rows = [
            {
                **{"arm": arm.name, "rubric": self.rubric, "rubric_version": arm.rubric_version},
                **{"rubric_sha256": arm.rubric_sha256, "judge": arm.judge},
                **{"judge_sha256": arm.judge_sha256, "n": self.n},
                **{"undecided": arm.undecided, "failed": arm.failed},
                **_list_ends("agreement", arm.agreement.observed),
                **_list_ends("kappa", arm.agreement.kappa),
                **_list_ends("difference", arm.difference),
                **{"p": arm.p, "p_holm": arm.adjusted, "standard_error": arm.standard_error},
                "dollars_per_1000": None if arm.cost.dollars is None else 1000 * arm.cost.dollars,
                "tokens_per_trace": arm.cost.tokens,
                "calls_per_trace": arm.cost.calls,
                "winner": n == self.winner,
            }
            for n, arm in enumerate(self.arms)
        ]
        return pd.DataFrame(rows)


def _list_ends(name: str, number: Estimate | None) -> dict[str, float | None]:
    if number is None:
        return dict.fromkeys((name, f"{name}_low", f"{name}_high"))
    return {name: number.value, f"{name}_low": number.low, f"{name}_high": number.high}


def measure_arms(
    arms: Sequence[Arm],
    runs: Sequence[Run],
    reference: Reference,
    request: Request,
    expect_cost: Callable[[Arm], Cost],
) -> Ablation:
    """Compare arms with labels, on the traces that all of them judged.

    Args:
        arms: at least one, with rubrics of one id and the same codes; the first one is the base.
        runs: of each arm.
        reference: the labels that choose.
        request: the label files and the options of the statistics.
        expect_cost: returns the expected cost of an arm, which counts if the answers of some arm
            were known before.

    Raises:
        AnnotatorError: the arms have no labelled trace in common.
    """
    base, labels, files = runs[0].scheme(arms[0].rubric.id), reference.labels, request.labels
    matches: list[MatchedLabels] = []
    measured: list[Cost] = []
    for run in runs:
        sample = read_judged_sample(run, base.id, select=set(labels), cluster=request.cluster)
        matches.append(match_labels(sample, labels, request.cluster, reference.design))
        measured += filter(None, [_measure_cost(sample.selected.values())])
    # A forecast beside a measured cost would compare two different things.
    costs = measured if len(measured) == len(arms) else [expect_cost(arm) for arm in arms]
    common = set.intersection(*({trace.trace_id for trace in m.all} for m in matches))
    if not common:
        raise AnnotatorError("the arms judged no labelled trace in common")
    matches = [_select_traces(matched, common) for matched in matches]
    human = [join_labels(trace.counted.human) for trace in matches[0].traces]
    answers = [[join_labels(trace.counted.judge) for trace in m.traces] for m in matches]
    prices, unit = _choose_unit(costs)
    clusters, confidence = matches[0].clusters, request.confidence
    basis: Any = {"clusters": clusters, "weights": matches[0].weights}
    basis |= {"confidence": confidence, "seed": request.seed}
    compared = compare_arms(human, answers, prices, **basis)
    checked = check_choice(human, answers, prices, **basis)
    categories = None if base.choice == "many" else (*base.labels, *sorted(OPEN_ANSWERS))

    def agree(judge: Sequence[str]) -> RaterAgreement:
        return matches[0].agree(human, judge, categories, confidence)

    return Ablation(
        rubric=base.id,
        split=reference.split,
        annotators=tuple(sorted({label.annotator for label in labels.values()})),
        label_files=tuple(map(str, files.paths)),
        labels_sha256=hash_label_files(files.paths, files.digests),
        n=len(human),
        tasks=None if clusters is None else len(set(clusters)),
        left_out=len(labels) - len(common),
        arms=tuple(
            ArmResult(
                name=arm.name,
                settings=arm.values,
                id=run.id,
                run=str(run),
                judge=run.judge,
                judge_sha256=run.judge_sha256,
                rubric_version=arm.rubric.version,
                rubric_sha256=arm.rubric.sha256,
                agreement=agree(answers[n]),
                undecided=answers[n].count(OPEN["undecided"]),
                failed=answers[n].count(OPEN["failed"]),
                cost=costs[n],
                difference=compared.differences[n],
                p=compared.p_values[n],
                adjusted=compared.adjusted[n],
                standard_error=compared.standard_errors[n],
            )
            for n, (arm, run) in enumerate(zip(arms, runs, strict=True))
        ),
        best=compared.best,
        winner=compared.winner,
        unit=unit,
        checked=agree(checked.answers) if checked else None,
        gain=checked.gain if checked else None,
        choices=tuple(checked.winners.count(n) for n in range(len(arms))) if checked else (),
        confidence=confidence,
        seed=request.seed,
    )


def _select_traces(matched: MatchedLabels, common: Collection[str]) -> MatchedLabels:
    """Return the traces of all arms, decided or not, sorted by id."""
    traces = [trace for trace in matched.all if trace.trace_id in common]
    traces.sort(key=lambda trace: trace.trace_id)
    return replace(matched, traces=tuple(traces), not_decided=())


def _measure_cost(annotations: Iterable[Annotation]) -> Cost | None:
    """Return the mean cost of the traces whose answers were not known before; None if half of them
    or more were. Failed traces are left out: a failure is no cheap answer.
    """
    usages = [item.usage for item in annotations if item.status not in ("skipped", "failed")]
    fresh = [usage for usage in usages if not usage.cache_hits]
    if len(fresh) * 2 <= len(usages):
        return None
    total = sum(fresh, start=Usage())
    return make_cost(total, len(fresh), measured=len(fresh))


def make_cost(total: Usage, traces: int, *, measured: int = 0) -> Cost:
    """Return the mean cost of a trace, from the usage of all ``traces``."""
    dollars = None if total.cost_usd is None else total.cost_usd / traces
    tokens = (total.input_tokens + total.output_tokens) / traces
    return Cost(dollars, tokens, total.calls / traces, measured)


def _choose_unit(costs: Sequence[Cost]) -> tuple[list[float], Unit]:
    """Return the cost of each arm in one unit: dollars if all are known, else tokens."""
    dollars = [cost.dollars for cost in costs if cost.dollars is not None]
    if len(dollars) == len(costs):
        return dollars, "dollars"
    return [cost.tokens for cost in costs], "tokens"
