"""A person's review of a judge's findings, kept as labels that have seen its answer."""

import threading
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal

from pydantic import Field
from starlette.routing import BaseRoute

from annotator.labels.decisions import Decision, check_passages
from annotator.labels.model import Passage
from annotator.labels.store import LabelStore
from annotator.rubrics import Scheme
from annotator.rubrics.annotations import JUDGED
from annotator.traces import Trace, Unreadable
from annotator.web.label import QuoteBody, make_passage
from annotator.web.reading import Reading
from annotator.web.server import Body, RequestError, make_post

NOTICE = (
    "These labels have seen the judge's answer: they are no blind labels, and a kappa from them"
    " flatters the judge."
)


class _ReviewBody(Body):
    """A verdict on finding number ``finding`` of a trace; None takes the verdict back."""

    trace_id: str
    finding: int = Field(ge=0)
    verdict: Literal["accept", "reject"] | None = None
    comment: str = Field("", max_length=2_000)


class _AddBody(Body):
    """A code that the judge missed, with the quotes for it; None takes the code back."""

    trace_id: str
    code: str
    quotes: tuple[QuoteBody, ...] | None = None


class _DoneBody(Body):
    """Whether the reader is done with a trace."""

    trace_id: str
    done: bool


class Review:
    """The answers to the buttons of the trace page: each is on the disk before it is confirmed.

    A trace's verdicts wait beside a skipped decision, until the reader is done with the trace.
    """

    def __init__(self, store: LabelStore, scheme: Scheme, reading: Reading) -> None:
        self._store, self._scheme, self._reading = store, scheme, reading
        self._lock = threading.Lock()  # the store is for one thread at a time

    def routes(self) -> list[BaseRoute]:
        """Return the routes of the buttons."""
        return [
            make_post("review", _ReviewBody, partial(self._write, self._review), self._lock),
            make_post("add", _AddBody, partial(self._write, self._add), self._lock),
            make_post("done", _DoneBody, partial(self._write, self._finish), self._lock),
        ]

    def describe(self) -> dict[str, str]:
        """Return whose review it is, and what to know of it."""
        return {
            "annotator": self._store.annotator,
            "rubric": self._scheme.id,
            "notice": NOTICE,
        }

    def state(self, trace_id: str) -> dict[str, Any]:
        """Return the latest verdict on each finding, the quotes of each added code, and whether the
        reader is done.
        """
        events = self._store.get_drawing(trace_id).get("review") or ()
        added = {event["code"]: event["quotes"] for event in events if "quotes" in event}
        decision = self._store.decisions.get(trace_id)
        return {
            "verdicts": {event["finding"]: event for event in events if "finding" in event},
            "added": {code: quotes for code, quotes in added.items() if quotes is not None},
            "done": decision is not None and not decision.skipped,
        }

    def _write(self, write: Callable[[Any], None], body: Any) -> dict[str, Any]:
        """Write what a body asks for, but never in place of a label without the judge's answer."""
        drawing = self._store.get_drawing(body.trace_id)
        if body.trace_id in self._store.decisions and not drawing.get("reviewed"):
            raise RequestError(
                409,
                f"{self._store.annotator} labelled this trace without the judge's answer: that"
                " label stays. Review into another file.",
            )
        write(body)
        return self.state(body.trace_id)

    def _find_annotation(self, trace_id: str) -> dict[str, Any]:
        annotations: list[dict[str, Any]] = self._reading.page(trace_id)["annotations"]
        if not annotations:
            raise RequestError(404, "The run did not judge this trace.")
        return annotations[0]

    def _log(self, trace_id: str, **event: Any) -> None:
        """Add an event; the trace is open again until the reader is done."""
        earlier = self._store.get_drawing(trace_id).get("review") or ()
        event["at"] = datetime.now(UTC).isoformat(timespec="milliseconds")
        extra = {"reviewed": True, "review": [*earlier, event]}
        self._store.decide(Decision(trace_id, skipped=True), extra)

    def _review(self, body: _ReviewBody) -> None:
        findings = self._find_annotation(body.trace_id)["findings"]
        if body.finding >= len(findings):
            raise RequestError(404, "No such finding.")
        verdict = body.model_dump(include={"finding", "verdict", "comment"})
        self._log(body.trace_id, code=findings[body.finding]["code"], **verdict)

    def _add(self, body: _AddBody) -> None:
        self._find_annotation(body.trace_id)
        if body.code not in self._scheme.ids:
            raise RequestError(404, f"{self._scheme.id} has no such code.")
        passages = [replace(make_passage(quote), code=body.code) for quote in body.quotes or ()]
        trace = self._reading.find(body.trace_id)
        if passages and isinstance(trace, Unreadable):
            raise RequestError(409, trace.reason)
        if isinstance(trace, Trace) and (problem := check_passages(trace, self._scheme, passages)):
            raise RequestError(409, problem)
        quotes = None if body.quotes is None else list(map(asdict, passages))
        self._log(body.trace_id, code=body.code, quotes=quotes)

    def _finish(self, body: _DoneBody) -> None:
        if not body.done:
            self._store.decide(Decision(body.trace_id, skipped=True), {"reviewed": True})
            return
        annotation, state = self._find_annotation(body.trace_id), self.state(body.trace_id)
        if annotation["status"] not in JUDGED:
            raise RequestError(
                409, "The judge did not decide this trace: annotate label labels it."
            )
        claims: list[tuple[str, list[dict[str, Any]]]] = []
        for n, finding in enumerate(annotation["findings"]):
            verdict = state["verdicts"].get(n, {}).get("verdict")
            if verdict is None:
                raise RequestError(409, "Accept or reject every finding first.")
            if verdict == "accept":
                claims.append((finding["code"], finding["evidence"]))
        claims += state["added"].items()
        codes = list(dict.fromkeys(code for code, _ in claims))
        codes.sort(key=lambda code: code != annotation["primary"])
        many = self._scheme.choice == "many"
        if self._scheme.choice == "one" and len(codes) > 1:
            raise RequestError(409, "This rubric has one code a trace: keep one.")
        quotes = [{**quote, "code": code} for code, evidence in claims for quote in evidence]
        passages = [
            Passage(**{name: quote[name] for name in Passage.__dataclass_fields__})
            for quote in quotes
            if not quote.get("stale")
        ]
        comments = [
            f"{event['code']}: {event['comment']}"
            for event in state["verdicts"].values()
            if event["comment"]
        ]
        self._store.decide(
            Decision(
                body.trace_id,
                primary=None if many or not codes else codes[0],
                secondary=tuple(codes if many else codes[1:]),
                evidence=tuple(passages),
                quotes=tuple(quote["quote"] for quote in quotes if quote.get("stale")),
                note="\n".join(comments),
            ),
            {"reviewed": True},
        )
