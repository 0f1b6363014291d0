"""``annotate facts``."""

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import click

from annotator.base.errors import AnnotatorError
from annotator.base.text import dump_json, format_count, sanitize_line, wrap_lines
from annotator.cli.options import add_option, add_reader_options
from annotator.cli.output import name_sources, say, say_next, say_unreadable
from annotator.cooperbench.facts import KINDS, Fact, draw_facts
from annotator.reports.table import Table
from annotator.traces import Trace, Unreadable, load_traces

_FEW = 3  # traces whose facts are printed without -v
_WIDTH = 80  # columns, at least


@click.command("facts", context_settings={"show_default": True})
@click.argument("traces", nargs=-1, metavar="TRACES...")
@add_option(
    "--kind KIND...", "Only facts of this kind. Repeatable; --kinds lists them.", name="kinds"
)
@add_option("--kinds", "List the kinds and their meanings.", name="list_kinds")
@add_option("--trace ID...", "Only this trace. Repeatable.", name="trace_ids")
@add_reader_options("The format of TRACES.")
@add_option("--summary", "Count facts by kind, and the traces that have one.")
@add_option("-v,--verbose", "Print the facts of every trace.")
@add_option("--json", "One JSON object a line.", name="as_json")
def command(
    traces: tuple[str, ...],
    kinds: tuple[str, ...],
    list_kinds: bool,
    trace_ids: tuple[str, ...],
    format_: str,
    summary: bool,
    verbose: bool,
    as_json: bool,
) -> None:
    """Print the facts that a program can establish about TRACES, each with its passages.

    Of more than three traces it only counts them; -v prints them. It asks no judge and calls
    nothing an error: that is what rubrics are for. Exit code 1 if a trace cannot be read; it is
    listed and left out.
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
    counts = {kind: [0, 0] for kind in kinds}  # facts, traces
    unreadable = False
    first: list[str] = []  # lines of the first traces, while it is open whether there are more
    counts_only = summary or not (as_json or verbose)  # of many traces
    read, missing = 0, dict.fromkeys(trace_ids)
    for trace in load_traces(*traces, format=format_).find():
        if isinstance(trace, Unreadable):
            unreadable = True
            say_unreadable(trace)
        if not isinstance(trace, Trace) or (trace_ids and trace.id not in trace_ids):
            continue
        read += 1
        missing.pop(trace.id, None)
        facts = [fact for fact in draw_facts(trace) if fact.kind in kinds]
        for kind, n in Counter(fact.kind for fact in facts).items():
            counts[kind][0] += n
            counts[kind][1] += 1
        if summary or (counts_only and read > _FEW):
            continue
        lines = list((_render_json if as_json else _render_text)(trace, facts))
        if counts_only:
            first += lines
        elif lines and not say("\n".join(lines)):
            return
    if missing or not read:
        problem = f"no trace {', '.join(missing)}" if missing else "no trace could be read"
        raise AnnotatorError(sanitize_line(f"{problem} in {', '.join(traces)}"))
    if summary and as_json:
        values = {kind: {"facts": n, "traces": of} for kind, (n, of) in counts.items()}
        say(dump_json({"traces": read, "kinds": values}))
    elif summary or (counts_only and read > _FEW):
        say(_render_counts(counts, read))
        if format_ == "auto":
            say_next("facts", *name_sources(traces), "-v", purpose="every fact with its passages")
    elif first:
        say(wrap_lines("\n".join(first)))
    if unreadable:
        raise SystemExit(1)


def _render_counts(counts: dict[str, list[int]], traces: int) -> str:
    """Return how many facts there are of each kind, and the kinds without any."""
    every = sum(facts for facts, _ in counts.values())
    kinds = sorted((kind for kind in counts if counts[kind][0]), key=lambda x: -counts[x][1])
    size = f"{format_count(every, 'fact')} of {format_count(len(kinds), 'kind')}"
    lines = [f"{size} in {format_count(traces, 'trace')}."]
    if kinds:
        numbers = [(f"{counts[kind][1]}/{traces}", str(counts[kind][0])) for kind in kinds]
        sides = zip(("kind", "traces", "facts"), (kinds, *zip(*numbers, strict=True)), strict=True)
        width = max(_WIDTH, shutil.get_terminal_size().columns)
        room = width - sum(2 + max(map(len, (name, *cells))) for name, cells in sides)
        meanings = [sanitize_line(KINDS[kind], room) for kind in kinds]
        rows = [(*row, *of) for *row, of in zip(kinds, meanings, numbers, strict=True)]
        table = Table(header=("kind", "meaning", "traces", "facts"), rows=rows, texts=2)
        lines += ["", *table.to("table").splitlines()]
    if empty := [kind for kind in counts if kind not in kinds]:
        lines += ["", wrap_lines(f"Without a fact: {', '.join(empty)}.")]
    return "\n".join(lines)


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
