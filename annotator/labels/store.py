"""One annotator's decisions in a file of labels: what was acknowledged is on the disk."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any

from annotator.base.errors import AnnotatorError
from annotator.base.files import LineLog
from annotator.base.text import replace_surrogates, sanitize_line
from annotator.labels.checking import Problems
from annotator.labels.decisions import Decision, decision_of, fields_of, read_drawing
from annotator.labels.model import LabelRow
from annotator.rubrics import Rubric
from annotator.traces.records import parse_json

_SUFFIXES = (".jsonl", ".ndjson")
_BEGIN = b'{"trace_id": '  # of each line that is written here
_NAME = 100  # characters of an annotator's name
_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Undone:
    """A change that was taken back: the decision that ``was``, and the one that holds ``now``; None
    where the trace was, or is, undecided.
    """

    trace_id: str
    was: Decision | None
    now: Decision | None


@dataclass(frozen=True, slots=True)
class _Change:
    """The line and the decision that a trace had before a change, None if it had none."""

    trace_id: str
    line: bytes | None = None
    decision: Decision | None = None


class LabelStore:
    """One annotator's decisions by one rubric, in JSON lines that may be of others too.

    Lines of other annotators and rubrics stay as they are, byte for byte. A decision is one line,
    appended, or put in the place of the line of an earlier one. A process killed at any moment
    leaves a file with all that was acknowledged and at most one torn end, which is mended when it
    is opened again: ``notes`` says so. One process at a time holds the file, and in it one thread.
    """

    def __init__(self, file: Path, annotator: str, rubric: Rubric) -> None:
        """Use :meth:`open`."""
        self.annotator = annotator
        self.notes: tuple[str, ...] = ()
        self._scheme = rubric.scheme()
        self._decisions: dict[str, Decision] = {}
        self._at: dict[str, int] = {}  # trace -> the number of its line
        self._drawn: dict[str, Mapping[str, Any]] = {}  # how a trace with a line was drawn
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
    def open(cls, file: Path, annotator: str, rubric: Rubric) -> "LabelStore":
        """Open a file of labels, or make it; a torn last line is mended.

        Raises:
            AnnotatorError: the annotator has no proper name, the file holds anything but labels (a
                sheet in CSV, say) or wrong ones of this annotator, another process labels into it,
                or it cannot be written.
        """
        if not annotator or annotator != sanitize_line(annotator, _NAME):
            raise AnnotatorError(
                f"annotator {sanitize_line(annotator, _NAME)!r}: expected a name, on one"
                " line and of at"
                f" most {_NAME} characters"
            )
        if file.suffix.lower() not in _SUFFIXES:
            raise AnnotatorError(
                f"{sanitize_line(str(file))}: labels are written as JSON lines; label"
                " into a .jsonl file"
            )
        return cls(file, annotator, rubric)

    def close(self) -> None:
        """Let go of the file."""
        self._lines.close()

    def __enter__(self) -> "LabelStore":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def decisions(self) -> Mapping[str, Decision]:
        """What is decided, traces that are skipped too, by trace id. It changes with the store."""
        return MappingProxyType(self._decisions)

    def decide(self, decision: Decision, extra: Mapping[str, Any] = _NOTHING) -> Decision:
        """Write a decision, in place of an earlier one of the same trace; return what was written.

        ``extra`` are the columns of the trace's row of the sheet; those that an earlier line of the
        trace has stay where ``extra`` lacks them. When it returns, the decision is on the disk.
        That its passages stand in the trace is for the caller to see to
        (:func:`annotator.labels.decisions.check_passages`).

        Raises:
            AnnotatorError: it is no decision by this rubric, it cannot be written (a full disk,
                say), or another program has changed the file. The file is as before, or the error
                says that it may not be.
        """
        drawn = {
            **self._drawn.get(replace_surrogates(decision.trace_id), {}),
            **read_drawing(extra),
        }
        line, written = self._line(decision, drawn)
        self._history.append(self._put(written.trace_id, line, written))
        self._sequence += 1
        self._drawn[written.trace_id] = drawn
        return written

    def wait(self, trace_id: str, extra: Mapping[str, Any] = _NOTHING) -> None:
        """Write that a trace is to be decided and is not yet, unless it has a line: so that who
        reads the labels knows that some are missing.

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
        self._drawn[trace_id] = read_drawing(extra)

    def withdraw(self, trace_id: str) -> None:
        """Take a trace's decision away, whichever session it is of; without one nothing happens.

        Raises:
            AnnotatorError: the file cannot be written, or another program has changed it.
        """
        if trace_id in self._decisions:
            self._history.append(self._put(trace_id, None, None))

    def undoes(self, among: Collection[str] | None = None) -> tuple[str, bool] | None:
        """Return whose trace's change :meth:`undo` would take back, and whether that is of an
        earlier session; None if there is nothing to undo.
        """
        last = self._last(among)
        return None if last is None else (self._history[last].trace_id, last < self._earlier)

    def undo(self, among: Collection[str] | None = None) -> Undone | None:
        """Take back the last change and return it; None if there is none left.

        Those of this session one by one, each giving back the decision it replaced; then the
        decisions of earlier sessions, the latest first: what they had replaced is not known any
        more, and the trace is undecided. Only decisions with the time of their making are of
        earlier sessions; their order is that of their ``sequence``, which counts them whatever the
        clock says, and before it that of their times. ``among``: only changes of these traces.

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
        """Return the place of the last change of some traces, or of any."""
        places = reversed(range(len(self._history)))
        return next(
            (n for n in places if among is None or self._history[n].trace_id in among), None
        )

    def _put(self, trace_id: str, line: bytes | None, decision: Decision | None) -> _Change:
        """Write the line of a trace, or take it out; return what there was before."""
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

    def _line(self, decision: Decision, drawn: Mapping[str, Any]) -> tuple[bytes, Decision]:
        """Return the line of a decision, and the decision as it will be read."""
        fields = {
            "trace_id": decision.trace_id,
            "rubric": self._scheme.id,
            "annotator": self.annotator,
            **fields_of(decision, self._scheme, drawn),
            "rubric_sha256": self._scheme.sha256,
            "sequence": self._sequence + 1,
            "labelled_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        }
        problems = Problems()
        row = LabelRow(repr(sanitize_line(decision.trace_id, 120)), fields)
        written = decision_of(row, self._scheme, problems)
        problems.raise_if_any()
        assert written, "a row without a problem holds a decision"  # noqa: S101
        line = replace_surrogates(json.dumps(fields, ensure_ascii=False, allow_nan=False))
        return line.encode() + b"\n", written

    def _load(self) -> None:
        """Read what is in the file; mend its end once all else is found to be labels."""
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
        self._earlier = len(self._history)  # the first so many are of earlier sessions
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
        """Take note of a line of this annotator and rubric, and of when it was written."""
        where = f"{self._name}, line {n + 1}"
        try:
            fields = _label(line, self._name, n + 1)
        except AnnotatorError as error:
            problems.add(str(error))
            return
        mine = fields.get("annotator") == self.annotator
        if not mine or fields["rubric"].strip() != self._scheme.id:
            return
        decision = decision_of(LabelRow(where, fields), self._scheme, problems)
        trace_id = replace_surrogates(fields["trace_id"])
        self._drawn[trace_id] = read_drawing(fields)
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
                times[trace_id] = (_sequence(fields), time)


def _label(line: bytes, name: str, n: int) -> dict[str, Any]:
    """Return the fields of a line that is a label or a row of a sheet.

    Raises:
        AnnotatorError: it is neither.
    """
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


def _sequence(fields: Mapping[str, Any]) -> int:
    """Return the number of a decision; 0 for one that was written before they were counted."""
    number = fields.get("sequence")
    return number if isinstance(number, int) and number > 0 else 0


def _is_torn(line: bytes) -> bool:
    """Whether a last line without its end is the beginning of one that was being written here."""
    if not line or not (line.startswith(_BEGIN) or _BEGIN.startswith(line)):
        return False
    try:
        parse_json(line.decode(), "")
    except (UnicodeDecodeError, AnnotatorError):
        return True
    return False
