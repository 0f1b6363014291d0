"""What messages and patches say of a piece of code: who names it, who calls it."""

import re
from collections.abc import Collection

from annotator.facts import Fact, Span
from annotator.facts.prose import span_of
from annotator.facts.python_code import parameters
from annotator.facts.sides import sentences, sides_of
from annotator.judges.rules.case import Case

_COMMENT = re.compile(r"\s*(?:#|//|\*|/\*|\"\"\"|''\')")


def naming(
    case: Case, name: str, agent: str | None = None, inside: Collection[str] = ()
) -> Span | None:
    """Return the sentence in which a message (of one agent) names something, or None.

    ``inside``: what may stand around it ("Tide" in "Tide.__init__"), if that is to count.
    """
    last = name.rpartition(".")[2]
    named = re.compile(rf"(?:(\w+)\.)?(?<!\w){re.escape(last)}(?!\w)")
    for said, sentence in sentences(case.known):
        if last not in sentence.text or agent not in (None, said.sender):
            continue
        match = named.search(sentence.text)
        if match and not (inside and match.group(1) and match.group(1) not in inside):
            return span_of(said, sentence, match.start())
    return None


def calls(case: Case, name: str) -> dict[str, Span]:
    """Return for each agent a line that its patch adds and that calls a function or method."""
    call = re.compile(rf"(?<!def )(?<!\w){re.escape(name)}\(")
    found = {}
    for agent, side in sides_of(case.known).items():
        lines = (line for line in side.added.values() if call.search(line.text))
        line = next((one for one in lines if not _COMMENT.match(one.text)), None)
        if line:
            found[agent] = side.span([line])
    return found


def may_be(change: Fact, call: str) -> bool:
    """Whether a call can be one of a method or function: a method is called of something."""
    name = re.escape(str(change.about["name"]))
    dotted = re.search(rf"\.{name}\(", call) is not None
    return dotted is (change.about["symbol"] == "method")


def word(name: str) -> re.Pattern[str]:
    """Return the pattern of a name as a whole word."""
    return re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")


def only_defaults(before: str, after: str) -> bool:
    """Whether a signature in Python only gains parameters that need not be given."""
    old, new = parameters(before), parameters(after)
    if old is None or new is None:
        return False
    return set(old) <= set(new) and all(one.default for one in set(new) - set(old))
