"""The check of a row of a labels file: a :class:`Label`, or its problems."""

from collections.abc import Mapping
from typing import Any

from annotator.base.errors import LabelsError
from annotator.base.text import (
    list_first,
    replace_surrogates,
    sanitize_line,
    suggest,
)
from annotator.labels.model import Label, LabelRow, Passage
from annotator.rubrics import NONE, Scheme
from annotator.traces.records import name_type

MAX_PROBLEMS = 20  # problems in a message


class Problems:
    """All problems of some files, collected for one message."""

    def __init__(self) -> None:
        self._first: list[str] = []
        self._count = 0

    def add(self, problem: str) -> None:
        """Record a problem: place, field, value, remedy."""
        self._count += 1
        if len(self._first) < MAX_PROBLEMS:
            self._first.append(sanitize_line(problem, 600))

    def raise_if_any(self) -> None:
        """Raise LabelsError with the first problems and the count of all."""
        if self._count:
            raise LabelsError(tuple(self._first), self._count)


def describe_value(value: Any) -> str:
    """Return a value for a message, on one short line; a list or an object as its kind."""
    if isinstance(value, str):
        return repr(sanitize_line(value, 80)) if value.strip() else "an empty text"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return name_type(value)
    return f"{value:.15g}"


def is_none(code: Any) -> bool:
    """Whether a code is ``none``."""
    return isinstance(code, str) and code.strip().lower() == NONE


def is_labelled(fields: Mapping[str, Any], scheme: Scheme) -> bool:
    """Whether a row has a label, "no code" included."""
    return "primary" in fields or (scheme.choice == "many" and bool(fields.get("secondary")))


def check_unlabelled(row: LabelRow, scheme: Scheme, problems: Problems) -> str | None:
    """Return the trace id of a row without a label; None after a problem: another filled field."""
    check = RowCheck(row, scheme, problems)
    allowed = ("note",) if row.fields.get("skipped") is True else ()
    beside = [name for name in _BESIDE if row.fields.get(name) not in (None, "", [], {})]
    extra = [name for name in beside if name not in allowed]
    if extra:
        field = "secondary" if scheme.choice == "many" else "primary"
        filled = f"{' and '.join(extra)} {'are' if len(extra) > 1 else 'is'} filled"
        check.wrong(field, f"missing, but {filled}; write {NONE} or a code")
    check.text("note")
    trace_id = check.name("trace_id")
    return None if check.failed else trace_id


_BESIDE = ("secondary", "evidence", "note", "confidence", "spans")


def check_label(row: LabelRow, scheme: Scheme, problems: Problems) -> Label | None:
    """Return the label of a row; None after a problem."""
    check = RowCheck(row, scheme, problems)
    if row.fields.get("skipped") is True:
        check.wrong("skipped", "true, but the trace has a label; take one of them out")
    primary, secondary = check.codes()
    label = Label(
        trace_id=check.name("trace_id"),
        rubric=scheme.id,
        annotator=check.name("annotator"),
        primary=primary,
        secondary=secondary,
        evidence=check.texts("evidence", "quotes"),
        note=check.text("note") or "",
        confidence=check.integer("confidence", "a whole number 1 to 5", 5),
        rubric_sha256=check.sha256(),
        inclusion_probability=check.probability(),
        task=check.text("task"),
        split=check.text("split"),
        design=check.text("design"),
        spans=check.spans(),
        agent=check.text("agent"),
        step=check.integer("step", "the number of a message, from 1"),
        reviewed=str(row.fields.get("reviewed")).lower() == "true",
        where=row.where,
    )
    return None if check.failed else label


class RowCheck:
    """Reads the fields of one row; a wrong field is a problem and counts as empty."""

    def __init__(self, row: LabelRow, scheme: Scheme, problems: Problems) -> None:
        self._row = row
        self._scheme = scheme
        self._fields = row.fields
        self._problems = problems
        self.failed = False

    def wrong(self, field: str, message: str) -> None:
        """Record a problem with a field."""
        self.failed = True
        self._problems.add(f"{self._row.where}: {field}: {message}")

    def expect(self, expected: str, field: str, value: Any) -> None:
        """Record that a field holds an unexpected value."""
        self.wrong(field, f"found {describe_value(value)}, expected {expected}")

    def text(self, field: str) -> str | None:
        """Return a text, None if it is absent or empty."""
        value = self._fields.get(field)
        if value is None or isinstance(value, str):
            return replace_surrogates(value) if value else None
        self.expect("a text", field, value)
        return None

    def name(self, field: str) -> str:
        """Return a required text."""
        value = self._fields.get(field)
        if value is None or (isinstance(value, str) and not value.strip()):
            self.wrong(field, "missing; a label says which trace it is of, and who gave it")
            return ""
        return self.text(field) or ""

    def texts(self, field: str, of: str) -> tuple[str, ...]:
        """Return a list of texts that are not blank; ``of`` names them in a problem."""
        values = self._list(field, of)
        odd = [text for text in values if not isinstance(text, str) or not text.strip()]
        if odd:
            self.wrong(field, f"found {describe_value(odd[0])} in the list, expected {of}")
            return ()
        return tuple(map(replace_surrogates, values))

    def _list(self, field: str, of: str) -> list[Any]:
        value = self._fields.get(field)
        if value is None or isinstance(value, list):
            return value or []
        self.expect(f"a list of {of}", field, value)
        return []

    def spans(self) -> tuple[Passage, ...]:
        """Return the quotes with their places, not compared with the trace."""
        values = self._list("spans", "quotes with places")
        spans = (self._span(span, f"number {n}") for n, span in enumerate(values, 1))
        return tuple(span for span in spans if span)

    def _span(self, value: Any, which: str) -> Passage | None:
        fields: Mapping[str, Any] = value if isinstance(value, dict) else {}
        quote, source, start, end, code = map(fields.get, Passage.__dataclass_fields__)
        texts = all(isinstance(text, str) and text.strip() for text in (quote, source))
        if not texts or type(start) is not int or type(end) is not int:
            problem = "expected the texts quote and source, and the whole numbers start and end"
        elif start < 0 or end - start != len(str(quote)):
            span = f"from {describe_value(start)} to {describe_value(end)}"
            problem = f"{span}, but the quote has {len(str(quote))} characters"
        elif code is not None and code not in self._scheme.ids:
            problem = f"{self._scheme.id} has no code {describe_value(code)}"
        else:
            return Passage(
                replace_surrogates(str(quote)), replace_surrogates(str(source)), start, end, code
            )
        self.wrong("spans", f"{which}: {problem}")
        return None

    def codes(self) -> tuple[str | None, tuple[str, ...]]:
        """Return the primary code and the others, as in a :class:`Label`."""
        primary = self._primary()
        others = dict.fromkeys(code.strip() for code in self.texts("secondary", "codes"))
        secondary = tuple(code for code in others if code not in primary)
        codes = (*primary, *secondary)
        if self.failed or all(map(is_none, codes)):
            return None, ()
        if any(map(is_none, codes)):
            field = "primary" if any(map(is_none, primary)) else "secondary"
            self.wrong(field, f"found {NONE!r} beside codes; write {NONE} alone, or the codes")
        else:
            self._check_ids("primary", primary)
            self._check_ids("secondary", secondary)
            self._check_places(primary, secondary)
        if self._scheme.choice == "many":
            return None, codes
        return (primary[0] if primary else None), secondary

    def _primary(self) -> tuple[str, ...]:
        """Return the primary code; a rubric of ``many`` codes may have several."""
        value = self._fields.get("primary")
        if value is None:
            return ()
        if isinstance(value, str):
            if not value.strip():
                self.wrong("primary", f"empty; write null for {NONE}, or leave the field out")
            return (value.strip(),)
        picks = self.texts("primary", "one code")
        if len(picks) > 1 and self._scheme.choice != "many":
            first = ", ".join(describe_value(pick) for pick in picks[:5])
            self.wrong("primary", f"found {len(picks)} codes ({first}), expected one")
        return picks

    def _check_ids(self, field: str, codes: tuple[str, ...]) -> None:
        for code in codes:
            if code not in self._scheme.ids:
                near = suggest(code, (*self._scheme.ids, NONE))
                hint = near or f"; it has {list_first(self._scheme.ids, 12)}"
                self.wrong(field, f"{self._scheme.id} has no code {describe_value(code)}{hint}")

    def _check_places(self, primary: tuple[str, ...], secondary: tuple[str, ...]) -> None:
        if self._scheme.choice == "many" or not secondary:
            return
        if not primary:
            self.wrong("primary", "no code, but secondary ones; the main one goes to primary")
        elif self._scheme.choice == "one":
            self.wrong("secondary", f"{self._scheme.id} has one code per trace; leave it empty")

    def number(self, field: str, expected: str, high: float) -> float | None:
        """Return a number above 0 and at most ``high``, None if it is absent."""
        value = parse_number(self._fields.get(field))
        if value is None:
            return None
        if is_number(value) and 0 < value <= high:
            return float(value)
        self.expect(expected, field, value)
        return None

    def integer(self, field: str, expected: str, high: float = 1e9) -> int | None:
        """Return a whole number from 1, None if it is absent; a spreadsheet's 3.0 is one, too."""
        value = self.number(field, expected, high)
        if value is None or value.is_integer():
            return None if value is None else int(value)
        self.expect(expected, field, value)
        return None

    def probability(self) -> float | None:
        """Return the inclusion probability."""
        return self.number("inclusion_probability", "a number above 0 and at most 1", 1)

    def sha256(self) -> str | None:
        """Return the rubric's hash; that of another version is a problem."""
        value = self.text("rubric_sha256")
        if value and self._scheme.sha256 and value != self._scheme.sha256:
            self.wrong(
                "rubric_sha256",
                f"labelled with another version of the rubric: {sanitize_line(value, 200)[:12]},"
                f" not {self._scheme.sha256[:12]}; use that version, or label again",
            )
        return value


def is_number(value: Any) -> bool:
    """Whether a value is a number and no boolean."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def parse_number(text: Any) -> Any:
    """Return the number in a text (with a decimal point or comma), or the value as it is."""
    if not isinstance(text, str):
        return text
    try:
        return float(text.strip().replace(",", "."))
    except ValueError:
        return text.strip() or None
