"""What every test may use: small runs written to disk, and the command line in this process."""

import base64
import json
import os
import re
import resource
import signal
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, settings

from annotator.cli import main
from annotator.rubrics import Choice, Scheme, SchemeCode
from annotator.rubrics.annotations import Annotation, read_annotations

# Nothing here asks the network. Libraries read it when they are first imported, whoever does that.
os.environ["HF_HUB_OFFLINE"] = "1"
# Each process that a test starts would compile the package anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Started in the background by a shell, the tests and all that they start would be deaf to Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples every time, however long they take; others with --hypothesis-profile=default.
settings.register_profile(
    "same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("same")

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples" / "traces"

Talk = list[tuple[str, str]]
TALK: Talk = [
    ("agent1", "I take the parser module. Which field holds the unit?"),
    ("agent2", "I am adding the printer now, it only touches output.py."),
    ("agent1", "The parser is done; I never touched output.py."),
    ("agent2", "Printer finished. There is no overlap with your parser."),
]
PATCHES = {
    1: "--- a/shop/parser.py\n+++ b/shop/parser.py\n@@ -1,1 +1,2 @@\n import re\n+UNIT = 'kg'\n",
    2: "--- a/shop/parser.py\n+++ b/shop/parser.py\n@@ -1,1 +1,2 @@\n import re\n+UNIT = 'lb'\n",
}


def write_run(
    folder: Path,
    talk: Talk | None = None,
    *,
    passed: bool | None = False,
    merge: str = "conflicts",
    patches: dict[int, str] | None = None,
    outputs: tuple[str, str] = ("", ""),
    alone: tuple[bool, bool] = (True, True),
) -> Path:
    """Write one run in the CooperBench log layout; ``passed`` None leaves the outcome out."""
    folder.mkdir(parents=True, exist_ok=True)
    messages = [
        {
            "from": sender,
            "to": "agent2" if sender == "agent1" else "agent1",
            "message": text,
            "timestamp": 1_700_000_000.0 + n,
        }
        for n, (sender, text) in enumerate(TALK if talk is None else talk)
    ]
    (folder / "conversation.json").write_text(json.dumps(messages))
    if passed is not None:
        features = {
            f"feature{n}": {"feature_id": n, "passed": passed, "test_output": outputs[n - 1]}
            for n in (1, 2)
        }
        single = {f"feature{n}_independent": {"passed": alone[n - 1]} for n in (1, 2)}
        evaluation = {"features": [1, 2], "merge": {"status": merge}, "both_passed": passed}
        (folder / "eval.json").write_text(json.dumps(evaluation | features | single))
    agents = {f"agent{n}": {"feature_id": n, "status": "Submitted"} for n in (1, 2)}
    result = {"features": [1, 2], "setting": "coop", "model": "m", "agents": agents}
    (folder / "result.json").write_text(json.dumps(result))
    for n, patch in (PATCHES if patches is None else patches).items():
        (folder / f"agent{n}.patch").write_text(patch)
    return folder


def make_scheme(rubric: str, ids: Sequence[str], choice: Choice, sha256: str = "") -> Scheme:
    """What labels by a rubric with these codes are checked against."""
    codes = tuple(SchemeCode(id=code, judged=True) for code in ids)
    return Scheme(id=rubric, version=1, sha256=sha256, choice=choice, codes=codes)


def run_name(n: int, root: str = "logs") -> str:
    return f"{root}/night/coop/shop_task/{n}/f1_f2"


@pytest.fixture(autouse=True)
def answer_cache(tmp_path, monkeypatch):
    """A cache of answers of each test's own; it is there once something was asked."""
    file = tmp_path / "cache" / "answers.sqlite"
    monkeypatch.setenv("ANNOTATOR_CACHE", str(file))
    return file


@pytest.fixture
def runs(tmp_path):
    """Write several runs below ``tmp_path/logs`` and return that folder; unless their ``talk`` is
    given, they differ in the last words of their last message.
    """

    def write(count: int = 1, **options: Any) -> Path:
        for n in range(1, count + 1):
            own = [*TALK[:-1], (TALK[-1][0], f"{TALK[-1][1]} This was run {n}.")]
            write_run(tmp_path / run_name(n), **{"talk": own} | options)
        return tmp_path / "logs"

    return write


def unwrap(text: str) -> str:
    """Undo the breaks of notes and notices: the next lines are indented by 3, 5 or 7."""
    lines, last = [""], ""
    for line in text.split("\n"):
        words = line.lstrip()
        broken = len(last) + 1 + len(words.partition(" ")[0]) > 80
        if broken and len(line) - len(words) in (3, 5, 7):
            lines[-1] += f" {words}"
        else:
            lines.append(line)
        last = line
    return "\n".join(lines[1:])


@dataclass(frozen=True)
class Done:
    """The exit code of a command and its texts; ``raw`` is stdout with all its line breaks."""

    code: int
    out: str
    err: str
    raw: str = ""


class ModelSettings(dict[str, Any]):
    """Settings of a model, which stand in a judge file."""


def set_model(**settings: Any) -> tuple[str, ModelSettings]:
    """The options with which ``annotate_cli`` lets a judge file hold these settings."""
    return "--judge", ModelSettings(settings)


def write_judge_file(arguments: Sequence[object], folder: Path) -> list[object]:
    """Put all settings of :func:`set_model`, over those of a judge file, into one file."""
    if not any(isinstance(value, ModelSettings) for value in arguments):
        return list(arguments)
    rest: list[object] = []
    merged: dict[str, Any] = {}
    values = iter(arguments)
    for value in values:
        if value == "--judge":
            judge = next(values)
            if judge == "rules":
                return [*rest, value, judge, *values]
            settings = isinstance(judge, ModelSettings)
            merged |= judge if settings else yaml.safe_load(Path(str(judge)).read_text())
        else:
            rest.append(value)
    file = folder / "judge.yaml"
    file.write_text(yaml.safe_dump(merged))
    return [*rest, "--judge", file]


@pytest.fixture
def annotate_cli(capsys, monkeypatch, tmp_path, tmp_path_factory):
    """Run ``annotate`` with these arguments in this process, in ``tmp_path``."""
    for name in ("ANNOTATOR_MODEL", "OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("annotator.cli.servers.PORTS", ())  # whatever runs on this machine
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Done:
        arguments = write_judge_file(arguments, tmp_path_factory.mktemp("judge"))
        monkeypatch.setattr(sys, "argv", ["annotate", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        printed = capsys.readouterr()
        code = int(stop.value.code or 0)
        return Done(code, unwrap(printed.out), unwrap(printed.err), printed.out)

    return run


@contextmanager
def limit_file_size(most: int) -> Iterator[None]:
    """Let no file of this process grow beyond ``most`` bytes. As on a full disk, a write takes a
    part and then fails.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def annotations(folder: Path) -> dict[tuple[str, str], Annotation]:
    """The annotations of a run directory by trace and rubric; a double one is an error."""
    found: dict[tuple[str, str], Annotation] = {}
    for one in read_annotations(folder):
        key = (one.trace_id, one.rubric)
        assert key not in found, f"{key} stands twice in {folder}"
        found[key] = one
    return found


@pytest.fixture(scope="session")
def shared_data():
    """The real runs; a test that needs them is skipped where they are not."""
    folder = Path(os.environ.get("ANNOTATOR_TEST_DATA") or ROOT.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip("no real runs here: set ANNOTATOR_TEST_DATA to their folder")
    return folder


def read_overview(page: Path) -> str:
    """The first page of the one HTML file, as JSON."""
    packed = re.search(r'id="overview">([^<]*)<', page.read_text())
    assert packed
    return zlib.decompress(base64.b64decode(packed[1])).decode()
