"""JSON documents in files: one document, lines, a table, an Inspect log or a data set.

The content of a file decides how it is read, not its name. It is plain, gzip or zstd; UTF-8, or
UTF-16 with a byte order mark.
"""

import csv
import io
import json
import os
import socket
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

from annotator.base.errors import AnnotatorError, UnreadableTrace
from annotator.base.files import (
    explain_errors,
    get_size_limit,
    open_checked,
    read_bounded,
    read_bounded_lines,
    read_whole,
)
from annotator.base.text import decode, find_repeated
from annotator.traces.records import parse_json, parse_nested

SUFFIXES = frozenset(
    (".json", ".jsonl", ".ndjson", ".traj", ".eval", ".parquet", ".arrow", ".csv", ".tsv")
)
"""Suffixes of the files in a folder that are opened, in any case, also with .gz or .zst."""

_COMPRESSED = (".gz", ".zst")
_COMPRESSIONS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_LINES = (".jsonl", ".ndjson")
_HEAD = 4096
_ZSTD = 93  # a method of compression in archives
_BATCH_ROWS = 64  # in memory at a time, where they are not large
_BATCH_SHARE = 8  # a batch is at most this part of the largest document
_CUT = "damaged or cut off: rows may be missing"
_PLAIN_TEXT = (
    "plain text, not JSON, and no log of ChatDev, MetaGPT, HyperAgent, AppWorld, Magentic-One,"
    " OpenManus or AG2; write each run as a line of JSON:"
    ' {"id": "r1", "messages": [{"from": "ann", "text": "I start."}]}'
)
_END_MARK = b"\xff\xff\xff\xff\0\0\0\0"

Record = tuple[int, int, Callable[[], Any]]
"""The number of a record, from 1; the byte at which its line begins, else 0; a function that
returns its document or raises :class:`UnreadableTrace`."""


# --- a whole file


def open_file(path: str) -> io.BufferedReader:
    """Return a regular file, open for reading bytes; raises UnreadableTrace."""
    try:
        return open_checked(path)
    except OSError as error:
        raise UnreadableTrace(f"{Path(path).name}: {error.strerror or error}") from error


def read_bytes(folder: str, name: str) -> bytes:
    """Return the bytes of a file in a folder; raises UnreadableTrace."""
    try:
        return read_bounded(f"{folder}/{name}")
    except OSError as error:
        raise UnreadableTrace(f"{name}: {error.strerror or error}") from error


def read_text(folder: str, name: str) -> str:
    """Return a file's text, line ends as they are, bytes that are not UTF-8 as U+FFFD."""
    return decode(read_bytes(folder, name))


def read_json(folder: str, name: str) -> Any:
    """Return the JSON value in a file; raises UnreadableTrace."""
    return parse_json(read_bytes(folder, name), name)


# --- the documents in a file


def has_lines_suffix(path: str) -> bool:
    """Whether a file's name says that it is JSON on lines."""
    return _find_suffix(path) in _LINES


def has_trace_suffix(file: str) -> bool:
    """Whether a file of this name in a folder may hold traces."""
    return _find_suffix(file) in SUFFIXES


@dataclass(frozen=True, slots=True)
class JsonLines:
    """A file of JSON documents, each on a line."""

    path: str
    name: str
    seekable: bool = True
    scratch: Any = field(default=None, compare=False)  # a folder that is removed with this value

    def records(self, number: int = 1, offset: int = 0) -> Iterator[Record]:
        """Yield the lines from line ``number`` at byte ``offset`` on, but empty ones."""
        with _open(self.path) as (file, encoding):
            if not self.seekable:
                for n, line in islice(enumerate(_read_lines(file, encoding), 1), number - 1, None):
                    if line.strip():
                        yield n, 0, partial(parse_json, line, self.name, line=n)
                return
            file.seek(offset)
            for n, data in enumerate(read_bounded_lines(file), number):
                text = decode(data) if n == 1 else data.decode("utf-8", errors="replace")
                if text.strip():
                    yield n, offset, partial(parse_json, text, self.name, line=n)
                offset += len(data)

    def at(self, number: int, offset: int) -> Any:
        """Return the document on a line; raises UnreadableTrace."""
        for _, _, load in self.records(number, offset):
            return load()
        raise UnreadableTrace(f"{self.name}, line {number}: gone")


@dataclass(frozen=True, slots=True)
class Rows:
    """Records that are found by their number only, in order; in a list, those in memory."""

    name: str
    rows: list[Any] | Callable[[], Iterable[Any]]

    def records(self) -> Iterator[Record]:
        """Yield the records; raises UnreadableTrace, for the hub AnnotatorError."""
        rows = self.rows if isinstance(self.rows, list) else self.rows()
        return ((n, 0, partial(lambda value: value, row)) for n, row in enumerate(rows, 1))

    def at(self, number: int, _: int) -> Any:
        """Return a record; raises as :meth:`records`."""
        if isinstance(self.rows, list):
            return self.rows[number - 1]
        for row in islice(self.rows(), number - 1, None):
            return row
        raise UnreadableTrace(f"{self.name}, record {number}: gone")


def open_contents(path: str) -> JsonLines | Rows:
    """Return the records of a file or data set, or its one document; raises UnreadableTrace."""
    name = Path(path).name
    if path.startswith("hf://"):
        return Rows(path, lambda: _read_hub(path))
    suffix = _find_suffix(path)
    with _open(path) as (file, encoding):
        seekable = encoding is None and isinstance(file.raw, io.FileIO)
        head = file.peek(_HEAD)[:_HEAD]
        if head.startswith(b"PAR1"):
            return Rows(name, lambda: _explain(f"{name}: cannot be read", _read_parquet(path)))
        if head.startswith(b"ARROW1") or suffix == ".arrow":
            return Rows(name, lambda: _explain(f"{name}: cannot be read", _read_arrow(path)))
        if head.startswith(b"PK\x03\x04"):
            return Rows(name, lambda: _explain(f"{name}: cannot be read", _read_archive(path)))
        if encoding is None and b"\x00" in head:
            raise UnreadableTrace(f"{name}: binary data, not JSON")
        if suffix in (".csv", ".tsv"):
            header = head.decode(encoding or "utf-8", "replace").partition("\n")[0]
            mark = max("\t" if suffix == ".tsv" else ",", ";", "\t", key=header.count)
            return Rows(name, lambda: _read_csv(path, mark))
        lines = (line for line in _read_lines(file, encoding) if line.strip())
        first, second = next(lines, ""), next(lines, "")
    if not first:
        raise UnreadableTrace(f"{name}: empty file")
    if _are_lines(first, second, suffix in _LINES):
        return JsonLines(path, name, seekable)
    return Rows(name, [_load_document(path)])


def _load_document(path: str) -> Any:
    """Return the JSON document in a file, or the log as text."""
    with _open(path) as (file, encoding):
        data = read_whole(file)
    text = data.decode(encoding, errors="replace") if encoding else data
    try:
        return parse_json(text, Path(path).name)
    except UnreadableTrace:
        from annotator.traces.formats import crewai, framework_log  # only for what is no JSON

        text = text if isinstance(text, str) else decode(text)
        document = crewai.parse_log(text) or {framework_log.KEY: text}
        if isinstance(document, list) or framework_log.matches(document):
            return document
        if text.lstrip()[:1].isalnum():
            raise UnreadableTrace(f"{Path(path).name}: {_PLAIN_TEXT}") from None
        raise


def copy_records(contents: JsonLines | Rows) -> JsonLines:
    """Return records as lines found by their byte: those of tables in a temporary file."""
    if isinstance(contents, JsonLines) and contents.seekable:
        return contents
    scratch = TemporaryDirectory(ignore_cleanup_errors=True)
    copy, line = Path(scratch.name) / "records.jsonl", 1
    with explain_errors(copy), copy.open("w", encoding="ascii") as out:
        for number, _, load in contents.records():
            try:
                value = json.dumps(load(), default=_stringify)
            except UnreadableTrace:
                value = "{"  # the same line is unreadable in the copy
            out.write("\n" * (number - line) + value)
            line = number
    return JsonLines(str(copy), contents.name, scratch=scratch)


def _stringify(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _are_lines(first: str, second: str, has_suffix: bool) -> bool:
    """Whether a file with these first lines is JSON on lines."""
    if not second:
        return has_suffix
    # A line that cannot be read, before one that can; or a document with its only item on line two.
    continues = first.rstrip().endswith(("[", ",", ":"))
    return _is_json(first) or (_is_json(second, containers=True) and not continues)


def _is_json(text: str, *, containers: bool = False) -> bool:
    try:
        value = parse_json(text, "")
    except UnreadableTrace:
        return False
    return isinstance(value, dict | list) or not containers


def _find_suffix(path: str) -> str:
    stem = path.lower()
    for ending in _COMPRESSED:
        stem = stem.removesuffix(ending)
    return os.path.splitext(stem)[1]  # noqa: PTH122 - as often as there are files


@contextmanager
def _open(path: str) -> Iterator[tuple[io.BufferedReader, str | None]]:
    """Open a regular file, decompressed; with the encoding of its mark, None for UTF-8."""
    try:
        with open_file(path) as file:
            head = file.peek(4)
            for magic, compression in _COMPRESSIONS.items():
                if head.startswith(magic):
                    import pyarrow as pa

                    file = io.BufferedReader(
                        pa.input_stream(file, compression=compression), 1 << 20
                    )
            mark = file.peek(2)[:2]
            yield file, "utf-16" if mark in (b"\xff\xfe", b"\xfe\xff") else None
    except (EOFError, OSError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).split("\n")[0]
        raise UnreadableTrace(f"{Path(path).name}: {reason}") from error


def _read_lines(file: io.BufferedReader, encoding: str | None, newline: str = "\n") -> Any:
    return read_bounded_lines(
        io.TextIOWrapper(file, encoding or "utf-8-sig", "replace", newline=newline)
    )


def _explain(problem: str, rows: Iterable[Any]) -> Iterator[Any]:
    """Yield rows. Errors of the libraries that read them become UnreadableTrace."""
    try:
        yield from rows
    except UnreadableTrace:
        raise
    except Exception as error:  # of three libraries, on files of strangers
        reason = " ".join((getattr(error, "strerror", None) or str(error)).split())[:300]
        raise UnreadableTrace(f"{problem}: {reason}") from error


# --- tables, logs and data sets


def _read_csv(path: str, delimiter: str) -> Iterator[Any]:
    csv.field_size_limit(get_size_limit())  # a cell may hold a whole trace
    name = Path(path).name
    with _open(path) as (file, encoding):
        try:
            table = csv.DictReader(_read_lines(file, encoding, ""), delimiter=delimiter)
            for column in find_repeated([name for name in table.fieldnames or () if name]):
                raise UnreadableTrace(f"{name}: two columns are named {column!r}")
            for row in table:
                if None in row:  # an unquoted text with a delimiter in it
                    where = f"{name}, line {table.line_num}"
                    raise UnreadableTrace(f"{where}: more cells than columns; quote the texts")
                yield {key: parse_nested(cell) for key, cell in row.items() if key and cell != ""}
        except csv.Error as error:
            raise UnreadableTrace(f"{name}: not a table: {error}") from error


def _read_parquet(path: str) -> Iterator[Any]:
    """Yield the rows of a Parquet file; raises what pyarrow raises."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, pre_buffer=False) as file:  # buffers stay until the file is read
        for n in range(file.num_row_groups):
            group = file.metadata.row_group(n)
            row_bytes = max(1, group.total_byte_size // max(1, group.num_rows))
            rows = min(_BATCH_ROWS, max(1, get_size_limit() // _BATCH_SHARE // row_bytes))
            for batch in file.iter_batches(batch_size=rows, row_groups=[n]):
                yield from batch.to_pylist()


def _read_arrow(path: str) -> Iterator[Any]:
    """Yield the rows of an Arrow file or stream; pyarrow reads a cut stream as a shorter one."""
    import pyarrow as pa

    with open_file(path), pa.memory_map(path) as source:
        data = source.read_buffer()
        if data[:4] == b"ARRO":
            file = pa.ipc.open_file(data)
            yield from _list_rows(file.get_batch(n) for n in range(file.num_record_batches))
            return
        mark = _END_MARK if data[:4] == _END_MARK[:4] else _END_MARK[4:]  # before Arrow 0.15
        if data[-len(mark) :] != mark:
            raise OSError(_CUT)
        source.seek(0)
        yield from _list_rows(pa.ipc.open_stream(source))
        if source.tell() < source.size():  # two streams, one behind the other
            raise OSError(_CUT)


def _list_rows(batches: Any) -> Iterator[Any]:
    for batch in batches:
        batch.validate(full=True)  # offsets out of the file end the process
        for begin in range(0, batch.num_rows, _BATCH_ROWS):
            yield from batch.slice(begin, _BATCH_ROWS).to_pylist()


def _read_archive(path: str) -> Iterator[Any]:
    """Yield the samples of an Inspect log, each as a log of one sample."""
    import zipfile

    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        headers = [name for name in ("header.json", "_journal/start.json") if name in names]
        if not headers:
            reason = "a zip archive that is no Inspect log: unpack it"
            raise UnreadableTrace(f"{Path(path).name}: {reason}")
        log = parse_json(_read_member(archive, headers[0]), headers[0])
        for name in names:
            if name.startswith("samples/") and name.endswith(".json"):
                sample = parse_json(_read_member(archive, name), name)
                yield {**log, "samples": [sample]} if isinstance(log, dict) else sample


def _read_member(archive: Any, name: str) -> bytes:
    """Return a member of an archive, also one in zstd, which newer versions of Inspect write."""
    info = archive.getinfo(name)
    if info.file_size > get_size_limit():
        raise UnreadableTrace(f"{name}: larger than {get_size_limit() >> 20} MB (ANNOTATOR_MAX_MB)")
    if info.compress_type != _ZSTD:
        return bytes(archive.read(info))
    import pyarrow as pa  # zipfile reads zstd from Python 3.14 on

    with open_file(archive.filename) as file:
        file.seek(info.header_offset + 26)  # the lengths of name and extra field, before both
        name_size, extra_size = struct.unpack("<HH", file.read(4))
        file.seek(name_size + extra_size, os.SEEK_CUR)
        member = pa.BufferReader(file.read(info.compress_size))
    return read_whole(pa.input_stream(member, compression="zstd"))


# --- the hub


def _read_hub(source: str) -> Iterator[Any]:
    """Yield the records of a hub data set ``hf://org/name[:split]``, by default of ``train``.

    A folder ``org/name`` below the current one is read in place of the hub's. Raises
    :class:`AnnotatorError` if it cannot be loaded.
    """
    name, _, split = source.removeprefix("hf://").partition(":")
    _check_reachable(source, name)
    import datasets  # 0.8 s: only for those who name a data set

    try:
        for record in datasets.load_dataset(name, split=split or "train", streaming=True):
            yield dict(record)
    except Exception as error:  # datasets raises errors of a dozen libraries
        reason = " ".join(str(error).split())[:300]
        raise AnnotatorError(f"{source}: cannot be loaded: {reason}") from error


def _check_reachable(source: str, name: str) -> None:
    """Raise :class:`AnnotatorError` if the hub has no address: `datasets` tries for 30 seconds."""
    from urllib.request import getproxies  # takes 5 % of the start of any command

    if Path(name).is_dir() or getproxies():
        return
    host = urlsplit(os.environ.get("HF_ENDPOINT") or "https://huggingface.co").hostname
    try:
        socket.getaddrinfo(host, 443)
    except OSError as error:
        reason = f"{host} cannot be reached ({error.strerror or error})"
        raise AnnotatorError(f"{source}: cannot be loaded: {reason}") from error
