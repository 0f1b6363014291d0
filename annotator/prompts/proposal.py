"""The prompt that asks for changes of a rubric: where the judge and people differ."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from annotator.base.text import sanitize_line
from annotator.prompts.render import Layout, Prompt, fill_in, hash_prompts, spell_tag
from annotator.rubrics import Rubric
from annotator.rubrics.annotations import Annotation

_FILES = ("propose.j2", "propose_user.j2")
_LONGEST_TEXT, _LONGEST_QUOTE = 800, 400  # characters of a rationale or a note, and of a quote
_MOST_QUOTES = 4


@dataclass(frozen=True, slots=True)
class Opinion:
    """The answers of the judge and of a person on one trace, with their reasons."""

    annotation: Annotation
    judge: str
    person: str
    note: str = ""
    quotes: tuple[str, ...] = ()

    def describe(self) -> str:
        """Return both answers and their reasons in one line; no line of it can look like ours."""
        return "; ".join(self._list_facts())

    def _list_facts(self) -> Iterator[str]:
        yield f"judge {self.judge}"
        for finding in self.annotation.findings:
            quotes = _write_quotes([item.quote for item in finding.evidence])
            yield f"{finding.code} because {_shorten(finding.rationale)} (quotes: {quotes})"
        for claim in self.annotation.rejected:
            yield f"{claim.code} rejected: {_shorten(claim.reason)}"
        for finding in self.annotation.refuted:
            why = finding.critique.reason if finding.critique else ""
            yield f"{finding.code} refuted by a critic: {_shorten(why)}"
        if reason := self.annotation.reason:
            yield _shorten(reason)
        yield f"person {self.person}"
        if self.note:
            yield f"note: {_shorten(self.note)}"
        if self.quotes:
            yield f"the person marked: {_write_quotes(self.quotes)}"


def _write_quotes(quotes: Sequence[str]) -> str:
    return ", ".join(f'"{sanitize_line(q, _LONGEST_QUOTE)}"' for q in quotes[:_MOST_QUOTES])


def _shorten(text: str) -> str:
    return sanitize_line(text, _LONGEST_TEXT)


class AnyProposalPrompt(Prompt):
    """A prompt that asks for a proposal, and not for a judgement on a trace."""

    def shrink(self) -> "AnyProposalPrompt | None":
        """Return a prompt that shows less; None if it cannot."""
        return None


@dataclass(frozen=True)
class ProposalPrompt(AnyProposalPrompt):
    """The prompt about the differences among ``opinions``.

    It shows at most ``limit`` of them. An answer has at most ``most_candidates`` changes. If
    ``quote_traces``, these may quote the traces; else they must not repeat six words of ``texts``.
    """

    opinions: tuple[Opinion, ...] = field(kw_only=True, repr=False)
    limit: int = field(kw_only=True)
    most_candidates: int = field(kw_only=True)
    texts: str = field(kw_only=True, repr=False)
    quote_traces: bool = field(kw_only=True)

    @cached_property
    def differences(self) -> list[Opinion]:
        """The differences that it shows, in order."""
        return [each for each in self.opinions if each.judge != each.person][: self.limit]

    def shrink(self) -> "ProposalPrompt | None":
        """Return the prompt with half of its differences."""
        half = len(self.differences) // 2
        return replace(self, limit=half) if half else None

    @property
    def system(self) -> str:
        """The system's message: the rubric, and how to answer."""
        options = {"most": self.most_candidates, "quote_traces": self.quote_traces}
        return fill_in("propose.j2", rubric=self.rubric, first_tag=self.first_tag, **options)

    @property
    def first_tag(self) -> str:
        """The tag in the first line of ``system``."""
        return f"first-{spell_tag(f'first {hash_proposal_prompts()} {self.rubric.sha256}')}"

    @cached_property
    def trace_section(self) -> str:
        """All of ``user``; it has no trace."""
        counts = Counter((each.judge, each.person) for each in self.opinions)
        wrong = sum(n for (judge, person), n in counts.items() if judge != person)
        return fill_in(
            "propose_user.j2",
            total=counts.total(),
            counts=[(*pair, n) for pair, n in counts.most_common()],
            wrong=wrong,
            lines=[each.describe() for each in self.differences],
            nonce=self.tag,
            last_tag=self.last_tag,
        )

    @cached_property
    def end(self) -> str:
        """Nothing: ``trace_section`` is all."""
        return ""


def render_proposal(
    rubric: Rubric,
    opinions: Sequence[Opinion],
    limit: int,
    most_candidates: int,
    texts: str,
    *,
    quote_traces: bool,
) -> ProposalPrompt:
    """Return the prompt that asks for changes of a rubric; see :class:`ProposalPrompt`."""
    content = [f"{x.annotation.trace_id} {x.describe()}" for x in opinions]
    decides = [hash_proposal_prompts(), rubric.sha256, limit, most_candidates, quote_traces]
    key = hashlib.sha256(str(decides).encode()).digest()
    text = "\n".join([str([*map(len, content)]), *content]).encode(errors="surrogatepass")
    return ProposalPrompt(
        rubric,
        hashlib.blake2b(text, key=key, digest_size=16).hexdigest(),
        (),
        layout=Layout("proposal"),
        opinions=tuple(opinions),
        limit=limit,
        most_candidates=most_candidates,
        texts=texts,
        quote_traces=quote_traces,
    )


def hash_proposal_prompts() -> str:
    """Return the hash of all templates that a request for changes is made of."""
    return hash_prompts(*_FILES)
