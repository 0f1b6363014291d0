"""What a run may still cost."""

import asyncio

from annotator.errors import BudgetReached


class Budget:
    """Dollars that a run may cost in all, spent before and reserved for calls in flight included.

    ``dearest``: what a call has cost in an earlier part of the run, 0 if nothing is known.

    A call reserves the most that it can cost before it is sent. The first one goes alone, because a
    server may count tokens otherwise than we do; from then on no call reserves less than the
    dearest one has cost. Where a call does not fit, it waits for those in flight to turn out
    cheaper; if none is left, the budget is reached.
    """

    def __init__(self, most: float, spent: float = 0.0, dearest: float = 0.0) -> None:
        self.most = most
        self.spent = spent
        self._reserved = 0.0
        self._in_flight = 0
        self._dearest = dearest or None
        self._ratio = 1.0  # of what a call cost to what we thought that it can cost, the greatest
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

    async def reserve(self, dollars: float, *, tiny: bool) -> float:
        """Wait until a call that may cost ``dollars`` fits; return what was reserved for it.

        ``tiny``: it is no judgement.

        Raises:
            BudgetReached: it does not fit, and nothing is in flight.
        """
        async with self._changed:
            while True:
                wanted = dollars if tiny else max(dollars * self._ratio, self._dearest or 0.0)
                fits = self.spent + self._reserved + wanted <= self.most
                alone = self._in_flight == 0
                if fits and (alone or self._dearest is not None):
                    self._reserved += wanted
                    self._in_flight += 1
                    return wanted
                if alone:
                    raise self._reached("call", wanted)
                await self._changed.wait()

    async def settle(self, reserved: float, dollars: float | None, *, telling: bool) -> None:
        """End a call: it cost ``dollars``; what is not known counts as all that was reserved.

        ``telling``: a judgement was answered, so that this is what one can cost.
        """
        async with self._changed:
            self._reserved -= reserved
            self._in_flight -= 1
            cost = reserved if dollars is None else dollars
            self.spent += cost
            if telling:
                self._dearest = max(self._dearest or 0.0, cost)
                self._ratio = max(self._ratio, cost / reserved * self._ratio if reserved else 1.0)
            self._changed.notify_all()
