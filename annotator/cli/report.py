"""``annotate report``."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from annotator import api
from annotator.cli.asked import Asked, about_pages, about_tables
from annotator.cli.choices import PluginChoice, plot_option
from annotator.cli.compare import put_comparison
from annotator.cli.formats import FORMATS, check_together, counts_people, format_of
from annotator.cli.output import say_notice
from annotator.cli.tables import put, say_written

if TYPE_CHECKING:
    from annotator.reports.table import Sort

_FIGURE = "annotate figure RUNS --out FILE is the command for --figure and --plot now"


@click.command("report", context_settings={"show_default": True})
@click.argument("runs", nargs=-1, type=click.Path(path_type=Path))
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
    "--sort",
    type=click.Choice(["share", "rubric"]),
    default="rubric",
    help="The largest share first, or the codes as in the rubric.",
)
@click.option("--meanings", is_flag=True, help="Add the first sentence of each code's definition.")
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
    "--rubric",
    "rubrics",
    multiple=True,
    metavar="NAME|FILE",
    help="With --labels: only this rubric.  [default: every one with labels]",
)
@click.option(
    "--final", is_flag=True, help="With --labels: count the test split, which is held out."
)
@click.option(
    "--design",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="With --labels: the design that annotate sample wrote, for its inclusion probabilities.",
)
@click.option(
    "--push",
    metavar="ORG/NAME",
    help="With --format dataset: push it to the Hugging Face hub too, private.",
)
def command(
    runs: tuple[Path, ...],
    format_: str,
    calibration_files: tuple[Path, ...],
    cluster: str | None,
    transfer: bool,
    joint: bool,
    by: str | None,
    of_labelled: bool,
    sort: "Sort",
    meanings: bool,
    sides: tuple[str, str] | None,
    co_occurrence: bool,
    figure: Path | None,
    plot: str | None,
    out: Path | None,
    label_files: tuple[Path, ...],
    annotators: tuple[str, ...],
    traces: tuple[str, ...],
    rubrics: tuple[str, ...],
    final: bool,
    design: Path | None,
    push: str | None,
) -> None:
    """Print the frequency tables of RUNS (run directories), one per rubric; or draw them, or write
    them with every trace and finding into one page (--format html).

    With --labels FILE it counts people's labels instead: those of the traces in RUNS, or without
    RUNS all.
    """
    co_occurrence = co_occurrence or plot == "co-occurrence"
    given = {
        "--calibration": calibration_files,
        "--cluster": cluster,
        "--transfer": transfer,
        "--joint": joint,
        "--by": by,
        "--of-labelled": of_labelled,
        "--sort share": sort == "share",
        "--meanings": meanings,
        "--compare": sides,
        "--co-occurrence": co_occurrence,
        "--figure": figure,
        "--plot": plot,
        "--labels": label_files,
        "--annotator": annotators,
        "--traces": traces,
        "--rubric": rubrics,
        "--final": final,
        "--design": design,
        "--push": push,
    }
    form = format_of(format_)
    form.check(format_, given)
    people = counts_people(given | {"RUNS": runs}, form)
    if not runs and label_files and not people:
        raise click.UsageError(f"--format {format_} needs RUNS")
    if not runs and not people:
        raise click.UsageError("RUNS is missing (or give --labels FILE, to count people's labels)")
    place = form.place(format_, () if people else runs, out)
    check_together(given)
    if figure:
        api.check_figure(figure)
    opened = api.open_runs(runs)
    asked = Asked(
        *(opened, calibration_files, transfer, by, label_files, annotators, traces),
        *(of_labelled, cluster, joint, rubrics, final, design),
        sort=sort,
        meanings=meanings,
    )
    if sides and by:
        put_comparison(asked, sides, format_, place)
        say_notice(
            f"annotate compare RUNS --by {by} --values {' '.join(sides)} is the command for"
            " --compare now"
        )
        return
    if form.write and place:
        form.write(asked, place)
        say_written(place)
        if push:
            _push(place, push)
        return
    if co_occurrence:  # a figure says what it leaves out itself
        tables = api.count_together(*opened, on_notice=None if figure else say_notice)
    else:
        tables = asked.count()
    put(tables, format_, place)
    if figure:
        asked.draw(plot or ("co-occurrence" if co_occurrence else "frequency"), figure, _FIGURE)


def _push(place: Path, name: str) -> None:
    from annotator.runs.dataset import push_dataset

    push_dataset(place, name)
    click.echo(f"pushed to {name}", err=True)
