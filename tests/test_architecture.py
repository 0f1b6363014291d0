"""What the house asks of the code as a whole: directions of import, a light start, names."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import annotator
from tests.conftest import ROOT

# All that `annotate --help` may load besides the standard library.
LIGHT = {"annotator", "click", "click_default_group"}
# Modules of the standard library that are slow to import and not needed to print a help text.
SLOW = {"asyncio", "multiprocessing", "concurrent", "sqlite3", "unittest"}


def imported(*arguments: str) -> set[str]:
    """The top-level packages that a command imports."""
    command = [sys.executable, "-X", "importtime", "-m", "annotator", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")][1:]
    return {line.rsplit("|")[-1].strip().split(".")[0] for line in lines}


def third_party(names: set[str]) -> set[str]:
    return {name for name in names if name not in sys.stdlib_module_names and name != "__main__"}


@pytest.mark.parametrize("arguments", [("--help",), ("--version",)])
def test_help_imports_nothing_heavy(arguments: tuple[str, ...]) -> None:
    names = imported(*arguments)
    site = {"_virtualenv", "_distutils_hack", "distutils", "sitecustomize", "usercustomize"}
    editable = {name for name in names if name.startswith("__editable__")}
    assert third_party(names) - site - editable <= LIGHT
    assert not names & SLOW


def test_rules_judge_imports_no_client(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    names = imported("examples/traces", "--rubric", "symptoms", "--out", out, "--quiet")
    assert not names & {"openai", "instructor", "datasets", "sklearn", "numpy", "aiohttp"}


def test_imports_go_one_way() -> None:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_class_name_stands_for_two_things() -> None:
    places: dict[str, list[str]] = {}
    for folder in ("annotator", "validation"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    places.setdefault(node.name.lstrip("_"), []).append(path.name)
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_every_public_name_can_be_used() -> None:

    assert annotator.__all__
    for name in annotator.__all__:
        assert getattr(annotator, name) is not None
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = annotator.nothing_like_it
