"""What the tests of labels share."""

import pytest

from tests.calibration.build import make_rubric


@pytest.fixture
def rubric(tmp_path):
    return make_rubric(tmp_path)
