"""How much memory the rows of a Parquet file take, by its pages, before one is read."""

import io
import os
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from annotator.regular import check_size, most_bytes

ROWS = 64  # in memory at a time, where they are not large
_COPIES = 4  # of what is read, while it is
_MOST_VALUES = 200_000_000  # in the lists of one row group: each takes some bytes while it is read
_LEVELS = 12  # bytes that a value in a list takes beside its own
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 12}
_ONCE = {None, 2, 8}  # pages that are dictionaries, or numbers of what stands in one
_DELTAS = 7  # of texts that share their beginnings
_IN_RUNS = 3  # of levels
_MOST_DELTAS = 4096  # that share a width
_NO_PAGE = "a header of a page that is none"
_VARINT = range(0, 70, 7)


def look_at(raw: BinaryIO, file: Any, number: int) -> tuple[int, list[str]]:
    """Return how many rows of a row group may be in memory: no cell is larger than the pages that
    are, one of each column, and no list than what stands in those it runs through; and the columns
    of texts in lists that stand in the file but once: they are to stay so until they are weighed.
    """
    group, pages, lists = file.metadata.row_group(number), 0, []
    for n in range(group.num_columns):
        column, chunk = file.schema.column(n), group.column(n)
        begin = chunk.data_page_offset
        if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < begin:
            begin = chunk.dictionary_page_offset
        listed = list(_pages(raw, begin, begin + chunk.total_compressed_size))
        pages += max((page.size for page in listed), default=0)
        if column.max_repetition_level:
            lists.append(_Lists(raw, column, chunk.compression, listed))
    check_size("pages of one row group", pages)
    if sum(page.values for column in lists for page in column.pages) > _MOST_VALUES:
        raise OSError(f"more than {_MOST_VALUES} values in the lists of one row group")
    row = 0
    if sum(column.weigh_all() for column in lists) > most_bytes():
        row = sum(column.weigh_row() for column in lists)
        check_size("a row", row)
    most = most_bytes() // max(_COPIES * pages, row, 1)
    return max(1, min(ROWS, most)), [column.path for column in lists if column.once]


class _ParquetPage(NamedTuple):
    """Of a page: where it begins behind its header, its size in the file and that when it is
    unpacked, and what its header says more, in the one form or the other; a dictionary has neither.
    """

    begin: int
    packed: int
    size: int
    older: dict[int, Any] | None
    newer: dict[int, Any] | None

    @property
    def values(self) -> int:
        """How many values it has."""
        return int((self.older or self.newer or {1: 0})[1])

    @property
    def encoding(self) -> int | None:
        """How they are spelled."""
        if self.older:
            return int(self.older[2])
        return int(self.newer[4]) if self.newer else None


class _Lists:
    """A column whose values stand in lists, in one row group, and what they take in memory."""

    def __init__(self, raw: BinaryIO, column: Any, codec: str, pages: list[_ParquetPage]) -> None:
        self.path, self.pages = column.path, pages
        self._raw, self._codec = raw, codec
        self._depth, self._optional = column.max_repetition_level, column.max_definition_level
        self._width = _WIDTHS.get(column.physical_type, max(column.length, 0))
        is_text = column.physical_type == "BYTE_ARRAY"
        self.once = is_text and {page.encoding for page in pages} <= _ONCE
        self._spelled = is_text and not self.once

    def weigh_all(self) -> int:
        """Return how much all values take at most, by what the headers of the pages say."""
        weight, longest = 0, 0
        for page in self.pages:
            longest = page.size if page.encoding is None else longest
            text = {None: 0, _DELTAS: page.size}.get(page.encoding, longest)
            weight += self._weigh(page) + page.values * text * self._spelled
        return weight

    def weigh_row(self) -> int:
        """Return how much the values of a row take at most: those of the page in which it begins,
        and of all up to the next in which one does. The pages are unpacked, one by one.
        """
        row, most = 0, 0
        texts: list[int] = []
        for page in self.pages:
            levels, values = self._unpack(page)
            weight = self._weigh(page)
            if self._spelled and page.encoding is None:
                texts = _read_sizes(values)
            elif self._spelled and page.encoding in _ONCE:
                runs = _runs(values[1:], values[0], page.values)
                weight += sum(times * texts[n] for times, n in runs)
            elif self._spelled and page.encoding == _DELTAS:
                weight += _add_deltas(io.BytesIO(values), page.values)
            most = max(most, row + weight)
            check_size("a row", most)
            runs = _runs(levels, self._depth.bit_length(), page.values)
            row = weight if any(level == 0 for _, level in runs) else row + weight
        return most

    def _weigh(self, page: _ParquetPage) -> int:
        """Return how much the values of a page take, its texts as they stand in it."""
        texts = page.size if self._spelled and page.encoding is not None else 0
        return int(page.values * (_LEVELS + self._width) + texts)

    def _unpack(self, page: _ParquetPage) -> tuple[memoryview, memoryview]:
        """Return the levels in a page that say where rows begin, and its values."""
        self._raw.seek(page.begin)
        data = memoryview(self._raw.read(page.packed))
        if page.newer:
            depth = page.newer[6]
            begin = depth + page.newer[5]
            packed = page.newer.get(7, True)
            values = self._decompress(data[begin:], page.size - begin) if packed else data[begin:]
            return data[:depth], values
        data, levels = self._decompress(data, page.size), data[:0]
        if page.older:
            if page.older[4] != _IN_RUNS:
                raise OSError("lists in a form that no program writes any more")
            levels, data = _cut(data)
            _, data = _cut(data) if self._optional else (levels, data)
        return levels, data

    def _decompress(self, data: memoryview, size: int) -> memoryview:
        import pyarrow as pa

        if self._codec == "UNCOMPRESSED" or not size:
            return data
        codec = {"LZ4": "lz4_raw"}.get(self._codec, self._codec.lower())
        return memoryview(pa.decompress(data, size, codec, asbytes=True))


def _cut(data: memoryview) -> tuple[memoryview, memoryview]:
    """Return what stands behind its size, and the rest."""
    end = 4 + int.from_bytes(data[:4], "little")
    return data[4:end], data[end:]


def _read_sizes(data: memoryview) -> list[int]:
    """Return the sizes of texts, of which each stands behind its own."""
    sizes, at = [], 0
    while at < len(data):
        sizes.append(int.from_bytes(data[at : at + 4], "little"))
        at += 4 + sizes[-1]
    return sizes


def _runs(data: memoryview, width: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield the numbers, ``most`` of them, in what Parquet packs by runs: how often, and which."""
    raw, mask = io.BytesIO(data), (1 << width) - 1
    while most > 0 and raw.tell() < len(data):
        times, is_packed = divmod(_read_varint(raw), 2)
        if not is_packed:
            yield min(times, most), int.from_bytes(raw.read((width + 7) // 8), "little")
        for _ in range(min(times, most) if is_packed else 0):
            eight = int.from_bytes(raw.read(width), "little")
            yield from ((1, eight >> n * width & mask) for n in range(8))
        most -= 8 * times if is_packed else times


def _add_deltas(raw: BinaryIO, most: int) -> int:
    """Return the sum of numbers, at most so many, of which each is told by what it is more than the
    one before.
    """
    block, parts, count = (_read_varint(raw) for _ in range(3))
    total = last = _read_number(raw)
    size, left = block // parts, min(count, most) - 1
    if not 0 < size <= _MOST_DELTAS:
        raise OSError(_NO_PAGE)
    while left > 0:
        least = _read_number(raw)
        for width in raw.read(parts):
            packed, mask = int.from_bytes(raw.read(size * width // 8), "little"), (1 << width) - 1
            for n in range(min(size, left)):
                last = (last + least + (packed >> n * width & mask)) % (1 << 32)
                total += last
            left -= size
    return total


def _pages(raw: BinaryIO, begin: int, end: int) -> Iterator[_ParquetPage]:
    raw.seek(begin)
    while raw.tell() < end:
        header = _read_struct(raw)
        yield _ParquetPage(raw.tell(), header[3], header[2], header.get(5), header.get(8))
        raw.seek(header[3], os.SEEK_CUR)


def _read_struct(raw: BinaryIO) -> dict[int, Any]:
    """Return the numbers in a struct of Thrift's compact protocol, by their fields."""
    fields: dict[int, Any] = {}
    number = 0
    while kind := (first := raw.read(1)[0]) & 15:
        number = number + (first >> 4) if first >> 4 else _read_number(raw)
        if kind == 12:
            fields[number] = _read_struct(raw)
        elif kind in (4, 5, 6):
            fields[number] = _read_number(raw)
        elif kind == 8:
            raw.seek(_read_varint(raw), os.SEEK_CUR)
        elif kind in (3, 7):
            raw.seek(1 if kind == 3 else 8, os.SEEK_CUR)
        elif kind in (1, 2):
            fields[number] = kind == 1
        else:
            raise OSError(_NO_PAGE)
    return fields


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
    raise OSError(_NO_PAGE)
