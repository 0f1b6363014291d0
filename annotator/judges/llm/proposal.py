"""A model that proposes something, such as changes of a rubric, asked as a judge is."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from annotator.base.errors import RubricError
from annotator.judges.llm.answer import RUBRIC, InvalidAnswer, read_form
from annotator.judges.llm.judge import JudgeCall, LLMJudge
from annotator.judges.llm.model import Session
from annotator.judges.llm.request import (
    LONGEST_ANSWER,
    MAX_SHRINKS,
    TooLong,
    estimate_max_tokens,
)
from annotator.judges.llm.settings import Options
from annotator.prompts.proposal import AnyProposalPrompt, ProposalPrompt
from annotator.prompts.render import Prompt
from annotator.rubrics.annotations import Usage, Verdict
from annotator.rubrics.changes import (
    ClauseChange,
    Proposal,
    ProposedChange,
    Turn,
    derive_rubric,
    dump_rubric,
)
from annotator.traces import Trace

_COPIED = 6  # words in a row that a proposal may not share with a trace
_WORD = re.compile(r"\w+")
T = TypeVar("T")


ReadProposal = Callable[[str, Any], Any]
"""Returns the proposal in a JSON text, by its prompt; raises InvalidAnswer."""


@dataclass(frozen=True)
class KeptProposal(Generic[T]):
    """A model's answer with its usage. ``request``: the hash of what was sent; ``error``: why
    there is none.
    """

    request: str
    proposal: T | None
    usage: Usage
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ProposalVerdict(Verdict):
    """A verdict that is a proposal."""

    proposal: Any = None


class Proposer(LLMJudge):
    """Proposes something: with the formats, checks, cache, prices and budget of a judge.

    ``propose`` raises Pending, BudgetReached and JudgeStopped as
    :meth:`annotator.judges.base.Judge.judge`.
    """

    def __init__(self, options: Options, session: Session | None, read: ReadProposal) -> None:
        super().__init__(options, session)
        self._read_proposal = read

    async def propose(
        self, name: str, prompt: AnyProposalPrompt, request: str
    ) -> KeptProposal[Any]:
        """Return the proposal, or an ``error``. ``name``: of the call, in the cache."""
        judge_call = JudgeCall(Trace(name, "proposal", "", ()), prompt.rubric)
        verdict: Verdict = Verdict(error="the prompt is too long", failure="length")
        for _ in range(MAX_SHRINKS):
            try:
                prompt = self._fit(prompt)
                verdict = await self._converse(judge_call, prompt)
                break
            except TooLong as error:
                verdict = Verdict(error=str(error), failure=error.failure)
                prompt = prompt.shrink() or prompt
        if not verdict.error:
            judge_call.bad.clear()
        self._bill(judge_call)
        proposal = verdict.proposal if isinstance(verdict, ProposalVerdict) else None
        return KeptProposal(request, proposal, judge_call.usage, verdict.error)

    def _fit(self, prompt: AnyProposalPrompt) -> AnyProposalPrompt:
        """Return the prompt with as much as the model can read."""
        while self._context and (smaller := prompt.shrink()):
            if estimate_max_tokens(prompt.system + prompt.user) + LONGEST_ANSWER < self._context:
                break
            prompt = smaller
        return prompt

    def _read(self, answer: str, judge_call: JudgeCall, prompt: Prompt) -> Verdict:
        return ProposalVerdict(proposal=self._read_proposal(answer, prompt))


def read_proposal(text: str, prompt: ProposalPrompt) -> Proposal:
    """Return the proposal in a JSON text.

    Raises:
        InvalidAnswer: all errors of the answer. A change must lead to a valid rubric that differs,
            and repeat no six words of a trace unless the prompt allows it.
    """
    answer = read_form(text, prompt)
    del answer["candidates"][prompt.most_candidates :]  # the most useful come first
    turns, candidates = answer["turns"], answer["candidates"]
    if wrong := [*_find_faults(turns, candidates, prompt), *_find_copies(answer, prompt)]:
        raise InvalidAnswer(wrong)
    ids = [each.annotation.trace_id for each in prompt.differences]
    return Proposal(
        tuple(Turn(ids[x["difference"] - 1], _build(x).clause, x["because"]) for x in turns),
        tuple(
            ProposedChange(
                _build(x), x["summary"], tuple(ids[n - 1] for n in dict.fromkeys(x["differences"]))
            )
            for x in candidates
        ),
    )


def _build(item: Mapping[str, Any]) -> ClauseChange:
    code = "" if item["code"] == RUBRIC else item["code"]
    return ClauseChange(code, item["field"], item.get("text", ""), tuple(item.get("quotes", ())))


def _find_faults(turns: Any, candidates: Any, prompt: ProposalPrompt) -> Iterator[str]:
    """Yield an error for each number, clause or change that is wrong."""
    last = len(prompt.differences)
    numbers = [x["difference"] for x in turns] + [n for x in candidates for n in x["differences"]]
    if unknown := sorted({n for n in numbers if not 1 <= n <= last}):
        yield f"there is no difference {unknown[0]}, only 1 to {last}"
    for item in (*turns, *candidates):
        if (item["code"] == RUBRIC) != (item["field"] == "instructions"):
            yield f'{item["code"]}.{item["field"]}: "instructions" go with the code "{RUBRIC}"'
    changes = [_build(item) for item in candidates]
    for n, change in enumerate(changes, 1):
        where = f"candidate {n} ({change.clause})"
        if bool(change.quotes) != (change.field in ("near_miss", "example")):
            yield f"{where}: quotes are for near_miss and example, which need some"
        elif change in changes[: n - 1]:
            yield f"{where}: given twice"
        elif change.code or change.field == "instructions":
            yield from _check_result(change, where, prompt)


def _check_result(change: ClauseChange, where: str, prompt: ProposalPrompt) -> Iterator[str]:
    try:
        derived = derive_rubric(prompt.rubric, [change])
    except RubricError as error:
        yield f"{where}: {error}"
        return
    if derived.codes == prompt.rubric.codes and derived.instructions == prompt.rubric.instructions:
        yield f"{where}: it changes nothing"


def _find_copies(answer: Mapping[str, Any], prompt: ProposalPrompt) -> Iterator[str]:
    """Yield an error for the first six words of each text that a trace has, and the rubric not."""
    if prompt.quote_traces:
        return
    in_rubric = list_words(dump_rubric(prompt.rubric))
    for item in (*answer["turns"], *answer["candidates"]):
        texts = [item.get(name, "") for name in ("text", "summary", "because")]
        for text in (*texts, *item.get("quotes", ())):
            if copied := find_copied(text, prompt.texts, in_rubric):
                yield f'"{copied}" stands in a run: say it in other words, or invent the quote'


def find_copied(text: str, texts: str, allowed: str = "") -> str:
    """Return the first six words in a row that ``texts`` have, and ``allowed`` has not; both as
    :func:`list_words` gives them.
    """
    tokens = list_words(text).split()
    grams = (" ".join(tokens[n : n + _COPIED]) for n in range(len(tokens) - _COPIED + 1))
    return next((x for x in grams if f" {x} " in texts and f" {x} " not in allowed), "")


def list_words(text: str) -> str:
    """Return the words of a text in lower case, with a blank around each."""
    return f" {' '.join(_WORD.findall(text.lower()))} "
