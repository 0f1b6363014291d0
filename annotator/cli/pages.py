"""Where a page is served."""

from collections.abc import Callable
from importlib.util import find_spec

import click

from annotator.base.errors import AnnotatorError
from annotator.base.plugins import explain_extra
from annotator.cli.options import add_option, add_options
from annotator.cli.output import say

add_server_options = add_options(
    add_option("--port N", "0: any free port.", click.IntRange(0, 65535), default=0),
    add_option("--open", "Open the page in the browser.", name="open_"),
)


def require_web() -> None:
    """Raise :class:`AnnotatorError` if the server of the pages is not installed."""
    if not all(map(find_spec, ("starlette", "uvicorn"))):
        raise AnnotatorError(f"the local pages need the extra web: {explain_extra('web')}")


def announce_page(opens: bool) -> Callable[[str], None]:
    """Return a function that prints the address of a served page, and opens it if ``opens``."""

    def announce(address: str) -> None:
        say(address)
        click.echo("served on this machine only; Ctrl-C ends it", err=True)
        if opens:
            click.launch(address)

    return announce
