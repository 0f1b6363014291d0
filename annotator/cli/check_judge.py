"""``annotate check-judge``."""

from pathlib import Path
from typing import Any

import click

from annotator import api
from annotator.cli.defaults import load_keys
from annotator.cli.judges import add_judge_options, make_judge_settings
from annotator.cli.options import (
    MISSED,
    PATH,
    UNDECIDED,
    GroupedCommand,
    Number,
    add_draw_seed,
    add_option,
)
from annotator.cli.output import name_sources, say_next, say_written
from annotator.cli.trials import TrialOptions, add_trial_options
from annotator.reports.digits import format_limits, format_percent
from annotator.reports.stability import tabulate

_SECTIONS = {
    "Options": "n variants paraphrase rubric models judge_name base_url out resume dry_run"
    " max_cost concurrency max_flips",
    "Which traces": "reader map_file agent_name",
    "Model": "api_key_env api temperature seed context samples critic",
    "Limits and money": "rpm tpm price_in price_out prices cached",
    "Batches": "batch_file batch_results",
    "Output": "verbose quiet as_json cluster confidence draw_seed",
}


@click.command(
    "check-judge", cls=GroupedCommand, sections=_SECTIONS, context_settings={"show_default": True}
)
@click.argument("sources", nargs=-1, required=True, metavar="RUN|TRACES...")
@add_option("-n,--n N", "The number of random traces.", click.IntRange(1), default=40)
@add_option(
    "--variants LIST",
    "The ways to ask again: again (the same), order (of the codes), layout (rubric before or after"
    " the trace), paraphrase (of the rubric), short (70 % of the trace).",
    default=",".join(api.VARIANTS),
)
@add_option(
    "--paraphrase FILE",
    "The rubric in other words.  [default: the model writes it, in one call]",
    PATH,
)
@add_judge_options
@add_trial_options
@add_option(
    "--max-flips SHARE",
    "Exit code 1 if a larger share of traces gets other codes in some variant. A code is stable up"
    " to this share of flips (default: 0.2).",
    Number(0, 1, min_open=True, max_open=True),
)
@add_draw_seed("The seed of the drawn traces, the order of the codes, and resampled intervals.")
def command(
    sources: tuple[str, ...],
    n: int,
    variants: str,
    paraphrase: Path | None,
    judge_name: str | None,
    max_flips: float | None,
    draw_seed: int,
    trial: TrialOptions,
    **options: Any,
) -> None:
    """Ask a judge again in ways that should not matter: do the codes stay the same?

    \b
    annotate check-judge runs/first --out check

    Random traces of RUN are judged again: the same once more, with the codes in another order, the
    rubric after the trace, the rubric in other words, and a part of the trace. The table counts the
    codes that flip. It needs no labels, and says nothing about whether the judge is right.

    Exit codes: 0 done, or the requests are written; 1 more than --max-flips; 2 wrong usage or
    unreadable input; 3 stopped before --max-cost was exceeded; 4 the traces do not decide whether
    it is more than --max-flips; 130 interrupted.
    """
    load_keys()
    traces, run = api.open_traces(sources, trial.format_)
    limits = {name: options.pop(name) for name in ("max_cost", "batch_file", "batch_results")}
    judge = make_judge_settings(judge_name, options, run)
    plan = api.plan_check(
        *(traces, run, trial.rubric, judge({}) if judge else judge_name),
        resume=trial.resume,
        n=n,
        variants=[name.strip() for name in variants.split(",")],
        paraphrase=paraphrase,
        maximum=0.2 if max_flips is None else max_flips,
        seed=draw_seed,
        **trial.shared | limits,
    )
    result = trial.execute(plan, trial.notice)
    if not result:
        return
    trial.put(tabulate(result))
    say_written(trial.out / "check.json")
    if plan.paraphrase_file.exists():
        trial.notice(f"{plan.paraphrase_file}: read whether it says the same as the rubric")
    labelled = name_sources(sources) if run else ("RUN",)
    say_next("sample", *labelled, "-n", 60, purpose="labels say whether the judge is right")
    if max_flips is not None:
        outcome = result.check(max_flips)
        same = f"same codes in {format_percent(result.same)} % {format_limits(result.same)}"
        click.echo(f"flips in at most {100 * max_flips:g} %: {outcome}, {same}", err=True)
        if outcome != "met":
            raise SystemExit(MISSED if outcome == "missed" else UNDECIDED)
