"""Which traces a folder holds: one table of files and what is read from them."""

import csv
import gzip
import io
import json
import os
import struct
import tracemalloc

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from annotator.traces import Trace, Unreadable, read_traces
from annotator.traces.read import Library

HELLO, BYE = {"role": "ann", "content": "hello"}, {"role": "bob", "content": "bye"}
TALK = [HELLO, BYE]
RECORDS = [{"id": "a", "messages": TALK}, {"id": "b", "messages": [BYE]}]
CELLS = [record | {"messages": json.dumps(record["messages"])} for record in RECORDS]
PRETTY = json.dumps(TALK, indent=2)


def lines(*values):
    return "".join(
        f"{value if isinstance(value, str) else json.dumps(value)}\n" for value in values
    )


def zstd(text):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as out:
        out.write(text.encode())
    return sink.getvalue().to_pybytes()


def table(cells, mark=","):
    text = io.StringIO()
    writer = csv.DictWriter(text, cells[0], delimiter=mark)
    writer.writeheader()
    writer.writerows(cells)
    return text.getvalue()


def parquet(rows):
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue()


def arrow(records, make=pa.ipc.new_file, rows=None):
    table = pa.Table.from_pylist(records)
    sink = pa.BufferOutputStream()
    with make(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)
    return sink.getvalue().to_pybytes()


def say(conversation, text):
    return {"conversation_id": conversation, "role": "ann", "content": text}


APART = [say("one", "1a"), say("two", "2a"), say("one", "1b"), say("two", "2b")]
BOTH = ["one: 1a / 1b", "two: 2a / 2b"]
STRAY = {"role": "eve", "content": "stray"}
WHOLE = {"id": "r", "messages": TALK}
BAD = "not valid JSON: Expecting ':' delimiter at column 9"
SECOND = "a second trace with the id 'x'; give each its own, or name one folder above both"
NO_FORMAT = "no known format; see annotate traces --explain"
LOST = "records that cannot be read may belong to this trace"

# Files, and what stands in them: "id: texts {problems}", "id! why it cannot be read", "(ignored)".
CASES = {
    "one document": (
        {
            "A.JSON": PRETTY,
            "b.jsonl": PRETTY,
            "c.json.gz": gzip.compress(PRETTY.encode()),
            "d.json.zst": zstd(PRETTY),
            "e.json": gzip.compress(PRETTY.encode()),
            "f.json": PRETTY.encode("utf-16"),
            "g.json": ("\ufeff" + PRETTY).encode("utf-16-be"),
            "h.traj": PRETTY,
            "i.json": "\ufeff" + PRETTY,
            "j.json": {"id": "its path counts more", "messages": TALK},
        },
        [
            f"{name}: hello / bye"
            for name in (
                *("A.JSON", "b.jsonl", "c.json.gz", "d.json.zst", "e.json", "f.json", "g.json"),
                *("h.traj", "i.json", "j.json"),
            )
        ],
    ),
    **{
        f"records in {name}": ({name: data}, ["a: hello / bye", "b: bye"])
        for name, data in {
            "r.jsonl": lines(*RECORDS),
            "r.json": lines(*RECORDS),
            "list.json": RECORDS,
            "r.NDJSON": lines(RECORDS[0], "", "  ", RECORDS[1]).replace("\n", "\r\n"),
            "mark.jsonl": "\ufeff" + lines(*RECORDS).rstrip(),
            "r.jsonl.gz": gzip.compress(lines(*RECORDS).encode()),
            "r.jsonl.zst": zstd(lines(*RECORDS)),
            "utf-16.jsonl": lines(*RECORDS).encode("utf-16"),
            "r.csv": table(CELLS),
            "r.tsv": table(CELLS, "\t"),
            "r.csv.gz": gzip.compress(table(CELLS).encode()),
            "r.parquet": parquet(RECORDS),
            "texts.jsonl": lines(*CELLS),
            "texts.parquet": parquet(CELLS),
            "pandas.csv": table(
                [{**record, "messages": str(record["messages"])} for record in RECORDS]
            ),
            "r.arrow": arrow(RECORDS),
            "stream.arrow": arrow(RECORDS, pa.ipc.new_stream),
        }.items()
    },
    "messages on lines": ({"a.jsonl": lines(HELLO, "", " ", BYE)}, ["a.jsonl: hello / bye"]),
    "ids": (
        {
            "a.jsonl": lines({"id": 7, "messages": TALK}, {"id": "", "messages": TALK}),
            "b.jsonl": lines(TALK),
            "c.json": [{"id": "c", "name": "run 7", "text": "notes", "messages": TALK}],
            "d.json": [{"messages": TALK}],
        },
        [f"{name}: hello / bye" for name in ("7", "a.jsonl:2", "b.jsonl:1", "c", "d.json:1")],
    ),
    "letters of several bytes, and other ends of lines": (
        {"a.jsonl": '{"messages": [{"role": "a", "content": "x\u2028y\x85z é😀"}]}'},
        ["a.jsonl:1: x\u2028y\x85z é😀"],
    ),
    "bytes that are no text": (
        {"a.jsonl": b'{"id": "\xff\xe2\x82"}\n' + lines({"messages": TALK}).encode()},
        [f"(not a trace: an object with the keys id, {NO_FORMAT})", "a.jsonl:2: hello / bye"],
    ),
    "ids that stand twice": (
        {"a.jsonl": lines(*[{"id": "x", "messages": TALK}] * 2), "b.json": [WHOLE]},
        ["x: hello / bye", f"x [IN/a.jsonl:2]! {SECOND}", "r: hello / bye"],
    ),
    **{
        f"conversations apart in {name}": ({name: data}, BOTH)
        for name, data in {
            "m.jsonl": lines(*APART),
            "m.jsonl.gz": gzip.compress(lines(*APART).encode()),
            "mark.jsonl": "\ufeff" + lines(*APART),
            "m.csv": table(APART),
            "m.parquet": parquet(APART),
        }.items()
    },
    "one conversation": ({"m.jsonl": lines(APART[0], APART[2])}, ["m.jsonl: 1a / 1b"]),
    "records of no conversation": (
        {"m.jsonl": lines(*APART, STRAY)},
        ["(1 record without the id of one of its 2 traces)", *BOTH],
    ),
    "a stray record of one conversation": (
        {"m.jsonl": lines(STRAY, APART[0], APART[2])},
        ["m.jsonl: stray / 1a / 1b"],
    ),
    "a record among messages": (
        {"m.jsonl": lines(STRAY, WHOLE, STRAY)},
        ["r: hello / bye", "m.jsonl: stray / stray"],
    ),
    "a message among records": (
        {"m.jsonl": lines(WHOLE, STRAY)},
        ["r: hello / bye", "m.jsonl:2! a part of a trace (generic) among whole traces"],
    ),
    "a broken line of several conversations": (
        {"m.jsonl": lines(*APART, '{"role" 1}')},
        [
            f"m.jsonl:5! m.jsonl, line 5: {BAD}",
            *(f"{both} {{{LOST}: m.jsonl, line 5: {BAD}}}" for both in BOTH),
        ],
    ),
    "a broken line of one conversation": (
        {"m.jsonl": lines(HELLO, '{"role" 1}', BYE)},
        [f"m.jsonl! m.jsonl, line 2: {BAD}"],
    ),
    "a broken line among records": (
        {"r.jsonl": lines(WHOLE, '{"role" 1}', {"messages": TALK})},
        ["r: hello / bye", f"r.jsonl:2! r.jsonl, line 2: {BAD}", "r.jsonl:3: hello / bye"],
    ),
    "a broken first line": (
        {"r.json": lines('{"role" 1}', WHOLE)},
        [f"r.json:1! r.json, line 1: {BAD}", "r: hello / bye"],
    ),
    "records that are no traces": (
        {"a.json": [{"x": 1}, {"messages": TALK}, [1], {"messages": ["no"]}], "b.csv": "x\n1\n"},
        [
            f"(not a trace: an object with the keys x, {NO_FORMAT})",
            "a.json:2: hello / bye",
            f"(not a trace: a list, {NO_FORMAT})",
            "a.json:4! messages: message 1: found a string, expected an object",
            f"(not a trace: an object with the keys x, {NO_FORMAT})",
        ],
    ),
    "files that are no traces": (
        {"a.json": {}, "b.json": [], "c.json": 3, "d.csv": "a,b"},
        [
            f"(not a trace: an object, {NO_FORMAT})",
            f"(not a trace: a list, {NO_FORMAT})",
            f"(not a trace: a number, {NO_FORMAT})",
            "(it holds no records)",
        ],
    ),
    "files of other kinds": (
        {"a.json": TALK, "b.txt": "", "c.json.bak": TALK, "d.TXT": "", "Makefile": ""},
        [
            "a.json: hello / bye",
            "(2 .txt, 1 Makefile, 1 .bak: not looked into; name a file to have it read)",
        ],
    ),
    "broken files": (
        {
            "a.json": b"",
            "b.jsonl": b"\n \n",
            "c.json": b"\x89PNG\r\n\x1a\n\x00\x00",
            "d.json": b"[" * 100_000,
            "e.json": b'[{"role": "a"',
            "f.json.gz": gzip.compress(PRETTY.encode())[:40],
            "g.json.zst": zstd(PRETTY)[:30],
            "h.parquet": b"PAR1 no table",
            "i.arrow": b"ARROW1 no table",
            "j.eval": b"PK\x03\x04 no archive",
            "k.csv": b"a,b\n1,\x002\n",
            "l.csv": "role,content,content\na,b,c\n",
            "m.csv": "role,content\na,b,c\n",
        },
        [
            "a.json! a.json: empty file",
            "b.jsonl! b.jsonl: empty file",
            "c.json! c.json: binary data, not JSON",
            "d.json! d.json: JSON nested too deeply to be read",
            "e.json! e.json: not valid JSON: Expecting ',' delimiter at line 1, column 14",
            "f.json.gz! f.json.gz: ...",
            "g.json.zst! g.json.zst: ...",
            "h.parquet! h.parquet: cannot be read: ...",
            "i.arrow! i.arrow: cannot be read: ...",
            "j.eval! j.eval: cannot be read: ...",
            "k.csv! k.csv: binary data, not JSON",
            "l.csv! l.csv: two columns are named 'content'",
            "m.csv! m.csv, line 2: more cells than columns; quote the texts",
        ],
    ),
}


def render(item):
    if isinstance(item, Trace):
        texts = " / ".join(message.text for message in item.messages)
        return f"{item.id}: {texts}" + "".join(f" {{{problem}}}" for problem in item.problems)
    return f"{item.id}! {item.reason}" if isinstance(item, Unreadable) else f"({item.reason})"


@pytest.mark.parametrize(("files", "expected"), CASES.values(), ids=CASES)
def test_files(write, files, expected):
    folder = write("in", **files)
    items = list(read_traces([str(folder)]))
    for item, line in zip(items, expected, strict=True):
        text = render(item).replace(str(folder), "IN")
        assert text.startswith(line[:-3]) if line.endswith("...") else text == line
    traces = {item.id: item for item in items if isinstance(item, Trace | Unreadable)}
    for order in (list(traces), list(traces)[::-1]):
        library = Library([str(folder)])
        for trace_id in [*order, *order]:
            assert library.trace(trace_id) == traces[trace_id]
        assert library.trace("no such trace") is None
        assert list(library.ids()) == list(traces)


@pytest.mark.parametrize("name", ["notes.txt", "no_suffix", "a.log"])
def test_a_file_named_by_itself_is_read_whatever_its_name(write, trace, name):
    assert len(trace(write("in", **{name: PRETTY}) / name).messages) == 2


# --- sources


@pytest.fixture
def tree(write, tmp_path, monkeypatch):
    """Files of one name, links of all kinds and a pipe, below the current folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("10", "9", "b"):
        write(f"in/{name}", **{"t.json": TALK})
    write("in", **{"z.json": {"id": "own", "messages": TALK}, "a[1].json": [BYE], "a1.json": TALK})
    write("links", **{"a.json": TALK})
    write("links/.hidden", **{"t.json": TALK})
    for name, target in {
        "again": "../links",
        "b.json": "a.json",
        "gone.json": "nothing",
        "itself.json": "itself.json",
        "out.json": "../in/z.json",
    }.items():
        (tmp_path / "links" / name).symlink_to(target)
    (tmp_path / "links" / "hard.json").hardlink_to(tmp_path / "links" / "a.json")
    os.mkfifo(tmp_path / "links" / "pipe.json")
    (tmp_path / "empty").mkdir()


ONE = "a.json: hello / bye"
LINKED = "(a link to a folder; name it to have it read)"
FOLDERS = [f"{name}/t.json: hello / bye" for name in ("10", "9", "b")]
SAME = "(the same file as IN/links/a.json)"
LINKS = [
    *(ONE, SAME, "gone.json! gone.json: a link that leads nowhere", SAME),
    "itself.json! itself.json: a link that leads nowhere",
    "out.json! out.json: a link that leaves the given folder",
    "pipe.json! pipe.json: not a regular file",
]
SOURCES = {
    "empty": [],
    "in": ["a1.json: hello / bye", "a[1].json: bye", "z.json: hello / bye", *FOLDERS],
    "in/*.json": ["a1.json: hello / bye", "a[1].json: bye", "z.json: hello / bye"],
    "in/a[1].json": ["a[1].json: bye"],
    "in/z.json": ["own: hello / bye"],
    "in/*/t.json": FOLDERS,
    "in/9/t.json in/10/t.json in/9": [FOLDERS[1], FOLDERS[0]],
    "in/b in": [
        "t.json: hello / bye",
        *("a1.json: hello / bye", "a[1].json: bye", "z.json: hello / bye", *FOLDERS[:2]),
    ],
    "links": [LINKED, *LINKS, ".hidden/t.json: hello / bye"],
    "links/*.json": LINKS,
    "links/**/*.json": LINKS,
    "links/*": [ONE, LINKED, *LINKS[1:]],
    "links/again": [LINKED, *LINKS, ".hidden/t.json: hello / bye"],
    "links/again/a*.json": [ONE],
    "links/**/again/a*": [f"again/{ONE}", LINKED],
}


@pytest.mark.parametrize(("sources", "expected"), SOURCES.items(), ids=SOURCES)
def test_sources(tree, tmp_path, sources, expected):
    items = [
        render(item).replace(str(tmp_path), "IN").replace("links/again", "links")
        for item in read_traces(sources.split())
    ]
    assert items == expected


HUB = {
    "records": (RECORDS, "", ["a: hello / bye", "b: bye"]),
    "records without an id": (
        [{"messages": TALK}, {"messages": [BYE]}],
        ":train",
        ["hf://team/runs:train:1: hello / bye", "hf://team/runs:train:2: bye"],
    ),
    "another split": (RECORDS[:1], ":test", ["t: bye"]),
    "conversations apart": (APART, "", BOTH),
}


@pytest.mark.parametrize(("records", "split", "expected"), HUB.values(), ids=HUB)
def test_data_sets_of_the_hub(write, tmp_path, monkeypatch, records, split, expected):
    monkeypatch.chdir(tmp_path)  # a folder of its name stands for the hub's: no network
    write("team/runs", **{"train.jsonl": lines(*records)})
    if split == ":test":
        write("team/runs", **{"test.jsonl": lines({"id": "t", "messages": [BYE]})})
    sources = [f"hf://team/runs{split}"]
    items = list(read_traces(sources))
    assert [render(item) for item in items] == expected
    library = Library(sources)
    assert [library.trace(item.id) for item in items[::-1] * 2] == items[::-1] * 2


# --- damaged, large, or written by other libraries


def test_a_saved_data_set_is_its_arrow_files(tmp_path, found):
    datasets.DatasetDict({"test": datasets.Dataset.from_list(RECORDS)}).save_to_disk(tmp_path)
    assert [item.id for item in found(tmp_path) if isinstance(item, Trace)] == ["a", "b"]


def test_memory_does_not_grow_with_records_that_lie_apart(write):
    def peak(size):
        records = (say(f"c{n % size}", "x" * 2000) for n in range(size * 4))
        folder = write(f"in{size}", **{"m.jsonl": lines(*records)})
        tracemalloc.start()
        try:
            assert sum(1 for _ in read_traces([str(folder)])) == size
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(10)
    # 8,000 characters a trace; what may be kept of it are its id and four places, 64 bytes.
    assert peak(1000) - peak(200) < 800 * 1000


LARGE = json.dumps({"messages": [{"role": "a", "content": "x" * 3_000_000}]})
BOMBS = {
    "spaces": ("a.json", PRETTY + " " * 1_100_000, "a.json: one document of more than 1 MB, which"),
    "lines": ("a.jsonl", f"{LARGE}\n{LARGE}\n", "a line of more than 1 MB"),
    "zstd": ("a.json.zst", zstd(LARGE), "a line of more than 1 MB"),
    "gzip": ("a.json.gz", gzip.compress(LARGE.encode()), "a line of more than 1 MB"),
    "csv": ("a.csv", 'id,note\na,"' + "x\n" * 600_000 + '"\n', "field larger than field limit"),
}


@pytest.mark.parametrize(("name", "data", "words"), BOMBS.values(), ids=BOMBS)
def test_what_unpacks_to_more_than_is_read_is_unreadable_in_words(
    write, monkeypatch, name, data, words
):
    monkeypatch.setenv("ANNOTATOR_MAX_MB", "1")
    problems = list(read_traces([str(write("in", **{name: data}))]))
    assert any(words in problem.reason for problem in problems), problems
    assert not any(isinstance(problem, Trace) for problem in problems)


ENDS = {
    "end-mark": lambda data, at: data[:at] + b"\xff" * 4 + bytes(4) + data[at + 8 :],
    "zeros": lambda data, at: data[:at] + bytes(8) + data[at + 8 :],
    "cut": lambda data, at: data[:at],
    "zeros-to-the-end": lambda data, at: data[:at] + bytes(len(data) - at),
}


@pytest.mark.parametrize("damage", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("make", [pa.ipc.new_file, pa.ipc.new_stream])
def test_an_arrow_file_whose_rows_end_before_it_does_is_unreadable(write, found, make, damage):
    data = arrow(RECORDS, make, rows=1)
    at = data.rindex(b"\xff\xff\xff\xff", 0, data.rindex(b"\xff\xff\xff\xff"))
    *_, last = found(write("in", **{"a.arrow": damage(data, at)}))
    assert isinstance(last, Unreadable)
    assert last.reason.startswith("a.arrow: cannot be read: ")


@pytest.mark.parametrize("options", [{}, {"compression": "zstd"}, {"use_legacy_format": True}])
@pytest.mark.parametrize("make", [pa.ipc.new_file, pa.ipc.new_stream])
def test_arrow_files_as_others_write_them(write, found, make, options):
    """Batches without rows that point into their buffers, dictionaries that are replaced, and (in
    files of Polars and arrow-rs) another beginning: the schema at its end counts.
    """
    names = pa.array(["a", "b", "a"]).dictionary_encode()
    table = pa.table({"messages": [TALK] * 3, "name": names})
    sink = pa.BufferOutputStream()
    with make(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as out:
        out.write_table(table.slice(3, 0))
        out.write_batch(table.to_batches()[0].slice(3, 0))
        out.write_table(table, max_chunksize=2)
    data = sink.getvalue().to_pybytes()
    if make is pa.ipc.new_file:
        data = data[:8] + b"\0" * 8 + data[16:]
    assert [type(item) for item in found(write("in", **{"a.arrow": data}))] == [Trace] * 3


def test_offsets_out_of_an_arrow_file_are_refused(write, unreadable):
    folder = write("in", **{"a.arrow": arrow([{"note": "x" * 777}, {"note": "y" * 555}])})
    file = folder / "a.arrow"
    offsets = struct.pack("<iii", 0, 777, 1332)
    assert file.read_bytes().count(offsets) == 1
    file.write_bytes(file.read_bytes().replace(offsets, struct.pack("<iii", 0, 777, 1 << 30)))
    assert "cannot be read: " in unreadable(folder).reason
