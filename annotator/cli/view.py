"""``annotate view``."""

from pathlib import Path

import click

from annotator import api
from annotator.cli.asked import Asked, about_pages, about_tables
from annotator.cli.pages import local_page, need_web, where_served


@click.command("view", context_settings={"show_default": True})
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@about_tables
@about_pages
@where_served
def command(
    runs: tuple[Path, ...],
    calibration_files: tuple[Path, ...],
    cluster: str | None,
    transfer: bool,
    joint: bool,
    by: str | None,
    label_files: tuple[Path, ...],
    annotators: tuple[str, ...],
    traces: tuple[str, ...],
    port: int,
    open_: bool,
) -> None:
    """Read RUNS in the browser: tables, traces, every finding in its place, search.

    Several runs are shown side by side on each trace. The page is served on this machine only, at
    an address that nobody can guess, until Ctrl-C.
    """
    need_web()
    from annotator.web.view import view

    opened = api.open_runs(runs)
    people = label_files, annotators
    asked = Asked(
        opened, calibration_files, transfer, by, *people, traces, cluster=cluster, joint=joint
    )
    view(asked.shown(), port, local_page(open_))
