"""The pages of runs, served: tables, traces, findings in place, search, runs side by side."""

import json
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
from annotator.web.overview import serialize_runs, serialize_tables
from annotator.web.payload import serialize_steps
from annotator.web.reading import PageRequest, Reading
from annotator.web.search import search
from annotator.web.server import RequestError, make_json, make_page, parse_number, serve

_MOST_ROWS = 500  # in one answer


class View:
    """The answers to the pages of some runs. The lists work while the index is being filled; the
    tables are counted after that.
    """

    def __init__(self, pages: PageRequest) -> None:
        self._frame = serialize_runs(pages.runs)
        scripts = [*SCRIPTS, "tables.js", "findings.js", "view.js", "served.js"]
        self._html = render("view.html", title=self._frame["title"], scripts=scripts)
        self._labelled = bool(pages.labels)
        self._reading = Reading(pages)
        self._tables: dict[str, Any] = {"tables": [], "together": []}
        self._problem: str | None = None
        self._counted = False

        def count() -> None:
            try:
                self._reading.index.wait()  # one busy thread at a time, so that the pages answer
                self._tables = serialize_tables(pages)
            except AnnotatorError as error:
                self._problem = str(error)
            except Exception as error:  # else the page waits for ever
                self._problem = f"a fault of the tool, please report it: {error!r}"
            self._counted = True

        self._thread = threading.Thread(target=count, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop reading and close the files."""
        self._reading.close()

    def routes(self) -> list[BaseRoute]:
        """Return the routes of the page and of its questions."""
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
            *(_make_route(name, answer) for name, answer in answers.items()),
        ]

    def _page(self, _: Request) -> Response:
        return make_page(self._html)

    def _overview(self, _: Request) -> Any:
        progress = self._reading.index.progress
        return {
            **self._frame,
            **self._tables,
            "ready": self._counted and progress.done,
            "problem": self._find_problem(),
            "labelled": self._labelled,
            "progress": asdict(progress),
        }

    def _find_problem(self) -> str | None:
        return self._problem or self._reading.index.progress.error

    def _rows(self, request: Request) -> Any:
        complete = self._reading.index.progress.done
        limit = min(_MOST_ROWS, parse_number(request, "limit", 100))
        page = self._reading.index.rows(
            _parse_filter(request), parse_number(request, "offset", 0), limit
        )
        rows = [asdict(row) for row in page.rows]
        answer = {"total": page.total, "rows": rows}
        return answer | {"complete": complete, "problem": self._find_problem()}

    def _facets(self, request: Request) -> Any:
        return asdict(self._reading.index.facets(_parse_filter(request)))

    def _trace(self, request: Request) -> Any:
        trace_id = _read_parameter(request, "id")
        return {**self._reading.page(trace_id), "row": self._reading.index.first(trace_id)}

    def _steps(self, request: Request) -> Any:
        trace = self._reading.find(_read_parameter(request, "id"))
        if isinstance(trace, Unreadable):
            raise RequestError(404, trace.reason)
        return serialize_steps(
            trace, _read_parameter(request, "agent"), parse_number(request, "from", 1)
        )

    def _neighbours(self, request: Request) -> Any:
        neighbours = self._reading.index.neighbours(
            parse_number(request, "row"), _parse_filter(request)
        )
        return neighbours and asdict(neighbours)

    def _search(self, request: Request) -> Any:
        query = _read_parameter(request, "q")
        text = request.query_params.get("cursor")
        try:
            cursor = json.loads(text) if text else None
        except (ValueError, RecursionError):
            raise RequestError(400, "cursor: not what a search has given") from None
        return asdict(search(self._reading.find, self._reading.index, query, cursor))


def _make_route(name: str, answer: Callable[[Request], Any]) -> Route:
    """Return the route of one question; a thread answers it, so that others need not wait."""

    def endpoint(request: Request) -> Response:
        return make_json(answer(request))

    return Route(f"/api/{name}", endpoint)


def _read_parameter(request: Request, name: str) -> str:
    text = request.query_params.get(name)
    if not text:
        raise RequestError(400, f"{name}: missing")
    return text


def _parse_filter(request: Request) -> Filter:
    params = request.query_params
    attributes = tuple(
        (key[2:], value) for key, value in params.multi_items() if key.startswith("a.")
    )
    rejected = params.get("rejected")
    if rejected not in (None, "true", "false"):
        raise RequestError(400, "rejected: expected true or false")
    return Filter(
        run=parse_number(request, "run") if "run" in params else None,
        rubric=params.get("rubric"),
        status=params.get("status"),
        code=params.get("code"),
        rejected=None if rejected is None else rejected == "true",
        agreement=params.get("agreement"),
        attributes=attributes,
        text=params.get("text"),
    )


def view(pages: PageRequest, port: int, ready: Callable[[str], None]) -> None:
    """Serve the pages of runs until Ctrl-C.

    Raises:
        AnnotatorError: a run cannot be read, or the port is taken.
    """
    views = View(pages)
    try:
        serve(views.routes(), port, ready)
    finally:
        views.close()
