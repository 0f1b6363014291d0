"""One trace as the rules see it: its facts, and how a claim is made of them."""

from collections import Counter
from collections.abc import Iterable
from functools import cached_property

from annotator.annotations import Claim, Quote
from annotator.facts import Fact, Span
from annotator.facts.patches import says_nothing
from annotator.facts.registry import know
from annotator.text import one_line
from annotator.traces import Trace


class Case:
    """A trace and what is known of it. Facts are drawn when the first rule asks for them."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.known = know(trace)

    def of(self, *kinds: str) -> list[Fact]:
        """Return the facts of some kinds."""
        return self.known.of(*kinds)

    @cached_property
    def clashes(self) -> bool:
        """Whether the merge is reported to conflict, or does by git where nothing is reported."""
        if self.trace.outcome.merge is not None:
            return self.trace.outcome.merge == "conflicts"
        return any(one.about["merge"] == "conflicts" for one in self.of("merge_simulated"))

    @cached_property
    def accepted(self) -> dict[int, Fact]:
        """The messages that accept something, by number."""
        return {one.about["message"]: one for one in self.of("acceptance")}

    @property
    def unread(self) -> dict[str, int]:
        """The sources that were not read in full, and how many characters of each were not."""
        left: Counter[str] = Counter()
        for one in self.of("not_read"):
            left[one.about["source"]] += one.about["characters"]
        return dict(left)

    def claim(self, code: str, rationale: str, *spans: Span) -> Claim | None:
        """Return a claim that rests on some passages, each quoted once, none within another.

        None if a passage of a patch says nothing, or stands in two patches alike: it shows nothing.
        """
        apart = [x for x in dict.fromkeys(spans) if not any(_within(x, one) for one in spans)]
        quotes = [Quote(self.known.text(one), one.source) for one in apart]
        patches = [one.text for one in quotes if one.source.startswith("patch:")]
        alike = len({"".join(text.split()) for text in patches}) < len(patches)
        if alike or any(map(says_nothing, patches)):
            return None
        return Claim(code, one_line(rationale, 1_000), tuple(quotes))


def _within(span: Span, other: Span) -> bool:
    return (
        span != other
        and span.source == other.source
        and other.start <= span.start
        and span.end <= other.end
    )


def spans(facts: Iterable[Fact]) -> list[Span]:
    """Return the first passage of each fact that has one."""
    return [fact.spans[0] for fact in facts if fact.spans]
