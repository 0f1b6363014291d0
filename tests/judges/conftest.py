"""One small run and one rubric, for every test of a judge."""

import pytest

from annotator.rubrics import load_rubric
from annotator.traces import Trace, read_traces
from tests.conftest import write_run


@pytest.fixture
def trace(tmp_path):
    [found] = read_traces([str(write_run(tmp_path / "one"))])
    assert isinstance(found, Trace)
    return found


@pytest.fixture(scope="module")
def rubric():
    return load_rubric("comm_errors")
