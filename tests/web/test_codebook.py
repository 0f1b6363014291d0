"""``annotate view`` of a codebook: through HTTP, and by keyboard in a browser."""

import json
import shutil
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import replace

import pytest

from annotator.induction.codebook import (
    Codebook,
    CodeDecision,
    InducedCode,
    OpenFinding,
    decide,
    open_codebook,
    save_codebook,
)
from annotator.rubrics import load_rubric
from annotator.rubrics.annotations import Evidence
from annotator.traces import Trace, read_traces
from tests.conftest import EXAMPLES
from tests.web.conftest import lines_of, until
from tests.web.hostile import ATTACKS

TEXTS = {"id": "new", "name": "New", "definition": "It is new.", "evidence": "A new line."}


def make_code(code_id, findings):
    texts = (f"{code_id} name", f"{code_id} is.", f"{code_id} shows.", "near misses")
    return InducedCode(code_id, *texts, findings=tuple(findings))


@pytest.fixture
def folder(judged, tmp_path, monkeypatch):
    """A codebook of the examples, a finding a trace: in one, two and rest; the last has no code."""
    monkeypatch.setenv("LOGNAME", "ann")
    folder = tmp_path / "book"
    shutil.copytree(judged, folder / "open")
    traces = [one for one in read_traces([str(EXAMPLES)]) if isinstance(one, Trace)]
    findings = [
        OpenFinding(f"{trace.id}#1", trace.id, "Name", "Rationale.", (evidence,))
        for trace in traces
        for message in trace.messages[:1]
        for quote in [message.text[3:30]]
        for evidence in [Evidence(quote, f"message:{message.n}", 3, 3 + len(quote), "exact")]
    ]
    ids = [finding.id for finding in findings]
    codes = (
        make_code("one", ids[:1]),
        make_code("two", ids[1:3]),
        make_code("rest", ids[3:-1]),
    )
    attributes = {trace.id: {"passed": trace.outcome.passed} for trace in traces}
    save_codebook(Codebook("Title", "Source", codes, tuple(findings), attributes), folder)
    return folder


def ask(address, name, body=None):
    """Ask the page's server; return the status and the answer."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "Origin": address.rsplit("/", 2)[0]}
    request = urllib.request.Request(f"{address}api/{name}", data, headers)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def decide_on(address, decision, seen):
    return ask(address, "decide", {"decision": decision, "seen": seen})


def findings_of(answer):
    return {code["id"]: code["findings"] for code in answer["codes"]}


def list_rubric(folder):
    return load_rubric(str(folder / "rubric.yaml")).scheme().ids


@pytest.mark.parametrize(
    ("body", "rubric"),
    [
        ({"action": "accept", "codes": ["one"]}, ("one", "two", "rest")),
        ({"action": "merge", "codes": ["two", "one"]}, ("two", "rest")),
        ({"action": "drop", "codes": ["two"]}, ("one", "rest")),
        (
            {"action": "rename", "codes": ["two"], "id": "2", "not_": "", "group": "g"},
            ("one", "2", "rest"),
        ),
        (
            {"action": "split", "codes": ["two"], "findings": [1]} | TEXTS,
            ("one", "two", "rest", "new"),
        ),
        ({"action": "move", "codes": ["one"], "findings": [1, 3]}, ("one", "two", "rest")),
        ({"action": "move", "findings": [2]}, ("one", "two", "rest")),
    ],
)
def test_a_decision_is_logged_and_undone(folder, serve, body, rubric):
    address = serve("view", folder).address
    _, start = ask(address, "codebook")
    ids = [finding["id"] for finding in start["findings"]]
    body = body | {
        "findings": [ids[n] for n in body.get("findings", ())],
        "why": "so it is",
        "by": "eve",
    }
    status, answer = decide_on(address, body, 0)
    assert status == 200
    [line] = lines_of(folder / "decisions.jsonl")
    assert line.pop("time")
    assert line == {name: value for name, value in body.items() if value != []} | {"by": "ann"}
    assert list_rubric(folder) == tuple(findings_of(answer)) == rubric
    groups = [code.group or "" for code in load_rubric(str(folder / "rubric.yaml")).codes]
    assert groups == [code["group"] for code in answer["codes"]]
    assert set(groups) == {"", body.get("group", "")}
    assert answer.items() <= ask(address, "codebook")[1].items()
    assert [code.findings for code in open_codebook(folder).codes] == [
        tuple(names) for names in findings_of(answer).values()
    ]
    status, answer = decide_on(address, {"action": "undo"}, 1)
    assert (status, answer["codes"]) == (200, start["codes"])
    assert list_rubric(folder) == ("one", "two", "rest")
    assert len(lines_of(folder / "decisions.jsonl")) == 2


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (409, {"action": "rename", "codes": ["one"], "id": "two"}, "two defined twice"),
        (409, {"action": "rename", "codes": ["one"], "definition": ""}, "definition of the code"),
        (409, {"action": "merge", "codes": ["one"]}, "merge: cannot be done to 1 code"),
        (409, {"action": "undo"}, "no decision to take back"),
        (400, {"action": "love"}, "action"),
        (400, {"action": "drop", "codes": "one"}, "codes"),
    ],
)
def test_a_refused_decision_is_explained_and_not_logged(folder, serve, status, body, says):
    found, answer = decide_on(serve("view", folder).address, body, 0)
    assert found == status
    assert says in answer["error"]
    assert lines_of(folder / "decisions.jsonl") == []


def test_two_windows_never_undo_each_other(folder, serve):
    address = serve("view", folder).address
    other = serve("view", folder).address
    assert decide_on(other, {"action": "drop", "codes": ["one"]}, 0)[0] == 200
    status, answer = decide_on(address, {"action": "accept", "codes": ["one"]}, 0)
    assert (status, answer["error"]) == (409, "there is no code 'one'")
    status, answer = decide_on(address, {"action": "undo"}, 0)
    assert (status, "Another window has decided" in answer["error"]) == (409, True)
    assert tuple(findings_of(ask(address, "codebook")[1])) == ("two", "rest")
    assert decide_on(address, {"action": "accept", "codes": ["two"]}, 0)[0] == 200
    assert [line["action"] for line in lines_of(folder / "decisions.jsonl")] == ["drop", "accept"]


def test_a_torn_line_of_the_log_is_said_until_the_next_decision(folder, serve):
    decide(folder, CodeDecision("drop", ("one",)))
    with (folder / "decisions.jsonl").open("a") as log:
        log.write('{"action": "dr')
    address = serve("view", folder).address
    _, answer = ask(address, "codebook")
    assert "cut off" in answer["notes"][0]
    assert len(answer["log"]) == 1
    _, answer = decide_on(address, {"action": "drop", "codes": ["two"]}, 1)
    assert (answer["notes"], len(answer["log"])) == ([], 2)


@pytest.mark.parametrize("name", ["codebook.json", "decisions.jsonl"])
def test_a_damaged_file_ends_the_command(folder, annotate_cli, name):
    (folder / name).write_text("{}\n")
    done = annotate_cli("view", folder)
    assert (done.code, name in done.err, done.err.count("\n")) == (2, True, 2)


def test_the_trace_of_a_finding_holds_its_quotes(folder, serve):
    address = serve("view", folder).address
    for finding in ask(address, "codebook")[1]["findings"]:
        query = urllib.parse.urlencode({"finding": finding["id"]})
        _, answer = ask(address, f"trace?{query}")
        texts = {f"message:{one['n']}": one["text"] for one in answer["trace"]["messages"]}
        texts |= {f"patch:{one['agent']}": one["text"] for one in answer["trace"]["patches"]}
        texts["outcome"] = answer["trace"]["outcome"]["text"]
        assert answer["evidence"] == [quote | {"stale": False} for quote in finding["evidence"]]
        for quote in finding["evidence"]:
            assert texts[quote["source"]][quote["start"] : quote["end"]] == quote["quote"]
    assert ask(address, "trace?finding=none")[0] == 404


def test_traces_that_are_gone_are_said_and_can_be_named(folder, serve):
    manifest = json.loads((folder / "open" / "run.json").read_text())
    (folder / "open" / "run.json").write_text(json.dumps(manifest | {"sources": ["/nowhere"]}))
    query = urllib.parse.urlencode({"finding": open_codebook(folder).findings[0].id})
    _, answer = ask(serve("view", folder).address, f"trace?{query}")
    assert "name the folder of the traces with --traces" in answer["trace"]["problems"][0]
    assert all(quote["stale"] for quote in answer["evidence"])
    _, answer = ask(serve("view", folder, "--traces", EXAMPLES).address, f"trace?{query}")
    assert (answer["trace"]["problems"], answer["evidence"][0]["stale"]) == ([], False)
    shutil.rmtree(folder / "open")
    _, answer = ask(serve("view", folder, "--traces", EXAMPLES).address, f"trace?{query}")
    assert not answer["evidence"][0]["stale"]
    _, answer = ask(serve("view", folder).address, f"trace?{query}")
    assert "the run names no sources" in answer["trace"]["problems"][0]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--review", "file.jsonl"), "--review is for runs, and book is a codebook"),
        (("--by", "model"), "--by is for runs"),
        (("--annotator", "ann"), "--annotator is for runs"),
        (("book/open",), "annotate view shows one codebook, and no run beside it"),
    ],
)
def test_an_option_for_runs_does_not_go_with_a_codebook(folder, annotate_cli, options, says):
    done = annotate_cli("view", "book", *options)
    assert done.code == 2
    assert says in " ".join(done.err.split())


def test_codes_are_split_merged_and_moved_by_keyboard(folder, serve, visit):
    page = visit(serve("view", folder).address, refusals=True)
    _, two, rest = (code.findings for code in open_codebook(folder).codes)
    links = page.locator("#codes a")
    assert links.count() == 4
    assert page.inner_text("#head h2") == "rest name"  # of the most traces
    page.keyboard.press("s")
    until(lambda: page.inner_text("#said") == "Check findings first.")
    page.focus("#findings input >> nth=0")
    page.keyboard.press("Space")
    page.keyboard.press("s")
    page.keyboard.type("two")  # keys in a field are no commands
    page.keyboard.press("Enter")
    page.wait_for_selector(".deciding .warning:text-is('the name of the code \\'two\\' is empty')")
    for name in ("name", "definition", "evidence"):
        page.fill(f".deciding [name={name}]", TEXTS[name])
    page.press("[name=why]", "Enter")
    page.wait_for_selector(".deciding .warning:has-text('two defined twice')")
    assert page.evaluate("document.activeElement.name") == "why"
    page.fill("[name=id]", "new")
    page.press("[name=why]", "Enter")
    page.wait_for_selector("#head h2:text-is('New')")
    assert open_codebook(folder).code("new").findings == rest[:1]

    page.keyboard.press("m")
    page.select_option(".deciding select", "two")
    assert page.locator(".two .card").all_inner_texts()[1].startswith("Stays: two name")
    page.press("[name=why]", "Enter")
    page.wait_for_selector("#head h2:text-is('two name')")
    assert open_codebook(folder).code("two").findings == (*two, *rest[:1])
    page.click("text=Check all 3")
    page.keyboard.press("v")
    page.select_option(".deciding select", "")
    page.press("[name=why]", "Enter")
    page.wait_for_selector("#codes a:text-is('without a code (4)')")
    assert page.inner_text("#count") == "3 decisions"
    for left in ("2", "1"):
        page.keyboard.press("u")
        page.wait_for_selector(f"#count:has-text('{left} decision')")
    page.click("#log summary")
    assert [text.split(": ", 1)[1] for text in page.locator(".log li").all_inner_texts()][:2] == [
        "undone: new merged into two",
        "undone: 3 findings moved to no code",
    ]
    assert len(open_codebook(folder).code("new").findings) == 1


def test_codes_are_listed_by_group(folder, serve, visit):
    for code, group in (("one", "Late"), ("two", "Early"), ("rest", "Late")):
        decide(folder, CodeDecision("rename", (code,), group=group))
    page = visit(serve("view", folder).address)
    rows = page.locator("#codes li")

    def list_rows():
        return [text.split("\n")[0].strip() for text in rows.all_inner_texts()]

    expected = ["Late", "rest name", "one name", "Early", "two name", "without a code (1)"]
    assert list_rows() == expected
    page.fill("#search", "early")
    assert list_rows() == ["Early", "two name", "without a code (1)"]
    page.fill("#search", "")
    page.keyboard.press("Escape")
    page.focus("#findings input >> nth=0")
    page.keyboard.press("Space")
    page.keyboard.press("s")
    for name, text in TEXTS.items():  # the new code is in the group of the old one
        page.fill(f".deciding [name={name}]", text)
    page.press("[name=why]", "Enter")
    page.wait_for_selector("#head h2:text-is('New')")
    assert open_codebook(folder).code("new").group == "Late"
    assert sorted(list_rows()[:4]) == sorted(["Late", "rest name", "one name", "New"])


def test_a_code_that_is_gone_is_said_and_the_page_follows(folder, serve, visit):
    page = visit(serve("view", folder).address, refusals=True)
    page.keyboard.press("d")
    decide(folder, CodeDecision("drop", ("rest",), by="bob"))
    page.press("[name=why]", "Enter")
    until(lambda: page.inner_text("#said") == "there is no code 'rest'")
    assert page.locator("#codes a").count() == 3
    assert page.inner_text("#head h2") == "two name"


def test_many_findings_and_hostile_texts(folder, serve, visit):
    book = open_codebook(folder)
    [code, *_] = book.codes
    finding = book.findings[0]
    texts = [ATTACKS[n % len(ATTACKS)] for n in range(2_000)]
    many = tuple(
        replace(finding, id=f"{finding.trace_id}#m{n}", name=text, rationale=text)
        for n, text in enumerate(texts)
    )
    code = replace(
        code,
        name=ATTACKS[0],
        group=ATTACKS[2],
        definition=ATTACKS[2],
        findings=tuple(x.id for x in many),
    )
    save_codebook(replace(book, title=ATTACKS[1], codes=(code,), findings=many), folder)
    page = visit(serve("view", folder).address)
    assert page.inner_text("#head h2") == ATTACKS[0]
    shown = page.locator("#findings .finding")
    assert shown.count() == 50
    page.click("button:text-is('Show 50 more')")
    assert shown.count() == 100
    page.fill("#search", "javascript:window")
    until(lambda: "143 of 2,000 findings match" in page.inner_text("#findings h3"))
    page.click("button.quote >> nth=0")
    page.wait_for_selector("dialog mark.current")
    assert page.inner_text("dialog mark.current") == finding.evidence[0].quote
