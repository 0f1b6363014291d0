"""``annotate view``."""

from pathlib import Path

import click

from annotator.cli.pages import local_page, need_web


@click.command("view", context_settings={"show_default": True})
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--labels",
    "label_files",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Labels of people: shown beside the judge's, to be filtered by agreement.",
)
@click.option(
    "--annotator",
    "annotators",
    multiple=True,
    metavar="NAME",
    help="Whose labels.  [default: gold, or the only one]",
)
@click.option(
    "--calibration",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="As in annotate report.",
)
@click.option("--transfer", is_flag=True, help="As in annotate report.")
@click.option("--by", metavar="ATTRIBUTE", help="One table for each value: model, setting, ...")
@click.option(
    "--traces",
    multiple=True,
    metavar="TRACES",
    help="Where the traces are now.  [default: where the run read them]",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="0: any free one."
)
@click.option("--open", "open_", is_flag=True, help="Open the page in the browser.")
def command(
    runs: tuple[Path, ...],
    label_files: tuple[Path, ...],
    annotators: tuple[str, ...],
    files: tuple[Path, ...],
    transfer: bool,
    by: str | None,
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

    calibrations = None
    if files:
        from annotator.calibration.correct import read_calibrations

        calibrations = read_calibrations(files)
    labels = None
    if label_files:
        from annotator.web.people import read_person_labels

        labels = read_person_labels(label_files, runs, annotators)
    view(
        runs,
        calibrations=calibrations,
        transfer=transfer,
        by=by,
        labels=labels,
        traces=traces,
        port=port,
        ready=local_page(open_),
    )
