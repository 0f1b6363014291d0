"""When failures stop a run, and what a user can do about each kind."""

from collections import Counter, deque
from collections.abc import Mapping

from annotator.annotations import Annotation, FailureKind
from annotator.errors import FailsAlways
from annotator.text import one_line

LAST = 20  # judged traces, of which
MOST = 18  # failures stop a run

ADVICE: Mapping[FailureKind, str] = {
    "server": "Look whether the server answers, and read its words.",
    "tags": "The prompt was cut, or the model is too weak. Give --context, or take a larger model.",
    "form": "The answers are malformed. Try --mode tools or json, or another model.",
    "length": "The trace or the answer is too long. Give --context or --max-output-tokens.",
    "refusal": "The model or its filter refuses these traces. Try another model.",
    "quotes": "No quote of the model is in the trace. Try another model.",
    "unreadable": "The files cannot be read: annotate traces TRACES --explain.",
    "other": "Read the errors in annotations.jsonl.",
}


class FailureWatch:
    """Stops a run of which almost everything fails."""

    def __init__(self) -> None:
        self._last: deque[Annotation] = deque(maxlen=LAST)

    def add(self, annotation: Annotation) -> None:
        """Count a trace that was judged.

        A trace that cannot be read says nothing of the judge, nor does one that is skipped. An
        undecided trace counts as a failure if none of the judge's quotes was in it.

        Raises:
            FailsAlways: of the last 20 traces 18 failed, for whatever reasons.
        """
        if annotation.status == "skipped" or annotation.failure == "unreadable":
            return
        self._last.append(annotation)
        kinds = Counter(item.failure for item in self._last if item.failure)
        if len(self._last) < LAST or kinds.total() < MOST:
            return
        [(kind, _), *_] = kinds.most_common()
        example = next(item for item in self._last if item.failure == kind)
        counts = ", ".join(f"{name} {n}" for name, n in kinds.most_common())
        raise FailsAlways(
            f"stopped: of the last {LAST} traces {kinds.total()} could not be judged ({counts})."
            f" For example {one_line(example.trace_id, 200)}: {explain_failure(example)}."
            f" {ADVICE[kind]}"
        )


def explain_failure(annotation: Annotation) -> str:
    """Return in one line why a trace has no judgement that counts; of rejected ones the first."""
    if annotation.failure == "quotes" and annotation.rejected:
        return one_line(annotation.rejected[0].reason, 300)
    return one_line(annotation.error or annotation.reason or "", 300)
