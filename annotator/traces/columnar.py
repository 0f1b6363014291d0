"""Tables that are kept by columns, Parquet and Arrow, as rows: none is made that would not fit in
memory, whatever a file of a few kilobytes unpacks to.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from annotator.regular import check_size, check_unpacked, most_bytes
from annotator.traces.document import open_file
from annotator.traces.parquet import ROWS, look_at

_CELL = 64  # bytes that a value takes at least
_DICTIONARY, _BATCH = 2, 3  # what a header of Arrow is of
_NEWER = 0xFFFFFFFF  # before the size of a header, since Arrow 0.15
_AS_IS = (1 << 64) - 1  # the size of a buffer that stands unpacked among packed ones
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
                rows, texts = look_at(raw, file, group)
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
        if data[:4].to_pybytes() == b"ARRO":  # a stream, and behind it where its blocks lie
            end = data.size - 10
            if data[end + 4 :].to_pybytes() != b"ARROW1":
                raise OSError(_DAMAGED)
            data = data[8 : max(end - _number(memoryview(data), end), 8)]
        with pa.ipc.open_stream(data) as reader:
            if not reader.schema.names:
                raise OSError(_DAMAGED)
            batches = (reader.read_next_batch() for _ in _weigh_batches(data))
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


def _weigh_batches(stream: Any) -> Iterator[int]:
    """Yield how many bytes each batch of rows in a stream of Arrow takes beside the stream, with
    the dictionaries before it: what is packed says so before it is unpacked.

    Raises:
        OSError: one is larger than :func:`most_bytes`, or the stream does not end at its end.
    """
    data, at, dictionaries = memoryview(stream), 0, 0
    while True:
        begin, size = at, _number(data, at)
        at += 4
        if size == _NEWER:
            size, at = _number(data, at), at + 4
        if not size:
            break
        head, body = data[at : at + size], at + size
        message = _number(head, 0)
        kind = _read_field(head, message, 1, 1)
        at = body + _read_field(head, message, 3, 8)
        if begin == 0:
            continue  # the schema
        if kind not in (_DICTIONARY, _BATCH):
            raise OSError(_DAMAGED)
        batch = _follow(head, message, 2)
        if kind == _DICTIONARY:
            batch = _follow(head, batch, 1)
        buffers, is_packed = list(_read_buffers(head, batch)), _find_field(head, batch, 3)
        is_empty = not is_packed and not _read_field(head, batch, 0, 8)
        if is_empty and bytes(data[body:at]).strip(b"\0"):
            raise OSError(_DAMAGED)
        weight = dictionaries
        if is_packed:
            sizes = (_number(data, body + begin, 8) for begin, size in buffers if size)
            weight += sum(size for size in sizes if size != _AS_IS)
        check_size("rows of one batch", weight)
        if kind == _DICTIONARY:
            dictionaries = weight
        else:
            yield weight
    if at != len(data):
        raise OSError(_DAMAGED)


def _read_buffers(head: memoryview, batch: int) -> Iterator[tuple[int, int]]:
    """Yield where each buffer of a batch begins in its body, and its size there."""
    buffers = _follow(head, batch, 2)
    for at in range(buffers + 4, buffers + 4 + 16 * _number(head, buffers), 16):
        yield _number(head, at, 8), _number(head, at + 8, 8)


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
            yield from (batch.slice(n, ROWS) for n in range(0, batch.num_rows, ROWS))
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
