"""``annotate run --canary``: known labels measure a judge and are in nothing else."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from annotator.errors import AnnotatorError
from annotator.prompts import render
from annotator.rubrics import load_rubric
from annotator.runs.canaries import choose_canaries, list_canaries
from tests.conftest import Done
from tests.openai_server import NOTHING, OpenAIServer, Reply

Cli = Callable[..., Done]
Runs = Callable[..., Path]
ANSWER = "--rubric", "comm_errors", "--json"


def outcome(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "run.json").read_text())


def table(done: Done) -> list[dict[str, Any]]:
    """What is counted: all but which run it was."""
    return [
        {name: value for name, value in told.items() if name not in ("run", "runs")}
        for told in json.loads(done.out)
    ]


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def asked(server: OpenAIServer, *more: str) -> tuple[str, ...]:
    return "--model", "m", "--base-url", server.url, *more


@pytest.mark.parametrize("more", [(), ("--samples", "3")], ids=["one", "votes"])
def test_a_judge_is_measured_and_its_table_is_the_same(
    annotate_cli: Cli, runs: Runs, tmp_path: Path, more: tuple[str, ...]
) -> None:
    """It always says none: right where none is right, and the table knows of no canary."""
    source = str(runs())
    with OpenAIServer() as server:
        plain = annotate_cli(source, *ANSWER, *asked(server, *more), "--out", "a")
        mixed = annotate_cli(source, *ANSWER, *asked(server, *more), "--out", "b", "--canary", "40")
    assert plain.code == mixed.code == 0, mixed.err
    assert table(plain) == table(mixed)
    before, after = outcome(tmp_path / "a"), outcome(tmp_path / "b")
    assert before["traces"] == after["traces"]
    counts = ("annotations", "none", "labelled", "failed", "skipped")
    assert [before["totals"][n] for n in counts] == [after["totals"][n] for n in counts]
    ids = {line["trace_id"] for line in lines(tmp_path / "b" / "annotations.jsonl")}
    assert ids == {line["trace_id"] for line in lines(tmp_path / "a" / "annotations.jsonl")}
    right = sum("none" in one.expected["comm_errors"] for one in list_canaries()[:40])
    told = after["canaries"]
    assert (told["judged"], told["right"], len(told["wrong"])) == (40, right, 40 - right)
    wrong = [one["canary"] for one in told["wrong"]]
    assert wrong == sorted(wrong)
    assert f"canaries: {right} of 40 right" in mixed.err
    usage = lines(tmp_path / "b" / "canaries.jsonl")
    more_calls = sum(line["usage"]["calls"] + line["usage"]["cache_hits"] for line in usage)
    assert more_calls == 40 * (3 if more else 1)


def test_what_failed_is_judged_again_and_what_did_not_is_not(
    annotate_cli: Cli, runs: Runs, tmp_path: Path
) -> None:
    source, how = str(runs()), ("--canary", "6", "--out", "a")
    with OpenAIServer(
        lambda one: Reply(refusal="no") if "assuming metres" in one.user else NOTHING
    ) as server:
        first = annotate_cli(source, *ANSWER, *asked(server), *how)
        assert "5 of" not in first.err
        failed = [line for line in lines(tmp_path / "a" / "canaries.jsonl") if line["error"]]
        assert failed
        server.responder = lambda one: NOTHING
        calls = len(server.seen)
        again = annotate_cli(source, *ANSWER, *asked(server), *how, "--resume")
        assert len(server.seen) - calls == len(failed)
    assert again.code == 0, again.err
    assert outcome(tmp_path / "a")["canaries"]["judged"] == 6
    assert len(lines(tmp_path / "a" / "canaries.jsonl")) == 6 + len(failed)


def test_a_forecast_counts_the_canaries_that_are_left(
    annotate_cli: Cli, runs: Runs, tmp_path: Path
) -> None:
    source, how = str(runs(2)), ("--no-cache", "--canary", "6", "--out", "a")
    with OpenAIServer(
        lambda one: Reply(refusal="no") if "assuming metres" in one.user else NOTHING
    ) as server:
        annotate_cli(source, *ANSWER, *asked(server, *how))
        failed = [line for line in lines(tmp_path / "a" / "canaries.jsonl") if line["error"]]
        dry = annotate_cli(source, *ANSWER, *asked(server, *how), "--resume", "--dry-run")
    assert failed
    assert json.loads(dry.out)["calls"] == len(failed), dry.err


def test_canaries_go_into_batches(annotate_cli: Cli, runs: Runs, tmp_path: Path) -> None:
    with OpenAIServer() as server:
        how = asked(server, "--batch", "--canary", "5", "--out", "a")
        done = annotate_cli(str(runs()), *ANSWER, *how)
    assert done.code == 0, done.err
    assert outcome(tmp_path / "a")["canaries"]["judged"] == 5


@pytest.mark.parametrize(
    ("rubric", "number", "words"),
    [("mast", "3", "no canary has a known label"), ("comm_errors", "9999", "there are")],
)
def test_what_cannot_be_measured_is_refused(
    annotate_cli: Cli, runs: Runs, tmp_path: Path, rubric: str, number: str, words: str
) -> None:
    with OpenAIServer() as server:
        how = asked(server, "--canary", number, "--out", "a")
        done = annotate_cli(str(runs()), "--rubric", rubric, *how)
    assert (done.code, server.seen) == (2, [])
    assert words in done.err
    assert not (tmp_path / "a").exists()


def test_the_rules_judge_is_measured_too(annotate_cli: Cli, runs: Runs, tmp_path: Path) -> None:
    how = ("--judge", "rules", "--canary", "100", "--out", "a")
    done = annotate_cli(str(runs()), *ANSWER, *how)
    assert done.code == 0, done.err
    assert outcome(tmp_path / "a")["canaries"]["judged"] == 100


@pytest.mark.parametrize("rubric_id", ["comm_errors", "comm_errors_paper"])
def test_every_attack_is_in_the_prompt(rubric_id: str) -> None:
    """Equal tags are equal prompts. comm_errors_paper shows no patch, outcome or task."""
    rubric = load_rubric(rubric_id)
    fit = [one for one in list_canaries() if rubric_id in one.expected]
    hidden = {"comm_errors": 0, "comm_errors_paper": 3}[rubric_id]  # a patch, an outcome, a task
    runs = sum(not one.is_hostile for one in fit)
    with pytest.raises(AnnotatorError, match="there are"):
        choose_canaries(rubric, len(fit) - hidden * runs + 1)
    chosen = choose_canaries(rubric, len(fit) - hidden * runs)
    tags = {one.name: render(one.trace, rubric).tag for one in chosen}
    plain = {name.partition("/")[0]: tag for name, tag in tags.items() if name.endswith("/plain")}
    for name, tag in tags.items():
        assert name.endswith("/plain") or tag != plain[name.partition("/")[0]], name
