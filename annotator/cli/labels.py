"""``annotate labels``."""

from collections.abc import Iterator
from pathlib import Path

import click

from annotator.base.errors import AnnotatorError
from annotator.base.files import write_file
from annotator.base.remote import name_place
from annotator.base.text import escape_controls, wrap_lines
from annotator.cli.options import PATH, add_option, add_reader_options
from annotator.cli.output import say, say_next, say_notice
from annotator.labels import LabelFiles
from annotator.labels.convert import render_rows
from annotator.labels.trace_index import TraceIndex
from annotator.rubrics import load_rubric
from annotator.traces import Traces, Unreadable, load_traces
from annotator.traces.discover import TraceRef, discover


@click.command("labels")
@click.argument("files", nargs=-1, required=True, type=PATH)
@add_option("--rubric NAME|FILE", "The rubric of the labels.", name="rubric_name", required=True)
@add_option(
    "--traces TRACES...",
    "The labelled traces: labels get the ids that these have here. Repeatable.",
)
@add_option("--annotator TEXT", "Who made the labels.", default="gold", show_default=True)
@add_option(
    "--code WORD=CODE...",
    "A category of the other tool, and the code for it. Repeatable.",
    name="spellings",
)
@add_option("--out,-o FILE", type=click.Path(path_type=Path, dir_okay=False), required=True)
@add_reader_options("The format of --traces.")
def command(
    files: tuple[Path, ...],
    rubric_name: str,
    traces: tuple[str, ...],
    annotator: str,
    spellings: tuple[str, ...],
    out: Path,
    format_: str,
) -> None:
    """Convert labels that people made with other tools into a file for annotate calibrate.

    FILES are AgentRx's ground truth, MAST's, TRAIL's or Who&When's records, an export of Label
    Studio or Argilla, or a spreadsheet (CSV, TSV) with a column of trace ids and one of categories
    (one for each annotator, or for each code). A label that the rubric cannot express is listed
    and left out; then the exit code is 1. `annotate calibrate` reads such files, too.
    """
    rubric = load_rubric(rubric_name).scheme()
    categories = dict(_split(pair) for pair in spellings)
    for code in categories.values():
        if code not in rubric.labels:
            raise AnnotatorError(f"--code: {code!r} is no code of {rubric.id}")
    index = TraceIndex(_list_traces(load_traces(*traces, format=format_))) if traces else None
    result, total, notices = LabelFiles(files).convert(rubric, annotator, index, categories)
    for notice in notices:
        say_notice(escape_controls(notice))
    write_file(out, render_rows(result.rows), private=True)
    say(f"{escape_controls(name_place(out))}: {len(result.rows)} of {total} labels written")
    for line in result.explain():
        say(wrap_lines(f"  {line}"))
    if result.rows:
        is_only = all(row.fields["annotator"] == annotator for row in result.rows)
        who = ("--annotator", annotator) if is_only else ()
        say_next("calibrate", "RUN", "--labels", out, *who, purpose="how good a judge is")
    if len(result.rows) < total:
        raise SystemExit(1)


def _list_traces(traces: Traces) -> Iterator[str | TraceRef]:
    """Yield traces; print those that cannot be read, and yield their ids. The number of a line is
    no id: another trace may have it.
    """
    for item in discover(traces.sources, traces.format):
        if isinstance(item, Unreadable):
            say_notice(f"{item.path}: {item.reason}")
            if not item.id.endswith(":" + item.path.rpartition(":")[2]):
                yield item.id
        elif isinstance(item, TraceRef):
            yield item
        del item  # it holds a document, and the next one is about to be read


def _split(pair: str) -> tuple[str, str]:
    word, _, code = pair.rpartition("=")
    if not word or not code:
        raise click.UsageError(f"--code {pair!r}: expected WORD=CODE")
    return word, code
