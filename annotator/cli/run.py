"""``annotate run``, the default command."""

import os
import resource
import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, NoReturn

import click

from annotator import api
from annotator.base.errors import BudgetReached, FailsAlways, Interrupted
from annotator.base.text import escape_controls, format_count, sanitize_line, wrap_line
from annotator.cli.defaults import load_keys
from annotator.cli.forecast import describe_pilot, show_forecast
from annotator.cli.judges import add_judge_options, choose_judge, describe_command, say_again
from annotator.cli.options import (
    PATH,
    GroupedCommand,
    Number,
    PluginChoice,
    add_option,
    add_reader_options,
    concurrency_option,
    group_option,
    verbose_option,
)
from annotator.cli.output import put_tables, say, say_next, say_notice
from annotator.cli.progress import Progress
from annotator.rubrics import Rubric, list_built_in, load_rubric
from annotator.traces import check_exists, count_traces, load_traces, parse_shard

# The groups of options in `annotate run --help`, the common ones first.
_SECTIONS = {
    "Options": "rubric_names models judge_name base_url out resume limit dry_run max_cost"
    " concurrency",
    "Which traces": "reader map_file agent_name failed_only redact groups",
    "Model": "api_key_env api temperature seed context samples critic anchors",
    "Limits and money": "pilot rpm tpm price_in price_out prices cached",
    "Batches": "batch batch_file batch_results",
    "What counts": "rejected least_read",
    "Output": "verbose quiet as_json",
    "Many machines": "workers engine address share",
}
_PASSED = ("rejected", "least_read", "engine", "workers", "address")  # as they are


@click.command(
    "run", cls=GroupedCommand, sections=_SECTIONS, context_settings={"show_default": True}
)
@click.argument("traces", nargs=-1, required=True)
@add_option(
    "--rubric NAME|FILE...", "A built-in rubric, or a YAML file. Repeatable.", name="rubric_names"
)
@add_judge_options
@concurrency_option
@add_option(
    "--out DIR",
    "The run directory.  [default: runs/<rubric>-<time>]",
    click.Path(path_type=Path, file_okay=False),
)
@add_option("--resume", "Go on with the unfinished run in --out; failed traces are judged again.")
@add_option("--limit N", "Only the first N traces.", click.IntRange(1))
@add_reader_options("Read everything as this format. PLUGIN: an installed one, or module:name.")
@group_option
@add_option(
    "--failed-only/--all",
    "Only failed runs, or passed and failed ones alike.  [default: as the rubric says]",
    default=None,
)
@add_option(
    "--redact", "Hide e-mail addresses, keys and tokens in the traces before anything reads them."
)
@add_option(
    "--rejected",
    "The status of a trace if all its findings were rejected.",
    click.Choice(["undecided", "none"]),
    default="undecided",
)
@add_option(
    "--least-read SHARE",
    "A trace is undecided if the judge read a smaller share of it.",
    Number(0, 1),
    default=0.9,
)
@add_option(
    "--shard I/N",
    "Judge only the I-th of N shares of the traces, into a directory of its own below --out;"
    " auto takes I and N from SLURM_ARRAY_TASK_ID or RANK. A shard may use an N-th of --rpm, --tpm"
    " and --max-cost. Merge the shards with annotate merge.",
    name="share",
)
@add_option(
    "--workers N",
    "Judge N shards at once, in processes of this machine or of the engine, and merge them."
    "  [default: 1]",
    click.IntRange(1, 1024),
)
@add_option(
    "--engine",
    "Where the shards run: processes of this machine, or a cluster.",
    PluginChoice("engines", api.ENGINES),
)
@add_option("--address ADDRESS", "The address of a running cluster.")
@add_option(
    "--dry-run",
    "Print how many runs, dollars and minutes it would take. Call nothing, write nothing.",
)
@add_option(
    "--pilot N",
    "Judge only N random traces, and print what all would take. --resume without --pilot"
    " judges the others.",
    click.IntRange(1),
)
@add_option("--anchors DIR", "Ask these anchors first, and say if the judge drifted.", PATH)
@add_option("--quiet", "No progress and no notices.")
@verbose_option
@add_option("--json", "Print the tables as JSON.", name="as_json")
def command(
    traces: tuple[str, ...],
    rubric_names: tuple[str, ...],
    judge_name: str | None,
    out: Path | None,
    resume: bool,
    limit: int | None,
    format_: str,
    groups: tuple[str, ...],
    failed_only: bool | None,
    concurrency: int,
    redact: bool,
    share: str | None,
    dry_run: bool,
    pilot: int | None,
    anchors: Path | None,
    quiet: bool,
    verbose: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Judge every trace in TRACES by a rubric and print how often each code was found.

    TRACES are folders, files, globs, URLs (s3://...), or hf://org/name[:split]. Every annotation is
    written to the run directory at once; --resume goes on with a stopped run.

    Exit codes: 0 done; 1 some traces could not be judged (status failed, never none), or none was
    judged, or the run stopped because almost all of the last traces failed;
    2 wrong usage or unreadable input; 3 stopped before --max-cost was exceeded; 130 interrupted.
    """
    passed = {name: options.pop(name) for name in _PASSED}
    if not rubric_names:
        _suggest_rubric(traces, format_)
    load_keys()
    rubrics = [load_rubric(name) for name in rubric_names]
    if resume and not out:
        raise click.UsageError("--resume needs --out DIR, the run directory to go on with")
    if pilot and dry_run:
        raise click.UsageError("--pilot judges traces for real: leave --dry-run out")
    shard = parse_shard(share, os.environ) if share else None
    if shard and (not out or dry_run):
        raise click.UsageError("--shard needs --out DIR, where the shards meet, and no --dry-run")
    for source in traces:
        check_exists(source)
    notice: Callable[[str], None] = (lambda text: None) if quiet else say_notice
    only: api.Only = "rubric" if failed_only is None else "failed" if failed_only else "all"
    if shard:
        _divide_limits(options, shard.of, notice)
    built = choose_judge(judge_name, concurrency, dry_run, options, notice)
    loaded = load_traces(*traces, format=format_, redact=redact)
    settings = built.settings
    paced = settings and (settings.batch or settings.by_file or settings.rpm or settings.tpm)
    if dry_run:
        expected = api.forecast(
            *(loaded, rubrics, built),
            limit=limit,
            only=only,
            resume=out if resume else None,
            groups=groups,
            anchors=anchors,
            on_notice=notice,
        )
        show_forecast(expected, None if paced else concurrency, verbose=verbose, as_json=as_json)
        return
    folder = out or _name_folder(rubrics)
    _raise_open_files()

    def count_expected() -> int:
        expected = count_traces(traces, format_)
        expected = min(expected, limit or pilot or expected)
        return -(-expected // (shard.of if shard else 1)) * len(rubrics)

    format_out = "json" if as_json else "table"
    try:
        with Progress(
            count_expected, lambda: built.judge.state, quiet=quiet, verbose=verbose
        ) as progress:

            def start(run: api.Run) -> None:
                notice(_describe_judge(run))
                progress.start()

            run = api.annotate(
                loaded,
                rubrics,
                built,
                limit=limit,
                only=only,
                out=folder,
                resume=resume,
                shard=shard,
                pilot=pilot,
                anchors=anchors,
                concurrency=concurrency,
                groups=groups,
                **passed,
                command=describe_command(click.get_current_context()),
                on_start=start,
                on_progress=progress.show,
                on_notice=lambda text: None if quiet else progress.say(text),
            )
    except BudgetReached as error:
        put_tables(api.count(error.run), format_out, verbose=verbose)
        raise BudgetReached(
            f"{error}; go on with a larger one: {_describe_resume(folder)}"
        ) from error
    except FailsAlways as error:
        if error.run:
            put_tables(api.count(error.run), format_out, verbose=verbose)
        totals = error.run.manifest.totals if error.run else {}
        if totals.get("undecided") and not totals["failed"]:  # --resume does not judge these again
            raise FailsAlways(f"{error} With other settings, name another --out") from error
        advice = f"go on with {_describe_resume(folder)}; with other settings, name another --out"
        raise FailsAlways(f"{error} What was judged is kept: {advice}") from error
    except Interrupted as error:
        if not error.run:
            raise
        kept = sum(1 for _ in error.run.annotations())
        text = f"{kept} annotations are kept; go on with: {_describe_resume(folder)}"
        raise Interrupted(text) from None
    if run.manifest.status == "waiting" and (outbox := built.outbox):
        if outbox.file:
            more = " --batch-file NEXT" if settings and settings.critic else ""
            notice(
                f"{format_count(outbox.written, 'request')} in {outbox.file}; when answered, go on"
                f" with {_describe_resume(folder)} --batch-results FILE{more}"
            )
        return
    put_tables(api.count(run), format_out, verbose=verbose)
    if pilot:
        click.echo("\n".join(describe_pilot(run, None if paced else concurrency)), err=True)
    code, again = _report_failures(run, in_shard=bool(shard), as_json=as_json, verbose=verbose)
    if not quiet:
        _say_next(run, folder, again=again, in_shard=bool(shard))
    if code:
        raise SystemExit(code)


def _report_failures(
    run: api.Run, *, in_shard: bool, as_json: bool, verbose: bool
) -> tuple[int, bool]:
    """Print which traces failed; return the exit code, and whether --resume judges some again."""
    totals = run.manifest.totals
    judged = totals["labelled"] or totals["none"]
    again = False
    for rubric in run.schemes if totals["failed"] else ():
        failed = [x for x in run.annotations(rubric) if x.status == "failed"]
        again |= any(annotation.failure != "unreadable" for annotation in failed)
        if failed and (judged or as_json):  # else the table's place has the reasons
            head, *lines = api.describe_failures(failed, verbose=verbose)
            name = f"{rubric}: " if len(run.schemes) > 1 else ""
            click.echo(f"\n{name}{head}", err=True)
            for line in lines:
                click.echo(wrap_line(escape_controls(line)), err=True)
            for file in run.files:
                click.echo(
                    f"  all of them: status failed in {escape_controls(str(file))}", err=True
                )
    open_ = [] if judged else [a for a in run.annotations() if a.status in ("skipped", "undecided")]
    unasked = [annotation for annotation in open_ if annotation.unasked]
    for (status, reason), n in Counter((a.status, a.reason) for a in unasked).most_common():
        say_notice(f"{n} of {totals['annotations']} {status}: {reason}")
    undecided = [annotation for annotation in open_ if not annotation.unasked]
    unquoted = [annotation for annotation in undecided if annotation.failure]  # all rejected
    if as_json and unquoted and not totals["failed"]:  # else the table's place has the reason
        first = min(unquoted, key=lambda annotation: annotation.trace_id)
        reasons = [*(finding.reason for finding in first.rejected), first.reason]
        say_notice(f"the first failure: {first.trace_id}: {reasons[0]}")
    others = len(undecided) > len(unquoted) or (in_shard and not unquoted)
    return int(bool(totals["failed"] or not (judged or others))), again


def _say_next(run: api.Run, folder: Path, *, again: bool, in_shard: bool) -> None:
    """Print the commands that may come next. ``again``: --resume judges failed traces again."""
    others = run.manifest.pilot and run.manifest.pilot["traces"] < run.manifest.pilot["of"]
    if others or again:
        more = f"--out {escape_controls(shlex.quote(str(folder)))} --resume"
        purpose = "judge the others" if others else "judge failed traces again"
        say_again(more, ("pilot", "out", "resume"), purpose)
    if in_shard:
        say_next("merge", folder, purpose="when all shards are finished")
    elif run.manifest.totals["labelled"]:
        say_next("view", folder, purpose="every finding in its trace")
        if run.conditions:
            by = run.conditions[0].name
            say_next("compare", folder, "--by", by, purpose="the conditions beside each other")
        if any(folder.glob("labels*.jsonl")):
            say_next("calibrate", folder, purpose="how far the judge agrees with the labels")
        else:
            say_next("sample", folder, "-n", 60, purpose="draw traces for people to label")


def _divide_limits(options: dict[str, Any], shards: int, notice: Callable[[str], None]) -> None:
    """Divide the limits that all shards share, and say so."""
    limits = {name: options[name] for name in ("rpm", "tpm", "max_cost") if options[name]}
    for name, value in limits.items():
        options[name] = value / shards
    if limits:
        parts = (f"--{name.replace('_', '-')} {options[name]:g}" for name in limits)
        notice(f"of {shards} shards this one may use: {', '.join(parts)}")


def _raise_open_files() -> None:
    """Raise the limit of open files: each call in flight is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    maximum = 4096 if hard == resource.RLIM_INFINITY else min(hard, 4096)
    if soft != resource.RLIM_INFINITY and soft < maximum:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (maximum, hard))


def _suggest_rubric(traces: tuple[str, ...], format_: str) -> NoReturn:
    """Print the formats of the traces and how many each rubric applies to; then refuse."""
    for source in traces:
        check_exists(source)
    rubrics = [load_rubric(path.stem) for path in list_built_in()]
    kinds, fits = Counter[str](), Counter[str]()
    for trace in load_traces(*traces, format=format_):
        kinds[trace.format] += 1
        fits.update(
            rubric.id
            for rubric in rubrics
            if rubric.excludes(trace) is None and rubric.leaves_open(trace) is None
        )
    formats = ", ".join(f"{n} {name}" for name, n in kinds.items())
    say(f"{format_count(kinds.total(), 'trace')}{f' ({formats})' if formats else ''}")
    say("Rubrics, and how many of the traces each is for:")
    for rubric in rubrics:
        say(f"  {rubric.id:17}{fits[rubric.id]:>5}  {sanitize_line(rubric.title, 54)}")
    where = " ".join(shlex.quote(source) for source in traces)
    best = "symptoms" if fits["symptoms"] else next(iter(fits), "symptoms")
    raise click.UsageError(
        f"--rubric is missing; try: annotate {where} --rubric {best} (annotate rubric list: all)"
    )


def _name_folder(rubrics: Sequence[Rubric]) -> Path:
    name = "+".join(rubric.id for rubric in rubrics) + f"-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    names = (name if n == 1 else f"{name}-{n}" for n in count(1))
    return next(folder for name in names if not (folder := Path("runs", name)).exists())


def _describe_judge(run: api.Run) -> str:
    judge, settings = run.judge, run.manifest.judge.model_dump()
    if plugin := settings.get("plugin"):
        judge += f" ({plugin})"
    elif judge == "rules":
        judge += " (a deterministic baseline; --model NAME asks a language model)"
    if critic := settings.get("critic"):
        judge += f"; critic: {critic['model']}"
    return f"judge: {judge}; run directory: {run}"


def _describe_resume(folder: Path) -> str:
    return f"the same command and --out {shlex.quote(str(folder))} --resume"
