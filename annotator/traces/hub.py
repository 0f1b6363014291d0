"""Data sets of the Hugging Face hub (``hf://org/name[:split]``), and those saved to disk."""

from collections.abc import Iterator
from typing import Any

from annotator.errors import AnnotatorError, UnreadableTrace


def records(source: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the records of a hub data set, numbered from 1, one in memory at a time.

    The split is ``train`` unless named. A folder ``org/name`` below the current one is read in
    place of the hub's, as ``datasets.load_dataset`` does.

    Raises:
        AnnotatorError: the data set cannot be loaded.
    """
    name, _, split = source.removeprefix("hf://").partition(":")
    split = split or "train"
    import datasets  # 0.8 s: only for those who name a data set

    try:
        for n, record in enumerate(datasets.load_dataset(name, split=split, streaming=True), 1):
            yield n, dict(record)
    except Exception as error:  # datasets raises errors of a dozen libraries
        reason = " ".join(str(error).split())[:300]
        raise AnnotatorError(f"{source}: cannot be loaded: {reason}") from error


def saved_records(folder: str) -> Iterator[dict[str, Any]]:
    """Yield the records of a data set that ``Dataset.save_to_disk`` wrote, one in memory at a time.

    Raises:
        UnreadableTrace: it cannot be read.
    """
    import datasets

    try:
        for record in datasets.load_from_disk(folder):
            yield dict(record)
    except Exception as error:  # as above
        reason = " ".join(str(error).split())[:300]
        raise UnreadableTrace(f"a saved data set that cannot be read: {reason}") from error
