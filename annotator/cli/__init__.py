"""The command line: one file per command, imported when it is called."""

import os
import re
import sys
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import Any, NoReturn

import click
from click_default_group import DefaultGroup

from annotator import __version__
from annotator.base import remote
from annotator.base.errors import AnnotatorError, Interrupted, LabelsError
from annotator.base.text import sanitize_line, suggest, wrap_line
from annotator.cli.defaults import find_defaults

# The groups of `annotate --help`: command -> its line. The text is here, as modules are heavy.
_GROUPS = {
    "Judge": {
        "run": "Judge traces and print the frequency table (the default).",
        "demo": "Judge runs that come with annotate: no key, no network.",
        "prompt": "Print the prompt for a trace, with the tokens of its parts.",
    },
    "Read": {
        "report": "Print the frequency tables of finished runs.",
        "triage": "Print which failure to fix first, with quotes.",
        "view": "Read runs in the browser: tables, traces, every finding.",
        "compare": "Compare runs, or groups of traces: differences, tests.",
        "gate": "Say whether a new version of a system fails more.",
        "figure": "Draw figures of finished runs for a paper.",
        "export": "Write or send results for other tools: scores, tasks.",
    },
    "Check with people": {
        "sample": "Draw traces for people to label.",
        "label": "Label traces in the browser, or adjudicate two people's.",
        "calibrate": "Compare a run's judge, or an annotator, with labels.",
        "labels": "Convert labels that people made with other tools.",
    },
    "Find codes": {
        "induce": "Find out how runs fail, without a rubric, and write one.",
    },
    "Improve the judge": {
        "check-judge": "Ask a judge again in other ways, and count flips.",
        "anchor": "Freeze answers, and find out later whether the judge drifts.",
        "ablate": "Choose a rubric, a model or settings by people's labels.",
        "tune": "Improve a rubric on labels, and say whether that helped.",
    },
    "Count without a judge": {
        "traces": "Count traces: formats, outcomes, messages, problems.",
        "stats": "Count how agents talk, merge and succeed, solo and together.",
        "facts": "Print facts that a program establishes, with the passages.",
        "conflicts": "Find where two patches represent one class differently.",
    },
    "Work with a coding agent": {
        "skill": "Print instructions for a coding agent that uses annotate.",
        "mcp": "Serve runs and findings to a coding agent (MCP).",
    },
    "Files": {
        "rubric": "List, show, check, compare, import and start rubric files.",
        "merge": "Merge the shards of a run.",
        "cache": "Show or drop the answers of models kept on this machine.",
    },
}
_COMMANDS = [name for group in _GROUPS.values() for name in group]


class _LazyGroup(DefaultGroup):  # type: ignore[misc]
    """A group whose commands are imported when they are called, and ``run`` if none is named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return _COMMANDS

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:  # as in DefaultGroup: the first argument of `run`
            _refuse_misspelled(cmd_name)
            ctx.arg0 = cmd_name  # type: ignore[attr-defined]
            cmd_name = self.default_cmd_name
        module: Any = import_module(f"annotator.cli.{cmd_name.replace('-', '_')}")
        loaded: click.Command = module.command
        values, notices = find_defaults(loaded, cmd_name)
        ctx.default_map = {cmd_name: values}
        for line in notices:
            click.echo(sanitize_line(line), err=True)
        return loaded

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] == "traces" and (option := _find_option_of_run(args[1:])):
            folder = "traces" if Path("traces").is_dir() else "FOLDER"
            raise click.UsageError(
                f"{option} is an option of annotate run: annotate run {folder} {option} ..."
            )
        resolved: tuple[str | None, click.Command | None, list[str]]
        resolved = super().resolve_command(ctx, args)
        return resolved

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, _COMMANDS))
        for title, group in _GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), text) for name, text in group.items()])


def _find_option_of_run(args: list[str]) -> str | None:
    """Return the first option in ``args`` that ``run`` has and ``traces`` lacks."""
    flags = [arg.partition("=")[0] for arg in takewhile("--".__ne__, args) if arg[:1] == "-"]
    of_run = _list_options("run") - _list_options("traces")
    return next((flag for flag in flags if flag in of_run), None)


def _list_options(command: str) -> set[str]:
    module: Any = import_module(f"annotator.cli.{command}")
    options = [param for param in module.command.params if isinstance(param, click.Option)]
    return {name for option in options for name in (*option.opts, *option.secondary_opts)}


def _refuse_misspelled(name: str) -> None:
    """Raise :class:`click.UsageError` for a misspelled command."""
    if name.startswith("-") or re.search(r"[^a-z-]", name) or os.path.lexists(name):
        return
    if near := suggest(name, _COMMANDS):
        raise click.UsageError(f"no command {name!r}{near}")


@click.group(
    cls=_LazyGroup,
    default="run",
    default_if_no_args=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="annotate")
def cli() -> None:
    """Find out why multi-agent runs fail.

    \b
    annotate traces/ --rubric symptoms      judges every run below traces/
    annotate run --help                     lists all options
    """


def main() -> NoReturn:
    """Run the command line; every error is one line and an exit code, never a traceback."""
    stdout = sys.stdout
    remote.on_fetch = lambda text: click.echo(text, err=True)
    try:
        cli.main(prog_name="annotate", standalone_mode=False)
        sys.exit(0)
    except click.ClickException as error:
        error.show()
        _suggest_run(error)
        sys.exit(error.exit_code)
    except LabelsError as error:
        click.echo("\n  ".join(("Error: " + error.lines[0], *error.lines[1:])), err=True)
        sys.exit(error.exit_code)
    except AnnotatorError as error:
        label = "Interrupted" if isinstance(error, Interrupted) else "Error"
        click.echo(wrap_line(f"{label}: {sanitize_line(str(error), 2000)}"), err=True)
        sys.exit(error.exit_code)
    except OSError as error:
        gone = "the current folder, which is gone" if isinstance(error, FileNotFoundError) else ""
        where = f"{path}: " if (path := error.filename or gone) else ""
        click.echo(f"Error: {sanitize_line(f'{where}{error.strerror or error}', 2000)}", err=True)
        sys.exit(2)
    except SystemExit:
        if sys.stdout is not stdout:  # click replaces it if nobody reads a help page
            sys.exit(0)
        raise
    except (KeyboardInterrupt, click.Abort):
        click.echo("Interrupted.", err=True)
        sys.exit(130)


def _suggest_run(error: click.ClickException) -> None:
    """Suggest ``annotate run`` if a folder has the name of the command."""
    command = error.ctx.info_name if isinstance(error, click.UsageError) and error.ctx else None
    if command in _COMMANDS and command != "run" and Path(command).is_dir():
        click.echo(f"To judge the folder {command!r}: annotate run {command} ...", err=True)
