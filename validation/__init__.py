"""Statistics of agreement and prevalence: numbers in, numbers and intervals out.

Every function raises ValueError for an argument that it cannot use, and says which one it is: one
that is out of range or not finite, a count that is not whole, lists of different lengths.

Every name below can be had from here. A module is imported when one of its names is first used:
most need numpy and scipy, which a frequency table or a help text must not wait for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers and editors
    from validation.agreement import RaterAgreement as RaterAgreement
    from validation.agreement import compute_asymptotic_kappa as compute_asymptotic_kappa
    from validation.agreement import compute_cohen_kappa as compute_cohen_kappa
    from validation.agreement import count_pairs as count_pairs
    from validation.agreement import measure_agreement as measure_agreement
    from validation.cluster_comparison import LEAST_CLUSTERS as LEAST_CLUSTERS
    from validation.cluster_comparison import (
        TOO_RARE as TOO_RARE,
    )
    from validation.cluster_comparison import SideTotals as SideTotals
    from validation.cluster_comparison import (
        estimate_clustered_difference as estimate_clustered_difference,
    )
    from validation.cluster_comparison import explain_rare as explain_rare
    from validation.cluster_comparison import permute_clusters as permute_clusters
    from validation.clusters import estimate_clustered_share as estimate_clustered_share
    from validation.clusters import estimate_share_of_totals as estimate_share_of_totals
    from validation.codes import Averages as Averages
    from validation.codes import score_codes as score_codes
    from validation.codes import tabulate_confusion as tabulate_confusion
    from validation.comparison import Test as Test
    from validation.comparison import adjust_p_values as adjust_p_values
    from validation.comparison import estimate_difference as estimate_difference
    from validation.comparison import estimate_paired_difference as estimate_paired_difference
    from validation.comparison import run_fisher_test as run_fisher_test
    from validation.comparison import run_mcnemar_test as run_mcnemar_test
    from validation.comparison import subtract_estimates as subtract_estimates
    from validation.drift import estimate_drift as estimate_drift
    from validation.drift import measure_drift_p as measure_drift_p
    from validation.estimate import Estimate as Estimate
    from validation.influence import Influences as Influences
    from validation.influence import compute_influences as compute_influences
    from validation.intervals import Interval as Interval
    from validation.intervals import compute_wilson_interval as compute_wilson_interval
    from validation.intervals import compute_wilson_limits as compute_wilson_limits
    from validation.joint import estimate_joint_shares as estimate_joint_shares
    from validation.misclassification import estimate_lang_reiczigel as estimate_lang_reiczigel
    from validation.misclassification import estimate_rogan_gladen as estimate_rogan_gladen
    from validation.panel import compute_effective_votes as compute_effective_votes
    from validation.panel import estimate_effective_votes as estimate_effective_votes
    from validation.planning import compute_sample_size as compute_sample_size
    from validation.planning import predict_half_width as predict_half_width
    from validation.prevalence import Cell as Cell
    from validation.prevalence import estimate_ppi_mean as estimate_ppi_mean
    from validation.prevalence import estimate_recall as estimate_recall
    from validation.prevalence import make_cell as make_cell
    from validation.prevalence import poststratify as poststratify
    from validation.reliability import Flips as Flips
    from validation.reliability import Retest as Retest
    from validation.reliability import compute_krippendorff_alpha as compute_krippendorff_alpha
    from validation.reliability import estimate_gains as estimate_gains
    from validation.reliability import estimate_kappa_difference as estimate_kappa_difference
    from validation.reliability import measure_retest_agreement as measure_retest_agreement
    from validation.resampling import bootstrap_mean as bootstrap_mean
    from validation.sets import SetAgreement as SetAgreement
    from validation.sets import measure_set_agreement as measure_set_agreement
    from validation.unseen import estimate_unseen as estimate_unseen

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
