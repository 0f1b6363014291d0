"""The results of a run as scores of traces in another tool, and the requests that carry them."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from annotator.base.errors import AnnotatorError
from annotator.base.files import NewFile
from annotator.base.text import dump_json, list_first, sanitize_line
from annotator.rubrics import Scheme
from annotator.rubrics.annotations import JUDGED, Annotation, Finding
from annotator.runs.run import Run

TRACE_ID = "tool_trace_id"
"""The attribute in which readers keep a trace's id in the tool that exported it."""
Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Score:
    """A judge's result on one trace: whether it has a code, or its label.

    Attributes:
        id: the same whenever the run is exported.
        trace_id: the trace's id in the other tool.
        code: None if the score is the label of the trace.
        value: 1 or 0 for a code; else the counted codes with commas, or ``none``.
        comment: rationale and quotes; "" without a finding.
        metadata: the quotes with their places, and the hashes of run, rubric and judge.
        by_model: a model judged, and not a program.
        time: when the run began, ISO 8601.
    """

    id: str
    trace_id: str
    rubric: str
    code: str | None
    value: int | str
    comment: str
    metadata: Mapping[str, Any]
    by_model: bool
    time: str

    @property
    def name(self) -> str:
        """Its name: ``rubric`` or ``rubric/code``."""
        return f"{self.rubric}/{self.code}" if self.code else self.rubric


@dataclass(frozen=True, slots=True)
class Target:
    """A tool that takes scores by HTTP.

    Attributes:
        path: of requests; ``{trace_id}`` is that of the record.
        key: the key in a request of the list of records; with ``size`` 1, of the record.
        size: the most records in a request.
        make_record: makes a record of a score.
        identify: returns the name of a record for messages, and the id of its trace.
        user_env: the environment variable with the user of basic authentication, if there is one.
        key_envs: the variables with the key, the first that is set counts.
        find_refused: returns the reasons by id that an answer gives for refused records.
    """

    path: str
    key: str
    size: int
    make_record: Callable[[Score], Record]
    identify: Callable[[Record], tuple[str, str]]
    user_env: str
    key_envs: tuple[str, ...]
    find_refused: Callable[[Any], Mapping[str, str]] = lambda answer: {}

    def wrap(self, records: Sequence[Record]) -> Record:
        """Return the body of a request."""
        return {self.key: list(records) if self.size > 1 else records[0]}

    def unwrap(self, body: Record) -> list[Record]:
        """Return the records in the body of a request."""
        return list(body[self.key]) if self.size > 1 else [body[self.key]]


@dataclass(slots=True)
class Written:
    """How many scores a file has, and the number of left out results by status.

    ``open_codes``: codes without a 0, as the judge cannot rule them out or cannot find them.
    """

    scores: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    open_codes: tuple[str, ...] = ()


def write_requests(run: Run, target: Target, file: Path, attribute: str | None = None) -> Written:
    """Write the body of each request as a line of JSON.

    Args:
        run: its results that are undecided, failed or skipped get no score.
        target: the tool that takes the requests.
        file: is replaced.
        attribute: of traces, with their ids in the tool; ``trace_id`` is the trace's own id here.

    Raises:
        AnnotatorError: a judged trace has no id in the tool or shares one, or no trace is judged.
    """
    _check_ids(run, attribute)
    written = Written()
    scores = make_scores(run, attribute, written.left_out)
    with NewFile(file, private=True) as out:
        while batch := [target.make_record(score) for score in islice(scores, target.size)]:
            out.write(f"{dump_json(target.wrap(batch))}\n".encode())
            written.scores += len(batch)
    open_codes = [
        code.id for scheme in run.schemes.values() for code in scheme.codes if not _can_deny(code)
    ]
    written.open_codes = tuple(open_codes)
    return written


def make_scores(run: Run, attribute: str | None, left_out: Counter[str]) -> Iterator[Score]:
    """Yield the scores of each judged trace; count the other results in ``left_out``."""
    for annotation in run.annotations():
        if annotation.status in JUDGED:
            yield from _score(run, annotation, run.schemes[annotation.rubric], attribute)
        else:
            left_out[annotation.status] += 1


def _score(
    run: Run, annotation: Annotation, scheme: Scheme, attribute: str | None
) -> Iterator[Score]:
    values: dict[str | None, int | str] = {None: ", ".join(scheme.labels_of(annotation))}
    for code in scheme.codes:
        if code.id in annotation.codes or _can_deny(code):
            values[code.id] = int(code.id in annotation.codes)
    for name, value in values.items():
        codes = (name,) if name and value else () if name else scheme.labels_of(annotation)
        findings = [finding for finding in annotation.findings if finding.code in codes]
        key = "\0".join((run.id, annotation.trace_id, scheme.id, name or ""))
        yield Score(
            id=hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:32],
            trace_id=_find_id(annotation, attribute),
            rubric=scheme.id,
            code=name,
            value=value,
            comment="\n".join(map(_describe, findings)),
            metadata=_describe_origin(run, annotation, scheme, name, findings),
            by_model=run.judge.startswith("llm:"),
            time=run.manifest.started or "",
        )


def _can_deny(code: Any) -> bool:
    return bool(code.judged and not code.screen)


def _find_id(annotation: Annotation, attribute: str | None) -> str:
    value = annotation.attributes.get(attribute or TRACE_ID)
    own_id = annotation.trace_id if attribute == "trace_id" else ""
    # The console exporter of OpenTelemetry writes 0x before an id, and no tool keeps it.
    return str(own_id if value is None else value).removeprefix("0x")


def _check_ids(run: Run, attribute: str | None) -> None:
    traces: dict[tuple[str, str], str] = {}
    for annotation in run.annotations():
        if annotation.status not in JUDGED:
            continue
        name, tool_id = sanitize_line(annotation.trace_id, 100), _find_id(annotation, attribute)
        if not tool_id:
            reason = f"has no attribute {attribute!r}" if attribute else "has no id of another tool"
            names = list_first(sorted(annotation.attributes), 12) or "none"
            raise AnnotatorError(
                f"{run}: {name!r} {reason}. Name the attribute with the trace's id there:"
                f" --id-attribute NAME. Here are {names}; trace_id is the id in this run"
            )
        if other := traces.get((annotation.rubric, tool_id)):
            raise AnnotatorError(
                f"{run}: {other!r} and {name!r} have the same id in the tool,"
                f" {sanitize_line(tool_id, 100)!r}. Name an attribute with an id for each trace:"
                " --id-attribute NAME"
            )
        traces[annotation.rubric, tool_id] = name
    if not traces:
        raise AnnotatorError(f"{run}: no judged trace, so that there is no score to export")


def _describe(finding: Finding) -> str:
    quotes = [f'"{item.quote}" ({item.source})' for item in finding.evidence]
    return "\n".join(filter(None, (finding.rationale, *quotes)))


def _describe_origin(
    run: Run, annotation: Annotation, scheme: Scheme, code: str | None, findings: Sequence[Finding]
) -> Record:
    about: Record = {
        "run": run.id,
        "trace": annotation.trace_id,
        "rubric": scheme.id,
        "rubric_version": scheme.version,
        "rubric_sha256": scheme.sha256,
        "judge": run.judge,
        "judge_sha256": run.judge_sha256,
    }
    about |= {"code": code, "primary": code == annotation.primary} if code else {}
    if findings:
        about["evidence"] = [asdict(quote) for item in findings for quote in item.evidence]
    if located := next((item for item in findings if item.agent is not None), None):
        about |= {"agent": located.agent, "step": located.step}
    return about
