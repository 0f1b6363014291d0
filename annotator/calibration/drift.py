"""Whether a judge answers at a later look as it did when its answers were frozen."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest

import numpy as np

from annotator.base.errors import AnnotatorError
from annotator.rubrics import name_group
from annotator.runs.anchors import Anchors
from annotator.runs.run import Run
from annotator.traces.clusters import DEFAULT_CLUSTER, find_cluster, name_lone_cluster
from validation import Estimate, estimate_drift, measure_drift_p
from validation.resampling import Floats

UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class CodeDrift:
    """A code, ``none``, ``undecided`` or a group. ``drift``: its share at the later look less the
    earlier one's. ``p``: of the same judge at all looks, valid however often one looks; None if the
    answers never vary, and for a group.
    """

    code: str
    drift: Estimate
    p: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeDrift:
    """The anchors at a look.

    Attributes:
        id: of the run whose answers are frozen.
        traces: the anchors; ``failed`` of them have no answer at this look.
        tasks: of the traces; None: no trace names one.
        frozen: the number of frozen answers to each.
        look: its number, from 1; ``started``: its time.
        codes: those that any answer has; ``groups``: the same.
    """

    rubric: str
    judge: str
    judge_sha256: str
    rubric_sha256: str
    id: str
    anchors: str
    traces: int
    population: int
    failed: int
    tasks: int | None
    frozen: int
    look: int
    started: str | None
    codes: tuple[CodeDrift, ...]
    groups: tuple[CodeDrift, ...]
    confidence: float

    @property
    def drifted(self) -> tuple[str, ...]:
        """The codes whose p is at most 1 - ``confidence``."""
        level = 1 - self.confidence
        return tuple(each.code for each in self.codes if each.p is not None and each.p <= level)


def measure_looks(
    anchors: Anchors,
    look: int | None = None,
    *,
    since: int = 0,
    cluster: tuple[str, ...] = DEFAULT_CLUSTER,
    confidence: float = 0.95,
) -> JudgeDrift:
    """Compare a look, by default the last one, with the look ``since`` (0: the frozen answers).

    Raises:
        AnnotatorError: there is no such look, or a run cannot be read.
    """
    looks = anchors.open_looks()
    look = len(looks) if look is None else look
    if not 0 <= since <= len(looks) or not 1 <= look <= len(looks):
        raise AnnotatorError(f"{anchors.folder}: no look {look}: {len(looks)} are finished")
    base, latest = anchors.base, looks[look - 1]
    runs = [*anchors.open_frozen(), *islice(looks, max(look, since))]
    scheme = base.schemes[anchors.rubric.id]
    answers, codes = _read_answers(anchors, runs), (*scheme.labels, UNDECIDED)
    tasks = {x.trace_id: find_cluster(x.attributes, cluster) for x in base.annotations(scheme.id)}
    clusters = None
    if any(tasks.values()):
        clusters = [tasks[x] or name_lone_cluster(x) for x in anchors.trace_ids]
    frozen = anchors.frozen
    before = [frozen + since - 1] if since else [*range(frozen)]
    after = [frozen + look - 1]
    p_values = measure_drift_p(answers[: len(codes)], frozen)
    names = (*codes, *map(name_group, scheme.groups))
    measured = [
        CodeDrift(
            name,
            estimate_drift(rows[:, before], rows[:, after], clusters, confidence),
            p,
        )
        for name, rows, p in zip_longest(names, answers, p_values)
        if np.nansum(rows)
    ]
    return JudgeDrift(
        rubric=scheme.id,
        judge=base.judge,
        judge_sha256=base.judge_sha256,
        rubric_sha256=scheme.sha256,
        id=anchors.run_id,
        anchors=str(anchors.folder),
        traces=len(anchors.trace_ids),
        population=anchors.population,
        failed=int(np.isnan(answers[len(codes) - 1, :, frozen + look - 1]).sum()),
        tasks=len({*clusters}) if clusters else None,
        frozen=frozen,
        look=look,
        started=latest.manifest.started,
        codes=tuple(x for x in measured if x.code in codes),
        groups=tuple(x for x in measured if x.code not in codes),
        confidence=confidence,
    )


def measure_drift(
    base: Run,
    new: Run,
    anchors: Anchors,
    cluster: tuple[str, ...] = DEFAULT_CLUSTER,
    confidence: float = 0.95,
) -> tuple[CodeDrift, ...]:
    """Return the drift from one run to another, by code and group; errors as
    :func:`annotator.measure_drift`.
    """
    since, look = map(anchors.find_look, (base, new))
    if since > look:
        raise AnnotatorError(
            f"{base} was judged after {new} (looks {since} and {look} at {anchors.folder}): name"
            " them in the other order"
        )
    if since == look:
        return ()
    drift = measure_looks(anchors, look, since=since, cluster=cluster, confidence=confidence)
    return (*drift.codes, *drift.groups)


def find_early_drift(anchors: Anchors) -> list[str]:
    """Return the codes in which the judge differs from the run when it is frozen (p <= .05)."""
    codes = (*anchors.base.schemes[anchors.rubric.id].labels, UNDECIDED)
    answers = _read_answers(anchors, anchors.open_frozen())[: len(codes)]
    tests = zip(codes, measure_drift_p(answers, 1), strict=True)
    return [code for code, p in tests if p is not None and p <= 0.05]


def _read_answers(anchors: Anchors, runs: Sequence[Run]) -> Floats:
    """Return 1 or 0 for each label, ``undecided`` and group, shape (these, anchors, runs). It is
    nan if the judge failed, or did not decide: shares leave these out.
    """
    scheme = anchors.base.schemes[anchors.rubric.id]
    rows = [{code} for code in (*scheme.labels, UNDECIDED)] + [*map(set, scheme.groups.values())]
    answers = np.full((len(rows), len(anchors.trace_ids), len(runs)), np.nan)
    places = {trace_id: n for n, trace_id in enumerate(anchors.trace_ids)}
    for column, run in enumerate(runs):
        for trace in run.annotations(scheme.id):
            if trace.status == "failed":
                continue
            is_open = trace.status == UNDECIDED
            labels = {UNDECIDED} if is_open else set(scheme.labels_of(trace))
            for row, codes in enumerate(rows):
                if not is_open or UNDECIDED in codes:
                    answers[row, places[trace.trace_id], column] = bool(labels & codes)
    return answers
