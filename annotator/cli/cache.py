"""``annotate cache``."""

from datetime import UTC, datetime
from glob import escape

import click

from annotator.base.text import sanitize_line
from annotator.cli.options import add_option
from annotator.cli.output import say


@click.group("cache")
def command() -> None:
    """Show or drop the answers of models that are kept on this machine.

    An answer is used again if all that decides it is the same: endpoint, model, settings, prompt,
    schema and the number of the sample. ANNOTATOR_CACHE names another file.
    """


@command.command("info")
def info() -> None:
    """Show the file, its size and its answers."""
    from annotator.judges.llm.cache import get_cache_file, list_models

    file = get_cache_file()
    models = list_models(file)
    lines = [
        f"file     {sanitize_line(str(file), 4096)}",
        f"answers  {sum(model.answers for model in models)}",
    ]
    if file.exists():
        size = sum(path.stat().st_size for path in file.parent.glob(f"{escape(file.name)}*"))
        lines.append(f"size     {size / 1e6:.1f} MB")
    for model in models:
        times = (datetime.fromtimestamp(time, UTC) for time in (model.oldest, model.newest))
        days = " to ".join(dict.fromkeys(time.date().isoformat() for time in times))
        lines.append(f"  {sanitize_line(model.model, 60)}: {model.answers}, {days}")
    say("\n".join(lines))


@command.command("clear")
@add_option("--model NAME", "Only the answers of this model.")
def clear(model: str | None) -> None:
    """Drop all answers, or those of one model."""
    from annotator.judges.llm.cache import clear, get_cache_file

    say(f"{clear(get_cache_file(), model)} answers dropped")
