"""Statistics of agreement and prevalence: numbers in, numbers and intervals out.

Every function raises ValueError for an argument that it cannot use, and says which one it is: one
that is out of range or not finite, a count that is not whole, lists of different lengths.

Every name below can be had from here. A module is imported when one of its names is first used:
most need numpy and scipy, which a frequency table or a help text must not wait for.
"""

# ruff: noqa: F403

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers and editors
    from validation.agreement import *
    from validation.cluster_comparison import *
    from validation.clusters import *
    from validation.codes import *
    from validation.comparison import *
    from validation.drift import *
    from validation.estimate import *
    from validation.influence import *
    from validation.intervals import *
    from validation.joint import *
    from validation.misclassification import *
    from validation.panel import *
    from validation.planning import *
    from validation.prevalence import *
    from validation.reliability import *
    from validation.resampling import *
    from validation.sets import *
    from validation.unseen import *

_MODULES = {
    "agreement": "RaterAgreement compute_asymptotic_kappa compute_cohen_kappa count_pairs"
    " measure_agreement",
    "cluster_comparison": "LEAST_CLUSTERS TOO_RARE SideTotals"
    " estimate_clustered_difference explain_rare permute_clusters",
    "clusters": "estimate_clustered_share estimate_share_of_totals",
    "codes": "Averages score_codes tabulate_confusion",
    "comparison": "Test adjust_p_values estimate_difference estimate_paired_difference"
    " run_fisher_test run_mcnemar_test subtract_estimates",
    "drift": "estimate_drift measure_drift_p",
    "estimate": "Estimate",
    "influence": "Influences compute_influences",
    "intervals": "Interval compute_wilson_interval compute_wilson_limits",
    "joint": "estimate_joint_shares",
    "misclassification": "estimate_lang_reiczigel estimate_rogan_gladen",
    "panel": "compute_effective_votes estimate_effective_votes",
    "planning": "predict_half_width compute_sample_size",
    "prevalence": "Cell make_cell poststratify estimate_ppi_mean estimate_recall",
    "reliability": "Flips Retest compute_krippendorff_alpha estimate_gains"
    " estimate_kappa_difference"
    " measure_retest_agreement",
    "resampling": "bootstrap_mean",
    "sets": "SetAgreement measure_set_agreement",
    "unseen": "estimate_unseen",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
