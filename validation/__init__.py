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
        agreement_of,
        cohen_kappa,
        confusion,
        kappa_ase,
    )
    from validation.cluster_comparison import (
        LEAST_CLUSTERS,
        SideTotals,
        clustered_difference,
        permute_clusters,
    )
    from validation.clusters import clustered_share, share_of_totals
    from validation.codes import Averages, CodeReport, CodeScore, code_report, confusion_matrix
    from validation.comparison import (
        Test,
        adjust,
        difference,
        fisher,
        mcnemar,
        mover,
        paired_difference,
    )
    from validation.estimate import Estimate
    from validation.influence import Influences, cluster_variance, poststratified_influences
    from validation.intervals import Interval, wilson, wilson_effective
    from validation.joint import joint_shares
    from validation.misclassification import lang_reiczigel, rogan_gladen
    from validation.planning import expected_half_widths, sample_size
    from validation.prevalence import Cell, cell, poststratify, ppi_mean, recall_estimate
    from validation.reliability import Flips, Retest, kappa_difference, krippendorff_alpha, retest
    from validation.resampling import BootstrapInterval, cluster_bootstrap, cluster_mean
    from validation.sets import SetAgreement, set_agreement

_MODULES = {
    "agreement": "Agreement RaterAgreement agreement_of cohen_kappa confusion kappa_ase",
    "cluster_comparison": "LEAST_CLUSTERS SideTotals clustered_difference permute_clusters",
    "clusters": "clustered_share share_of_totals",
    "codes": "Averages CodeReport CodeScore code_report confusion_matrix",
    "comparison": "Test adjust difference fisher mcnemar mover paired_difference",
    "estimate": "Estimate",
    "influence": "Influences cluster_variance poststratified_influences",
    "intervals": "Interval wilson wilson_effective",
    "joint": "joint_shares",
    "misclassification": "lang_reiczigel rogan_gladen",
    "planning": "expected_half_widths sample_size",
    "prevalence": "Cell cell poststratify ppi_mean recall_estimate",
    "reliability": "Flips Retest kappa_difference krippendorff_alpha retest",
    "resampling": "BootstrapInterval cluster_bootstrap cluster_mean",
    "sets": "SetAgreement set_agreement",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = [
    "LEAST_CLUSTERS",
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
    "adjust",
    "agreement_of",
    "cell",
    "cluster_bootstrap",
    "cluster_mean",
    "cluster_variance",
    "clustered_difference",
    "clustered_share",
    "code_report",
    "cohen_kappa",
    "confusion",
    "confusion_matrix",
    "difference",
    "expected_half_widths",
    "fisher",
    "joint_shares",
    "kappa_ase",
    "kappa_difference",
    "krippendorff_alpha",
    "lang_reiczigel",
    "mcnemar",
    "mover",
    "paired_difference",
    "permute_clusters",
    "poststratified_influences",
    "poststratify",
    "ppi_mean",
    "recall_estimate",
    "retest",
    "rogan_gladen",
    "sample_size",
    "set_agreement",
    "share_of_totals",
    "wilson",
    "wilson_effective",
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
