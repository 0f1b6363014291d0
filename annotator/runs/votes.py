"""What several votes on one trace elect."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from annotator.annotations import Annotation, Finding, Rejected, Vote
from annotator.rubrics import NONE, Rubric


@dataclass(frozen=True, slots=True)
class _Elected:
    """The codes that won, the primary one first, and what had most votes without winning."""

    codes: tuple[str, ...]
    tie: tuple[str, ...]


def elect(
    blank: Annotation, ballots: Sequence[tuple[int, Annotation]], rubric: Rubric
) -> Annotation:
    """Return the annotation that the ballots elect; ``blank`` holds all but the result.

    Each ballot is (number of the sample, what that voter alone would have recorded): its quotes are
    checked before it counts. Votes that failed are kept and not counted; unless more than half of
    the voters judged, the trace failed.

    The label (a code, or none) is the one that has more than half of the votes counted. Where none
    has, there is no finding, and what had the most votes is marked (``tie``). A secondary code, and
    each code of a rubric of ``many``, needs more than half of the votes too. A finding takes its
    evidence from the first voter whose finding it is.
    """
    votes = tuple(
        Vote(one.judge, sample, one.status, one.primary, one.secondary, one.error)
        for sample, one in ballots
    )
    counted = [vote for vote in votes if vote.status != "failed"]
    truncated: dict[str, int] = {}
    for _, one in ballots:
        for source, characters in one.truncated.items():
            truncated[source] = max(characters, truncated.get(source, 0))
    blank = replace(blank, votes=votes, truncated=truncated)
    if 2 * len(counted) <= len(votes):
        reason = next(vote.error for vote in votes if vote.error)
        words = f"{len(votes) - len(counted)} of {len(votes)} votes failed; the first: {reason}"
        return replace(blank, status="failed", error=words)
    many = rubric.choice == "many"
    elected = _many(counted) if many else _one(counted, rubric)
    primary = None if many or not elected.codes else elected.codes[0]
    return replace(
        blank,
        status="labelled" if elected.codes else "none",
        primary=primary,
        secondary=tuple(code for code in elected.codes if code != primary),
        findings=tuple(_finding(code, ballots) for code in elected.codes),
        rejected=tuple(_rejected(ballots)),
        agreement=_agreement(counted, elected, many),
        tie=elected.tie,
    )


def _one(votes: Sequence[Vote], rubric: Rubric) -> _Elected:
    labels = Counter(vote.primary or NONE for vote in votes)
    label, most = labels.most_common(1)[0]
    if 2 * most <= len(votes):
        return _Elected((), tuple(sorted(one for one, n in labels.items() if n == most)))
    if label == NONE:
        return _Elected((), ())
    found = Counter(code for vote in votes for code in vote.codes)
    others = [code for code, n in found.items() if code != label and 2 * n > len(votes)]
    return _Elected((label, *sorted(others, key=rubric.rank)), ())


def _many(votes: Sequence[Vote]) -> _Elected:
    found = Counter(code for vote in votes for code in vote.codes)
    return _Elected(
        tuple(sorted(code for code, n in found.items() if 2 * n > len(votes))),
        tuple(sorted(code for code, n in found.items() if 2 * n == len(votes))),
    )


def _agreement(votes: Sequence[Vote], elected: _Elected, many: bool) -> float:
    """Return the share of the votes counted that say what was elected."""
    if many:
        same = sum(vote.codes == frozenset(elected.codes) for vote in votes)
    else:
        label = elected.codes[0] if elected.codes else None
        same = sum(vote.primary == label for vote in votes)
    return round(same / len(votes), 6)


def _finding(code: str, ballots: Sequence[tuple[int, Annotation]]) -> Finding:
    given = [finding for _, one in ballots for finding in one.findings if finding.code == code]
    return replace(given[0], votes=len(given))


def _rejected(ballots: Sequence[tuple[int, Annotation]]) -> dict[Rejected, None]:
    return dict.fromkeys(rejected for _, one in ballots for rejected in one.rejected)
