"""``annotate view``."""

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from annotator.base.remote import name_place
from annotator.base.text import escape_controls
from annotator.cli.options import PATH, add_option, add_page_options, add_table_options
from annotator.cli.output import say_notice
from annotator.cli.pages import add_server_options, announce_page, find_user, require_web
from annotator.cli.tables import open_request


@click.command("view", context_settings={"show_default": True})
@click.argument("runs", nargs=-1, required=True, type=PATH, metavar="RUNS...|CODEBOOK")
@add_table_options
@add_page_options
@add_option(
    "--review FILE",
    "Accept or reject the findings of a RUN, into this .jsonl file of labels, as --annotator"
    " [$USER]. Such labels have seen the judge's answer.",
    PATH,
)
@add_server_options
def command(
    runs: tuple[Path, ...],
    review: Path | None,
    port: int,
    no_browser: bool,
    groups: tuple[str, ...],
    no_calibration: bool,
    **options: Any,
) -> None:
    """Read RUNS in the browser: tables, traces, every finding in its place, search.

    Several runs are side by side on each trace. In a CODEBOOK, a folder by annotate induce, you
    merge, split, edit, drop and accept codes. The page is served on this machine only, at an
    address that nobody can guess, until Ctrl-C.
    """
    require_web()
    from annotator.induction.codebook import has_codebook
    from annotator.labels.store import LabelStore
    from annotator.web.codebook import view_codebook
    from annotator.web.view import view

    if any(map(has_codebook, runs)):
        _refuse_options()
        traces, by = options["traces"], find_user()
        say_notice(f"decisions by {by} go to {escape_controls(name_place(runs[0]))}")
        view_codebook(runs[0], traces, by, port, announce_page(no_browser))
        return
    annotators = options["annotators"]
    if review and not options["label_files"]:
        options["annotators"] = ()
    request = open_request(runs, groups, no_calibration, **options)
    if not review:
        view(request.select_pages(), port, announce_page(no_browser))
        return
    if len(runs) > 1:
        raise click.UsageError(
            f"--review takes one RUN, found {len(runs)}: review each into a FILE of its own"
        )
    [rubric, *others] = request.runs[0].schemes.values()
    if others:
        names = ", ".join(request.runs[0].schemes)
        raise click.UsageError(
            f"--review takes a RUN by one rubric, found {names}: run annotate again with one"
            " --rubric, into another --out"
        )
    if len(annotators) > 1:
        raise click.UsageError(
            f"--review is for one person, found --annotator {', '.join(annotators)}: give one"
        )
    annotator = annotators[0] if annotators else find_user()
    with LabelStore.open(review, annotator, rubric) as store:
        for line in store.notes:
            say_notice(line)
        say_notice(f"review by {annotator} goes to {escape_controls(name_place(review))}")
        view(request.select_pages(), port, announce_page(no_browser), store)


def _refuse_options() -> None:
    """Refuse a second path beside a codebook, and the options that are for runs only."""
    context = click.get_current_context()
    folder, *others = context.params["runs"]
    if others:
        raise click.UsageError("annotate view shows one codebook, and no run beside it")
    allowed = ("runs", "traces", "port", "no_browser")
    for option in context.command.params:
        source = context.get_parameter_source(option.name or "")
        if source == ParameterSource.COMMANDLINE and option.name not in allowed:
            name = "/".join(option.opts)
            raise click.UsageError(f"{name} is for runs, and {folder} is a codebook")
