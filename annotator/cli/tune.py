"""``annotate tune``."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from annotator import api
from annotator.base.errors import Pending
from annotator.base.text import dump_json
from annotator.cli.defaults import load_keys
from annotator.cli.forecast import show_forecast
from annotator.cli.judges import add_model_options, make_judge_settings
from annotator.cli.options import (
    GroupedCommand,
    add_label_options,
    add_option,
    add_reader_options,
    parse_attributes,
    verbose_option,
)
from annotator.cli.output import (
    name_sources,
    put_tables,
    say,
    say_next,
    say_notice,
    say_written,
)
from annotator.cli.progress import Progress
from annotator.cli.trials import explain_stop
from annotator.traces import check_exists, load_traces

if TYPE_CHECKING:
    from annotator import Tuning

_SECTIONS = {
    "Options": "files rubric_name models judge_name base_url out resume final dry_run max_cost"
    " concurrency",
    "How it is tuned": "candidates rounds folds quote_traces seed",
    "Which traces and labels": "reader map_file agent_name redact annotators cluster design ledger",
    "Model": "api_key_env api temperature context samples critic",
    "Limits and money": "rpm tpm price_in price_out prices cached",
    "Batches": "batch batch_file batch_results",
    "Output": "verbose as_json confidence",
}
_PASSED = (
    *("candidates", "rounds", "folds", "quote_traces", "resume", "final", "seed"),
    *("annotators", "design", "ledger", "confidence"),
)


@click.command(
    "tune", cls=GroupedCommand, sections=_SECTIONS, context_settings={"show_default": True}
)
@click.argument("traces", nargs=-1, required=True, metavar="TRACES|RUN")
@add_label_options
@add_option(
    "--rubric NAME|FILE", "The rubric to improve.  [default: the run's]", name="rubric_name"
)
@add_model_options
@add_option(
    "--out DIR",
    "The directory of the new rubric, the result and all runs.",
    click.Path(path_type=Path, file_okay=False),
    required=True,
)
@add_option("--resume", "Go on with what is in --out, which costs nothing again.")
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
@add_option("--concurrency N", "The most calls in flight.", click.IntRange(1, 512), default=8)
@add_reader_options("Read everything as this format. PLUGIN: an installed one, or module:name.")
@add_option("--redact", "Hide e-mail addresses, keys and tokens in the traces.")
@add_option("--dry-run", "Print how many calls and dollars it would take. Call nothing.")
@verbose_option
@add_option("--json", "Print tuning.json.", name="as_json")
def command(
    traces: tuple[str, ...],
    files: tuple[Path, ...],
    rubric_name: str | None,
    judge_name: str | None,
    out: Path,
    format_: str,
    redact: bool,
    concurrency: int,
    dry_run: bool,
    verbose: bool,
    as_json: bool,
    cluster: str,
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
    passed |= {"cluster": parse_attributes(cluster), "concurrency": concurrency}
    names = ("max_cost", "batch_file", "batch_results")
    passed |= {name: options.pop(name) for name in names}
    for source in traces:
        check_exists(source)
    make_judge = make_judge_settings(judge_name, options, named=False)
    judge = make_judge({}) if make_judge else None
    run = api.open_run(traces[0]) if len(traces) == 1 and api.is_run(traces[0]) else None
    loaded = traces[0] if run else load_traces(*traces, format=format_, redact=redact)
    arguments, passed = (loaded, files, rubric_name, judge), passed | {"out": out}
    if dry_run:
        expected = api.forecast_tuning(*arguments, **passed)
        show_forecast(expected, concurrency, verbose=verbose, as_json=as_json, pilot=False)
        return
    try:
        with (
            explain_stop(),
            Progress(lambda: 0, lambda: "", quiet=False, verbose=verbose) as progress,
        ):
            progress.start()
            passed |= {"on_notice": progress.say, "on_progress": progress.show}
            tuning = api.tune(*arguments, **passed)
    except Pending as error:
        say_notice(str(error))
        return
    if as_json:
        say(dump_json(tuning.as_dict(), 1))
    else:
        from annotator.reports.tuning import tabulate_tuning

        put_tables([tabulate_tuning(tuning)], verbose=verbose)
    _say_next(run.manifest.sources if run else traces, files, rubric_name, out, tuning)


def _say_next(
    traces: Sequence[str],
    files: tuple[Path, ...],
    rubric_name: str | None,
    out: Path,
    tuning: "Tuning",
) -> None:
    """Print the commands that may come next."""
    say_written(out / "tuning.json")
    if not tuning.product.changes:
        return
    new, judge = out / "rubric.yaml", out / "judge.yaml"
    say_next("rubric", "diff", rubric_name or tuning.rubric.id, new, purpose="what was changed")
    say_next("run", *name_sources(traces), "--rubric", new, "--judge", judge)
    if tuning.split == "dev" and not tuning.final:
        labels = [word for file in files for word in ("--labels", file)]
        say_next("calibrate", "RUN", *labels, "--final", purpose="once, on the test split")
