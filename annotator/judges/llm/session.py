"""What all judges of one run share: how fast they ask, what the run may cost, what is known."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, Protocol

from annotator.judges.llm.budget import Budget
from annotator.judges.llm.cache import AnswerCache
from annotator.judges.llm.pace import Pace
from annotator.judges.llm.reply import ModeRefused
from annotator.rubrics.annotations import Usage


class Outbox(Protocol):
    """Takes questions that are not answered at once.

    ``asks_again``: what was answered badly can be asked again in a resumed run. ``spent``: what it
    used for no answer.
    """

    asks_again: bool
    spent: Usage

    def refusal(self, key: str) -> ModeRefused | None:
        """Return why the server does not take a question, if that is what its results say."""

    def ask(self, key: str, body: Mapping[str, Any], most: float) -> NoReturn:
        """Take a question that may cost ``most`` dollars.

        Raises Pending, or CallFailed if it will not be answered.
        """

    def close(self) -> None:
        """Drop the questions that are neither kept nor sent."""


@dataclass
class Session:
    """One pace and one budget for all models, one cache of answers, and the user's price files.

    ``in_batches``: the questions go into batches, which have prices of their own. ``offline``:
    nothing is called, and no key is needed.
    """

    pace: Pace = field(default_factory=Pace)
    budget: Budget | None = None
    cache: AnswerCache | None = None
    prices: tuple[Path, ...] = ()
    in_batches: bool = False
    offline: bool = False
