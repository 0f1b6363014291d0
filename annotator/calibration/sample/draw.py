"""Draw a label sheet from a run or from traces, or plan one."""

import math
from bisect import bisect_left
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
    draw_doubles,
    draw_traces,
    extend_design,
    locate_design,
    record_design,
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
from validation import Interval, estimate_share_of_totals, predict_half_width
from validation.intervals import compute_widening

PLANNED = (50, 100, 200, 400)
ASSUMED_PRECISION = 0.85


@dataclass(frozen=True, slots=True)
class Assumed:
    """The judge's assumed precision and recall on a code.

    ``recall`` None: the judge misses as many traces as it flags wrongly.
    """

    precision: float = ASSUMED_PRECISION
    recall: float | None = None


@dataclass(frozen=True, slots=True)
class Draw:
    """The options of a sample.

    ``n`` traces are sampled, ``double`` of them for two people. ``strata``: by what the judged
    traces are stratified. ``undecided``: undecided traces are a stratum, too (always with
    ``votes``). ``floor``: the minimum of each stratum; None: 5 of each code, 10 if ``n`` is 300 or
    more, and equally many of each kind of vote. ``more`` adds traces of some strata to the design
    ``before``, and keeps its split. ``blinded``: the sheet hides the traces' own ids. ``until``:
    the half-width that is narrow enough, if the sample is drawn in batches.
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
    before: Design | None = None
    more: tuple[tuple[str, int], ...] = ()
    blinded: bool = True
    until: float | None = None

    def floor_of(self, n: int, sizes: Mapping[str, int]) -> int:
        """Return the minimum of each stratum, for ``n`` traces from strata of these sizes."""
        if EVERYTHING in sizes:
            return 0
        if self.floor is not None:
            return self.floor
        return n // len(sizes) if self.strata == "votes" else 10 if n >= 300 else 5


@dataclass(frozen=True, slots=True)
class Sheet:
    """A written sheet: its files, design and numbers of traces, rows and tasks.

    ``left_out`` counts traces that could not be sampled. ``recorded``: the run has the design, too.
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
    """The expected precision of ``n`` labels for one code.

    ``judged`` of the traces have the code, by the judge, a ``share`` of all. ``expected``: labels
    of such traces. ``half_width``: of the corrected share, in [0, 1], widened by the
    ``design_effect`` of the judge's share and by Student's t for ``tasks`` tasks. ``enough``: the
    fewest labels that make it as narrow as ``until``, None if labels of all traces do not.
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
    enough: int | None = None


def draw_sheet(source: Run | Sequence[str], options: Draw, out: Path) -> Sheet:
    """Sample traces of a run or of files, and write the sheet and its design.

    Raises:
        AnnotatorError: the sources cannot be read or hold nothing to draw, the sample is too small
            for its floors, ``out`` is there already, or a top-up does not fit its design.
    """
    if out.exists():
        raise AnnotatorError(f"{out} is there already and may hold labels; name another")
    earlier, split = options.before, options.split
    population = find_population(source, options, earlier)
    if earlier:
        split = Split(earlier.split, earlier.salt, earlier.dev_share)
        additions: Counter[str] = Counter()
        for code, number in options.more:
            additions[code] += number
        design, selected = extend_design(population.candidates, earlier, additions, options.seed)
        doubles: list[Candidate] = []
    else:
        design, selected = _draw_first(population, options, split)
        doubles = draw_doubles(selected, options.double, options.seed)
    where, format = _find_sources(source, options)
    design = replace(design, sources=where, format=format)
    sheet = make_rows(selected, doubles, design, split, blinded=options.blinded)
    design_path = locate_design(out)
    write_design(design_path, design)  # first: a sheet without its design has no weights
    write_sheet(out, sheet)
    recorded = not isinstance(source, Run) or record_design(source, design)
    tasks = len({trace.task for trace in selected}) if population.tasks_known else None
    return Sheet(
        out, design_path, design, len(selected), len(sheet), tasks, population.left_out, recorded
    )


def _draw_first(
    population: Population, options: Draw, split: Split
) -> tuple[Design, list[Candidate]]:
    sizes = Counter(trace.stratum for trace in population.candidates)
    n = max(options.n, _count_floors(sizes, options)) if options.until else options.n
    number = allocate(sizes, n, options.floor_of(options.n, sizes))
    selected = draw_traces(population.candidates, number, options.seed)
    design = Design(
        rubric=population.rubric,
        rubric_sha256=population.rubric_sha256,
        judge_sha256=population.judge_sha256,
        split=split.name,
        salt=split.salt,
        dev_share=split.dev_share,
        seed=options.seed,
        strata={name: SampledStratum(size, number[name]) for name, size in sorted(sizes.items())},
        traces={trace.trace_id: trace.stratum for trace in selected},
    )
    return design, selected


def plan_sheet(
    source: Run | Sequence[str], options: Draw, assumed: Mapping[str, Assumed] | None = None
) -> list[Planned]:
    """Return the expected precision of samples of several sizes, for each code.

    ``assumed``: precision and recall of the judge by code, ``""`` for all others; by default
    :class:`Assumed`. The design effect of tasks is that of the run.

    Raises:
        AnnotatorError: as :func:`draw_sheet`, or the source is no run.
    """
    if not isinstance(source, Run):
        raise AnnotatorError("--plan needs a RUN: the shares of the codes come from it")
    population = _find_population(source, options, options.split)
    sizes = Counter(trace.stratum for trace in population.candidates)
    total = sum(sizes.values())
    effects = measure_effects(source, options, population)
    tasks = len({trace.task for trace in population.candidates})

    def plan(code: str, n: int) -> Planned:
        sampled = allocate(sizes, n, options.floor_of(n, sizes))
        of_judge = (assumed or {}).get(code) or (assumed or {}).get("") or Assumed()
        cell = _plan_code(code, n, population.with_code[code], sizes, sampled, of_judge)
        return _widen(cell, effects.get(code), min(n, tasks))

    enough: dict[str, int] = {}
    if until := options.until:
        numbers = range(_count_floors(sizes, options), total + 1)
        for code in population.with_code:
            first = bisect_left(numbers, True, key=lambda n: plan(code, n).half_width <= until)
            enough |= {code: numbers[first]} if first < len(numbers) else {}
    planned = []
    for n in sorted({min(n, total) for n in (*PLANNED, options.n)}):
        try:
            cells = [plan(code, n) for code in population.with_code]
        except AnnotatorError:
            if n < min(options.n, total):
                continue  # too few for the floors; a larger n follows
            raise
        planned += [replace(cell, enough=enough.get(cell.code)) for cell in cells]
    return planned


def _count_floors(sizes: Mapping[str, int], options: Draw) -> int:
    floor = options.floor_of(options.n, sizes)
    return sum(min(floor, size) for size in sizes.values())


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
    # Undecided traces are assumed to have the code as often as decided ones.
    undecided = [(sizes[name], share, sampled[name]) for name in sizes.keys() & {UNDECIDED}]
    width = predict_half_width(
        share,
        assumed.precision,
        min(missed, 1.0),
        _compute_effective_size(by_stratum, judged, sampled),
        _compute_effective_size(unflagged, judged, sampled),
        total,
        others=undecided,
    )
    expected = sum(count * sampled[name] / sizes[name] for name, count in by_stratum.items())
    return Planned(code, n, flagged, share, round(expected), width, assumed=assumed)


def measure_effects(source: Run, options: Draw, population: Population) -> dict[str, Interval]:
    """Return the judge's share of each code over tasks, empty if no trace names its task."""
    rubric = options.rubric or next(iter(source.schemes))
    sample = read_judged_sample(source, rubric, cluster=options.cluster)
    if not sample.clusters.named:
        return {}
    return {
        code: estimate_share_of_totals(*sample.clusters.totals(code))
        for code in population.with_code
    }


def _widen(planned: Planned, share: Interval | None, tasks: int) -> Planned:
    """Return the plan with intervals for traces that share tasks.

    The design effect is that of the judge's ``share`` in the run; ``tasks`` can have labels.
    """
    if share is None:
        return planned
    if tasks < 2:  # the variance between tasks stays unknown
        return replace(planned, half_width=0.5, tasks=tasks)
    effect = share.design_effect or 1.0
    factor = math.sqrt(effect) * compute_widening(0.95, tasks - 1)
    width = min(0.5, planned.half_width * factor)
    return replace(planned, half_width=width, design_effect=effect, tasks=tasks)


def read_assumed(files: Sequence[Path], rubric: str | None) -> dict[str, Assumed]:
    """Return the judge's precision and recall by code, where calibrations have both.

    Of several calibrations for a code the last one counts.

    Raises:
        AnnotatorError: a file is not a calibration, or no calibration is for the rubric.
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


def _compute_effective_size(
    counts: Mapping[str, int], sizes: Mapping[str, int], sampled: Mapping[str, int]
) -> float:
    """Return Kish's effective number of the expected labels of ``counts`` traces by stratum."""
    spread = sum(
        count * sizes[name] / sampled[name] for name, count in counts.items() if sampled[name]
    )
    reached = sum(count for name, count in counts.items() if sampled[name])
    return reached**2 / spread if spread else 0.0


def _find_sources(source: Run | Sequence[str], options: Draw) -> tuple[tuple[str, ...], str]:
    if isinstance(source, Run):
        return source.manifest.sources, source.manifest.format
    return tuple(map(resolve_source, source)), options.format


def find_population(
    source: Run | Sequence[str], options: Draw, earlier: Design | None = None
) -> Population:
    """Return the traces to sample from: those of an ``earlier`` design, by the same strata.

    Raises:
        AnnotatorError: as :func:`draw_sheet`.
    """
    if earlier is None:
        return _find_population(source, options, options.split)
    split = Split(earlier.split, earlier.salt, earlier.dev_share)
    uniform = earlier.strata_by == "none"  # its only stratum may hold undecided traces
    undecided = uniform or UNDECIDED in earlier.strata
    options = replace(options, strata=earlier.strata_by, undecided=undecided)
    population = _find_population(source, options, split)
    if len(population.candidates) != earlier.size:
        population = _find_population(source, replace(options, undecided=False), split)
    if population.rubric_sha256 != earlier.rubric_sha256:
        raise AnnotatorError(
            "the sample was drawn for another rubric, or another version of it: draw a new one"
        )
    return population


def _find_population(source: Run | Sequence[str], options: Draw, split: Split) -> Population:
    if isinstance(source, Run):
        rubrics = tuple(source.schemes)
        if options.rubric is None and len(rubrics) > 1:
            names = ", ".join(rubrics)
            raise AnnotatorError(f"the run has several rubrics: {names}; choose one with --rubric")
        rubric = options.rubric or rubrics[0]
        undecided = options.undecided or options.strata == "votes"
        return find_judged(
            source, rubric, split, options.cluster, strata=options.strata, undecided=undecided
        )
    if options.rubric is None:
        raise AnnotatorError("--rubric is missing: name the rubric to label by")
    if options.before:
        raise AnnotatorError("--top-up needs the RUN that the design was drawn from")
    if options.strata == "votes":
        raise AnnotatorError("--strata votes needs a RUN: these traces have no votes")
    return find_traces(source, options.format, load_rubric(options.rubric), split, options.cluster)
