"""How often the edits of two agents overlap, in runs with and without messages."""

from collections import Counter

from annotator.facts.registry import draw_facts
from annotator.reports.stats.model import Overlap, Overlaps
from annotator.reports.stats.tally import Key, Tally, unless_few
from annotator.traces import Trace
from annotator.traces.model import NOTHING
from validation import Estimate, mover

_SIDES = ("with messages", "without")


def counts_of(trace: Trace) -> Counter[Key]:
    """Return what one run adds; nothing if fewer than two patches are known or one is empty."""
    if len(trace.patches) < 2 or trace.merge_state == NOTHING:
        return Counter()
    side = _SIDES[0] if trace.spoken else _SIDES[1]
    overlaps = draw_facts(trace).of("hunks_overlap")
    return Counter(
        {
            ("overlap", side, "n"): 1,
            ("overlap", side, "any"): int(bool(overlaps)),
            ("overlap", side, "differ"): int(any(not fact.about["same"] for fact in overlaps)),
        }
    )


def overlaps(tally: Tally) -> Overlaps:
    """Return the shares of runs with overlapping edits; differences are Newcombe's."""
    rows = [
        Overlap(
            side,
            tally.share(("overlap", side, "any"), ("overlap", side, "n")),
            tally.share(("overlap", side, "differ"), ("overlap", side, "n")),
        )
        for side in _SIDES
    ]
    talked, silent = rows
    return Overlaps(
        (talked, silent),
        _difference(talked.overlapping, silent.overlapping),
        _difference(talked.differing, silent.differing),
    )


def _difference(talked: Estimate, silent: Estimate) -> Estimate:
    gap = mover(talked, silent)
    if gap.value is None:
        return gap
    sides = zip(_SIDES, (talked, silent), strict=True)
    return unless_few(gap, {side: (share.n, share.inputs["clusters"]) for side, share in sides})
