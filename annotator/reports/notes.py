"""The notes below a frequency table: what its numbers rest on, and what they leave out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from annotator.base.text import Note, floor_percent, format_count, sanitize_line
from annotator.reports.counts import (
    AUTHORS,
    LOST,
    OTHER,
    PARTIAL,
    REJECTED,
    TIE,
    TraceCounts,
    list_reasons,
)
from annotator.runs.run import Run
from validation import Interval

if TYPE_CHECKING:
    from annotator.calibration.correct import Correction

NOT_MEASURED = " They do not include the judge's errors: see annotate calibrate."
_SHOWN = 2  # notes of a brief table
_SEEN_IN = 5  # tasks; the interval of a code that is seen in fewer is too narrow
_UNDECIDED = {
    TIE: "{} had no code with enough votes (tie).",
    PARTIAL: "{} {were} read in part.",
    REJECTED: "In {} all findings were rejected{why}.",
    LOST: "{} had too few votes that count.",
    AUTHORS: "{} {were} not judged: it is not known who wrote the messages.",
    OTHER: "{} {were} left undecided by the judge.",
}


_FEW = 10  # judged traces, of which a judge that finds nothing in any is doubtful
# The order of the notes on a terminal's first screen, the most damaging first.
_ORDER = """
    part counting model-labels no-tasks missing transferred no-condition alone rejected-most
    no-shares uncorrected-all found-none spoke-anyway outcome-unknown other-setting conflicts-missed
    undefined uncounted nothing-to-merge read-in-part no-rule few-labels sums sampling one-task
    undecided bounds few-tasks sizes rare observed no-channel-value unmerged no-channel
    independent tasks corrected rejected-all
"""
_UNCORRECTED = frozenset(("no-shares", "no-rule"))  # which matter less beside corrected shares


def rank_notes(notes: Iterable[str], *, corrected: bool) -> list[str]:
    """Return the notes, the most damaging first, for a table with or without corrected shares."""
    order = [id_ for id_ in _ORDER.split() if not corrected or id_ not in _UNCORRECTED]
    ranks = {id_: rank for rank, id_ in enumerate(order)}
    return sorted(notes, key=lambda note: ranks.get(getattr(note, "id", ""), len(ranks)))


def select_notes(notes: Sequence[str], hidden: int = 0, tables: int = 0) -> list[str]:
    """Return the first two notes and a line that counts the others, and the hidden ones."""
    hidden += max(len(notes) - _SHOWN, 0)
    counts = (tables, "more table"), (hidden, "more note")
    more = " and ".join(format_count(n, unit) for n, unit in counts if n)
    return [*notes[:_SHOWN], *([f"{more}: -v"] if more else [])]


def describe_caveats(
    run: Run,
    counts: TraceCounts,
    shares: Mapping[str, Interval],
    correction: "Correction | None",
    uncorrected: str = "",
) -> Iterator[str]:
    """Yield the notes of a run's frequency table; ``uncorrected``: why no calibration fits it."""
    if run.judge == "rules":
        yield Note("Judge: rules, a deterministic baseline without a language model.", "rules")
    yield from describe_shares(counts)
    if uncorrected:
        yield Note(f"Not corrected by the calibration: {uncorrected}.", "uncorrected-all")
    if correction:
        yield from correction.notes
    whose, errors = (" of the judge's own shares", "") if correction else ("", NOT_MEASURED)
    yield from describe_intervals(counts, shares, whose, errors)
    yield from describe_traces(counts)
    found_none = not (counts.status["labelled"] or counts.selection)
    if counts.n >= _FEW and found_none and not correction:
        yield Note(
            f"Found in none of {counts.n} traces. Does this judge tell the codes apart? Check it"
            " with labels: annotate sample.",
            "found-none",
        )
    yield from _describe_undecided(counts)
    if skipped := counts.unjudged.get("skipped"):
        yield Note(f"Skipped: {list_reasons(skipped.reasons)}.", "skipped")
    yield from _describe_votes(counts)
    yield from _describe_reading(counts)
    yield from describe_part(run)


def describe_part(run: Run) -> Iterator[str]:
    """Yield why a run has not judged all traces."""
    yield from (Note(text, "part") for text in run.manifest.limitations)


def describe_shares(counts: TraceCounts) -> Iterator[str]:
    """Yield which codes have no share, and which traces the shares are of."""
    scheme = counts.rubric
    if unknown := [code.id for code in scheme.codes if not code.judged]:
        yield Note(f"The judge has no rule for {', '.join(unknown)}: unknown, not 0.", "no-rule")
    if screens := [code.id for code in scheme.codes if code.screen]:
        yield Note(
            f"Can be found, cannot be ruled out: {', '.join(screens)}. Up to all traces may have"
            " them.",
            "screens",
        )
    if counts.selection:
        yield Note(
            "No percentages: this judge only reports failures that it recognises. The traces it"
            " left open are not a random sample. To get shares, label some of them: annotate"
            " sample, then annotate calibrate.",
            "no-shares",
        )
    if counts.of_labelled:
        yield Note(
            f"Shares of the {counts.n} labelled traces alone, as in the paper's tables: none is in"
            " no share.",
            "of-labelled",
        )
    if counts.open:
        sizes = (f"{counts.status[x]} {x}" for x in ("undecided", "failed") if counts.status[x])
        yield Note(
            "Bounds: the lowest and highest possible share, if none or all of the"
            f" {' and '.join(sizes)} traces have the code.",
            "bounds",
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
        yield Note(
            f"95 % intervals{whose} treat traces as independent ({why}).{errors}", "independent"
        )
        return
    if tasks == 1:
        yield Note(f"No intervals{whose}: all traces are of one task ({by}).", "one-task")
        return
    yield Note(
        f"95 % intervals{whose} allow for traces that share one of {tasks} tasks ({by}).{errors}",
        "tasks",
    )
    few = [
        code
        for code, share in shares.items()
        if 0 < (share.clusters_with or 0) < min(_SEEN_IN, tasks)
    ]
    if few:
        yield Note(
            f"Interval too narrow (seen in fewer than {_SEEN_IN} tasks): {', '.join(few)}.",
            "few-tasks",
        )


def describe_traces(counts: TraceCounts) -> Iterator[str]:
    """Yield what is odd about the counted traces and their findings."""
    scheme = counts.rubric
    if scheme.choice == "many":
        yield Note("Shares do not add up to 100 %: a trace can have several codes.", "many-codes")
    if _are_most_rejected(counts):
        rejected, n = counts.rejections[""].total(), counts.reasons[REJECTED]
        undecided = f" In {format_count(n, 'undecided trace')} all were." if n else ""
        yield Note(
            f"Most findings, {rejected} of {rejected + counts.findings}, were"
            f" rejected{_list_kinds(counts, '')}.{undecided} The rest says little.",
            "rejected-most",
        )
    if counts.emptied:
        yield Note(
            f"{counts.emptied} of the traces counted as none had findings, all"
            f" rejected{_list_kinds(counts, 'none')}.",
            "rejected-all",
        )
    if counts.contradictory:
        yield Note(
            f"In {format_count(counts.contradictory, 'trace')} the judge's reasoning contradicts"
            " its finding. The finding is counted.",
            "contradictions",
        )
    if scheme.applies_to.passed is not None and counts.outcome_unknown:
        which = "passed" if scheme.applies_to.passed else "failed"
        yield Note(
            f"{counts.outcome_unknown} counted traces do not tell whether the run passed; the"
            f" rubric is for {which} runs.",
            "outcome-unknown",
        )


def _are_most_rejected(counts: TraceCounts) -> bool:
    return counts.rejections[""].total() > counts.findings


def _list_kinds(counts: TraceCounts, traces: str) -> str:
    kinds = ", ".join(f"{kind} {n}" for kind, n in counts.rejections[traces].most_common())
    return kinds and f": {kinds}"


def _describe_undecided(counts: TraceCounts) -> Iterator[str]:
    """Tell the reasons apart, unless the judge itself left all undecided."""
    if counts.reasons.keys() <= {OTHER}:
        return
    for reason, text in _UNDECIDED.items():
        if reason == REJECTED and _are_most_rejected(counts):
            continue  # that note has them
        if n := counts.reasons[reason]:
            were, why = "was" if n == 1 else "were", _list_kinds(counts, reason)
            traces = format_count(n, "undecided trace")
            yield Note(text.format(traces, were=were, why=why), "undecided")


def _describe_reading(counts: TraceCounts) -> Iterator[str]:
    if not counts.truncated:
        return
    verb, share, extent = "was", floor_percent(counts.least_read), ""
    if counts.least_read < 1:
        extent = f", {share} of it"
    if counts.truncated > 1:
        verb, extent = "were", extent and f", of one only {share}"
    yield Note(
        f"{format_count(counts.truncated, 'trace')} {verb} read in part{extent}; the annotations"
        " tell what was left out (truncated, read).",
        "read-in-part",
    )


def _describe_votes(counts: TraceCounts) -> Iterator[str]:
    if counts.halves:
        yield Note(
            f"{format_count(counts.halves, 'labelled trace')} had codes beside that exactly half of"
            " the votes have (tie); these are not counted.",
            "halves",
        )
    if counts.votes.failed:
        yield Note(
            f"{counts.votes.failed} votes in judged traces failed and were not counted.",
            "failed-votes",
        )
    if n := counts.votes.undecided:
        yield Note(
            f"{n} votes in judged traces were undecided and were not counted.", "undecided-votes"
        )


def describe_fallbacks(strategies: Mapping[str, int]) -> str:
    """Return how runs passed in spite of a merge conflict: their number by merge strategy."""
    runs = format_count(sum(strategies.values()), "run")
    names = ", ".join(f"{sanitize_line(name, 40)} {n}" for name, n in strategies.items())
    return f"{runs} with a conflict passed what the harness tested instead ({names})"
