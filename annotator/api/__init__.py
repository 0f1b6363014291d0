"""The Python API. The command line is a thin layer over it.

Nothing here prints: progress and notices come through callbacks. Errors are subclasses of
:class:`~annotator.base.errors.AnnotatorError`.
"""

from annotator.api.ablating import AblationPlan, ablate, plan_ablation
from annotator.api.anchoring import (
    ASKS,
    anchor,
    ask_anchors,
    measure_drift,
    plan_anchors,
    plan_look,
)
from annotator.api.calibrating import calibrate, calibrate_rubrics, compare_annotators
from annotator.api.checking import VARIANTS, CheckPlan, check_judge, plan_check
from annotator.api.conflicts import ConflictSummary, find_conflicts
from annotator.api.exporting import Export, export
from annotator.api.gating import Gate, gate
from annotator.api.inducing import induce, plan_induction
from annotator.api.judging import (
    JudgeSource,
    aannotate,
    annotate,
    forecast,
    llm,
    merge,
)
from annotator.api.matching import find_mechanisms, has_findings, match_codes
from annotator.api.reporting import (
    StatsSummary,
    check_figure,
    compare,
    count,
    count_causes,
    count_labels,
    count_together,
    describe_methods,
    draw,
    find_calibrations,
    group_calibrations,
    group_runs,
    load_calibrations,
    summarize,
    triage,
)
from annotator.api.tuning import plan_tuning, tune
from annotator.rubrics.annotations import Annotation
from annotator.runs.anchors import Anchors, is_anchors, open_anchors
from annotator.runs.engines import ENGINES
from annotator.runs.execute import Only, RubricSource, RunProgress
from annotator.runs.failures import describe_failures
from annotator.runs.forecast import Forecast, project_usage
from annotator.runs.lines import judge_lines
from annotator.runs.manifest import IfRejected
from annotator.runs.rejudge import open_traces, restore_settings
from annotator.runs.run import Run, is_run, open_run, open_runs

__all__ = [
    "ASKS",
    "ENGINES",
    "VARIANTS",
    "AblationPlan",
    "Anchors",
    "Annotation",
    "CheckPlan",
    "ConflictSummary",
    "Export",
    "Forecast",
    "Gate",
    "IfRejected",
    "JudgeSource",
    "Only",
    "RubricSource",
    "Run",
    "RunProgress",
    "StatsSummary",
    "aannotate",
    "ablate",
    "anchor",
    "annotate",
    "ask_anchors",
    "calibrate",
    "calibrate_rubrics",
    "check_figure",
    "check_judge",
    "compare",
    "compare_annotators",
    "count",
    "count_causes",
    "count_labels",
    "count_together",
    "describe_failures",
    "describe_methods",
    "draw",
    "export",
    "find_calibrations",
    "find_conflicts",
    "find_mechanisms",
    "forecast",
    "gate",
    "group_calibrations",
    "group_runs",
    "has_findings",
    "induce",
    "is_anchors",
    "is_run",
    "judge_lines",
    "llm",
    "load_calibrations",
    "match_codes",
    "measure_drift",
    "merge",
    "open_anchors",
    "open_run",
    "open_runs",
    "open_traces",
    "plan_ablation",
    "plan_anchors",
    "plan_check",
    "plan_induction",
    "plan_look",
    "plan_tuning",
    "project_usage",
    "restore_settings",
    "summarize",
    "triage",
    "tune",
]
