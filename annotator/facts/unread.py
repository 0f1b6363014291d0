"""What was too long or too odd to be looked at: of messages, patches and test outputs."""

from collections.abc import Iterator, Mapping

from annotator.facts.known import Known
from annotator.facts.model import Fact
from annotator.facts.outcome import MOST_OUTPUT
from annotator.facts.patches import left_out
from annotator.facts.prose import MOST_MESSAGES, MOST_TEXT, MOST_TOTAL
from annotator.text import count

KINDS: Mapping[str, str] = {"not_read": "text that was too long to be looked at"}


def facts(known: Known) -> Iterator[Fact]:
    """Yield a fact for each message, patch and test output of which a part was not read."""
    yield from left_out(known.trace)
    spoken = known.trace.spoken
    lengths = [len(message.text) for message in spoken]
    if (
        len(spoken) > MOST_MESSAGES
        or sum(lengths) > MOST_TOTAL
        or max(lengths, default=0) > MOST_TEXT
    ):
        left = [(one.message, len(one.text) - one.stop) for one in known.messages]
        left += [(message, len(message.text)) for message in spoken[len(known.messages) :]]
        for message, characters in left:
            if characters:
                says = (
                    f"{count(characters, 'character')} of message {message.n} were not looked at."
                )
                about = {"message": message.n, "source": f"message:{message.n}"}
                about["characters"] = characters
                yield Fact("not_read", says, (message.sender,), (), about)
    for feature in known.trace.outcome.features:
        if (skipped := len(feature.output) - MOST_OUTPUT) > 0:
            says = f"The first {count(skipped, 'character')} of a test output were not looked at."
            agents = (feature.agent,) if feature.agent else ()
            yield Fact("not_read", says, agents, (), {"source": "outcome", "characters": skipped})
