"""``annotate label``."""

from pathlib import Path

import click

from annotator.cli.choices import reader_option
from annotator.cli.pages import local_page, need_web, where_served


@click.command("label", context_settings={"show_default": True})
@click.argument("sources", nargs=-1, required=True, metavar="TRACES...|SHEET")
@click.option("--rubric", required=True, metavar="NAME|FILE", help="What is labelled by.")
@click.option(
    "--labels",
    "file",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
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
@click.option(
    "--from",
    "given",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The labels of A and B.  [default: FILE of --labels]",
)
@click.option(
    "--traces",
    multiple=True,
    metavar="TRACES",
    help="Where the traces of a sheet are.  [default: where annotate sample read them]",
)
@reader_option("Of TRACES.")
@where_served
def command(
    sources: tuple[str, ...],
    rubric: str,
    file: Path,
    annotator: str | None,
    rater: int,
    pair: tuple[str, str] | None,
    given: tuple[Path, ...],
    traces: tuple[str, ...],
    format_: str,
    port: int,
    open_: bool,
) -> None:
    """Label traces in the browser: TRACES, or those of a SHEET that annotate sample drew.

    Nothing that a judge or another annotator said is shown. Every decision is on the disk before
    the page says so; with the same command you go on where you left off. The page is served on this
    machine only, at an address that nobody can guess, until Ctrl-C.
    """
    need_web()
    from annotator.web.label import label
    from annotator.web.work import WorkRequest, prepare

    if given and not pair:
        raise click.UsageError("--from goes with --adjudicate A B")
    name = annotator or ("gold" if pair else None)
    if name is None:
        raise click.UsageError("--annotator NAME is missing: who labels")
    request = WorkRequest(sources, rubric, file, name, rater, pair, given, traces, format_)
    with prepare(request) as work:
        label(work, port=port, ready=local_page(open_))
