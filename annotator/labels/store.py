"""One annotator's decisions in a file of labels."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from annotator.base.errors import AnnotatorError
from annotator.base.files import LineLog
from annotator.base.text import replace_surrogates, sanitize_line
from annotator.labels.checking import Problems
from annotator.labels.decisions import Decision, build_fields, read_decision, read_drawing
from annotator.labels.model import LabelRow
from annotator.rubrics import Rubric, Scheme
from annotator.traces.records import parse_json

_SUFFIXES = (".jsonl", ".ndjson")
_BEGIN = b'{"trace_id": '  # of each line that is written here
_NAME = 100  # characters of an annotator's name
_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Undone:
    """An undone change: the decision that ``was``, and the one that holds ``now``; None is
    undecided.
    """

    trace_id: str
    was: Decision | None
    now: Decision | None


@dataclass(frozen=True, slots=True)
class _Change:
    """The line and the decision of a trace before a change, None if it had none."""

    trace_id: str
    line: bytes | None = None
    decision: Decision | None = None


class LabelStore:
    """One annotator's decisions by one rubric, in a file of JSON lines that others may share.

    Lines of other annotators and rubrics stay byte for byte. A decision is one line, which replaces
    an earlier one of its trace. A killed process loses nothing that was acknowledged and leaves at
    most one torn end, which the next opening mends (``notes`` reports it). One process at a time
    holds the file, and in it one thread.
    """

    def __init__(self, file: Path, annotator: str, rubric: Rubric | Scheme) -> None:
        """Use :meth:`open`."""
        self.annotator = annotator
        self.notes: tuple[str, ...] = ()
        self._scheme = rubric if isinstance(rubric, Scheme) else rubric.scheme()
        self._decisions: dict[str, Decision] = {}
        self._at: dict[str, int] = {}  # trace -> the number of its line
        self._drawings: dict[str, Mapping[str, Any]] = {}  # how a trace with a line was drawn
        self._history: list[_Change] = []
        self._sequence = 0  # of the latest decision
        self._name = sanitize_line(str(file))
        self._count = 0  # lines in the file
        busy = "another process labels into this file; close it, or label into another file"
        self._lines = LineLog(file, busy=f"{self._name}: {busy}", private=True)
        try:
            self._load()
        except BaseException:
            self._lines.close()
            raise

    @classmethod
    def open(cls, file: Path, annotator: str, rubric: Rubric | Scheme) -> "LabelStore":
        """Open or create a file of labels; a torn last line is mended.

        Raises:
            AnnotatorError: the annotator's name is invalid, the file holds anything but labels or
                wrong ones of this annotator, another process holds it, or it cannot be written.
        """
        if not annotator or annotator != sanitize_line(annotator, _NAME):
            raise AnnotatorError(
                f"annotator {sanitize_line(annotator, _NAME)!r}: expected a name, on one line and"
                f" of at most {_NAME} characters"
            )
        if file.suffix.lower() not in _SUFFIXES:
            raise AnnotatorError(
                f"{sanitize_line(str(file))}: labels are written as JSON lines; label into a .jsonl"
                " file"
            )
        return cls(file, annotator, rubric)

    def close(self) -> None:
        """Let go of the file, and remove it if it holds nothing."""
        self._lines.close(keep_empty=False)

    def __enter__(self) -> "LabelStore":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def decisions(self) -> Mapping[str, Decision]:
        """The decisions by trace id, skipped traces too: a live view."""
        return MappingProxyType(self._decisions)

    def get_drawing(self, trace_id: str) -> Mapping[str, Any]:
        """Return the columns of the sheet in a trace's line; none without a line."""
        return self._drawings.get(replace_surrogates(trace_id), _NOTHING)

    def decide(self, decision: Decision, extra: Mapping[str, Any] = _NOTHING) -> Decision:
        """Write a decision to the disk, in place of an earlier one of the trace; return it as
        written.

        ``extra``: the columns of the trace's row in the sheet, by default those of its earlier
        line. The caller checks the passages
        (:func:`annotator.labels.decisions.check_passages`).

        Raises:
            AnnotatorError: it is invalid by this rubric, cannot be written, or another program has
                changed the file, which stays as it was unless the error says otherwise.
        """
        drawing = {
            **self.get_drawing(decision.trace_id),
            **read_drawing(extra),
        }
        line, written = self._line(decision, drawing)
        self._history.append(self._put(written.trace_id, line, written))
        self._sequence += 1
        self._drawings[written.trace_id] = drawing
        return written

    def wait(self, trace_id: str, extra: Mapping[str, Any] = _NOTHING) -> None:
        """Write that a trace has no label yet, unless it has a line.

        Raises:
            AnnotatorError: the file cannot be written, or another program has changed it.
        """
        if trace_id in self._at:
            return
        fields = {
            "trace_id": trace_id,
            "rubric": self._scheme.id,
            "annotator": self.annotator,
            **read_drawing(extra),
            "rubric_sha256": self._scheme.sha256,
        }
        line = replace_surrogates(json.dumps(fields, ensure_ascii=False, allow_nan=False))
        self._put(trace_id, line.encode() + b"\n", None)
        self._drawings[trace_id] = read_drawing(extra)

    def withdraw(self, trace_id: str) -> None:
        """Remove a trace's decision, if it has one.

        Raises:
            AnnotatorError: the file cannot be written, or another program has changed it.
        """
        if trace_id in self._decisions:
            self._history.append(self._put(trace_id, None, None))

    def undoes(self, among: Collection[str] | None = None) -> tuple[str, bool] | None:
        """Return the trace of the change that :meth:`undo` would revert, and whether the change is
        of an earlier session; None if there is nothing to undo.
        """
        last = self._last(among)
        return None if last is None else (self._history[last].trace_id, last < self._earlier)

    def undo(self, among: Collection[str] | None = None) -> Undone | None:
        """Revert the last change and return it; None if no change is left.

        A change of this session restores the decision it replaced. Then follow the decisions of
        earlier sessions, the latest first, by their ``sequence``, or their times if they have none;
        their traces become undecided. ``among``: only changes of these traces.

        Raises:
            AnnotatorError: the file cannot be written, or another program has changed it.
        """
        last = self._last(among)
        if last is None:
            return None
        change = self._history[last]
        undone = self._put(change.trace_id, change.line, change.decision)
        del self._history[last]
        self._earlier -= last < self._earlier
        return Undone(change.trace_id, undone.decision, change.decision)

    def _last(self, among: Collection[str] | None) -> int | None:
        indices = reversed(range(len(self._history)))
        return next(
            (n for n in indices if among is None or self._history[n].trace_id in among), None
        )

    def _put(self, trace_id: str, line: bytes | None, decision: Decision | None) -> _Change:
        """Write or remove the line of a trace; return its state before."""
        before = _Change(trace_id, None, self._decisions.get(trace_id))
        if trace_id in self._at:
            before = replace(before, line=self._lines.replace(self._at[trace_id], line))
            if line is None:
                self._count -= 1
                removed = self._at.pop(trace_id)
                self._at = {trace: at - (at > removed) for trace, at in self._at.items()}
        elif line is not None:
            self._lines.append(line)
            self._at[trace_id] = self._count
            self._count += 1
        if decision is None:
            self._decisions.pop(trace_id, None)
        else:
            self._decisions[trace_id] = decision
        return before

    def _line(self, decision: Decision, drawing: Mapping[str, Any]) -> tuple[bytes, Decision]:
        """Return the line of a decision, and the decision as that line reads."""
        fields = {
            "trace_id": decision.trace_id,
            "rubric": self._scheme.id,
            "annotator": self.annotator,
            **build_fields(decision, self._scheme, drawing),
            "rubric_sha256": self._scheme.sha256,
            "sequence": self._sequence + 1,
            "labelled_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        }
        problems = Problems()
        row = LabelRow(repr(sanitize_line(decision.trace_id, 120)), fields)
        written = read_decision(row, self._scheme, problems)
        problems.raise_if_any()
        assert written, "a row without a problem holds a decision"  # noqa: S101
        line = replace_surrogates(json.dumps(fields, ensure_ascii=False, allow_nan=False))
        return line.encode() + b"\n", written

    def _load(self) -> None:
        """Read the file; mend its end if all other lines are labels."""
        *lines, last = self._lines.read().split(b"\n")
        torn = _is_torn(last)
        problems = Problems()
        times: dict[str, tuple[int, str]] = {}
        for n, line in enumerate(lines if torn else [*lines, last]):
            if line.strip():
                self._take(n, line, times, problems)
        problems.raise_if_any()
        self._history = [_Change(trace_id) for trace_id in sorted(times, key=times.__getitem__)]
        self._sequence = max((sequence for sequence, _ in times.values()), default=0)
        self._earlier = len(self._history)  # changes of earlier sessions
        where = f"{self._name}, line {len(lines) + 1}"
        self._count = len(lines)
        if torn:
            self._lines.cut_torn()
            self.notes = (f"{where}: cut off while it was written, {len(last)} bytes; taken out",)
        elif last.strip():
            self._lines.append(b"\n")
            self._count += 1
            self.notes = (f"{where}: had no line end; it has one now",)

    def _take(
        self, n: int, line: bytes, times: dict[str, tuple[int, str]], problems: Problems
    ) -> None:
        """Record a line of this annotator and rubric, and its time."""
        where = f"{self._name}, line {n + 1}"
        try:
            fields = _label(line, self._name, n + 1)
        except AnnotatorError as error:
            problems.add(str(error))
            return
        mine = fields.get("annotator") == self.annotator
        if not mine or fields["rubric"].strip() != self._scheme.id:
            return
        decision = read_decision(LabelRow(where, fields), self._scheme, problems)
        trace_id = replace_surrogates(fields["trace_id"])
        self._drawings[trace_id] = read_drawing(fields)
        if decision is None:
            self._at.setdefault(trace_id, n)
        elif trace_id in self._decisions:
            first = self._at[trace_id] + 1
            problems.add(
                f"{where}: trace_id: {sanitize_line(trace_id, 120)!r} is decided by"
                f" {self.annotator!r} in line {first} already; keep one of them"
            )
        else:
            self._at[trace_id] = n
            self._decisions[trace_id] = decision
            if isinstance(time := fields.get("labelled_at"), str):
                times[trace_id] = (_get_sequence(fields), time)


def _label(line: bytes, name: str, n: int) -> dict[str, Any]:
    """Return the fields of a line that is a label or a row of a sheet; raises AnnotatorError."""
    try:
        fields = parse_json(line.decode("utf-8-sig"), name, line=n)
    except UnicodeDecodeError as error:
        raise AnnotatorError(f"{name}, line {n}: not UTF-8; is this a file of labels?") from error
    is_label = isinstance(fields, dict) and all(
        isinstance(fields.get(name), str) for name in ("trace_id", "rubric")
    )
    if not is_label:
        raise AnnotatorError(
            f"{name}, line {n}: no label (a JSON object with trace_id and rubric); label into a"
            " .jsonl file of its own"
        )
    label: dict[str, Any] = fields
    return label


def _get_sequence(fields: Mapping[str, Any]) -> int:
    number = fields.get("sequence")
    return number if isinstance(number, int) and number > 0 else 0


def _is_torn(line: bytes) -> bool:
    """Whether a last line without its end is the beginning of a line by :class:`LabelStore`."""
    if not line or not (line.startswith(_BEGIN) or _BEGIN.startswith(line)):
        return False
    try:
        parse_json(line.decode(), "")
    except (UnicodeDecodeError, AnnotatorError):
        return True
    return False
