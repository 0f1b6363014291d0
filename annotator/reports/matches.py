"""Codes of two judges, or two inductions, matched by their findings on the same traces."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from annotator.base.errors import AnnotatorError
from annotator.base.text import Note, format_count, list_first
from annotator.induction.codebook import Codebook
from annotator.reports.table import Table
from annotator.rubrics import group_codes, name_group
from annotator.rubrics.annotations import JUDGED, Evidence
from annotator.runs.run import Run
from annotator.traces.clusters import find_cluster
from validation import Estimate, compute_cohen_kappa, count_pairs, measure_agreement

_YES, _NO = "yes", "no"
Verdict = Literal["match", "open", "none"]


@dataclass(frozen=True)
class CodeFindings:
    """A code: the traces that were judged for it, and the quotes in each trace that has it."""

    name: str
    judged: set[str] = field(default_factory=set)
    quotes: dict[str, list[Evidence]] = field(default_factory=dict)


@dataclass(frozen=True)
class CodedTraces:
    """The codes of a run or an induction with their findings.

    ``tasks``: the task of each trace; ``notes``: which codes and traces are left out.
    """

    name: str
    codes: tuple[CodeFindings, ...]
    tasks: Mapping[str, str | None]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CodeMatch:
    """A code of each side, on the ``n`` traces that were judged for both.

    Attributes:
        first_count: the traces with the first code; ``second_count`` and ``both`` likewise.
        overlaps: the traces with both in which a quote of the first overlaps one of the second.
        kappa: their agreement; without an interval if fewer than 10 traces have one of them.
    """

    first: str
    second: str
    n: int
    first_count: int
    second_count: int
    both: int
    overlaps: int
    kappa: Estimate

    @property
    def verdict(self) -> Verdict:
        """``match``: the whole interval is above 0; ``open``: kappa is, and has no interval."""
        if self.kappa.value is None or self.kappa.value <= 0:
            return "none"
        if self.kappa.low is None:
            return "open"
        return "match" if self.kappa.low > 0 else "none"


@dataclass(frozen=True, slots=True)
class LoneCode:
    """A code without a match: in ``count`` of ``n`` traces; ``nearest``: the best pair with it."""

    code: str
    count: int
    n: int
    nearest: CodeMatch | None


@dataclass(frozen=True, slots=True)
class RubricMatch:
    """Two sets of codes, matched one to one.

    Attributes:
        n: the traces that were judged by both, of ``tasks``; None if no trace names a task.
        matches: the pairs that match, and the open ones below them.
        only_first: the first one's codes without a match, also those in none of these traces;
            ``only_second`` likewise.
    """

    first: str
    second: str
    n: int
    tasks: int | None
    matches: tuple[CodeMatch, ...]
    only_first: tuple[LoneCode, ...]
    only_second: tuple[LoneCode, ...]
    notes: tuple[str, ...]

    def table(self) -> Table:
        """Return the table of ``annotate rubric diff``."""
        from annotator.reports.tables import matches

        return matches.tabulate(self)


def read_run(run: Run, cluster: Sequence[str]) -> CodedTraces:
    """Return the codes of a run, primary or secondary, on the traces that it judged."""
    several = len(run.schemes) > 1
    codes = {
        (scheme.id, code): CodeFindings(f"{scheme.id}.{code}" if several else code)
        for scheme in run.schemes.values()
        for code in scheme.ids
        if code in scheme.judged
    }
    tasks: dict[str, str | None] = {}
    left = 0
    for annotation in run.annotations():
        if annotation.status not in JUDGED:
            left += annotation.status in ("undecided", "failed")
            continue
        tasks[annotation.trace_id] = find_cluster(annotation.attributes, cluster)
        for (rubric, code), findings in codes.items():
            if rubric == annotation.rubric:
                findings.judged.add(annotation.trace_id)
                if code in annotation.codes:
                    quotes = [
                        item for x in annotation.findings if x.code == code for item in x.evidence
                    ]
                    findings.quotes[annotation.trace_id] = quotes
    return CodedTraces(str(run), tuple(codes.values()), tasks, tuple(_describe(run, left)))


def _describe(run: Run, left: int) -> Iterator[str]:
    unknown = [x.id for scheme in run.schemes.values() for x in scheme.codes if not x.judged]
    screens = any(scheme.screens for scheme in run.schemes.values())
    if unknown:
        yield f"{run}: the judge has no rule for {', '.join(unknown)}."
    if left:
        yield f"{run}: not counted: {format_count(left, 'undecided or failed trace')}."
    if left and screens:
        yield f"{run}: its judge rules out no code. kappa is of traces in which it found one."
    yield from (f"{run}: {text}" for text in run.manifest.limitations)


def read_codebook(book: Codebook, name: str, cluster: Sequence[str]) -> CodedTraces:
    """Return the codes of an induction, and their groups, on the traces that it read."""
    coded = {code.id: code.findings for code in book.codes}
    for group, ids in group_codes(book.codes).items():
        coded[name_group(group)] = tuple(finding for id_ in ids for finding in coded[id_])
    codes = []
    for code, finding_ids in coded.items():
        findings = CodeFindings(code, set(book.traces))
        for finding in map(book.by_id.__getitem__, finding_ids):
            findings.quotes.setdefault(finding.trace_id, []).extend(finding.evidence)
        codes.append(findings)
    tasks = {id_: find_cluster(attributes, cluster) for id_, attributes in book.traces.items()}
    notes = [f"{name}: {len(book.uncoded)} findings have no code."] if book.uncoded else []
    return CodedTraces(name, tuple(codes), tasks, tuple(notes))


def match_codes(first: CodedTraces, second: CodedTraces) -> RubricMatch:
    """Match the codes of two sides one to one, so that the sum of the kappas is largest.

    Raises:
        AnnotatorError: no trace was judged by both.
    """
    shared = first.tasks.keys() & second.tasks.keys()
    if not shared:
        ids = (list_first(sorted(side.tasks), 1) or "no trace" for side in (first, second))
        raise AnnotatorError(
            f"{first.name} and {second.name} judged no trace in common ({'; '.join(ids)}): codes"
            " match by their findings on the same traces"
        )
    tasks = {id_: first.tasks[id_] or second.tasks[id_] for id_ in shared}
    pairs = [[_compare(row, column, tasks) for column in second.codes] for row in first.codes]
    best = [pairs[i][j] for i, j in _assign(pairs)]
    matches = [match for match in best if match.verdict != "none"]
    ranks = {"match": 0, "open": 1}
    matches.sort(key=lambda match: (ranks[match.verdict], -(match.kappa.value or 0)))
    by_column = [list(column) for column in zip(*pairs, strict=True)]
    named = {task for task in tasks.values() if task}
    return RubricMatch(
        first.name,
        second.name,
        len(shared),
        len(set(tasks.values()) - {None}) + sum(not x for x in tasks.values()) if named else None,
        tuple(matches),
        tuple(_list_lone(first.codes, pairs, {match.first for match in matches}, shared)),
        tuple(_list_lone(second.codes, by_column, {match.second for match in matches}, shared)),
        tuple(Note(text, "part") for side in (first, second) for text in side.notes),
    )


def _compare(
    first: CodeFindings, second: CodeFindings, tasks: Mapping[str, str | None]
) -> CodeMatch:
    ids = sorted(tasks.keys() & first.judged & second.judged)
    labels = [[_YES if id_ in side.quotes else _NO for id_ in ids] for side in (first, second)]
    both = [id_ for id_ in ids if id_ in first.quotes and id_ in second.quotes]
    clusters = [tasks[id_] or f"trace:{id_}" for id_ in ids] if any(tasks.values()) else None
    kappa = compute_cohen_kappa(count_pairs(*labels))
    if kappa.value is not None and kappa.value > 0:  # only then is its interval used
        kappa = measure_agreement(*labels, clusters=clusters).kappa
    return CodeMatch(
        first.name,
        second.name,
        len(ids),
        labels[0].count(_YES),
        labels[1].count(_YES),
        len(both),
        sum(_has_overlap(first.quotes[id_], second.quotes[id_]) for id_ in both),
        kappa,
    )


def _has_overlap(first: Sequence[Evidence], second: Sequence[Evidence]) -> bool:
    return any(
        a.source == b.source and a.start < b.end and b.start < a.end for a in first for b in second
    )


def _assign(pairs: Sequence[Sequence[CodeMatch]]) -> list[tuple[int, int]]:
    if not pairs or not pairs[0]:
        return []
    from scipy.optimize import linear_sum_assignment

    gains = [
        [(match.kappa.value or 0) if match.verdict != "none" else 0 for match in row]
        for row in pairs
    ]
    rows, columns = linear_sum_assignment(gains, maximize=True)
    return list(zip(rows.tolist(), columns.tolist(), strict=True))


def _list_lone(
    codes: Sequence[CodeFindings],
    pairs: Sequence[Sequence[CodeMatch]],
    matched: set[str],
    shared: set[str],
) -> Iterator[LoneCode]:
    for n, code in enumerate(codes):
        if code.name not in matched:
            judged = shared & code.judged
            near = [x for x in (pairs[n] if pairs else ()) if (x.kappa.value or 0) > 0]
            nearest = max(near, key=lambda match: match.kappa.value or 0, default=None)
            yield LoneCode(code.name, len(judged & code.quotes.keys()), len(judged), nearest)
