"""The report as one file, in a browser that may load nothing else."""

import json
import re
import shutil
from pathlib import Path

import pytest

from annotator.rubrics.annotations import read_annotations
from annotator.web.assets import STATIC, read_asset
from tests.conftest import TALK, run_name, write_run
from tests.web.conftest import settled, tool, until
from tests.web.hostile import ATTACKS, SCRIPT, hostile_run

TRACE = "#/trace/demo%2Fcoop%2Felevator_sim_task%2F2%2Ff1_f2"


def write_report(folder, *rubrics):
    """Judge the logs by these rubrics, if any are named, and return the address of the report."""
    if rubrics:
        options = [word for rubric in rubrics for word in ("--rubric", rubric)]
        tool("logs", *options, "--out", "run", cwd=folder)
    tool("report", "run", "--format", "html", cwd=folder)
    return (folder / "run" / "report.html").as_uri()


def change_annotation(folder, change):
    """Change the one annotation of the run."""
    file = folder / "run" / "annotations.jsonl"
    line = json.loads(file.read_text())
    change(line)
    file.write_text(json.dumps(line) + "\n")


ROWS = """tables => tables.flatMap((table) => [...table.tBodies[0].rows]
  .filter((row) => !row.matches(".proof"))
  .map((row) => [...row.querySelectorAll("th a, th .label, th:not(:has(*)), td:not(.plot)")]
    .map((cell) => cell.textContent)))"""


def test_the_tables_are_those_of_the_terminal(report, judged, visit):
    """As they are printed, and with all columns as by -v."""
    page = visit(report)
    for selector, options in ((":not(.full)", ()), (".full", ("-v",))):
        shown = page.eval_on_selector_all(f"table.counts{selector}", ROWS)
        table = tool("report", judged, *options, cwd=judged).out
        names = re.compile(r"(?: \(.*\))?\s+") if not options else re.compile(r"\s+")
        patterns = [
            rf"^{re.escape(code)}{names.pattern}" + r"\s+".join(map(re.escape, cells))
            for code, *cells in shown
        ]
        at = [re.search(pattern, table, re.MULTILINE) for pattern in patterns]
        assert None not in at, dict(zip(patterns, at, strict=True))
        starts = [found.start() for found in at]
        assert starts == sorted(starts)
    sentences = page.locator("p.result").all_inner_texts()
    printed = " ".join(tool("report", judged, cwd=judged).out.split())
    assert all(sentence in printed for sentence in sentences)


def test_one_click_leads_from_a_number_to_a_quote_in_its_place(report, judged, visit):
    page = visit(report)
    proof = page.locator("section[aria-label='Table of comm_errors'] tr:has(a:text-is('C3a')) + tr")
    quote = proof.locator("q").first.text_content()
    proof.locator("a").first.click()
    page.wait_for_selector("mark.current")
    marked = page.locator("mark.current").all_text_contents()
    assert "".join(marked) == quote
    first = next(one for one in read_annotations(judged) if one.primary == "C3a")
    assert quote == first.findings[0].evidence[0].quote
    assert page.locator("mark.current").first.bounding_box()["y"] < 900


def test_filter_deep_link_and_a_highlighted_quote_on_screen(report, judged, visit):
    page = visit(report)
    page.click("nav a[data-page=traces]")
    page.wait_for_selector("ol.traces")
    assert page.inner_text(".status") == "34 annotations"
    page.select_option("select[name=status]", "labelled")
    until(lambda: page.inner_text(".status").startswith("5 "))
    page.select_option("select[name=rubric]", "comm_errors")
    until(lambda: page.locator("ol.traces li").count() == 2)
    page.select_option("select[name=code]", "C3a")
    until(lambda: page.locator("ol.traces li").count() == 1)
    page.click("ol.traces a")
    page.click(".finding h3 a.link >> nth=0")
    page.wait_for_selector("mark.current")
    link = page.url

    fresh = visit(link)
    fresh.wait_for_selector("mark.current")
    found = next(one for one in read_annotations(judged) if one.primary == "C3a" and one.findings)
    [first, *_] = found.findings[0].evidence
    marked = fresh.eval_on_selector_all(
        "mark.current", "marks => marks.map((one) => one.textContent).join('')"
    )
    assert marked == first.quote
    box = fresh.locator("mark.current").first.bounding_box()
    assert 0 < box["y"] < 900
    holder = fresh.locator("mark.current").first.locator("xpath=ancestor::*[@data-source]")
    assert holder.get_attribute("data-source") == first.source


def test_keys_lead_through_traces_and_quotes(report, judged, visit):
    page = visit(f"{report}#/traces?rubric=comm_errors&status=labelled")
    page.wait_for_selector("ol.traces")
    [shown, _] = [
        one
        for one in read_annotations(judged)
        if one.status == "labelled" and one.rubric == "comm_errors"
    ]
    assert page.inner_text("ol.traces q >> nth=0") == shown.findings[0].evidence[0].quote
    why = page.inner_text("ol.traces .why >> nth=0")
    assert why == shown.findings[0].rationale.split("\n")[0]
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_selector(".reading")
    assert page.inner_text(".near .legend >> nth=0") == "1 of 2"
    first = page.get_attribute("button.quote.current", "data-quote")
    place, says = page.inner_text(".walk .legend").split(": ")
    assert says == f"{shown.primary} (rules)"
    _, n, _, quotes = place.split()
    for _ in range(int(quotes) - int(n)):
        page.keyboard.press("n")
    last = page.get_attribute("button.quote.current", "data-quote")
    page.keyboard.press("p")
    assert page.get_attribute("button.quote.current", "data-quote") not in (None, last)
    page.keyboard.press("n")
    page.keyboard.press("n")
    until(lambda: page.inner_text(".near .legend >> nth=0") == "2 of 2")
    page.wait_for_selector("mark.current")
    assert page.inner_text(".walk .legend").startswith("quote 1 of ")
    page.keyboard.press("p")
    until(lambda: page.inner_text(".near .legend >> nth=0") == "1 of 2")
    page.wait_for_selector("mark.current")
    assert page.get_attribute("button.quote.current", "data-quote") == last != first
    page.keyboard.press("j")
    until(lambda: page.inner_text(".near .legend >> nth=0") == "2 of 2")
    page.keyboard.press("u")
    page.wait_for_selector("ol.traces")
    assert "status=labelled" in page.url
    page.keyboard.press("?")
    assert page.is_visible("dialog[open]")


def test_agreement_with_labels_can_be_filtered(report, visit):
    page = visit(f"{report}#/traces?rubric=comm_errors&agreement=agrees")
    page.wait_for_selector("ol.traces")
    assert page.locator("ol.traces li").count() == 2  # of the two that are decided
    page.click("ol.traces a >> nth=0")
    page.wait_for_selector("article.card.human")


def test_search_finds_and_marks(report, visit):
    page = visit(report)
    page.keyboard.press("/")
    page.keyboard.type("ANYWHERE outside")
    page.fill("#search", "close_after")
    page.keyboard.press("Enter")
    page.wait_for_selector("ol.hits li")
    until(lambda: "17 traces" in page.inner_text(".status"))
    page.click("ol.hits a >> nth=0")
    page.wait_for_selector("mark.current")
    assert page.inner_text("mark.current").lower() == "close_after"


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("place", ["#/", "#/traces", TRACE])
def test_nothing_is_wider_than_the_screen(report, visit, width, place):
    page = visit(report + place, width=width)
    page.wait_for_selector("#main[data-ready]")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


CONTRAST = """() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((one) => one / 255)
    .map((one) => one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4)
    .reduce((sum, one, n) => sum + one * [0.2126, 0.7152, 0.0722][n], 0);
  const ground = (element) => {
    for (let up = element; up; up = up.parentElement) {
      const colour = parse(getComputedStyle(up).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const low = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((one) => one.nodeType === 3 && one.textContent.trim());
    if (!own || !element.checkVisibility()) continue;
    if (element.closest("[aria-disabled], :disabled")) continue;
    const [one, other] = [light(parse(getComputedStyle(element).color)), light(ground(element))];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (ratio < 4.5) low.push([element.className || element.tagName, ratio.toFixed(2)].join(" "));
  }
  return [...new Set(low)];
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("place", ["#/", "#/traces", TRACE])
def test_contrast_is_at_least_four_and_a_half(report, visit, theme, place):
    page = visit(report + place)
    page.wait_for_selector("#main[data-ready]")
    if page.evaluate("document.documentElement.dataset.theme") != theme:
        page.click("#theme")
    assert page.evaluate("document.documentElement.dataset.theme") == theme
    assert page.evaluate(CONTRAST) == []


NAMELESS = """() => [...document.querySelectorAll("button, a[href], input, select, textarea")]
  .filter((one) => one.checkVisibility())
  .filter((one) => !one.textContent.trim() && !one.getAttribute("aria-label"))
  .filter((one) => !one.labels?.length)
  .map((one) => one.outerHTML)"""


@pytest.mark.parametrize("place", ["#/", "#/traces", TRACE])
def test_everything_that_can_be_used_has_a_name(report, visit, place):
    page = visit(report + place)
    page.wait_for_selector("#main[data-ready]")
    assert page.evaluate(NAMELESS) == []


def test_rejected_findings_are_shown_with_their_reason(tmp_path, visit):
    write_run(tmp_path / run_name(1))
    tool("logs", "--rubric", "comm_errors", "--out", "run", cwd=tmp_path)
    claim = {"code": "C2", "reason": "not found in message:1, nor anywhere else"}
    change_annotation(
        tmp_path, lambda line: line.update(rejected=[claim | {"quotes": ["made up"]}])
    )
    page = visit(write_report(tmp_path) + "#/traces?rejected=true")
    page.click("ol.traces a")
    page.wait_for_selector(".rejections")
    assert "nor anywhere else" in page.inner_text(".rejections .reason")
    assert page.inner_text(".rejections q") == "made up"


def test_a_trace_that_has_changed_is_said(tmp_path, visit):
    folder = write_run(tmp_path / run_name(1))
    tool("logs", "--rubric", "comm_errors", "--out", "run", cwd=tmp_path)
    [one] = read_annotations(tmp_path / "run")
    assert any(quote.source.startswith("message:") for quote in quotes_of(one))
    write_run(folder, [(sender, f"Now other. {text}") for sender, text in TALK])
    page = visit(write_report(tmp_path) + "#/traces")
    page.click("ol.traces a")
    page.wait_for_selector(".reading")
    assert "it has changed since" in page.inner_text(".warning")
    assert "not there as the trace is now" in page.inner_text("aside")


def test_steps_that_cannot_be_read_do_not_stop_the_report(tmp_path, visit):
    folder = write_run(tmp_path / run_name(1))
    (folder / "agent1_traj.json").write_text("{broken")
    tool("logs", "--rubric", "symptoms", "--out", "run", cwd=tmp_path)
    step = {"source": "step:agent1:1"}
    change_annotation(tmp_path, lambda line: line["findings"][0]["evidence"][0].update(step))
    page = visit(write_report(tmp_path) + "#/traces")
    page.click("ol.traces a")
    page.wait_for_selector(".message")
    assert "agent1_traj.json: not valid JSON" in page.inner_text(".warning")
    assert "1 quote not in the trace as it is now" in page.inner_text(".warning")


def quotes_of(one):
    return [evidence for finding in one.findings for evidence in finding.evidence]


def test_traces_that_are_gone_or_elsewhere(tmp_path, visit):
    write_run(tmp_path / run_name(1))
    tool("logs", "--rubric", "symptoms", "--out", "run", cwd=tmp_path)
    (tmp_path / "logs").rename(tmp_path / "moved")
    done = tool("report", "run", "--format", "html", cwd=tmp_path)
    assert "1 traces without their texts, which cannot be read (--traces)" in done.err
    page = visit((tmp_path / "run" / "report.html").as_uri() + "#/traces")
    page.click("ol.traces a")
    page.wait_for_selector(".warning")
    assert "--traces" in page.inner_text(".warning")
    (tmp_path / "new").mkdir()
    (tmp_path / "moved").rename(tmp_path / "new" / "logs")
    again = ("report", "run", "--format", "html", "--traces", "new/logs", "--out", "again.html")
    assert "texts" not in tool(*again, cwd=tmp_path).err
    page = visit((tmp_path / "again.html").as_uri() + "#/traces")
    page.click("ol.traces a")
    page.wait_for_selector(".message")
    assert page.locator(".warning").count() == 0


def test_hostile_traces_do_nothing_and_are_shown_as_they_are(tmp_path, visit):
    hostile_run(tmp_path / run_name(1))
    tool("logs", "--rubric", "symptoms", "--rubric", "comm_errors", "--out", "run", cwd=tmp_path)
    tool("report", "run", "--format", "html", "--by", "model", cwd=tmp_path)
    page = visit((tmp_path / "run" / "report.html").as_uri())
    assert SCRIPT in page.inner_text("h2 >> nth=0")
    page.goto(page.url + "#/traces")
    page.wait_for_selector("ol.traces")
    page.click("ol.traces a >> nth=0")
    page.wait_for_selector(".reading")
    for n, text in enumerate(ATTACKS, len(TALK) + 1):
        shown = page.eval_on_selector(f'[data-source="message:{n}"]', "one => one.textContent")
        assert shown == text
    assert (
        page.locator(".trace script, .trace img, .trace iframe, .trace a, .trace svg").count() == 0
    )
    assert page.locator(".odd").count() > 5
    page.keyboard.press("n")
    settled(page)


def test_a_message_of_five_megabytes_opens_at_once_and_says_what_is_not_shown(tmp_path, visit):
    hostile_run(tmp_path / run_name(1), megabytes=5)
    page = visit(f"{write_report(tmp_path, 'symptoms')}#/search?q=needle")
    page.click("ol.hits a")
    page.wait_for_selector("mark.current")
    assert page.inner_text("mark.current") == "needle"
    gap = page.inner_text("button.gap >> nth=0")
    assert re.match(r"[\d,]+ characters not shown", gap)
    before = page.eval_on_selector('[data-source="message:1"]', "one => one.textContent.length")
    page.click("button.gap >> nth=0")
    after = page.eval_on_selector('[data-source="message:1"]', "one => one.textContent.length")
    assert after > before


def test_the_file_loads_nothing_and_lets_only_its_own_script_run(made):
    text = made.read_text()
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]+)"', text)
    assert "default-src &#39;none&#39;" in policy
    assert "unsafe" not in policy
    assert not re.findall(r"<(?:link|script|img)[^>]+(?:src|href)=\"(?!data:,)", text)


@pytest.mark.parametrize("name", [path.name for path in STATIC.iterdir()])
def test_no_file_of_the_pages_can_end_its_own_block(name):
    assert not re.search(r"</(script|style)|<!--", read_asset(name), re.IGNORECASE)


def test_the_skip_link_stays_on_the_page(report, visit):
    page = visit(f"{report}#/traces")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.url.endswith("#/traces")
    assert page.evaluate("document.activeElement.id") == "main"


def test_back_in_the_list_the_keyboard_is_where_it_was(report, visit):
    page = visit(f"{report}#/traces?rubric=comm_errors")
    page.click("ol.traces a >> nth=7")
    page.wait_for_selector(".reading")
    trace = page.inner_text("h1")
    assert page.title().startswith(trace)
    page.keyboard.press("u")
    page.wait_for_selector("ol.traces")
    assert page.title().startswith("Traces")
    assert trace in page.evaluate("document.activeElement.textContent")


def test_a_filter_that_lets_nothing_through_is_shown(report, visit):
    page = visit(f"{report}#/traces?code=C9&a.project=nowhere")
    page.wait_for_selector("select[name=code]")
    assert page.inner_text(".status") == "0 annotations"
    assert not page.is_visible("button:has-text('more')")
    assert page.input_value("select[name=code]") == "C9"
    assert page.input_value("select[name='a.project']") == "nowhere"
    page.click("a.button:text-is('Clear')")
    page.wait_for_selector(".status:text-is('34 annotations')")


@pytest.mark.parametrize(
    "place", ["#/constructor", "#/trace/%E0%A4%A", "#/trace/none", "#/traces?run=x&a.=&=", "#a/b?%"]
)
def test_an_address_of_nothing_breaks_nothing(report, visit, place):
    page = visit(report + place)
    page.wait_for_selector("#main[data-ready] h1")
    page.keyboard.press("o")
    page.wait_for_selector("table.counts")


def test_a_passage_leads_to_its_finding(report, visit):
    page = visit(f"{report}#/traces?code=C3a", width=390)
    page.click("ol.traces a")
    page.click("mark >> nth=0")
    focused = page.evaluate("document.activeElement.dataset.quote")
    assert focused in page.get_attribute("mark >> nth=0", "data-keys")


def test_many_hits_in_one_trace_are_shown_fifty_at_a_time(tmp_path, visit):
    talk = [("agent1", "\U0001f600 needle " * 120), ("agent2", "needle")]
    write_run(tmp_path / run_name(1), talk)
    page = visit(write_report(tmp_path, "symptoms") + "#/search?q=NEEDLE")
    for shown in (50, 100, 121):
        page.wait_for_selector(f".status:has-text('{shown} passages')")
        assert page.locator("ol.hits li").count() == shown
        if shown < 121:
            page.click("button:text-is('Search on')")
    page.click("ol.hits a >> nth=99")
    page.wait_for_selector("mark.current")
    assert page.inner_text("mark.current") == "needle"
    assert "start=893&" in page.url  # 99 times 9 characters, and 2


def test_a_damaged_file_says_so(made, tmp_path, visit):
    file = Path(shutil.copy(made, tmp_path))
    file.write_text(file.read_text().replace('id="rows">', 'id="rows">AAAA'))
    page = visit(file.as_uri(), ready="#main:has-text('damaged')")
    assert "Loading" not in page.inner_text("main")


def test_a_report_that_cannot_be_written_is_said(tmp_path, annotate_cli):
    write_run(tmp_path / run_name(1))
    tool("logs", "--rubric", "symptoms", "--out", "run", cwd=tmp_path)
    done = annotate_cli("report", "-v", "run", "--format", "html", "--out", "no/such/folder/r.html")
    assert done.code == 2
    assert "no/such/folder" in done.err
    assert done.err.count("\n") == 1
