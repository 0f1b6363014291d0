"""``annotate export``."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from annotator import api
from annotator.base.remote import name_place
from annotator.base.text import escape_controls, format_count, list_first, sanitize_line
from annotator.cli.defaults import load_keys
from annotator.cli.options import PATH, add_option
from annotator.cli.output import say, say_next, say_notice, say_partial
from annotator.cli.tables import open_runs
from annotator.exports import SCORE_TARGETS, TARGETS

if TYPE_CHECKING:
    from annotator.exports.scores import Written
    from annotator.exports.send import Sent

_RECORDS = {"labelstudio": "task", "hub": "annotation"}
_ONLY = {
    **dict.fromkeys(("url", "api_key_env", "id_attribute"), SCORE_TARGETS),
    **dict.fromkeys(("rubric", "sheet", "rater"), ("labelstudio",)),
}


@click.command("export")
@click.argument("run", type=PATH)
@add_option("--to", "The tool.", click.Choice(TARGETS), required=True)
@add_option("--out FILE", "Where to write.  [default: RUN/TOOL.jsonl, .json or RUN/hub]", PATH)
@add_option("--url URL", "Send the scores to this server, too. Nothing is sent without it.")
@add_option(
    "--api-key-env NAME",
    "The environment variable with the key.  [default: LANGFUSE_SECRET_KEY with"
    " LANGFUSE_PUBLIC_KEY, PHOENIX_API_KEY, MLFLOW_TRACKING_PASSWORD or _TOKEN]",
)
@add_option(
    "--id-attribute NAME",
    "The attribute with a trace's id in the tool.  [default: the id in the tool's own export]",
)
@add_option("--rubric NAME|FILE", "For labelstudio: the rubric.  [default: the run's]")
@add_option("--sheet FILE", "For labelstudio: the sheet of annotate sample.", PATH)
@add_option(
    "--rater N", "Of a sheet: the rows for the first or second person.", click.IntRange(1, 2)
)
def command(run: Path, to: Any, out: Path | None, **options: Any) -> None:
    """Write the results of RUN for another tool, or send them to it.

    langfuse, phoenix and mlflow get a score for each code of each judged trace, with its quotes.
    labelstudio gets traces for people to label, without the judge's codes. hub is a folder that
    datasets.load_dataset reads, with a data set card.
    """
    values = {name: value for name, value in options.items() if value is not None}
    for name in values:
        if to not in _ONLY[name]:
            flag = f"--{name.replace('_', '-')}"
            raise click.UsageError(f"{flag} is for --to {', '.join(_ONLY[name])}; not {to}")
    if "api_key_env" in values and "url" not in values:
        raise click.UsageError("--api-key-env needs --url URL: nothing is sent without it")
    load_keys()
    [opened] = open_runs([run])
    say_partial([opened])
    result = api.export(opened, to, out, on_notice=say_notice, **values)
    path = escape_controls(name_place(result.path))
    say(f"{path}: {format_count(result.records, _RECORDS.get(to, 'score'))}")
    if result.written:
        _say_left_out(result.written)
    if result.sent:
        _say_sent(result.sent)
    elif to in SCORE_TARGETS:
        arguments = [str(run), "--to", to, *(("--out", str(out)) if out else ())]
        if attribute := values.get("id_attribute"):
            arguments += ["--id-attribute", attribute]
        say_next("export", *arguments, "--url", "URL", purpose="sends them")
    if to == "labelstudio":
        page = escape_controls(name_place(result.path.with_suffix(".xml")))
        say(f"{page}: the labelling configuration of the project")
        say_next("calibrate", run, "--labels", "EXPORT.json", purpose="with Label Studio's export")
    if to == "hub":
        say("License and citation are yours to fill in: README.md says where.")
        upload = shlex.join(
            ["hf", "upload", "ORG/NAME", str(result.path), "--repo-type", "dataset"]
        )
        click.echo(f"next: {escape_controls(upload)}", err=True)
    if result.sent and result.sent.refused:
        raise SystemExit(1)


def _say_left_out(written: "Written") -> None:
    if written.left_out:
        counts = ", ".join(f"{n} {status}" for status, n in sorted(written.left_out.items()))
        say(f"  no score (which is not 0): {counts}")
    if written.open_codes:
        codes = list_first(written.open_codes, 5)
        say_notice(f"  no score of 0 for codes that the judge cannot rule out: {codes}")


def _say_sent(sent: "Sent") -> None:
    before = f", {sent.before} earlier" if sent.before else ""
    say(f"  {sent.accepted} accepted{before}, {len(sent.refused)} refused")
    refused: Sequence[tuple[str, str, str]] = sent.refused[:10]
    for name, trace_id, reason in refused:
        say_notice(f"  refused: {sanitize_line(name)} of {sanitize_line(trace_id)}: {reason}")
    if len(sent.refused) > len(refused):
        say_notice(f"  and {len(sent.refused) - len(refused)} more")
