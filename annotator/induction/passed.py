"""How many failed and how many passed runs have a code."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from annotator.traces.clusters import (
    DEFAULT_CLUSTER,
    ClusterCounts,
    compute_share,
    find_cluster,
    name_lone_cluster,
)
from validation import (
    Estimate,
    Interval,
    SideTotals,
    estimate_clustered_difference,
)

if TYPE_CHECKING:
    from annotator.induction.codebook import Codebook, InducedCode

FEWEST_PASSED = 5  # passed runs, to tell whether they have a code as often


@dataclass(frozen=True)
class CodeShares:
    """How many runs have a code: ``failed`` ones (and those of unknown outcome), and ``passed``.

    ``difference``: failed minus passed; None: fewer than five passed runs were read.
    """

    code: "InducedCode"
    failed: Interval
    passed: Interval
    difference: Estimate | None


def compare_passed(book: "Codebook", codes: "Sequence[InducedCode]") -> list[CodeShares]:
    """Return the shares of codes among failed and among passed runs."""
    sides = {False: ClusterCounts(), True: ClusterCounts()}
    having = {code.id: set(book.list_traces(code)) for code in codes}
    for trace_id, attributes in book.traces.items():
        labels = [name for name, traces in having.items() if trace_id in traces]
        cluster = find_cluster(attributes, DEFAULT_CLUSTER)
        sides[attributes.get("passed") is True].add(cluster, labels)
    passed_runs = sum(attributes.get("passed") is True for attributes in book.traces.values())
    comparable = FEWEST_PASSED <= passed_runs < len(book.traces)
    clusters = {
        trace_id: find_cluster(attributes, DEFAULT_CLUSTER) or name_lone_cluster(trace_id)
        for trace_id, attributes in book.traces.items()
    }
    return [
        CodeShares(
            code,
            compute_share(sides[False], code.id),
            compute_share(sides[True], code.id),
            _estimate_difference(book, clusters, having[code.id]) if comparable else None,
        )
        for code in codes
    ]


def _estimate_difference(
    book: "Codebook", clusters: Mapping[str, str], having: Collection[str]
) -> Estimate:
    """Return the share of failed runs with a code, minus that of passed ones."""
    order = sorted(set(clusters.values()))
    sides = []
    for passed in (False, True):
        ids = [x for x, values in book.traces.items() if (values.get("passed") is True) == passed]
        totals = Counter(clusters[x] for x in ids)
        ones = Counter(clusters[x] for x in ids if x in having)
        k, n = ([float(counts[name]) for name in order] for counts in (ones, totals))
        sides.append(SideTotals(np.array(k), np.array(n)))
    first, second = sides
    return estimate_clustered_difference(first, second)


def is_in_passed(shares: CodeShares) -> bool:
    """Whether passed runs have the code, and not significantly less often than failed ones."""
    low = shares.difference.low if shares.difference else None
    return bool(shares.passed.k) and low is not None and low <= 0
