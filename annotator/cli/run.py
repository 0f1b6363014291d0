"""``annotate run``, the default command."""

import asyncio
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from annotator.cli.output import say
from annotator.cli.progress import Progress
from annotator.errors import AnnotatorError, Interrupted
from annotator.judges.base import MODES, Judge, Mode
from annotator.reports.frequency import FrequencyTable, frequency_tables
from annotator.reports.writers import WRITERS
from annotator.rubrics import Rubric, built_in, load_rubric
from annotator.runs.execute import Only, Plan, Seen, execute
from annotator.runs.manifest import new_manifest, now, read_manifest
from annotator.runs.store import RunDirectory
from annotator.text import one_line
from annotator.traces import FORMATS, count_traces, exists


@click.command("run", context_settings={"show_default": True})
@click.argument("traces", nargs=-1, required=True)
@click.option(
    "--rubric",
    "rubric_names",
    multiple=True,
    metavar="NAME|FILE",
    help="What to label: a built-in rubric or a YAML file; may be given several times.",
)
@click.option(
    "--judge",
    "judge_name",
    type=click.Choice(["rules", "llm"]),
    help="Who decides. Default: llm if a model is given, else rules (no key, no network).",
)
@click.option("--model", envvar="ANNOTATOR_MODEL", help="Model of the llm judge.")
@click.option(
    "--base-url",
    envvar="OPENAI_BASE_URL",
    metavar="URL",
    help="OpenAI-compatible endpoint.  [default: OpenAI's]",
)
@click.option(
    "--api-key-env",
    default="OPENAI_API_KEY",
    metavar="NAME",
    help="Environment variable that holds the key.",
)
@click.option(
    "--mode",
    type=click.Choice(MODES),
    default="auto",
    help="How the model is made to answer in form; auto asks the endpoint once.",
)
@click.option(
    "--reasks",
    type=click.IntRange(0, 10),
    default=2,
    metavar="N",
    help="How often a model may answer again after a wrong quote or a malformed answer.",
)
@click.option(
    "--attempts",
    type=click.IntRange(1, 50),
    default=5,
    metavar="N",
    help="How often a call is tried on errors that may pass (429, 5xx, dropped connections).",
)
@click.option(
    "--timeout", type=click.FloatRange(1), default=120.0, metavar="S", help="Seconds per call."
)
@click.option(
    "--max-output-tokens", type=click.IntRange(16), metavar="N", help="Longest answer of the model."
)
@click.option(
    "--price-in", type=click.FloatRange(0), metavar="USD", help="Dollars per million input tokens."
)
@click.option(
    "--price-out",
    type=click.FloatRange(0),
    metavar="USD",
    help="Dollars per million output tokens.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 512),
    default=8,
    metavar="N",
    help="Traces judged side by side.",
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
@click.option(
    "--format",
    "format_",
    type=click.Choice(["auto", *FORMATS]),
    default="auto",
    help="Read everything as this format.",
)
@click.option(
    "--failed-only/--all",
    "failed_only",
    default=None,
    help="Skip passed runs whatever the rubric says, or judge passed and failed ones alike."
    "  [default: as the rubric says]",
)
@click.option("--quiet", is_flag=True, help="No progress and no notices.")
@click.option("--json", "as_json", is_flag=True, help="Print the tables as JSON.")
def command(
    traces: tuple[str, ...],
    rubric_names: tuple[str, ...],
    out: Path | None,
    resume: bool,
    limit: int | None,
    format_: str,
    failed_only: bool | None,
    concurrency: int,
    quiet: bool,
    as_json: bool,
    **judge_options: Any,
) -> None:
    """Judge every trace in TRACES by a rubric and print how often each code was found.

    TRACES are folders, files, globs, or hf://org/name[:split]. Every annotation is written to the
    run directory at once; a stopped run goes on with --resume.

    Exit codes: 0 done; 1 done, but some traces could not be judged (status failed, never none);
    2 wrong usage or unreadable input; 130 interrupted.
    """
    rubrics = _rubrics(rubric_names)
    if resume and not out:
        raise click.UsageError("--resume needs --out DIR, the run directory to go on with")
    for source in traces:
        exists(source)
    only: Only = "rubric" if failed_only is None else "failed" if failed_only else "all"
    before = read_manifest(out) if resume and out else {}
    judge = _judge(before.get("learned", {}).get("mode"), **judge_options)
    for rubric in rubrics:
        if reason := judge.unsupported(rubric):
            raise AnnotatorError(reason)
    plan = Plan(traces, rubrics, judge, format_, limit, only, concurrency)
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
    notice: Callable[[str], None] = (lambda text: None) if quiet else _notice
    notice(_who(judge, folder))
    seen = _execute(plan, run, quiet)
    _notices(seen, folder, notice)
    tables = frequency_tables(folder)
    say(WRITERS["json" if as_json else "table"](tables))
    if any(table.failed for table in tables):
        _failures(tables, folder)
        raise SystemExit(1)


def _execute(plan: Plan, run: RunDirectory, quiet: bool) -> Seen:
    """Execute the plan; whatever happens, the manifest says how it ended."""
    ended: dict[str, Any] = {"status": "stopped"}

    def count() -> int:
        found = count_traces(plan.sources, plan.format)
        return min(found, plan.limit or found) * len(plan.rubrics)

    try:
        with Progress(quiet, count) as progress:
            seen = asyncio.run(execute(plan, run, lambda _: progress.show(run)))
        ended = {
            "status": "finished",
            "traces": seen.traces,
            "ignored": seen.ignored,
            "problems": seen.examples,
        }
        return seen
    except KeyboardInterrupt:
        ended["status"] = "interrupted"
    finally:
        run.close(ended=now(), **ended)
    kept = sum(run.counts.values())
    again = f"{kept} annotations are kept; go on with: {_again(run.folder)}"
    raise Interrupted(again if kept else "nothing was judged yet")


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


def _judge(
    known_mode: Any,
    *,
    judge_name: str | None,
    model: str | None,
    base_url: str | None,
    mode: Mode,
    **options: Any,
) -> Judge:
    if (judge_name or ("llm" if model else "rules")) == "rules":
        from annotator.judges.rules import RulesJudge

        return RulesJudge()
    if not model:
        raise click.UsageError("--judge llm needs --model NAME (or ANNOTATOR_MODEL)")
    from annotator.judges.llm import LLMJudge, Options
    from annotator.judges.llm.endpoint import DEFAULT_URL

    judge = LLMJudge(Options(model=model, base_url=base_url or DEFAULT_URL, mode=mode, **options))
    if mode == "auto" and known_mode in MODES:
        judge.mode = known_mode
    return judge


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
