"""The headers of Arrow's files and streams: they tell what a batch of rows takes before it is
unpacked, and whether all rows are there.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from annotator.regular import check_size

DAMAGED = "damaged or cut off: rows may be missing"
_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3  # what a header is of
_BLOCK = 24  # bytes that say where a batch is
_PADDING = 128  # more bytes between two batches are another one
_NEWER = 0xFFFFFFFF  # before the size of a header, since Arrow 0.15
_AS_IS = (1 << 64) - 1  # the size of a buffer that stands unpacked among packed ones


def weigh_file(file: Any) -> Iterator[int]:
    """Yield what :func:`weigh_stream` does, of a file: its end says where its batches are."""
    data = memoryview(file)
    end = len(data) - 10
    if end < 0 or bytes(data[end + 4 :]) != b"ARROW1":
        raise OSError(DAMAGED)
    begin = end - _number(data, end)
    foot = data[max(begin, 0) : end]
    weigher, ends = _Weigher(data), []
    for field, of in ((2, _DICTIONARY), (3, _BATCH)):
        for block in _list_places(foot, _number(foot, 0), field, _BLOCK):
            at = _number(foot, block, 8)
            kind, weight, after = weigher.weigh(at)
            if kind != of:
                raise OSError(DAMAGED)
            ends.append((at, after))
            if kind == _BATCH:
                yield weight
    if bytes(data[8:12]) == b"\xff" * 4:  # the schema, as most write it
        ends.append((8, 16 + _number(data, 12)))
    ends.append((begin, end))
    ends.sort()
    if any(after - before > _PADDING for (_, before), (after, _) in pairwise(ends)):
        raise OSError(DAMAGED)


def weigh_stream(stream: Any) -> Iterator[int]:
    """Yield how many bytes each batch of rows in a stream of Arrow takes beside the stream: what is
    packed says so before it is unpacked.

    Raises:
        OSError: one is larger than :func:`most_bytes`, with the dictionaries before it, or the
            stream does not end at its end.
    """
    weigher, at = _Weigher(memoryview(stream)), 0
    while True:
        begin = at
        kind, weight, at = weigher.weigh(at)
        if not kind:
            break
        if (kind == _SCHEMA) != (begin == 0):
            raise OSError(DAMAGED)
        if kind == _BATCH:
            yield weight
    if at != len(weigher.data):
        raise OSError(DAMAGED)


class _Weigher:
    """Weighs the messages of an Arrow file, and remembers its dictionaries."""

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self._dictionaries: dict[int, int] = {}

    def weigh(self, at: int) -> tuple[int, int, int]:
        """Return what a message is of, 0 for the end mark, what it takes, and where it ends."""
        data = self.data
        size, at = _number(data, at), at + 4
        if size == _NEWER:
            size, at = _number(data, at), at + 4
        if not size:
            return 0, 0, at
        head, body = data[at : at + size], at + size
        message = _number(head, 0)
        kind = _read_field(head, message, 1, 1)
        end = body + _read_field(head, message, 3, 8)
        if kind == _SCHEMA:
            return kind, 0, end
        if kind not in (_DICTIONARY, _BATCH):
            raise OSError(DAMAGED)
        named = batch = _follow(head, message, 2)
        if kind == _DICTIONARY:
            batch = _follow(head, named, 1)
        nodes, buffers = (_list_places(head, batch, field, 16) for field in (1, 2))
        if nodes and _number(head, nodes[0], 8) and not _read_field(head, batch, 0, 8):
            raise OSError(DAMAGED)
        weight = 0
        if _find_field(head, batch, 3):  # it is packed
            places = (
                _number(head, listed, 8) for listed in buffers if _number(head, listed + 8, 8)
            )
            sizes = (_number(data, body + place, 8) for place in places)
            weight = sum(size for size in sizes if size != _AS_IS)
        if kind == _DICTIONARY:
            name, is_more = _read_field(head, named, 0, 8), _read_field(head, named, 2, 1)
            self._dictionaries[name] = weight + is_more * self._dictionaries.get(name, 0)
        beside = sum(self._dictionaries.values())
        check_size("rows of one batch", beside + weight * (kind == _BATCH))
        return kind, weight, end


def _list_places(head: memoryview, table: int, number: int, size: int) -> range:
    """Return where the members of a list in a header stand, none if it is left out."""
    if not _find_field(head, table, number):
        return range(0)
    begin = _follow(head, table, number)
    return range(begin + 4, begin + 4 + size * _number(head, begin), size)


def _follow(head: memoryview, table: int, number: int) -> int:
    """Return where what a field of a table in a header refers to begins."""
    place = _find_field(head, table, number)
    return place + _number(head, place)


def _read_field(head: memoryview, table: int, number: int, size: int) -> int:
    place = _find_field(head, table, number)
    return place and _number(head, place, size)


def _find_field(head: memoryview, table: int, number: int) -> int:
    """Return where a field of a table in a header stands, 0 if it is left out."""
    fields = (table - _number(head, table)) % (1 << 32)
    place = 4 + 2 * number
    offset = _number(head, fields + place, 2) if place < _number(head, fields, 2) else 0
    return offset and table + offset


def _number(data: memoryview, at: int, size: int = 4) -> int:
    if at + size > len(data):
        raise OSError(DAMAGED)
    return int.from_bytes(data[at : at + size], "little")
