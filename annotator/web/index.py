"""The annotations of some runs in memory: the rows of the list, and those of each trace."""

import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from annotator.calibration.matching import join_labels
from annotator.labels import Label
from annotator.rubrics import NONE, Scheme
from annotator.rubrics.annotations import JUDGED, Annotation, get_attribute
from annotator.runs.run import Run
from annotator.traces.clusters import DEFAULT_CLUSTER, find_cluster
from annotator.web.payload import dump

TraceLabels = Mapping[str, Mapping[str, Sequence[Label]]]
"""People's labels by rubric and trace; the first of a trace decides."""


class Index:
    """The annotations of runs, read once. The page filters, counts and searches the rows.

    Attributes:
        rows: a JSON list with an object for each annotation, in the order of the runs and their
            files, compressed by zlib.
        count: the number of annotations.
        answers: of each run and rubric, the judge's labels of each trace that it decided.
        clusters: of each run, the task of each trace.

    Raises:
        AnnotatorError: a run cannot be read.
    """

    def __init__(
        self, runs: Sequence[Run], labels: TraceLabels, cluster: Collection[str] = DEFAULT_CLUSTER
    ) -> None:
        self.count = 0
        self.answers: dict[tuple[int, str], dict[str, str]] = {}
        self.clusters: list[dict[str, str | None]] = [{} for _ in runs]
        self._lines: dict[str, list[tuple[int, bytes]]] = {}  # of each trace: run, packed line
        self.rows = b"".join(_dump_rows(self._read(runs, labels, cluster)))

    def _read(
        self, runs: Sequence[Run], labels: TraceLabels, cluster: Collection[str]
    ) -> Iterator[dict[str, Any]]:
        """Keep all annotations, and yield their rows."""
        for number, run in enumerate(runs):
            for annotation in run.annotations():
                self.count += 1
                line = zlib.compress(annotation.to_json().encode(), 1)
                self._lines.setdefault(annotation.trace_id, []).append((number, line))
                of_trace = labels.get(annotation.rubric, {}).get(annotation.trace_id)
                row = _make_row(annotation, run.scheme(annotation.rubric), of_trace or ())
                if row["why"] is None:
                    answers = self.answers.setdefault((number, annotation.rubric), {})
                    answers[annotation.trace_id] = join_labels(row["verdict"])
                clusters = self.clusters[number]
                clusters[annotation.trace_id] = find_cluster(annotation.attributes, cluster)
                yield {"number": self.count, "run": number, **row}

    @property
    def trace_ids(self) -> list[str]:
        """The ids of the traces, in the order of their first rows."""
        return list(self._lines)

    def annotations(self, trace_id: str) -> list[tuple[int, Annotation]]:
        """Return all annotations of a trace, each with the number of its run, from 0."""
        lines = self._lines.get(trace_id, ())
        return [(run, Annotation.from_json(zlib.decompress(line))) for run, line in lines]


def _dump_rows(rows: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    packer = zlib.compressobj(6)
    begin = "["
    for row in rows:
        yield packer.compress((begin + dump(row)).encode())
        begin = ","
    yield packer.compress(b"]" if begin == "," else b"[]") + packer.flush()


def _make_row(annotation: Annotation, rubric: Scheme, of_trace: Sequence[Label]) -> dict[str, Any]:
    """Return the row of an annotation; a filter for text reads its id, findings and ``text``.

    ``rejected`` and ``refuted`` are counts. ``agreement`` compares it with the person's label; it
    is None if nothing was judged (skipped, failed), for the reason ``why``. ``human`` are the codes
    of that label. ``verdict`` and ``people`` are the counted labels of the judge, or its status,
    and of each person.
    """
    label = of_trace[0] if of_trace else None
    judged = annotation.status in JUDGED
    agreement = None
    if judged:
        agreement = "unlabelled"
        if label:
            same = set(rubric.labels_of(annotation)) == set(rubric.labels_of(label))
            agreement = "agrees" if same else "differs"
    return {
        "trace_id": annotation.trace_id,
        "rubric": annotation.rubric,
        "status": annotation.status,
        "primary": annotation.primary,
        "secondary": annotation.secondary,
        "findings": [
            {
                "code": finding.code,
                "rationale": finding.rationale,
                "quotes": [[evidence.source, evidence.quote] for evidence in finding.evidence],
            }
            for finding in annotation.findings
        ],
        "rejected": len(annotation.rejected),
        "refuted": len(annotation.refuted),
        "why": None if judged else annotation.error or annotation.reason or "",
        "agreement": agreement,
        "human": (label.codes or (NONE,)) if label else None,
        "verdict": rubric.labels_of(annotation) if judged else (annotation.status,),
        "people": {f"p.{each.annotator}": rubric.labels_of(each) for each in of_trace},
        "values": {
            name: get_attribute(annotation.attributes, name)
            for name, value in annotation.attributes.items()
            if value is not None
        },
        "text": "\n".join(
            [
                *(quote for claim in annotation.rejected for quote in claim.quotes),
                *(item.quote for finding in annotation.refuted for item in finding.evidence),
            ]
        ),
    }
