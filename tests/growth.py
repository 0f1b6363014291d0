"""How the time of some work grows with what it is given: the same on any machine."""

import gc
import sys
from collections.abc import Callable
from time import thread_time
from typing import Any, TypeVar

import pytest

Given = TypeVar("Given")

FACTOR = 8
LIMIT = FACTOR**1.5  # between what grows with the length, 8, and with its square, 64


def parts(one: int) -> list[Any]:
    """Of what is long, one part in so many is tried, and the whole with the slow tests."""
    return [one, pytest.param(1, marks=pytest.mark.slow)]


def cuts(text: str, part: int, read: int = sys.maxsize) -> tuple[str, str]:
    """Return one part in so many of a text as the large one, and a small one to hold it against.

    If no more than ``read`` characters are to be read, the small one has a share of these: what
    reads on takes too long beside it.
    """
    large = text[: len(text) // part]
    return large[: min(len(large), read) // FACTOR], large


def growth(work: Callable[[Given], object], small: Given, large: Given) -> float:
    """Return how many times as long ``work(large)`` takes as ``work(small)``.

    Only what this thread computes counts, and of several turns the least, since whatever else a
    machine does can only add to it. What an earlier call left in a cache is forgotten.
    """
    work(small)  # what is imported and compiled once
    caches = [
        one
        for name, module in sys.modules.items()
        if name.startswith(("annotator.", "validation."))
        for one in vars(module).values()
        if hasattr(one, "cache_clear")
    ]

    def seconds(given: Given) -> float:
        for cache in caches:
            cache.cache_clear()
        began = thread_time()
        work(given)
        return thread_time() - began

    took: list[tuple[float, float]] = []
    gc.disable()
    try:
        while len(took) < 2 or (len(took) < 5 and sum(map(sum, took)) < 0.1):
            took.append((seconds(small), seconds(large)))
    finally:
        gc.enable()
    short, long = map(min, zip(*took, strict=True))
    return long / max(short, 1e-4)  # a clock may stand still for less
