"""The page to label traces with, and to adjudicate two annotators' labels."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from annotator.errors import UnreadableTrace
from annotator.labels.adjudication import Disagreement
from annotator.labels.decisions import Decision, check_passages
from annotator.labels.model import Passage
from annotator.labels.queue import Item
from annotator.labels.store import LabelStore
from annotator.rubrics import Rubric
from annotator.text import one_line
from annotator.traces import Trace, Unreadable
from annotator.traces.library import Library
from annotator.web.assets import SCRIPTS, render
from annotator.web.payload import (
    label_value,
    rubric_value,
    steps_value,
    trace_value,
    unreadable_value,
)
from annotator.web.server import Refused, html, json, serve, whole


class _Quote(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    quote: str
    source: str | None = None
    start: int | None = None
    end: int | None = None
    code: str | None = None


class _Decided(BaseModel):
    """What the page sends: a decision about the trace number ``n``, or that there is none."""

    model_config = ConfigDict(extra="forbid", strict=True)

    n: int = Field(ge=0)
    withdrawn: bool = False
    skipped: bool = False
    primary: str | None = None
    secondary: list[str] = []
    evidence: list[_Quote] = []
    note: str = ""
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
        self._lock = threading.Lock()  # the store and the library are for one thread at a time

    def routes(self) -> list[BaseRoute]:
        """Return the page and what it asks for."""
        return [
            Route("/", self._page),
            Route("/api/state", self._answer(self._state)),
            Route("/api/item", self._answer(self._item)),
            Route("/api/steps", self._answer(self._steps)),
            Route("/api/decide", self._decide, methods=["POST"]),
            Route("/api/undo", self._undo, methods=["POST"]),
        ]

    def _answer(self, answer: Callable[[Request], Any]) -> Callable[[Request], Response]:
        def endpoint(request: Request) -> Response:
            with self._lock:
                return json(answer(request))

        return endpoint

    def _page(self, _: Request) -> Response:
        title = f"{self._work.rubric.id}: {one_line(self._work.store.annotator, 60)}"
        return html(render("label.html", title=title, scripts=[*SCRIPTS, "label.js"]))

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
        found = self._find(item)
        decision = self._work.store.decisions.get(item.trace_id)
        differing = self._work.differing.get(item.trace_id)
        spans = [span for one in _both(differing) for span in one["spans"]]
        quoted = {span["source"] for span in spans}
        quoted |= {one.source for one in decision.evidence} if decision else set()
        if isinstance(found, Unreadable):
            shown: dict[str, Any] = {"trace": unreadable_value(found), "tasks": []}
            shown["error"] = f"This trace cannot be shown: {found.reason}"
        else:
            shown = {"trace": trace_value(found, quoted), "tasks": _tasks(found), "error": None}
        return {
            **shown,
            "decision": decision and _decision_value(decision),
            "others": _both(differing) if differing else None,
        }

    def _steps(self, request: Request) -> Any:
        found = self._find(self._at(whole(request, "n")))
        if isinstance(found, Unreadable):
            raise Refused(404, found.reason)
        return steps_value(found, request.query_params.get("agent", ""), whole(request, "from", 1))

    async def _decide(self, request: Request) -> Response:
        body = await request.body()
        try:
            decided = _Decided.model_validate_json(body)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"])) or "request"
            raise Refused(400, f"{where}: {first['msg']}") from None
        return json(await run_in_threadpool(self._keep, decided))

    def _keep(self, decided: _Decided) -> Any:
        """Write a decision to the disk; nothing is answered before it is there."""
        item = self._at(decided.n)
        with self._lock:
            if decided.withdrawn:
                self._work.store.withdraw(item.trace_id)
                return {"state": "open", "decision": None}
            decision = _decision(item.trace_id, decided)
            if decision.evidence:
                found = self._find(item)
                if isinstance(found, Unreadable):
                    raise Refused(409, found.reason)
                problem = check_passages(found, self._work.rubric, decision.evidence)
                if problem:
                    raise Refused(409, problem)
            written = self._work.store.decide(decision, item.extra)
            return {"state": self._state_of(item.trace_id), "decision": _decision_value(written)}

    async def _undo(self, _: Request) -> Response:
        return json(await run_in_threadpool(self._take_back))

    def _take_back(self) -> Any:
        with self._lock:
            undone = self._work.store.undo(self._numbers)
            if undone is None:
                return {"n": None}
            return {
                "n": self._numbers[undone.trace_id],
                "state": self._state_of(undone.trace_id),
            }

    def _at(self, n: int) -> Item:
        if n >= len(self._work.items):
            raise Refused(404, f"there are {len(self._work.items)} traces")
        return self._work.items[n]

    def _find(self, item: Item) -> Trace | Unreadable:
        found = self._work.library.trace(item.trace_id)
        missing = "no such trace in the folders given; name the right one with --traces"
        return found or Unreadable(item.trace_id, "", missing)


def _both(differing: Disagreement | None) -> list[dict[str, Any]]:
    return [label_value(one) for one in (differing.first, differing.second)] if differing else []


def _tasks(trace: Trace) -> list[dict[str, str]]:
    try:
        return [{"agent": agent, "text": text} for agent, text in trace.tasks.items()]
    except UnreadableTrace as error:
        return [{"agent": "tasks", "text": f"cannot be read: {error}"}]


def _decision(trace_id: str, decided: _Decided) -> Decision:
    evidence, quotes = [], []
    for n, one in enumerate(decided.evidence, 1):
        if one.source is None:
            quotes.append(one.quote)
        elif one.start is None or one.end is None:
            raise Refused(400, f"evidence {n}: no place in {one_line(one.source, 80)}")
        else:
            evidence.append(Passage(one.quote, one.source, one.start, one.end, one.code))
    return Decision(
        trace_id=trace_id,
        primary=decided.primary,
        secondary=tuple(decided.secondary),
        evidence=tuple(evidence),
        quotes=tuple(quotes),
        note=decided.note,
        confidence=decided.confidence,
        skipped=decided.skipped,
        seconds=decided.seconds,
    )


def _decision_value(one: Decision) -> dict[str, Any]:
    placed = [
        {
            "quote": passage.quote,
            "source": passage.source,
            "start": passage.start,
            "end": passage.end,
            "code": passage.code,
        }
        for passage in one.evidence
    ]
    unplaced = [{"quote": text, "source": None, "code": None} for text in one.quotes]
    return {
        "skipped": one.skipped,
        "primary": one.primary,
        "secondary": list(one.secondary),
        "evidence": [*placed, *unplaced],
        "note": one.note,
        "confidence": one.confidence,
        "seconds": one.seconds,
    }


def label(work: Work, *, port: int, ready: Callable[[str], None]) -> None:
    """Serve the page until Ctrl-C.

    Raises:
        AnnotatorError: the port is taken.
    """
    serve(Labelling(work).routes(), port, ready)
