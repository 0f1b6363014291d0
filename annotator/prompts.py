"""What a model is asked: the templates in /prompts, filled with a rubric and a trace."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from annotator.fitting import PromptPart, fit, windows
from annotator.resources import folder
from annotator.rubrics import Rubric
from annotator.text import one_line
from annotator.traces import Feature, Origin, Trace

_FILES = ("system.j2", "trace.j2", "json.j2", "json_end.j2", "reask.j2", "probe.j2")
_FACTS = "facts.j2"
_WRAPPER = 1_000  # characters of a prompt around the parts of the trace, with a margin
_NOTE = 200  # characters of a note in the facts, with a margin
_KINDS = {"message": "messages", "patch": "patches", "outcome": "outcome", "step": "steps"}


@dataclass(frozen=True, slots=True)
class Observations:
    """What a program observed in a trace: a line each, and how many more it made."""

    lines: tuple[str, ...] = ()
    more: int = 0

    def first(self, n: int) -> "Observations":
        """Return the first ``n`` of them."""
        return Observations(self.lines[:n], self.more + len(self.lines[n:]))

    @property
    def shown(self) -> list[str]:
        """The lines, and one that says how many are left out."""
        if not self.more:
            return list(self.lines)
        many = "fact of these kinds is" if self.more == 1 else "facts of these kinds are"
        return [*self.lines, f"{self.more} more {many} left out"]


NO_OBSERVATIONS = Observations()


@dataclass(frozen=True)
class Prompt:
    """``system`` is the same for every trace of a rubric, so that providers can cache it;
    ``user`` holds the trace between its markers, without the characters of ``truncated``, and after
    it the ``observations`` between theirs, if there are any.

    ``tag`` stands in the markers: the keyed hash of templates, rubric and all that is shown. Equal
    tags mean equal prompts.
    """

    system: str
    tag: str
    parts: tuple[PromptPart, ...] = field(repr=False)
    truncated: Mapping[str, int] = field(default_factory=dict)
    observations: Observations = NO_OBSERVATIONS

    @cached_property
    def user(self) -> str:
        """The user's message; it is written when it is needed, not where the answer is known."""
        closed = [part.id for part in self.parts if part.closed]
        template = _environment().get_template("trace.j2")
        return template.render(nonce=self.tag, parts=self.parts, closed=closed) + self.aside

    @cached_property
    def aside(self) -> str:
        """What of ``user`` is not the trace: the section of the observations, or ""."""
        if not self.observations.lines:
            return ""
        template = _environment().get_template(_FACTS)
        return template.render(nonce=self.tag, lines=self.observations.shown)


@lru_cache(maxsize=1)
def prompt_sha256() -> str:
    """Return the hash of the prompt templates, by which a run says what it asked."""
    digest = hashlib.sha256()
    for name in _FILES:
        text = (folder("prompts") / name).read_bytes()
        digest.update(f"{name} {len(text)}\n".encode() + text)
    return digest.hexdigest()


@lru_cache(maxsize=1)
def facts_sha256() -> str:
    """Return the hash of the template in which observations are shown."""
    return hashlib.sha256((folder("prompts") / _FACTS).read_bytes()).hexdigest()


def ask_for_json(schema: str) -> tuple[str, str]:
    """Return what follows the system's and the user's message where the form of an answer is told
    and not set: the JSON schema, and at the end a reminder of it.
    """
    return _fill_in("json.j2", schema=schema), _fill_in("json_end.j2")


def ask_again(reasons: str, *, quotes: bool) -> str:
    """Return the message after an answer that was not accepted; ``quotes``: only for its quotes."""
    return _fill_in("reask.j2", reasons=reasons, quotes=quotes)


def tiny_question() -> str:
    """Return the message that finds out in which form an endpoint answers."""
    return _fill_in("probe.j2")


def _fill_in(name: str, **values: object) -> str:
    return _environment().get_template(name).render(values)


def render(
    trace: Trace,
    rubric: Rubric,
    most: int | None = None,
    observations: Observations = NO_OBSERVATIONS,
) -> Prompt:
    """Return the prompt that judges ``trace`` by ``rubric``.

    The trace is complete in it, or, where its part of the prompt would be longer than ``most``
    characters, as much of it as fits (:func:`annotator.fitting.fit`). The ``observations`` are
    shown in full; ``most`` does not count them.

    The markers around the trace carry a tag, the keyed hash of the templates, the rubric and the
    trace. Judging the same trace again gives the same tag (answers can be cached), and a trace
    cannot contain its own: it would have to contain the hash of a text with that hash in it.

    Raises:
        UnreadableTrace: the rubric needs the agents' steps and they cannot be read.
    """
    prompt = _fit_parts(list(_parts(trace, rubric)), rubric, most)
    if not observations.lines:
        return prompt
    tag = _tag(prompt.parts, rubric, observations)
    return replace(prompt, tag=tag, observations=observations)


def render_windows(trace: Trace, rubric: Rubric, most: int) -> list[Prompt]:
    """Return prompts of at most ``most`` characters that together show the whole conversation.

    Each shows the facts, a stretch of the conversation that overlaps with the next, and, in at most
    half of the room, as much of the rest of the trace as fits. One prompt if the trace fits.

    Raises:
        UnreadableTrace: as :func:`render`.
    """
    parts = list(_parts(trace, rubric))
    room = most - _WRAPPER
    talk = [part for part in parts if part.kind == "messages"]
    others = [part for part in parts if part.kind != "messages"]
    if sum(part.size for part in parts) <= room:
        return [_fit_parts(parts, rubric, most)]
    rest, missing = fit(others, min(sum(part.size for part in others), room // 2))
    gone = len(others) - len(rest)
    talk_room = room - sum(part.size for part in rest) - _NOTE
    talk = [part.cut_to(talk_room) for part in talk]
    stretches = windows(talk, talk_room)
    prompts = []
    for n, stretch in enumerate(stretches, 1):
        shown = [talk[at] for at in stretch]
        note = f"window {n} of {len(stretches)}: {shown[0].id} to {shown[-1].id} of {len(talk)}"
        parts = _add_note([*rest, *shown], note + _describe_missing(gone))
        cut = {part.id: part.left_out for part in shown if part.left_out}
        prompts.append(_assemble(parts, rubric, missing | cut))
    return prompts or [_fit_parts(parts, rubric, most)]


def _fit_parts(parts: list[PromptPart], rubric: Rubric, most: int | None) -> Prompt:
    if most is None or sum(part.size for part in parts) <= most - _WRAPPER:
        return _assemble(parts, rubric, {})
    kept, missing = fit(parts, most - _WRAPPER - _NOTE)
    return _assemble(_add_note(kept, _describe_missing(len(parts) - len(kept))), rubric, missing)


def _assemble(parts: list[PromptPart], rubric: Rubric, missing: Mapping[str, int]) -> Prompt:
    return Prompt(_system(rubric), _tag(parts, rubric), tuple(parts), missing)


def _tag(
    parts: Sequence[PromptPart], rubric: Rubric, observations: Observations = NO_OBSERVATIONS
) -> str:
    templates = prompt_sha256()
    texts = [text for part in parts for text in (part.header, part.text, part.tail)]
    # With the sizes no two lists of texts give the same bytes.
    sizes = [*(len(text) for text in texts), *(part.left_out for part in parts)]
    if lines := observations.lines:
        templates += facts_sha256()
        sizes += [len(line) for line in lines] + [len(lines), observations.more]
        texts += lines
    key = hashlib.sha256(f"{templates} {rubric.sha256}".encode()).digest()
    content = "\n".join([str(sizes), *texts]).encode(errors="surrogatepass")
    return hashlib.blake2b(content, key=key, digest_size=16).hexdigest()


def _describe_missing(parts: int) -> str:
    return f"\nnot shown, for want of room: {parts} parts" if parts else ""


def _add_note(parts: list[PromptPart], note: str) -> list[PromptPart]:
    """Return the parts with a note in the facts, which come first."""
    return [
        replace(part, text=f"{part.text}\n{note.strip()}")
        if part.kind == "facts" and note
        else part
        for part in parts
    ]


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


def _parts(trace: Trace, rubric: Rubric) -> Iterator[PromptPart]:
    """Yield the parts of the prompt in reading order: facts, tasks, then every source to quote."""
    yield PromptPart("facts", "facts", "\n".join(_facts(trace)), closed=True)
    for agent, task in trace.tasks.items():
        yield PromptPart(f"task:{one_line(agent, 60)}", "task", task, closed=True)
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
        shown = one_line(source.id, 120)
        kind = _KINDS[shown.partition(":")[0]]
        yield PromptPart(shown, kind, source.text, more, source.origin not in wanted)


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
