"""The labels that people give to traces."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Passage:
    """A quote with its place: ``source_text[start:end] == quote``, offsets in characters.

    ``code`` is the code that it shows, None if it was marked without one.
    """

    quote: str
    source: str
    start: int
    end: int
    code: str | None = None


@dataclass(frozen=True, slots=True)
class Label:
    """One annotator's label of one trace by one rubric.

    Without ``primary`` and ``secondary``, the annotator says that no code applies. A rubric of
    ``many`` codes has all of them in ``secondary``. ``design`` is the id of the sampling design
    that the inclusion probability comes from. ``spans`` are the quotes with a place. ``agent`` and
    ``step``: the responsible agent and the number of the message. ``reviewed``: the annotator had
    seen the judge's answer. ``where``: the place of the
    label, as in ``labels.jsonl, line 7``.
    """

    trace_id: str
    rubric: str
    annotator: str
    primary: str | None
    secondary: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    note: str = ""
    confidence: int | None = None
    rubric_sha256: str | None = None
    inclusion_probability: float | None = None
    task: str | None = None
    split: str | None = None
    design: str | None = None
    spans: tuple[Passage, ...] = ()
    agent: str | None = None
    step: int | None = None
    reviewed: bool = False
    where: str = ""

    @property
    def codes(self) -> tuple[str, ...]:
        """Every code, the primary one first; empty for "no code"."""
        return (*((self.primary,) if self.primary else ()), *self.secondary)


# The fields of a labels file; others are ignored.
FIELDS = (*(name for name in Label.__dataclass_fields__ if name != "where"), "skipped")

# Names of a trace's id in tables and records, in lower case with "_" between words.
ID_NAMES = (
    *("trace_id", "id", "trajectory_id", "instance_id", "question_id", "run_id", "trace", "run"),
    *("session_id", "conversation_id", "file", "filename", "uuid"),
)


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels of one rubric in some files, in the order of the files.

    ``unlabelled``: the ids of traces that have a row and no label yet, each once. ``notes``: a
    sentence for each file that was read in another encoding, and on the labels that were left out.
    """

    labels: tuple[Label, ...]
    unlabelled: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def annotators(self) -> tuple[str, ...]:
        """The names of the annotators, sorted."""
        return tuple(sorted({label.annotator for label in self.labels}))

    def of(self, annotator: str) -> dict[str, Label]:
        """Return one annotator's labels by trace id."""
        return {label.trace_id: label for label in self.labels if label.annotator == annotator}


@dataclass(frozen=True, slots=True)
class LabelRow:
    """One unchecked row of any format, its fields named as in :data:`FIELDS`.

    Without ``primary``, or with ``skipped`` True, the row is not labelled yet. ``primary`` None
    says that no code applies.
    """

    where: str
    fields: Mapping[str, Any]


@dataclass(slots=True)
class ForeignLabel:
    """A label in another tool's terms: its id of the trace, its categories (the decisive one first
    if ``decided``), the responsible agent and step, and a note. ``labelled``: it is filled in.

    ``denied``: the categories that it says do not apply. ``where``: the place for messages.
    ``path``: the file, or the record in it, that holds the label and perhaps the trace. ``extra``:
    other fields of a row, as in :data:`FIELDS`.
    """

    id: str
    categories: tuple[str, ...]
    decided: bool = True
    agent: str | None = None
    step: int | None = None
    note: str = ""
    annotator: str | None = None
    labelled: bool = True
    denied: tuple[str, ...] = ()
    where: str = ""
    path: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)
