"""A codebook: codes induced from findings, and the decisions of people about them."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import TypeAdapter, ValidationError

from annotator.base.errors import AnnotatorError
from annotator.base.files import LineLog, read_bounded, write_file
from annotator.base.text import suggest
from annotator.rubrics.annotations import Evidence
from annotator.rubrics.changes import dump_rubric
from annotator.rubrics.model import AppliesTo, Code, Example, Rubric

Action = Literal["merge", "split", "rename", "drop", "accept", "move", "undo"]
ACTIONS: tuple[Action, ...] = get_args(Action)


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


@dataclass(frozen=True, slots=True)
class Decision:
    """A change of a codebook by a person, as a line of ``decisions.jsonl``.

    ``merge``: ``codes`` become the first of them. ``split``: ``findings`` of ``codes[0]`` become
    the new code ``id``. ``rename``: ``codes[0]`` gets the given texts. ``drop``: ``codes`` go, and
    their findings have no code. ``accept``: ``codes`` are right. ``move``: ``findings`` go to
    ``codes[0]``, or to none. ``undo``: the last decision that stands is taken back.
    """

    action: Action
    codes: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    id: str = ""
    name: str = ""
    definition: str = ""
    evidence: str = ""
    not_: str = ""
    why: str = ""
    by: str = ""
    time: str = ""


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

    def apply(self, decision: Decision) -> "Codebook":
        """Return the codebook after a decision other than ``undo``.

        Raises:
            AnnotatorError: it names a code or a finding that does not exist, or leads to an
                invalid rubric.
        """
        chosen = [self.code(code_id) for code_id in decision.codes]
        if unknown := [name for name in decision.findings if name not in self.by_id]:
            raise AnnotatorError(f"there is no finding {unknown[0]!r}")
        codes = list(self.codes)
        match decision.action:
            case "merge":
                findings = tuple(name for code in chosen for name in code.findings)
                codes[codes.index(chosen[0])] = replace(chosen[0], findings=findings)
                codes = [code for code in codes if code not in chosen[1:]]
            case "drop":
                codes = [code for code in codes if code not in chosen]
            case "accept":
                codes = [replace(c, accepted=True) if c in chosen else c for c in codes]
            case "rename":
                codes[codes.index(chosen[0])] = _edit(chosen[0], decision)
            case "split" | "move":
                moved = set(decision.findings)
                codes = [
                    replace(code, findings=tuple(x for x in code.findings if x not in moved))
                    for code in codes
                ]
                if decision.action == "split":
                    codes.append(_edit(InducedCode("", "", "", ""), decision))
                target = decision.id if decision.action == "split" else "".join(decision.codes)
                codes = [
                    replace(code, findings=code.findings + decision.findings)
                    if code.id == target
                    else code
                    for code in codes
                ]
            case "undo":
                raise AnnotatorError("undo: only the log knows the decision before")
        changed = replace(self, codes=tuple(codes))
        if changed.codes:
            changed.to_rubric()
        return changed

    def replay(self, decisions: Iterable[Decision]) -> "Codebook":
        """Return the codebook after all decisions that stand; raises as :meth:`apply`."""
        standing: list[Decision] = []
        for decision in decisions:
            if decision.action != "undo":
                standing.append(decision)
            elif standing:
                standing.pop()
        book = self
        for decision in standing:
            book = book.apply(decision)
        return book

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
                codes=tuple(
                    Code.model_validate(
                        {
                            "id": code.id,
                            "name": code.name,
                            "definition": code.definition,
                            "evidence": code.evidence,
                            **({"not": code.not_} if code.not_ else {}),
                            **({"example": code.example} if code.example else {}),
                        }
                    )
                    for code in self.codes
                ),
            )
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise AnnotatorError(": ".join(filter(None, [where, first["msg"]]))) from error


_INSTRUCTIONS = """\
These codes were induced from traces of the same system. Report each code whose definition the
quotes show. A run without a failure has none.
"""


def _edit(code: InducedCode, decision: Decision) -> InducedCode:
    """Return the code with the texts that a decision gives."""
    texts = {
        name: text
        for name in ("id", "name", "definition", "evidence", "not_")
        if (text := getattr(decision, name))
    }
    return replace(code, **texts)


_FILE, _LOG, _RUBRIC = "codebook.json", "decisions.jsonl", "rubric.yaml"


def save_codebook(book: Codebook, folder: Path) -> None:
    """Write the codebook and its rubric into a folder."""
    write_file(folder / _FILE, TypeAdapter(Codebook).dump_json(book, indent=1) + b"\n")
    _write_rubric(book, folder)


def read_codebook(folder: Path) -> tuple[Codebook, tuple[Decision, ...]]:
    """Return the codebook as the model made it, and people's decisions since.

    Raises:
        AnnotatorError: there is no codebook, or a file is damaged.
    """
    file, log = folder / _FILE, folder / _LOG
    decisions = []
    try:
        book = TypeAdapter(Codebook).validate_json(read_bounded(file))
        for n, line in enumerate(read_bounded(log).splitlines() if log.exists() else (), 1):
            try:
                decisions.append(TypeAdapter(Decision).validate_json(line))
            except ValidationError as error:
                raise AnnotatorError(f"{log}, line {n}: no decision: {line[:80]!r}") from error
    except OSError as error:
        raise AnnotatorError(f"{folder}: no codebook here: {error.strerror}") from error
    except ValidationError as error:
        raise AnnotatorError(f"{file}: damaged: {error.errors()[0]['msg']}") from error
    return book, tuple(decisions)


def open_codebook(folder: Path) -> Codebook:
    """Return the codebook after people's decisions; raises as :func:`read_codebook`."""
    book, decisions = read_codebook(folder)
    return book.replay(decisions)


def decide(folder: Path, decision: Decision) -> Codebook:
    """Log a decision, write the rubric anew, and return the codebook after it.

    Raises:
        AnnotatorError: as :meth:`Codebook.apply`; nothing is logged then.
    """
    decision = replace(decision, time=datetime.now(UTC).isoformat(timespec="seconds"))
    with LineLog(folder / _LOG, private=True) as log:
        log.cut_torn()
        start, decisions = read_codebook(folder)
        book = start.replay((*decisions, decision))
        log.append(TypeAdapter(Decision).dump_json(decision) + b"\n")
        _write_rubric(book, folder)
    return book


def _write_rubric(book: Codebook, folder: Path) -> None:
    kept = tuple(code for code in book.codes if code.accepted or not code.in_passed)
    if kept:
        write_file(folder / _RUBRIC, dump_rubric(replace(book, codes=kept).to_rubric()))
    else:
        (folder / _RUBRIC).unlink(missing_ok=True)
