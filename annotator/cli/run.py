"""``annotate run``, the default command."""

import asyncio
import json
import resource
import shlex
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from annotator.cli.choices import reader_option
from annotator.cli.judges import choose_judge, judge_options
from annotator.cli.output import say
from annotator.cli.progress import Progress
from annotator.cli.tables import say_tables
from annotator.errors import BudgetReached, Interrupted
from annotator.judges.base import Judge
from annotator.judges.build import BuiltJudge
from annotator.reports.frequency import FrequencyTable, frequency_tables
from annotator.rubrics import Rubric, built_in, load_rubric
from annotator.runs.execute import Only, Plan, Seen, carry_out, forecast
from annotator.runs.manifest import new_manifest, now, read_manifest
from annotator.runs.run import open_run
from annotator.runs.store import RunDirectory, recorded
from annotator.text import one_line
from annotator.traces import count_traces, exists, load_traces

if TYPE_CHECKING:
    from annotator.judges.llm.batch import FileOutbox


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
    "--dry-run",
    is_flag=True,
    help="Say how many calls, tokens and dollars it would take, and on what assumption; call"
    " nothing, write nothing.",
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
    dry_run: bool,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Judge every trace in TRACES by a rubric and print how often each code was found.

    TRACES are folders, files, globs, or hf://org/name[:split]. Every annotation is written to the
    run directory at once; a stopped run goes on with --resume.

    Exit codes: 0 done; 1 done, but some traces could not be judged (status failed, never none);
    2 wrong usage or unreadable input; 3 stopped before --max-cost was exceeded; 130 interrupted.
    """
    rubrics = _rubrics(rubric_names)
    if resume and not out:
        raise click.UsageError("--resume needs --out DIR, the run directory to go on with")
    for source in traces:
        exists(source)
    notice: Callable[[str], None] = (lambda text: None) if quiet else _notice
    only: Only = "rubric" if failed_only is None else "failed" if failed_only else "all"
    built = choose_judge(judge_name, concurrency, dry_run, options, notice)
    judge = built.judge
    if resume and out:
        judge.recall(read_manifest(out).learned)
    plan = Plan(load_traces(*traces, format=format_), rubrics, judge, limit, only, concurrency)
    if dry_run:
        _forecast(plan, built, out if resume else None, as_json)
        return
    folder = out or _new_folder(rubrics)
    manifest = new_manifest(
        rubrics=rubrics,
        judge=judge,
        sources=traces,
        format=format_,
        only=only,
        limit=limit,
        concurrency=concurrency,
        command=shlex.join(["annotate", *sys.argv[1:]]),
    )
    run = RunDirectory.resume(folder, manifest) if resume else RunDirectory.create(folder, manifest)
    notice(_who(judge, folder))
    try:
        seen = _execute(plan, run, built, quiet, notice)
    except BudgetReached as error:
        say_tables(frequency_tables(open_run(folder)), "json" if as_json else "table")
        raise BudgetReached(f"{error}; go on with a larger one: {_again(folder)}") from error
    _notices(seen, folder, notice)
    if seen.pending and built.outbox:
        _say_where(built.outbox, folder, notice)
        return
    tables = frequency_tables(open_run(folder))
    say_tables(tables, "json" if as_json else "table")
    if any(table.failed for table in tables):
        _failures(tables, folder)
        raise SystemExit(1)


def _execute(
    plan: Plan, run: RunDirectory, built: BuiltJudge, quiet: bool, notice: Callable[[str], None]
) -> Seen:
    """Carry out the plan; Ctrl-C becomes an error that says how to go on."""

    def count() -> int:
        found = count_traces(plan.traces.places, plan.traces.format)
        return min(found, plan.limit or found) * len(plan.rubrics)

    _more_files()
    try:
        with Progress(quiet, count, lambda: plan.judge.state) as progress:
            work = carry_out(plan, run, built, lambda _: progress.show(run), notice)
            return asyncio.run(work)
    except KeyboardInterrupt:
        kept = sum(run.counts.values())
        again = f"{kept} annotations are kept; go on with: {_again(run.folder)}"
        text = again if kept or run.folder.exists() else "nothing was judged yet"
        raise Interrupted(text) from None


def _more_files() -> None:
    """Allow this process as many open files as it may have: each call in flight is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 4096 if hard == resource.RLIM_INFINITY else min(hard, 4096)
    if soft != resource.RLIM_INFINITY and soft < most:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _forecast(plan: Plan, built: BuiltJudge, resumed: Path | None, as_json: bool) -> None:
    """Print what the run would take."""
    built.preview()
    try:
        expected = forecast(plan, recorded(resumed) if resumed else lambda trace_id, rubric: False)
    finally:
        built.end(_notice)
    usage = expected.usage
    shown = {
        "traces": expected.traces,
        "unreadable": expected.unreadable,
        "skipped": expected.skipped,
        "done_before": expected.done,
        "to_judge": expected.judged,
        "cannot_judge": expected.failing,
        "calls": usage.calls,
        "answers_known": usage.cache_hits,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost_usd": usage.cost_usd,
        "assumption": plan.judge.assumption,
    }
    if as_json:
        say(json.dumps(shown, indent=2))
        return
    if expected.failing:
        _notice(f"{expected.failing} cannot be judged; the first: {one_line(expected.reason)}")
    cost = "unknown" if usage.cost_usd is None else f"{usage.cost_usd:.2f} USD"
    lines = [f"{key.replace('_', ' '):<14}{value}" for key, value in shown.items()][:-2]
    say("\n".join([*lines, f"{'cost':<14}{cost}", f"{'assumption':<14}{shown['assumption']}"]))


def _say_where(outbox: "FileOutbox", folder: Path, notice: Callable[[str], None]) -> None:
    if outbox.file:
        notice(
            f"{outbox.written} requests are in {outbox.file}; when they are answered, go on with"
            f" {_again(folder)} --batch-results FILE"
        )


def _rubrics(names: tuple[str, ...]) -> tuple[Rubric, ...]:
    if not names:
        known = ", ".join(path.stem for path in built_in())
        raise click.UsageError(f"--rubric is missing; built-in: {known}; or a YAML file")
    rubrics = tuple(load_rubric(name) for name in names)
    ids = [rubric.id for rubric in rubrics]
    for one in ids:
        if ids.count(one) > 1:
            raise click.UsageError(f"--rubric: two rubrics have the id {one!r}")
    return rubrics


def _new_folder(rubrics: tuple[Rubric, ...]) -> Path:
    stamp = now().replace("-", "").replace(":", "").replace("T", "-")[:15]
    name = f"{'+'.join(rubric.id for rubric in rubrics)}-{stamp}"
    folder, n = Path("runs") / name, 1
    while folder.exists():
        n += 1
        folder = Path("runs") / f"{name}-{n}"
    return folder


def _who(judge: Judge, folder: Path) -> str:
    who = {"rules": "rules (a deterministic baseline; --model NAME asks a language model)"}.get(
        judge.id, judge.id
    )
    if plugin := judge.settings.get("plugin"):
        who += f" ({plugin})"
    return f"judge: {who}; run directory: {folder}"


def _notice(text: str) -> None:
    click.echo(text, err=True)


def _notices(seen: Seen, folder: Path, notice: Callable[[str], None]) -> None:
    if seen.ignored:
        notice(f"{seen.ignored} files or records are not traces and were left out")
    if seen.problems:
        notice(f"{seen.problems} problems in traces that were judged all the same")
    for example in seen.examples[:5]:
        notice(f"  {one_line(example)}")
    if len(seen.examples) > 5:
        notice(f"  and more: see problems in {folder / 'run.json'}, or annotate traces")


def _failures(tables: list[FrequencyTable], folder: Path) -> None:
    for table in tables:
        if not table.failed:
            continue
        click.echo(f"\n{table.rubric}: {table.failed} traces could not be judged:", err=True)
        for trace_id, reason in table.failures:
            click.echo(f"  {one_line(trace_id, 200)}: {one_line(reason)}", err=True)
        if table.failed > len(table.failures):
            rest = table.failed - len(table.failures)
            click.echo(f"  and {rest} more: status failed in {folder}/annotations.jsonl", err=True)
    click.echo(f"try them again with: {_again(folder)}", err=True)


def _again(folder: Path) -> str:
    return f"the same command and --out {shlex.quote(str(folder))} --resume"
