"""The comparison of runs, people and conditions in the browser."""

import json

import pytest

from tests.calibration.build import label, make_rubric, make_run, said, write_labels
from tests.web.conftest import until


@pytest.fixture
def rubric(tmp_path):
    return make_rubric(tmp_path)


@pytest.fixture
def sides(tmp_path, rubric):
    """Two runs of eight traces and a person's labels of seven; u is undecided in the second."""
    first = ["alpha", "alpha", "alpha", "beta", "beta", None, None, "alpha"]
    second = ["alpha", "alpha", "beta", "beta", None, None, None, "u"]
    person = ["alpha", "beta", "beta", "beta", "beta", None, None]

    def judge(name, codes):
        traces = [
            said(f"t{n}", status="undecided")
            if code == "u"
            else said(f"t{n}", *filter(None, [code]))
            for n, code in enumerate(codes)
        ]
        return make_run(tmp_path / name, rubric, traces, judge=f"llm:{name}")

    labels = [label(f"t{n}", rubric, code) for n, code in enumerate(person)]
    file = write_labels(tmp_path / "labels.jsonl", labels)
    return judge("one", first), judge("two", second), file


def test_two_runs_and_a_person_are_compared(sides, serve, visit, annotate_cli):
    """By hand: the runs agree on 5 of 7 traces; kappa is (5/7 - 16/49) / (1 - 16/49) = 19/33."""
    first, second, labels = sides
    page = visit(serve("view", first, second, "--labels", labels).address)
    page.wait_for_selector("section.comparison")
    [row] = [line for line in page.locator(".sides tbody tr").all() if "alpha" in line.inner_text()]
    assert [row.inner_text().count(count) for count in ("4/8", "2/7", "1/7")] == [1, 1, 1]
    pairs = [row.inner_text().split("\t") for row in page.locator(".pairs tbody tr").all()]
    assert [row[1:3] for row in pairs] == [["2", "7"], ["2", "7"], ["2", "7"]]
    assert pairs[0][3].startswith("0.58 (no interval: ")
    row.locator("a", has_text="1/7").click()
    until(lambda: page.locator("ol.traces .id").all_inner_texts() == ["t0"])
    page.keyboard.press("c")
    page.wait_for_selector("section.comparison")
    page.click("table.matrix a[aria-label='1: alpha and undecided']")
    page.wait_for_selector("ol.traces")
    assert page.locator("ol.traces .id").all_inner_texts() == ["t7"]
    page.click("form.filters >> text=Clear")
    page.select_option("form.filters select[name=status]", "undecided")
    until(lambda: page.locator("ol.traces .why").all_inner_texts() == ["a tie"])
    page.keyboard.press("c")
    page.wait_for_selector("section.comparison")
    page.click("a[aria-label='2 traces where they differ'] >> nth=0")
    until(lambda: page.locator("ol.traces .id").all_inner_texts() == ["t2", "t4"])
    assert page.locator(".chip.other").all_inner_texts() == [
        "two (llm:two): beta",
        "two (llm:two): none",
    ]
    page.keyboard.press("c")
    page.click(".pairs a >> text='two (llm:two) and ann'")
    until(lambda: "Rows: two (llm:two). Columns: ann." in page.inner_text(".matrix caption"))
    printed = annotate_cli("calibrate", first, "--labels", labels, "-v").out
    assert f"kappa {pairs[1][3]}" in printed
    check_narrow(page, ["one (llm:one)", "two (llm:two)", "ann"])


def test_a_number_opens_the_traces_that_it_counts(tmp_path, rubric, serve, visit):
    """Beta is the primary code of t1 alone; two runs list a trace of two people once."""
    traces = [said("t0", "alpha", "beta"), said("t1", "beta")]
    runs = [
        make_run(tmp_path / name, rubric, traces, judge=f"llm:{name}") for name in ("one", "two")
    ]
    labels = [label("t1", rubric, "beta", by=person) for person in ("ann", "bob")]
    file = write_labels(tmp_path / "labels.jsonl", labels)
    address = serve("view", *runs, "--labels", file).address
    for place, link in (
        ("", ".sides tr:has(th:text-is('beta')) a >> nth=0"),
        ("p.bob", ".matrix a"),
    ):
        page = visit(f"{address}#/compare?rubric={rubric.id}&first=p.ann&second={place}")
        page.click(link)
        page.wait_for_selector("ol.traces")
        assert page.locator("ol.traces .id").all_inner_texts() == ["t1"]


def test_traces_without_the_attribute_are_linked(tmp_path, rubric, serve, visit):
    traces = [said("t0", "alpha", model="m"), said("t1", "alpha"), said("t2", "beta")]
    page = visit(serve("view", make_run(tmp_path / "run", rubric, traces), "--by", "model").address)
    page.goto(f"{page.url.partition('#')[0]}#/overview")
    page.click("section.table:has-text('model = -') tr:has-text('alpha') a >> nth=0")
    until(lambda: page.locator("ol.traces .id").all_inner_texts() == ["t1"])


def check_narrow(page, names):
    """On a phone no table scrolls sideways, and each share stands beside the name of its side."""
    page.set_viewport_size({"width": 390, "height": 844})
    wide = "(one) => one.scrollWidth > one.clientWidth"
    assert not page.locator(".scroll:has(.sides)").evaluate(wide)
    cells = page.locator(".sides tbody tr:first-child td.side").all_inner_texts()
    assert [cell.split("\n")[0] for cell in cells] == names


@pytest.mark.parametrize(
    ("arms", "labelled"), [(2, 0), (2, 24), (3, 24), (3, 2)], ids=["two", "two2", "three", "few"]
)
def test_conditions_are_compared_in_one_file(tmp_path, rubric, annotate_cli, visit, arms, labelled):
    """The numbers are those of ``annotate compare --by``: corrected ones only where each condition
    has labels; else the page says why not.
    """
    traces = [
        said(f"t{n}", "beta" if n % 5 == 0 else "alpha", model=f"m{n % arms}", task=str(n))
        for n in range(36)
    ]
    run = make_run(tmp_path / "run", rubric, traces)
    if labelled:
        codes = ["gamma" if n % 7 == 0 else traces[n].primary for n in range(labelled)]
        rows = [label(f"t{n}", rubric, code) for n, code in enumerate(codes)]
        file = write_labels(tmp_path / "labels.jsonl", rows)
        assert annotate_cli("calibrate", run, "--labels", file).code == 0
    out = tmp_path / "report.html"
    done = annotate_cli("report", run, "--by", "model", "--format", "html", "--out", out)
    assert done.code == 0, done.err
    page = visit(f"{out.as_uri()}#/compare")
    page.wait_for_selector("section.comparison")
    [table] = json.loads(annotate_cli("compare", run, "--by", "model", "--format", "json").out)
    corrected = labelled == 24
    for row in table["rows"]:
        p = row["corrected_adjusted" if corrected else "adjusted"]
        sides = row.get("shares") and row["corrected" if corrected else "shares"]
        sides = sides or [row[f"corrected_{x}" if corrected else x] for x in ("first", "second")]
        line = page.locator(".sides tbody tr", has=page.locator(f"text={row['code']}"))
        cells = [" ".join(cell.split()) for cell in line.locator("td").all_inner_texts()]
        assert list(filter(None, cells[: 2 * arms])) == [
            f"{100 * x['value']:.1f} [{100 * x['low']:.1f}, {100 * x['high']:.1f}]" for x in sides
        ]
        assert cells[-1] == ("-" if p is None else f"{p:.4f}")
    text = page.inner_text("main")
    assert (page.locator(".dot.judged").count() == 0) == corrected
    assert ("corrected by the labels" in text) == corrected
    reason = "Not corrected by the calibration: no trace of m2 has a label."
    assert (reason in text) == (labelled == 2)
    assert page.locator(".kappa").count() == 0
    check_narrow(page, [f"m{n}" for n in range(arms)])


def test_the_marks_of_corrected_shares_are_explained(sides, serve, visit, annotate_cli):
    """By hand: labels of three of the judge's four alpha, no gamma anywhere."""
    first, _, labels = sides
    assert annotate_cli("calibrate", first, "--labels", labels).code == 0
    page = visit(serve("view", first).address)
    shown = page.locator("section.table > ul.notes").inner_text()
    assert "thin: fewer than 5 labels where the judge gave this code" in shown
    assert "blind: in the labelled traces neither the judge nor a person" in shown
