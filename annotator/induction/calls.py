"""The calls that make codes from open findings: group them, write the codes, assign them anew."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from annotator.base.errors import AnnotatorError
from annotator.base.text import sanitize_line
from annotator.induction.codebook import Codebook, InducedCode, OpenFinding
from annotator.judges.llm.answer import InvalidAnswer, read_form
from annotator.judges.llm.proposal import find_copied, list_words
from annotator.prompts.proposal import AnyProposalPrompt
from annotator.prompts.render import Layout, fill_in, hash_prompts, spell_tag
from annotator.rubrics import NONE, Rubric
from annotator.rubrics.lint import lint
from annotator.rubrics.model import Example

OTHER = "other"
MOST_FINDINGS = 120  # in one call
_SHOWN = 6  # findings of a code in the call that writes the codes
_UNGROUPED = 20  # findings without a code there
_LONGEST_TEXT, _LONGEST_QUOTE = 500, 240  # characters
_ID = re.compile(r"[a-z][a-z0-9_]{1,39}")
_FILES = ("induce_group.j2", "induce_codes.j2", "induce_assign.j2", "induce_user.j2")

Step = Literal["grouping", "codes of findings", "assignment"]
_SYSTEM: dict[Step, str] = dict(
    zip(("grouping", "codes of findings", "assignment"), _FILES, strict=False)
)
_QUESTIONS: dict[Step, str] = {
    "grouping": "Which code has each finding? Which new codes do they need?",
    "codes of findings": "Which codes describe how these runs fail?",
    "assignment": "Which code has each finding?",
}


@dataclass(frozen=True)
class FoundCode:
    """A code of the grouping: its id, its name and a definition in one sentence."""

    id: str
    name: str
    definition: str


@dataclass(frozen=True)
class Grouping:
    """The new codes, and the code of each finding in order; ``other``: none."""

    new_codes: tuple[FoundCode, ...]
    codes: tuple[str, ...]


@dataclass(frozen=True)
class WrittenCode:
    """A code of the rubric, and the ids of the codes of the grouping that were ``merged``."""

    id: str
    name: str
    group: str
    definition: str
    evidence: str
    near_misses: str
    quotes: tuple[str, ...]
    why: str
    merged: tuple[str, ...]

    def make_code(self, findings: Sequence[str] = ()) -> InducedCode:
        """Return the code of a codebook, with the ids of its findings."""
        texts = (self.id, self.name, self.definition, self.evidence, self.near_misses)
        example = Example(quotes=self.quotes, why=self.why)
        group = " ".join(self.group.split())
        return InducedCode(*texts, example, tuple(findings), group=group)


@dataclass(frozen=True)
class WrittenCodes:
    """The codes of the rubric; ``dropped``: why a code of the grouping goes into none of them."""

    codes: tuple[WrittenCode, ...]
    dropped: Mapping[str, str]


@dataclass(frozen=True)
class Assignment:
    """The code of each finding in order; ``none``: no code."""

    codes: tuple[str, ...]


@dataclass(frozen=True)
class CodingPrompt(AnyProposalPrompt):
    """The prompt of a call.

    ``codes`` and ``findings``: the lines that it shows; ``ids``: of the codes so far; ``numbers``:
    how many findings are to have a code; ``texts``: the words that a new text must not copy.
    """

    codes: tuple[str, ...] = field(kw_only=True, repr=False)
    findings: tuple[str, ...] = field(kw_only=True, repr=False)
    ids: tuple[str, ...] = field(kw_only=True, repr=False)
    numbers: int = field(kw_only=True)
    texts: str = field(kw_only=True, repr=False)

    @property
    def step(self) -> Step:
        """The step that the call is of."""
        return self.layout.considered  # type: ignore[return-value]

    @property
    def system(self) -> str:
        """The system's message: how to answer."""
        return fill_in(_SYSTEM[self.step], rubric=self.rubric, first_tag=self.first_tag)

    @property
    def first_tag(self) -> str:
        """The tag in the first line of ``system``."""
        text = f"first {hash_coding_prompts()} {self.step} {self.rubric.sha256}"
        return f"first-{spell_tag(text)}"

    @cached_property
    def trace_section(self) -> str:
        """All of ``user``; it has no trace."""
        return fill_in(
            "induce_user.j2",
            codes=self.codes,
            findings=self.findings,
            grouping=self.step == "grouping",
            numbered=bool(self.numbers),
            question=_QUESTIONS[self.step],
            nonce=self.tag,
            last_tag=self.last_tag,
        )

    @cached_property
    def end(self) -> str:
        """Nothing: ``trace_section`` is all."""
        return ""


def hash_coding_prompts() -> str:
    """Return the hash of all templates that the calls are made of."""
    return hash_prompts(*_FILES)


def render_grouping(
    rubric: Rubric, codes: Sequence[FoundCode], counts: Counter[str], new: Sequence[OpenFinding]
) -> CodingPrompt:
    """Return the prompt that gives ``new`` findings a code; ``counts``: the findings of each."""
    lines = [f"{_describe_code(code)} ({counts[code.id]} findings)" for code in codes]
    ids = [code.id for code in codes]
    return _render("grouping", rubric, lines, _write_lines(new), ids, len(new))


def render_codes(
    rubric: Rubric,
    codes: Sequence[FoundCode],
    grouped: Mapping[str, Sequence[OpenFinding]],
) -> CodingPrompt:
    """Return the prompt that asks for the codes of the rubric; ``grouped``: the findings of each
    code of the grouping, and of ``other``.
    """
    lines = []
    for code in sorted(codes, key=lambda code: -len(grouped[code.id])):
        findings = grouped[code.id]
        runs = len({finding.trace_id for finding in findings})
        lines.append(f"{_describe_code(code)} ({len(findings)} findings in {runs} runs)")
        lines += [f"  - {_describe_finding(finding)}" for finding in _select_findings(findings)]
    others = [f"- {_describe_finding(x)}" for x in grouped.get(OTHER, ())[:_UNGROUPED]]
    quotes = (item.quote for each in grouped.values() for x in each for item in x.evidence)
    texts = "\n".join(map(list_words, quotes))
    ids = [code.id for code in codes]
    return _render("codes of findings", rubric, lines, others, ids, 0, texts)


def _select_findings(findings: Sequence[OpenFinding]) -> Sequence[OpenFinding]:
    """Return a few findings from all batches."""
    return findings[:: -(-len(findings) // _SHOWN)]


def render_assignment(rubric: Rubric, findings: Sequence[OpenFinding]) -> CodingPrompt:
    """Return the prompt that assigns findings to the codes of a rubric."""
    ids = [code.id for code in rubric.codes]
    return _render("assignment", rubric, (), _write_lines(findings), ids, len(findings))


def _render(
    step: Step,
    rubric: Rubric,
    codes: Sequence[str],
    findings: Sequence[str],
    ids: Sequence[str],
    numbers: int,
    texts: str = "",
) -> CodingPrompt:
    key = hashlib.sha256(f"{hash_coding_prompts()} {step} {rubric.sha256}".encode()).digest()
    content = [*codes, "", *findings]
    text = "\n".join([str([*map(len, content)]), *content]).encode(errors="surrogatepass")
    return CodingPrompt(
        rubric,
        hashlib.blake2b(text, key=key, digest_size=16).hexdigest(),
        (),
        layout=Layout(step),
        codes=tuple(codes),
        findings=tuple(findings),
        ids=tuple(ids),
        numbers=numbers,
        texts=texts,
    )


def _write_lines(findings: Sequence[OpenFinding]) -> list[str]:
    return [f"{n}. {_describe_finding(finding)}" for n, finding in enumerate(findings, 1)]


def _describe_finding(finding: OpenFinding) -> str:
    text = sanitize_line(f"{finding.name}: {finding.rationale}", _LONGEST_TEXT)
    return f'{text} (quote: "{sanitize_line(finding.evidence[0].quote, _LONGEST_QUOTE)}")'


def _describe_code(code: FoundCode) -> str:
    return sanitize_line(f"{code.id}: {code.name}. {code.definition}", _LONGEST_TEXT * 2)


def read_grouping(text: str, prompt: CodingPrompt) -> Grouping:
    """Return the grouping in a JSON text.

    Raises:
        InvalidAnswer: a finding has no code or several, or a code is not there or cannot be used.
    """
    answer = read_form(text, prompt)
    new, assignments = answer["new_codes"], answer["assignments"]
    wrong = [*_check_ids(new, prompt.ids), *_check_numbers(assignments, prompt.numbers)]
    usable = {*prompt.ids, OTHER, *(code["id"] for code in new)}
    for item in assignments:
        if item["code"] not in usable:
            wrong.append(f"finding {item['finding']}: {item['code']!r} is no code of either list")
    if wrong:
        raise InvalidAnswer(wrong[:20])
    codes = _order(assignments)
    return Grouping(tuple(FoundCode(**code) for code in new if code["id"] in codes), codes)


def read_codes(text: str, prompt: CodingPrompt) -> WrittenCodes:
    """Return the codes of the rubric in a JSON text.

    Raises:
        InvalidAnswer: a code so far goes into none or several, a text repeats six words of a run,
            or a code is none that a rubric can have.
    """
    answer = read_form(text, prompt)
    codes, dropped = answer["codes"], answer["dropped"]
    wrong = [*_check_ids(codes, ())]
    merged = Counter(x for code in codes for x in code["merged"]) + Counter(
        item["id"] for item in dropped
    )
    for code_id in sorted({*prompt.ids, *merged}):
        if code_id not in prompt.ids:
            wrong.append(f"merged or dropped: {code_id!r} is no code so far")
        elif merged[code_id] != 1:
            wrong.append(f"{code_id} is in merged or dropped {merged[code_id]} times, not once")
    for code in codes:
        for name in ("group", "definition", "evidence", "near_misses", "why"):
            wrong += _check_copies(f"{code['id']}.{name}", code[name], prompt.texts)
        for quote in code["quotes"]:
            wrong += _check_copies(f"{code['id']}.quotes", quote, prompt.texts)
    spellings = {" ".join(code["group"].split()) for code in codes}
    if len({name.casefold() for name in spellings}) < len(spellings):
        wrong.append("two groups differ only in capital letters: write the name of a group alike")
    if not wrong:
        wrong += _check_rubric(codes)
    if wrong:
        raise InvalidAnswer(wrong[:20])
    return WrittenCodes(
        tuple(
            WrittenCode(**code | {"quotes": tuple(code["quotes"]), "merged": tuple(code["merged"])})
            for code in codes
        ),
        {item["id"]: item["because"] for item in dropped},
    )


def read_assignment(text: str, prompt: CodingPrompt) -> Assignment:
    """Return the code of each finding in a JSON text.

    Raises:
        InvalidAnswer: a finding has no code or several.
    """
    assignments = read_form(text, prompt)["assignments"]
    if wrong := [*_check_numbers(assignments, prompt.numbers)]:
        raise InvalidAnswer(wrong)
    return Assignment(_order(assignments))


def _order(assignments: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    return tuple(x["code"] for x in sorted(assignments, key=lambda x: x["finding"]))


def _check_ids(codes: Sequence[Mapping[str, Any]], taken: Sequence[str]) -> Iterator[str]:
    ids = [code["id"] for code in codes]
    for code_id in dict.fromkeys(ids):
        if code_id in (*taken, OTHER, NONE):
            yield f"{code_id}: a new code needs an id of its own"
        elif not _ID.fullmatch(code_id):
            yield f"{sanitize_line(code_id, 60)}: an id is lower_snake_case, of at most 40 letters"
        elif ids.count(code_id) > 1:
            yield f"{code_id}: two codes have this id"


def _check_numbers(assignments: Sequence[Mapping[str, Any]], last: int) -> Iterator[str]:
    counts = Counter(item["finding"] for item in assignments)
    if missing := [n for n in range(1, last + 1) if not counts[n]]:
        yield f"without a code: {_join_numbers(missing)}"
    if repeated := [n for n, count in counts.items() if count > 1]:
        yield f"with several codes: {_join_numbers(repeated)}"
    if unknown := [n for n in counts if not 1 <= n <= last]:
        yield f"there is no finding {unknown[0]}, only 1 to {last}"


def _join_numbers(numbers: Sequence[int]) -> str:
    more = f" and {len(numbers) - 20} more" if len(numbers) > 20 else ""
    return f"findings {', '.join(map(str, numbers[:20]))}{more}"


def _check_copies(where: str, text: str, texts: str) -> Iterator[str]:
    if copied := find_copied(text, texts):
        yield f'{where}: "{copied}" stands in a run: say it in other words, or invent the quote'


def _check_rubric(codes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield why the codes make no rubric, or one with likely mistakes."""
    try:
        written = [WrittenCode(**code).make_code() for code in codes]
        rubric = Codebook("Induced codes", "induction", tuple(written), (), {}).to_rubric()
    except (AnnotatorError, ValueError) as error:
        yield sanitize_line(str(error), 300)
        return
    yield from lint(rubric, "")
