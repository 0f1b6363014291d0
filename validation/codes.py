"""Precision, recall and F1 of a judge on each code, with a human's labels as the truth.

A trace can have any number of codes.
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from validation.agreement import LEAST_POSITIVES, count_pairs
from validation.clusters import estimate_clustered_share
from validation.estimate import Estimate, Serializable
from validation.resampling import Floats, Resamples, check_weights, sum_by_number
from validation.sets import freeze_sets


@dataclass(frozen=True, slots=True)
class CodeScore:
    """Counts and rates of one code.

    ``tp``: traces to which both gave the code, ``fp``: only the judge, ``fn``: only the human,
    ``tn``: neither.
    """

    tp: int
    fp: int
    fn: int
    tn: int
    precision: Estimate
    recall: Estimate
    f1: Estimate


@dataclass(frozen=True, slots=True)
class Averages:
    """Rates over all codes; ``n`` of each is the number of traces, ``inputs`` has the codes'."""

    precision: Estimate
    recall: Estimate
    f1: Estimate


@dataclass(frozen=True, slots=True)
class CodeReport(Serializable):
    """Scores by code and over all codes; see ``score_codes``."""

    per_code: Mapping[str, CodeScore]
    micro: Averages
    macro: Averages
    n: int


def tabulate_confusion(
    human: Sequence[str], judge: Sequence[str], labels: Sequence[str]
) -> list[list[int]]:
    """Return how many items got each pair of labels: human in rows, judge in columns.

    Args:
        human: one label per item.
        judge: the judge's, in the same order.
        labels: the order of rows and columns; unused ones make zeros.

    Source: scikit-learn's ``confusion_matrix``, which silently drops labels that are not listed,
    so they are checked before.
    """
    listed = list(labels)
    unknown = {label for pair in count_pairs(human, judge) for label in pair} - set(listed)
    if unknown:
        raise ValueError(f"the label {min(unknown)!r} is none of {listed}")
    if not human:
        return [[0] * len(listed) for _ in listed]
    from sklearn.metrics import confusion_matrix as counted

    matrix: list[list[int]] = counted(human, judge, labels=listed).tolist()
    return matrix


def score_codes(
    codes: Sequence[str],
    human_sets: Sequence[Collection[str]],
    judge_sets: Sequence[Collection[str]],
    *,
    weights: Sequence[float] | None = None,
    clusters: Sequence[Hashable] | None = None,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> CodeReport:
    """Return precision, recall and F1 of a judge, by code and over all codes.

    Args:
        codes: all possible codes, each once.
        human_sets: the codes of every trace by the human; empty: none.
        judge_sets: by the judge, in the same order.
        weights: positive sampling weights of the traces; default: all the same.
        clusters: one per trace, its task; default: traces are independent.
        confidence: between 0 and 1, both excluded.
        resamples: of the clusters, at least 1.
        seed: the same seed gives the same limits.

    Returns:
        Precision among the traces that the judge flagged has Wilson's interval (with an effective
        number of traces for weights and clusters); it stays right in a sample drawn by the judge's
        flags. Recall has Wilson's interval among the traces with the code; with weights it has a
        value only, because its interval depends on how the sample was drawn. F1 and the averages
        over codes have the interval of resampled clusters. F1 has a value without limits where
        human or judge gave the code to fewer than 10 traces: they would turn on the seed.

        A rate with an empty denominator is undefined: precision without flags, recall without human
        codes, F1 without either. The macro averages are over the codes where the rate
        is defined, in each resample anew; ``inputs["n_codes"]`` says how many.

    Source: the definitions are those of scikit-learn's ``precision_recall_fscore_support`` with
    ``zero_division=nan``.
    """
    human, judge = freeze_sets(human_sets), freeze_sets(judge_sets)
    weight = check_weights(weights, len(human))
    rows = _make_rows(codes, human, judge)
    tables = sum_by_number(rows * weight[:, None], clusters)
    totals = Resamples.draw(tables, resamples=resamples, seed=seed)
    sample = _Sample(human, judge, weights, clusters, confidence, totals)
    counts = rows.sum(axis=0).astype(int).tolist()
    k = len(codes)
    members = (_list_members(codes, judge), _list_members(codes, human))
    return CodeReport(
        per_code={code: sample.score(code, i, counts, members) for i, code in enumerate(codes)},
        micro=sample.averages("micro", k),
        macro=sample.averages("macro", k),
        n=len(human),
    )


# A row of totals: tp of every code, fp of every code, fn of every code.


def _make_rows(
    codes: Sequence[str], human: Sequence[frozenset[str]], judge: Sequence[frozenset[str]]
) -> Floats:
    k = len(codes)
    columns = {code: column for column, code in enumerate(codes)}
    rows = np.zeros((len(human), 3 * k))
    for row, truth, flags in zip(rows, human, judge, strict=True):
        for code in truth | flags:
            outcome = 0 if code in truth & flags else 1 if code in flags else 2
            row[outcome * k + columns[code]] = 1
    return rows


def _split_rate(measure: str, tp: Floats, fp: Floats, fn: Floats) -> tuple[Floats, Floats]:
    if measure == "precision":
        return tp, tp + fp
    if measure == "recall":
        return tp, tp + fn
    return 2 * tp, 2 * tp + fp + fn


def _list_members(codes: Sequence[str], sets: Sequence[frozenset[str]]) -> dict[str, list[int]]:
    members: dict[str, list[int]] = {code: [] for code in codes}
    for item, its_codes in enumerate(sets):
        for code in its_codes:
            members[code].append(item)
    return members


@dataclass(frozen=True, slots=True, eq=False)
class _Sample:
    """The labels of a sample of traces with the resamples of its totals."""

    human: Sequence[frozenset[str]]
    judge: Sequence[frozenset[str]]
    weights: Sequence[float] | None
    clusters: Sequence[Hashable] | None
    confidence: float
    resamples: Resamples

    def score(
        self,
        code: str,
        column: int,
        counts: Sequence[int],
        members: tuple[Mapping[str, list[int]], Mapping[str, list[int]]],
    ) -> CodeScore:
        """Return the scores of a code; ``members``: the items with each code by judge and human."""
        k, n = len(members[0]), len(self.human)
        columns = [column, k + column, 2 * k + column]
        tp, fp, fn = (int(counts[each]) for each in columns)
        flagged, true = (side[code] for side in members)
        hits = [code in self.human[item] for item in flagged]
        return CodeScore(
            tp=tp,
            fp=fp,
            fn=fn,
            tn=n - tp - fp - fn,
            precision=self._share("precision", hits, flagged, "the judge never gave it"),
            recall=self._recall(code, true),
            f1=self._f1(columns, tp + fn, tp + fp),
        )

    def _f1(self, columns: list[int], human: int, judge: int) -> Estimate:
        def statistic(totals: Floats) -> Floats:
            above, below = _split_rate("f1", *(totals[:, column] for column in columns))
            return np.where(below > 0, above / below, np.nan)

        above, below = _split_rate(
            "f1", *(self.resamples.observed[0, column] for column in columns)
        )
        inputs = {"numerator": float(above), "denominator": float(below)}
        n, why = len(self.human), "neither gave it"
        f1 = self.resamples.estimate("f1", statistic, n, inputs, why, self.confidence)
        if f1.value is None or min(human, judge) >= LEAST_POSITIVES:
            return f1
        reason = f"no interval: {human} and {judge} traces, fewer than {LEAST_POSITIVES}"
        return replace(f1, low=None, high=None, reason=reason)

    def averages(self, kind: str, k: int) -> Averages:
        """Return the micro or macro averages over k codes."""
        return Averages(*(self._average(kind, name, k) for name in ("precision", "recall", "f1")))

    def _average(self, kind: str, name: str, k: int) -> Estimate:
        def split(totals: Floats) -> tuple[Floats, Floats]:
            return _split_rate(name, *(totals[:, i * k : (i + 1) * k] for i in range(3)))

        def micro(totals: Floats) -> Floats:
            above, below = (counts.sum(axis=1) for counts in split(totals))
            return np.where(below > 0, above / below, np.nan)

        def macro(totals: Floats) -> Floats:
            above, below = split(totals)
            rates: Floats = np.where(below > 0, above / below, 0)
            mean: Floats = rates.sum(axis=1) / (below > 0).sum(axis=1)
            return mean

        defined = int((split(self.resamples.observed)[1] > 0).sum())
        return self.resamples.estimate(
            f"{kind}_{name}",
            micro if kind == "micro" else macro,
            len(self.human),
            {"n_codes": defined},
            f"{name} is defined for no code",
            self.confidence,
        )

    def _share(self, measure: str, values: list[bool], items: list[int], empty: str) -> Estimate:
        share = estimate_clustered_share(
            values,
            None if self.clusters is None else [self.clusters[item] for item in items],
            None if self.weights is None else [self.weights[item] for item in items],
            self.confidence,
            least_design_effect=1.0,
        )
        reason = share.reason if items else empty
        return replace(share, measure=measure, reason=reason)

    def _recall(self, code: str, true: list[int]) -> Estimate:
        hits = [code in self.judge[item] for item in true]
        share = self._share("recall", hits, true, "the human never gave it")
        if self.weights is None:
            return share
        reason = share.reason if share.value is None else "a weighted sample: no interval by counts"
        return replace(share, low=None, high=None, method="none", reason=reason)
