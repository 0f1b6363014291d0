"""Run directories made by a stranger: shown as they are, or refused in one line."""

import json
import shutil
from pathlib import Path

import pytest

from annotator.web.payload import dump
from tests.conftest import TALK, run_name, write_run
from tests.web.conftest import tool

STRANGE = ["__proto__", "constructor", "toString"]


@pytest.fixture
def altered(tmp_path):
    """Write a run by symptoms and change its manifest, its rubric and its one annotation."""

    def write(manifest=None, rubric=None, line=None):
        write_run(tmp_path / run_name(1))
        tool("logs", "--rubric", "symptoms", "--out", "run", cwd=tmp_path)
        run = tmp_path / "run"
        found = json.loads((run / "run.json").read_text())
        found["rubrics"][0] |= rubric or {}
        (run / "run.json").write_text(json.dumps(found | (manifest or {})))
        one = json.loads((run / "annotations.jsonl").read_text()) | (line or {})
        (run / "annotations.jsonl").write_text(json.dumps(one) + "\n")
        return run

    return write


def report(run):
    tool("report", run, "--format", "html", cwd=run.parent)
    return (run / "report.html").as_uri()


def evidence(**changed):
    """Return fields of an annotation by C1: a quote that stands in message 1, but for changes."""
    text = TALK[0][1]
    quote = {"quote": text[2:9], "source": "message:1", "start": 2, "end": 9, "match": "exact"}
    finding = {"code": "work_overlap", "rationale": "r", "evidence": [quote | changed]}
    return {"primary": "work_overlap", "secondary": [], "findings": [finding]}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"sources": 5}, "sources"),
        ({"sources": [1]}, "sources.0"),
        ({"format": 5}, "format"),
        ({"prompt_sha256": 5}, "prompt_sha256"),
    ],
)
def test_a_manifest_of_other_types_is_refused_in_one_line(altered, annotate_cli, wrong, says):
    altered(manifest=wrong)
    for command in (("view", "run"), ("report", "run", "--format", "html")):
        done = annotate_cli(*command)
        assert done.code == 2
        assert says in done.err
        assert done.err.count("\n") == 1


def test_a_rubric_of_a_run_names_no_file_to_be_read(altered, tmp_path, visit):
    file = tmp_path / "own.yaml"
    shutil.copy(Path(__file__).parents[2] / "rubrics" / "symptoms.yaml", file)
    page = visit(report(altered(rubric={"id": str(file)}, line={"rubric": str(file)})) + "#/traces")
    page.click("ol.traces a")
    page.wait_for_selector(".finding")
    assert page.locator(".finding summary:has-text('Definition')").count() == 0


@pytest.mark.parametrize("rubric", ["__proto__", "a \"b\" 'c' <d>.0"])
def test_quotes_by_a_rubric_of_any_name_are_shown_in_place(altered, visit, rubric):
    page = visit(report(altered(rubric={"id": rubric}, line={"rubric": rubric} | evidence())))
    page.keyboard.press("t")
    page.click("ol.traces a")
    page.click(".finding h3 a.link")
    page.wait_for_selector("mark.current")
    assert page.inner_text("mark.current") == TALK[0][1][2:9]
    page.keyboard.press("o")
    page.wait_for_selector("table.counts")
    page.go_back()
    page.wait_for_selector("mark.current")


def test_codes_and_attributes_named_as_what_every_object_has(altered, visit):
    codes = [{"id": code, "name": code.upper(), "judged": True} for code in STRANGE[:1]]
    claims = [{"code": code, "reason": "not found", "quotes": ["x"]} for code in STRANGE]
    run = altered(
        rubric={"codes": codes, "choice": "many"},
        line={
            "primary": None,
            "secondary": ["__proto__"],
            "findings": [{"code": "__proto__", "rationale": "", "evidence": []}],
            "rejected": claims,
            "attributes": {"__proto__": "one", "f": 1.0},
        },
    )
    other = json.loads((run / "annotations.jsonl").read_text())
    other |= {"trace_id": "other", "attributes": {"__proto__": "two", "f": 2.5, "constructor": 3}}
    with (run / "annotations.jsonl").open("a") as file:
        file.write(json.dumps(other) + "\n")
    manifest = json.loads((run / "run.json").read_text())
    manifest["totals"]["annotations"] = 2
    (run / "run.json").write_text(json.dumps(manifest))
    page = visit(report(run) + "#/traces?a.f=1.0")
    page.wait_for_selector("ol.traces li")
    assert page.locator("ol.traces li").count() == 1
    page.select_option("select[name='a.f']", "")
    page.select_option("select[name='a.__proto__']", "two")
    page.wait_for_selector(".status:text-is('1 annotation')")
    assert "other" in page.inner_text("ol.traces")
    assert page.locator("select[name='a.constructor']").count() == 0  # one value, as any other
    page.click("a.button:text-is('Clear')")
    page.wait_for_selector(".status:text-is('2 annotations')")
    page.click("ol.traces a >> nth=0")
    page.wait_for_selector(".rejections")
    assert page.inner_text(".finding h3") == "__proto__\n__PROTO__\n#"
    heads = page.locator(".rejections h4").all_inner_texts()
    assert heads == ["__proto__\n__PROTO__", "constructor", "toString"]


@pytest.mark.parametrize("wrong", [{"start": -5, "end": -1}, {"end": 10**30}, {"source": "step:/"}])
def test_evidence_that_stands_nowhere_is_said(altered, visit, wrong):
    text = TALK[0][1]
    quote = {"quote": text[-5:-1]} if wrong.get("start") else {}
    page = visit(report(altered(line=evidence(**wrong, **quote))) + "#/traces")
    page.click("ol.traces a")
    page.wait_for_selector(".reading")
    assert "it has changed since" in page.inner_text(".trace .warning")


def test_numbers_that_json_does_not_have_become_texts():
    value = {"x": float("nan"), "y": [float("inf"), (-float("inf"), 1.5)], "z": True}
    assert json.loads(dump(value)) == {"x": "NaN", "y": ["Infinity", ["-Infinity", 1.5]], "z": True}
