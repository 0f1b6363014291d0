"""What several votes on one trace elect."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from annotator.annotations import Annotation, Finding, Rejected, Status, Vote
from annotator.rubrics import NONE, Rubric


@dataclass(frozen=True, slots=True)
class _Elected:
    """The codes that won, the primary one first, and what had most votes without winning."""

    status: Status
    codes: tuple[str, ...]
    tie: tuple[str, ...]


def elect(
    blank: Annotation, ballots: Sequence[tuple[int, Annotation]], rubric: Rubric
) -> Annotation:
    """Return the annotation that the ballots elect; ``blank`` holds all but the result.

    Each ballot is (number of the sample, what that voter alone would have recorded): its quotes are
    checked before it counts. Votes that failed or are undecided are kept and not counted; unless
    more than half of the votes did not fail, the trace failed, and unless more than half count, it
    is undecided.

    The label (a code, or none) is the one that has more than half of the votes counted. Where none
    has, the trace is undecided, and what had the most votes is marked (``tie``). A secondary code,
    and each code of a rubric of ``many``, needs more than half of the votes too; codes that exactly
    half of them have are marked and not found, and a trace with no others is undecided. A finding
    takes its evidence from the first voter whose finding it is.
    """
    votes = tuple(
        Vote(vote.judge, sample, vote.status, vote.primary, vote.secondary, vote.error)
        for sample, vote in ballots
    )
    failed = [vote for vote in votes if vote.status == "failed"]
    counted = [vote for vote in votes if vote.status in ("labelled", "none")]
    truncated: dict[str, int] = {}
    for _, annotation in ballots:
        for source, characters in annotation.truncated.items():
            truncated[source] = max(characters, truncated.get(source, 0))
    blank = replace(blank, votes=votes, truncated=truncated)
    if 2 * len(failed) >= len(votes):
        words = f"{len(failed)} of {len(votes)} votes failed; the first: {failed[0].error}"
        return replace(blank, status="failed", error=words)
    if 2 * len(counted) <= len(votes):
        words = f"{len(votes) - len(counted)} of {len(votes)} votes failed or are undecided"
        return replace(blank, status="undecided", reason=words)
    many = rubric.choice == "many"
    elected = _elect_codes(counted) if many else _elect_label(counted, rubric)
    primary = None if many or not elected.codes else elected.codes[0]
    return replace(
        blank,
        status=elected.status,
        reason=f"no majority among the votes: {', '.join(elected.tie)}"
        if elected.status == "undecided"
        else None,
        primary=primary,
        secondary=tuple(code for code in elected.codes if code != primary),
        findings=tuple(_finding(code, ballots) for code in elected.codes),
        rejected=tuple(_merge_rejected(ballots)),
        agreement=_agreement(counted, elected, rubric),
        tie=elected.tie,
    )


def _elect_label(votes: Sequence[Vote], rubric: Rubric) -> _Elected:
    labels = Counter(vote.primary or NONE for vote in votes)
    label, most = labels.most_common(1)[0]
    if 2 * most <= len(votes):
        tie = tuple(sorted(name for name, n in labels.items() if n == most))
        return _Elected("undecided", (), tie)
    if label == NONE:
        return _Elected("none", (), ())
    numbers = Counter(code for vote in votes for code in vote.codes)
    others = [code for code, n in numbers.items() if code != label and 2 * n > len(votes)]
    return _Elected("labelled", (label, *sorted(others, key=rubric.rank)), ())


def _elect_codes(votes: Sequence[Vote]) -> _Elected:
    numbers = Counter(code for vote in votes for code in vote.codes)
    codes = tuple(sorted(code for code, n in numbers.items() if 2 * n > len(votes)))
    tie = tuple(sorted(code for code, n in numbers.items() if 2 * n == len(votes)))
    return _Elected("labelled" if codes else "undecided" if tie else "none", codes, tie)


def _agreement(votes: Sequence[Vote], elected: _Elected, rubric: Rubric) -> float:
    """Return the share of the votes counted that say what was elected."""
    if elected.status == "undecided":
        return 0.0
    if rubric.choice == "many":
        same = sum(vote.codes == frozenset(elected.codes) for vote in votes)
    else:
        label = elected.codes[0] if elected.codes else None
        same = sum(vote.primary == label for vote in votes)
    return round(same / len(votes), 6)


def _finding(code: str, ballots: Sequence[tuple[int, Annotation]]) -> Finding:
    findings = [
        finding
        for _, annotation in ballots
        for finding in annotation.findings
        if finding.code == code
    ]
    return replace(findings[0], votes=len(findings))


def _merge_rejected(ballots: Sequence[tuple[int, Annotation]]) -> dict[Rejected, None]:
    return dict.fromkeys(rejected for _, annotation in ballots for rejected in annotation.rejected)
