"""Results in other tools: what is written, sent and read back is what the judge said."""

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import datasets
import pytest
import yaml

from annotator import AnnotatorError, export, open_run
from annotator.labels import LabelFiles
from annotator.labels.blinding import blind
from annotator.rubrics import load_rubric
from annotator.rubrics.annotations import Evidence
from tests.calibration.build import make_rubric, make_run, said
from tests.conftest import ROOT
from tests.exports.platforms import BASIC, BEARER, Platforms
from tests.server import Server

HEX = [f"{n:032x}" for n in range(1, 7)]
HOSTILE = 'she said "|<b>&#;\n=1+1 `x`\u202e😀'
KEYS = {
    "langfuse": {"LANGFUSE_PUBLIC_KEY": "pk-public-1", "LANGFUSE_SECRET_KEY": "sk-secret-12345"},
    "phoenix": {"PHOENIX_API_KEY": "sk-secret-12345"},
    "mlflow": {"MLFLOW_TRACKING_TOKEN": "sk-secret-12345"},
}


@pytest.fixture
def rubric(tmp_path):
    return make_rubric(tmp_path, codes=("alpha", "beta", "1.1"))


def results():
    """Two labelled traces and one without a code, and three about which nothing was decided."""
    both = said("a/1", "alpha", "1.1", tool_trace_id=HEX[0])
    first, second = both.findings
    quote = Evidence(HOSTILE, "message:2", 0, len(HOSTILE), "exact")
    first = replace(first, evidence=(quote,), agent="ann", step=3)
    return [
        replace(both, findings=(first, second)),
        said("a/2", "beta", tool_trace_id=f"0x{HEX[1]}"),
        said("a/3", tool_trace_id=HEX[2]),
        said("a/4", "alpha", status="undecided", tool_trace_id=HEX[3]),
        said("a/5", status="failed", tool_trace_id=HEX[4]),
        said("a/6", status="skipped"),
    ]


@pytest.fixture
def run(tmp_path, rubric):
    return make_run(tmp_path / "run", rubric, [x for x in results() if x.trace_id != "a/4"])


def read_scores(target, bodies):
    """What a tool would show: the value, comment and metadata by trace and name."""
    scores = {}
    for body in bodies:
        for item in body.get("batch") or body.get("data") or [body.get("assessment")]:
            if target == "langfuse":
                item = item["body"]
                key = item["traceId"], item["name"]
                value, text = item["value"], item["comment"]
            elif target == "phoenix":
                key, result = (item["trace_id"], item["name"]), item["result"]
                value, text = result.get("score", result["label"]), result["explanation"]
            else:
                key, text = (item["trace_id"], item["assessment_name"]), item["rationale"]
                value = item["feedback"]["value"]
            assert key not in scores
            metadata = item["metadata"]
            if isinstance(metadata.get("evidence"), str):
                metadata = metadata | {"evidence": json.loads(metadata["evidence"])}
            scores[key] = value, text, metadata
    return scores


EXPECTED = {
    HEX[0]: {"faults": "alpha", "alpha": 1, "beta": 0, "1.1": 1},
    HEX[1]: {"faults": "beta", "alpha": 0, "beta": 1, "1.1": 0},
    HEX[2]: {"faults": "none", "alpha": 0, "beta": 0, "1.1": 0},
}


@pytest.mark.parametrize("target", KEYS)
def test_what_is_written_is_what_was_found(annotate_cli, run, target):
    done = annotate_cli("export", run, "--to", target)
    assert done.code == 0, done.err
    assert f"{target}.jsonl: 12 scores" in done.out
    assert "no score (which is not 0): 1 failed, 1 skipped" in done.out
    file = run / f"{target}.jsonl"
    scores = read_scores(target, map(json.loads, file.read_text().splitlines()))
    expected = {
        (trace_id, name if name == "faults" else f"faults/{name}"): value
        for trace_id, values in EXPECTED.items()
        for name, value in values.items()
    }
    if target == "mlflow":
        expected = {(trace, name.replace(".", "_")): v for (trace, name), v in expected.items()}
    assert {key: value for key, (value, _, _) in scores.items()} == expected
    opened = open_run(run)
    for annotation in opened.annotations():
        for finding in annotation.findings:
            trace_id = annotation.attributes["tool_trace_id"].removeprefix("0x")
            name = f"faults/{finding.code}".replace(".", "_" if target == "mlflow" else ".")
            _, text, metadata = scores[trace_id, name]
            for quote in finding.evidence:
                assert f'"{quote.quote}" ({quote.source})' in text
            places = [(x["quote"], x["source"], x["start"], x["end"]) for x in metadata["evidence"]]
            assert places == [(x.quote, x.source, x.start, x.end) for x in finding.evidence]
            assert finding.rationale in text
            assert metadata["run"] == opened.id
            assert metadata["judge_sha256"] == opened.judge_sha256
    _, text, metadata = scores[HEX[0], "faults/beta"]
    assert (text, "evidence" in metadata) == ("", False)
    assert str(scores[HEX[0], "faults/alpha"][2]["step"]) == "3"
    before = file.read_bytes()
    annotate_cli("export", run, "--to", target)
    assert file.read_bytes() == before


def test_many_codes_are_one_label_and_a_screen_says_no_zero(annotate_cli, tmp_path):
    many = make_rubric(tmp_path, "many", ("alpha", "beta", "gamma"))
    traces = [said("1", "alpha", "beta"), said("2", "gamma")]
    run = make_run(tmp_path / "run", many, traces, known=("alpha", "beta"), screens=("beta",))
    annotation = next(open_run(run).annotations())
    assert annotation.codes == ("alpha", "beta")
    done = annotate_cli("export", run, "--to", "phoenix", "--id-attribute", "trace_id")
    bodies = map(json.loads, (run / "phoenix.jsonl").read_text().splitlines())
    scores = {key: value for key, (value, _, _) in read_scores("phoenix", bodies).items()}
    assert scores == {
        ("1", "faults"): "alpha, beta",
        ("1", "faults/alpha"): 1,
        ("1", "faults/beta"): 1,
        ("2", "faults"): "gamma",
        ("2", "faults/alpha"): 0,
        ("2", "faults/gamma"): 1,
    }
    assert "no score of 0 for codes that the judge cannot rule out: beta, gamma" in done.err
    assert "--id-attribute trace_id --url URL" in done.err


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--to", "langfuse"), "'b' has no id of another tool. Name the attribute"),
        (("--to", "mlflow", "--id-attribute", "ticket"), "'a' has no attribute 'ticket'"),
        (("--to", "phoenix", "--id-attribute", "team"), "'a' and 'b' have the same id in the tool"),
        (
            ("--to", "labelstudio", "--rubric", "faults.yaml", "--out", "x.xml"),
            "x.xml: the tasks are JSON",
        ),
        (("--to", "hub", "--url", "http://x"), "--url is for --to langfuse, phoenix, mlflow"),
        (("--to", "phoenix", "--sheet", "s.csv"), "--sheet is for --to labelstudio"),
        (("--to", "phoenix", "--api-key-env", "KEY"), "--api-key-env needs --url"),
        (("--to", "labelstudio", "--rubric", "symptoms"), "no rubric 'symptoms' in this run"),
    ],
)
def test_what_cannot_be_exported_is_refused(annotate_cli, tmp_path, rubric, options, text):
    run = make_run(
        tmp_path / "run", rubric, [said("a", tool_trace_id=HEX[0], team=7), said("b", team=7)]
    )
    done = annotate_cli("export", run, *options)
    assert (done.code, text in done.err) == (2, True), done.err
    assert sorted(path.name for path in run.iterdir()) == ["annotations.jsonl", "run.json"]


@pytest.mark.parametrize("target", KEYS)
def test_what_is_sent_is_what_is_written_and_only_once(annotate_cli, run, monkeypatch, target):
    for name, value in KEYS[target].items():
        monkeypatch.setenv(name, value)
    with Platforms(HEX, BASIC if target == "langfuse" else BEARER) as server:
        assert annotate_cli("export", run, "--to", target).code == 0
        assert server.tries == 0  # nothing is sent without --url
        server.failures = [503, 429]
        done = annotate_cli("export", run, "--to", target, "--url", server.url)
        assert (done.code, "12 accepted, 0 refused" in done.out) == (0, True), done.err
        lines = (run / f"{target}.jsonl").read_text().splitlines()
        assert server.bodies == list(map(json.loads, lines))
        assert len(server.stored) == 12
        manifest = json.loads((run / "run.json").read_text())
        (run / "run.json").write_text(json.dumps(manifest | {"ended": "2030-01-01"}))  # resumed
        again = annotate_cli("export", run, "--to", target, "--url", f"{server.url}/")
        assert "0 accepted, 12 earlier, 0 refused" in again.out
        assert (len(server.stored), len(server.bodies)) == (12, len(lines))
        (run / f"{target}.jsonl.sent").unlink()  # from another machine, say
        annotate_cli("export", run, "--to", target, "--url", server.url)
        assert len(server.stored) == (24 if target == "mlflow" else 12)


@pytest.mark.parametrize("target", KEYS)
def test_refused_scores_are_named_and_the_others_arrive(annotate_cli, run, target):
    with Platforms([HEX[0], HEX[2]]) as server:
        done = annotate_cli("export", run, "--to", target, "--url", server.url)
        assert (done.code, "8 accepted, 4 refused" in done.out) == (1, True), done.err
        assert f"refused: faults of {HEX[1]}: " in done.err
        assert len(server.stored) == 8
        server.traces.add(HEX[1])
        done = annotate_cli("export", run, "--to", target, "--url", server.url)
        assert (done.code, "4 accepted, 8 earlier, 0 refused" in done.out) == (0, True)
        assert len(server.stored) == 12


@pytest.mark.parametrize("error", [{"message": "too busy"}, {"id": None}, "too busy"])
def test_an_error_that_names_no_score_is_for_all(annotate_cli, run, error):
    with Platforms(HEX) as server:
        server.errors = [error]
        done = annotate_cli("export", run, "--to", "langfuse", "--url", server.url)
    assert (done.code, "0 accepted, 12 refused" in done.out) == (1, True), done.out


@pytest.mark.parametrize(
    ("url", "key", "text"),
    [
        ("127.0.0.1:8801", "sk-12345", "--url: "),
        ("ftp://127.0.0.1", "sk-12345", "--url: "),
        ("http://127.0.0.1:1", "sk-é-12345", "the key in MY_KEY holds characters"),
        ("http://127.0.0.1:1", "sk-1\n2345", "the key in MY_KEY holds characters"),
    ],
)
def test_no_request_is_tried_with_a_wrong_address_or_key(
    annotate_cli, run, monkeypatch, url, key, text
):
    monkeypatch.setenv("MY_KEY", key)
    done = annotate_cli("export", run, "--to", "phoenix", "--url", url, "--api-key-env", "MY_KEY")
    assert (done.code, text in done.err, "tries" in done.err) == (2, True, False), done.err


def test_a_server_that_takes_nothing_is_an_error(annotate_cli, run, rubric, monkeypatch, tmp_path):
    monkeypatch.setenv("MY_KEY", "sk-secret-99999")
    send = ("export", run, "--to", "langfuse", "--url")
    with Platforms(HEX, BASIC) as server:
        done = annotate_cli(*send, server.url, "--api-key-env", "MY_KEY")
        assert (done.code, "HTTP 401" in done.err) == (2, True)
        assert "Set LANGFUSE_PUBLIC_KEY and MY_KEY" in done.err
        assert "sk-secret-99999" not in done.err + done.out
        monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", "pk-public-2")
        done = annotate_cli(*send, server.url, "--api-key-env", "MY_KEY")
        assert "no access with Basic [secret]" in done.err
        assert (
            "environment variable is not set"
            in annotate_cli(*send, server.url, "--api-key-env", "NO_KEY").err
        )
    monkeypatch.setattr("annotator.exports.send._LONGEST_WAIT", 0.01)
    done = annotate_cli(*send, server.url)  # which is gone
    assert "gave up after 5 tries: " in done.err
    assert (
        done.code,
        "(12 scores left in this request)" in done.err,
        "goes on from there" in done.err,
    ) == (2, True, True)
    traces = [said(str(n), tool_trace_id=f"{n:032x}") for n in range(1, 26)]
    large = make_run(tmp_path / "large", rubric, traces)
    with Platforms([trace.attributes["tool_trace_id"] for trace in traces[6:]]) as server:
        done = annotate_cli("export", large, "--to", "mlflow", "--url", server.url)
        assert "76 accepted, 24 refused" in done.out  # the first six traces are not there
        (large / "mlflow.jsonl.sent").unlink()
        server.tries = 0
        wrong = f"{server.url}/elsewhere"
        done = annotate_cli("export", large, "--to", "mlflow", "--url", wrong)
        assert (done.code, server.tries) == (2, 77)  # the first of the 20th trace, with 4 each
        assert "refused the first 77 scores: HTTP 404: <html>no such page</html>" in done.err


def test_the_file_of_a_project_cannot_choose_where_scores_go(annotate_cli, run, tmp_path):
    (tmp_path / "annotate.toml").write_text('[export]\nurl = "http://127.0.0.1:1"\n')
    done = annotate_cli("export", run, "--to", "phoenix")
    assert (done.code, "not from a project's file" in done.err) == (2, True)


def test_traces_of_a_tool_keep_their_ids(annotate_cli, tmp_path):
    """A whole way: an export of Phoenix is judged, and the scores find its traces."""
    sample = ROOT / "examples" / "formats" / "span_exports" / "phoenix.jsonl"
    (tmp_path / "night").mkdir()
    shutil.copy(sample, tmp_path / "night" / "spans.jsonl")  # the path is the trace's id here
    ids = {json.loads(line)["context"]["trace_id"] for line in sample.read_text().splitlines()}
    with Server() as server:
        model = ("--model", "m", "--base-url", server.url)
        rubric = make_rubric(tmp_path, codes=("alpha", "beta"))
        done = annotate_cli(
            "run", "night", "--rubric", tmp_path / f"{rubric.id}.yaml", *model, "--out", "run"
        )
    assert done.code == 0, done.err
    with Platforms(ids) as server:
        done = annotate_cli("export", "run", "--to", "phoenix", "--url", server.url)
        assert (done.code, {key[0] for key in server.stored}) == (0, ids), done.err


def answer(task, n, codes):
    """A task with an annotation, as Label Studio's JSON export has it."""
    quote = task["data"]["text"][5:40]
    value = {"start": 5, "end": 40, "text": quote, "labels": ["evidence"]}
    picks = [("primary", codes[:1]), ("secondary", codes[1:])]
    results = [
        {"from_name": name, "to_name": "text", "type": "choices", "value": {"choices": picked}}
        for name, picked in picks
        if picked
    ]
    results.append({"from_name": "evidence", "to_name": "text", "type": "labels", "value": value})
    note = {"text": ["a; b"]}
    results.append({"from_name": "note", "to_name": "text", "type": "textarea", "value": note})
    person = {"completed_by": {"email": "ann@x.org"}, "was_cancelled": False, "result": results}
    return {"id": n, **task, "annotations": [person], "predictions": []}


def test_labels_from_label_studio_come_back(annotate_cli, tmp_path):
    run = tmp_path / "runs" / "demo" / "symptoms"
    assert annotate_cli("demo").code == 0
    assert annotate_cli("sample", run, "-n", 20, "--double", 5, "--out", "sheet.csv").code == 0
    done = annotate_cli("export", run, "--to", "labelstudio", "--sheet", "sheet.csv")
    assert (done.code, "labelstudio.json: 20 tasks" in done.out) == (0, True), done.err
    text = (run / "labelstudio.json").read_text()
    tasks = json.loads(text)
    opened = open_run(run)
    codes = {annotation.trace_id: annotation.codes for annotation in opened.annotations()}
    by_alias = {blind(trace_id): trace_id for trace_id in codes}
    design = json.loads((tmp_path / "sheet.csv.design.json").read_text())
    assert {by_alias[task["data"]["trace_id"]] for task in tasks} == set(design["traces"])
    for annotation in opened.annotations():  # nothing of the judge, and no id
        assert annotation.trace_id not in text
        assert not any(finding.rationale in text for finding in annotation.findings)
    keys = {"trace_id", "rubric", "rubric_sha256", "task", "design", "text"}
    assert {key for task in tasks for key in task["data"]} == keys
    answers = [
        answer(task, n, codes[by_alias[task["data"]["trace_id"]]]) for n, task in enumerate(tasks)
    ]
    (tmp_path / "export.json").write_text(json.dumps(answers))
    expected = {by_alias[task["data"]["trace_id"]]: task["data"]["text"][5:40] for task in tasks}
    labels = LabelFiles([tmp_path / "export.json"]).read(opened.scheme("symptoms"), codes).labels
    assert {label.trace_id: label.evidence for label in labels} == {
        trace_id: (quote,) for trace_id, quote in expected.items()
    }
    assert all(label.codes == codes[label.trace_id] and label.note == "a; b" for label in labels)
    convert = (
        "labels",
        "export.json",
        "--rubric",
        "symptoms",
        "--traces",
        *opened.manifest.sources,
    )
    done = annotate_cli(*convert, "--out", "labels.jsonl")
    assert (done.code, "20 of 20 labels written" in done.out) == (0, True), done.err
    rows = map(json.loads, (tmp_path / "labels.jsonl").read_text().splitlines())
    assert {row["trace_id"] for row in rows} == set(expected)
    done = annotate_cli(
        "calibrate", run, "--labels", "export.json", "--design", "sheet.csv.design.json"
    )
    assert done.code == 0, done.err
    assert "20 labels" in done.out


def test_tasks_of_a_run_and_a_page_for_any_names(annotate_cli, runs, tmp_path):
    """Without a sheet all traces that were asked about; names of codes are data in the page."""
    annotate_cli(runs(3), "--rubric", "symptoms", "--out", "run")
    statuses = Counter(annotation.status for annotation in open_run("run").annotations())
    assert export(open_run("run"), "labelstudio").records == statuses.total() == 3
    tasks = json.loads(Path("run/labelstudio.json").read_text())
    ids = [task["data"]["trace_id"] for task in tasks]
    assert ids == sorted(blind(x.trace_id) for x in open_run("run").annotations())
    assert all("I take the parser module." in task["data"]["text"] for task in tasks)
    fields = yaml.safe_load((ROOT / "rubrics" / "symptoms.yaml").read_text())
    from annotator.exports.labelstudio import make_page

    fields["codes"][0]["name"] = 'A <b> & "B"\n'
    fields["codes"][0]["definition"] = "<Choice value='x'/>"
    for choice, names in (
        ("one", ["primary"]),
        ("primary", ["primary", "secondary"]),
        ("many", ["symptoms"]),
    ):
        (tmp_path / "r.yaml").write_text(yaml.safe_dump(fields | {"choice": choice}))
        rubric = load_rubric(str(tmp_path / "r.yaml"))
        page = ElementTree.fromstring(make_page(rubric))
        questions = page.findall(".//Choices")
        assert [question.get("name") for question in questions] == names
        aliases = [option.get("alias") for option in questions[0]]
        assert aliases == [*rubric.scheme().ids, "none"]
        assert questions[0][0].get("value") == 'A <b> & "B"'
        assert {item.get("toName") for item in page.iter() if item.get("toName")} == {"text"}
    (tmp_path / "r.yaml").write_text(yaml.safe_dump(fields | {"id": "note", "choice": "many"}))
    with pytest.raises(AnnotatorError, match="another field of the page has this name"):
        make_page(load_rubric(str(tmp_path / "r.yaml")))


def test_the_folder_for_the_hub_is_the_run(annotate_cli, run, tmp_path):
    done = annotate_cli("export", run, "--to", "hub")
    assert done.code == 0, done.err
    assert "License and citation are yours" in done.out
    hub = run / "hub"
    assert f"next: hf upload ORG/NAME {hub} --repo-type dataset" in done.err
    loaded = datasets.load_dataset(str(hub), cache_dir=str(tmp_path / "cache"))
    assert list(loaded) == ["train"]
    opened = open_run(run)
    rows = loaded["train"].to_list()
    assert rows == opened.to_dataset().to_list()
    found = {row["trace_id"]: (row["status"], row["primary"], row["secondary"]) for row in rows}
    assert found == {
        "a/1": ("labelled", "alpha", ["1.1"]),
        "a/2": ("labelled", "beta", []),
        "a/3": ("none", None, []),
        "a/5": ("failed", None, []),
        "a/6": ("skipped", None, []),
    }
    assert rows[0]["findings"][0]["evidence"][0]["quote"] == HOSTILE
    card = (hub / "README.md").read_text()
    head = yaml.safe_load(card.split("---\n")[1])
    assert set(head) == {"pretty_name", "configs"}  # a license is the user's to choose
    assert "| alpha | 1 | 3 | 33.3 |" in card
    for text in (opened.id, opened.judge_sha256, opened.schemes["faults"].sha256):
        assert text in card
    assert "They do not include the judge's errors" in card
    assert str(tmp_path) not in card  # no path of this machine
    (hub / "README.md").write_text("mine")
    (hub / ".git").mkdir()
    (hub / "annotations.parquet").write_text("old")
    (hub / "calibration.json").write_text("of an earlier run")
    done = annotate_cli("export", run, "--to", "hub")
    assert (done.code, "README.md is kept. The new card is" in done.err) == (0, True)
    files = {".git", "README.md", "README.new.md", "annotations.parquet"}
    assert {path.name for path in hub.iterdir()} == files
    assert (hub / "README.md").read_text() == "mine"
    assert (hub / "README.new.md").read_text() == card
    (tmp_path / "mine" / "thesis").mkdir(parents=True)
    with pytest.raises(AnnotatorError, match="something else"):
        export(opened, "hub", tmp_path / "mine")
