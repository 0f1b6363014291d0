"""``annotate compare``."""

from pathlib import Path

import click

from annotator import api
from annotator.cli.asked import Asked, with_calibration, with_cluster
from annotator.cli.choices import PluginChoice
from annotator.cli.output import say_notice
from annotator.cli.tables import put
from annotator.reports.table import FORMATS


@click.command("compare", context_settings={"show_default": True})
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--by",
    default="run",
    metavar="ATTRIBUTE",
    help="What tells the two sides apart: run, judge, or an attribute of traces.",
)
@click.option(
    "--values",
    "sides",
    nargs=2,
    metavar="A B",
    help="The two values of --by.  [default: the names of the two runs]",
)
@with_calibration
@with_cluster
@click.option(
    "--pool",
    is_flag=True,
    help="With --calibration, for independent groups: correct both by the labels of both. Assumes"
    " that traces with the same answer of the judge have the code equally often in both. Only its"
    " test of no difference is to be trusted.",
)
@click.option("--format", "format_", type=PluginChoice("formats", list(FORMATS)), default="table")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Where to write.  [default: stdout]",
)
def command(
    runs: tuple[Path, ...],
    by: str,
    sides: tuple[str, str] | None,
    calibration_files: tuple[Path, ...],
    cluster: str | None,
    pool: bool,
    format_: str,
    out: Path | None,
) -> None:
    """Print how two runs differ in the share of each code, or two groups of traces in RUNS: the
    difference with its interval, a test, and its p adjusted over the codes.

    annotate compare RUN_A RUN_B compares two runs, annotate compare RUN... --by model --values A B
    the traces of two models.
    """
    opened = api.open_runs(runs)
    if not sides and (by != "run" or len(runs) != 2):
        raise click.UsageError(f"--by {by}, {len(runs)} RUNS: say which two with --values A B")
    if pool and not calibration_files:
        raise click.UsageError("--pool needs --calibration: it is about people's labels")
    asked = Asked(opened, calibration_files, by=by, cluster=cluster)
    put_comparison(asked, sides, format_, out, pool=pool)


def put_comparison(
    asked: Asked,
    sides: tuple[str, str] | None,
    format_: str,
    place: Path | None,
    *,
    pool: bool = False,
) -> None:
    """Write or print how the traces with two values of ``asked.by`` differ, and say on stderr which
    rubrics cannot be compared.
    """
    tables = api.compare(
        *asked.runs,
        by=asked.by or "run",
        values=sides or None,
        calibration=asked.calibrations,
        cluster=asked.cluster_by,
        pool=pool,
        on_notice=say_notice,
    )
    put(tables, format_, place)
