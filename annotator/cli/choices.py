"""Options whose value is a name of ours or a plug-in's."""

from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import click

from annotator.base.plugins import Kind, is_plugin, list_plugins


class PluginChoice(click.Choice[str]):
    """One of ``names``, or a plug-in of this kind: its name, or ``module:name``.

    Whether the plug-in can be used is found out by the command, which is then in a position to say
    what is wrong with it.
    """

    def __init__(self, kind: Kind, names: Sequence[str]) -> None:
        super().__init__(names)
        self.kind: Kind = kind

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Return the names, and that others may be named."""
        return f"[{'|'.join(self.choices)}|PLUGIN]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name."""
        if value not in self.choices and is_plugin(self.kind, value):
            return str(value)
        return super().convert(value, param, ctx)

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """Return what may be named."""
        message = super().get_invalid_choice_message(value, ctx)
        installed = ", ".join(map(repr, list_plugins(self.kind)))
        return f"{message[:-1]}, {installed}." if installed else message


plot_option = click.option(
    "--plot",
    type=click.Choice(["frequency", "co-occurrence", "confusion", "reliability"]),
    help="What to draw; confusion and reliability need --calibration.  [default: frequency]",
)


def reader_option(
    help: str, flag: str = "--format", into: str = "format_"
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the options that say as what TRACES are read: the command gets them as one value,
    ``into``. ``flag``: another one where ``--format`` says something else.
    """
    from annotator.traces.formats import (  # reports have choices, too, and read no traces
        FORMATS,
        MAP_PREFIX,
    )

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def call(
            *args: Any, reader: str, map_file: Path | None, agent_name: str | None, **values: Any
        ) -> Any:
            if map_file and reader != "auto":
                raise click.UsageError(f"--map is a format of its own; not with {flag}")
            chosen = f"{MAP_PREFIX}{map_file.absolute()}".replace("#", "\0") if map_file else reader
            pattern = f"#{agent_name}" if agent_name else ""
            return command(*args, **{into: chosen + pattern}, **values)

        names = PluginChoice("readers", ("auto", *FORMATS))
        for option in (
            click.option(
                "--agent-name",
                metavar="REGEX",
                help="What of a sender's name is the agent's: the first group, or all it matches.",
            ),
            click.option(
                "--map",
                "map_file",
                type=click.Path(exists=True, dir_okay=False, path_type=Path),
                metavar="FILE",
                help="Read records by the keys named in this YAML file (see traces --explain).",
            ),
            click.option(
                flag,
                "reader",
                type=names,
                default="auto",
                metavar="FORMAT",
                show_default=True,
                help=help,
            ),
        ):
            call = option(call)
        return call

    return decorate
