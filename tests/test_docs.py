"""What the docs show is what the tool prints.

Every ``console`` block holds commands (``$ ...``) and their output. ``UPDATE_DOCS=1 pytest
tests/test_docs.py`` writes the present output into the docs; read the difference before you commit.
A ``facts`` block names a trace and holds what ``--facts`` shows a model of it.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from annotator.judges.llm.observations import observe
from annotator.prompts import render
from annotator.rubrics import load_rubric
from annotator.traces import Trace, read_traces
from tests.conftest import ROOT

PAGES = ["README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))]
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)


def printed(command: str, folder: Path) -> str:
    """What a command of the docs prints on stdout, with the times it took as zero."""
    words = command.split()
    if words[0] == "cat":
        text = (folder / words[1]).read_text()
    else:
        assert words[0] == "annotate", command
        env = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80"}
        env["ANNOTATOR_CACHE"] = "cache/answers.sqlite"
        for name in ("ANNOTATOR_MODEL", "OPENAI_BASE_URL", "OPENAI_API_KEY"):
            env.pop(name, None)
        done = subprocess.run(
            [sys.executable, "-m", "annotator", *words[1:]],
            cwd=folder,
            env=env,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        text = done.stdout
    return re.sub(r'"seconds": [0-9.e-]+', '"seconds": 0.0', text)


@pytest.mark.parametrize("page", PAGES)
def test_the_docs_show_real_output(page: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    before = (ROOT / page).read_text()

    def real(block: re.Match[str]) -> str:
        commands = [line[2:] for line in block[1].splitlines() if line.startswith("$ ")]
        shown = "".join(f"$ {one}\n{printed(one, tmp_path)}" for one in commands)
        return f"```console\n{shown}```"

    after = BLOCK.sub(real, before)
    if os.environ.get("UPDATE_DOCS"):
        (ROOT / page).write_text(after)
    else:
        assert before == after


FACTS = re.compile(r"```facts (\S+)\n(.*?)```", re.DOTALL)


def test_the_docs_show_what_a_model_is_shown_of_facts() -> None:
    page = ROOT / "docs" / "llm.md"
    before = page.read_text()

    def real(block: re.Match[str]) -> str:
        [trace] = read_traces([str(ROOT / block[1])])
        assert isinstance(trace, Trace)
        prompt = render(trace, load_rubric("symptoms"), observations=observe(trace))
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
