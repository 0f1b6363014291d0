"""Traces of agents: the model, and the readers of its formats."""

from annotator.traces.discover import Ignored, Unreadable
from annotator.traces.formats.recognise import FORMATS, load_readers
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
from annotator.traces.read import (
    TraceOrProblem,
    Traces,
    TraceSource,
    check_exists,
    count_traces,
    load_traces,
    read_traces,
)
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
