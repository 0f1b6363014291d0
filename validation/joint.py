"""Shares of exclusive codes, corrected together: they add up to one."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from validation.estimate import Estimate
from validation.influence import compute_cluster_variance
from validation.intervals import compute_widening
from validation.prevalence import compute_beta_limits
from validation.resampling import Floats

# Joint limits are not promised for a code that people found in fewer tasks.
FOUND_IN = 5


def estimate_joint_shares(
    judged: Mapping[str, Sequence[int]],
    judge: Sequence[str],
    human: Sequence[str],
    *,
    codes: Sequence[str] | None = None,
    weights: Sequence[float] | None = None,
    clusters: Sequence[int] | None = None,
    confidence: float = 0.95,
) -> dict[str, Estimate]:
    """Return the corrected share of every code where a trace has exactly one; they sum to one.

    For example, the judge gives "a" to 30 % of the traces, and people agree on 2 of 3 labelled
    ones. These traces add .30 x 2/3 to the share of "a", and .30 x 1/3 to the code that people gave
    instead. In general, W_j is the share of the judge's answer j, p_kj the share of code k among
    its n_j labels (Kish's number, if they have weights), and the share of k is sum_j W_j p_kj.

    The limits are those of a Beta distribution at confidence 1 - (1 - confidence) / K for K codes,
    with this mean and variance over N judged traces:

        mean      m_k = sum_j W_j q_kj
        variance  sum_j W_j^2 q_kj (1 - q_kj) / (n_j + a_j + 1) + (sum_j W_j q_kj^2 - m_k^2) / N
        q_kj      = (n_j p_kj + a_kj) / (n_j + a_j), where a_j = sum_k a_kj
        a_kj      the prior, in labels: 1/2 for the judge's own code, 1/2 divided like the shares,
                  and W_j / 2 for every code, which makes half a label of a code over all answers

    So the limits of a code without a label are about as wide as those of Jeffreys' prior. With
    clusters, the linearised variance over them replaces a smaller one, and Student's t widens it.

    If an answer has no labels, half of its traces count as the judge says, and the other half are
    divided like all labelled answers. An answer that is not a code is divided like these as a
    whole.

    Args:
        judged: for each answer of the judge the number of traces in each cluster, shape (G,), the
            same order for all answers. Without clusters G is 1.
        judge: the judge's answer to each labelled trace.
        human: the code that people gave it.
        codes: the codes that people can give; by default the judge's answers. The judge may have
            answers that are not codes, such as "undecided".
        weights: of the labels, above 0.
        clusters: the cluster of each labelled trace, as an index into the numbers of ``judged``.
        confidence: of all limits together; between 0 and 1, both excluded.

    Returns:
        By code, method "joint". ``inputs``: ``found_in`` (the clusters, or without clusters the
        traces, where people found the code), ``promised`` (found in at least 5: these limits hold
        all together in the simulations of ``bench.coverage``), ``confidence_each``,
        ``posterior_mean``, ``posterior_sd`` (widened by t / z), ``clusters``, ``df`` and
        ``unlabelled`` (the share of traces with answers without labels, which stretch the limits
        from none of them to all; ``note`` says so). Undefined without judged traces or labels. If
        all labels are of one cluster, the limits are 0 and 1.

    Source: A. Tenenbein, Technometrics 14 (1972) 187-202 (multinomial double sampling); for all
    codes by Bonferroni, as L. A. Goodman, Technometrics 7 (1965) 247-254.
    """
    answers, names = list(judged), list(judged if codes is None else codes)
    if unknown := (set(judge) - set(answers)) | (set(human) - set(names)):
        raise ValueError(f"the label {min(unknown)!r} is none of the codes")
    if not len(judge) == len(human) == len(weights if weights is not None else human):
        raise ValueError("judge, human and weights must be of the same traces")
    totals = np.array([judged[answer] for answer in answers], dtype=float)
    totals = totals.reshape(len(answers), -1)
    size = int(totals.sum())
    if not size or not len(human):
        why = "no human labels" if size else "no judged traces"
        nothing = {"found_in": 0, "promised": False, "unlabelled": 0.0, "note": None}
        empty = Estimate("prevalence", None, 0.0, 1.0, size, confidence, "joint", why, nothing)
        return dict.fromkeys(names, empty)
    rows = np.array([answers.index(answer) for answer in judge])
    columns = np.array([names.index(code) for code in human])
    w = np.ones(len(rows)) if weights is None else np.asarray(weights, dtype=float)
    labelled, squares = np.zeros((len(answers), len(names))), np.zeros(len(answers))
    np.add.at(labelled, (rows, columns), w)
    np.add.at(squares, rows, w**2)
    of_judge = totals.sum(axis=1) / size
    weight = labelled.sum(axis=1)
    has_labels = weight > 0
    kish = np.divide(weight**2, squares, out=np.zeros_like(weight), where=has_labels)
    p = np.divide(labelled, weight[:, None], out=np.zeros_like(labelled), where=has_labels[:, None])
    diagonal = np.array([[float(answer == code) for code in names] for answer in answers])
    p[~has_labels] = _make_prior(diagonal, _compute_mean_row(of_judge[has_labels], p[has_labels]))[
        ~has_labels
    ]
    shares = of_judge @ p
    prior = _make_prior(diagonal, shares) + of_judge[:, None] / 2
    total = kish[:, None] + prior.sum(axis=1, keepdims=True)
    q = (kish[:, None] * p + prior) / total
    centre = of_judge @ q
    variance = (of_judge**2) @ (q * (1 - q) / (total + 1))
    variance += (of_judge @ q**2 - centre**2) / size
    level = 1 - (1 - confidence) / len(names)
    df: int | None = None
    places: Sequence[int] = range(len(rows)) if clusters is None else clusters
    if clusters is not None:
        df = len(set(clusters)) - 1
        variance = np.maximum(
            variance,
            _compute_variances(totals, p, shares, rows, columns, w / weight[rows], clusters),
        )
    widened = compute_widening(level, df)
    found_in = Counter(code for code, _ in set(zip(human, places, strict=True)))
    reason = "all labels are of one task: how tasks differ is not known" if df == 0 else None
    # A code's part of the answers without labels is assumed; its limits reach from 0 to all of it.
    assumed, unlabelled = of_judge[~has_labels] @ p[~has_labels], float(of_judge[~has_labels].sum())
    blind = int(totals[~has_labels].sum())
    note = f"none of the {blind} traces with one of the judge's answers has a label"
    estimates = {}
    moments = zip(names, shares, centre, variance * widened**2, assumed, strict=True)
    for code, share, m, v, unlabelled_part in moments:
        low, high = 0.0, 1.0
        value = min(1.0, float(share))
        if not reason:
            low, high = compute_beta_limits(float(m), float(v), level, value)
            low = max(0.0, low - float(unlabelled_part))
            high = min(1.0, high + unlabelled - float(unlabelled_part))
        inputs = {
            "found_in": found_in[code],
            "promised": not reason and found_in[code] >= FOUND_IN,
            "confidence_each": level,
            "posterior_mean": float(m),
            "posterior_sd": math.sqrt(v),
            "clusters": None if df is None else totals.shape[1],
            "df": df,
            "unlabelled": unlabelled,
            "note": note if blind else None,
        }
        estimates[code] = Estimate(
            "prevalence", value, low, high, size, confidence, "joint", reason, inputs
        )
    return estimates


def _make_prior(diagonal: Floats, shares: Floats) -> Floats:
    """Return one label of each answer, divided among the codes; ``diagonal``: 1 for its code."""
    prior: Floats = diagonal / 2 + (1 - diagonal.sum(axis=1, keepdims=True) / 2) * shares
    return prior


def _compute_mean_row(weights: Floats, p: Floats) -> Floats:
    mean: Floats = weights @ p / weights.sum() if weights.sum() else p.mean(axis=0)
    return mean


def _compute_variances(
    totals: Floats,
    p: Floats,
    shares: Floats,
    rows: Floats,
    columns: Floats,
    parts: Floats,
    clusters: Sequence[int],
) -> Floats:
    """Return the variance of each share over clusters; ``parts``: of each label in its cell."""
    size = totals.sum()
    influences = (totals.T @ p - np.outer(totals.sum(axis=0), shares)) / size
    residuals = -p[rows]
    residuals[np.arange(len(rows)), columns] += 1
    of_judge = totals.sum(axis=1) / size
    np.add.at(influences, np.asarray(clusters), residuals * (of_judge[rows] * parts)[:, None])
    return np.array([compute_cluster_variance(influence) for influence in influences.T])
