"""The result of an induction: codes, findings and batches."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from annotator.base.errors import AnnotatorError
from annotator.base.files import read_bounded, write_file
from annotator.induction.codebook import (
    Codebook,
    CodeDecision,
    InducedCode,
    OpenFinding,
    open_codebook,
    read_decisions,
)
from annotator.induction.passed import CodeShares, compare_passed, is_in_passed
from annotator.rubrics import Rubric, group_codes, name_group
from annotator.rubrics.annotations import Usage
from annotator.runs.manifest import INDUCTION, is_induction
from validation import Estimate, estimate_unseen

if TYPE_CHECKING:
    from pandas import DataFrame  # type: ignore[import-untyped]


@dataclass(frozen=True)
class Batch:
    """The traces of a batch that were judged, and their findings.

    ``new_codes``: those that it added when its findings were grouped; ``codes``: the final codes
    that no batch before it has.
    """

    traces: int
    findings: int
    new_codes: int
    codes: int = 0


@dataclass(frozen=True)
class InductionRecord:
    """The content of ``induction.json``: all but the codes and findings of ``codebook.json``.

    Attributes:
        settings: the model, and the options that decide the codes.
        population: the readable traces by outcome, of which ``sampled`` were drawn.
        unjudged: the sampled traces without a judgement, by status.
        batches: those that were read; ``saturated``: the last one brought no new code.
        merged: the codes of the grouping in each code; ``dropped``: why one is in none.
        usage: all calls, and their cost; None: unknown.
        finished: False: only the settings are there.
    """

    settings: Mapping[str, Any]
    population: Mapping[str, int] = field(default_factory=dict)
    sampled: int = 0
    unreadable: int = 0
    unjudged: Mapping[str, int] = field(default_factory=dict)
    batches: tuple[Batch, ...] = ()
    saturated: bool = False
    merged: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    dropped: Mapping[str, str] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    finished: bool = False

    @property
    def read(self) -> int:
        """The traces that were judged."""
        return sum(batch.traces for batch in self.batches)


@dataclass(frozen=True)
class Induction:
    """Codes induced from traces, with their findings.

    ``book`` has the codes after people's decisions.
    """

    folder: Path
    book: Codebook
    record: InductionRecord
    decisions: tuple[CodeDecision, ...] = ()

    @property
    def codes(self) -> tuple[InducedCode, ...]:
        """The codes, the most frequent first."""
        return tuple(sorted(self.book.codes, key=lambda code: -len(code.findings)))

    @property
    def findings(self) -> tuple[OpenFinding, ...]:
        """All findings, also those without a code."""
        return self.book.findings

    @property
    def rubric(self) -> Rubric:
        """All codes as a rubric, also those that passed runs have as often."""
        return self.book.to_rubric()

    @property
    def log(self) -> tuple[dict[str, Any], ...]:
        """How the codes came about, and people's decisions since: an entry each."""
        record = self.record
        return (
            *({"action": "read", **asdict(batch)} for batch in record.batches),
            *(
                {"action": "write", "code": name, "merged": list(codes)}
                for name, codes in record.merged.items()
            ),
            *(
                {"action": "leave out", "code": name, "why": why}
                for name, why in record.dropped.items()
            ),
            *(asdict(decision) for decision in self.decisions),
        )

    @cached_property
    def unseen(self) -> Estimate:
        """The chance that the next finding belongs to none of the codes; a finding without a code
        counts as the only one of a code of its own.
        """
        counts = [len(code.findings) for code in self.book.codes]
        return estimate_unseen([*counts, *(1 for _ in self.book.uncoded)])

    @cached_property
    def shares(self) -> tuple[CodeShares, ...]:
        """The shares of the codes, the largest among failed runs first."""
        return self._share(self.codes)

    @cached_property
    def group_shares(self) -> tuple[CodeShares, ...]:
        """The share of runs with any code of a group, the largest first. A group is given as a code
        with the findings of all its codes. Empty if there are fewer than two groups, or if each has
        one code.
        """
        groups = []
        for name, ids in group_codes(self.codes).items():
            findings = tuple(x for code in self.codes if code.id in ids for x in code.findings)
            groups.append(InducedCode(name_group(name), name, "", "", findings=findings))
        shares = self._share(groups)
        return tuple(
            replace(each, code=replace(each.code, in_passed=is_in_passed(each))) for each in shares
        )

    def _share(self, codes: Sequence[InducedCode]) -> tuple[CodeShares, ...]:
        shares = compare_passed(self.book, codes)
        return tuple(sorted(shares, key=lambda each: -each.failed.k))

    def to_pandas(self) -> "DataFrame":
        """Return a row for each finding: its trace, its code (None: none), name and quotes."""
        import pandas as pd

        coded = {name: code.id for code in self.book.codes for name in code.findings}
        rows = [
            {
                "finding": each.id,
                "trace_id": each.trace_id,
                "passed": self.book.traces[each.trace_id].get("passed"),
                "code": coded.get(each.id),
                "name": each.name,
                "rationale": each.rationale,
                "quotes": [item.quote for item in each.evidence],
                "sources": [item.source for item in each.evidence],
            }
            for each in self.findings
        ]
        columns = ["finding", "trace_id", "passed", "code", "name", "rationale"]
        return pd.DataFrame(rows, columns=[*columns, "quotes", "sources"])


_ADAPTER = TypeAdapter(InductionRecord)


def write_record(record: InductionRecord, folder: Path) -> None:
    """Write ``induction.json``."""
    write_file(folder / INDUCTION, _ADAPTER.dump_json(record, indent=1) + b"\n")


def begin_record(folder: Path, settings: Mapping[str, Any], *, resume: bool) -> None:
    """Write the settings of an induction that begins, or compare them with those of its first part.
    ``sample`` may be larger than there.

    Raises:
        AnnotatorError: an induction is there without ``resume``, or with other settings, or people
            have decided about the codes of a smaller sample.
    """
    if not is_induction(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_record(InductionRecord(settings), folder)
        return
    if not resume:
        raise AnnotatorError(
            f"{folder}: an induction is there; go on with --resume, or name another --out"
        )
    before = read_record(folder).settings
    grows = settings["sample"] > before["sample"]
    if grows and read_decisions(folder):
        raise AnnotatorError(
            f"{folder}: people have decided about the codes of {before['sample']} traces; a larger"
            " --sample needs another --out"
        )
    for name, value in settings.items():
        if before.get(name) != value and not (grows and name == "sample"):
            raise AnnotatorError(
                f"{folder} cannot be resumed: {name} was {before.get(name)!r}, and is now"
                f" {value!r}; name another --out"
            )
    if grows:
        write_record(InductionRecord(settings), folder)


def read_record(folder: Path) -> InductionRecord:
    """Return the content of ``induction.json``; raises AnnotatorError if it cannot be read."""
    try:
        return _ADAPTER.validate_json(read_bounded(folder / INDUCTION))
    except OSError as error:
        raise AnnotatorError(f"{folder}: no induction here: {error.strerror}") from error
    except ValidationError as error:
        raise AnnotatorError(
            f"{folder / INDUCTION}: damaged: {error.errors()[0]['msg']}"
        ) from error


def open_induction(folder: Path | str) -> Induction:
    """Return the induction in a directory, after people's decisions.

    Raises:
        AnnotatorError: there is none, it is not finished, or a file is damaged.
    """
    folder = Path(folder)
    record = read_record(folder)
    if not record.finished:
        raise AnnotatorError(f"{folder}: the induction is not finished; go on with --resume")
    return Induction(folder, open_codebook(folder), record, read_decisions(folder))
