"""Statistics of agreement and prevalence: numbers in, numbers and intervals out.

Every name below can be had from here. A module is imported when one of its names is first used:
most need numpy and scipy, which a frequency table or a help text must not wait for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from validation.agreement import (
        Agreement,
        RaterAgreement,
        compute_asymptotic_kappa,
        compute_cohen_kappa,
        count_pairs,
        measure_agreement,
    )
    from validation.cluster_comparison import (
        LEAST_CLUSTERS,
        TOO_RARE,
        SideTotals,
        estimate_clustered_difference,
        permute_clusters,
    )
    from validation.clusters import estimate_clustered_share, estimate_share_of_totals
    from validation.codes import Averages, CodeReport, CodeScore, score_codes, tabulate_confusion
    from validation.comparison import (
        Test,
        adjust_p_values,
        estimate_difference,
        estimate_paired_difference,
        run_fisher_test,
        run_mcnemar_test,
        subtract_estimates,
    )
    from validation.estimate import Estimate
    from validation.influence import Influences, compute_cluster_variance, compute_influences
    from validation.intervals import Interval, compute_wilson_interval, compute_wilson_limits
    from validation.joint import estimate_joint_shares
    from validation.misclassification import estimate_lang_reiczigel, estimate_rogan_gladen
    from validation.planning import compute_sample_size, predict_half_width
    from validation.prevalence import (
        Cell,
        estimate_ppi_mean,
        estimate_recall,
        make_cell,
        poststratify,
    )
    from validation.reliability import (
        Flips,
        Retest,
        compute_krippendorff_alpha,
        estimate_kappa_difference,
        measure_retest_agreement,
    )
    from validation.resampling import BootstrapInterval, bootstrap_clusters, bootstrap_mean
    from validation.sets import SetAgreement, measure_set_agreement

_MODULES = {
    "agreement": "Agreement RaterAgreement compute_asymptotic_kappa compute_cohen_kappa count_pairs"
    " measure_agreement",
    "cluster_comparison": "LEAST_CLUSTERS TOO_RARE SideTotals"
    " estimate_clustered_difference permute_clusters",
    "clusters": "estimate_clustered_share estimate_share_of_totals",
    "codes": "Averages CodeReport CodeScore score_codes tabulate_confusion",
    "comparison": "Test adjust_p_values estimate_difference estimate_paired_difference"
    " run_fisher_test run_mcnemar_test subtract_estimates",
    "estimate": "Estimate",
    "influence": "Influences compute_cluster_variance compute_influences",
    "intervals": "Interval compute_wilson_interval compute_wilson_limits",
    "joint": "estimate_joint_shares",
    "misclassification": "estimate_lang_reiczigel estimate_rogan_gladen",
    "planning": "predict_half_width compute_sample_size",
    "prevalence": "Cell make_cell poststratify estimate_ppi_mean estimate_recall",
    "reliability": "Flips Retest compute_krippendorff_alpha estimate_kappa_difference"
    " measure_retest_agreement",
    "resampling": "BootstrapInterval bootstrap_clusters bootstrap_mean",
    "sets": "SetAgreement measure_set_agreement",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = [
    "LEAST_CLUSTERS",
    "TOO_RARE",
    "Agreement",
    "Averages",
    "BootstrapInterval",
    "Cell",
    "CodeReport",
    "CodeScore",
    "Estimate",
    "Flips",
    "Influences",
    "Interval",
    "RaterAgreement",
    "Retest",
    "SetAgreement",
    "SideTotals",
    "Test",
    "adjust_p_values",
    "bootstrap_clusters",
    "bootstrap_mean",
    "compute_asymptotic_kappa",
    "compute_cluster_variance",
    "compute_cohen_kappa",
    "compute_influences",
    "compute_krippendorff_alpha",
    "compute_sample_size",
    "compute_wilson_interval",
    "compute_wilson_limits",
    "count_pairs",
    "estimate_clustered_difference",
    "estimate_clustered_share",
    "estimate_difference",
    "estimate_joint_shares",
    "estimate_kappa_difference",
    "estimate_lang_reiczigel",
    "estimate_paired_difference",
    "estimate_ppi_mean",
    "estimate_recall",
    "estimate_rogan_gladen",
    "estimate_share_of_totals",
    "make_cell",
    "measure_agreement",
    "measure_retest_agreement",
    "measure_set_agreement",
    "permute_clusters",
    "poststratify",
    "predict_half_width",
    "run_fisher_test",
    "run_mcnemar_test",
    "score_codes",
    "subtract_estimates",
    "tabulate_confusion",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
