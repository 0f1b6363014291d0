"""The pages of runs, served: tables, traces, findings in place, search, runs side by side."""

from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from annotator.labels.store import LabelStore
from annotator.web.assets import LIST_SCRIPTS
from annotator.web.overview import serialize_overview
from annotator.web.reading import PageRequest, Reading
from annotator.web.review import Review
from annotator.web.server import RequestError, list_steps, make_get, make_page, serve


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
    reading = Reading(pages)
    overview = serialize_overview(pages, reading.index)
    review = None
    if store:
        [scheme] = pages.runs[0].schemes.values()
        review = Review(store, scheme, reading)
        overview["review"] = review.describe()

    def answer_trace(request: Request) -> dict[str, Any]:
        trace_id = _read_id(request)
        reviewed = {"review": review.state(trace_id)} if review else {}
        return reading.page(trace_id) | reviewed

    def answer_rows(_: Request) -> Response:
        packed = {"Content-Encoding": "deflate"}
        return Response(reading.index.rows, headers=packed, media_type="application/json")

    routes = [
        make_page("view.html", overview["title"], *LIST_SCRIPTS, "served.js"),
        make_get("overview", lambda _: overview),
        Route("/api/rows", answer_rows),
        make_get("trace", answer_trace),
        make_get("steps", lambda request: list_steps(request, reading.find(_read_id(request)))),
    ]
    serve([*routes, *(review.routes() if review else ())], port, ready)


def _read_id(request: Request) -> str:
    trace_id = request.query_params.get("id")
    if not trace_id:
        raise RequestError(400, "id: missing")
    return trace_id
