"""A calibration on one screen, and every disagreement with its quotes."""

from collections.abc import Iterable, Iterator

from annotator.base.text import format_count, list_first, sanitize_line, wrap_line, wrap_lines
from annotator.calibration.calibrate import Annotators
from annotator.calibration.estimates import Judged, correct_by_error_rates, correct_by_predictions
from annotator.calibration.model import (
    OPEN,
    Calibrated,
    Calibration,
    CodeRow,
    Comparison,
    LabelsUsed,
)
from annotator.labels import Label
from annotator.reports.digits import (
    UNDEFINED,
    Share,
    describe_effective,
    describe_limits,
    find_bar,
    format_bounds,
    format_limits,
    format_number,
    format_percent,
)
from annotator.reports.table import Table
from annotator.reports.tables.brief import explain_labels, explain_marks, fit_rows
from annotator.rubrics import NONE
from annotator.rubrics.annotations import Annotation
from validation import (
    Estimate,
    RaterAgreement,
    compute_asymptotic_kappa,
    count_pairs,
    tabulate_confusion,
)

_DESIGNS = {
    "unknown": "How they were sampled is not recorded.",
    "uniform": "A uniform random sample.",
    "stratified": "A stratified sample.",
}
FEWEST = 10  # traces whose agreement is told in the sentence
_NOTES = 2  # of a brief table
_ORDER = ("reviewed", "left-out", "fitted", "judges", "one-task")  # of its notes, before all others
_SPLITS = {"dev": ["The dev split."], "test": ["The held-out test split."]}


def make_brief(calibration: Calibration) -> Table:
    """Return the calibration for a terminal of 80 columns: a sentence, few columns, two notes."""
    level = f"{100 * calibration.confidence:g} % interval"
    codes = sorted(
        calibration.rows, key=lambda row: (row.code == NONE, -(row.corrected.value or 0))
    )
    cells = [_write_cells(row, calibration.judged, ranged=False) for row in codes]
    titles = ("traces", "judged %", "corrected %", level, "mark")
    columns = dict(
        zip(titles, zip(*(row[1:5] + row[-1:] for row in cells), strict=True), strict=True)
    )
    if not any(row.judged for row in codes):  # a judge may have no shares
        columns = {title: columns[title] for title in titles[2:]}
    header, rows = fit_rows([row[0] for row in cells], columns)
    ranks = {id_: rank for rank, id_ in enumerate(_ORDER)}
    notes = sorted(
        (*calibration.cautions, *calibration.warnings),
        key=lambda note: ranks.get(getattr(note, "id", ""), len(ranks)),
    )
    hidden = len(notes[_NOTES:])
    more = f"{format_count(hidden, 'more note')}, precision" if hidden else "Precision"
    judge = sanitize_line(calibration.judge, 60)
    return Table(
        title=f"{sanitize_line(calibration.rubric)} v{calibration.rubric_version}, judge {judge}"
        f"\n\n{wrap_lines(' '.join(_summarize(calibration)))}",
        header=header,
        rows=rows,
        notes=(*notes[:_NOTES], f"{more} and recall of each code, agreement in detail: -v"),
        lines=explain_marks(row.mark for row in codes),
        last=True,
        bars=[find_bar(row.corrected) for row in codes],
    )


def _summarize(calibration: Calibration) -> Iterator[str]:
    """Yield the result in a few sentences."""
    labels, agreement = calibration.labels, calibration.agreement
    names = list_first([sanitize_line(name, 40) for name in labels.annotators], 3, ", else ")
    if len(labels.annotators) > 1:
        names = f"people ({names})"
    many = "the whole set of codes of " if calibration.choice == "many" else ""
    if agreement.observed.value is None:
        yield f"The judge decided no trace that {names} labelled: agreement is not known."
    elif labels.n < FEWEST:
        yield (
            f"The judge decided {labels.n} of the {len(calibration.labelled)} traces that {names}"
            f" labelled: too few to measure agreement (at least {FEWEST})."
        )
    else:
        rate = _write_rate(agreement.observed)
        share = f", {rate}"
        if labels.design == "stratified":
            percent, *limits = rate.removesuffix(")").split(" (")
            weighted = f"{percent} when weighted by how they were drawn"
            share = f" ({'; '.join([weighted, *limits])})"
        same = sum(trace.counted.human == trace.counted.judge for trace in calibration.joined)
        kappa = agreement.kappa
        yield (
            f"Judge and {names} agree on {many}{same} of {labels.n} labelled traces{share}; kappa"
            f" {write_estimate(kappa) if kappa.value is not None else 'undefined'}."
        )
        if kappa.value is None:
            yield f"({sanitize_line(kappa.reason or '', 200)}.)"
    if calibration.agreement_of_all:
        yield (
            f"The judge left {_list_open(labels)}: it agrees on"
            f" {_write_rate(calibration.agreement_of_all.observed)} of all"
            f" {len(calibration.labelled)}."
        )
    if calibration.effective_votes:
        yield f"{describe_effective(calibration.effective_votes, 'correlation of errors')}."
    codes = [row for row in calibration.rows if row.code != NONE]
    unknown = [sanitize_line(row.code, 64) for row in codes if row.corrected.value is None]
    counted = [row for row in codes if row.corrected.value]
    if not counted:
        return
    value = max(row.corrected.value or 0.0 for row in counted)
    tops = [row for row in counted if row.corrected.value == value]
    names = list_first([sanitize_line(row.code, 64) for row in tops], 3, " and ")
    rate = f"{_write_rate(tops[0].corrected)} of traces"
    if len(tops) > 1:
        rate = f"{format_number(100 * value, 0)} % of traces each"
    elif tops[0].judged:
        rate += f"; {_write_rate(tops[0].judged).partition(' (')[0]} by the judge alone"
    others = f" (not known: {list_first(unknown, 3)})" if unknown else ""
    yield f"Estimated from the labels, most common{others}: {names}, {rate}."


def _list_open(labels: LabelsUsed) -> str:
    """Return how many labelled traces the judge left undecided, or failed."""
    counts = ((len(getattr(labels, status)), status) for status in OPEN)
    return " and ".join(f"{n} {status}" for n, status in counts if n)


def _write_rate(share: Share) -> str:
    """Return a share in percent, with its interval if it has one."""
    value = UNDEFINED if share.value is None else format_number(100 * share.value, 0)
    return f"{value} %{describe_limits(share)}"


def tabulate(calibration: Calibration) -> list[Table]:
    """Return the calibration as prose (the labels and the agreement) and a table of the codes."""
    level = f"{100 * calibration.confidence:g} % interval"
    ranged = any(row.over_annotators for row in calibration.rows)
    by_annotator = ("by annotator",) if ranged else ()
    header = ("code", "judged", "judged %", "corrected %", level, *by_annotator)
    table = Table(
        header=(*header, "precision", "recall", "labels", "mark"),
        rows=[_write_cells(row, calibration.judged, ranged=ranged) for row in calibration.rows],
        notes=tuple(_write_notes(calibration)),
        last=True,
    )
    return [Table(lines=tuple(_write_head(calibration))), table]


def _write_head(calibration: Calibration) -> Iterator[str]:
    tasks = ""
    if calibration.clusters is not None:
        tasks = (
            f", {format_count(calibration.clusters, 'task')} ({'+'.join(calibration.cluster_by)})"
        )
    yield (
        f"judge {sanitize_line(calibration.judge, 80)} ({calibration.judge_sha256[:12]})"
        f"  {calibration.rubric} v{calibration.rubric_version} ({calibration.rubric_sha256[:12]})"
        f"  N={calibration.judged} judged traces{tasks}"
    )
    labels, total = calibration.labels, len(calibration.labelled)
    names = ", ".join(sanitize_line(name, 60) for name in labels.annotators)
    sentences = [f"{format_count(total, 'label')} by {names}."]
    if labels.drawn is not None:
        sentences.append(f"{labels.labelled} of {labels.drawn} drawn traces are labelled.")
    sentences += [_DESIGNS[labels.design], *_SPLITS.get(labels.split, ())]
    if look := calibration.look:
        judges = f" ({look.judges} judges)" if look.judges > 1 else ""
        sentences.append(
            f"{'First time' if look.look == 1 else f'Time {look.look}'} that this label set is"
            f" used{judges}."
        )
    yield " ".join(sentences)
    if labels.n < total:
        yield (
            f"judge and people are compared on {labels.n} of {total} labelled traces; the judge"
            f" left {_list_open(labels)}"
        )
    what = "primary code, none is a code"
    if calibration.choice == "many":
        what = "sets of codes; AC1 by the sets that occur"
    yield from _describe_agreement(f"agreement ({what})", calibration.agreement)
    if calibration.agreement_of_all:
        yield from _describe_agreement(
            f"agreement on all {total}, where no answer is a disagreement",
            calibration.agreement_of_all,
        )
    if sets := calibration.sets:
        yield (
            f"sets: mean Jaccard {write_estimate(sets.mean_jaccard)},"
            f" same set {write_estimate(sets.exact)},"
            f" alpha (MASI) {write_estimate(sets.alpha_masi)}"
        )
    yield from _compare("group", calibration.groups)
    for name, share in calibration.attribution.items():
        counts = f"{share.k}/{share.n}"
        yield f"responsible {name}  {counts}  {format_percent(share)} %  {format_limits(share)}"
        if baseline := calibration.attribution_baselines.get(name):
            always, share = sanitize_line(baseline.answer, 60), baseline.share
            yield (
                f"  baseline: always {always}  {share.k}/{share.n}  {format_percent(share)} %"
                f"  {format_limits(share)}"
            )
    yield from _compare("human-human", calibration.between)
    yield from _compare("reference", calibration.references)
    alpha = calibration.people_alpha
    if alpha and len(calibration.between) > 1:
        yield f"human-human  alpha of all {write_estimate(alpha)} (n={alpha.n})"
    if not calibration.between:
        yield "human-human  not measured: no trace was labelled by two people"
    yield from _compare("judge-judge", calibration.judges)
    if again := calibration.reruns:
        yield (
            f"judge re-runs  {again.n} traces:"
            f" pairwise {format_percent(again.mean_pairwise_agreement)} %,"
            f" unanimous {format_percent(again.share_unanimous)} %,"
            f" alpha {write_estimate(again.krippendorff_alpha)}"
        )
    if votes := calibration.effective_votes:
        yield describe_effective(votes, "correlation of errors")
    if not calibration.judges:
        yield "judge-judge  not measured (--against RUN: a second run of the judge, or another one)"


def _describe_agreement(name: str, agreement: RaterAgreement) -> Iterator[str]:
    observed, expected = agreement.observed, agreement.kappa.inputs.get("expected")
    k, clusters = observed.inputs.get("k"), observed.inputs.get("clusters")
    counts = f"n={observed.n}"
    if isinstance(k, int):
        is_weighted = observed.value is not None and abs(observed.value - k / observed.n) > 1e-9
        counts = f"{k}/{observed.n}{'  weighted' * is_weighted}"
    effect, chance = "", ""
    if clusters:
        design_effect = f"{observed.inputs['design_effect']:.2f}"
        effect = f"  design effect {design_effect} ({format_count(clusters, 'task')})"
    if isinstance(expected, float):
        chance = f"  expected by chance {format_number(expected, 2)}"
    yield f"{name}  {counts}  {format_percent(observed)} %  {format_limits(observed)}{effect}"
    kappa, ac1 = write_estimate(agreement.kappa), write_estimate(agreement.ac1)
    yield f"  kappa {kappa}  AC1 {ac1}{chance}"


def _compare(name: str, comparisons: Iterable[Comparison]) -> Iterator[str]:
    for comparison in comparisons:
        observed = comparison.agreement.observed
        note = f"  {comparison.note}" if comparison.note else ""
        yield (
            f"{name}  {sanitize_line(comparison.what, 120)}: {format_percent(observed)} %, kappa"
            f" {write_estimate(comparison.agreement.kappa)} (n={comparison.n}){note}"
        )


def write_estimate(estimate: Estimate) -> str:
    """Return a number with its interval, or "-" with the reason."""
    low, high, why = estimate.low, estimate.high, f" ({estimate.reason})" if estimate.reason else ""
    if estimate.value is None:
        return f"{UNDEFINED} ({estimate.reason})"
    value = format_number(estimate.value, 2)
    if low is None or high is None or (why and (low, high) == (0, 1)):
        return value + why
    return f"{value} [{format_number(max(low, -1.0), 2)}, {format_number(high, 2)}]"


def _write_cells(row: CodeRow, judged: int, *, ranged: bool) -> tuple[str, ...]:
    spread = row.over_annotators
    return (
        sanitize_line(row.code, 64),
        f"{row.judged.k}/{judged}" if row.judged else UNDEFINED,
        format_percent(row.judged),
        format_percent(row.corrected),
        format_limits(row.corrected),
        *((format_bounds(spread) if spread else UNDEFINED,) if ranged else ()),
        _write_share(row.precision),
        _write_share(row.recall),
        f"{row.flagged}+{row.missed}",
        row.mark,
    )


def _write_share(rate: Estimate) -> str:
    if rate.value is None:
        return UNDEFINED
    k = rate.inputs.get("k")
    counts = f"{k}/{rate.n} " if isinstance(k, int) else ""
    return f"{counts}{format_percent(rate)} {format_limits(rate)}"


def _write_notes(calibration: Calibration) -> Iterator[str]:
    labels = calibration.labels
    yield (
        "corrected %: the share that people would give, estimated from the labels"
        f" ({100 * calibration.confidence:g} % intervals). judged %: the judge alone."
    )
    if any(row.over_annotators for row in calibration.rows):
        yield (
            "by annotator: the lowest and highest corrected share if one person who labelled all of"
            " these traces is the reference."
        )
    if labels.design == "stratified":
        yield "Shares are weighted by the inverse inclusion probabilities; counts are not."
    yield explain_labels(row.mark for row in calibration.rows)
    yield from (*calibration.cautions, *calibration.warnings)
    for name in ("not_in_run", "skipped", "failed", "undecided"):
        if ids := [sanitize_line(trace_id, 200) for trace_id in getattr(labels, name)]:
            yield f"{name.replace('_', ' ')}: {list_first(ids, 3)}"


def render_disagreements(calibrated: Calibrated) -> str:
    """Return every labelled trace on which person and judge differ, with their quotes."""
    calibration = calibrated.calibration
    ids = [
        trace.trace_id for trace in calibration.joined if trace.counted.human != trace.counted.judge
    ]
    total = len(calibration.joined)
    parts = [f"{len(ids)} of {total} labelled traces disagree ({calibration.rubric})"]
    for trace_id in ids:
        label, annotation = calibrated.labels[trace_id], calibrated.annotations[trace_id]
        judge = f"{sanitize_line(annotation.judge, 80)}: {_list_codes(annotation)}"
        lines = [
            sanitize_line(trace_id, 300),
            *_describe_label(label),
            f"  {judge}",
            *_describe_findings(annotation),
        ]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _compare_estimators(calibration: Calibration) -> Iterator[tuple[str, ...]]:
    """Yield each code's corrected share by every estimator."""
    traces, confidence = calibration.joined, calibration.confidence  # that the judge decided
    for row in calibration.rows:
        first = (
            sanitize_line(row.code, 64),
            format_percent(row.corrected),
            format_limits(row.corrected),
        )
        if row.judged is None:  # undecided traces may have the code
            yield (*first, UNDEFINED, UNDEFINED)
            continue
        judged = Judged(calibration.judged, row.judged.k)
        rates = correct_by_error_rates(row.code, judged, traces, confidence).corrected
        predicted = correct_by_predictions(row.code, judged, traces, confidence)
        yield (
            *first,
            UNDEFINED if rates.value is None else f"{format_percent(rates)} {format_limits(rates)}",
            f"{format_percent(predicted)} {_write_limits(predicted)}" if predicted else UNDEFINED,
        )


def _write_limits(estimate: Estimate) -> str:
    """Return limits that may lie outside 0 and 100 %."""
    if estimate.low is None or estimate.high is None:
        return UNDEFINED
    return f"[{format_number(100 * estimate.low, 1)}, {format_number(100 * estimate.high, 1)}]"


def _describe_label(label: Label) -> Iterator[str]:
    """Yield a person's codes, quotes and note."""
    yield f"  {sanitize_line(label.annotator, 60)}: {_list_codes(label)}"
    for quote in label.evidence:
        yield f"    > {sanitize_line(quote)}"
    if label.note:
        yield f"    note: {sanitize_line(label.note, 600)}"


def _list_codes(decision: Label | Annotation) -> str:
    secondary = ", ".join(sanitize_line(code, 64) for code in decision.secondary)
    if not decision.primary:
        return secondary or "none"
    return sanitize_line(decision.primary, 64) + (f" (also {secondary})" if secondary else "")


def _describe_findings(annotation: Annotation) -> Iterator[str]:
    for finding in annotation.findings:
        yield f"    {sanitize_line(finding.code, 64)}: {sanitize_line(finding.rationale, 600)}"
        for evidence in finding.evidence:
            yield f"    > {sanitize_line(evidence.source, 80)}: {sanitize_line(evidence.quote)}"
    for rejected in annotation.rejected:
        yield (
            f"    rejected {sanitize_line(rejected.code, 64)}:"
            f" {sanitize_line(rejected.reason, 300)}"
        )


_COMPARED = {
    "many": "the whole set of codes",
    "primary": "the primary code; other codes are not compared",
    "one": "the code",
}


def render_annotators(pair: Annotators, *, listed: bool) -> str:
    """Return how far two people agree; ``listed``: with every trace on which they differ."""
    lines = [f"{pair.rubric.id} v{pair.rubric.version} ({pair.rubric.sha256[:12]})"]
    what = f"agreement of {sanitize_line(pair.comparison.what, 120)}"
    lines += map(wrap_line, _describe_agreement(what, pair.comparison.agreement))
    if not pair.comparison.agreement.observed.inputs.get("clusters"):
        lines.append(
            "No label tells its task: traces are treated as independent. With RUN the intervals"
            " allow for its tasks, as those of annotate report --methods do."
        )
    count = format_count(len(pair.differing), "disagreement")
    advice = "" if listed else " (--disagreements lists them)"
    lines.append(f"{count} on {_COMPARED[pair.rubric.choice]}{advice}")
    for labels in pair.differing if listed else ():
        lines += ["", sanitize_line(labels[0].trace_id, 300)]
        for label in labels:
            lines += _describe_label(label)
    return wrap_lines("\n".join(lines))


def render_details(calibration: Calibration) -> str:
    """Return the confusion matrix, F1 of each code, and the averages over codes."""
    lines = [*_write_confusion(calibration)] if calibration.choice != "many" else []
    level = f"{100 * calibration.confidence:g} % interval"
    header = ("code", "corrected %", level, "Rogan-Gladen", "PPI++ (traces independent)")
    lines += [str(Table(header=header, rows=tuple(_compare_estimators(calibration)), last=True))]
    lines += [
        "PPI++: not of weighted labels, and not of fewer than 10 labels with the code (or without),"
        " where its interval covers too little.",
        "",
    ]
    if calibration.choice != "many":
        counts = count_pairs(*_list_labels(calibration))
        ase = compute_asymptotic_kappa(counts, calibration.confidence)
        lines += [
            f"kappa by its asymptotic standard error  {write_estimate(ase)} (not weighted)",
            "",
        ]
    lines += [
        f"F1  {sanitize_line(row.code, 64)}  {write_estimate(row.f1)}" for row in calibration.rows
    ]
    for code, flips in (calibration.reruns.flips if calibration.reruns else {}).items():
        share = f"{flips.flipped}/{flips.given}"
        lines.append(
            f"flips  {sanitize_line(code, 200)}  {share} of the traces that had it in any run"
        )
    for name, average in calibration.averages.items():
        lines.append(
            f"{name} average  precision {write_estimate(average.precision)}, recall"
            f" {write_estimate(average.recall)}, F1 {write_estimate(average.f1)}"
        )
    return "\n".join(lines)


def _write_confusion(calibration: Calibration) -> Iterator[str]:
    labels = [row.code for row in calibration.rows]
    matrix = tabulate_confusion(*_list_labels(calibration), labels)
    named = zip(labels, matrix, strict=True)
    rows = [(sanitize_line(label, 40), *map(str, counts)) for label, counts in named]
    yield "confusion (labelled traces, not weighted; rows the person, columns the judge)"
    header = ("person \\ judge", *labels)
    yield str(Table(header=header, rows=rows, last=True, matrix=True))
    yield ""


def _list_labels(calibration: Calibration) -> tuple[list[str], list[str]]:
    """Return the person's and the judge's label of each trace, where a rubric allows but one."""
    traces = calibration.joined
    return (
        [trace.counted.human[0] for trace in traces],
        [trace.counted.judge[0] for trace in traces],
    )
