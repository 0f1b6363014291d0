"""A file of any kind as JSON documents: what it holds is told by its content, not by its name.

One document, JSON on lines, a table (CSV, Parquet, Arrow), an Inspect log, a data set of the hub or
one saved to disk; plain, gzip or zstd; UTF-8 or, with a byte order mark, UTF-16.
"""

import csv
import io
import json
import os
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

from annotator.errors import UnreadableTrace
from annotator.files import explain_errors
from annotator.regular import check_size, check_unpacked, lines_of, most_bytes, read_whole
from annotator.text import decode, find_repeated
from annotator.traces import columnar, hub
from annotator.traces.document import check_values, open_file, parse
from annotator.traces.records import parse_inner

SUFFIXES = frozenset(
    (".json", ".jsonl", ".ndjson", ".traj", ".eval", ".parquet", ".arrow", ".csv", ".tsv")
)
"""Of the files in a folder that are looked into, in capitals or not, with .gz or .zst or without;
a file that is named by itself is looked into whatever its name."""

HUB = "hf://"
SAVED = frozenset(("dataset_info.json", "state.json"))
"""The files of a folder that `datasets` saved a data set in."""

_COMPRESSED = (".gz", ".zst")
_PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_LINES = (".jsonl", ".ndjson")
_HEAD = 4096
_ZSTD = 93  # a method of compression in archives

Record = tuple[int, int, Callable[[], Any]]
"""Its number, from 1; the byte at which it begins, 0 where it is found by its number; what returns
its document or raises :class:`UnreadableTrace`."""


def _text_lines(file: BinaryIO, encoding: str | None) -> Iterator[str]:
    """Yield the lines of a file that is decoded as it is read."""
    return lines_of(io.TextIOWrapper(file, encoding or "utf-8-sig", "replace", newline="\n"))


def itself(value: Any) -> Any:
    """Return a value as it is: what returns a document that is in memory."""
    return value


def is_on_lines(path: str) -> bool:
    """Whether a file's name says that it is JSON on lines."""
    return _suffix(path) in _LINES


def is_looked_into(file: str) -> bool:
    """Whether a file of this name in a folder may hold traces."""
    return _suffix(file) in SUFFIXES


@dataclass(frozen=True, slots=True)
class Document:
    """A file that is one JSON document."""

    path: str

    def load(self) -> Any:
        """Return it; raises UnreadableTrace."""
        name = Path(self.path).name
        with _open(self.path) as (file, encoding):
            data = read_whole(file)
            text = data.decode(encoding, errors="replace") if encoding else decode(data)
            return parse(text, name)


@dataclass(frozen=True, slots=True)
class JsonLines:
    """A file of JSON documents, each on a line."""

    path: str
    name: str
    seekable: bool = True
    keeps: Any = field(default=None, compare=False)  # what goes when it does: a scratch folder

    def records(self, number: int = 1, offset: int = 0) -> Iterator[Record]:
        """Yield its lines that are not empty, one in memory at a time, from line ``number`` at byte
        ``offset`` on; raises UnreadableTrace.
        """
        for n, at, text in self._texts(number, offset):
            yield n, at, partial(parse, text, self.name, line=n)

    def at(self, number: int, offset: int) -> Any:
        """Return the document on a line; raises UnreadableTrace."""
        for _, _, load in self.records(number, offset):
            return load()
        raise UnreadableTrace(f"{self.name}, line {number}: gone")

    def _texts(self, number: int, offset: int) -> Iterator[tuple[int, int, str]]:
        with _open(self.path) as (file, encoding):
            if not self.seekable:
                lines = _text_lines(file, encoding)
                for n, text in islice(enumerate(lines, 1), number - 1, None):
                    if text.strip():
                        yield n, 0, text
                return
            file.seek(offset)
            for n, data in enumerate(lines_of(file), number):
                text = decode(data) if n == 1 else data.decode("utf-8", errors="replace")
                if text.strip():
                    yield n, offset, text
                offset += len(data)


@dataclass(frozen=True, slots=True)
class Rows:
    """A file of records that are found by their number only, in order."""

    name: str
    rows: Callable[[], Iterable[Any]]

    def records(self, number: int = 1, offset: int = 0) -> Iterator[Record]:
        """Yield them from this number on; raises UnreadableTrace, or AnnotatorError for a data set
        of the hub that cannot be loaded.
        """
        for n, row in enumerate(islice(self.rows(), number - 1, None), number):
            yield n, 0, partial(itself, row)


Contents = Document | JsonLines | Rows


def open_contents(path: str) -> Contents:
    """Return what a file holds, or a data set.

    Raises:
        UnreadableTrace: it is missing, not regular, not allowed, empty or nothing of these kinds.
    """
    name = Path(path).name
    if path.startswith(HUB):
        return Rows(path, lambda: (record for _, record in hub.records(path)))
    if os.path.isdir(path):  # noqa: PTH112 - as often as there are files
        return Rows(name, lambda: hub.saved_records(path))
    suffix = _suffix(path)
    with _open(path) as (file, encoding):
        head = file.read(_HEAD)
        if head.startswith(b"PAR1"):
            return Rows(name, lambda: _explain(name, columnar.parquet_rows(path)))
        if head.startswith(b"ARROW1") or suffix == ".arrow":
            return Rows(name, lambda: _explain(name, columnar.arrow_rows(path)))
        if head.startswith(b"PK\x03\x04"):
            return Rows(name, lambda: _explain(name, _archive_documents(path)))
        if encoding is None and b"\x00" in head:
            raise UnreadableTrace(f"{name}: binary data, not JSON")
        if suffix in (".csv", ".tsv"):
            mark = "\t" if suffix == ".tsv" else ","
            return Rows(name, lambda: _csv_rows(path, mark))
        file.seek(0)
        texts = (line for line in _text_lines(file, encoding) if line.strip())
        first, second = next(texts, ""), next(texts, "")
    if not first:
        raise UnreadableTrace(f"{name}: empty file")
    if _are_lines(first, second, suffix in _LINES):
        return JsonLines(path, name, encoding is None and not _is_compressed(head_of(path)))
    return Document(path)


def _are_lines(first: str, second: str, named: bool) -> bool:
    """Whether a file whose first lines are these is JSON on lines; ``named``: its name says so."""
    if not second:
        return named
    if _is_json(first):
        return True
    return _is_json(second, containers=True) and not _is_begun(first + second)


def _is_begun(text: str) -> bool:
    """Whether a text may be the beginning of one document, with its only item on line two."""
    from pydantic_core import from_json

    try:
        check_values(text, "")
        from_json(text, allow_partial=True)
    except UnreadableTrace:
        return True
    except ValueError:
        return False
    return True


def _is_json(text: str, *, containers: bool = False) -> bool:
    try:
        value = parse(text, "")
    except UnreadableTrace:
        return False
    return isinstance(value, dict | list) or not containers


@lru_cache(maxsize=4)
def make_seekable(path: str, stamp: tuple[int, int] | None) -> JsonLines:
    """Return the records of a file with this stamp as lines that are found by their byte; those of
    tables and compressed files as a temporary copy, which goes when nothing needs it any more.

    Raises:
        UnreadableTrace, AnnotatorError: as its records.
    """
    contents = open_contents(path)
    if isinstance(contents, JsonLines) and contents.seekable:
        return contents
    if isinstance(contents, Document):
        raise UnreadableTrace(f"{Path(path).name}: one document, no records")
    scratch = TemporaryDirectory(ignore_cleanup_errors=True)
    copy = Path(scratch.name) / "records.jsonl"
    name, line = Path(path).name, 1
    with explain_errors(copy), copy.open("w", encoding="ascii") as out:
        for number, _, load in contents.records():
            try:
                value = json.dumps(load(), default=_as_json)
            except UnreadableTrace:
                value = "{"  # it is not read here either, and says so on the line that it has
            out.write("\n" * (number - line) + value)
            line = number
    return JsonLines(str(copy), name, keeps=scratch)


def _as_json(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _suffix(path: str) -> str:
    stem = path.lower()
    for ending in _COMPRESSED:
        stem = stem.removesuffix(ending)
    return os.path.splitext(stem)[1]  # noqa: PTH122 - as often as there are files


def head_of(path: str) -> bytes:
    """Return the first bytes of a file as they are on disk; raises UnreadableTrace."""
    with open_file(path) as file:
        return file.read(4)


def _is_compressed(head: bytes) -> bool:
    return head.startswith(tuple(_PACKED))


class _Unpacked(io.RawIOBase):
    """What a file in gzip or zstd holds, unpacked as it is read; it can be read from its beginning
    again. A small file that would take hours to read raises :class:`OSError`.
    """

    def __init__(self, path: str, packing: str) -> None:
        self._path, self._packing = path, packing
        self._size = Path(path).stat().st_size
        self.seek(0)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        if (offset, whence) == (0, 0):
            import pyarrow as pa

            packed = open_file(self._path)
            self._at, self._file = 0, pa.input_stream(packed, compression=self._packing)
        elif (offset, whence) != (0, 1):
            raise io.UnsupportedOperation("only back to the beginning")
        return self._at

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        self._at += len(data)
        check_unpacked(self._at, self._size)
        return len(data)


@contextmanager
def _open(path: str) -> Iterator[tuple[BinaryIO, str | None]]:
    """Open a regular file, decompressed; with the encoding that its mark tells, None for UTF-8."""
    name = Path(path).name
    try:
        with open_file(path) as raw:
            file: BinaryIO = raw
            head = raw.read(4)
            raw.seek(0)
            packing = next((name for mark, name in _PACKED.items() if head.startswith(mark)), None)
            if packing:
                file = io.BufferedReader(_Unpacked(path, packing), 1 << 20)
            mark = file.read(2) if file is not raw else head[:2]
            file.seek(0)
            yield file, "utf-16" if mark in (b"\xff\xfe", b"\xfe\xff") else None
    except (EOFError, OSError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).split("\n")[0]
        raise UnreadableTrace(f"{name}: {reason}") from error


def _explain(name: str, rows: Iterable[Any]) -> Iterator[Any]:
    """Yield what there is; what libraries raise in between is UnreadableTrace."""
    try:
        yield from rows
    except UnreadableTrace:
        raise
    except Exception as error:  # of three libraries, on files of strangers
        reason = " ".join((getattr(error, "strerror", None) or str(error)).split())[:300]
        raise UnreadableTrace(f"{name}: cannot be read: {reason}") from error


def _csv_rows(path: str, mark: str) -> Iterator[Any]:
    csv.field_size_limit(1 << 31)  # a cell may hold a whole trace
    name = Path(path).name
    with _open(path) as (file, encoding):
        text = io.TextIOWrapper(file, encoding or "utf-8-sig", "replace", newline="")
        read, most = 0, most_bytes()  # characters of the row that is being read

        def lines() -> Iterator[str]:
            nonlocal read
            for line in lines_of(text):
                read += len(line)
                if read > most:
                    check_size("a row", read)
                yield line

        try:
            table = csv.DictReader(lines(), delimiter=mark)
            names = [name for name in table.fieldnames or () if name]
            for twice in find_repeated(names):
                raise UnreadableTrace(f"{name}: two columns are named {twice!r}")
            for row in table:
                read = 0
                if None in row:  # a text with a mark in it and no quotes around it: half of it
                    where = f"{name}, line {table.line_num}"
                    raise UnreadableTrace(f"{where}: more cells than columns; quote the texts")
                yield {key: parse_inner(cell) for key, cell in row.items() if key and cell != ""}
        except csv.Error as error:
            raise UnreadableTrace(f"{name}: not a table: {error}") from error


def _archive_documents(path: str) -> Iterator[Any]:
    """Yield the samples of an Inspect log, each as a log of one sample."""
    import zipfile

    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        heads = [name for name in ("header.json", "_journal/start.json") if name in names]
        if not heads:
            reason = "a zip archive that is no Inspect log: unpack it"
            raise UnreadableTrace(f"{Path(path).name}: {reason}")
        log = parse(decode(_read_member(archive, heads[0])), heads[0])
        for name in names:
            if name.startswith("samples/") and name.endswith(".json"):
                sample = parse(decode(_read_member(archive, name)), name)
                yield {**log, "samples": [sample]} if isinstance(log, dict) else sample


def _read_member(archive: Any, name: str) -> bytes:
    """Return a member of an archive, also one in zstd, which newer versions of Inspect write and
    Python reads from 3.14 on.
    """
    info = archive.getinfo(name)
    if info.file_size > most_bytes():
        raise UnreadableTrace(f"{name}: larger than {most_bytes() >> 20} MB (ANNOTATOR_MAX_MB)")
    if info.compress_type != _ZSTD:
        return bytes(archive.read(info))
    import pyarrow as pa

    with open_file(archive.filename) as file:
        file.seek(info.header_offset + 26)  # the lengths of name and extra field, before both
        name_size, extra_size = struct.unpack("<HH", file.read(4))
        file.seek(name_size + extra_size, os.SEEK_CUR)
        packed = pa.BufferReader(file.read(info.compress_size))
    return read_whole(pa.input_stream(packed, compression="zstd"))
