"""``annotate prompt``."""

import difflib
import sys
from typing import get_args

import click

from annotator.base.errors import AnnotatorError
from annotator.base.text import escape_controls, escape_header, sanitize_line
from annotator.cli.choices import reader_option
from annotator.cli.output import say
from annotator.judges.llm.answer import build_answer_schema
from annotator.judges.llm.cost import find_listing
from annotator.judges.llm.request import PromptBuilder, TokenCounter
from annotator.judges.llm.settings import Options
from annotator.prompts.render import Considered, Prompt
from annotator.prompts.truncate import PromptPart
from annotator.rubrics import load_rubric
from annotator.traces import Trace, load_traces


@click.command("prompt", context_settings={"show_default": True})
@click.argument("traces", nargs=-1, required=True, metavar="TRACES...")
@click.option("--rubric", required=True, metavar="NAME|FILE", help="The rubric that is judged by.")
@click.option("--trace", "trace_id", metavar="ID", help="Of this trace.  [default: the first]")
@click.option(
    "--diff", metavar="NAME|FILE", help="Only show how what another rubric sends differs from it."
)
@click.option("--model", metavar="NAME", default="gpt-5", help="Whose tokens are counted.")
@click.option("--context", type=click.IntRange(512), metavar="N", help="As in annotate run.")
@click.option("--windows", is_flag=True, help="The prompts of parts of a long conversation.")
@click.option("--facts", is_flag=True, help="With what annotate facts prints.")
@click.option(
    "--considered",
    type=click.Choice(get_args(Considered)),
    default="codes",
    help="What an answer goes through before it decides.",
)
@click.option("--rubric-last", is_flag=True, help="The rubric after the trace.")
@click.option("--redact", is_flag=True, help="As in annotate run.")
@reader_option("Of TRACES.")
def command(
    traces: tuple[str, ...],
    rubric: str,
    trace_id: str | None,
    diff: str | None,
    model: str,
    context: int | None,
    windows: bool,
    facts: bool,
    considered: Considered,
    rubric_last: bool,
    redact: bool,
    format_: str,
) -> None:
    """Print what a model is sent about a trace of TRACES: both messages, and the tokens of their
    parts. Nothing is sent.

    The form of the answer (a JSON schema) goes beside the messages; mode: json writes it into
    them. It is not shown, but its tokens are counted.
    """
    trace = _find_trace(traces, trace_id, format_, redact)
    options = Options(
        model, windows=windows, facts=facts, considered=considered, rubric_last=rubric_last
    )
    reader = PromptBuilder(options, context or find_listing(model, options.base_url).context)
    prompts = reader.prompts(trace, load_rubric(rubric))
    if diff:
        other = reader.prompts(trace, load_rubric(diff))
        names = (sanitize_line(rubric), sanitize_line(diff))
        lines = difflib.unified_diff(_split(other), _split(prompts), *names[::-1], lineterm="")
        text = "\n".join(lines) or "no difference"
    else:
        schema = build_answer_schema(load_rubric(rubric), considered)
        text = "\n\n".join(_show(prompt, schema, reader.tokens) for prompt in prompts)
    say(escape_controls(text) if sys.stdout.isatty() else text)


def _find_trace(traces: tuple[str, ...], trace_id: str | None, format_: str, redact: bool) -> Trace:
    reasons = []
    for trace in load_traces(*traces, format=format_, redact=redact).find():
        if not isinstance(trace, Trace):
            reasons.append(f"{trace.path}: {trace.reason}")
        elif trace_id in (None, trace.id):
            return trace
    what = "no trace could be read" if trace_id is None else f"there is no trace {trace_id!r}"
    more = f"; {reasons[0]}" if reasons else ""
    raise AnnotatorError(sanitize_line(f"{what} in {', '.join(traces)}{more}"))


def _split(prompts: list[Prompt]) -> list[str]:
    """Return the lines of the messages without what differs in every prompt: its tags."""
    lines = []
    for prompt in prompts:
        text = f"{prompt.system}\n{prompt.user}".replace(prompt.tag, "TAG")
        text = text.replace(prompt.first_tag, "FIRST").replace(prompt.last_tag, "LAST")
        lines += text.splitlines()
    return lines


def _join(part: PromptPart) -> str:
    return "".join(piece for piece, _ in part.pieces)


def _show(prompt: Prompt, schema: str, tokens: TokenCounter) -> str:
    rows = [(escape_header(part.id), _join(part)) for part in prompt.parts]
    rows += [("observations", prompt.aside)] * bool(prompt.aside) + [("reminder", prompt.end)]
    counts = [(name, tokens.count(text)) for name, text in rows]
    # What is left of the whole, so that "all" is what a run is charged for.
    system, user = tokens.count(prompt.system), tokens.count(prompt.user)
    counts = [("system", system), *counts, ("headers", user - sum(n for _, n in counts))]
    counts.append(("schema", tokens.count(prompt.system + schema) - system))
    width = max(len(name) for name, _ in counts)
    table = "\n".join(f"{name.ljust(width)}  {count:>9,}" for name, count in counts)
    total = f"{'all'.ljust(width)}  {sum(count for _, count in counts):>9,}  ({tokens})"
    missing = "".join(
        f"\n{escape_header(name)}: {count} characters are not shown, for want of room"
        for name, count in prompt.truncated.items()
    )
    messages = f"--- system ---\n{prompt.system}\n--- user ---\n{prompt.user}"
    return f"{messages}\n--- tokens ---\n{table}\n{total}{missing}"
