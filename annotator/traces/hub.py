"""Records of a data set on the Hugging Face hub."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from annotator.base.errors import AnnotatorError


def load_hub_records(source: str) -> Iterator[Any]:
    """Yield the records of a hub data set ``hf://org/name[:split]``, by default of ``train``.

    A folder ``org/name`` below the current one is read in place of the hub's. Raises
    :class:`AnnotatorError` if it cannot be loaded.
    """
    name, _, split = source.removeprefix("hf://").partition(":")
    _check_reachable(source, name)
    import datasets  # 0.8 s: only for those who name a data set

    try:
        for record in datasets.load_dataset(name, split=split or "train", streaming=True):
            yield dict(record)
    except Exception as error:  # datasets raises errors of a dozen libraries
        reason = " ".join(str(error).split())[:300]
        raise AnnotatorError(f"{source}: cannot be loaded: {reason}") from error


def _check_reachable(source: str, name: str) -> None:
    """Raise :class:`AnnotatorError` if the hub has no address: `datasets` tries for 30 seconds."""
    from urllib.request import getproxies  # takes 5 % of the start of any command

    if Path(name).is_dir() or getproxies():
        return
    host = urlsplit(os.environ.get("HF_ENDPOINT") or "https://huggingface.co").hostname
    try:
        socket.getaddrinfo(host, 443)
    except OSError as error:
        reason = f"{host} cannot be reached ({error.strerror or error})"
        raise AnnotatorError(f"{source}: cannot be loaded: {reason}") from error
