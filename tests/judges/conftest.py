"""One small run and one rubric, for every test of a judge."""

from pathlib import Path

import pytest

from annotator.rubrics import Rubric, load_rubric
from annotator.traces import Trace, read_traces
from tests.conftest import write_run


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    [found] = read_traces([str(write_run(tmp_path / "one"))])
    assert isinstance(found, Trace)
    return found


@pytest.fixture(scope="module")
def rubric() -> Rubric:
    return load_rubric("comm_errors")
