"""What stands below a frequency table: what its numbers rest on, and what they leave out."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from annotator.base.text import floor_percent, format_count
from annotator.reports.counts import LOST, OTHER, PART, REJECTED, TIE, TraceCounts
from annotator.runs.run import Run
from validation import Interval

if TYPE_CHECKING:
    from annotator.calibration.correct import Correction

_NOT_MEASURED = "; sampling error only: the judge's errors are not measured (no calibration)"
_SEEN_IN = 5  # tasks; the interval of a code that is seen in fewer is optimistic


def describe_caveats(
    run: Run,
    counts: TraceCounts,
    shares: Mapping[str, Interval],
    correction: "Correction | None",
) -> Iterator[str]:
    """Yield what a reader of a frequency table must know, a sentence each. ``shares``: those that
    the table has, by code.
    """
    if run.judge == "rules":
        yield "Judge: rules, a deterministic baseline without a language model."
    yield from describe_shares(counts)
    if correction:
        yield from correction.notes
    whose, errors = (" of the judge's own shares", "") if correction else ("", _NOT_MEASURED)
    yield from describe_intervals(counts, shares, whose, errors)
    yield from describe_traces(counts)
    yield from _describe_undecided(counts)
    yield from _describe_votes(counts)
    yield from _describe_reading(counts)
    yield from run.manifest.limitations


def describe_shares(counts: TraceCounts) -> Iterator[str]:
    """Yield which codes have no share, and what shares are of."""
    scheme = counts.rubric
    unknown = [code.id for code in scheme.codes if not code.judged]
    if unknown:
        yield f"The judge has no rule for {', '.join(unknown)}: not 0, but not known."
    if screens := [code.id for code in scheme.codes if code.screen]:
        yield (
            f"{', '.join(screens)}: a screen; what is found counts, what is not found is not known,"
            " so there is no share, only the bounds."
        )
    if counts.selection:
        yield (
            "No percentages of the judge alone: it reports the failures that it recognises, and the"
            " runs that it left open are not a random sample. With labels of some of these every"
            " code gets a share: annotate sample, then annotate calibrate."
        )
    if counts.of_labelled:
        yield (
            f"Shares of the {counts.n} labelled traces alone, as in the paper's tables: none is in"
            " no share."
        )
    if counts.open:
        which = "labelled" if counts.of_labelled else "judged"
        yield (
            f"Bounds: the lowest and the highest possible share of the {which}, undecided and"
            f" failed traces, depending on the {counts.status['undecided']} undecided and"
            f" {counts.status['failed']} failed ones."
        )


def describe_intervals(
    counts: TraceCounts, shares: Mapping[str, Interval], whose: str, errors: str
) -> Iterator[str]:
    """Yield what the intervals allow for, ``whose`` they are, and the ``errors`` they leave out."""
    if not shares or not counts.n:
        return
    tasks, by = len(counts.clusters), "+".join(counts.cluster_by)
    if not counts.clusters.named:
        why = f"no trace tells its {by}" if by else "--cluster none"
        yield f"Intervals{whose}: Wilson 95 %, for independent traces ({why}){errors}."
        return
    if tasks == 1:
        yield (
            f"No intervals{whose}: all traces are of one task ({by}), and how tasks differ is not"
            f" known{errors}."
        )
        return
    effects = [share.design_effect or 1.0 for share in shares.values()]
    yield (
        f"Intervals{whose}: Wilson 95 % for the effective number of traces of {tasks} tasks ({by};"
        f" Student's t on {tasks - 1}, design effects {min(effects):.1f} to {max(effects):.1f})"
        f"{errors}."
    )
    few = [
        f"{code} ({share.clusters_with})"
        for code, share in shares.items()
        if 0 < (share.clusters_with or 0) < min(_SEEN_IN, tasks)
    ]
    if few:
        yield (
            f"Found in fewer than {_SEEN_IN} tasks, so that the interval is optimistic:"
            f" {', '.join(few)}."
        )


def describe_traces(counts: TraceCounts) -> Iterator[str]:
    """Yield what is odd about the counted traces and their findings."""
    scheme = counts.rubric
    if scheme.choice == "many":
        yield "Shares do not add up to 100 %: a trace can have several codes."
    if counts.unproven > counts.findings:
        made = counts.unproven + counts.findings
        yield (
            f"Most findings were rejected, {counts.unproven} of {made}, because their evidence does"
            " not stand in the traces: what is left says little of what the judge found."
        )
    if counts.emptied:
        yield (
            f"{counts.emptied} of the traces counted as none had findings, all rejected because"
            " their quotes do not stand in the trace."
        )
    if counts.contradictory:
        yield (
            f"In {format_count(counts.contradictory, 'trace')} the judge's reasoning"
            " contradicts its"
            " finding. The finding is counted."
        )
    if scheme.applies_to.passed is not None and counts.outcome_unknown:
        which = "passed" if scheme.applies_to.passed else "failed"
        yield (
            f"{counts.outcome_unknown} counted traces do not tell whether the run passed; the"
            f" rubric is for {which} runs."
        )


def _describe_undecided(counts: TraceCounts) -> Iterator[str]:
    """Tell the reasons apart, unless there is only the judge's own word."""
    words = {
        TIE: "had no code with enough votes (tie)",
        PART: "was read in part",
        REJECTED: "had findings that were all rejected",
        LOST: "had too few votes that count",
        OTHER: "was left undecided by the judge",
    }
    if counts.reasons.keys() <= {OTHER}:
        return
    for reason, what in words.items():
        if n := counts.reasons[reason]:
            what = what if n == 1 else what.replace("was ", "were ", 1)
            yield f"{format_count(n, 'undecided trace')} {what}."


def _describe_reading(counts: TraceCounts) -> Iterator[str]:
    if not counts.truncated:
        return
    many = counts.truncated > 1
    share = floor_percent(counts.least_read)
    least = (
        (f", of one only {share}" if many else f", {share} of it") if counts.least_read < 1 else ""
    )
    yield (
        f"{format_count(counts.truncated, 'trace')} {'were' if many else 'was'} read in"
        f" part{least}; what"
        " was left out is in the annotations (truncated, read)."
    )


def _describe_votes(counts: TraceCounts) -> Iterator[str]:
    if counts.halves:
        yield (
            f"{format_count(counts.halves, 'labelled trace')} had codes beside that"
            " exactly half of the"
            " votes have (tie); these are not counted."
        )
    if counts.votes.failed:
        yield f"{counts.votes.failed} votes in judged traces failed and were not counted."
    if n := counts.votes.undecided:
        yield f"{n} votes in judged traces were undecided and were not counted."
