"""``annotate tune``."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from annotator import api
from annotator.base.text import dump_json
from annotator.cli.defaults import load_keys
from annotator.cli.judges import add_model_options, make_judge_settings
from annotator.cli.options import GroupedCommand, add_label_options, add_option
from annotator.cli.output import name_sources, say, say_next, say_written
from annotator.cli.progress import Progress
from annotator.cli.trials import TrialOptions, add_trial_options
from annotator.reports.tuning import tabulate_tuning

if TYPE_CHECKING:
    from annotator import Tuning

_SECTIONS = {
    "Options": "files rubric models judge_name base_url out resume final dry_run max_cost"
    " concurrency",
    "How it is tuned": "candidates rounds folds quote_traces seed",
    "Which traces and labels": "reader map_file agent_name redact annotators cluster design ledger",
    "Model": "api_key_env api temperature context samples critic",
    "Limits and money": "rpm tpm price_in price_out prices cached",
    "Batches": "batch batch_file batch_results",
    "Output": "verbose quiet as_json confidence",
}
_PASSED = (
    *("candidates", "rounds", "folds", "quote_traces", "final", "seed"),
    *("annotators", "design", "ledger", "max_cost", "batch_file", "batch_results"),
)


@click.command(
    "tune", cls=GroupedCommand, sections=_SECTIONS, context_settings={"show_default": True}
)
@click.argument("traces", nargs=-1, required=True, metavar="TRACES|RUN")
@add_label_options
@add_model_options
@add_trial_options
@add_option("--final", "Also compare both rubrics on the test split, once.")
@add_option(
    "--candidates N", "The most changes to try, in each round.", click.IntRange(1, 20), default=6
)
@add_option("--rounds N", "How often to propose changes.", click.IntRange(1, 10), default=1)
@add_option(
    "--folds N",
    "How often to tune without some of the tasks, to measure the gain.",
    click.IntRange(2, 20),
    default=4,
)
@add_option("--quote-traces", "Allow examples that quote labelled traces.")
@add_option("--seed N", "The seed of the folds.", click.IntRange(0), default=0)
@add_option("--redact", "Hide e-mail addresses, keys and tokens in the traces.")
def command(
    traces: tuple[str, ...],
    files: tuple[Path, ...],
    judge_name: str | None,
    redact: bool,
    trial: TrialOptions,
    **options: Any,
) -> None:
    """Improve a rubric on people's labels of TRACES, and say whether that helped.

    \b
    annotate tune traces/ --labels labels.jsonl --rubric symptoms \\
      --model gpt-5 --out tuned

    A model reads where the judge and people differ, and proposes changes of single clauses. A
    change is kept if it helps on other tasks than those it comes from. The printed gain is measured
    on tasks that took no part in the tuning. Labels of the test split stay closed without --final.

    Exit codes: 0 done, or a stage waits for answers in files; 2 wrong usage or unreadable input;
    3 stopped before --max-cost was exceeded.
    """
    load_keys()
    passed = {name: options.pop(name) for name in _PASSED}
    loaded, run = api.open_traces(traces, trial.format_, redact=redact)
    judge = make_judge_settings(judge_name, options, run)
    progress = Progress(lambda: 0, lambda: "", quiet=trial.quiet, verbose=trial.verbose)
    plan = api.plan_tuning(
        *(loaded, run, files, trial.rubric, judge({}) if judge else judge_name),
        on_progress=progress.show,
        **trial.shared | passed,
    )
    with progress:
        if not trial.dry_run:
            progress.start()
        tuning = trial.execute(plan, trial.notice if trial.quiet else progress.say)
    if not tuning:
        return
    if trial.as_json:
        say(dump_json(tuning.as_dict(), 1))
    else:
        trial.put([tabulate_tuning(tuning)])
    _say_next(run.manifest.sources if run else traces, files, trial, tuning)


def _say_next(
    traces: Sequence[str],
    files: tuple[Path, ...],
    trial: TrialOptions,
    tuning: "Tuning",
) -> None:
    """Print the commands that may come next."""
    out = trial.out
    say_written(out / "tuning.json")
    if not tuning.product.changes:
        return
    new, judge = out / "rubric.yaml", out / "judge.yaml"
    say_next("rubric", "diff", trial.rubric or tuning.rubric.id, new, purpose="what was changed")
    say_next("run", *name_sources(traces), "--rubric", new, "--judge", judge)
    if tuning.split == "dev" and not tuning.final:
        labels = [word for file in files for word in ("--labels", file)]
        say_next("calibrate", "RUN", *labels, "--final", purpose="once, on the test split")
