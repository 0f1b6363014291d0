"""What a run may cost, and what is set aside for calls in flight."""

import asyncio
from collections import defaultdict
from dataclasses import dataclass

from annotator.base.errors import BudgetReached


@dataclass(slots=True)
class _Outlook:
    """What calls of one model have cost so far: what the next one is expected to.

    ``more``: the most that one has cost beyond what its prompt was expected to; None: none has been
    answered yet.
    """

    dearest: float = 0.0
    more: float | None = None
    in_flight: int = 0

    def expects(self, prompt: float, answer: float) -> float:
        if self.more is None and not self.dearest:
            return prompt + answer
        return max(self.dearest, prompt + (self.more or 0.0))

    @property
    def is_blank(self) -> bool:
        return self.more is None and not self.dearest


class Budget:
    """Dollars that a run may cost in all, spent before and reserved for calls in flight included.

    ``dearest``: what a call has cost in an earlier part of the run, 0 if nothing is known.

    Nothing bounds an answer for the sake of money, so that what a call costs is known when it is
    answered and not before. It reserves what calls of its model have cost so far, the dearest of
    them; the first one of a model goes alone and reserves a guess. Where a call does not fit, it
    waits for those in flight to turn out cheaper; if none is left, the budget is reached. So a run
    exceeds its budget at most by what the calls in flight at one moment cost more than the dearest
    before them: nothing where answers are alike, and never by more than one answer for each.
    """

    def __init__(self, most: float, spent: float = 0.0, dearest: float = 0.0) -> None:
        self.most = most
        self.spent = spent
        self._reserved = 0.0
        self._in_flight = 0
        self._outlooks: dict[str, _Outlook] = defaultdict(lambda: _Outlook(dearest))
        self._changed = asyncio.Condition()

    def check(self, dollars: float) -> None:
        """Raise :class:`BudgetReached` if a batch may cost more than is left."""
        if self.spent + dollars > self.most:
            raise self._reached("batch", dollars)

    def _reached(self, what: str, dollars: float) -> BudgetReached:
        return BudgetReached(
            f"the next {what} may cost {dollars:.4f} USD, and {self.spent:.4f} of"
            f" {self.most:.4f} USD (--max-cost) are spent"
        )

    async def reserve(self, call: "Expected") -> float:
        """Wait until a call fits; return what was reserved for it.

        Raises:
            BudgetReached: it does not fit, and nothing is in flight.
        """
        outlook = self._outlooks[call.model]
        async with self._changed:
            while True:
                wanted = call.dollars if call.tiny else outlook.expects(call.prompt, call.answer)
                fits = self.spent + self._reserved + wanted <= self.most
                if fits and not (outlook.is_blank and outlook.in_flight):
                    self._reserved += wanted
                    self._in_flight += 1
                    outlook.in_flight += 1
                    return wanted
                if not self._in_flight:
                    raise self._reached("call", wanted)
                await self._changed.wait()

    async def settle(
        self, call: "Expected", reserved: float, dollars: float | None, *, telling: bool
    ) -> None:
        """End a call: it cost ``dollars``; what is not known counts as all that was reserved.

        ``telling``: a judgement was answered, so that this is what one can cost.
        """
        outlook = self._outlooks[call.model]
        async with self._changed:
            self._reserved -= reserved
            self._in_flight -= 1
            outlook.in_flight -= 1
            cost = reserved if dollars is None else dollars
            self.spent += cost
            if telling and not call.tiny:
                outlook.dearest = max(outlook.dearest, cost)
                outlook.more = max(outlook.more or 0.0, cost - call.prompt)
            self._changed.notify_all()


@dataclass(frozen=True, slots=True)
class Expected:
    """What a call is expected to use before anything of its model is known.

    ``tokens``: in all, roughly. ``prompt``: dollars for what is sent, rather more; ``answer``: for
    a long answer. ``tiny``: it is no judgement. ``least``: tokens that the prompt has in any case.
    """

    model: str
    tokens: int
    prompt: float
    answer: float
    tiny: bool = False
    least: int = 0

    @property
    def dollars(self) -> float:
        """What it may cost in all."""
        return self.prompt + self.answer
