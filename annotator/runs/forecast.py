"""A pilot: a run of a few traces, drawn at random, that says what all of them would take."""

import hashlib
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from annotator.base.errors import AnnotatorError
from annotator.rubrics.annotations import Usage
from annotator.runs.execute import Plan, explain_skip
from annotator.runs.run import Run
from annotator.traces import Trace
from validation.intervals import quantile

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Projection:
    """A total over all traces with its 95 % interval; no interval if it rests on one trace."""

    total: float
    low: float | None = None
    high: float | None = None


def draw_pilot(plan: Plan, size: int) -> tuple[frozenset[str], int]:
    """Return the ids of ``size`` of the traces that a plan judges, and how many it judges.

    A hash of its id decides whether a trace is drawn: the same pilot is drawn each time, and a
    larger one contains it.

    Raises:
        AnnotatorError: the plan judges no trace, or a source does not exist.
    """
    ids = [
        item.id
        for item in plan.traces.find()
        if isinstance(item, Trace)
        and any(explain_skip(item, rubric, plan.only) is None for rubric in plan.rubrics)
    ]
    if not ids:
        raise AnnotatorError("--pilot: no trace would be judged; see annotate traces --explain")
    ids.sort(key=lambda name: hashlib.sha256(f"pilot\0{name}".encode()).digest())
    return frozenset(ids[:size]), len(ids)


def project_usage(run: Run) -> dict[str, Projection | None]:
    """Return the calls, tokens, dollars and seconds that all traces of a pilot would take, were no
    answer in the cache; None where the count of one of its traces is not known.

    Traces whose answers came from the cache tell nothing, and are left out.
    """
    usages: defaultdict[str, Usage] = defaultdict(Usage)
    for annotation in run.annotations():
        if annotation.status != "skipped":
            usages[annotation.trace_id] += annotation.usage
    projections: dict[str, Projection | None] = {}
    for name in ("calls", "input_tokens", "output_tokens", "cost_usd", "seconds"):
        values = []
        for usage in usages.values():
            if usage.cache_hits:
                continue
            unknown = name.endswith("tokens") and usage.calls and not usage.input_tokens
            values.append(None if unknown else getattr(usage, name))
        counts = [value for value in values if value is not None]
        complete = counts and len(counts) == len(values)
        projections[name] = extrapolate(counts, run.manifest.pilot["of"]) if complete else None
    return projections


def extrapolate(values: Sequence[float], of: int) -> Projection:
    """Return the total of ``of`` values, of which these were drawn at random without replacement.

    The interval is Student's for their mean, with the correction for a finite population: it has no
    width where all were drawn. The total is not less than that of the values themselves.
    """
    n, total = len(values), math.fsum(values)
    if n >= of:
        return Projection(total, total, total)
    mean = total / n
    if n < 2:
        return Projection(of * mean)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    half = quantile(CONFIDENCE, n - 1) * of * deviation * math.sqrt((1 - n / of) / n)
    return Projection(of * mean, max(of * mean - half, total), of * mean + half)
