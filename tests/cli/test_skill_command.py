"""``annotate skill``: an agent that follows the file comes to a corrected table."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import Done
from tests.server import Request, finding

TEXT = (Path(__file__).parents[2] / "annotator" / "cli" / "skill.md").read_text()
SCRIPTS = {code.split()[1][:-1]: code for code in re.findall(r"```python\n(.*?)```", TEXT, re.S)}


def test_the_skill_is_printed_and_written(annotate_cli, tmp_path):
    printed = annotate_cli("skill")
    done = annotate_cli("skill", "--out", ".claude/skills")
    written = (tmp_path / ".claude" / "skills" / "annotator" / "SKILL.md").read_text()
    assert (printed.code, done.code) == (0, 0)
    assert printed.raw == written == TEXT
    header = yaml.safe_load(written.split("---")[1])
    assert header["name"] == "annotator"
    assert len(header["description"]) <= 1024
    assert len(TEXT.split()) <= 1100


@pytest.fixture
def follow(annotate_cli, tmp_path):
    """Give a command of the skill's, found by its beginning, as it stands there."""
    for name, code in SCRIPTS.items():
        (tmp_path / name).write_text(code)

    def give(start: str) -> Done:
        [line] = {line for line in re.findall(r"^ +(\S.*)$", TEXT, re.M) if line.startswith(start)}
        words = shlex.split(line)
        if words[0] == "annotate":
            return annotate_cli(*words[1:])
        command = [sys.executable if words[0] == "python" else words[0], *words[1:]]
        subprocess.run(command, cwd=tmp_path, check=True)
        return Done(0, "", "")

    return give


def respond(folder: Path, wrong: int = 0) -> None:
    """Answer the requests of a round, as the agent does; that of one with a made-up quote."""
    for n, line in enumerate((folder / "requests.jsonl").read_text().splitlines(), 1):
        request = Request(n, json.loads(line)["body"])
        parts = {part.source: part.text for part in request.parts}
        assert f"### user\n\n{request.user}" in (folder / f"{n}.txt").read_text()
        quotes = [
            (x, "no such words" if n == wrong else parts[x]) for x in ("message:1", "message:4")
        ]
        answer = request.fill_in(json.dumps(finding("broken_commitment", *quotes).answer))
        (folder / f"{n}.json").write_text(answer)


def test_an_agent_without_a_key_comes_to_a_corrected_table(annotate_cli, runs, tmp_path, follow):
    runs(10).rename(tmp_path / "traces")
    assert "10 traces can be read" in follow("annotate traces").out
    assert (
        "10 calls" in follow("annotate run traces/ --rubric symptoms --model MODEL --dry-run").out
    )
    follow("mkdir -p labels")
    assert "10 of 10 traces (" in follow("annotate sample").out
    codes = ["broken_commitment"] * 4 + ["none"] * 3 + ["work_overlap"] * 3
    for n, code in enumerate(codes, 1):
        label = {"primary": code, "secondary": "", "evidence": "no overlap", "note": "blind"}
        (tmp_path / "labels" / f"{n}.json").write_text(json.dumps(label))
    subprocess.run([sys.executable, "fill.py", "tiny"], cwd=tmp_path, check=True)

    folders = [tmp_path / "round1", tmp_path / "round2"]
    follow("mkdir -p round1")
    run = "annotate run traces/ --rubric symptoms --model MODEL --out runs/first "
    assert "10 requests" in follow(f"{run}--batch-file").err
    follow("python split.py")
    respond(folders[0], wrong=2)
    follow("python pack.py")
    follow("mkdir -p round2")
    assert "1 request " in follow(f"{run}--resume").err
    subprocess.run([sys.executable, "split.py", "round2"], cwd=tmp_path, check=True)
    assert "no such words" in (folders[1] / "1.txt").read_text()
    respond(folders[1])
    subprocess.run([sys.executable, "pack.py", "round2"], cwd=tmp_path, check=True)
    resume = f"{run.removeprefix('annotate ')}--resume --batch-results round2/answers.jsonl"
    assert "10 of 10 traces judged" in annotate_cli(*resume.split()).out

    done = follow("annotate calibrate")
    # The judge gives the code to all ten, the reader to four of them.
    assert "Judge and model:tiny agree on 4 of 10 labelled traces" in done.out
    table = annotate_cli("report", "runs/first").out
    assert re.search(r"broken_commitment +10/10 +100.0 +40.0", table)
    methods = follow("annotate report runs/first --methods").out
    assert "10 traces were labelled by model:tiny" in methods.replace("\n", " ")
    assert follow("annotate report runs/first --format html").code == 0
    [look] = (tmp_path / "labels" / "sheet.csv.looks.jsonl").read_text().splitlines()
    assert json.loads(look)["n"] == 10


def test_the_answer_line_in_the_skill_is_one_that_pack_writes(tmp_path):
    [line] = re.findall(r'^    (\{"custom_id".*)$', TEXT, re.M)
    shown = json.loads(line)
    (tmp_path / "requests.jsonl").write_text('{"custom_id": "a2cf..."}\n')
    (tmp_path / "1.json").write_text("{}")
    (tmp_path / "pack.py").write_text(SCRIPTS["pack.py"])
    subprocess.run([sys.executable, "pack.py", "."], cwd=tmp_path, check=True)
    packed = json.loads((tmp_path / "answers.jsonl").read_text())
    message = shown["response"]["body"]["choices"][0]["message"]
    message["content"] = "{}"
    assert packed == shown
