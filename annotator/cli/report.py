"""``annotate report``."""

from pathlib import Path

import click

from annotator.api import count_pairs, open_runs
from annotator.cli.choices import PluginChoice
from annotator.cli.compare import put_comparison
from annotator.cli.drawing import plot_option, say_notice
from annotator.cli.formats import FORMATS, check_together, format_of
from annotator.cli.report_options import ReportOptions, about_pages, about_tables
from annotator.cli.tables import put, say_written
from annotator.reports import figures

_FIGURE = "annotate figure RUNS --out FILE is the command for --figure and --plot now"


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
    help="As annotate compare --by ATTRIBUTE --values A B, which is a command of its own now.",
)
@click.option("--co-occurrence", is_flag=True, help="How often two codes stand in one trace.")
@click.option(
    "--figure",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Draw what is printed, too; annotate figure is a command of its own now.",
)
@plot_option
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
    people = label_files, annotators
    options = ReportOptions(
        open_runs(runs), calibration_files, transfer, by, *people, traces, of_labelled
    )
    if sides and by:
        put_comparison(options, sides, format_, place)
        now = f"annotate compare RUNS --by {by} --values {' '.join(sides)}"
        say_notice(f"{now} is the command for --compare now")
    elif form.write and place:
        form.write(options, place)
        say_written(place)
        if push:
            _push(place, push)
    else:
        if co_occurrence:  # a figure of them says the same of the runs
            notice = None if figure else say_notice
            tables = count_pairs(*options.runs, on_notice=notice)
        else:
            tables = options.tables()
        put(tables, format_, place)
        if figure:
            say_notice(_FIGURE)
            options.draw(figure, plot or ("co-occurrence" if co_occurrence else "frequency"))


def _push(place: Path, name: str) -> None:
    from annotator.runs.dataset import push_dataset

    push_dataset(place, name)
    click.echo(f"pushed to {name}", err=True)
