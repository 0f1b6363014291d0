"""Tables that are kept by columns, Parquet and Arrow, as rows: none is made that would not fit in
memory, whatever a file of a few kilobytes unpacks to.
"""

import os
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from annotator.regular import check_size, check_unpacked, most_bytes
from annotator.traces.document import open_file

_ROWS = 64  # in memory at a time, where they are not large
_COPIES = 4  # of what is read, while it is
_CELL = 64  # bytes that a value takes at least
_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3  # what a header of Arrow is of
_BLOCK = 24  # bytes that say where a batch is
_PADDING = 128  # more bytes between two batches are another one
_NEWER = 0xFFFFFFFF  # before the size of a header, since Arrow 0.15
_AS_IS = (1 << 64) - 1  # the size of a buffer that stands unpacked among packed ones
_VARINT = range(0, 70, 7)
_LEVELS = 12  # bytes that a value in a list of Parquet takes beside its own
_WIDTHS = {"INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 12}
_DELTAS = 7  # of texts that share their beginnings
_ONCE = {None, 0, 2, 8}  # pages that are dictionaries, hold texts, or numbers of what stands in one
_DAMAGED = "damaged or cut off: rows may be missing"


def parquet_rows(path: str) -> Iterator[Any]:
    """Yield the rows of a Parquet file.

    Raises:
        OSError: a page of it, or a row, is larger than :func:`most_bytes`.
    """
    import pyarrow.parquet as pq

    def batches() -> Iterator[Any]:
        with open_file(path) as raw:
            for group in range(file.num_row_groups):
                rows, texts = _look_at(raw, file, group)
                with pq.ParquetFile(path, metadata=file.metadata, read_dictionary=texts) as lists:
                    yield from lists.iter_batches(batch_size=rows, row_groups=[group])

    with pq.ParquetFile(path) as file:
        yield from _rows(batches(), file.schema_arrow, Path(path).stat().st_size)


def arrow_rows(path: str) -> Iterator[Any]:
    """Yield the rows of an Arrow file, or of a stream in one.

    Raises:
        OSError: a batch of rows, or a row, is larger than :func:`most_bytes`, or the rows do not
            end where the file says so.
    """
    import pyarrow as pa

    with pa.memory_map(path) as source:
        data = source.read_buffer()
        in_blocks = data[:4].to_pybytes() == b"ARRO"
        weights = list(_weigh_blocks(data)) if in_blocks else _weigh_batches(data)
        with pa.ipc.open_file(data) if in_blocks else pa.ipc.open_stream(data) as reader:
            if not reader.schema.names:
                raise OSError(_DAMAGED)
            read = reader.get_batch if in_blocks else lambda _: reader.read_next_batch()
            batches = (read(number) for number, _ in enumerate(weights))
            yield from checked_rows(batches, reader.schema, source.size())


def check_saved(path: str) -> None:
    """Check a stream of Arrow before another library reads all of it.

    Raises:
        UnreadableTrace: it is no regular file.
        OSError: it is damaged, or unpacks to more than :func:`most_bytes`.
    """
    import pyarrow as pa

    open_file(path).close()
    with pa.memory_map(path) as source:
        check_size("packed rows", sum(_weigh_batches(source.read_buffer())))


def _weigh_blocks(file: Any) -> Iterator[int]:
    """Yield what :func:`_weigh_batches` does, of a file: its end says where its batches are."""
    data = memoryview(file)
    end = len(data) - 10
    if end < 0 or bytes(data[end + 4 :]) != b"ARROW1":
        raise OSError(_DAMAGED)
    begin = end - _number(data, end)
    foot = data[max(begin, 0) : end]
    weigher, ends = _Weigher(data), []
    for field, of in ((2, _DICTIONARY), (3, _BATCH)):
        for block in _list_places(foot, _number(foot, 0), field, _BLOCK):
            at = _number(foot, block, 8)
            kind, weight, after = weigher.weigh(at)
            if kind != of:
                raise OSError(_DAMAGED)
            ends.append((at, after))
            if kind == _BATCH:
                yield weight
    if bytes(data[8:12]) == b"\xff" * 4:  # the schema, as most write it
        ends.append((8, 16 + _number(data, 12)))
    ends.append((begin, end))
    ends.sort()
    if any(after - before > _PADDING for (_, before), (after, _) in pairwise(ends)):
        raise OSError(_DAMAGED)


def _weigh_batches(stream: Any) -> Iterator[int]:
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
            raise OSError(_DAMAGED)
        if kind == _BATCH:
            yield weight
    if at != len(weigher.data):
        raise OSError(_DAMAGED)


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
            raise OSError(_DAMAGED)
        named = batch = _follow(head, message, 2)
        if kind == _DICTIONARY:
            batch = _follow(head, named, 1)
        nodes, buffers = (_list_places(head, batch, field, 16) for field in (1, 2))
        if nodes and _number(head, nodes[0], 8) and not _read_field(head, batch, 0, 8):
            raise OSError(_DAMAGED)
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
    """Return where the members of a list in a header of Arrow stand, none if it is left out."""
    if not _find_field(head, table, number):
        return range(0)
    begin = _follow(head, table, number)
    return range(begin + 4, begin + 4 + size * _number(head, begin), size)


def _follow(head: memoryview, table: int, number: int) -> int:
    """Return where what a field of a table in a header of Arrow refers to begins."""
    place = _find_field(head, table, number)
    return place + _number(head, place)


def _read_field(head: memoryview, table: int, number: int, size: int) -> int:
    place = _find_field(head, table, number)
    return place and _number(head, place, size)


def _find_field(head: memoryview, table: int, number: int) -> int:
    """Return where a field of a table in a header of Arrow stands, 0 if it is left out."""
    fields = (table - _number(head, table)) % (1 << 32)
    place = 4 + 2 * number
    offset = _number(head, fields + place, 2) if place < _number(head, fields, 2) else 0
    return offset and table + offset


def _number(data: memoryview, at: int, size: int = 4) -> int:
    if at + size > len(data):
        raise OSError(_DAMAGED)
    return int.from_bytes(data[at : at + size], "little")


def checked_rows(batches: Iterable[Any], schema: Any, size: int) -> Iterator[Any]:
    """Yield the rows of batches that a file of this size holds as they are in memory.

    Raises:
        ValueError: offsets in it lead out of what there is.
        OSError: a row is larger than :func:`most_bytes`.
    """

    def pieces() -> Iterator[Any]:
        for batch in batches:
            batch.validate(full=True)
            yield from (batch.slice(n, _ROWS) for n in range(0, batch.num_rows, _ROWS))
            batch = None  # the next one is about to be unpacked

    return _rows(pieces(), schema, size)


def _rows(batches: Iterable[Any], schema: Any, size: int) -> Iterator[Any]:
    """Yield the rows of batches. Raises OSError for one that is too large, or for too many in a
    small file.
    """
    total = 0
    for batch in batches:
        most = max(len(batch), 1) if _weigh(batch) <= most_bytes() else 1
        for begin in range(0, len(batch), most):
            rows = batch.slice(begin, most)
            weight = _weigh(rows)
            total += weight
            check_size("a row", weight)
            check_unpacked(total, size)
            yield from rows.cast(schema).to_pylist()
        batch = rows = None  # the next one is about to be unpacked


def _weigh(batch: Any) -> int:
    return sum(_weigh_values(column) for column in batch.columns)


def _weigh_values(values: Any) -> int:
    """Return how many bytes values of Arrow take at least where each has its own."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind, is_ = values.type, pa.types
    weight = len(values) * _CELL
    if isinstance(values, pa.ExtensionArray):
        return _weigh_values(values.storage)
    if is_.is_string_view(kind) or is_.is_binary_view(kind):  # several may show one text
        first, last = 4 * values.offset, 4 * (values.offset + len(values))
        sizes = memoryview(values.buffers()[1]).cast("B").cast("i")[first:last:4]
        return weight + sum(size for size in sizes if size > 0)
    if is_.is_dictionary(kind) and (
        is_.is_string(kind.value_type) or is_.is_binary(kind.value_type)
    ):
        lengths = pc.binary_length(values.dictionary).take(values.indices)
        return weight + (pc.sum(lengths).as_py() or 0)
    if is_.is_dictionary(kind):
        return weight + len(values) * _weigh_values(values.dictionary)
    if is_.is_run_end_encoded(kind):
        return weight + len(values) * _weigh_values(values.values)
    if is_.is_struct(kind) or is_.is_fixed_size_list(kind):
        inner = values.flatten()
        return weight + sum(map(_weigh_values, inner if is_.is_struct(kind) else (inner,)))
    if is_.is_map(kind) or is_.is_list(kind) or is_.is_large_list(kind):
        first, last = values.offsets[0].as_py(), values.offsets[-1].as_py()
        parts = (values.keys, values.items) if is_.is_map(kind) else (values.values,)
        return weight + sum(_weigh_values(part[first:last]) for part in parts)
    if is_.is_nested(kind):  # a view: what stands in several lists is laid out if it is little
        weight += (pc.sum(pc.list_value_length(values)).as_py() or 0) * _CELL
        return weight if weight > most_bytes() else weight + _weigh_values(values.flatten())
    return weight + int(values.nbytes)


def _look_at(raw: BinaryIO, file: Any, number: int) -> tuple[int, list[str]]:
    """Return how many rows of a row group may be in memory: no cell is larger than the pages that
    are, one of each column; and the columns of texts in lists that stand in the file but once: they
    are to stay so until they are weighed.
    """
    group, pages, lists, texts = file.metadata.row_group(number), 0, 0, []
    for n in range(group.num_columns):
        column, chunk = file.schema.column(n), group.column(n)
        begin = chunk.data_page_offset
        if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < begin:
            begin = chunk.dictionary_page_offset
        listed = list(_pages(raw, begin, begin + chunk.total_compressed_size))
        pages += max((page.size for page in listed), default=0)
        if column.max_repetition_level:
            width = _LEVELS + _WIDTHS.get(column.physical_type, max(column.length, 0))
            for page in listed:
                lists += page.values * (width + page.size * (page.encoding == _DELTAS))
            spelled = {page.encoding for page in listed}
            if column.physical_type == "BYTE_ARRAY" and None in spelled and spelled <= _ONCE:
                texts.append(column.path)
    check_size("pages of one row group", pages)
    check_size("lists of one row group", lists // _COPIES)
    return max(1, min(_ROWS, most_bytes() // max(_COPIES * pages, 1))), texts


class _ParquetPage(NamedTuple):
    """Of a page: its size when it is unpacked, how many values it has, how they are spelled."""

    size: int
    values: int
    encoding: int | None


def _pages(raw: BinaryIO, begin: int, end: int) -> Iterator[_ParquetPage]:
    raw.seek(begin)
    while raw.tell() < end:
        header = _read_struct(raw)
        data, newer = header.get(5), header.get(8)
        encoding = data[2] if data else newer[4] if newer else None
        yield _ParquetPage(header[2], (data or newer or {1: 0})[1], encoding)
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
        elif kind not in (1, 2):
            raise OSError("a header of a page that is none")
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
    raise OSError("a header of a page that is none")
