"""The pages of runs, served: tables, traces, findings in place, search, runs side by side."""

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from annotator.labels.store import LabelStore
from annotator.traces import Unreadable
from annotator.web.assets import LIST_SCRIPTS, render
from annotator.web.overview import serialize_overview
from annotator.web.payload import serialize_steps
from annotator.web.reading import PageRequest, Reading
from annotator.web.review import Review
from annotator.web.server import RequestError, make_json, make_page, parse_number, serve


class View:
    """The answers to the pages of some runs.

    Raises:
        AnnotatorError: a run cannot be read.
    """

    def __init__(self, pages: PageRequest, store: LabelStore | None = None) -> None:
        self._reading = Reading(pages)
        self._overview = serialize_overview(pages, self._reading.index)
        self._review: Review | None = None
        if store:
            [scheme] = pages.runs[0].schemes.values()
            self._review = Review(store, scheme, self._reading)
            self._overview["review"] = self._review.describe()

    def routes(self) -> list[BaseRoute]:
        """Return the routes of the page and of its questions; threads answer them."""
        answers: dict[str, Callable[[Request], Response]] = {
            "/": self._answer_page,
            "/api/overview": lambda _: make_json(self._overview),
            "/api/rows": self._answer_rows,
            "/api/trace": self._answer_trace,
            "/api/steps": self._answer_steps,
        }
        routes: list[BaseRoute] = [Route(path, answer) for path, answer in answers.items()]
        return [*routes, *(self._review.routes() if self._review else ())]

    def _answer_trace(self, request: Request) -> Response:
        trace_id = _read_id(request)
        page = self._reading.page(trace_id)
        review = {"review": self._review.state(trace_id)} if self._review else {}
        return make_json({**page, **review})

    def _answer_page(self, _: Request) -> Response:
        scripts = [*LIST_SCRIPTS, "served.js"]
        return make_page(render("view.html", title=self._overview["title"], scripts=scripts))

    def _answer_rows(self, _: Request) -> Response:
        packed = {"Content-Encoding": "deflate"}
        return Response(self._reading.index.rows, headers=packed, media_type="application/json")

    def _answer_steps(self, request: Request) -> Response:
        trace = self._reading.find(_read_id(request))
        if isinstance(trace, Unreadable):
            raise RequestError(404, trace.reason)
        agent = request.query_params.get("agent", "")
        return make_json(serialize_steps(trace, agent, parse_number(request, "from", 1)))


def _read_id(request: Request) -> str:
    trace_id = request.query_params.get("id")
    if not trace_id:
        raise RequestError(400, "id: missing")
    return trace_id


def view(
    pages: PageRequest,
    port: int,
    ready: Callable[[str], None],
    store: LabelStore | None = None,
) -> None:
    """Serve the pages of runs until Ctrl-C; with a ``store`` findings can be reviewed.

    Raises:
        AnnotatorError: a run cannot be read, or the port is taken.
    """
    serve(View(pages, store).routes(), port, ready)
