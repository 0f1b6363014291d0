"""What the commands that serve a page say."""

from collections.abc import Callable

import click

from annotator.cli.output import say


def local_page(open_: bool) -> Callable[[str], None]:
    """Return what prints the address of a page once it is served, and opens it if wanted."""

    def ready(address: str) -> None:
        say(address)
        click.echo("served on this machine only; Ctrl-C ends it", err=True)
        if open_:
            click.launch(address)

    return ready
