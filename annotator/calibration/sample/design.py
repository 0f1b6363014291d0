"""Designs of samples: a split by task, strata by the judge's codes, known probabilities."""

import hashlib
import json
import math
import os
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from annotator.base.errors import AnnotatorError
from annotator.base.files import explain_unreadable, read_bounded, write_file
from annotator.base.text import describe_validation, replace_surrogates, sanitize_line
from annotator.calibration.model import OPEN
from annotator.labels import Label
from annotator.runs.run import Run
from annotator.traces.records import parse_json

EVERYTHING = ""  # the stratum of a uniform sample
# Strata that are not codes: codes have no colon.
UNANIMOUS, DIVIDED, UNDECIDED = "votes:unanimous", "votes:divided", OPEN["undecided"]
Strata = Literal["codes", "votes", "none"]
"""Traces are stratified by the judge's codes, by whether its votes agree, or not at all."""
_RECORDED = "samples"  # where a run keeps the designs of its samples
_SOURCE_FIELDS = ("sources", "format")  # of a design; they are not part of its id


@dataclass(frozen=True, slots=True)
class Candidate:
    """A trace that can be sampled. ``task`` is its own id if it names no task."""

    trace_id: str
    task: str
    stratum: str = EVERYTHING


@dataclass(frozen=True, slots=True)
class SampledStratum:
    """A stratum of ``size`` traces. ``drawn`` of them were sampled, each equally likely."""

    size: int
    drawn: int

    @property
    def probability(self) -> float:
        """The inclusion probability of each trace."""
        return self.drawn / self.size


@dataclass(frozen=True)
class Design:
    """How the traces of a sheet were sampled. ``traces`` maps sampled traces to their strata.

    It is a file of its own, because strata show the judge's codes, which annotators must not see.
    ``judge_sha256`` is None without a judge. ``sources`` and ``format``: the paths of the traces,
    as in ``run.json``.
    """

    rubric: str
    rubric_sha256: str
    judge_sha256: str | None
    split: str
    salt: str
    dev_share: float
    seed: int
    strata: dict[str, SampledStratum]
    traces: dict[str, str] = field(repr=False)
    schema: Literal["design/1"] = "design/1"
    sources: tuple[str, ...] | None = None
    format: str | None = None

    @property
    def size(self) -> int:
        """The number of traces in all strata."""
        return sum(stratum.size for stratum in self.strata.values())

    @property
    def strata_by(self) -> Strata:
        """The kind of the strata."""
        if EVERYTHING in self.strata:
            return "none"
        return "votes" if {UNANIMOUS, DIVIDED} & self.strata.keys() else "codes"

    @property
    def id(self) -> str:
        """A short hash of the design, without the paths of the traces."""
        fields = {name: value for name, value in asdict(self).items() if name not in _SOURCE_FIELDS}
        text = json.dumps(fields, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def probabilities(self) -> dict[str, float]:
        """The inclusion probability of every sampled trace."""
        return {
            trace_id: self.strata[stratum].probability for trace_id, stratum in self.traces.items()
        }


def assign_split(task: str, salt: str, dev_share: float) -> str:
    """Return ``dev`` or ``test`` for a task, by its salted hash."""
    digest = hashlib.sha256(f"{salt}\0{task}".encode("utf-8", "surrogatepass")).digest()
    return "dev" if int.from_bytes(digest[:8]) < dev_share * 2**64 else "test"


def allocate(sizes: Mapping[str, int], n: int, floor: int) -> dict[str, int]:
    """Return the number of traces to sample from each stratum, ``n`` in all.

    Each stratum gets ``floor``, or all of its traces. The rest is divided in proportion to the
    traces that remain, by largest remainders.

    Raises:
        AnnotatorError: ``n`` is too small for the floors.
    """
    n = min(n, sum(sizes.values()))
    base = {name: min(floor, size) for name, size in sizes.items()}
    remaining = n - sum(base.values())
    if remaining < 0:
        raise AnnotatorError(
            f"-n {n}: {n} labels cannot cover {len(sizes)} strata with {floor} each. Use"
            f" -n {sum(base.values())}, a smaller --floor, or --uniform"
        )
    rooms = {name: size - base[name] for name, size in sizes.items()}
    total = sum(rooms.values())
    exact = {name: remaining * room / total if total else 0.0 for name, room in rooms.items()}
    sampled = {name: base[name] + math.floor(exact[name]) for name in sizes}
    short = n - sum(sampled.values())
    by_remainder = sorted(sizes, key=lambda name: (math.floor(exact[name]) - exact[name], name))
    for name in [name for name in by_remainder if sampled[name] < sizes[name]][:short]:
        sampled[name] += 1
    return sampled


def draw_traces(
    candidates: Iterable[Candidate], sampled: Mapping[str, int], seed: int
) -> list[Candidate]:
    """Return the sampled traces in random order, ``sampled`` of each stratum.

    In a stratum the sample is systematic: traces are sorted by task, and taken at equal steps from
    a random start. Every trace is equally likely, and the sample spreads over tasks.
    """
    generator = random.Random(seed)  # noqa: S311
    strata = _group_by_stratum(candidates)
    selected: list[Candidate] = []
    for name in sorted(strata):
        members = sorted(strata[name], key=attrgetter("trace_id"))
        # Random within a task: ids often begin with the model, which a step would pick each time.
        generator.shuffle(members)
        members.sort(key=attrgetter("task"))
        step, start = len(members) / max(sampled[name], 1), generator.random()
        selected += [
            members[min(int((n + start) * step), len(members) - 1)] for n in range(sampled[name])
        ]
    generator.shuffle(selected)
    return selected


def extend_design(
    candidates: Iterable[Candidate], design: Design, more: Mapping[str, int], seed: int
) -> tuple[Design, list[Candidate]]:
    """Return the design of both rounds and ``more`` new traces of some strata, at random.

    Within a stratum every trace is equally likely to be in one of the rounds.

    Raises:
        AnnotatorError: the traces are not those of the design, or a stratum is unknown or has too
            few traces left.
    """
    generator = random.Random(f"{design.id} {seed}")  # noqa: S311
    strata = _group_by_stratum(candidates)
    sizes = {name: len(members) for name, members in strata.items()}
    if sizes != {name: stratum.size for name, stratum in design.strata.items()}:
        raise AnnotatorError(
            "the traces and the judge's codes are not those the sample was drawn from"
        )
    selected: list[Candidate] = []
    changed = dict(design.strata)
    for name, number in more.items():
        if name not in strata:
            raise AnnotatorError(
                f"--top-up {name}: no trace of the {design.split} split is in this stratum; there"
                f" are {', '.join(sorted(strata))}"
            )
        undrawn = [trace for trace in strata[name] if trace.trace_id not in design.traces]
        if number > len(undrawn):
            raise AnnotatorError(f"--top-up {name}={number}: only {len(undrawn)} traces are left")
        selected += generator.sample(sorted(undrawn, key=attrgetter("trace_id")), number)
        changed[name] = SampledStratum(changed[name].size, changed[name].drawn + number)
    generator.shuffle(selected)
    traces = design.traces | {trace.trace_id: trace.stratum for trace in selected}
    return replace(design, strata=changed, traces=traces, seed=seed), selected


def _group_by_stratum(candidates: Iterable[Candidate]) -> dict[str, list[Candidate]]:
    strata: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        strata.setdefault(candidate.stratum, []).append(candidate)
    return strata


def write_design(file: Path, design: Design) -> None:
    """Write a design; a file with the same one is left as it is.

    Raises:
        AnnotatorError: the file has other content, or cannot be written.
    """
    text = f"{json.dumps(asdict(design), ensure_ascii=False, indent=1)}\n"
    with suppress(OSError):
        if read_bounded(file) == replace_surrogates(text).encode():
            return
    write_file(file, text, exclusive=True)


def read_design(file: Path) -> Design:
    """Return the design in a file.

    Raises:
        AnnotatorError: the file cannot be read, or is not a design.
    """
    try:
        with explain_unreadable(file):
            design = TypeAdapter(Design).validate_json(read_bounded(file))
    except ValidationError as error:
        reason = describe_validation(error, "file")
        raise AnnotatorError(f"{file}: not the design of a sample: {reason}") from error
    return design


def record_design(run: Run, design: Design) -> bool:
    """Write a design into the run's folder for ``annotate calibrate``; return False on failure."""
    if not run.folder:
        return False
    file = run.folder / _RECORDED / f"{design.id}.design.json"
    try:
        file.parent.mkdir(exist_ok=True)
        if not file.exists():
            write_design(file, design)
    except (OSError, AnnotatorError):
        return False
    return True


def read_recorded_designs(run: Run) -> list[Design]:
    """Return the designs in a run's folder.

    Raises:
        AnnotatorError: one cannot be read.
    """
    if not run.folder:
        return []
    return [read_design(file) for file in sorted((run.folder / _RECORDED).glob("*.design.json"))]


def find_design(
    run: Run | None,
    labels: Mapping[str, Label],
    rubric: str,
    file: Path | None,
    label_files: Sequence[Path],
) -> tuple[Design | None, list[str]]:
    """Return the design that labels were sampled by, or None and a note if it is missing.

    It is the one in ``file``, else one that the labels name, in the run's folder or beside a label
    file. If labels of several rounds name several designs, it is the last round's.

    Raises:
        AnnotatorError: ``file`` is for another rubric, or a design cannot be read; or it is missing
            and the labels carry no inclusion probabilities, as those of a blinded sheet.
    """
    if file:
        design = read_design(file)
        if design.rubric != rubric:
            raise AnnotatorError(
                f"--design: this sample is for the rubric {design.rubric}, not for {rubric}"
            )
        return design, []
    names = {label.design for label in labels.values()}
    if None in names:
        _check_weights(labels.values())
        return None, []
    designs = read_recorded_designs(run) if run else []
    if not names <= {design.id for design in designs}:
        designs += map(read_design, list_neighbours(label_files))
    complete = [
        design
        for design in designs
        if design.id in names
        and design.rubric == rubric
        and (len(names) == 1 or design.traces.keys() >= labels.keys())
    ]
    if complete:
        return max(complete, key=lambda design: len(design.traces)), []
    sample = f"The labels name a sample ({', '.join(sorted(map(str, names)))})"
    if any(label.inclusion_probability is None for label in labels.values()):
        raise AnnotatorError(
            f"{sample} whose design is neither in RUN/{_RECORDED} nor beside the labels, and their"
            " weights are not known without it: give SHEET.design.json with --design FILE. Two"
            " independent samples need a file of labels each"
        )
    return None, [
        f"{sample} that is not recorded with the run: how many drawn traces have no label is not"
        " known. Give it with --design FILE."
    ]


def _check_weights(labels: Iterable[Label]) -> None:
    """Raise if only some labels are of a sample and carry no inclusion probabilities."""
    named = [label for label in labels if label.design and label.inclusion_probability is None]
    if named:
        other = next(label for label in labels if not label.design)
        raise AnnotatorError(
            f"{other.where}: {other.trace_id!r} is of no sample, and {len(named)} labels are of one"
            " (design): they have no weights together. Keep them in two files, or give the design"
            " of all with --design FILE"
        )


def list_neighbours(files: Iterable[Path]) -> list[Path]:
    """Return the files of designs in the folders of sheets and labels."""
    folders = dict.fromkeys(file.parent for file in files)
    return [path for folder in folders for path in sorted(folder.glob("*.design.json"))]


def locate_design(sheet: Path) -> Path:
    """Return the path of a sheet's design, beside it."""
    return sheet.with_name(f"{sheet.name}.design.json")


def read_sources(sheet: Path) -> tuple[tuple[str, ...], str] | None:
    """Return the paths and the format of the traces in a sheet, None without its design.

    Raises:
        AnnotatorError: the design cannot be read.
    """
    sources, format = map(_read_fields(locate_design(sheet)).get, _SOURCE_FIELDS)
    return (tuple(sources), format) if sources and format else None


def list_trace_ids(
    run: Run | None, rubric: str, design: Path | None, files: Sequence[Path]
) -> Iterator[str]:
    """Yield the ids that blinded sheets may stand for: those in a design, in the designs beside
    some sheets, and in a run.

    Raises:
        AnnotatorError: a design or the run cannot be read.
    """
    for file in (*([design] if design else []), *map(locate_design, files)):
        yield from _read_fields(file).get("traces") or ()
    yield from (annotation.trace_id for annotation in (run.annotations(rubric) if run else ()))


def _read_fields(file: Path) -> dict[str, Any]:
    """Return the fields of a design, unchecked; none without the file. An error message that
    quoted them would show the judge's codes to annotators.
    """
    if not os.path.lexists(file):
        return {}
    with explain_unreadable(file):
        value = parse_json(read_bounded(file).decode(errors="replace"), sanitize_line(str(file)))
    return value if isinstance(value, dict) else {}


def draw_doubles(selected: Sequence[Candidate], number: int, seed: int) -> list[Candidate]:
    """Return a random part of the sampled traces, for a second person to label."""
    generator = random.Random(f"doubles {seed}")  # noqa: S311
    return generator.sample(list(selected), min(number, len(selected)))
