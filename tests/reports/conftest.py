"""What the tests of reports share."""

import pytest

from tests.calibration.build import make_rubric, write_labels


@pytest.fixture
def rubric(tmp_path):
    return make_rubric(tmp_path)


@pytest.fixture
def calibrate(annotate_cli, tmp_path):
    """Calibrate a run by labels, and return the option by which a report takes what was written."""

    def calibrated(run, rows, *options):
        labels = write_labels(tmp_path / "labels.jsonl", rows)
        done = annotate_cli("calibrate", run, "--labels", labels, *options)
        assert done.code == 0, done.err
        return "--calibration", run / "calibration.json"

    return calibrated
