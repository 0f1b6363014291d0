"""The share of traces with a code, from many judged traces and a few labelled ones.

Use ``poststratify`` where the labels come from the judged traces. ``estimate_ppi_mean`` is for
comparison with the literature. ``validation.misclassification`` has the estimates from error rates
on another corpus.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from validation.clusters import estimate_clustered_share
from validation.estimate import Estimate
from validation.intervals import compute_quantile, compute_widening

# Draws of recall: another seed moves a limit by less than 1 % of the interval's width.
_DRAWS = 200_000


@dataclass(frozen=True, slots=True)
class Cell:
    """The human labels of traces with the same answer from the judge.

    ``share`` is the (weighted) share of labels with the code, None without labels; ``k`` of ``n``
    are the plain counts, which need not be whole in planning. ``n_effective`` is Kish's effective
    number of labels.
    """

    share: float | None
    k: float
    n: float
    n_effective: float

    @property
    def mean(self) -> float:
        """The mean of the posterior of the share under Jeffreys' prior; 1/2 without labels."""
        if self.share is None:
            return 0.5
        return (self.share * self.n_effective + 0.5) / (self.n_effective + 1)

    @property
    def variance(self) -> float:
        """The variance of the posterior; 1/8 without labels."""
        return self.mean * (1 - self.mean) / (self.n_effective + 2)


def make_cell(
    values: Sequence[int] | Sequence[bool], weights: Sequence[float] | None = None
) -> Cell:
    """Return the cell of some human labels, an empty one without labels.

    Args:
        values: 0 or 1 (or bool), one per labelled trace.
        weights: above 0 and finite, one over the chance to be labelled.
    """
    share = estimate_clustered_share(values, None, weights)
    n_effective = share.inputs.get("n_effective", 0.0)
    return Cell(share.value, share.inputs["k"], share.n, n_effective)


def poststratify(
    n_judged: int,
    n_flagged: int,
    flagged: Cell,
    unflagged: Cell,
    *,
    others: Sequence[tuple[int, Cell]] = (),
    confidence: float = 0.95,
    cluster_variance: float = 0.0,
    df: float | None = None,
    population: Literal["process", "corpus"] = "process",
) -> Estimate:
    """Return the share of traces with a code, the judge's answers corrected by human labels.

    For example, a judge flags 30 of 100 traces, does not flag 50 and leaves 20 undecided. People
    find the code in 9 of 10 flagged traces, 1 of 10 unflagged ones and 4 of 8 undecided ones. Then
    the share is .3 x .9 + .5 x .1 + .2 x .5 = .42.

    With W_j the share of traces with answer j and p_j the share of them with the code, by the
    labels, the estimate is the sum of W_j p_j. The interval is that of the Beta distribution with
    mean m = sum of W_j q_j and variance V = sum of W_j^2 v_j + (sum of W_j q_j^2 - m^2) / N,
    where q and v are each cell's posterior mean and variance under Jeffreys' prior
    (``Cell.mean``, ``Cell.variance``) and N is the number of traces; or with ``cluster_variance``
    for V, if that is larger. It is stretched to contain the share. Where V is too large for a Beta
    distribution, V >= m (1 - m), the limits are 0 and 1.

    If a cell has traces but no labels, the share counts half of it. The interval then reaches from
    the lower limit with the code in none of these traces to the upper limit with it in all.

    Args:
        n_judged: traces that the judge decided.
        n_flagged: those that it gave the code, 0 to n_judged.
        flagged: the human labels of traces with the judge's flag; not more than there are.
        unflagged: the human labels of the others.
        others: further answers of the judge ("undecided"): the number of traces, and their labels.
        confidence: between 0 and 1, both excluded.
        cluster_variance: the linearised variance of the share over tasks
            (``influence.compute_influences``); 0 without tasks.
        df: tasks - 1 if traces come from several tasks: V is multiplied by (t / z)^2. Below 1 the
            limits are 0 and 1.
        population: "process" is about future traces, too; "corpus" about these traces only: V has
            no last term, and each v is multiplied by its unlabelled fraction.

    Returns:
        Method "two_cell_beta", or "cells_beta" with ``others``. ``inputs``: ``W`` (of the flagged),
        ``n_judged``, ``n_flagged``, ``p1``, ``k1``, ``n1`` (effective), ``n1_raw``, the same with 0
        for the unflagged, ``others`` (a list of ``size``, ``p``, ``k``, ``n``, ``n_raw``),
        ``posterior_mean`` (m), ``posterior_sd`` (root of V, with the factor of df),
        ``unlabelled`` (the share of traces in cells without labels), ``design_effect`` (what
        ``cluster_variance`` multiplies V by, at least 1), ``df``, ``population`` and ``note``
        (which cell has no labels). Without traces or without any label the value is None and the
        limits are 0 and 1.

    Source: double sampling: A. Tenenbein, J. Am. Stat. Assoc. 65 (1970) 1350-1361; Jeffreys prior:
    L. D. Brown, T. T. Cai and A. DasGupta, Stat. Sci. 16 (2001) 101-133.
    """
    strata = _list_strata(n_judged, n_flagged, flagged, unflagged, others)
    inputs = _list_inputs(strata) | {"df": df, "population": population}
    method = "cells_beta" if others else "two_cell_beta"
    total = sum(size for size, _ in strata)
    if reason := _explain_undefined(strata):
        return Estimate("prevalence", None, 0.0, 1.0, total, confidence, method, reason, inputs)
    value = _mix_shares(strata)
    factor = compute_widening(confidence, df)
    ends, moments, effects = [], [], []
    for unlabelled in (0.0, 1.0) if inputs["unlabelled"] else (0.0,):
        mean, variance = compute_beta_posterior(strata, population, unlabelled)
        effects.append(max(1.0, cluster_variance / variance) if variance else 1.0)
        variance = max(variance, cluster_variance) * factor**2
        moments.append((mean, math.sqrt(variance)))
        ends.append(compute_beta_limits(mean, variance, confidence, value))
    low, high, reason = min(ends)[0], max(limit for _, limit in ends), None
    if df is not None and df < 1:
        low, high = 0.0, 1.0
        reason = "all traces are of one task: how tasks differ is not known"
    inputs |= {
        "posterior_mean": sum(mean for mean, _ in moments) / len(moments),
        "posterior_sd": max(sd for _, sd in moments),
        "design_effect": max(effects),
        "note": _explain_empty(strata),
    }
    return Estimate("prevalence", value, low, high, total, confidence, method, reason, inputs)


def estimate_recall(
    n_judged: int,
    n_flagged: int,
    flagged: Cell,
    unflagged: Cell,
    *,
    others: Sequence[tuple[int, Cell]] = (),
    confidence: float = 0.95,
    design_effect: float = 1.0,
    df: float | None = None,
    seed: int = 0,
) -> Estimate:
    """Return the share of the traces with a code that the judge flags.

    It is W_1 p_1 / (sum of W_j p_j), names as in ``poststratify``: undecided traces count as not
    found. The limits are quantiles of this expression over draws of all W and p from their Jeffreys
    posteriors, stretched to contain the value. If the judge never flagged the code, recall is 0
    with an upper limit.

    Args:
        n_judged: traces that the judge decided.
        n_flagged: those that it gave the code, 0 to n_judged.
        flagged: the human labels of traces with the judge's flag.
        unflagged: the human labels of the others.
        others: further answers of the judge ("undecided"): the number of traces, and their labels.
        confidence: between 0 and 1, both excluded.
        design_effect: of the recall over tasks, at least 1: traces and labels count so many times
            less (``influence.recall_design_effect``).
        df: tasks - 1 when traces come from several tasks: the posteriors are widened by about
            t / z. Below 1 the limits are 0 and 1.
        seed: of the draws; the same seed gives the same limits.

    Returns:
        Method "posterior_draws". ``inputs`` as for ``poststratify`` without the posterior's
        moments, and ``seed`` and ``draws``. The value is None and the limits are 0 and 1 without
        judged traces, where a cell that has traces has no labels, and where humans found the code
        in no labelled trace.

    Source: as ``poststratify``.
    """
    strata = _list_strata(n_judged, n_flagged, flagged, unflagged, others)
    inputs = _list_inputs(strata)
    inputs |= {"design_effect": design_effect, "df": df, "seed": seed, "draws": _DRAWS}
    method, total = "posterior_draws", sum(size for size, _ in strata)
    reason = _explain_undefined(strata) or _explain_empty(strata)
    if not reason and _mix_shares(strata) == 0:
        reason = "humans found the code in no labelled trace"
    if reason:
        return Estimate("recall", None, 0.0, 1.0, total, confidence, method, reason, inputs)
    value = strata[0][0] / total * (flagged.share or 0.0) / _mix_shares(strata)
    low, high = 0.0, 1.0
    if df is None or df >= 1:
        narrower = compute_widening(confidence, df) ** -2
        draws = _draw_recall(strata, narrower / design_effect, seed)
        low, high = np.quantile(draws, [(1 - confidence) / 2, (1 + confidence) / 2]).tolist()
    else:
        reason = "all traces are of one task: how tasks differ is not known"
    low, high = min(low, value), max(high, value)
    return Estimate("recall", value, low, high, total, confidence, method, reason, inputs)


def estimate_ppi_mean(
    human: Sequence[float],
    judge_labelled: Sequence[float],
    judge_unlabelled: Sequence[float],
    tuning: float | None = None,
    confidence: float = 0.95,
) -> Estimate:
    """Return the prediction-powered mean of the human answers, with a normal interval.

    tuning mean(judge_unlabelled) + mean(human - tuning judge_labelled). tuning = 1 is plain PPI,
    0 uses the human answers only. The standard error is the root of
    var(human - tuning judge_labelled) / n + tuning^2 var(judge_unlabelled) / N, variances divided
    by n and N.

    Args:
        human: human answers to n labelled traces, 0 or 1 or any finite numbers.
        judge_labelled: the judge's answers to the same traces, in the same order.
        judge_unlabelled: the judge's answers to N other traces; none of the labelled ones.
        tuning: 0 to 1. None takes the one with the least variance (PPI++),
            cov(human, judge_labelled) / ((1 + n / N) var(all judge answers)), cut at 0 and 1; the
            covariance is divided by n, the variance by n + N - 1. It is 0 where the judge always
            answers the same.
        confidence: between 0 and 1, both excluded.

    Returns:
        Method "ppi"; the limits are not cut at 0 and 1. ``inputs``: ``n_labelled``,
        ``n_unlabelled``, ``tuning``, ``tuned``, ``se``. Without labelled or unlabelled traces the
        value is None. With one trace of either kind, or if nothing varies, the limits are None.

    Source: A. N. Angelopoulos, J. C. Duchi and T. Zrnic, PPI++, arXiv 2311.01453, section 6.
    """
    answers = human, judge_labelled, judge_unlabelled
    y, f, rest = (np.asarray(values, dtype=float) for values in answers)
    if len(y) != len(f) or not np.isfinite([y.sum(), f.sum(), rest.sum()]).all():
        raise ValueError("human and judge must answer the same traces, and no answer be missing")
    inputs: dict[str, Any] = {"n_labelled": len(y), "n_unlabelled": len(rest), "tuning": tuning}
    n = len(y) + len(rest)
    if not len(y) or not len(rest):
        reason = f"no {'unlabelled' if len(y) else 'labelled'} traces"
        return Estimate("prevalence", None, None, None, n, confidence, "ppi", reason, inputs)
    factor = _tune(y, f, rest) if tuning is None else float(tuning)
    value = float(factor * rest.mean() + (y - factor * f).mean())
    variance = (y - factor * f).var() / len(y) + factor**2 * rest.var() / len(rest)
    se = math.sqrt(float(variance))
    inputs |= {"tuning": factor, "tuned": tuning is None, "se": se}
    if min(len(y), len(rest)) < 2 or se < 1e-12:
        reason = "too few traces, or nothing varies: the standard error cannot be estimated"
        return Estimate("prevalence", value, None, None, n, confidence, "ppi", reason, inputs)
    half = compute_quantile(confidence) * se
    return Estimate(
        "prevalence", value, value - half, value + half, n, confidence, "ppi", None, inputs
    )


def compute_beta_posterior(
    strata: Sequence[tuple[float, Cell]],
    population: str = "process",
    unlabelled: float = 0.5,
) -> tuple[float, float]:
    """Return mean and variance of the share's posterior, m and V of ``poststratify``.

    ``strata``: the traces with each answer of the judge, and their labels. A cell without labels
    counts as one of which the share ``unlabelled`` is known to have the code.
    """
    total = sum(size for size, _ in strata)
    mean, square, variance = 0.0, 0.0, 0.0
    for size, labels in strata:
        share, is_labelled = size / total, labels.share is not None
        q = labels.mean if is_labelled else unlabelled
        kept = 1 - labels.n / size if population == "corpus" and size else 1.0
        variance += share**2 * labels.variance * kept if is_labelled else 0.0
        mean, square = mean + share * q, square + share * q**2
    if population == "process":
        variance += max(0.0, square - mean**2) / total
    return mean, variance


def compute_beta_limits(
    mean: float, variance: float, confidence: float, value: float
) -> tuple[float, float]:
    """Return the limits of the Beta distribution with these moments, stretched to ``value``.

    They are 0 and 1 where no Beta distribution has them, and ``value`` where the variance is 0.
    """
    if variance >= mean * (1 - mean):
        return 0.0, 1.0
    if variance == 0:
        return value, value
    total = mean * (1 - mean) / variance - 1
    tail = (1 - confidence) / 2
    a, b = mean * total, (1 - mean) * total
    low, high = float(betaincinv(a, b, tail)), float(betaincinv(a, b, 1 - tail))
    return min(low, value), max(high, value)


_Strata = list[tuple[int, Cell]]
"""The judge's answers: the number of traces with each, and their labels; the flag first."""


def _list_strata(
    n_judged: int,
    n_flagged: int,
    flagged: Cell,
    unflagged: Cell,
    others: Sequence[tuple[int, Cell]],
) -> _Strata:
    strata = [(n_flagged, flagged), (n_judged - n_flagged, unflagged), *others]
    for name, (size, cell) in zip(_name_strata(strata), strata, strict=True):
        if cell.n > size:
            raise ValueError(f"{cell.n} traces {name} are labelled, but only {size} are judged")
    return strata


def _name_strata(strata: _Strata) -> list[str]:
    others = ["with another answer"] * (len(strata) - 2)
    return ["with the judge's flag", "without the judge's flag", *others]


def _list_inputs(strata: _Strata) -> dict[str, Any]:
    (flags, flagged), (rest, unflagged), *others = strata
    total = sum(size for size, _ in strata)
    inputs: dict[str, Any] = {
        "W": flags / total if total else None,
        "n_judged": flags + rest,
        "n_flagged": flags,
    }
    for mark, group in (("1", flagged), ("0", unflagged)):
        inputs |= {
            f"p{mark}": group.share,
            f"k{mark}": group.k,
            f"n{mark}": group.n_effective,
            f"n{mark}_raw": group.n,
        }
    inputs["others"] = [
        {"size": size, "p": cell.share, "k": cell.k, "n": cell.n_effective, "n_raw": cell.n}
        for size, cell in others
    ]
    blind = sum(size for size, cell in strata if cell.share is None)
    return inputs | {"unlabelled": blind / total if total else 0.0}


def _explain_undefined(strata: _Strata) -> str | None:
    if not any(size for size, _ in strata):
        return "no judged traces"
    if all(cell.share is None for _, cell in strata):
        return "no human labels"
    return None


def _explain_empty(strata: _Strata) -> str | None:
    """Return a note on the first cell with traces but without labels."""
    for name, (size, cell) in zip(_name_strata(strata), strata, strict=True):
        if size and cell.share is None:
            return f"none of the {size} traces {name} has a human label"
    return None


def _mix_shares(strata: _Strata) -> float:
    """Return the sum of W_j p_j; a cell without labels counts with 1/2."""
    total = sum(size for size, _ in strata)
    shares = ((size, 0.5 if cell.share is None else cell.share) for size, cell in strata)
    return min(1.0, sum(size / total * share for size, share in shares))


def _draw_recall(strata: _Strata, narrower: float, seed: int) -> NDArray[np.float64]:
    """Return draws of recall from the posteriors of the judge's shares and of all cells.

    Traces and labels count ``narrower`` times.
    """
    rng = np.random.default_rng(seed)
    total = sum(size for size, _ in strata)
    # The shares of the answers, each drawn from the rest of those before.
    remainder, remaining, shares = np.ones(_DRAWS), float(total), []
    for size, _ in strata[:-1]:
        draws = rng.beta(size * narrower + 0.5, (remaining - size) * narrower + 0.5, _DRAWS)
        shares.append(remainder * draws)
        remainder, remaining = remainder * (1 - draws), remaining - size
    with_code = [
        share
        * rng.beta(
            (cell.share or 0.0) * cell.n_effective * narrower + 0.5,
            (1 - (cell.share or 0.0)) * cell.n_effective * narrower + 0.5,
            _DRAWS,
        )
        for share, (_, cell) in zip([*shares, remainder], strata, strict=True)
    ]
    total_with_code = sum(with_code[1:], start=with_code[0])
    recall = np.zeros(_DRAWS)
    # All terms can underflow to 0 together; such a draw says nothing and is rare.
    np.divide(with_code[0], total_with_code, out=recall, where=total_with_code > 0)
    return recall


def _tune(y: NDArray[np.float64], f: NDArray[np.float64], rest: NDArray[np.float64]) -> float:
    """Return PPI++'s tuning with the least variance, cut at 0 and 1."""
    spread = float(np.concatenate([f, rest]).var(ddof=1))
    if spread < 1e-12:
        return 0.0
    together = float(((y - y.mean()) * (f - f.mean())).mean())
    return min(1.0, max(0.0, together / ((1 + len(y) / len(rest)) * spread)))
