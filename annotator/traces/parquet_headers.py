"""The headers of Parquet: where pages are, how large each is unpacked, and what it holds."""

import os
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

_VARINT = range(0, 70, 7)
_FLAGS = (1, 2)  # kinds that are their own value
_NONE = "damaged: a header that is none"


class ParquetPage(NamedTuple):
    """Of a page: its size when it is unpacked, how many values it has, how they are spelled."""

    size: int
    values: int
    encoding: int | None


def find_columns(raw: BinaryIO) -> list[list[tuple[int, int]]]:
    """Return for each group of rows in a file where the pages of its columns begin and end.

    What the library says of them it does not say of a damaged file: it ends the process.

    Raises:
        OSError, LookupError: a footer that is none.
    """
    raw.seek(-8, os.SEEK_END)
    size = int.from_bytes(raw.read(4), "little")
    raw.seek(-8 - size, os.SEEK_END)
    groups = _read_struct(raw)[4]
    return [[_place(column[3]) for column in group[1]] for group in groups]


def _place(column: dict[int, Any]) -> tuple[int, int]:
    begin, dictionary = column[9], column.get(11, 0)
    if 0 < dictionary < begin:
        begin = dictionary
    return begin, begin + column[7]


def read_pages(raw: BinaryIO, begin: int, end: int) -> Iterator[ParquetPage]:
    """Yield the pages of a column that stand between two places in a file.

    Raises:
        OSError: a header that is none.
    """
    raw.seek(begin)
    while raw.tell() < end:
        header = _read_struct(raw)
        data, newer = header.get(5), header.get(8)
        encoding = data[2] if data else newer[4] if newer else None
        yield ParquetPage(header[2], (data or newer or {1: 0})[1], encoding)
        raw.seek(header[3], os.SEEK_CUR)


def _read_struct(raw: BinaryIO) -> dict[int, Any]:
    """Return what is in a struct of Thrift's compact protocol, by its fields; None for texts."""
    fields: dict[int, Any] = {}
    number = 0
    while kind := (first := raw.read(1)[0]) & 15:
        number = number + (first >> 4) if first >> 4 else _read_number(raw)
        if number in fields:
            raise OSError(_NONE)
        fields[number] = None if kind in _FLAGS else _read_value(raw, kind)
    return fields


def _read_value(raw: BinaryIO, kind: int) -> Any:
    if kind == 12:
        return _read_struct(raw)
    if kind == 9:
        first = raw.read(1)[0]
        size, kind = first >> 4, first & 15
        size = _read_varint(raw) if size == 15 else size
        return [_read_value(raw, kind) for _ in range(size)]
    if kind in (4, 5, 6):
        return _read_number(raw)
    if kind not in (*_FLAGS, 3, 7, 8):
        raise OSError(_NONE)
    if kind == 8:
        raw.seek(_read_varint(raw), os.SEEK_CUR)
    elif not raw.read(8 if kind == 7 else 1):  # a list of them would be as long as it says
        raise OSError(_NONE)
    return None


def _read_number(raw: BinaryIO) -> int:
    number = _read_varint(raw)
    return number >> 1 ^ -(number & 1)


def _read_varint(raw: BinaryIO) -> int:
    number = 0
    for shift in _VARINT:
        byte = raw.read(1)[0]
        number |= (byte & 127) << shift
        if byte < 128:
            return number
    raise OSError(_NONE)
