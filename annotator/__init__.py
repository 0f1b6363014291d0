"""Find out why multi-agent runs fail: labels with verified quotes, tables with intervals.

The public Python API; every name is imported when it is first used.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_NAMES = {
    "Annotation": "annotator.annotations",
    "AnnotatorError": "annotator.errors",
    "Claim": "annotator.annotations",
    "Message": "annotator.traces",
    "Quote": "annotator.annotations",
    "Rubric": "annotator.rubrics",
    "Trace": "annotator.traces",
    "Verdict": "annotator.annotations",
    "load_rubric": "annotator.rubrics",
    "locate": "annotator.evidence",
    "read_annotations": "annotator.annotations",
    "read_traces": "annotator.traces",
}

__all__ = ["__version__", *_NAMES]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(import_module(_NAMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
