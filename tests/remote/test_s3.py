"""URLs, over HTTP, against a real S3 server on this machine."""

import json
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from annotator import AnnotatorError, load_traces, open_run
from annotator.base import remote
from tests.conftest import EXAMPLES, unwrap

s3fs = pytest.importorskip("s3fs", reason="s3fs is not installed")
moto = pytest.importorskip("moto.server", reason="moto[server] is not installed")


@pytest.fixture(scope="module")
def address():
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def store(address, tmp_path, monkeypatch):
    """The files of an empty bucket ``lab``."""
    environment = {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "hidden-secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "ANNOTATOR_COPIES": str(tmp_path / "copies"),
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    system = s3fs.S3FileSystem(endpoint_url=address, use_listings_cache=False)
    urlopen(Request(f"{address}/moto-api/reset", method="POST")).close()
    system.mkdir("lab")
    yield system
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture
def traces(store):
    """The example traces in the bucket."""
    store.put(str(EXAMPLES), "lab/traces", recursive=True)
    return "s3://lab/traces"


@pytest.fixture
def fetched(monkeypatch):
    lines: list[str] = []
    monkeypatch.setattr(remote, "on_fetch", lines.append)
    return lines


@pytest.fixture
def cli(annotate_cli):
    """The command line: returns its exit code, stdout and stderr."""

    def call(*words: object) -> tuple[int, str, str]:
        done = annotate_cli(*words)
        return done.code, done.out, done.err

    return call


def judge(cli: Any, source: str, out: Path, *more: str) -> Path:
    code, _, err = cli("run", source, "--rubric", "symptoms", "--out", out, *more)
    assert code == 0, err
    return out


def annotations(run: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (run / "annotations.jsonl").read_text().splitlines()]
    for row in rows:
        del row["usage"]["seconds"]
    return rows


def test_traces_at_a_url_are_judged_as_those_on_the_disk(traces, cli, tmp_path):
    there = judge(cli, traces, tmp_path / "there")
    here = judge(cli, str(EXAMPLES), tmp_path / "here")
    assert annotations(there) == annotations(here)
    assert json.loads((there / "run.json").read_text())["sources"] == ["s3://lab/traces"]
    paths = {trace.path.partition("/demo")[0] for trace in load_traces("s3://lab/traces")}
    assert all(path.startswith("s3://lab/traces") for path in paths), paths


def test_a_second_reading_fetches_what_is_new_and_drops_what_is_gone(store, fetched):
    store.pipe({f"lab/t/{n}.json": b'[{"role":"user","content":"a%d"}]' % n for n in range(3)})
    assert len(load_traces("s3://lab/t")) == 3
    assert fetched.pop().startswith("s3://lab/t: 3 objects")
    assert len(load_traces("s3://lab/t")) == 3
    assert not fetched
    store.pipe("lab/t/0.json", b'[{"role":"user","content":"b0"}]')  # of the same size
    store.rm("lab/t/1.json")
    texts = [trace.messages[0].text for trace in load_traces("s3://lab/t")]
    assert texts == ["b0", "a2"]
    assert fetched.pop().startswith("s3://lab/t: 1 objects")


def test_a_copy_that_was_changed_here_is_fetched_again(store, tmp_path):
    store.pipe("lab/t.json", b'[{"role":"user","content":"there"}]')
    list(load_traces("s3://lab/t.json"))
    (tmp_path / "copies/s3/lab/t.json").write_text('[{"role":"user","content":"here"}]')
    (trace,) = load_traces("s3://lab/t.json")
    assert trace.messages[0].text == "there"


def test_a_glob_names_objects(store):
    for name in ("a1", "a2", "b1"):
        store.pipe(f"lab/g/{name}.json", b'[{"role":"user","content":"x"}]')
    assert [trace.id for trace in load_traces("s3://lab/g/a*.json")] == ["a1.json", "a2.json"]
    store.rm("lab/g/a2.json")
    assert [trace.id for trace in load_traces("s3://lab/g/a*.json")] == ["a1.json"]


@pytest.mark.parametrize("key", ["../../../../up.json", "a/../../../up.json", "/up.json", "x//y"])
def test_an_odd_key_is_skipped_and_never_leaves_the_copy(store, fetched, tmp_path, key):
    for name in ("good.json", key):
        _put(store, f"h/{name}", b'[{"role":"user","content":"x"}]')
    assert [trace.id for trace in load_traces("s3://lab/h")] == ["good.json"]
    assert [line for line in fetched if f"s3://lab/h: skipped {key}: " in line]
    assert [path.name for path in tmp_path.rglob("*.json")] == ["good.json"]


def _put(store: Any, key: str, body: bytes) -> None:
    import boto3

    client = boto3.client("s3", endpoint_url=store.endpoint_url)
    client.put_object(Bucket="lab", Key=key, Body=body)


@pytest.fixture
def run(store, cli, tmp_path):
    """A run that was judged here and copied to the bucket."""
    store.put(str(judge(cli, str(EXAMPLES), tmp_path / "run")), "lab/run", recursive=True)
    return "s3://lab/run"


def test_every_command_reads_a_run_at_a_url_and_writes_to_one(traces, store, cli, tmp_path):
    store.put(str(judge(cli, traces, tmp_path / "run")), "lab/run", recursive=True)
    run = "s3://lab/run"
    labels = EXAMPLES.parent / "labels.jsonl"
    commands = {
        ("report", run): "table.txt",
        ("report", run, "--format", "html"): "page.html",
        ("report", run, "--format", "csv"): "table.csv",
        ("report", run, "--format", "parquet"): "table.parquet",
        ("figure", run): "figure.svg",
        ("sample", run, "-n", "3", "--uniform"): "sheet.csv",
        ("sample", "s3://lab/traces", "-n", "3", "--rubric", "symptoms"): "sheet.jsonl",
        ("calibrate", run, "--labels", labels, "--ledger", tmp_path / "looks"): "calibration.json",
        ("report", run, "--calibration", "s3://lab/out/calibration.json"): "corrected.txt",
    }
    for command, name in commands.items():
        code, _, err = cli(*command, "--out", f"s3://lab/out/{name}")
        assert code == 0, (command, err)
        assert store.size(f"lab/out/{name}"), name
        assert f"s3:/lab/out/{name}" not in err
    cli("report", run)  # writes nothing
    here = cli("report", tmp_path / "run")[1]
    assert cli("report", run)[1] == here
    assert unwrap(store.cat("lab/out/table.txt").decode()) == here
    for command in (("facts", "s3://lab/traces"), ("stats", "s3://lab/traces")):
        assert cli(*command)[0] == 0


def test_shards_that_stand_in_a_store_are_a_run_unmerged(store, cli, tmp_path):
    for shard in ("1/3", "3/3"):
        judge(cli, str(EXAMPLES), tmp_path / "run", "--shard", shard)
    store.put(str(tmp_path / "run"), "lab/run", recursive=True)
    here, there = (
        cli("report", place, "--format", "json") for place in (tmp_path / "run", "s3://lab/run")
    )
    assert here[0] == there[0] == 0, there[2]
    assert here[1] == there[1]
    assert "2 of 3 shards finished" in there[2] + there[1]
    code, _, err = cli("merge", "s3://lab/run")
    assert code == 2
    assert "s3://lab/run" in err


def test_what_is_there_is_not_replaced_by_a_sheet(run, cli):
    sheet = ("sample", run, "-n", "3", "--uniform", "--out", "s3://lab/out/sheet.csv")
    code, _, err = cli(*sheet)
    assert code == 0, err
    code, _, err = cli(*sheet)
    assert code == 2
    assert "is there already" in err


def test_a_run_is_named_by_its_url(run):
    opened = open_run(run)
    assert str(opened) == run
    assert len(list(opened.annotations())) == 17


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (("traces", "s3://nowhere/x"), "s3://nowhere/x: cannot be read: no such bucket"),
        (("traces", "s3://lab/nothing"), "s3://lab/nothing: cannot be read: no such bucket"),
        (("traces", "s3://lab/../x"), "'..' in lab/../x: not a name"),
        (("traces", "https://u:hidden-secret@lab/x"), "password or a query"),
        (("traces", "https://lab/x?sig=hidden-secret"), "password or a query"),
        (("traces", "nonsense://lab/x"), "Protocol not known"),
        (("traces", "file:///etc/passwd"), "name the path"),
        (("report", "s3://lab/traces"), "s3://lab/traces: not a run directory"),
        (("merge", "s3://lab/run"), "copy the run here"),
        (("run", "s3://lab/traces", "--rubric", "symptoms", "--out", "s3://lab/o"), "copy it when"),
        (("calibrate", "s3://lab/run", "--labels", "s3://lab/l.jsonl"), "copy them here"),
        (("report", "s3://lab/run", "--out", "s3://nowhere/x"), "cannot be written: no such"),
        (("report", "s3://lab/run", "--format", "dataset", "--out", "s3://lab/d"), "a folder is"),
    ],
)
def test_errors_name_the_url_and_the_reason(run, store, cli, command, says):
    store.pipe("lab/traces/one.json", b'[{"role":"user","content":"x"}]')
    code, _, err = cli(*command)
    assert code == 2
    assert says in err
    assert "hidden-secret" not in err
    assert "Traceback" not in err


def test_a_store_that_does_not_answer(store, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    s3fs.S3FileSystem.clear_instance_cache()
    with pytest.raises(AnnotatorError, match="s3://lab/x: cannot be read: Could not connect"):
        load_traces("s3://lab/x")
