"""The paragraph on methods for a paper: a sentence for each fact that a reader needs."""

from collections.abc import Iterator, Sequence
from textwrap import fill
from typing import TYPE_CHECKING

from annotator.base.text import format_count, list_first, sanitize_line
from annotator.reports.digits import format_number
from annotator.reports.formats import latex, markdown
from annotator.reports.frequency import FrequencyTable
from annotator.runs.run import Run
from validation import RaterAgreement

if TYPE_CHECKING:
    from annotator.calibration.correct import Correction
    from annotator.calibration.model import Calibration, LabelsUsed
    from validation import Estimate

# The notes of a table that are limits of a study, and not what other sentences say.
_LIMITS = frozenset(
    (
        *("part", "rejected-most", "no-rule", "screens", "outcome-unknown", "read-in-part"),
        *("few-labels", "few-label-tasks", "few-found", "few-tasks", "uncorrected"),
    )
)
_INTERVALS = frozenset(("tasks", "independent", "one-task"))
_STRATA = {"codes": "the judge's codes", "votes": "whether the judge's votes agreed"}
_DESIGNS = {
    "unknown": "how they were chosen is not recorded",
    "uniform": "each was equally likely to be drawn",
    "stratified": "they were drawn with unequal, known probabilities",
}
FORMATS = ("table", "md", "latex")


def render_methods(paragraphs: Sequence[str], format: str) -> str:
    """Return paragraphs in one of :data:`FORMATS`; ``table`` is text of 80 columns."""
    write = {"table": lambda text: fill(text, 80), "md": markdown.escape, "latex": latex.escape}
    return "\n\n".join(write[format](paragraph) for paragraph in paragraphs)


def describe_methods(run: Run, table: FrequencyTable) -> str:
    """Return the paragraph for one table of a run, with the labels that correct it, if any."""
    parts = [*_describe_judging(run, table), *_describe_shares(table)]
    if table.correction:
        parts += _describe_labels(table.correction, table)
        parts += _describe_correction(table.correction, table)
    else:
        parts.append("The shares are not corrected by labels of people.")
    limits = (note for note in table.notes if getattr(note, "id", "") in _LIMITS)
    return " ".join((*parts, *map(_write_limit, limits)))


def _write_limit(note: str) -> str:
    """Return a note as a full sentence."""
    return note.partition(" The true share")[0].replace(
        "Interval too narrow (", "The intervals of some codes are too narrow ("
    )


def _describe_judging(run: Run, table: FrequencyTable) -> Iterator[str]:
    manifest = run.manifest
    total = table.judged + table.undecided + table.failed + table.skipped
    group = ""
    if table.group:
        group = f" ({sanitize_line(table.group[0], 60)}: {sanitize_line(table.group[1], 100)})"
    yield (
        f"We annotated {format_count(total, 'trace')}{group} with"
        f" {sanitize_line(manifest.tool or 'annotate', 60)}, by the rubric"
        f" {sanitize_line(table.rubric, 80)}, version {table.version} (sha256"
        f" {table.rubric_sha256[:12]})."
    )
    settings = manifest.judge.model_dump()
    parameters = settings.get("parameters") or {}
    details = [f"{name} {value}" for name, value in parameters.items()]
    if manifest.prompt_sha256:
        details.append(f"prompts sha256 {manifest.prompt_sha256[:12]}")
    details.append(f"judge with its settings sha256 {run.judge_sha256[:12]}")
    if manifest.started:
        details.append(f"run of {manifest.started[:10]}")
    rules = ", a program without a language model" if run.judge == "rules" else ""
    yield (
        f"The judge was {sanitize_line(run.judge, 120)}{rules}"
        f" ({sanitize_line('; '.join(details), 400)})."
    )
    yield "Findings whose quotes are not in the trace were rejected."
    if table.judged:
        counts = f"({table.labelled} with a code, {table.none} without)"
        yield f"{_count_were(table.judged)} judged {counts}."
    else:
        yield "None was judged, so there are no shares."
    if table.skipped:
        yield f"{_count_were(table.skipped)} skipped, as the rubric is for other traces."
    if left := _list_left(table):
        yield f"{left}; no share of the judge alone counts them."


def _list_left(table: FrequencyTable) -> str:
    counts = {"left undecided": table.undecided, "not judged, as the requests failed": table.failed}
    return " and ".join(f"{_count_were(n)} {what}" for what, n in counts.items() if n)


def _count_were(n: int) -> str:
    return f"{n} {'was' if n == 1 else 'were'}"


def _describe_shares(table: FrequencyTable) -> Iterator[str]:
    shares = [row.share for row in table.rows if row.share]
    if any(share.value is not None for share in shares):
        of = "traces with a code" if table.of_labelled else "judged traces"
        primary = "" if table.choice == "many" else " as its primary code"
        yield f"The judge's share of a code is the part of the {of} that has it{primary}."
    for note in table.notes:
        id_ = getattr(note, "id", "")
        if id_ == "no-shares":
            yield (
                "The judge alone has no shares: it only reports failures that it recognises, and"
                " the traces that it left open are not a random sample."
            )
        elif id_ == "one-task":
            yield note
        elif id_ in _INTERVALS:
            how, _, errors = note.removesuffix(".").partition(". ")
            effective = " for the effective number of traces" if id_ == "tasks" else ""
            yield f"{how}: they are Wilson's{effective}."
            if errors:
                yield "They do not include the judge's errors."


def _describe_labels(correction: "Correction", table: FrequencyTable) -> Iterator[str]:
    calibration = correction.calibration
    labels, n = calibration.labels, len(calibration.labelled)
    names = list_first([sanitize_line(name, 60) for name in labels.annotators], 5)
    where = " of another run" if correction.transferred else ""
    yield f"{format_count(n, 'trace')}{where} were labelled by {names}: {_describe_design(labels)}."
    if look := calibration.look:
        times, judges = format_count(look.look - 1, "time"), format_count(look.judges, "judge")
        if look.look > 1:
            yield f"Some of these labels had been used {times} before ({judges} in all)."
    if table.group and not correction.transferred:
        yield f"{correction.labels} of the labelled traces are in this group."
    yield from _describe_agreement(calibration, bool(table.group))
    for pair in calibration.between:
        yield (
            f"Of the annotators, {sanitize_line(pair.what, 120)} agree in"
            f" {_write_agreement(pair.agreement)}."
        )


def _describe_design(labels: "LabelsUsed") -> str:
    """Return how the labelled traces were chosen."""
    if labels.strata_by is None:
        how = _DESIGNS[labels.design]
    elif labels.strata_by == "none":
        how = f"a uniform random sample of {format_count(labels.sampled_from or 0, 'trace')}"
    else:
        how = (
            f"a random sample of {format_count(labels.sampled_from or 0, 'trace')}, stratified by"
            f" {_STRATA[labels.strata_by]} and weighted by inclusion probability"
        )
    if labels.split != "all":
        how += f", of the {labels.split} split of the tasks"
    if labels.drawn is not None and labels.labelled != labels.drawn:
        how += f"; {labels.labelled} of {labels.drawn} drawn traces have a label"
    return how


def _describe_agreement(calibration: "Calibration", in_group: bool) -> Iterator[str]:
    many = " on the whole set of codes" if calibration.choice == "many" else ""
    weighted = ", weighted" if calibration.labels.design == "stratified" else ""
    run = " of the whole run" if in_group else ""
    decided = " that the judge decided" if calibration.not_decided else ""
    n = calibration.agreement.observed.n
    if n:
        yield (
            f"On the {format_count(n, 'labelled trace')}{run}{decided}, judge and labels"
            f" agree{many} in {_write_agreement(calibration.agreement)}{weighted}."
        )
    if calibration.agreement_of_all:
        yield (
            f"On all {len(calibration.labelled)} labelled traces{run}, where no decision of the"
            f" judge is a disagreement, they agree in"
            f" {_write_agreement(calibration.agreement_of_all)}{weighted}."
        )
    yield (
        f"Intervals of agreement are Wilson's{_write_over_tasks(calibration)}; those of kappa are"
        " mapped from them."
    )


def _write_over_tasks(calibration: "Calibration") -> str:
    tasks = calibration.labels.clusters
    if tasks is None:
        return ", for independent traces"
    by = "+".join(calibration.cluster_by)
    return f" for the effective number of traces of {format_count(tasks, 'task')} ({by})"


def _describe_correction(correction: "Correction", table: FrequencyTable) -> Iterator[str]:
    level = f"{100 * correction.confidence:g} % intervals"
    if correction.transferred:
        for note in table.notes:
            if getattr(note, "id", "") == "transferred":
                why, _, _ = note.removeprefix("TRANSFERRED: ").partition(". Corrected by")
                yield f"The labels are not of these traces and this judge: {why}."
        yield (
            "Corrected shares use the error rates of those labels (Rogan and Gladen's estimate,"
            f" {level} of Lang and Reiczigel): they are right only if the judge errs here as it did"
            " there."
        )
    else:
        yield (
            f"Corrected shares estimate what the annotators would say of"
            f" {format_count(correction.traces, 'trace')}: {_describe_estimator(correction)},"
            f" {level}."
        )
    if correction.calibration.population == "corpus":
        yield "Their intervals are for these traces only, not for future ones."
    if left := table.judged + table.undecided + table.failed - correction.traces:
        yield (
            f"They leave out {format_count(left, 'trace')} without the judge's decision"
            f"{'' if correction.transferred else ' and without labels'}."
        )


def _describe_estimator(correction: "Correction") -> str:
    estimates: list[Estimate] = [codes.corrected for codes in correction.codes.values()]
    tasks = any(estimate.inputs.get("df") is not None for estimate in estimates)
    over = ", over tasks with Student's t" if tasks else ""
    if any(estimate.method == "joint" for estimate in estimates):
        return (
            "post-stratified by the judge's answer, all codes at once (Dirichlet), with intervals"
            f" that hold together (Bonferroni over {len(estimates)} codes)"
        )
    return (
        "post-stratified by the judge's answer, with Jeffreys' prior and a matched Beta"
        f" distribution{over}"
    )


def _write_agreement(agreement: RaterAgreement) -> str:
    """Return the share of agreement and kappa, each with its interval."""
    observed, kappa = agreement.observed, agreement.kappa
    share = "-" if observed.value is None else format_number(100 * observed.value, 1)
    text = f"{share} % ({_write_limits(observed, 100, 1)}; n = {observed.n})"
    if kappa.value is None:
        return f"{text}, Cohen's kappa undefined ({sanitize_line(kappa.reason or '', 200)})"
    return f"{text}, Cohen's kappa {format_number(kappa.value, 2)} ({_write_limits(kappa, 1, 2)})"


def _write_limits(estimate: "Estimate", unit: int, decimals: int) -> str:
    if estimate.low is None or estimate.high is None:
        reason = (estimate.reason or "not known").removeprefix("no interval: ")
        return f"no interval: {sanitize_line(reason, 200)}"
    low, high = (format_number(unit * end, decimals) for end in (estimate.low, estimate.high))
    return f"{100 * estimate.confidence:g} % interval {low} to {high}"
