"""A server for one person on this machine: on loopback, behind a token, for its own pages only."""

import hmac
import secrets
import socket
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

import uvicorn
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route

from annotator.base.errors import AnnotatorError, UnreadableTrace
from annotator.base.text import describe_validation, sanitize_line
from annotator.traces import Trace, Unreadable
from annotator.web.assets import STATIC, render
from annotator.web.payload import dump, serialize_steps

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOST = "127.0.0.1"
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
        " img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_TYPES = {".js": "text/javascript", ".css": "text/css"}


class RequestError(Exception):
    """A request that is answered with an HTTP status and a reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def make_json(value: Any, status: int = 200) -> Response:
    """Return a response in JSON."""
    return Response(dump(value), status, media_type="application/json")


class Body(BaseModel):
    """The body of a request; other keys are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


_Kind = TypeVar("_Kind", bound=Body)


def make_page(name: str, title: str, *scripts: str) -> Route:
    """Return the route of a page: a template with its title and scripts."""
    text = render(name, title=title, scripts=scripts)
    return Route("/", lambda _: Response(text, media_type="text/html"))


def make_get(
    name: str, answer: Callable[[Request], Any], lock: AbstractContextManager[Any] | None = None
) -> Route:
    """Return the route of a question, answered in JSON by one thread at a time."""

    def endpoint(request: Request) -> Response:
        with lock or nullcontext():
            return make_json(answer(request))

    return Route(f"/api/{name}", endpoint)


def make_post(
    name: str, kind: type[_Kind], answer: Callable[[_Kind], Any], lock: AbstractContextManager[Any]
) -> Route:
    """Return the route of a change, answered as in :func:`make_get`."""

    def call(body: _Kind) -> Response:
        with lock:
            return make_json(answer(body))

    async def endpoint(request: Request) -> Response:
        try:
            body = kind.model_validate_json(await request.body())
        except ValidationError as error:
            raise RequestError(400, describe_validation(error, "request")) from None
        return await run_in_threadpool(call, body)

    return Route(f"/api/{name}", endpoint, methods=["POST"])


def parse_number(request: Request, name: str, default: int | None = None) -> int:
    """Return a whole number, 0 or more, of a request's query.

    Raises:
        RequestError: it is missing or no such number.
    """
    text = request.query_params.get(name)
    if text is None and default is not None:
        return default
    if text is None or not text.isascii() or not text.isdigit() or len(text) > 15:
        raise RequestError(400, f"{name}: expected a whole number")
    return int(text)


def list_steps(request: Request, trace: Trace | Unreadable) -> dict[str, Any]:
    """Return the steps of a trace that a request names by their agent and the first number.

    Raises:
        UnreadableTrace: they cannot be read.
    """
    if isinstance(trace, Unreadable):
        raise UnreadableTrace(trace.reason)
    agent = request.query_params.get("agent", "")
    return serialize_steps(trace, agent, parse_number(request, "from", 1))


class Guard:
    """Lets requests of the pages themselves pass, and no others.

    A request must name this server as its host (else a page of another name that points here could
    read it), have the token in its path, and come from no other origin.
    """

    def __init__(self, app: "ASGIApp", token: str, port: int) -> None:
        self._app = app
        self._token = token.encode()
        end = "" if port == 80 else f":{port}"  # browsers leave 80 out
        self._hosts = {f"{HOST}{end}", f"localhost{end}"}

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        reason = self._check(scope)
        app = _refuse_request(*reason) if reason else self._app

        async def guarded(message: "Message") -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
            await send(message)

        await app(scope, receive, guarded)

    def _check(self, scope: "Scope") -> tuple[int, str] | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if host not in self._hosts:
            return 421, "This server answers to its own address only."
        first = scope["path"].removeprefix("/").partition("/")[0]  # a path may be "*", too
        if not hmac.compare_digest(first.encode("utf-8", "surrogatepass"), self._token):
            return 404, "No such page: open the whole address that the command printed."
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{host}":
            return 403, "Not from another origin."
        site = headers.get("sec-fetch-site", "none")
        navigation = headers.get("sec-fetch-mode") == "navigate" and scope["method"] == "GET"
        if site not in ("same-origin", "none") and not navigation:
            return 403, "Not from another site."
        if scope["method"] not in ("GET", "HEAD"):
            kind = headers.get("content-type", "").partition(";")[0].strip().lower()
            if origin is None or kind != "application/json":
                return 403, "Only the page itself may change anything."
        return None


def _refuse_request(status: int, reason: str) -> Response:
    return Response(reason, status, {"Connection": "close"}, media_type="text/plain")


def make_application(routes: Sequence[BaseRoute], token: str, port: int) -> "ASGIApp":
    """Return the guarded application: the routes, and the files of the pages, below the token."""
    files = {path.name: path for path in STATIC.iterdir() if path.suffix in _TYPES}

    def static(request: Request) -> Response:
        path = files.get(request.path_params["name"])
        if path is None:
            raise RequestError(404, "no such file")
        return Response(path.read_bytes(), media_type=_TYPES[path.suffix])

    app = Starlette(
        routes=[Mount(f"/{token}", routes=[*routes, Route("/static/{name}", static)])],
        exception_handlers={
            RequestError: _explain,
            AnnotatorError: _explain,
            UnreadableTrace: _explain,
            Exception: _report_fault,
        },
    )
    return Guard(app, token, port)


def _explain(_: Request, error: Exception) -> Response:
    status = error.status if isinstance(error, RequestError) else 409
    return make_json({"error": sanitize_line(str(error), 2000)}, status)


def _report_fault(_: Request, error: Exception) -> Response:
    reason = f"{type(error).__name__}: {sanitize_line(str(error), 300)}"
    return make_json({"error": f"this is a fault of the tool, please report it: {reason}"}, 500)


def serve(routes: Sequence[BaseRoute], port: int, ready: Callable[[str], None]) -> None:
    """Serve until Ctrl-C; call ``ready`` with the address once the server answers.

    Raises:
        AnnotatorError: the port is taken.
    """
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((HOST, port))
        except OSError as error:
            reason = error.strerror or error
            raise AnnotatorError(f"port {port}: {reason}; choose another with --port") from error
        listening.listen()
        port = listening.getsockname()[1]
        token = secrets.token_urlsafe(24)
        config = uvicorn.Config(
            make_application(routes, token, port),
            log_level="critical",
            access_log=False,
            lifespan="off",
            http="h11",
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=1,
        )

        class Server(uvicorn.Server):
            async def startup(self, sockets: list[socket.socket] | None = None) -> None:
                await super().startup(sockets)
                ready(f"http://{HOST}:{port}/{token}/")  # Ctrl-C is handled from here on

        try:
            Server(config).run(sockets=[listening])
        except KeyboardInterrupt:
            return
