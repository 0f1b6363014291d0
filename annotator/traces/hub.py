"""Data sets of the Hugging Face hub (``hf://org/name[:split]``), and those saved to disk."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from annotator.base.errors import AnnotatorError, UnreadableTrace
from annotator.traces.columnar import read_arrow
from annotator.traces.document import read_json


def load_hub_records(source: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the records of a hub data set, numbered from 1, one in memory at a time.

    The split is ``train`` unless named. A folder ``org/name`` below the current one is read in
    place of the hub's, as ``datasets.load_dataset`` does.

    Raises:
        AnnotatorError: the data set cannot be loaded.
    """
    _check_reachable(source)
    name, _, split = source.removeprefix("hf://").partition(":")
    split = split or "train"
    import datasets  # 0.8 s: only for those who name a data set

    try:
        for n, record in enumerate(datasets.load_dataset(name, split=split, streaming=True), 1):
            yield n, dict(record)
    except Exception as error:  # datasets raises errors of a dozen libraries
        reason = " ".join(str(error).split())[:300]
        raise AnnotatorError(f"{source}: cannot be loaded: {reason}") from error


def _check_reachable(source: str) -> None:
    """Raise :class:`AnnotatorError` at once where the hub's host has no address: `datasets` tries
    for half a minute.
    """
    name = source.removeprefix("hf://").partition(":")[0]
    from urllib.request import getproxies  # takes 5 % of the start of any command

    if Path(name).is_dir() or getproxies():
        return
    host = urlsplit(os.environ.get("HF_ENDPOINT") or "https://huggingface.co").hostname
    try:
        socket.getaddrinfo(host, 443)
    except OSError as error:
        reason = f"{host} cannot be reached ({error.strerror or error})"
        raise AnnotatorError(f"{source}: cannot be loaded: {reason}") from error


def read_saved_dataset(folder: str) -> Iterator[dict[str, Any]]:
    """Yield the records of a data set that ``Dataset.save_to_disk`` wrote.

    Raises:
        UnreadableTrace: it cannot be read.
    """
    try:
        for part in read_json(folder, "state.json")["_data_files"]:
            yield from read_arrow(f"{folder}/{part['filename']}")
    except Exception as error:  # of pyarrow, or of a state.json with other keys
        reason = " ".join((getattr(error, "strerror", None) or str(error)).split())[:300]
        raise UnreadableTrace(f"a saved data set that cannot be read: {reason}") from error
