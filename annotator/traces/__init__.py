"""What was run: the trace model, and readers for its formats."""

from annotator.traces.collection import Traces, TraceSource, load_traces
from annotator.traces.discover import Ignored, Unreadable
from annotator.traces.formats import FORMATS, load_readers
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
from annotator.traces.read import TraceOrProblem, check_exists, count_traces, read_traces
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
    "check_exists",
    "count_traces",
    "load_readers",
    "load_traces",
    "parse_shard",
    "read_traces",
]
