"""Agreement of two raters who give every item a set of codes, with or without a primary one."""

from collections.abc import Collection, Hashable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from validation.agreement import agreement_of
from validation.clusters import clustered_share
from validation.distances import jaccard_distance, masi_distance
from validation.estimate import Estimate
from validation.reliability import alpha_of_sets
from validation.resampling import cluster_mean

Answer = tuple[str | None, Collection[str]]
"""A primary code (None: no code) and the secondary ones."""


@dataclass(frozen=True, slots=True)
class SetAgreement:
    """Agreement of two raters on sets of codes; see ``set_agreement``."""

    mean_jaccard: Estimate
    exact: Estimate
    mean_masi_similarity: Estimate
    alpha_masi: Estimate

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as JSON-serialisable values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class PrimaryAgreement:
    """What "the judge agrees" can mean with primary and secondary codes; see the function."""

    primary_exact: Estimate
    primary_kappa: Estimate
    judge_primary_in_human_set: Estimate
    set_exact: Estimate
    mean_jaccard: Estimate
    mean_masi_similarity: Estimate

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as JSON-serialisable values."""
        return asdict(self)


def set_agreement(
    first_sets: Sequence[Collection[str]],
    second_sets: Sequence[Collection[str]],
    *,
    weights: Sequence[float] | None = None,
    clusters: Sequence[Hashable] | None = None,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> SetAgreement:
    """Return how alike the sets of codes are that two raters gave the same items.

    The empty set ("no code") is an answer like any other: two of them are alike. The share of
    exact matches has Wilson's interval for the effective number of items, the other results the
    percentile interval of resampled clusters.

    Args:
        first_sets: one set of codes per item.
        second_sets: the other rater's, in the same order.
        weights: positive sampling weights; default: all the same.
        clusters: what items must be drawn together, their tasks; default: every item alone.
        confidence: between 0 and 1, both excluded.
        resamples: at least 1.
        seed: the same seed gives the same limits.

    Returns:
        Means of the Jaccard and MASI similarity (1 - distance), the share of exact matches, and
        Krippendorff's alpha with the MASI distance, which is undefined if all sets are the same.
        Without items all are undefined.

    Raises:
        ValueError: lengths differ, an entry is no collection of strings, or another argument is
            out of its range.
    """
    first, second = code_sets(first_sets), code_sets(second_sets)
    _check_lengths(first, second)
    settings: dict[str, Any] = {"confidence": confidence, "resamples": resamples, "seed": seed}
    sample: dict[str, Any] = {"weights": weights, "clusters": clusters}
    pairs = list(zip(first, second, strict=True))
    jaccard = [1 - jaccard_distance(first, second) for first, second in pairs]
    masi = [1 - masi_distance(first, second) for first, second in pairs]
    return SetAgreement(
        mean_jaccard=cluster_mean("mean_jaccard_similarity", jaccard, **sample, **settings),
        exact=_share("exact_match", [a == b for a, b in pairs], confidence, **sample),
        mean_masi_similarity=cluster_mean("mean_masi_similarity", masi, **sample, **settings),
        alpha_masi=alpha_of_sets(first, second, **sample, **settings),
    )


def primary_agreement(
    human: Sequence[Answer],
    judge: Sequence[Answer],
    *,
    weights: Sequence[float] | None = None,
    clusters: Sequence[Hashable] | None = None,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> PrimaryAgreement:
    """Return the agreement of answers that are a primary code and secondary ones.

    An answer's set is its primary code with its secondary ones. No primary code (None) is a code
    of its own, called "none" in the table of kappa. The judge's primary code counts as being in
    the human's set also if the judge gave none and that set is empty.

    Args:
        human: (primary or None, secondary codes) per item.
        judge: the same of the judge, in the same order.
        weights: positive sampling weights; default: all the same.
        clusters: what items must be drawn together, their tasks; default: every item alone.
        confidence: between 0 and 1, both excluded.
        resamples: at least 1.
        seed: the same seed gives the same limits.

    Raises:
        ValueError: lengths differ, an answer is no such pair, answers hold both None and "none"
            as a primary code, or another argument is out of its range.
    """
    _check_lengths(human, judge)
    primaries = [[_answer(answer)[0] for answer in side] for side in (human, judge)]
    sets = [[_answer(answer)[1] for answer in side] for side in (human, judge)]
    if {None, "none"} <= {primary for side in primaries for primary in side}:
        raise ValueError('a primary code is None in one answer and "none" in another: which is it?')
    named = [["none" if primary is None else primary for primary in side] for side in primaries]
    sample: dict[str, Any] = {"weights": weights, "clusters": clusters}
    primary = agreement_of(*named, confidence=confidence, **sample)
    within = [
        code in codes if code is not None else not codes
        for code, codes in zip(primaries[1], sets[0], strict=True)
    ]
    alike = set_agreement(*sets, **sample, confidence=confidence, resamples=resamples, seed=seed)
    return PrimaryAgreement(
        primary_exact=replace(primary.observed, measure="primary_exact"),
        primary_kappa=primary.kappa,
        judge_primary_in_human_set=_share(
            "judge_primary_in_human_set", within, confidence, **sample
        ),
        set_exact=replace(alike.exact, measure="set_exact"),
        mean_jaccard=alike.mean_jaccard,
        mean_masi_similarity=alike.mean_masi_similarity,
    )


def code_sets(sets: Sequence[Collection[str]]) -> list[frozenset[str]]:
    """Return collections of codes as sets.

    Raises:
        ValueError: one is no collection, is a string, or holds something else than strings.
    """
    for item, codes in enumerate(sets):
        is_set = isinstance(codes, Collection) and not isinstance(codes, str | bytes)
        if not (is_set and all(isinstance(code, str) for code in codes)):
            raise ValueError(f"item {item}: codes must be a set of strings, not {codes!r}")
    return [frozenset(codes) for codes in sets]


def _answer(answer: Answer) -> tuple[str | None, frozenset[str]]:
    """Return an answer's primary code and all of its codes."""
    if not (isinstance(answer, tuple | list) and len(answer) == 2):
        raise ValueError(f"an answer must be (primary, secondary codes), not {answer!r}")
    primary, secondary = answer
    if primary is not None and not isinstance(primary, str):
        raise ValueError(f"a primary code must be a string or None, not {primary!r}")
    (others,) = code_sets([secondary])
    return primary, others if primary is None else others | {primary}


def _share(
    measure: str,
    values: Sequence[bool],
    confidence: float,
    weights: Sequence[float] | None,
    clusters: Sequence[Hashable] | None,
) -> Estimate:
    share = clustered_share(values, clusters, weights, confidence, least_design_effect=1.0)
    return replace(share, measure=measure)


def _check_lengths(first: Sequence[Any], second: Sequence[Any]) -> None:
    if len(first) != len(second):
        raise ValueError(
            f"both raters must label the same items, not {len(first)} and {len(second)} of them"
        )
