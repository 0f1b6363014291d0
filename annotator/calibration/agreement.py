"""Agreement of people with each other, and of a judge with people, reruns and other judges."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Decimal
from itertools import chain, combinations
from operator import itemgetter

from annotator.base.text import Note
from annotator.calibration.judged_sample import JudgedSample
from annotator.calibration.matching import GOLD, MatchedLabels, join_labels
from annotator.calibration.model import Baseline, Comparison
from annotator.labels import Label, Labels
from annotator.rubrics import Scheme
from annotator.rubrics.annotations import JUDGED
from annotator.traces.clusters import name_lone_cluster
from validation import (
    Estimate,
    Flips,
    Interval,
    Retest,
    compute_krippendorff_alpha,
    compute_wilson_interval,
    estimate_effective_votes,
    estimate_kappa_difference,
    measure_agreement,
    measure_retest_agreement,
)

_LEAST_COMMON = 10  # traces that two people labelled, for their kappa to be compared
FITTED = "the judge agrees better with"  # in the warning of :func:`suspect_fit`

Answers = Mapping[str, str]
"""A rater's labels by trace id, those of one trace joined to a single label."""


@dataclass(frozen=True, slots=True)
class Basis:
    """The rubric, clusters and weights that raters are compared with, the latter by trace id.

    ``weights`` is None if all traces were equally likely to be sampled.
    """

    rubric: Scheme
    clusters: Mapping[str, str | None]
    weights: Mapping[str, float] | None
    confidence: float
    seed: int = 0

    def compare(
        self, name: str, first: Answers, second: Answers, note: str | None = None
    ) -> Comparison | None:
        """Return the agreement of two raters on the traces that both rated, None without any."""
        units = [unit for unit in first if unit in second]
        if not units:
            return None
        agreement = measure_agreement(
            [first[unit] for unit in units],
            [second[unit] for unit in units],
            weights=self.weights_of(units),
            clusters=self.clusters_of(units),
            confidence=self.confidence,
            categories=None if self.rubric.choice == "many" else self.rubric.labels,
        )
        return Comparison(name, len(units), agreement, note)

    def answers_of(self, labels: Mapping[str, Label]) -> dict[str, str]:
        """Return the labels of a person, joined by trace."""
        return {unit: join_labels(self.rubric.labels_of(labels[unit])) for unit in labels}

    def weights_of(self, units: Sequence[str]) -> list[float] | None:
        """Return the weights of traces."""
        return [self.weights[unit] for unit in units] if self.weights else None

    def clusters_of(self, units: Sequence[str]) -> list[str] | None:
        """Return the clusters of traces, None if no trace names one."""
        names = [self.clusters.get(unit) for unit in units]
        if not any(names):
            return None
        return [name or name_lone_cluster(unit) for name, unit in zip(names, units, strict=True)]


def list_judge_answers(sample: JudgedSample) -> dict[str, str]:
    """Return the judge's labels of the selected traces that it decided, joined by trace."""
    return {
        unit: join_labels(sample.rubric.labels_of(annotation))
        for unit, annotation in sample.selected.items()
        if annotation.status in JUDGED
    }


def compare_people(labels: Labels, basis: Basis) -> tuple[tuple[Comparison, ...], Estimate | None]:
    """Return the agreement of each pair of people, and Krippendorff's alpha of all.

    ``gold`` (labels agreed on afterwards) does not count as a person. Alpha is not weighted.
    """
    by_name = {name: labels.of(name) for name in labels.annotators if name != GOLD}
    answers = {name: basis.answers_of(person_labels) for name, person_labels in by_name.items()}
    pairs = (
        basis.compare(f"{first} and {second}", answers[first], answers[second])
        for first, second in combinations(by_name, 2)
    )
    comparisons = tuple(filter(None, pairs))
    if not comparisons:
        return (), None
    units = sorted({unit for person_labels in by_name.values() for unit in person_labels})
    many = basis.rubric.choice == "many"
    rate = frozenset if many else join_labels
    alpha = compute_krippendorff_alpha(
        [
            [
                rate(basis.rubric.labels_of(person_labels[unit])) if unit in person_labels else None
                for unit in units
            ]
            for person_labels in by_name.values()
        ],
        distance="masi" if many else "nominal",
        clusters=basis.clusters_of(units),
        confidence=basis.confidence,
        seed=basis.seed,
    )
    return comparisons, alpha


def compare_reference(
    labels: Labels, reference: Mapping[str, Label], sample: JudgedSample, basis: Basis
) -> tuple[Comparison, ...]:
    """Return the agreement of the judge, and of the reference, with each of several people.

    A person whose labels are the reference is left out. With a single annotator it is empty.
    """
    if len(labels.annotators) < 2:
        return ()
    judge = list_judge_answers(sample)
    answers = basis.answers_of({unit: reference[unit] for unit in reference if unit in judge})
    names = {label.annotator for label in reference.values()}
    comparisons = []
    for name in labels.annotators:
        if names == {name}:
            continue
        person_answers = basis.answers_of(labels.of(name))
        person = {unit: person_answers[unit] for unit in answers if unit in person_answers}
        comparisons.append(basis.compare(f"judge and {name}", person, judge))
        if name not in names:
            pair = f"{'+'.join(sorted(names))} and {name}"
            comparisons.append(basis.compare(pair, person, answers))
    return tuple(filter(None, comparisons))


def compare_groups(
    rubric: Scheme, matched: MatchedLabels, confidence: float = 0.95
) -> tuple[Comparison, ...]:
    """Return the agreement of judge and people on each group: whether a trace has a code of it.

    If a trace has one code, the first comparison is of the group itself ("which group").
    """
    counted = [trace.counted for trace in matched.traces]
    sides = [{*labels.human} for labels in counted], [{*labels.judge} for labels in counted]
    comparisons = []
    if rubric.groups and rubric.choice != "many":
        group_of = {code: name for name, codes in rubric.groups.items() for code in codes}
        human, judge = (
            [group_of.get(min(labels), min(labels)) for labels in side] for side in sides
        )
        names = list(dict.fromkeys(group_of.get(label, label) for label in rubric.labels))
        agreement = matched.agree(human, judge, names, confidence)
        comparisons.append(Comparison("which group", len(human), agreement))
    for name, codes in rubric.groups.items():
        human, judge = (
            ["no" if labels.isdisjoint(codes) else "yes" for labels in side] for side in sides
        )
        agreement = matched.agree(human, judge, ("no", "yes"), confidence)
        comparisons.append(Comparison(f"{name} or not", len(human), agreement))
    return tuple(comparisons)


def compare_attribution(
    sample: JudgedSample,
    matched: MatchedLabels,
    labels: Mapping[str, Label],
    confidence: float = 0.95,
) -> tuple[dict[str, Interval], dict[str, Baseline]]:
    """Return how often the judge names the agent and the step that a person named.

    The judge's finding of its primary code counts, else its first finding. A trace without a
    finding counts as wrong. Both results are empty if the judge's findings name no steps.

    Returns:
        Shares of the traces where the person named an "agent" or a "step", and of steps at most
        one off ("step within 1"); and for each the single answer that is right in most traces.
    """
    pairs = [(labels[trace.trace_id], sample.selected[trace.trace_id]) for trace in matched.traces]
    findings = [finding for _, annotation in pairs for finding in annotation.findings]
    if findings and all(finding.step is None for finding in findings):
        return {}, {}
    # The judge's answer on each trace, and the answers that are right.
    rated: dict[str, list[tuple[object, Sequence[object]]]] = defaultdict(list)
    spelled: dict[object, str] = {}
    for label, annotation in pairs:
        finding = annotation.decisive
        agent, step = (finding.agent, finding.step) if finding else (None, None)
        if label.agent:
            name = _simplify_name(label.agent)
            spelled.setdefault(name, label.agent)
            rated["agent"].append((_simplify_name(agent), [name]))
        if label.step:
            rated["step"].append((step, [label.step]))
            near = range(max(1, label.step - 1), label.step + 2)
            rated["step within 1"].append((step, near))
    shares, baselines = {}, {}
    for what, answers in rated.items():
        correct = sum(answer in right for answer, right in answers)
        shares[what] = compute_wilson_interval(correct, len(answers), confidence)
        counts = Counter(chain.from_iterable(right for _, right in answers))
        [(commonest, k)] = counts.most_common(1)
        share = compute_wilson_interval(k, len(answers), confidence)
        baselines[what] = Baseline(spelled.get(commonest, str(commonest)), share)
    return shares, baselines


def _simplify_name(name: str | None) -> str | None:
    return re.sub(r"[\W_]", "", name).lower() if name else None


def suspect_fit(
    labels: Labels, reference: Mapping[str, Label], sample: JudgedSample, basis: Basis
) -> str | None:
    """Return a warning if the judge agrees better with ``gold`` than people with each other.

    It compares the same traces, and warns beyond sampling error only: either the judge was fitted
    to ``gold``, or ``gold`` was made with the judge's answers in sight.
    """
    reference = {unit: label for unit, label in reference.items() if label.annotator == GOLD}
    gold, judge = basis.answers_of(reference), list_judge_answers(sample)
    people = {name: basis.answers_of(labels.of(name)) for name in labels.annotators if name != GOLD}
    pairs: list[tuple[float, str, Estimate, float]] = []
    for first, second in combinations(people, 2):
        pair_answers = people[first], people[second]
        units = [
            unit for unit in gold if all(unit in answers for answers in (judge, *pair_answers))
        ]
        ours = basis.compare("", {unit: gold[unit] for unit in units}, judge)
        theirs = basis.compare("", {unit: pair_answers[0][unit] for unit in units}, pair_answers[1])
        if len(units) < _LEAST_COMMON or not ours or not theirs:
            continue
        kappas = ours.agreement.kappa.value, theirs.agreement.kappa.value
        if kappas[0] is None or kappas[1] is None:
            continue
        sides = [[answers[unit] for unit in units] for answers in (gold, judge, *pair_answers)]
        gap = estimate_kappa_difference(
            (sides[0], sides[1]),
            (sides[2], sides[3]),
            clusters=basis.clusters_of(units),
            weights=basis.weights_of(units),
            confidence=basis.confidence,
            seed=basis.seed,
        )
        pairs.append((kappas[1], f"{first} and {second}", gap, kappas[0]))
    if not pairs:
        return None
    between, names, gap, value = max(pairs, key=itemgetter(0))
    if gap.low is None or gap.low <= 0:
        return None
    best, judged = (
        # Halves away from 0, as in tables; adding 0 makes 0 of -0.
        Decimal(repr(round(float(kappa), 10))).quantize(Decimal("0.01"), ROUND_HALF_UP) + 0
        for kappa in (between, value)
    )
    return Note(
        f"On {gap.n} traces {FITTED} {GOLD} (kappa {judged}) than {names} with"
        f" each other ({best}), by more than chance. Was {GOLD} made with the judge's answers in"
        f" sight, or the judge fitted to {GOLD}?",
        "fitted",
    )


def compare_reruns(samples: Sequence[JudgedSample], basis: Basis) -> Retest | None:
    """Return the agreement of several runs of one judge on the selected traces, None for one run.

    A run that did not decide a trace has no label of it.
    """
    if len(samples) < 2:
        return None
    units = sorted({unit for sample in samples for unit in sample.selected})
    runs = [list_judge_answers(sample) for sample in samples]
    retested = measure_retest_agreement(
        [[run.get(unit) for run in runs] for unit in units],
        clusters=basis.clusters_of(units),
        confidence=basis.confidence,
        seed=basis.seed,
    )
    # Flips are counted by code, not by set.
    return replace(retested, flips=_count_flips(samples, units))


def compare_votes(
    sample: JudgedSample, matched: MatchedLabels, confidence: float, seed: int
) -> Estimate | None:
    """Return the number of independent votes that a panel's count as, by their errors; None without
    votes. A vote errs on a code that it has and the person has not, or the reverse. Traces with a
    vote that does not count are left out; labels are not weighted.
    """
    rubric = sample.rubric
    marks: list[list[list[bool]]] = []
    clusters: list[str] = []
    for trace in matched.all:
        votes = sample.selected[trace.trace_id].votes
        if len(votes) < 2 or not all(vote.status in JUDGED for vote in votes):
            continue
        codes = [vote.codes if rubric.choice == "many" else {vote.primary} for vote in votes]
        human = trace.counted.human
        marks.append([[(code in x) != (code in human) for code in rubric.ids] for x in codes])
        clusters.append(trace.cluster or name_lone_cluster(trace.trace_id))
    if not marks:
        return None
    return estimate_effective_votes(marks, clusters=clusters, confidence=confidence, seed=seed)


def _count_flips(samples: Sequence[JudgedSample], units: Sequence[str]) -> dict[str, Flips]:
    """Return by label how many traces had it in some run, and in some but not all runs."""
    rubric = samples[0].rubric
    traces: Counter[str] = Counter()
    flipped: Counter[str] = Counter()
    for unit in units:
        annotations = [sample.selected[unit] for sample in samples if unit in sample.selected]
        runs = [
            set(rubric.labels_of(annotation))
            for annotation in annotations
            if annotation.status in JUDGED
        ]
        if len(runs) > 1:
            union = set[str]().union(*runs)
            traces.update(union)
            flipped.update(union - set[str].intersection(*runs))
    return {
        label: Flips(traces[label], flipped[label], flipped[label] / traces[label])
        for label in rubric.labels
        if traces[label]
    }
