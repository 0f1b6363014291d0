"""From what ``annotate label`` was asked to the work that its page shows."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from annotator.base.errors import AnnotatorError
from annotator.base.remote import is_hub, localize
from annotator.base.text import format_count, sanitize_line
from annotator.calibration.sample.design import sheet_sources
from annotator.labels import Label, read_labels
from annotator.labels.adjudication import (
    Disagreement,
    TwoReaders,
    compare,
    describe_agreement,
    extra_of,
    find_contradicted,
    keep_standing_spans,
    write_agreed,
)
from annotator.labels.queue import Item, is_sheet, read_sheet
from annotator.labels.store import LabelStore
from annotator.rubrics import Rubric, load_rubric
from annotator.traces import Trace, Unreadable
from annotator.traces.library import Library
from annotator.traces.read import check_source
from annotator.web.label import Work


@dataclass(frozen=True, slots=True)
class WorkRequest:
    """The command line: ``sources`` are traces or one sheet; ``pair_files`` are the files of the
    two annotators of ``pair``, by default ``file`` itself.
    """

    sources: Sequence[str]
    rubric: str
    file: Path
    annotator: str
    rater: int = 1
    pair: tuple[str, str] | None = None
    pair_files: Sequence[Path] = ()
    traces: Sequence[str] = ()
    format: str = "auto"


@contextmanager
def prepare(request: WorkRequest) -> Iterator[Work]:
    """Yield the work, with the file of labels held until it is done.

    Raises:
        AnnotatorError: the sheet, the labels or the traces cannot be read; there is nothing to
            label; another process labels into the file.
    """
    rubric = load_rubric(request.rubric)
    sheet = _sheet(request.sources)
    for source in request.traces:
        check_source(source)
    sources, format = _places(request, sheet)
    library = Library(sources, format)
    if request.pair:
        compared = _compare(request, request.pair, rubric)
        _see_first(
            [Item(disagreement.trace_id) for disagreement in compared.differing], library, sources
        )
        with LabelStore.open(request.file, request.annotator, rubric) as store:
            yield _adjudication(request.pair, compared, rubric, library, store)
        return
    notes: list[str] = []
    if sheet:
        items = read_sheet(sheet, rubric, request.rater)
        _see_first(items, library, sources)
    else:
        items = list(_applicable(library, rubric, notes))
    if not items:
        nothing = f"no trace in {', '.join(sources)} is for {rubric.id}{_runs(sources)}"
        raise AnnotatorError(". ".join((nothing, *notes)))
    with LabelStore.open(request.file, request.annotator, rubric) as store:
        yield Work(rubric, items, library, store, notes=notes)


def _runs(sources: Sequence[str]) -> str:
    """Return what to do where a run directory was given for traces, "" where none was."""
    runs = [source for source in sources if Path(source, "annotations.jsonl").is_file()]
    return f"; {runs[0]} is a run: draw a sheet from it with annotate sample" if runs else ""


def _sheet(sources: Sequence[str]) -> Path | None:
    sheets = [
        path for source in sources if not is_hub(source) and is_sheet(path := localize(source))
    ]
    if sheets and len(sources) > 1:
        raise AnnotatorError(f"{sheets[0]} is a sheet: give it alone, its traces with --traces")
    return sheets[0] if sheets else None


def _places(request: WorkRequest, sheet: Path | None) -> tuple[Sequence[str], str]:
    if sheet is None:
        if request.rater != 1:
            raise AnnotatorError("--rater picks rows of a sheet, and none was given")
        if request.traces:  # all of them would be labelled, not those that were drawn
            raise AnnotatorError(
                f"{', '.join(request.sources)}: no sheet that can be read; --traces says where the"
                " traces of one are"
            )
        return request.sources, request.format
    recorded = sheet_sources(sheet)
    if recorded is None and not request.traces:
        raise AnnotatorError(f"{sheet}: where its traces are is not known: say it with --traces")
    recorded_traces, format = recorded or ((), "auto")
    return request.traces or recorded_traces, format if request.format == "auto" else request.format


def _see_first(items: Sequence[Item], library: Library, sources: Sequence[str]) -> None:
    """Raise if the first trace to be labelled is not there: the others will not be either."""
    if items and library.trace(items[0].trace_id) is None:
        raise AnnotatorError(
            f"no trace {sanitize_line(items[0].trace_id, 200)!r} in {', '.join(sources)}:"
            " say where the"
            " traces are with --traces"
        )


def _applicable(library: Library, rubric: Rubric, notes: list[str]) -> Iterator[Item]:
    """Yield the traces that a rubric is for, as they are read; what is left out is noted."""
    unreadable = other = 0
    for trace in library:
        if isinstance(trace, Unreadable):
            unreadable += 1
        elif isinstance(trace, Trace):
            if rubric.excludes(trace):
                other += 1
            else:
                yield Item(trace.id)
    if unreadable:
        notes.append(f"{format_count(unreadable, 'trace')} cannot be read and are left out.")
    if other:
        notes.append(f"{format_count(other, 'trace')} that {rubric.id} is not for are left out.")


def _compare(request: WorkRequest, pair: tuple[str, str], rubric: Rubric) -> TwoReaders:
    if request.annotator in pair:
        raise AnnotatorError(
            f"--annotator {request.annotator} is one of the two: decide under another name, gold"
        )
    return compare(read_labels(request.pair_files or (request.file,), rubric.scheme()), *pair)


def _adjudication(
    pair: tuple[str, str],
    compared: TwoReaders,
    rubric: Rubric,
    library: Library,
    store: LabelStore,
) -> Work:
    agreed = [_standing(pair, library, rubric) for pair in compared.agreed]
    written = write_agreed(store, agreed)
    differing: dict[str, Disagreement] = {
        disagreement.trace_id: disagreement for disagreement in compared.differing
    }
    items = [
        Item(disagreement.trace_id, extra_of(disagreement.first, disagreement.second))
        for disagreement in compared.differing
    ]
    reopened = _reopen(store, compared)
    for item in items:  # until they are decided, the labels are of the easy traces only
        store.wait(item.trace_id, item.extra)
    notes = [
        f"{' and '.join(pair)} agree on {format_count(len(compared.agreed), 'trace')}"
        f" ({written} written as {store.annotator} now) and differ on {len(compared.differing)}."
    ]
    if compared.only_one:
        notes.append(
            f"{format_count(len(compared.only_one), 'trace')} were labelled by one of them only."
        )
    if reopened:
        notes.append(f"{format_count(reopened, 'trace')} they agreed on before is open again.")
    otherwise = len(find_contradicted(store, agreed))
    if otherwise:
        notes.append(
            f"Of what they agree on, {store.annotator} decided {format_count(otherwise, 'trace')}"
            " otherwise earlier; that stays."
        )
    lost = _count_marks(compared.agreed) - _count_marks(agreed)
    if lost:
        notes.append(
            f"Of what they agree on, {format_count(lost, 'quote')} not found at the place"
            " given: kept"
            " without it."
        )
    return Work(rubric, items, library, store, differing, notes)


def _reopen(store: LabelStore, compared: TwoReaders) -> int:
    """Take back what was decided because the two agreed, where they do not any more."""
    gone = [
        disagreement.trace_id
        for disagreement in compared.differing
        if disagreement.trace_id in store.decisions
        and store.decisions[disagreement.trace_id].note
        == describe_agreement(disagreement.first, disagreement.second)
    ]
    for trace_id in gone:
        store.withdraw(trace_id)
    return len(gone)


def _count_marks(pairs: Sequence[tuple[Label, Label]]) -> int:
    return sum(len(label.spans) for pair in pairs for label in pair)


def _standing(agreed: tuple[Label, Label], library: Library, rubric: Rubric) -> tuple[Label, Label]:
    if not any(label.spans for label in agreed):
        return agreed  # no trace has to be read
    trace_id = agreed[0].trace_id
    trace = library.trace(trace_id) or Unreadable(trace_id, "", "not there")
    first, second = (keep_standing_spans(label, trace, rubric) for label in agreed)
    return first, second
