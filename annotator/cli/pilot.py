"""What a pilot showed, for ``annotate run --dry-run --pilot N``."""

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from typing import Any

from annotator import api
from annotator.annotations import Usage

_COUNTS = ("calls", "input_tokens", "output_tokens", "cost_usd")


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
