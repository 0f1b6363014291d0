"""``annotate run``, the default command."""

import json
import resource
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import click

from annotator.annotations import Annotation
from annotator.api import (
    BuiltJudge,
    Forecast,
    Only,
    PaidJudge,
    Run,
    annotate,
    count,
    forecast,
    open_run,
)
from annotator.cli.choices import reader_option
from annotator.cli.judges import choose_judge, judge_options
from annotator.cli.output import say
from annotator.cli.progress import Progress
from annotator.cli.tables import put
from annotator.errors import BudgetReached, Interrupted
from annotator.rubrics import Rubric, list_built_in, load_rubric
from annotator.text import one_line
from annotator.traces import Traces, count_traces, exists, load_traces

_FAILURES = 10  # of each rubric that are told; annotations.jsonl has all


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
    sources = load_traces(*traces, format=format_)
    if dry_run:
        resumed = out if resume else None
        expected = forecast(
            *(sources, rubrics, built),
            resumed=resumed,
            limit=limit,
            only=only,
            on_notice=_notice,
        )
        _say_forecast(expected, built.judge.assumption, as_json)
        return
    folder = out or _new_folder(rubrics)
    notice(_who(built.judge, folder))
    progress = Progress(quiet, _counter(sources, rubrics, limit), lambda: built.judge.state)
    start = partial(
        annotate,
        *(sources, rubrics, built),
        out=folder,
        resume=resume,
        limit=limit,
        only=only,
        concurrency=concurrency,
        on_progress=progress.show,
        on_notice=notice,
        command=shlex.join(["annotate", *sys.argv[1:]]),
    )
    format_of_tables = "json" if as_json else "table"
    try:
        run = _execute(start, progress, folder)
    except BudgetReached as error:
        put(count(open_run(folder)), format_of_tables)
        raise BudgetReached(f"{error}; go on with a larger one: {_again(folder)}") from error
    if run.manifest.status == "waiting":
        _say_where(built, folder, notice)
        return
    put(count(run), format_of_tables)
    if run.manifest.totals.get("failed"):
        _say_failures(run, folder)
        raise SystemExit(1)


def _execute(start: Callable[[], Run], progress: Progress, folder: Path) -> Run:
    """Judge, and show how far it is; Ctrl-C becomes an error that says how to go on."""
    _allow_more_files()
    try:
        with progress:
            return start()
    except (Interrupted, KeyboardInterrupt):
        if not (folder / "run.json").is_file():
            raise Interrupted("nothing was judged yet") from None
        kept = open_run(folder).manifest.totals.get("annotations", 0)
        raise Interrupted(f"{kept} annotations are kept; go on with: {_again(folder)}") from None


def _counter(traces: Traces, rubrics: Sequence[Rubric], limit: int | None) -> Callable[[], int]:
    """Return what counts the annotations that a run will have."""

    def count_annotations() -> int:
        total = count_traces(traces.places, traces.format)
        return min(total, limit or total) * len(rubrics)

    return count_annotations


def _allow_more_files() -> None:
    """Allow this process as many open files as it may have: each call in flight is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 4096 if hard == resource.RLIM_INFINITY else min(hard, 4096)
    if soft != resource.RLIM_INFINITY and soft < most:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _say_forecast(expected: Forecast, assumption: str, as_json: bool) -> None:
    """Print what the run would take."""
    usage = expected.usage
    values = {
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
        "assumption": assumption,
    }
    if as_json:
        say(json.dumps(values, indent=2))
        return
    if expected.failing:
        _notice(f"{expected.failing} cannot be judged; the first: {one_line(expected.reason)}")
    cost = "unknown" if usage.cost_usd is None else f"{usage.cost_usd:.2f} USD"
    lines = [f"{key.replace('_', ' '):<14}{value}" for key, value in values.items()][:-2]
    say("\n".join([*lines, f"{'cost':<14}{cost}", f"{'assumption':<14}{assumption}"]))


def _say_where(built: BuiltJudge, folder: Path, notice: Callable[[str], None]) -> None:
    if built.outbox and built.outbox.file:
        notice(
            f"{built.outbox.written} requests are in {built.outbox.file}; when they are answered,"
            f" go on with {_again(folder)} --batch-results FILE"
        )


def _rubrics(names: tuple[str, ...]) -> tuple[Rubric, ...]:
    if not names:
        there = ", ".join(path.stem for path in list_built_in())
        raise click.UsageError(f"--rubric is missing; built-in: {there}; or a YAML file")
    rubrics = tuple(load_rubric(name) for name in names)
    ids = [rubric.id for rubric in rubrics]
    for name in ids:
        if ids.count(name) > 1:
            raise click.UsageError(f"--rubric: two rubrics have the id {name!r}")
    return rubrics


def _new_folder(rubrics: tuple[Rubric, ...]) -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    name = f"{'+'.join(rubric.id for rubric in rubrics)}-{stamp}"
    folder, n = Path("runs") / name, 1
    while folder.exists():
        n += 1
        folder = Path("runs") / f"{name}-{n}"
    return folder


def _who(judge: PaidJudge, folder: Path) -> str:
    who = {"rules": "rules (a deterministic baseline; --model NAME asks a language model)"}.get(
        judge.id, judge.id
    )
    if plugin := judge.settings.get("plugin"):
        who += f" ({plugin})"
    return f"judge: {who}; run directory: {folder}"


def _notice(text: str) -> None:
    click.echo(text, err=True)


def _say_failures(run: Run, folder: Path) -> None:
    failed: dict[str, list[Annotation]] = {}
    counts = Counter[str]()
    for annotation in run.annotations():
        if annotation.status == "failed":
            counts[annotation.rubric] += 1
            if counts[annotation.rubric] <= _FAILURES:
                failed.setdefault(annotation.rubric, []).append(annotation)
    for rubric in filter(counts.get, run.schemes):
        click.echo(f"\n{rubric}: {counts[rubric]} traces could not be judged:", err=True)
        for annotation in failed[rubric]:
            reason = one_line(annotation.error or "")
            click.echo(f"  {one_line(annotation.trace_id, 200)}: {reason}", err=True)
        if rest := counts[rubric] - len(failed[rubric]):
            click.echo(f"  and {rest} more: status failed in {folder}/annotations.jsonl", err=True)
    click.echo(f"try them again with: {_again(folder)}", err=True)


def _again(folder: Path) -> str:
    return f"the same command and --out {shlex.quote(str(folder))} --resume"
