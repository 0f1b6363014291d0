"""Tables that are kept by columns, Parquet and Arrow, as rows: none is made that would not fit in
memory, whatever a file of a few kilobytes unpacks to.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from annotator.regular import check_size, check_unpacked, most_bytes
from annotator.traces.arrow_headers import DAMAGED, weigh_file, weigh_stream
from annotator.traces.document import open_file
from annotator.traces.parquet_headers import find_columns, read_pages

_ROWS = 64  # in memory at a time, where they are not large
_COPIES = 4  # of what is read, while it is
_CELL = 64  # bytes that a value takes at least
_LEVELS = 12  # bytes that a value in a list of Parquet takes beside its own
_WIDTHS = {"INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 12}
_DELTAS = 7  # of texts that share their beginnings
_ONCE = {None, 0, 2, 8}  # pages that are dictionaries, hold texts, or numbers of what stands in one


def parquet_rows(path: str) -> Iterator[Any]:
    """Yield the rows of a Parquet file.

    Raises:
        OSError: a page of it, or a row, is larger than :func:`most_bytes`.
    """
    import pyarrow.parquet as pq

    def batches() -> Iterator[Any]:
        with open_file(path) as raw:
            groups = zip(range(file.num_row_groups), find_columns(raw), strict=True)
            for group, columns in groups:
                rows, texts = _look_at(raw, file.schema, columns)
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
        weights = list(weigh_file(data)) if in_blocks else weigh_stream(data)
        with pa.ipc.open_file(data) if in_blocks else pa.ipc.open_stream(data) as reader:
            if not reader.schema.names:
                raise OSError(DAMAGED)
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
        check_size("packed rows", sum(weigh_stream(source.read_buffer())))


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


def _look_at(
    raw: BinaryIO, schema: Any, columns: Sequence[tuple[int, int]]
) -> tuple[int, list[str]]:
    """Return how many rows of a row group may be in memory: no cell is larger than the pages that
    are, one of each column; and the columns of texts in lists that stand in the file but once: they
    are to stay so until they are weighed.
    """
    pages, lists, texts = 0, 0, []
    for n, (begin, end) in zip(range(len(schema)), columns, strict=True):
        column, listed = schema.column(n), list(read_pages(raw, begin, end))
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
