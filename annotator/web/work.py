"""Prepare the work of ``annotate label``: traces, rubric, labels."""

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from annotator.base.errors import AnnotatorError
from annotator.base.remote import find_url, is_hub, localize
from annotator.base.text import format_count, sanitize_line
from annotator.calibration.sample.design import list_neighbours, list_trace_ids, read_sources
from annotator.labels import Label, LabelFiles, read_labels
from annotator.labels.adjudication import (
    Disagreement,
    TwoReaders,
    combine_drawing,
    compare_annotators,
    describe_agreement,
    drop_stale_spans,
    find_contradicted,
    write_agreed,
)
from annotator.labels.blinding import blind, make_unblind
from annotator.labels.queue import Item, is_sheet, read_sheet
from annotator.labels.store import LabelStore
from annotator.rubrics import Rubric, list_built_in, load_recorded, load_rubric
from annotator.runs.run import is_run, open_run
from annotator.traces import Trace, Unreadable
from annotator.traces.read import Library, TraceOrProblem, check_source
from annotator.web.label import Work

_LABELS = "labels.jsonl"


@dataclass(frozen=True, slots=True)
class WorkRequest:
    """The command line: ``sources`` are traces or one sheet; ``pair_files`` are the files of the
    two annotators of ``pair``, by default ``file`` itself.

    A sheet names its ``rubric``. ``file`` is by default ``labels.jsonl``, beside a sheet. Without
    ``show_ids`` traces have blinded ids: their own may name a model or a condition.
    """

    sources: Sequence[str]
    annotator: str
    rubric: str
    file: Path
    rater: int = 1
    pair: tuple[str, str] | None = None
    pair_files: Sequence[Path] = ()
    traces: Sequence[str] = ()
    format: str = "auto"
    show_ids: bool = False


def find_rubric(sources: Sequence[str]) -> str:
    """Return the rubric that a sheet is for: the one of the run beside it, or a built-in one.

    Raises:
        AnnotatorError: ``sources`` are no sheet; it cannot be read, or names no built-in rubric.
    """
    sheet = _find_sheet(sources)
    if sheet is None:
        raise AnnotatorError("--rubric NAME|FILE is missing: only a sheet names its rubric")
    rubrics = LabelFiles([sheet]).count_rubrics()
    if len(rubrics) == 1 and is_run(sheet.parent):
        scheme = open_run(sheet.parent).schemes.get(next(iter(rubrics)))
        if scheme and (rubric := load_recorded(scheme)):
            return rubric.file or rubric.id
    if len(rubrics) != 1 or rubrics.keys().isdisjoint(path.stem for path in list_built_in()):
        names = sanitize_line(" and ".join(rubrics), 200) or "no rubric"
        where = sanitize_line(str(sheet))
        raise AnnotatorError(f"{where}: it is for {names}: give the rubric with --rubric NAME|FILE")
    return next(iter(rubrics))


def locate_labels(sources: Sequence[str]) -> Path:
    """Return the default file of labels: beside a sheet on this machine, else here."""
    sheet = _find_sheet(sources)
    return sheet.with_name(_LABELS) if sheet and not find_url(sources[0]) else Path(_LABELS)


@contextmanager
def prepare(
    request: WorkRequest,
    watch: Callable[[Iterable[TraceOrProblem]], Iterable[TraceOrProblem]] = iter,
) -> Iterator[Work]:
    """Yield the work; the file of labels is locked until the block ends. Traces are read through
    ``watch``, which can show how far that is.

    Raises:
        AnnotatorError: the sheet, the labels or the traces cannot be read; there is nothing to
            label; another process labels into the file.
    """
    rubric = load_rubric(request.rubric)
    sheet = _find_sheet(request.sources)
    for source in request.traces:
        check_source(source)
    sources, format = _find_traces(request, sheet)
    library = Library(sources, format)
    notes: list[str] = []
    if request.pair:
        compared = _compare(request, request.pair, rubric, library)
        items = [
            Item(each.trace_id, combine_drawing(each.first, each.second))
            for each in compared.differing
        ]
    elif sheet:
        items = list(_unblind(read_sheet(sheet, rubric, request.rater), sheet, rubric, library))
    else:
        items = list(_list_applicable(watch(library), rubric, notes))
    if request.pair or sheet:
        _check_first(items, library, sources)
    if not items and not request.pair:
        nothing = f"no trace in {', '.join(sources)} is for {rubric.id}{_explain_runs(sources)}"
        raise AnnotatorError(". ".join((nothing, *notes)))
    differing: dict[str, Disagreement] = {}
    with LabelStore.open(request.file, request.annotator, rubric) as store:
        if request.pair:
            differing = {each.trace_id: each for each in compared.differing}
            notes += _write_agreed(request.pair, compared, rubric, library, store)
            for item in items:  # gold without these holds the easy traces only
                store.wait(item.trace_id, item.extra)
        elif any(_find_rater(store, item) not in (None, request.rater) for item in items):
            raise AnnotatorError(
                f"{request.annotator} has labelled this sheet as rater {3 - request.rater}: give"
                " the other person's name with --annotator NAME"
            )
        elif sheet:
            _check_sample(request.file, sheet, items, store)
        if not request.show_ids:
            items = [replace(item, alias=blind(item.trace_id)) for item in items]
        command = _choose_next(request.file)
        yield Work(rubric, items, library, store, request.file, differing, notes, command)


def _choose_next(file: Path) -> str:
    """Return the command that compares a file of labels with a judge."""
    if Path(file.parent, "annotations.jsonl").is_file() and file.name == _LABELS:
        return f"annotate calibrate {shlex.quote(str(file.parent))}"
    return f"annotate calibrate RUN --labels {shlex.quote(str(file))}"


def _explain_runs(sources: Sequence[str]) -> str:
    """Return a hint if a source is a run directory, else ""."""
    runs = [source for source in sources if Path(source, "annotations.jsonl").is_file()]
    return f"; {runs[0]} is a run: draw a sheet from it with annotate sample" if runs else ""


def _find_sheet(sources: Sequence[str]) -> Path | None:
    sheets = [
        path for source in sources if not is_hub(source) and is_sheet(path := localize(source))
    ]
    if sheets and len(sources) > 1:
        raise AnnotatorError(f"{sheets[0]} is a sheet: give it alone, its traces with --traces")
    return sheets[0] if sheets else None


def _find_traces(request: WorkRequest, sheet: Path | None) -> tuple[Sequence[str], str]:
    if sheet is None:
        if request.rater != 1:
            raise AnnotatorError("--rater picks rows of a sheet, and none was given")
        if request.traces:  # else all would be labelled, not the drawn ones
            raise AnnotatorError(
                f"{', '.join(request.sources)}: no sheet that can be read; --traces says where the"
                " traces of one are"
            )
        return request.sources, request.format
    recorded = read_sources(sheet)
    if recorded is None and not request.traces:
        raise AnnotatorError(f"{sheet}: where its traces are is not known: say it with --traces")
    recorded_traces, format = recorded or ((), "auto")
    return request.traces or recorded_traces, format if request.format == "auto" else request.format


def _check_first(items: Sequence[Item], library: Library, sources: Sequence[str]) -> None:
    """Raise if the first trace is missing; then the others are too."""
    if items and library.trace(items[0].trace_id) is None:
        raise AnnotatorError(
            f"no trace {sanitize_line(items[0].trace_id, 200)!r} in {', '.join(sources)}: say where"
            " the traces are with --traces"
        )


def _list_applicable(
    traces: Iterable[TraceOrProblem], rubric: Rubric, notes: list[str]
) -> Iterator[Item]:
    """Yield the traces that a rubric applies to; note how many are left out."""
    unreadable = other = 0
    for trace in traces:
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


def _unblind(
    items: Sequence[Item], sheet: Path, rubric: Rubric, library: Library
) -> Iterator[Item]:
    """Yield the traces of a sheet by their own ids."""
    unblind = make_unblind(chain(list_trace_ids(None, rubric.id, None, [sheet]), library.ids()))
    for item in items:
        yield replace(item, trace_id=unblind(item.trace_id))


def _find_rater(store: LabelStore, item: Item) -> int | None:
    """Return the rater as whom the store's annotator labelled a trace of this sample, if any."""
    drawing = store.get_drawing(item.trace_id)
    return drawing.get("rater") if drawing.get("design") == item.extra.get("design") else None


def _check_sample(file: Path, sheet: Path, items: Sequence[Item], store: LabelStore) -> None:
    """Raise if the store has labels of another sample, which can have no weights together with
    those of the sheet. A top-up is no other sample: its design has the traces of both rounds.
    """
    designs = {item.extra.get("design") for item in items}
    others = {
        name for name in store.decisions if store.get_drawing(name).get("design") not in designs
    }
    sampled = set(list_trace_ids(None, "", None, [sheet]))
    if not sampled or not others or others <= sampled:
        return
    ids = others | {item.trace_id for item in items}
    if any(ids <= set(list_trace_ids(None, "", path, ())) for path in list_neighbours([sheet])):
        return  # the first sheet of a top-up
    separate = sheet.with_name(f"{sheet.stem}-labels.jsonl")
    raise AnnotatorError(
        f"{sanitize_line(str(file))}: {format_count(len(others), 'label')} by {store.annotator} of"
        " another sample, which cannot be weighted together with this one. Label this sheet into a"
        f" file of its own (--labels {sanitize_line(str(separate))}), and give annotate calibrate"
        " one of the files (--labels). For more traces of the same sample, draw them with annotate"
        " sample --top-up"
    )


def _compare(
    request: WorkRequest, pair: tuple[str, str], rubric: Rubric, library: Library
) -> TwoReaders:
    if request.annotator in pair:
        raise AnnotatorError(
            f"--annotator {request.annotator} is one of the two: decide under another name, gold"
        )
    files = request.pair_files or (request.file,)
    trace_ids = chain(list_trace_ids(None, rubric.id, None, files), library.ids())
    return compare_annotators(read_labels(files, rubric.scheme(), trace_ids), *pair)


def _write_agreed(
    pair: tuple[str, str], compared: TwoReaders, rubric: Rubric, library: Library, store: LabelStore
) -> Iterator[str]:
    """Write the labels that two people agree on; yield notes on all that they labelled."""
    agreed = [_keep_standing(labels, library, rubric) for labels in compared.agreed]
    written = write_agreed(store, agreed)
    reopened = _withdraw_agreed(store, compared)
    yield (
        f"{' and '.join(pair)} agree on {format_count(len(agreed), 'trace')} ({written} written as"
        f" {store.annotator} now) and differ on {len(compared.differing)}."
    )
    if rubric.choice == "primary":
        yield "Compared are the primary code and all other codes."
    if only_one := len(compared.only_one):
        yield f"{format_count(only_one, 'trace')} were labelled by one of them only."
    if reopened:
        yield f"{format_count(reopened, 'trace')} they agreed on before is open again."
    if otherwise := len(find_contradicted(store, agreed)):
        yield (
            f"Of what they agree on, {store.annotator} decided {format_count(otherwise, 'trace')}"
            " otherwise earlier; that stays."
        )
    if lost := _count_marks(compared.agreed) - _count_marks(agreed):
        yield (
            f"Of what they agree on, {format_count(lost, 'quote')} not found at the place given:"
            " kept without it."
        )


def _withdraw_agreed(store: LabelStore, compared: TwoReaders) -> int:
    """Withdraw decisions that rest on an agreement which is gone."""
    reopened = [
        disagreement.trace_id
        for disagreement in compared.differing
        if disagreement.trace_id in store.decisions
        and store.decisions[disagreement.trace_id].note
        == describe_agreement(disagreement.first, disagreement.second)
    ]
    for trace_id in reopened:
        store.withdraw(trace_id)
    return len(reopened)


def _count_marks(pairs: Sequence[tuple[Label, Label]]) -> int:
    return sum(len(label.spans) for pair in pairs for label in pair)


def _keep_standing(
    agreed: tuple[Label, Label], library: Library, rubric: Rubric
) -> tuple[Label, Label]:
    if not any(label.spans for label in agreed):
        return agreed  # no trace has to be read
    trace_id = agreed[0].trace_id
    trace = library.trace(trace_id) or Unreadable(trace_id, "", "not there")
    first, second = (drop_stale_spans(label, trace, rubric) for label in agreed)
    return first, second
