"""Traces without addresses, keys and tokens, in which every quote has its place."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from annotator.api import open_run
from annotator.traces import AgentEnd, Message, Outcome, Step, Trace, load_traces
from annotator.traces.redaction import redact, redact_text
from annotator.web.reading import PageRequest, Reading
from tests.conftest import Done, annotations, set_model, write_run
from tests.server import Server, finding, scripted

Cli = Callable[..., Done]

GITHUB = "ghp_" + "a1B2" * 9
COVERED = {
    "mail bob@example.com now": "mail [email]******** now",
    "+eve+tag@mail.example.org,": "+[email]*****************,",
    r"\nann@example.com\n": r"\n[email]********\n",
    f"({GITHUB})": "([key]" + "*" * 35 + ")",
    "sk-proj-abcdefghijklmnop1234": "[key]***********************",
    "Authorization: Bearer abcdefghijklmnop1": "Authorization: Bearer [token]**********",
    "postgres://me:secret1@db/x": "postgres://[secret]**@db/x",
    'password = "correcthorse"': 'password = "[secret]****"',
    "export MY_API_KEY=12345678": "export MY_API_KEY=[secret]",
    "-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----": "[key]"
    + "*" * 22
    + "\n***\n"
    + "*" * 25,
}
KEPT = (
    "@click.group()",
    "+@t.overload",
    r"\n@click.group()",
    "10-@pytest.mark.slow",
    'key = "definitions"',
    "token = tokenizer.next()",
    "commit 0123456789abcdef0123456789abcdef01234567",
    "react@18.2.0",
    "task-force disk-abcdefghijklmnopqrstuvwxyz",
)


@pytest.mark.parametrize(("text", "shown"), [*COVERED.items(), *((text, text) for text in KEPT)])
def test_secrets_are_covered_and_nothing_moves(text: str, shown: str) -> None:
    assert redact_text(text) == shown
    assert len(shown) == len(text)
    assert redact_text(shown) == shown


def test_agents_that_are_called_by_addresses_stay_apart() -> None:
    ann, bob = "ann@example.com", "bob@example.com"
    messages = (Message(1, ann, (bob,), f"Hi {bob}, it is {ann}."), Message(2, bob, (ann,), "Hi."))
    trace = Trace(
        *("t", "f", "p", messages, {ann: "+x", bob: "+y"}),
        outcome=Outcome(agents=(AgentEnd(ann, error=f"by {bob}"), AgentEnd(bob))),
        attributes={"user": ann, "passed": False},
        read_steps=lambda: {ann: (Step(1, "agent", f"to {bob}"),)},
        read_tasks=lambda: {bob: f"ask {ann}"},
    )
    shown = redact(trace)
    [one, other] = shown.agents
    assert "@" not in "".join(map(repr, (shown.messages, shown.outcome, shown.attributes)))
    assert (list(shown.patches), list(shown.steps), list(shown.tasks)) == (
        *([one, other], [one], [other]),
    )
    assert shown.messages[0].text == f"Hi {other}, it is {one}."
    assert shown.attributes == {"user": one, "passed": False}


def test_a_redacted_run_sends_and_reports_none_of_them_and_its_quotes_stand(
    annotate_cli: Cli, tmp_path: Path
) -> None:
    question = f"My address is ann@example.com and the key {GITHUB}; shall we merge?"
    talk = [("agent1", question), ("agent2", "I am adding the printer now.")]
    write_run(tmp_path / "logs" / "one", talk)
    quoted = finding(
        "C1b", ("message:1", redact_text(question)), ("message:2", "I am adding the printer now.")
    )
    with Server(scripted(quoted)) as server:
        args = ("logs", "--rubric", "comm_errors", "--model", "m", "--base-url", server.url)
        done = annotate_cli(*args, *set_model(mode="tools"), "--redact", "--out", "out")
        sent = json.dumps([request.body for request in server.seen])
    assert done.code == 0, done.err
    [annotation] = annotations(tmp_path / "out").values()
    page = json.dumps(Reading(PageRequest([open_run(tmp_path / "out")])).page(annotation.trace_id))
    written = (tmp_path / "out" / "annotations.jsonl").read_text() + page
    for secret in ("ann@example.com", GITHUB):
        assert secret not in sent + written
    assert "[email]" in page
    assert '"stale": true' not in page
    [trace] = load_traces(tmp_path / "logs", redact=True)
    for evidence in annotation.findings[0].evidence:
        source = trace.source(evidence.source)
        assert source
        assert source.text[evidence.start : evidence.end] == evidence.quote
    assert open_run(tmp_path / "out").manifest.redaction
    again = annotate_cli(*args, "--out", "out", "--resume")
    assert (again.code, "redaction" in again.err) == (2, True)
