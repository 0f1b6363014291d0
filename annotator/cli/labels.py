"""``annotate labels``."""

from collections.abc import Iterator
from pathlib import Path

import click

from annotator.base.errors import AnnotatorError
from annotator.base.files import write_file
from annotator.base.remote import name_place
from annotator.base.text import escape_controls, format_count, list_first, sanitize_line, wrap_lines
from annotator.cli.options import PATH, add_reader_options
from annotator.cli.output import say, say_next, say_notice
from annotator.labels.foreign import convert, read_foreign_labels, render_rows
from annotator.rubrics import NONE, load_rubric
from annotator.traces import Ignored, Traces, Unreadable, load_traces


@click.command("labels")
@click.argument("files", nargs=-1, required=True, type=PATH)
@click.option(
    "--rubric", "rubric_name", required=True, metavar="NAME|FILE", help="The rubric of the labels."
)
@click.option(
    "--traces",
    multiple=True,
    metavar="TRACES",
    help="The labelled traces: labels get the ids that these have here. Repeatable.",
)
@click.option("--annotator", default="gold", show_default=True, help="Who made the labels.")
@click.option(
    "--code",
    "spellings",
    multiple=True,
    metavar="WORD=CODE",
    help="A category of the other tool, and the code for it. Repeatable.",
)
@click.option(
    "--out", "-o", type=click.Path(path_type=Path, dir_okay=False), required=True, metavar="FILE"
)
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

    FILES are AgentRx's ground truth, labels by MAST's modes, MAD's or Who&When's records, or a
    spreadsheet (CSV, TSV) with a column of trace ids and one of categories, or one for each code.
    A label that the rubric cannot express is listed and left out; then the exit code is 1.
    """
    rubric = load_rubric(rubric_name)
    categories = dict(_split(pair) for pair in spellings)
    for code in categories.values():
        if code not in {NONE, *(each.id for each in rubric.codes)}:
            raise AnnotatorError(f"--code: {code!r} is no code of {rubric.id}")
    labels = []
    for file in files:
        rows, unused = read_foreign_labels(file, rubric, categories)
        labels += rows
        if unused:
            columns = sanitize_line(", ".join(unused), 300)
            say(wrap_lines(f"{escape_controls(str(file))}: columns not used: {columns}"))
    ids = list(_list_ids(load_traces(*traces, format=format_))) if traces else None
    result = convert(labels, rubric, annotator, ids, categories)
    write_file(out, render_rows(result.rows), private=True)
    say(f"{escape_controls(name_place(out))}: {len(result.rows)} of {len(labels)} labels written")
    for name, n in result.unmapped.most_common():
        say(wrap_lines(f"  no code for {sanitize_line(name, 80)!r} ({format_count(n, 'label')})"))
    if result.unmapped:
        say("  to give them codes: --code WORD=CODE")
    for reason, traces_left in (
        ("no trace with this id", result.without_trace),
        ("no decisive category is named", result.undecided),
        ("not labelled yet", result.unlabelled),
    ):
        if traces_left:
            say(wrap_lines(f"  {reason}: {sanitize_line(list_first(traces_left, 5), 300)}"))
    if result.rows:
        arguments = "calibrate", "RUN", "--labels", out, "--annotator", annotator
        say_next(*arguments, purpose="how good a judge is")
    if len(result.rows) < len(labels):
        raise SystemExit(1)


def _list_ids(traces: Traces) -> Iterator[str]:
    """Yield the ids of traces; print those that cannot be read, and yield their ids too. The number
    of a line is no id: another trace may have it.
    """
    for item in traces.find():
        if isinstance(item, Unreadable):
            say_notice(f"{item.path}: {item.reason}")
            if item.id.endswith(":" + item.path.rpartition(":")[2]):
                continue
        if not isinstance(item, Ignored):
            yield item.id


def _split(pair: str) -> tuple[str, str]:
    word, _, code = pair.rpartition("=")
    if not word or not code:
        raise click.UsageError(f"--code {pair!r}: expected WORD=CODE")
    return word, code
