"""Model servers on this machine: found and named, never used unasked."""

import json
import socket
from collections.abc import Iterator

from annotator.base.text import sanitize_line

# Where Ollama, LM Studio, llama.cpp and vLLM listen.
PORTS = (11434, 1234, 8080, 8000)
_SECONDS = 0.5  # for one server
_LARGEST = 1 << 20  # bytes of a list of models


def find_servers() -> Iterator[tuple[str, str]]:
    """Yield the base URL of each server that lists models, and the first of its models."""
    for port in PORTS:
        try:
            socket.create_connection(("127.0.0.1", port), _SECONDS).close()
        except OSError:
            continue
        if model := _find_model(port):
            yield f"http://127.0.0.1:{port}/v1", model


def _find_model(port: int) -> str:
    """Return the first model of a server; "" if it does not list models as OpenAI does."""
    from http.client import HTTPConnection, HTTPException  # only where something listens

    connection = HTTPConnection("127.0.0.1", port, timeout=_SECONDS)
    try:
        connection.request("GET", "/v1/models")
        answer = connection.getresponse()
        body = answer.read(_LARGEST) if answer.status == 200 else b""
        return sanitize_line(str(json.loads(body)["data"][0]["id"]), 120)
    except (OSError, HTTPException, ValueError, LookupError, TypeError, RecursionError):
        return ""
    finally:
        connection.close()
