"""The wheel does the main job from anywhere, with nothing of the checkout beside it."""

import os
import subprocess
import sys
import venv

import pytest

from tests.conftest import EXAMPLES, ROOT


@pytest.mark.slow
def test_an_installed_wheel_does_the_main_job(tmp_path):
    build = [sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True, timeout=300)
    [wheel] = tmp_path.glob("failure_annotator-*.whl")
    # A clean environment that holds our wheel alone; the dependencies are lent by the tests' own.
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "-q", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(install, check=True, timeout=120)
    site = next((tmp_path / "env" / "lib").glob("python3*")) / "site-packages"
    lent = [path for path in sys.path if path.endswith("site-packages")]
    (site / "lent.pth").write_text("\n".join(lent))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}

    def run(*arguments: str) -> str:
        command = [str(tmp_path / "env" / "bin" / "annotate"), *arguments]
        done = subprocess.run(command, cwd=elsewhere, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    where = "import annotator; print(annotator.__file__)"
    found = subprocess.run(
        [str(python), "-c", where], cwd=elsewhere, env=env, capture_output=True, text=True
    )
    assert str(tmp_path) in found.stdout, "the checkout was imported, not the wheel"
    assert "work_overlap" in run(str(EXAMPLES), "--rubric", "symptoms", "--out", "out")
    assert (elsewhere / "out" / "annotations.jsonl").exists()
    assert "comm_errors" in run("rubric", "list")
    assert "prompt_sha256" in (elsewhere / "out" / "run.json").read_text()
    assert "40 of 48 traces judged" in run("demo")
    run("report", "out", "--format", "html")
    assert "data-id" in (elsewhere / "out" / "report.html").read_text()
