"""``annotate ablate``."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from annotator import api
from annotator.base.errors import Pending
from annotator.base.text import escape_controls, wrap_line
from annotator.cli.defaults import load_keys
from annotator.cli.forecast import show_forecast
from annotator.cli.judges import (
    add_judge_options,
    describe_command,
    make_judge_settings,
    note_unused_options,
)
from annotator.cli.options import (
    GroupedCommand,
    add_label_options,
    add_option,
    add_reader_options,
    add_trial_options,
    parse_attributes,
)
from annotator.cli.output import name_sources, put_tables, say_next, say_notice, say_written
from annotator.cli.trials import explain_stop, open_sources
from annotator.reports.ablation import tabulate

if TYPE_CHECKING:
    from annotator import Ablation

_GIVEN = ParameterSource.COMMANDLINE
_SECTIONS = {
    "Options": "files vary rubric models judge_name base_url out resume dry_run max_cost"
    " concurrency",
    "Which labels": "annotators design ledger cluster",
    "Which traces": "reader map_file agent_name",
    "Model": "api_key_env api temperature seed context samples critic",
    "Limits and money": "rpm tpm price_in price_out prices cached",
    "Batches": "batch batch_file batch_results",
    "Output": "verbose quiet as_json confidence draw_seed",
}


@click.command(
    "ablate", cls=GroupedCommand, sections=_SECTIONS, context_settings={"show_default": True}
)
@click.argument("sources", nargs=-1, required=True, metavar="RUN|TRACES...")
@add_label_options
@add_option(
    "--vary KEY=A,B...",
    "A setting and its values. Repeatable: the arms are all combinations, the first one is the"
    " base. KEY: rubric, model, samples, examples (on, off), judge (llm, rules, PLUGIN), or any"
    " name of a judge file, such as facts, considered, rubric_last.",
    required=True,
)
@add_option("--rubric NAME|FILE", "The rubric, if --vary has none.  [default: the run's]")
@add_judge_options
@add_option(
    "--out DIR",
    "The directory of the arms, the result and the winner's judge file.",
    click.Path(path_type=Path, file_okay=False),
    required=True,
)
@add_trial_options
@add_reader_options("Read TRACES as this format. PLUGIN: an installed one, or module:name.")
@add_option(
    "--draws-seed N",
    "The seed of resampled intervals and folds.",
    click.IntRange(0),
    default=0,
    name="draw_seed",
)
def command(
    sources: tuple[str, ...],
    files: tuple[Path, ...],
    vary: tuple[str, ...],
    rubric: str | None,
    judge_name: str | None,
    out: Path,
    resume: bool,
    dry_run: bool,
    concurrency: int,
    annotators: tuple[str, ...],
    design: Path | None,
    ledger: Path | None,
    cluster: str,
    format_: str,
    confidence: float,
    draw_seed: int,
    quiet: bool,
    verbose: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Try rubrics, models and settings on labelled traces, and choose one.

    \b
    annotate ablate traces/ --labels labels.jsonl --rubric symptoms \\
      --model gpt-5 --vary samples=1,3 --out trial

    Each combination judges the same labelled traces and is compared with people: agreement, its
    difference to the first one, cost. The winner is the cheapest whose kappa is at most one
    standard error below the best. Traces of the test split are never judged.

    Exit codes: 0 done, or the requests are written; 1 some traces could not be judged in some arm,
    or almost all of the last ones; 2 wrong usage or unreadable input; 3 stopped before --max-cost
    was exceeded; 130 interrupted.
    """
    context = click.get_current_context()
    load_keys()
    notice = (lambda text: None) if quiet else say_notice
    traces, run = open_sources(sources, format_)
    max_cost, requests, results = (
        options.pop(name) for name in ("max_cost", "batch_file", "batch_results")
    )
    values = _parse_vary(vary)
    recorded = api.restore_settings(run) if run and not judge_name else None
    make_judge = make_judge_settings(
        *(judge_name, options),
        named="model" in values,
        recorded=recorded if isinstance(recorded, dict) else None,
    )
    if judge_name == "llm" and not make_judge:
        raise click.UsageError("--judge llm needs --model NAME (or ANNOTATOR_MODEL)")
    if not make_judge:
        explicit = {name for name in options if context.get_parameter_source(name) is _GIVEN}
        note_unused_options(judge_name or "rules", explicit, notice)
    plan = api.plan_ablation(
        *(traces, run, files, values),
        rubric=rubric,
        judge=make_judge or judge_name or "rules",
        out=out,
        max_cost=max_cost,
        concurrency=concurrency,
        batch_file=requests,
        batch_results=results,
        annotators=annotators,
        design=design,
        ledger=ledger,
        cluster=parse_attributes(cluster),
        confidence=confidence,
        seed=draw_seed,
    )
    if dry_run:
        output = {"verbose": verbose, "as_json": as_json}
        show_forecast(plan.forecast(), concurrency, pilot=False, **output)
        return
    text = describe_command(context)
    try:
        with explain_stop():
            result = plan.run(notice, text, resume=resume)
    except Pending as error:
        notice(f"{error}; when answered, the same command with --resume --batch-results FILE")
        return
    put_tables([tabulate(result)], "json" if as_json else "table", verbose=verbose)
    failed = _report_failures(result)
    if not quiet:
        _say_next(plan, result, run.manifest.sources if run else sources, rubric, again=failed)
    if failed:
        raise SystemExit(1)


def _report_failures(result: "Ablation") -> bool:
    """Print why traces failed, by arm; return whether any did."""
    failing = [arm for arm in result.arms if arm.failed]
    for arm in failing:
        annotations = api.open_run(arm.run).annotations(result.rubric)
        head, *lines = api.describe_failures(x for x in annotations if x.status == "failed")
        for line in (f"{arm.name}: {head}", *lines):
            click.echo(wrap_line(escape_controls(line)), err=True)
    return bool(failing)


def _parse_vary(texts: tuple[str, ...]) -> dict[str, list[str]]:
    """Return the values of each key."""
    vary: dict[str, list[str]] = {}
    for text in texts:
        key, equals, values = text.partition("=")
        if not equals or not key.strip():
            raise click.UsageError(f"--vary {text!r}: expected KEY=A,B, such as samples=1,3")
        if key.strip() in vary:
            raise click.UsageError(f"--vary {key}: given twice; name all values in one")
        vary[key.strip()] = [value.strip() for value in values.split(",")]
    return vary


def _say_next(
    plan: api.AblationPlan,
    result: "Ablation",
    sources: Sequence[str],
    rubric_name: str | None,
    *,
    again: bool,
) -> None:
    """Print the commands that may come next. ``again``: --resume judges failed traces again."""
    folder = plan.trial.folder
    say_written(folder / "ablation.json")
    if again:
        command = describe_command(click.get_current_context(), ("resume",))
        click.echo(
            f"next: {escape_controls(command)} --resume    judge failed traces again", err=True
        )
    if result.winner is None:
        return
    varied = plan.varied[result.winner]
    rubric: object = varied.get("rubric", rubric_name or result.rubric)
    rubric = folder / "rubric.yaml" if result.winner in plan.derived else rubric
    source = plan.trial.arms[result.winner].judge
    judge = source if isinstance(source, str) else folder / "judge.yaml"
    arguments = (*name_sources(sources), "--rubric", rubric, "--judge", judge)
    say_next("run", *arguments, purpose="with the winner")
    if result.split == "dev":
        labels = [word for file in plan.request.labels.paths for word in ("--labels", file)]
        say_next("calibrate", "RUN", *labels, "--final", purpose="its agreement, on test labels")
