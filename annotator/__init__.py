"""Find out why multi-agent runs fail: labels with verified quotes, tables with intervals.

This is the public Python API. A name is imported when it is first used.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_NAMES = {
    "Annotation": "annotator.rubrics.annotations",
    "AnnotatorError": "annotator.base.errors",
    "Calibration": "annotator.calibration.model",
    "Claim": "annotator.rubrics.annotations",
    "Message": "annotator.traces",
    "Quote": "annotator.rubrics.annotations",
    "Rubric": "annotator.rubrics",
    "Run": "annotator.runs.run",
    "Table": "annotator.reports.table",
    "Trace": "annotator.traces",
    "Traces": "annotator.traces",
    "Verdict": "annotator.rubrics.annotations",
    "aannotate": "annotator.api",
    "annotate": "annotator.api",
    "calibrate": "annotator.api",
    "compare": "annotator.api",
    "count": "annotator.api",
    "count_labels": "annotator.api",
    "count_together": "annotator.api",
    "draw": "annotator.api",
    "dump_trace": "annotator.traces.lines",
    "find_conflicts": "annotator.api",
    "forecast": "annotator.api",
    "judge_lines": "annotator.api",
    "llm": "annotator.api",
    "load_calibrations": "annotator.api",
    "load_rubric": "annotator.rubrics",
    "load_traces": "annotator.traces",
    "locate": "annotator.rubrics.evidence",
    "merge": "annotator.api",
    "open_run": "annotator.runs.run",
    "project_usage": "annotator.runs.forecast",
    "read_annotations": "annotator.rubrics.annotations",
    "read_traces": "annotator.traces",
    "summarize": "annotator.api",
}

__all__ = ["__version__", *_NAMES]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(import_module(_NAMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
