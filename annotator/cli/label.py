"""``annotate label``."""

from typing import Any

import click

from annotator import api
from annotator.base.remote import name_place
from annotator.base.text import escape_controls
from annotator.cli.options import PATH, add_option, add_reader_options
from annotator.cli.output import say_next, say_notice
from annotator.cli.pages import add_server_options, announce_page, find_user, require_web
from annotator.cli.progress import show_reading


@click.command("label", context_settings={"show_default": True})
@click.argument("sources", nargs=-1, required=True, metavar="TRACES...|SHEET")
@add_option("--rubric NAME|FILE", "The rubric to label by.  [default: the sheet's]")
@add_option(
    "--labels FILE",
    "Where the labels go: a .jsonl file, made if it is missing.  [default: labels.jsonl,"
    " beside a sheet]",
    PATH,
    name="file",
)
@add_option("--annotator NAME", "Who labels.  [default: $USER; gold with --adjudicate]")
@add_option(
    "--rater N",
    "Of a sheet: the rows for the first or the second person.",
    click.IntRange(1, 2),
    default=1,
)
@add_option(
    "--adjudicate A B",
    "Decide where the labels of A and B differ; where they agree, that is written too.",
    name="pair",
)
@add_option(
    "--from FILE...", "The labels of A and B.  [default: FILE of --labels]", PATH, name="pair_files"
)
@add_option(
    "--traces TRACES...",
    "Where the traces of a sheet are.  [default: where annotate sample read them]",
)
@click.option(
    "--show-ids",
    is_flag=True,
    help="Show the traces' own ids on the page. They may tell a model or a condition.",
)
@add_reader_options("The format of TRACES.", into="format")
@add_server_options
def command(port: int, no_browser: bool, **options: Any) -> None:
    """Label traces in the browser: TRACES, or those of a SHEET that annotate sample drew.

    The page hides what judges and other annotators said, and the traces' own ids. Every decision is
    on the disk before the page says so; with the same command you go on where you left off. The
    page is served on this machine only, at an address that nobody can guess, until Ctrl-C.
    """
    require_web()
    from annotator.web.label import label
    from annotator.web.work import WorkRequest, find_rubric, locate_labels, prepare

    if options["pair_files"] and not options["pair"]:
        raise click.UsageError("--from goes with --adjudicate A B")
    options["annotator"] = options["annotator"] or ("gold" if options["pair"] else find_user())
    options["rubric"] = options["rubric"] or find_rubric(options["sources"])
    options["file"] = options["file"] or locate_labels(options["sources"])
    with prepare(WorkRequest(**options), show_reading) as work:
        where = escape_controls(name_place(options["file"]))
        say_notice(f"{work.rubric.id}: labels by {options['annotator']} go to {where}")
        folder, announce = options["file"].parent, announce_page(no_browser)

        def announce_with_next(address: str) -> None:
            announce(address)
            if api.is_run(folder):
                say_next("calibrate", folder, purpose="when the labels are done")

        label(work, port=port, ready=announce_with_next)
