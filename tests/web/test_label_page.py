"""The page to label with: codes, hints, the forecast, what is hidden, drafts, addresses."""

import re

import pytest

from annotator.labels.blinding import blind
from annotator.traces import Trace, read_traces
from tests.conftest import write_run
from tests.web.conftest import label_command, until
from tests.web.test_label import go_on, saved


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)


def wait_for_quotes(page, count):
    until(lambda: page.locator("ul.evidence li").count() == count)


def selected(page):
    return page.evaluate("getSelection().toString()").strip()


@pytest.mark.parametrize("rubric", ["symptoms", "comm_errors", "mast"])
def test_all_codes_are_on_the_screen_and_the_definition_of_one(traces, serve, visit, rubric):
    page = visit(serve(*label_command(traces, rubric=rubric)).address)
    assert "select text" in page.inner_text("#given")
    press(page, "1", "j", "e", "j", "e")
    wait_for_quotes(page, 2)
    for row in page.locator(".codes > li").all():
        box = row.bounding_box()
        assert box["y"] > 0
        assert box["y"] + box["height"] < 900
    assert page.evaluate("document.querySelector('#choices').scrollTop") == 0
    chosen = page.inner_text("#about")
    assert "Evidence: " in chosen
    page.keyboard.press("l")
    page.keyboard.press("ArrowDown")  # the second is read, and not chosen
    assert page.inner_text("#about") != chosen
    assert page.locator(".pick[aria-pressed=true]").count() == 1
    page.keyboard.press("i")
    assert page.get_attribute("#about", "aria-label") == "Instructions"


def test_the_outcome_comes_before_the_conversation(page):
    sections = page.eval_on_selector_all(".trace > section", "all => all.map(one => one.ariaLabel)")
    assert sections[:3] == ["Outcome", "Conversation", "Patches"]
    assert sections[3] == "Merge report and tests"


def test_evidence_is_checked_by_the_rubric_and_the_label_is_saved_anyway(
    traces, serve, visit, lines
):
    page = visit(serve(*label_command(traces, rubric="symptoms")).address)
    press(page, "1")
    saved(page)
    until(lambda: "work_overlap needs quotes: at least 2" in page.inner_text("#needs"))
    press(page, "j", "e")
    until(lambda: page.inner_text("#needs").startswith("work_overlap needs one more quote, from a"))
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.is_hidden("#choices")
    assert page.is_visible("#needs p")
    page.set_viewport_size({"width": 1280, "height": 900})
    assert page.inner_text("#needs").endswith("a message or a patch of agent2.")
    saved(page)
    assert [line["primary"] for line in lines()] == ["work_overlap"]
    while "agent2" not in page.evaluate(
        "getSelection().anchorNode?.parentElement.closest('.message')?.ariaLabel ?? ''"
    ):
        press(page, "j")
    press(page, "e")
    until(lambda: page.inner_text("#needs") == "")
    page.reload()
    wait_for_quotes(page, 2)
    assert page.inner_text("#needs") == ""


def test_progress_says_what_more_labels_buy(page):
    for n in range(5):
        assert page.inner_text("#forecast") == ""
        press(page, "1")
        saved(page)
        if n < 4:
            go_on(page, n + 1)
    # All 5 have it, so the lower limit is n / (n + 1.96^2): 0.566, and 0.816 of 17.
    until(lambda: page.inner_text("#forecast") == "12 more: C1a ±22 → ±9")


def test_ids_are_hidden_unless_they_are_asked_for(traces, tmp_path, serve, visit):
    write_run(traces / "logs" / "broken" / "coop" / "x_task" / "1" / "f1_f2")
    ids = {one.id for one in read_traces([str(traces)]) if isinstance(one, Trace)}
    served = serve(*label_command(traces))
    page = visit(served.address)
    (traces / "logs" / "broken" / "coop" / "x_task" / "1" / "f1_f2" / "result.json").write_text("{")
    answers = [page.content(), page.evaluate("fetch('api/state').then((one) => one.text())")]
    for n in range(len(ids)):
        answers.append(page.evaluate(f"fetch('api/item?n={n}').then((one) => one.text())"))
    for text in answers:
        assert not [one for one in ids if one in text]
        assert "/coop/" not in text
    assert page.inner_text("h1") in map(blind, ids)
    served.stop()
    page = visit(serve(*label_command(traces, "--show-ids")).address)
    assert page.inner_text("h1") in ids


def test_an_address_names_its_trace_after_a_restart(traces, serve, visit):
    served = serve(*label_command(traces))
    page = visit(served.address)
    press(page, "ArrowRight")
    page.wait_for_selector('#main[data-item="1"]')
    fragment = page.url.partition("#")[2]
    assert fragment == page.inner_text("h1")
    press(page, "ArrowRight")
    page.wait_for_selector('#main[data-item="2"]')
    page.evaluate(f"location.hash = '{fragment}'")
    page.wait_for_selector('#main[data-item="1"]')
    page.evaluate("location.hash = 'trace-000000000000'")
    page.wait_for_selector("#said.error")
    until(lambda: page.url.endswith(fragment))
    served.stop()
    again = visit(f"{serve(*label_command(traces)).address}#{fragment}")
    assert again.get_attribute("#main", "data-item") == "1"


def test_a_draft_outlives_a_reload_and_is_of_its_person_only(traces, serve, visit, lines):
    served = serve(*label_command(traces))
    page = visit(served.address)
    press(page, "j", "e", "m")
    page.keyboard.type("to think about")
    wait_for_quotes(page, 1)
    quote = page.inner_text("ul.evidence q")
    page.reload()
    wait_for_quotes(page, 1)
    assert page.inner_text("ul.evidence q") == quote
    assert page.input_value("#note") == "to think about"
    assert lines() == []
    served.stop()
    port = ("--port", re.search(r":(\d+)/", served.address)[1])
    other = serve(*label_command(traces, *port, annotator="bob"))
    page.goto(other.address)
    page.wait_for_selector("html[data-started]")
    assert page.locator("ul.evidence li").count() == 0
    assert page.input_value("#note") == ""
    other.stop()
    page.goto(serve(*label_command(traces, *port)).address)
    wait_for_quotes(page, 1)
    press(page, "1")
    saved(page)
    assert [line["note"] for line in lines()] == ["to think about"]
    assert page.evaluate("Object.keys(localStorage).filter((one) => one.includes('draft'))") == []


def test_a_label_that_the_server_did_not_get_is_saved_when_it_is_back(traces, serve, visit, lines):
    served = serve(*label_command(traces))
    page = visit(served.address, refusals=True)
    served.stop()
    press(page, "2")
    page.wait_for_selector("#state.unsaved")
    port = ("--port", re.search(r":(\d+)/", served.address)[1])
    page.goto(serve(*label_command(traces, *port)).address)
    saved(page)
    assert [line["primary"] for line in lines()] == ["C1b"]


def test_a_draft_that_is_older_than_the_label_is_gone_and_said_so(traces, serve, visit, lines):
    served = serve(*label_command(traces))
    page = visit(served.address, refusals=True)
    other = page.context.new_page()
    other.goto(served.address)
    other.wait_for_selector("html[data-started]")
    other.keyboard.press("2")
    saved(other)
    press(page, "0")
    page.wait_for_selector("#state.unsaved")
    assert "another window" in page.inner_text("#state")
    page.reload()
    page.wait_for_selector("#said.error")
    assert "changed elsewhere" in page.inner_text("#said")
    saved(page)
    assert page.get_attribute('[data-focus="code-C1b"]', "aria-pressed") == "true"
    assert [line["primary"] for line in lines()] == ["C1b"]


def test_what_was_undone_is_done_again(page, lines):
    press(page, "1")
    saved(page)
    press(page, "j", "e")
    wait_for_quotes(page, 1)
    saved(page)
    go_on(page, 1)
    press(page, "2")
    saved(page)
    for key, codes in (
        ("Control+z", ["C1a"]),
        ("u", ["C1a"]),  # the quote
        ("Control+z", []),
        ("Control+Shift+z", ["C1a"]),
        ("Control+y", ["C1a"]),
        ("Control+y", ["C1a", "C1b"]),
    ):
        press(page, key)
        until(lambda codes=codes: [line["primary"] for line in lines()] == codes)
        page.wait_for_selector("#main:not([inert])")
    saved(page)
    assert len(lines()[0]["spans"]) == 1
    press(page, "Control+y")
    until(lambda: page.inner_text("#said") == "There is nothing to redo.")
    press(page, "u")
    until(lambda: [line["primary"] for line in lines()] == ["C1a"])
    page.wait_for_selector("#main:not([inert])")
    press(page, "3")
    saved(page)
    press(page, "Control+y")  # another change came in between
    until(lambda: page.inner_text("#said") == "There is nothing to redo.")
    assert [line["primary"] for line in lines()] == ["C1a", "C2"]


def test_keys_in_the_note_undo_its_typing_only(page, lines):
    press(page, "1", "m")
    page.keyboard.type("a")
    press(page, "Control+z")
    saved(page)
    assert [line["primary"] for line in lines()] == ["C1a"]


def test_keys_go_by_sentence_in_prose_and_by_line_in_code(tmp_path, serve, visit):
    text = "First one. Is this 2.5 or not? 3. Third item!\n"
    text += "```py\nx = 1. Y\n\n  z(2)\n```\nAnd 完了。次へ。"
    write_run(
        tmp_path / "logs" / "m" / "coop" / "x_task" / "1" / "f1_f2",
        [("agent1", text)],
        patches={1: "--- a/x.py\n+++ b/x.py\n@@ -1 +1,2 @@\n a. B\n+c. D\n"},
    )
    page = visit(serve(*label_command(tmp_path / "logs")).address)
    units = []
    for _ in range(9):
        press(page, "j")
        units.append(selected(page))
    assert units == ["First one.", "Is this 2.5 or not?", "3. Third item!", "```py", "x = 1. Y",
                     "z(2)", "And 完了。", "次へ。", "--- a/x.py"]  # fmt: skip
    press(page, "j", "j", "j")
    assert selected(page) == "a. B"
    press(page, "J")
    assert selected(page).replace("\n", "") == "a. B+c. D"


def test_keys_go_on_from_what_is_on_the_screen(tmp_path, serve, visit):
    talk = [(f"agent{1 + n % 2}", f"Message {n}. More of {n}.\n" * 8) for n in range(30)]
    write_run(tmp_path / "logs" / "m" / "coop" / "x_task" / "1" / "f1_f2", talk)
    page = visit(serve(*label_command(tmp_path / "logs")).address)
    press(page, "j")
    assert selected(page) == "Message 0."
    page.evaluate("document.querySelectorAll('.message')[20].scrollIntoView()")
    page.wait_for_timeout(100)
    press(page, "j")
    assert int(re.search(r"\d+", selected(page))[0]) >= 19


def test_many_traces_are_no_burden(tmp_path, serve, visit):
    folder = tmp_path / "many.jsonl"
    message = '{"name": "a", "content": "Hello there. Done."}'
    folder.write_text("".join(f'{{"id": "t{n}", "messages": [{message}]}}\n' for n in range(3_000)))
    page = visit(serve(*label_command(folder, rubric="mast")).address)
    assert page.inner_text(".near .legend") == "1 of 3,000"
    assert page.locator(".items button").count() == 100
    page.locator(".items button").last.click()
    page.wait_for_selector('#main[data-item="99"]')
    press(page, "ArrowRight")
    page.wait_for_selector('#main[data-item="100"]')
    assert page.get_attribute("[aria-current]", "aria-label") == "Trace 101: open"
