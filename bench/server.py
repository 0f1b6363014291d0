"""An OpenAI-compatible endpoint that is never the bottleneck: fixed latency, seeded faults, counts.

    python bench/server.py --port 0 --latency 0.2 [--fault-429 0.1 --retry-after 0.05 ...]

The first line it prints is ``listening on http://127.0.0.1:PORT/v1``. To every request of the llm
judge it answers "none" in the form asked for. It does not parse JSON: it searches the bytes.

Every fault is a share of the judge requests as they arrive; each has one at most, probes have none.
A 429 comes at once, everything else after the latency, a late answer after ``--late`` seconds.

``GET /stats`` is what the server saw, ``POST /reset`` zeroes it and reseeds, ``POST /config``
changes settings (``{"fault_429": 0.1}``). ``answered`` counts all answers with status 200, the
tokens are theirs; ``abandoned``: the client left before the answer was due; ``incomplete``: it left
within a request; ``distinct``: different bodies; ``repeats``: requests whose body had a well-formed
answer before. The last two leave probes out. ``span``: seconds from the first judge request to the
last answer.
"""

import argparse
import asyncio
import json
import random
import re
import resource
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

KINDS = ("fault_429", "fault_500", "fault_drop", "fault_malformed", "fault_late", "wrong_quote")
DEFAULTS = {"latency": 0.0, "late": 3.0, "retry_after": 0.05, "cached_share": 0.0}
DEFAULTS |= dict.fromkeys(KINDS, 0.0)
COUNTS = (
    *("requests", "probes", "answered", "tokens_in", "tokens_cached", "tokens_out"),
    *("faultless", *KINDS, "abandoned", "incomplete", "connections", "max_in_flight", "repeats"),
)
OUTPUT_TOKENS = 40
LARGEST_PROBE = 32_768

# An answer repeats two tags of what it answers, which stand here in its place.
_TAGS = {"first_tag": "first-??????", "last_tag": "last-??????", "considered": []}
_NONE = json.dumps({**_TAGS, "findings": [], "label": "none"})
_BROKEN = '{"findings": [, "label": "none"'

_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)[ \t]*\r\n")
_NAME = re.compile(rb'"name": ?"([\w.-]+)"')
# The first value of an enum in a schema, be that JSON or JSON within a JSON text.
_FIRST = rb'%s\\*": ?\{[^{}]*?"(?:enum|const)\\*":(?:\\n|[\s\[])*\\*"([^"\\]+)'
_FIRSTS = [re.compile(_FIRST % name) for name in (b"code", b"label")]


def checked(settings: dict[str, float]) -> dict[str, float]:
    """Return settings if they are such, else raise a ValueError."""
    wrong = settings.keys() != DEFAULTS.keys() or min(settings.values()) < 0
    if wrong or sum(settings[kind] for kind in KINDS) > 1:
        raise ValueError(f"known: {[*DEFAULTS]}; none negative, the faults at most 1 together")
    return settings


@dataclass(slots=True)
class Call:
    """One completion request: what was decided about it when it arrived."""

    tokens: int
    delay: float
    completion: bytes
    kind: str = ""
    key: int | None = None  # the hash of the body; None for a probe


class Endpoint:
    """Decides and counts; knows nothing of connections."""

    def __init__(self, settings: dict[str, float], seed: int) -> None:
        self.settings = checked(settings)
        self.seed = seed
        self.in_flight = 0
        self.reset()

    def reset(self) -> None:
        """Zero the counts and draw the faults from the beginning; what is in flight stays so."""
        self.rng = random.Random(self.seed)
        self.counts = {**dict.fromkeys(COUNTS, 0), "max_in_flight": self.in_flight}
        self.bodies: dict[int, bool] = {}  # by hash: was it answered, and in good form?
        self.first = self.last = 0.0  # when the first judge request came and the last was answered
        self._cpu = time.process_time()

    def receive(self, body: bytes) -> Call:
        """Decide what becomes of a request."""
        self.counts["requests"] += 1
        self.in_flight += 1
        self.counts["max_in_flight"] = max(self.counts["max_in_flight"], self.in_flight)
        form, at = _form(body)
        named = _NAME.search(body, at) if form == "tools" else None
        name = named[1].decode() if named else ""
        tokens, delay = len(body) // 4, self.settings["latency"]
        if len(body) < LARGEST_PROBE and b"ready" in body and b"<run " not in body:
            self.counts["probes"] += 1
            return Call(tokens, delay, _completion(form, name, _NONE))
        self.first = self.first or time.monotonic()
        key = hash(body)
        self.counts["repeats"] += self.bodies.setdefault(key, False)
        shares = [self.settings[kind] for kind in KINDS]
        kind = self.rng.choices((*KINDS, "faultless"), (*shares, 1 - sum(shares)))[0]
        self.counts[kind] += 1
        text = _misquoted(body, at) if kind == "wrong_quote" else _NONE
        text = f"{_BROKEN} {self.rng.random()}" if kind == "fault_malformed" else text
        delay = {"fault_429": 0.0, "fault_late": self.settings["late"]}.get(kind, delay)
        return Call(tokens, delay, _tagged(_completion(form, name, text), body), kind, key)

    def answer(self, call: Call) -> bytes | None:
        """Return the response that is now due; None is a dropped connection."""
        self.in_flight -= 1
        self.last = time.monotonic()
        if call.kind == "fault_drop":
            return None
        if call.kind == "fault_429":
            after = b"Retry-After: %g\r\n" % self.settings["retry_after"]
            return _error(b"429 Too Many Requests", "rate limit reached, said the bench", after)
        if call.kind == "fault_500":
            return _error(b"500 Internal Server Error", "internal error, said the bench")
        cached = int(call.tokens * self.settings["cached_share"])
        self.counts["answered"] += 1
        self.counts["tokens_in"] += call.tokens
        self.counts["tokens_cached"] += cached
        self.counts["tokens_out"] += OUTPUT_TOKENS
        if call.key is not None and call.kind != "fault_malformed":
            self.bodies[call.key] = True
        usage = (call.tokens, OUTPUT_TOKENS, call.tokens + OUTPUT_TOKENS, cached)
        return _response(b"200 OK", call.completion % usage)

    def other(self, method: bytes, path: bytes, body: bytes) -> bytes:
        """Return the response to what is no completion."""
        asked = method, path.rpartition(b"/")[2]
        if asked == (b"GET", b"models"):
            return _response(b"200 OK", {"data": []})
        if asked == (b"POST", b"config"):
            try:
                self.settings = checked({**self.settings, **json.loads(body)})
            except (TypeError, ValueError) as error:
                return _error(b"400 Bad Request", str(error))
            return _response(b"200 OK", self.settings)
        if asked == (b"POST", b"reset"):
            self.reset()
        elif asked != (b"GET", b"stats"):
            return _error(b"404 Not Found", f"nothing at {method.decode()} {path.decode()}")
        now = {"in_flight": self.in_flight, "distinct": len(self.bodies)}
        now["span"] = round(self.last - self.first, 3)
        seconds = round(time.process_time() - self._cpu, 3)
        return _response(b"200 OK", {**self.counts, **now, "cpu_seconds": seconds})


def _form(body: bytes) -> tuple[str, int]:
    """Return the form asked for, and where in the body it begins."""
    # Within a message these quotes would be escaped: no text of a trace looks like a key.
    for form, key in (("tools", b'"tools":'), ("json_schema", b'"json_schema"')):
        if (at := body.find(key)) >= 0:
            return form, at
    return "plain", 0


def _misquoted(body: bytes, at: int) -> str:
    """Return a finding by the rubric of the request whose quote stands in no trace."""
    code, label = (found[1].decode() if (found := one.search(body, at)) else "" for one in _FIRSTS)
    quote = {"source": "message:1", "text": "the bench made up this sentence"}
    finding = {"code": code, "quotes": [quote, quote], "rationale": "made up"}
    label = "some" if label == "some" else code
    return json.dumps({**_TAGS, "findings": [finding], "label": label})


def _tagged(completion: bytes, body: bytes) -> bytes:
    """Return a completion with the tags of the request in their places."""
    for tag in (b"first", b"last"):
        if found := re.search(tag + rb'_tag\\": \\"(' + tag + rb"-\w{6})", body):
            completion = completion.replace(tag + b"-??????", found[1])
    return completion


@lru_cache(maxsize=1024)
def _completion(form: str, name: str, text: str) -> bytes:
    """Return a completion with ``text`` as its answer and %d for each count of the usage."""
    if form == "tools":
        named = {"name": name, "arguments": text}
        call = {"id": "call_0", "type": "function", "function": named}
        message: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [call]}
    else:
        content = text if form == "json_schema" else f"```json\n{text}\n```"
        message = {"role": "assistant", "content": content}
    finish = "tool_calls" if form == "tools" else "stop"
    choice = json.dumps({"index": 0, "message": message, "finish_reason": finish})
    choice = choice.replace("%", "%%")
    start = '"id": "bench", "object": "chat.completion", "created": 0, "model": "bench"'
    usage = '"prompt_tokens": %d, "completion_tokens": %d, "total_tokens": %d'
    usage += ', "prompt_tokens_details": {"cached_tokens": %d}'
    return f'{{{start}, "choices": [{choice}], "usage": {{{usage}}}}}'.encode()


def _response(status: bytes, value: Any, headers: bytes = b"") -> bytes:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    head = b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s"
    return head % (status, len(body), headers, body)


def _error(status: bytes, message: str, headers: bytes = b"") -> bytes:
    return _response(status, {"error": {"message": message, "type": "bench"}}, headers)


class Connection(asyncio.Protocol):
    """HTTP/1.1 with keep-alive; one request at a time, what is pipelined waits in the buffer."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._buffer = bytearray()
        self._method = self._path = b""
        self._start = self._end = 0  # of the body in the buffer; 0 while the head is not read
        self._last = False  # close after the answer
        self._call: Call | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast(asyncio.Transport, transport)
        self._endpoint.counts["connections"] += 1

    def connection_lost(self, exc: Exception | None) -> None:
        """Count a client that left too early."""
        if self._call:
            self._endpoint.in_flight -= 1
            self._endpoint.counts["abandoned"] += 1
            self._call = None
        elif self._buffer:
            self._endpoint.counts["incomplete"] += 1

    def data_received(self, data: bytes) -> None:
        """Collect a piece; serve when the request is complete."""
        self._buffer += data
        if len(self._buffer) >= self._end:
            self._serve()

    def _serve(self) -> None:
        while self._buffer and self._call is None and not self._transport.is_closing():
            if not self._end:
                self._read_head()
            if not self._end or len(self._buffer) < self._end:
                return
            body = bytes(self._buffer[self._start : self._end])
            del self._buffer[: self._end]
            self._end = 0
            if self._method != b"POST" or not self._path.endswith(b"/chat/completions"):
                self._send(self._endpoint.other(self._method, self._path, body))
                continue
            self._call = self._endpoint.receive(body)
            asyncio.get_running_loop().call_later(self._call.delay, self._due)

    def _read_head(self) -> None:
        stop = self._buffer.find(b"\r\n\r\n")
        if stop < 0:
            return
        line, _, rest = bytes(self._buffer[: stop + 2]).partition(b"\r\n")
        headers = b"\r\n" + rest.lower()
        words = line.split(b" ")
        if len(words) != 3 or b"\r\ntransfer-encoding:" in headers:
            self._last = True
            self._send(_error(b"400 Bad Request", "only requests with a Content-Length are read"))
            return
        length = _LENGTH.search(headers)
        self._method, self._path = words[0], words[1].partition(b"?")[0]
        self._start = stop + 4
        self._end = self._start + (int(length[1]) if length else 0)
        self._last = b"\r\nconnection: close\r\n" in headers or words[2] == b"HTTP/1.0"
        if len(self._buffer) < self._end and b"\r\nexpect: 100-continue\r\n" in headers:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _due(self) -> None:
        if self._call is None or self._transport.is_closing():
            return  # connection_lost has counted it or will
        response = self._endpoint.answer(self._call)
        self._call = None
        self._last = self._last or response is None
        self._send(response or b"")
        self._serve()

    def _send(self, response: bytes) -> None:
        self._transport.write(response)
        if self._last:
            self._buffer.clear()
            self._transport.close()


async def _listen(endpoint: Endpoint, port: int) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(endpoint), "127.0.0.1", port, backlog=4096)
    port = server.sockets[0].getsockname()[1]
    print(f"listening on http://127.0.0.1:{port}/v1", flush=True)
    await server.serve_forever()


def main() -> None:
    """Serve until a signal."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--seed", type=int, default=7)
    for name, default in DEFAULTS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=float, default=default)
    given = vars(parser.parse_args())
    port, seed = given.pop("port"), given.pop("seed")
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with suppress(KeyboardInterrupt):
        asyncio.run(_listen(Endpoint(given, seed), port))


if __name__ == "__main__":
    main()
