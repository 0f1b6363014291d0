"""``annotate sample``."""

from pathlib import Path

import click

from annotator import api
from annotator.base.remote import name_place
from annotator.base.text import escape_controls
from annotator.calibration.sample.design import Strata
from annotator.calibration.sample.draw import (
    ASSUMED_PRECISION,
    Assumed,
    Draw,
    draw_sheet,
    plan_sheet,
    read_assumed,
)
from annotator.calibration.sample.sheets import Split
from annotator.cli.asked import run_or_traces
from annotator.cli.choices import reader_option
from annotator.cli.output import Number, attributes, say
from annotator.reports.tables import plan as plans


@click.command("sample", context_settings={"show_default": True})
@click.argument("sources", nargs=-1, required=True, metavar="RUN|TRACES...")
@click.option("--rubric", metavar="NAME|FILE", help="What is labelled.  [default: the run's]")
@click.option(
    "-n", "--n", type=click.IntRange(1), default=200, metavar="N", help="How many traces."
)
@click.option(
    "--strata",
    type=click.Choice(["codes", "votes"]),
    default="codes",
    help="What a RUN's traces are stratified by: the judge's codes, or how its votes agreed"
    " (unanimous, divided, undecided).",
)
@click.option(
    "--undecided/--no-undecided",
    default=True,
    help="Whether to draw undecided traces too. Without labels of them, shares leave them out.",
)
@click.option(
    "--uniform",
    is_flag=True,
    help="All judged traces equally likely, not stratified.",
)
@click.option(
    "--floor",
    type=click.IntRange(1),
    metavar="N",
    help="At least so many of each stratum.  [default: of codes 5, and 10 from 300 traces on; of"
    " votes as many of each]",
)
@click.option(
    "--split",
    type=click.Choice(["test", "dev", "all"]),
    default="test",
    help="Draw from these tasks: dev for work on prompts and rubrics, test for the final look.",
)
@click.option(
    "--dev-share",
    type=Number(0, 1, min_open=True, max_open=True),
    default=0.33,
    metavar="SHARE",
    help="Of the tasks, for dev.",
)
@click.option("--salt", default="annotator", metavar="TEXT", help="Of the hash that splits tasks.")
@click.option(
    "--double", type=click.IntRange(0), default=30, metavar="N", help="So many for a second person."
)
@click.option(
    "--top-up",
    "more",
    multiple=True,
    metavar="CODE=N",
    help="Draw N more of the traces with this code, or in this stratum; needs --from.",
)
@click.option(
    "--from",
    "before",
    type=click.Path(path_type=Path),
    metavar="DESIGN",
    help="The design of the sheet that --top-up adds to.",
)
@click.option("--plan", is_flag=True, help="Print the expected half-widths per code; draw nothing.")
@click.option(
    "--precision",
    type=Number(0, 1, min_open=True),
    metavar="SHARE",
    help="With --plan: of what the judge flags, so much is right.  [default: 0.85]",
)
@click.option(
    "--recall",
    type=Number(0, 1, min_open=True),
    metavar="SHARE",
    help="With --plan: so much of what there is it flags.  [default: as many missed as wrong]",
)
@click.option(
    "--calibration",
    "calibration_files",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="With --plan: both of these by code, as another sample found them (dev labels, say).",
)
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FILE", help="The sheet: .csv or .jsonl."
)
@click.option("--cluster", default="project,task", metavar="ATTRIBUTES", help="What makes a task.")
@reader_option("Of TRACES.")
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="The same seed draws the same traces.",
)
def command(
    sources: tuple[str, ...],
    rubric: str | None,
    n: int,
    strata: Strata,
    undecided: bool,
    uniform: bool,
    floor: int | None,
    split: str,
    dev_share: float,
    salt: str,
    double: int,
    more: tuple[str, ...],
    before: Path | None,
    plan: bool,
    precision: float | None,
    recall: float | None,
    calibration_files: tuple[Path, ...],
    out: Path | None,
    cluster: str,
    format_: str,
    seed: int,
) -> None:
    """Draw traces to be labelled by people, from a finished RUN or from TRACES.

    Writes a sheet without the judge's codes, in random order, and beside it the design
    (FILE.design.json), which has them: keep it from those who label.
    """
    if bool(more) != bool(before):
        raise click.UsageError("--top-up and --from go together")
    if uniform and strata == "votes":
        raise click.UsageError("--uniform draws without strata: leave --strata out")
    what = Draw(
        rubric=rubric,
        n=n,
        strata="none" if uniform else strata,
        undecided=undecided,
        floor=floor,
        split=Split(split, salt, dev_share),
        double=double,
        cluster=attributes(cluster),
        format=format_,
        seed=seed,
        before=before,
        more=tuple(_more(quota) for quota in more),
    )
    if not plan and (precision or recall or calibration_files):
        raise click.UsageError("--precision, --recall and --calibration are for --plan")
    if plan:
        assumed = read_assumed(calibration_files, rubric) if calibration_files else {}
        assumed[""] = Assumed(precision or ASSUMED_PRECISION, recall)
        say(str(plans.tabulate(plan_sheet(run_or_traces(sources), what, assumed))))
        return
    if out is None:
        raise click.UsageError("--out FILE is missing: the sheet to write, .csv or .jsonl")
    source = run_or_traces(sources)
    sheet = draw_sheet(source, what, out)
    tasks = "" if sheet.tasks is None else f" of {sheet.tasks} tasks"
    say(
        f"{sheet.traces} traces{tasks} from {sheet.design.size} of the {sheet.design.split} split;"
        f" {sheet.rows} rows in {escape_controls(name_place(sheet.file))}"
        f" ({sheet.rows - sheet.traces} for a second person)"
    )
    say(
        f"the design, with the judge's codes, is in"
        f" {escape_controls(name_place(sheet.design_file))}:"
        " keep it from who labels"
    )
    if not sheet.recorded:
        click.echo(
            "the run's folder cannot be written, so the run does not know this sample: give"
            " annotate calibrate the design with --design",
            err=True,
        )
    if sheet.left_out:
        judged = isinstance(source, api.Run)
        why = "without a judgement" if judged else "that the rubric is not for or nobody can read"
        click.echo(f"{sheet.left_out} traces {why} are not drawn from", err=True)


def _more(text: str) -> tuple[str, int]:
    code, _, number = text.rpartition("=")
    if not code or not number.isascii() or not number.isdigit() or int(number) < 1:
        raise click.UsageError(f"--top-up {text!r}: expected CODE=N, N at least 1")
    return code, int(number)
