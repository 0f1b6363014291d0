"""What agents state of their work, as facts: promises, claims, assurances and agreements."""

from collections.abc import Iterator, Mapping, Sequence

from annotator.facts.agreements import who
from annotator.facts.conversation import assents
from annotator.facts.known import Known
from annotator.facts.model import Fact, name_of
from annotator.facts.naming import names_between
from annotator.facts.phrases import Statement
from annotator.facts.prose import Said, span_of
from annotator.facts.statements import (
    AGREEMENTS,
    ASSURANCES,
    PROMISES,
    RETRACTIONS,
    Finder,
    statements,
)
from annotator.text import one_line

_AGREEMENTS = frozenset(["placement_agreement", "order_agreement"])
_FOLLOWING = 5  # messages of the partners in which a place or an order may be accepted
_AFTER = 100
_SAYS = {
    "commitment": "commits itself",
    "completion_claim": "reports something as done",
    "retraction": "takes work back",
    "assurance": "gives an assurance",
    "clash_stated": "says that the work clashes",
    "placement_agreement": "says where something goes",
    "order_agreement": "says who goes first",
}


class Stated:
    """A module of facts: the statements of some kinds, message by message."""

    def __init__(self, kinds: Mapping[str, str], finders: Sequence[Finder]) -> None:
        self.KINDS = kinds
        self._finders = finders

    def facts(self, known: Known) -> Iterator[Fact]:
        """Yield the statements."""
        for at, said in enumerate(known.messages):
            for statement in statements(said, self._finders):
                accepted = _accepted(known.messages, at) if statement.kind in _AGREEMENTS else None
                yield _statement(statement, said, accepted, known.trace.agents)


def _statement(
    statement: Statement, said: Said, accepted: int | None, agents: Sequence[str]
) -> Fact:
    sentence = statement.sentence
    names = names_between(said, sentence.start + statement.start, sentence.start + statement.end)
    about = {"message": said.n, **statement.details, **names}
    about |= {"hedged": statement.hedge is not None, "hedge": statement.hedge}
    if statement.kind in _AGREEMENTS:
        about["agreed_in"] = accepted
    if statement.kind == "order_agreement":
        about["first"] = who(said, about["first"], agents)
    span = span_of(said, sentence, statement.start)
    shown = one_line(said.text[span.start : span.end], 160)
    says = f'{name_of(said.sender)} {_SAYS[statement.kind]} in message {said.n}: "{shown}"'
    return Fact(statement.kind, says, (said.sender,), (span,), about)


def _accepted(messages: Sequence[Said], at: int) -> int | None:
    """Return the number of the message in which a partner accepts what another says, or None.

    It is one of the partners' next five in the 100 messages after it: an acceptance by its own type
    or by how it begins, and that goes on with no "but".
    """
    replies = 0
    for one in messages[at + 1 : at + 1 + _AFTER]:
        if one.sender == messages[at].sender:
            continue
        if assents(one):
            return None if any("but" in x.words for x in one.sentences[:2]) else one.n
        replies += 1
        if replies == _FOLLOWING:
            break
    return None


promises = Stated(
    {
        "commitment": "an agent says what it will do or takes on",
        "completion_claim": "an agent says that something is done, in place or passes",
    },
    PROMISES,
)
retracted = Stated(
    {
        "retraction": "an agent says that it takes back work that it had done or promised",
    },
    RETRACTIONS,
)
assured = Stated(
    {
        "assurance": "an agent says that there is no conflict, or what it leaves untouched",
        "clash_stated": "an agent says that the work does conflict or overlap",
    },
    ASSURANCES,
)
agreed = Stated(
    {
        "placement_agreement": "an agent says where in the code something goes",
        "order_agreement": "an agent says who goes first",
    },
    AGREEMENTS,
)
