"""What the commands that read finished runs are asked for alike."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from annotator import api
from annotator.base.remote import is_hub, name_place
from annotator.base.text import sanitize_line
from annotator.cli.output import attributes, say_notice, say_partial

if TYPE_CHECKING:
    from annotator import Calibration, Run
    from annotator.reports.table import Sort, Table
    from annotator.web.reading import Shown

Command = Callable[..., Any]

with_calibration = click.option(
    "--calibration",
    "calibration_files",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="What annotate calibrate wrote: adds the shares corrected for the judge's errors."
    " Several: each run takes the one made for it.",
)
with_cluster = click.option(
    "--cluster",
    metavar="ATTRIBUTES",
    help="What makes a task, whose traces are not independent: task, project,task, or none."
    "  [default: project,task, or as the calibration]",
)
_TABLES = (
    with_calibration,
    with_cluster,
    click.option(
        "--transfer",
        is_flag=True,
        help="Let the calibration be of another judge or of other traces; the table says so.",
    ),
    click.option(
        "--joint",
        is_flag=True,
        help="With --calibration: correct all codes at once; shares add up to 100 %, and the"
        " intervals of codes found in 5 tasks or more hold all together.",
    ),
    click.option("--by", metavar="ATTRIBUTE", help="One table for each value: model, setting, ..."),
)
_PAGES = (
    click.option(
        "--labels",
        "label_files",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Labels of people. Pages show them beside the judge's; report counts them instead.",
    ),
    click.option(
        "--annotator",
        "annotators",
        multiple=True,
        metavar="NAME",
        help="With --labels: whose.  [default: gold, or the only one]",
    ),
    click.option(
        "--traces",
        multiple=True,
        metavar="TRACES",
        help="Where the traces are now.  [default: where the run read them]",
    ),
)


def about_tables(command: Command) -> Command:
    """Add the options that say what tables are of."""
    return _with(_TABLES, command)


def about_pages(command: Command) -> Command:
    """Add the options that say what else pages show."""
    return _with(_PAGES, command)


def _with(options: Sequence[Callable[[Command], Command]], command: Command) -> Command:
    for option in reversed(options):
        command = option(command)
    return command


def run_or_traces(sources: tuple[str, ...]) -> "Run | tuple[str, ...]":
    """Return the run that is named; sources of traces as they are."""
    alone = len(sources) == 1 and not is_hub(sources[0]) and api.is_run(sources[0])
    if not alone:
        return sources
    run = api.open_run(sources[0])
    say_partial([run])
    return run


@dataclass(frozen=True)
class Asked:
    """The runs, what corrects and divides their tables, and for pages the labels of people and
    where the traces are now. ``of_labelled``: shares of the labelled traces alone.
    """

    runs: "Sequence[Run]"
    calibration_files: Sequence[Path] = ()
    transfer: bool = False
    by: str | None = None
    label_files: Sequence[Path] = ()
    annotators: Sequence[str] = ()
    traces: Sequence[str] = ()
    of_labelled: bool = False
    cluster: str | None = None
    joint: bool = False
    rubrics: Sequence[str] = ()
    final: bool = False
    design: Path | None = None
    sort: "Sort" = "rubric"
    meanings: bool = False

    def __post_init__(self) -> None:
        if self.joint and not self.calibration_files:
            raise click.UsageError("--joint needs --calibration FILE")
        if self.transfer and not self.calibration_files:
            raise click.UsageError("--transfer needs --calibration FILE")
        if self.annotators and not self.label_files:
            raise click.UsageError("--annotator needs --labels FILE")

    @property
    def cluster_by(self) -> tuple[str, ...] | None:
        """The attributes that make a task; None if nobody said."""
        return None if self.cluster is None else attributes(self.cluster)

    @cached_property
    def calibrations(self) -> "Sequence[Calibration] | None":
        """The calibrations in the files; None if none was given."""
        return api.load_calibrations(*self.calibration_files) if self.calibration_files else None

    def count_labels(self) -> "list[Table]":
        """Return the frequency tables of people's labels, of each run if there are runs."""
        options: dict[str, Any] = {"annotators": self.annotators, "final": self.final}
        options |= {"by": self.by, "of_labelled": self.of_labelled, "cluster": self.cluster_by}
        options |= {"design": self.design, "traces": self.traces or None}
        options |= {"sort": self.sort, "meanings": self.meanings}
        return [
            table
            for run in self.runs or [None]
            for table in api.count_labels(self.label_files, self.rubrics, run=run, **options)
        ]

    def count(self) -> "list[Table]":
        """Return the frequency tables of all runs, or of the labels if they are to be counted."""
        if self.label_files:
            return self.count_labels()
        options: dict[str, Any] = {"calibration": self.calibrations, "transfer": self.transfer}
        options |= {"by": self.by, "of_labelled": self.of_labelled, "cluster": self.cluster_by}
        options |= {"joint": self.joint, "sort": self.sort, "meanings": self.meanings}
        return api.count(*self.runs, **options)

    def draw(self, plot: str, out: Path, *notices: str) -> None:
        """Draw a figure of the runs, and say on stderr where it is and what it lacks."""
        for line in notices:
            say_notice(line)
        options: dict[str, Any] = {"calibration": self.calibrations, "transfer": self.transfer}
        options |= {"by": self.by, "cluster": self.cluster_by, "joint": self.joint}
        api.draw(*self.runs, out=out, plot=plot, **options, on_notice=say_notice)
        say_notice(f"figure written to {sanitize_line(name_place(out))}")

    def shown(self) -> "Shown":
        """Return what pages show."""
        from annotator.web.people import read_person_labels
        from annotator.web.reading import Shown

        labels = {}
        if self.label_files:
            labels = read_person_labels(self.label_files, self.runs, self.annotators)
        calibrations = api.group_calibrations(self.calibrations)
        return Shown(
            *(self.runs, calibrations, self.transfer, self.by, labels, self.traces),
            cluster=self.cluster_by,
            joint=self.joint,
        )
