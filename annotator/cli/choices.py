"""Options whose value is a name of ours or a plug-in's."""

from collections.abc import Callable, Sequence
from typing import Any

import click

from annotator.plugins import Kind, is_plugin, plugin_names


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
        installed = ", ".join(map(repr, plugin_names(self.kind)))
        return f"{message[:-1]}, {installed}." if installed else message


plot_option = click.option(
    "--plot",
    type=click.Choice(["frequency", "co-occurrence", "confusion", "reliability"]),
    help="What to draw; confusion and reliability need --calibration.  [default: frequency]",
)


def reader_option(help: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return ``--format``, which says as what TRACES are read."""
    from annotator.traces import FORMATS  # reports have choices, too, and read no traces

    names = PluginChoice("readers", ("auto", *FORMATS))
    return click.option(
        "--format", "format_", type=names, default="auto", show_default=True, help=help
    )
