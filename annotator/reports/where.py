"""Which agent caused the failures, at which agent they show, and how far into the run."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from annotator.base.errors import AnnotatorError
from annotator.base.text import cut_names, format_count, sanitize_line, wrap_line
from annotator.reports.counts import TraceCounts
from annotator.reports.digits import find_bar, format_limits, format_number, format_percent
from annotator.reports.notes import NOT_MEASURED, describe_intervals
from annotator.reports.table import Table, describe_share, name_judge, name_rubric
from annotator.rubrics import Scheme
from annotator.rubrics.annotations import JUDGED, Annotation, Finding
from annotator.runs.run import Run, name_runs
from annotator.traces.clusters import ClusterCounts, compute_share, find_cluster
from validation import Interval

_MOST_ROWS = 20
_LONGEST_NAME = 44
# Rows that name no location.
_NO_AGENT, _NOT_SHOWN = "no agent quoted", "no later message quoted"
_NOT_RECORDED, _NO_FINDING = "not recorded (older version)", "no failure found"
_APART = (_NO_AGENT, _NOT_SHOWN, _NOT_RECORDED, _NO_FINDING)
_THIRDS = ("first third", "middle third", "last third")
_NOTES = {
    "agent": "A judge is often wrong: on 23 runs that people labelled, a language model named the"
    " agent in 18 and the step in 12. Check yours: annotate calibrate.",
    "pair": "Caused by: the author of the first quoted message of an agent. Shows at: the author of"
    " the next quoted message after it.",
    "third": "A third of the run's messages.",
}
_COLUMNS = (
    *("run", "rubric", "rubric_sha256", "judge", "judge_sha256", "table", "location", "count", "n"),
    *("value", "low", "high", "confidence", "method", "design_effect", "tasks", "reason", "notes"),
)


def _find_agent(finding: Finding) -> str:
    return finding.agent or _NO_AGENT


def _find_pair(finding: Finding) -> str:
    if finding.agent is None:
        return _NO_AGENT
    if finding.shown_agent:
        return f"{finding.agent} -> {finding.shown_agent}"
    return _NOT_RECORDED if finding.steps is None else _NOT_SHOWN


def _find_third(finding: Finding) -> str:
    if finding.step is None:
        return _NO_AGENT
    if finding.steps is None:
        return _NOT_RECORDED
    return _THIRDS[3 * (2 * finding.step - 1) // (2 * finding.steps)]  # by the message's middle


_TABLES: dict[str, tuple[str, Callable[[Finding], str]]] = {
    "agent": ("caused by", _find_agent),
    "pair": ("caused by -> shows at", _find_pair),
    "third": ("caused in", _find_third),
}


@dataclass(slots=True)
class Causes:
    """The decisive findings of one run and rubric; traces by the location of each of the tables."""

    run: Run
    name: str
    scheme: Scheme
    cluster: tuple[str, ...]
    statuses: Counter[str] = field(default_factory=Counter)
    findings: int = 0
    with_agent: int = 0
    delays: list[int] = field(default_factory=list)  # steps from the cause to where it shows
    locations: dict[str, ClusterCounts] = field(
        default_factory=lambda: {name: ClusterCounts() for name in _TABLES}
    )

    def add(self, annotation: Annotation) -> None:
        """Count a trace by its decisive finding."""
        self.statuses[annotation.status] += 1
        if annotation.status not in JUDGED:
            return
        finding, task = annotation.decisive, find_cluster(annotation.attributes, self.cluster)
        for table, (_, find_location) in _TABLES.items():
            location = find_location(finding) if finding else _NO_FINDING
            self.locations[table].add(task, [location])
        self.findings += finding is not None
        self.with_agent += finding is not None and finding.agent is not None
        if finding and finding.step and finding.shown_step:
            self.delays.append(finding.shown_step - finding.step)


def count_causes(*runs: Run, cluster: tuple[str, ...]) -> tuple[list[Causes], list[str]]:
    """Count where failures were caused and where they show, in each run and rubric.

    Returns:
        The counts of each run and rubric with attribution or without any finding, and a line for
        each other one.

    Raises:
        AnnotatorError: there are findings, and none names an agent; or no trace was judged.
    """
    counted, left = [], []
    for run, name in zip(runs, name_runs(runs), strict=True):
        by_rubric = {
            scheme.id: Causes(run, name, scheme, cluster) for scheme in run.schemes.values()
        }
        for annotation in run.annotations():
            by_rubric[annotation.rubric].add(annotation)
        for causes in by_rubric.values():
            judged = any(causes.statuses[status] for status in JUDGED)
            if causes.with_agent or (judged and not causes.findings):
                counted.append(causes)
                continue
            reason = "no trace was judged"
            if causes.findings:
                reason = f"none of {format_count(causes.findings, 'finding')} names an agent: only"
                reason += " rubrics with 'attribution: true' ask, such as who_and_when and agentrx"
            left.append(f"{causes.scheme.id} ({name}): {reason}")
    if not counted:
        raise AnnotatorError("; ".join(left))
    return counted, left


def tabulate(counted: Sequence[Causes]) -> list[Table]:
    """Return three tables for each run and rubric: by agent, by pair, and by third of the run."""
    return [_make_table(causes, table) for causes in counted for table in _TABLES]


def _make_table(causes: Causes, table: str) -> Table:
    counts, scheme, run = causes.locations[table], causes.scheme, causes.run
    totals = sum(counts.in_cluster.values(), Counter(counts.alone))
    apart = [location for location in _APART if totals[location]]
    named = sorted(map(str, totals.keys() - {None, *apart}), key=lambda x: (-totals[x], x))
    if table == "third":
        named = [*_THIRDS]
    shares = {location: compute_share(counts, location) for location in (*named, *apart)}
    names = cut_names([sanitize_line(location, 200) for location in named], _LONGEST_NAME)
    rows: list[tuple[str, int, Interval | None]] = [
        (name, totals[location], shares[location])
        for name, location in zip(names, named, strict=True)
    ]
    if rest := named[_MOST_ROWS:]:
        rows[_MOST_ROWS:] = [(f"others ({len(rest)})", sum(totals[x] for x in rest), None)]
    rows += [(location, totals[location], shares[location]) for location in apart]
    about = {
        **{"run": run.id, "rubric": scheme.id, "rubric_sha256": scheme.sha256},
        **{"judge": run.judge, "judge_sha256": run.judge_sha256, "table": table},
    }
    traces = TraceCounts(scheme, cluster_by=causes.cluster, status=causes.statuses, clusters=counts)
    intervals, *narrow = describe_intervals(traces, shares, "", NOT_MEASURED)
    left, explained = _list_left(causes), [_NOTES[table], *narrow]
    notes = [*left, *explained, intervals]
    records = [
        {**about, "location": location, **describe_share(share), "notes": "\n".join(notes)}
        for location, share in shares.items()
    ]
    heading = f"{name_rubric(scheme.id, scheme.version, scheme.sha256)}  judge"
    full = Table(
        title=f"{heading} {name_judge(run.judge, run.judge_sha256)}  {sanitize_line(causes.name)}",
        header=(_TABLES[table][0], "traces", "%", "95 % interval"),
        rows=[
            (name, f"{count}/{totals[None]}", format_percent(share), format_limits(share))
            for name, count, share in rows
        ],
        bars=[find_bar(share) for *_, share in rows],
        below=len(apart),
        notes=notes,
        name=f"{scheme.id}-where-{table}",
        records=records,
        columns=_COLUMNS,
        document={**about, "rows": records, "notes": notes},
    )
    # On a terminal the three tables read as one: each note once.
    title, judge = "", sanitize_line(run.judge, 60)
    if table == "agent":
        title = f"{sanitize_line(scheme.id)} v{scheme.version}, judge {judge}, run "
        title += f"{sanitize_line(causes.name, 80)}\n\n"
        title += wrap_line(_write_summary(causes), "")
    brief = {"agent": [*left, *explained], "pair": explained, "third": [*explained, intervals]}
    return replace(full, brief=replace(full, title=title, notes=brief[table]))


def _write_summary(causes: Causes) -> str:
    judged = sum(causes.statuses[status] for status in JUDGED)
    if not causes.findings:
        return f"No failure was found in {format_count(judged, 'judged trace')}."
    text = f"In {causes.with_agent} of {format_count(judged, 'judged trace')} the decisive finding"
    text += " names the agent and the step that caused the failure."
    if causes.delays:
        delay = format_number(median(causes.delays), 1).removesuffix(".0")
        text += f" It shows {delay} message{'' if delay == '1' else 's'} later in the median"
        text += f" ({min(causes.delays)} to"
        text += f" {max(causes.delays)}; known in {format_count(len(causes.delays), 'trace')})."
    return text


def _list_left(causes: Causes) -> list[str]:
    left = [f"{n} {x}" for x in ("undecided", "failed") if (n := causes.statuses[x])]
    notes = [f"Traces not counted: {', '.join(left)}."] if left else []
    return [*causes.run.manifest.limitations, *notes]
