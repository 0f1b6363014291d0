"""``annotate report``: its options, its formats, and which of them go together."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import click

from annotator import api
from annotator.base.remote import name_place
from annotator.base.text import sanitize_line
from annotator.cli.compare import put_comparison
from annotator.cli.options import (
    PATH,
    GroupedCommand,
    PluginChoice,
    add_page_options,
    add_path_option,
    add_table_options,
    plot_option,
    verbose_option,
)
from annotator.cli.output import put_tables, say_notice, say_partial, say_written
from annotator.cli.tables import TableRequest, find_calibrations, open_runs, put_methods
from annotator.reports import table

Options = Mapping[str, object]  # flag -> its value, which is false without the option

_FIGURE = "annotate figure RUNS --out FILE is the command for --figure and --plot now"


@dataclass(frozen=True, slots=True)
class Format:
    """``goes_with``: the options that mean something in this format. ``write`` is None for text,
    which goes to stdout or ``--out``; else it writes to ``--out``, or to ``name`` in the run.
    """

    goes_with: frozenset[str]
    name: str = ""
    write: Callable[[TableRequest, Path], None] | None = None

    def check(self, format_: str, options: Options) -> None:
        """Raise :class:`click.UsageError` if an option does not go with the format."""
        names = {name for name, value in options.items() if value}
        if wrong := sorted(names - self.goes_with):
            goes = ", ".join(sorted(self.goes_with))
            raise click.UsageError(f"--format {format_} goes with {goes}; not with {wrong[0]}")

    def choose_path(self, format_: str, runs: Sequence[Path], out: Path | None) -> Path | None:
        """Return the path that it is written to; None for stdout."""
        if out or not self.write:
            return out
        if len(runs) != 1:
            raise click.UsageError(f"--format {format_} needs --out PATH here")
        return runs[0] / self.name


def _write_parquet(request: TableRequest, path: Path) -> None:
    from annotator.reports.formats import parquet

    parquet.write(request.count(), path)


def _write_dataset(request: TableRequest, path: Path) -> None:
    from annotator.runs.dataset import write_dataset

    write_dataset(request.runs, path)
    say_partial(request.runs)


def _write_page(request: TableRequest, path: Path) -> None:
    from annotator.base.files import NewFile
    from annotator.web.file import COMFORTABLE, write_report

    with NewFile(path, private=True) as file, TextIOWrapper(file, "utf-8", newline="") as out:
        total, unread = write_report(out, request.select_pages())
    if unread:
        say_notice(f"{unread} traces without their texts, which cannot be read (--traces)")
    if total > COMFORTABLE:
        say_notice(f"{total} annotations in one file open slowly; annotate view shows any number")


_TABLES = frozenset(("--out", "--calibration", "--cluster", "--transfer", "--joint", "--by"))
_TABLES |= {"--no-calibration"}
_PEOPLE = frozenset(("--labels", "--annotator", "--traces", "--rubric", "--final", "--design"))
_PAGES = frozenset(("--labels", "--annotator", "--traces", "--no-facts"))
_ROWS = frozenset(("--sort share", "--meanings"))
_COUNTED = _TABLES | _PEOPLE | {"--of-labelled"}
_TEXT = Format(_COUNTED | _ROWS | {"--compare", "--co-occurrence", "--figure", "--plot"})
_PAPER = Format(_TEXT.goes_with | {"--methods"})
FORMATS = {
    **dict.fromkeys(table.FORMATS, _PAPER),
    **dict.fromkeys(("csv", "json"), Format(_TEXT.goes_with - _ROWS)),
    "html": Format(_TABLES | _PAGES, "report.html", _write_page),
    "parquet": Format(_COUNTED, "report.parquet", _write_parquet),
    "dataset": Format(frozenset(("--out", "--push")), "report.dataset", _write_dataset),
}


_SECTIONS = {
    "Options": "format_ out verbose sort meanings calibration_files methods groups by",
    "Shares and intervals": "cluster transfer joint of_labelled no_calibration",
    "More tables and figures": "sides co_occurrence figure plot",
    "Labels and pages": "label_files annotators rubrics final design traces no_facts",
}


@click.command(
    "report", cls=GroupedCommand, sections=_SECTIONS, context_settings={"show_default": True}
)
@click.argument("runs", nargs=-1, type=PATH)
@click.option(
    "--format",
    "format_",
    type=PluginChoice("formats", list(FORMATS)),
    default="table",
    help="The format of the report. PLUGIN: an installed one, or module:name.",
)
@add_table_options
@click.option(
    "--of-labelled",
    is_flag=True,
    help="Shares of the labelled traces alone; those without a failure are in no share.",
)
@click.option(
    "--sort",
    type=click.Choice(["share", "rubric"]),
    help="The largest share first, or the codes in the order of the rubric.  [default: share in a"
    " brief table, else rubric]",
)
@click.option("--meanings", is_flag=True, help="Add the first sentence of each code's definition.")
@click.option(
    "--methods",
    is_flag=True,
    help="Print the paragraph on methods for a paper instead of the tables; with --by one on what"
    " all groups share, and one for each. With --format md or latex, too.",
)
@click.option(
    "--compare",
    "sides",
    nargs=2,
    metavar="A B",
    help="The same as annotate compare --by ATTRIBUTE --values A B: use that.",
)
@click.option("--co-occurrence", is_flag=True, help="Count how often one trace has two codes.")
@add_path_option(
    "--figure", help="Also draw what is printed. The same as annotate figure: use that."
)
@plot_option
@add_path_option(
    "--out",
    metavar="PATH",
    help="Where to write.  [default: stdout; html, parquet and dataset: RUN/report.FORMAT]",
)
@add_page_options
@verbose_option
@click.option(
    "--rubric",
    "rubrics",
    multiple=True,
    metavar="NAME|FILE",
    help="With --labels: only this rubric.  [default: every rubric with labels]",
)
@click.option(
    "--final", is_flag=True, help="With --labels: count the test split, which is held out."
)
@add_path_option(
    "--design",
    help="With --labels: the design that annotate sample wrote, for its inclusion probabilities.",
)
@click.option(
    "--push",
    metavar="ORG/NAME",
    help="With --format dataset: also push it to the Hugging Face hub, as private.",
)
def command(
    runs: tuple[Path, ...],
    format_: str,
    sides: tuple[str, str] | None,
    co_occurrence: bool,
    figure: Path | None,
    plot: str | None,
    out: Path | None,
    push: str | None,
    verbose: bool,
    methods: bool,
    no_calibration: bool,
    groups: tuple[str, ...],
    **options: Any,
) -> None:
    """Print the frequency tables of RUNS (run directories), one for each rubric; or draw them, or
    write them with every trace and finding into one page (--format html).

    The shares are corrected by RUN/calibration.json, if annotate calibrate has written it and it
    fits. With --labels FILE it counts people's labels instead: those of the traces in RUNS, or
    without RUNS all.
    """
    co_occurrence = co_occurrence or plot == "co-occurrence"
    flags: dict[str, object] = {
        "--push": push,
        "--compare": sides,
        "--figure": figure,
        "--plot": plot,
    }
    flags |= {"--methods": methods, "--no-calibration": no_calibration}
    flags |= {"--co-occurrence": co_occurrence, "--sort share": options["sort"] == "share"}
    for option in click.get_current_context().command.params:
        if option.name in options and option.name != "sort":
            flags[option.opts[0]] = options[option.name]
    form = FORMATS.get(format_, _TEXT)  # a plug-in's is text
    form.check(format_, flags)
    counts_labels = _counts_labels(flags | {"RUNS": runs}, form)
    if not runs and flags["--labels"] and not counts_labels:
        raise click.UsageError(f"--format {format_} needs RUNS")
    if groups and not runs:
        raise click.UsageError("--group needs RUNS: it is about their traces")
    if not runs and not counts_labels:
        raise click.UsageError("RUNS is missing (or give --labels FILE, to count people's labels)")
    path = form.choose_path(format_, () if counts_labels else runs, out)
    _check_together(flags)
    if figure:
        api.check_figure(figure)
    opened = open_runs(runs, groups)
    if _can_correct(flags, form):
        files = options["calibration_files"]
        options["calibration_files"] = find_calibrations(opened, files, no_calibration)
    request = TableRequest(opened, **options)
    if methods:
        put_methods(request, format_, path)
        return
    if sides and request.by:
        put_comparison(request, sides, format_, path, verbose=verbose)
        values = f"--by {request.by} --values {' '.join(sides)}"
        say_notice(f"annotate compare RUNS {values} is the command for --compare now")
        return
    if form.write and path:
        form.write(request, path)
        say_written(path)
        if format_ == "html":
            click.echo(f"next: open {sanitize_line(name_place(path), 1000)} in a browser", err=True)
        if push:
            from annotator.runs.dataset import push_dataset

            push_dataset(path, push)
            click.echo(f"pushed to {push}", err=True)
        return
    if co_occurrence:  # the figure itself says what it leaves out
        tables = api.count_together(*opened, on_notice=None if figure else say_notice)
    else:
        tables = request.count()
    put_tables(tables, format_, path, verbose=verbose)
    if figure:
        request.draw(plot or ("co-occurrence" if co_occurrence else "frequency"), figure, _FIGURE)


def _can_correct(options: Options, form: Format) -> bool:
    """Return whether a calibration changes what is written."""
    others = {"--labels", "--of-labelled", "--compare", "--co-occurrence"}
    if form is FORMATS["html"]:
        others -= {"--labels"}
    return "--calibration" in form.goes_with and not any(options[name] for name in others)


def _counts_labels(options: Options, form: Format) -> bool:
    """Return whether the table counts people's labels, instead of showing them beside a judge's.

    Raises:
        click.UsageError: options of such a table without labels, or other options with them.
    """
    if not options["--labels"]:
        for name in ("--rubric", "--final", "--design", "--traces"):
            if options[name] and form is not FORMATS["html"]:
                raise click.UsageError(f"{name} needs --labels FILE")
        return False
    if form is FORMATS["html"]:
        return False
    others = ("--calibration", "--compare", "--co-occurrence", "--figure")
    if wrong := [name for name in others if options[name]]:
        raise click.UsageError(f"--labels counts people's labels: leave {wrong[0]} out")
    if options["--traces"] and options["RUNS"]:
        raise click.UsageError("--traces is for labels without RUNS, which know their traces")
    return True


def _check_together(options: Options) -> None:
    """Raise :class:`click.UsageError` for options that do not go together in any format."""
    push, plot, sides, by = (options[name] for name in ("--push", "--plot", "--compare", "--by"))
    together = options["--co-occurrence"]
    if push and not re.fullmatch(r"[\w.-]+/[\w.-]+", str(push)):
        raise click.UsageError(f"--push {push}: expected ORG/NAME, the data set on the hub")
    if plot and not options["--figure"]:
        raise click.UsageError("--plot needs --figure FILE")
    if sides and options["--figure"]:
        raise click.UsageError("--figure draws no comparison: leave --compare out")
    if together and plot not in (None, "co-occurrence"):
        raise click.UsageError(f"--co-occurrence prints no {plot}: leave one of them out")
    if plot == "confusion" and by:
        raise click.UsageError("--plot confusion is of whole runs: leave --by out")
    if together and (sides or by or options["--calibration"] or options["--cluster"]):
        raise click.UsageError("--co-occurrence goes with --format, --figure and --out only")
    if (together or sides) and (wrong := [name for name in sorted(_ROWS) if options[name]]):
        raise click.UsageError(f"{wrong[0]} is for frequency tables: leave it out")
    others = ("--calibration", "--compare", "--co-occurrence", "--figure")
    if options["--of-labelled"] and (wrong := [name for name in others if options[name]]):
        raise click.UsageError(f"--of-labelled goes with no {wrong[0]}")
    if sides and not by:
        raise click.UsageError("--compare A B needs --by ATTRIBUTE (or run, or judge)")
    if options["--methods"]:
        names = {"--calibration", "--transfer", "--by", "--cluster", "--joint", "--out"}
        names |= {"--methods", "--no-calibration"}
        if wrong := [name for name, value in options.items() if value and name not in names]:
            raise click.UsageError(f"--methods goes with no {wrong[0]}")
    if sides and options["--transfer"]:
        raise click.UsageError("--compare needs labels of the compared traces: no --transfer")
