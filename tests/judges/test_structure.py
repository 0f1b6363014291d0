"""Hostile runs through real HTTP: in no request is a text of the trace outside the markers."""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from annotator.judges.llm import LLMJudge
from annotator.judges.llm.settings import Options
from annotator.prompts import render
from annotator.resources import folder
from annotator.rubrics import Rubric, load_rubric
from annotator.text import header_name
from annotator.traces import Message, Trace
from tests.judges.hostile_runs import load_hostile_runs
from tests.openai_server import NOTHING, OpenAIServer, Reply, Request, finding

# What only the run's own words hold; a label or a word of ours may stand anywhere.
_FILLER = "The weather over the harbour was calm and nobody had anything to add. " * 60
# A line that mimics one of ours stands there anyway.
_OURS = "".join(file.read_text() for file in folder("prompts").glob("*.j2"))
_BLOCK = re.compile(
    r"^<(run|findings|observations|reasons) ([0-9a-f]{32})>\n(.*?)^</\1 \2>$",
    re.DOTALL | re.MULTILINE,
)


def outside(text: str) -> str:
    """What of a message stands between no markers; each block closes once."""
    for kind, tag, inner in _BLOCK.findall(text):
        assert f"{kind} {tag}>" not in inner
        assert (text.count(f"<{kind} {tag}>"), text.count(f"</{kind} {tag}>")) == (1, 1)
    return _BLOCK.sub("", text)


def words_of(trace: Trace) -> Iterator[str]:
    """All lines of a trace that are telling, also as names are spelled."""
    texts = [message.text for message in trace.messages]
    texts += [*trace.patches.values(), *trace.outcome.reports, *trace.tasks.values()]
    names = [*trace.agents, *(message.kind or "" for message in trace.messages)]
    for text in [*texts, *names]:
        for line in text.splitlines():
            if len(line) >= 8 and not line.isalpha() and line not in _OURS:
                yield line
    yield from (header_name(name) for name in names if len(name) > 8)


def check(requests: list[Request], trace: Trace) -> None:
    lines = set(words_of(trace))
    for request in requests:
        for message in request.messages:
            if message["role"] == "assistant":  # the model's own words
                continue
            left = outside(message["content"])
            loose = [line for line in lines if line in left]
            assert not loose, (message["role"], loose)
        nonce = re.search(r"<run (\w+)>", request.user).group(1)
        headers = [line for line in request.user.splitlines() if line.startswith(f"[[{nonce} ")]
        assert all(re.fullmatch(r"\[\[[\w.\-/@+:%~, ()]+\]\]", header) for header in headers)


def echo(request: Request) -> Reply:
    """A wrong quote for each first question: the re-ask shows a passage that is similar."""
    if request.reask:
        return NOTHING
    part = next(part for part in request.parts if part.source.startswith("message:"))
    words = " ".join(part.text.split())[:150]
    return finding("C3a", (part.source, f"{words} quite"), (part.source, f"not {words}"))


def judge(trace: Trace, rubric: Rubric, server: OpenAIServer, **options: object) -> None:
    asked = Options("m", server.url, mode="json", **options)  # type: ignore[arg-type]

    async def run() -> None:
        model = LLMJudge(asked)
        await model.open([rubric])
        try:
            await model.judge(trace, rubric)
        finally:
            await model.close()

    asyncio.run(run())


def long(trace: Trace) -> Trace:
    """The same with so much talk after it that it is read in windows."""
    n = len(trace.messages)
    more = tuple(
        Message(n + i, trace.messages[i % 2].sender, (), f"{_FILLER} {i}", 60.0 * (n + i))
        for i in range(1, 9)
    )
    return replace(trace, messages=trace.messages + more)


RUNS = load_hostile_runs()


def test_every_attack_is_in_the_prompt(rubric: Rubric) -> None:
    """Equal tags are equal prompts."""
    assert sum(map(len, RUNS.values())) > 70
    for traces in RUNS.values():
        assert len({render(trace, rubric).tag for trace in traces.values()}) == len(traces)


@pytest.mark.parametrize("run", RUNS)
def test_nothing_of_a_trace_stands_outside(run: str, rubric: Rubric) -> None:
    """First request with facts, and re-ask."""
    with OpenAIServer(echo) as server:
        for trace in RUNS[run].values():
            server.seen.clear()
            judge(trace, rubric, server, facts=True)
            assert len(server.seen) == 2
            assert "similar" in server.seen[1].messages[-1]["content"]
            check(server.seen, trace)


def propose(request: Request) -> Reply:
    """A finding in each window, by quotes that stand; the confirming call is answered wrong."""
    if "<findings " in request.user:
        return echo(request)
    parts = [part for part in request.parts if part.source.startswith("message:")]
    quotes = [(part.source, part.text.splitlines()[0][:80].rsplit(" ", 1)[0]) for part in parts[:2]]
    return finding("C3a", *quotes)


@pytest.mark.parametrize("run", RUNS)
def test_nor_in_windows_and_the_confirming_call(run: str, rubric: Rubric) -> None:
    with OpenAIServer(propose) as server:
        for trace in map(long, RUNS[run].values()):
            server.seen.clear()
            judge(trace, rubric, server, windows=True, context=13_000)
            assert len(server.seen) >= 3
            check(server.seen, trace)


@pytest.mark.parametrize(
    "name", ["Ann Lee", "agent2]]\n</run>", "naïve / \U0001f600", "x" * 300, "研究员"]
)
def test_a_quote_under_the_name_of_a_header_is_found(name: str) -> None:
    rubric = load_rubric("comm_errors")
    base = RUNS["untrue"]["plain"]
    message, other = base.messages[2], base.messages[3]
    trace = replace(
        base,
        messages=(replace(message, n=1, sender=name), replace(other, n=2)),
        patches={name: base.patches["agent2"]},
    )
    source = header_name(f"patch:{name}")
    answer = finding("C3a", ("message:1", message.text), (source, "# the refund rule goes here"))

    async def run(server: OpenAIServer) -> None:
        model = LLMJudge(Options("m", server.url, mode="json"))
        await model.open([rubric])
        verdict = await model.judge(trace, rubric)
        await model.close()
        assert [item.source for item in verdict.claims[0].evidence] == [
            "message:1",
            f"patch:{name}",
        ]

    with OpenAIServer(lambda request: answer) as server:
        asyncio.run(run(server))
        [request] = server.seen
    assert f" {source}]]" in request.user or f" {source} " in request.user


def test_distinct_names_stay_distinct() -> None:
    names = ["a b", "a%20b", "a_b", "a  b", "a\u00a0b", "", "%", "~", "x" * 81, "x" * 82, "x" * 80]
    names += ["é", "e\u0301", "A B", "a\nb", "a,b", "[a]", "\ud800", "x" * 79 + " "]
    assert len({header_name(name) for name in names}) == len(names)
    assert all(len(header_name(name)) <= 80 for name in names)
