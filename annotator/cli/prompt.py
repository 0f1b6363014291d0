"""``annotate prompt``."""

import difflib
import sys
from typing import get_args

import click

from annotator.base.errors import AnnotatorError
from annotator.base.text import escape_controls, escape_header, sanitize_line
from annotator.cli.options import add_option, add_reader_options
from annotator.cli.output import name_sources, say, say_next
from annotator.judges.llm.answer import build_answer_schema
from annotator.judges.llm.cost import find_listing
from annotator.judges.llm.request import HOW_COUNTED, PromptBuilder, estimate_tokens
from annotator.judges.llm.settings import Options
from annotator.prompts.render import Considered, Prompt
from annotator.rubrics import load_rubric
from annotator.traces import Trace, load_traces


@click.command("prompt", context_settings={"show_default": True})
@click.argument("traces", nargs=-1, required=True, metavar="TRACES...")
@add_option("--rubric NAME|FILE", "The rubric to judge by.", required=True)
@add_option("--trace ID", "The trace.  [default: the first]", name="trace_id")
@add_option("--diff NAME|FILE", "Show only the difference from the prompt of this rubric.")
@add_option("--model NAME", "The model whose tokens are counted.", default="gpt-5")
@add_option("--context N", "As in annotate run.", click.IntRange(512))
@add_option("--windows", "Split a long conversation into windows.")
@add_option(
    "--considered",
    "What the model writes about before it decides: every code, or every group.",
    click.Choice(get_args(Considered)),
    default="codes",
)
@add_option("--rubric-last", "Put the rubric after the trace.")
@add_option("--redact", "As in annotate run.")
@add_reader_options("The format of TRACES.")
def command(
    traces: tuple[str, ...],
    rubric: str,
    trace_id: str | None,
    diff: str | None,
    model: str,
    context: int | None,
    windows: bool,
    considered: Considered,
    rubric_last: bool,
    redact: bool,
    format_: str,
) -> None:
    """Print the prompt for a trace of TRACES: both messages, and the tokens of their parts. Nothing
    is sent.

    The JSON schema of the answer goes beside the messages (mode: json writes it into them). It is
    not printed, but its tokens are counted.
    """
    trace = _find_trace(traces, trace_id, format_, redact)
    options = Options(model, windows=windows, considered=considered, rubric_last=rubric_last)
    reader = PromptBuilder(options, context or find_listing(model, options.base_url).context)
    prompts = reader.prompts(trace, load_rubric(rubric))
    if diff:
        names = sanitize_line(diff), sanitize_line(rubric)
        sides = (_split(reader.prompts(trace, load_rubric(diff))), _split(prompts))
        lines = difflib.unified_diff(*sides, *names, lineterm="")
        text = "\n".join(lines) or "no difference"
    else:
        schema = build_answer_schema(load_rubric(rubric), considered)
        text = "\n\n".join(_render(prompt, schema) for prompt in prompts)
    say(escape_controls(text) if sys.stdout.isatty() else text)
    if format_ == "auto" and not diff:
        arguments = *name_sources(traces), "--rubric", rubric, "--model", model, "--dry-run"
        say_next(*arguments, purpose="the cost of all traces")


def _find_trace(traces: tuple[str, ...], trace_id: str | None, format_: str, redact: bool) -> Trace:
    reasons = []
    for trace in load_traces(*traces, format=format_, redact=redact).find():
        if not isinstance(trace, Trace):
            reasons.append(f"{trace.path}: {trace.reason}")
        elif trace_id in (None, trace.id):
            return trace
    problem = "no trace could be read" if trace_id is None else f"there is no trace {trace_id!r}"
    reason = f"; {reasons[0]}" if reasons else ""
    raise AnnotatorError(sanitize_line(f"{problem} in {', '.join(traces)}{reason}"))


def _split(prompts: list[Prompt]) -> list[str]:
    """Return the lines of the messages with placeholders for the tags, which always differ."""
    lines = []
    for prompt in prompts:
        text = f"{prompt.system}\n{prompt.user}".replace(prompt.tag, "TAG")
        text = text.replace(prompt.first_tag, "FIRST").replace(prompt.last_tag, "LAST")
        lines += text.splitlines()
    return lines


def _render(prompt: Prompt, schema: str) -> str:
    rows = [
        (escape_header(section.id), "".join(piece for piece, _ in section.pieces))
        for section in prompt.parts
    ]
    rows += [("findings", prompt.aside)] * bool(prompt.aside) + [("reminder", prompt.end)]
    counts = [(name, estimate_tokens(text)) for name, text in rows]
    # The headers are the rest, so that "all" is the number a run is charged for.
    system, user = estimate_tokens(prompt.system), estimate_tokens(prompt.user)
    counts = [("system", system), *counts, ("headers", user - sum(n for _, n in counts))]
    counts.append(("schema", estimate_tokens(prompt.system + schema) - system))
    width = max(len(name) for name, _ in counts)
    table = "\n".join(f"{name.ljust(width)}  {count:>9,}" for name, count in counts)
    total = f"{'all'.ljust(width)}  {sum(count for _, count in counts):>9,}  ({HOW_COUNTED})"
    missing = "".join(
        f"\n{escape_header(name)}: {count} characters are not shown, for want of room"
        for name, count in prompt.truncated.items()
    )
    messages = f"--- system ---\n{prompt.system}\n--- user ---\n{prompt.user}"
    return f"{messages}\n--- tokens ---\n{table}\n{total}{missing}"
