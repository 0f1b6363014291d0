"""Labels of other tools as labels by a rubric: their categories as codes, their ids as traces'."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from annotator.base.text import Note, format_count, list_first, sanitize_line
from annotator.labels.checking import is_none
from annotator.labels.model import ForeignLabel, LabelRow
from annotator.labels.trace_index import TraceIndex
from annotator.rubrics import NONE, Scheme
from annotator.traces.records import get_text

# Spellings of categories, letters only, by their beginning: AgentRx's, and MAST's own names.
_ALIASES = {
    "instructionplanadherence": "adherence",
    "instructionadherence": "adherence",
    "planadherence": "adherence",
    "inventionof": "invention",
    "invalidinvocation": "invocation",
    "misinterpretationof": "misinterpretation",
    "intentplanmisalignment": "misalignment",
    "underspecified": "underspecified",
    "intentnotsupported": "unsupported",
    "guardrail": "guardrails",
    "systemfailure": "system",
    "inconclusive": "inconclusive",
    "disobeytaskspecification": "1.1",
    "disobeyrolespecification": "1.2",
    "steprepetition": "1.3",
    "lossofconversationhistory": "1.4",
    "unawareoftermination": "1.5",
    "conversationreset": "2.1",
    "failtoaskforclarification": "2.2",
    "taskderailment": "2.3",
    "informationwith": "2.4",  # MAST's data set writes "Witholding", too
    "ignoredotheragent": "2.5",
    "reasoningactionmismatch": "2.6",
    "actionreasoningmismatch": "2.6",
    "prematuretermination": "3.1",
    "noorincompleteverification": "3.2",
    "incorrectverification": "3.3",
}


_EXTRA = ("evidence", "confidence", "inclusion_probability", "task", "split", "design")


@dataclass(slots=True)
class Converted:
    """Rows of labels, and the labels that could not be converted. ``by_name``: as in
    :class:`TraceIndex`.
    """

    rows: list[LabelRow] = field(default_factory=list)
    unmapped: Counter[str] = field(default_factory=Counter)
    without_trace: list[str] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)
    several: list[str] = field(default_factory=list)
    unlabelled: list[str] = field(default_factory=list)
    by_name: int = 0

    def explain(self, maximum: int | None = None) -> Iterator[str]:
        """Yield a line for each of the first categories without a code, with the option that gives
        one, and for each other kind of label that was left out.
        """
        for name, n in self.unmapped.most_common(maximum):
            hint = "; if an empty list means none: --code '[]=none'" if name == "[]" else ""
            yield f"no code for {sanitize_line(name, 80)!r} ({format_count(n, 'label')}){hint}"
        if self.unmapped:
            more = len(self.unmapped) - (maximum or len(self.unmapped))
            rest = f"nor for {more} more; " if more > 0 else ""
            other = "a rubric with codes of these names (annotate rubric new)"
            yield f"{rest}to give them codes: --code WORD=CODE, or {other}"
        for reason, ids, remedy in (
            ("no trace with this id", self.without_trace, ""),
            ("no decisive category is named", self.undecided, ""),
            ("more than one code, and the rubric takes one", self.several, ""),
            ("not labelled yet", self.unlabelled, " (where no code applies, write none)"),
        ):
            if ids:
                yield f"{reason}: {sanitize_line(list_first(ids, 5), 300)}{remedy}"


def convert(
    labels: Iterable[ForeignLabel],
    rubric: Scheme,
    annotator: str,
    traces: TraceIndex | None = None,
    spelled: Mapping[str, str] | None = None,
) -> Converted:
    """Return labels as rows of our own file.

    A category is a code by its id, its name, a usual spelling, or one of the user's (``spelled``).
    A label with any other category is listed and left out. Without ``traces``, a label keeps its
    own id.
    """
    result = Converted()
    for label in labels:
        codes = {name: find_code(name, rubric, spelled or {}) for name in label.categories}
        unknown = [name for name, code in codes.items() if code is None]
        result.unmapped.update(unknown)
        trace_id = traces.find(label) if traces else label.id
        if trace_id is None:
            result.without_trace.append(label.id)
        elif not label.labelled:
            result.unlabelled.append(label.id)
        elif label.agent and not codes and len(rubric.codes) == 1:
            result.rows.append(_make_row(label, trace_id, [rubric.codes[0].id], rubric, annotator))
        elif not label.decided and rubric.choice != "many":
            result.undecided.append(label.id)
        elif not unknown:
            found_codes = [code for code in dict.fromkeys(codes.values()) if code and code != NONE]
            if len(found_codes) > 1 and rubric.choice == "one":
                result.several.append(label.id)
                continue
            result.rows.append(_make_row(label, trace_id, found_codes, rubric, annotator))
    result.by_name = traces.by_name if traces else 0
    return result


def describe_left_out(result: Converted, total: int) -> list[str]:
    """Return a note on the labels that calibrate leaves out, if there are any."""
    if total == len(result.rows):
        return []
    counts = f"{total - len(result.rows)} of {format_count(total, 'label')} left out"
    text = f"{counts}: {'; '.join(result.explain(5))} (options of annotate labels)."
    return [Note(text, "left-out")]


def describe_doubtful(result: Converted) -> list[str]:
    """Return a note on labels that joined by the name of a file alone, if there are any."""
    if not result.by_name:
        return []
    count = format_count(result.by_name, "label")
    text = f"{count} joined by the names of files alone: are they of the same traces?"
    return [Note(text, "left-out")]


def make_foreign(row: LabelRow) -> ForeignLabel:
    """Return a row of an annotation tool's export as a label in that tool's terms."""
    fields = dict(row.fields)
    primary = fields.get("primary")
    first = primary if isinstance(primary, list) else [primary] if primary else []
    names = [name for name in (*first, *(fields.get("secondary") or ())) if not is_none(name)]
    return ForeignLabel(
        get_text(fields.get("trace_id")) or "",
        tuple(map(str, names)),
        decided=len(first) == 1 or len(names) < 2,
        note=fields.get("note") or "",
        annotator=fields.get("annotator"),
        labelled=bool(first or names),
        where=row.where,
        extra={name: fields[name] for name in _EXTRA if name in fields},
    )


def find_code(name: str, rubric: Scheme, spelled: Mapping[str, str] | None = None) -> str | None:
    """Return the code that a category names, or None. A number before a name decides nothing:
    MAST's versions number their modes differently.
    """
    if (code_id := (spelled or {}).get(name)) is not None:
        return code_id
    for candidate in (name, name.removeprefix("FM-")):
        if candidate in rubric.ids:
            return candidate
    plain = _simplify_name(re.sub(r"^(FM-)?\d+(\.\d+)*[:.) \t-]+(?=\D)", "", name))
    for code in rubric.codes:
        if plain in (_simplify_name(code.id), _simplify_name(code.name)):
            return code.id
    if re.search(r"[,;|\n]", name):
        return None  # several categories, which begin with a usual spelling
    alias = next((code for start, code in _ALIASES.items() if plain.startswith(start)), None)
    return alias if alias in rubric.ids else None


def _simplify_name(name: str) -> str:
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    return name if not plain or plain.isdecimal() else plain


def _make_row(
    label: ForeignLabel, trace_id: str, codes: list[str], rubric: Scheme, annotator: str
) -> LabelRow:
    many = rubric.choice == "many"
    others = {"many": codes, "primary": codes[1:], "one": []}[rubric.choice]
    row: dict[str, Any] = {
        "trace_id": trace_id,
        "rubric": rubric.id,
        "annotator": label.annotator or annotator,
        **({} if many and codes else {"primary": codes[0] if codes else NONE}),
        "secondary": others,
        "note": label.note,
    }
    row |= {"agent": label.agent} if label.agent else {}
    row |= {"step": label.step} if label.step else {}
    return LabelRow(label.where, row | dict(label.extra))


def name_codes(row: LabelRow, rubric: Scheme) -> LabelRow:
    """Return a row of an annotation tool's export with codes in the place of their names."""

    def name(value: Any) -> Any:
        if isinstance(value, list):
            return list(map(name, value))
        return (find_code(value, rubric) or value) if isinstance(value, str) else value

    picked = {key: name(row.fields[key]) for key in ("primary", "secondary") if key in row.fields}
    return LabelRow(row.where, {**row.fields, **picked})


def render_rows(rows: Iterable[LabelRow]) -> str:
    """Return rows as JSON lines."""
    return "".join(f"{json.dumps(row.fields, ensure_ascii=False)}\n" for row in rows)
