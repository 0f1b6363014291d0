"""The rows of tables that are stored by columns: Parquet and Arrow."""

from collections.abc import Iterator
from typing import Any

from annotator.base.regular import get_size_limit
from annotator.traces.document import open_file

_ROWS = 64  # in memory at a time, where they are not large
_SHARE = 8  # a batch is at most this part of the largest document that is read
_CUT = "damaged or cut off: rows may be missing"
_END = b"\xff\xff\xff\xff\0\0\0\0"


def read_parquet(path: str) -> Iterator[Any]:
    """Yield the rows of a Parquet file; raises what pyarrow raises."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, pre_buffer=False) as file:  # buffers stay until the file is read
        for n in range(file.num_row_groups):
            group = file.metadata.row_group(n)
            row = max(1, group.total_byte_size // max(1, group.num_rows))
            rows = min(_ROWS, max(1, get_size_limit() // _SHARE // row))
            for batch in file.iter_batches(batch_size=rows, row_groups=[n]):
                yield from batch.to_pylist()


def read_arrow(path: str) -> Iterator[Any]:
    """Yield the rows of an Arrow file, or of a stream in a file; raises what pyarrow raises.

    Raises:
        UnreadableTrace: it is no regular file.
        OSError: the stream does not end where the file does. pyarrow reads it as a shorter one.
    """
    import pyarrow as pa

    with open_file(path), pa.memory_map(path) as source:
        data = source.read_buffer()
        if data[:4] == b"ARRO":
            file = pa.ipc.open_file(data)
            yield from _rows(file.get_batch(n) for n in range(file.num_record_batches))
            return
        mark = _END if data[:4] == _END[:4] else _END[4:]  # before Arrow 0.15
        if data[-len(mark) :] != mark:
            raise OSError(_CUT)
        source.seek(0)
        yield from _rows(pa.ipc.open_stream(source))
        if source.tell() < source.size():  # two streams, one behind the other
            raise OSError(_CUT)


def _rows(batches: Any) -> Iterator[Any]:
    for batch in batches:
        batch.validate(full=True)  # offsets out of the file end the process
        for begin in range(0, batch.num_rows, _ROWS):
            yield from batch.slice(begin, _ROWS).to_pylist()
