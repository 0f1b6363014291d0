"""`annotate prompt`: what a model is sent, as it is sent."""

import json
import re

import pytest

from annotator.prompts.render import Layout, render
from annotator.rubrics import load_rubric
from annotator.traces import Trace, read_traces
from tests.conftest import run_name, set_model, write_run


@pytest.fixture
def trace(tmp_path):
    write_run(tmp_path / run_name(1))
    [trace] = read_traces([str(tmp_path / "logs")])
    assert isinstance(trace, Trace)
    return trace


@pytest.mark.parametrize(
    ("options", "layout"),
    [
        ((), Layout()),
        (("--considered", "groups"), Layout("groups")),
        (("--rubric-last",), Layout(rubric_last=True)),
    ],
)
def test_both_messages_are_printed_and_the_tokens_of_their_parts(
    annotate_cli, trace, options, layout
):
    prompt = render(trace, load_rubric("symptoms"), layout=layout)
    done = annotate_cli("prompt", "logs", "--rubric", "symptoms", "--trace", trace.id, *options)
    assert done.code == 0, done.err
    assert prompt.system in done.out
    assert prompt.user in done.out
    table = done.out[done.out.index("--- tokens ---") :]
    counts = [int(n.replace(",", "")) for n in re.findall(r"  +([\d,]+)\b", table)]
    assert counts[-1] == sum(counts[:-1])
    assert {part.id for part in prompt.parts} <= set(table.split())
    model = ("--model", "gpt-5", "--base-url", "http://127.0.0.1:9/v1")
    form = set_model(mode="strict", considered=layout.considered, rubric_last=layout.rubric_last)
    dry = annotate_cli("logs", "--rubric", "symptoms", *model, *form, "--dry-run", "--json")
    assert counts[-1] == json.loads(dry.out)["input_tokens"]


def test_a_name_makes_no_row_of_its_own(annotate_cli, tmp_path):
    message = {"from": "a", "to": "b", "message": "Which field holds the unit?"}
    run = write_run(tmp_path / "one")
    result = json.loads((run / "result.json").read_text())
    result["agents"] = {"a\nall  1": {"feature_id": 1}, "b": {"feature_id": 2}}
    (run / "result.json").write_text(json.dumps(result))
    (run / "conversation.json").write_text(json.dumps([message]))
    done = annotate_cli("prompt", "one", "--rubric", "symptoms")
    table = done.out[done.out.index("--- tokens ---") :]
    assert "\npatch:a%0Aall%20%201 " in table
    assert table.count("\nall ") == 1


def test_codes_for_colours_are_printed_as_they_are_sent(annotate_cli, tmp_path):
    write_run(tmp_path / "one", [("agent1", "\x1b[31mred\x1b[0m"), ("agent2", "Which one?")])
    done = annotate_cli("prompt", "one", "--rubric", "symptoms")
    assert "\n\x1b[31mred\x1b[0m\n" in done.out


def test_what_a_listed_model_cannot_read_is_not_shown(annotate_cli, tmp_path):
    """128,000 tokens of gpt-4o, as in a run."""
    talk = [{"from": "ab"[n % 2], "message": f"{n} " + "so it goes " * 1_000} for n in range(60)]
    (tmp_path / "talk.jsonl").write_text(json.dumps({"id": "t", "messages": talk}) + "\n")
    model = ("talk.jsonl", "--rubric", "comm_errors", "--model", "gpt-4o")
    done = annotate_cli("prompt", *model)
    assert "are not shown, for want of room" in done.out
    total = int(re.findall(r"\nall +([\d,]+)", done.out)[0].replace(",", ""))
    dry = annotate_cli(*model, *set_model(mode="strict"), "--dry-run", "--json")
    assert total == json.loads(dry.out)["input_tokens"]


def test_the_difference_to_another_rubric(annotate_cli, trace):
    both = ("prompt", "logs", "--rubric", "comm_errors", "--diff")
    lines = annotate_cli(*both, "comm_errors_paper").out.splitlines()
    assert lines[:2] == ["--- comm_errors_paper", "+++ comm_errors"]
    assert not any("_tag: " in line for line in lines if line.startswith(("+", "-")))
    assert annotate_cli(*both, "comm_errors").out == "no difference\n"


WRONG = {
    "no such trace": (("logs", "--trace", "x"), "there is no trace 'x' in logs"),
    "no such folder": (("nowhere",), "no such file or folder"),
    "no room": (("logs", "--context", "600"), "leaves no room"),
}


@pytest.mark.parametrize(("arguments", "words"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_shown_is_said(annotate_cli, trace, arguments, words):
    done = annotate_cli("prompt", *arguments, "--rubric", "symptoms")
    assert (done.code, words in done.err) == (2, True)
