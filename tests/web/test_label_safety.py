"""What ``annotate label`` must never do: lose a decision, or keep another than the one shown."""

import json
import shutil

import pytest

from annotator.rubrics import load_rubric
from annotator.traces import Trace, read_traces
from tests.conftest import write_run
from tests.web.conftest import Held, label_command, until
from tests.web.test_label import go_on, labels_in, saved

CODES = [code.id for code in load_rubric("symptoms").codes]


def idle(page):
    """Wait until what was asked of the server before another trace may be shown is answered."""
    page.wait_for_selector("#main:not([inert])")


def standing_at(page):
    return str(page.get_attribute("#main", "data-item"))


@pytest.mark.parametrize(
    ("text", "last"),
    [("All of it.", True), ("\U0001f600 \U0001d4b3 first", False), ("שלום and more", False)],
)
def test_a_triple_click_takes_the_line_and_nothing_of_the_next_message(
    tmp_path, serve, visit, text, last, lines
):
    talk = [("agent1", "Before."), ("agent2", text)] + [("agent1", "After.")] * (not last)
    write_run(tmp_path / "logs" / "m" / "coop" / "x_task" / "1" / "f1_f2", talk)
    page = visit(serve(*label_command(tmp_path / "logs", rubric="symptoms")).address)
    page.click('[data-source="message:2"]', click_count=3, position={"x": 20, "y": 8})
    page.keyboard.press("e")
    page.keyboard.press("1")
    saved(page)
    [line] = lines()
    assert [(one["source"], one["quote"], one["start"]) for one in line["spans"]] == [
        ("message:2", text, 0)
    ]


def test_what_is_left_before_it_was_saved_is_not_kept(page, lines):
    held = Held(page, "decide")
    page.keyboard.press("1")
    page.keyboard.press("1")
    for _ in range(2):
        held.wait()
        assert page.inner_text("#state") == "Saving …"
        held.let_go()
    until(lambda: page.inner_text("#state").startswith("Not labelled yet"))
    assert lines() == []


def test_saved_is_said_when_all_is(page, lines):
    page.clock.pause_at("2100-01-01")
    held = Held(page, "decide")
    page.keyboard.press("1")
    page.keyboard.press("+")
    for _ in range(2):
        held.wait()
        assert page.inner_text("#state") == "Saving …"
        held.let_go()
    saved(page)
    assert lines()[0]["confidence"] == 1
    page.keyboard.press("m")
    page.keyboard.type("why")
    assert page.inner_text("#state") == "Saving …"
    page.clock.fast_forward(600)  # a pause in typing
    held.let_go()
    saved(page)
    assert lines()[0]["note"] == "why"


def test_a_trace_is_not_left_before_its_decision_is_saved(failing_page, lines):
    failing_page.route("**/api/decide", lambda route: route.abort())
    failing_page.keyboard.press("2")
    failing_page.wait_for_selector("#state.unsaved")
    for leave in ("[data-focus=following]", ".items li:nth-child(4) button"):
        with failing_page.expect_event("requestfailed"):
            failing_page.click(leave)
        idle(failing_page)
        assert standing_at(failing_page) == "0"
    assert failing_page.inner_text("#state").startswith("Not saved: ")
    failing_page.unroute("**/api/decide")
    go_on(failing_page, 1)
    assert [line["primary"] for line in lines()] == ["C1b"]


def test_a_decision_whose_answer_was_lost_is_not_said_to_be_none(failing_page, lines):
    failing_page.route("**/api/decide", lambda route: (route.fetch(), route.abort()), times=1)
    failing_page.keyboard.press("1")
    failing_page.wait_for_selector("#state.unsaved")
    failing_page.keyboard.press("1")  # it is taken back, but stands in the file
    until(lambda: "another window" in failing_page.inner_text("#state"))
    failing_page.reload()
    saved(failing_page)
    failing_page.keyboard.press("1")
    until(lambda: failing_page.inner_text("#state").startswith("Not labelled yet"))
    assert lines() == []


def test_a_file_that_another_program_changed_is_said_and_nothing_is_lost_of_it(
    tmp_path, failing_page
):
    file = tmp_path / "labels.jsonl"
    theirs = '{"trace_id": "x", "rubric": "other", "annotator": "b", "primary": null}\n'
    file.write_text(theirs)
    failing_page.keyboard.press("2")
    failing_page.wait_for_selector("#state.unsaved")
    assert "changed by another program" in failing_page.inner_text("#state")
    assert file.read_text() == theirs


def test_keys_while_the_next_trace_is_on_its_way_decide_nothing(page, lines):
    page.keyboard.press("1")
    saved(page)
    items, decisions = Held(page, "item?*"), Held(page, "decide")
    for key in ("Enter", "2", "Enter"):
        page.keyboard.press(key)
    items.let_go()
    page.wait_for_selector('#main[data-item="1"]')
    page.keyboard.press("3")  # what the keys before had asked for would be asked before this
    decisions.let_go()
    saved(page)
    assert (items.requests, decisions.requests) == ([], [])
    assert [line["primary"] for line in lines()] == ["C1a", "C2"]


def test_a_note_goes_with_its_own_trace(page, lines):
    page.clock.pause_at("2100-01-01")
    page.keyboard.press("1")
    page.click("#note")
    page.keyboard.type("of the first")
    page.evaluate("document.querySelector('[data-focus=following]').click()")  # no blur before
    page.wait_for_selector('#main[data-item="1"]')
    page.clock.fast_forward(600)
    assert page.input_value("#note") == ""
    for key in ("Escape", "2"):  # the first leaves the note
        page.keyboard.press(key)
    saved(page)
    lines = lines()
    assert [line["note"] for line in lines] == ["of the first", ""]


def test_a_trace_with_a_confidence_can_be_skipped(page, lines):
    for key in ("1", "+"):
        page.keyboard.press(key)
    saved(page)
    page.keyboard.press("s")
    page.wait_for_selector('#main[data-item="1"]')
    [line] = lines()
    assert line["skipped"] is True
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector('#main[data-item="0"]')
    assert page.inner_text("#state") == "Skipped."
    page.keyboard.press("+")  # it is being labelled after all
    until(lambda: page.inner_text("#state").startswith("Not saved yet"))
    assert lines() == []


def test_evidence_without_a_code_comes_back_with_its_trace_and_after_undo(page, lines):
    page.keyboard.press("j")
    page.keyboard.press("e")
    page.wait_for_selector("ul.evidence li")
    assert page.inner_text("#state") == "Not saved yet: choose a code or none."
    quote = page.inner_text("ul.evidence q")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector('#main[data-item="1"]')
    assert page.locator("ul.evidence li").count() == 0
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector('#main[data-item="0"]')
    assert page.inner_text("ul.evidence q") == quote
    page.keyboard.press("1")
    saved(page)
    page.keyboard.press("u")
    until(lambda: page.inner_text("#state") == "Not saved yet: choose a code or none.")
    assert page.inner_text("ul.evidence q") == quote
    assert lines() == []


def test_undo_takes_back_what_was_not_saved_yet_before_anything_else(page, lines):
    page.keyboard.press("1")
    saved(page)
    go_on(page, 1)
    for key in ("j", "e"):
        page.keyboard.press(key)
    page.wait_for_selector("ul.evidence li")
    page.keyboard.press("u")
    page.wait_for_selector("ul.evidence li", state="detached")
    idle(page)
    assert standing_at(page) == "1"
    assert len(lines()) == 1
    page.keyboard.press("u")
    page.wait_for_selector('#main[data-item="0"]')
    assert lines() == []


def test_a_quote_that_the_rubric_does_not_take_is_refused_at_once(traces, serve, visit):
    page = visit(serve(*label_command(traces, rubric="emergent")).address, refusals=True)
    page.click('[data-source="outcome"]', click_count=3, position={"x": 20, "y": 12})
    page.keyboard.press("e")
    page.wait_for_selector("#said.error")
    assert "takes no quotes from the outcome" in page.inner_text("#said")
    assert page.locator("ul.evidence li").count() == 0


def test_a_trace_that_cannot_be_shown_can_only_be_skipped(traces, serve, visit, lines):
    served = serve(*label_command(traces, "--show-ids"))
    page = visit(served.address, refusals=True)
    shutil.rmtree(traces / page.inner_text("h1"), ignore_errors=True)
    for one in traces.rglob("*"):
        if one.is_dir() and str(one).endswith(page.inner_text("h1")):
            shutil.rmtree(one)
            break
    page.reload()
    page.wait_for_selector("header.title [role=alert]")
    page.keyboard.press("0")
    page.wait_for_selector("#state.unsaved")
    assert "cannot be shown" in page.inner_text("#state")
    assert lines() == []
    page.keyboard.press("s")
    page.wait_for_selector('#main[data-item="1"]')
    assert lines()[0]["skipped"] is True


def test_evidence_is_for_the_code_chosen_by_keyboard(traces, serve, visit, lines):
    page = visit(serve(*label_command(traces, rubric="symptoms")).address)
    for key in ("1", "2", "j", "e", "c", "j", "e"):
        page.keyboard.press(key)
    until(lambda: page.locator("ul.evidence li").count() == 2)
    saved(page)
    [line] = lines()
    assert [one["code"] for one in line["spans"]] == [CODES[1], CODES[0]]
    for key in ("j", "Shift+ArrowLeft", "o", "Shift+ArrowRight", "Shift+ArrowRight"):
        page.keyboard.press(key)  # its end, then its beginning, letter by letter
    whole = page.evaluate("getSelection().anchorNode.data")
    selected = page.evaluate("getSelection().toString()")
    sentence = whole.partition(" It calls")[0]
    assert selected == sentence[2:-1] == "w-time warning, feature 3, in clock/warning.py"


def test_nothing_of_a_rubric_or_a_task_hides_or_reorders_text(tmp_path, serve, visit):
    odd = "one \u202etwo\u202c \u200bthree\r\nfour"
    code = {"id": "C1", "name": odd[:9], "definition": odd, "evidence": odd, "not": odd}
    code["example"] = {"quotes": [odd], "why": odd}
    rubric = {"id": "odd", "version": 1, "title": odd[:9], "source": "x", "instructions": odd}
    rubric |= {
        "choice": "one",
        "precedence": ["C1"],
        "min_quotes": 1,
        "codes": [code],
        "quote_from": ["messages"],
    }
    (tmp_path / "odd.yaml").write_text(json.dumps(rubric, ensure_ascii=True))
    folder = write_run(tmp_path / "logs" / "m" / "coop" / "x_task" / "1" / "f1_f2")
    task = {"messages": [{"role": "user", "content": odd}]}
    (folder / "agent1_traj.json").write_text(json.dumps(task))
    page = visit(serve(*label_command(tmp_path / "logs", rubric="odd.yaml")).address)
    assert page.locator("details:has-text('The tasks') .source").count() == 1
    shown = page.evaluate("document.body.textContent")  # the task and the instructions
    page.keyboard.press("1")
    shown += page.evaluate("document.querySelector('#about').textContent")
    assert shown.count("one \ufffdtwo\ufffd \ufffdthree\nfour") == 7
    assert not {"\u202e", "\u202c", "\u200b"} & set(shown)


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
def test_what_is_needed_to_label_is_on_the_screen(traces, serve, visit, width, height):
    page = visit(
        serve(*label_command(traces, rubric="symptoms")).address, width=width, height=height
    )
    for key in ("1", "2", "j", "e", "j", "e", "j", "e", "j", "e"):
        page.keyboard.press(key)
    until(lambda: page.locator("ul.evidence li").count() == 4)
    if width == 390:  # the trace comes first
        assert page.locator("#panel").bounding_box()["height"] < 130
        page.click("[data-focus=fold]")
    for what in ("add", "next", "skip", "undo", "note", "confidence-5", f"aim-{CODES[1]}"):
        box = page.locator(f'[data-focus="{what}"]').bounding_box()
        assert box["y"] >= 0, what
        assert box["y"] + box["height"] <= height, what
        assert box["x"] + box["width"] <= width, what
    assert page.locator("#choices").bounding_box()["height"] >= 80
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_only_what_a_person_said_of_the_two_is_taken_and_all_of_it_is_shown(
    traces, tmp_path, serve, visit
):
    """A label may come from any tool: places that are wrong, quotes without one."""
    [one, two, *_] = [
        trace
        for trace in read_traces([str(traces)])
        if isinstance(trace, Trace) and len(trace.messages) > 1
    ]
    rows = []
    for trace, codes in ((one, ("C1a", "C1b")), (two, ("C2", "C2"))):
        text = trace.messages[0].text
        good = {"quote": text[:8], "source": "message:1", "start": 0, "end": 8, "code": None}
        bad = {"quote": text[:9], "source": "message:1", "start": 3, "end": 12, "code": None}
        for annotator, code in zip(("ann", "bob"), codes, strict=True):
            row = {"trace_id": trace.id, "rubric": "comm_errors", "annotator": annotator}
            row |= {"primary": code, "secondary": [], "spans": [good, bad]}
            rows.append(row | {"evidence": [text[:8], text[:9], "elsewhere"]})
    (tmp_path / "two.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    adjudicate = ("label", traces, "--rubric", "comm_errors", "--labels", "gold.jsonl")
    adjudicate += ("--adjudicate", "ann", "bob", "--from", "two.jsonl")
    page = visit(serve(*adjudicate).address)
    assert "2 quotes not found at the place given" in page.inner_text(".notices")
    shown = page.locator("article.card.first q").all_inner_texts()
    assert sorted(shown) == sorted(rows[0]["evidence"])
    page.keyboard.press("a")
    saved(page)
    gold = {label.trace_id: label for label in labels_in(tmp_path / "gold.jsonl")}
    assert {label.primary for label in gold.values()} == {"C1a", "C2"}
    for trace in (one, two):
        label = gold[trace.id]
        assert sorted(label.evidence) == sorted(rows[0 if trace is one else 2]["evidence"])
        assert [span.quote for span in label.spans] == [trace.messages[0].text[:8]]
