"""Find out why multi-agent runs fail: labels with verified quotes, tables with intervals.

This is the public Python API. A name is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers and editors; each name is imported when it is first used
    from annotator.api import aannotate as aannotate
    from annotator.api import ablate as ablate
    from annotator.api import anchor as anchor
    from annotator.api import annotate as annotate
    from annotator.api import ask_anchors as ask_anchors
    from annotator.api import calibrate as calibrate
    from annotator.api import check_judge as check_judge
    from annotator.api import compare as compare
    from annotator.api import count as count
    from annotator.api import count_causes as count_causes
    from annotator.api import count_labels as count_labels
    from annotator.api import count_together as count_together
    from annotator.api import describe_methods as describe_methods
    from annotator.api import draw as draw
    from annotator.api import export as export
    from annotator.api import find_conflicts as find_conflicts
    from annotator.api import find_mechanisms as find_mechanisms
    from annotator.api import forecast as forecast
    from annotator.api import gate as gate
    from annotator.api import induce as induce
    from annotator.api import judge_lines as judge_lines
    from annotator.api import llm as llm
    from annotator.api import load_calibrations as load_calibrations
    from annotator.api import match_codes as match_codes
    from annotator.api import measure_drift as measure_drift
    from annotator.api import merge as merge
    from annotator.api import summarize as summarize
    from annotator.api import triage as triage
    from annotator.api import tune as tune
    from annotator.api.gating import Gate as Gate
    from annotator.base.errors import AnnotatorError as AnnotatorError
    from annotator.calibration.ablation import Ablation as Ablation
    from annotator.calibration.model import Calibration as Calibration
    from annotator.calibration.stability import JudgeCheck as JudgeCheck
    from annotator.calibration.tuning import Tuning as Tuning
    from annotator.induction.result import Induction as Induction
    from annotator.induction.result import open_induction as open_induction
    from annotator.reports.table import Table as Table
    from annotator.reports.triage import Triage as Triage
    from annotator.rubrics import Rubric as Rubric
    from annotator.rubrics import load_rubric as load_rubric
    from annotator.rubrics.annotations import Annotation as Annotation
    from annotator.rubrics.annotations import Claim as Claim
    from annotator.rubrics.annotations import Quote as Quote
    from annotator.rubrics.annotations import Verdict as Verdict
    from annotator.rubrics.annotations import read_annotations as read_annotations
    from annotator.rubrics.evidence import locate as locate
    from annotator.runs.forecast import project_usage as project_usage
    from annotator.runs.run import Run as Run
    from annotator.runs.run import open_run as open_run
    from annotator.traces import Message as Message
    from annotator.traces import Trace as Trace
    from annotator.traces import Traces as Traces
    from annotator.traces import load_traces as load_traces
    from annotator.traces import read_traces as read_traces
    from annotator.traces.lines import dump_trace as dump_trace

__version__ = "0.1.0"

_NAMES = {
    "Ablation": "annotator.calibration.ablation",
    "Annotation": "annotator.rubrics.annotations",
    "AnnotatorError": "annotator.base.errors",
    "Calibration": "annotator.calibration.model",
    "Claim": "annotator.rubrics.annotations",
    "Gate": "annotator.api.gating",
    "Induction": "annotator.induction.result",
    "JudgeCheck": "annotator.calibration.stability",
    "Message": "annotator.traces",
    "Quote": "annotator.rubrics.annotations",
    "Rubric": "annotator.rubrics",
    "Run": "annotator.runs.run",
    "Table": "annotator.reports.table",
    "Trace": "annotator.traces",
    "Traces": "annotator.traces",
    "Triage": "annotator.reports.triage",
    "Tuning": "annotator.calibration.tuning",
    "Verdict": "annotator.rubrics.annotations",
    "aannotate": "annotator.api",
    "ablate": "annotator.api",
    "anchor": "annotator.api",
    "annotate": "annotator.api",
    "ask_anchors": "annotator.api",
    "calibrate": "annotator.api",
    "check_judge": "annotator.api",
    "compare": "annotator.api",
    "count": "annotator.api",
    "count_causes": "annotator.api",
    "count_labels": "annotator.api",
    "count_together": "annotator.api",
    "describe_methods": "annotator.api",
    "draw": "annotator.api",
    "dump_trace": "annotator.traces.lines",
    "export": "annotator.api",
    "find_conflicts": "annotator.api",
    "find_mechanisms": "annotator.api",
    "forecast": "annotator.api",
    "gate": "annotator.api",
    "induce": "annotator.api",
    "judge_lines": "annotator.api",
    "llm": "annotator.api",
    "load_calibrations": "annotator.api",
    "load_rubric": "annotator.rubrics",
    "load_traces": "annotator.traces",
    "locate": "annotator.rubrics.evidence",
    "match_codes": "annotator.api",
    "measure_drift": "annotator.api",
    "merge": "annotator.api",
    "open_induction": "annotator.induction.result",
    "open_run": "annotator.runs.run",
    "project_usage": "annotator.runs.forecast",
    "read_annotations": "annotator.rubrics.annotations",
    "read_traces": "annotator.traces",
    "summarize": "annotator.api",
    "triage": "annotator.api",
    "tune": "annotator.api",
}

__all__ = ["__version__", *_NAMES]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(import_module(_NAMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
