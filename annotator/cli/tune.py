"""``annotate tune``."""

from pathlib import Path
from typing import Any

import click

from annotator import api
from annotator.base.errors import BudgetReached, Pending
from annotator.base.text import dump_json, format_count, wrap_line
from annotator.cli.defaults import load_keys
from annotator.cli.judges import add_model_options, choose_judge
from annotator.cli.options import (
    PATH,
    GroupedCommand,
    Number,
    add_option,
    add_reader_options,
    parse_attributes,
    task_option,
    verbose_option,
)
from annotator.cli.output import name_sources, put_tables, say, say_next, say_notice
from annotator.traces import load_traces

_SECTIONS = {
    "Options": "files rubric_name models judge_name base_url out resume final dry_run max_cost"
    " concurrency",
    "How it is tuned": "candidates rounds folds quote_traces seed",
    "Which traces and labels": "reader map_file agent_name redact annotators cluster design ledger",
    "Model": "api_key_env api temperature context samples",
    "Limits and money": "rpm tpm price_in price_out prices cached",
    "Batches": "batch batch_file batch_results",
    "Output": "verbose as_json confidence",
}


@click.command(
    "tune", cls=GroupedCommand, sections=_SECTIONS, context_settings={"show_default": True}
)
@click.argument("traces", nargs=-1, required=True, metavar="TRACES|RUN")
@add_option(
    "--labels FILE...", "People's labels, as of annotate calibrate.", PATH, name="files",
    required=True,
)
@add_option("--rubric NAME|FILE", "The rubric to improve.", name="rubric_name")
@add_model_options
@add_option(
    "--out DIR",
    "The directory of the result, and of the runs that it rests on.",
    click.Path(path_type=Path, file_okay=False),
    required=True,
)
@add_option("--resume", "Go on with what is in --out; answers that are there cost nothing.")
@add_option("--final", "Then open the test split once (labels with a split).")
@add_option("--candidates N", "The most changes to try in a round.", click.IntRange(1, 20), default=6)
@add_option("--rounds N", "How often to propose changes.", click.IntRange(1, 10), default=1)
@add_option("--folds N", "The folds of tasks that check it.", click.IntRange(2, 20), default=4)
@add_option("--quote-traces", "Let examples quote labelled traces.")
@add_option("--seed N", "Of folds and resampled intervals.", click.IntRange(0), default=0)
@add_option("--concurrency N", "The most calls in flight.", click.IntRange(1, 512), default=8)
@add_reader_options("Read everything as this format. PLUGIN: an installed one, or module:name.")
@add_option("--redact", "Hide e-mail addresses, keys and tokens in the traces.")
@add_option("--annotator NAME...", "Whose labels decide, as of calibrate.", name="annotators")
@task_option
@add_option("--design FILE", "The design that annotate sample wrote.", PATH)
@add_option("--ledger FILE", "The file that notes each look.", PATH)
@add_option("--confidence LEVEL", type=Number(0.5, 0.9999), default=0.95)
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

    A model names the clauses on which the judge and people differ, and proposes changes of single
    clauses. A change is kept if it helps on tasks that did not propose it. The printed gain is that
    of the whole procedure on tasks that it did not see. Labels of the test split stay closed
    without --final.

    Exit codes: 0 done, or a stage waits for answers in files; 2 wrong usage or unreadable input;
    3 stopped before --max-cost was exceeded.
    """
    load_keys()
    names = ("candidates", "rounds", "folds", "quote_traces", "resume", "final", "seed")
    names = (*names, "annotators", "design", "ledger", "confidence")
    passed = {name: options.pop(name) for name in names}
    passed |= {"cluster": parse_attributes(cluster), "concurrency": concurrency}
    source, rubric, judge = _find_base(traces, rubric_name, judge_name, options)
    ...
