"""What the house asks of the code as a whole: directions of import, a light start, names."""

import ast
import subprocess
import sys
from collections.abc import Iterator
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
def test_help_imports_nothing_heavy(arguments):
    names = imported(*arguments)
    site = {"_virtualenv", "_distutils_hack", "distutils", "sitecustomize", "usercustomize"}
    editable = {name for name in names if name.startswith("__editable__")}
    assert third_party(names) - site - editable <= LIGHT
    assert not names & SLOW


def test_rules_judge_imports_no_client(tmp_path):
    out = str(tmp_path / "out")
    names = imported("examples/traces", "--rubric", "symptoms", "--out", out, "--quiet")
    assert not names & {"openai", "instructor", "datasets", "sklearn", "aiohttp"}


def test_imports_go_one_way():
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# Words that say nothing of the thing they stand for.
PRONOUNS = {"one", "found", "known", "said", "own", "it", "them", "this", "that", "these", "those"}
# Words that say nothing of the thing either.
VAGUE = {
    "alike",
    "asked",
    "chosen",
    "drawn",
    "given",
    "held",
    "learned",
    "least",
    "met",
    "most",
    "part",
    "place",
    "shown",
    "spoken",
    "told",
    "wanted",
    "whole",
    "words",
}
# Keys of files, and members of the API and of the protocol of judges.
KEPT = {
    ("annotator/calibration/model.py", "drawn"),
    ("annotator/calibration/sample/design.py", "drawn"),
    ("annotator/judges/base.py", "learned"),
    ("annotator/judges/hosted.py", "learned"),
    ("annotator/judges/llm/critic.py", "learned"),
    ("annotator/judges/llm/judge.py", "learned"),
    ("annotator/judges/llm/response.py", "asked"),
    ("annotator/judges/panel.py", "learned"),
    ("annotator/runs/manifest.py", "learned"),
    ("annotator/traces/model.py", "spoken"),
    ("validation/reliability.py", "given"),
}
# The first words of functions: verbs, predicates such as "is" among them. A new one is added here.
VERBS = set((ROOT / "tests" / "verbs.txt").read_text(encoding="utf-8").split())
NOT_VERBS = {"llm", "__dir__", "__getattr__"}  # of the API, and of Python


def definitions() -> Iterator[tuple[str, ast.Module]]:
    """Every module of the code, by its path."""
    for folder in ("annotator", "validation"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield str(path.relative_to(ROOT)), ast.parse(path.read_text(encoding="utf-8"))


def names_in(module: ast.Module) -> Iterator[str]:
    """The names that a module gives to what it defines."""
    for node in ast.walk(module):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name


def test_no_class_name_stands_for_two_things():
    places: dict[str, list[str]] = {}
    for path, module in definitions():
        for node in ast.walk(module):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name.lstrip("_"), []).append(path)
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_names_are_nouns_of_the_thing():
    named = {(path, name) for path, module in definitions() for name in names_in(module)}
    refused = PRONOUNS | VAGUE
    assert {(path, name) for path, name in named if name.strip("_") in refused} == KEPT


def test_functions_begin_with_a_verb():
    others = [
        (path, node.name)
        for path, module in definitions()
        for node in module.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.decorator_list
        if node.name.strip("_").split("_")[0] not in VERBS and node.name not in NOT_VERBS
    ]
    assert others == []


def test_docstrings_say_what_a_caller_gets():
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    texts = [
        (path, text)
        for path, module in definitions()
        for node in ast.walk(module)
        if isinstance(node, kinds) and (text := ast.get_docstring(node))
    ]
    assert len(texts) > 1000
    assert [place for place in texts if place[1].startswith("What")] == []


def test_every_public_name_can_be_used():
    assert annotator.__all__
    for name in annotator.__all__:
        assert getattr(annotator, name) is not None
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = annotator.nothing_like_it
