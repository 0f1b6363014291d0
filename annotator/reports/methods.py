"""The paragraph on methods for a paper: a sentence for each fact that a reader needs."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from annotator.base.text import format_count, list_first, sanitize_line, wrap_lines
from annotator.calibration.agreement import FITTED
from annotator.calibration.estimates import describe_model_labels
from annotator.reports.calibration import FEWEST
from annotator.reports.digits import format_number
from annotator.reports.formats import latex, markdown
from annotator.reports.frequency import FrequencyTable
from annotator.runs.run import Run
from validation import RaterAgreement

if TYPE_CHECKING:
    from annotator.calibration.correct import Correction
    from annotator.calibration.model import LabelsUsed
    from validation import Estimate

# The notes of a table that are limits of a study, and not what other sentences say.
_LIMITS = frozenset(
    (
        *("part", "rejected-most", "no-rule", "screens", "outcome-unknown", "read-in-part"),
        *("few-labels", "few-label-tasks", "few-found", "few-tasks", "not-joint"),
        *("uncorrected", "uncorrected-all"),
    )
)
_ALONE = frozenset(("no-rule", "screens"))  # of the judge alone, and not of corrected shares
_EFFECTIVE = " for the effective number of traces, with Student's t over tasks"
_INTERVALS = frozenset(("tasks", "independent", "one-task"))
_STRATA = {"codes": "the judge's codes", "votes": "whether the judge's votes agreed"}
_DESIGNS = {
    "unknown": "how they were chosen is not recorded; they count as a uniform random sample",
    "uniform": "each was equally likely to be drawn",
    "stratified": "they were drawn with unequal, known probabilities",
}
_SPLITS = {
    "dev": "the development tasks, on which prompts may have been tuned",
    "test": "the held-out test tasks",
}
FORMATS = ("table", "md", "latex")


def render_methods(paragraphs: Sequence[str], format: str) -> str:
    """Return paragraphs in one of :data:`FORMATS`; ``table`` is text of 80 columns."""
    write = {"table": wrap_lines, "md": markdown.escape, "latex": latex.escape}
    return "\n\n".join(write[format](paragraph) for paragraph in paragraphs)


def describe_methods(run: Run, tables: Sequence[FrequencyTable]) -> list[str]:
    """Return the paragraphs for the tables of a run; the groups of a rubric are in one."""
    paragraphs = [_write_sentences(run, table) for table in tables]
    if len(tables) == 1 or not tables[0].group:
        return [" ".join(sentences) for sentences in paragraphs]
    return [" ".join((*_describe_groups(run, tables), *_join_sentences(paragraphs, tables)))]


def _describe_groups(run: Run, tables: Sequence[FrequencyTable]) -> Iterator[str]:
    """Yield the number of all traces, and the groups with theirs."""
    yield _describe_run(run, tables[0], sum(map(_count_traces, tables)))
    name, _ = tables[0].group or ("", "")
    source = "an attribute of the traces"
    for condition in run.conditions:
        if condition.name == name:
            where = f"the attribute {condition.attribute}" if condition.attribute else "trace ids"
            source = f"found in {where} by the pattern {condition.pattern}"
            if condition.pattern is None:
                source = "given for each trace in a table" if condition.file else "given by trace"
    sizes = ", ".join(f"{_name_group(table)} (n = {_count_traces(table)})" for table in tables)
    yield f"Groups are by {sanitize_line(name, 60)}, {sanitize_line(source, 200)}: {sizes}."


def _join_sentences(
    paragraphs: Sequence[Sequence[str]], tables: Sequence[FrequencyTable]
) -> Iterator[str]:
    """Yield the sentences that all groups share, then those of each with its name."""
    shared = [text for text in paragraphs[0] if all(text in texts for texts in paragraphs)]
    yield from shared
    for table, sentences in zip(tables, paragraphs, strict=True):
        if others := [text for text in sentences if text not in shared]:
            yield f"{_name_group(table)}: {' '.join(others)}"


def _count_traces(table: FrequencyTable) -> int:
    return table.judged + table.undecided + table.failed + table.skipped


def _name_group(table: FrequencyTable) -> str:
    return sanitize_line(table.group[1] if table.group else "", 100)


def _write_sentences(run: Run, table: FrequencyTable) -> list[str]:
    parts = [*_describe_judging(run, table), *_describe_shares(table)]
    if table.correction:
        parts += _describe_labels(table.correction, table)
        parts += _describe_correction(table.correction, table)
    else:
        parts.append("The shares are not corrected by labels of people.")
    limits = _LIMITS
    if table.correction and not table.correction.transferred:
        limits -= _ALONE
    for note in table.notes:
        id_ = getattr(note, "id", "")
        if id_ in limits:
            whose = "corrected" if id_ == "few-found" else "the judge's own"
            narrow = f"Some intervals of {whose} shares are too narrow ("
            text = note.replace("Interval too narrow (", narrow)
            parts.append(text.partition(" The true share")[0])
    return parts


def _describe_judging(run: Run, table: FrequencyTable) -> Iterator[str]:
    manifest = run.manifest
    if not table.group:
        yield _describe_run(run, table, _count_traces(table))
    settings = manifest.judge.model_dump()
    details = []
    for model in settings.get("models") or [settings]:  # of several that vote
        parameters = model.get("parameters") or {}
        details += [f"{name} {value}" for name, value in parameters.items()]
    details = list(dict.fromkeys(details))
    if (samples := settings.get("samples", 1)) != 1:
        details.append(f"{samples} answers of each model for a trace")
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
    decisions = sum(table.counts.critiques.values(), start=Counter())
    if (critic := settings.get("critic")) and (n := decisions.total()):
        model = sanitize_line(str(critic["model"]), 120)
        yield (
            f"A critic ({model}) checked each remaining finding in a call of its own and upheld"
            f" {decisions['upheld']} of {n}; the rest do not count."
        )
    if table.judged:
        counts = f"({table.labelled} with a code, {table.none} without)"
        yield f"{_count_were(table.judged)} judged {counts}."
    else:
        yield "None was judged, so there are no shares."
    if table.skipped:
        yield f"{_count_were(table.skipped)} skipped, as the rubric is for other traces."
    if left := _list_left(table):
        yield f"{left}; no share of the judge alone counts them."


def _describe_run(run: Run, table: FrequencyTable, total: int) -> str:
    return (
        f"We annotated {format_count(total, 'trace')} with"
        f" {sanitize_line(run.manifest.tool or 'annotate', 60)}, by the rubric"
        f" {sanitize_line(table.rubric, 80)}, version {table.version} (sha256"
        f" {table.rubric_sha256[:12]})."
    )


def _list_left(table: FrequencyTable) -> str:
    counts = {"left undecided": table.undecided, "not judged because of an error": table.failed}
    return " and ".join(f"{_count_were(n)} {what}" for what, n in counts.items() if n)


def _count_were(n: int) -> str:
    return f"{n} {_choose_verb(n)}"


def _choose_verb(n: int) -> str:
    return "was" if n == 1 else "were"


def _describe_shares(table: FrequencyTable) -> Iterator[str]:
    shares = [row.share for row in table.rows if row.share]
    if any(share.value is not None for share in shares):
        primary = "" if table.choice == "many" else " as its primary code"
        yield f"The judge's share of a code is the part of the judged traces that has it{primary}."
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
            wilson = f"{how}: they are Wilson's{_EFFECTIVE if id_ == 'tasks' else ''}."
            yield wilson + (" They do not include the judge's errors." if errors else "")


def _describe_labels(correction: "Correction", table: FrequencyTable) -> Iterator[str]:
    calibration, transferred = correction.calibration, correction.transferred
    labels, n = calibration.labels, len(calibration.labelled)
    names = list_first([sanitize_line(name, 60) for name in labels.annotators], 5)
    where = " of another calibration" if transferred else ""
    yield (
        f"{format_count(n, 'trace')}{where} {_choose_verb(n)} labelled by {names}:"
        f" {_describe_design(labels)}."
    )
    yield from describe_model_labels(labels.annotators, calibration.judge)
    if len(labels.annotators) > 1:
        yield "Of several labels of a trace, the one by the first of these annotators counts."
    if transferred:
        for note in table.notes:
            if getattr(note, "id", "") == "transferred":
                why, _, _ = note.removeprefix("TRANSFERRED: ").partition(". Corrected by")
                yield f"That calibration does not fit this run: {why}."
    else:
        others = {"that the run skipped": labels.skipped, "that are not in it": labels.not_in_run}
        if left := [f"{len(ids)} {which}" for which, ids in others.items() if ids]:
            yield f"Labels of other traces are left out: {' and '.join(left)}."
    look = calibration.look
    if look and look.look > 1:
        times, judges = format_count(look.look - 1, "time"), format_count(look.judges, "judge")
        yield f"Some of these labels had been used {times} before ({judges} in all)."
    if table.group and not transferred:
        yield f"{correction.labels} of the labelled traces are of this group."
    yield from _describe_agreement(correction, in_group=bool(table.group))
    for pair in calibration.between:
        yield (
            f"Of the annotators, {sanitize_line(pair.what, 120)} agree in"
            f" {_write_agreement(pair.agreement)}."
        )
    if not transferred:  # without the question to those who made gold
        yield from (w.partition(" Was ")[0] for w in calibration.warnings if FITTED in w)


def _describe_design(labels: "LabelsUsed") -> str:
    """Return how the labelled traces were chosen."""
    if labels.strata_by is None:
        how = _DESIGNS[labels.design]
    elif labels.drawn == labels.sampled_from:
        how = f"all {labels.drawn} traces were drawn"
    elif labels.strata_by == "none":
        how = f"drawn at random from {labels.sampled_from} traces, each equally likely"
    else:
        how = (
            f"drawn at random from {labels.sampled_from} traces, stratified by"
            f" {_STRATA[labels.strata_by]} and weighted by inclusion probability"
        )
    if labels.split != "all":
        how += f", of {_SPLITS[labels.split]}"
    if labels.drawn is not None and labels.labelled != labels.drawn:
        how += f"; {labels.labelled} of {labels.drawn} drawn traces have a label"
    return how


def _describe_agreement(correction: "Correction", *, in_group: bool) -> Iterator[str]:
    calibration, transferred = correction.calibration, correction.transferred
    many = " on the whole set of codes" if calibration.choice == "many" else ""
    run = " of the whole run" if in_group and not transferred else ""
    judge = "calibrated judge" if transferred else "judge"
    decided = f" that the {judge} decided" if calibration.not_decided else ""
    n, of_all = calibration.agreement.observed.n, calibration.agreement_of_all
    if 0 < n < FEWEST:
        yield f"{format_count(n, 'label')}{decided}: too few to measure agreement."
    elif n:
        yield (
            f"On the {format_count(n, 'labelled trace')}{run}{decided}, the"
            f" {judge} and the labels agree{many} in {_write_agreement(calibration.agreement)}."
        )
    if of_all and of_all.observed.n >= FEWEST:
        yield (
            f"If labelled traces{run} that the {judge} left open count as disagreements, the"
            f" {judge} and the labels agree{many} in {_write_agreement(of_all)}."
        )
    elif n < FEWEST:
        return
    by = "+".join(calibration.cluster_by)
    over = f"{_EFFECTIVE} ({by})" if by else ", for independent traces"
    yield f"Intervals of agreement are Wilson's{over}; those of kappa are mapped from them."


def _describe_correction(correction: "Correction", table: FrequencyTable) -> Iterator[str]:
    level = f"{100 * correction.confidence:g} % intervals"
    if correction.transferred:
        text = (
            f"Corrected shares use the error rates on {format_count(correction.labels, 'trace')} of"
            f" that calibration (Rogan and Gladen's estimate, {level} of Lang and Reiczigel): they"
            " are right only if the judge errs here as often as there."
        )
    else:
        text = (
            "Corrected shares estimate which codes the annotators would give"
            f" {format_count(correction.traces, 'trace')}: {_describe_estimator(correction)},"
            f" {level}."
        )
        if correction.calibration.population == "corpus":
            text += " Their intervals are for these traces only, not for future ones."
    if left := table.judged + table.undecided + table.failed - correction.traces:
        text += (
            f" They leave out {format_count(left, 'trace')} without the judge's decision"
            f"{'' if correction.transferred else ' and without labels'}."
        )
    yield text


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
    tasks, effect = (observed.inputs.get(n) for n in ("clusters", "weighting_design_effect"))
    basis = f"n = {observed.n}" + (f" in {format_count(tasks, 'task')}" if tasks else "")
    basis += ", weighted" if effect and effect > 1 else ""
    text = f"{share} % ({_write_limits(observed, 100, 1)}; {basis})"
    if kappa.value is None:
        return f"{text}, Cohen's kappa undefined ({sanitize_line(kappa.reason or '', 200)})"
    return f"{text}, Cohen's kappa {format_number(kappa.value, 2)} ({_write_limits(kappa, 1, 2)})"


def _write_limits(estimate: "Estimate", unit: int, decimals: int) -> str:
    if estimate.low is None or estimate.high is None:
        reason = (estimate.reason or "not known").removeprefix("no interval: ")
        return f"no interval: {sanitize_line(reason, 200)}"
    low, high = (format_number(unit * end, decimals) for end in (estimate.low, estimate.high))
    return f"{100 * estimate.confidence:g} % interval {low} to {high}"
