"""Label in batches until the corrected shares of codes are known well enough."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from annotator.base.errors import AnnotatorError
from annotator.calibration.calibrate import run_calibration
from annotator.calibration.model import Request
from annotator.calibration.sample.design import (
    UNDECIDED,
    Design,
    SampledStratum,
    read_recorded_designs,
)
from annotator.calibration.sample.draw import Draw, find_population, measure_effects
from annotator.labels import LabelFiles
from annotator.runs.run import Run
from validation import Estimate
from validation.resampling import Floats

MOST_WAITING = 0.1  # of the drawn traces may stay without a label: some nobody can label
LEAST_SQUARED = 0.4  # of correlations; few labels tell little of smaller ones


@dataclass(frozen=True, slots=True, eq=False)
class WidthModel:
    """How the half-widths of codes depend on the number of labels in each stratum.

    A half-width is ``scales`` times the root of ``fixed`` + the sum over strata of ``per_label`` /
    labels. ``fixed`` is the variance that stays when every trace has a label. Shapes: ``labelled``
    and ``room`` (strata,), the traces with a label and those to draw; ``per_label`` (codes,
    strata); the others (codes,).
    """

    labelled: Floats
    room: Floats
    fixed: Floats
    per_label: Floats
    scales: Floats

    def predict(self, more: Floats) -> Floats:
        """Return the half-width of each code with so many more labels by stratum."""
        variances = self.fixed + self.per_label @ (1 / (self.labelled + more))
        widths: Floats = self.scales * np.sqrt(variances)
        return widths

    def find_wide(self, until: float) -> tuple[list[int], list[int]]:
        """Return the codes wider than ``until`` that labels of all traces make narrow enough, and
        those that stay wide.
        """
        now, last = self.predict(0 * self.room), self.predict(self.room)
        wide = [code for code, width in enumerate(now) if width > until]
        return [c for c in wide if last[c] <= until], [c for c in wide if last[c] > until]

    def allocate(self, n: float, codes: Sequence[int], until: float = 0.0) -> Floats:
        """Return how many of at most ``n`` more labels go to each stratum.

        Each goes to the stratum where it narrows the widest of ``codes`` most, until all of them
        are predicted to be at most ``until`` wide.
        """
        more = 0 * self.room
        while codes and more.sum() < min(n, self.room.sum()):
            widths = self.predict(more)
            widest = max(codes, key=lambda code: float(widths[code]))
            if widths[widest] <= until:
                break
            counts = self.labelled + more
            gains = self.per_label[widest] / (counts * (counts + 1))
            more[np.where(more < self.room, gains, -1.0).argmax()] += 1
        return more


def build_width_model(
    strata: Mapping[str, SampledStratum],
    labelled: Mapping[str, int],
    shares: Sequence[Estimate],
    flagged: Sequence[Mapping[str, int]],
    effects: Sequence[float],
) -> WidthModel:
    """Return how the half-widths of corrected shares depend on labels.

    Args:
        strata: all traces, and those drawn.
        labelled: the labels of each stratum.
        shares: the corrected share of each code now.
        flagged: by stratum, the traces to which the judge gave the code.
        effects: the design effect of the judge's share over tasks.
    """
    sizes = np.array([stratum.size for stratum in strata.values()], dtype=float)
    room = sizes - [stratum.drawn for stratum in strata.values()]
    now = np.array([max(1, labelled.get(name, 0)) for name in strata], dtype=float)
    is_open = np.array([name == UNDECIDED for name in strata])
    total, fixed, per_label = sizes.sum(), [], []
    for share, by_stratum, effect in zip(shares, flagged, effects, strict=True):
        cells = share.inputs
        right, missed = (_find_mean(cells[f"p{cell}"], cells[f"n{cell}"]) for cell in (1, 0))
        undecided = next((_find_mean(cell["p"], cell["n"]) for cell in cells["others"]), 0.5)
        flags = np.array([by_stratum.get(name, 0) for name in strata]) / sizes
        means = np.where(is_open, undecided, flags * right + (1 - flags) * missed)
        within = flags * right * (1 - right) + (1 - flags) * missed * (1 - missed)
        spreads = np.where(is_open, undecided * (1 - undecided), within)
        mean, judged = float(means @ sizes / total), float(flags @ sizes / total)
        per_label.append((sizes / total) ** 2 * spreads)
        # With a label on every trace, the variance is that of a share over tasks. Errors of the
        # judge hide how similar the traces of a task are, by its squared correlation with people.
        squared = (right - missed) ** 2 * judged * (1 - judged) / (mean * (1 - mean))
        last = (1 + (effect - 1) / max(squared, LEAST_SQUARED)) * mean * (1 - mean) / total
        fixed.append(max(0.0, last - float((per_label[-1] / sizes).sum())))
    model = WidthModel(now, room, np.array(fixed), np.array(per_label), np.ones(len(shares)))
    halves = np.array([compute_half_width(share) for share in shares])
    return replace(model, scales=halves / model.predict(0 * room))


def _find_mean(share: float | None, n: float) -> float:
    """Return the mean of the posterior of a share of ``n`` labels under Jeffreys' prior."""
    return ((share or 0.0) * n + 0.5) / (n + 1)


def compute_half_width(share: Estimate) -> float:
    """Return half the width of an interval, 1/2 without limits."""
    return 0.5 if share.low is None or share.high is None else (share.high - share.low) / 2


@dataclass(frozen=True, slots=True)
class CodeWidth:
    """The half-width of a code's corrected share; ``with_code`` labels have it.

    ``more``: about so many more labels narrow it enough, None if labels of all traces do not;
    ``last`` is its half-width with these.
    """

    code: str
    with_code: int
    half_width: float
    more: int | None
    last: float


@dataclass(frozen=True, slots=True)
class LabelProgress:
    """The labels of a sample that is drawn in batches, and the next batch.

    ``design``: of the last batch. ``waiting``: drawn traces without a label; ``blocked``: too many
    to draw more. ``more``: about so many labels make every code narrow that can be. ``batch``: the
    traces to draw from each stratum; empty if all codes are narrow or all traces are drawn, too.
    """

    design: Design
    labels: int
    waiting: int
    blocked: bool
    widths: tuple[CodeWidth, ...]
    more: int
    batch: Mapping[str, int]


def find_designs(run: Run, options: Draw) -> list[Design]:
    """Return the designs of a run's samples of a rubric and a split."""
    rubric, split = options.rubric or next(iter(run.schemes)), options.split.name
    designs = read_recorded_designs(run)
    return [each for each in designs if (each.rubric, each.split) == (rubric, split)]


def measure_progress(
    run: Run,
    designs: Sequence[Design],
    options: Draw,
    codes: Sequence[str],
    files: Sequence[Path],
    annotators: Sequence[str] = (),
) -> LabelProgress:
    """Return how narrow the corrected shares are, and the next batch of ``options.n`` traces.

    Args:
        run: the judged run.
        designs: of its samples.
        options: of the sample; ``until`` is the half-width that is narrow enough.
        codes: the codes that shall be narrow; empty: all of the rubric.
        files: of labels.
        annotators: the reference, as in a calibration.

    Raises:
        AnnotatorError: as :func:`annotator.calibration.calibrate.run_calibration`; a code is not
            in the rubric, or the labels are of no sample.
    """
    until, is_final = options.until or 0.0, options.split.name == "test"
    request = Request(
        LabelFiles(files), annotators=tuple(annotators), cluster=options.cluster, final=is_final
    )
    calibration = run_calibration(run, designs[0].rubric, request).calibration
    shares = {row.code: row.corrected for row in calibration.rows}
    names = tuple(dict.fromkeys(codes)) or calibration.codes
    if unknown := [name for name in names if name not in shares]:
        raise AnnotatorError(f"--codes {','.join(unknown)}: the rubric has {', '.join(shares)}")
    labelled = [trace.trace_id for trace in calibration.labelled]
    matching = [design for design in designs if design.traces.keys() >= set(labelled)]
    if not matching:
        raise AnnotatorError(
            f"--until: the {len(labelled)} labels in {', '.join(map(str, files))} are of no sample"
            " of this run, or of two. Label its sheet with annotate label"
        )
    design = max(matching, key=lambda design: len(design.traces))
    population = find_population(run, options, design)
    effects = measure_effects(run, options, population)
    model = build_width_model(
        design.strata,
        Counter(design.traces[name] for name in labelled),
        [shares[name] for name in names],
        [population.with_code.get(name, {}) for name in names],
        [(effects[name].design_effect or 1.0) if name in effects else 1.0 for name in names],
    )
    hopeful, hopeless = model.find_wide(until)
    with_code = Counter(code for trace in calibration.labelled for code in trace.counted.human)

    def count_more(codes: Sequence[int]) -> int:
        return int(model.allocate(np.inf, codes, until).sum())

    last = model.predict(model.room).tolist()
    widths = tuple(
        CodeWidth(
            name,
            with_code[name],
            compute_half_width(shares[name]),
            None if n in hopeless else count_more([n]) if n in hopeful else 0,
            last[n],
        )
        for n, name in enumerate(names)
    )
    drawn_traces = len(design.traces)
    waiting = drawn_traces - len(labelled)
    blocked = bool(hopeful or hopeless) and waiting > MOST_WAITING * drawn_traces
    batch = model.allocate(0 if blocked else options.n, hopeful or hopeless).astype(int).tolist()
    additions = {name: n for name, n in zip(design.strata, batch, strict=True) if n}
    more = count_more(hopeful)
    return LabelProgress(design, len(labelled), waiting, blocked, widths, more, additions)
