"""What the tests of calibration share: a rubric, and a calibration that must succeed."""

import pytest

from tests.calibration.build import calibration, make_rubric, write_labels


@pytest.fixture
def rubric(tmp_path):
    return make_rubric(tmp_path)


@pytest.fixture
def calibrate(annotate_cli, tmp_path):
    """Calibrate a run by a file or rows of labels: the first calibration in its file, the text."""

    def run_command(run, labels, *options):
        file = (
            write_labels(tmp_path / "labels.jsonl", labels) if isinstance(labels, list) else labels
        )
        done = annotate_cli("calibrate", "-v", run, "--labels", file, *options)
        assert done.code == 0, done.err
        return calibration(run / "calibration.json"), done.out

    return run_command
