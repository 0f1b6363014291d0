"""``annotate anchor``."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from annotator import api
from annotator.base.errors import AnnotatorError
from annotator.base.text import format_count
from annotator.cli.defaults import load_keys
from annotator.cli.judges import add_judge_options, is_given, make_judge_settings
from annotator.cli.options import (
    MISSED,
    GroupedCommand,
    Number,
    add_draw_seed,
    add_option,
    concurrency_option,
    parse_attributes,
    task_option,
    verbose_option,
)
from annotator.cli.output import put_tables, say_next, say_notice, say_written
from annotator.cli.trials import execute_or_forecast

_SECTIONS = {
    "Options": "n asks rubric out resume dry_run max_cost concurrency",
    "The judge, if run.json does not keep all of it": "judge_name models base_url api_key_env api"
    " temperature seed context samples critic",
    "Limits and money": "rpm tpm price_in price_out prices cached",
    "Batches": "batch_file batch_results",
    "Output": "verbose quiet as_json cluster confidence draw_seed",
}
_FREEZING = {
    **{"n": "-n", "asks": "--asks", "rubric": "--rubric"},
    **{"out": "--out", "draw_seed": "--draws-seed"},
}
_TRIAL = ("max_cost", "batch_file", "batch_results")


@click.command(
    "anchor", cls=GroupedCommand, sections=_SECTIONS, context_settings={"show_default": True}
)
@click.argument("source", metavar="RUN|ANCHORS")
@add_option("-n,--n N", "The number of random traces to freeze.", click.IntRange(1), default=60)
@add_option(
    "--asks K",
    "How often each trace is asked again when it is frozen. More find a drift sooner.",
    click.IntRange(0, 20),
    default=api.ASKS,
)
@add_option("--rubric NAME|FILE", "The rubric.  [default: the run's]")
@add_option(
    "--out DIR",
    "The directory of the anchors.",
    click.Path(path_type=Path, file_okay=False),
)
@add_option("--resume", "Go on with a look, or with freezing, that was stopped.")
@add_option("--dry-run", "Print how many dollars and minutes it would take. Call nothing.")
@concurrency_option
@add_judge_options
@task_option
@add_option(
    "--confidence LEVEL",
    "Of the intervals. A drift is shown if p is at most 1 - LEVEL.",
    Number(0.5, 0.9999),
    default=0.95,
)
@add_draw_seed("The seed of the drawn traces.")
@add_option("--quiet", "No notices.")
@verbose_option
@add_option("--json", "Print the result as JSON.", name="as_json")
def command(
    source: str,
    n: int,
    asks: int,
    rubric: str | None,
    out: Path | None,
    resume: bool,
    dry_run: bool,
    judge_name: str | None,
    concurrency: int,
    cluster: str,
    confidence: float,
    draw_seed: int,
    quiet: bool,
    verbose: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Freeze a judge's answers to some traces, and ask again later: does it still answer the same?

    \b
    annotate anchor runs/first --out anchors     freezes 60 random traces of the run
    annotate anchor anchors                      asks them again (a look): did the judge drift?

    The model behind a name may change. A difference between two runs may then be the judge's.
    annotate run --anchors DIR asks before it judges. Answers in the cache are not used.

    Exit codes: 0 no drift shown, frozen, or the requests are written; 1 drift shown; 2 wrong usage
    or unreadable input; 3 stopped before --max-cost was exceeded; 130 interrupted.
    """
    load_keys()
    limits: dict[str, Any] = {name: options.pop(name) for name in _TRIAL}
    limits["concurrency"] = concurrency
    about: dict[str, Any]
    if api.is_anchors(source):
        for name, option in _FREEZING.items():
            if is_given(name):
                raise click.UsageError(f"{option} is for new anchors; {source} has them already")
        judge = _make_judge(judge_name, options, api.open_anchors(source).base)
        about = {"cluster": parse_attributes(cluster), "confidence": confidence}
        plan = api.plan_look(source, judge, **about, **limits)
    else:
        if not api.is_run(source):
            raise AnnotatorError(f"{source}: neither a run directory nor anchors")
        judge = _make_judge(judge_name, options, api.open_run(source))
        if not out:
            raise click.UsageError("--out DIR is missing: the directory of the new anchors")
        about = {"out": out, "n": n, "asks": asks, "seed": draw_seed}
        plan = api.plan_anchors(source, rubric, judge, **about, **limits)
    how = {"dry_run": dry_run, "resume": resume, "verbose": verbose, "as_json": as_json}
    notice: Callable[[str], None] = (lambda text: None) if quiet else say_notice
    drift = execute_or_forecast(plan, notice, concurrency, **how)
    if isinstance(drift, api.Anchors):
        traces, answers = len(drift.trace_ids), format_count(drift.frozen, "answer")
        say_notice(f"{format_count(traces, 'trace')} with {answers} each in {out}")
        say_next("anchor", out, purpose="asks them again, on another day")
    elif drift:
        from annotator.reports.drift import tabulate

        put_tables(tabulate(drift), "json" if as_json else "table", verbose=verbose)
        say_written(plan.anchors.folder / "drift.json")
        if drift.drifted:
            raise SystemExit(MISSED)


def _make_judge(name: str | None, options: Mapping[str, Any], run: api.Run) -> Any:
    make = make_judge_settings(name, options, run)
    return make({}) if make else name
