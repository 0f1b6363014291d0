"""The built-in judge that needs no model: a table of small rules per rubric, over the facts."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from annotator import __version__
from annotator.annotations import Usage, Verdict
from annotator.errors import AnnotatorError
from annotator.judges.base import FreeJudge
from annotator.judges.rules import comm_errors, emergent, symptoms
from annotator.judges.rules.case import Case
from annotator.rubrics import Rubric
from annotator.traces import Trace

__all__ = ["RulesJudge"]

REVISION = 8
"""Of what the rules and the facts find. Raised with every change of that: a calibration belongs to
the judge that it was made with.
"""

_RUBRICS: Mapping[str, tuple[tuple[str, ...], Callable[[Case], Verdict]]] = {
    "comm_errors": (comm_errors.CODES, comm_errors.judge),
    "symptoms": (symptoms.CODES, symptoms.judge),
    "emergent": (emergent.CODES, emergent.judge),
}


_SHOWN: Mapping[str, frozenset[str]] = {"symptoms": frozenset(["implementation_failure"])}
"""The codes of which it was shown that more than half are found: the lower limit of the recall on
labelled runs is above one half (docs/judges.md).
"""


class RulesJudge(FreeJudge):
    """The built-in deterministic judge: a baseline that a language model has to beat.

    It decides by what a program can establish (:mod:`annotator.facts`): what agents flatly state
    and ask, what their patches do, what the harness reports. Its patterns are English. It finds,
    excludes, or does not know: what it cannot establish is undecided. For most codes it is a
    screen: what it finds counts, what it does not find is not known to be absent.

    The same trace gives the same verdict. It reads messages, patches and outcome, never an agent's
    steps, and does bounded work; what it did not read stands in the verdict's ``truncated``.
    """

    id = "rules"
    settings = MappingProxyType({"version": __version__, "rules": REVISION})

    def codes(self, rubric: Rubric) -> frozenset[str]:
        """Return the codes that there is a rule for.

        Raises:
            AnnotatorError: there are no rules for the rubric, or one for a code that it lacks.
        """
        if rubric.id not in _RUBRICS:
            *first_ids, last = _RUBRICS
            raise AnnotatorError(
                f"the rules judge has no rules for {rubric.id!r}; it knows "
                f"{', '.join(first_ids)} and {last}. Use --judge llm"
            )
        codes = frozenset(_RUBRICS[rubric.id][0])
        if missing := codes - {code.id for code in rubric.codes}:
            raise AnnotatorError(
                f"the rules judge needs the code(s) {', '.join(sorted(missing))}, "
                f"which this {rubric.id!r} does not have. Use --judge llm"
            )
        return codes

    def screens(self, rubric: Rubric) -> frozenset[str]:
        """Return the codes of which it was not shown to find more than half on labelled runs."""
        return self.codes(rubric) - _SHOWN.get(rubric.id, frozenset())

    def decide(self, trace: Trace, rubric: Rubric) -> Verdict:
        """Return what the rules find in a trace, with quotes taken from it word for word; raises as
        :meth:`codes`.
        """
        self.codes(rubric)
        case = Case(trace)
        return replace(_RUBRICS[rubric.id][1](case), truncated=case.unread)

    async def judge(self, trace: Trace, rubric: Rubric) -> Verdict:
        """Return what :meth:`decide` does, and how long it took."""
        begun = time.monotonic()
        verdict = self.decide(trace, rubric)
        return replace(verdict, usage=Usage(seconds=round(time.monotonic() - begun, 6)))
