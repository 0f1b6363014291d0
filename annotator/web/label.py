"""The page to label traces with, and to adjudicate two annotators' labels."""

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, FailFast, Field, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from annotator.base.errors import UnreadableTrace
from annotator.base.text import describe_validation, sanitize_line
from annotator.labels.adjudication import Disagreement, drop_stale_spans
from annotator.labels.decisions import Decision, check_passages
from annotator.labels.model import Passage
from annotator.labels.queue import Item
from annotator.labels.store import LabelStore
from annotator.rubrics import Rubric
from annotator.traces import Trace, Unreadable
from annotator.traces.read import Library
from annotator.web.assets import SCRIPTS, render
from annotator.web.payload import (
    label_value,
    rubric_value,
    steps_value,
    trace_value,
    unreadable_value,
)
from annotator.web.server import Refused, html, json, serve, whole

_SCRIPTS = ("draft.js", "panel.js", "label.js")
_NOTE = 10_000  # characters of a note; the page takes no more either


class _Sent(BaseModel):
    """What the page sends."""

    model_config = ConfigDict(extra="forbid", strict=True)


_Kind = TypeVar("_Kind", bound=_Sent)


class _Selection(_Sent):
    quote: str
    source: str | None = None
    start: int | None = None
    end: int | None = None
    code: str | None = None


class _Selected(_Selection):
    """A quote that was selected in the trace number ``n``."""

    n: int = Field(ge=0)


class _Undo(_Sent):
    """Whether a label of an earlier session may be taken back, too."""

    earlier: bool = False


class _Decided(_Sent):
    """A decision about the trace number ``n``, or that there is none. ``revision``: of what the
    page shows.
    """

    n: int = Field(ge=0)
    revision: int
    withdrawn: bool = False
    skipped: bool = False
    primary: str | None = None
    # The first wrong one is told: millions of errors would fill the memory.
    secondary: Annotated[list[str], FailFast()] = []
    evidence: Annotated[list[_Selection], FailFast()] = []
    note: str = Field("", max_length=_NOTE)
    confidence: int | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Work:
    """What is to be labelled, by what, and where the labels go.

    ``differing``: in adjudication the two labels of each trace; ``notes`` are shown at the start.
    """

    rubric: Rubric
    items: Sequence[Item]
    library: Library
    store: LabelStore
    differing: Mapping[str, Disagreement] = field(default_factory=dict)
    notes: Sequence[str] = ()


class Labelling:
    """What the page asks for. Nothing of a judge is in it, and of other annotators only in
    adjudication.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        self._numbers = {item.trace_id: n for n, item in enumerate(work.items)}
        self._revisions: Counter[str] = Counter()  # changes of each trace's decision so far
        self._lock = threading.Lock()  # the store is for one thread at a time

    def routes(self) -> list[BaseRoute]:
        """Return the page and what it asks for."""
        return [
            Route("/", self._page),
            Route("/api/state", self._answer(self._state)),
            Route("/api/item", self._answer(self._item)),
            Route("/api/steps", self._answer(self._steps)),
            Route("/api/passage", self._passage, methods=["POST"]),
            Route("/api/decide", self._decide, methods=["POST"]),
            Route("/api/undo", self._undo, methods=["POST"]),
        ]

    def _answer(self, answer: Callable[[Request], Any]) -> Callable[[Request], Response]:
        def endpoint(request: Request) -> Response:
            with self._lock:
                return json(answer(request))

        return endpoint

    def _page(self, _: Request) -> Response:
        title = f"{self._work.rubric.id}: {sanitize_line(self._work.store.annotator, 60)}"
        return html(render("label.html", title=title, scripts=[*SCRIPTS, *_SCRIPTS]))

    def _state(self, _: Request) -> Any:
        work = self._work
        pair = next(iter(work.differing.values()), None)
        return {
            "annotator": work.store.annotator,
            "rubric": rubric_value(work.rubric),
            "items": [
                {"id": item.trace_id, "state": self._state_of(item.trace_id)} for item in work.items
            ],
            "adjudicating": pair and [pair.first.annotator, pair.second.annotator],
            "notes": [*work.notes, *work.store.notes],
        }

    def _state_of(self, trace_id: str) -> str:
        decision = self._work.store.decisions.get(trace_id)
        return "open" if decision is None else "skipped" if decision.skipped else "labelled"

    def _item(self, request: Request) -> Any:
        item = self._at(whole(request, "n"))
        trace = self._find(item)
        decision = self._work.store.decisions.get(item.trace_id)
        others = self._others(item, trace)
        spans = [span for label in others for span in label["spans"]]
        quoted = {span["source"] for span in spans}
        quoted |= {quote.source for quote in decision.evidence} if decision else set()
        if isinstance(trace, Unreadable):
            shown: dict[str, Any] = {"trace": unreadable_value(trace), "tasks": []}
            shown["error"] = _explain_unreadable(trace)
        else:
            # The attributes of a data set's records can be what others said.
            value = trace_value(trace, quoted) | {"attributes": {}}
            shown = {"trace": value, "tasks": _tasks(trace), "error": None}
        return {
            **shown,
            "decision": decision and _decision_value(decision),
            "revision": self._revisions[item.trace_id],
            "others": others or None,
        }

    def _others(self, item: Item, trace: Trace | Unreadable) -> list[dict[str, Any]]:
        """Return the two labels to adjudicate; only quotes that stand at their places have any."""
        differing = self._work.differing.get(item.trace_id)
        if differing is None:
            return []
        both = (differing.first, differing.second)
        return [label_value(drop_stale_spans(label, trace, self._work.rubric)) for label in both]

    def _steps(self, request: Request) -> Any:
        trace = self._find(self._at(whole(request, "n")))
        if isinstance(trace, Unreadable):
            raise Refused(404, trace.reason)
        return steps_value(trace, request.query_params.get("agent", ""), whole(request, "from", 1))

    async def _passage(self, request: Request) -> Response:
        selected = await _read_body(request, _Selected)
        return json(await run_in_threadpool(self._accept, selected))

    def _accept(self, selected: _Selected) -> Any:
        """Refuse a quote that could not be saved as evidence."""
        item = self._at(selected.n)
        with self._lock:
            self._check(self._shown(item), (_passage(selected),))
        return {}

    async def _decide(self, request: Request) -> Response:
        decided = await _read_body(request, _Decided)
        return json(await run_in_threadpool(self._keep, decided))

    def _keep(self, decided: _Decided) -> Any:
        """Write a decision to the disk; nothing is answered before it is there."""
        item = self._at(decided.n)
        with self._lock:
            if decided.revision != self._revisions[item.trace_id]:
                raise Refused(409, "another window has changed this label; reload the page")
            written = None
            if decided.withdrawn:
                self._work.store.withdraw(item.trace_id)
                self._await(item)
            else:
                decision = _decision(item.trace_id, decided)
                if not decision.skipped:
                    self._check(self._shown(item), decision.evidence)
                written = self._work.store.decide(decision, item.extra)
            self._revisions[item.trace_id] += 1
            return {
                "state": self._state_of(item.trace_id),
                "decision": written and _decision_value(written),
                "revision": self._revisions[item.trace_id],
            }

    def _shown(self, item: Item) -> Trace:
        """Return a trace; what could not be shown cannot be labelled."""
        trace = self._find(item)
        if isinstance(trace, Unreadable):
            raise Refused(409, f"{_explain_unreadable(trace)}; skip it")
        return trace

    def _check(self, trace: Trace, passages: Sequence[Passage]) -> None:
        problem = check_passages(trace, self._work.rubric, passages)
        if problem:
            raise Refused(409, problem)

    async def _undo(self, request: Request) -> Response:
        undo = await _read_body(request, _Undo)
        return json(await run_in_threadpool(self._take_back, undo))

    def _take_back(self, undo: _Undo) -> Any:
        """Undo the last change; a label of an earlier session only where that is meant."""
        with self._lock:
            last = self._work.store.undoes(self._numbers)
            if last is None:
                return {"n": None, "earlier": None}
            trace_id, earlier = last
            n = self._numbers[trace_id]
            if earlier and not undo.earlier:
                return {"n": None, "earlier": n}
            self._work.store.undo(self._numbers)
            self._await(self._work.items[n])
            self._revisions[trace_id] += 1
            return {"n": n, "state": self._state_of(trace_id)}

    def _await(self, item: Item) -> None:
        """Say in the file that a trace to adjudicate is open, if it is."""
        if item.trace_id in self._work.differing:
            self._work.store.wait(item.trace_id, item.extra)

    def _at(self, n: int) -> Item:
        if n >= len(self._work.items):
            raise Refused(404, f"there are {len(self._work.items)} traces")
        return self._work.items[n]

    def _find(self, item: Item) -> Trace | Unreadable:
        trace = self._work.library.trace(item.trace_id)
        missing = "no such trace in the folders given; name the right one with --traces"
        return trace or Unreadable(item.trace_id, "", missing)


def _explain_unreadable(trace: Unreadable) -> str:
    return f"this trace cannot be shown: {trace.reason}"


async def _read_body(request: Request, kind: type[_Kind]) -> _Kind:
    """Return what the page sent.

    Raises:
        Refused: it is something else.
    """
    try:
        return kind.model_validate_json(await request.body())
    except ValidationError as error:
        raise Refused(400, describe_validation(error, "request")) from None


def _tasks(trace: Trace) -> list[dict[str, str]]:
    try:
        return [{"agent": agent, "text": text} for agent, text in trace.tasks.items()]
    except UnreadableTrace as error:
        return [{"agent": "tasks", "text": f"cannot be read: {error}"}]


def _decision(trace_id: str, decided: _Decided) -> Decision:
    evidence = tuple(
        _passage(selection) for selection in decided.evidence if selection.source is not None
    )
    quotes = tuple(selection.quote for selection in decided.evidence if selection.source is None)
    return Decision(
        trace_id=trace_id,
        primary=decided.primary,
        secondary=tuple(decided.secondary),
        evidence=evidence,
        quotes=quotes,
        note=decided.note,
        confidence=decided.confidence,
        skipped=decided.skipped,
        seconds=decided.seconds,
    )


def _passage(selection: _Selection) -> Passage:
    if selection.source is None or selection.start is None or selection.end is None:
        raise Refused(400, f'quote "{sanitize_line(selection.quote, 80)}": its place is missing')
    return Passage(
        selection.quote, selection.source, selection.start, selection.end, selection.code
    )


def _decision_value(decision: Decision) -> dict[str, Any]:
    placed = [asdict(passage) for passage in decision.evidence]
    unplaced = [{"quote": text, "source": None, "code": None} for text in decision.quotes]
    return {
        "skipped": decision.skipped,
        "primary": decision.primary,
        "secondary": list(decision.secondary),
        "evidence": [*placed, *unplaced],
        "note": decision.note,
        "confidence": decision.confidence,
        "seconds": decision.seconds,
    }


def label(work: Work, *, port: int, ready: Callable[[str], None]) -> None:
    """Serve the page until Ctrl-C.

    Raises:
        AnnotatorError: the port is taken.
    """
    serve(Labelling(work).routes(), port, ready)
