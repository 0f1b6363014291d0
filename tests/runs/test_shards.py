"""Runs in shards: judged apart, read together, merged into what one process would have made."""

import errno
import json
import shutil
from itertools import chain
from pathlib import Path

import pytest

from annotator import load_traces, merge, open_run
from annotator.base.errors import AnnotatorError, SettingsError
from annotator.traces import Ignored, Shard, parse_shard
from tests.conftest import EXAMPLES, read_overview, set_model
from tests.server import NOTHING, Reply, Request, Server


def judgements(folder: Path) -> dict[str, object]:
    """The annotations by rubric and trace, without how long they took."""
    lines = (folder / "annotations.jsonl").read_text().splitlines()
    values = [json.loads(line) for line in lines]
    for value in values:
        del value["usage"]["seconds"]
    by_name = {f"{value['rubric']} {value['trace_id']}": value for value in values}
    assert len(by_name) == len(values)
    return by_name


@pytest.fixture
def judge_shards(annotate_cli, runs):
    """Judge shards of twelve runs by the rules; return the run directory."""
    runs(12)

    def judge(*numbers: int, of: int = 3, out: str = "parts") -> Path:
        for number in numbers:
            args = ("--rubric", "symptoms", "--out", out, "--shard", f"{number}/{of}")
            done = annotate_cli("logs", *args)
            assert done.code == 0, done.err
        return Path(out)

    return judge


@pytest.mark.parametrize("of", [1, 3, 40])  # of 40 most are empty
def test_merged_shards_are_one_run(annotate_cli, judge_shards, tmp_path, of):
    folder = tmp_path / judge_shards(*range(1, of + 1), of=of)
    unmerged = annotate_cli("report", folder).out
    done = annotate_cli("merge", folder)
    assert (done.code, done.out) == (0, unmerged)
    assert annotate_cli("logs", "--rubric", "symptoms", "--out", "whole").out == unmerged
    assert judgements(folder) == judgements(tmp_path / "whole")
    run, whole = open_run(folder), open_run(tmp_path / "whole")
    assert run.manifest.status == "finished"
    for name in ("traces", "ignored", "problems", "rubrics", "judge", "sources"):
        assert getattr(run.manifest, name) == getattr(whole.manifest, name), name
    assert run.manifest.totals["annotations"] == 12
    shutil.rmtree(folder / "shards")
    assert annotate_cli("report", folder).out == unmerged


def test_every_trace_is_in_one_shard_whatever_reads_it(runs):
    logs = runs(12)
    ids = [trace.id for trace in load_traces(logs)]
    for source in (logs, list(load_traces(logs))):
        parts = [
            [trace.id for trace in load_traces(source, shard=Shard(number, 4))]
            for number in range(1, 5)
        ]
        assert sorted(chain.from_iterable(parts)) == sorted(ids)
    (logs / "a.json").write_text("{}")  # no trace, which is in one of them, too
    for source in ([logs], [logs, next(iter(load_traces(EXAMPLES)))]):
        others = [
            item
            for number in range(1, 5)
            for item in load_traces(source, shard=Shard(number, 4)).find()
            if isinstance(item, Ignored)
        ]
        assert len(others) == 1


def test_shards_of_different_traces_are_not_merged(annotate_cli, judge_shards, runs, tmp_path):
    folder = tmp_path / judge_shards(1, of=2)
    runs(20)
    judge_shards(2, of=2)
    words = "2 of 2 shards finished, and they found different traces (12 traces, "
    assert words in annotate_cli("report", folder).out
    done = annotate_cli("merge", folder)
    assert done.code == 2
    assert words in done.err
    args = ("--rubric", "symptoms", "--out", folder, "--shard", "1/2", "--resume")
    assert annotate_cli("logs", *args).code == 0
    assert annotate_cli("merge", folder).code == 0
    assert len(judgements(folder)) == 20


def test_what_models_were_found_out_about_is_joined(annotate_cli, runs, tmp_path):
    runs(12)
    with Server() as server:
        models = (
            "--model",
            "m",
            "--model",
            "n",
            "--base-url",
            server.url,
            *set_model(mode="strict"),
        )
        args = ("logs", "--rubric", "symptoms", *models, "--no-cache", "--out")
        assert annotate_cli(*args, "whole").code == 0
        for shard in ("1/2", "2/2"):
            assert annotate_cli(*args, "parts", "--shard", shard).code == 0
    learned = merge(tmp_path / "parts").manifest.learned
    assert learned == open_run(tmp_path / "whole").manifest.learned
    assert learned["llm:n"]["answered_by"] == {"n": 12}


@pytest.mark.parametrize("options", [(), ("--shard", "1/2")])
def test_where_no_trace_is_a_shard_is_an_error_as_a_run(annotate_cli, tmp_path, options):
    """The format counts in shards, too."""
    (tmp_path / "chats").mkdir()
    (tmp_path / "chats" / "a.json").write_text('[{"role": "user", "content": "x"}]')
    args = ("--rubric", "symptoms", "--format", "cooperbench", "--out", "out")
    done = annotate_cli("chats", *args, *options)
    assert done.code == 2
    assert "no traces in chats" in done.err


def test_what_is_missing_is_said(annotate_cli, judge_shards, tmp_path):
    folder = tmp_path / judge_shards(1, 3)
    for command in (("report",), ("report", "--format", "csv"), ("report", "--format", "html")):
        out = "page.html" if "html" in command else "table"
        args = ("--out", out) if "html" in command else ()
        done = annotate_cli(command[0], folder, *command[1:], *args)
        assert done.code == 0, done.err
        text = read_overview(tmp_path / out) if args else done.out
        assert "2 of 3 shards finished" in text
    rows = [
        {"trace_id": name, "rubric": "symptoms", "annotator": "gold", "primary": "none"}
        for name in judgements_of_all(folder)
    ]
    (tmp_path / "l.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    draw = ("sample", folder, "--rubric", "symptoms", "--split", "all", "--n", "5")
    for command in (
        ("calibrate", folder, "--labels", "l.jsonl", "--ledger", "looks"),
        (*draw, "--uniform", "--out", "a.csv"),
        ("figure", folder, "--out", "a.svg"),
    ):
        done = annotate_cli(*command)
        assert (done.code, "2 of 3 shards finished" in done.err) == (0, True), done.err
    done = annotate_cli("merge", folder)
    assert done.code == 2
    assert "2-of-3 is missing" in done.err
    assert not (folder / "run.json").exists()
    assert "shard 1-of-3" in annotate_cli("report", folder / "shards" / "1-of-3").out


def test_an_unmerged_run_is_calibrated_and_sampled_as_the_merged_one(
    annotate_cli, judge_shards, tmp_path
):
    folder = tmp_path / judge_shards(1, 2, 3)
    rows = [
        {"trace_id": name, "rubric": "symptoms", "annotator": "gold", "primary": "none"}
        for name in judgements_of_all(folder)
    ]
    (tmp_path / "l.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    args = ("calibrate", folder, "--labels", "l.jsonl", "--ledger", "looks", "--out", "c.json")
    assert annotate_cli(*args).code == 0
    table = annotate_cli("report", folder, "--calibration", "c.json")
    assert (table.code, table.err) == (0, "")
    draw = ("sample", folder, "--rubric", "symptoms", "--split", "all", "--n", "6", "--out")
    sheet = annotate_cli(*draw, "a.csv")
    assert sheet.code == 0, sheet.err
    merge(folder)
    assert annotate_cli("report", folder, "--calibration", "c.json").out == table.out
    annotate_cli(*draw, "b.csv")
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text()


def judgements_of_all(folder: Path) -> list[str]:
    return [annotation.trace_id for annotation in open_run(folder).annotations()]


def test_shards_that_are_not_of_one_run(annotate_cli, judge_shards, tmp_path):
    folder = tmp_path / judge_shards(1, 2, 3)
    first, second = (folder / "shards" / f"{n}-of-3" for n in (1, 2))
    lines = (second / "annotations.jsonl").read_text()
    extra = (first / "annotations.jsonl").read_text().splitlines(keepends=True)[:1]
    (second / "annotations.jsonl").write_text("".join([lines, *extra]))
    assert "has a second annotation" in annotate_cli("merge", folder).err
    (second / "annotations.jsonl").write_text(lines)
    manifest = json.loads((second / "run.json").read_text())
    (second / "run.json").write_text(json.dumps(manifest | {"only": "all"}))
    assert 'only: was "rubric", is now "all"' in annotate_cli("report", folder).err
    (second / "run.json").write_text(json.dumps(manifest | {"totals": {"calls": "x"}}))
    assert "run.json: not the manifest of a run: totals" in annotate_cli("merge", folder).err
    (second / "run.json").write_text(json.dumps(manifest))
    done = annotate_cli("logs", "--rubric", "symptoms", "--out", folder, "--shard", "1/4")
    assert "holds shards of 3, not of 4" in done.err
    assert annotate_cli("merge", folder).code == 0
    assert annotate_cli("merge", folder).code == 0  # again, with the same result
    done = annotate_cli("logs", "--rubric", "symptoms", "--out", folder, "--shard", "1/3")
    assert "holds a whole run" in done.err
    assert annotate_cli("merge", tmp_path / "nothing").code == 2
    judge_shards(1, of=1, out="one")
    annotate_cli("logs", "--rubric", "symptoms", "--out", "whole")
    assert "it is whole already" in annotate_cli("merge", "whole").err


def test_a_shard_that_cannot_be_looked_into_is_not_left_out(judge_shards, tmp_path, monkeypatch):
    folder = tmp_path / judge_shards(1, 2)
    (folder / "shards" / "3-of-3").mkdir()  # not begun, or just removed
    (folder / "shards" / "4-of-3").write_text("no folder")
    assert "2 of 3 shards finished" in open_run(folder).manifest.status
    look = Path.exists

    def refuse(path: Path) -> bool:  # tests may run as root, who looks into any folder
        if path.parent.name.endswith("-of-3"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return look(path)

    monkeypatch.setattr(Path, "exists", refuse)
    for read in (open_run, merge):
        with pytest.raises(AnnotatorError, match="-of-3: Permission denied"):
            read(folder)


def test_a_stopped_shard_is_resumed(annotate_cli, runs, tmp_path):
    """The second answer stops the run; nothing of the first is asked again, nor what other runs
    have asked: the common cache is read, and the shard's answers are kept beside it.
    """
    runs(6)
    stop = True

    def responder(request: Request) -> Reply:
        return Reply(status=401) if stop and request.n > 3 else NOTHING

    with Server(responder) as server:
        model = ("--model", "m", "--base-url", server.url, "--concurrency", "1")
        args = ("logs", "--rubric", "symptoms", *model, "--out", "out", "--shard", "1/1")
        assert annotate_cli(*args, "--resume").code == 2  # a shard that was not begun is
        stop = False
        judged = len(judgements(tmp_path / "out" / "shards" / "1-of-1"))
        assert 0 < judged < 6
        asked = len(server.seen)
        done = annotate_cli(*args, "--resume")
        assert done.code == 0, done.err
        assert len(server.seen) == asked + 6 - judged
        assert (tmp_path / "out" / "shards" / "1-of-1" / "answers.sqlite").exists()
        asked = len(server.seen)
        assert annotate_cli("merge", "out").code == 0  # puts the answers where all runs look
        again = ("logs", "--rubric", "symptoms", *model, "--out", "again")
        assert annotate_cli(*again).code == 0
        assert annotate_cli(*again[:-1], "shard", "--shard", "1/1").code == 0
        assert len(server.seen) == asked


def test_limits_are_divided_and_said(annotate_cli, runs):
    runs(1)
    with Server() as server:
        model = ("--model", "m", "--base-url", server.url, "--price-in", "1", "--price-out", "1")
        limits = ("--rpm", "2000", "--tpm", "100000", "--max-cost", "2")
        args = ("--rubric", "symptoms", *model, *limits, "--out", "out", "--shard", "1/4")
        done = annotate_cli("logs", *args)
    assert "of 4 shards this one may use: --rpm 500, --tpm 25000, --max-cost 0.5" in done.err


SLURM = {"SLURM_ARRAY_TASK_ID": "7", "SLURM_ARRAY_TASK_COUNT": "4", "SLURM_ARRAY_TASK_MIN": "1"}


@pytest.mark.parametrize(
    ("text", "environment", "expected"),
    [
        ("3/16", {}, (3, 16)),
        ("auto", {"RANK": "0", "WORLD_SIZE": "2"}, (1, 2)),
        ("auto", {"RANK": "1", "WORLD_SIZE": "2"}, (2, 2)),
        ("auto", SLURM | {"SLURM_ARRAY_TASK_STEP": "2"}, (4, 4)),  # --array=1-7:2
        ("auto", {"SLURM_ARRAY_TASK_ID": "0", "SLURM_ARRAY_TASK_COUNT": "3"}, (1, 3)),
    ],
)
def test_which_shard(text, environment, expected):
    shard = parse_shard(text, environment)
    assert (shard.number, shard.of) == expected


@pytest.mark.parametrize(
    ("text", "environment", "words"),
    [
        ("0/4", {}, "I from 1 to N"),
        ("5/4", {}, "I from 1 to N"),
        ("half", {}, "expected I/N"),
        ("auto", {}, "SLURM_ARRAY_TASK_ID and SLURM_ARRAY_TASK_COUNT or RANK and WORLD_SIZE"),
        ("auto", {"RANK": "1"}, "RANK=1, WORLD_SIZE="),
        ("auto", SLURM | {"SLURM_ARRAY_TASK_MIN": "x"}, "expected numbers"),
        ("auto", SLURM, "I from 1 to N"),  # a number that the count does not reach
    ],
)
def test_no_shard(text, environment, words):
    with pytest.raises(SettingsError, match=words):
        parse_shard(text, environment)


@pytest.mark.parametrize("options", [(), ("--out", "o", "--dry-run")])
def test_wrong_usage(annotate_cli, runs, options):
    runs(1)
    done = annotate_cli("logs", "--rubric", "symptoms", "--shard", "1/2", *options)
    assert done.code == 2
    assert "--shard needs --out DIR" in done.err


def test_a_folder_without_shards_is_no_run(tmp_path):
    (tmp_path / "shards").mkdir()
    with pytest.raises(AnnotatorError, match=r"no run\.json, and no shards"):
        open_run(tmp_path)
