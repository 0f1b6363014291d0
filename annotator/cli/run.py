"""``annotate run``, the default command."""

import os
import resource
import shlex
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from annotator import api
from annotator.base.errors import BudgetReached, FailsAlways, Interrupted
from annotator.base.text import escape_controls, sanitize_line
from annotator.base.text import format_count as count_noun
from annotator.cli.choices import PluginChoice, reader_option
from annotator.cli.defaults import load_keys
from annotator.cli.forecast import describe_pilot, show_forecast
from annotator.cli.judges import choose_judge, describe_command, judge_options
from annotator.cli.output import Number, say, say_notice
from annotator.cli.progress import Progress
from annotator.cli.tables import put
from annotator.rubrics import Rubric, list_built_in, load_rubric
from annotator.traces import count_traces, exists, load_traces, parse_shard

if TYPE_CHECKING:
    from annotator.judges.llm.batch import FileOutbox

_FAILURES = 10  # listed for each rubric


@click.command("run", context_settings={"show_default": True})
@click.argument("traces", nargs=-1, required=True)
@click.option(
    "--rubric",
    "rubric_names",
    multiple=True,
    metavar="NAME|FILE",
    help="What to label: a built-in rubric or a YAML file; may be given several times.",
)
@judge_options
@click.option(
    "--concurrency",
    type=click.IntRange(1, 512),
    default=8,
    metavar="N",
    help="Most calls in flight.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Run directory.  [default: runs/<rubric>-<time>]",
)
@click.option(
    "--resume",
    is_flag=True,
    help="Go on with the unfinished run in --out; what failed is judged again.",
)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Only the first N traces.")
@reader_option("Read everything as this format. PLUGIN: an installed one, or module:name.")
@click.option(
    "--failed-only/--all",
    "failed_only",
    default=None,
    help="Skip passed runs whatever the rubric says, or judge passed and failed ones alike."
    "  [default: as the rubric says]",
)
@click.option(
    "--redact",
    is_flag=True,
    help="Cover e-mail addresses, keys and tokens in the traces, before anything reads them.",
)
@click.option(
    "--rejected",
    type=click.Choice(["undecided", "none"]),
    default="undecided",
    help="What a trace is whose findings were all rejected, because their quotes do not stand in"
    " it.",
)
@click.option(
    "--least-read",
    type=Number(0, 1),
    default=0.9,
    metavar="SHARE",
    help="A trace of which the judge read a smaller share is undecided.",
)
@click.option(
    "--shard",
    "share",
    metavar="I/N",
    help="Judge only the I-th of N shares of the traces, into a directory of its own below --out;"
    " auto: as SLURM_ARRAY_TASK_ID or RANK say. It may use an N-th of --rpm, --tpm and"
    " --max-cost. Then: annotate merge.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 1024),
    metavar="N",
    help="Judge in N shards at once, in processes of this machine or of the engine, and merge them."
    "  [default: 1]",
)
@click.option(
    "--engine",
    type=PluginChoice("engines", api.ENGINES),
    help="Where the shards run: processes of this machine, or a cluster.",
)
@click.option("--address", metavar="ADDRESS", help="Of a running cluster.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print how many runs, dollars and minutes it would take, and on what assumption; call"
    " nothing, write nothing.",
)
@click.option(
    "--pilot",
    type=click.IntRange(1),
    metavar="N",
    help="Judge only N traces, drawn at random, and say what all would take. --resume without"
    " --pilot judges the others.",
)
@click.option("--quiet", is_flag=True, help="No progress and no notices.")
@click.option("--json", "as_json", is_flag=True, help="Print the tables as JSON.")
def command(
    traces: tuple[str, ...],
    rubric_names: tuple[str, ...],
    judge_name: str | None,
    out: Path | None,
    resume: bool,
    limit: int | None,
    format_: str,
    failed_only: bool | None,
    concurrency: int,
    redact: bool,
    rejected: api.IfRejected,
    least_read: float,
    share: str | None,
    workers: int | None,
    engine: str | None,
    address: str | None,
    dry_run: bool,
    pilot: int | None,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Judge every trace in TRACES by a rubric and print how often each code was found.

    TRACES are folders, files, globs, URLs (s3://...), or hf://org/name[:split]. Every annotation is
    written to the run directory at once; a stopped run goes on with --resume.

    Exit codes: 0 done; 1 some traces could not be judged (status failed, never none), or none was
    judged, or the run stopped because almost all of the last traces failed;
    2 wrong usage or unreadable input; 3 stopped before --max-cost was exceeded; 130 interrupted.
    """
    if not rubric_names:
        _show_what_there_is(traces, format_)
    load_keys()
    rubrics = _load_rubrics(rubric_names)
    if resume and not out:
        raise click.UsageError("--resume needs --out DIR, the run directory to go on with")
    if pilot and dry_run:
        raise click.UsageError("--pilot judges traces for real: leave --dry-run out")
    shard = parse_shard(share, os.environ) if share else None
    if shard and (not out or limit or dry_run):
        raise click.UsageError("--shard needs --out DIR, where the shards meet, and no --limit")
    for source in traces:
        exists(source)
    notice: Callable[[str], None] = (lambda text: None) if quiet else say_notice
    only: api.Only = "rubric" if failed_only is None else "failed" if failed_only else "all"
    if shard:
        _divide_limits(options, shard.of, notice)
    built = choose_judge(judge_name, concurrency, dry_run, options, notice)
    loaded = load_traces(*traces, format=format_, redact=redact)
    settings = built.settings
    paced = settings and (settings.batch or settings.by_file or settings.rpm or settings.tpm)
    asked: dict[str, Any] = {"limit": limit, "only": only}
    if dry_run:
        asked |= {"resume": out if resume else None, "on_notice": say_notice}
        expected = api.forecast(loaded, rubrics, built, **asked)
        show_forecast(expected, None if paced else concurrency, as_json=as_json)
        return
    folder = out or _new_folder(rubrics)
    _more_files()

    def format_count() -> int:
        expected = count_traces(traces, format_)
        if shard:
            expected = -(-expected // shard.of)
        return min(expected, limit or pilot or expected) * len(rubrics)

    form = "json" if as_json else "table"
    try:
        with Progress(quiet, format_count, lambda: built.judge.state) as progress:

            def start(run: api.Run) -> None:
                notice(_describe_judge(run))
                progress.start()

            run = api.annotate(
                loaded,
                rubrics,
                built,
                **asked,
                out=folder,
                resume=resume,
                shard=shard,
                engine=engine,
                workers=workers,
                address=address,
                pilot=pilot,
                concurrency=concurrency,
                rejected=rejected,
                least_read=least_read,
                command=describe_command(click.get_current_context()),
                on_start=start,
                on_progress=progress.show,
                on_notice=lambda text: None if quiet else progress.say(text),
            )
    except BudgetReached as error:
        put(api.count(error.run), form)
        raise BudgetReached(f"{error}; go on with a larger one: {_again(folder)}") from error
    except FailsAlways as error:
        if error.run:
            put(api.count(error.run), form)
        totals = error.run.manifest.totals if error.run else {}
        if totals.get("undecided") and not totals["failed"]:  # which --resume does not judge again
            raise FailsAlways(f"{error} With other settings, name another --out") from error
        again = f"go on with {_again(folder)}; with other settings, name another --out"
        raise FailsAlways(f"{error} What was judged is kept: {again}") from error
    except Interrupted as error:
        if not error.run:
            raise
        kept = sum(1 for _ in error.run.annotations())
        text = f"{kept} annotations are kept; go on with: {_again(folder)}"
        raise Interrupted(text) from None
    if run.manifest.status == "waiting" and built.outbox:
        _say_where(built.outbox, folder, notice)
        return
    put(api.count(run), form)
    if pilot:
        click.echo("\n".join(describe_pilot(run, None if paced else concurrency)), err=True)
        if run.manifest.pilot["traces"] < run.manifest.pilot["of"]:
            say_notice(f"judge the others with: {_again(folder)}, without --pilot")
    totals = run.manifest.totals
    judged = totals["labelled"] or totals["none"]
    if totals["failed"]:
        _list_failures(run, folder, every=bool(judged or as_json))
    undecided = (
        []
        if judged
        else [annotation for annotation in run.annotations() if annotation.status == "undecided"]
    )
    false = [annotation for annotation in undecided if annotation.failure]  # all quotes of it are
    if false and not totals["failed"]:
        first = min(false, key=lambda annotation: annotation.trace_id)
        reasons = [*(finding.reason for finding in first.rejected), first.reason]
        say_notice(f"the first failure: {first.trace_id}: {reasons[0]}")
    others = len(undecided) > len(false) or (shard and not false)
    if totals["failed"] or not (judged or others):
        raise SystemExit(1)


def _divide_limits(options: dict[str, Any], shards: int, notice: Callable[[str], None]) -> None:
    """Give this shard its part of what all may use together, and say so."""
    given = {name: options[name] for name in ("rpm", "tpm", "max_cost") if options[name]}
    for name, value in given.items():
        options[name] = value / shards
    if given:
        parts = (f"--{name.replace('_', '-')} {options[name]:g}" for name in given)
        notice(f"of {shards} shards this one may use: {', '.join(parts)}")


def _more_files() -> None:
    """Allow this process as many open files as it may have: each call in flight is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 4096 if hard == resource.RLIM_INFINITY else min(hard, 4096)
    if soft != resource.RLIM_INFINITY and soft < most:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _say_where(outbox: "FileOutbox", folder: Path, notice: Callable[[str], None]) -> None:
    if outbox.file:
        notice(
            f"{outbox.written} requests are in {outbox.file}; when they are answered, go on with"
            f" {_again(folder)} --batch-results FILE"
        )


def _show_what_there_is(traces: tuple[str, ...], format_: str) -> NoReturn:
    """Show what is in the traces and for how many of them each rubric is; a rubric is missing."""
    for source in traces:
        exists(source)
    rubrics = [load_rubric(path.stem) for path in list_built_in()]
    kinds, fits = Counter[str](), Counter[str]()
    for trace in load_traces(*traces, format=format_):
        kinds[trace.format] += 1
        fits.update(rubric.id for rubric in rubrics if rubric.excludes(trace) is None)
    formats = ", ".join(f"{n} {name}" for name, n in kinds.items())
    say(f"{count_noun(kinds.total(), 'trace')}{f' ({formats})' if formats else ''}")
    for rubric in rubrics:
        say(f"  {rubric.id:18} is for {fits[rubric.id]} of them: {rubric.title}")
    where = " ".join(shlex.quote(source) for source in traces)
    best = "comm_errors" if fits["comm_errors"] else next(iter(fits), "comm_errors")
    raise click.UsageError(f"--rubric is missing; try: annotate {where} --rubric {best}")


def _load_rubrics(names: tuple[str, ...]) -> tuple[Rubric, ...]:
    rubrics = tuple(load_rubric(name) for name in names)
    ids = [rubric.id for rubric in rubrics]
    for rubric_id in ids:
        if ids.count(rubric_id) > 1:
            raise click.UsageError(f"--rubric: two rubrics have the id {rubric_id!r}")
    return rubrics


def _new_folder(rubrics: tuple[Rubric, ...]) -> Path:
    stamp = f"{datetime.now(UTC):%Y%m%d-%H%M%S}"
    name = f"{'+'.join(rubric.id for rubric in rubrics)}-{stamp}"
    folder, n = Path("runs") / name, 1
    while folder.exists():
        n += 1
        folder = Path("runs") / f"{name}-{n}"
    return folder


def _describe_judge(run: api.Run) -> str:
    judge = run.judge
    if plugin := run.manifest.judge.model_dump().get("plugin"):
        judge += f" ({plugin})"
    elif judge == "rules":
        judge += " (a deterministic baseline; --model NAME asks a language model)"
    return f"judge: {judge}; run directory: {run}"


def _list_failures(run: api.Run, folder: Path, *, every: bool) -> None:
    """Print which traces failed, unless a screen has shown why nothing was judged, and how to try
    them again.
    """
    failures: dict[str, list[api.Annotation]] = {rubric: [] for rubric in run.schemes}
    for annotation in _list_failed(run):
        failures[annotation.rubric].append(annotation)
    for rubric, failed in failures.items():
        if not (failed and every):
            continue
        kinds = Counter(annotation.failure or "other" for annotation in failed)
        counts = ", ".join(f"{kind} {n}" for kind, n in kinds.most_common())
        click.echo(f"\n{rubric}: {len(failed)} traces could not be judged ({counts}):", err=True)
        for annotation in failed[:_FAILURES]:
            reason = sanitize_line(annotation.error or "")
            click.echo(f"  {sanitize_line(annotation.trace_id, 200)}: {reason}", err=True)
        if rest := len(failed[_FAILURES:]):
            where = escape_controls(f"{folder}/annotations.jsonl")
            click.echo(f"  and {rest} more: status failed in {where}", err=True)
    if any(failed.failure != "unreadable" for failed in _list_failed(run)):
        say_notice(f"try them again with: {_again(folder)}")


def _list_failed(run: api.Run) -> Iterator[api.Annotation]:
    return (annotation for annotation in run.annotations() if annotation.status == "failed")


def _again(folder: Path) -> str:
    return f"the same command and --out {shlex.quote(str(folder))} --resume"
