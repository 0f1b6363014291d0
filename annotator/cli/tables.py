"""The tables, figures and pages of finished runs that a command is asked for."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from annotator import api
from annotator.base.remote import is_hub, name_place
from annotator.base.text import list_first, sanitize_line
from annotator.cli.options import parse_attributes
from annotator.cli.output import put_text, say_notice, say_partial
from annotator.rubrics.annotations import get_attribute

if TYPE_CHECKING:
    from annotator import Calibration, Run
    from annotator.reports.table import Sort, Table
    from annotator.web.reading import PageRequest


def open_runs(paths: Sequence[Path], groups: Sequence[str] = ()) -> "tuple[Run, ...]":
    """Return runs with the conditions of ``--group``; print on stderr which traces have none."""
    return api.group_runs(api.open_runs(paths), groups, say_notice)


def count_conditions(run: "Run", ids: Collection[str]) -> Iterator[str]:
    """Yield a line for each condition of a run: how many of the traces have each value."""
    names = list(dict.fromkeys(condition.name for condition in run.conditions))
    values: dict[str, dict[str, str]] = {name: {} for name in names}
    for annotation in run.annotations() if names else ():
        for name, by_trace in values.items():
            if annotation.trace_id in ids:
                by_trace[annotation.trace_id] = get_attribute(annotation.attributes, name)
    for name, by_trace in values.items():
        counts = Counter(by_trace.values())
        listed = ", ".join(f"{value} {counts[value]}" for value in sorted(counts))
        yield sanitize_line(f"{name}: {listed}", 2000)


def open_sources(sources: tuple[str, ...], groups: Sequence[str] = ()) -> "Run | tuple[str, ...]":
    """Return the run, with the conditions of ``--group``, or else the sources of traces."""
    if len(sources) != 1 or is_hub(sources[0]) or not api.is_run(sources[0]):
        if groups:
            raise click.UsageError("--group needs a RUN here")
        return sources
    [run] = open_runs([Path(sources[0])], groups)
    say_partial([run])
    return run


@dataclass(frozen=True)
class TableRequest:
    """The runs, and the options that correct and divide their tables, by parameter names."""

    runs: "Sequence[Run]"
    calibration_files: Sequence[Path] = ()
    cluster: str | None = None
    transfer: bool = False
    joint: bool = False
    by: str | None = None
    label_files: Sequence[Path] = ()
    annotators: Sequence[str] = ()
    traces: Sequence[str] = ()
    no_facts: bool = False
    of_labelled: bool = False
    rubrics: Sequence[str] = ()
    final: bool = False
    design: Path | None = None
    sort: "Sort | None" = None
    meanings: bool = False

    def __post_init__(self) -> None:
        for flag, value, needed, there in (
            ("--joint", self.joint, "--calibration", self.calibration_files),
            ("--transfer", self.transfer, "--calibration", self.calibration_files),
            ("--annotator", self.annotators, "--labels", self.label_files),
        ):
            if value and not there:
                raise click.UsageError(f"{flag} needs {needed} FILE")

    @property
    def cluster_by(self) -> tuple[str, ...] | None:
        """The attributes that name a task; None without ``--cluster``."""
        return None if self.cluster is None else parse_attributes(self.cluster)

    @cached_property
    def calibrations(self) -> "Sequence[Calibration] | None":
        """The calibrations in the files; None without files."""
        return api.load_calibrations(*self.calibration_files) if self.calibration_files else None

    @property
    def correction(self) -> dict[str, Any]:
        """The arguments of the API that divide, cluster and correct."""
        return {
            **{name: getattr(self, name) for name in ("by", "transfer", "joint")},
            "calibration": self.calibrations,
            "cluster": self.cluster_by,
        }

    def count(self) -> "list[Table]":
        """Return the frequency tables of all runs; with label files those of people's labels."""
        options = {name: getattr(self, name) for name in ("of_labelled", "sort", "meanings")}
        if not self.label_files:
            return api.count(*self.runs, **options, **self.correction)
        options |= {name: getattr(self, name) for name in ("by", "annotators", "final", "design")}
        options |= {"traces": self.traces or None, "cluster": self.cluster_by}
        runs: Sequence[Run | None] = self.runs or (None,)
        return [
            table
            for run in runs
            for table in api.count_labels(self.label_files, self.rubrics, run=run, **options)
        ]

    def select_pages(self) -> "PageRequest":
        """Return the runs with labels and calibrations, as the pages show them."""
        from annotator.web.reading import PageRequest, read_person_labels

        labels = {}
        if self.label_files:
            labels = read_person_labels(self.label_files, self.runs, self.annotators, say_notice)
            by_trace = chain.from_iterable(traces.values() for traces in labels.values())
            names = dict.fromkeys(label.annotator for label in chain.from_iterable(by_trace))
            if len(names) > 1:
                say_notice(
                    f"labels of {', '.join(names)}: the page shows all; the first who labelled a"
                    " trace is compared with the judge (--annotator NAME selects)"
                )
        return PageRequest(
            *(self.runs, api.group_calibrations(self.calibrations), self.transfer, self.by),
            labels=labels,
            traces=self.traces,
            cluster=self.cluster_by,
            joint=self.joint,
            label_files=self.label_files,
            facts=not self.no_facts,
        )


def open_request(
    runs: Sequence[Path],
    groups: Sequence[str],
    no_calibration: bool,
    *,
    corrected: bool = True,
    **options: Any,
) -> TableRequest:
    """Return a command's request, ``corrected`` by the files it names or else those in the runs."""
    files = options["calibration_files"]
    if files and no_calibration:
        raise click.UsageError("--calibration and --no-calibration: leave one of them out")
    opened = open_runs(runs, groups)
    if corrected and not (files or no_calibration):
        options["calibration_files"] = api.find_calibrations(*opened, on_notice=say_notice)
        if options["calibration_files"]:
            say_corrected(options["calibration_files"])
    return TableRequest(opened, **options)


def say_corrected(files: Sequence[Path]) -> None:
    """Print on stderr which calibrations correct the shares."""
    names = list_first([name_place(file) for file in files], 3)
    say_notice(f"shares are corrected by {names} (--no-calibration: the judge alone)")


def put_methods(request: TableRequest, format_: str, path: Path | None) -> None:
    """Print the paragraphs on methods for a paper, or write them to ``path``."""
    from annotator.reports import methods

    if format_ not in methods.FORMATS:
        names = ", ".join(methods.FORMATS)
        raise click.UsageError(f"--methods goes with --format {names}; not with {format_}")
    paragraphs = api.describe_methods(*request.runs, **request.correction)
    put_text(methods.render_methods(paragraphs, format_), path)
