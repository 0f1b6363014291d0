"""``annotate report``."""

import re
from pathlib import Path

import click

from annotator.cli.asked import Asked, about_pages, about_tables
from annotator.cli.formats import FORMATS
from annotator.cli.output import drawn, say
from annotator.cli.tables import say_tables
from annotator.reports import figures
from annotator.reports.out import write_text
from annotator.reports.writers import WRITERS
from annotator.runs.manifest import read_manifests
from annotator.text import one_line


@click.command("report", context_settings={"show_default": True})
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--format", "format_", type=click.Choice(list(FORMATS)), default="table")
@about_tables
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
        "--compare": sides,
        "--co-occurrence": co_occurrence,
        "--figure": figure,
        "--plot": plot,
        "--labels": label_files,
        "--annotator": annotators,
        "--traces": traces,
        "--push": push,
    }
    form = FORMATS[format_]
    form.check(format_, (name for name, value in given.items() if value))
    place = form.place(runs, out)
    if push and not re.fullmatch(r"[\w.-]+/[\w.-]+", push):
        raise click.UsageError(f"--push {push}: expected ORG/NAME, the data set on the hub")
    if figure:
        if sides:
            raise click.UsageError("--figure draws no comparison: leave --compare out")
        if co_occurrence and plot not in (None, "co-occurrence"):
            raise click.UsageError(f"--co-occurrence prints no {plot}: leave one of them out")
        if plot == "confusion" and by:
            raise click.UsageError("--plot confusion is of whole runs: leave --by out")
        figures.check(figure)
    elif plot:
        raise click.UsageError("--plot needs --figure FILE")
    read_manifests(runs)  # each run once, whatever is made of them
    asked = Asked(runs, calibration_files, transfer, by, label_files, annotators, traces)
    if sides:
        if not by:
            raise click.UsageError("--compare A B needs --by ATTRIBUTE (or run, or judge)")
        if transfer:
            raise click.UsageError("--compare needs labels of the compared traces: no --transfer")
        from annotator.reports import compare_writers
        from annotator.reports.compare import compare

        _put(compare_writers.WRITERS[format_](compare(runs, by, *sides, asked.calibrations)), place)
        return
    if co_occurrence and (sides or by or calibration_files):
        raise click.UsageError("--co-occurrence goes with --format, --figure and --out only")
    if co_occurrence:
        from annotator.reports import together

        counted = [one for run in runs for one in together.co_occurrence(run)]
        _put(together.WRITERS[format_](counted), place)
        for line in (line for run in runs for line in together.left_out(run)):
            click.echo(one_line(line, 2000), err=True)
        drawn("co-occurrence", figures.Source(together=counted), figure)
        return

    if form.write and place:
        form.write(asked, place)
        _written(place)
        if push:
            _push(place, push)
        return
    made = asked.tables()
    if place:
        _put(WRITERS[format_](made), place)
    else:
        say_tables(made, format_)
    drawn(plot or "frequency", figures.Source(runs, made, asked.calibrations), figure)


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
