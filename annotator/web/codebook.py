"""The page of a codebook: its codes and findings, and a person's decisions about them."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import FileResponse
from starlette.routing import Route

from annotator.induction.codebook import (
    Codebook,
    CodeDecision,
    InducedCode,
    decide,
    has_torn_decision,
    read_codebook,
    read_decisions,
    replay_log,
)
from annotator.runs.run import is_run, open_run
from annotator.web.assets import SCRIPTS
from annotator.web.payload import serialize_trace
from annotator.web.reading import TraceSources, mark_stale
from annotator.web.server import (
    Body,
    RequestError,
    list_steps,
    make_get,
    make_page,
    make_post,
    serve,
)

_TORN = "The last line of decisions.jsonl is cut off: that decision was never confirmed."


class _CodeDecisionBody(Body):
    """A decision. ``seen``: the number of decisions that the page knows."""

    decision: CodeDecision
    seen: int


class _CodebookPage:
    """The answers to the page. Files are read anew: another window may have decided since."""

    def __init__(self, folder: Path, sources: TraceSources, by: str) -> None:
        self._folder, self._sources, self._by = folder, sources, by

    def describe(self, _: Request | None = None) -> dict[str, Any]:
        """Return the codebook after all decisions."""
        book, decisions = read_codebook(self._folder)
        return self._describe_state(replay_log(book, decisions, self._folder), decisions) | {
            "title": book.title,
            "source": book.source,
            "traces": {name: values.get("passed") for name, values in book.traces.items()},
            "findings": list(map(asdict, book.findings)),
        }

    def _describe_state(self, book: Codebook, decisions: Sequence[CodeDecision]) -> dict[str, Any]:
        """Return the part of a codebook that decisions change, and their log."""
        return {
            "codes": TypeAdapter(tuple[InducedCode, ...]).dump_python(book.codes, mode="json"),
            "log": list(map(asdict, decisions)),
            "notes": [_TORN] if has_torn_decision(self._folder) else [],
        }

    def decide(self, body: _CodeDecisionBody) -> dict[str, Any]:
        """Log a decision, and return the codes after it."""
        undoes = body.decision.action == "undo"
        if undoes and body.seen != len(read_decisions(self._folder)):
            raise RequestError(409, "Another window has decided since: see the log, and undo again")
        book = decide(self._folder, replace(body.decision, by=self._by))
        return self._describe_state(book, read_decisions(self._folder))

    def show_trace(self, request: Request) -> dict[str, Any]:
        """Return the trace of a finding, and which of its quotes are not there now."""
        finding = read_codebook(self._folder)[0].by_id.get(request.query_params.get("finding", ""))
        if finding is None:
            raise RequestError(404, "no such finding")
        trace = self._sources.find(finding.trace_id)
        evidence = [asdict(quote) for quote in finding.evidence]
        problems = mark_stale(trace, evidence)
        page = serialize_trace(trace, {quote["source"] for quote in evidence})
        return {"trace": page | {"problems": page["problems"] + problems}, "evidence": evidence}


def view_codebook(
    folder: Path, traces: Sequence[str], by: str, port: int, ready: Callable[[str], None]
) -> None:
    """Serve the page of the codebook in a folder until Ctrl-C.

    Args:
        folder: the one that ``annotate induce`` wrote.
        traces: where the traces are now; empty: where they were read.
        by: the person who decides.
        port: 0 for any.
        ready: is called with the address.

    Raises:
        AnnotatorError: the codebook or its log is damaged, or the port is taken.
    """
    run = folder / "open"
    sources = TraceSources([open_run(run)] if is_run(run) else [], traces)
    page, lock = _CodebookPage(folder, sources, by), threading.Lock()

    def answer_steps(request: Request) -> dict[str, Any]:
        return list_steps(request, sources.find(request.query_params.get("id", "")))

    routes = [
        make_page("codebook.html", page.describe()["title"], *SCRIPTS, "codebook.js"),
        make_get("codebook", page.describe, lock),
        make_get("trace", page.show_trace),
        make_get("steps", answer_steps),
        make_post("decide", _CodeDecisionBody, page.decide, lock),
        Route("/rubric.yaml", lambda _: FileResponse(folder / "rubric.yaml")),
    ]
    serve(routes, port, ready)
