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
    from validation.clusters import clustered_share, flag_design_effect
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
    from validation.intervals import Interval, goodman, wilson, wilson_effective
    from validation.misclassification import lang_reiczigel, rogan_gladen
    from validation.planning import expected_half_widths
    from validation.prevalence import Cell, cell, poststratify, ppi_mean, recall_estimate
    from validation.published import auc, retention
    from validation.reliability import Flips, Retest, krippendorff_alpha, retest
    from validation.resampling import BootstrapInterval, cluster_bootstrap, cluster_mean
    from validation.sets import SetAgreement, set_agreement

_MODULES = {
    "agreement": "Agreement RaterAgreement agreement_of cohen_kappa confusion kappa_ase",
    "clusters": "clustered_share flag_design_effect",
    "codes": "Averages CodeReport CodeScore code_report confusion_matrix",
    "comparison": "Test adjust difference fisher mcnemar mover paired_difference",
    "estimate": "Estimate",
    "intervals": "Interval goodman wilson wilson_effective",
    "misclassification": "lang_reiczigel rogan_gladen",
    "planning": "expected_half_widths",
    "prevalence": "Cell cell poststratify ppi_mean recall_estimate",
    "published": "auc retention",
    "reliability": "Flips Retest krippendorff_alpha retest",
    "resampling": "BootstrapInterval cluster_bootstrap cluster_mean",
    "sets": "SetAgreement set_agreement",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = [
    "Agreement",
    "Averages",
    "BootstrapInterval",
    "Cell",
    "CodeReport",
    "CodeScore",
    "Estimate",
    "Flips",
    "Interval",
    "RaterAgreement",
    "Retest",
    "SetAgreement",
    "Test",
    "adjust",
    "agreement_of",
    "auc",
    "cell",
    "cluster_bootstrap",
    "cluster_mean",
    "clustered_share",
    "code_report",
    "cohen_kappa",
    "confusion",
    "confusion_matrix",
    "difference",
    "expected_half_widths",
    "fisher",
    "flag_design_effect",
    "goodman",
    "kappa_ase",
    "krippendorff_alpha",
    "lang_reiczigel",
    "mcnemar",
    "mover",
    "paired_difference",
    "poststratify",
    "ppi_mean",
    "recall_estimate",
    "retention",
    "retest",
    "rogan_gladen",
    "set_agreement",
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
