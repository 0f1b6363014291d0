"""``annotate rubric``."""

import json
import re
from pathlib import Path

import click

from annotator.cli.output import say
from annotator.files import write_file
from annotator.rubrics import Rubric, list_built_in, load_rubric


@click.group("rubric")
def command() -> None:
    """List, show, check and start rubric files."""


@command.command("list")
def list_() -> None:
    """List the built-in rubrics."""
    for path in list_built_in():
        rubric = load_rubric(path.stem)
        say(f"{rubric.id:18} v{rubric.version}  {len(rubric.codes):2} codes  {rubric.title}")


@command.command()
@click.argument("rubric")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def show(rubric: str, as_json: bool) -> None:
    """Show RUBRIC (a name or a file): its rules and codes."""
    loaded = load_rubric(rubric)
    if as_json:
        say(json.dumps(loaded.model_dump(by_alias=True), ensure_ascii=False, indent=2))
        return
    say("\n".join(_lines(loaded)))


@command.command()
@click.argument("rubrics", nargs=-1, required=True, metavar="RUBRIC...")
def check(rubrics: tuple[str, ...]) -> None:
    """Check each RUBRIC (a name or a file); exit code 2 at the first that cannot be used."""
    for name in rubrics:
        rubric = load_rubric(name)
        say(
            f"{name}: ok: {rubric.id} v{rubric.version}, {len(rubric.codes)} codes,"
            f" sha256 {rubric.sha256[:12]}"
        )


@command.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def new(file: Path) -> None:
    """Write a rubric to start from to FILE, which must not exist."""
    id_ = re.sub(r"[^A-Za-z0-9_.-]+", "_", file.stem).strip("_.-")
    write_file(file, _TEMPLATE.format(id=id_), exclusive=True)
    load_rubric(str(file))
    say(f"{file}: written; edit it, and try it with: annotate rubric check {file}")


_TEMPLATE = """\
id: "{id}"
version: 1                      # raise it when the meaning changes
title: What this rubric finds
source: our own
applies_to: {{min_agents: 2}}     # add passed: false for failed runs only
choice: primary                 # one | primary | many
min_quotes: 2
quote_from: [messages, patches, outcome]   # of messages, patches, outcome, steps, tools
instructions: |
  When a code applies and when not, exclusions, how to choose between codes.
codes:
  - id: first_code
    name: First code
    definition: What has to be the case.
    evidence: What the quotes must show.
    not: Near misses that are not this code.
    must_quote: [messages]
    example:
      quotes: ["Shall I take the parser?", "The printer is done."]
      why: The question is never answered.
precedence: [first_code]        # strongest first, every code
"""


def _lines(rubric: Rubric) -> list[str]:
    applies = rubric.applies_to
    which = {None: "all", True: "passed", False: "failed"}[applies.passed]
    lines = [
        f"{rubric.id} v{rubric.version}: {rubric.title}",
        f"source: {rubric.source}",
        f"for: {which} runs of at least {applies.min_agents} agent(s)",
        f"choice: {rubric.choice}; quotes per finding: {rubric.min_quotes},"
        f" from {', '.join(rubric.quote_from)}",
        "",
        rubric.instructions,
    ]
    for code in rubric.codes:
        lines += ["", f"{code.id}: {code.name}" + (f" ({code.group})" if code.group else "")]
        lines += [f"  {code.definition}", f"  evidence: {code.evidence}"]
        lines += [f"  not: {code.not_}"] if code.not_ else []
        if code.example:
            quotes = " / ".join(code.example.quotes)
            lines.append(f"  example: {quotes} ({code.example.why})")
    if rubric.precedence:
        lines += ["", f"precedence: {', '.join(rubric.precedence)}"]
    return lines
