"""Traces without e-mail addresses, keys and tokens.

Each is covered by as many characters, so all offsets stay valid.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from functools import lru_cache, partial
from typing import Any

from annotator.traces.model import AgentEnd, Feature, Message, Outcome, Step, Trace

_BEGIN = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"  # also after a line end as JSON writes it
# The word of a cover, and the pattern: its group is covered, else its match.
_PATTERNS = (
    (
        "key",
        r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?:(?!-----BEGIN)[\s\S]){0,20000}?"
        r"(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)",
    ),
    (
        "key",
        _BEGIN + r"(?:sk-[\w-]{16,}|(?:sk|pk|rk)_(?:live|test)_\w{10,}"
        r"|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abeoprs]-[\w-]{10,}"
        r"|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[\w-]{30,}|hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,}"
        r"|pypi-[\w-]{30,}|SG\.[\w-]{16,}\.[\w-]{16,}|ya29\.[\w-]{20,})",
    ),
    ("token", _BEGIN + r"eyJ[\w-]{8,}\.eyJ[\w-]{4,}(?:\.[\w-]*)?"),
    ("token", r"(?i)\b(?:bearer|basic|token)[ \t:]+(?=\S{0,500}\d)([\w.~+/=-]{16,})"),
    ("secret", r"(?i)[a-z][a-z0-9+.-]{1,20}://([^\s/@:'\"]{0,200}:[^\s/@'\"]{1,200})@"),
    (
        "secret",
        r"(?i)(?:(?:api|access|auth|private|client)[_-]?(?:key|token)|secret|passw(?:or)?d"
        r"|(?:key|token)(?=\W{0,12}[\w.~+/=-]{0,80}(?:\d|[\w~+/=-]{16})))\\?[\"']?\s{0,3}(?:=|:|=>)\s{0,3}\\?[\"']"
        r"([^\s\"'\\]{8,500})\\?[\"'](?!\s{0,3}[:=])",
    ),
    ("secret", r"\b[A-Z][A-Z0-9_]*(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD)=([^\s\"'\\;&|]{8,500})"),
    (
        "email",
        r"(?:(?<![\w\\])|(?<=\\[nrt]))\w[\w.+-]{0,100}(?<!-)@(?:[\w-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![\w-])",
    ),
)


@lru_cache(maxsize=1)
def hash_patterns() -> str:
    """Return the hash of the patterns, which a run records."""
    return hashlib.sha256(repr(_PATTERNS).encode()).hexdigest()[:16]


def redact_text(text: str) -> str:
    """Return a text of the same length, with its lines, without addresses, keys and tokens."""
    for kind, pattern in _PATTERNS:
        text = re.sub(pattern, partial(_cover, kind), text)
    return text


def _cover(kind: str, match: re.Match[str]) -> str:
    group = match.re.groups  # at most one
    secret, word = match[group], f"[{kind}]"
    before, after = match.start(group) - match.start(), match.end(group) - match.start()
    covered = word.ljust(len(secret), "*") if len(secret) >= len(word) else "*" * len(secret)
    lines = "".join(
        mark if mark in "\r\n" else cover for mark, cover in zip(secret, covered, strict=True)
    )
    return match[0][:before] + lines + match[0][after:]


def redact(trace: Trace) -> Trace:
    """Return a trace with every text redacted; agents named by addresses get distinct covers."""
    names = _cover_names(_list_names(trace))

    def cover(text: str) -> str:
        for name, covered in names.items():
            text = text.replace(name, covered)
        return redact_text(text)

    def cover_by_agent(values: Mapping[str, Any]) -> dict[str, Any]:
        covers = {**_cover_names(values), **names}
        pairs = values.items()
        return {covers.get(agent, agent): _map_value(value, cover) for agent, value in pairs}

    return replace(
        trace,
        messages=_map_value(trace.messages, cover),
        patches=cover_by_agent(trace.patches),
        outcome=_map_value(trace.outcome, cover),
        attributes=_map_value(trace.attributes, cover),
        problems=_map_value(trace.problems, cover),
        read_steps=lambda: cover_by_agent(trace.steps),
        read_tasks=lambda: cover_by_agent(trace.tasks),
    )


def _list_names(trace: Trace) -> Iterable[str]:
    outcome = trace.outcome
    yield from (end.agent for end in outcome.agents)
    yield from trace.patches
    for message in trace.messages:
        yield from (message.sender, *message.recipients)


def _cover_names(names: Iterable[str]) -> dict[str, str]:
    """Return the cover of each name that is redacted, no two alike."""
    unique = list(dict.fromkeys(names))
    used, covers = set(unique), {}
    for name in unique:
        covered, n = redact_text(name), 1
        while covered != name and covered in used:
            n += 1
            covered = f"{covered[: len(name) - len(str(n))]}{n}"[: len(name)]
        if covered != name:
            covers[name] = covered
            used.add(covered)
    return covers


def _map_value(value: Any, cover: Callable[[str], str]) -> Any:
    """Return a value with all its texts covered."""
    if isinstance(value, str):
        return cover(value)
    if isinstance(value, Mapping):
        return {key: _map_value(item, cover) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_map_value(item, cover) for item in value)
    if isinstance(value, (AgentEnd, Feature, Message, Outcome, Step)):
        names = [item.name for item in fields(value)]
        return replace(value, **{name: _map_value(getattr(value, name), cover) for name in names})
    return value
