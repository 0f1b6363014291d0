"""One trace on the page: its outcome, where patches overlap, typeset messages, people's quotes."""

import json
from urllib.parse import quote

import pytest

from tests.conftest import TALK, run_name, write_run
from tests.web.conftest import tool

MESSAGE = (
    "# Plan\nI take `parse()` and **only** that: 2 ** 3 and a lone ` stay.\n"
    "```python\ndef parse():\n\n    return 1\n```\nThen\n~~~diff\n+added\n-gone\n same\n~~~\n"
    "```\n--- a/x.py\n+++ b/x.py\n```\nnot closed:\n```\nto the end"
)
BASE = "@@ -1,3 +1,3 @@ class A:\n one\n"
X, Y = (f"--- a/{name}.py\n+++ b/{name}.py\n{BASE}" for name in "xy")
DIFFS = {
    1: f"{X}-two\n-three\n+deux\n+trois\n",
    2: f"{X}-two\n+zwei\n three\n{Y}-two\n+2\n three\n",
}
SAME = dict.fromkeys((1, 2), DIFFS[1])


@pytest.fixture
def open_trace(tmp_path, visit):
    """Judge a run by symptoms and open it in the report."""

    def write(*options, talk=None, width=1280, **run):
        write_run(tmp_path / run_name(1), talk, **run)
        tool("logs", "--rubric", "symptoms", "--out", "run", cwd=tmp_path)
        tool("report", "run", "--format", "html", *options, cwd=tmp_path)
        page = visit((tmp_path / "run" / "report.html").as_uri() + "#/traces", width=width)
        page.click("ol.traces a")
        page.wait_for_selector(".reading")
        return page

    return write


@pytest.mark.parametrize(
    ("merge", "patches", "says"),
    [
        ("conflicts", DIFFS, "conflict in x.py, line 2"),
        ("clean", DIFFS, "overlap in x.py, line 2"),
        ("conflicts", SAME, "same change in x.py, lines 2 to 3"),
    ],
)
def test_overlapping_hunks_are_named_and_lead_to_each_other(open_trace, merge, patches, says):
    page = open_trace(merge=merge, patches=patches)
    assert page.locator(".meetings button").all_inner_texts() == [says]
    page.click(".meetings button")
    focused = "document.activeElement.closest('[data-source]').dataset.source"
    assert page.evaluate(focused) == "patch:agent1"
    page.keyboard.press("Enter")
    assert page.evaluate(focused) == "patch:agent2"
    page.keyboard.press("Enter")
    assert page.evaluate(focused) == "patch:agent1"
    marked = page.locator("[data-source='patch:agent1'] .line.overlap").all_text_contents()
    assert "".join(marked) == "-two\n-three\n+deux\n+trois\n"
    for n, patch in patches.items():
        pieces = page.locator(f"[data-source='patch:agent{n}'] .piece").all_text_contents()
        assert "".join(pieces) == patch


def test_the_outcome_comes_first_and_tells_what_was_lost(open_trace):
    page = open_trace(patches=DIFFS, alone=(False, True))
    names = page.eval_on_selector_all(".trace > section", "all => all.map((one) => one.ariaLabel)")
    assert names[:3] == ["Outcome", "Conversation", "Patches"]
    assert page.inner_text(".lost") == "feature 2 lost: passed alone, failed after the merge."
    assert page.locator(".strip li").all_inner_texts() == [
        "4 messages (agent1 2, agent2 2)",
        "agent1's patch +2 −2 in 1 file",
        "agent2's patch +2 −2 in 2 files",
        "changed by several: x.py",
    ]


def test_facts_can_be_left_out(open_trace):
    page = open_trace("--no-facts", patches=DIFFS)
    assert page.locator(".strip, .meetings, .jump, .overlap").count() == 0


def test_of_an_unknown_outcome_nothing_is_said(open_trace):
    page = open_trace(passed=None, patches={})
    assert page.locator(".strip, .meetings, .lost").count() == 0


def test_messages_are_typeset_and_keep_every_character(open_trace):
    page = open_trace(talk=[("agent1", MESSAGE), *TALK[1:]])
    source = page.locator("[data-source='message:1']")
    assert source.text_content() == MESSAGE
    shown = {
        kind: "".join(source.locator(f".md.{kind}").all_text_contents())
        for kind in ("strong", "tick", "added", "removed")
    }
    assert shown == {
        "strong": "# Plan\n**only**",
        "tick": "`parse()`",
        "added": "+added\n+++ b/x.py\n",
        "removed": "-gone\n--- a/x.py\n",
    }
    code = "".join(source.locator(".md.code:not(.fence)").all_text_contents())
    assert code.startswith("def parse():\n\n    return 1\n+added")
    assert code.endswith("to the end")


def test_a_quote_across_code_is_marked_at_its_place(open_trace, tmp_path, visit):
    open_trace(talk=[("agent1", MESSAGE), *TALK[1:]])
    file = tmp_path / "run" / "annotations.jsonl"
    line = json.loads(file.read_text())
    start, end = MESSAGE.index("only"), MESSAGE.index("return 1")
    evidence = {"quote": MESSAGE[start:end], "source": "message:1", "start": start, "end": end}
    finding = {"code": "work_overlap", "rationale": "", "evidence": [evidence | {"match": "exact"}]}
    file.write_text(json.dumps(line | {"findings": [finding]}) + "\n")
    tool("report", "run", "--format", "html", cwd=tmp_path)
    page = visit(
        (tmp_path / "run" / "report.html").as_uri() + f"#/trace/{quote(line['trace_id'], safe='')}"
    )
    page.wait_for_selector("mark.current")
    assert "".join(page.locator("mark.current").all_text_contents()) == MESSAGE[start:end]


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ("", "quote 1 of 2"),
        ("code=repetition", "quote 1 of 1"),
        ("code=work_overlap", "quote 1 of 1"),
    ],
)
def test_the_walk_keeps_to_the_code_of_the_filter(open_trace, tmp_path, visit, wanted, says):
    open_trace(talk=[("agent1", MESSAGE), *TALK[1:]])
    file = tmp_path / "run" / "annotations.jsonl"
    line = json.loads(file.read_text())
    evidence = {"quote": "# Plan", "source": "message:1", "start": 0, "end": 6, "match": "exact"}
    codes = ["work_overlap", "repetition"]
    findings = [{"code": code, "rationale": "", "evidence": [evidence]} for code in codes]
    made = {"status": "labelled", "primary": codes[0], "secondary": codes[1:], "findings": findings}
    file.write_text(json.dumps(line | made) + "\n")
    tool("report", "run", "--format", "html", cwd=tmp_path)
    page = visit((tmp_path / "run" / "report.html").as_uri() + f"#/traces?{wanted}")
    page.click("ol.traces a")
    page.wait_for_selector("mark.current")
    assert says in page.inner_text(".walk")


def test_quotes_of_people_without_a_place_are_located(open_trace, tmp_path, visit):
    write_run(tmp_path / run_name(1))
    label = {
        "trace_id": run_name(1, "").lstrip("/"),
        "rubric": "symptoms",
        "annotator": "ann",
        "primary": "work_overlap",
        "evidence": ["Which field  holds the unit?", "nowhere to be found", "parser"],
    }
    (tmp_path / "labels.jsonl").write_text(json.dumps(label) + "\n")
    page = open_trace("--labels", "labels.jsonl")
    card = page.locator(".card.human")
    assert card.locator("button.quote").all_inner_texts() == [
        "message:1, found by its words\nWhich field holds the unit?"
    ]
    lines = card.locator("li:not(:has(button))").all_inner_texts()
    assert lines == [
        f"Not found in the trace: {quote}" for quote in ("nowhere to be found", "parser")
    ]
    card.locator("button.quote").click()
    assert page.inner_text("mark.current") == "Which field holds the unit?"
    assert page.get_attribute("mark.current", "class") == "person current"
