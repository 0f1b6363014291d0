"""Success by difficulty, solo and in cooperation: curves, their areas, and what is retained.

Definitions: CooperBench (arXiv 2601.13295), appendices "Task difficulty definition" and
"Difficulty-stratified evaluation". A pair is a task together with the
features that were to be built. Its difficulty d is 1 - the mean over models of the share of their
solo runs that passed, rescaled so that the easiest pair has 0 and the hardest 1. Ten buckets of
equal width; a rate is all passed runs of a bucket over all its runs; the area is taken by the
trapezoidal rule over the midpoints of buckets that are not empty. Only a model's pairs with both
settings count, so that both curves rest on the same pairs. Pooled curves sum the models' counts.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from annotator.cooperbench.stats.communication import list_openings
from annotator.cooperbench.stats.model import Bucket, ConflictBucket, Curve, Difficulty
from annotator.cooperbench.stats.outcomes import COOP, SOLO
from annotator.cooperbench.stats.pairs import Counts, RunPair, Runs
from validation import Estimate, Interval, estimate_share_of_totals
from validation.resampling import Floats, Resamples

BUCKETS = 10
_COLUMNS = ((SOLO, "k"), (SOLO, "n"), (COOP, "k"), (COOP, "n"))
_SOLO_K, _SOLO_N, _COOP_K, _COOP_N = range(4)
_MIDPOINTS = [(2 * bucket + 1) / (2 * BUCKETS) for bucket in range(BUCKETS)]
_NO_PAIRS = "no task has both solo and coop runs with a known outcome"
_NO_SOLO = "no task has solo runs with a known outcome, so no difficulty"
_NOTHING_SOLO = "nothing was solved solo, so nothing can be kept"
_ONE_LEVEL = "all tasks are equally difficult: there is no range to rescale"


def compute_difficulties(runs: Runs) -> dict[Hashable, Fraction]:
    """Return the raw difficulty of every pair that has solo runs, exactly."""
    shares: dict[Hashable, list[Fraction]] = {}
    for pairs in runs.of.values():
        solo: dict[Hashable, Counter[str]] = {}
        for pair, counts in pairs.items():
            passed = solo.setdefault(pair.name, Counter())
            passed["k"] += counts[SOLO, "k"]
            passed["n"] += counts[SOLO, "n"]
        for name, passed in solo.items():
            if passed["n"]:
                shares.setdefault(name, []).append(Fraction(passed["k"], passed["n"]))
    return {name: 1 - sum(rates, Fraction()) / len(rates) for name, rates in shares.items()}


def find_bucket(raw: Fraction, lowest: Fraction, highest: Fraction) -> int:
    """Return the bucket, 0 to 9, of a raw difficulty; the hardest is in the last."""
    return min(BUCKETS - 1, int(BUCKETS * (raw - lowest) / (highest - lowest)))


def compute_difficulty(runs: Runs) -> Difficulty:
    """Return the curves of all models together and of each, by name."""
    raw = compute_difficulties(runs)
    lowest, highest = min(raw.values(), default=None), max(raw.values(), default=None)
    bucket_of = _assign_buckets(raw)
    complete = {model: _select_complete(pairs) for model, pairs in runs.of.items()}
    models = [_find_settings(pairs) for pairs in runs.of.values()]
    settings = [names for pairs in models for names in pairs.values()]
    with_solo = [pairs for pairs in models if any(SOLO in names for names in pairs.values())]
    curves = [_make_curve(model, [complete[model]], bucket_of) for model in sorted(complete)]
    return Difficulty(
        pairs=len(raw),
        solo_only=settings.count({SOLO}),
        coop_only=settings.count({COOP}),
        unplaced=runs.unplaced,
        models=len(with_solo),
        partial=sum(any(SOLO not in pairs.get(name, ()) for pairs in with_solo) for name in raw),
        unequal=_differ_in_runs(complete.values()),
        lowest=None if lowest is None else float(lowest),
        highest=None if highest is None else float(highest),
        pooled=_make_curve(None, complete.values(), bucket_of),
        by_model=tuple(curves),
        conflicts=tuple(_count_conflicts(runs, bucket_of)),
        no_conflicts=_NO_SOLO if not raw else None if bucket_of else _ONE_LEVEL,
    )


def _assign_buckets(raw: Mapping[Hashable, Fraction]) -> dict[Hashable, int]:
    """Return the bucket of each pair; nothing if all pairs are equally difficult."""
    lowest, highest = min(raw.values(), default=None), max(raw.values(), default=None)
    if lowest is None or highest is None or lowest == highest:
        return {}
    return {name: find_bucket(value, lowest, highest) for name, value in raw.items()}


def compute_retentions(groups: Iterable[Runs], runs: Runs) -> Iterator[Estimate]:
    """Yield what each group of ``runs`` retains. All of them say how difficult a pair is."""
    bucket_of = _assign_buckets(compute_difficulties(runs))
    for group in groups:
        yield _make_curve(None, map(_select_complete, group.of.values()), bucket_of).retention


def _count_conflicts(runs: Runs, bucket_of: Mapping[Hashable, int]) -> Iterator[ConflictBucket]:
    """Yield the conflict rates of the buckets, by the first message, over tasks."""
    totals: dict[int, dict[Hashable, Counts]] = {}
    members: dict[int, set[Hashable]] = {}
    openings = list_openings(runs.channel)
    for pairs in runs.of.values():
        for pair, counts in pairs.items():
            if pair.name in bucket_of and any(counts[name, "n"] for name in openings):
                bucket = bucket_of[pair.name]
                in_bucket = totals.setdefault(bucket, {})
                in_bucket.setdefault(pair.cluster, Counter()).update(counts)
                members.setdefault(bucket, set()).add(pair.name)
    for bucket, by_cluster in sorted(totals.items()):
        rows = by_cluster.values()
        shares = [
            estimate_share_of_totals(
                [row[name, "k"] for row in rows], [row[name, "n"] for row in rows]
            )
            for name in openings
        ]
        low, high = bucket / BUCKETS, (bucket + 1) / BUCKETS
        by_opening = tuple(zip(openings, shares, strict=True))
        yield ConflictBucket(low, high, len(members[bucket]), by_opening)


_Pairs = Mapping[RunPair, Counts]


def _find_settings(pairs: _Pairs) -> dict[Hashable, set[str]]:
    settings: dict[Hashable, set[str]] = {}
    for pair, counts in pairs.items():
        names = {setting for setting in (SOLO, COOP) if counts[setting, "n"]}
        settings.setdefault(pair.name, set()).update(names)
    return settings


def _select_complete(pairs: _Pairs) -> _Pairs:
    """Return the pairs of a model that have runs of both settings."""
    settings = _find_settings(pairs)
    return {pair: counts for pair, counts in pairs.items() if len(settings[pair.name]) == 2}


def _differ_in_runs(models: Iterable[_Pairs]) -> bool:
    cells = [counts for pairs in models for counts in pairs.values()]
    return any(len({counts[setting, "n"] for counts in cells}) > 1 for setting in (SOLO, COOP))


def _make_curve(
    model: str | None, models: Iterable[_Pairs], bucket_of: Mapping[Hashable, int]
) -> Curve:
    """Return the curve of counts summed over models."""
    clusters: dict[Hashable, Floats] = {}
    totals: dict[Hashable, Floats] = {}
    members: list[set[Hashable]] = [set() for _ in range(BUCKETS)]
    names: set[Hashable] = set()
    for pairs in models:
        for pair, counts in pairs.items():
            row = np.array([counts[column] for column in _COLUMNS], dtype=np.float64)
            names.add(pair.name)
            totals[pair.cluster] = totals.get(pair.cluster, 0.0) + row
            if pair.name in bucket_of:
                bucket = bucket_of[pair.name]
                members[bucket].add(pair.name)
                empty = np.zeros((BUCKETS, len(_COLUMNS)))
                clusters.setdefault(pair.cluster, empty)[bucket] += row
    table = np.array(list(clusters.values())).reshape(len(clusters), BUCKETS * len(_COLUMNS))
    why = _NO_PAIRS if not names else _ONE_LEVEL
    areas = _estimate_areas(table, len(names), why if not clusters else None)
    by_bucket = table.reshape(len(clusters), BUCKETS, len(_COLUMNS))
    buckets = [
        Bucket(
            bucket / BUCKETS,
            (bucket + 1) / BUCKETS,
            len(members[bucket]),
            *_compute_shares(by_bucket[:, bucket]),
        )
        for bucket in range(BUCKETS)
        if members[bucket]
    ]
    sides = _compute_shares(np.array(list(totals.values())).reshape(len(totals), len(_COLUMNS)))
    return Curve(model, len(names), *sides, tuple(buckets), *areas)


def _compute_shares(rows: Floats) -> tuple[Interval, Interval]:
    return (
        estimate_share_of_totals(rows[:, _SOLO_K].tolist(), rows[:, _SOLO_N].tolist()),
        estimate_share_of_totals(rows[:, _COOP_K].tolist(), rows[:, _COOP_N].tolist()),
    )


def _estimate_areas(
    table: Floats, pairs: int, why: str | None
) -> tuple[Estimate, Estimate, Estimate, Estimate]:
    """Return both areas, their difference and their ratio; ``why`` says why there is no curve."""
    resamples = Resamples.draw(table, resamples=10_000, seed=0)
    totals = resamples.observed.reshape(BUCKETS, len(_COLUMNS))
    buckets = int((totals[:, _SOLO_N] > 0).sum())
    inputs = {"rule": "trapezoid over the given points only", "buckets": buckets}
    if buckets < 2:
        why = why or "fewer than two points"
    nothing = "undefined" if totals[:, _SOLO_K].any() else _NOTHING_SOLO

    def estimate(
        name: str, value: Callable[[Floats, Floats], Floats], reason: str | None
    ) -> Estimate:
        def of_totals(totals: Floats) -> Floats:
            return value(*compute_areas(totals))

        return resamples.estimate(name, of_totals, pairs, inputs, reason or "undefined")

    return (
        estimate("auc_solo", lambda solo, _: solo, why),
        estimate("auc_coop", lambda _, coop: coop, why),
        estimate("gap", lambda solo, coop: solo - coop, why),
        estimate("retention", lambda solo, coop: coop / solo, why or nothing),
    )


def compute_areas(totals: Floats) -> tuple[Floats, Floats]:
    """Return the areas under the solo and the coop curve, one each per row of totals.

    By trapezoids over the midpoints of the buckets that have runs of both settings: nothing is
    added before the first or after the last one. NaN where fewer than two have.
    """
    cube = totals.reshape(len(totals), BUCKETS, len(_COLUMNS))
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = cube[:, :, [_SOLO_K, _COOP_K]] / cube[:, :, [_SOLO_N, _COOP_N]]
    defined: NDArray[np.bool_] = np.asarray(np.isfinite(rates).all(axis=2))
    area = np.zeros((len(totals), 2))
    last_x = np.full(len(totals), np.nan)
    last_y = np.full((len(totals), 2), np.nan)
    for bucket, x in enumerate(_MIDPOINTS):
        more = (x - last_x)[:, None] * (rates[:, bucket] + last_y) / 2
        at = defined[:, bucket]
        area[at] += np.nan_to_num(more[at])  # nothing before the first point
        last_x[at], last_y[at] = x, rates[at, bucket]
    area[defined.sum(axis=1) < 2] = np.nan
    return area[:, 0], area[:, 1]
