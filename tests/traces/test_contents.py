"""What a file holds is told by its content: any suffix, compression, encoding, or table."""

import csv
import gzip
import io
import json
import os
import struct

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from annotator.traces import Ignored, Trace, Unreadable, read_traces
from annotator.traces.library import Library
from tests.conftest import count_opens
from tests.growth import FACTOR, LIMIT, growth

TALK = [{"role": "alice", "content": "hello there"}, {"role": "bob", "content": "good bye"}]
OTHER = [{"role": "carol", "content": "who is there"}]
RECORDS = [{"id": "a", "messages": TALK}, {"id": "b", "messages": OTHER}]
PRETTY = json.dumps(TALK, indent=2)
LINES = "".join(json.dumps(record) + "\n" for record in RECORDS)


def texts(trace):
    return [(message.sender, message.text) for message in trace.messages]


def zstd(text):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as out:
        out.write(text.encode())
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    ("name", "data"),
    [
        pytest.param("a.JSON", PRETTY, id="capitals"),
        pytest.param("a.jsonl", PRETTY, id="one-document-under-the-suffix-of-lines"),
        pytest.param("a.json.gz", gzip.compress(PRETTY.encode()), id="gzip"),
        pytest.param("a.json.zst", zstd(PRETTY), id="zstd"),
        pytest.param("a.json", gzip.compress(PRETTY.encode()), id="gzip-under-another-name"),
        pytest.param("a.json", PRETTY.encode("utf-16"), id="utf-16"),
        pytest.param("a.json", ("\ufeff" + PRETTY).encode("utf-16-be"), id="utf-16-big-endian"),
        pytest.param("a.traj", PRETTY, id="traj"),
    ],
)
def test_one_document(write, trace, name, data):
    assert texts(trace(write("in", **{name: data}))) == [
        ("alice", "hello there"),
        ("bob", "good bye"),
    ]


@pytest.mark.parametrize("name", ["notes.txt", "no_suffix", "a.log"])
def test_a_file_named_by_itself_is_read_whatever_its_name(write, trace, name):
    assert len(trace(write("in", **{name: PRETTY}) / name).messages) == 2


def table(cells, mark=","):
    text = io.StringIO()
    writer = csv.writer(text, delimiter=mark)
    writer.writerow(cells[0])
    writer.writerows([record[key] for key in cells[0]] for record in cells)
    return text.getvalue()


CELLS = [record | {"messages": json.dumps(record["messages"])} for record in RECORDS]


def arrow(stream):
    batch = pa.Table.from_pylist(RECORDS)
    sink = pa.BufferOutputStream()
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make(sink, batch.schema) as writer:
        writer.write_table(batch)
    return sink.getvalue().to_pybytes()


def parquet():
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(RECORDS), sink)
    return sink.getvalue()


@pytest.mark.parametrize(
    ("name", "data"),
    [
        pytest.param("r.json", LINES, id="lines-under-the-suffix-of-a-document"),
        pytest.param("r.jsonl.gz", gzip.compress(LINES.encode()), id="gzip"),
        pytest.param("r.jsonl.zst", zstd(LINES), id="zstd"),
        pytest.param("r.jsonl", LINES.encode("utf-16"), id="utf-16"),
        pytest.param("r.NDJSON", LINES, id="capitals"),
        pytest.param("r.csv", table(CELLS), id="csv"),
        pytest.param("r.tsv", table(CELLS, "\t"), id="tsv"),
        pytest.param("r.csv.gz", gzip.compress(table(CELLS).encode()), id="csv-gzip"),
        pytest.param("r.parquet", parquet(), id="parquet"),
        pytest.param("r.arrow", arrow(stream=False), id="arrow-file"),
        pytest.param("r.arrow", arrow(stream=True), id="arrow-stream"),
    ],
)
def test_records(write, found, name, data):
    folder = write("in", **{name: data})
    traces = found(folder)
    assert [(item.id, texts(item)) for item in traces] == [
        ("a", [("alice", "hello there"), ("bob", "good bye")]),
        ("b", [("carol", "who is there")]),
    ]
    library = Library([str(folder)])
    assert list(library.ids()) == ["a", "b"]
    assert [library.trace(key) for key in ("b", "a")] == traces[::-1]


def test_saved_data_set(tmp_path, found):
    folder = tmp_path / "in" / "set"
    datasets.Dataset.from_list(RECORDS).save_to_disk(folder)
    assert [item.id for item in found(tmp_path / "in")] == ["a", "b"]
    assert [item.id for item in found(folder)] == ["a", "b"]


def test_saved_data_sets_of_several_splits(tmp_path, found):
    splits = {name: datasets.Dataset.from_list([{"messages": TALK}]) for name in ("test", "train")}
    datasets.DatasetDict(splits).save_to_disk(tmp_path / "in")
    traces = [item.id for item in found(tmp_path / "in") if isinstance(item, Trace)]
    assert traces == ["test:1", "train:1"]


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        pytest.param("a.json.gz", gzip.compress(PRETTY.encode())[:40], "a.json.gz: ", id="cut-gz"),
        pytest.param("a.json.zst", zstd(PRETTY)[:30], "a.json.zst: ", id="cut-zstd"),
        pytest.param("a.parquet", b"PAR1 no table", "a.parquet: cannot be read", id="parquet"),
        pytest.param("a.arrow", b"ARROW1 no table", "a.arrow: cannot be read", id="arrow"),
        pytest.param("a.eval", b"PK\x03\x04 no archive", "a.eval: cannot be read", id="zip"),
        pytest.param("a.csv", b"a,b\n1,\x002\n", "binary data", id="null-in-csv"),
    ],
)
def test_broken(write, unreadable, name, data, reason):
    assert reason in unreadable(write("in", **{name: data})).reason


def test_a_table_row_that_is_no_trace_is_ignored(write, found):
    kinds = [type(item) for item in found(write("in", **{"a.csv": "x,y\n1,2\n3,4\n"}))]
    assert kinds == [Ignored, Ignored]


# --- records that belong together


def say(conversation, speaker, text, **more):
    return {"conversation_id": conversation, "role": speaker, "content": text, **more}


GLUED = [
    say("one", "alice", "first of one"),
    say("two", "bob", "first of two"),
    say("one", "carol", "second of one"),
    say("two", "dave", "second of two"),
]


def lines(records):
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        pytest.param("m.jsonl", lines(GLUED), id="lines"),
        pytest.param("m.jsonl.gz", gzip.compress(lines(GLUED).encode()), id="gzip"),
        pytest.param("m.csv", table(GLUED), id="csv"),
        pytest.param("m.jsonl", "\ufeff" + lines(GLUED), id="mark"),
    ],
)
def test_conversations_in_one_file_are_not_glued(write, found, name, data):
    folder = write("in", **{name: data})
    one, two = found(folder)
    assert (one.id, texts(one)) == ("one", [("alice", "first of one"), ("carol", "second of one")])
    assert (two.id, texts(two)) == ("two", [("bob", "first of two"), ("dave", "second of two")])
    library = Library([str(folder)])
    assert list(library.ids()) == ["one", "two"]
    assert [library.trace(key) for key in ("two", "one", "two")] == [two, one, two]


def test_one_conversation_has_the_id_of_its_file(write, trace):
    alone = [record for record in GLUED if record["conversation_id"] == "one"]
    assert trace(write("in", **{"m.jsonl": lines(alone)})).id == "m.jsonl"


def test_records_of_no_conversation_are_listed(write, found):
    stray = {"role": "erin", "content": "of which?"}
    lost, *traces = found(write("in", **{"m.jsonl": lines([*GLUED, stray])}))
    assert isinstance(lost, Ignored)
    assert lost.reason == "1 record without the id of one of its 2 traces"
    assert [len(item.messages) for item in traces] == [2, 2]


def test_a_stray_record_of_a_file_with_one_conversation_is_its_own(write, trace):
    records = [{"role": "erin", "content": "head"}, GLUED[0], GLUED[2]]
    assert len(trace(write("in", **{"m.jsonl": lines(records)})).messages) == 3


def test_a_broken_line_may_be_of_any_conversation(write, found):
    broken, *traces = found(write("in", **{"m.jsonl": lines(GLUED) + '{"conversation_id": "o'}))
    assert isinstance(broken, Unreadable)
    assert broken.id == "m.jsonl:5"
    assert all("may be of this trace: m.jsonl, line 5" in item.problems[0] for item in traces)


def test_a_file_that_changed_is_not_taken_for_the_old_one(write):
    folder = write("in", **{"m.jsonl": lines(GLUED)})
    library = Library([str(folder)])
    assert list(library.ids()) == ["one", "two"]
    write("in", **{"m.jsonl": lines(GLUED[::-1] * 2)})
    assert isinstance(library.trace("one"), Unreadable)


def test_conversations_of_a_data_set_of_the_hub(write, tmp_path, monkeypatch, found):
    monkeypatch.chdir(tmp_path)
    write("team/runs", **{"train.jsonl": lines(GLUED)})
    assert [(item.id, len(item.messages)) for item in found("hf://team/runs")] == [
        ("one", 2),
        ("two", 2),
    ]


def test_memory_does_not_grow_with_records_that_lie_apart(write):
    import tracemalloc

    def peak(size):
        records = (say(f"c{n % size}", "alice", "x" * 2000) for n in range(size * 4))
        folder = write(f"in{size}", **{"m.jsonl": lines(records)})
        tracemalloc.start()
        try:
            assert sum(1 for _ in read_traces([str(folder)])) == size
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(10)
    # 8,000 characters a trace; what may be kept of it are its id and four places, 64 bytes.
    assert peak(1000) - peak(200) < 800 * 1000


def test_what_is_too_large_to_be_held_is_unreadable_in_words(write, unreadable, monkeypatch):
    monkeypatch.setenv("ANNOTATOR_MAX_MB", "1")
    large = unreadable(write("a", **{"a.json": PRETTY + " " * 1_100_000})).reason
    assert large == "a.json: one document of more than 1 MB, which is not read (ANNOTATOR_MAX_MB)"
    long = json.dumps({"messages": [{"role": "a", "content": "x" * 1_100_000}]})
    assert "a line of more" in unreadable(write("b", **{"b.jsonl": f"{long}\n{long}\n"})).reason


def parquet(table, **options):
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", **options)
    return sink.getvalue().to_pybytes()


def arrow(table, make=pa.ipc.new_file, rows=None, **options):
    sink = pa.BufferOutputStream()
    with make(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as out:
        out.write_table(table, max_chunksize=rows)
    return sink.getvalue().to_pybytes()


LARGE = json.dumps({"messages": [{"role": "a", "content": "x" * 3_000_000}]})
BOMBS = {
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


def test_a_footer_of_parquet_that_is_damaged_ends_no_process(write):
    data = parquet(pa.Table.from_pylist(RECORDS))
    begin = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    places = range(begin, len(data) - 8)
    files = {f"{at}.parquet": data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in places}
    folder = write("in", **files)
    assert count_opens(folder, ".parquet", "traces", folder, code=1)


def test_many_columns_take_no_longer_than_their_number(write):
    heads = [",".join(f"c{n}" for n in range(count)) for count in (3_000, 3_000 * FACTOR)]
    places = [str(write("in", **{f"{len(head)}.csv": f"{head}\n"})) for head in heads]
    files = [f"{place}/{len(head)}.csv" for place, head in zip(places, heads, strict=True)]
    assert growth(lambda file: list(read_traces([file])), *files) < LIMIT


ENDS = {
    "end-mark": lambda data, at: data[:at] + b"\xff" * 4 + bytes(4) + data[at + 8 :],
    "zeros": lambda data, at: data[:at] + bytes(8) + data[at + 8 :],
    "cut": lambda data, at: data[:at],
    "zeros-to-the-end": lambda data, at: data[:at] + bytes(len(data) - at),
}


@pytest.mark.parametrize("damage", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("make", [pa.ipc.new_file, pa.ipc.new_stream])
def test_an_arrow_file_whose_rows_end_before_it_does_is_unreadable(write, found, make, damage):
    data = arrow(pa.Table.from_pylist(RECORDS), make, rows=1)
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


@pytest.mark.parametrize(("damage", "reason"), [("pipe", "not a regular file"), ("cut", "cut off")])
def test_a_saved_data_set_is_looked_at_before_it_is_opened(unreadable, tmp_path, damage, reason):
    datasets.Dataset.from_list(RECORDS).save_to_disk(folder := tmp_path / "saved")
    (file,) = folder.glob("*.arrow")
    data = file.read_bytes()
    file.unlink()
    if damage == "pipe":
        os.mkfifo(file)
    else:
        file.write_bytes(data[: data.rindex(b"\xff" * 4)])
    assert reason in unreadable(folder).reason


@pytest.mark.parametrize("saved", [False, True])
def test_offsets_out_of_an_arrow_file_are_refused(write, unreadable, tmp_path, saved):
    table = pa.table({"note": ["x" * 777, "y" * 555]})
    folder = write("in", **{"a.arrow": arrow(table)})
    if saved:
        folder = tmp_path / "saved"
        datasets.Dataset(table).save_to_disk(folder)
    (file,) = folder.glob("*.arrow")
    offsets = struct.pack("<iii", 0, 777, 1332)
    assert file.read_bytes().count(offsets) == 1
    file.write_bytes(file.read_bytes().replace(offsets, struct.pack("<iii", 0, 777, 1 << 30)))
    assert "cannot be read: " in unreadable(folder).reason


def test_a_record_among_messages_is_a_trace_of_its_own(write, found):
    talk = {"role": "erin", "content": "of the file"}
    whole = {"id": "r", "messages": TALK}
    folder = write("in", **{"m.jsonl": lines([talk, whole, talk])})
    record, rest = found(folder)
    assert (record.id, len(record.messages)) == ("r", 2)
    assert (rest.id, len(rest.messages)) == ("m.jsonl", 2)
    library = Library([str(folder)])
    assert [library.trace(item.id) for item in (rest, record)] == [rest, record]


def test_a_message_among_records_is_no_trace_of_its_own(write, found):
    talk = {"role": "erin", "content": "of which?"}
    record, stray = found(write("in", **{"m.jsonl": lines([{"id": "r", "messages": TALK}, talk])}))
    assert record.id == "r"
    assert isinstance(stray, Unreadable)
    assert stray.reason == "a part of a trace (generic) among records that are whole"


def test_two_columns_of_one_name_are_refused(write, unreadable):
    table = "role,content,content\na,b,c\n"
    assert "two columns are named 'content'" in unreadable(write("in", **{"a.csv": table})).reason
