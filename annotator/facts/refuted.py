"""Assurances that nothing clashes, held against the places where the patches meet."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from annotator.facts.known import Known
from annotator.facts.model import Fact, name_of
from annotator.patches.diff import same_path
from annotator.text import one_line

KINDS: Mapping[str, str] = {
    "assurance_refuted": "an agent says that the work does not clash, and the patches do",
}

_CLASHING = {
    "no_conflict": "the work does not clash",
    "disjoint": "the places that they change are apart",
    "independent": "the patches need not be combined",
}
_HANDED_IN = re.compile(r"\.(?:txt|diff|patch)\Z", re.IGNORECASE)  # what a patch is kept in


def facts(known: Known) -> Iterator[Fact]:
    """Yield each assurance to a partner whose patch changes the sender's lines in another way.

    One that names files is refuted in one of them only. That patches need not be combined is
    refuted where they are combined, and conflict.
    """
    meetings = meetings_of(known, same=False)
    conflicts = known.trace.outcome.merge == "conflicts"
    for one in known.of("assurance") if meetings else ():
        claim, agent = one.about["claim"], one.agents[0]
        if claim not in _CLASHING or (claim == "independent" and not conflicts):
            continue
        partners = known.partners_of(one)
        files = [name for name in one.about["files"] if not _HANDED_IN.search(name)]
        met = next(
            (
                x
                for x in between(meetings, agent, partners)
                if not files or any(same_path(name, x.about["path"]) for name in files)
            ),
            None,
        )
        if met is None:
            continue
        other = next(x for x in met.agents if x != agent)
        doubt = f' (with a doubt: "{one.about["hedge"]}")' if one.about["hedged"] else ""
        says = (
            f"{name_of(agent)} says in message {one.about['message']} that {_CLASHING[claim]}"
            f"{doubt}; its patch and {name_of(other)}'s change the same place of "
            f"{one_line(met.about['path'], 200)}."
        )
        details = {key: one.about[key] for key in ("message", "claim", "hedged", "hedge")}
        details |= {"path": met.about["path"], "merge": known.trace.outcome.merge}
        yield Fact("assurance_refuted", says, (agent, other), one.spans + met.spans, details)


def meetings_of(known: Known, *, same: bool) -> list[Fact]:
    """Return where patches meet, differing and overlapping places first; ``same``: equal ones too.

    Where both write the same, nothing clashes; but where the merge conflicts all the same, the rest
    of the place may.
    """
    met = known.of("hunks_overlap", "hunks_adjoin")
    if not same or known.trace.outcome.merge != "conflicts":
        met = [one for one in met if not one.about["same"]]
    return sorted(met, key=lambda one: (one.about["same"], one.kind != "hunks_overlap"))


def between(meetings: Sequence[Fact], agent: str, partners: Collection[str]) -> Iterator[Fact]:
    """Yield the places where an agent's patch meets one of its partners'."""
    for one in meetings:
        if agent in one.agents and any(x in partners for x in one.agents if x != agent):
            yield one
