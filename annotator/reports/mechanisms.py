"""The findings of one code in groups: the commonest ways in which it happens."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from annotator.base.errors import AnnotatorError
from annotator.base.text import format_count, suggest
from annotator.reports.table import Table
from annotator.rubrics import Scheme
from annotator.rubrics.annotations import JUDGED, Evidence
from annotator.runs.run import Run
from annotator.traces.clusters import ClusterCounts, compute_share, find_cluster
from validation import Interval

LEAST_FINDINGS = 20
_LEAST_GROUPS, _MOST_GROUPS = 3, 8
_LEAST_SIZE = 3  # findings of a group, which is shown with three quotes
_LEAST_TASKS = 3  # a word of fewer tasks tells their subject, not how the failure happens
_DIMENSIONS = 4
_DRAWS = 10
_LEAST_WORDS = 3  # of a quote that says something by itself
_LONGEST_NAME = 46
_WORD = re.compile(r"[^\W\d]{2,}")


@dataclass(frozen=True, slots=True)
class CodeFinding:
    """A finding of the code: its trace, the trace's task, its rationale and its quotes."""

    trace_id: str
    task: str | None
    rationale: str
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class Mechanism:
    """A group of findings. ``findings``: the most central comes first, and so does its most
    central quote. ``sentence``: what a model says of it. ``share``: of the traces with the code.
    """

    name: str
    sentence: str
    findings: tuple[CodeFinding, ...]
    share: Interval


@dataclass(frozen=True, slots=True)
class Mechanisms:
    """The findings of a code in groups, the largest first.

    Attributes:
        n: the traces with a finding of the code, of ``tasks``; None if no trace names a task.
        silhouette: how far the groups lie apart, from -1 to 1.
        stability: how far they stay the same without a tenth of the findings: the adjusted Rand
            index, mean of ten draws. 1: the same, 0: by chance.
        notes: how much of the run is left out.
        named_by: the model that named the groups; "" if quotes do.
    """

    run: str
    rubric: str
    code: str
    code_name: str
    n: int
    findings: int
    tasks: int | None
    groups: tuple[Mechanism, ...]
    silhouette: float
    stability: float
    notes: tuple[str, ...]
    named_by: str = ""

    def table(self) -> Table:
        """Return the table of ``annotate report --mechanisms``."""
        from annotator.reports.tables import mechanisms

        return mechanisms.tabulate(self)

    def rename(self, names: Sequence[tuple[str, str]], model: str) -> "Mechanisms":
        """Return the same groups with a model's name and sentence for each."""
        named = [
            replace(group, name=name, sentence=sentence)
            for group, (name, sentence) in zip(self.groups, names, strict=True)
        ]
        return replace(self, groups=tuple(named), named_by=model)


def find_mechanisms(run: Run, code: str, rubric: str | None, cluster: Sequence[str]) -> Mechanisms:
    """Return the findings of a code, primary or secondary, in three to eight groups.

    The vectors are of the words of the rationales; the number of groups has the best silhouette.

    Raises:
        AnnotatorError: the run has no such code, fewer than 20 findings of it, or their rationales
            are too similar for three groups.
    """
    scheme = _find_scheme(run, code, rubric)
    findings: list[CodeFinding] = []
    left = 0
    for annotation in run.annotations(scheme.id):
        having = [x for x in annotation.findings if x.code == code]
        if annotation.status in JUDGED:
            about = annotation.trace_id, find_cluster(annotation.attributes, cluster)
            findings += (CodeFinding(*about, x.rationale, x.evidence) for x in having)
        else:
            left += bool(having)
    if len(findings) < LEAST_FINDINGS:
        few = format_count(len(findings), "finding")
        raise AnnotatorError(f"{run} has {few} of {code}: groups need {LEAST_FINDINGS} or more")
    space = _Space(findings)
    members, silhouette = _group(space.vectors)
    if not members:
        raise AnnotatorError(
            f"{run}: the {len(findings)} findings of {code} give fewer than {_LEAST_GROUPS}"
            " different reasons: there is nothing to group"
        )
    groups = [[findings[n] for n in numbers] for numbers in members]
    by_trace: dict[str, tuple[str | None, set[int]]] = {}
    for number, group in enumerate(groups):
        for finding in group:
            by_trace.setdefault(finding.trace_id, (finding.task, set()))[1].add(number)
    counts = ClusterCounts()
    for task, numbers in by_trace.values():
        counts.add(task, numbers)
    mechanisms = []
    for number, group in enumerate(groups):
        central = space.sort(group, members[number])
        name = _shorten(central[0].evidence[0].quote)
        share = compute_share(counts, number)
        mechanisms.append(Mechanism(name, "", tuple(central), share))
    [name] = [each.name for each in scheme.codes if each.id == code]
    mechanisms.sort(key=lambda group: (-group.share.k, -len(group.findings)))
    return Mechanisms(
        *(str(run), scheme.id, code, name, len(by_trace), len(findings)),
        *(len(counts) if counts.named else None, tuple(mechanisms), silhouette),
        _measure_stability(findings, members),
        tuple(_describe_rest(run, left)),
    )


def _describe_rest(run: Run, left: int) -> Iterator[str]:
    if left:
        yield f"Not counted: {format_count(left, 'undecided trace')} with a finding of the code."
    yield from run.manifest.limitations


def _find_scheme(run: Run, code: str, rubric: str | None) -> Scheme:
    schemes = [run.scheme(rubric)] if rubric else list(run.schemes.values())
    having = [scheme for scheme in schemes if code in scheme.ids]
    if not having:
        ids = [each for scheme in schemes for each in scheme.ids]
        names = suggest(code, ids) or f", only {', '.join(ids)}"
        raise AnnotatorError(f"{run}: no code {code!r} in this run{names}")
    if len(having) > 1:
        names = ", ".join(scheme.id for scheme in having)
        raise AnnotatorError(f"{run}: {code} is a code of {names}: choose one with --rubric")
    return having[0]


class _Space:
    """Vectors of texts: weights of words and word pairs (TF-IDF) in four dimensions (SVD)."""

    def __init__(self, findings: Sequence[CodeFinding]) -> None:
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import TfidfVectorizer

        texts = [x.rationale or " ".join(q.quote for q in x.evidence) for x in findings]
        tasks = Counter(
            word
            for word, _ in {
                (word, finding.task or finding.trace_id)
                for finding, text in zip(findings, texts, strict=True)
                for word in _list_words(text)
            }
        )
        minimum = min(_LEAST_TASKS, len({x.task or x.trace_id for x in findings}))
        self._common = {word for word, n in tasks.items() if n >= minimum}
        self.vectors: NDArray[np.float64] = np.zeros((len(texts), 1))
        if len(self._common) > 1:
            self._weights = TfidfVectorizer(analyzer=self._list_terms, sublinear_tf=True)
            matrix = self._weights.fit_transform(texts)
            self._svd = TruncatedSVD(min(_DIMENSIONS, matrix.shape[1]), random_state=0)
            self._svd.fit(matrix)
            self.vectors = self._project(texts)

    def _list_terms(self, text: str) -> list[str]:
        terms = [word for word in _list_words(text) if word in self._common]
        return [*terms, *(f"{a} {b}" for a, b in pairwise(terms))]

    def _project(self, texts: Sequence[str]) -> NDArray[np.float64]:
        from sklearn.preprocessing import normalize

        vectors: NDArray[np.float64] = normalize(
            self._svd.transform(self._weights.transform(texts))
        )
        return vectors

    def sort(self, group: Sequence[CodeFinding], numbers: Sequence[int]) -> list[CodeFinding]:
        """Return findings and the quotes of each, those nearest to the group's mean first."""
        mean = self.vectors[numbers].mean(axis=0)
        near = self.vectors[numbers] @ mean
        central = [group[n] for n in np.argsort(-near, kind="stable")]
        return [replace(finding, evidence=self._sort_quotes(finding, mean)) for finding in central]

    def _sort_quotes(self, finding: CodeFinding, mean: NDArray[np.float64]) -> tuple[Evidence, ...]:
        quotes = [item.quote for item in finding.evidence]
        near = (self._project(quotes) @ mean).tolist()
        ranks = [
            (len(quote.split()) < _LEAST_WORDS, -x) for quote, x in zip(quotes, near, strict=True)
        ]
        return tuple(finding.evidence[n] for n in sorted(range(len(quotes)), key=ranks.__getitem__))


def _list_words(text: str) -> list[str]:
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return [word for word in _WORD.findall(text.lower()) if word not in ENGLISH_STOP_WORDS]


def _group(vectors: NDArray[np.float64]) -> tuple[list[list[int]], float]:
    """Return the numbers of the vectors in each group, and the silhouette; [] if too few differ."""
    from sklearn.cluster import AgglomerativeClustering
    from sklearn.metrics import silhouette_score

    maximum = min(_MOST_GROUPS, len(np.unique(vectors.round(6), axis=0)))
    best: tuple[bool, float, Any] = (False, -2.0, None)
    for k in range(_LEAST_GROUPS, maximum + 1):
        labels = AgglomerativeClustering(k).fit_predict(vectors)
        large = bool(np.bincount(labels).min() >= _LEAST_SIZE)
        silhouette = float(silhouette_score(vectors, labels))
        if (large, silhouette) > best[:2]:
            best = large, silhouette, labels
    if best[2] is None:
        return [], 0.0
    return [np.flatnonzero(best[2] == n).tolist() for n in range(best[2].max() + 1)], best[1]


def _measure_stability(findings: Sequence[CodeFinding], members: Sequence[Sequence[int]]) -> float:
    from sklearn.metrics import adjusted_rand_score

    group_of = {n: number for number, numbers in enumerate(members) for n in numbers}
    random = np.random.default_rng(0)
    indices = []
    for _ in range(_DRAWS):
        kept = sorted(random.permutation(len(findings))[len(findings) // 10 :].tolist())
        groups, _ = _group(_Space([findings[n] for n in kept]).vectors)
        again = {kept[n]: number for number, numbers in enumerate(groups) for n in numbers}
        before = [group_of[n] for n in again]
        indices.append(adjusted_rand_score(before, list(again.values())) if again else 0.0)
    return float(np.mean(indices))


def _shorten(text: str) -> str:
    """Return the first line of a text, without the mark of a line in a diff."""
    line = " ".join(text.split()).removeprefix("+").removeprefix("-").strip()
    if len(line) <= _LONGEST_NAME:
        return line
    cut = line[: _LONGEST_NAME - 3]
    return f"{cut.rpartition(' ')[0] if ' ' in cut[_LONGEST_NAME // 2 :] else cut}..."
