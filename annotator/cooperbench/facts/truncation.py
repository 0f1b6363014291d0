"""Facts of truncation: messages, patches and test outputs that were too long to be read."""

from collections.abc import Iterator, Mapping

from annotator.base.text import format_count, sanitize_line
from annotator.cooperbench.facts.model import Fact
from annotator.cooperbench.facts.outcome import MOST_OUTPUT
from annotator.cooperbench.facts.patches import read_patches
from annotator.cooperbench.facts.prose import MOST_MESSAGES, MOST_TEXT, MOST_TOTAL
from annotator.cooperbench.facts.trace_facts import TraceFacts
from annotator.traces import Trace

KINDS: Mapping[str, str] = {"not_read": "text that was too long to be looked at"}


def draw_unread(facts: TraceFacts) -> Iterator[Fact]:
    """Yield a fact for each patch, message and test output that was not read in full."""
    yield from _find_unread_patches(facts.trace)
    yield from _find_unread_messages(facts)
    for feature in facts.trace.outcome.features:
        if (skipped := len(feature.output) - MOST_OUTPUT) > 0:
            says = (
                f"The first {format_count(skipped, 'character')} of a test output were"
                " not looked at."
            )
            agents = (feature.agent,) if feature.agent else ()
            yield Fact("not_read", says, agents, (), {"source": "outcome", "characters": skipped})


def _find_unread_patches(trace: Trace) -> Iterator[Fact]:
    patches = read_patches(trace)
    for agent, text in trace.patches.items():
        missing = patches[agent].unread if agent in patches else len(text)
        if missing:
            source = f"patch:{agent}"
            says = (
                f"{format_count(missing, 'character')} of {sanitize_line(source, 80)}"
                " were not read."
            )
            yield Fact("not_read", says, (agent,), (), {"source": source, "characters": missing})


def _find_unread_messages(facts: TraceFacts) -> Iterator[Fact]:
    messages = facts.trace.spoken
    lengths = [len(message.text) for message in messages]
    few = len(messages) <= MOST_MESSAGES and sum(lengths) <= MOST_TOTAL
    if few and max(lengths, default=0) <= MOST_TEXT:
        return  # the common case: no message need be parsed
    omitted = [(message.original, len(message.text) - message.stop) for message in facts.messages]
    omitted += [(message, len(message.text)) for message in messages[len(facts.messages) :]]
    for message, characters in omitted:
        if characters:
            says = (
                f"{format_count(characters, 'character')} of message {message.n} were"
                " not looked at."
            )
            about = {"message": message.n, "source": f"message:{message.n}"}
            yield Fact("not_read", says, (message.sender,), (), {**about, "characters": characters})
