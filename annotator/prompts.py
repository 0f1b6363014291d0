"""What a model is asked: the templates in /prompts, filled with a rubric and a trace."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from annotator.resources import folder
from annotator.rubrics import Rubric
from annotator.text import one_line
from annotator.traces import Feature, Origin, Trace

_FILES = ("system.j2", "trace.j2")


@dataclass(frozen=True, slots=True)
class Prompt:
    """``system`` is the same for every trace of a rubric, so that providers can cache it;
    ``user`` holds the trace between its markers.
    """

    system: str
    user: str


@dataclass(frozen=True, slots=True)
class _Part:
    id: str
    more: str
    text: str
    closed: bool = False

    @property
    def header(self) -> str:
        return self.id + self.more + (" (context, not to be quoted)" if self.closed else "")


@lru_cache(maxsize=1)
def prompt_sha256() -> str:
    """Return the hash of the prompt templates, by which a run says what it asked."""
    digest = hashlib.sha256()
    for name in _FILES:
        digest.update((folder("prompts") / name).read_bytes())
    return digest.hexdigest()


def render(trace: Trace, rubric: Rubric) -> Prompt:
    """Return the prompt that judges ``trace`` by ``rubric``; the trace is complete in it.

    The markers around the trace carry a tag, the keyed hash of the templates, the rubric and the
    trace. Judging the same trace again gives the same tag (answers can be cached), and a trace
    cannot contain its own: it would have to contain the hash of a text with that hash in it.

    Raises:
        UnreadableTrace: the rubric needs the agents' steps and they cannot be read.
    """
    parts = list(_parts(trace, rubric))
    content = json.dumps([(part.header, part.text) for part in parts]).encode()
    key = hashlib.sha256(f"{prompt_sha256()} {rubric.sha256}".encode()).digest()
    nonce = hashlib.blake2b(content, key=key, digest_size=12).hexdigest()
    closed = [part.id for part in parts if part.closed]
    user = _environment().get_template("trace.j2").render(nonce=nonce, parts=parts, closed=closed)
    return Prompt(_system(rubric), user)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    # The output is a prompt, not HTML; a trace is a value in it and never a template.
    return Environment(  # noqa: S701
        loader=FileSystemLoader(folder("prompts")),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )


@lru_cache(maxsize=16)
def _system(rubric: Rubric) -> str:
    return _environment().get_template("system.j2").render(rubric=rubric)


def _parts(trace: Trace, rubric: Rubric) -> Iterator[_Part]:
    """Yield the parts of the prompt in reading order: facts, tasks, then every source to quote."""
    yield _Part("facts", "", "\n".join(_facts(trace)), closed=True)
    for agent, task in trace.tasks.items():
        yield _Part(f"task:{one_line(agent, 60)}", "", task, closed=True)
    origins: tuple[Origin, ...] = ("messages", "patches", "outcome")
    if any(message.tool for message in trace.messages) or {"steps", "tools"} & set(
        rubric.quote_from
    ):
        origins += ("steps", "tools")
    wanted = set(rubric.quote_from)
    messages = {f"message:{message.n}": message for message in trace.messages}
    for source in trace.sources(origins):
        if source.id.startswith("step:") and source.origin not in wanted:
            continue
        more = ""
        if message := messages.get(source.id):
            to = ", ".join(message.recipients) or "everybody"
            more = f" from {one_line(message.sender, 60)} to {one_line(to, 120)}"
            more += f", kind {one_line(message.kind, 40)}" if message.kind else ""
        if source.origin == "patches" and not source.text.strip():
            more += ", empty"
        yield _Part(one_line(source.id, 120), more, source.text, source.origin not in wanted)


def _facts(trace: Trace) -> Iterator[str]:
    outcome = trace.outcome
    yield f"agents: {', '.join(one_line(agent, 60) for agent in trace.agents) or 'unknown'}"
    words = {True: "passed", False: "failed", None: "not known"}
    yield f"run: {words[outcome.passed]}"
    if outcome.merge:
        yield f"merge of the patches: {one_line(outcome.merge, 60)}"
    for feature in outcome.features:
        yield _feature_fact(feature, words)
    for end in outcome.agents:
        if end.crashed:
            status = one_line(end.status or "unknown", 60)
            yield f"{one_line(end.agent, 60)} did not finish: status {status}"
    if not trace.messages:
        yield "messages: none were sent"


def _feature_fact(feature: Feature, words: dict[bool | None, str]) -> str:
    owner = f" ({one_line(feature.agent, 60)})" if feature.agent else ""
    alone = f", its patch alone: {words[feature.passed_alone]}"
    reason = f" ({one_line(feature.alone_reason, 60)})" if feature.alone_reason else ""
    merged = f"after the merge {words[feature.passed]}"
    return f"feature {one_line(feature.name, 60)}{owner}: {merged}{alone}{reason}"
