"""What is asked is what is hashed: no word reaches a model that stands in no file of ours."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jinja2 import Environment, FileSystemLoader

from annotator.judges.llm import LLMJudge
from annotator.judges.llm.answer import Wrong, read_answer
from annotator.judges.llm.settings import Options
from annotator.prompts import render
from annotator.rubrics import Rubric, load_rubric
from annotator.runs.manifest import read_manifest
from annotator.traces import Trace
from tests.conftest import ROOT, Done
from tests.judges.test_llm import RIGHT, judged, scripted
from tests.openai_server import OpenAIServer, Reply, finding

MODES = ("tools", "json_schema", "json")
PROMPTS = Environment(loader=FileSystemLoader(ROOT / "prompts"), keep_trailing_newline=True)
WRONG = finding("C1b", ("message:1", "nobody ever wrote this"), ("message:2", "nor this one"))


def filled(name: str, **values: object) -> str:
    return PROMPTS.get_template(name).render(values)


def schema_in(body: dict[str, Any]) -> dict[str, Any] | None:
    """The JSON schema in a request, without the names that a form asks for."""
    if body.get("tools"):
        [tool] = body["tools"]
        parameters = tool["function"]["parameters"]
        return parameters | {"description": tool["function"]["description"]}
    form = body.get("response_format")
    return form["json_schema"]["schema"] if form else None


def without_title(schema: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in schema.items() if name not in ("title", "required")}


@pytest.mark.parametrize("name", ["comm_errors", "symptoms", "emergent"])
@pytest.mark.parametrize("mode", MODES)
def test_every_word_of_a_request_is_that_of_our_files(trace: Trace, mode: str, name: str) -> None:
    rubric = load_rubric(name)
    with OpenAIServer() as server:
        judged(server, trace, rubric, mode="json")
        judged(server, trace, rubric, mode=mode)
        plain, request = server.seen[0], server.seen[-1]
    prompt = render(trace, rubric)
    [example] = re.findall(r"^\{.*\}$", prompt.system, re.MULTILINE)
    layout = {"considered": "codes", "rubric_last": False}
    system = filled(
        "system.j2", rubric=rubric, first_tag=prompt.first_tag, worked=example, **layout
    )
    told = plain.system.removeprefix(system)
    schema = json.loads(told[told.index("{") :])
    assert told == filled("json.j2", schema=json.dumps(schema, indent=2))

    closed = any(part.closed for part in prompt.parts)
    end = {"rubric_last": False, "last_tag": prompt.last_tag}
    user = filled("trace.j2", nonce=prompt.tag, parts=prompt.parts)
    user += filled("end.j2", rubric=rubric, closed=closed, **end)
    if mode == "json":
        last = f'"last_tag": "{prompt.last_tag}"\n'
        system, user = system + told, user.removesuffix(last) + filled("json_end.j2") + last
        assert set(request.body) == {"model", "messages"}
    else:
        asked = schema_in(request.body)
        assert asked is not None
        assert without_title(asked) == without_title(schema)
        assert list(asked["properties"]) == list(schema["properties"])  # it thinks first
        assert sorted(asked["required"]) == sorted(schema["required"])
    assert request.messages == [
        {"role": "system", "content": system},
        {"role": "user", "content": user},
    ]
    tags = {"first_tag": prompt.first_tag, "last_tag": prompt.last_tag}
    whole = tags | json.loads(example)
    quotes = [quote["text"] for item in whole["findings"] for quote in item["quotes"]]
    with pytest.raises(Wrong) as wrong:  # in form, and nothing of it stands in this run
        read_answer(json.dumps(whole), trace, prompt)
    assert str(wrong.value).count("not found") == len(quotes) > 0


REASKS = {
    "a quote": (WRONG, True, "not found"),
    "the form": (Reply(answer={"findings": [], "label": "C9"}), False, "label: "),
}


@pytest.mark.parametrize(("wrong", "quotes", "reason"), REASKS.values(), ids=REASKS)
@pytest.mark.parametrize("mode", MODES)
def test_so_is_every_word_of_a_re_ask(
    trace: Trace, rubric: Rubric, mode: str, wrong: Reply, quotes: bool, reason: str
) -> None:
    with OpenAIServer(scripted(wrong, RIGHT)) as server:
        assert judged(server, trace, rubric, mode=mode).status == "labelled"
        first, second = server.seen
    assert second.messages[:2] == first.messages
    text = second.reask or ""
    nonce = text.split("<reasons ")[1].split(">")[0]
    empty = filled("reask.j2", nonce=nonce, reasons=["\0"], quotes=quotes)
    before, after = empty.split("\0")
    assert text.startswith(before)
    assert text.endswith(after)
    assert reason in text.removeprefix(before).removesuffix(after)


@pytest.mark.parametrize("forms", [("tools", "json_schema"), ("json_schema",), ()])
def test_so_is_the_tiny_question(trace: Trace, rubric: Rubric, forms: tuple[str, ...]) -> None:
    with OpenAIServer(forms=forms) as server:
        judged(server, trace, rubric)
        asked = [request.messages for request in server.probes]
    assert asked == [[{"role": "user", "content": filled("probe.j2")}]] * len(asked)


def test_what_shapes_a_request_stands_in_the_settings() -> None:
    settings = LLMJudge(Options("m", "http://127.0.0.1:1/v1")).settings
    assert set(settings["libraries"]) == {"instructor", "openai"}
    assert len(settings["form_sha256"]) == len(settings["prompt_sha256"]) == 64


def test_another_version_of_a_library_is_another_judge(
    annotate_cli: Callable[..., Done], runs: Callable[..., Path], tmp_path: Path
) -> None:
    """Its requests may be others: no answer of before is taken, and no run goes on with it."""
    newer = tmp_path / "newer"
    for library in ("instructor", "openai"):
        info = newer / f"{library}-99.0.dist-info"
        info.mkdir(parents=True)
        words = f"Metadata-Version: 2.1\nName: {library}\nVersion: 99.0\n"
        (info / "METADATA").write_text(words)
    with OpenAIServer() as server:
        (tmp_path / "judge.yaml").write_text("mode: json")
        model = ("--model", "m", "--base-url", server.url, "--judge", str(tmp_path / "judge.yaml"))
        args = (str(runs(2)), "--rubric", "comm_errors", *model)
        assert annotate_cli(*args, "--out", "before").code == 0
        assert annotate_cli(*args, "--out", "again").code == 0
        assert server.calls == 2  # the second run found the answers of the first

        def upgraded(*out: str) -> subprocess.CompletedProcess[str]:
            command = [sys.executable, "-m", "annotator", *args, "--out", *out]
            env = {**os.environ, "PYTHONPATH": f"{newer}{os.pathsep}{ROOT}"}
            return subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)

        resumed = upgraded("before", "--resume")
        assert upgraded("after").returncode == 0
        assert server.calls == 4
    assert resumed.returncode == 2
    change = r'was "[\d.]+", is now "99.0"'
    words = f"libraries instructor {change}, openai {change}"
    assert re.search(words, resumed.stderr), resumed.stderr
    judges = [read_manifest(tmp_path / out).judge for out in ("before", "again", "after")]
    assert judges[0] == judges[1] != judges[2]


def test_every_file_of_prompts_is_hashed(tmp_path: Path) -> None:
    for name in ("annotator", "prompts", "rubrics"):
        shutil.copytree(ROOT / name, tmp_path / name)
    script = """
from pathlib import Path
from annotator.prompts import facts_sha256, prompt_sha256
seen = set()
for file in [None, *sorted(Path("prompts").iterdir())]:
    if file:
        file.write_text(file.read_text() + " ")
    prompt_sha256.cache_clear(), facts_sha256.cache_clear()
    seen.add((prompt_sha256(), facts_sha256()))
    print(len(seen))
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    files = len(list((ROOT / "prompts").iterdir()))
    assert done.stdout.split() == [str(n + 1) for n in range(files + 1)]


@pytest.mark.parametrize("name", ["OPENAI_CUSTOM_HEADERS", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"])
def test_other_headers_are_another_judge_and_no_secret_is_told(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Gateways choose the model by a header."""
    seen = []
    for value in ("", "X-Route: model-a", "X-Route: model-b"):
        monkeypatch.setenv(name, value)
        options = Options("m", "http://127.0.0.1:1/v1")
        seen.append((json.dumps(dict(LLMJudge(options).settings)), options.identity(1)))
    assert len({settings for settings, _ in seen}) == len({identity for _, identity in seen}) == 3
    assert "headers" not in seen[0][0]
    assert "model-a" not in str(seen)
