"""The JSON documents in a file. The content of a file decides how it is read, not its name.

A file is one document, JSON on lines, a table (CSV, Parquet, Arrow), an Inspect log or a data set;
plain, gzip or zstd; UTF-8 or, with a byte order mark, UTF-16.
"""

import csv
import io
import json
import os
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from annotator.base.errors import UnreadableTrace
from annotator.base.files import explain_errors
from annotator.base.regular import get_size_limit, read_bounded_lines, read_whole
from annotator.base.text import decode, find_repeated
from annotator.traces import columnar, hub
from annotator.traces.document import open_file, parse_json
from annotator.traces.records import parse_nested

SUFFIXES = frozenset(
    (".json", ".jsonl", ".ndjson", ".traj", ".eval", ".parquet", ".arrow", ".csv", ".tsv")
)
"""Files of a folder that are opened, in capitals or not, with .gz or .zst or without. A file
that the user names is opened whatever its name."""

DATASET_FILES = frozenset(("dataset_info.json", "state.json"))
"""The files of a folder that `datasets` saved a data set in."""

_COMPRESSED = (".gz", ".zst")
_PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_LINES = (".jsonl", ".ndjson")
_HEAD = 4096
_ZSTD = 93  # a method of compression in archives

Record = tuple[int, int, Callable[[], Any]]
"""The number of a record, from 1; the byte at which its line begins, else 0; a function that
returns its document or raises :class:`UnreadableTrace`."""


def has_lines_suffix(path: str) -> bool:
    """Whether a file's name says that it is JSON on lines."""
    return _suffix(path) in _LINES


def has_trace_suffix(file: str) -> bool:
    """Whether a file of this name in a folder may hold traces."""
    return _suffix(file) in SUFFIXES


@dataclass(frozen=True, slots=True)
class Document:
    """A file that is one JSON document."""

    path: str

    def load(self) -> Any:
        """Return it; raises UnreadableTrace."""
        with _open(self.path) as (file, encoding):
            data = read_whole(file)
            text = data.decode(encoding, errors="replace") if encoding else decode(data)
            return parse_json(text, Path(self.path).name)


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
        with _open(self.path) as (file, encoding):
            if not self.seekable:
                lines = read_bounded_lines(
                    io.TextIOWrapper(file, encoding or "utf-8-sig", "replace", "\n")
                )
                for n, text in islice(enumerate(lines, 1), number - 1, None):
                    if text.strip():
                        yield n, 0, partial(parse_json, text, self.name, line=n)
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
    """Records that are found by their number only, in order."""

    name: str
    rows: Callable[[], Iterable[Any]]

    def records(self) -> Iterator[Record]:
        """Yield them; raises UnreadableTrace, or AnnotatorError for a data set of the hub that
        cannot be loaded.
        """
        return ((n, 0, partial(_itself, row)) for n, row in enumerate(self.rows(), 1))

    def at(self, number: int, _: int) -> Any:
        """Return a record; raises as :meth:`records`."""
        rows = self.rows()
        n = number - 1
        for row in rows[n:number] if isinstance(rows, list) else islice(rows, n, None):
            return row
        raise UnreadableTrace(f"{self.name}, record {number}: gone")


Contents = Document | JsonLines | Rows


def open_contents(path: str) -> Contents:
    """Return the document or the records of a file or data set.

    Raises:
        UnreadableTrace: the file is missing, closed, empty, a pipe, or of no such kind.
    """
    name = Path(path).name
    if path.startswith("hf://"):
        return Rows(path, lambda: (record for _, record in hub.load_hub_records(path)))
    if os.path.isdir(path):  # noqa: PTH112 - as often as there are files
        return Rows(name, lambda: hub.read_saved_dataset(path))
    suffix = _suffix(path)
    with _open(path) as (file, encoding):
        seekable = encoding is None and isinstance(file.raw, io.FileIO)
        head = file.peek(_HEAD)[:_HEAD]
        if head.startswith(b"PAR1"):
            return Rows(name, lambda: _explain(name, columnar.read_parquet(path)))
        if head.startswith(b"ARROW1") or suffix == ".arrow":
            return Rows(name, lambda: _explain(name, columnar.read_arrow(path)))
        if head.startswith(b"PK\x03\x04"):
            return Rows(name, lambda: _explain(name, _archive_documents(path)))
        if encoding is None and b"\x00" in head:
            raise UnreadableTrace(f"{name}: binary data, not JSON")
        if suffix in (".csv", ".tsv"):
            mark = "\t" if suffix == ".tsv" else ","
            return Rows(name, lambda: _csv_rows(path, mark))
        lines = read_bounded_lines(io.TextIOWrapper(file, encoding or "utf-8-sig", "replace", "\n"))
        texts = (line for line in lines if line.strip())
        first, second = next(texts, ""), next(texts, "")
    if not first:
        raise UnreadableTrace(f"{name}: empty file")
    if _are_lines(first, second, suffix in _LINES):
        return JsonLines(path, name, seekable)
    return Document(path)


def _are_lines(first: str, second: str, named: bool) -> bool:
    """Whether a file whose first lines are these is JSON on lines; ``named``: its name says so."""
    if not second:
        return named
    # A line that cannot be read, before one that can; or a document with its only item on line two.
    begun = first.rstrip().endswith(("[", ",", ":"))
    return _is_json(first) or (_is_json(second, containers=True) and not begun)


def _is_json(text: str, *, containers: bool = False) -> bool:
    try:
        value = parse_json(text, "")
    except UnreadableTrace:
        return False
    return isinstance(value, dict | list) or not containers


def list_records(values: list[Any]) -> Rows:
    """Return the records of a list that is in memory."""
    return Rows("", lambda: values)


def copy_records(contents: JsonLines | Rows) -> JsonLines:
    """Return records as lines that are found by their byte. Records of tables and compressed files
    are copied to a temporary file.

    Raises:
        UnreadableTrace, AnnotatorError: as its records.
    """
    if isinstance(contents, JsonLines) and contents.seekable:
        return contents
    scratch = TemporaryDirectory(ignore_cleanup_errors=True)
    copy, line = Path(scratch.name) / "records.jsonl", 1
    with explain_errors(copy), copy.open("w", encoding="ascii") as out:
        for number, _, load in contents.records():
            try:
                value = json.dumps(load(), default=_as_json)
            except UnreadableTrace:
                value = "{"  # it is not read here either, and says so on the line that it has
            out.write("\n" * (number - line) + value)
            line = number
    return JsonLines(str(copy), contents.name, keeps=scratch)


def _itself(value: Any) -> Any:
    return value


def _as_json(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _suffix(path: str) -> str:
    stem = path.lower()
    for ending in _COMPRESSED:
        stem = stem.removesuffix(ending)
    return os.path.splitext(stem)[1]  # noqa: PTH122 - as often as there are files


@contextmanager
def _open(path: str) -> Iterator[tuple[io.BufferedReader, str | None]]:
    """Open a regular file, decompressed; with the encoding that its mark tells, None for UTF-8."""
    name = Path(path).name
    try:
        with open_file(path) as file:
            head = file.peek(4)
            for magic, packing in _PACKED.items():
                if head.startswith(magic):
                    import pyarrow as pa

                    file = io.BufferedReader(pa.input_stream(file, compression=packing), 1 << 20)
            mark = file.peek(2)[:2]
            yield file, "utf-16" if mark in (b"\xff\xfe", b"\xfe\xff") else None
    except (EOFError, OSError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).split("\n")[0]
        raise UnreadableTrace(f"{name}: {reason}") from error


def _explain(name: str, rows: Iterable[Any]) -> Iterator[Any]:
    """Yield rows. Errors of the libraries that read them become UnreadableTrace."""
    try:
        yield from rows
    except UnreadableTrace:
        raise
    except Exception as error:  # of three libraries, on files of strangers
        reason = " ".join((getattr(error, "strerror", None) or str(error)).split())[:300]
        raise UnreadableTrace(f"{name}: cannot be read: {reason}") from error


def _csv_rows(path: str, mark: str) -> Iterator[Any]:
    csv.field_size_limit(get_size_limit())  # a cell may hold a whole trace
    name = Path(path).name
    with _open(path) as (file, encoding):
        text = io.TextIOWrapper(file, encoding or "utf-8-sig", "replace", newline="")
        try:
            table = csv.DictReader(read_bounded_lines(text), delimiter=mark)
            names = [name for name in table.fieldnames or () if name]
            for twice in find_repeated(names):
                raise UnreadableTrace(f"{name}: two columns are named {twice!r}")
            for row in table:
                if None in row:  # a text with a mark in it and no quotes around it: half of it
                    where = f"{name}, line {table.line_num}"
                    raise UnreadableTrace(f"{where}: more cells than columns; quote the texts")
                yield {key: parse_nested(cell) for key, cell in row.items() if key and cell != ""}
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
        log = parse_json(decode(_read_member(archive, heads[0])), heads[0])
        for name in names:
            if name.startswith("samples/") and name.endswith(".json"):
                sample = parse_json(decode(_read_member(archive, name)), name)
                yield {**log, "samples": [sample]} if isinstance(log, dict) else sample


def _read_member(archive: Any, name: str) -> bytes:
    """Return a member of an archive, also one in zstd, which newer versions of Inspect write and
    Python reads from 3.14 on.
    """
    info = archive.getinfo(name)
    if info.file_size > get_size_limit():
        raise UnreadableTrace(f"{name}: larger than {get_size_limit() >> 20} MB (ANNOTATOR_MAX_MB)")
    if info.compress_type != _ZSTD:
        return bytes(archive.read(info))
    import pyarrow as pa

    with open_file(archive.filename) as file:
        file.seek(info.header_offset + 26)  # the lengths of name and extra field, before both
        name_size, extra_size = struct.unpack("<HH", file.read(4))
        file.seek(name_size + extra_size, os.SEEK_CUR)
        packed = pa.BufferReader(file.read(info.compress_size))
    return read_whole(pa.input_stream(packed, compression="zstd"))
