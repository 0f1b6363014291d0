"""The command line: one file per command, imported when it is called."""

import sys
from importlib import import_module
from typing import Any, NoReturn

import click
from click_default_group import DefaultGroup

from annotator import __version__
from annotator.errors import AnnotatorError, Interrupted

# Command -> its line in `annotate --help`; the modules behind them are heavy.
_COMMANDS = {
    "run": "Judge traces and print the frequency table (the default command).",
    "report": "Print the frequency tables of finished runs.",
    "traces": "Show what would be read: formats, counts, outcomes, problems.",
    "rubric": "List, show and check rubric files.",
}


class _LazyGroup(DefaultGroup):  # type: ignore[misc]
    """A group whose commands are imported when they are called, and ``run`` if none is named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:  # as in DefaultGroup: it is the first argument of the default
            ctx.arg0 = cmd_name  # type: ignore[attr-defined]
            cmd_name = self.default_cmd_name
        module: Any = import_module(f"annotator.cli.{cmd_name}")
        loaded: click.Command = module.command
        return loaded

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=_LazyGroup, default="run", default_if_no_args=False)
@click.version_option(__version__, prog_name="annotate")
def cli() -> None:
    """Find out why multi-agent runs fail.

    \b
    annotate traces/ --rubric symptoms      judges every run below traces/
    annotate run --help                     all options of it
    """


def main() -> NoReturn:
    """Run the command line; every error is one line and an exit code, never a traceback."""
    try:
        cli.main(prog_name="annotate", standalone_mode=False)
        sys.exit(0)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except AnnotatorError as error:
        label = "Interrupted" if isinstance(error, Interrupted) else "Error"
        click.echo(f"{label}: {error}", err=True)
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        click.echo("Interrupted.", err=True)
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has gone; nothing more can be said
        sys.exit(0)
