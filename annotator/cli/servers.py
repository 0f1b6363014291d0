"""Model servers on this machine: found and named, never used unasked."""

import json
import socket
from collections.abc import Iterator

from annotator.base.text import sanitize_line

# Where Ollama, LM Studio, llama.cpp and vLLM listen.
PORTS = (11434, 1234, 8080, 8000)
_SECONDS = 0.3  # for a connection, and for its answer
_LARGEST = 1 << 20  # bytes of a list of models


def find_servers() -> Iterator[tuple[str, str]]:
    """Yield the base URL of each server that lists models, and the first of its models."""
    for port in PORTS:
        try:
            socket.create_connection(("127.0.0.1", port), _SECONDS).close()
        except OSError:
            continue
        if model := _find_model(url := f"http://127.0.0.1:{port}/v1"):
            yield url, model


def _find_model(url: str) -> str:
    """Return the first model of a server; "" if it does not list models as OpenAI does."""
    from http.client import HTTPException  # only where something listens
    from urllib.request import ProxyHandler, build_opener

    try:
        opener = build_opener(ProxyHandler({}))
        with opener.open(f"{url}/models", timeout=_SECONDS) as answer:
            models = json.loads(answer.read(_LARGEST))["data"]
        return sanitize_line(str(models[0]["id"]), 120)
    except (OSError, HTTPException, ValueError, LookupError, TypeError):
        return ""
