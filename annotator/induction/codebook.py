"""A codebook: codes induced from findings, and the decisions of people about them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from annotator.base.errors import AnnotatorError
from annotator.base.files import LineLog, read_bounded, write_file
from annotator.base.text import describe_validation, find_repeated, format_count, suggest
from annotator.rubrics.annotations import Evidence
from annotator.rubrics.changes import dump_rubric
from annotator.rubrics.model import AppliesTo, Code, Example, Rubric
from annotator.runs.manifest import CODEBOOK

Action = Literal["merge", "split", "rename", "drop", "accept", "move", "undo"]


@dataclass(frozen=True, slots=True)
class OpenFinding:
    """A failure in the model's own words, with verified quotes. ``id``: ``TRACE_ID#N``."""

    id: str
    trace_id: str
    name: str
    rationale: str
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class InducedCode:
    """A code with its clauses and the ids of its findings.

    ``accepted``: by a person. ``in_passed``: passed runs have it as often as failed ones, as far as
    can be told; such a code is in the rubric only if it is accepted.
    """

    id: str
    name: str
    definition: str
    evidence: str
    not_: str = ""
    example: Example | None = None
    findings: tuple[str, ...] = ()
    accepted: bool = False
    in_passed: bool = False
    group: str = ""


@dataclass(frozen=True, slots=True)
class CodeDecision:
    """A change of a codebook by a person, as a line of ``decisions.jsonl``.

    ``merge``: ``codes`` become the first of them. ``split``: ``findings`` of ``codes[0]``, or of no
    code, become the new code ``id``. ``rename``: ``codes[0]`` gets the texts that are not None.
    ``drop``: ``codes`` go, and their findings have no code. ``accept``: ``codes`` are right.
    ``move``: ``findings`` go to ``codes[0]``, or to none. ``undo``: the last decision that stands
    is taken back.
    """

    action: Action
    codes: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    id: str | None = None
    name: str | None = None
    definition: str | None = None
    evidence: str | None = None
    not_: str | None = None
    group: str | None = None
    why: str = ""
    by: str = ""
    time: str = ""


def list_standing(decisions: Sequence[CodeDecision]) -> list[int]:
    """Return the indices of the decisions that no ``undo`` has taken back.

    Raises:
        AnnotatorError: an ``undo`` has no decision to take back.
    """
    standing: list[int] = []
    for n, decision in enumerate(decisions):
        if decision.action != "undo":
            standing.append(n)
        elif standing:
            standing.pop()
        else:
            raise AnnotatorError("undo: there is no decision to take back")
    return standing


@dataclass(frozen=True)
class Codebook:
    """Codes and their findings.

    ``traces``: each trace that was read, with its attributes; ``source``: how the codes were made.
    A finding belongs to at most one code.
    """

    title: str
    source: str
    codes: tuple[InducedCode, ...]
    findings: tuple[OpenFinding, ...]
    traces: dict[str, dict[str, Any]]

    @cached_property
    def by_id(self) -> dict[str, OpenFinding]:
        """The findings by their ids."""
        return {finding.id: finding for finding in self.findings}

    @property
    def uncoded(self) -> tuple[str, ...]:
        """The ids of the findings without a code."""
        coded = {name for code in self.codes for name in code.findings}
        return tuple(finding.id for finding in self.findings if finding.id not in coded)

    def code(self, code_id: str) -> InducedCode:
        """Return a code.

        Raises:
            AnnotatorError: there is none of this id.
        """
        for code in self.codes:
            if code.id == code_id:
                return code
        ids = [code.id for code in self.codes]
        raise AnnotatorError(f"there is no code {code_id!r}{suggest(code_id, ids)}")

    def list_traces(self, code: InducedCode) -> tuple[str, ...]:
        """Return the ids of the traces with a finding of the code, each once."""
        return tuple(dict.fromkeys(self.by_id[name].trace_id for name in code.findings))

    def apply(self, decision: CodeDecision) -> "Codebook":
        """Return the codebook after a decision other than ``undo``.

        Raises:
            AnnotatorError: it names a code or a finding that is not there, changes nothing, or
                leads to an invalid rubric.
        """
        return self._change(decision).compare_passed()

    def _change(self, decision: CodeDecision) -> "Codebook":
        selected = [self.code(code_id) for code_id in dict.fromkeys(decision.codes)]
        if unknown := [name for name in decision.findings if name not in self.by_id]:
            raise AnnotatorError(f"there is no finding {unknown[0]!r}")
        codes: Sequence[InducedCode]
        match decision.action, selected:
            case "merge", [first, *others] if others:
                findings = tuple(name for code in selected for name in code.findings)
                merged = replace(first, findings=findings)
                codes = [merged if c == first else c for c in self.codes if c not in others]
            case "drop", [_, *_]:
                codes = [code for code in self.codes if code not in selected]
            case "accept", [_, *_]:
                codes = [replace(c, accepted=True) if c in selected else c for c in self.codes]
            case "rename", [code]:
                codes = [self._edit(c, decision) if c == code else c for c in self.codes]
            case "split", [] | [_]:
                source = set(selected[0].findings if selected else self.uncoded)
                if absent := [name for name in decision.findings if name not in source]:
                    raise AnnotatorError(f"the finding {absent[0]!r} is in another code by now")
                if not decision.findings:
                    raise AnnotatorError("split: no finding is chosen for the new code")
                new = self._edit(InducedCode("", "", "", ""), decision)
                codes = _move([*self.codes, new], decision.findings, new)
            case "move", [] | [_]:
                codes = _move(self.codes, decision.findings, *selected)
            case _:
                number = format_count(len(selected), "code")
                raise AnnotatorError(f"{decision.action}: cannot be done to {number}")
        changed = replace(self, codes=tuple(codes))
        if changed.codes == self.codes:
            raise AnnotatorError(f"{decision.action}: this changes nothing")
        if changed.codes:
            changed.to_rubric()
        return changed

    def _edit(self, code: InducedCode, decision: CodeDecision) -> InducedCode:
        """Return the code with the texts of a decision. A group keeps the letters it has here."""
        names = ("id", "name", "group", "definition", "evidence", "not_")
        texts = {name: getattr(decision, name) for name in names}
        edited = replace(code, **{name: x.strip() for name, x in texts.items() if x is not None})
        group = " ".join(edited.group.split())
        spelt = {x.group.casefold(): x.group for x in self.codes if x != code}
        return replace(edited, group=spelt.get(group.casefold(), group))

    def compare_passed(self) -> "Codebook":
        """Return the codebook with ``in_passed`` of each code by the findings that it has."""
        from annotator.induction.passed import compare_passed, is_in_passed

        shares = compare_passed(self, self.codes)
        codes = (replace(each.code, in_passed=is_in_passed(each)) for each in shares)
        return replace(self, codes=tuple(codes))

    def replay(self, decisions: Sequence[CodeDecision]) -> "Codebook":
        """Return the codebook after all decisions that stand.

        Raises:
            AnnotatorError: as :meth:`apply` and :func:`list_standing`.
        """
        book = self
        for n in list_standing(decisions):
            book = book._change(decisions[n])
        return self if book is self else book.compare_passed()

    def to_rubric(self) -> Rubric:
        """Return the codes as a rubric of ``many`` codes.

        Raises:
            AnnotatorError: a clause is missing or too long, or an id is given twice.
        """
        try:
            return Rubric(
                id="induced",
                version=1,
                title=self.title,
                source=self.source,
                applies_to=AppliesTo(),
                choice="many",
                min_quotes=1,
                instructions=_INSTRUCTIONS,
                codes=tuple(map(_make_code, self.codes)),
            )
        except ValidationError as error:
            raise AnnotatorError(describe_validation(error)) from error


def _make_code(code: InducedCode) -> Code:
    """Return a code of the rubric. Raises :class:`AnnotatorError` for an invalid clause."""
    texts = {
        "id": code.id,
        "name": code.name,
        "definition": code.definition,
        "evidence": code.evidence,
        **({"group": code.group} if code.group else {}),
        **({"not": code.not_} if code.not_ else {}),
        **({"example": code.example} if code.example else {}),
    }
    for clause in ("id", "name", "definition", "evidence"):
        if not texts[clause]:
            raise AnnotatorError(f"the {clause} of the code {code.id!r} is empty")
    try:
        return Code.model_validate(texts)
    except ValidationError as error:
        problem = describe_validation(error)
        if error.errors()[0]["loc"] == ("id",):
            problem = "an id is a letter or digit, then up to 63 letters, digits, _, - or ."
        raise AnnotatorError(f"code {code.id!r}: {problem}") from error


_INSTRUCTIONS = """\
These codes were induced from traces of the same system. Report each code whose definition the
quotes show. A run without a failure has none.
"""


def _move(
    codes: Sequence[InducedCode], findings: Sequence[str], target: InducedCode | None = None
) -> list[InducedCode]:
    """Return the codes with findings in ``target`` only, or in no code."""
    moved = dict.fromkeys(findings)
    if target:
        moved = {name: None for name in moved if name not in target.findings}
    changed = []
    for code in codes:
        kept = tuple(name for name in code.findings if name not in moved)
        changed.append(replace(code, findings=(*kept, *moved) if code is target else kept))
    return changed


_LOG, _RUBRIC = "decisions.jsonl", "rubric.yaml"
_adapt = cache(TypeAdapter[Any])  # building one takes longer than reading a line


def save_codebook(book: Codebook, folder: Path) -> None:
    """Write the codebook and its rubric into a folder.

    Raises:
        AnnotatorError: people have decided about another codebook there.
    """
    data = _adapt(Codebook).dump_json(book, indent=1) + b"\n"
    decisions = read_decisions(folder)
    if decisions and not (has_codebook(folder) and read_bounded(folder / CODEBOOK) == data):
        number = format_count(len(decisions), "decision")
        raise AnnotatorError(
            f"{folder / _LOG} has {number} about another codebook: name another folder"
        )
    write_file(folder / CODEBOOK, data)
    _write_rubric(book.replay(decisions), folder)


def has_codebook(folder: Path) -> bool:
    """Whether a folder holds a codebook."""
    return (folder / CODEBOOK).is_file()


def read_codebook(folder: Path) -> tuple[Codebook, tuple[CodeDecision, ...]]:
    """Return the codebook as the model made it, and people's decisions since.

    Raises:
        AnnotatorError: there is no codebook, or a file is damaged.
    """
    file = folder / CODEBOOK
    try:
        book: Codebook = _adapt(Codebook).validate_json(read_bounded(file))
    except OSError as error:
        raise AnnotatorError(f"{folder}: no codebook here: {error.strerror}") from error
    except ValidationError as error:
        raise AnnotatorError(f"{file}: damaged: {describe_validation(error)}") from error
    coded = [name for code in book.codes for name in code.findings]
    missing = [name for name in coded if name not in book.by_id]
    repeated = (*find_repeated(f.id for f in book.findings), *find_repeated(coded))
    for names, problem in ((missing, "is missing"), (repeated, "is there twice")):
        if names:
            raise AnnotatorError(f"{file}: damaged: the finding {names[0]!r} {problem}")
    return book, read_decisions(folder)


def read_decisions(folder: Path) -> tuple[CodeDecision, ...]:
    """Return people's decisions. A last line without its end was never confirmed: it is left out.

    Raises:
        AnnotatorError: a line is damaged.
    """
    log = folder / _LOG
    lines = read_bounded(log).split(b"\n")[:-1] if log.exists() else []
    decisions = []
    for n, line in enumerate(lines, 1):
        try:
            decisions.append(_adapt(CodeDecision).validate_json(line))
        except ValidationError as error:
            raise AnnotatorError(f"{log}, line {n}: no decision: {line[:80]!r}") from error
    return tuple(decisions)


def has_torn_decision(folder: Path) -> bool:
    """Whether the last line of the log was cut off as it was written."""
    log = folder / _LOG
    return log.exists() and bool(read_bounded(log).rpartition(b"\n")[2])


def open_codebook(folder: Path) -> Codebook:
    """Return the codebook after people's decisions.

    Raises:
        AnnotatorError: as :func:`read_codebook`, or the decisions are about another codebook.
    """
    return replay_log(*read_codebook(folder), folder)


def replay_log(book: Codebook, decisions: Sequence[CodeDecision], folder: Path) -> Codebook:
    """Return the codebook of a folder after decisions; raises as :func:`open_codebook`."""
    try:
        return book.replay(decisions)
    except AnnotatorError as error:
        raise AnnotatorError(f"{folder / _LOG} does not fit {CODEBOOK}: {error}") from error


def decide(folder: Path, decision: CodeDecision) -> Codebook:
    """Log a decision, write the rubric anew, and return the codebook after it.

    Raises:
        AnnotatorError: as :meth:`Codebook.apply`; nothing is logged then.
    """
    decision = replace(decision, time=datetime.now(UTC).isoformat(timespec="seconds"))
    with LineLog(folder / _LOG, private=True) as log:
        log.cut_torn()
        start, decisions = read_codebook(folder)
        book = replay_log(start, decisions, folder)
        if decision.action == "undo":
            book = start.replay((*decisions, decision))
        else:
            book = book.apply(decision)
        log.append(_adapt(CodeDecision).dump_json(decision, exclude_defaults=True) + b"\n")
        _write_rubric(book, folder)
    return book


def _write_rubric(book: Codebook, folder: Path) -> None:
    kept = tuple(code for code in book.codes if code.accepted or not code.in_passed)
    if kept:
        write_file(folder / _RUBRIC, dump_rubric(replace(book, codes=kept).to_rubric()))
    else:
        (folder / _RUBRIC).unlink(missing_ok=True)
