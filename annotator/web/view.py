"""The pages of runs, served: tables, traces, findings in place, search, runs side by side."""

import json as json_module
import threading
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from annotator.base.errors import AnnotatorError
from annotator.traces import Unreadable
from annotator.web.assets import SCRIPTS, render
from annotator.web.index import Filter
from annotator.web.overview import frame_value, tables_value
from annotator.web.payload import steps_value
from annotator.web.reading import Reading, Shown
from annotator.web.search import search
from annotator.web.server import Refused, html, json, serve, whole

_MOST_ROWS = 500  # in one answer


class View:
    """What the pages of some runs ask for. The traces can be read while the index is being filled;
    then the tables are counted.
    """

    def __init__(self, shown: Shown) -> None:
        self._frame = frame_value(shown.runs)
        scripts = [*SCRIPTS, "tables.js", "findings.js", "view.js", "served.js"]
        self._html = render("view.html", title=self._frame["title"], scripts=scripts)
        self._labelled = bool(shown.labels)
        self._reading = Reading(shown)
        self._tables: dict[str, Any] = {"tables": [], "together": []}
        self._problem: str | None = None
        self._counted = False

        def count() -> None:
            try:
                self._reading.index.wait()  # two busy threads would keep the pages waiting
                self._tables = tables_value(shown)
            except AnnotatorError as error:
                self._problem = str(error)
            except Exception as error:  # the page must not wait for ever
                self._problem = f"a fault of the tool, please report it: {error!r}"
            self._counted = True

        self._thread = threading.Thread(target=count, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop reading and remove what was kept on the disk."""
        self._reading.close()

    def routes(self) -> list[BaseRoute]:
        """Return the pages and what they ask for."""
        answers: dict[str, Callable[[Request], Any]] = {
            "overview": self._overview,
            "rows": self._rows,
            "facets": self._facets,
            "trace": self._trace,
            "steps": self._steps,
            "neighbours": self._neighbours,
            "search": self._search,
        }
        return [
            Route("/", self._page),
            *(_answer(name, answer) for name, answer in answers.items()),
        ]

    def _page(self, _: Request) -> Response:
        return html(self._html)

    def _overview(self, _: Request) -> Any:
        progress = self._reading.index.progress
        return {
            **self._frame,
            **self._tables,
            "ready": self._counted and progress.done,
            "problem": self._wrong(),
            "labelled": self._labelled,
            "progress": asdict(progress),
        }

    def _wrong(self) -> str | None:
        return self._problem or self._reading.index.progress.error

    def _rows(self, request: Request) -> Any:
        complete = self._reading.index.progress.done
        limit = min(_MOST_ROWS, whole(request, "limit", 100))
        page = self._reading.index.rows(_filter(request), whole(request, "offset", 0), limit)
        rows = [asdict(row) for row in page.rows]
        answer = {"total": page.total, "rows": rows}
        return answer | {"complete": complete, "problem": self._wrong()}

    def _facets(self, request: Request) -> Any:
        return asdict(self._reading.index.facets(_filter(request)))

    def _trace(self, request: Request) -> Any:
        trace_id = _parameter(request, "id")
        return {**self._reading.page(trace_id), "row": self._reading.index.first(trace_id)}

    def _steps(self, request: Request) -> Any:
        trace = self._reading.find(_parameter(request, "id"))
        if isinstance(trace, Unreadable):
            raise Refused(404, trace.reason)
        return steps_value(trace, _parameter(request, "agent"), whole(request, "from", 1))

    def _neighbours(self, request: Request) -> Any:
        neighbours = self._reading.index.neighbours(whole(request, "row"), _filter(request))
        return neighbours and asdict(neighbours)

    def _search(self, request: Request) -> Any:
        query = _parameter(request, "q")
        given = request.query_params.get("cursor")
        try:
            cursor = json_module.loads(given) if given else None
        except (ValueError, RecursionError):
            raise Refused(400, "cursor: not what a search has given") from None
        return asdict(search(self._reading.find, self._reading.index, query, cursor))


def _answer(name: str, answer: Callable[[Request], Any]) -> Route:
    """Return the route of one question; it is answered in a thread, others need not wait."""

    def endpoint(request: Request) -> Response:
        return json(answer(request))

    return Route(f"/api/{name}", endpoint)


def _parameter(request: Request, name: str) -> str:
    text = request.query_params.get(name)
    if not text:
        raise Refused(400, f"{name}: missing")
    return text


def _filter(request: Request) -> Filter:
    given = request.query_params
    attributes = tuple(
        (key[2:], value) for key, value in given.multi_items() if key.startswith("a.")
    )
    rejected = given.get("rejected")
    if rejected not in (None, "true", "false"):
        raise Refused(400, "rejected: expected true or false")
    return Filter(
        run=whole(request, "run") if "run" in given else None,
        rubric=given.get("rubric"),
        status=given.get("status"),
        code=given.get("code"),
        rejected=None if rejected is None else rejected == "true",
        agreement=given.get("agreement"),
        attributes=attributes,
        text=given.get("text"),
    )


def view(shown: Shown, port: int, ready: Callable[[str], None]) -> None:
    """Serve the pages of runs until Ctrl-C.

    Raises:
        AnnotatorError: a run cannot be read, or the port is taken.
    """
    pages = View(shown)
    try:
        serve(pages.routes(), port, ready)
    finally:
        pages.close()
