"""``annotate induce``."""

from pathlib import Path
from typing import Any

import click

from annotator import api
from annotator.base.text import dump_json
from annotator.cli.defaults import load_keys
from annotator.cli.judges import add_model_options, make_judge_settings
from annotator.cli.options import (
    GroupedCommand,
    add_option,
    add_reader_options,
    concurrency_option,
    verbose_option,
)
from annotator.cli.output import name_sources, put_tables, say, say_next, say_written
from annotator.cli.progress import Progress
from annotator.cli.trials import execute_or_forecast

_SECTIONS = {
    "Options": "models judge_name base_url out resume sample batch_size failed_only seed dry_run"
    " max_cost concurrency",
    "Which traces": "reader map_file agent_name redact",
    "Model": "api_key_env api temperature context samples critic",
    "Limits and money": "rpm tpm price_in price_out prices cached",
    "Batches": "batch batch_file batch_results",
    "Output": "verbose as_json",
}
_PASSED = ("sample", "batch_size", "failed_only", "seed", "concurrency")
_LIMITS = ("max_cost", "batch_file", "batch_results")


@click.command(
    "induce", cls=GroupedCommand, sections=_SECTIONS, context_settings={"show_default": True}
)
@click.argument("traces", nargs=-1, required=True)
@add_model_options
@add_option(
    "--out DIR",
    "The directory of the codes, the findings and all answers.",
    click.Path(path_type=Path, file_okay=False),
    required=True,
)
@add_option("--resume", "Go on with what is in --out, which costs nothing again.")
@add_option(
    "--sample N",
    "The most traces to read: by outcome (two thirds failed ones) and task.",
    click.IntRange(5),
    default=60,
)
@add_option(
    "--batch-size N", "The traces to read before codes are compared.", click.IntRange(1), default=20
)
@add_option("--failed-only", "Leave out the runs that passed, which show false alarms.")
@add_option("--seed N", "The seed of the sample and its order.", click.IntRange(0), default=0)
@concurrency_option
@add_reader_options("Read everything as this format. PLUGIN: an installed one, or module:name.")
@add_option("--redact", "Hide e-mail addresses, keys and tokens in the traces.")
@add_option("--dry-run", "Print how many calls and dollars it would take. Call nothing.")
@verbose_option
@add_option("--json", "Print the result as JSON.", name="as_json")
def command(
    traces: tuple[str, ...],
    judge_name: str | None,
    out: Path,
    format_: str,
    redact: bool,
    resume: bool,
    dry_run: bool,
    verbose: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Find out how the runs in TRACES fail, without a rubric, and write one.

    \b
    annotate induce traces/ --model gpt-5 --out induced

    A model reads a sample of the traces batch by batch and names what went wrong, each time with
    verified quotes. It sorts its findings into codes until a batch brings no new one, writes the
    codes of a rubric, and assigns all findings to them.

    Exit codes: 0 done, or a stage waits for answers in files; 1 traces failed, or none was judged;
    2 wrong usage or unreadable input; 3 stopped before --max-cost was exceeded; 130 interrupted.
    """
    load_keys()
    passed = {name: options.pop(name) for name in (*_PASSED, *_LIMITS)}
    loaded, _ = api.open_traces(traces, format_, redact=redact)
    judge = make_judge_settings(judge_name, options, None)
    progress = Progress(lambda: 0, lambda: "", quiet=False, verbose=verbose)
    plan = api.plan_induction(
        loaded, judge({}) if judge else judge_name, out=out, on_progress=progress.show, **passed
    )
    how = {"dry_run": dry_run, "resume": resume, "verbose": verbose, "as_json": as_json}
    with progress:
        if not dry_run:
            progress.start()
        induction = execute_or_forecast(plan, progress.say, passed["concurrency"], **how)
    if not induction:
        return
    if as_json:
        from annotator.reports.induction import describe_induction

        say(dump_json(describe_induction(induction), 1))
    else:
        from annotator.reports.induction import tabulate_induction

        put_tables([tabulate_induction(induction)], verbose=verbose)
    say_written(out / "codebook.json")
    if induction.codes:
        say_next("view", out, purpose="merge, split, rename, drop and accept codes")
    if (rubric := out / "rubric.yaml").exists():
        model_name = induction.record.settings["model"]
        say_next("run", *name_sources(traces), "--rubric", rubric, "--model", model_name)
    if "failed" in induction.record.unjudged or not induction.record.read:
        raise SystemExit(1)
