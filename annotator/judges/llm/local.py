"""How much a server on this machine reads, asked of it before the run: some cut in silence.

Each kind of server says it elsewhere, and none is asked to be only one: what is not there is not
known. What the replies hold was read in the documentation of each.
"""

import asyncio
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from annotator.judges.llm.settings import Options

_PATIENCE = 3.0  # seconds for an answer
_OLLAMA_DEFAULT = 4_096  # the least that it takes where nothing is set
_NUM_CTX = re.compile(r"^num_ctx\s+(\d{1,9})\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ServerContext:
    """What a server says that it reads. ``source``: which one, and where. ``assumed``: the model
    is not loaded yet, so that this is only its default.
    """

    tokens: int
    source: str
    assumed: bool = False


async def ask_context(options: Options, key: str) -> ServerContext | None:
    """Return the context of the model of ``options`` in tokens, an answer included, or None if the
    server does not say.
    """
    import httpx2  # takes a second to import, with what opens it

    from annotator.judges.llm.client import Transient, explain_address, open_http

    parts = urlsplit(options.base_url)
    netloc = parts.netloc.rpartition("@")[2]
    root = f"{parts.scheme}://{netloc}{parts.path.rstrip('/').removesuffix('/v1')}"
    model = options.model

    async def ask(path: str, body: Any = None) -> Any:
        try:
            async with asyncio.timeout(_PATIENCE):
                reply = await web.request("GET" if body is None else "POST", root + path, json=body)
            value = reply.json() if reply.status_code == 200 else {}
        except (httpx2.RequestError, Transient, TimeoutError, ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}

    with explain_address(options, key):
        async with open_http(options, key, connections=5) as web:
            web.headers["Authorization"] = f"Bearer {key}"
            props, studio, show, running, listed = await asyncio.gather(
                ask("/props"),
                ask("/api/v0/models"),
                ask("/api/show", {"model": model}),
                ask("/api/ps"),
                ask("/v1/models"),
            )
    return (
        _read_llamacpp(props)
        or _read_lmstudio(studio, model)
        or _read_ollama(show, running, model)
        or _read_listed(listed, model)
    )


def _read_llamacpp(props: dict[str, Any]) -> ServerContext | None:
    """llama.cpp: the context of one slot."""
    settings = props.get("default_generation_settings")
    tokens = _count(settings.get("n_ctx")) if isinstance(settings, dict) else 0
    return ServerContext(tokens, "llama.cpp, /props") if tokens else None


def _read_lmstudio(models: dict[str, Any], model: str) -> ServerContext | None:
    """LM Studio: what the model was loaded with, else the most that it can be."""
    entry = _find(models.get("data"), model, "id")
    loaded, most = (
        _count(entry.get("loaded_context_length")),
        _count(entry.get("max_context_length")),
    )
    tokens = loaded or most
    return ServerContext(tokens, "LM Studio, /api/v0/models", not loaded) if tokens else None


def _read_ollama(show: dict[str, Any], running: dict[str, Any], model: str) -> ServerContext | None:
    """Ollama: what the model runs with, else what its Modelfile or the default will make it."""
    names = (model, f"{model}:latest")
    for name in names:
        if tokens := _count(_find(running.get("models"), name, "model").get("context_length")):
            return ServerContext(tokens, "Ollama, /api/ps")
    info = show.get("model_info")
    if not isinstance(info, dict):
        return None
    most = _count(info.get(f"{info.get('general.architecture')}.context_length"))
    given = _NUM_CTX.search(str(show.get("parameters") or ""))
    tokens = (int(given[1]) if given else 0) or _OLLAMA_DEFAULT
    return ServerContext(min(tokens, most or tokens), "Ollama, its default", assumed=True)


def _read_listed(models: dict[str, Any], model: str) -> ServerContext | None:
    """vLLM and SGLang: the longest sequence."""
    tokens = _count(_find(models.get("data"), model, "id").get("max_model_len"))
    return ServerContext(tokens, "/v1/models") if tokens else None


def _find(entries: object, model: str, key: str) -> dict[str, Any]:
    listed = (
        [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    )
    return next((entry for entry in listed if entry.get(key) == model), {})


def _count(value: object) -> int:
    """Return a number of tokens that a context can have, else 0."""
    number = isinstance(value, int) and not isinstance(value, bool)
    return value if number and 0 < value < 10**8 else 0  # type: ignore[return-value, operator]
