"""What the docs show is what the tool prints.

Every ``console`` block holds commands (``$ ...``) and their output; a comment (``<!-- $ annotate
demo -->``) runs a command before them. ``UPDATE_DOCS=1 pytest tests/test_docs.py`` writes the
present output into the docs; read the difference before you commit.
The reference of commands, rubrics and formats is written by ``docs/build_reference.py``.
"""

import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
import urllib.request
from dataclasses import fields
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import get_args

import click
import pytest

import annotator
from annotator.cli import cli
from annotator.judges.llm.settings import Options
from annotator.labels.model import FIELDS
from annotator.reports.conflicts import KINDS
from annotator.reports.tables.brief import MARKS
from annotator.rubrics import Rubric, list_built_in
from annotator.rubrics.annotations import STATUSES, Annotation, FailureKind
from annotator.rubrics.model import Code
from annotator.runs.manifest import Manifest
from tests.conftest import ROOT, Done
from tests.server import NOTHING, Responder, Server
from tests.stand_in import StandIn, StandInCoder, UpdatedStandIn, blame

PAGES = ["README.md", *(str(p.relative_to(ROOT)) for p in sorted(ROOT.glob("docs/**/*.md")))]
RESPONDERS: dict[str, Responder] = {
    "docs/tutorial.md": lambda request: NOTHING,
    "docs/howto/gate-a-change.md": StandIn(ROOT / "examples" / "tune" / "labels.jsonl"),
    "docs/howto/tune-a-judge.md": StandIn(ROOT / "examples" / "tune" / "labels.jsonl"),
    "docs/howto/watch-the-judge.md": UpdatedStandIn(ROOT / "examples" / "tune" / "labels.jsonl"),
    "docs/howto/find-who-and-when.md": blame,
    "docs/howto/find-new-codes.md": StandInCoder(ROOT / "examples" / "tune" / "labels.jsonl"),
}
"""The pages that are followed in order, and the model on the reader's machine."""
SETUP = re.compile(r"^<!-- \$ (annotate .*) -->$", re.MULTILINE)
DAY = "2026-11-26"  # of the runs that the docs show
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)


def run_process(*arguments: str) -> Done:
    """Run ``annotate`` as README's readers do: in a process of its own, in this folder."""
    command = [sys.executable, "-m", "annotator", *arguments]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    return Done(done.returncode, done.stdout, done.stderr, done.stdout)


def copy_examples(folder: Path) -> None:
    looks = shutil.ignore_patterns("*.looks.jsonl")  # of who followed README in this checkout
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=looks)


@pytest.mark.parametrize("page", [page for page in PAGES if page not in RESPONDERS])
def test_the_docs_show_real_output(page, tmp_path, annotate_cli, monkeypatch):
    copy_examples(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("ANNOTATOR_CACHE", "cache/answers.sqlite")
    run = run_process if page == "README.md" else annotate_cli
    before = (ROOT / page).read_text()
    first_day = datetime.now(UTC).date()

    def printed(command: str) -> str:
        """What a command prints on stdout, with the times it took as zero and a fixed day."""
        program, *arguments = shlex.split(command)
        if program == "cat":
            text = (tmp_path / arguments[0]).read_text()
        else:
            assert program == "annotate", command
            done = run(*arguments)
            assert done.code == 0, done.err
            text = done.raw
        for day in (first_day, datetime.now(UTC).date()):
            text = text.replace(str(day), DAY)
        return re.sub(r'"seconds": [0-9.e-]+', '"seconds": 0.0', text)

    def real(block: re.Match[str]) -> str:
        commands = [line[2:] for line in block[1].splitlines() if line.startswith("$ ")]
        shown = "".join(f"$ {one}\n{printed(one)}" for one in commands)
        return f"```console\n{shown}```"

    for command in SETUP.findall(before):
        printed(command)
    after = BLOCK.sub(real, before)
    if os.environ.get("UPDATE_DOCS"):
        (ROOT / page).write_text(after)
    else:
        assert before == after


STEP = re.compile(
    r"```console\n(?P<console>.*?)```|```text\n(?P<excerpt>.*?)```|^    (?P<named>annotate [^\n]+)",
    re.DOTALL | re.MULTILINE,
)


def open_page(folder: Path, *arguments: str) -> None:
    """Start a page of the tool in a folder, load it, and end it."""
    command = [sys.executable, "-m", "annotator", *arguments]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, text=True) as page:
        assert page.stdout
        try:
            address = next(line.strip() for line in page.stdout if line.startswith("http"))
            with urllib.request.urlopen(address) as answer:
                assert "annotator" in answer.read().decode()
        finally:
            page.terminate()


@pytest.mark.parametrize("page", RESPONDERS)
def test_a_page_can_be_followed_from_its_first_command_to_its_last(
    page, tmp_path, annotate_cli, monkeypatch
):
    """In order and in one folder. Pages are opened and closed again; a server stands in for the
    model on the reader's machine. An excerpt stands in an output above it.
    """
    copy_examples(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    before = (ROOT / page).read_text()
    shown: list[str] = []

    def run(command: str, address: str) -> str:
        command, _, code = command.partition("  # exit code ")
        program, *arguments = shlex.split(command.replace("http://localhost:8000/v1", address))
        if program == "cat":
            return (tmp_path / arguments[0]).read_text()
        assert program == "annotate", command
        if arguments[0] in ("view", "label"):
            open_page(tmp_path, *arguments)
            return ""
        done = annotate_cli(*arguments)
        assert done.code == int(code or 0), done.err
        shown.extend(done.raw.splitlines())
        return done.raw

    def follow(step: re.Match[str]) -> str:
        if step["excerpt"]:
            assert [line for line in step["excerpt"].splitlines() if line not in shown] == []
        elif step["named"]:
            run(step["named"], server.url)
        else:
            commands = [line[2:] for line in step["console"].splitlines() if line[:2] == "$ "]
            outputs = "".join(f"$ {one}\n{run(one, server.url)}" for one in commands)
            return f"```console\n{outputs}```"
        return step[0]

    with Server(RESPONDERS[page]) as server:
        after = STEP.sub(follow, before)
    if os.environ.get("UPDATE_DOCS"):
        (ROOT / page).write_text(after)
    else:
        assert before == after


def test_the_glossary_explains_every_mark_status_and_kind():
    """In alphabetical order, words after signs."""
    page = (ROOT / "docs" / "glossary.md").read_text()
    cells = re.findall(r"^\| (.+?) \| ", page, re.MULTILINE)[2:]
    entries = {word for cell in cells for word in cell.replace("`", "").split(", ")}
    assert {*MARKS, "ok", *STATUSES, *get_args(FailureKind), *KINDS} - entries == set()
    words = [cell for cell in cells if cell[0].isalpha()]
    assert words == sorted(words, key=str.lower)


COMMAND = re.compile(r"(?:^    |`)annotate ([^`\n]+)", re.MULTILINE)
NEED_NO_RUN = ("demo", "run", "traces", "stats", "facts", "conflicts", "rubric", "prompt", "cache")
EXAMPLE_PLUGINS = ("chat", "rooms", "echo", "tsv")
RUBRICS = [path.stem for path in list_built_in()]


def find_commands(page: str) -> list[str]:
    return COMMAND.findall(re.sub(r"\\\n *", "", (ROOT / page).read_text()))


def parse_command(text: str) -> tuple[tuple[str, ...], bool]:
    """Parse a command as the tool itself does. Return its words, and whether it can be run here:
    it needs no model, no run, and no file of a user's own.
    """
    line = re.split(r"\s{2,}|\s#|[;|>&]", text)[0]
    words = tuple(shlex.split(re.sub(r"\.\.\.|[\[\]]", "", line)))
    context: click.Context = click.Context(cli, **cli.context_settings)
    command: click.Command = cli
    names, rest = [], list(words)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        name, command, rest = command.resolve_command(context, rest)
        names.append(name)
        context = click.Context(command, parent=context)
    can_run = bool(names) and names[0] in NEED_NO_RUN and "--model" not in words
    values, extra, _ = command.make_parser(context).parse_args(rest)
    assert not extra, f"one argument too many: {extra[0]}"
    for param in command.params:
        given = values.get(param.name)
        several = given if isinstance(given, list | tuple) else [given]
        several = [value for value in several if isinstance(value, str)]  # not a flag, not missing
        if isinstance(param, click.Argument):
            can_run &= all((ROOT / each).exists() or each in RUBRICS for each in several)
            can_run &= bool(several) or bool(rest and not param.required)
            continue
        for value in several:
            if value.isupper() or re.search(r"[/.]", value) or value in EXAMPLE_PLUGINS:
                can_run = False
            else:
                param.type.convert(value, param, context)
    return words, can_run


@pytest.mark.parametrize("page", [*PAGES, "annotator/cli/skill.md"])
def test_commands_that_are_only_named_could_be_given(page):
    for text in find_commands(page):
        try:
            parse_command(text)
        except (AssertionError, click.UsageError) as error:
            pytest.fail(f"annotate {text}: {error}")


def test_commands_that_need_nothing_of_a_user_run(tmp_path, annotate_cli):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    parsed = {parse_command(text) for page in PAGES for text in find_commands(page)}
    commands = sorted(words for words, can_run in parsed if can_run)
    assert ("rubric", "list") in commands
    for words in commands:
        done = annotate_cli(*words)
        assert done.code == 0, f"annotate {' '.join(words)}: {done.err}"


@pytest.mark.parametrize("name", ["commands", "rubrics", "formats"])
def test_generated_pages_are_those_of_today(name):
    page = ROOT / "docs" / "reference" / f"{name}.md"
    written = runpy.run_path(str(ROOT / "docs" / "build_reference.py"))["build"](name)
    if os.environ.get("UPDATE_DOCS"):
        page.write_text(written)
    else:
        assert page.read_text() == written


@pytest.mark.parametrize(
    "names",
    [
        [each.name for each in fields(Annotation)],
        [each.name for each in fields(Options)],
        FIELDS,
        Manifest.model_fields,
        [name for name, each in Rubric.model_fields.items() if not each.exclude],
        [each.alias or name for name, each in Code.model_fields.items()],
    ],
    ids=["annotation", "judge file", "label", "run.json", "rubric", "code"],
)
def test_the_page_of_files_names_every_field(names):
    page = (ROOT / "docs" / "reference" / "files.md").read_text()
    assert [name for name in names if not re.search(rf"\b{name}\b", page)] == []


def test_every_dependency_has_its_reason():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"].values()
    page = (ROOT / "docs" / "dependencies.md").read_text().lower()
    names = [re.split(r"[^\w-]", text)[0] for text in sum(optional, project["dependencies"])]
    assert [name for name in names if name.lower() not in page] == []


def test_links_lead_somewhere():
    for page in PAGES:
        for target, anchor in re.findall(r"\]\(([^)#:]*)#?([^):]*)\)", (ROOT / page).read_text()):
            file = (ROOT / page).parent / target if target else ROOT / page
            assert file.exists(), f"{page}: {target}"
            if anchor:
                titles = re.findall(r"^#+ (.*)", file.read_text(), re.MULTILINE)
                places = [
                    re.sub(r"[^\w-]", "", title.lower().replace(" ", "-")) for title in titles
                ]
                assert anchor in places, f"{page}: {target}#{anchor}"


def test_the_reference_has_every_public_name():
    page = (ROOT / "docs" / "reference" / "python.md").read_text()
    documented = re.findall(r"^::: (\S+)$", page, re.MULTILINE)
    assert [name.rpartition(".")[2] for name in documented] == [
        name for name in annotator.__all__ if name != "__version__"
    ]
    for name in documented:
        module, _, attribute = name.rpartition(".")
        assert getattr(import_module(module), attribute) is getattr(annotator, attribute)


@pytest.mark.parametrize(
    ("file", "link"), [("mkdocs.yml", r"([\w/-]+\.md)"), ("llms.txt", r"\(docs/([^)]+)\)")]
)
def test_lists_of_pages_are_complete(file, link):
    listed = re.findall(link, (ROOT / file).read_text())
    assert sorted(listed) == sorted(page[5:] for page in PAGES if page.startswith("docs/"))


def test_the_rubric_that_a_page_writes_can_be_used(tmp_path, annotate_cli):
    page = (ROOT / "docs" / "howto" / "write-a-rubric.md").read_text()
    [text] = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "mine.yaml").write_text(text)
    done = annotate_cli("rubric", "check", "mine.yaml", "--strict")
    assert done.code == 0, done.out + done.err


def test_the_map_that_a_page_completes_reads_the_record(tmp_path, annotate_cli):
    page = (ROOT / "docs" / "howto" / "read-your-traces.md").read_text()
    [text] = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "map.yaml").write_text(text)
    messages = [
        {"source": "ann", "role": "agent", "content": "I take it.", "to": "ben"},
        {"source": "shell", "role": "agent", "content": "2 failed"},
    ]
    record = {"run": {"uid": "r1", "level": "L0"}, "trace": {"trajectory": messages}}
    record |= {"reward": 0.0, "diffs": {"ann": ""}, "log": "2 failed"}
    (tmp_path / "log.jsonl").write_text(json.dumps(record))
    done = annotate_cli("traces", "log.jsonl", "--map", "map.yaml", "--list")
    assert done.code == 0, done.err
    assert done.out.startswith("r1  map  1 agents  2 messages  failed")
