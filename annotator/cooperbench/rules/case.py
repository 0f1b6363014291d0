"""One trace as the rules see it: its facts, and how a claim is made of them."""

from collections import Counter
from collections.abc import Iterable
from functools import cached_property

from annotator.base.text import sanitize_line
from annotator.cooperbench.facts import Fact, FactSpan, draw_facts
from annotator.cooperbench.facts.patches import collect_added_lines, read_patches, says_nothing
from annotator.rubrics.annotations import Claim, Quote
from annotator.traces import Trace


class Case:
    """A trace and its facts, which are drawn when the first rule asks for them."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.facts = draw_facts(trace)

    def of(self, *kinds: str) -> list[Fact]:
        """Return the facts of some kinds."""
        return self.facts.of(*kinds)

    @cached_property
    def clashes(self) -> bool:
        """Whether the merge is reported to conflict, or does by git where nothing is reported."""
        if self.trace.outcome.merge is not None:
            return self.trace.outcome.merge == "conflicts"
        return any(merge.about["merge"] == "conflicts" for merge in self.of("merge_simulated"))

    @cached_property
    def accepted(self) -> dict[int, Fact]:
        """The messages that accept something, by number."""
        return {fact.about["message"]: fact for fact in self.of("acceptance")}

    @property
    def unread(self) -> dict[str, int]:
        """The sources that were not read in full, and how many characters of each were not."""
        unread: Counter[str] = Counter()
        for fact in self.of("not_read"):
            unread[fact.about["source"]] += fact.about["characters"]
        return dict(unread)

    def claim(
        self, code: str, rationale: str, *spans: FactSpan, shared: bool = False
    ) -> Claim | None:
        """Return a claim with its passages as quotes, without those inside another.

        It is None if a passage of a patch says nothing, or (but for ``shared``) is in another too.
        """
        outer = [x for x in dict.fromkeys(spans) if not any(_is_within(x, span) for span in spans)]
        quotes = [Quote(self.facts.text(span), span.source) for span in outer]
        patches = [quote for quote in quotes if quote.source.startswith("patch:")]
        if any(says_nothing(quote.text) for quote in patches):
            return None
        if not shared and any(self._shared(quote, patches) for quote in patches):
            return None
        return Claim(code, sanitize_line(rationale, 1_000), tuple(quotes))

    def _shared(self, quote: Quote, patches: Iterable[Quote]) -> bool:
        """Whether every line of a quote is one that another of the patches quoted adds as well."""
        lines = {line.removeprefix("+").strip() for line in quote.text.split("\n")}
        other_patches = {patch.source for patch in patches} - {quote.source}
        return any(lines <= self._added[source] for source in other_patches)

    @cached_property
    def _added(self) -> dict[str, frozenset[str]]:
        patches = read_patches(self.trace)
        return {f"patch:{agent}": collect_added_lines(patch) for agent, patch in patches.items()}


def _is_within(span: FactSpan, other: FactSpan) -> bool:
    inside = other.start <= span.start and span.end <= other.end
    return span != other and span.source == other.source and inside


def collect_spans(facts: Iterable[Fact]) -> list[FactSpan]:
    """Return the first passage of each fact that has one."""
    return [fact.spans[0] for fact in facts if fact.spans]
