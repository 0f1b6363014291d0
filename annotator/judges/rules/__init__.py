"""The built-in judge that needs no model: a table of small rules per rubric."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from annotator import __version__
from annotator.annotations import Verdict
from annotator.judges.base import LocalJudge
from annotator.judges.rules import comm_errors, symptoms
from annotator.judges.rules.overlap import MOST_PATCH
from annotator.judges.rules.passages import MOST_TEXT, spoken
from annotator.judges.rules.symptoms import MOST_OUTPUT
from annotator.rubrics import Rubric
from annotator.traces import Trace

__all__ = ["RulesJudge"]

_RUBRICS: Mapping[str, tuple[tuple[str, ...], Callable[[Trace], Verdict]]] = {
    "comm_errors": (comm_errors.CODES, comm_errors.judge),
    "symptoms": (symptoms.CODES, symptoms.judge),
}


class RulesJudge(LocalJudge):
    """The built-in deterministic judge: a baseline that a language model has to beat.

    It knows surface signs only: questions without a reply, near-duplicate messages, patches that
    change the same lines, what the harness reports. It never says C2, C3 or one of the design
    symptoms, and its patterns are English. Give its figures as a baseline, not as findings.

    The same trace gives the same verdict. It reads messages, patches and outcome, never an agent's
    steps, and does bounded work: of a message the first 20,000 characters (2,000 where messages are
    compared, each with the 20 before it by the same sender), of a patch the first 2,000,000, of a
    test output the last 400,000. What it did not read stands in the verdict's ``truncated``.
    """

    id = "rules"
    settings = MappingProxyType({"version": __version__})

    def unsupported(self, rubric: Rubric) -> str | None:
        """Return why this judge cannot use a rubric, or None if it can."""
        if rubric.id not in _RUBRICS:
            known = " and ".join(_RUBRICS)
            return (
                f"the rules judge has no rules for {rubric.id!r}; it knows {known}. Use --judge llm"
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

    def decide(self, trace: Trace, rubric: Rubric) -> Verdict:
        """Return what the rules find in a trace, with quotes taken from it word for word."""
        if reason := self.unsupported(rubric):
            return Verdict(error=reason)
        return replace(_RUBRICS[rubric.id][1](trace), truncated=_unread(trace))


def _unread(trace: Trace) -> dict[str, int]:
    """Return the sources that are longer than what the rules read, and by how many characters."""
    lengths = [(f"message:{one.n}", len(one.text), MOST_TEXT) for one in spoken(trace)]
    lengths += [(f"patch:{agent}", len(text), MOST_PATCH) for agent, text in trace.patches.items()]
    lengths += [("outcome", len(one.output), MOST_OUTPUT) for one in trace.outcome.features]
    left: Counter[str] = Counter()
    for source, length, most in lengths:
        left[source] += max(0, length - most)
    return dict(+left)
