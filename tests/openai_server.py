"""An OpenAI-compatible endpoint on 127.0.0.1 that answers as a test tells it to.

It speaks the protocol for real (HTTP, tools, JSON schema, plain text, usage, errors); what it says
is decided by a ``responder``, a function from :class:`Request` to :class:`Reply`.
"""

import asyncio
import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from aiohttp import web

from tests.apis import Api
from tests.native_apis import ANTHROPIC, GEMINI
from tests.openai_batches import Batches
from tests.openai_responses import RESPONSES, as_chat, as_response

Form = Literal["strict", "json_schema", "tools", "named", "plain"]


@dataclass(frozen=True)
class Part:
    """One part of the run in a prompt, as its header names it."""

    source: str
    text: str
    closed: bool


@dataclass(frozen=True)
class Request:
    """One request as the server got it; ``n`` counts all requests from 1."""

    n: int
    body: dict[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)
    url: str = ""

    @property
    def form(self) -> Form:
        if self.body.get("tools"):
            return "tools" if self.body["tool_choice"] == "required" else "named"
        asked = (self.body.get("response_format") or {}).get("json_schema")
        return ("strict" if asked.get("strict") else "json_schema") if asked else "plain"

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the answer that is asked for, empty in plain text."""
        if self.body.get("tools"):
            return self.body["tools"][0]["function"]["parameters"]
        asked = (self.body.get("response_format") or {}).get("json_schema")
        return asked["schema"] if asked else {}

    @property
    def messages(self) -> list[dict[str, Any]]:
        return self.body["messages"]

    @property
    def is_probe(self) -> bool:
        return "ready" in json.dumps(self.messages) and "<run " not in json.dumps(self.messages)

    @property
    def system(self) -> str:
        return self.messages[0]["content"]

    @property
    def user(self) -> str:
        return next(one["content"] for one in self.messages if one["role"] == "user")

    @property
    def tags(self) -> dict[str, str]:
        """The tags that an answer has to repeat."""
        text = f"{self.system.splitlines()[0]}\n{self.user}"
        return dict(re.findall('(?m)^"((?:first|last)_tag)": "(.*)"$', text))

    def fill_in(self, text: str) -> str:
        """Return what is sent with the tags of the prompt."""
        for name, tag in ({} if self.is_probe else self.tags).items():
            text = text.replace(TAGS[name], tag)
        return text

    @property
    def reask(self) -> str | None:
        """What we told the model to correct, if this is a re-ask."""
        last = self.messages[-1]
        return None if last["content"] == self.user else last["content"]

    @property
    def parts(self) -> list[Part]:
        nonce = re.search(r"<run (\w+)>", self.user).group(1)
        pieces = re.split(rf"^\[\[{nonce} (.*)\]\]$", self.user, flags=re.MULTILINE)[1:]
        found = []
        for header, text in zip(pieces[::2], pieces[1::2], strict=True):
            body = text.split(f"</run {nonce}>")[0].strip("\n")
            found.append(Part(header.split()[0], body, "not to be quoted" in header))
        return found

    def part(self, source: str) -> str:
        return next(part.text for part in self.parts if part.source == source)


@dataclass(frozen=True)
class Reply:
    """What to answer. ``answer`` is put into the form that was asked for; ``text`` is sent as it
    is, whatever was asked for; ``status`` is an HTTP error.
    """

    answer: Any = None
    text: str | None = None
    refusal: str | None = None
    finish: str | None = None
    status: int = 200
    error: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    body: str | bytes | None = None  # a raw response body
    calls: int = 1  # tool calls with this answer
    together: int = 0  # wait until so many requests have been in flight at once, and then
    wait: float = 0.0  # so many seconds
    blanks: int = 0  # blanks to send, one every 0.1 s, before an end without an answer
    more: dict[str, Any] = field(default_factory=dict)  # merged into the body of an answer
    own: dict[str, Any] = field(default_factory=dict)  # fields of an API that is not chat
    drop: bool = False
    raw: bytes = b""  # sent in the place of HTTP, before the connection is closed


APIS = {"responses": RESPONSES, "v1/messages": ANTHROPIC, ":generateContent": GEMINI}
Responder = Callable[[Request], Reply]

# What an answer has besides its findings. The server puts the prompt's own tags in their place,
# wherever they stand in what it sends.
TAGS = {"first_tag": "FIRST TAG", "last_tag": "LAST TAG", "considered": []}


def finding(code: str, *quotes: tuple[str, str], label: str | None = None) -> Reply:
    """An answer with one finding; quotes are (source, text)."""
    one = {
        "code": code,
        "quotes": [{"source": source, "text": text} for source, text in quotes],
        "rationale": "as the quotes show",
    }
    return Reply(answer=TAGS | {"findings": [one], "label": label or code})


NOTHING = Reply(answer=TAGS | {"findings": [], "label": "none"})


def least_answer(schema: dict[str, Any], root: dict[str, Any] | None = None) -> Any:
    """The shortest answer by a JSON schema, with the last value of each enum."""
    root = root or schema
    if "$ref" in schema:
        return least_answer(root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    if "enum" in schema:
        return schema["enum"][-1]
    if schema.get("type") == "array":
        return [least_answer(schema["items"], root)] * schema.get("minItems", 0)
    if schema.get("type") != "object":
        return "ready"
    return {name: least_answer(part, root) for name, part in schema["properties"].items()}


class OpenAIServer:
    """The server; use it as a context manager. ``seen`` holds every request but the probes,
    ``asked`` the other paths that were asked for.
    """

    def __init__(
        self,
        responder: Responder = lambda request: NOTHING,
        forms: tuple[str, ...] = ("strict", "json_schema", "tools", "named"),
        unsupported: Literal["ignore", "400", "404", "500"] = "ignore",
        probe: Responder | None = None,
    ) -> None:
        self.responder = responder
        self.forms = forms
        self.unsupported = unsupported
        self.probe = probe
        self.responses_only = ""  # what is said to a request for a chat completion
        self.asked: list[str] = []
        self.seen: list[Request] = []
        self.probes: list[Request] = []
        self.calls = 0
        self.keys: set[str] = set()
        self.tokens_in = 0
        self.tokens_out = 0
        self.in_flight = 0
        self.most_in_flight = 0
        self.batches = Batches(self)
        self._ready = threading.Event()

    def __enter__(self) -> "OpenAIServer":
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def _serve(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        app = web.Application(client_max_size=256 * 2**20)
        for api in ("chat/completions", *APIS):
            app.router.add_post(f"/{{prefix:.*}}{api}", self._complete)
        app.router.add_routes(self.batches.routes())
        app.router.add_route("*", "/{path:.*}", self._refuse)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.port = runner.addresses[0][1]
        self._ready.set()
        await self._stop.wait()
        await runner.cleanup()

    async def _refuse(self, http: web.Request) -> web.StreamResponse:
        self.asked.append(http.path)
        return web.json_response({"error": "not found"}, status=404)

    async def _complete(self, http: web.Request) -> web.StreamResponse:
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            return await self._answered(http)
        finally:
            self.in_flight -= 1

    async def _answered(self, http: web.Request) -> web.StreamResponse:
        self.calls += 1
        self.keys.add(http.headers.get("Authorization", ""))
        body = await http.json()
        api = next((api for end, api in APIS.items() if http.path.endswith(end)), None)
        if error := self._wrong_api(body, api):
            return web.json_response(
                {"error": error}, status=404 if api in (None, RESPONSES) else 400
            )
        body = api.as_chat(body, http.path) if api else body
        request = Request(self.calls, body, http.headers, str(http.url))
        (self.probes if request.is_probe else self.seen).append(request)
        supported = request.form == "plain" or request.form in self.forms
        if not supported and self.unsupported != "ignore":
            error = {"message": f"no endpoint supports {request.form}", "type": "invalid_request"}
            return web.json_response({"error": error}, status=int(self.unsupported))
        if request.is_probe and self.probe:
            reply = self.probe(request)
        elif request.is_probe:
            reply = Reply(answer=least_answer(request.schema))
            if not supported:
                reply = Reply(text="Sure! I find nothing, and the label is none.")
        else:
            reply = self.responder(request)
        if reply.blanks:
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            await response.prepare(http)
            for _ in range(reply.blanks):
                await response.write(b" ")
                await asyncio.sleep(0.1)
            return response
        while self.most_in_flight < reply.together:
            await asyncio.sleep(0.005)
        await asyncio.sleep(reply.wait)
        if reply.drop or reply.raw:
            http.transport.write(reply.raw)
            http.transport.close()
            return web.Response()
        if reply.body is not None:
            text = reply.body
            data = request.fill_in(text).encode() if isinstance(text, str) else text
            headers = {"Content-Type": "application/json"} | reply.headers
            return web.Response(body=data, status=reply.status, headers=headers)
        if reply.status != 200:
            return web.json_response(
                {"error": reply.error}, status=reply.status, headers=reply.headers
            )
        completion = self._completion(request, reply, supported)
        answer = api.as_answer(completion) | reply.own if api else completion
        return web.json_response(answer)

    def _wrong_api(self, body: dict[str, Any], api: Api | None) -> dict[str, Any] | None:
        """What is said to a request that is for another API, if it is."""
        words = api.wrong(body) if api else self.responses_only
        if not words:
            return None
        return {"message": words, "type": "invalid_request_error", "param": "model", "code": None}

    def item(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Answer an item of a batch: its status and its body."""
        self.calls += 1
        responses = "input" in body
        request = Request(self.calls, as_chat(body) if responses else body)
        self.seen.append(request)
        reply = self.responder(request)
        if reply.status != 200:
            return reply.status, {"error": reply.error}
        completion = self._completion(request, reply, request.form in self.forms)
        return 200, as_response(completion) if responses else completion

    def _completion(self, request: Request, reply: Reply, supported: bool) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": None}
        finish = "stop"
        answer = reply.answer
        if isinstance(answer, dict) and "findings" in answer:
            answer = TAGS | answer
        answer = answer if answer is None else json.dumps(answer)
        if reply.refusal is not None:
            message["refusal"] = reply.refusal
        elif reply.text is not None:
            message["content"] = reply.text
        elif request.form in ("tools", "named") and supported:
            finish = "tool_calls"
            name = request.body["tools"][0]["function"]["name"]
            message["tool_calls"] = [
                {
                    "id": f"call_{n}",
                    "type": "function",
                    "function": {"name": name, "arguments": answer or ""},
                }
                for n in range(reply.calls)
            ]
        else:
            message["content"] = answer or ""
        prompt = sum(len(str(one.get("content") or "")) for one in request.messages) // 4
        output = len(json.dumps(message)) // 4
        self.tokens_in += prompt
        self.tokens_out += output
        body = {
            "id": f"chatcmpl-{request.n}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": request.body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": reply.finish or finish}],
            "usage": {
                "prompt_tokens": prompt,
                "completion_tokens": output,
                "total_tokens": prompt + output,
                "prompt_tokens_details": {"cached_tokens": 0},
            },
        }
        return json.loads(request.fill_in(json.dumps(body | reply.more)))
