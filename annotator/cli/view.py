"""``annotate view``."""

from pathlib import Path
from typing import Any

import click

from annotator.cli.options import PATH, add_page_options, add_table_options
from annotator.cli.pages import add_server_options, announce_page, require_web
from annotator.cli.tables import open_request


@click.command("view", context_settings={"show_default": True})
@click.argument("runs", nargs=-1, required=True, type=PATH)
@add_table_options
@add_page_options
@add_server_options
def command(
    runs: tuple[Path, ...],
    port: int,
    no_browser: bool,
    groups: tuple[str, ...],
    no_calibration: bool,
    **options: Any,
) -> None:
    """Read RUNS in the browser: tables, traces, every finding in its place, search.

    Several runs are side by side on each trace. The page is served on this machine only, at an
    address that nobody can guess, until Ctrl-C.
    """
    require_web()
    from annotator.web.view import view

    request = open_request(runs, groups, no_calibration, **options)
    view(request.select_pages(), port, announce_page(no_browser))
