"""The real runs, read once for all tests of facts."""

import pytest

from annotator.traces import Trace, read_traces


@pytest.fixture(scope="session")
def real_runs(shared_data):
    return [one for one in read_traces([str(shared_data)]) if isinstance(one, Trace)]
