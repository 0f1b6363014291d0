"""What the docs show is what the tool prints.

Every ``console`` block holds commands (``$ ...``) and their output. ``UPDATE_DOCS=1 pytest
tests/test_docs.py`` writes the present output into the docs; read the difference before you commit.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import click
import pytest

import annotator
from annotator.cli import cli
from tests.conftest import ROOT, Done

PAGES = ["README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))]
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)


def run_process(*arguments: str) -> Done:
    """Run ``annotate`` as README's readers do: in a process of its own, in this folder."""
    command = [sys.executable, "-m", "annotator", *arguments]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("page", PAGES)
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
        program, *arguments = command.split()
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
