"""What several votes on one trace elect."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from annotator.rubrics import NONE, Rubric, group_codes
from annotator.rubrics.annotations import Annotation, Finding, Rejected, Require, Status, Vote

Ballots = Sequence[tuple[int, Annotation]]


@dataclass(frozen=True, slots=True)
class _Elected:
    """The codes that won, the primary one first, and what had most votes without winning."""

    status: Status
    codes: tuple[str, ...] = ()
    tie: tuple[str, ...] = ()


def elect(
    blank: Annotation, ballots: Ballots, rubric: Rubric, require: Require = "majority"
) -> Annotation:
    """Return the annotation that the ballots elect; ``blank`` holds all but the result.

    Each ballot is (number of the sample, what that voter alone would have recorded): its quotes are
    checked before it counts. Votes that failed or are undecided are kept and not counted; unless
    more than half of the votes did not fail, the trace failed, and unless more than half count, it
    is undecided.

    A code is found if enough of the votes counted have it, wherever it stands: more than half
    (``majority``), all (``unanimous``), or one (``any``). Of those found, the primary one has most
    primary votes; where several have as many, the rubric's precedence decides. ``none`` needs more
    than half, or all for both others. Where a rubric allows one code and has groups that tell more
    than its codes, the group is elected first, and then by votes the code in it (but to be
    unanimous is to agree on the code). Else the trace is undecided, and what had the most votes is
    marked (``tie``), as are codes beside a majority that exactly half of the votes have. A finding
    takes its evidence from the first voter counted whose finding it is; what an undecided trace has
    was found by some.
    """
    counted = [(n, vote) for n, vote in ballots if vote.status in ("labelled", "none")]
    blank = _with_votes(blank, ballots)
    if 2 * len(counted) <= len(ballots):
        return _undo(blank, ballots)
    votes = [vote for _, vote in counted]
    if rubric.choice == "one":
        elected = _elect_one(votes, rubric, require)
    else:
        elected = _elect_codes(votes, rubric, require)
    primary = None if rubric.choice == "many" or not elected.codes else elected.codes[0]
    return replace(
        blank,
        status=elected.status,
        reason=_describe_tie(elected, require),
        primary=primary,
        secondary=tuple(code for code in elected.codes if code != primary),
        findings=_list_findings(counted, None if elected.status == "undecided" else elected.codes),
        agreement=_agreement(votes, elected, rubric),
        tie=elected.tie,
    )


def _with_votes(blank: Annotation, ballots: Ballots) -> Annotation:
    """Return the annotation with what each vote said, and the least that any of them read."""
    truncated: dict[str, int] = {}
    for _, vote in ballots:
        for source, characters in vote.truncated.items():
            truncated[source] = max(characters, truncated.get(source, 0))
    return replace(
        blank,
        votes=tuple(
            Vote(
                *(vote.judge, sample, vote.status),
                primary=vote.primary,
                secondary=vote.secondary,
                error=vote.error,
                reason=vote.reason,
            )
            for sample, vote in ballots
        ),
        truncated=truncated,
        read=min(vote.read for _, vote in ballots),
        rejected=tuple(_merge_rejected(ballots)),
        contradictions=tuple(
            dict.fromkeys(words for _, vote in ballots for words in vote.contradictions)
        ),
    )


def _undo(blank: Annotation, ballots: Ballots) -> Annotation:
    """Return the annotation of too few votes that count: failed, or undecided with what they
    found.
    """
    votes = [vote for _, vote in ballots]
    failed = [vote for vote in votes if vote.status == "failed"]
    if 2 * len(failed) >= len(votes):
        words = f"{len(failed)} of {len(votes)} votes failed; the first: {failed[0].error}"
        return replace(blank, status="failed", error=words, failure=failed[0].failure)
    lost = [vote for vote in votes if vote.status in ("failed", "undecided")]
    reasons = {vote.reason for vote in lost}
    first = next(vote for vote in lost if vote.status == "undecided")
    words = f"{len(lost)} of {len(votes)} votes failed or are undecided; the first: {first.reason}"
    return replace(
        blank,
        status="undecided",
        reason=first.reason if len(lost) == len(votes) and len(reasons) == 1 else words,
        failure=first.failure if len(lost) == len(votes) else None,
        findings=_list_findings(ballots),
    )


def _is_enough(votes: int, of: int, require: Require) -> bool:
    """Whether so many votes of those counted find a code."""
    return {"unanimous": votes == of, "any": votes > 0}.get(require, 2 * votes > of)


def _none_or_undecided(none: int, of: int, require: Require, tie: Sequence[str]) -> _Elected:
    """Return what the votes elect that find no code; ``none`` of them say so."""
    least = of // 2 + 1 if require == "majority" else of
    return _Elected("none") if none >= least else _Elected("undecided", tie=tuple(sorted(tie)))


def _elect_codes(votes: Sequence[Annotation], rubric: Rubric, require: Require) -> _Elected:
    numbers = Counter(code for vote in votes for code in vote.codes)
    codes = [code for code, n in numbers.items() if _is_enough(n, len(votes), require)]
    if not codes:
        none = sum(not vote.codes for vote in votes)
        numbers[NONE] = none
        most = max(numbers.values())
        tie = [label for label, n in numbers.items() if n == most]
        return _none_or_undecided(none, len(votes), require, tie)
    primaries = Counter(vote.primary for vote in votes)
    first, *others = sorted(codes, key=lambda code: (-primaries[code], rubric.rank(code)))
    half = [code for code, n in numbers.items() if require == "majority" and 2 * n == len(votes)]
    return _Elected(
        "labelled", (first, *sorted(others, key=rubric.rank)), tuple(sorted(half, key=rubric.rank))
    )


def _elect_one(votes: Sequence[Annotation], rubric: Rubric, require: Require) -> _Elected:
    """Return the one code elected, or none: the group first, where groups tell more than codes."""
    groups = {
        code: f"group {name}"
        for name, codes in group_codes(rubric.codes).items()
        for code in codes
        if require != "unanimous"
    }
    numbers = Counter(vote.primary or NONE for vote in votes)
    none = numbers.pop(NONE, 0)
    parties: dict[str, list[str]] = {}  # what was voted for, strongest first, by group
    for code in sorted(numbers, key=lambda code: (-numbers[code], rubric.rank(code))):
        parties.setdefault(groups.get(code, code), []).append(code)

    def size(party: list[str]) -> int:
        return sum(numbers[code] for code in party)

    elected = [party for party in parties.values() if _is_enough(size(party), len(votes), require)]
    if elected:
        strongest = min(elected, key=lambda party: (-size(party), min(map(rubric.rank, party))))
        return _Elected("labelled", (strongest[0],))
    most = max(none, *map(size, parties.values())) if parties else none
    tie = [code for party in parties.values() if size(party) == most for code in party]
    return _none_or_undecided(none, len(votes), require, tie + [NONE] * (none == most))


def _describe_tie(elected: _Elected, require: Require) -> str | None:
    if elected.status != "undecided":
        return None
    what = "the votes are not unanimous" if require != "majority" else "no majority among the votes"
    return f"{what}: {', '.join(elected.tie)}"


def _agreement(votes: Sequence[Annotation], elected: _Elected, rubric: Rubric) -> float:
    """Return the share of the votes counted that say what was elected."""
    if elected.status == "undecided":
        return 0.0
    if rubric.choice == "many":
        same = sum(set(vote.codes) == set(elected.codes) for vote in votes)
    else:
        label = elected.codes[0] if elected.codes else None
        same = sum(vote.primary == label for vote in votes)
    return round(same / len(votes), 6)


def _list_findings(ballots: Ballots, codes: Sequence[str] | None = None) -> tuple[Finding, ...]:
    """Return a finding of each of these codes, or of every code that a vote has found: the first
    voter's, with how many there are.
    """
    findings: dict[str, list[Finding]] = {code: [] for code in codes or ()}
    for _, vote in ballots:
        for finding in vote.findings:
            if codes is None or finding.code in findings:
                findings.setdefault(finding.code, []).append(finding)
    return tuple(replace(same[0], votes=len(same)) for same in findings.values())


def _merge_rejected(ballots: Ballots) -> dict[Rejected, None]:
    return dict.fromkeys(rejected for _, vote in ballots for rejected in vote.rejected)
