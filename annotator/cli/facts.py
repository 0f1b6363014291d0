"""``annotate facts``."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import click

from annotator.base.errors import AnnotatorError
from annotator.base.text import dump_json, sanitize_line
from annotator.cli.options import add_reader_options
from annotator.cli.output import say
from annotator.cooperbench.facts import KINDS, Fact, draw_facts
from annotator.reports.formats.text import align_lines
from annotator.traces import Trace, read_traces


@click.command("facts", context_settings={"show_default": True})
@click.argument("traces", nargs=-1, metavar="TRACES...")
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    metavar="KIND",
    help="Only facts of this kind. Repeatable; --kinds lists them.",
)
@click.option("--kinds", "list_kinds", is_flag=True, help="List the kinds and their meanings.")
@add_reader_options("The format of TRACES.")
@click.option("--summary", is_flag=True, help="Count facts by kind, and the traces that have one.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def command(
    traces: tuple[str, ...],
    kinds: tuple[str, ...],
    list_kinds: bool,
    format_: str,
    summary: bool,
    as_json: bool,
) -> None:
    """Print the facts that a program can establish about TRACES, each with its passages.

    It asks no judge and calls nothing an error: that is what rubrics are for. Exit code 1 if a
    trace cannot be read; it is listed and left out.
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
    kinds = tuple(dict.fromkeys(kinds)) or tuple(KINDS)
    fact_counts, trace_counts = Counter[str](), Counter[str]()
    read = unreadable = 0
    for trace in read_traces(traces, format_):
        if not isinstance(trace, Trace):
            click.echo(f"{sanitize_line(trace.path)}: {sanitize_line(trace.reason)}", err=True)
            unreadable += 1
            continue
        read += 1
        facts = [fact for fact in draw_facts(trace) if fact.kind in kinds]
        if summary:
            fact_counts.update(fact.kind for fact in facts)
            trace_counts.update({fact.kind for fact in facts})
            continue
        render = _render_json if as_json else _render_text
        lines = list(render(trace, facts))
        if lines and not say("\n".join(lines)):
            return
    if not read:
        raise AnnotatorError(f"no trace could be read in {', '.join(traces)}")

    if summary:
        counts = {kind: (fact_counts[kind], trace_counts[kind]) for kind in kinds}
        if as_json:
            values = {kind: {"facts": n, "traces": of} for kind, (n, of) in counts.items()}
            say(dump_json({"traces": read, "kinds": values}))
        else:
            rows = [(kind, str(n), str(of)) for kind, (n, of) in counts.items()]
            say("\n".join(align_lines([("kind", "facts", f"traces of {read}"), *rows])))
    if unreadable:
        raise SystemExit(1)


def _render_text(trace: Trace, facts: Sequence[Fact]) -> Iterator[str]:
    yield sanitize_line(trace.id, 300)
    for fact in facts:
        yield f"  {fact.kind}: {sanitize_line(fact.says, 400)}"
        for quote in _list_quotes(trace, fact):
            yield f"    > {sanitize_line(quote['source'], 80)}: {sanitize_line(quote['quote'])}"
    if not facts:
        yield "  no facts of this kind"


def _render_json(trace: Trace, facts: Sequence[Fact]) -> Iterator[str]:
    for fact in facts:
        value = {
            "trace_id": trace.id,
            "kind": fact.kind,
            "says": fact.says,
            "agents": fact.agents,
            "evidence": _list_quotes(trace, fact),
            "about": dict(fact.about),
        }
        yield dump_json(value)


def _list_quotes(trace: Trace, fact: Fact) -> list[dict[str, Any]]:
    quotes = []
    for span in fact.spans:
        source = trace.source(span.source)
        text = source.text[span.start : span.end] if source else ""
        quotes.append({"quote": text, "source": span.source, "start": span.start, "end": span.end})
    return quotes
