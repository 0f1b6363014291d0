"""The paragraph on methods for a paper: a sentence for each fact that a reader needs."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from annotator.base.text import format_count, sanitize_line
from annotator.reports.digits import format_number
from annotator.reports.frequency import FrequencyTable
from annotator.runs.run import Run

if TYPE_CHECKING:
    from annotator.calibration.model import Calibration
    from validation import Estimate

# The notes of a table that are limits of a study, and not what other sentences say.
_LIMITS = frozenset(
    (
        *("part", "transferred", "rejected-most", "no-rule", "screens", "outcome-unknown"),
        *("read-in-part", "few-labels", "sampling", "few-tasks", "undecided"),
    )
)
_INTERVALS = frozenset(("tasks", "independent", "one-task"))
_DESIGNS = {
    "unknown": "how they were sampled is not recorded",
    "uniform": "a uniform random sample",
    "stratified": "a stratified random sample, weighted by inclusion probability",
}


def describe_methods(run: Run, table: FrequencyTable, calibration: "Calibration | None") -> str:
    """Return the paragraph for one table of a run, with its calibration if there is one."""
    return " ".join(
        (
            *_describe_judging(run, table),
            *_describe_shares(table),
            *(_describe_labels(calibration, table) if calibration else _NO_LABELS),
            *(
                note.replace(" The true share lies within the bounds.", "")
                for note in table.notes
                if getattr(note, "id", "") in _LIMITS
            ),
        )
    )


_NO_LABELS = ("The judge was not compared with labels of people.",)


def _describe_judging(run: Run, table: FrequencyTable) -> Iterator[str]:
    tool = sanitize_line(run.manifest.tool or "annotate", 60)
    total = table.judged + table.undecided + table.failed + table.skipped
    group = ""
    if table.group:
        group = f" with {sanitize_line(table.group[0], 60)} {sanitize_line(table.group[1], 100)}"
    yield (
        f"{format_count(total, 'trace')}{group} went through {tool} with the"
        f" rubric {table.rubric}, version {table.version} (sha256 {table.rubric_sha256[:12]})."
    )
    when = f", {run.manifest.started[:10]}" if run.manifest.started else ""
    yield (
        f"The judge was {sanitize_line(run.judge, 120)} (settings and prompts: sha256"
        f" {run.judge_sha256[:12]}{when})."
    )
    yield "A finding counts only if its quotes stand word for word in the trace."
    left = {name: getattr(table, name) for name in ("undecided", "failed", "skipped")}
    others = ", ".join(f"{count} {name}" for name, count in left.items() if count)
    out = f"; {others} are in no share" if others else ""
    yield f"{table.judged} were judged ({table.labelled} with a code, {table.none} without){out}."


def _describe_shares(table: FrequencyTable) -> Iterator[str]:
    if any(row.share for row in table.rows):
        of = "traces with a code" if table.of_labelled else "judged traces"
        primary = "" if table.choice == "many" else " as its primary code"
        yield f"A share is the part of the {of} that has the code{primary}."
    for note in table.notes:
        id_ = getattr(note, "id", "")
        if id_ == "no-shares":
            yield (
                "The judge alone has no shares: it only reports failures that it recognises, and"
                " the traces that it left open are not a random sample."
            )
        elif id_ in _INTERVALS:
            yield note.replace(": see annotate calibrate", "")


def _describe_labels(calibration: "Calibration", table: FrequencyTable) -> Iterator[str]:
    labels, kappa = calibration.labels, calibration.agreement.kappa
    names = sanitize_line(", ".join(labels.annotators), 120)
    yield (
        f"{format_count(len(calibration.labelled), 'trace')} were labelled by {names}"
        f" ({_DESIGNS[labels.design]}; split {labels.split})."
    )
    yield f"Judge and labels agree with Cohen's kappa {_write_kappa(kappa)}, n = {kappa.n}."
    for pair in calibration.between:
        yield f"{sanitize_line(pair.what, 120)}: kappa {_write_kappa(pair.agreement.kappa)}."
    if table.correction and not table.correction.transferred:
        yield (
            "Corrected shares estimate what these labels would say of all traces: post-stratified"
            f" by the judge's answer, {100 * calibration.confidence:g} % intervals."
        )


def _write_kappa(kappa: "Estimate") -> str:
    if kappa.value is None:
        return f"undefined ({kappa.reason})"
    value = format_number(kappa.value, 2)
    if kappa.low is None or kappa.high is None:
        return value
    return f"{value} [{format_number(kappa.low, 2)}, {format_number(kappa.high, 2)}]"
