"""What the tests of the readers share: files, and what is read of them."""

import json

import pytest

from annotator.traces import Trace, Unreadable, read_traces


@pytest.fixture
def write(tmp_path):
    """Return a function that writes files below ``tmp_path`` and returns their folder.

    Values that are neither text nor bytes are written as JSON.
    """

    def write(place, **files):
        folder = tmp_path / place
        folder.mkdir(parents=True, exist_ok=True)
        for name, value in files.items():
            data = value if isinstance(value, str | bytes) else json.dumps(value)
            (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())
        return folder

    return write


@pytest.fixture
def found():
    """Return a function that reads sources to the end: what was found, in order."""
    return lambda *sources, **options: list(read_traces([str(one) for one in sources], **options))


@pytest.fixture
def trace(found):
    """Return a function that reads the one trace below the sources."""

    def trace(*sources, **options):
        (one,) = found(*sources, **options)
        assert isinstance(one, Trace), one
        return one

    return trace


@pytest.fixture
def unreadable(found):
    """Return a function that reads the one unreadable trace below the sources."""

    def unreadable(*sources, **options):
        (one,) = found(*sources, **options)
        assert isinstance(one, Unreadable), one
        return one

    return unreadable
