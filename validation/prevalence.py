"""How common something is, from many judged traces and a few that humans labelled too.

``poststratify`` is the estimate to use where the labels come from the judged traces. ``ppi_mean``
is for comparison with the literature. Estimates from the judge's error rates on another corpus
(``rogan_gladen``, ``lang_reiczigel``) are in ``validation.misclassification``.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from validation.checks import whole
from validation.clusters import clustered_share
from validation.estimate import Estimate
from validation.intervals import check_confidence, check_share, quantile

# Draws of the posterior of recall: another seed moves a limit by less than a hundredth of the
# interval's width.
_DRAWS = 200_000


@dataclass(frozen=True, slots=True)
class Cell:
    """What the human labels say about the traces that got the same answer from the judge.

    ``share`` is the (weighted) share of labelled traces where the human says yes, None without
    labels; ``k`` of ``n`` are the plain counts. The labels tell as much as ``n_effective`` that
    weigh alike, Kish's number. Counts may be broken numbers when they are expected ones, in
    planning.
    """

    share: float | None
    k: float
    n: float
    n_effective: float

    def __post_init__(self) -> None:
        if not 0 <= self.k <= self.n < math.inf:
            raise ValueError(f"k must be between 0 and n, not {self.k!r} of {self.n!r}")
        if not 0 <= self.n_effective <= self.n * (1 + 1e-9):
            raise ValueError(
                f"n_effective must be between 0 and n, not {self.n_effective!r} of {self.n!r}"
            )
        if (self.share is None) != (self.n == 0):
            raise ValueError(f"a share of {self.share!r} does not go with {self.n!r} labels")
        if self.share is not None:
            check_share("share", self.share)

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


def cell(values: Sequence[int] | Sequence[bool], weights: Sequence[float] | None = None) -> Cell:
    """Return the summary of the human labels of one cell; no labels are an empty cell.

    Args:
        values: 0 or 1 (or bool), one per labelled trace.
        weights: above 0 and finite, one over the chance to be labelled.

    Raises:
        ValueError: lengths differ, or an argument is not in its range.
    """
    share = clustered_share(values, None, weights)
    n_effective = share.inputs.get("n_effective", 0.0)
    return Cell(share.value, share.inputs["k"], share.n, n_effective)


def poststratify(
    n_judged: int,
    n_flagged: int,
    flagged: Cell,
    unflagged: Cell,
    *,
    confidence: float = 0.95,
    judge_design_effect: float = 1.0,
    cluster_variance: float = 0.0,
    df: float | None = None,
    population: Literal["process", "corpus"] = "process",
) -> Estimate:
    """Return the share of traces with a code, the judge's flags corrected by human labels.

    With W = n_flagged / n_judged the share is W p1 + (1 - W) p0, where p1 and p0 are the shares of
    the flagged and the unflagged cell. The interval is that of the Beta distribution with mean
    m = W q1 + (1 - W) q0 and variance V = W^2 v1 + (1 - W)^2 v0 + D W (1 - W) (q1 - q0)^2 / N,
    where q and v are each cell's posterior mean and variance under Jeffreys' prior
    (``Cell.mean``, ``Cell.variance``), N = n_judged and D the design effect of the flag; or with
    ``cluster_variance`` for V, if that is larger. It is stretched to contain the share. Where V is
    too large for a Beta distribution, V >= m (1 - m), the limits are 0 and 1.

    Args:
        n_judged: traces that the judge answered.
        n_flagged: those that it gave the code, 0 to n_judged.
        flagged: the human labels of traces with the judge's flag; not more than there are.
        unflagged: the human labels of the others.
        confidence: between 0 and 1, both excluded.
        judge_design_effect: D; 1 where ``cluster_variance`` is given.
        cluster_variance: the linearised variance of the share over tasks
            (``influence.poststratified_influences``); 0 without tasks.
        df: tasks - 1 when traces come from several tasks: V is multiplied by (t / z)^2. Below 1
            nothing is known of the variance, and the limits are 0 and 1.
        population: "process" is about whatever makes such traces; "corpus" about these traces only:
            the last term of V falls away and each v is multiplied by its unlabelled fraction.

    Returns:
        Method "two_cell_beta". ``inputs``: ``W``, ``n_judged``, ``n_flagged``, ``p1``, ``k1``,
        ``n1`` (effective), ``n1_raw``, the same with 0, ``posterior_mean`` (m), ``posterior_sd``
        (root of V, with the factor of df), ``judge_design_effect``, ``design_effect`` (what
        ``cluster_variance`` multiplies V by, at least 1), ``df``, ``population`` and ``note``.
        Without judged traces or without any label the value is None and the limits are 0 and 1. A
        cell that has traces but no labels counts with q = 1/2; ``note`` says so.

    Raises:
        ValueError: an argument is not in its range, or more traces are labelled than judged.

    Source: double sampling: A. Tenenbein, J. Am. Stat. Assoc. 65 (1970) 1350-1361; Jeffreys prior:
    L. D. Brown, T. T. Cai and A. DasGupta, Stat. Sci. 16 (2001) 101-133. Own code: no light library
    has it.
    """
    judged, flags = _check_numbers(n_judged, n_flagged, flagged, unflagged)
    check_confidence(confidence)
    if not 0 <= judge_design_effect < math.inf:
        raise ValueError(f"judge_design_effect must be at least 0, not {judge_design_effect!r}")
    if not 0 <= cluster_variance < math.inf:
        raise ValueError(f"cluster_variance must be at least 0, not {cluster_variance!r}")
    if population not in ("process", "corpus"):
        raise ValueError(f"population must be 'process' or 'corpus', not {population!r}")
    inputs = _cells_as_inputs(judged, flags, flagged, unflagged) | {
        "judge_design_effect": judge_design_effect,
        "df": df,
        "population": population,
    }
    reason = _nothing_known(judged, flagged, unflagged)
    if reason:
        return _make_undefined("prevalence", "two_cell_beta", confidence, reason, inputs, judged)
    m, variance = beta_posterior(judged, flags, flagged, unflagged, judge_design_effect, population)
    value = _mixture(flags / judged, flagged, unflagged)
    design_effect = max(1.0, cluster_variance / variance) if variance else 1.0
    variance = max(variance, cluster_variance)
    low, high = 0.0, 1.0
    if df is None or df >= 1:
        factor = 1.0 if df is None else quantile(confidence, df) / quantile(confidence)
        variance *= factor**2
        low, high = beta_limits(m, variance, confidence, value)
    else:
        reason = "all traces are of one task: how tasks differ is not known"
    inputs |= {"posterior_mean": m, "posterior_sd": math.sqrt(variance)}
    inputs["design_effect"] = design_effect
    inputs["note"] = _empty_note(flags / judged, flagged, unflagged)
    return Estimate(
        "prevalence", value, low, high, judged, confidence, "two_cell_beta", reason, inputs
    )


def recall_estimate(
    n_judged: int,
    n_flagged: int,
    flagged: Cell,
    unflagged: Cell,
    *,
    confidence: float = 0.95,
    design_effect: float = 1.0,
    df: float | None = None,
    seed: int = 0,
) -> Estimate:
    """Return the share of the traces with a code that the judge flags.

    It is W p1 / (W p1 + (1 - W) p0), names as in ``poststratify``. The limits are quantiles of
    the same expression over draws of W, p1 and p0 from their Jeffreys posteriors, stretched to
    contain the value: a judge that never flagged a code has a recall of 0 with an upper limit.

    Args:
        n_judged: traces that the judge answered.
        n_flagged: those that it gave the code, 0 to n_judged.
        flagged: the human labels of traces with the judge's flag.
        unflagged: the human labels of the others.
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

    Raises:
        ValueError: an argument is not in its range, or more traces are labelled than judged.

    Source: as ``poststratify``. Own code: the same.
    """
    judged, flags = _check_numbers(n_judged, n_flagged, flagged, unflagged)
    check_confidence(confidence)
    inputs = _cells_as_inputs(judged, flags, flagged, unflagged)
    if not 1 <= design_effect < math.inf:
        raise ValueError(f"design_effect must be at least 1, not {design_effect!r}")
    inputs |= {"design_effect": design_effect, "df": df}
    inputs |= {"seed": seed, "draws": _DRAWS}
    reason = _nothing_known(judged, flagged, unflagged) or _empty_note(
        flags / judged, flagged, unflagged
    )
    if not reason and _mixture(flags / judged, flagged, unflagged) == 0:
        reason = "humans found the code in no labelled trace"
    if reason:
        return _make_undefined("recall", "posterior_draws", confidence, reason, inputs, judged)
    share = flags / judged
    value = share * (flagged.share or 0.0) / _mixture(share, flagged, unflagged)
    low, high = 0.0, 1.0
    if df is None or df >= 1:
        narrower = 1.0 if df is None else (quantile(confidence) / quantile(confidence, df)) ** 2
        narrower /= design_effect
        draws = _recall_draws(share, judged, flagged, unflagged, narrower, seed)
        low, high = np.quantile(draws, [(1 - confidence) / 2, (1 + confidence) / 2]).tolist()
    else:
        reason = "all traces are of one task: how tasks differ is not known"
    low, high = min(low, value), max(high, value)
    return Estimate(
        "recall", value, low, high, judged, confidence, "posterior_draws", reason, inputs
    )


def ppi_mean(
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
        value is None. With one trace of either kind, or where nothing varies, the value stands but
        the limits are None: a width of zero would claim certainty.

    Raises:
        ValueError: lengths differ, an answer is not a finite number, or a number is not in its
            range.

    Source: A. N. Angelopoulos, J. C. Duchi and T. Zrnic, PPI++, arXiv 2311.01453, section 6. Own
    code: ppi-python gives the same, but takes some 290 MB of dependencies.
    """
    check_confidence(confidence)
    y, f, rest = (_numbers(values) for values in (human, judge_labelled, judge_unlabelled))
    if len(y) != len(f):
        raise ValueError(f"human and judge must answer the same traces, not {len(y)} and {len(f)}")
    if tuning is not None:
        check_share("tuning", tuning)
    inputs: dict[str, Any] = {"n_labelled": len(y), "n_unlabelled": len(rest), "tuning": tuning}
    n = len(y) + len(rest)
    if not len(y) or not len(rest):
        reason = f"no {'unlabelled' if len(y) else 'labelled'} traces"
        return Estimate("prevalence", None, None, None, n, confidence, "ppi", reason, inputs)
    factor = _tuning(y, f, rest) if tuning is None else float(tuning)
    value = float(factor * rest.mean() + (y - factor * f).mean())
    variance = (y - factor * f).var() / len(y) + factor**2 * rest.var() / len(rest)
    se = math.sqrt(float(variance))
    inputs |= {"tuning": factor, "tuned": tuning is None, "se": se}
    if min(len(y), len(rest)) < 2 or se < 1e-12:
        reason = "too few traces, or nothing varies: the standard error cannot be estimated"
        return Estimate("prevalence", value, None, None, n, confidence, "ppi", reason, inputs)
    half = quantile(confidence) * se
    return Estimate(
        "prevalence", value, value - half, value + half, n, confidence, "ppi", None, inputs
    )


def beta_posterior(
    judged: float,
    flags: float,
    flagged: Cell,
    unflagged: Cell,
    judge_design_effect: float = 1.0,
    population: str = "process",
) -> tuple[float, float]:
    """Return mean and variance of the share's posterior, m and V of ``poststratify``."""
    share = flags / judged
    kept = [1.0, 1.0]
    if population == "corpus":
        sizes = ((flagged.n, flags), (unflagged.n, judged - flags))
        kept = [1 - labelled / size if size else 0.0 for labelled, size in sizes]
    mean = share * flagged.mean + (1 - share) * unflagged.mean
    variance = share**2 * flagged.variance * kept[0]
    variance += (1 - share) ** 2 * unflagged.variance * kept[1]
    if population == "process":
        difference = flagged.mean - unflagged.mean
        variance += judge_design_effect * share * (1 - share) * difference**2 / judged
    return mean, variance


def beta_limits(
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


def _check_numbers(
    n_judged: int, n_flagged: int, flagged: Cell, unflagged: Cell
) -> tuple[int, int]:
    """Return the checked numbers of judged and of flagged traces."""
    judged, flags = whole("n_judged", n_judged), whole("n_flagged", n_flagged)
    if not 0 <= flags <= judged:
        raise ValueError(f"n_flagged must be between 0 and n_judged, not {flags} of {judged}")
    for name, labelled, size in (
        ("flagged", flagged.n, flags),
        ("unflagged", unflagged.n, judged - flags),
    ):
        if labelled > size:
            raise ValueError(f"{labelled} {name} traces are labelled, but only {size} are judged")
    return judged, flags


def _cells_as_inputs(judged: int, flags: int, flagged: Cell, unflagged: Cell) -> dict[str, Any]:
    inputs: dict[str, Any] = {
        "W": flags / judged if judged else None,
        "n_judged": judged,
        "n_flagged": flags,
    }
    for mark, group in (("1", flagged), ("0", unflagged)):
        inputs |= {
            f"p{mark}": group.share,
            f"k{mark}": group.k,
            f"n{mark}": group.n_effective,
            f"n{mark}_raw": group.n,
        }
    return inputs


def _nothing_known(judged: int, flagged: Cell, unflagged: Cell) -> str | None:
    if not judged:
        return "no judged traces"
    if flagged.share is None and unflagged.share is None:
        return "no human labels"
    return None


def _empty_note(share: float, flagged: Cell, unflagged: Cell) -> str | None:
    """Return what to say of a cell that has traces, but no labels."""
    if share > 0 and flagged.share is None:
        return "none of the traces with the judge's flag has a human label"
    if share < 1 and unflagged.share is None:
        return "none of the traces without the judge's flag has a human label"
    return None


def _mixture(share: float, flagged: Cell, unflagged: Cell) -> float:
    """Return W p1 + (1 - W) p0; a cell without labels counts with 1/2."""
    p1, p0 = (0.5 if group.share is None else group.share for group in (flagged, unflagged))
    return min(1.0, share * p1 + (1 - share) * p0)


def _recall_draws(
    share: float, size: float, flagged: Cell, unflagged: Cell, narrower: float, seed: int
) -> NDArray[np.float64]:
    """Draw recall from the posteriors of the judge's share (of ``size`` traces) and of both cells;
    traces and labels count ``narrower`` times.
    """
    rng = np.random.default_rng(seed)
    cells = [(group.share or 0.0, group.n_effective) for group in (flagged, unflagged)]
    flags, yes, missed = (
        rng.beta(p * n * narrower + 0.5, (1 - p) * n * narrower + 0.5, _DRAWS)
        for p, n in [(share, size), *cells]
    )
    true_flags = flags * yes
    total = true_flags + (1 - flags) * missed
    recall = np.zeros(_DRAWS)
    # Both terms can underflow to 0 together; such a draw says nothing and is rare.
    np.divide(true_flags, total, out=recall, where=total > 0)
    return recall


def _make_undefined(
    measure: str, method: str, confidence: float, reason: str, inputs: Mapping[str, Any], n: int
) -> Estimate:
    return Estimate(measure, None, 0.0, 1.0, n, confidence, method, reason, inputs)


def _numbers(answers: Sequence[float]) -> NDArray[np.float64]:
    try:
        checked = np.asarray(answers, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"answers must be numbers, not {answers!r}") from None
    if not np.isfinite(checked).all():
        raise ValueError("an answer is missing or not finite")
    return checked


def _tuning(y: NDArray[np.float64], f: NDArray[np.float64], rest: NDArray[np.float64]) -> float:
    """Return PPI++'s tuning with the least variance, cut at 0 and 1."""
    spread = float(np.concatenate([f, rest]).var(ddof=1))
    if spread < 1e-12:
        return 0.0
    together = float(((y - y.mean()) * (f - f.mean())).mean())
    return min(1.0, max(0.0, together / ((1 + len(y) / len(rest)) * spread)))
