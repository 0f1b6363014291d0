"""The real runs and their labels; a test that needs them is skipped where they are not."""

import json

import pytest


@pytest.fixture(scope="session")
def logs(shared_data):
    folder = shared_data / "cooperbench" / "logs"
    if not folder.is_dir():
        pytest.skip(f"no CooperBench logs in {shared_data}")
    return folder


@pytest.fixture(scope="session")
def labels(shared_data):
    file = shared_data / "labels" / "cooperbench_dev.jsonl"
    if not file.is_file():
        pytest.skip(f"no labels in {shared_data}")
    return file


@pytest.fixture(scope="session")
def rows(labels):
    return [json.loads(line) for line in labels.read_text(encoding="utf-8").splitlines()]
