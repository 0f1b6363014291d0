"""An annotator's decision about one trace, and its line in a file."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from annotator.base.errors import UnreadableTrace
from annotator.base.text import replace_surrogates, sanitize_line
from annotator.labels.checking import (
    Problems,
    RowCheck,
    check_label,
    check_unlabelled,
    is_labelled,
    is_none,
    is_number,
)
from annotator.labels.model import LabelRow, Passage
from annotator.rubrics import Rubric, Scheme
from annotator.traces import Trace

# Columns that are copied from a sheet to a label.
COLUMNS = ("order", "task", "split", "inclusion_probability", "design", "rater")
REVIEW = ("reviewed", "review")  # that a label has seen the judge's answer, and the verdicts


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision about a trace, or that it is ``skipped`` for now.

    Without a code, the annotator says that none applies. A rubric of ``many`` codes has all of them
    in ``secondary``. ``evidence`` are quotes with a place, ``quotes`` those without. ``confidence``
    is 1 to 5, ``seconds`` the time it took.
    """

    trace_id: str
    primary: str | None = None
    secondary: tuple[str, ...] = ()
    evidence: tuple[Passage, ...] = ()
    quotes: tuple[str, ...] = ()
    note: str = ""
    confidence: int | None = None
    skipped: bool = False
    seconds: float | None = None


def read_decision(row: LabelRow, scheme: Scheme, problems: Problems) -> Decision | None:
    """Return the decision in a row; None if there is none yet, or after a problem."""
    seconds = row.fields.get("seconds")
    if seconds is not None and not (is_number(seconds) and 0 <= seconds < math.inf):
        RowCheck(row, scheme, problems).expect("a number of at least 0", "seconds", seconds)
        return None
    if not is_labelled(row.fields, scheme):
        trace_id = check_unlabelled(row, scheme, problems)
        if trace_id is None or row.fields.get("skipped") is not True:
            return None
        note = replace_surrogates(row.fields.get("note") or "")
        return Decision(trace_id, note=note, skipped=True, seconds=seconds)
    label = check_label(row, scheme, problems)
    if label is None:
        return None
    return Decision(
        trace_id=label.trace_id,
        primary=label.primary,
        secondary=label.secondary,
        evidence=label.spans,
        quotes=find_unplaced(label.evidence, label.spans),
        note=label.note,
        confidence=label.confidence,
        seconds=seconds,
    )


def find_unplaced(quotes: Iterable[str], spans: Iterable[Passage]) -> tuple[str, ...]:
    """Return the quotes that are no passage, each as often as it is left over."""
    return tuple((Counter(quotes) - Counter(span.quote for span in spans)).elements())


def read_drawing(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the :data:`COLUMNS` and :data:`REVIEW` of a row that are filled in."""
    return {name: row[name] for name in COLUMNS + REVIEW if row.get(name) is not None}


def build_fields(decision: Decision, scheme: Scheme, drawing: Mapping[str, Any]) -> dict[str, Any]:
    """Return a decision's fields in a file but its ids; ``drawing``: by :func:`read_drawing`."""
    fields: dict[str, Any] = {"skipped": True} if decision.skipped else {}
    codes = [*((decision.primary,) if decision.primary is not None else ()), *decision.secondary]
    if scheme.choice == "many":
        fields |= {"primary": None, "secondary": codes}
    else:
        primary = None if is_none(decision.primary) else decision.primary
        fields |= {"primary": primary, "secondary": list(decision.secondary)}
    if decision.skipped and not codes:
        del fields["primary"]
    spans = [
        {name: getattr(span, name) for name in Passage.__dataclass_fields__}
        for span in decision.evidence
    ]
    return fields | {
        "evidence": [*(span.quote for span in decision.evidence), *decision.quotes],
        "note": decision.note,
        "confidence": decision.confidence,
        **drawing,
        "spans": spans,
        "seconds": decision.seconds,
    }


def check_passages(
    trace: Trace, rubric: Rubric | Scheme, passages: Iterable[Passage]
) -> str | None:
    """Return why a passage is no evidence (source, offsets, pieces), or None. A scheme takes quotes
    from every source.
    """
    for passage in passages:
        if problem := _find_problem(trace, rubric, passage):
            source = sanitize_line(passage.source, 80)
            return f'quote "{sanitize_line(passage.quote, 80)}" of {source}: {problem}'
    return None


def _find_problem(trace: Trace, rubric: Rubric | Scheme, passage: Passage) -> str | None:
    try:
        source = trace.source(passage.source)
    except UnreadableTrace as error:
        return str(error)
    if source is None:
        return "the trace has no such text"
    if isinstance(rubric, Rubric) and source.origin not in rubric.quote_from:
        accepted = ", ".join(rubric.quote_from)
        return f"{rubric.id} takes no quotes from the {source.origin}, only from {accepted}"
    if not passage.quote.strip():
        return "nothing but white space"
    if not 0 <= passage.start < passage.end <= len(source.text):
        return f"no place from {passage.start} to {passage.end} in {len(source.text)} characters"
    if source.text[passage.start : passage.end] != passage.quote:
        return f"other words stand from {passage.start} to {passage.end}"
    if any(passage.start <= at < passage.end for at in source.breaks):
        return "it runs across two pieces that only stand one after the other; quote one of them"
    return None
