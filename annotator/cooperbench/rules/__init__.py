"""Rules for three rubrics: they decide by the facts of a run, without a model."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from annotator.base.errors import AnnotatorError
from annotator.cooperbench.rules import comm_errors, emergent, symptoms
from annotator.cooperbench.rules.case import Case
from annotator.rubrics import Rubric
from annotator.rubrics.annotations import Verdict
from annotator.traces import Trace

REVISION = 8
"""Raise it with every change of a verdict: a calibration belongs to one revision."""

_RUBRICS: Mapping[str, tuple[tuple[str, ...], Callable[[Case], Verdict]]] = {
    "comm_errors": (comm_errors.CODES, comm_errors.judge),
    "symptoms": (symptoms.CODES, symptoms.judge),
    "emergent": (emergent.CODES, emergent.judge),
}

_RELIABLE_CODES: Mapping[str, frozenset[str]] = {"symptoms": frozenset(["implementation_failure"])}
"""The codes with a recall above one half, by its lower limit (docs/reference/judges.md)."""


def list_codes(rubric: Rubric) -> frozenset[str]:
    """Return the codes that have a rule.

    Raises:
        AnnotatorError: there are no rules for the rubric, or one for a code that it lacks.
    """
    if rubric.id not in _RUBRICS:
        *first_ids, last = _RUBRICS
        raise AnnotatorError(
            f"the rules judge has no rules for {rubric.id!r}; it knows "
            f"{', '.join(first_ids)} and {last}. Give --model NAME"
        )
    codes = frozenset(_RUBRICS[rubric.id][0])
    if missing := codes - {code.id for code in rubric.codes}:
        raise AnnotatorError(
            f"the rules judge needs the code(s) {', '.join(sorted(missing))}, "
            f"which this {rubric.id!r} does not have. Give --model NAME"
        )
    return codes


def list_screened_codes(rubric: Rubric) -> frozenset[str]:
    """Return the codes whose recall is not known to be above one half."""
    return list_codes(rubric) - _RELIABLE_CODES.get(rubric.id, frozenset())


def decide(trace: Trace, rubric: Rubric) -> Verdict:
    """Return what the rules find in a trace, with quotes copied from it; raises as ``list_codes``.

    The rules read messages, patches and outcome, in English, never an agent's steps. The verdict's
    ``truncated`` names texts that are too long to be read, or malformed.
    """
    list_codes(rubric)
    case = Case(trace)
    return replace(_RUBRICS[rubric.id][1](case), truncated=case.unread)
