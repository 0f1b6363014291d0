"""``annotate cache``."""

from datetime import UTC, datetime
from glob import escape
from pathlib import Path

import click

from annotator.base.text import sanitize_line
from annotator.cli.output import say


@click.group("cache")
def command() -> None:
    """Show or drop the answers of models that are kept on this machine.

    An answer is used again where everything that decides it is the same: endpoint, model, settings,
    prompt, schema and the number of the sample. ANNOTATOR_CACHE names another file.
    """


def _file() -> Path:
    from annotator.judges.llm.cache import default_file

    return default_file()


@command.command("info")
def info() -> None:
    """Show the file, its size and its answers."""
    from annotator.judges.llm.cache import list_models

    file = _file()
    held = list_models(file)
    lines = [
        f"file     {sanitize_line(str(file), 4096)}",
        f"answers  {sum(model.answers for model in held)}",
    ]
    if file.exists():
        size = sum(part.stat().st_size for part in file.parent.glob(f"{escape(file.name)}*"))
        lines.append(f"size     {size / 1e6:.1f} MB")
    for model in held:
        days = (_day(model.oldest), _day(model.newest))
        lines.append(
            f"  {sanitize_line(model.model, 60)}: {model.answers},"
            f" {' to '.join(dict.fromkeys(days))}"
        )
    say("\n".join(lines))


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()


@command.command("clear")
@click.option("--model", metavar="NAME", help="Only the answers of this model.")
def clear(model: str | None) -> None:
    """Drop all answers, or those of one model."""
    from annotator.judges.llm.cache import clear as drop

    say(f"{drop(_file(), model)} answers dropped")
