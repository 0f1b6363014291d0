"""The notes below a frequency table: what its numbers rest on, and what they leave out."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from annotator.base.text import floor_percent, format_count
from annotator.reports.counts import LOST, OTHER, PARTIAL, REJECTED, TIE, TraceCounts
from annotator.runs.run import Run
from validation import Interval

if TYPE_CHECKING:
    from annotator.calibration.correct import Correction

_NOT_MEASURED = " They do not include the judge's errors: see annotate calibrate."
_SEEN_IN = 5  # tasks; the interval of a code that is seen in fewer is too narrow
_UNDECIDED = {
    TIE: "{} had no code with enough votes (tie).",
    PARTIAL: "{} {were} read in part.",
    REJECTED: "In {} none of the judge's quotes was in the trace.",
    LOST: "{} had too few votes that count.",
    OTHER: "{} {were} left undecided by the judge.",
}


def describe_caveats(
    run: Run,
    counts: TraceCounts,
    shares: Mapping[str, Interval],
    correction: "Correction | None",
) -> Iterator[str]:
    """Yield the notes of a run's frequency table, whose shares are given by code."""
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
    """Yield which codes have no share, and which traces the shares are of."""
    scheme = counts.rubric
    if unknown := [code.id for code in scheme.codes if not code.judged]:
        yield f"The judge has no rule for {', '.join(unknown)}: not 0, but not known."
    if screens := [code.id for code in scheme.codes if code.screen]:
        yield (
            f"Can be found, cannot be ruled out: {', '.join(screens)}. The true share lies within"
            " the bounds."
        )
    if counts.selection:
        yield (
            "No percentages: this judge only reports failures that it recognises. The traces it"
            " left open are not a random sample. To get shares, label some of them: annotate"
            " sample, then annotate calibrate."
        )
    if counts.of_labelled:
        yield (
            f"Shares of the {counts.n} labelled traces alone, as in the paper's tables: none is in"
            " no share."
        )
    if counts.open:
        sizes = (f"{counts.status[x]} {x}" for x in ("undecided", "failed") if counts.status[x])
        yield (
            "Bounds: the lowest and highest possible share, depending on the"
            f" {' and '.join(sizes)} traces."
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
        yield f"95 % intervals{whose} treat traces as independent ({why}).{errors}"
        return
    if tasks == 1:
        yield f"No intervals{whose}: all traces are of one task ({by})."
        return
    yield (
        f"95 % intervals{whose} allow for traces that share one of {tasks} tasks ({by}).{errors}"
    )
    few = [
        code
        for code, share in shares.items()
        if 0 < (share.clusters_with or 0) < min(_SEEN_IN, tasks)
    ]
    if few:
        yield f"Interval too narrow (seen in fewer than {_SEEN_IN} tasks): {', '.join(few)}."


def describe_traces(counts: TraceCounts) -> Iterator[str]:
    """Yield what is odd about the counted traces and their findings."""
    scheme = counts.rubric
    if scheme.choice == "many":
        yield "Shares do not add up to 100 %: a trace can have several codes."
    if counts.unproven > counts.findings:
        yield (
            f"Most findings, {counts.unproven} of {counts.unproven + counts.findings}, were"
            " rejected because their quotes are not in the traces. The rest says little."
        )
    if counts.emptied:
        yield (
            f"{counts.emptied} of the traces counted as none had findings, all rejected because"
            " their quotes are not in the trace."
        )
    if counts.contradictory:
        yield (
            f"In {format_count(counts.contradictory, 'trace')} the judge's reasoning contradicts"
            " its finding. The finding is counted."
        )
    if scheme.applies_to.passed is not None and counts.outcome_unknown:
        which = "passed" if scheme.applies_to.passed else "failed"
        yield (
            f"{counts.outcome_unknown} counted traces do not tell whether the run passed; the"
            f" rubric is for {which} runs."
        )


def _describe_undecided(counts: TraceCounts) -> Iterator[str]:
    """Tell the reasons apart, unless the judge itself left all undecided."""
    if counts.reasons.keys() <= {OTHER}:
        return
    for reason, text in _UNDECIDED.items():
        if n := counts.reasons[reason]:
            yield text.format(format_count(n, "undecided trace"), were="was" if n == 1 else "were")


def _describe_reading(counts: TraceCounts) -> Iterator[str]:
    if not counts.truncated:
        return
    verb, share, extent = "was", floor_percent(counts.least_read), ""
    if counts.least_read < 1:
        extent = f", {share} of it"
    if counts.truncated > 1:
        verb, extent = "were", extent and f", of one only {share}"
    yield (
        f"{format_count(counts.truncated, 'trace')} {verb} read in part{extent}; the annotations"
        " tell what was left out (truncated, read)."
    )


def _describe_votes(counts: TraceCounts) -> Iterator[str]:
    if counts.halves:
        yield (
            f"{format_count(counts.halves, 'labelled trace')} had codes beside that exactly half of"
            " the votes have (tie); these are not counted."
        )
    if counts.votes.failed:
        yield f"{counts.votes.failed} votes in judged traces failed and were not counted."
    if n := counts.votes.undecided:
        yield f"{n} votes in judged traces were undecided and were not counted."
