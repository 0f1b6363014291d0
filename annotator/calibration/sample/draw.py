"""Drawing a sheet from a run or from traces, and planning one before anybody labels."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from annotator.base.errors import AnnotatorError
from annotator.calibration.judged_sample import read_judged_sample
from annotator.calibration.model import read_calibrations
from annotator.calibration.sample.design import (
    EVERYTHING,
    UNDECIDED,
    Candidate,
    Design,
    SampledStratum,
    Strata,
    allocate,
    design_file,
    draw,
    draw_doubles,
    read_design,
    record_design,
    top_up,
    write_design,
)
from annotator.calibration.sample.sheets import (
    Population,
    Split,
    find_judged,
    find_traces,
    make_rows,
    write_sheet,
)
from annotator.rubrics import load_rubric
from annotator.runs.manifest import resolve_source
from annotator.runs.run import Run
from annotator.traces.clusters import DEFAULT_CLUSTER
from validation import Interval, expected_half_widths, share_of_totals
from validation.intervals import quantile

PLANNED = (50, 100, 200, 400)
ASSUMED_PRECISION = 0.85


@dataclass(frozen=True, slots=True)
class Assumed:
    """How often the judge is assumed to be right in what it flags (``precision``), and how much of
    what there is it flags (``recall``; None: as many are missed as are flagged wrongly).
    """

    precision: float = ASSUMED_PRECISION
    recall: float | None = None


@dataclass(frozen=True, slots=True)
class Draw:
    """What to draw. ``strata``: what the judged traces are stratified by; ``undecided``: draw from
    the undecided ones too, a stratum of their own (always with ``votes``).

    ``floor``: how many of each stratum at least; None: of the judge's codes 5, 10 from 300 traces
    on, and of how votes agree as many of each.

    ``more``: code -> how many to add to the design in ``before``, whose split it takes over.
    """

    split: Split
    rubric: str | None = None
    n: int = 200
    strata: Strata = "codes"
    undecided: bool = True
    floor: int | None = None
    double: int = 30
    cluster: tuple[str, ...] = DEFAULT_CLUSTER
    format: str = "auto"
    seed: int = 0
    before: Path | None = None
    more: tuple[tuple[str, int], ...] = ()

    def floor_of(self, n: int, sizes: Mapping[str, int]) -> int:
        """Return how many to draw at least, of ``n``, from strata of these sizes."""
        if EVERYTHING in sizes:
            return 0
        if self.floor is not None:
            return self.floor
        return n // len(sizes) if self.strata == "votes" else 10 if n >= 300 else 5


@dataclass(frozen=True, slots=True)
class Sheet:
    """A sheet that was written: where, how many traces and rows, and from how many. ``recorded``:
    the run keeps its design, too.
    """

    file: Path
    design_file: Path
    design: Design
    traces: int
    rows: int
    tasks: int | None
    left_out: int
    recorded: bool


@dataclass(frozen=True, slots=True)
class Planned:
    """What ``n`` labels are expected to show of one code. ``expected``: labels of traces that the
    judge gave the code; ``half_width``: of the corrected share, in [0, 1], widened by the
    ``design_effect`` of the judge's share and by Student's t on the ``tasks`` that can have labels.
    """

    code: str
    n: int
    judged: int
    share: float
    expected: int
    half_width: float
    design_effect: float = 1.0
    tasks: int | None = None
    assumed: Assumed = Assumed()


def draw_sheet(source: Run | Sequence[str], what: Draw, out: Path) -> Sheet:
    """Draw from a run or from traces, and write the sheet and its design.

    Raises:
        AnnotatorError: the sources cannot be read or hold nothing to draw, the sample is too small
            for its floors, ``out`` is there already, or a top-up does not fit its design.
    """
    if out.exists():
        raise AnnotatorError(f"{out} is there already and may hold labels; name another")
    before = read_design(what.before) if what.before else None
    split = Split(before.split, before.salt, before.dev_share) if before else what.split
    if before:
        uniform = before.strata_by == "none"  # its one stratum may hold undecided traces, too
        what = replace(
            what, strata=before.strata_by, undecided=uniform or UNDECIDED in before.strata
        )
    population = _population(source, what, split)
    if before and len(population.candidates) != before.size:
        population = _population(source, replace(what, undecided=False), split)
    if before:
        if population.rubric_sha256 != before.rubric_sha256:
            raise AnnotatorError("--from: drawn for another rubric, or another version of it")
        more: Counter[str] = Counter()
        for code, number in what.more:
            more[code] += number
        design, selected = top_up(population.candidates, before, more, what.seed)
        twice: list[Candidate] = []
    else:
        design, selected = _draw_first(population, what, split)
        twice = draw_doubles(selected, what.double, what.seed)
    where, format = _places(source, what)
    design = replace(design, sources=where, format=format)
    sheet = make_rows(selected, twice, design, split)
    beside = design_file(out)
    write_design(beside, design)  # first: a sheet without its design is worth nothing
    write_sheet(out, sheet)
    recorded = not isinstance(source, Run) or record_design(source, design)
    tasks = len({trace.task for trace in selected}) if population.tasks_known else None
    return Sheet(
        out, beside, design, len(selected), len(sheet), tasks, population.left_out, recorded
    )


def _draw_first(population: Population, what: Draw, split: Split) -> tuple[Design, list[Candidate]]:
    sizes = Counter(trace.stratum for trace in population.candidates)
    number = allocate(sizes, what.n, what.floor_of(what.n, sizes))
    selected = draw(population.candidates, number, what.seed)
    design = Design(
        rubric=population.rubric,
        rubric_sha256=population.rubric_sha256,
        judge_sha256=population.judge_sha256,
        split=split.name,
        salt=split.salt,
        dev_share=split.dev_share,
        seed=what.seed,
        strata={name: SampledStratum(size, number[name]) for name, size in sorted(sizes.items())},
        traces={trace.trace_id: trace.stratum for trace in selected},
    )
    return design, selected


def plan_sheet(
    source: Run | Sequence[str], what: Draw, assumed: Mapping[str, Assumed] | None = None
) -> list[Planned]:
    """Return what samples of several sizes are expected to show of each code, drawing none.

    ``assumed``: of the judge, by code, ``""`` for every other; default: it is right in
    :data:`ASSUMED_PRECISION` of what it flags, and misses as many traces as it flags wrongly. That
    traces share tasks is taken from the run.

    Raises:
        AnnotatorError: as :func:`draw_sheet`; or there is no run: the codes' shares are not known.
    """
    if not isinstance(source, Run):
        raise AnnotatorError("--plan needs a RUN: the shares of the codes come from it")
    population = _population(source, what, what.split)
    sizes = Counter(trace.stratum for trace in population.candidates)
    total = sum(sizes.values())
    effects = _measure_effects(source, what, population)
    tasks = len({trace.task for trace in population.candidates})
    planned = []
    for n in sorted({min(n, total) for n in (*PLANNED, what.n)}):
        try:
            sampled = allocate(sizes, n, what.floor_of(n, sizes))
        except AnnotatorError:
            if n < min(what.n, total):
                continue  # the floors need more than this; what was asked for comes later
            raise
        for code, by_stratum in population.with_code.items():
            of_judge = (assumed or {}).get(code) or (assumed or {}).get("") or Assumed()
            cell = _plan_code(code, n, by_stratum, sizes, sampled, of_judge)
            planned.append(_widen(cell, effects.get(code), min(n, tasks)))
    return planned


def _plan_code(
    code: str,
    n: int,
    by_stratum: Mapping[str, int],
    sizes: Mapping[str, int],
    sampled: Mapping[str, int],
    assumed: Assumed,
) -> Planned:
    judged = {name: size for name, size in sizes.items() if name != UNDECIDED}
    flagged, total = sum(by_stratum.values()), sum(judged.values())
    share = flagged / total
    right = share * assumed.precision
    wrong = share - right if assumed.recall is None else right / assumed.recall - right
    missed = wrong / (1 - share) if share < 1 else 0.0
    unflagged = {name: size - by_stratum.get(name, 0) for name, size in judged.items()}
    # Of what the judge left undecided as much is assumed to have the code as of the rest.
    undecided = [(sizes[name], share, sampled[name]) for name in sizes.keys() & {UNDECIDED}]
    width = expected_half_widths(
        share,
        assumed.precision,
        min(missed, 1.0),
        _effective(by_stratum, judged, sampled),
        _effective(unflagged, judged, sampled),
        total,
        others=undecided,
    )
    expected = sum(count * sampled[name] / sizes[name] for name, count in by_stratum.items())
    return Planned(code, n, flagged, share, round(expected), width, assumed=assumed)


def _measure_effects(source: Run, what: Draw, population: Population) -> dict[str, Interval]:
    """Return the judge's share of each code over tasks, nothing where no trace tells its own."""
    rubric = what.rubric or next(iter(source.schemes))
    sample = read_judged_sample(source, rubric, cluster=what.cluster)
    if not sample.clusters.named:
        return {}
    return {code: share_of_totals(*sample.clusters.totals(code)) for code in population.with_code}


def _widen(planned: Planned, share: Interval | None, tasks: int) -> Planned:
    """Return the plan with wider intervals, because traces share tasks.

    The design effect is that of the judge's share in the whole run. Student's t takes the tasks
    that can have labels.
    """
    if share is None:
        return planned
    if tasks < 2:  # how tasks differ will not be known
        return replace(planned, half_width=0.5, tasks=tasks)
    effect = share.design_effect or 1.0
    factor = math.sqrt(effect) * quantile(0.95, tasks - 1) / quantile(0.95)
    width = min(0.5, planned.half_width * factor)
    return replace(planned, half_width=width, design_effect=effect, tasks=tasks)


def read_assumed(files: Sequence[Path], rubric: str | None) -> dict[str, Assumed]:
    """Return what calibrations found of a judge, by code: its precision and recall, where both are
    known. Where several are of one rubric, the last one counts.

    Raises:
        AnnotatorError: a file is no calibration, or none is of the rubric.
    """
    stored = read_calibrations(files)
    calibrations = [
        calibration
        for name, of_rubric in stored.items()
        for calibration in of_rubric
        if rubric in (None, name)
    ]
    if not calibrations:
        raise AnnotatorError(f"the calibration is for {', '.join(stored)}, not for {rubric}")
    return {
        row.code: Assumed(row.precision.value, row.recall.value)
        for calibration in calibrations
        for row in calibration.rows
        if row.precision.value and row.recall.value
    }


def _effective(
    counts: Mapping[str, int], sizes: Mapping[str, int], sampled: Mapping[str, int]
) -> float:
    """Return Kish's n of the labels expected in a cell: strata are drawn with other chances."""
    spread = sum(
        count * sizes[name] / sampled[name] for name, count in counts.items() if sampled[name]
    )
    reached = sum(count for name, count in counts.items() if sampled[name])
    return reached**2 / spread if spread else 0.0


def _places(source: Run | Sequence[str], what: Draw) -> tuple[tuple[str, ...] | None, str | None]:
    """Return where the traces are and their format: of a run, as its manifest says."""
    if not isinstance(source, Run):
        return tuple(map(resolve_source, source)), what.format
    fields = source.manifest.model_fields_set
    if "sources" not in fields or "format" not in fields:
        return None, None
    return source.manifest.sources, source.manifest.format


def _population(source: Run | Sequence[str], what: Draw, split: Split) -> Population:
    if isinstance(source, Run):
        rubrics = tuple(source.schemes)
        if what.rubric is None and len(rubrics) > 1:
            names = ", ".join(rubrics)
            raise AnnotatorError(f"the run has several rubrics: {names}; say --rubric")
        rubric = what.rubric or rubrics[0]
        undecided = what.undecided or what.strata == "votes"
        return find_judged(
            source, rubric, split, what.cluster, strata=what.strata, undecided=undecided
        )
    if what.rubric is None:
        raise AnnotatorError("--rubric is missing: what is to be labelled?")
    if what.before:
        raise AnnotatorError("--top-up needs the RUN that the design was drawn from")
    if what.strata == "votes":
        raise AnnotatorError("--strata votes needs a RUN: nobody judged these")
    return find_traces(source, what.format, load_rubric(what.rubric), split, what.cluster)
