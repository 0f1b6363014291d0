"""A person's review of a judge's findings, kept as labels that have seen its answer."""

import threading
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from annotator.base.errors import AnnotatorError
from annotator.labels.decisions import Decision
from annotator.labels.model import Passage
from annotator.labels.store import LabelStore
from annotator.rubrics import Scheme
from annotator.web.label import Body, read_body
from annotator.web.reading import Reading
from annotator.web.server import RequestError, make_json

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
            Route("/api/review", self._answer_review, methods=["POST"]),
            Route("/api/done", self._answer_done, methods=["POST"]),
        ]

    def describe(self) -> dict[str, str]:
        """Return whose review it is, and what to know of it."""
        return {
            "annotator": self._store.annotator,
            "rubric": self._scheme.id,
            "choice": self._scheme.choice,
            "notice": NOTICE,
        }

    def state(self, trace_id: str) -> dict[str, Any]:
        """Return the latest verdict on each finding, and whether the reader is done."""
        verdicts = {event["finding"]: event for event in self._list_events(trace_id)}
        decision = self._store.decisions.get(trace_id)
        return {"verdicts": verdicts, "done": decision is not None and not decision.skipped}

    def _list_events(self, trace_id: str) -> list[dict[str, Any]]:
        return list(self._store.get_drawing(trace_id).get("review") or ())

    async def _answer_review(self, request: Request) -> Response:
        body = await read_body(request, _ReviewBody)
        return make_json(await run_in_threadpool(self._write, self._review, body))

    async def _answer_done(self, request: Request) -> Response:
        body = await read_body(request, _DoneBody)
        return make_json(await run_in_threadpool(self._write, self._finish, body))

    def _write(self, write: Any, body: Any) -> dict[str, Any]:
        with self._lock:
            decision = self._store.decisions.get(body.trace_id)
            if decision and not self._store.get_drawing(body.trace_id).get("reviewed"):
                raise RequestError(
                    409,
                    f"{self._store.annotator} labelled this trace without the judge's answer: that"
                    " label stays. Review into another file.",
                )
            try:
                write(body)
            except AnnotatorError as error:
                raise RequestError(409, str(error)) from error
            return self.state(body.trace_id)

    def _find_findings(self, trace_id: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        annotations = self._reading.page(trace_id)["annotations"]
        judged = [each for each in annotations if each["rubric"] == self._scheme.id]
        if not judged:
            raise RequestError(404, "The run did not judge this trace.")
        return judged[0], judged[0]["findings"]

    def _review(self, body: _ReviewBody) -> None:
        """Add a verdict; the trace is open again until the reader is done."""
        _, findings = self._find_findings(body.trace_id)
        if body.finding >= len(findings):
            raise RequestError(404, "No such finding.")
        event = {
            "finding": body.finding,
            "code": findings[body.finding]["code"],
            "verdict": body.verdict,
            "comment": body.comment,
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        }
        extra = {"reviewed": True, "review": [*self._list_events(body.trace_id), event]}
        self._store.decide(Decision(body.trace_id, skipped=True), extra)

    def _finish(self, body: _DoneBody) -> None:
        if not body.done:
            self._store.decide(Decision(body.trace_id, skipped=True), {"reviewed": True})
            return
        annotation, findings = self._find_findings(body.trace_id)
        if annotation["status"] not in ("labelled", "none"):
            raise RequestError(
                409, "The judge did not decide this trace: annotate label labels it."
            )
        verdicts = self.state(body.trace_id)["verdicts"]
        latest = [verdicts.get(n, {}).get("verdict") for n in range(len(findings))]
        if None in latest:
            raise RequestError(409, "Accept or reject every finding first.")
        accepted = [
            finding
            for finding, verdict in zip(findings, latest, strict=True)
            if verdict == "accept"
        ]
        codes = list(dict.fromkeys(finding["code"] for finding in accepted))
        if annotation["primary"] in codes:
            codes.sort(key=lambda code: code != annotation["primary"])
        many = self._scheme.choice == "many"
        if self._scheme.choice == "one" and len(codes) > 1:
            raise RequestError(409, "This rubric has one code a trace: accept one.")
        names = ("quote", "source", "start", "end", "code")
        quotes = [
            {**quote, "code": finding["code"]}
            for finding in accepted
            for quote in finding["evidence"]
        ]
        passages = [
            Passage(**{name: quote[name] for name in names})
            for quote in quotes
            if not quote["stale"]
        ]
        comments = [
            f"{event['code']}: {event['comment']}"
            for event in verdicts.values()
            if event["comment"]
        ]
        self._store.decide(
            Decision(
                body.trace_id,
                primary=None if many or not codes else codes[0],
                secondary=tuple(codes if many else codes[1:]),
                evidence=tuple(passages),
                quotes=tuple(quote["quote"] for quote in quotes if quote["stale"]),
                note="\n".join(comments),
            ),
            {"reviewed": True},
        )
