"""YAML of strangers: read, or refused in words; never a traceback, a crash or an endless read."""

import os
from pathlib import Path

import pytest

from annotator.base.errors import AnnotatorError
from annotator.base.yaml import read_yaml
from annotator.calibration.model import read_calibrations
from annotator.calibration.sample.design import read_design
from annotator.judges.llm.batch import BatchImport
from annotator.judges.llm.cache import list_models
from annotator.judges.llm.redact import Secrets
from annotator.labels import LabelFiles
from annotator.labels.queue import is_sheet
from annotator.rubrics import load_rubric
from annotator.rubrics.annotations import read_annotations


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: !!int ''", "not valid YAML"),
        ("a: !!float ''", "not valid YAML"),
        ("a: !!timestamp x", "not valid YAML"),
        ("a: !!binary '\u00e9'", "not valid YAML"),
        ("? {a: 1}\n: 2\n", "not valid YAML"),
        ("[" * 51 + "]" * 51, "nested more than 50 deep"),
        ("[" * 50_000, ""),  # in the parser's own words, if it refuses first
        ("- " * 60 + "x", "nested more than 50 deep"),
        ("a: *b", "undefined alias"),
        ("a: 1\na: 2\n", "'a' twice"),
        ("~: 1\n~: 2\n", "None twice"),
        ("#" * 1_100_000, "larger than 1 MB"),
    ],
    ids=lambda text: text[:20],
)
def test_refused(tmp_path, text, reason):
    file = tmp_path / "a.yaml"
    file.write_text(text)
    with pytest.raises(AnnotatorError) as error:
        read_yaml(file)
    assert str(error.value).startswith(f"{file}: ")
    assert reason in str(error.value)


def test_what_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "missing", "."):
        with pytest.raises(AnnotatorError):
            read_yaml(tmp_path / name)


def test_aliases_of_a_sensible_size_are_followed(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text("a: &a {x: 1}\nb: [*a, *a]\n")
    assert read_yaml(file)[0] == {"a": {"x": 1}, "b": [{"x": 1}, {"x": 1}]}


@pytest.mark.parametrize(
    "read",
    [
        read_yaml,
        read_design,
        lambda file: read_calibrations([file]),
        BatchImport(*[None] * 3, Secrets(())).take_file,
        lambda file: list(read_annotations(file)),
        lambda file: LabelFiles([file]).convert(load_rubric("mast").scheme(), "gold"),
        list_models,
    ],
)
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_is_no_regular_file_is_refused_wherever_a_file_is_named(
    tmp_path, monkeypatch, read, kind
):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    with pytest.raises(AnnotatorError, match="not a regular file"):
        read(Path("/dev/zero" if kind == "device" else kind))


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl"])
def test_what_has_no_end_is_no_sheet(tmp_path, suffix):
    endless = tmp_path / f"a{suffix}"
    with endless.open("wb") as out:
        out.truncate(1 << 40)
    assert not is_sheet(endless)
