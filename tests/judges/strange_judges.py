"""Judges as strangers write them, good ones and bad ones, to be named as ``module:name``."""

import asyncio

from annotator import Claim, Quote, Verdict
from annotator.base.errors import BudgetReached, JudgeStopped
from annotator.rubrics.annotations import Usage


def echo(trace, code="C3a"):
    """A claim with two quotes that stand in the trace."""
    quotes = tuple(Quote(one.text, f"message:{one.n}") for one in trace.messages[:2])
    return Claim(code, "", quotes)


class Good:
    id = "good"
    settings = {"least": (1, 2)}

    def codes(self, rubric):
        return {"C3a"}

    def judge(self, trace, rubric):
        return Verdict((echo(trace),))


class Awaited(Good):
    async def judge(self, trace, rubric):
        await asyncio.sleep(0)
        return Verdict((echo(trace),))


def made():
    return Good()


ready = Good()


class Full(Good):
    """All that a run asks, some of it as ``async def`` and some not."""

    overhead = Usage(input_tokens=7, calls=1.0, cost_usd=0.5)  # as pandas has whole numbers
    state = "half full"
    assumption = "ten tokens a trace"
    calls: list[object] = []

    def screens(self, rubric):
        return ["C3a"]

    def expects(self, trace, rubric):
        return Usage(input_tokens=10, calls=1, cost_usd=0.25)

    @property
    def learned(self):
        return {"seen": 3}

    def recall(self, learned):
        self.calls.append(learned)

    async def open(self):
        self.calls.append("open")

    def close(self):
        self.calls.append("close")


class NoCodes:
    id, settings = "x", {}

    def judge(self, trace, rubric):
        return Verdict()


class NoJson(Good):
    settings = {"when": object()}


class Stops(Good):
    def judge(self, trace, rubric):
        raise JudgeStopped("the key was refused")


class Spent(Good):
    def judge(self, trace, rubric):
        raise BudgetReached("nothing is left")


nothing_like_it = 7


class Raises(Good):
    def judge(self, trace, rubric):
        return {}["message\n3"]


class NoVerdict(Good):
    def judge(self, trace, rubric):
        return {"C3a"}


class NoCost(Good):
    def judge(self, trace, rubric):
        return Verdict(usage=Usage(cost_usd=float("nan")))


class OtherCode(Good):
    def judge(self, trace, rubric):
        return Verdict((echo(trace, "C1a"),), usage=Usage(calls=1, cost_usd=0.5))
