"""The calls, tokens, dollars and minutes of a run, by ``--dry-run`` and ``--pilot``."""

import json
from collections.abc import Iterator

from annotator import api
from annotator.base.text import escape_controls, format_count, sanitize_line, wrap_line, wrap_lines
from annotator.cli.output import say
from annotator.rubrics.annotations import Usage

_SPEED = 50  # assumed tokens a second
_PILOT = 5  # traces; a pilot is of use with more


def show_forecast(
    expected: api.Forecast,
    concurrency: int | None,
    *,
    verbose: bool,
    as_json: bool,
    pilot: bool = True,
) -> None:
    """Print a forecast. ``concurrency`` None: a batch or a limit a minute decides the speed."""
    low, high = expected.usage.low, expected.usage.high
    forecast = {
        "traces": expected.traces,
        "unreadable": expected.unreadable,
        "skipped": expected.skipped,
        "done_before": expected.done,
        "to_judge": expected.judged,
        "cannot_judge": expected.failing,
        "calls": low.calls,
        "calls_high": high.calls,
        "answers_known": low.cache_hits,
        "input_tokens": low.input_tokens,
        "input_tokens_high": high.input_tokens,
        "output_tokens_low": low.output_tokens,
        "output_tokens_high": high.output_tokens,
        "cost_usd_low": low.cost_usd,
        "cost_usd_high": high.cost_usd,
        "assumption": expected.assumption,
    }
    if as_json:
        say(json.dumps(forecast, indent=2))
        return
    lines = [wrap_lines(_summarize(expected, concurrency, pilot=pilot)), ""]
    lines += _describe_counts(expected)
    if verbose:
        counts = {name.replace("_", " "): n for name, n in forecast.items() if isinstance(n, int)}
        lines += ["", *(f"  {name:<20}{n:>12,}" for name, n in counts.items())]
    if high.calls or low.cost_usd is None:
        assumptions = sanitize_line(expected.assumption, 4000).split("; ")
        if high.output_tokens and concurrency:
            assumptions.append(f"a model writes {_SPEED} tokens a second")
        lines += ["", "Assumed:", *(wrap_line(f"- {x}") for x in dict.fromkeys(assumptions))]
    say(escape_controls("\n".join(lines)))


def _describe_counts(expected: api.Forecast) -> Iterator[str]:
    """Yield which traces a model is not asked about, and the tokens of the others."""
    low, high = expected.usage.low, expected.usage.high
    rubrics = {**expected.judgements, **expected.skips}
    for rubric in rubrics if expected.skips else ():
        parts = [f"{rubric}: {expected.judgements[rubric]} to judge"] if len(rubrics) > 1 else []
        if skips := expected.skips[rubric]:
            parts.append(f"{skips} skipped: the rubric is for other runs")
        yield f"{', '.join(parts)}."
    if expected.done:
        yield f"{expected.done} judged before."
    for number, verb, example in (
        (expected.unreadable, "read", expected.unread),
        (expected.failing, "judged", expected.reason),
    ):
        if number:
            text = f"{number} cannot be {verb}, for example {sanitize_line(example)}"
            yield wrap_line(text)
    if low.cache_hits:
        yield f"{format_count(low.cache_hits, 'answer')} known from before."
    if high.calls:
        read = _format_range(f"{low.input_tokens:,}", f"{high.input_tokens:,}")
        written = _format_range(f"{low.output_tokens:,}", f"{high.output_tokens:,}")
        from_low = f"{low.calls} to " if low.calls < high.calls else ""
        calls = from_low + format_count(high.calls, "call")
        yield f"{calls}: {read} tokens of input, {written} of output."


def _summarize(expected: api.Forecast, concurrency: int | None, *, pilot: bool) -> str:
    """Return the first line: how many runs, dollars and minutes."""
    low, high = expected.usage.low, expected.usage.high
    if not high.calls:
        calls = ", without a call" if low.cost_usd is not None else ", at a cost that is not known"
        if low.cache_hits:
            calls = ": all answers known, $0"
        return f"{format_count(expected.judged, 'judgement')} of {expected.traces} runs{calls}."
    if low.cost_usd is None or high.cost_usd is None:
        tokens = _format_range(f"{low.output_tokens:,}", f"{high.output_tokens:,}")
        read = _format_range(f"{low.input_tokens:,}", f"{high.input_tokens:,}")
        price = f"about {read} tokens in and {tokens} out (no price known)"
    else:
        price = (
            f"about {_format_range(_round_dollars(low.cost_usd), _round_dollars(high.cost_usd))}"
        )
    head = f"{len(expected.model_trace_ids)} of {expected.traces} runs, {price}"
    if not (concurrency and high.output_tokens):
        return f"{head}."
    minutes = _format_range(
        _estimate_minutes(low, concurrency), _estimate_minutes(high, concurrency)
    )
    plural = "" if minutes == "1" else "s"
    head += f", about {minutes} minute{plural} at --concurrency {concurrency}."
    if pilot and len(expected.model_trace_ids) > _PILOT:
        head += f" `--pilot {_PILOT}` narrows it."
    return head


def _estimate_minutes(usage: Usage, concurrency: int) -> int:
    """Return the minutes that the calls take, ``concurrency`` at a time."""
    rounds, calls = -(-usage.calls // concurrency), max(usage.calls, 1)
    return max(1, round(rounds * usage.output_tokens / calls / _SPEED / 60))


def _round_dollars(value: float) -> str:
    if not value:
        return "$0"
    return f"${value:,.0f}" if value >= 10 else f"${max(value, 0.01):.2f}"


def _format_range(low: object, high: object) -> str:
    return f"{low}" if low == high else f"{low} to {high}"


def describe_pilot(run: api.Run, concurrency: int | None) -> Iterator[str]:
    """Yield lines with the calls, tokens, dollars and minutes that all traces of a pilot take."""
    size, population = run.manifest.pilot["traces"], run.manifest.pilot["of"]
    intervals = "no interval from one trace" if size == 1 else "95 % t intervals"
    yield f"pilot: {size:,} of {population:,} traces. All {population:,} would take ({intervals}):"
    if cached := sum(annotation.usage.cache_hits > 0 for annotation in run.annotations()):
        yield f"  (left out: {cached} answered from the cache)"
    bound = "at least " if run.manifest.totals.get("unreported_calls") else ""
    for name, total in api.project_usage(run).items():
        noun, digits, unit = name.replace("_", " "), 0, 1.0
        if name == "cost_usd":
            noun, digits = "USD", 2
        elif name == "seconds":
            if not concurrency:
                continue
            noun, digits, unit = f"minutes at --concurrency {concurrency}", 1, 60.0 * concurrency
        if total is not None and not total.total:
            continue
        if total is None:
            yield f"  {noun}: unknown"
            continue
        amount = f"{bound if name == 'cost_usd' else ''}{total.total / unit:,.{digits}f} {noun}"
        if total.low is not None and total.high is not None:
            amount += f" [{total.low / unit:,.{digits}f}, {total.high / unit:,.{digits}f}]"
        yield f"  {amount}"
