"""The prompt of a critic: one code, and a finding of it with its quotes in their context."""

from dataclasses import dataclass, field, replace
from functools import cached_property

from annotator.base.text import escape_header, format_count, sanitize_line
from annotator.prompts.parts import split_trace
from annotator.prompts.render import (
    Layout,
    Prompt,
    add_note,
    fill_in,
    fit_parts,
    hash_prompts,
    make_tag,
    spell_tag,
)
from annotator.prompts.truncate import AROUND_QUOTES, mark_priorities
from annotator.rubrics import Rubric
from annotator.rubrics.annotations import Finding
from annotator.traces import Trace

_FILES = ("critic.j2", "critic_claim.j2", "critic_end.j2")
_SHOWN = ("facts", "quoted", "near")  # kinds of parts
_LONGEST_TEXT = 2_000  # characters of a quote or a rationale


@dataclass(frozen=True)
class CriticPrompt(Prompt):
    """The prompt about one ``finding``."""

    finding: Finding = field(kw_only=True)

    @property
    def system(self) -> str:
        """The system's message: the code, and how to answer."""
        code = self.rubric.code(self.finding.code)
        return fill_in("critic.j2", rubric=self.rubric, code=code, first_tag=self.first_tag)

    @property
    def first_tag(self) -> str:
        """The tag in the first line of ``system``."""
        decides = f"first {hash_critic_prompts()} {self.rubric.sha256} {self.finding.code}"
        return f"first-{spell_tag(decides)}"

    @cached_property
    def end(self) -> str:
        """The question, at the end of ``user``."""
        return fill_in("critic_end.j2", finding=self.finding, last_tag=self.last_tag)

    @cached_property
    def aside(self) -> str:
        """The finding, after the trace."""
        return fill_in("critic_claim.j2", nonce=self.tag, lines=self.proposals)


def hash_critic_prompts() -> str:
    """Return the hash of all templates that a critic's requests are made of."""
    return hash_prompts(*_FILES)


def render_critic(
    trace: Trace, rubric: Rubric, finding: Finding, max_characters: int | None, layout: Layout
) -> Prompt:
    """Return the prompt that asks whether a finding is right.

    It shows the facts, the quoted passages with their surroundings, and the messages around them.
    If the code says that something is missing, it shows the messages in which that could be.

    Raises:
        UnreadableTrace: the rubric needs the agents' steps and they cannot be read.
    """
    passages = [(item.source, item.start, item.end) for item in finding.evidence]
    absence = rubric.code(finding.code).shows_absence
    kinds = (*_SHOWN, "related") if absence else _SHOWN
    parts = mark_priorities(
        list(split_trace(trace, rubric, facts=layout.facts)),
        passages,
        [absence] if absence else [],
    )
    near = [section for section in parts if section.kind in kinds]
    if hidden := len(parts) - len(near):
        near = add_note(near, f"not shown here: {format_count(hidden, 'other part')}")
    visible, missing = fit_parts(near, max_characters, AROUND_QUOTES)
    lines = [f"code: {finding.code}"]
    lines += [f'quote: {escape_header(item.source)} "{item.quote}"' for item in finding.evidence]
    lines += [f"because: {finding.rationale}"]
    claim = tuple(sanitize_line(line, _LONGEST_TEXT) for line in lines)
    layout = replace(layout, considered="critique")
    tag = make_tag(visible, rubric, layout, (hash_critic_prompts(), *claim))
    return CriticPrompt(rubric, tag, tuple(visible), missing, claim, layout, finding=finding)
