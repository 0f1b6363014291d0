"""The forecast of ``annotate run --dry-run``, and the pilot beside it."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from typing import Any

from annotator import api
from annotator.annotations import Usage
from annotator.cli.output import say, say_notice
from annotator.text import one_line, printable

_COUNTS = ("calls", "input_tokens", "output_tokens", "cost_usd")
_SPEED = 50  # tokens a second, assumed for the minutes
_PILOT = 5  # traces, of which more are there where a pilot is of use


def show_forecast(expected: api.Forecast, concurrency: int | None, *, as_json: bool) -> None:
    """Print a forecast. ``concurrency``: the calls in flight; None if something else decides how
    fast it goes: a batch, or a limit a minute.
    """
    low, high = expected.usage.low, expected.usage.high
    forecast = {
        "traces": expected.traces,
        "unreadable": expected.unreadable,
        "skipped": expected.skipped,
        "done_before": expected.done,
        "to_judge": expected.judged,
        "cannot_judge": expected.failing,
        "calls": low.calls,
        "answers_known": low.cache_hits,
        "input_tokens": low.input_tokens,
        "output_tokens_low": low.output_tokens,
        "output_tokens_high": high.output_tokens,
        "cost_usd_low": low.cost_usd,
        "cost_usd_high": high.cost_usd,
        "assumption": expected.assumption,
    }
    tried = describe_pilot(expected.pilot) if expected.pilot else None
    if as_json:
        say(json.dumps(forecast | ({"pilot": tried} if tried else {}), indent=2))
        return
    if expected.unreadable:
        say_notice(f"{expected.unreadable} cannot be read; the first: {one_line(expected.unread)}")
    if expected.failing:
        say_notice(f"{expected.failing} cannot be judged; the first: {one_line(expected.reason)}")
    dollars = "unknown"
    if low.cost_usd is not None:
        dollars = f"{_to(f'{low.cost_usd:.2f}', f'{high.cost_usd:.2f}')} USD"
    lines = [f"{key.replace('_', ' '):<14}{value}" for key, value in forecast.items()][:-5]
    lines += [
        f"{'output tokens':<14}{_to(low.output_tokens, high.output_tokens)}",
        f"{'cost':<14}{dollars}",
        f"{'assumption':<14}{expected.assumption}",
    ]
    head = _summarize(expected, concurrency)
    say(printable("\n".join([head, "", *lines, *(pilot_lines(tried) if tried else ())])))


def _summarize(expected: api.Forecast, concurrency: int | None) -> str:
    """Return the first line: how many runs, and what they would take."""
    low, high = expected.usage.low, expected.usage.high
    if not low.calls:
        calls = "without a call" if low.cost_usd is not None else "at a cost that is not known"
        return f"{expected.judged} to judge of {expected.traces} runs, {calls}."
    if low.cost_usd is None or high.cost_usd is None:
        tokens = _to(f"{low.output_tokens:,}", f"{high.output_tokens:,}")
        price = f"about {low.input_tokens:,} tokens in and {tokens} out (no price known)"
    else:
        price = f"about {_to(_round_dollars(low.cost_usd), _round_dollars(high.cost_usd))}"
    head = f"{len(expected.asked)} of {expected.traces} runs, {price}"
    if not (concurrency and low.output_tokens):
        return f"{head}."
    minutes = _to(_minutes(low, concurrency), _minutes(high, concurrency))
    head += (
        f", about {minutes} minute{'' if minutes == '1' else 's'} at --concurrency {concurrency}"
        f" (at {_SPEED} tokens/s)."
    )
    narrows = not expected.pilot and len(expected.asked) > _PILOT
    return f"{head} `--pilot {_PILOT}` narrows it." if narrows else head


def _minutes(usage: Usage, concurrency: int) -> int:
    """Return the minutes that calls take which are made so many at a time."""
    rounds = -(-usage.calls // concurrency)
    return max(1, round(rounds * usage.output_tokens / usage.calls / _SPEED / 60))


def _round_dollars(value: float) -> str:
    return f"${value:,.0f}" if value >= 10 else f"${value:.2f}"


def _to(low: object, high: object) -> str:
    return f"{low}" if low == high else f"{low} to {high}"


def describe_pilot(pilot: api.Pilot) -> dict[str, Any]:
    """Return what a pilot used, and what all traces would: totals with their intervals."""
    used = asdict(pilot.used)
    projections = {name: pilot.project(partial(_read_count, name)) for name in _COUNTS}
    return {
        "traces": len(pilot.usages),
        "of": pilot.of,
        "seed": pilot.seed,
        "failed": pilot.failed,
        "used": {name: used[name] for name in (*_COUNTS, "unreported_calls")},
        "all": {
            name: asdict(projection) if projection else None
            for name, projection in projections.items()
        },
    }


def _read_count(name: str, usage: Usage) -> float | None:
    """Return a count of one trace; None for the tokens of answers that do not tell them."""
    untold = name.endswith("tokens") and usage.calls and not usage.input_tokens
    return None if untold else getattr(usage, name)


def pilot_lines(tried: dict[str, Any]) -> Iterator[str]:
    """Yield the lines that show :func:`describe_pilot`."""
    n, used = tried["traces"], tried["used"]
    failed = f", {tried['failed']} judgements failed" if tried["failed"] else ""
    yield f"{'pilot':<14}{n} of {tried['of']} traces to ask about, seed {tried['seed']}{failed}"
    # Of calls that ended without an answer nobody knows what they cost.
    least = "at least " if used["unreported_calls"] else ""
    spent = _amount("cost_usd", used["cost_usd"], least)
    tokens = f"{used['input_tokens']} tokens in, {used['output_tokens']} out"
    yield f"{'it used':<14}{used['calls']} calls, {tokens}, {spent}"
    interval = f"95 % t interval, n = {n}" if n > 1 else "no interval: n = 1"
    for name, label in zip(_COUNTS, ("calls", "input", "output", "cost"), strict=True):
        total = tried["all"][name]
        if total is None:
            yield f"{'all ' + label:<14}unknown"
            continue
        limits = ""
        if total["low"] is not None:
            limits = f" [{_amount(name, total['low'])}, {_amount(name, total['high'])}]"
        amount = _amount(name, total["total"], least)
        yield f"{'all ' + label:<14}{amount}{limits} ({interval})"


def _amount(name: str, value: float | None, least: str = "") -> str:
    if value is None:
        return "unknown cost"
    return f"{least}{value:.2f} USD" if name == "cost_usd" else f"{value:.0f}"
