"""``annotate sample``."""

import itertools
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from annotator import api
from annotator.base.errors import AnnotatorError
from annotator.base.remote import find_url, name_place
from annotator.base.text import escape_controls, format_count, wrap_line
from annotator.calibration.sample.design import read_design
from annotator.calibration.sample.draw import (
    ASSUMED_PRECISION,
    Assumed,
    Draw,
    draw_sheet,
    plan_sheet,
    read_assumed,
)
from annotator.calibration.sample.sheets import Split
from annotator.calibration.sample.until import find_designs, measure_progress
from annotator.cli.calibrate import find_labels
from annotator.cli.options import (
    PATH,
    GroupedCommand,
    Number,
    add_option,
    add_reader_options,
    group_option,
    parse_attributes,
    task_option,
)
from annotator.cli.output import say, say_next, say_notice
from annotator.cli.tables import count_conditions, open_sources
from annotator.reports.tables import plan as plans

_SECTIONS = {
    "Options": "n out rubric seed show_ids groups",
    "Which traces": "strata undecided uniform floor double cluster reader map_file agent_name",
    "Work on a prompt": "split dev_share salt",
    "In batches": "until codes annotators",
    "More labels later": "top_up before",
    "Plan": "plan precision recall calibration_files",
}


@click.command(
    "sample", cls=GroupedCommand, sections=_SECTIONS, context_settings={"show_default": True}
)
@click.argument("sources", nargs=-1, required=True, metavar="RUN|TRACES...")
@add_option("--rubric NAME|FILE", "The rubric to label by.  [default: the run's]")
@add_option("-n,--n N", "How many traces.  [default: 200; with --until 40]", click.IntRange(1))
@add_option(
    "--strata",
    "Stratify the traces of a RUN by the judge's codes, or by how its votes agreed"
    " (unanimous, divided, undecided).",
    click.Choice(["codes", "votes"]),
    default="codes",
)
@add_option(
    "--undecided/--no-undecided",
    "Whether to draw undecided traces too. Without labels of them, shares leave them out.",
    default=True,
)
@add_option("--uniform", "All judged traces equally likely, not stratified.")
@add_option(
    "--floor N",
    "The least number of traces from each stratum.  [default: codes 5, and 10 from 300 traces"
    " on; votes the same number from each]",
    click.IntRange(1),
)
@add_option(
    "--split",
    "Draw from these tasks. For those who tune a prompt: dev to work on it, test for the final"
    " look.",
    click.Choice(["all", "dev", "test"]),
    default="all",
)
@add_option(
    "--show-ids",
    "Write the traces' own ids into the sheet, for those who label in a spreadsheet. They may"
    " name the model or the condition.",
)
@add_option(
    "--dev-share SHARE",
    "The share of the tasks for dev.",
    Number(0, 1, min_open=True, max_open=True),
    default=0.33,
)
@add_option("--salt TEXT", "The salt of the hash that splits tasks.", default="annotator")
@add_option(
    "--double N",
    "How many traces a second person labels too.  [default: 30; with --until 0]",
    click.IntRange(0),
)
@add_option(
    "--until WIDTH",
    "Draw in batches of -n, until half the corrected share's 95 % interval is at most WIDTH (0.05:"
    " ±5 points). Each call looks at the labels, and draws the next batch or says that they are"
    " enough.",
    Number(0, 0.5, min_open=True, max_open=True),
)
@add_option("--codes CODES", "With --until: the codes to narrow, A,B.  [default: all]")
@add_option(
    "--annotator NAME...",
    "With --until: whose labels decide, as in annotate calibrate.",
    name="annotators",
)
@add_option(
    "--top-up CODE=N...", "Draw N more traces with this code, or in this stratum; needs --from."
)
@add_option("--from DESIGN", "The design of the sheet that --top-up adds to.", PATH, name="before")
@add_option(
    "--plan",
    "Print the expected half-widths per code, with --until the expected number of labels; draw"
    " nothing.",
)
@add_option(
    "--precision SHARE",
    "With --plan: the share of the judge's codes that is right.  [default: 0.85]",
    Number(0, 1, min_open=True),
)
@add_option(
    "--recall SHARE",
    "With --plan: the share of the failures that the judge finds."
    "  [default: as many missed as wrong]",
    Number(0, 1, min_open=True),
)
@add_option(
    "--calibration FILE...",
    "With --plan: take precision and recall by code from a calibration, for example of dev labels.",
    PATH,
    name="calibration_files",
)
@add_option(
    "--out FILE",
    "The sheet: .csv or .jsonl.  [default: RUN/sheet.csv; for TRACES sheet.csv here]",
    PATH,
)
@task_option
@group_option
@add_reader_options("The format of TRACES.", into="format")
@add_option("--seed N", "The same seed draws the same traces.", click.IntRange(0), default=0)
def command(
    sources: tuple[str, ...],
    n: int | None,
    double: int | None,
    uniform: bool,
    split: str,
    dev_share: float,
    salt: str,
    until: float | None,
    codes: str | None,
    annotators: tuple[str, ...],
    top_up: tuple[str, ...],
    before: Path | None,
    plan: bool,
    precision: float | None,
    recall: float | None,
    calibration_files: tuple[Path, ...],
    out: Path | None,
    cluster: str,
    show_ids: bool,
    groups: tuple[str, ...],
    **options: Any,
) -> None:
    """Draw traces for people to label, from a finished RUN or from TRACES.

    Writes a sheet without the judge's codes and without the traces' own ids, in random order, and
    beside it the design (FILE.design.json), which has both: keep it from those who label.
    The draw does not balance the conditions of a study; it prints how many traces of each it has.
    """
    if bool(top_up) != bool(before):
        raise click.UsageError("--top-up and --from go together")
    if uniform and options["strata"] == "votes":
        raise click.UsageError("--uniform draws without strata: leave --strata out")
    if uniform:
        options["strata"] = "none"
    if until and top_up:
        raise click.UsageError("--until chooses the next traces itself: leave --top-up out")
    if (codes or annotators) and (plan or not until):
        raise click.UsageError("--codes and --annotator are for --until without --plan")
    first_n, first_double = (40, 0) if until else (200, 30)
    draw = Draw(
        Split(split, salt, dev_share),
        n=first_n if n is None else n,
        double=first_double if double is None else double,
        cluster=parse_attributes(cluster),
        before=read_design(before) if before else None,
        more=tuple(_parse_quota(quota) for quota in top_up),
        blinded=not show_ids,
        until=until,
        **options,
    )
    if not plan and (precision or recall or calibration_files):
        raise click.UsageError("--precision, --recall and --calibration are for --plan")
    if plan and groups:
        raise click.UsageError(
            "--plan is for a whole run: leave --group out. A condition is corrected by its own"
            " labels alone, and needs as many as a run"
        )
    if plan:
        rubric = options["rubric"]
        assumed = read_assumed(calibration_files, rubric) if calibration_files else {}
        assumed[""] = Assumed(precision or ASSUMED_PRECISION, recall)
        say(str(plans.tabulate(plan_sheet(open_sources(sources), draw, assumed), until)))
        return
    source = open_sources(sources, groups)
    if until:
        if not isinstance(source, api.Run) or not source.folder:
            raise AnnotatorError("--until needs a RUN on this machine: labels and sheets lie in it")
        names = [name.strip() for name in (codes or "").split(",") if name.strip()]
        batch = _choose_batch(source, source.folder, draw, names, annotators)
        if batch is None:
            return
        draw = batch
    sheet = draw_sheet(source, draw, out or _place_sheet(source, sources, draw))
    file, design = (name_place(path) for path in (sheet.file, sheet.design_file))
    size = sheet.design.size
    split = "" if sheet.design.split == "all" else f" of the {sheet.design.split} split"
    tasks = "" if sheet.tasks is None else f" ({format_count(sheet.tasks, 'task')})"
    second = sheet.rows - sheet.traces
    doubles = ""
    if second:
        doubles = (
            f", in {sheet.rows} rows: those with rater 1 are yours, the {second} with rater 2 are"
            " for a second person (--rater 2; without one: --double 0)"
        )
    is_judged = isinstance(source, api.Run)
    hidden = ["the judge's codes"] * is_judged + ["the traces' ids"] * draw.blinded
    keep = (
        f"The sheet hides {' and '.join(hidden)}. {design} has them: keep it from those who label."
    )
    texts = (
        f"{sheet.traces} of {format_count(size, 'trace')}{split}{tasks} drawn into"
        f" {file}{doubles}.",
        *(count_conditions(source, sheet.design.traces) if isinstance(source, api.Run) else ()),
        *([keep] if hidden else ()),
    )
    say("\n".join(wrap_line(escape_controls(text), "") for text in texts))
    if not sheet.recorded:
        say_notice(
            "the run's folder cannot be written, so the run does not know this sample: give"
            " annotate calibrate the design with --design"
        )
    if sheet.left_out:
        why = (
            "without a judgement" if is_judged else "that the rubric is not for or nobody can read"
        )
        say_notice(f"left out: {format_count(sheet.left_out, 'trace')} {why}")
    # A sheet names its rubric, not the file.
    rubric = ["--rubric", draw.rubric] if draw.rubric and Path(draw.rubric).is_file() else []
    say_next("label", file, *rubric, purpose="the page to label them with")
    if until:
        repeated = {"--rubric": draw.rubric, "-n": n, "--codes": codes}
        repeated["--split"] = None if draw.split.name == "all" else draw.split.name
        again = [word for pair in repeated.items() if pair[1] for word in pair]
        say_next("sample", *sources, "--until", until, *again, purpose="when these are labelled")


def _choose_batch(
    run: api.Run, folder: Path, draw: Draw, codes: Sequence[str], annotators: Sequence[str]
) -> Draw | None:
    """Return the draw of the first or the next batch, None if no more traces are drawn."""
    designs = find_designs(run, draw)
    if not designs:
        return draw
    progress = measure_progress(run, designs, draw, codes, find_labels(folder), annotators)
    say(f"{plans.tabulate_progress(progress, draw.until or 0.0)}\n")
    if progress.batch:
        return replace(draw, before=progress.design, more=tuple(progress.batch.items()))
    if not progress.blocked:
        say_next("calibrate", name_place(folder), purpose="the corrected shares")
    return None


def _place_sheet(source: api.Run | tuple[str, ...], sources: tuple[str, ...], draw: Draw) -> Path:
    """Return the default file of a sheet: in the directory of a run, else here."""
    is_local_run = isinstance(source, api.Run) and not find_url(sources[0])
    folder = Path(sources[0]) if is_local_run else Path()
    several = isinstance(source, api.Run) and len(source.schemes) > 1
    stem = f"sheet-{draw.rubric}" if several and draw.rubric else "sheet"
    file = folder / f"{stem}.csv"
    if draw.before:
        names = (folder / f"{stem}-{number}.csv" for number in itertools.count(2))
        return next(name for name in names if not name.exists())
    if file.exists():
        where = shlex.quote(str(file))
        raise AnnotatorError(
            f"{file}: a sheet is there already. Label it with annotate label {where}, or name"
            " another file with --out"
        )
    return file


def _parse_quota(text: str) -> tuple[str, int]:
    code, _, number = text.rpartition("=")
    if not code or not number.isascii() or not number.isdigit() or int(number) < 1:
        raise click.UsageError(f"--top-up {text!r}: expected CODE=N, N at least 1")
    return code, int(number)
