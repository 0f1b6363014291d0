"""The built-in judge that needs no model: a baseline that a language model has to beat."""

import time
from dataclasses import replace
from types import MappingProxyType

from annotator import __version__
from annotator.cooperbench import rules
from annotator.judges.base import RunJudge
from annotator.rubrics import Rubric
from annotator.rubrics.annotations import Usage, Verdict
from annotator.traces import Trace


class RulesJudge(RunJudge):
    """Judges by the rules of :mod:`annotator.cooperbench.rules`.

    It screens for most codes: what it finds counts, what it does not find may still be there.
    """

    id = "rules"
    settings = MappingProxyType({"version": __version__, "rules": rules.REVISION})

    def codes(self, rubric: Rubric) -> frozenset[str]:
        """Return the codes that have a rule; raises AnnotatorError if none has."""
        return rules.list_codes(rubric)

    def screens(self, rubric: Rubric) -> frozenset[str]:
        """Return the codes that it can find and cannot rule out."""
        return rules.list_screened_codes(rubric)

    async def judge(self, trace: Trace, rubric: Rubric) -> Verdict:
        """Return the verdict, with its duration."""
        begun = time.monotonic()
        verdict = rules.decide(trace, rubric)
        return replace(verdict, usage=Usage(seconds=round(time.monotonic() - begun, 6)))
