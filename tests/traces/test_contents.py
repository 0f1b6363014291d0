"""Tables, compressed files and data sets: damaged, large, or written by other libraries."""

import gzip
import json
import struct

import datasets
import pyarrow as pa
import pytest

from annotator.traces import Trace, Unreadable, read_traces

TALK = [{"role": "alice", "content": "hello there"}, {"role": "bob", "content": "good bye"}]
OTHER = [{"role": "carol", "content": "who is there"}]
RECORDS = [{"id": "a", "messages": TALK}, {"id": "b", "messages": OTHER}]
PRETTY = json.dumps(TALK, indent=2)


def zstd(text):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as out:
        out.write(text.encode())
    return sink.getvalue().to_pybytes()


def test_a_saved_data_set_is_its_arrow_files(tmp_path, found):
    datasets.DatasetDict({"test": datasets.Dataset.from_list(RECORDS)}).save_to_disk(tmp_path)
    assert [item.id for item in found(tmp_path) if isinstance(item, Trace)] == ["a", "b"]


def say(conversation, speaker, text, **more):
    return {"conversation_id": conversation, "role": speaker, "content": text, **more}


def lines(records):
    return "".join(json.dumps(record) + "\n" for record in records)


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


def test_offsets_out_of_an_arrow_file_are_refused(write, unreadable):
    folder = write("in", **{"a.arrow": arrow(pa.table({"note": ["x" * 777, "y" * 555]}))})
    file = folder / "a.arrow"
    offsets = struct.pack("<iii", 0, 777, 1332)
    assert file.read_bytes().count(offsets) == 1
    file.write_bytes(file.read_bytes().replace(offsets, struct.pack("<iii", 0, 777, 1 << 30)))
    assert "cannot be read: " in unreadable(folder).reason
