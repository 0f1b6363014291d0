"""``annotate figure``."""

from pathlib import Path
from typing import Any

import click

from annotator import api
from annotator.base.remote import name_place
from annotator.base.text import sanitize_line
from annotator.cli.options import PATH, add_option, add_table_options
from annotator.cli.output import say_notice, say_partial
from annotator.cli.tables import open_request


@click.command("figure", context_settings={"show_default": True})
@click.argument("runs", nargs=-1, required=True, type=PATH)
@add_option(
    "--plot",
    "The kind of figure; confusion and reliability need --calibration.",
    click.Choice(["frequency", "co-occurrence", "confusion", "reliability"]),
    default="frequency",
)
@add_option("--out FILE", "The figure: a .svg, .png or .pdf.", PATH, required=True)
@add_table_options
def command(
    runs: tuple[Path, ...],
    plot: str,
    out: Path,
    groups: tuple[str, ...],
    no_calibration: bool,
    **options: Any,
) -> None:
    """Draw the share of each code in RUNS with its interval, or another figure (--plot).

    The shares are corrected by RUN/calibration.json, as annotate report does.
    """
    if plot == "confusion" and options["by"]:
        raise click.UsageError("--plot confusion is of whole runs: leave --by out")
    if plot == "co-occurrence" and any(
        options[name] for name in ("by", "calibration_files", "cluster")
    ):
        raise click.UsageError("--plot co-occurrence takes no --by, --calibration or --cluster")
    api.check_figure(out)
    request = open_request(
        runs, groups, no_calibration, corrected=plot != "co-occurrence", **options
    )
    say_partial(request.runs)
    api.draw(*request.runs, out=out, plot=plot, **request.correction, on_notice=say_notice)
    say_notice(f"figure written to {sanitize_line(name_place(out))}")
