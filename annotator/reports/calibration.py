"""A calibration on one screen, and every disagreement with its quotes."""

from collections.abc import Iterator, Sequence

from annotator.annotations import Annotation
from annotator.calibration.estimates import (
    Judged,
    Labelled,
    by_error_rates,
    by_predictions,
)
from annotator.calibration.join import Pair
from annotator.calibration.model import Calibration, CodeRow, Comparison
from annotator.calibration.session import Annotators
from annotator.labels import Label
from annotator.reports.digits import UNDEFINED, limits, percent
from annotator.reports.formats import render
from annotator.reports.table import Table
from annotator.rubrics import Scheme
from annotator.text import count, one_line
from validation import Estimate, RaterAgreement, confusion, confusion_matrix, kappa_ase


def screen(calibration: Calibration) -> str:
    """Return the calibration as text for a terminal."""
    return render(tabulate(calibration), "table")


def tabulate(one: Calibration) -> list[Table]:
    """Return the calibration as prose (who was held against whom) and a table of the codes."""
    level = f"{100 * one.confidence:g} % interval"
    header = ("code", "judged", "judged %", "corrected %", level, "precision", "recall")
    table = Table(
        header=(*header, "labels", "mark"),
        rows=[_cells(row, one.judged) for row in one.rows],
        notes=tuple(_foot(one)),
        last=True,
    )
    return [Table(lines=tuple(_head(one))), table]


def _head(one: Calibration) -> Iterator[str]:
    tasks = ""
    if one.clusters is not None:
        tasks = f", {count(one.clusters, 'task')} ({'+'.join(one.cluster_by)})"
    yield (
        f"judge {one_line(one.judge, 80)} ({one.judge_sha256[:12]})  {one.rubric}"
        f" v{one.rubric_version} ({one.rubric_sha256[:12]})  N={one.judged} judged traces{tasks}"
    )
    labels = one.labels
    parts = [f"{labels['n']} of {', '.join(one_line(name, 60) for name in labels['annotators'])}"]
    parts += [f"design {labels['design']}", f"split {labels['split']}"]
    if one.look:
        judges = f" ({one.look['judges']} judges)" if one.look["judges"] > 1 else ""
        parts.append(f"look {one.look['look']} at these labels{judges}")
    yield "labels: " + ", ".join(parts)
    what = "primary code, none is a code"
    if one.choice == "many":
        what = "sets of codes; AC1 by the sets that occur"
    what += ", weighted" if labels["design"] == "stratified" else ""
    yield from _agreement(f"agreement ({what})", one.agreement)
    if one.sets:
        yield (
            f"sets: mean Jaccard {_number(one.sets.mean_jaccard)}, same set"
            f" {_number(one.sets.exact)}, alpha (MASI) {_number(one.sets.alpha_masi)}"
        )
    for pair in one.between:
        yield _compared("human-human", pair)
    if one.people_alpha and len(one.between) > 1:
        yield f"human-human  alpha of all {_number(one.people_alpha)} (n={one.people_alpha.n})"
    if not one.between:
        yield "human-human  not measured: no trace was labelled by two people"
    for pair in one.judges:
        yield _compared("judge-judge", pair)
    if again := one.reruns:
        yield (
            f"judge re-runs  {again.n} traces: pairwise {percent(again.mean_pairwise_agreement)} %,"
            f" unanimous {percent(again.share_unanimous)} %, alpha"
            f" {_number(again.krippendorff_alpha)}"
        )
    if not one.judges:
        yield "judge-judge  not measured (--against RUN: a second run of the judge, or another one)"


def _agreement(name: str, found: RaterAgreement) -> Iterator[str]:
    observed = found.observed
    k = observed.inputs.get("k")
    shown = f"{k}/{observed.n}" if isinstance(k, int) else f"n={observed.n}"
    effect = observed.inputs.get("design_effect")
    known = observed.inputs.get("clusters")
    more = f"  design effect {effect:.2f} ({count(known, 'task')})" if known else ""
    expected = found.kappa.inputs.get("expected")
    chance = f"  expected by chance {expected:.2f}" if isinstance(expected, float) else ""
    yield f"{name}  {shown}  {percent(observed)} %  {limits(observed)}{more}"
    yield f"  kappa {_number(found.kappa)}  AC1 {_number(found.ac1)}{chance}"


def _compared(name: str, pair: Comparison) -> str:
    observed = pair.agreement.observed
    note = f"  {pair.note}" if pair.note else ""
    return (
        f"{name}  {one_line(pair.what, 120)}: {percent(observed)} %, kappa"
        f" {_number(pair.agreement.kappa)} (n={pair.n}){note}"
    )


def _number(one: Estimate) -> str:
    """Return a number with its interval, or "-" with the reason."""
    if one.value is None:
        return f"{UNDEFINED} ({one.reason})"
    if one.low is None or one.high is None:
        return f"{one.value:.2f}"
    return f"{one.value:.2f} [{max(one.low, -1.0):.2f}, {one.high:.2f}]"


def _cells(row: CodeRow, judged: int) -> tuple[str, ...]:
    return (
        one_line(row.code, 64),
        f"{row.judged.k}/{judged}" if row.judged else UNDEFINED,
        percent(row.judged),
        percent(row.corrected),
        limits(row.corrected),
        _share(row.precision),
        _share(row.recall),
        f"{row.flagged}+{row.missed}",
        row.mark,
    )


def _share(one: Estimate) -> str:
    if one.value is None:
        return UNDEFINED
    k = one.inputs.get("k")
    shown = f"{k}/{one.n} " if isinstance(k, int) else ""
    return f"{shown}{percent(one)} {limits(one)}"


def _foot(one: Calibration) -> Iterator[str]:
    labels = one.labels
    yield (
        "corrected: the judge's share corrected by the labels (post-stratified by the judge's own"
        f" label, Jeffreys, {100 * one.confidence:g} %); judged %: not corrected."
    )
    if labels["design"] == "stratified":
        yield "Shares are weighted by the inverse inclusion probabilities; counts are not."
    yield (
        "labels: of traces the judge gave the code + others a person gave it; thin: fewer than 5"
        " of the first; blind: none of either; open: undecided traces may hold more."
    )
    yield from (*one.cautions, *one.warnings)
    for name in ("not_in_run", "skipped", "failed", "undecided"):
        if ids := labels[name]:
            more = f" and {len(ids) - 3} more" if len(ids) > 3 else ""
            first = ", ".join(one_line(trace_id, 200) for trace_id in ids[:3])
            yield f"{name.replace('_', ' ')}: {first}{more}"


def disagreements(pairs: Sequence[Pair], rubric: Scheme) -> str:
    """Return every labelled trace on which person and judge differ, with what each rests on."""
    differing = [
        pair
        for pair in pairs
        if set(rubric.labels_of(pair.label)) != set(rubric.labels_of(pair.annotation))
    ]
    head = f"{len(differing)} of {len(pairs)} labelled traces disagree ({rubric.id})"
    return "\n\n".join([head, *("\n".join(_differing(pair)) for pair in differing)])


def _differing(pair: Pair) -> Iterator[str]:
    annotation = pair.annotation
    yield one_line(pair.trace_id, 300)
    yield from _said(pair.label)
    yield f"  {one_line(annotation.judge, 80)}: {_codes(annotation.primary, annotation.secondary)}"
    yield from _findings(annotation)


def _others(one: Calibration) -> Iterator[tuple[str, ...]]:
    """Yield each code's corrected share by every estimator."""
    rows = [
        Labelled(
            pair["trace_id"],
            frozenset(pair["counted"]["human"]),
            frozenset(pair["counted"]["judge"]),
            pair["weight"],
            pair["cluster"],
        )
        for pair in one.joined
    ]
    for row in one.rows:
        judged = Judged(one.judged, row.judged.k if row.judged else 0)
        rates = by_error_rates(row.code, judged, rows, one.confidence).corrected
        predicted = by_predictions(row.code, judged, rows, one.confidence)
        yield (
            one_line(row.code, 64),
            percent(row.corrected),
            limits(row.corrected),
            UNDEFINED if rates.value is None else f"{percent(rates)} {limits(rates)}",
            f"{percent(predicted)} {_unclipped(predicted)}" if predicted else UNDEFINED,
        )


def _unclipped(one: Estimate) -> str:
    if one.low is None or one.high is None:
        return UNDEFINED
    return f"[{100 * one.low:.1f}, {100 * one.high:.1f}]"


def _said(label: Label) -> Iterator[str]:
    """Yield what a person said: the codes, the quotes, the note."""
    yield f"  {one_line(label.annotator, 60)}: {_codes(label.primary, label.secondary)}"
    for quote in label.evidence:
        yield f"    > {one_line(quote)}"
    if label.note:
        yield f"    note: {one_line(label.note, 600)}"


def _codes(primary: str | None, secondary: Sequence[str]) -> str:
    if not primary:
        return ", ".join(one_line(code, 64) for code in secondary) or "none"
    more = f" (also {', '.join(one_line(code, 64) for code in secondary)})" if secondary else ""
    return one_line(primary, 64) + more


def _findings(annotation: Annotation) -> Iterator[str]:
    for finding in annotation.findings:
        yield f"    {one_line(finding.code, 64)}: {one_line(finding.rationale, 600)}"
        for one in finding.evidence:
            yield f"    > {one_line(one.source, 80)}: {one_line(one.quote)}"
    for rejected in annotation.rejected:
        yield (f"    rejected {one_line(rejected.code, 64)}: {one_line(rejected.reason, 300)}")


def between_screen(pair: Annotators, *, listed: bool) -> str:
    """Return how far two people agree; ``listed``: with every trace on which they differ."""
    lines = [f"{pair.rubric.id} v{pair.rubric.version} ({pair.rubric.sha256[:12]})"]
    what = f"agreement of {one_line(pair.comparison.what, 120)}"
    lines += _agreement(what, pair.comparison.agreement)
    if not pair.comparison.agreement.observed.inputs.get("clusters"):
        lines.append("No trace tells its task: traces are treated as independent.")
    if not listed:
        lines.append(f"{len(pair.differing)} disagreements (--disagreements lists them)")
    for labels in pair.differing if listed else ():
        lines += ["", one_line(labels[0].trace_id, 300)]
        for label in labels:
            lines += _said(label)
    return "\n".join(lines)


def in_detail(one: Calibration) -> str:
    """Return the confusion matrix, F1 of each code, and the averages over codes."""
    labels = [row.code for row in one.rows]
    many = one.choice == "many"
    lines = []
    if not many:
        human = [pair["counted"]["human"][0] for pair in one.joined]
        judge = [pair["counted"]["judge"][0] for pair in one.joined]
        matrix = confusion_matrix(human, judge, labels)
        short = {label: str(n) for n, label in enumerate(labels, 1)}
        rows = [
            (f"{short[label]} {one_line(label, 40)}", *map(str, counts))
            for label, counts in zip(labels, matrix, strict=True)
        ]
        lines += ["confusion (labelled traces, not weighted; rows the person, columns the judge)"]
        header = ("person \\ judge", *short.values())
        lines += [str(Table(header=header, rows=rows, last=True)), ""]
    level = f"{100 * one.confidence:g} % interval"
    header = ("code", "corrected %", level, "Rogan-Gladen", "PPI++ (traces independent)")
    lines += [str(Table(header=header, rows=tuple(_others(one)), last=True)), ""]
    if not many:
        ase = kappa_ase(confusion(human, judge), one.confidence)
        lines += [f"kappa by its asymptotic standard error  {_number(ase)} (not weighted)", ""]
    lines += [f"F1  {one_line(row.code, 64)}  {_number(row.f1)}" for row in one.rows]
    for code, flips in (one.reruns.flips if one.reruns else {}).items():
        share = f"{flips.flipped}/{flips.given}"
        lines.append(f"flips  {one_line(code, 200)}  {share} of the traces that had it in any run")
    for name, average in one.averages.items():
        lines.append(
            f"{name} average  precision {_number(average.precision)}, recall"
            f" {_number(average.recall)}, F1 {_number(average.f1)}"
        )
    return "\n".join(lines)
