"""The page to label traces with, and to adjudicate two annotators' labels."""

import hashlib
import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import Field
from starlette.requests import Request
from starlette.routing import BaseRoute

from annotator.base.errors import UnreadableTrace
from annotator.base.text import sanitize_line
from annotator.labels.adjudication import Disagreement, drop_stale_spans
from annotator.labels.decisions import Decision, check_passages
from annotator.labels.model import Passage
from annotator.labels.queue import Item
from annotator.labels.store import LabelStore
from annotator.rubrics import Rubric
from annotator.rubrics.annotations import Claim, Evidence, Quote
from annotator.rubrics.evidence import describe_gap
from annotator.traces import Trace, Unreadable
from annotator.traces.read import Library
from annotator.web.assets import SCRIPTS
from annotator.web.payload import (
    pick,
    serialize_label,
    serialize_rubric,
    serialize_trace,
)
from annotator.web.server import (
    Body,
    RequestError,
    list_steps,
    make_get,
    make_page,
    make_post,
    parse_number,
    serve,
)
from validation.intervals import compute_wilson_limits

_SCRIPTS = ("draft.js", "panel.js", "label.js")
_NOTE = 10_000  # characters of a note; the page takes no more either
_MORE = 20  # labels that a forecast adds
_FEWEST = 5  # labels that a forecast needs


class QuoteBody(Body):
    """A quote, with its place if that is known."""

    quote: str
    source: str | None = None
    start: int | None = None
    end: int | None = None
    code: str | None = None


class _PassageBody(QuoteBody):
    """A quote selected in trace number ``n``."""

    n: int = Field(ge=0)


class _UndoBody(Body):
    """``earlier``: also take back a label of an earlier session."""

    earlier: bool = False


class _DecisionBody(Body):
    """A decision about trace number ``n``, or its withdrawal. ``revision``: the one on the page."""

    n: int = Field(ge=0)
    revision: int
    withdrawn: bool = False
    skipped: bool = False
    primary: str | None = None
    secondary: tuple[str, ...] = ()
    evidence: tuple[QuoteBody, ...] = ()
    note: str = Field("", max_length=_NOTE)
    confidence: int | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Work:
    """The traces to label, the rubric, and the store of the labels in ``file``.

    ``differing``: in adjudication the two labels of each trace. ``notes`` open the page.
    ``next_command``: for when all traces are labelled.
    """

    rubric: Rubric
    items: Sequence[Item]
    library: Library
    store: LabelStore
    file: Path
    differing: Mapping[str, Disagreement] = field(default_factory=dict)
    notes: Sequence[str] = ()
    next_command: str = "annotate calibrate RUN"


class Labelling:
    """The answers to the page. They hold nothing of a judge, and other annotators' labels only in
    adjudication.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        self._numbers = {item.trace_id: n for n, item in enumerate(work.items)}
        self._revisions: Counter[str] = Counter()  # changes of each trace's decision so far
        self._lock = threading.Lock()  # the store is for one thread at a time

    def routes(self) -> list[BaseRoute]:
        """Return the routes of the page and of its questions."""
        title = f"{self._work.rubric.id}: {sanitize_line(self._work.store.annotator, 60)}"
        return [
            make_page("label.html", title, *SCRIPTS, *_SCRIPTS),
            make_get("state", self._state, self._lock),
            make_get("item", self._item, self._lock),
            make_get("steps", self._steps, self._lock),
            make_post("passage", _PassageBody, self._check_passage, self._lock),
            make_post("decide", _DecisionBody, self._decide, self._lock),
            make_post("undo", _UndoBody, self._undo, self._lock),
        ]

    def _state(self, _: Request) -> Any:
        work = self._work
        pair = next(iter(work.differing.values()), None)
        return {
            "annotator": work.store.annotator,
            "rubric": serialize_rubric(work.rubric),
            "items": [
                {"id": item.alias or item.trace_id, "state": self._state_of(item.trace_id)}
                for item in work.items
            ],
            "adjudicating": pair and [pair.first.annotator, pair.second.annotator],
            "forecast": self._forecast(),
            "drafts": self._name_drafts(),
            "notes": [*work.notes, *work.store.notes],
            "next": work.next_command,
        }

    def _name_drafts(self) -> str:
        """Return the name under which the browser keeps drafts: of this file, person and rubric."""
        store, rubric = self._work.store, self._work.rubric
        names = (os.path.realpath(self._work.file), store.annotator, rubric.sha256)
        return hashlib.sha256("\0".join(names).encode(errors="surrogatepass")).hexdigest()[:16]

    def _forecast(self) -> dict[str, Any] | None:
        """Return half the width of the 95 % interval of the commonest code, now and after more
        labels with the same share; None before ``_FEWEST`` labels, and in adjudication, whose
        traces are no sample.
        """
        decisions = [*filter(None, map(self._work.store.decisions.get, self._numbers))]
        labelled = [decision for decision in decisions if not decision.skipped]
        counts = Counter(code for decision in labelled for code in self._list_counted(decision))
        number, more = len(labelled), min(_MORE, len(self._numbers) - len(decisions))
        if number < _FEWEST or not more or not counts or self._work.differing:
            return None
        code = max(counts, key=lambda code: (counts[code], -self._work.rubric.rank(code)))
        limits = [
            compute_wilson_limits(counts[code] / number, total) for total in (number, number + more)
        ]
        widths = [(high - low) / 2 for low, high in limits]
        return {"code": code, "labels": number, "more": more, "widths": widths}

    def _list_counted(self, decision: Decision) -> Sequence[str]:
        """Return the codes of a decision that a table counts."""
        if self._work.rubric.choice == "many":
            return decision.secondary
        return (decision.primary,) if decision.primary else ()

    def _state_of(self, trace_id: str) -> str:
        decision = self._work.store.decisions.get(trace_id)
        return "open" if decision is None else "skipped" if decision.skipped else "labelled"

    def _item(self, request: Request) -> Any:
        item = self._at(parse_number(request, "n"))
        trace = self._find(item)
        decision = self._work.store.decisions.get(item.trace_id)
        others = self._others(item, trace)
        spans = [span for label in others for span in label["spans"]]
        quoted = {span["source"] for span in spans}
        quoted |= {quote.source for quote in decision.evidence} if decision else set()
        # The attributes of a data set's records may hold other people's labels.
        page = serialize_trace(trace, quoted) | {
            "attributes": {},
            "id": item.alias or item.trace_id,
        }
        error = _explain_unreadable(trace) if isinstance(trace, Unreadable) else None
        if item.alias:  # the paths in a reason may name a model or a condition
            error = error and _hide_folders(error)
            page["problems"] = [*map(_hide_folders, page["problems"])]
        return {
            "trace": page,
            "tasks": [] if isinstance(trace, Unreadable) else _list_tasks(trace),
            "error": error,
            "needs": self._list_needs(trace, decision),
            "decision": decision and _serialize_decision(decision),
            "revision": self._revisions[item.trace_id],
            "others": others or None,
        }

    def _list_needs(
        self, trace: Trace | Unreadable, decision: Decision | None
    ) -> list[dict[str, str]]:
        """Return the codes of a decision that need further quotes by the rubric, and which."""
        if decision is None or isinstance(trace, Unreadable):
            return []
        codes = {decision.primary, *decision.secondary}
        gaps = {
            code.id: describe_gap(_make_claim(code.id, decision), trace, self._work.rubric)
            for code in self._work.rubric.codes
            if code.id in codes
        }
        return [{"code": code, "gap": gap} for code, gap in gaps.items() if gap]

    def _others(self, item: Item, trace: Trace | Unreadable) -> list[dict[str, Any]]:
        """Return the two labels to adjudicate; only quotes found at their places have one."""
        differing = self._work.differing.get(item.trace_id)
        if differing is None:
            return []
        both = (differing.first, differing.second)
        return [
            serialize_label(drop_stale_spans(label, trace, self._work.rubric)) for label in both
        ]

    def _steps(self, request: Request) -> Any:
        return list_steps(request, self._find(self._at(parse_number(request, "n"))))

    def _check_passage(self, body: _PassageBody) -> Any:
        """Refuse a quote that cannot be evidence."""
        self._check(self._read(self._at(body.n)), (make_passage(body),))
        return {}

    def _decide(self, body: _DecisionBody) -> Any:
        """Write a decision to the disk, then answer."""
        item = self._at(body.n)
        if body.revision != self._revisions[item.trace_id]:
            raise RequestError(409, "another window has changed this label; reload the page")
        written, needs = None, list[dict[str, str]]()
        if body.withdrawn:
            self._work.store.withdraw(item.trace_id)
            self._await(item)
        else:
            decision = _make_decision(item.trace_id, body)
            if not decision.skipped:
                trace = self._read(item)
                self._check(trace, decision.evidence)
                needs = self._list_needs(trace, decision)
            written = self._work.store.decide(decision, item.extra)
        self._revisions[item.trace_id] += 1
        return {
            "state": self._state_of(item.trace_id),
            "decision": written and _serialize_decision(written),
            "revision": self._revisions[item.trace_id],
            "needs": needs,
            "forecast": self._forecast(),
        }

    def _read(self, item: Item) -> Trace:
        """Return a trace, or refuse: an unreadable trace cannot be labelled."""
        trace = self._find(item)
        if isinstance(trace, Unreadable):
            raise RequestError(409, f"{_explain_unreadable(trace)}; skip it")
        return trace

    def _check(self, trace: Trace, passages: Sequence[Passage]) -> None:
        problem = check_passages(trace, self._work.rubric, passages)
        if problem:
            raise RequestError(409, problem)

    def _undo(self, body: _UndoBody) -> Any:
        """Undo the last change; one of an earlier session only with ``earlier``. ``was``: the
        decision before, which the page can restore.
        """
        change = self._work.store.undoes(self._numbers)
        if change is None:
            return {"n": None, "earlier": None}
        trace_id, earlier = change
        n = self._numbers[trace_id]
        if earlier and not body.earlier:
            return {"n": None, "earlier": n}
        undone = self._work.store.undo(self._numbers)
        self._await(self._work.items[n])
        self._revisions[trace_id] += 1
        return {
            "n": n,
            "state": self._state_of(trace_id),
            "was": undone and undone.was and _serialize_decision(undone.was),
            "forecast": self._forecast(),
        }

    def _await(self, item: Item) -> None:
        """Record that a trace to adjudicate is open."""
        if item.trace_id in self._work.differing:
            self._work.store.wait(item.trace_id, item.extra)

    def _at(self, n: int) -> Item:
        if n >= len(self._work.items):
            raise RequestError(404, f"there are {len(self._work.items)} traces")
        return self._work.items[n]

    def _find(self, item: Item) -> Trace | Unreadable:
        trace = self._work.library.trace(item.trace_id)
        missing = "no such trace in the folders given; name the right one with --traces"
        return trace or Unreadable(item.trace_id, "", missing)


def _explain_unreadable(trace: Unreadable) -> str:
    return f"this trace cannot be shown: {trace.reason}"


def _hide_folders(text: str) -> str:
    return re.sub(r"[^\s'\"]*[/\\]", "", text)


def _make_claim(code: str, decision: Decision) -> Claim:
    """Return a code of a decision as a judge's claim; quotes for no code in particular count."""
    passages = [passage for passage in decision.evidence if passage.code in (code, None)]
    quotes = [Quote(passage.quote, passage.source) for passage in passages]
    quotes += [Quote(text, "") for text in decision.quotes]
    evidence = [
        Evidence(passage.quote, passage.source, passage.start, passage.end, "exact")
        for passage in passages
    ]
    return Claim(code, "", tuple(quotes), tuple(evidence))


def _list_tasks(trace: Trace) -> list[dict[str, str]]:
    try:
        return [
            {"agent": agent or "all agents", "text": text} for agent, text in trace.tasks.items()
        ]
    except UnreadableTrace as error:
        return [{"agent": "tasks", "text": f"cannot be read: {error}"}]


def _make_decision(trace_id: str, body: _DecisionBody) -> Decision:
    same = body.model_dump(
        include={"primary", "secondary", "note", "confidence", "skipped", "seconds"}
    )
    return Decision(
        trace_id,
        evidence=tuple(make_passage(each) for each in body.evidence if each.source is not None),
        quotes=tuple(each.quote for each in body.evidence if each.source is None),
        **same,
    )


def make_passage(selection: QuoteBody) -> Passage:
    """Return the passage of a quote with its place; raises RequestError for one without."""
    if selection.source is None or selection.start is None or selection.end is None:
        quote = sanitize_line(selection.quote, 80)
        raise RequestError(400, f'quote "{quote}": its place is missing')
    return Passage(
        selection.quote, selection.source, selection.start, selection.end, selection.code
    )


def _serialize_decision(decision: Decision) -> dict[str, Any]:
    placed = [asdict(passage) for passage in decision.evidence]
    unplaced = [{"quote": text, "source": None, "code": None} for text in decision.quotes]
    names = ("skipped", "primary", "secondary", "note", "confidence", "seconds")
    return pick(decision, *names) | {"evidence": [*placed, *unplaced]}


def label(work: Work, *, port: int, ready: Callable[[str], None]) -> None:
    """Serve the page until Ctrl-C.

    Raises:
        AnnotatorError: the port is taken.
    """
    serve(Labelling(work).routes(), port, ready)
