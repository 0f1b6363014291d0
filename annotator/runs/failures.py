"""When failures stop a run, and an advice for each kind of failure."""

from bisect import insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter

from annotator.base.errors import FailsAlways
from annotator.base.text import list_first, sanitize_line
from annotator.rubrics.annotations import Annotation, FailureKind

WINDOW = 20  # judgements
MAXIMUM = 18  # failures among them

ADVICE: Mapping[FailureKind, str] = {
    "server": "Read the message above; check that the server runs.",
    "tags": "Give --context, or take a larger model.",
    "form": "The answers are malformed. Try mode: tools or json in a judge file, or another model.",
    "length": "The trace or the answer is too long. Give --context or a larger max_output_tokens.",
    "refusal": "The model or its filter refuses these traces. Try another model.",
    "quotes": "All findings were rejected, for reasons as the one above. Try another model.",
    "unreadable": "The files cannot be read: annotate traces TRACES --explain.",
    "other": "Read the errors in annotations.jsonl.",
}


class FailureWatch:
    """Notices that almost everything fails."""

    # In the order in which judgements began: failures are often faster than answers.

    def __init__(self) -> None:
        self._recent: list[tuple[int, Annotation]] = []

    def add(self, n: int, annotation: Annotation) -> None:
        """Count the n-th judgement that began. An unreadable trace does not count; an undecided one
        is a failure if all its findings were rejected.
        """
        if annotation.failure != "unreadable":
            insort(self._recent, (n, annotation), key=itemgetter(0))
            del self._recent[:-WINDOW]

    @property
    def error(self) -> FailsAlways | None:
        """The error if 18 of the last 20 judgements failed, else None."""
        failed = [annotation for _, annotation in self._recent if annotation.failure]
        if len(failed) < MAXIMUM or len(self._recent) < WINDOW:
            return None
        kinds = Counter(annotation.failure for annotation in failed if annotation.failure)
        [(kind, _), *_] = kinds.most_common()
        example = next(annotation for annotation in failed if annotation.failure == kind)
        counts = ", ".join(f"{name} {n}" for name, n in kinds.most_common())
        return FailsAlways(
            f"Stopped: {len(failed)} of the last {WINDOW} judgements failed ({counts})."
            f" For example {sanitize_line(example.trace_id, 200)}: {explain_failure(example)}."
            f" {ADVICE[kind]}"
        )


def describe_failures(failed: Iterable[Annotation], *, verbose: bool = False) -> Iterator[str]:
    """Yield the failed traces by kind, the most frequent first, each with a reason, what to do and
    the first ids; ``verbose``: with all ids and reasons.
    """
    kinds: defaultdict[FailureKind, list[Annotation]] = defaultdict(list)
    for annotation in failed:
        kinds[annotation.failure or "other"].append(annotation)
    groups = sorted(kinds.items(), key=lambda item: -len(item[1]))
    counts = ", ".join(f"{len(group)} {kind}" for kind, group in groups)
    yield f"{sum(map(len, kinds.values()))} failed: {counts}"
    for kind, group in groups:
        yield f"  {kind} ({len(group)}): {explain_failure(group[0])}"
        yield f"    {ADVICE[kind]}"
        ids = [sanitize_line(annotation.trace_id, 200) for annotation in group]
        if verbose:
            reasons = map(explain_failure, group)
            yield from (f"    {x}: {reason}" for x, reason in zip(ids, reasons, strict=True))
        else:
            yield f"    {list_first(ids, 2)}"


def explain_failure(annotation: Annotation) -> str:
    """Return in one line why a trace failed, or why its first finding was rejected."""
    if annotation.failure == "quotes" and annotation.rejected:
        return sanitize_line(annotation.rejected[0].reason, 300)
    return sanitize_line(annotation.error or annotation.reason or "", 300)
