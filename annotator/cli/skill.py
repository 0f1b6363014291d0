"""``annotate skill``."""

from pathlib import Path

import click

from annotator.base.files import explain_errors, write_file
from annotator.cli.options import PATH, add_option
from annotator.cli.output import say, say_written


@click.command("skill")
@add_option("--out DIR", "Write DIR/annotator/SKILL.md, for example below .claude/skills.", PATH)
def command(out: Path | None) -> None:
    """Print instructions for a coding agent that uses annotate: a SKILL.md file.

    They say which commands to give in which order, when to ask the person, how to label blind, and
    how the agent's own model can be the judge without a key.
    """
    text = Path(__file__).with_name("skill.md").read_text(encoding="utf-8")
    if not out:
        say(text.rstrip("\n"))
        return
    file = out / "annotator" / "SKILL.md"
    with explain_errors(file):
        file.parent.mkdir(parents=True, exist_ok=True)
    write_file(file, text)
    say_written(file)
