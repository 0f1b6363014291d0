"""Write the generated part of three pages: ``python docs/build_reference.py``.

Commands come from their own ``--help``, rubrics from their files, formats from the docstrings of
their readers. What stands above the mark of a page is written by hand.
"""

from inspect import cleandoc
from pathlib import Path

import click
from click.testing import CliRunner

from annotator.cli import cli
from annotator.rubrics import Rubric, list_built_in, load_rubric
from annotator.traces.formats.recognise import FORMATS, load_readers

PAGES = Path(__file__).parent / "reference"
MARK = "<!-- From here on written by docs/build_reference.py. -->"


def list_commands() -> list[tuple[str, ...]]:
    """Return the words of every command, the group itself first."""
    context = click.Context(cli)
    commands: list[tuple[str, ...]] = [()]
    for name in cli.list_commands(context):
        commands.append((name,))
        command = cli.get_command(context, name)
        if isinstance(command, click.Group):
            commands += [(name, each) for each in command.list_commands(context)]
    return commands


def describe_commands() -> str:
    """Return the help of every command, as it is printed."""
    parts = []
    for words in list_commands():
        done = CliRunner().invoke(cli, [*words, "--help"], prog_name="annotate", terminal_width=80)
        title = " ".join(("annotate", *words))
        parts.append(f"## {title}\n\n```text\n{done.output.strip()}\n```")
    return "\n\n".join(parts)


def describe_rubrics() -> str:
    """Return what each built-in rubric is for, and its codes."""
    return "\n\n".join(_describe_rubric(load_rubric(path.stem)) for path in list_built_in())


def _describe_rubric(rubric: Rubric) -> str:
    outcome = {None: "all", True: "passed", False: "failed"}[rubric.applies_to.passed]
    agents = rubric.applies_to.min_agents
    team = f" of {agents} agents or more" if agents > 1 else ""
    choice = {
        "one": "at most one code",
        "primary": "one primary code",
        "many": "any number of codes",
    }
    lines = [
        f"### {rubric.id} {rubric.version}",
        f"{rubric.title}. For {outcome} runs{team}; {choice[rubric.choice]} a trace.",
        f"Source: {rubric.source}.",
    ]
    rows = ["| code | name | group | definition |", "| --- | --- | --- | --- |"]
    rows += [
        f"| `{code.id}` | {code.name} | {code.group or ''} | {_escape(code.definition)} |"
        for code in rubric.codes
    ]
    return "\n\n".join([*lines, "\n".join(rows)])


def describe_formats() -> str:
    """Return a table of the readers, in the order in which they are tried."""
    rows = ["| `--format` | reads | details |", "| --- | --- | --- |"]
    for name in FORMATS:
        readers = load_readers(name)
        [reader] = (*readers.folders, *readers.documents)
        reads, _, details = map(_escape, cleandoc(reader.__doc__).partition("\n\n"))
        rows.append(f"| `{name}` | {reads} | {details} |")
    return "\n".join(rows)


def _escape(text: str) -> str:
    """Return a text in one line, for a cell of a table."""
    return " ".join(text.replace("``", "`").replace("|", "\\|").split())


PARTS = {
    "commands": describe_commands,
    "rubrics": describe_rubrics,
    "formats": describe_formats,
}


def build(name: str) -> str:
    """Return a page: what is written by hand, and what its part is today."""
    by_hand = (PAGES / f"{name}.md").read_text().partition(MARK)[0]
    return f"{by_hand}{MARK}\n\n{PARTS[name]()}\n"


if __name__ == "__main__":
    for page in PARTS:
        (PAGES / f"{page}.md").write_text(build(page))
