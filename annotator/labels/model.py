"""What a person said about a trace, and what a file of such labels holds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# The fields of the contract's labels file that this package reads; others are ignored.
FIELDS = (
    "trace_id",
    "rubric",
    "annotator",
    "primary",
    "secondary",
    "evidence",
    "note",
    "confidence",
    "rubric_sha256",
    "inclusion_probability",
    "task",
    "split",
    "design",
    "spans",
    "skipped",
    "agent",
    "step",
)


@dataclass(frozen=True, slots=True)
class Passage:
    """A quote with its place: ``source_text[start:end] == quote``, offsets in characters.

    ``code`` is the code that it shows, None if it was marked for none in particular.
    """

    quote: str
    source: str
    start: int
    end: int
    code: str | None = None


@dataclass(frozen=True, slots=True)
class Label:
    """What one annotator said about one trace by one rubric.

    It exists for what was labelled only: without ``primary`` and ``secondary`` the annotator says
    that no code applies. A rubric of ``many`` codes has no primary one, all stand in ``secondary``.
    ``design`` names the drawing of the trace that the inclusion probability is of. ``spans`` are
    the places of those quotes whose place is known. ``agent`` and ``step``: who is responsible, and
    the number of the message. ``where`` is the place in the file,
    ``labels.jsonl, line 7``.
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
    where: str = ""

    @property
    def codes(self) -> tuple[str, ...]:
        """Every code, the primary one first; empty for "no code"."""
        return (*((self.primary,) if self.primary else ()), *self.secondary)


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels of one rubric in some files, in the order of the files.

    ``unlabelled``: the ids of traces that somebody was asked about and has not labelled yet, each
    once.
    """

    labels: tuple[Label, ...]
    unlabelled: tuple[str, ...]

    @property
    def annotators(self) -> tuple[str, ...]:
        """Who labelled, sorted."""
        return tuple(sorted({label.annotator for label in self.labels}))

    def of(self, annotator: str) -> dict[str, Label]:
        """Return one annotator's labels by trace id; empty if there is no such annotator."""
        return {label.trace_id: label for label in self.labels if label.annotator == annotator}


@dataclass(frozen=True, slots=True)
class LabelRow:
    """One row of any format in the names of the contract, not checked yet.

    A field that is absent was left empty by the annotator: without ``primary`` the row is not
    labelled yet, with ``primary`` None its annotator says that no code applies. ``skipped`` True:
    not labelled yet either, because its annotator could not say, or not now.
    """

    where: str
    fields: Mapping[str, Any]


@dataclass(slots=True)
class ForeignLabel:
    """What a person said of a trace elsewhere: its id there, categories as they are spelled there
    (the decisive one first, if it is ``decided`` which is), the responsible agent and the step, and
    a note. Not ``labelled``: nobody has filled it in.
    """

    id: str
    categories: tuple[str, ...]
    decided: bool = True
    agent: str | None = None
    step: int | None = None
    note: str = ""
    annotator: str | None = None
    labelled: bool = True
