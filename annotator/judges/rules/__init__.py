"""The built-in judge that needs no model: a table of small rules per rubric, over the facts."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from annotator import __version__
from annotator.annotations import Verdict
from annotator.judges.base import LocalJudge
from annotator.judges.rules import comm_errors, emergent, symptoms
from annotator.judges.rules.case import Case
from annotator.rubrics import Rubric
from annotator.traces import Trace

__all__ = ["RulesJudge"]

REVISION = 5
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


class RulesJudge(LocalJudge):
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

    def unsupported(self, rubric: Rubric) -> str | None:
        """Return why this judge cannot use a rubric, or None if it can."""
        if rubric.id not in _RUBRICS:
            *others, last = _RUBRICS
            return (
                f"the rules judge has no rules for {rubric.id!r}; it knows "
                f"{', '.join(others)} and {last}. Use --judge llm"
            )
        missing = set(_RUBRICS[rubric.id][0]) - {code.id for code in rubric.codes}
        if missing:
            return (
                f"the rules judge needs the code(s) {', '.join(sorted(missing))}, "
                f"which this {rubric.id!r} does not have. Use --judge llm"
            )
        return None

    def codes(self, rubric: Rubric) -> frozenset[str]:
        """Return the codes that there is a rule for."""
        return frozenset(_RUBRICS[rubric.id][0]) if rubric.id in _RUBRICS else frozenset()

    def screens(self, rubric: Rubric) -> frozenset[str]:
        """Return the codes of which it was not shown to find more than half on labelled runs."""
        return self.codes(rubric) - _SHOWN.get(rubric.id, frozenset())

    def decide(self, trace: Trace, rubric: Rubric) -> Verdict:
        """Return what the rules find in a trace, with quotes taken from it word for word."""
        if reason := self.unsupported(rubric):
            return Verdict(error=reason)
        case = Case(trace)
        return replace(_RUBRICS[rubric.id][1](case), truncated=case.unread)
