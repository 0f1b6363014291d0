"""Choose one of several judges by its agreement with people, and say how good the choice is.

Traces of one task depend on each other: resamples, tests and folds take whole clusters (tasks).
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Self

import numpy as np
from numpy.typing import NDArray

from validation.cluster_comparison import LEAST_CLUSTERS
from validation.comparison import adjust_p_values
from validation.estimate import Estimate, Serializable
from validation.reliability import estimate_gains, estimate_kappa_difference
from validation.resampling import Floats, Resamples, check_weights, index_clusters, sum_by_number

_FOLDS = 5
_EXACT = 12  # clusters with 4,096 exchanges, which are all tried


@dataclass(frozen=True, slots=True)
class ArmComparison(Serializable):
    """Several judges (arms) compared with one person on the same items.

    Attributes:
        differences: the kappa of each arm less that of the first, with an interval; None for the
            first arm.
        p_values: of no difference to the first arm, None for fewer than 6 clusters; ``adjusted`` by
            Holm.
        best: the number of the arm with the greatest kappa, the first one of several; None if the
            person gave all items one label, where no kappa is above 0.
        standard_errors: of the difference of each arm to the best one; None for a single cluster.
        winner: the number of the cheapest arm that is at most one standard error worse than the
            best, or without one the cheapest of the best; None as ``best``.
    """

    differences: tuple[Estimate | None, ...]
    p_values: tuple[float | None, ...]
    adjusted: tuple[float | None, ...]
    best: int | None
    standard_errors: tuple[float | None, ...]
    winner: int | None


@dataclass(frozen=True, slots=True)
class CheckedChoice(Serializable):
    """The choice of an arm, repeated on some tasks and checked on others.

    Attributes:
        gain: the kappa of the arms so chosen less that of the first arm, on tasks that did not
            choose: :func:`validation.reliability.estimate_gains`.
        answers: the answer of the arm so chosen, by item.
        winners: the number of the arm that each fold's other tasks choose.
    """

    gain: Estimate
    answers: tuple[str, ...]
    winners: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Tables:
    """Sums by cluster that give the kappa of every arm.

    The columns are the person's labels, and for each arm its labels and its agreements. ``size``:
    the number of different labels.
    """

    sums: Floats
    size: int
    arms: int

    @classmethod
    def count(
        cls,
        human: Sequence[str],
        arms: Sequence[Sequence[str]],
        clusters: Sequence[Hashable] | None,
        weights: Floats,
    ) -> Self:
        """Count the answers of every arm, weighted, by cluster."""
        numbers = {label: n for n, label in enumerate(sorted({*human, *chain(*arms)}))}
        size = len(numbers)
        columns = np.zeros((len(human), size + len(arms) * (size + 1)))
        rows = np.arange(len(human))
        person = np.array([numbers[label] for label in human], dtype=int)
        columns[rows, person] = weights
        for n, answers in enumerate(arms):
            judge = np.array([numbers[label] for label in answers], dtype=int)
            start = size + n * (size + 1)
            columns[rows, start + judge] = weights
            columns[rows, start + size] = weights * (person == judge)
        return cls(sum_by_number(columns, clusters), size, len(arms))

    def compute_kappas(self, totals: Floats) -> Floats:
        """Return the kappa of every arm, shape (R, arms), from totals of shape (R, K)."""
        person = totals[:, : self.size]
        judges = totals[:, self.size :].reshape(len(totals), self.arms, self.size + 1)
        n = person.sum(axis=1)[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            observed = judges[:, :, -1] / n
            expected = np.einsum("rk,rak->ra", person, judges[:, :, :-1]) / n**2
            # An expected agreement of 1 up to rounding leaves kappa undefined.
            kappas: Floats = np.where(
                expected < 1 - 1e-12, (observed - expected) / (1 - expected), np.nan
            )
        return kappas


def compare_arms(
    human: Sequence[str],
    arms: Sequence[Sequence[str]],
    costs: Sequence[float] | None = None,
    *,
    clusters: Sequence[Hashable] | None = None,
    weights: Sequence[float] | None = None,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> ArmComparison:
    """Compare judges with one person by Cohen's kappa, and choose one.

    The winner is the cheapest arm whose kappa is at most one standard error of the difference below
    the best kappa. The standard error is that of resampled clusters. Of equally cheap arms the
    first one wins.

    The test exchanges the answers of an arm and of the first one, in all items of a cluster at
    once: where both judges answer by one law, each exchange is as likely as what was seen. All are
    tried for 12 clusters or fewer, else ``resamples`` random ones.

    Args:
        human: the person's label of every item.
        arms: the labels of every arm, each in the same order; the first arm is the base.
        costs: of each arm, in any unit; None: all cost the same.
        clusters: one per item. Default: items are independent.
        weights: positive sampling weights; default: all the same.
        confidence: of the intervals, between 0 and 1, both excluded.
        resamples: at least 1.
        seed: the same seed gives the same numbers.

    Source: L. Breiman et al., Classification and Regression Trees (1984), sec. 3.4.3 (one standard
    error); E. S. Edgington, P. Onghena, Randomization Tests (2007) (exchange of paired answers).
    """
    weight = check_weights(weights, len(human))
    tables = _Tables.count(human, arms, clusters, weight)
    differences = [
        estimate_kappa_difference(
            (human, answers),
            (human, arms[0]),
            clusters=clusters,
            weights=weights,
            confidence=confidence,
            resamples=resamples,
            seed=seed,
        )
        for answers in arms[1:]
    ]
    p_values = [_test_exchange(tables, arm, resamples, seed) for arm in range(1, len(arms))]
    best, winner, errors = _choose(tables, costs, resamples, seed)
    return ArmComparison(
        (None, *differences),
        (None, *p_values),
        (None, *adjust_p_values(p_values)),
        best,
        tuple(errors),
        winner,
    )


def check_choice(
    human: Sequence[str],
    arms: Sequence[Sequence[str]],
    costs: Sequence[float] | None = None,
    *,
    clusters: Sequence[Hashable] | None = None,
    weights: Sequence[float] | None = None,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> CheckedChoice | None:
    """Choose an arm on all clusters but those of one fold, for each of five folds, and compare what
    was chosen with the person on that fold.

    The kappa of a winner is too high where it was chosen by these labels; that of ``answers`` is
    not. The arguments are those of :func:`compare_arms`.

    Returns:
        None for fewer than 2 clusters, or if without a fold the person's labels are all the same.

    Source: M. Stone, J. R. Stat. Soc. B 36 (1974) 111-147. Folds by scikit-learn's ``GroupKFold``.
    """
    numbers = np.array(index_clusters(clusters, len(human)), dtype=int)
    weight = check_weights(weights, len(human))
    count = len(set(numbers.tolist()))
    if count < 2:
        return None
    from sklearn.model_selection import GroupKFold

    folds = GroupKFold(min(_FOLDS, count), shuffle=True, random_state=seed)
    answers = list(human)
    winners = []
    for others, fold in folds.split(numbers, groups=numbers):
        seen = others.tolist()
        tables = _Tables.count(
            [human[item] for item in seen],
            [[labels[item] for item in seen] for labels in arms],
            numbers[others].tolist(),
            weight[others],
        )
        winner = _choose(tables, costs, max(1, resamples // 5), seed)[1]
        if winner is None:
            return None
        winners.append(winner)
        for item in fold.tolist():
            answers[item] = arms[winner][item]
    gain, _ = estimate_gains(
        human, answers, arms[0], clusters=clusters, weights=weights, confidence=confidence
    )
    return CheckedChoice(gain, tuple(answers), tuple(winners))


def _choose(
    tables: _Tables, costs: Sequence[float] | None, resamples: int, seed: int
) -> tuple[int | None, int | None, list[float | None]]:
    """Return the best arm, the winner, and the standard errors of differences to the best."""
    draws = Resamples.draw(tables.sums, resamples=resamples, seed=seed)
    errors: list[float | None] = [None] * tables.arms
    if np.count_nonzero(draws.observed[0, : tables.size]) < 2:
        return None, None, errors
    kappas = tables.compute_kappas(draws.observed)[0]
    best = int(np.argmax(kappas))
    if draws.clusters > 1:
        samples = tables.compute_kappas(draws.draws)
        errors = [_measure_spread(samples[:, best] - samples[:, arm]) for arm in range(tables.arms)]
    near = [
        arm
        for arm, kappa in enumerate(kappas.tolist())
        if kappas[best] - kappa <= (errors[arm] or 0.0) + 1e-12
    ]
    prices = [0.0] * tables.arms if costs is None else costs
    return best, min(near, key=lambda arm: prices[arm]), errors


def _measure_spread(values: NDArray[np.float64]) -> float | None:
    finite = values[np.isfinite(values)]
    return float(finite.std(ddof=1)) if len(finite) > 1 else None


def _test_exchange(tables: _Tables, arm: int, resamples: int, seed: int) -> float | None:
    """Return the p of an arm against the first one; None for fewer than 6 clusters."""
    count, block = len(tables.sums), tables.size + 1
    if count < LEAST_CLUSTERS:
        return None
    person = tables.sums[:, : tables.size]
    first, second = (
        tables.sums[:, tables.size + n * block : tables.size + (n + 1) * block] for n in (0, arm)
    )
    if count <= _EXACT:
        swaps = (np.arange(2**count)[:, None] >> np.arange(count) & 1).astype(float)
    else:
        swaps = np.random.default_rng(seed).integers(0, 2, size=(resamples, count)).astype(float)
        swaps[0] = 0  # what was seen is one of them
    moved = swaps @ (second - first)
    totals = np.concatenate(
        [
            np.broadcast_to(person.sum(axis=0), (len(swaps), tables.size)),
            first.sum(axis=0) + moved,
            second.sum(axis=0) - moved,
        ],
        axis=1,
    )
    kappas = _Tables(totals, tables.size, 2).compute_kappas(totals)
    gaps = np.abs(kappas[:, 1] - kappas[:, 0])
    if not np.isfinite(gaps[0]):
        return None
    return float(np.mean(gaps[np.isfinite(gaps)] >= gaps[0] - 1e-12))
