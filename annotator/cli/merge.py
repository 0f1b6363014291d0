"""``annotate merge``."""

from pathlib import Path

import click

from annotator import api
from annotator.cli.options import add_option, verbose_option
from annotator.cli.output import put_tables, say_next


@click.command("merge")
@click.argument("run", type=click.Path(path_type=Path, file_okay=False))
@add_option("--json", "Print the tables as JSON.", name="as_json")
@verbose_option
def command(run: Path, as_json: bool, verbose: bool) -> None:
    """Merge the shards of RUN into one run, in RUN, and print its tables.

    All shards must be finished, have the same settings, and have judged different traces. They stay
    in RUN/shards, where you can delete them.
    """
    put_tables(api.count(api.merge(run)), "json" if as_json else "table", verbose=verbose)
    if not as_json:
        say_next("view", run, purpose="every finding in its trace")
