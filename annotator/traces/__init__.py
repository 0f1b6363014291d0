"""What was run: the trace model, and readers for its formats."""

from annotator.traces.collection import Traces, TraceSource, load_traces
from annotator.traces.discover import Ignored, Unreadable
from annotator.traces.formats import FORMATS, readers
from annotator.traces.model import (
    ORIGINS,
    AgentEnd,
    Author,
    Feature,
    Message,
    Origin,
    Outcome,
    Source,
    Step,
    Trace,
)
from annotator.traces.read import TraceOrProblem, count_traces, exists, read_traces
from annotator.traces.shard import Shard, parse_shard

__all__ = [
    "FORMATS",
    "ORIGINS",
    "AgentEnd",
    "Author",
    "Feature",
    "Ignored",
    "Message",
    "Origin",
    "Outcome",
    "Shard",
    "Source",
    "Step",
    "Trace",
    "TraceOrProblem",
    "TraceSource",
    "Traces",
    "Unreadable",
    "count_traces",
    "exists",
    "load_traces",
    "parse_shard",
    "read_traces",
    "readers",
]
