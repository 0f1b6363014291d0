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


def test_keys_judge_the_finding_in_focus_only(serve, visit, judged_once, tmp_path):
    found = next(each for each in open_run(judged_once).annotations() if each.findings)
    quote = found.findings[0].evidence[0].quote
    line = {"trace_id": found.trace_id, "rubric": "comm_errors", "annotator": "bob"}
    line |= {"primary": found.primary, "secondary": [], "evidence": [quote]}
    (tmp_path / "bob.jsonl").write_text(json.dumps(line) + "\n")
    labels = ("--labels", "bob.jsonl", "--annotator", "bob")
    served = serve("view", judged_once, "--review", "bob-review.jsonl", *labels)
    page = visit(f"{served.address}#/trace/{found.trace_id.replace('/', '%2F')}")
    page.click(".card.human button.quote")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("a")
    until(lambda: "No finding is in focus" in page.inner_text("#said"))
    page.click(".finding button.quote >> nth=0")
    page.keyboard.press("r")
    page.wait_for_selector(".finding >> nth=0 >> [data-review=r][aria-pressed=true]")
    [line] = lines_of(tmp_path / "bob-review.jsonl")
    assert [event["verdict"] for event in line["review"]] == ["reject"]


def test_a_reader_adds_a_code_that_the_judge_missed(review, judged_once, tmp_path):
    run = open_run(judged_once)
    found = next(each for each in run.annotations() if each.findings)
    missed, other = [code for code in run.schemes["comm_errors"].ids if code not in found.codes][:2]
    file = tmp_path / "labels.jsonl"
    page, _ = review(found.trace_id)
    page.keyboard.press("e")
    until(lambda: "Choose the code first" in page.inner_text("#said"))
    page.select_option(".added select", missed)
    page.click(".added [data-review=e]")
    page.wait_for_selector(".added .finding")
    source = page.locator(".message .source").first
    source.evaluate("(one) => getSelection().selectAllChildren(one)")
    page.click(".added [data-review=e]")
    page.wait_for_selector(".added q")
    page.select_option(".added select", other)
    page.evaluate("getSelection().removeAllRanges()")
    page.click(".added [data-review=e]")
    page.click(f"[aria-label='Take {other} back']")
    until(lambda: page.locator(".added .finding").count() == 1)
    for n in range(len(found.findings)):
        page.locator("[data-review=r]").nth(n).click()
        page.wait_for_selector(f".finding >> nth={n} >> [data-review=r][aria-pressed=true]")
    page.click("[data-review=d]")
    until(lambda: not lines_of(file)[0].get("skipped"))
    [label] = read_labels([file], run.schemes["comm_errors"], [found.trace_id]).labels
    assert (label.codes, label.reviewed) == ((missed,), True)
    [span] = label.spans
    assert (span.quote, span.code) == (source.text_content().strip(), missed)
    page.reload()
    page.wait_for_selector(".added q")
