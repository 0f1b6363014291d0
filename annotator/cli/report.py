"""``annotate report``: its options, its formats, and which of them go together."""

import os
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from annotator import api
from annotator.base.remote import name_place
from annotator.base.text import sanitize_line
from annotator.cli.defaults import load_keys
from annotator.cli.options import (
    PATH,
    GroupedCommand,
    PluginChoice,
    add_option,
    add_page_options,
    add_table_options,
    parse_attributes,
    verbose_option,
)
from annotator.cli.output import put_tables, say_notice, say_partial, say_written
from annotator.cli.tables import TableRequest, open_request, open_runs, put_methods
from annotator.reports import table

if TYPE_CHECKING:  # statistics are slow to import
    from annotator.reports.mechanisms import Mechanisms


def _write_parquet(request: TableRequest, path: Path) -> None:
    from annotator.reports.formats import parquet

    parquet.write(request.count(), path)


def _write_dataset(request: TableRequest, path: Path) -> None:
    from annotator.runs.dataset import write_dataset

    write_dataset(request.runs, path)
    say_partial(request.runs)


def _write_page(request: TableRequest, path: Path) -> None:
    from annotator.base.files import NewFile
    from annotator.web.file import COMFORTABLE, write_report

    with NewFile(path, private=True) as file, TextIOWrapper(file, "utf-8", newline="") as out:
        total, unread = write_report(out, request.select_pages())
    if unread:
        say_notice(f"{unread} traces without their texts, which cannot be read (--traces)")
    if total > COMFORTABLE:
        say_notice(f"{total} annotations in one file open slowly; annotate view shows any number")


_WRITERS = {"html": _write_page, "parquet": _write_parquet, "dataset": _write_dataset}
_SHARES = frozenset(("--out", "--cluster", "--by", "--no-calibration"))
_CORRECTED = _SHARES | {"--calibration", "--transfer", "--joint"}
_PEOPLE = frozenset(("--labels", "--annotator", "--traces", "--rubric", "--final", "--design"))
_ROWS = frozenset(("--sort", "--meanings"))
_MECHANISMS = frozenset(("--mechanisms", "--out", "--cluster", "--rubric", "--model", "--base-url"))
_NUMBERS = _CORRECTED | _PEOPLE | {"--of-labelled", "--co-occurrence", "--where", *_MECHANISMS}
# Which options go with a format, or with an option that decides the table.
_GOES_WITH = {
    "--format csv": _NUMBERS,
    "--format json": _NUMBERS,
    "--format html": _CORRECTED
    | {"--labels", "--annotator", "--traces", "--no-facts", *_MECHANISMS},
    "--format parquet": _NUMBERS - {"--co-occurrence", "--mechanisms", "--where"},
    "--format dataset": frozenset(("--out",)),
    "--format": _NUMBERS | _ROWS | {"--methods"},  # all others are text
    "--methods": _CORRECTED,
    "--mechanisms": _MECHANISMS,
    "--where": frozenset(("--out", "--cluster")),
    "--co-occurrence": frozenset(("--out", "--no-calibration")),
    "--of-labelled": _SHARES | _PEOPLE | _ROWS,
    "--labels": _SHARES | _PEOPLE | _ROWS | {"--of-labelled"},
}


_SECTIONS = {
    "Options": "format_ out verbose sort meanings calibration_files methods groups by",
    "Shares and intervals": "cluster transfer joint of_labelled no_calibration",
    "More tables": "co_occurrence where code model base_url",
    "Labels and pages": "label_files annotators rubrics final design traces no_facts",
}


@click.command(
    "report", cls=GroupedCommand, sections=_SECTIONS, context_settings={"show_default": True}
)
@click.argument("runs", nargs=-1, type=PATH)
@add_option(
    "--format",
    "The format of the report. PLUGIN: an installed one, or module:name.",
    PluginChoice("formats", [*table.FORMATS, *_WRITERS]),
    name="format_",
    default="table",
)
@add_table_options
@add_option(
    "--of-labelled", "Shares of the labelled traces alone; those without a failure are in no share."
)
@add_option(
    "--sort",
    "The largest share first, or the codes in the order of the rubric.  [default: share in a"
    " brief table, else rubric]",
    click.Choice(["share", "rubric"]),
)
@add_option("--meanings", "Add the first sentence of each code's definition.")
@add_option(
    "--methods",
    "Print the paragraph on methods for a paper instead of the tables; with --by one on what"
    " all groups share, and one for each. With --format md or latex, too.",
)
@add_option("--co-occurrence", "Count how often one trace has two codes.")
@add_option(
    "--where",
    "Count which agent caused the failure, at which it shows, and in which third of the run."
    " Needs a rubric with attribution.",
)
@add_option(
    "--mechanisms CODE",
    "Group the findings of CODE by their rationales: the three to eight commonest ways in which it"
    " happens, with quotes.",
    name="code",
)
@add_option(
    "--model NAME|FILE.yaml",
    "With --mechanisms: a model, or a judge file, that names the groups in one call.",
)
@add_option("--base-url URL", "With --model: an OpenAI-compatible endpoint.")
@add_option(
    "--out PATH",
    "Where to write.  [default: stdout; html, parquet and dataset: RUN/report.FORMAT]",
    PATH,
)
@add_page_options
@verbose_option
@add_option(
    "--rubric NAME|FILE...",
    "With --labels or --mechanisms: only this rubric.  [default: every rubric with labels]",
    name="rubrics",
)
@add_option("--final", "With --labels: count the test split, which is held out.")
@add_option(
    "--design FILE",
    "With --labels: the design that annotate sample wrote, for its inclusion probabilities.",
    PATH,
)
def command(
    runs: tuple[Path, ...],
    format_: str,
    co_occurrence: bool,
    where: bool,
    out: Path | None,
    verbose: bool,
    methods: bool,
    no_calibration: bool,
    groups: tuple[str, ...],
    **options: Any,
) -> None:
    """Print the frequency tables of RUNS (run directories), one for each rubric; or write them with
    every trace and finding into one page (--format html).

    The shares are corrected by RUN/calibration.json, if annotate calibrate has written it and it
    fits. With --labels FILE it counts people's labels instead: those of the traces in RUNS, or
    without RUNS all.
    """
    can_correct = _check_options(runs, format_)
    code, model, base_url = (options.pop(name) for name in ("code", "model", "base_url"))
    if code:
        result = _find_mechanisms(runs, groups, code, model, base_url, **options)
        if format_ == "html" and not out:
            out = runs[0] / f"mechanisms-{code}.html"
        put_tables([result.table()], format_, out, verbose=verbose)
        return
    writer = _WRITERS.get(format_)
    request = open_request(runs, groups, no_calibration, corrected=can_correct, **options)
    if methods:
        put_methods(request, format_, out)
    elif writer:
        path = out or runs[0] / f"report.{format_}"
        writer(request, path)
        say_written(path)
        if format_ == "html":
            click.echo(f"next: open {sanitize_line(name_place(path), 1000)} in a browser", err=True)
    elif co_occurrence:
        tables = api.count_together(*request.runs, on_notice=say_notice)
        put_tables(tables, format_, out, verbose=verbose)
    elif where:
        by = {} if request.cluster_by is None else {"cluster": request.cluster_by}
        tables = api.count_causes(*request.runs, on_notice=say_notice, **by)
        put_tables(tables, format_, out, verbose=verbose)
    else:
        put_tables(request.count(), format_, out, verbose=verbose)


def _find_mechanisms(
    runs: Sequence[Path],
    groups: Sequence[str],
    code: str,
    model: str | None,
    base_url: str | None,
    *,
    cluster: str | None,
    rubrics: Sequence[str],
    **_: Any,
) -> "Mechanisms":
    if len(runs) != 1 or len(rubrics) > 1:
        raise click.UsageError("--mechanisms needs one RUN, and at most one --rubric")
    [run] = open_runs(runs, groups)
    if model:
        load_keys()
    settings: Any = model
    base_url = base_url or os.environ.get("OPENAI_BASE_URL")
    if model and base_url and not model.endswith((".yaml", ".yml")):
        settings = {"model": model, "base_url": base_url}
    by = {} if cluster is None else {"cluster": parse_attributes(cluster)}
    rubric = rubrics[0] if rubrics else None
    return api.find_mechanisms(run, code, rubric=rubric, model=settings, on_notice=say_notice, **by)


def _check_options(runs: tuple[Path, ...], format_: str) -> bool:
    """Return whether a calibration changes the report; refuse options that do not go together."""
    context = click.get_current_context()
    values = {
        option.opts[0]: context.params[option.name or ""] for option in context.command.params
    }
    flags = {flag for flag, value in values.items() if value and flag[:2] == "--"}
    flags -= {"--format", "--group", "--verbose"}
    form = f"--format {format_}"
    counts_labels = "--labels" in flags and format_ != "html"  # a page shows them
    kinds = flags & {"--methods", "--co-occurrence", "--of-labelled", "--mechanisms", "--where"}
    kinds |= {"--labels"} if counts_labels else set()
    rules = {form: _GOES_WITH.get(form, _GOES_WITH["--format"])}
    rules |= {kind: _GOES_WITH[kind] | {kind} for kind in sorted(kinds)}
    for kind, goes_with in rules.items():
        if wrong := sorted(flags - goes_with):
            names = ", ".join(sorted(goes_with - {kind}))
            raise click.UsageError(f"{kind} goes with {names}; not with {wrong[0]}")
    if needing := sorted(flags & (_PEOPLE - {"--annotator"})):
        if not flags & {"--labels", "--mechanisms"} and format_ != "html":
            raise click.UsageError(f"{needing[0]} needs --labels FILE")
        if counts_labels and runs and "--traces" in flags:
            raise click.UsageError("--traces is for labels without RUNS, which know their traces")
    if values["--group"] and not runs:
        raise click.UsageError("--group needs RUNS: it is about their traces")
    if not runs and not counts_labels:
        raise click.UsageError("RUNS is missing (or give --labels FILE, to count people's labels)")
    if flags & {"--model", "--base-url"} and not values["--mechanisms"]:
        raise click.UsageError("--model and --base-url go with --mechanisms CODE: no call without")
    if format_ in _WRITERS and not values["--out"] and (len(runs) != 1 or counts_labels):
        raise click.UsageError(f"--format {format_} needs --out PATH here")
    return all("--calibration" in goes_with for goes_with in rules.values())
