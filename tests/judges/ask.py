"""How the tests of models ask: one trace or a folder of runs, one server, one rubric."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from annotator import annotate
from annotator.rubrics import Rubric
from annotator.rubrics.annotations import Annotation, Usage
from annotator.traces import Message, Trace
from tests.conftest import Done, annotations, set_model
from tests.server import Reply, Request, Server, finding

Cli = Callable[..., Done]
Runs = Callable[..., Path]

ALL_APIS = ("chat", "responses", "anthropic", "gemini")
QUESTION = ("message:1", "Which field holds the unit?")
IGNORED = ("message:2", "I am adding the printer now")
RIGHT = finding("C1b", QUESTION, IGNORED)
WRONG = finding("C1b", IGNORED, ("message:1", "What nobody ever wrote in it?"))
ARGS = ("logs", "--rubric", "comm_errors")
TOOLS = set_model(mode="tools")
PRICED = ("--price-in", "1", "--price-out", "1")  # dollars for a million tokens

MANY = 40


def wrong_first(request: Request) -> Reply:
    return RIGHT if request.reask else WRONG


def question(n: int) -> tuple[str, str]:
    return f"message:{n}", f"Which field holds unit {n} of the parser?"


def end(n: int) -> tuple[str, str]:
    return f"message:{n}", f"Part {n} ends here."


def long(filler: str = "and so on it goes ", patch: int = 0) -> Trace:
    """A conversation of 40 messages of 1,500 characters, each with a question and an end."""
    texts = []
    for n in range(1, MANY + 1):
        first, last = question(n)[1] + " ", " " + end(n)[1]
        texts.append(first + (filler * 1_500)[: 1_500 - len(first + last)] + last)
    patches = {"a": "+ line of code\n" * (patch // 15)} if patch else {}
    return talk(*texts, agents="ba", patches=patches)


def talk(*texts: str, agents: Sequence[str] = "ab", **parts: Any) -> Trace:
    """A trace of these messages, by the agents in turn."""
    senders = (agents[n % len(agents)] for n in range(len(texts)))
    pairs = enumerate(zip(senders, texts, strict=True), 1)
    messages = tuple(Message(n, sender, (), text) for n, (sender, text) in pairs)
    return Trace("t", "generic", "", messages, **parts)


LONG = long()


def settings(server: Server, api: str = "chat", **changes: object) -> dict[str, Any]:
    native = api in ("anthropic", "gemini")
    given = {"model": "test-model", "base_url": server.root if native else server.url, "api": api}
    limits = {"attempts": 2, "timeout": 20.0 if native else 5.0, "cached": False}
    return given | limits | changes


def ask_all(
    server: Server, traces: list[Trace], rubric: Rubric | str = "comm_errors", **changes: Any
) -> list[Annotation]:
    """Judge traces, whatever the share of them that the model reads."""
    options = {"least_read": 0.0, "rejected": "undecided", "concurrency": 8, "only": "all"}
    options = {name: changes.pop(name, value) for name, value in options.items()}
    return list(annotate(traces, rubric, settings(server, **changes), **options).annotations())


def ask(
    server: Server, trace: Trace, rubric: Rubric | str = "comm_errors", **changes: Any
) -> Annotation:
    [annotation] = ask_all(server, [trace], rubric, **changes)
    return annotation


def llm(server: Server, *more: object) -> tuple[object, ...]:
    """The options of a run with this server."""
    return (*ARGS, "--model", "m", "--base-url", server.url, *set_model(attempts=2), *more)


def manifest(folder: Path | str = "out") -> dict[str, Any]:
    return json.loads(Path(folder, "run.json").read_text())


def totals(folder: Path | str = "out") -> dict[str, Any]:
    return manifest(folder)["totals"]


def findings(folder: Path | str) -> dict[tuple[str, str], Annotation]:
    """The annotations of a run without their costs."""
    return {key: replace(one, usage=Usage()) for key, one in annotations(Path(folder)).items()}


def statuses(folder: Path | str = "out") -> list[str]:
    return sorted(one.status for one in annotations(Path(folder)).values())


def refuse_above(limit: int, message: str, answer: Callable[[Request], Reply], **fields: Any):
    """Refuse prompts of more than ``limit`` tokens, of four characters each."""

    def fill(value: Any, size: int) -> Any:
        return {"{asked}": size, "{limit}": limit}.get(value, value)

    def respond(request: Request) -> Reply:
        size = request.length // 4
        if size <= limit:
            return answer(request)
        error = {"message": message.format(asked=size, limit=limit)}
        error |= {name: fill(value, size) for name, value in fields.items()}
        return Reply(status=error.pop("status", 400), error=error)

    return respond
