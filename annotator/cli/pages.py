"""What the commands that serve a page say."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import click

from annotator.base.errors import AnnotatorError
from annotator.base.plugins import explain_extra
from annotator.cli.output import say


def where_served(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say where a page is served."""
    port = click.IntRange(0, 65535)
    command = click.option("--open", "open_", is_flag=True, help="Open it in the browser.")(command)
    return click.option("--port", type=port, default=0, metavar="N", help="0: any free one.")(
        command
    )


def need_web() -> None:
    """Raise :class:`AnnotatorError` if what serves pages is not installed."""
    if not all(map(find_spec, ("starlette", "uvicorn"))):
        raise AnnotatorError(f"the local pages need the extra web: {explain_extra('web')}")


def local_page(open_: bool) -> Callable[[str], None]:
    """Return what prints the address of a page once it is served, and opens it if wanted."""

    def ready(address: str) -> None:
        say(address)
        click.echo("served on this machine only; Ctrl-C ends it", err=True)
        if open_:
            click.launch(address)

    return ready
