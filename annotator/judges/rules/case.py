"""One trace as the rules see it: its facts, and how a claim is made of them."""

from collections import Counter
from collections.abc import Iterable
from functools import cached_property

from annotator.annotations import Claim, Quote
from annotator.facts import Fact, Span
from annotator.facts.registry import know
from annotator.text import one_line
from annotator.traces import Trace

FEWEST_LINES = 2
"""Lines of an agreed text that must be missing to say that it was not written."""


class Case:
    """A trace and what is known of it. Facts are drawn when the first rule asks for them."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.known = know(trace)

    def of(self, *kinds: str) -> list[Fact]:
        """Return the facts of some kinds."""
        return self.known.of(*kinds)

    @property
    def failed(self) -> bool:
        """Whether the run is known to have failed."""
        return self.trace.outcome.passed is False

    @property
    def clashes(self) -> bool:
        """Whether the merge is reported to conflict."""
        return self.trace.outcome.merge == "conflicts"

    @property
    def meaning_lost(self) -> bool:
        """Whether a feature fails after a merge without a conflict and passes by itself."""
        together = self.trace.outcome.merge in ("clean", "identical")
        return self.failed and together and bool(self.of("feature_lost"))

    @cached_property
    def acceptances(self) -> dict[int, Fact]:
        """The messages that accept something, by number."""
        return {one.about["message"]: one for one in self.of("acceptance")}

    @property
    def unread(self) -> dict[str, int]:
        """The sources that were not read in full, and how many characters of each were not."""
        left: Counter[str] = Counter()
        for one in self.of("not_read"):
            left[one.about["source"]] += one.about["characters"]
        return dict(left)

    def claim(self, code: str, rationale: str, *spans: Span) -> Claim:
        """Return a claim that rests on some passages, each quoted once."""
        quotes = [Quote(self.known.text(one), one.source) for one in dict.fromkeys(spans)]
        return Claim(code, one_line(rationale, 1_000), tuple(quotes))


def spans(facts: Iterable[Fact]) -> list[Span]:
    """Return the first passage of each fact that has one."""
    return [fact.spans[0] for fact in facts if fact.spans]
