"""``annotate merge``."""

from pathlib import Path

import click

from annotator import api
from annotator.cli.tables import put


@click.command("merge")
@click.argument("run", type=click.Path(path_type=Path, file_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Print the tables as JSON.")
def command(run: Path, as_json: bool) -> None:
    """Put the shards of RUN together into one run, in RUN, and print its tables.

    All shards must be finished, of the same settings, and of different traces. They stay where they
    are, in RUN/shards, and are not needed any more.
    """
    put(api.count(api.merge(run)), "json" if as_json else "table")
