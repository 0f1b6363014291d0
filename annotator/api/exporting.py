"""The results of a run for other tools."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from annotator.api.reporting import count, describe_methods, find_calibrations
from annotator.base.errors import AnnotatorError
from annotator.runs.execute import RubricSource
from annotator.runs.rejudge import restore_rubric
from annotator.runs.run import Run

if TYPE_CHECKING:
    from annotator.exports.scores import Written
    from annotator.exports.send import Sent

ExportTarget = Literal["langfuse", "phoenix", "mlflow", "labelstudio", "hub"]
_FILES = {"labelstudio": "labelstudio.json", "hub": "hub"}


@dataclass(frozen=True, slots=True)
class Export:
    """A file or a folder for another tool.

    Attributes:
        path: of the file or the folder.
        records: scores, tasks or annotations in it.
        written: the scores and what was left out, for tools that take scores.
        sent: what the server said, with a URL.
    """

    path: Path
    records: int
    written: "Written | None" = None
    sent: "Sent | None" = None


def export(
    run: Run,
    to: ExportTarget,
    out: str | Path | None = None,
    *,
    url: str | None = None,
    api_key_env: str | None = None,
    id_attribute: str | None = None,
    rubric: RubricSource | None = None,
    sheet: str | Path | None = None,
    rater: int = 1,
    on_notice: Callable[[str], None] | None = None,
) -> Export:
    """Write the results of a run for another tool, as ``annotate export`` does.

    Args:
        run: only traces that were judged get a score: undecided, failed and skipped are no 0.
        to: ``langfuse``, ``phoenix`` and ``mlflow`` take scores; ``labelstudio`` gets tasks for
            people without the judge's codes; ``hub`` is a folder for ``datasets.load_dataset``.
        out: the file or folder; default: in the run's directory.
        url: of a server that takes scores. Nothing is sent without it.
        api_key_env: the environment variable with the key; default: the tool's usual ones.
        id_attribute: the attribute with a trace's id in the tool; default: the id in the export
            that the trace was read from.
        rubric: for ``labelstudio``; default: the run's.
        sheet: for ``labelstudio``: a sheet of ``annotate sample``; default: all judged traces.
        rater: of a sheet: the rows for the first or the second person.
        on_notice: is called with why a calibration is not used, or that a card is kept.

    Raises:
        AnnotatorError: a trace has no id in the tool, is gone, or the server refuses.
    """
    from annotator.exports import SCORE_TARGETS, TARGETS, load_target

    if to not in TARGETS:
        raise AnnotatorError(f"export to {to!r}: expected one of {', '.join(TARGETS)}")
    if not (out or run.folder):
        raise AnnotatorError("out is missing: a run in memory has no directory")
    path = Path(out) if out else (run.folder or Path()) / _FILES.get(to, f"{to}.jsonl")
    if to in SCORE_TARGETS:
        from annotator.exports.scores import write_requests

        target = load_target(to)
        written = write_requests(run, target, path, id_attribute)
        if not url:
            return Export(path, written.scores, written)
        from annotator.exports.send import send_requests

        return Export(path, written.scores, written, send_requests(path, target, url, api_key_env))
    if url:
        raise AnnotatorError(f"url: {to} takes files; nothing is sent")
    if to == "labelstudio":
        from annotator.exports.labelstudio import write_tasks

        source = Path(sheet) if sheet else None
        return Export(path, write_tasks(run, restore_rubric(run, rubric), path, source, rater))
    from annotator.exports.hub import write_folder
    from annotator.reports.methods import render_methods
    from annotator.reports.table import render

    files = find_calibrations(run, on_notice=on_notice)
    calibration = files or None
    tables = render(count(run, calibration=calibration), "md")
    methods = render_methods(describe_methods(run, calibration=calibration), "md")
    notify = on_notice or (lambda _: None)
    calibrated = next(iter(files), None)
    return Export(path, write_folder(run, path, tables, methods, calibrated, notify))
