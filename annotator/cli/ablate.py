"""``annotate ablate``."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from annotator import api
from annotator.base.text import escape_controls, wrap_line
from annotator.cli.defaults import load_keys
from annotator.cli.judges import (
    add_judge_options,
    is_given,
    make_judge_settings,
    note_unused_options,
    say_again,
)
from annotator.cli.options import GroupedCommand, add_draw_seed, add_label_options, add_option
from annotator.cli.output import name_sources, say_next, say_written
from annotator.cli.trials import TrialOptions, add_trial_options
from annotator.reports.ablation import tabulate

if TYPE_CHECKING:
    from annotator import Ablation

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
    " base. KEY: rubric, model, samples, critic (none, same, MODEL), examples (on, off), judge"
    " (llm, rules, PLUGIN), or any name of a judge file, such as facts, considered, rubric_last.",
    required=True,
)
@add_judge_options
@add_trial_options
@add_draw_seed("The seed of resampled intervals and folds.")
def command(
    sources: tuple[str, ...],
    files: tuple[Path, ...],
    vary: tuple[str, ...],
    judge_name: str | None,
    annotators: tuple[str, ...],
    design: Path | None,
    ledger: Path | None,
    draw_seed: int,
    trial: TrialOptions,
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
    load_keys()
    traces, run = api.open_traces(sources, trial.format_)
    limits = {name: options.pop(name) for name in ("max_cost", "batch_file", "batch_results")}
    values = _parse_vary(vary)
    judge = make_judge_settings(judge_name, options, run, named="model" in values)
    if judge_name == "llm" and not judge:
        raise click.UsageError("--judge llm needs --model NAME (or ANNOTATOR_MODEL)")
    if not judge:
        unused = {name for name in options if is_given(name)}
        note_unused_options(judge_name or "rules", unused, trial.notice)
    measured = {"annotators": annotators, "design": design, "ledger": ledger, "seed": draw_seed}
    plan = api.plan_ablation(
        *(traces, run, files, values, trial.rubric, judge or judge_name or "rules"),
        **trial.shared | limits | measured,
    )
    result = trial.execute(plan, trial.notice)
    if not result:
        return
    trial.put([tabulate(result)])
    failed = _report_failures(result)
    if not trial.quiet:
        _say_next(plan, result, run.manifest.sources if run else sources, trial, again=failed)
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
    trial: TrialOptions,
    *,
    again: bool,
) -> None:
    """Print the commands that may come next. ``again``: --resume judges failed traces again."""
    say_written(trial.out / "ablation.json")
    if again:
        say_again("--resume", ("resume",), "judge failed traces again")
    if result.winner is None:
        return
    arm = plan.trial.arms[result.winner]
    rubric: object = arm.values.get("rubric", trial.rubric or result.rubric)
    if arm.values.get("examples") == "off":
        rubric = trial.out / "rubric.yaml"
    judge = arm.judge if isinstance(arm.judge, str) else trial.out / "judge.yaml"
    arguments = (*name_sources(sources), "--rubric", rubric, "--judge", judge)
    say_next("run", *arguments, purpose="with the winner")
    if result.split == "dev":
        labels = [word for file in plan.request.labels.paths for word in ("--labels", file)]
        say_next("calibrate", "RUN", *labels, "--final", purpose="its agreement, on test labels")
