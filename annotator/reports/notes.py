"""What stands below a frequency table: what its numbers rest on, and what they leave out."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from annotator.reports.counts import TraceCounts
from annotator.runs.run import Run

if TYPE_CHECKING:
    from annotator.calibration.correct import Correction

_SAMPLING_ONLY = (
    "Intervals: Wilson 95 %, sampling error only; the judge's errors are not measured"
    " (no calibration)."
)


def describe_caveats(
    run: Run, counts: TraceCounts, correction: "Correction | None"
) -> Iterator[str]:
    """Yield what a reader of a frequency table must know, a sentence each."""
    if run.judge == "rules":
        yield "Judge: rules, a deterministic baseline without a language model."
    yield from _describe_shares(counts)
    yield from correction.notes if correction else (_SAMPLING_ONLY,)
    yield from _describe_traces(counts)
    yield from _describe_votes(counts)
    if counts.truncated:
        yield (
            f"{counts.truncated} judged traces were longer than what the judge reads; what it left"
            " out is in their annotations (truncated)."
        )
    yield from run.manifest.partial


def _describe_shares(counts: TraceCounts) -> Iterator[str]:
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
        yield f"No code has a share: {counts.selection}."
    if counts.of_labelled:
        yield (
            f"Shares of the {counts.n} labelled traces alone, as in the paper's tables: none is in"
            " no share."
        )
    if counts.open:
        which = "labelled" if counts.of_labelled else "judged"
        yield (
            f"Bounds: the share among {which}, undecided and failed traces, if none or all of the"
            f" {counts.status['undecided']} undecided and {counts.status['failed']} failed ones"
            " had the code."
        )


def _describe_traces(counts: TraceCounts) -> Iterator[str]:
    scheme = counts.rubric
    if 0 < len(counts.tasks) < counts.judged:
        yield (
            f"The judged traces come from {len(counts.tasks)} tasks; the judge's own intervals"
            " treat traces of one task as independent."
        )
    if scheme.choice == "many":
        yield "Shares do not add up to 100 %: a trace can have several codes."
    if counts.emptied:
        yield (
            f"{counts.emptied} of the traces counted as none had findings, all rejected because"
            " their quotes do not stand in the trace."
        )
    if scheme.applies_to.passed is not None and counts.outcome_unknown:
        which = "passed" if scheme.applies_to.passed else "failed"
        yield (
            f"{counts.outcome_unknown} judged traces do not tell whether the run passed; the rubric"
            f" is for {which} runs."
        )


def _describe_votes(counts: TraceCounts) -> Iterator[str]:
    if counts.votes.ties and counts.rubric.choice == "many":
        yield (
            f"{counts.votes.ties} traces had codes that exactly half of the votes have (tie); these"
            " are not counted, and a trace with no others is undecided."
        )
    elif counts.votes.ties:
        yield (
            f"{counts.votes.ties} of the undecided traces had no majority among the votes (tie)."
        )
    if counts.votes.failed:
        yield f"{counts.votes.failed} votes in judged traces failed and were not counted."
