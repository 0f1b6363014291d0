"""The judged traces of a run, counted for one rubric."""

import hashlib
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from annotator.calibration.model import OPEN
from annotator.rubrics import Scheme
from annotator.rubrics.annotations import Annotation
from annotator.runs.run import Run
from annotator.traces.clusters import DEFAULT_CLUSTER, ClusterCounts, find_cluster


@dataclass(slots=True)
class JudgedSample:
    """The counts of a run's judged traces, and the annotations of the selected ones.

    ``total`` counts the decided traces (labelled or none), ``with_code`` those with each label of
    :meth:`Scheme.labels_of`. ``clusters`` has both by cluster, and beside the totals the undecided
    and failed traces. ``selected`` maps trace ids to annotations of any status.
    """

    run: str
    judge: str
    judge_sha256: str
    rubric: Scheme
    total: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    with_code: Counter[str] = field(default_factory=Counter)
    clusters: ClusterCounts = field(default_factory=ClusterCounts)
    selected: dict[str, Annotation] = field(default_factory=dict)
    _ids: int = 0

    @property
    def ids_sha256(self) -> str:
        """The hash of the set of traces and of which were undecided or failed."""
        return f"{self._ids:064x}"

    def add(self, annotation: Annotation, cluster: str | None) -> None:
        """Count one annotation."""
        self.statuses[annotation.status] += 1
        if annotation.status == "skipped":
            return
        answer = OPEN.get(annotation.status)
        name = f"{answer}\0{annotation.trace_id}" if answer else annotation.trace_id
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
        self._ids = (self._ids + int.from_bytes(digest)) % 2**256
        if answer:
            self.clusters.add(cluster, [answer], in_total=False)
            return
        self.total += 1
        labels = self.rubric.labels_of(annotation)
        labels = (*labels, *self.rubric.groups_of(labels))
        self.with_code.update(labels)
        self.clusters.add(cluster, labels)

    def include(self, other: "JudgedSample") -> None:
        """Add the counts of other traces of the same run."""
        self.total += other.total
        self.statuses += other.statuses
        self.with_code += other.with_code
        self.clusters.include(other.clusters)
        self.selected |= other.selected
        self._ids = (self._ids + other._ids) % 2**256


def read_judged_sample(
    run: Run,
    rubric: str,
    *,
    select: Collection[str] = (),
    cluster: Collection[str] = DEFAULT_CLUSTER,
    visit: Callable[[Annotation], None] | None = None,
) -> JudgedSample:
    """Return the counts of a run's annotations by one rubric, read one at a time.

    Args:
        run: the run to count.
        rubric: the id of the rubric.
        select: ids of the traces whose annotations are kept.
        cluster: the attributes that name a trace's cluster; empty: traces are independent.
        visit: is called with every annotation.

    Raises:
        AnnotatorError: the run lacks the rubric, or as :meth:`Run.annotations`.
    """
    sample = start_judged_sample(run, rubric)
    for annotation in run.annotations(rubric):
        sample.add(annotation, find_cluster(annotation.attributes, cluster))
        if annotation.trace_id in select:
            sample.selected[annotation.trace_id] = annotation
        if visit:
            visit(annotation)
    return sample


def start_judged_sample(run: Run, rubric: str) -> JudgedSample:
    """Return a sample without counts.

    Raises:
        AnnotatorError: the run lacks the rubric.
    """
    return JudgedSample(run.id, run.judge, run.judge_sha256, run.scheme(rubric))
