"""Merges and success, by setting and model.

Definitions: CooperBench (arXiv 2601.13295), section 4 and appendices "Scaling beyond
two agents" and "Communication ablation" (merge success).
"""

from collections import Counter
from collections.abc import Iterator

from annotator.cooperbench.stats.model import Merge, MergeSuccess, Sizes, Success
from annotator.cooperbench.stats.tally import (
    NO_UNION,
    Key,
    Tally,
    make_uncounted_share,
    make_undefined,
)
from annotator.traces import Trace
from annotator.traces.model import CLEAN, NOTHING, UNKNOWN
from validation import subtract_estimates

SOLO, COOP = "solo", "coop"
_ALL = ""  # beside the names of models, none of which is empty


def get_setting(trace: Trace) -> str:
    """Return a run's setting; without one, coop for several agents, else solo."""
    setting = trace.attributes.get("setting")
    if setting is None or setting == "":
        return COOP if len(trace.agents) > 1 else SOLO
    return str(setting)


def get_model(trace: Trace) -> str:
    """Return the name of a run's model, or "-"."""
    return str(trace.attributes.get("model") or "-")


def count_trace(trace: Trace) -> Counter[Key]:
    """Return what one run adds to the totals."""
    setting, outcome = get_setting(trace), trace.outcome
    counts: Counter[Key] = Counter({("setting", setting): 1})
    if outcome.passed is None:
        counts["unknown",] = 1
    elif setting in (SOLO, COOP):
        for model in (_ALL, get_model(trace)):
            counts["success", model, setting, "n"] = 1
            counts["success", model, setting, "k"] = int(outcome.passed)
        if trace.agents and (setting == COOP or len(trace.agents) == 1):
            size = str(len(trace.agents))
            counts["agents", size, "n"] = 1
            counts["agents", size, "k"] = int(outcome.passed)
    if setting != SOLO and trace.merge_state == NOTHING:
        counts[NOTHING, setting] = 1
    elif outcome.merge:
        counts["merged", setting] = 1
        merge = setting, outcome.merge, outcome.strategy or "-"
        counts["merge", *merge] = 1
        counts.update(_count_passed(trace, merge))
    return counts


def list_merge_steps(trace: Trace) -> tuple[bool, bool, bool] | None:
    """Return whether a run passed after a naive merge, after a union merge, and in the end; None
    if its merge or outcome is unknown or there was nothing to merge.
    """
    outcome = trace.outcome
    if outcome.passed is None or trace.merge_state in (NOTHING, UNKNOWN):
        return None
    naive = outcome.passed and trace.merge_state == CLEAN
    return naive, naive or (outcome.passed and outcome.strategy == "union"), outcome.passed


def _count_passed(trace: Trace, merge: tuple[str, str, str]) -> dict[Key, int]:
    steps = list_merge_steps(trace)
    if steps is None:
        return {}
    naive, union, final = map(int, steps)
    setting = merge[0]
    return {
        ("merge n", *merge): 1,
        ("merge k", *merge): final,
        ("after", setting, "n"): 1,
        ("after", setting, "naive"): naive,
        ("after", setting, "union"): union,
        ("after", setting, "final"): final,
        ("after", setting, "union gain"): union - naive,
        ("after", setting, "final gain"): final - union,
    }


def list_settings(tally: Tally) -> tuple[tuple[str, int], ...]:
    """Return the settings with their numbers of runs, the largest first."""
    counts = [(key[1], tally.total(key)) for key in tally.keys("setting")]
    return tuple(sorted(counts, key=lambda item: (-item[1], item[0])))


def list_merges(tally: Tally) -> Iterator[Merge]:
    """Yield the outcomes of merges, by setting and the largest first, then the runs with nothing to
    merge, which have no share.
    """
    keys = sorted(tally.keys("merge"), key=lambda key: (key[1], -tally.total(key), key))
    for key in keys:
        _, setting, merge, strategy = key
        passed = tally.share(("merge k", *key[1:]), ("merge n", *key[1:]))
        yield Merge(setting, merge, strategy, tally.share(key, ("merged", setting)), passed)
    for key in tally.keys(NOTHING):
        runs = tally.total(key)
        yield Merge(
            key[1], NOTHING, "-", make_uncounted_share(runs), make_uncounted_share(runs, n=runs)
        )


def compute_merge_success(tally: Tally) -> Iterator[MergeSuccess]:
    """Yield, by setting, how many merged runs passed after each step, and what each adds."""
    for key in tally.keys("merged"):
        setting = key[1]
        naive, union, final, union_gain, final_gain = (
            tally.share(("after", setting, step), ("after", setting, "n"))
            for step in ("naive", "union", "final", "union gain", "final gain")
        )
        if not any(key[1] == setting and key[3] == "union" for key in tally.keys("merge")):
            union, union_gain = (make_undefined(share, NO_UNION) for share in (union, union_gain))
        yield MergeSuccess(setting, naive, union, final, union_gain, final_gain)


def compute_sizes(tally: Tally) -> Sizes:
    """Return how many runs passed by the number of agents."""
    counts = sorted({int(key[1]) for key in tally.keys("agents")})
    shares = {
        size: tally.share(("agents", str(size), "k"), ("agents", str(size), "n")) for size in counts
    }
    several = [size for size in counts if size > 1]
    empty = tally.share(("agents", "none"), ("agents", "none"))
    gap = subtract_estimates(
        *((shares[several[0]], shares[several[-1]]) if several else (empty, empty))
    )
    if len(several) < 2:
        why = f"all runs of several agents have {several[0]}" if several else "no such runs"
        gap = make_undefined(gap, why)
    return Sizes(tuple(shares.items()), gap)


def compute_success(tally: Tally) -> Iterator[Success]:
    """Yield how many runs passed, solo and coop: all models, then each where there are several."""
    models = list(dict.fromkeys(key[1] for key in tally.keys("success")))
    for model in [_ALL] if len(models) <= 2 else models:
        solo, coop = (
            tally.share(("success", model, setting, "k"), ("success", model, setting, "n"))
            for setting in (SOLO, COOP)
        )
        yield Success(model or None, solo, coop, subtract_estimates(solo, coop))
