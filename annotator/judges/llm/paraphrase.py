"""A rubric in other words, written by a model."""

import json

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from annotator.base.errors import AnnotatorError, RubricError
from annotator.base.text import describe_validation, sanitize_line
from annotator.judges.llm.answer import extract_answer
from annotator.judges.llm.judge import LLMJudge
from annotator.judges.llm.request import BUDGET_BYTES_PER_TOKEN, BYTES_PER_TOKEN, estimate_tokens
from annotator.judges.llm.response import CallFailed
from annotator.rubrics import Rubric
from annotator.rubrics.annotations import UsageRange
from annotator.rubrics.changes import ClauseChange, Field, derive_rubric

_SYSTEM = """\
You get the texts of a rubric by which runs of software agents are labelled. Write each of them in
other words. The meaning must stay exactly the same: a careful reader labels every run the same by
your texts and by the old ones. Add no condition, leave none out, make none stricter or weaker.
Keep ids of codes, names of agents and quoted words as they are. Give no examples.

Answer with one JSON object and nothing else. It has the keys and ids of the object that you get.
"""
_Texts = dict[str, dict[Field, str]]  # by code
_FIELDS: tuple[Field, ...] = ("definition", "evidence", "not")


class Paraphraser(LLMJudge):
    """Writes a rubric in other words. Its usage is ``overhead``."""

    async def paraphrase(self, rubric: Rubric) -> Rubric:
        """Return the rubric with every definition, evidence and ``not`` in other words.

        Raises:
            BudgetReached: no money is left for it.
            AnnotatorError: the model gave no such texts, or cannot be asked.
        """
        messages, problem = _write_messages(rubric), ""
        try:
            for _ in range(1 + self.options.reasks):
                body = {"model": self.options.model, "messages": messages}
                data = to_json(body | self.options.parameters(1))
                longest = int(len(data) / BUDGET_BYTES_PER_TOKEN)
                call = self._estimate_call(
                    self.options, body, longest, int(2 * len(data) / BYTES_PER_TOKEN)
                )
                response = await self._endpoint.complete(data, call, self._add_usage)
                try:
                    return read_paraphrase(extract_answer(response, "json") or "", rubric)
                except RubricError as error:
                    problem = response.refusal or str(error)
                reask = f"Your answer cannot be used: {problem}. Give the whole object again."
                answer = response.text.strip() or "(no answer)"
                messages.append({"role": "assistant", "content": answer})
                messages.append({"role": "user", "content": reask})
        except CallFailed as error:
            problem = str(error)
        finally:
            await self.close()
        raise AnnotatorError(
            f"{self.options.model} wrote no paraphrase of {rubric.id}:"
            f" {sanitize_line(problem, 300)}; give one with --paraphrase FILE"
        )

    def expects_paraphrase(self, rubric: Rubric) -> UsageRange:
        """Return the expected usage of a paraphrase."""
        system, user = (estimate_tokens(each["content"]) for each in _write_messages(rubric))
        usage = self.expect_call(system + user, user)
        return UsageRange(usage, usage)


def _write_messages(rubric: Rubric) -> list[dict[str, str]]:
    texts = json.dumps(_list_texts(rubric), ensure_ascii=False, indent=1)
    return [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": texts}]


def _list_texts(rubric: Rubric) -> _Texts:
    codes = {code.id: code.model_dump(by_alias=True) for code in rubric.codes}
    return {code: {x: texts[x] for x in _FIELDS if texts[x]} for code, texts in codes.items()}


def read_paraphrase(answer: str, rubric: Rubric) -> Rubric:
    """Return the rubric with the texts in a JSON object.

    Raises:
        RubricError: a text is missing or unchanged.
    """
    try:
        texts = TypeAdapter(_Texts).validate_json(answer)
    except ValidationError as error:
        raise RubricError(f"no JSON object of such texts: {describe_validation(error)}") from error
    changes = []
    for code, old in _list_texts(rubric).items():
        for name, text in old.items():
            new = texts.get(code, {}).get(name, "")
            if not new.strip():
                raise RubricError(f"{code}.{name} is missing")
            if new.lower().split() == text.lower().split():
                raise RubricError(f"{code}.{name} is not in other words")
            changes.append(ClauseChange(code, name, new))
    return derive_rubric(rubric, changes)
