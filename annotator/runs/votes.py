"""The annotation that several votes on a trace elect."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from annotator.rubrics import NONE, Rubric, group_codes
from annotator.rubrics.annotations import JUDGED, Annotation, Finding, Require, Status, Vote

Ballots = Sequence[tuple[int, Annotation]]


@dataclass(frozen=True, slots=True)
class _Elected:
    """The elected codes, the primary one first, and the codes of a tie."""

    status: Status
    codes: tuple[str, ...] = ()
    tie: tuple[str, ...] = ()


def elect(
    blank: Annotation, ballots: Ballots, rubric: Rubric, require: Require = "majority"
) -> Annotation:
    """Return the annotation that the ballots elect.

    A vote counts if it is ``labelled`` or ``none``. If half of the votes or more failed, the trace
    failed; if half or more do not count, it is undecided.

    ``require`` says how many of the counted votes a code needs: more than half (``majority``), all
    (``unanimous``), or one (``any``). ``none`` needs more than half, or all for the other two. The
    primary code has the most primary votes, or is first by precedence. If the rubric allows one
    code, its group is elected first, except for ``unanimous``. If nothing wins, the trace is
    undecided, and ``tie`` names the labels with the most votes. ``tie`` also names a code that
    exactly half of the votes have beside a majority.

    Args:
        blank: the annotation without its result.
        ballots: pairs of the number of the sample, and the annotation of that vote alone.
        rubric: the rubric of all votes.
        require: the votes that a code needs.
    """
    counted = [(n, vote) for n, vote in ballots if vote.status in JUDGED]
    blank = _add_votes(blank, ballots)
    if 2 * len(counted) <= len(ballots):
        return _annotate_undecided(blank, ballots)
    votes = [vote for _, vote in counted]
    if rubric.choice == "one":
        elected = _elect_one(votes, rubric, require)
    else:
        elected = _elect_codes(votes, rubric, require)
    primary = None if rubric.choice == "many" or not elected.codes else elected.codes[0]
    is_majority = require == "majority"
    problem = "no majority among the votes" if is_majority else "the votes are not unanimous"
    return replace(
        blank,
        status=elected.status,
        reason=f"{problem}: {', '.join(elected.tie)}" if elected.status == "undecided" else None,
        primary=primary,
        secondary=tuple(code for code in elected.codes if code != primary),
        findings=_list_findings(counted, None if elected.status == "undecided" else elected.codes),
        agreement=_compute_agreement(votes, elected, rubric),
        tie=elected.tie,
    )


def _add_votes(blank: Annotation, ballots: Ballots) -> Annotation:
    """Add the votes; the smallest share read counts."""
    truncated: dict[str, int] = {}
    for _, vote in ballots:
        for source, characters in vote.truncated.items():
            truncated[source] = max(characters, truncated.get(source, 0))
    rejected = [each for _, vote in ballots for each in vote.rejected]
    texts = [text for _, vote in ballots for text in vote.contradictions]
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
        rejected=tuple(dict.fromkeys(rejected)),
        contradictions=tuple(dict.fromkeys(texts)),
    )


def _annotate_undecided(blank: Annotation, ballots: Ballots) -> Annotation:
    """Return a failed annotation, or an undecided one with all findings: too few votes count."""
    votes = [vote for _, vote in ballots]
    failed = [vote for vote in votes if vote.status == "failed"]
    if 2 * len(failed) >= len(votes):
        message = f"{len(failed)} of {len(votes)} votes failed; the first: {failed[0].error}"
        return replace(blank, status="failed", error=message, failure=failed[0].failure)
    lost = [vote for vote in votes if vote.status in ("failed", "undecided")]
    reasons = {vote.reason for vote in lost}
    first = next(vote for vote in lost if vote.status == "undecided")
    reason = f"{len(lost)} of {len(votes)} votes failed or are undecided; the first: {first.reason}"
    return replace(
        blank,
        status="undecided",
        reason=first.reason if len(lost) == len(votes) and len(reasons) == 1 else reason,
        failure=first.failure if len(lost) == len(votes) else None,
        findings=_list_findings(ballots),
    )


def _is_enough(votes: int, of: int, require: Require) -> bool:
    return {"unanimous": votes == of, "any": votes > 0}.get(require, 2 * votes > of)


def _elect_none(none: int, of: int, require: Require, tie: Sequence[str]) -> _Elected:
    minimum = of // 2 + 1 if require == "majority" else of
    return _Elected("none") if none >= minimum else _Elected("undecided", tie=tuple(sorted(tie)))


def _elect_codes(votes: Sequence[Annotation], rubric: Rubric, require: Require) -> _Elected:
    numbers = Counter(code for vote in votes for code in vote.codes)
    codes = [code for code, n in numbers.items() if _is_enough(n, len(votes), require)]
    if not codes:
        none = sum(not vote.codes for vote in votes)
        numbers[NONE] = none
        maximum = max(numbers.values())
        tie = [label for label, n in numbers.items() if n == maximum]
        return _elect_none(none, len(votes), require, tie)
    primaries = Counter(vote.primary for vote in votes)
    first, *others = sorted(codes, key=lambda code: (-primaries[code], rubric.rank(code)))
    half = [code for code, n in numbers.items() if require == "majority" and 2 * n == len(votes)]
    return _Elected(
        "labelled", (first, *sorted(others, key=rubric.rank)), tuple(sorted(half, key=rubric.rank))
    )


def _elect_one(votes: Sequence[Annotation], rubric: Rubric, require: Require) -> _Elected:
    """Elect a group first, then the code with the most votes in it."""
    groups = {
        code: f"group {name}"
        for name, codes in group_codes(rubric.codes).items()
        for code in codes
        if require != "unanimous"
    }
    numbers = Counter(vote.primary or NONE for vote in votes)
    none = numbers.pop(NONE, 0)
    parties: dict[str, list[str]] = {}  # the codes voted for, strongest first, by group
    for code in sorted(numbers, key=lambda code: (-numbers[code], rubric.rank(code))):
        parties.setdefault(groups.get(code, code), []).append(code)

    def size(party: list[str]) -> int:
        return sum(numbers[code] for code in party)

    elected = [party for party in parties.values() if _is_enough(size(party), len(votes), require)]
    if elected:
        strongest = min(elected, key=lambda party: (-size(party), min(map(rubric.rank, party))))
        return _Elected("labelled", (strongest[0],))
    maximum = max(none, *map(size, parties.values())) if parties else none
    tie = [code for party in parties.values() if size(party) == maximum for code in party]
    return _elect_none(none, len(votes), require, tie + [NONE] * (none == maximum))


def _compute_agreement(votes: Sequence[Annotation], elected: _Elected, rubric: Rubric) -> float:
    """Return the share of the counted votes that equal the result."""
    if elected.status == "undecided":
        return 0.0
    if rubric.choice == "many":
        same = sum(set(vote.codes) == set(elected.codes) for vote in votes)
    else:
        label = elected.codes[0] if elected.codes else None
        same = sum(vote.primary == label for vote in votes)
    return round(same / len(votes), 6)


def _list_findings(ballots: Ballots, codes: Sequence[str] | None = None) -> tuple[Finding, ...]:
    """Return the first voter's finding for each code, with the number of votes. None: all codes."""
    findings: dict[str, list[Finding]] = {code: [] for code in codes or ()}
    for _, vote in ballots:
        for finding in vote.findings:
            if codes is None or finding.code in findings:
                findings.setdefault(finding.code, []).append(finding)
    return tuple(replace(same[0], votes=len(same)) for same in findings.values())
