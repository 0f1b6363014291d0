"""The labels of two annotators compared, and the gold labels made of them."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from annotator.base.errors import AnnotatorError
from annotator.base.text import sanitize_line
from annotator.labels.decisions import Decision, check_passages, find_unplaced
from annotator.labels.model import Label, Labels
from annotator.labels.store import LabelStore
from annotator.rubrics import Rubric
from annotator.traces import Trace, Unreadable

# Fields of how a trace was sampled; both labels must have the same.
_SAMPLING = ("task", "split", "inclusion_probability", "design")


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A trace that two annotators labelled differently."""

    trace_id: str
    first: Label
    second: Label


class TwoReaders(NamedTuple):
    """Two annotators' labels, in the order of the first annotator.

    ``agreed``: same primary code, same other codes. ``only_one``: traces with one label.
    """

    agreed: list[tuple[Label, Label]]
    differing: list[Disagreement]
    only_one: list[str]


def compare_annotators(labels: Labels, first: str, second: str) -> TwoReaders:
    """Return the traces on which two annotators agree and differ.

    Raises:
        AnnotatorError: one of them has no labels, they are the same person, they share no trace, or
            two labels contradict each other about the sampling of their trace.
    """
    for annotator in (first, second):
        if annotator not in labels.annotators:
            names = ", ".join(sanitize_line(name, 60) for name in labels.annotators)
            raise AnnotatorError(f"no labels of {sanitize_line(annotator, 60)!r}, only of {names}")
    if first == second:
        raise AnnotatorError(f"two annotators are needed, and {sanitize_line(first, 60)!r} is one")
    firsts, seconds = labels.of(first), labels.of(second)
    readers = TwoReaders([], [], [])
    for trace_id, label in firsts.items():
        second_label = seconds.get(trace_id)
        if second_label is None:
            readers.only_one.append(trace_id)
            continue
        combine_drawing(label, second_label)  # before anything is written
        if _get_codes(label) == _get_codes(second_label):
            readers.agreed.append((label, second_label))
        else:
            readers.differing.append(Disagreement(trace_id, label, second_label))
    readers.only_one.extend(trace_id for trace_id in seconds if trace_id not in firsts)
    if not readers.agreed and not readers.differing:
        names = f"{sanitize_line(first, 60)} and {sanitize_line(second, 60)}"
        raise AnnotatorError(f"{names} labelled no trace in common")
    return readers


def _get_codes(label: Label | Decision) -> tuple[str | None, frozenset[str]]:
    return label.primary, frozenset(label.secondary)


def combine_drawing(first: Label, second: Label) -> dict[str, Any]:
    """Return how a trace was sampled, from either label; AnnotatorError if they differ."""
    extra: dict[str, Any] = {}
    for name in _SAMPLING:
        values = [getattr(label, name) for label in (first, second)]
        distinct = {value for value in values if value is not None}
        if len(distinct) > 1:
            contradiction = " and ".join(
                f"{sanitize_line(str(value), 80)} ({label.where})"
                for value, label in zip(values, (first, second), strict=True)
            )
            raise AnnotatorError(
                f"{name} of {sanitize_line(first.trace_id, 120)!r}: {contradiction}; one trace was"
                " drawn in one way only, make them the same"
            )
        if distinct:
            extra[name] = distinct.pop()
    return extra


def drop_stale_spans(label: Label, trace: Trace | Unreadable, rubric: Rubric) -> Label:
    """Return a label without the places at which its quotes are not in the trace.

    The quotes themselves stay. An unreadable trace keeps no place.
    """
    if isinstance(trace, Unreadable):
        return replace(label, spans=())
    spans = (span for span in label.spans if check_passages(trace, rubric, [span]) is None)
    return replace(label, spans=tuple(spans))


def describe_agreement(first: Label, second: Label) -> str:
    """Return the note of a decision by agreement."""
    return (
        f"agreed by {sanitize_line(first.annotator, 60)} and {sanitize_line(second.annotator, 60)}"
    )


def merge_agreed(first: Label, second: Label) -> tuple[Decision, dict[str, Any]]:
    """Return the decision of two labels with the same codes, and its sampling fields."""
    spans = tuple(dict.fromkeys((*first.spans, *second.spans)))
    quotes = dict.fromkeys((*first.evidence, *second.evidence))
    decision = Decision(
        trace_id=first.trace_id,
        primary=first.primary,
        secondary=first.secondary,
        evidence=spans,
        quotes=find_unplaced(list(quotes), spans),
        note=describe_agreement(first, second),
    )
    return decision, combine_drawing(first, second)


def write_agreed(store: LabelStore, agreed: Iterable[tuple[Label, Label]]) -> int:
    """Write the agreed labels that are not decided yet (skipped ones included); return how many."""
    written = 0
    for first, second in agreed:
        decision = store.decisions.get(first.trace_id)
        if decision is None or decision.skipped:
            store.decide(*merge_agreed(first, second))
            written += 1
    return written


def find_contradicted(store: LabelStore, agreed: Iterable[tuple[Label, Label]]) -> list[str]:
    """Return the traces whose decision differs from the agreed codes."""
    return [
        first.trace_id
        for first, _ in agreed
        if (decision := store.decisions.get(first.trace_id))
        and not decision.skipped
        and _get_codes(decision) != _get_codes(first)
    ]
