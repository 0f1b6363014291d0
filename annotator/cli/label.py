"""``annotate label``."""

from typing import Any

import click

from annotator.cli.options import add_path_option, add_reader_options
from annotator.cli.pages import add_server_options, announce_page, require_web


@click.command("label", context_settings={"show_default": True})
@click.argument("sources", nargs=-1, required=True, metavar="TRACES...|SHEET")
@click.option("--rubric", required=True, metavar="NAME|FILE", help="The rubric to label by.")
@add_path_option(
    "--labels",
    "file",
    required=True,
    help="Where the labels go: a .jsonl file, made if it is missing.",
)
@click.option("--annotator", metavar="NAME", help="Who labels.  [default: gold, with --adjudicate]")
@click.option(
    "--rater",
    type=click.IntRange(1, 2),
    default=1,
    metavar="N",
    help="Of a sheet: the rows for the first or the second person.",
)
@click.option(
    "--adjudicate",
    "pair",
    nargs=2,
    metavar="A B",
    help="Decide where the labels of A and B differ; where they agree, that is written too.",
)
@add_path_option(
    "--from",
    "pair_files",
    multiple=True,
    help="The labels of A and B.  [default: FILE of --labels]",
)
@click.option(
    "--traces",
    multiple=True,
    metavar="TRACES",
    help="Where the traces of a sheet are.  [default: where annotate sample read them]",
)
@add_reader_options("The format of TRACES.", into="format")
@add_server_options
def command(annotator: str | None, port: int, open_: bool, **options: Any) -> None:
    """Label traces in the browser: TRACES, or those of a SHEET that annotate sample drew.

    The page hides what judges and other annotators said. Every decision is on the disk before the
    page says so; with the same command you go on where you left off. The page is served on this
    machine only, at an address that nobody can guess, until Ctrl-C.
    """
    require_web()
    from annotator.web.label import label
    from annotator.web.work import WorkRequest, prepare

    if options["pair_files"] and not options["pair"]:
        raise click.UsageError("--from goes with --adjudicate A B")
    name = annotator or ("gold" if options["pair"] else None)
    if name is None:
        raise click.UsageError("--annotator NAME is missing: who labels")
    with prepare(WorkRequest(annotator=name, **options)) as work:
        label(work, port=port, ready=announce_page(open_))
