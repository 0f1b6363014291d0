"""Tables that are kept by columns, Parquet and Arrow, as rows: none is made that would not fit in
memory, whatever a file of a few kilobytes unpacks to.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from annotator.regular import check_size, check_unpacked, most_bytes
from annotator.traces.document import open_file

_ROWS = 64  # in memory at a time, where they are not large
_COPIES = 4  # of what is read, while it is
_MOST_VALUES = 200_000_000  # in the lists of one row group: each takes some bytes while it is read
_CELL = 64  # bytes that a value takes at least
_ONCE = {None, 2, 8}  # pages that are dictionaries, or numbers of what stands in one
_VARINT = range(0, 70, 7)


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
        OSError: a row is larger than :func:`most_bytes`.
    """
    import pyarrow as pa

    with open_file(path) as file:
        in_blocks = file.read(4) == b"ARRO"
    with pa.memory_map(path) as source:
        reader = pa.ipc.open_file(source) if in_blocks else pa.ipc.open_stream(source)
        batches = map(reader.get_batch, range(reader.num_record_batches)) if in_blocks else reader
        yield from checked_rows(batches, reader.schema, Path(path).stat().st_size)


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
    group, pages, values, texts = file.metadata.row_group(number), 0, 0, []
    for n in range(group.num_columns):
        column, chunk = file.schema.column(n), group.column(n)
        begin = chunk.data_page_offset
        if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < begin:
            begin = chunk.dictionary_page_offset
        listed = list(_pages(raw, begin, begin + chunk.total_compressed_size))
        pages += max((page.size for page in listed), default=0)
        if column.max_repetition_level:
            values += sum(page.values for page in listed)
            if column.physical_type == "BYTE_ARRAY" and {page.encoding for page in listed} <= _ONCE:
                texts.append(column.path)
    check_size("pages of one row group", pages)
    if values > _MOST_VALUES:
        raise OSError(f"more than {_MOST_VALUES} values in the lists of one row group")
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
