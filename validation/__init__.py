"""Statistics of agreement and prevalence: numbers in, numbers and intervals out.

Every name below can be had from here. A module is imported when one of its names is first used:
most need numpy and scipy, which a frequency table or a help text must not wait for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from validation.agreement import (
        Agreement,
        ImpliedAgreement,
        RaterAgreement,
        agreement_of,
        cohen_kappa,
        confusion,
        from_matrix,
        gwet_ac1,
        implied_by_shares,
        kappa_ase,
        kappa_of_weights,
    )
    from validation.clusters import (
        Kish,
        clustered_share,
        flag_design_effect,
        kish,
        kish_effective_n,
    )
    from validation.codes import (
        Averages,
        CodeReport,
        CodeScore,
        code_report,
        confusion_matrix,
        primary_report,
    )
    from validation.comparison import (
        Test,
        adjust,
        co_occurrence,
        difference,
        fisher,
        mcnemar,
        mover,
        paired_difference,
    )
    from validation.distances import jaccard_distance, masi_distance
    from validation.estimate import Estimate
    from validation.intervals import (
        Interval,
        goodman,
        sison_glaz,
        wilson,
        wilson_bonferroni,
        wilson_effective,
    )
    from validation.misclassification import (
        Stratum,
        Verification,
        lang_reiczigel,
        rogan_gladen,
        rogan_gladen_from_labels,
        verification,
    )
    from validation.planning import (
        SampleSize,
        ZeroCount,
        expected_half_widths,
        half_width,
        kappa_sample_size,
        probability_at_least,
        sample_size,
        sample_size_at_least,
        zero_count_upper,
    )
    from validation.prevalence import (
        Cell,
        cell,
        poststratified_point,
        poststratify,
        ppi_mean,
        recall_estimate,
    )
    from validation.published import (
        auc,
        matches_printed,
        percent_difference,
        possible_counts,
        retention,
        round_half_up,
        row_means,
    )
    from validation.reliability import (
        Flips,
        Retest,
        alpha_of_sets,
        fleiss_kappa,
        gwet_ac1_raters,
        krippendorff_alpha,
        pairwise_agreement,
        ratings_from_counts,
        retest,
    )
    from validation.resampling import BootstrapInterval, cluster_bootstrap, cluster_mean
    from validation.sets import PrimaryAgreement, SetAgreement, primary_agreement, set_agreement

_MODULES = {
    "agreement": (
        "Agreement",
        "ImpliedAgreement",
        "RaterAgreement",
        "agreement_of",
        "cohen_kappa",
        "confusion",
        "from_matrix",
        "gwet_ac1",
        "implied_by_shares",
        "kappa_ase",
        "kappa_of_weights",
    ),
    "clusters": (
        "Kish",
        "clustered_share",
        "flag_design_effect",
        "kish",
        "kish_effective_n",
    ),
    "codes": (
        "Averages",
        "CodeReport",
        "CodeScore",
        "code_report",
        "confusion_matrix",
        "primary_report",
    ),
    "comparison": (
        "Test",
        "adjust",
        "co_occurrence",
        "difference",
        "fisher",
        "mcnemar",
        "mover",
        "paired_difference",
    ),
    "distances": (
        "jaccard_distance",
        "masi_distance",
    ),
    "estimate": ("Estimate",),
    "intervals": (
        "Interval",
        "goodman",
        "sison_glaz",
        "wilson",
        "wilson_bonferroni",
        "wilson_effective",
    ),
    "misclassification": (
        "Stratum",
        "Verification",
        "lang_reiczigel",
        "rogan_gladen",
        "rogan_gladen_from_labels",
        "verification",
    ),
    "planning": (
        "SampleSize",
        "ZeroCount",
        "expected_half_widths",
        "half_width",
        "kappa_sample_size",
        "probability_at_least",
        "sample_size",
        "sample_size_at_least",
        "zero_count_upper",
    ),
    "prevalence": (
        "Cell",
        "cell",
        "poststratify",
        "poststratified_point",
        "ppi_mean",
        "recall_estimate",
    ),
    "published": (
        "auc",
        "matches_printed",
        "percent_difference",
        "possible_counts",
        "retention",
        "round_half_up",
        "row_means",
    ),
    "reliability": (
        "Flips",
        "Retest",
        "alpha_of_sets",
        "fleiss_kappa",
        "gwet_ac1_raters",
        "krippendorff_alpha",
        "pairwise_agreement",
        "ratings_from_counts",
        "retest",
    ),
    "resampling": (
        "BootstrapInterval",
        "cluster_bootstrap",
        "cluster_mean",
    ),
    "sets": (
        "PrimaryAgreement",
        "SetAgreement",
        "primary_agreement",
        "set_agreement",
    ),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "Agreement",
    "Averages",
    "BootstrapInterval",
    "Cell",
    "CodeReport",
    "CodeScore",
    "Estimate",
    "Flips",
    "ImpliedAgreement",
    "Interval",
    "Kish",
    "PrimaryAgreement",
    "RaterAgreement",
    "Retest",
    "SampleSize",
    "SetAgreement",
    "Stratum",
    "Test",
    "Verification",
    "ZeroCount",
    "adjust",
    "agreement_of",
    "alpha_of_sets",
    "auc",
    "cell",
    "cluster_bootstrap",
    "cluster_mean",
    "clustered_share",
    "co_occurrence",
    "code_report",
    "cohen_kappa",
    "confusion",
    "confusion_matrix",
    "difference",
    "expected_half_widths",
    "fisher",
    "flag_design_effect",
    "fleiss_kappa",
    "from_matrix",
    "goodman",
    "gwet_ac1",
    "gwet_ac1_raters",
    "half_width",
    "implied_by_shares",
    "jaccard_distance",
    "kappa_ase",
    "kappa_of_weights",
    "kappa_sample_size",
    "kish",
    "kish_effective_n",
    "krippendorff_alpha",
    "lang_reiczigel",
    "masi_distance",
    "matches_printed",
    "mcnemar",
    "mover",
    "paired_difference",
    "pairwise_agreement",
    "percent_difference",
    "possible_counts",
    "poststratified_point",
    "poststratify",
    "ppi_mean",
    "primary_agreement",
    "primary_report",
    "probability_at_least",
    "ratings_from_counts",
    "recall_estimate",
    "retention",
    "retest",
    "rogan_gladen",
    "rogan_gladen_from_labels",
    "round_half_up",
    "row_means",
    "sample_size",
    "sample_size_at_least",
    "set_agreement",
    "sison_glaz",
    "verification",
    "wilson",
    "wilson_bonferroni",
    "wilson_effective",
    "zero_count_upper",
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
