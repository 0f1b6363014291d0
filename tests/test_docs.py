"""What the docs show is what the tool prints.

Every ``console`` block holds commands (``$ ...``) and their output. ``UPDATE_DOCS=1 pytest
tests/test_docs.py`` writes the present output into the docs; read the difference before you commit.
A ``facts`` block names a trace and holds what ``--facts`` shows a model of it.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import get_args

import click
import pytest

import annotator
from annotator.cli import cli
from annotator.judges.facts import describe_facts
from annotator.prompts.render import render
from annotator.reports.conflicts import KINDS
from annotator.reports.tables.brief import MARKS
from annotator.rubrics import load_rubric
from annotator.rubrics.annotations import STATUSES, FailureKind
from annotator.traces import Trace, read_traces
from tests.conftest import ROOT, Done
from tests.server import Server

PAGES = ["README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))]
TUTORIAL = "docs/tutorial.md"
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)


def run_process(*arguments: str) -> Done:
    """Run ``annotate`` as README's readers do: in a process of its own, in this folder."""
    command = [sys.executable, "-m", "annotator", *arguments]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("page", [page for page in PAGES if page != TUTORIAL])
def test_the_docs_show_real_output(
    page: str, tmp_path: Path, annotate_cli: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = shutil.ignore_patterns("*.looks.jsonl")  # of who followed README in this checkout
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=looks)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("ANNOTATOR_CACHE", "cache/answers.sqlite")
    run = run_process if page == "README.md" else annotate_cli
    before = (ROOT / page).read_text()

    def printed(command: str) -> str:
        """What a command prints on stdout, with the times it took as zero."""
        program, *arguments = shlex.split(command)
        if program == "cat":
            text = (tmp_path / arguments[0]).read_text()
        else:
            assert program == "annotate", command
            done = run(*arguments)
            assert done.code == 0, done.err
            text = done.out
        return re.sub(r'"seconds": [0-9.e-]+', '"seconds": 0.0', text)

    def real(block: re.Match[str]) -> str:
        commands = [line[2:] for line in block[1].splitlines() if line.startswith("$ ")]
        shown = "".join(f"$ {one}\n{printed(one)}" for one in commands)
        return f"```console\n{shown}```"

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


def test_the_tutorial_runs_from_its_first_command_to_its_last(
    tmp_path: Path, annotate_cli: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In order and in one folder. Pages are opened and closed again; a server stands in for the
    model on the reader's machine. An excerpt stands in an output above it.
    """
    monkeypatch.setenv("COLUMNS", "80")
    before = (ROOT / TUTORIAL).read_text()
    shown: list[str] = []

    def run(command: str, address: str) -> str:
        program, *arguments = shlex.split(command.replace("http://localhost:8000/v1", address))
        assert program == "annotate", command
        if arguments[0] in ("view", "label"):
            open_page(tmp_path, *arguments)
            return ""
        done = annotate_cli(*arguments)
        assert done.code == 0, done.err
        shown.extend(done.out.splitlines())
        return done.out

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

    with Server() as server:
        after = STEP.sub(follow, before)
    if os.environ.get("UPDATE_DOCS"):
        (ROOT / TUTORIAL).write_text(after)
    else:
        assert before == after


def test_the_glossary_explains_every_mark_status_and_kind() -> None:
    """In alphabetical order, words after signs."""
    page = (ROOT / "docs" / "glossary.md").read_text()
    cells = re.findall(r"^\| (.+?) \| ", page, re.MULTILINE)[2:]
    entries = {word for cell in cells for word in cell.replace("`", "").split(", ")}
    assert {*MARKS, "ok", *STATUSES, *get_args(FailureKind), *KINDS} - entries == set()
    words = [cell for cell in cells if cell[0].isalpha()]
    assert words == sorted(words, key=str.lower)


COMMAND = re.compile(r"(?:^    |`)(annotate [^`\n]+)", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_commands_that_are_only_named_could_be_given(page: str) -> None:
    """Those with names of a user's own cannot be run here: their options must exist."""
    context = click.Context(cli)
    for line in COMMAND.findall((ROOT / page).read_text()):
        words = re.split(r"\s{2,}|\s#|[;|>]", line)[0].replace("...", "").split()[1:]
        group, name = cli, next((word for word in words if word in cli.list_commands(context)), "")
        command = group.get_command(context, name or "run")
        if isinstance(command, click.Group):
            names = [word for word in words if word in command.commands]
            command = command.commands[names[0]] if names else command
        known = {"--help", "-h", "--version"}
        known |= {
            option for each in command.params for option in (*each.opts, *each.secondary_opts)
        }
        for word in words:
            if word.startswith("-"):
                assert word.strip("[],.)").split("=")[0] in known, f"{page}: {line}: {word}"


FACTS = re.compile(r"```facts (\S+)\n(.*?)```", re.DOTALL)


def test_the_docs_show_what_a_model_is_shown_of_facts() -> None:
    page = ROOT / "docs" / "llm.md"
    before = page.read_text()

    def real(block: re.Match[str]) -> str:
        [trace] = read_traces([str(ROOT / block[1])])
        assert isinstance(trace, Trace)
        prompt = render(trace, load_rubric("symptoms"), observations=describe_facts(trace))
        shown = prompt.aside.replace(prompt.tag, "TAG").strip()
        return f"```facts {block[1]}\n{shown}\n```"

    after = FACTS.sub(real, before)
    assert "<observations TAG>" in after
    if os.environ.get("UPDATE_DOCS"):
        page.write_text(after)
    else:
        assert before == after


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text()):
            assert ((ROOT / page).parent / target).exists(), f"{page}: {target}"


def test_the_reference_has_every_public_name() -> None:
    page = (ROOT / "docs" / "reference.md").read_text()
    documented = re.findall(r"^::: (\S+)$", page, re.MULTILINE)
    assert [name.rpartition(".")[2] for name in documented] == [
        name for name in annotator.__all__ if name != "__version__"
    ]
    for name in documented:
        module, _, attribute = name.rpartition(".")
        assert getattr(import_module(module), attribute) is getattr(annotator, attribute)


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text()
    assert [page for page in PAGES if page.startswith("docs/") and page[5:] not in navigation] == []
