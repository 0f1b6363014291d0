"""What one judge found in one run, counted for a rubric: the frame that labels are drawn from and
held against.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from annotator.annotations import Annotation, read_annotations
from annotator.errors import AnnotatorError
from annotator.rubrics import NONE
from annotator.runs.manifest import read_manifest

# Traces of one task share code and requirements: they are not independent of each other.
DEFAULT_CLUSTER = ("project", "task")


@dataclass(frozen=True, slots=True)
class RubricInfo:
    """A rubric as a run's manifest records it. ``judged``: the codes that its judge can find;
    ``screens``: those of them whose absence says nothing. ``groups``: the codes of each group.
    """

    id: str
    version: int
    sha256: str
    choice: Literal["one", "primary", "many"]
    codes: tuple[str, ...]
    judged: frozenset[str]
    screens: frozenset[str] = frozenset()
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    @property
    def only_screens(self) -> bool:
        """Whether the judge is a screen for every code that it can find: it never finds none."""
        return bool(self.judged) and self.judged <= self.screens

    @property
    def screened(self) -> frozenset[str]:
        """The labels whose share nothing tells while traces are undecided.

        A judge that screens decides by finding, so that the undecided traces are no random ones:
        every label. Of any other judge, the codes that it has no rule for.
        """
        return frozenset(self.labels if self.screens else set(self.codes) - self.judged)

    @property
    def labels(self) -> tuple[str, ...]:
        """Every label that a trace can have: the codes and none."""
        return (*self.codes, NONE)


@dataclass(slots=True)
class Frame:
    """The judged traces of a run, as totals, and the annotations of those that were asked for.

    ``total`` counts the judged traces (labelled or none), ``with_code`` those with each label (as
    :func:`found` says) and ``in_cluster`` both per cluster, for the traces that tell theirs.
    ``wanted`` holds annotations by trace id, of any status.
    """

    run: str
    judge: str
    judge_sha256: str
    rubric: RubricInfo
    total: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    with_code: Counter[str] = field(default_factory=Counter)
    in_cluster: dict[str, Counter[str]] = field(default_factory=dict)
    alone: Counter[str] = field(default_factory=Counter)
    wanted: dict[str, Annotation] = field(default_factory=dict)
    _ids: int = 0

    @property
    def ids_sha256(self) -> str:
        """The hash of the set of judged traces."""
        return f"{self._ids:064x}"

    @property
    def clustered(self) -> bool:
        """Whether any trace tells which cluster it belongs to."""
        return bool(self.in_cluster)

    @property
    def clusters(self) -> int:
        """How many clusters there are; a trace that tells none is one of its own."""
        return len(self.in_cluster) + self.alone[""]

    def add(self, annotation: Annotation, cluster: str | None) -> None:
        """Count one annotation."""
        self.statuses[annotation.status] += 1
        if annotation.status not in ("labelled", "none"):
            return
        self.total += 1
        digest = hashlib.sha256(annotation.trace_id.encode("utf-8", "surrogatepass")).digest()
        self._ids = (self._ids + int.from_bytes(digest)) % 2**256
        labels = found(annotation, self.rubric)
        self.with_code.update(labels)
        counts = self.alone if cluster is None else self.in_cluster.setdefault(cluster, Counter())
        counts[""] += 1  # no label is empty
        counts.update(labels)

    def include(self, other: "Frame") -> None:
        """Count what another frame of the same run has counted, of other traces."""
        self.total += other.total
        self.statuses += other.statuses
        self.with_code += other.with_code
        for cluster, counts in other.in_cluster.items():
            self.in_cluster.setdefault(cluster, Counter()).update(counts)
        self.alone += other.alone
        self.wanted |= other.wanted
        self._ids = (self._ids + other._ids) % 2**256

    def cluster_totals(self, code: str) -> tuple[list[int], list[int]]:
        """Return, per cluster, the traces with a label and all traces."""
        clusters = self.in_cluster.values()
        alone, with_it = self.alone[""], self.alone[code]
        counts = [one[code] for one in clusters] + [1] * with_it + [0] * (alone - with_it)
        return counts, [one[""] for one in clusters] + [1] * alone


def found(annotation: Annotation, rubric: RubricInfo) -> tuple[str, ...]:
    """Return the labels of a judged trace that are counted: its codes where a rubric allows many,
    else the primary one; none where there is no code.
    """
    if rubric.choice == "many":
        return annotation.codes or (NONE,)
    return (annotation.primary or NONE,)


def cluster_of(attributes: Mapping[str, Any], names: Collection[str]) -> str | None:
    """Return the cluster a trace belongs to by its attributes, None if it lacks all of them."""
    values = [attributes.get(name) for name in names]
    if all(value is None for value in values):
        return None
    plain = [value for value in values if isinstance(value, str) and "/" not in value]
    return "/".join(plain) if len(plain) == len(values) else json.dumps(values)


def alone(trace_id: str) -> str:
    """Return the cluster of a trace that tells none, where others do: it is one of its own."""
    return f"trace:{trace_id}"


def judge_sha256(manifest: Mapping[str, Any]) -> str:
    """Return the hash of what makes a judge: its model and settings, and the prompt."""
    makes = [manifest["judge"], manifest.get("prompt_sha256")]
    return hashlib.sha256(json.dumps(makes, sort_keys=True).encode()).hexdigest()


def rubrics_of(folder: Path) -> dict[str, RubricInfo]:
    """Return the rubrics of a run by id. Raises :class:`AnnotatorError` if there is no run."""
    return {
        one["id"]: RubricInfo(
            one["id"],
            one["version"],
            one["sha256"],
            one["choice"],
            tuple(code["id"] for code in one["codes"]),
            frozenset(code["id"] for code in one["codes"] if code["judged"]),
            frozenset(code["id"] for code in one["codes"] if code.get("screen")),
            _groups(one["codes"]),
        )
        for one in read_manifest(folder)["rubrics"]
    }


def _groups(codes: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
    """Return the codes of each group; nothing where no group tells more than the codes or none."""
    groups: dict[str, tuple[str, ...]] = {}
    for code in codes:
        if group := code.get("group"):
            groups[group] = (*groups.get(group, ()), code["id"])
    if len(groups) < 2 or all(len(one) == 1 for one in groups.values()):
        return {}
    return groups


def read_frame(
    folder: Path,
    rubric: str,
    *,
    wanted: Collection[str] = (),
    cluster: Collection[str] = DEFAULT_CLUSTER,
    visit: Callable[[Annotation], None] | None = None,
) -> Frame:
    """Count what a run found by one rubric, one annotation in memory at a time.

    ``wanted``: ids of the traces whose annotations are kept. ``cluster``: the attributes that
    together name a trace's cluster; none of them, and traces count as independent. ``visit`` sees
    every annotation by the rubric.

    Raises:
        AnnotatorError: there is no such rubric in the run, or as :func:`read_whole`.
    """
    frame = empty_frame(folder, rubric)
    for annotation in read_checked(folder, frame.rubric):
        frame.add(annotation, cluster_of(annotation.attributes, cluster))
        if annotation.trace_id in wanted:
            frame.wanted[annotation.trace_id] = annotation
        if visit:
            visit(annotation)
    return frame


def empty_frame(folder: Path, rubric: str) -> Frame:
    """Return the frame of a run and rubric with nothing counted yet.

    Raises:
        AnnotatorError: there is no run, or no such rubric in it.
    """
    manifest = read_manifest(folder)
    known = rubrics_of(folder)
    if rubric not in known:
        raise AnnotatorError(f"{folder}: no rubric {rubric!r} in this run, only {', '.join(known)}")
    return Frame(manifest["id"], manifest["judge"]["id"], judge_sha256(manifest), known[rubric])


def read_checked(folder: Path, rubric: RubricInfo) -> Iterator[Annotation]:
    """Yield the annotations of a run by one rubric. Raises :class:`AnnotatorError` as
    :func:`read_whole`.
    """
    return (one for one in read_whole(folder) if one.rubric == rubric.id)


def read_whole(folder: Path) -> Iterator[Annotation]:
    """Yield the annotations of a run by all its rubrics.

    Raises:
        AnnotatorError: a line is damaged, by no rubric of the run or another version of it, or has
            a code that the rubric does not have; a trace stands twice; or lines of a finished run
            are lost.
    """
    manifest, checks = read_manifest(folder), Checks(rubrics_of(folder))
    for annotation in read_annotations(folder):
        checks.hold(annotation, folder)
        yield annotation
    checks.end(manifest, folder)


class Checks:
    """What the annotations of one run by some rubrics must be, held against one after another."""

    def __init__(self, rubrics: Mapping[str, RubricInfo]) -> None:
        self._rubrics = rubrics
        self._seen: set[int] = set()

    def hold(self, annotation: Annotation, where: object) -> RubricInfo:
        """Return the rubric of the next annotation, which stands at ``where``.

        Raises:
            AnnotatorError: it is by none of the rubrics, by another version, or has a code that the
                rubric does not have; or the trace stands twice.
        """
        trace_id, rubric = annotation.trace_id, self._rubrics.get(annotation.rubric)
        if rubric is None:
            raise AnnotatorError(
                f"{where}: {trace_id}: rubric {annotation.rubric!r} is not one of the run"
            )
        key = hash((trace_id, rubric.id))
        if key in self._seen:
            raise AnnotatorError(f"{where}: {trace_id!r} stands twice for {rubric.id}")
        self._seen.add(key)
        if annotation.rubric_sha256 != rubric.sha256:
            raise AnnotatorError(
                f"{where}: {trace_id} was judged by another version of {rubric.id}"
            )
        if unknown := [code for code in annotation.codes if code not in rubric.codes]:
            raise AnnotatorError(f"{where}: {trace_id}: {min(unknown)!r} is no code of {rubric.id}")
        return rubric

    def end(self, manifest: Mapping[str, Any], where: object) -> None:
        """Raise :class:`AnnotatorError` if a finished run has recorded another number of them."""
        recorded = manifest.get("totals", {}).get("annotations")
        if manifest["status"] == "finished" and len(self._seen) != recorded:
            raise AnnotatorError(
                f"{where}: the finished run recorded {recorded} annotations,"
                f" {len(self._seen)} are left"
            )
