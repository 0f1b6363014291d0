"""Langfuse, Phoenix and MLflow on 127.0.0.1, as far as their documents say how scores arrive."""

import json
import re
import threading
from base64 import b64encode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BASIC = "Basic " + b64encode(b"pk-public-1:sk-secret-12345").decode()
BEARER = "Bearer sk-secret-12345"


class Platforms:
    """All three at one address. ``traces``: the ids that exist; ``failures``: the statuses of the
    next answers; ``errors``: more errors in those of Langfuse; ``auth``: the only
    accepted header. ``bodies`` are those accepted, ``stored`` the scores by the key of an upsert,
    and ``tries`` counts requests.
    """

    def __init__(self, traces, auth=None):
        self.traces, self.auth = set(traces), auth
        self.errors = []
        self.failures, self.bodies, self.stored, self.tries = [], [], {}, 0

    def __enter__(self):
        platforms = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                assert self.headers["Content-Type"] == "application/json"
                auth = self.headers.get("Authorization")
                status, answer = platforms.answer(self.path, auth, body)
                data = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def answer(self, path, auth, body):
        self.tries += 1
        if self.auth and auth != self.auth:
            return 401, f"no access with {auth}, sk-secret-12345"
        if self.failures:
            return self.failures.pop(0), "busy"
        body = json.loads(body)
        if path == "/api/public/ingestion":
            return self.ingest(body)
        if path == "/v1/trace_annotations?sync=true":
            return self.annotate(body)
        match = re.fullmatch(r"/api/3\.0/mlflow/traces/([^/]+)/assessments", path)
        return self.assess(match[1], body) if match else (404, "<html>no such page</html>")

    def ingest(self, body):
        errors = [*self.errors]
        for event in body["batch"]:
            score = event["body"]
            kinds = {"BOOLEAN": (0, 1), "CATEGORICAL": (str(score["value"]),)}
            if score["value"] not in kinds[score["dataType"]] or not event["timestamp"]:
                errors.append({"id": event["id"], "status": 400, "message": "Invalid request data"})
            elif score["traceId"] not in self.traces:  # it takes them; a test wants errors
                errors.append({"id": event["id"], "status": 404, "message": "no such trace"})
            else:
                self.stored[score["id"]] = score
        self.bodies.append(body)
        named = {error["id"] for error in errors if error not in self.errors}
        done = [{"id": e["id"], "status": 201} for e in body["batch"] if e["id"] not in named]
        return 207, {"successes": done, "errors": errors}

    def annotate(self, body):
        missing = {item["trace_id"] for item in body["data"]} - self.traces
        if missing:
            return 404, f"Traces with IDs {', '.join(sorted(missing))} do not exist."
        for item in body["data"]:
            assert item["annotator_kind"] in ("LLM", "CODE", "HUMAN")
            self.stored[item["trace_id"], item["name"], item["identifier"]] = item
        self.bodies.append(body)
        return 200, {"data": [{"id": "x"} for _ in body["data"]]}

    def assess(self, trace_id, body):
        item = body["assessment"]
        assert "." not in item["assessment_name"]
        assert all(isinstance(value, str) for value in item["metadata"].values())
        assert item["source"]["source_type"] in ("LLM_JUDGE", "CODE")
        if trace_id not in self.traces:
            return 404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": f"no {trace_id}"}
        self.stored[len(self.stored)] = item  # no upsert
        self.bodies.append(body)
        return 200, {"assessment": item | {"assessment_id": "a-1"}}
