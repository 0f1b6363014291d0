"""How merges went and how many runs passed, by setting and model.

Definitions: CooperBench (arXiv 2601.13295), section 4 and appendix H (merge success).
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from annotator.reports.frequency import UNKNOWN
from annotator.reports.stats.model import Merge, MergeSuccess, Success
from annotator.reports.stats.tally import Key, Tally
from annotator.traces import Trace
from validation import mover

SOLO, COOP = "solo", "coop"
_ALL = ""  # beside the names of models, none of which is empty
_WITHOUT_CONFLICT = ("clean", "identical")


def setting_of(trace: Trace) -> str:
    """Return a run's setting; where it tells none, coop if it has several agents, else solo."""
    named = trace.attributes.get("setting")
    if named is None or named == "":
        return COOP if len(trace.agents) > 1 else SOLO
    return str(named)


def model_of(trace: Trace) -> str:
    """Return the name of a run's model, "-" if it tells none."""
    return str(trace.attributes.get("model") or UNKNOWN)


def counts_of(trace: Trace) -> Counter[Key]:
    """Return what one run adds to the totals."""
    setting, outcome = setting_of(trace), trace.outcome
    counts: Counter[Key] = Counter({("setting", setting): 1})
    if outcome.passed is None:
        counts["unknown",] = 1
    elif setting in (SOLO, COOP):
        for model in (_ALL, model_of(trace)):
            counts["success", model, setting, "n"] = 1
            counts["success", model, setting, "k"] = int(outcome.passed)
    if outcome.merge:
        counts["merged", setting] = 1
        counts.update(_merge_counts(setting, outcome.merge, outcome.strategy or UNKNOWN))
        if outcome.passed is not None:
            counts.update(_passed_counts(trace, setting, outcome.merge, outcome.strategy))
    return counts


def _merge_counts(setting: str, merge: str, strategy: str) -> dict[Key, int]:
    return {("merge", setting, merge, strategy): 1}


def _passed_counts(trace: Trace, setting: str, merge: str, strategy: str | None) -> dict[Key, int]:
    """Count a merged run with a known outcome, and each way in which it passed."""
    passed = bool(trace.outcome.passed)
    naive = passed and merge in _WITHOUT_CONFLICT
    union = naive or (passed and strategy == "union")
    return {
        ("merge n", setting, merge, strategy or UNKNOWN): 1,
        ("merge k", setting, merge, strategy or UNKNOWN): int(passed),
        ("after", setting, "n"): 1,
        ("after", setting, "naive"): int(naive),
        ("after", setting, "union"): int(union),
        ("after", setting, "final"): int(passed),
    }


def settings(tally: Tally) -> tuple[tuple[str, int], ...]:
    """Return the settings with their numbers of runs, the largest first."""
    found = [(key[1], tally.total(key)) for key in tally.keys("setting")]
    return tuple(sorted(found, key=lambda one: (-one[1], one[0])))


def merges(tally: Tally) -> Iterator[Merge]:
    """Yield the outcomes of merges, by setting and the largest first."""
    keys = sorted(tally.keys("merge"), key=lambda key: (key[1], -tally.total(key), key))
    for key in keys:
        _, setting, merge, strategy = key
        passed = tally.share(("merge k", *key[1:]), ("merge n", *key[1:]))
        yield Merge(setting, merge, strategy, tally.share(key, ("merged", setting)), passed)


def merge_success(tally: Tally) -> Iterator[MergeSuccess]:
    """Yield, by setting, how many merged runs passed after each step of merging.

    Union merges count only where the harness made one: without any the share is undefined.
    """
    for key in tally.keys("merged"):
        setting = key[1]
        naive, union, final = (
            tally.share(("after", setting, step), ("after", setting, "n"))
            for step in ("naive", "union", "final")
        )
        if not any(one[1] == setting and one[3] == "union" for one in tally.keys("merge")):
            union = replace(
                union, value=None, low=None, high=None, method="none", reason="no union merges"
            )
        yield MergeSuccess(setting, naive, union, final)


def success(tally: Tally) -> Iterator[Success]:
    """Yield how many runs passed, solo and coop: all models, then each where there are several.

    The interval of the gap is Newcombe's, made of the two intervals as if the sides were
    independent; on the same tasks that is careful.
    """
    models = list(dict.fromkeys(key[1] for key in tally.keys("success")))
    for model in [_ALL] if len(models) <= 2 else models:
        solo, coop = (
            tally.share(("success", model, setting, "k"), ("success", model, setting, "n"))
            for setting in (SOLO, COOP)
        )
        yield Success(model or None, solo, coop, mover(solo, coop))
