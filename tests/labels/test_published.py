"""Published data sets with labels, each from its files to a calibrated table in two commands."""

import json
from pathlib import Path

import pytest

from annotator.labels import LabelFiles
from annotator.rubrics import load_rubric
from tests.server import NOTHING, Server, finding


def talk(n: int) -> list[dict[str, str]]:
    """A conversation whose second message names the trace."""
    return [
        {"role": "user", "name": "Planner", "content": f"Count the doors of hall {n}."},
        {"role": "user", "name": "Coder", "content": f"I count the windows of {n}."},
        {"role": "user", "name": "Critic", "content": "That is right."},
    ]


def make_who_and_when(folder: Path) -> list[Path]:
    """Two halves with files of the same names and the same questions, as published."""
    for half in ("Algorithm-Generated", "Hand-Crafted"):
        (folder / half).mkdir(parents=True)
        for n in range(1, 5):
            hall = n + (10 if half == "Hand-Crafted" else 0)
            record = {"question_ID": f"q{n}", "is_correct": False, "history": talk(hall)}
            record |= {"mistake_agent": "Coder", "mistake_step": "1", "mistake_reason": "Windows."}
            (folder / half / f"{n}.json").write_text(json.dumps(record))
    return [folder]


def make_mast(folder: Path) -> list[Path]:
    """Records with ids that repeat; three have code 1.1, one of them 2.3, too."""
    folder.mkdir()
    annotations = [{"1.1": 1, "2.3": 0}, {"1.1": "1", "2.3": True}, {"1.1": 0}, {"1.1": 1}]
    records = [
        {"mas_name": "AG2", "llm_name": "m", "benchmark_name": "b", "trace_id": n}
        | {"trace": {"trajectory": talk(n)}, "mast_annotation": annotation}
        for n, annotation in enumerate(annotations, 1)
    ]
    (folder / "mad.json").write_text(json.dumps(records))
    return [folder]


def make_agentrx(folder: Path) -> list[Path]:
    """Traces, and a file of labels: one without a root cause, one of an unknown category."""
    folder.mkdir()
    truth = []
    names = {1: "Invention of new information", 2: "Guardrails Triggered", 4: "Bad weather"}
    for n in range(1, 5):
        items = [{"role": "Orchestrator (-> Coder)", "content": f"Count the doors of hall {n}."}]
        items += [{"role": "Coder", "content": f"I count the windows of {n}."}]
        (folder / f"t{n}.json").write_text(json.dumps(items))
        failure = {"failure_id": 1, "step_number": 2, "failed_agent": "Coder"}
        failure |= {"failure_category": names.get(n, "System Failure")}
        cause = {"failure_id": 7 if n == 3 else 1, "reason_for_root_cause": "Windows."}
        truth.append({"trajectory_id": f"t{n}", "failures": [failure], "root_cause": cause})
    file = folder.with_name("truth.json")
    file.write_text(json.dumps(truth))
    return [file]


# By hand: the judge finds the code in halls 1 and 2 only.
WAYS = [
    (
        make_who_and_when,
        "who_and_when",
        "mistake",
        "decided 8 of the 8 traces that gold labelled",
        [],
    ),
    (make_mast, "mast", "1.1", "decided 4 of the 4 traces that gold labelled", []),
    (
        make_agentrx,
        "agentrx",
        "invention",
        "decided 2 of the 2 traces that gold labelled",
        [
            "2 of 4 labels left out: no code for 'Bad weather' (1 label); to give them",
            "no decisive category is named: t3",
        ],
    ),
]


@pytest.mark.parametrize(("make", "rubric", "code", "agreement", "notes"), WAYS)
def test_two_commands(annotate_cli, tmp_path, make, rubric, code, agreement, notes):
    labels = make(tmp_path / "traces")

    def judge(request):
        for hall in (1, 2):
            for part in request.parts:
                if part.text.endswith(f"I count the windows of {hall}."):
                    quote = (part.source, f"I count the windows of {hall}.")
                    return finding(code, quote, label="some" if rubric == "mast" else None)
        return NOTHING

    with Server(judge) as server:
        model = ("--judge", "llm", "--model", "m", "--base-url", server.url)
        done = annotate_cli("run", "traces", "--rubric", rubric, *model, "--out", "r")
    assert done.code == 0, done.err
    done = annotate_cli("calibrate", "r", *(f"--labels={path}" for path in labels))
    assert done.code == 0, done.err
    text = " ".join(done.out.split())
    assert agreement in text
    assert all(note in text for note in notes)
    assert "corrected %" in text
    assert "alone" not in text.partition("corrected %")[2]


def test_labels_join_by_their_record(annotate_cli, tmp_path):
    """Files are named as a shell does; every label has the id that its trace has there."""
    make_who_and_when(tmp_path / "traces")
    files = sorted((tmp_path / "traces").rglob("*.json"))
    args = ("--rubric", "who_and_when", "--traces", "traces", "-o", "l.jsonl")
    done = annotate_cli("labels", *files, *args)
    assert (done.code, done.out) == (0, "l.jsonl: 8 of 8 labels written\n")
    rows = [json.loads(line) for line in (tmp_path / "l.jsonl").read_text().splitlines()]
    names = [f"{half}/{n}.json" for half in ("Algorithm-Generated", "Hand-Crafted") for n in "1234"]
    assert [row["trace_id"] for row in rows] == names


@pytest.mark.parametrize(
    ("question", "written"), [("q1", "a/1.json"), ("1", "a/1.json"), ("q9", None)]
)
def test_a_record_of_another_file_joins_by_either_id(annotate_cli, tmp_path, question, written):
    """A file of the same name with another question is another trace."""
    record = {"question_ID": "q1", "history": talk(1), "mistake_agent": "Coder"}
    (tmp_path / "traces" / "a").mkdir(parents=True)
    (tmp_path / "traces" / "a" / "1.json").write_text(json.dumps(record))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "1.json").write_text(json.dumps(record | {"question_ID": question}))
    args = ("--rubric", "who_and_when", "--traces", "traces", "-o", "l.jsonl")
    done = annotate_cli("labels", "elsewhere/1.json", *args)
    assert done.code == (not written)
    rows = [json.loads(line) for line in (tmp_path / "l.jsonl").read_text().splitlines()]
    assert [row["trace_id"] for row in rows] == ([written] if written else [])


def test_labels_of_files_elsewhere_are_noted(tmp_path):
    """A file with the same name as a trace's may be of another data set."""
    make_who_and_when(tmp_path)
    files = LabelFiles([tmp_path / "Hand-Crafted"])
    scheme, ids = load_rubric("who_and_when").scheme(), ["1.json", "2.json"]
    labels = files.read(scheme, ids, [str(tmp_path / "Algorithm-Generated")])
    assert (
        "2 labels joined by the names of files alone: are they of the same traces?" in labels.notes
    )
    labels = files.read(scheme, ids, [str(tmp_path / "Hand-Crafted" / "*.json")])
    assert labels.notes == (
        "2 of 4 labels left out: no trace with this id: q3, q4 (options of annotate labels).",
    )
