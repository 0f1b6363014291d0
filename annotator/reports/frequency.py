"""How often each code was found in a run: counts, shares and Wilson intervals."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from annotator.annotations import DEFAULT_CLUSTER, Annotation, cluster_of, value_of
from annotator.errors import AnnotatorError
from annotator.reports.votes import VoteCounts, Votes
from annotator.rubrics import NONE, Scheme, SchemeCode
from annotator.runs.run import Run, name_runs
from validation import Interval, wilson

if TYPE_CHECKING:  # they need scipy, which a table without a calibration must not wait for
    from annotator.calibration.correct import Calibrations, Correction, Stored
    from annotator.calibration.estimates import CodeEstimates
    from annotator.calibration.frame import Frame

SAMPLING_ONLY = (
    "Intervals: Wilson 95 %, sampling error only; the judge's errors are not measured"
    " (no calibration)."
)


NO_RULE = "the judge has no rule for this code"
SCREEN = "the judge is a screen for this code: what it does not find is not known"
NEVER_NONE = "the judge is a screen for every code: it cannot tell that there is none"
BY_FINDING = "a judge that screens decides by finding: what is undecided is no random part"
LABELLED_ONLY = "shares are of the labelled traces alone"
PARTLY = "the judge cannot find every code of this group, or is a screen for some"


@dataclass(frozen=True, slots=True)
class Row:
    """One code, none, or a group of codes, which counts each trace once: ``count`` is how many
    judged traces have it, ``share`` their share.

    ``unknown`` says why there is no share; ``count`` is None as well if the judge cannot find the
    code at all, or is a screen for it and found none. ``bounds``: between what the share of the
    judged, undecided and failed traces lies, whatever these two hold; None where they leave nothing
    open, or nothing is known. ``anywhere``: the traces where a code is primary or secondary; None
    where the rubric has no primary. ``labels``: the share corrected for the judge's errors and what
    it rests on, if the table is calibrated.
    """

    kind: Literal["code", "none", "group"]
    code: str
    name: str
    count: int | None
    share: Interval | None
    unknown: str | None = None
    bounds: tuple[float, float] | None = None
    anywhere: int | None = None
    labels: "CodeEstimates | None" = None


@dataclass(frozen=True, slots=True)
class FrequencyTable:
    """The table of one run and rubric, or of the traces among them with one value of an attribute
    (``group``: attribute and value). ``n`` is that of every share: the judged traces (labelled and
    none), or with ``of_labelled`` the labelled ones alone, and none has no share.
    ``code_groups``: the rows of the rubric's groups of codes, to be added to no other row.
    ``screen``: the judge is only a screen for every code that it can find. ``run_name``: see
    :func:`told_apart`.
    """

    rubric: str
    version: int
    rubric_sha256: str
    choice: str
    judge: str
    judge_sha256: str
    run: str
    status: str
    limit: int | None
    rows: tuple[Row, ...]
    code_groups: tuple[Row, ...]
    screen: bool
    labelled: int
    none: int
    undecided: int
    skipped: int
    failed: int
    rejected_traces: int
    rejected: int
    emptied: int
    outcome_unknown: int
    truncated: int
    votes: Votes | None
    failures: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    group: tuple[str, str] | None = None
    correction: "Correction | None" = None
    run_name: str = ""
    of_labelled: bool = False

    @property
    def judged(self) -> int:
        """Traces with a judgement: labelled or none."""
        return self.labelled + self.none

    @property
    def n(self) -> int:
        """What shares are of."""
        return self.labelled if self.of_labelled else self.judged

    @property
    def all_rows(self) -> tuple[Row, ...]:
        """The rows of the codes, of none, and of the groups."""
        return self.rows + self.code_groups

    @property
    def bounded(self) -> bool:
        """Whether any row has bounds."""
        return any(row.bounds for row in self.all_rows)

    @property
    def counted(self) -> str:
        """What a row counts, in words."""
        return (
            "traces with the code" if self.choice == "many" else "traces with the code as primary"
        )


@dataclass(slots=True)
class _Counts:
    rubric: Scheme
    of_labelled: bool = False
    status: Counter[str] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)
    groups: Counter[str] = field(default_factory=Counter)
    anywhere: Counter[str] = field(default_factory=Counter)
    rejected: int = 0
    rejected_traces: int = 0
    emptied: int = 0
    outcome_unknown: int = 0
    truncated: int = 0
    votes: VoteCounts = field(default_factory=VoteCounts)
    failures: list[tuple[str, str]] = field(default_factory=list)
    tasks: set[int] = field(default_factory=set)

    @property
    def judged(self) -> int:
        """Traces with a judgement that is counted."""
        return self.status["labelled"] + self.status["none"]

    @property
    def n(self) -> int:
        """What shares are of."""
        return self.status["labelled"] if self.of_labelled else self.judged

    @property
    def open(self) -> int:
        """Traces of which it is not known what they hold."""
        return self.status["undecided"] + self.status["failed"]

    def add(self, annotation: Annotation) -> None:
        self.status[annotation.status] += 1
        self.votes.add(annotation)
        self.anywhere.update(set(annotation.codes))
        self.rejected += len(annotation.rejected)
        self.rejected_traces += bool(annotation.rejected)
        self.emptied += bool(annotation.rejected) and annotation.status == "none"
        if annotation.status in ("labelled", "none"):
            labels = self.rubric.labels_of(annotation)
            self.labels.update(set(labels))
            groups = self.rubric.groups.items()
            self.groups.update(name for name, codes in groups if not set(codes).isdisjoint(labels))
            self.outcome_unknown += annotation.attributes.get("passed") is None
            self.truncated += bool(annotation.truncated)
            if task := cluster_of(annotation.attributes, DEFAULT_CLUSTER):
                self.tasks.add(hash(task))
        if annotation.status == "failed" and len(self.failures) < 10:
            self.failures.append((annotation.trace_id, annotation.error or ""))


def frequency_tables(
    run: Run,
    calibrations: "Calibrations | None" = None,
    *,
    transfer: bool = False,
    by: str | None = None,
    of_labelled: bool = False,
) -> list[FrequencyTable]:
    """Return the tables of a run, one per rubric; annotations are read as a stream.

    ``calibrations`` correct the shares for the judge's errors. One of another judge or
    of other traces is refused, or carried over where ``transfer`` says so. ``by``: one table for
    each value of this attribute. ``of_labelled``: shares of the labelled traces alone, which no
    calibration corrects.

    Raises:
        AnnotatorError: the run is damaged, as :meth:`Run.annotations` says; a calibration does not
            fit; no trace has the attribute.
    """
    if of_labelled and calibrations:
        raise AnnotatorError("a calibration corrects shares of all judged traces, not of labelled")
    counts: dict[tuple[str, str | None], _Counts] = {
        (name, None): _Counts(scheme, of_labelled) for name, scheme in run.schemes.items()
    }
    frames = _Frames(run, calibrations or {})
    attributes: set[str] = set()
    for annotation in run.annotations():
        group = None
        if by:
            attributes.update(annotation.attributes)
            group = value_of(annotation.attributes, by)
        key = annotation.rubric, group
        counts.setdefault(key, _Counts(run.schemes[annotation.rubric], of_labelled)).add(annotation)
        frames.add(annotation, group)
    if by and by not in attributes:
        there = ", ".join(sorted(attributes)) or "none at all"
        raise AnnotatorError(f"--by {by}: no trace of {run} has this attribute, only {there}")
    return [
        _table(
            run,
            counts[name, group],
            (by, group) if by and group is not None else None,
            frames.correction(name, group, transfer=transfer),
        )
        for name in run.schemes
        for group in _groups(counts, name, by)
    ]


def told_apart(tables: Iterable[FrequencyTable], runs: Sequence[Run]) -> list[FrequencyTable]:
    """Return tables of ``runs``; those of the same rubric, judge and group say of which run each
    is, by its name.
    """
    tables = list(tables)
    alike = Counter((one.rubric_sha256, one.judge, one.group) for one in tables)
    names = {run.id: name for run, name in zip(runs, name_runs(runs), strict=True)}
    return [
        replace(one, run_name=names.get(one.run, one.run))
        if alike[one.rubric_sha256, one.judge, one.group] > 1
        else one
        for one in tables
    ]


def _groups(
    counts: Mapping[tuple[str, str | None], _Counts], rubric: str, by: str | None
) -> list[str | None]:
    """Return the groups of a rubric that have a table, the largest first."""
    if not by:
        return [None]
    groups = [group for name, group in counts if name == rubric and group is not None]
    return sorted(groups, key=lambda one: (-counts[rubric, one].status.total(), one))


class _Frames:
    """The frames that a correction needs, filled while annotations pass by."""

    def __init__(self, run: Run, calibrations: "Calibrations") -> None:
        if calibrations and not calibrations.keys() & run.schemes.keys():
            raise AnnotatorError(
                f"the calibration is for {', '.join(calibrations)}, {run} was judged by"
                f" {', '.join(run.schemes)}"
            )
        self._run = run
        self._stored: dict[str, Stored] = {}
        self._wanted: dict[str, set[str]] = {}
        self._frames: dict[tuple[str, str | None], Frame] = {}
        for name in calibrations.keys() & run.schemes.keys():
            from annotator.calibration.correct import own

            frame = self._frames[name, None] = self._empty(name)
            stored = self._stored[name] = own(calibrations[name], frame)
            self._wanted[name] = {pair.trace_id for pair in stored.joined}

    def add(self, annotation: Annotation, group: str | None) -> None:
        """Count an annotation in its group, None for all together."""
        name = annotation.rubric
        if name not in self._stored:
            return
        if (name, group) not in self._frames:
            self._frames[name, group] = self._empty(name)
        frame = self._frames[name, group]
        frame.add(annotation, cluster_of(annotation.attributes, self._stored[name].cluster_by))
        if annotation.trace_id in self._wanted[name]:
            frame.wanted[annotation.trace_id] = annotation

    def _empty(self, name: str) -> "Frame":
        from annotator.calibration.frame import empty_frame

        return empty_frame(self._run, name)

    def _whole(self, name: str) -> "Frame":
        """Return the frame of all that the run judged."""
        whole = self._frames[name, None]
        if not whole.total:
            for (own, group), frame in self._frames.items():
                if own == name and group is not None:
                    whole.include(frame)
        return whole

    def correction(self, name: str, group: str | None, *, transfer: bool) -> "Correction | None":
        """Return the corrected shares of a group; None without a calibration of the rubric."""
        if name not in self._stored:
            return None
        from annotator.calibration.correct import correction_of

        frame = self._frames.get((name, group)) or self._empty(name)
        whole = self._whole(name)
        return correction_of(self._stored[name], frame, whole, self._run, transfer=transfer)


def _table(
    run: Run,
    counts: _Counts,
    group: tuple[str, str] | None,
    correction: "Correction | None",
) -> FrequencyTable:
    scheme = counts.rubric
    rows = [_code_row(code, counts, correction) for code in scheme.codes]
    screen = scheme.only_screens
    why = NEVER_NONE if screen else LABELLED_ONLY if counts.of_labelled else _selected(counts)
    rows.append(
        Row(
            "none",
            NONE,
            "no code found",
            counts.status["none"],
            None if why else wilson(counts.status["none"], counts.judged),
            unknown=why,
            bounds=None if counts.of_labelled else _bounds(counts.status["none"], counts),
            labels=correction.codes[NONE] if correction else None,
        )
    )
    table = FrequencyTable(
        rubric=scheme.id,
        version=scheme.version,
        rubric_sha256=scheme.sha256,
        choice=scheme.choice,
        judge=run.judge,
        judge_sha256=run.judge_sha256,
        run=run.id,
        status=run.manifest.status,
        limit=run.manifest.limit,
        rows=tuple(rows),
        code_groups=tuple(_group_row(*group, counts) for group in scheme.groups.items()),
        screen=screen,
        labelled=counts.status["labelled"],
        none=counts.status["none"],
        undecided=counts.status["undecided"],
        skipped=counts.status["skipped"],
        failed=counts.status["failed"],
        rejected=counts.rejected,
        rejected_traces=counts.rejected_traces,
        emptied=counts.emptied,
        outcome_unknown=counts.outcome_unknown,
        truncated=counts.truncated,
        votes=counts.votes.summary(scheme.ids, labelled=scheme.choice != "many"),
        failures=tuple(counts.failures),
        notes=tuple(_notes(run, counts, correction)),
        group=group,
        correction=correction,
        of_labelled=counts.of_labelled,
    )
    _check(table)
    return table


def _code_row(code: SchemeCode, counts: _Counts, correction: "Correction | None") -> Row:
    name, known = code.id, code.judged
    why = NO_RULE if not known else SCREEN if code.screen else _selected(counts)
    count, anywhere = counts.labels[name], counts.anywhere[name]
    screen = code.screen
    counts_anywhere = counts.rubric.choice == "primary" and known
    return Row(
        "code",
        name,
        code.name,
        count if known and (count or not screen) else None,  # that a screen finds none is no count
        None if why else wilson(count, counts.n),
        unknown=why,
        bounds=_bounds(count, counts, screen=screen) if known else None,
        anywhere=anywhere if counts_anywhere and (anywhere or not screen) else None,
        labels=correction.codes[name] if correction else None,
    )


def _group_row(name: str, codes: Sequence[str], counts: _Counts) -> Row:
    info, count = counts.rubric, counts.groups[name]
    known, screen = not info.judged.isdisjoint(codes), not info.screens.isdisjoint(codes)
    ruled = info.judged.issuperset(codes)
    whole = ruled and not screen and not _selected(counts)
    return Row(
        "group",
        name,
        ", ".join(codes),
        count if known and (count > 0 or not screen) else None,
        wilson(count, counts.n) if whole else None,
        unknown=None if whole else PARTLY,
        bounds=_bounds(count, counts, screen=screen) if ruled else None,
    )


def _selected(counts: _Counts) -> str | None:
    """Return why even what the judge finds all of has no share, None if it has."""
    return BY_FINDING if counts.rubric.screens and counts.status["undecided"] else None


def _bounds(count: int, counts: _Counts, *, screen: bool = False) -> tuple[float, float] | None:
    """Return the least and the greatest share that undecided and failed traces leave possible, and
    for what is only screened for, all others.
    """
    total = counts.n + counts.open
    if not total or not (counts.open or screen):
        return None
    return count / total, 1.0 if screen else (count + counts.open) / total


def _notes(run: Run, counts: _Counts, correction: "Correction | None") -> Iterable[str]:
    scheme = counts.rubric
    if run.judge == "rules":
        yield "Judge: rules, a deterministic baseline without a language model."
    unknown = [code.id for code in scheme.codes if not code.judged]
    if unknown:
        yield f"The judge has no rule for {', '.join(unknown)}: not 0, but not known."
    if screens := [code.id for code in scheme.codes if code.screen]:
        yield (
            f"{', '.join(screens)}: a screen; what is found counts, what is not found is not known,"
            " so there is no share, only the bounds."
        )
    if why := _selected(counts):
        yield f"No code has a share: {why}."
    if counts.of_labelled:
        yield (
            f"Shares of the {counts.n} labelled traces alone, as in the paper's tables: none is in"
            " no share."
        )
    if counts.open:
        which = "labelled" if counts.of_labelled else "judged"
        yield (
            f"Bounds: the share among {which}, undecided and failed traces, if none or all of the"
            f" {counts.status['undecided']} undecided and {counts.status['failed']} failed ones"
            " had the code."
        )
    if correction:
        yield from correction.notes
    else:
        yield SAMPLING_ONLY
    if 0 < len(counts.tasks) < counts.judged:
        yield (
            f"The judged traces come from {len(counts.tasks)} tasks; the judge's own intervals"
            " treat traces of one task as independent."
        )
    if scheme.choice == "many":
        yield "Shares do not add up to 100 %: a trace can have several codes."
    if counts.emptied:
        yield (
            f"{counts.emptied} of the traces counted as none had findings, all rejected because"
            " their quotes do not stand in the trace."
        )
    if scheme.applies_to.passed is not None and counts.outcome_unknown:
        which = "passed" if scheme.applies_to.passed else "failed"
        yield (
            f"{counts.outcome_unknown} judged traces do not tell whether the run passed; the rubric"
            f" is for {which} runs."
        )
    if counts.votes.ties and scheme.choice == "many":
        yield (
            f"{counts.votes.ties} traces had codes that exactly half of the votes have (tie); these"
            " are not counted, and a trace with no others is undecided."
        )
    elif counts.votes.ties:
        yield (
            f"{counts.votes.ties} of the undecided traces had no majority among the votes (tie)."
        )
    if counts.votes.failed:
        yield f"{counts.votes.failed} votes in judged traces failed and were not counted."
    if counts.truncated:
        yield (
            f"{counts.truncated} judged traces were longer than what the judge reads; what it left"
            " out is in their annotations (truncated)."
        )
    yield from run.manifest.partial


def _check(table: FrequencyTable) -> None:
    """Hold the table against itself; a wrong number must never be printed."""
    for row in table.rows:
        one = row.labels.corrected if row.labels else None
        if one and one.value is not None and not (one.low or 0) <= one.value <= (one.high or 0):
            raise AnnotatorError(f"run {table.run}: {row.code}: the interval misses its own share")
    total = sum(row.count for row in table.rows if row.count)
    if table.choice != "many" and total != table.judged:
        raise AnnotatorError(
            f"run {table.run}: rows of {table.rubric} add up to {total}, {table.judged} were judged"
        )
