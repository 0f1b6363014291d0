"""Options that several commands share."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import click

from annotator.base.plugins import Kind, is_plugin, list_plugins

Command = Callable[..., Any]
Decorator = Callable[[Command], Command]
PATH = click.Path(path_type=Path)
MISSED, UNDECIDED = 1, 4
"""The exit codes of a threshold."""


class GroupedCommand(click.Command):
    """A command whose help lists its options in ``sections``: names of parameters by title."""

    def __init__(self, *args: Any, sections: Mapping[str, str], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.sections = sections

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the groups."""
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        params = {param.name or "": param for param in options}
        groups = {title: names.split() for title, names in self.sections.items()}
        if option := self.get_help_option(ctx):
            next(iter(groups.values())).append(option.name or "")
        for title, names in {**groups, "Other options": [*params]}.items():
            group = [params.pop(name) for name in names if name in params]
            rows = [row for param in group if (row := param.get_help_record(ctx))]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


class Number(click.FloatRange):
    """A number in a range; NaN is invalid."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number."""
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


class PluginChoice(click.Choice[str]):
    """A built-in name, or a plug-in that the command loads: its name, or ``module:name``."""

    def __init__(self, kind: Kind, names: Sequence[str]) -> None:
        super().__init__(names)
        self.kind: Kind = kind

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Return the built-in names and the word PLUGIN."""
        return f"[{'|'.join(self.choices)}|PLUGIN]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name."""
        if value not in self.choices and is_plugin(self.kind, value):
            return str(value)
        return super().convert(value, param, ctx)

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """Return an error that lists the built-in names and the installed plug-ins."""
        message = super().get_invalid_choice_message(value, ctx)
        installed = ", ".join(map(repr, list_plugins(self.kind)))
        return f"{message[:-1]}, {installed}." if installed else message


def add_option(
    spec: str, help: str | None = None, type: Any = None, *, name: str = "", **settings: Any
) -> Decorator:
    """Return an option by its line in a manual, such as ``-o,--out FILE``.

    ``--code WORD...`` may be repeated, ``--between A B`` has two values, and ``--final`` is a flag.
    ``name``: of the parameter, if it is not that of the flag.
    """
    flags, _, metavar = spec.partition(" ")
    if metavar.endswith("..."):
        metavar, settings["multiple"] = metavar[:-3], True
    if " " in metavar:
        settings["nargs"] = len(metavar.split())
    if not metavar and type is None and "/" not in flags:
        settings["is_flag"] = True
    names = [*flags.split(","), *([name] if name else [])]
    return click.option(*names, metavar=metavar or None, help=help, type=type, **settings)


def add_options(*options: Decorator) -> Decorator:
    """Return a decorator that adds options to a command, in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def parse_attributes(text: str) -> tuple[str, ...]:
    """Return the names in ``project,task``; for ``none`` an empty tuple."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise click.UsageError(f"--cluster {text!r}: expected names of attributes, or none")
    return () if names == ("none",) else names


verbose_option = add_option("-v,--verbose", "Print all columns and notes of the tables.")
group_option = add_option(
    "--group NAME=REGEX|FILE.csv...",
    "A condition of the study, for --by NAME: the group of a regular expression on the trace"
    " id, 'arm=^([^/]+)/', or on an attribute, NAME=ATTRIBUTE:REGEX; or a table with a column"
    " trace_id and a column for each condition. Repeatable.",
    name="groups",
)
calibration_option = add_option(
    "--calibration FILE...",
    "A file that annotate calibrate wrote. Adds shares corrected for the judge's errors."
    " Repeat it for several runs: each takes its own.  [default: RUN/calibration.json, if it"
    " fits]",
    PATH,
    name="calibration_files",
)
no_calibration_option = add_option(
    "--no-calibration", "The judge alone, without the calibration.json in RUN."
)
cluster_option = add_option(
    "--cluster ATTRIBUTES",
    "The attributes that name a task: task, or project,task. Traces of one task are not"
    " independent. none: all traces are.  [default: project,task, or as the calibration]",
)
task_option = add_option(
    "--cluster ATTRIBUTES", "The attributes that name a task.", default="project,task"
)
concurrency_option = add_option(
    "--concurrency N", "The most calls in flight.", click.IntRange(1, 512), default=8
)
# Of commands that judge labelled traces anew.
add_label_options = add_options(
    add_option(
        "--labels FILE...",
        "People's labels, as of annotate calibrate. Those of the test split stay closed.",
        PATH,
        name="files",
        required=True,
    ),
    add_option(
        "--annotator NAME...",
        "Whose labels decide.  [default: gold, then the only annotator]",
        name="annotators",
    ),
    add_option("--design FILE", "The design that annotate sample wrote.", PATH),
    add_option(
        "--ledger FILE", "The file that notes each look.  [default: beside the labels]", PATH
    ),
)
add_table_options = add_options(
    calibration_option,
    no_calibration_option,
    cluster_option,
    add_option(
        "--transfer", "Accept a calibration of another judge or of other traces; the table says so."
    ),
    add_option(
        "--joint",
        "With --calibration: correct all codes at once. Shares add up to 100 %, and the"
        " intervals of codes found in 5 tasks or more hold together.",
    ),
    group_option,
    add_option("--by ATTRIBUTE", "One table for each value of model, setting, ..."),
)
add_page_options = add_options(
    add_option(
        "--labels FILE...",
        "People's labels. Pages show them beside the judge's; report counts them instead.",
        PATH,
        name="label_files",
    ),
    add_option(
        "--annotator NAME...",
        "With --labels: whose labels.  [default: gold, then the only annotator]",
        name="annotators",
    ),
    add_option(
        "--traces TRACES...", "Where the traces are now.  [default: where the run read them]"
    ),
    add_option(
        "--no-facts",
        "Pages without what is counted from a trace: messages, sizes of patches, overlaps.",
    ),
)


def add_draw_seed(help: str) -> Decorator:
    """Return ``--draws-seed``, beside the ``--seed`` of the model."""
    return add_option("--draws-seed N", help, click.IntRange(0), default=0, name="draw_seed")


def add_reader_options(help: str, flag: str = "--format", into: str = "format_") -> Decorator:
    """Return a decorator that adds ``--format``, ``--map`` and ``--agent-name``. The command gets
    all three as one value, ``into``; ``flag`` replaces ``--format``.
    """
    # Here, because reports have choices too, and read no traces.
    from annotator.traces.formats.recognise import FORMATS, MAP_PREFIX

    def decorate(command: Command) -> Command:
        @wraps(command)
        def call(
            *args: Any, reader: str, map_file: Path | None, agent_name: str | None, **values: Any
        ) -> Any:
            if map_file and reader != "auto":
                raise click.UsageError(f"--map is a format of its own; not with {flag}")
            format_ = (
                f"{MAP_PREFIX}{map_file.absolute()}".replace("#", "\0") if map_file else reader
            )
            pattern = f"#{agent_name}" if agent_name else ""
            return command(*args, **{into: format_ + pattern}, **values)

        return add_options(
            click.option(
                flag,
                "reader",
                type=PluginChoice("readers", ("auto", *FORMATS)),
                default="auto",
                metavar="FORMAT",
                show_default=True,
                help=help,
            ),
            add_option(
                "--map FILE",
                "Read records by the keys named in this YAML file (see traces --explain).",
                click.Path(exists=True, dir_okay=False, path_type=Path),
                name="map_file",
            ),
            add_option(
                "--agent-name REGEX",
                "The part of a sender's name that is the agent's: the first group, or the"
                " whole match.",
            ),
        )(call)

    return decorate
