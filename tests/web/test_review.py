"""The review of a judge's findings, as labels that have seen its answer."""

import json

import pytest

from annotator.base.errors import AnnotatorError
from annotator.labels import read_labels
from annotator.runs.run import open_run
from tests.conftest import EXAMPLES
from tests.web.conftest import lines_of, tool, until


@pytest.fixture
def review(judged_once, serve, visit, tmp_path):
    """Open a trace of a run in review by ann."""

    def open_(trace_id):
        served = serve("view", judged_once, "--review", "labels.jsonl", "--annotator", "ann")
        page = visit(f"{served.address}#/trace/{trace_id.replace('/', '%2F')}", refusals=True)
        page.wait_for_selector(".review.done")
        return page, served

    return open_


@pytest.fixture
def judged_once(tmp_path):
    """A run of the examples by one rubric."""
    tool(EXAMPLES, "--rubric", "comm_errors", "--out", "run", cwd=tmp_path)
    return tmp_path / "run"


def test_findings_are_accepted_rejected_and_become_a_label_when_done(
    review, judged_once, tmp_path, annotate_cli
):
    run = open_run(judged_once)
    found = next(each for each in run.annotations() if each.findings)
    file = tmp_path / "labels.jsonl"
    page, served = review(found.trace_id)
    assert "no blind labels" in page.inner_text(".review.done")
    page.keyboard.press("d")
    until(lambda: "Accept or reject every finding first" in page.inner_text("#said"))
    for n in range(len(found.findings)):
        page.locator("[data-review=a]").nth(n).click()
        until(lambda n=n: len(lines_of(file)[0]["review"]) == n + 1 if lines_of(file) else False)
    scheme = run.schemes["comm_errors"]
    with pytest.raises(AnnotatorError, match="none is labelled yet"):
        read_labels([file], scheme, [found.trace_id])
    page.keyboard.press("d")
    until(lambda: not lines_of(file)[0].get("skipped"))
    [label] = read_labels([file], scheme, [found.trace_id]).labels
    assert (label.annotator, label.primary, label.reviewed) == ("ann", found.primary, True)
    first = found.findings[0].evidence[0]
    assert (label.spans[0].quote, label.spans[0].source) == (first.quote, first.source)
    served.stop()
    done = annotate_cli("calibrate", judged_once, "--labels", file)
    assert "1 of the 1 labels were given with the judge's answer in sight" in " ".join(
        done.out.split()
    )
    page, _ = review(found.trace_id)
    assert page.locator("[data-review=d]").get_attribute("aria-pressed") == "true"
    for n in range(len(found.findings)):
        page.locator("[data-review=r]").nth(n).click()
        page.wait_for_selector(f".finding >> nth={n} >> [data-review=r][aria-pressed=true]")
    page.keyboard.press("d")
    until(lambda: not lines_of(file)[0].get("skipped"))
    [line] = lines_of(file)
    assert (line["primary"], line["reviewed"]) == (None, True)
    assert [event["verdict"] for event in line["review"]] == [
        *["accept"] * len(found.findings),
        *["reject"] * len(found.findings),
    ]


def test_a_blind_label_is_not_replaced(review, judged_once, tmp_path):
    found = next(each for each in open_run(judged_once).annotations() if each.findings)
    blind = {"trace_id": found.trace_id, "rubric": "comm_errors", "annotator": "ann"}
    line = json.dumps(blind | {"primary": None, "secondary": []}) + "\n"
    (tmp_path / "labels.jsonl").write_text(line)
    page, _ = review(found.trace_id)
    page.locator("[data-review=r]").first.click()
    until(lambda: "without the judge's answer" in page.inner_text("#said"))
    assert (tmp_path / "labels.jsonl").read_text() == line
