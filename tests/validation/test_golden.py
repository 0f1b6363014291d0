"""Every case of the shared golden file through the public functions.

``CASES`` maps the file's name of a statistic to what gives its expected keys. A statistic that is
neither there nor in ``LEFT_OUT`` fails: it is not covered.
"""

import json
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import validation as v
from annotator.cooperbench.stats.difficulty import compute_areas
from tests.conftest import ROOT
from validation import make_cell
from validation.clusters import compute_effective_size
from validation.distances import compute_jaccard_distance, compute_masi_distance


def pairs(table, labels=None):
    """The (human, judge) label pairs that a table counts, human in rows."""
    labels = labels or [str(number) for number in range(len(table))]
    return [
        (human, judge)
        for human, row in zip(labels, table, strict=True)
        for judge, count in zip(labels, row, strict=True)
        for _ in range(count)
    ]


def counts(table):
    return Counter(pairs(table))


def kappa_table(given):
    table = counts(given["table"])
    kappa, ase = v.compute_cohen_kappa(table), v.compute_asymptotic_kappa(table)
    return {
        "kappa": kappa.value,
        "observed_agreement": kappa.inputs["observed"],
        "expected_agreement": kappa.inputs["expected"],
        "se": ase.inputs["se"],
    }


def kappa_pairs(given):
    kappa = v.compute_cohen_kappa(v.count_pairs(given["human"], given["judge"]))
    defined = kappa.value is not None
    assert defined or kappa.reason
    share = kappa.inputs["observed"]
    return {"kappa": kappa.value, "observed_agreement": share, "defined": defined}


def agreement_join(given):
    human, judge = given["human"], given["judge"]
    both = [key for key in human if key in judge]
    found = v.measure_agreement([human[key] for key in both], [judge[key] for key in both])
    return {
        "n_overlap": len(both),
        "human_only": len(human) - len(both),
        "judge_only": len(judge) - len(both),
        "agreement": found.observed.value,
        "kappa": found.kappa.value,
    }


def limits(found):
    return {"low": found.low, "high": found.high}


def weighted_rates(given):
    human, judge, weights = [], [], []
    for stratum in given["strata"]:
        n, positive = stratum["n_labelled"], stratum["human_positive"]
        human += [True] * positive + [False] * (n - positive)
        judge += [bool(stratum["judge"])] * n
        weights += [stratum["N"] / n] * n

    def rate(values, among, weights):
        kept = [place for place, it in enumerate(among) if it]
        return v.estimate_clustered_share(
            [values[place] for place in kept],
            weights=weights and [weights[place] for place in kept],
        ).value

    def negate(values):
        return [not value for value in values]

    answers = [["yes" if found else "no" for found in side] for side in (human, judge)]
    return {
        "prevalence": v.estimate_clustered_share(human, weights=weights).value,
        "sensitivity": rate(judge, human, weights),
        "specificity": rate(negate(judge), negate(human), weights),
        "precision": rate(human, judge, weights),
        "kappa": v.measure_agreement(*answers, weights=weights).kappa.value,
        "naive_sensitivity": rate(judge, human, None),
        "naive_specificity": rate(negate(judge), negate(human), None),
    }


def primary_and_secondary(given):
    primaries, sets = [], []
    for side in (given["human"], given["judge"]):
        primaries.append([answer["primary"] or "none" for answer in side])
        sets.append([{answer["primary"], *answer["secondary"]} - {None} for answer in side])
    primary, alike = v.measure_agreement(*primaries), v.measure_set_agreement(*sets, resamples=1)
    return {
        "primary_exact": primary.observed.value,
        "primary_kappa": primary.kappa.value,
        "set_exact": alike.exact.value,
        "mean_jaccard": alike.mean_jaccard.value,
        "mean_masi_similarity": alike.mean_masi_similarity.value,
    }


def auc_retention(given):
    cells = np.zeros((10, 4))
    cells[:, ::2] = np.transpose([given["solo_rates"], given["coop_rates"]])
    cells[:, 1::2] = 1
    [solo], [coop] = compute_areas(cells.reshape(1, 40))
    return {"auc_solo": solo, "auc_coop": coop, "retention": coop / solo}


def ac1_table(given):
    labels = [str(number) for number in range(given["n_categories"])]
    raters = zip(*pairs(given["table"]), strict=True)
    found = v.measure_agreement(*raters, categories=labels).ac1
    return {
        "ac1": found.value,
        "observed_agreement": found.inputs["observed"],
        "expected_agreement": found.inputs["expected"],
    }


def multirater(given):
    units = [
        [str(label) for label, n in enumerate(row) for _ in range(n)] for row in given["counts"]
    ]
    found = v.measure_retest_agreement(units, resamples=1)
    return {
        "krippendorff_alpha": found.krippendorff_alpha.value,
        "observed_agreement": found.mean_pairwise_agreement.value,
    }


def alpha_nominal(given):
    found = v.compute_krippendorff_alpha(given["ratings"], resamples=1)
    return {
        "alpha": found.value,
        "n_units_used": found.n,
        "n_pairable_values": found.inputs["n_pairable_values"],
    }


def set_distance(given):
    sets = set(given["a"]), set(given["b"])
    return {"masi": compute_masi_distance(*sets), "jaccard": compute_jaccard_distance(*sets)}


def rates(averages):
    return {name: getattr(averages, name).value for name in ("precision", "recall", "f1")}


def multilabel(given):
    found = v.score_codes(given["codes"], given["human"], given["judge"], resamples=1)
    alike = v.measure_set_agreement(given["human"], given["judge"], resamples=1)
    return {
        "per_code": {
            code: {name: getattr(one, name) for name in ("tp", "fp", "fn", "tn")} | rates(one)
            for code, one in found.per_code.items()
        },
        "micro": rates(found.micro),
        "macro_over_defined": rates(found.macro),
        "exact_match": alike.exact.value,
        "mean_jaccard": alike.mean_jaccard.value,
        "mean_masi_similarity": alike.mean_masi_similarity.value,
    }


def primary(given):
    labels, table = given["labels"], given["table_human_rows_judge_columns"]
    human, judge = ([{label} for label in side] for side in zip(*pairs(table, labels), strict=True))
    found = v.score_codes(labels, human, judge, resamples=1)
    scores = [found.per_code[label] for label in labels]
    return {
        "precision": [one.precision.value for one in scores],
        "recall": [one.recall.value for one in scores],
        "f1": [one.f1.value for one in scores],
        "macro_f1": found.macro.f1.value,
        "micro_f1": found.micro.f1.value,
        "recall_ci": [[one.recall.low, one.recall.high] for one in scores],
        "precision_ci": [[one.precision.low, one.precision.high] for one in scores],
    }


def rogan_gladen(given):
    found = v.estimate_rogan_gladen(**given)
    return {"corrected": found.value, **found.inputs}


def rogan_gladen_from_labels(given):
    tp, fn, fp, tn = (given[name] for name in ("tp", "fn", "fp", "tn"))
    unlabelled = given["unlabelled_positive"], given["unlabelled_n"]
    found = v.estimate_lang_reiczigel(*unlabelled, tp, tp + fn, tn, fp + tn)
    return {"corrected": found.value, **found.inputs}


def ppi_mean(given):
    found = v.estimate_ppi_mean(
        given["human"],
        given["judge_labelled"],
        given["judge_unlabelled"],
        given["lambda"],
        given["confidence"],
    )
    return {"estimate": found.value, "lambda": found.inputs["tuning"], **limits(found)}


def corrected(given, confidence):
    def labels(positive, n):
        return make_cell([1] * positive + [0] * (n - positive))

    return v.poststratify(
        given["N"],
        given["N_judge_positive"],
        labels(given["human_positive_there"], given["n_labelled_judge_positive"]),
        labels(given["human_positive_among_those"], given["n_labelled_judge_negative"]),
        confidence=confidence,
    )


def poststratify(given):
    found = corrected(given, given["confidence"])
    return {"estimate": found.value, **limits(found), **found.inputs}


def mover(given):
    one, other = (corrected(given[name], given["confidence"]) for name in "ab")
    found = v.subtract_estimates(one, other)
    return {
        "a": [one.value, one.low, one.high],
        "b": [other.value, other.low, other.high],
        "difference": found.value,
        **limits(found),
    }


def difference(given):
    found = v.estimate_difference(**given)
    return {"difference": found.value, **limits(found), **found.inputs}


def paired_difference(given):
    found = v.estimate_paired_difference(**given)
    return {"difference": found.value, **limits(found)}


def adjust(given):
    p = given["p"]
    holm, bh = v.adjust_p_values(p, "holm"), v.adjust_p_values(p, "bh")
    return {
        "bh": bh,
        "holm": holm,
        "bh_rejections_at_05": sum(one <= 0.05 for one in bh),
        "bonferroni_rejections_at_05": sum(one * len(p) <= 0.05 for one in p),
    }


def pairs_of(intervals):
    return [[one.low, one.high] for one in intervals]


def point(given):
    human, judge = given["human"], given["judge_labelled"]
    answers = list(zip(human, judge, strict=True))
    flags = [*judge, *given["judge_unlabelled"]]
    cells = (make_cell([label for label, flag in answers if flag == side]) for side in (1, 0))
    return {"estimate": v.poststratify(len(flags), sum(flags), *cells).value}


def bonferroni(given):
    """Wilson's limits at the level that each of so many codes has."""
    each = 1 - (1 - given.get("confidence", 0.95)) / given["n_codes"]
    intervals = (v.compute_wilson_interval(k, given["n"], each) for k in given["counts"])
    return {"intervals": pairs_of(intervals)}


def effective_n(given):
    n, n_effective = len(given["weights"]), compute_effective_size(given["weights"])
    return {"n": n, "n_effective": n_effective, "weighting_design_effect": n / n_effective}


def clustered(given):
    values, clusters = given["values"], given["cluster"]
    found = v.estimate_clustered_share(values, clusters, confidence=given["confidence"])
    ends = {"low_wilson_neff_t": found.low, "high_wilson_neff_t": found.high}
    return {"estimate": found.value, **found.inputs, **ends}


def sample_size(given):
    return {"n": v.compute_sample_size(given["p"], given["half_width"], given["confidence"])}


def retest(given):
    found = v.measure_retest_agreement(given["runs_per_trace"], resamples=1)
    measures = ["mean_pairwise_agreement", "share_unanimous", "krippendorff_alpha"]
    return {name: getattr(found, name).value for name in measures}


def rogan_gladen_with_interval(given):
    found = v.estimate_lang_reiczigel(**given)
    tp, positive, tn, negative = (given[name] for name in ("tp", "n_positive", "tn", "n_negative"))
    rates = [v.compute_wilson_interval(*rate) for rate in ((tp, positive), (tn, negative))]
    sensitivity, specificity = pairs_of(rates)
    return {
        "corrected": found.value,
        **limits(found),
        "kappa": v.compute_cohen_kappa(counts([[tp, positive - tp], [negative - tn, tn]])).value,
        "sensitivity_ci": sensitivity,
        "specificity_ci": specificity,
    }


CASES = {
    "wilson_ci": lambda given: {
        "estimate": v.compute_wilson_interval(**given).value,
        **limits(v.compute_wilson_interval(**given)),
    },
    "cohen_kappa_table": kappa_table,
    "cohen_kappa_pairs": kappa_pairs,
    "agreement_join": agreement_join,
    "kappa_ci_wilson_mapped": lambda given: limits(
        v.compute_cohen_kappa(counts(given["table"]), given["confidence"])
    ),
    "kappa_ci_ase": lambda given: limits(
        v.compute_asymptotic_kappa(counts(given["table"]), given["confidence"])
    ),
    "weighted_sensitivity_specificity": weighted_rates,
    "gwet_ac1_table": ac1_table,
    "multirater_counts": multirater,
    "krippendorff_alpha_nominal": alpha_nominal,
    "set_distance": set_distance,
    "multilabel_report": multilabel,
    "primary_report": primary,
    "rogan_gladen": rogan_gladen,
    "rogan_gladen_from_labels": rogan_gladen_from_labels,
    "rogan_gladen_ci_lang_reiczigel": lambda given: limits(v.estimate_lang_reiczigel(**given)),
    "rogan_gladen_with_lang_reiczigel": rogan_gladen_with_interval,
    "ppi_mean": ppi_mean,
    "poststratified_point": point,
    "poststratified_prevalence": poststratify,
    "kish_effective_n": effective_n,
    "newcombe_difference": difference,
    "newcombe_paired_difference": paired_difference,
    "mover_difference_of_default_estimator": mover,
    "fisher_exact": lambda given: v.run_fisher_test(given["table"]).as_dict(),
    "mcnemar": lambda given: v.run_mcnemar_test(**given).as_dict(),
    "adjust_p": adjust,
    "wilson_bonferroni": bonferroni,
    "clustered_proportion": clustered,
    "judge_retest": retest,
    "auc_retention": auc_retention,
    "samplesize_wilson_half_width": sample_size,
    "primary_secondary_agreement": primary_and_secondary,
}


# What the file has beside the statistics that the program prints: statistics, and numbers of one.
LEFT_OUT = {
    *("grim_check", "gwet_ac1_raw", "implied_chance_corrected", "mean_of_rows"),
    *("multinomial_simultaneous", "percent_difference", "probability_at_least", "retention"),
    *("samplesize_at_least", "zero_count_upper_bound"),
}
LEFT_OUT_OF = {
    "multilabel_report": {"hamming_loss"},
    "judge_retest": {"fleiss_kappa", "majority"},
    "multirater_counts": {"fleiss_kappa", "gwet_ac1"},
    "primary_secondary_agreement": {"judge_primary_in_human_set"},
    "samplesize_wilson_half_width": {"n_normal_approximation"},
}


def golden_cases():
    folder = Path(os.environ.get("ANNOTATOR_TEST_DATA") or ROOT.parent / "shared" / "data")
    path = folder / "stats_golden_dev.json"
    if not path.is_file():
        reason = f"no golden values at {path}: set ANNOTATOR_TEST_DATA to their folder"
        return [pytest.param(None, marks=pytest.mark.skip(reason=reason))]
    cases = json.loads(path.read_text(encoding="utf-8"))["cases"]
    return [
        pytest.param(case, id=case["id"]) for case in cases if case["statistic"] not in LEFT_OUT
    ]


def check(given, expected, tolerance, place):
    """Assert that all that is expected is there, numbers to within the tolerance."""
    if isinstance(expected, dict):
        for key, value in expected.items():
            assert key in given, f"{place}: no {key}"
            check(given[key], value, tolerance, f"{place}.{key}")
    elif isinstance(expected, list):
        assert len(given) == len(expected), place
        for number, (one, other) in enumerate(zip(given, expected, strict=True)):
            check(one, other, tolerance, f"{place}[{number}]")
    elif isinstance(expected, int | float) and not isinstance(expected, bool):
        assert given == pytest.approx(expected, abs=tolerance, rel=0), place
    else:
        assert given == expected, place


@pytest.mark.parametrize("case", golden_cases())
def test_golden_case(case):
    assert case["statistic"] in CASES, f"nothing computes {case['statistic']}"
    found = CASES[case["statistic"]](case["input"])
    missing = LEFT_OUT_OF.get(case["statistic"], set())
    expected = {key: value for key, value in case["expected"].items() if key not in missing}
    check(found, expected, case["tolerance"], case["id"])
