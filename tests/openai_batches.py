"""The files and batches endpoints of :class:`tests.openai_server.OpenAIServer`.

Its responder answers the items of a batch; a test says how the batches end.
"""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from aiohttp import web

if TYPE_CHECKING:
    from tests.openai_server import OpenAIServer

_PAGE = 2  # batches on one page of a list


class Batches:
    """Every batch ends at the ``looks``-th look at it, none while ``held``.

    ``ends``: the status in which they end, in turn; then ``completed``. An ``expired`` one has
    answers to what was ``in_time``, its first half; a ``failed`` one has none and ``words``. An
    item that is ``lost`` is in no file. ``looked`` counts all looks; ``created`` are the batches
    and ``items`` what was asked in each, as (custom_id, body).
    """

    def __init__(self, server: "OpenAIServer") -> None:
        self.looks = 1
        self.held = False
        self.ends: list[str] = []
        self.in_time = 0.5
        self.words = "the file is not as it should be"
        self.extra: list[dict[str, Any]] = []  # fields of one more result for the first item
        self.noise: list[bytes] = []  # lines among the results that are none
        self.fields: dict[str, Any] = {}  # that every look at a batch shows instead of its own
        self.uploaded: dict[str, Any] = {}  # what an upload is answered, if not as it should be
        self.download: dict[str, str] = {}  # the headers of one
        self.elsewhere = ""  # where a download is sent
        self.lost: Callable[[dict[str, Any]], bool] = lambda body: False
        self.looked = 0
        self.urls: list[str] = []  # of the uploads, and the headers of the last
        self.headers: dict[str, str] = {}
        self.files: dict[str, bytes] = {}
        self.created: list[dict[str, Any]] = []
        self.items: list[list[tuple[str, dict[str, Any]]]] = []
        self._server = server

    def routes(self) -> list[web.RouteDef]:
        """The endpoints."""
        return [
            web.post("/{prefix:.*}/files", self._upload),
            web.get("/{prefix:.*}/files/{id}/content", self._content),
            web.post("/{prefix:.*}/batches", self._create),
            web.get("/{prefix:.*}/batches", self._list),
            web.get("/{prefix:.*}/batches/{id}", self._look),
        ]

    def _stored(self, data: bytes) -> str:
        name = f"file-{len(self.files) + 1}"
        self.files[name] = data
        return name

    async def _upload(self, http: web.Request) -> web.Response:
        self.urls.append(str(http.url))
        self.headers = dict(http.headers)
        form = await http.post()
        assert form["purpose"] == "batch"
        data = form["file"].file.read()
        name = self._stored(data)
        if self.uploaded:
            return web.Response(**self.uploaded)
        more = {"bytes": len(data), "created_at": 1, "filename": "1.jsonl", "purpose": "batch"}
        return web.json_response({"id": name, "object": "file", "status": "processed", **more})

    async def _content(self, http: web.Request) -> web.Response:
        if self.elsewhere:
            return web.Response(status=302, headers={"Location": self.elsewhere})
        if http.match_info["id"] not in self.files:
            return web.json_response({"error": {"message": "no such file"}}, status=404)
        return web.Response(body=self.files[http.match_info["id"]], headers=self.download)

    async def _create(self, http: web.Request) -> web.Response:
        asked = await http.json()
        lines = list(map(json.loads, self.files[asked["input_file_id"]].splitlines()))
        keys = [line["custom_id"] for line in lines]
        assert len(keys) == len(set(keys)), "a custom_id stands twice"
        assert {(line["method"], line["url"]) for line in lines} == {("POST", asked["endpoint"])}
        batch = asked | {
            "id": f"batch_{len(self.created) + 1}",
            "object": "batch",
            "status": "validating",
            "created_at": 1,
            "request_counts": {"total": len(lines), "completed": 0, "failed": 0},
        }
        self.created.append(batch)
        self.items.append([(line["custom_id"], line["body"]) for line in lines])
        return web.json_response(batch)

    async def _list(self, http: web.Request) -> web.Response:
        newest = self.created[::-1]
        names = [batch["id"] for batch in newest]
        start = names.index(http.query["after"]) + 1 if "after" in http.query else 0
        page = newest[start : start + _PAGE]
        more = start + _PAGE < len(newest)
        return web.json_response({"object": "list", "data": page, "has_more": more})

    async def _look(self, http: web.Request) -> web.Response:
        self.looked += 1
        names = [batch["id"] for batch in self.created]
        n = names.index(http.match_info["id"])
        batch = self.created[n]
        if batch["status"] in ("validating", "in_progress"):
            batch["seen"] = batch.get("seen", 0) + 1
            if self.held or batch["seen"] < self.looks:
                batch["status"] = "in_progress"
            else:
                self._end(batch, self.items[n], self.ends.pop(0) if self.ends else "completed")
        return web.json_response(batch | self.fields)

    def _end(self, batch: dict[str, Any], items: list[tuple[str, Any]], status: str) -> None:
        batch["status"] = status
        if status == "failed":
            problem = {"code": "invalid_json_line", "message": self.words, "line": 1}
            batch["errors"] = {"object": "list", "data": [problem]}
            return
        done = items[: int(len(items) * self.in_time)] if status == "expired" else items
        late = "This request could not be executed before the completion window expired."
        error = {"code": "batch_expired", "message": late}
        errors = [
            {"id": "r", "custom_id": key, "response": None, "error": error}
            for key, _ in items[len(done) :]
        ]
        answers = []
        for key, body in done:
            if self.lost(body):
                continue
            code, answer = self._server.item(body)
            response = {"status_code": code, "request_id": "q", "body": answer}
            line = {"id": "r", "custom_id": key, "response": response, "error": None}
            (answers if code == 200 else errors).append(line)
        answers += [{"custom_id": items[0][0], **fields} for fields in self.extra]
        for field, lines in (("output_file_id", answers), ("error_file_id", errors)):
            if lines:  # in another order than they were asked
                data = [json.dumps(line).encode() for line in reversed(lines)]
                batch[field] = self._stored(b"\n".join([*data[:1], *self.noise, *data[1:], b""]))
        batch["request_counts"] |= {"completed": len(answers), "failed": len(errors)}
