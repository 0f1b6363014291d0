"""How far raters agree: people with each other, a judge with itself and with other judges."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal
from itertools import combinations
from operator import itemgetter

from annotator.calibration.frame import Frame
from annotator.calibration.join import GOLD, Joined, join_labels
from annotator.calibration.model import Comparison
from annotator.clusters import lone_cluster
from annotator.labels import Label, Labels
from annotator.rubrics import Scheme
from validation import (
    Estimate,
    Flips,
    Interval,
    RaterAgreement,
    Retest,
    agreement_of,
    kappa_difference,
    krippendorff_alpha,
    retest,
    wilson,
)

_ENOUGH = 10  # traces that two people labelled, for their kappa to be held against another


def compare_people(
    labels: Labels,
    rubric: Scheme,
    *,
    clusters: Mapping[str, str | None],
    weights: Mapping[str, float] | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> tuple[tuple[Comparison, ...], Estimate | None]:
    """Return how far people agree with each other, pair by pair and all together.

    What they agreed on afterwards (``gold``) is no rater. ``weights``: by trace, if the labelled
    traces were not equally likely to be drawn; alpha is not weighted.
    """
    by_name = {name: labels.of(name) for name in labels.annotators if name != GOLD}
    comparisons = [
        compare_pair(
            first, by_name[first], second, by_name[second], rubric, clusters, weights, confidence
        )
        for first, second in combinations(by_name, 2)
    ]
    doubles = [comparison for comparison in comparisons if comparison is not None]
    if not doubles:
        return (), None
    units = sorted({trace_id for answers in by_name.values() for trace_id in answers})
    ratings = [
        [frozenset(rubric.labels_of(answers[unit])) if unit in answers else None for unit in units]
        for answers in by_name.values()
    ]
    many = rubric.choice == "many"
    alpha = krippendorff_alpha(
        ratings if many else [_single(answers) for answers in ratings],
        distance="masi" if many else "nominal",
        clusters=_clusters(units, clusters),
        confidence=confidence,
        seed=seed,
    )
    return tuple(doubles), alpha


def _single(ratings: Sequence[frozenset[str] | None]) -> list[str | None]:
    return [None if rating is None else next(iter(rating)) for rating in ratings]


def _join_all(answers: Mapping[str, Label], units: Sequence[str], rubric: Scheme) -> list[str]:
    """Return the labels of each unit as a single one."""
    return [join_labels(rubric.labels_of(answers[unit])) for unit in units]


def compare_pair(
    first_name: str,
    first: Mapping[str, Label],
    second_name: str,
    second: Mapping[str, Label],
    rubric: Scheme,
    clusters: Mapping[str, str | None],
    weights: Mapping[str, float] | None = None,
    confidence: float = 0.95,
) -> Comparison | None:
    """Return how far two people agree on the traces that both labelled, None if there are none."""
    common = [trace_id for trace_id in first if trace_id in second]
    if not common:
        return None
    labels = [_join_all(answers, common, rubric) for answers in (first, second)]
    return Comparison(
        f"{first_name} and {second_name}",
        len(common),
        _agreement(labels, common, rubric, clusters, weights, confidence),
    )


def compare_reference(
    labels: Labels,
    in_use: Mapping[str, Label],
    frame: Frame,
    clusters: Mapping[str, str | None],
    weights: Mapping[str, float] | None = None,
    confidence: float = 0.95,
) -> tuple[Comparison, ...]:
    """Return how far the judge agrees with each person, and the reference (``in_use``) with each,
    where several people labelled: does either stand nearer to one than to another? Of the traces
    that are in use alone; a person whose labels are the reference is no other.
    """
    comparisons = []
    reference = {unit: label for unit, label in in_use.items() if _label_of(frame, unit)}
    names = {label.annotator for label in in_use.values()}
    for name in labels.annotators if len(labels.annotators) > 1 else ():
        answers = labels.of(name)
        common = [unit for unit in reference if unit in answers]
        if not common or names == {name}:
            continue
        person, judge, chosen = (
            _join_all(answers, common, frame.rubric),
            [_label_of(frame, unit) or "" for unit in common],
            _join_all(reference, common, frame.rubric),
        )
        sides = [(f"judge and {name}", judge)]
        sides += [(f"{'+'.join(sorted(names))} and {name}", chosen)] if name not in names else []
        for what, other in sides:
            agreement = _agreement(
                [person, other], common, frame.rubric, clusters, weights, confidence
            )
            comparisons.append(Comparison(what, len(common), agreement))
    return tuple(comparisons)


def compare_groups(
    rubric: Scheme, joined: Joined, confidence: float = 0.95
) -> tuple[Comparison, ...]:
    """Return how far judge and people agree on each group of codes: whether a trace has any of
    them. Of a rubric of one code a trace also on which group it is, or none.
    """
    humans = [set(trace.counted.human) for trace in joined.traces]
    judges = [set(trace.counted.judge) for trace in joined.traces]

    def compare(what: str, labels: Sequence[Sequence[str]], names: Sequence[str]) -> Comparison:
        agreement = agreement_of(
            labels[0],
            labels[1],
            weights=joined.weights,
            clusters=joined.clusters,
            confidence=confidence,
            categories=names,
        )
        return Comparison(what, len(humans), agreement)

    comparisons = []
    if rubric.groups and rubric.choice != "many":
        group_of = {code: name for name, codes in rubric.groups.items() for code in codes}
        sides = [
            [group_of.get(min(labels), min(labels)) for labels in side] for side in (humans, judges)
        ]
        names = dict.fromkeys(group_of.get(label, label) for label in rubric.labels)
        comparisons.append(compare("which group", sides, list(names)))
    for name, codes in rubric.groups.items():
        present = [
            ["no" if labels.isdisjoint(codes) else "yes" for labels in side]
            for side in (humans, judges)
        ]
        comparisons.append(compare(f"{name} or not", present, ("no", "yes")))
    return tuple(comparisons)


def compare_attribution(
    frame: Frame, joined: Joined, in_use: Mapping[str, Label], confidence: float = 0.95
) -> dict[str, Interval]:
    """Return in how many traces the judge's decisive finding (its first where none is primary)
    names the agent that a person named, the same step, and a step at most one from it. A trace
    without a finding is a wrong one; a judge whose findings all name no step was not asked for it,
    and nothing is returned.
    """
    annotations = [frame.wanted[trace.trace_id] for trace in joined.traces]
    findings = [finding for annotation in annotations for finding in annotation.findings]
    if findings and all(finding.step is None for finding in findings):
        return {}
    right: dict[str, list[bool]] = {"agent": [], "step": [], "step within 1": []}
    for trace in joined.traces:
        label, annotation = in_use[trace.trace_id], frame.wanted[trace.trace_id]
        decisive = [item for item in annotation.findings if item.code == annotation.primary]
        finding = next(iter([*decisive, *annotation.findings]), None)
        agent, step = (finding.agent, finding.step) if finding else (None, None)
        if label.agent:
            right["agent"].append(_plain(agent) == _plain(label.agent))
        if label.step:
            right["step"].append(step == label.step)
            right["step within 1"].append(step is not None and abs(step - label.step) <= 1)
    return {
        what: wilson(sum(answers), len(answers), confidence)
        for what, answers in right.items()
        if answers
    }


def _plain(name: str | None) -> str | None:
    return re.sub(r"[\W_]", "", name).lower() if name else None


def suspect_fit(
    labels: Labels,
    in_use: Mapping[str, Label],
    frame: Frame,
    clusters: Mapping[str, str | None],
    weights: Mapping[str, float] | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> str | None:
    """Return what to say where the judge agrees better with ``gold`` than people do with each
    other: one of the two may have been fitted to the other. None where it does not, beyond sampling
    error and on the same traces.
    """
    people = [name for name in labels.annotators if name != GOLD]
    if {label.annotator for label in in_use.values()} != {GOLD}:
        return None
    pairs: list[tuple[float, str, Estimate, float]] = []
    for pair in combinations(people, 2):
        answers = [labels.of(name) for name in pair]
        units = [
            unit
            for unit in in_use
            if _label_of(frame, unit) and all(unit in of_one for of_one in answers)
        ]
        if len(units) < _ENOUGH:
            continue
        gold, *others = (_join_all(of_one, units, frame.rubric) for of_one in (in_use, *answers))
        judge = [_label_of(frame, unit) or "" for unit in units]
        kappas = [
            _agreement(sides, units, frame.rubric, clusters, weights, confidence).kappa.value
            for sides in ([gold, judge], others)
        ]
        if kappas[0] is None or kappas[1] is None:
            continue
        gap = kappa_difference(
            (gold, judge),
            (others[0], others[1]),
            clusters=_clusters(units, clusters),
            weights=[weights[unit] for unit in units] if weights else None,
            confidence=confidence,
            seed=seed,
        )
        pairs.append((kappas[1], " and ".join(pair), gap, kappas[0]))
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
    return (
        f"On {gap.n} traces the judge agrees better with {GOLD} (kappa {judged}) than {names} with"
        f" each other ({best}), by more than chance. Was {GOLD} made with the judge's answers in"
        f" sight, or the judge fitted to {GOLD}?"
    )


def compare_judges(
    what: str,
    frame: Frame,
    other: Frame,
    clusters: Mapping[str, str | None],
    weights: Mapping[str, float] | None = None,
    confidence: float = 0.95,
    note: str | None = None,
) -> Comparison | None:
    """Return how far two runs agree on the kept traces that both judged, None if there are none."""
    common = [unit for unit in frame.wanted if _label_of(frame, unit) and _label_of(other, unit)]
    if not common:
        return None
    labels = [[_label_of(run, unit) or "" for unit in common] for run in (frame, other)]
    return Comparison(
        what,
        len(common),
        _agreement(labels, common, frame.rubric, clusters, weights, confidence),
        note,
    )


def _agreement(
    labels: Sequence[Sequence[str]],
    units: Sequence[str],
    rubric: Scheme,
    clusters: Mapping[str, str | None],
    weights: Mapping[str, float] | None,
    confidence: float,
) -> RaterAgreement:
    return agreement_of(
        labels[0],
        labels[1],
        weights=[weights[unit] for unit in units] if weights else None,
        clusters=_clusters(units, clusters),
        confidence=confidence,
        categories=None if rubric.choice == "many" else rubric.labels,
    )


def compare_reruns(
    frames: Sequence[Frame],
    clusters: Mapping[str, str | None],
    confidence: float = 0.95,
    seed: int = 0,
) -> Retest | None:
    """Return how far several runs of one judge agree on the kept traces; None for a single run.

    A run that did not judge a trace has no label of it.
    """
    if len(frames) < 2:
        return None
    units = sorted({trace_id for frame in frames for trace_id in frame.wanted})
    labels = [[_label_of(frame, unit) for frame in frames] for unit in units]
    retested = retest(labels, clusters=_clusters(units, clusters), confidence=confidence, seed=seed)
    # By code and not by set; and a majority without its traces is of no use.
    return replace(retested, majority=[], flips=_flips(frames, units))


def _flips(frames: Sequence[Frame], units: Sequence[str]) -> dict[str, Flips]:
    """Return, by label, how many traces had it in any of their runs, and in not all of them."""
    traces: Counter[str] = Counter()
    flipped: Counter[str] = Counter()
    for unit in units:
        runs: list[set[str]] = [
            set(frame.rubric.labels_of(frame.wanted[unit]))
            for frame in frames
            if _label_of(frame, unit)
        ]
        if len(runs) > 1:
            some = set[str]().union(*runs)
            traces.update(some)
            flipped.update(label for label in some if not all(label in run for run in runs))
    return {
        label: Flips(traces[label], flipped[label], flipped[label] / traces[label])
        for label in frames[0].rubric.labels
        if traces[label]
    }


def _label_of(frame: Frame, trace_id: str) -> str | None:
    annotation = frame.wanted.get(trace_id)
    if annotation is None or annotation.status not in ("labelled", "none"):
        return None
    return join_labels(frame.rubric.labels_of(annotation))


def _clusters(units: Sequence[str], clusters: Mapping[str, str | None]) -> list[str] | None:
    names = [clusters.get(unit) for unit in units]
    if not any(names):
        return None
    return [name or lone_cluster(unit) for name, unit in zip(names, units, strict=True)]
