"""``annotate report``."""

from collections.abc import Sequence
from pathlib import Path

import click

from annotator.cli.asked import Asked, about_pages, about_tables
from annotator.cli.choices import PluginChoice
from annotator.cli.drawing import drawn
from annotator.cli.formats import FORMATS, check_together, format_of, write_tables
from annotator.cli.output import say
from annotator.cli.tables import say_tables
from annotator.reports import figures
from annotator.reports.frequency import told_apart
from annotator.reports.out import write_text
from annotator.runs.manifest import read_manifests
from annotator.text import one_line


@click.command("report", context_settings={"show_default": True})
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--format",
    "format_",
    type=PluginChoice("formats", list(FORMATS)),
    default="table",
    help="How it is written. PLUGIN: an installed one, or module:name.",
)
@about_tables
@click.option(
    "--of-labelled",
    is_flag=True,
    help="Shares of the labelled traces alone: what is none is in no share.",
)
@click.option(
    "--compare",
    "sides",
    nargs=2,
    metavar="A B",
    help="Differences between two values of --by (which may be run or judge).",
)
@click.option("--co-occurrence", is_flag=True, help="How often two codes stand in one trace.")
@click.option(
    "--figure",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Draw what is printed, too: a .svg, .png or .pdf.",
)
@click.option(
    "--plot",
    type=click.Choice(list(figures.PLOTS)),
    help="What to draw; confusion and reliability need --calibration."
    "  [default: frequency, or co-occurrence with --co-occurrence]",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Where to write.  [default: stdout; html, parquet and dataset: RUN/report.FORMAT]",
)
@about_pages
@click.option(
    "--push",
    metavar="ORG/NAME",
    help="With --format dataset: push it to the Hugging Face hub too, private.",
)
def command(
    runs: tuple[Path, ...],
    format_: str,
    calibration_files: tuple[Path, ...],
    transfer: bool,
    by: str | None,
    of_labelled: bool,
    sides: tuple[str, str] | None,
    co_occurrence: bool,
    figure: Path | None,
    plot: str | None,
    out: Path | None,
    label_files: tuple[Path, ...],
    annotators: tuple[str, ...],
    traces: tuple[str, ...],
    push: str | None,
) -> None:
    """Print the frequency tables of RUNS (run directories), one per rubric; or draw them, or write
    them with every trace and finding into one page (--format html).
    """
    co_occurrence = co_occurrence or plot == "co-occurrence"
    given = {
        "--calibration": calibration_files,
        "--transfer": transfer,
        "--by": by,
        "--of-labelled": of_labelled,
        "--compare": sides,
        "--co-occurrence": co_occurrence,
        "--figure": figure,
        "--plot": plot,
        "--labels": label_files,
        "--annotator": annotators,
        "--traces": traces,
        "--push": push,
    }
    form = format_of(format_)
    form.check(format_, given)
    place = form.place(runs, out)
    check_together(given)
    if figure:
        figures.check(figure)
    read_manifests(runs)  # each run once, whatever is made of them
    people = label_files, annotators
    asked = Asked(runs, calibration_files, transfer, by, *people, traces, of_labelled)
    if sides and by:
        _compared(asked, by, sides, format_, place)
    elif co_occurrence:
        _together(runs, format_, place, figure)
    elif form.write and place:
        form.write(asked, place)
        _written(place)
        if push:
            _push(place, push)
    else:
        _tables(asked, format_, place, plot or "frequency", figure)


def _compared(
    asked: Asked, by: str, sides: tuple[str, str], format_: str, place: Path | None
) -> None:
    from annotator.reports import compare_writers
    from annotator.reports.compare import compare

    compared = compare(asked.runs, by, *sides, asked.calibrations)
    _put(compare_writers.WRITERS[format_](compared), place)


def _together(runs: Sequence[Path], format_: str, place: Path | None, figure: Path | None) -> None:
    from annotator.reports import together

    counted = together.co_occurrence(*runs)
    _put(together.WRITERS[format_](counted), place)
    for line in together.left_out(*runs):
        click.echo(one_line(line, 2000), err=True)
    drawn("co-occurrence", figures.Source(together=counted), figure)


def _tables(asked: Asked, format_: str, place: Path | None, plot: str, figure: Path | None) -> None:
    tables = told_apart(asked.tables(), asked.runs)
    if place:
        _put(write_tables(tables, format_), place)
    else:
        say_tables(tables, format_)
    drawn(plot, figures.Source(asked.runs, tables, asked.calibrations), figure)


def _put(text: str, place: Path | None) -> None:
    if place:
        write_text(place, text)
        _written(place)
    else:
        say(text)


def _written(place: Path) -> None:
    click.echo(f"written to {one_line(str(place), 1000)}", err=True)


def _push(place: Path, name: str) -> None:
    from annotator.reports.dataset import push_dataset

    push_dataset(place, name)
    click.echo(f"pushed to {name}", err=True)
