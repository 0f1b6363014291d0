"""The Python API. The command line is a thin layer over it.

Nothing here prints: progress and notices come through callbacks. Errors are subclasses of
:class:`~annotator.base.errors.AnnotatorError`.
"""

from annotator.api.ablating import AblationPlan, ablate, plan_ablation
from annotator.api.calibrating import calibrate, calibrate_rubrics, compare_annotators
from annotator.api.checking import VARIANTS, CheckPlan, check_judge, plan_check
from annotator.api.conflicts import ConflictSummary, find_conflicts
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
)
from annotator.api.tuning import plan_tuning, tune
from annotator.rubrics.annotations import Annotation
from annotator.runs.engines import ENGINES
from annotator.runs.execute import Only, RubricSource, RunProgress
from annotator.runs.failures import describe_failures
from annotator.runs.forecast import Forecast, project_usage
from annotator.runs.lines import judge_lines
from annotator.runs.manifest import IfRejected
from annotator.runs.restore import open_traces, restore_settings
from annotator.runs.run import Run, is_run, open_run, open_runs

__all__ = [
    "ENGINES",
    "VARIANTS",
    "AblationPlan",
    "Annotation",
    "CheckPlan",
    "ConflictSummary",
    "Forecast",
    "IfRejected",
    "JudgeSource",
    "Only",
    "RubricSource",
    "Run",
    "RunProgress",
    "StatsSummary",
    "aannotate",
    "ablate",
    "annotate",
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
    "find_calibrations",
    "find_conflicts",
    "find_mechanisms",
    "forecast",
    "group_calibrations",
    "group_runs",
    "has_findings",
    "induce",
    "is_run",
    "judge_lines",
    "llm",
    "load_calibrations",
    "match_codes",
    "merge",
    "open_run",
    "open_runs",
    "open_traces",
    "plan_ablation",
    "plan_check",
    "plan_induction",
    "plan_tuning",
    "project_usage",
    "restore_settings",
    "summarize",
    "tune",
]
