"""Where a page is served."""

import getpass
import os
import sys
import webbrowser
from collections.abc import Callable
from importlib.util import find_spec

import click

from annotator.base.errors import AnnotatorError
from annotator.base.plugins import explain_extra
from annotator.cli.options import add_option, add_options
from annotator.cli.output import say

add_server_options = add_options(
    add_option("--port N", "0: any free port.", click.IntRange(0, 65535), default=0),
    add_option("--no-browser", "Print the address, and do not open the browser."),
)


def require_web() -> None:
    """Raise :class:`AnnotatorError` if the server of the pages is not installed."""
    if not all(map(find_spec, ("starlette", "uvicorn"))):
        raise AnnotatorError(f"the local pages need the extra web: {explain_extra('web')}")


def announce_page(no_browser: bool) -> Callable[[str], None]:
    """Return a function that prints the address of a page, and opens it if there is a browser."""

    def announce(address: str) -> None:
        say(address)
        click.echo("served on this machine only; Ctrl-C ends it", err=True)
        if not no_browser and _has_browser():
            webbrowser.open(address)

    return announce


def _has_browser() -> bool:
    """Whether a person sits at this terminal and its screen shows windows."""
    window = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    remote = os.environ.get("SSH_CONNECTION") or sys.platform not in ("darwin", "win32")
    return sys.stdout.isatty() and bool(window or not remote)


def find_user() -> str:
    """Return the name of the user of this machine."""
    try:
        return getpass.getuser()
    except (KeyError, OSError) as error:  # a user without a name, as in some containers
        raise click.UsageError("this machine does not name its user: set USER") from error
