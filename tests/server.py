"""A model server on 127.0.0.1 that answers as a test tells it to.

It speaks chat completions, the Responses API, Anthropic's Messages, Gemini's generateContent and
batches over real HTTP, and refuses what these are documented to refuse. A ``responder``, a function
from :class:`Request` to :class:`Reply`, decides each answer. Every request arrives as a chat
completion; ``Request.sent`` is its original body.
"""

import asyncio
import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from aiohttp import web

Fields = dict[str, Any]
Form = Literal["strict", "json_schema", "tools", "named", "plain"]


@dataclass(frozen=True)
class Part:
    """One part of the run in a prompt, as its header names it."""

    source: str
    text: str


@dataclass(frozen=True)
class Request:
    """One request as a chat completion; ``n`` counts all requests from 1."""

    n: int
    body: Fields
    headers: Mapping[str, str] = field(default_factory=dict)
    url: str = ""
    sent: Fields = field(default_factory=dict)

    @property
    def form(self) -> Form:
        if self.body.get("tools"):
            return "tools" if self.body["tool_choice"] == "required" else "named"
        form = self.body.get("response_format", {}).get("json_schema")
        return "plain" if not form else "strict" if form.get("strict") else "json_schema"

    @property
    def schema(self) -> Fields:
        """The JSON schema of the answer, empty in plain text."""
        if self.body.get("tools"):
            return self.body["tools"][0]["function"]["parameters"]
        return self.body.get("response_format", {}).get("json_schema", {}).get("schema", {})

    @property
    def messages(self) -> list[Fields]:
        return self.body["messages"]

    @property
    def is_probe(self) -> bool:
        text = json.dumps(self.messages)
        return not re.search("<run |first_tag", text) and "ready" in text

    @property
    def system(self) -> str:
        return self.messages[0]["content"]

    @property
    def user(self) -> str:
        return next(one["content"] for one in self.messages if one["role"] == "user")

    @property
    def length(self) -> int:
        """The characters of all messages."""
        return sum(len(one["content"] or "") for one in self.messages)

    @property
    def reask(self) -> str | None:
        """What the model is told to correct, if this is a second question."""
        last = self.messages[-1]["content"]
        return None if last == self.user else last

    @property
    def tags(self) -> dict[str, str]:
        """The tags that an answer has to repeat."""
        text = f"{self.system.splitlines()[0]}\n{self.user}"
        return dict(re.findall('(?m)^"((?:first|last)_tag)": "(.*)"$', text))

    def fill_in(self, text: str) -> str:
        """Return a text with the tags of the prompt."""
        for name, tag in ({} if self.is_probe else self.tags).items():
            text = text.replace(TAGS[name], tag)
        return text

    @property
    def parts(self) -> list[Part]:
        nonce = re.search(r"<run (\w+)>", self.user)[1]
        pieces = re.split(rf"^\[\[{nonce} (.*)\]\]$", self.user, flags=re.MULTILINE)[1:]
        texts = (text.split(f"</run {nonce}>")[0].strip("\n") for text in pieces[1::2])
        return [Part(head.split()[0], text) for head, text in zip(pieces[::2], texts, strict=True)]

    def part(self, source: str) -> str:
        return next(part.text for part in self.parts if part.source == source)


@dataclass(frozen=True)
class Reply:
    """What to answer: ``answer`` in the form that was asked for, ``text`` as it is, an HTTP error
    with its ``status``, or a raw ``body``.
    """

    answer: Any = None
    text: str | None = None
    refusal: str | None = None
    finish: str | None = None
    status: int = 200
    error: Fields = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    body: str | bytes | None = None
    calls: int = 1  # tool calls with this answer
    together: int = 0  # wait until so many requests have been in flight at once
    wait: float = 0.0  # seconds
    blanks: int = 0  # blanks to send, one every 0.1 s, before an end without an answer
    more: Fields = field(default_factory=dict)  # merged into the body of a chat completion
    own: Fields = field(default_factory=dict)  # merged into the body of another API
    drop: bool = False
    raw: bytes = b""  # sent in the place of HTTP


Responder = Callable[[Request], Reply]

# The server puts the tags of a prompt in the place of these, wherever they stand in an answer.
TAGS = {"first_tag": "FIRST TAG", "last_tag": "LAST TAG", "considered": []}
NOTHING = Reply(answer=TAGS | {"findings": [], "label": "none"})


def finding(code: str, *quotes: tuple[str, str], label: str | None = None) -> Reply:
    """Return an answer with one finding; quotes are (source, text)."""
    texts = [{"source": source, "text": text} for source, text in quotes]
    item = {"code": code, "quotes": texts, "rationale": "as the quotes show"}
    return Reply(answer=TAGS | {"findings": [item], "label": label or code})


def scripted(*replies: Reply) -> Responder:
    """Answer with these in turn, and go on with the last."""
    left = list(replies)
    return lambda request: left.pop(0) if len(left) > 1 else left[0]


def least_answer(schema: Fields, root: Fields | None = None) -> Any:
    """Return the shortest answer by a JSON schema, with the last value of each enum."""
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


# The APIs besides chat completions: what each refuses, its request as chat, its answer from chat.


def _bound(schema: Any) -> str:
    """Return a keyword that strict schemas do not take."""
    found = re.search(r'"((?:min|max)(?:Length|Items|imum))":', json.dumps(schema))
    return found[1] if found else ""


def _chat(model: str, messages: list[Fields], tools: Any, schema: Any, required: bool) -> Fields:
    chat: Fields = {"model": model, "messages": messages}
    if tools:
        functions = [{"name": name, "parameters": parameters} for name, parameters in tools]
        chat["tools"] = [{"type": "function", "function": one} for one in functions]
        chat["tool_choice"] = "required" if required else {}
    return chat | ({"response_format": {"json_schema": schema}} if schema else {})


def _calls(message: Fields) -> list[tuple[str, str]]:
    functions = [call["function"] for call in message.get("tool_calls") or []]
    return [(one["name"], one["arguments"]) for one in functions]


class Responses:
    fields = "model input store tools tool_choice text reasoning temperature max_output_tokens"

    def refuse(self, body: Fields) -> str:
        return ""

    def as_chat(self, body: Fields, path: str) -> Fields:
        messages = [
            {"role": item.get("role", "tool"), "content": item.get("content", item.get("output"))}
            for item in body["input"]
        ]
        tools = [(one["name"], one["parameters"]) for one in body.get("tools", [])]
        schema, required = body.get("text", {}).get("format"), body.get("tool_choice") == "required"
        return _chat(body["model"], messages, tools, schema, required)

    def answer(self, message: Fields, finish: str, read: int, written: int) -> Fields:
        output: list[Fields] = [{"type": "reasoning", "id": "rs_1", "summary": []}]
        for name, arguments in _calls(message):
            call = {"call_id": f"call{len(output)}", "name": name, "arguments": arguments}
            output.append({"type": "function_call", **call})
        for kind, name in (("output_text", "content"), ("refusal", "refusal")):
            if (text := message.get(name)) is not None:
                part = {"type": kind, kind.removeprefix("output_"): text}
                output.append({"type": "message", "content": [part]})
        cut = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(finish)
        usage = {"input_tokens": read, "input_tokens_details": {"cached_tokens": 5}}
        usage |= {"output_tokens": written, "output_tokens_details": {"reasoning_tokens": 3}}
        end = {
            "status": "incomplete" if cut else "completed",
            "incomplete_details": {"reason": cut},
        }
        return {"output": output, "usage": usage} | end


class Anthropic:
    fields = "model max_tokens messages system tools tool_choice output_config thinking temperature"

    def refuse(self, body: Fields) -> str:
        if name := _bound(body.get("output_config")):
            return f"output_config.format.schema: property '{name}' is not supported"
        blocks = [block for turn in body["messages"] for block in self.blocks(turn)]
        if not all(block.get("text", "x").strip() for block in blocks):
            return "messages: text content blocks must contain non-whitespace text"
        calls = [one["id"] for one in blocks if one["type"] == "tool_use"]
        if calls != [one["tool_use_id"] for one in blocks if one["type"] == "tool_result"]:
            return "messages: tool_use ids without tool_result blocks immediately after"
        return "" if "max_tokens" in body else "max_tokens: Field required"

    def blocks(self, turn: Fields) -> list[Fields]:
        content = turn["content"]
        return content if isinstance(content, list) else [{"type": "text", "text": content}]

    def as_chat(self, body: Fields, path: str) -> Fields:
        messages = [
            {"role": turn["role"], "content": block.get("text") or block.get("content")}
            for turn in [{"role": "system", "content": body.get("system", [])}, *body["messages"]]
            for block in self.blocks(turn)
        ]
        tools = [(tool["name"], tool["input_schema"]) for tool in body.get("tools", [])]
        form = body.get("output_config", {}).get("format")
        required = body.get("tool_choice", {}).get("type") == "any"
        return _chat(body["model"], messages, tools, form and form | {"strict": True}, required)

    def answer(self, message: Fields, finish: str, read: int, written: int) -> Fields:
        content: list[Fields] = [{"type": "thinking", "thinking": "hm", "signature": "s"}]
        if message.get("content"):
            content.append({"type": "text", "text": message["content"]})
        for name, arguments in _calls(message):
            call = {"id": f"toolu_{len(content)}", "name": name, "input": json.loads(arguments)}
            content.append({"type": "tool_use", **call})
        ends = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}
        usage = {"input_tokens": max(1, read - 300), "cache_creation_input_tokens": 200}
        usage |= {"cache_read_input_tokens": 100, "output_tokens": written}
        usage |= {"output_tokens_details": {"thinking_tokens": 3}}
        named = {"id": "msg_1", "type": "message", "role": "assistant", "usage": usage}
        return named | {"content": content, "stop_reason": ends.get(finish, finish)}


class Gemini:
    fields = "contents systemInstruction generationConfig tools toolConfig safetySettings"

    def refuse(self, body: Fields) -> str:
        if name := _bound(body.get("generationConfig")):
            return f"response_json_schema: '{name}' is not supported"
        parts = [part for turn in body["contents"] for part in turn["parts"]]
        calls = [part for part in parts if "functionCall" in part]
        if any("thoughtSignature" not in part for part in calls):
            return "Function call is missing a thought_signature in functionCall parts."
        if len(calls) != sum("functionResponse" in part for part in parts):
            return "the number of function response parts is not that of function call parts"
        return ""

    def as_chat(self, body: Fields, path: str) -> Fields:
        system = body.get("systemInstruction", {"parts": []})
        messages = []
        for turn in [system | {"role": "system"}, *body["contents"]]:
            for part in turn["parts"]:
                response = part.get("functionResponse", {}).get("response", {})
                text = part.get("text") or response.get("error")
                messages.append({"role": turn["role"], "content": text})
        declared = [one for tool in body.get("tools", []) for one in tool["functionDeclarations"]]
        tools = [(one["name"], one["parametersJsonSchema"]) for one in declared]
        schema = body.get("generationConfig", {}).get("responseJsonSchema")
        schema = schema and {"schema": schema, "strict": True}
        calling = body.get("toolConfig", {}).get("functionCallingConfig", {})
        model = path.rpartition("/models/")[2].partition(":")[0]
        return _chat(model, messages, tools, schema, "allowedFunctionNames" not in calling)

    def answer(self, message: Fields, finish: str, read: int, written: int) -> Fields:
        parts: list[Fields] = [{"text": "I think.", "thought": True}]
        if message.get("content"):
            parts.append({"text": message["content"]})
        for name, arguments in _calls(message):
            function = {"name": name, "args": json.loads(arguments)}
            parts.append({"functionCall": function, "thoughtSignature": "c2ln"})
        ends = {"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS"}
        usage = {"promptTokenCount": read, "cachedContentTokenCount": 100}
        usage |= {"candidatesTokenCount": written, "thoughtsTokenCount": 7}
        content = {"parts": parts, "role": "model"}
        candidate = {"content": content, "finishReason": ends.get(finish, finish)}
        usage |= {"totalTokenCount": read + written + 7}
        return {"candidates": [candidate], "usageMetadata": usage}


APIS = {"/responses": Responses(), "/v1/messages": Anthropic(), ":generateContent": Gemini()}


class Server:
    """The server, a context manager. It takes these ``forms`` of an answer; it ignores the others
    or answers them with the HTTP status ``unsupported``. ``probe`` answers tiny questions;
    ``responses_only`` is the error for chat completions. It starts when ``after`` is set.
    ``seen`` has all requests but the probes.
    """

    def __init__(
        self,
        responder: Responder = lambda request: NOTHING,
        forms: tuple[str, ...] = ("strict", "json_schema", "tools", "named"),
        unsupported: Literal["ignore", "400", "404", "500"] = "ignore",
        probe: Responder | None = None,
        responses_only: str = "",
        port: int = 0,
        after: threading.Event | None = None,
    ) -> None:
        self.responder = responder
        self.forms = forms
        self.unsupported = unsupported
        self.probe = probe
        self.responses_only = responses_only
        self.port = port
        self.after = after
        self.seen: list[Request] = []
        self.probes: list[Request] = []
        self.calls = self.tokens_in = self.tokens_out = self.in_flight = self.most_in_flight = 0
        self.batches = Batches(self)
        self._ready = threading.Event()

    def __enter__(self) -> "Server":
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), daemon=True)
        self._thread.start()
        assert self.after or self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.root}/v1"

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        app = web.Application(client_max_size=256 * 2**20)
        app.router.add_routes(self.batches.routes())
        app.router.add_post("/{path:.*}", self._complete)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        if self.after:
            await asyncio.to_thread(self.after.wait)
        await web.TCPSite(runner, "127.0.0.1", self.port).start()
        self.port = runner.addresses[0][1]
        self._ready.set()
        await self._stop.wait()
        await runner.cleanup()

    async def _complete(self, http: web.Request) -> web.StreamResponse:
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            return await self._respond(http, await http.json())
        finally:
            self.in_flight -= 1

    async def _respond(self, http: web.Request, sent: Fields) -> web.StreamResponse:
        self.calls += 1
        api = next((api for end, api in APIS.items() if http.path.endswith(end)), None)
        stray = [name for name in sent if api and name not in api.fields.split()]
        message = api.refuse(sent) if api else self.responses_only
        if message or stray:
            error = {"message": message or f"Unknown field: {stray[0]}", "param": "model"}
            return web.json_response({"error": error}, status=400 if api else 404)
        body = api.as_chat(sent, http.path) if api else sent
        request = Request(self.calls, body, http.headers, str(http.url), sent)
        (self.probes if request.is_probe else self.seen).append(request)
        supported = request.form in ("plain", *self.forms)
        if not supported and self.unsupported != "ignore":
            error = {"message": f"no endpoint supports {request.form}"}
            return web.json_response({"error": error}, status=int(self.unsupported))
        reply = self._reply(request, supported)
        if reply.blanks:
            stream = web.StreamResponse()
            await stream.prepare(http)
            for _ in range(reply.blanks):
                await stream.write(b" ")
                await asyncio.sleep(0.1)
        while self.most_in_flight < reply.together:
            await asyncio.sleep(0.005)
        await asyncio.sleep(reply.wait)
        if reply.drop or reply.raw:
            http.transport.write(reply.raw)
            http.transport.close()
            return web.Response()
        data = reply.body
        if data is None:
            error = {"error": reply.error}
            good = reply.status == 200
            data = json.dumps(self._completion(request, reply, supported, api) if good else error)
        elif isinstance(data, str):
            data = request.fill_in(data)
        data = data.encode() if isinstance(data, str) else data
        headers = {"Content-Type": "application/json"} | reply.headers
        return web.Response(body=data, status=reply.status, headers=headers)

    def _reply(self, request: Request, supported: bool) -> Reply:
        if responder := self.probe if request.is_probe else self.responder:
            return responder(request)
        answer = Reply(answer=least_answer(request.schema))
        return answer if supported else Reply(text="Sure! The label is none.")

    def item(self, sent: Fields) -> tuple[int, Fields]:
        """Answer an item of a batch: its status and its body."""
        self.calls += 1
        api = APIS["/responses"] if "input" in sent else None
        request = Request(self.calls, api.as_chat(sent, "") if api else sent, sent=sent)
        self.seen.append(request)
        reply = self.responder(request)
        if reply.status != 200:
            return reply.status, {"error": reply.error}
        return 200, self._completion(request, reply, request.form in self.forms, api)

    def _completion(self, request: Request, reply: Reply, supported: bool, api: Any) -> Fields:
        answer = reply.answer
        if isinstance(answer, dict) and "findings" in answer:
            answer = TAGS | answer
        text = "" if answer is None else json.dumps(answer)
        message: Fields = {"role": "assistant", "content": None}
        finish = "stop"
        if reply.refusal is not None:
            message["refusal"] = reply.refusal
        elif reply.text is not None:
            message["content"] = reply.text
        elif request.form in ("tools", "named") and supported:
            finish = "tool_calls"
            function = {"name": request.body["tools"][0]["function"]["name"], "arguments": text}
            calls = range(reply.calls)
            message["tool_calls"] = [{"id": f"call_{n}", "function": function} for n in calls]
        else:
            message["content"] = text
        read, written = request.length // 4, len(json.dumps(message)) // 4
        self.tokens_in += read
        self.tokens_out += written
        finish, model = reply.finish or finish, request.body["model"]
        if api:
            body = api.answer(message, finish, read, written) | {"model": model} | reply.own
        else:
            choice = {"index": 0, "message": message, "finish_reason": finish}
            usage = {"prompt_tokens": read, "completion_tokens": written}
            body = {"model": model, "choices": [choice], "usage": usage} | reply.more
        return json.loads(request.fill_in(json.dumps(body)))


class Batches:
    """The files and batches endpoints; the server's responder answers the items."""

    def __init__(self, server: Server) -> None:
        self.looks = 1  # a batch ends at this look at it
        self.held: Callable[[Fields], bool] = lambda body: False  # whether it goes on
        self.ends: list[str] = []  # the status of each batch in turn, then "completed"
        self.in_time = 0.5  # the share of an "expired" batch that has answers
        self.edit: Callable[[list[Any]], list[Any]] = lambda lines: lines  # of a results file
        self.fields: Fields = {}  # merged into every look at a batch
        self.location = ""  # where a download is sent
        self.uploads: list[web.Request] = []
        self.files: dict[str, bytes] = {}
        self.created: list[Fields] = []
        self.items: list[list[tuple[str, Fields]]] = []
        self._server = server

    @property
    def sizes(self) -> list[int]:
        return [len(items) for items in self.items]

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/{prefix:.*}/files", self._upload),
            web.get("/{prefix:.*}/files/{id}/content", self._download),
            web.post("/{prefix:.*}/batches", self._create),
            web.get("/{prefix:.*}/batches", self._list),
            web.get("/{prefix:.*}/batches/{id}", self._look),
        ]

    def _store(self, data: bytes) -> str:
        name = f"file-{len(self.files) + 1}"
        self.files[name] = data
        return name

    async def _upload(self, http: web.Request) -> web.Response:
        self.uploads.append(http)
        form = await http.post()
        assert form["purpose"] == "batch"
        name = self._store(form["file"].file.read())
        return web.json_response({"id": name})

    async def _download(self, http: web.Request) -> web.Response:
        if self.location:
            return web.Response(status=302, headers={"Location": self.location})
        data = self.files.get(http.match_info["id"])
        return web.Response(body=data) if data else web.Response(status=404)

    async def _create(self, http: web.Request) -> web.Response:
        asked = await http.json()
        lines = list(map(json.loads, self.files[asked["input_file_id"]].splitlines()))
        assert len({line["custom_id"] for line in lines}) == len(lines)
        assert {(line["method"], line["url"]) for line in lines} == {("POST", asked["endpoint"])}
        counts = {"total": len(lines), "completed": 0, "failed": 0}
        named = {"id": f"batch_{len(self.created) + 1}", "status": "validating"}
        self.created.append(asked | named | {"request_counts": counts})
        self.items.append([(line["custom_id"], line["body"]) for line in lines])
        return web.json_response(self.created[-1])

    async def _list(self, http: web.Request) -> web.Response:
        """Return a page of two, the newest first."""
        newest = self.created[::-1]
        names = [batch["id"] for batch in newest]
        start = names.index(http.query["after"]) + 1 if "after" in http.query else 0
        more = start + 2 < len(newest)
        return web.json_response({"data": newest[start : start + 2], "has_more": more})

    async def _look(self, http: web.Request) -> web.Response:
        names = [batch["id"] for batch in self.created]
        n = names.index(http.match_info["id"])
        batch = self.created[n]
        if batch["status"] in ("validating", "in_progress"):
            batch["seen"] = batch.get("seen", 0) + 1
            batch["status"] = "in_progress"
            if batch["seen"] >= self.looks and not self.held(self.items[n][0][1]):
                self._end(batch, self.items[n], self.ends.pop(0) if self.ends else "completed")
        return web.json_response(batch | self.fields)

    def _end(self, batch: Fields, items: list[tuple[str, Fields]], status: str) -> None:
        batch["status"] = status
        if status == "failed":
            batch["errors"] = {"data": [{"message": "Model m is not for batches"}]}
            return
        done = items[: int(len(items) * self.in_time)] if status == "expired" else items
        error = {"code": "batch_expired", "message": "the completion window expired"}
        errors: list[Any] = [{"custom_id": key, "error": error} for key, _ in items[len(done) :]]
        answers: list[Any] = []
        for key, body in done:
            code, answer = self._server.item(body)
            line = {"custom_id": key, "response": {"status_code": code, "body": answer}}
            (answers if code == 200 else errors).append(line | {"error": None})
        for name, lines in (("output_file_id", answers), ("error_file_id", errors)):
            if lines:  # in another order than they were asked
                edited = self.edit(lines[::-1])
                texts = (x if isinstance(x, bytes) else json.dumps(x).encode() for x in edited)
                batch[name] = self._store(b"".join(text + b"\n" for text in texts))
        batch["request_counts"] |= {"completed": len(answers), "failed": len(errors)}
