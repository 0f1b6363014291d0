"""Whether a judge answers at a later look as it did when its answers were frozen."""

from dataclasses import dataclass
from itertools import islice

import numpy as np

from annotator.base.errors import AnnotatorError
from annotator.runs.anchors import Anchors
from annotator.runs.run import Run
from annotator.traces.clusters import DEFAULT_CLUSTER, find_cluster, name_lone_cluster
from validation import Estimate, estimate_drift, measure_drift_p
from validation.resampling import Floats

UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class CodeDrift:
    """A code, ``none`` or ``undecided``. ``drift``: its share at the later look less the earlier
    one's. ``p``: of the same judge at all looks, valid however often one looks; None if the answers
    never vary.
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
        codes: those that any answer has.
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
    codes = (*scheme.labels, UNDECIDED)
    answers = np.stack([_read_answers(anchors, run, codes) for run in runs], axis=2)
    tasks = {x.trace_id: find_cluster(x.attributes, cluster) for x in base.annotations(scheme.id)}
    clusters = [tasks[x] or name_lone_cluster(x) for x in anchors.trace_ids]
    named = any(tasks.values())
    frozen = anchors.frozen
    before = slice(frozen) if not since else slice(frozen + since - 1, frozen + since)
    after = slice(frozen + look - 1, frozen + look)
    measured = [
        CodeDrift(
            code,
            estimate_drift(
                *(rows[:, before], rows[:, after], clusters if named else None, confidence)
            ),
            p,
        )
        for code, rows, p in zip(codes, answers, measure_drift_p(answers, frozen), strict=True)
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
        failed=int(np.isnan(answers[-1, :, frozen + look - 1]).sum()),
        tasks=len({*clusters}) if named else None,
        frozen=frozen,
        look=look,
        started=latest.manifest.started,
        codes=tuple(measured),
        confidence=confidence,
    )


def _read_answers(anchors: Anchors, run: Run, codes: tuple[str, ...]) -> Floats:
    """Return whether a run gives each code to each anchor, nan if it failed, shape (codes, n)."""
    scheme = run.schemes[anchors.rubric.id]
    labels = {
        x.trace_id: {UNDECIDED} if x.status == UNDECIDED else set(scheme.labels_of(x))
        for x in run.annotations(scheme.id)
        if x.status != "failed"
    }
    rows = [labels.get(trace_id) for trace_id in anchors.trace_ids]
    return np.array(
        [[_has_code(row, code) for row in rows] for code in codes]
    )


def _has_code(labels: set[str] | None, code: str) -> float:
    """Return 1 or 0; nan if the judge failed, or did not decide: shares leave these out."""
    if labels is None or (UNDECIDED in labels and code != UNDECIDED):
        return np.nan
    return float(code in labels)
