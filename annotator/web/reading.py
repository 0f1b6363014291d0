"""The data of the pages of runs: the runs, their annotations, their traces, people's labels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from annotator.base.errors import AnnotatorError, UnreadableTrace
from annotator.base.text import format_count, sanitize_line
from annotator.calibration.matching import find_annotators, select_labels, select_split
from annotator.calibration.sample.design import list_trace_ids
from annotator.labels import Label, LabelFiles, Labels
from annotator.labels.decisions import find_unplaced
from annotator.rubrics import Scheme
from annotator.rubrics.evidence import locate
from annotator.runs.run import Run
from annotator.traces import Trace, Unreadable
from annotator.traces.clusters import DEFAULT_CLUSTER
from annotator.traces.read import Library, check_source
from annotator.traces.redaction import redact
from annotator.web.facts import serialize_facts
from annotator.web.index import Index, TraceLabels
from annotator.web.payload import (
    serialize_annotation,
    serialize_label,
    serialize_trace,
)

if TYPE_CHECKING:
    from annotator.calibration.model import Calibrations


@dataclass(frozen=True, slots=True)
class PageRequest:
    """The runs that pages show side by side, the options of their tables as in ``annotate report``,
    and people's labels by rubric and trace, the first of which decides.

    ``label_files``: the files of those labels. ``traces``: where the traces are now; empty: where
    the runs read them. ``facts``: traces are shown with what is counted from them.
    """

    runs: Sequence[Run]
    calibrations: "Calibrations | None" = None
    transfer: bool = False
    by: str | None = None
    labels: TraceLabels = field(default_factory=dict)
    traces: Sequence[str] = ()
    cluster: Sequence[str] | None = None
    joint: bool = False
    label_files: Sequence[Path] = ()
    facts: bool = True


class TraceSources:
    """The traces of runs, where the runs read them, or in ``traces`` now."""

    def __init__(self, runs: Sequence[Run], traces: Sequence[str] = ()) -> None:
        for source in traces:
            check_source(source)
        collections: dict[tuple[tuple[str, ...], str], None] = {}
        for run in runs:
            collections[tuple(traces) or run.manifest.sources, run.manifest.format] = None
        if traces and not runs:
            collections[tuple(traces), "auto"] = None
        # All traces are redacted if the judge of one run saw them so.
        self._redacted = any(run.manifest.redaction for run in runs)
        self._libraries = [Library(sources, format) for sources, format in collections]
        self._sources = [source for sources, _ in collections for source in sources]

    def find(self, trace_id: str) -> Trace | Unreadable:
        """Return a trace, or the reason that it cannot be shown."""
        problems = []
        for library in self._libraries:
            try:
                trace = library.trace(trace_id)
            except (AnnotatorError, OSError) as error:  # another source may have it
                problems.append(str(error))
                continue
            if trace is not None:
                redacted = self._redacted and isinstance(trace, Trace)
                return redact(trace) if redacted else trace  # type: ignore[arg-type]
        if problems:
            reason = f"{problems[0]}; name the folder of the traces with --traces"
            return Unreadable(trace_id, "", reason)
        where = sanitize_line(", ".join(self._sources), 300) or "the run names no sources"
        reason = f"the trace is not where the run read it ({where}); name its folder with --traces"
        return Unreadable(trace_id, "", reason)


class Reading:
    """The annotations of runs, and their traces."""

    def __init__(self, pages: PageRequest) -> None:
        self._labels, self._facts = pages.labels, pages.facts
        self.find = TraceSources(pages.runs, pages.traces).find
        cluster = DEFAULT_CLUSTER if pages.cluster is None else pages.cluster
        self.index = Index(pages.runs, pages.labels, cluster)

    def page(self, trace_id: str) -> dict[str, Any]:
        """Return a trace with its annotations and labels. Evidence that the trace does not hold now
        is marked ``stale``.
        """
        by_rubric = (by_trace.get(trace_id, ()) for by_trace in self._labels.values())
        trace = self.find(trace_id)
        annotations = [
            serialize_annotation(run, annotation)
            for run, annotation in self.index.annotations(trace_id)
        ]
        labels = [
            serialize_label(label) | _place_quotes(trace, label)
            for label in chain.from_iterable(by_rubric)
        ]
        passages = [
            evidence
            for annotation in annotations
            for finding in (*annotation["findings"], *annotation["refuted"])
            for evidence in finding["evidence"]
        ]
        passages += [span for label in labels for span in (*label["spans"], *label["located"])]
        page = serialize_trace(trace, {passage["source"] for passage in passages})
        page["problems"] += mark_stale(trace, passages)
        facts = serialize_facts(trace) if self._facts and isinstance(trace, Trace) else None
        return {"trace": page, "facts": facts, "annotations": annotations, "labels": labels}


def _place_quotes(trace: Trace | Unreadable, label: Label) -> dict[str, Any]:
    """Return where a label's quotes are that were given without a place, and those that are nowhere
    (``missing``) or cannot be searched (``unplaced``). ``places``: how many there are; the first is
    shown.
    """
    located: list[dict[str, Any]] = []
    missing: list[str] = []
    unplaced: list[str] = []
    for quote in find_unplaced(label.evidence, label.spans):
        if isinstance(trace, Unreadable):
            unplaced.append(quote)
            continue
        try:
            spans = locate(quote, trace, steps=False) or locate(quote, trace)
        except UnreadableTrace:  # the steps, where the quote may be
            unplaced.append(quote)
            continue
        if spans:
            passage = {
                name: getattr(spans[0], name) for name in ("quote", "source", "start", "end")
            }
            located.append(passage | {"places": len(spans)})
        else:
            missing.append(quote)
    return {"located": located, "missing": missing, "unplaced": unplaced}


def mark_stale(trace: Trace | Unreadable, passages: Sequence[dict[str, Any]]) -> list[str]:
    """Mark evidence that is not in the trace at its place; return the problems."""
    texts: dict[str, str | None] = {}
    problems: dict[str, None] = {}
    stale = 0
    for passage in passages:
        name = passage["source"]
        if name not in texts:
            try:
                source = trace.source(name) if isinstance(trace, Trace) else None
            except UnreadableTrace as error:  # of steps; the rest can be shown
                source = None
                problems[str(error)] = None
            texts[name] = source.text if source else None
        text = texts[name]
        start, end = passage["start"], passage["end"]
        passage["stale"] = text is None or start < 0 or text[start:end] != passage["quote"]
        stale += passage["stale"]
    if stale and isinstance(trace, Trace):
        changed = "" if problems else ": it has changed since"
        problems[f"{format_count(stale, 'quote')} not in the trace as it is now{changed}"] = None
    return list(problems)


def read_person_labels(
    files: Sequence[Path],
    runs: Sequence[Run],
    annotators: Sequence[str] = (),
    notice: Callable[[str], None] = lambda _: None,
) -> dict[str, dict[str, tuple[Label, ...]]]:
    """Return people's labels for the rubrics of some runs, by rubric and trace.

    They are those of ``annotators``; by default of the one who decides in ``annotate calibrate``,
    else of all. The first who labelled a trace decides. Labels of the test split stay hidden.
    ``notice`` is called with how labels are read, and with the number of those that are left out.

    Raises:
        AnnotatorError: the labels cannot be read, or fit none of the rubrics or another version of
            one.
    """
    versions: dict[str, dict[str, Scheme]] = {}
    for run in runs:
        for name, rubric in run.schemes.items():
            versions.setdefault(name, {})[rubric.sha256] = rubric
    label_files = LabelFiles(files)
    labelled = label_files.count_rubrics()
    rubrics = [name for name in versions if name in labelled or not labelled]
    if not rubrics:
        judged = ", ".join(versions)
        raise AnnotatorError(
            f"the labels are for {', '.join(sorted(labelled))}, the runs judged by {judged}"
        )
    labels: dict[str, dict[str, tuple[Label, ...]]] = {}
    notices: dict[str, None] = {}
    for name in rubrics:
        judging = [run for run in runs if name in run.schemes]
        run_traces = dict.fromkeys(chain(*(list_trace_ids(run, name, None, ()) for run in judging)))
        for version in versions[name].values():  # the labels must fit all runs side by side
            trace_ids = chain(list_trace_ids(None, name, None, files), run_traces)
            read = label_files.read(version, trace_ids)
            labels[name] = _select_labels(read, version, annotators)
            notices |= dict.fromkeys(read.notes)
        if n := sum(label.split == "test" for label in read.labels):
            notices[f"Not shown: {format_count(n, 'label')} of the test split of {name}."] = None
        if n := len(labels[name].keys() - run_traces):
            where = ", ".join(map(str, judging))
            notices[f"Not shown: {format_count(n, 'label')} of traces not in {where}."] = None
    for line in notices:
        notice(line)
    return labels


def _select_labels(
    labels: Labels, rubric: Scheme, annotators: Sequence[str]
) -> dict[str, tuple[Label, ...]]:
    names = tuple(annotators) or find_annotators(labels) or labels.annotators
    selected, _ = select_labels(labels, names)
    if {label.split for label in selected.values()} == {"test"}:
        raise AnnotatorError(
            f"the labels for {rubric.id} are your held-out test set, so the page hides them:"
            " they are for annotate calibrate --final"
        )
    visible, _ = select_split(selected, final=False)
    by_name = [labels.of(name) for name in names]
    return {
        trace_id: tuple(
            by_trace[trace_id]
            for by_trace in by_name
            if trace_id in by_trace and by_trace[trace_id].split == label.split
        )
        for trace_id, label in visible.items()
    }
