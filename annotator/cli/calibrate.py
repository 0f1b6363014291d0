"""``annotate calibrate``."""

import itertools
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from annotator import api
from annotator.base.errors import AnnotatorError
from annotator.base.remote import name_place
from annotator.base.text import dump_json, format_count, list_first, sanitize_line
from annotator.calibration.ledger import LEDGER
from annotator.calibration.model import Calibration, write_calibrations
from annotator.calibration.thresholds import ThresholdCheck, check_agreement, check_kappa
from annotator.cli.options import (
    MISSED,
    PATH,
    UNDECIDED,
    GroupedCommand,
    Number,
    add_option,
    parse_attributes,
    verbose_option,
)
from annotator.cli.output import put_tables, say, say_next, say_notice, say_partial, say_written
from annotator.labels import LabelFiles
from annotator.reports.calibration import (
    make_brief,
    render_annotators,
    render_details,
    render_disagreements,
    tabulate,
)
from annotator.reports.digits import format_number
from validation import RaterAgreement

_SECTIONS = {
    "Options": "files rubrics annotators final out verbose as_json",
    "More than the table": "listed in_full between against",
    "Thresholds": "min_agreement min_kappa",
    "How it is computed": "design cluster confidence population seed ledger",
}


@click.command(
    "calibrate", cls=GroupedCommand, sections=_SECTIONS, context_settings={"show_default": True}
)
@click.argument("run", required=False, type=PATH)
@add_option(
    "--labels FILE...",
    "People's labels: JSONL, CSV, an export of Label Studio, Argilla or Potato, traces with"
    " labels in their records. Repeatable.  [default: RUN/labels*.jsonl, else a filled"
    " RUN/sheet*.csv, else labels*.jsonl beside RUN]",
    PATH,
    name="files",
)
@add_option(
    "--rubric NAME|FILE...",
    "Only this rubric.  [default: every rubric with labels]",
    name="rubrics",
)
@add_option(
    "--annotator NAME...",
    "Whose labels decide; of several: the first who labelled a trace."
    "  [default: gold, then the only annotator]",
    name="annotators",
)
@add_option("--between A B", "Compare annotator A with annotator B; needs no RUN.")
@add_option(
    "--against RUN...",
    "Another run of the same traces: the same judge again, or another one.",
    PATH,
)
@add_option(
    "--cluster ATTRIBUTES",
    "The attributes that name a task; none: all traces are independent.",
    default="project,task",
)
@add_option(
    "--design FILE", "The design that annotate sample wrote, for its inclusion probabilities.", PATH
)
@add_option(
    "--ledger FILE",
    "The file that notes each look.  [default: beside each label file, FILE.looks.jsonl; in"
    " RUN if that is write-protected]",
    PATH,
)
@add_option("--final", "Open the test split (labels with a split).")
@add_option("--min-agreement SHARE", "Exit code 1 below this agreement.", Number(0, 1))
@add_option("--min-kappa KAPPA", "Exit code 1 below this kappa.", Number(-1, 1))
@add_option("--disagreements", "List each with its quotes.", name="listed")
@add_option(
    "--full", "Also F1, averages, confusion matrix, Rogan-Gladen and PPI++.", name="in_full"
)
@add_option("--out FILE", "Where to write.  [default: RUN/calibration.json]", PATH)
@add_option("--confidence LEVEL", type=Number(0.5, 0.9999), default=0.95)
@add_option(
    "--population",
    "Corrected shares are of the process that makes such traces, or of this corpus only.",
    click.Choice(["process", "corpus"]),
    default="process",
)
@add_option("--seed N", "Of the resampled intervals.", click.IntRange(0), default=0)
@add_option("--json", "Print calibration.json.", name="as_json")
@verbose_option
def command(
    run: Path | None,
    files: tuple[Path, ...],
    between: tuple[str, str] | None,
    against: tuple[Path, ...],
    cluster: str,
    min_agreement: float | None,
    min_kappa: float | None,
    listed: bool,
    in_full: bool,
    out: Path | None,
    as_json: bool,
    verbose: bool,
    **options: Any,
) -> None:
    """Compare the judge of RUN, or one annotator, with people's labels.

    Prints agreement and the shares corrected for the judge's errors; with -v also precision and
    recall of every code. Writes RUN/calibration.json, by which `annotate report RUN` corrects its
    table. Every look at any of these labels is counted, and noted beside them (FILE.looks.jsonl).

    Exit codes: 0 done, and every threshold met; 1 one missed; 2 wrong usage or unreadable input;
    4 the labels do not decide whether one is met.
    """
    options["cluster"] = parse_attributes(cluster)
    other_runs = tuple(map(api.open_run, against))
    if not files:
        files = find_labels(run)
    if between:
        without_effect = {"--annotator": options["annotators"], "--against": against}
        without_effect |= {"--final": options["final"], "--full": in_full, "--out": out}
        if names := [name for name, value in without_effect.items() if value]:
            raise click.UsageError(
                f"{', '.join(names)} would have no effect on --between: leave it out"
            )
        in_run = api.open_run(run) if run else None
        pairs = api.compare_annotators(files, *between, run=in_run, **options)
        for note in dict.fromkeys(note for pair in pairs for note in pair.notes):
            say_notice(note)
        if as_json:
            say(dump_json([pair.as_dict() for pair in pairs], 1))
        else:
            say("\n\n".join(render_annotators(pair, listed=listed) for pair in pairs))
        agreements = [(pair.rubric.id, pair.comparison.agreement) for pair in pairs]
        _check_thresholds(agreements, min_agreement, min_kappa)
        return
    if run is None:
        raise click.UsageError("RUN is missing (or give --between A B)")
    opened = api.open_run(run)
    say_partial([opened, *other_runs])
    calibrated = api.calibrate_rubrics(opened, files, against=other_runs, **options)
    calibrations = [result.calibration for result in calibrated]
    file = out or run / "calibration.json"
    replaced = _describe_earlier(file, calibrations)
    text = write_calibrations(file, calibrations)
    if replaced:
        say_notice(replaced)
    if as_json:
        say(text)
    for result in () if as_json else calibrated:
        if verbose:
            put_tables(tabulate(result.calibration), verbose=True)
            say("")
        else:
            put_tables([make_brief(result.calibration)])
        if in_full:
            say(render_details(result.calibration) + "\n")
        if listed:
            say(render_disagreements(result) + "\n")
    for path in dict.fromkeys(ledger for result in calibrated for ledger in result.ledgers):
        where = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
        say_notice(f"this look at the labels is noted in {name_place(where)}")
    say_written(file)
    report = ("report", name_place(run), *(("--calibration", name_place(out)) if out else ()))
    say_next(*report, purpose="the corrected table")
    say_next(*report, "--methods", purpose="the paragraph for a paper")
    agreements = [(calibration.rubric, calibration.agreement) for calibration in calibrations]
    _check_thresholds(agreements, min_agreement, min_kappa)


def _describe_earlier(file: Path, calibrations: Sequence[Calibration]) -> str:
    """Return which labels an earlier calibration in ``file`` rests on; "" if they are the same."""
    try:
        earlier = api.load_calibrations(file) if file.is_file() else []
    except AnnotatorError:
        return f"replaced: {name_place(file)}, which was no calibration that can be read"
    used = [(new.labels.sha256, new.labels.annotators, new.labels.split) for new in calibrations]
    others = [
        f"{format_count(len(calibration.labelled), 'label')} by"
        f" {sanitize_line(list_first(calibration.labels.annotators, 3), 200)}"
        f" ({calibration.rubric}; {list_first(calibration.labels.files, 3)})"
        for calibration in earlier
        if (labels := calibration.labels)
        and (labels.sha256, labels.annotators, labels.split) not in used
    ]
    if not others:
        return ""
    return (
        f"replaced: {name_place(file)}, which rested on {' and '.join(others)}. Calibrate by those"
        " again to have it back; --out FILE writes elsewhere"
    )


def find_labels(run: Path | None) -> tuple[Path, ...]:
    """Return the label files in a run's directory, else its filled sheets, else those beside it."""
    if run is None:
        raise click.UsageError("--labels FILE is missing (or give RUN, and annotate looks there)")
    logs, beside = (
        [
            file
            for file in sorted(folder.glob("labels*.jsonl"))
            if file.stat().st_size and not file.name.endswith(LEDGER)
        ]
        for folder in (run, run.parent)
    )
    sheets = [sheet for sheet in sorted(run.glob("sheet*.csv")) if _count_labels(sheet)]
    used, *others = [files for files in (logs, sheets, beside) if files] or [[]]
    if used:
        say_notice(f"labels: {list_first([name_place(file) for file in used], 5)}")
        for file in itertools.chain.from_iterable(others):
            name = name_place(file)
            labels = format_count(_count_labels(file), "label")
            say_notice(f"not used: {name} ({labels}); --labels {shlex.quote(name)} uses it")
        return tuple(used)
    name, sheet = shlex.quote(str(run)), run / "sheet.csv"
    steps = [f"annotate sample {name} -n 60", f"annotate label {shlex.quote(str(sheet))}"]
    commands = ", then ".join(steps[sheet.exists() :])
    raise AnnotatorError(
        f"{run}: no labels*.jsonl in this run or beside it. Make them with {commands}. Or name"
        " them with --labels FILE"
    )


def _count_labels(file: Path) -> int:
    """Return the number of filled rows in a file; 0 if it cannot be read."""
    try:
        return sum(LabelFiles([file]).count_rubrics(filled=True).values())
    except AnnotatorError:
        return 0


def _check_thresholds(
    agreements: list[tuple[str, RaterAgreement]],
    min_agreement: float | None,
    min_kappa: float | None,
) -> None:
    """Print the outcome of each threshold, and exit with the code of the worst."""
    checks: list[tuple[str, ThresholdCheck]] = []
    for rubric, agreement in agreements:
        if min_agreement is not None:
            checks.append((rubric, check_agreement(agreement, min_agreement)))
        if min_kappa is not None:
            checks.append((rubric, check_kappa(agreement, min_kappa)))
    for rubric, check in checks:
        click.echo(f"{rubric}: {_describe_check(check)}", err=True)
    outcomes = {check.outcome for _, check in checks}
    if outcomes - {"met"}:
        raise SystemExit(MISSED if "missed" in outcomes else UNDECIDED)


def _describe_check(check: ThresholdCheck) -> str:
    estimate, name = check.estimate, f"{check.name} of at least {check.minimum:g}"
    if estimate.value is None:
        return f"{name}: undecided, it is undefined ({estimate.reason})"
    if estimate.low is None or estimate.high is None:
        return f"{name}: undecided, {format_number(estimate.value, 3)} ({estimate.reason})"
    value, low, high = (format_number(x, 3) for x in (estimate.value, estimate.low, estimate.high))
    text = f"{name}: {check.outcome}, {value} [{low}, {high}]"
    if check.outcome != "undecided":
        return text
    if check.one_task:
        return f"{text}; all labels are of one task, others are needed"
    more = f"about {check.more} more labels" if check.more else "no number of such labels"
    return f"{text}; {more} would decide it if it stays as it is"
