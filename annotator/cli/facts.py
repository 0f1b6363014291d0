"""``annotate facts``."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import click

from annotator.base.errors import AnnotatorError
from annotator.base.text import dump_json, sanitize_line
from annotator.cli.choices import reader_option
from annotator.cli.output import say
from annotator.cooperbench.facts import Fact
from annotator.cooperbench.facts.registry import KINDS, draw_facts
from annotator.reports.formats.text import align_lines
from annotator.traces import Trace, read_traces


@click.command("facts", context_settings={"show_default": True})
@click.argument("traces", nargs=-1, metavar="TRACES...")
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    metavar="KIND",
    help="Only facts of this kind; may be given several times. --kinds lists them.",
)
@click.option("--kinds", "list_kinds", is_flag=True, help="List the kinds and their meanings.")
@reader_option("Of TRACES.")
@click.option("--summary", is_flag=True, help="Count them by kind: facts, and traces with one.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def command(
    traces: tuple[str, ...],
    kinds: tuple[str, ...],
    list_kinds: bool,
    format_: str,
    summary: bool,
    as_json: bool,
) -> None:
    """Print what a program can establish about TRACES: facts, each with its passages.

    No judge is asked, and nothing is called an error: that is what rubrics are for. Exit code 1 if
    a trace cannot be read; it is listed and left out.
    """
    if list_kinds:
        width = max(map(len, KINDS))
        say("\n".join(f"{kind.ljust(width)}  {meaning}" for kind, meaning in KINDS.items()))
        return
    if not traces:
        raise click.UsageError("TRACES are missing: folders, files, globs or hf://org/name")
    for kind in kinds:
        if kind not in KINDS:
            raise click.UsageError(f"--kind {kind!r}: no such kind; --kinds lists them")
    shown = kinds or tuple(KINDS)
    facts: Counter[str] = Counter()
    holding: Counter[str] = Counter()
    read = unreadable = 0
    for trace in read_traces(traces, format_):
        if not isinstance(trace, Trace):
            click.echo(f"{sanitize_line(trace.path)}: {sanitize_line(trace.reason)}", err=True)
            unreadable += 1
            continue
        read += 1
        chosen = [fact for fact in draw_facts(trace) if fact.kind in shown]
        if summary:
            facts.update(fact.kind for fact in chosen)
            holding.update({fact.kind for fact in chosen})
            continue
        lines = list(_json(trace, chosen) if as_json else _text(trace, chosen))
        if lines and not say("\n".join(lines)):
            return
    if not read:
        raise AnnotatorError(f"no trace could be read in {', '.join(traces)}")

    if summary:
        counts = [(kind, facts[kind], holding[kind]) for kind in dict.fromkeys(shown)]
        say(_summary_json(counts, read) if as_json else _summary(counts, read))
    if unreadable:
        raise SystemExit(1)


def _summary(counts: Sequence[tuple[str, int, int]], traces: int) -> str:
    rows = [(kind, str(facts), str(holding)) for kind, facts, holding in counts]
    return "\n".join(align_lines([("kind", "facts", f"traces of {traces}"), *rows]))


def _summary_json(counts: Sequence[tuple[str, int, int]], traces: int) -> str:
    kinds = {kind: {"facts": facts, "traces": holding} for kind, facts, holding in counts}
    return dump_json({"traces": traces, "kinds": kinds})


def _text(trace: Trace, chosen: list[Fact]) -> Iterator[str]:
    yield sanitize_line(trace.id, 300)
    for fact in chosen:
        yield f"  {fact.kind}: {sanitize_line(fact.says, 400)}"
        for quote in _quotes(trace, fact):
            yield f"    > {sanitize_line(quote['source'], 80)}: {sanitize_line(quote['quote'])}"
    if not chosen:
        yield "  no facts of this kind"


def _json(trace: Trace, chosen: list[Fact]) -> Iterator[str]:
    for fact in chosen:
        value = {
            "trace_id": trace.id,
            "kind": fact.kind,
            "says": fact.says,
            "agents": fact.agents,
            "evidence": _quotes(trace, fact),
            "about": dict(fact.about),
        }
        yield dump_json(value)


def _quotes(trace: Trace, fact: Fact) -> list[dict[str, Any]]:
    """Return the passages of a fact with their texts."""
    quotes = []
    for span in fact.spans:
        source = trace.source(span.source)
        text = source.text[span.start : span.end] if source else ""
        quotes.append({"quote": text, "source": span.source, "start": span.start, "end": span.end})
    return quotes
