"""The usage that a run will take: an estimate without calls, or a pilot's, extrapolated."""

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace

from annotator.base.errors import AnnotatorError
from annotator.rubrics.annotations import Usage, UsageRange
from annotator.runs.execute import Plan, explain_skip
from annotator.runs.run import Run
from annotator.traces import Ignored, Trace, Unreadable
from validation.intervals import compute_quantile

CONFIDENCE = 0.95


@dataclass(slots=True)
class Forecast:
    """The expected usage of a run.

    Attributes:
        judgements: those to make, by rubric.
        skips: traces that a rubric is not for, by rubric.
        done: judgements that the run has already.
        failing: judgements that will fail; ``reason`` is the first one's error.
        unread: the first of the ``unreadable`` traces, with its error.
        model_trace_ids: the ids of the traces that a model is asked about.
    """

    traces: int = 0
    judgements: Counter[str] = field(default_factory=Counter)
    skips: Counter[str] = field(default_factory=Counter)
    done: int = 0
    unreadable: int = 0
    unread: str = ""
    failing: int = 0
    reason: str = ""
    usage: UsageRange = field(default_factory=UsageRange)
    assumption: str = ""
    model_trace_ids: list[str] = field(default_factory=list)

    def __iadd__(self, other: "Forecast") -> "Forecast":
        """Add the forecast of another run over the same traces."""
        self.traces = max(self.traces, other.traces)
        self.judgements += other.judgements
        self.skips += other.skips
        self.done += other.done
        self.unreadable = max(self.unreadable, other.unreadable)
        self.unread = self.unread or other.unread
        self.failing += other.failing
        self.reason = self.reason or other.reason
        self.usage += other.usage
        parts = (*self.assumption.split("; "), *other.assumption.split("; "))
        self.assumption = "; ".join(filter(None, dict.fromkeys(parts)))
        self.model_trace_ids = list(dict.fromkeys(self.model_trace_ids + other.model_trace_ids))
        return self

    @property
    def judged(self) -> int:
        """All judgements to make."""
        return self.judgements.total()

    @property
    def skipped(self) -> int:
        """All skips."""
        return self.skips.total()


def forecast(plan: Plan, judged: Container[tuple[str, str]] = ()) -> Forecast:
    """Return the expected usage of ``plan``, without calls. ``judged``: the trace and rubric of
    each annotation that the run has already.
    """
    expected = Forecast(assumption=plan.judge.assumption)
    for item in plan.traces.find():
        if isinstance(item, Ignored):
            continue
        if plan.limit is not None and expected.traces >= plan.limit:
            break
        if plan.sampled is not None and item.id not in plan.sampled:
            continue
        expected.traces += 1
        if isinstance(item, Unreadable):
            expected.unreadable += 1
            expected.unread = expected.unread or f"{item.path or item.id}: {item.reason}"
            continue
        before = expected.usage.high.calls
        for rubric in plan.rubrics:
            if (item.id, rubric.id) in judged:
                expected.done += 1
            elif explain_skip(item, rubric, plan.only) or rubric.leaves_open(item):
                expected.skips[rubric.id] += 1
            else:
                expected.judgements[rubric.id] += 1
                try:
                    expected.usage += plan.judge.expects(item, rubric)
                except AnnotatorError as error:
                    expected.failing += 1
                    expected.reason = expected.reason or str(error)
        if expected.usage.high.calls > before:
            expected.model_trace_ids.append(item.id)
    return expected


@dataclass(frozen=True, slots=True)
class Projection:
    """A total over all traces with its 95 % interval; None for an interval from one trace."""

    total: float
    low: float | None = None
    high: float | None = None


def sample_pilot(plan: Plan, size: int) -> Plan:
    """Return the plan for ``size`` random traces.

    A hash of its id decides whether a trace is sampled: the same pilot each time, and a larger one
    contains it.
    """
    ids = [
        item.id
        for item in plan.traces.find()
        if isinstance(item, Trace)
        and any(
            explain_skip(item, rubric, plan.only) is None and rubric.leaves_open(item) is None
            for rubric in plan.rubrics
        )
    ]
    if not ids:
        raise AnnotatorError("--pilot: no trace would be judged; see annotate traces --explain")
    ids.sort(key=lambda name: hashlib.sha256(f"pilot\0{name}".encode()).digest())
    return replace(plan, sampled=frozenset(ids[:size]), population=len(ids))


def project_usage(run: Run) -> dict[str, Projection | None]:
    """Return the calls, tokens, dollars and seconds that all traces of a pilot would take without
    the cache; None if the count of one of its traces is unknown.

    Traces with answers from the cache are left out.
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


def extrapolate(values: Sequence[float], population: int) -> Projection:
    """Return the total of a population from values sampled without replacement.

    The 95 % interval is Student's t for the mean, with the correction for a finite population. Its
    low end is at least the sum of the values.
    """
    n, total = len(values), math.fsum(values)
    if n >= population:
        return Projection(total, total, total)
    mean, estimate = total / n, population * (total / n)
    if n < 2:
        return Projection(estimate)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    half = compute_quantile(CONFIDENCE, n - 1) * population * deviation
    half *= math.sqrt((1 - n / population) / n)
    return Projection(
        population * mean, max(population * mean - half, total), population * mean + half
    )


def scale_usage(usage: Usage, factor: float) -> Usage:
    """Return the usage of ``factor`` times as many judgements."""
    names = ("input_tokens", "output_tokens", "calls")
    dollars = None if usage.cost_usd is None else usage.cost_usd * factor
    return Usage(**{x: round(getattr(usage, x) * factor) for x in names}, cost_usd=dollars)
