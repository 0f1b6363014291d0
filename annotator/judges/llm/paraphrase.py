"""A rubric in other words, written by a model."""

import json
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from annotator.base.errors import AnnotatorError, RubricError
from annotator.base.text import describe_validation, sanitize_line
from annotator.judges.llm.answer import extract_answer
from annotator.judges.llm.judge import LLMJudge
from annotator.judges.llm.request import BUDGET_BYTES_PER_TOKEN, BYTES_PER_TOKEN, estimate_tokens
from annotator.judges.llm.response import CallFailed, ModelResponse
from annotator.rubrics import Code, Rubric
from annotator.rubrics.annotations import Usage
from annotator.rubrics.changes import ClauseChange, Field, derive_rubric

_SYSTEM = """\
You get the texts of a rubric by which runs of software agents are labelled. Write each of them in
other words. The meaning must stay exactly the same: a careful reader labels every run the same by
your texts and by the old ones. Add no condition, leave none out, make none stricter or weaker.
Keep ids of codes, names of agents and quoted words as they are. Give no examples.

Answer with one JSON object and nothing else. It has the keys and ids of the object that you get.
"""
_FIELDS: tuple[Field, ...] = ("definition", "evidence", "not")


class Paraphrase(BaseModel):
    """The texts of each code, by their names."""

    codes: dict[str, dict[Field, str]]


class Paraphraser(LLMJudge):
    """Writes a rubric in other words."""

    async def paraphrase(self, rubric: Rubric) -> tuple[Rubric, Usage]:
        """Return the rubric with every definition, evidence and ``not`` in other words, and the
        usage.

        Raises:
            BudgetReached: no money is left for it.
            AnnotatorError: the model gave no such texts, or cannot be asked.
        """
        messages = _write_messages(rubric)
        problem, used = "", Usage()

        def count(usage: Usage) -> None:
            nonlocal used
            used += usage

        try:
            for _ in range(1 + self.options.reasks):
                response = await self._send(messages, count)
                answer = extract_answer(response, "json")
                try:
                    return read_paraphrase(answer or "", rubric), used
                except RubricError as error:
                    problem = response.refusal or str(error)
                if response.refusal or response.finish == "length":
                    break
                reask = f"Your answer cannot be used: {problem}. Give the whole object again."
                messages += [
                    {"role": "assistant", "content": response.text.strip() or "(no answer)"},
                    {"role": "user", "content": reask},
                ]
        except CallFailed as error:
            problem = str(error)
        finally:
            await self.close()
        raise AnnotatorError(
            f"{self.options.model} wrote no paraphrase of {rubric.id}:"
            f" {sanitize_line(problem, 300)}; give one with --paraphrase FILE"
        )

    async def _send(self, messages: list[dict[str, str]], count: Any) -> ModelResponse:
        body = {"model": self.options.model, "messages": messages, **self.options.parameters(1)}
        data = to_json(body)
        longest = len(data) / BUDGET_BYTES_PER_TOKEN
        tokens = int(2 * len(data) / BYTES_PER_TOKEN)
        call = self._estimate_call(self.options, body, int(longest), tokens)
        return await self._endpoint.complete(data, call, count)

    def expects_paraphrase(self, rubric: Rubric) -> Usage:
        """Return the expected usage of a paraphrase."""
        system, user = _write_messages(rubric)
        read, written = estimate_tokens(system["content"]), estimate_tokens(user["content"])
        usage = Usage(input_tokens=read + written, output_tokens=written, calls=1)
        return replace(usage, cost_usd=self.price.of(usage) if self.price else None)


def _write_messages(rubric: Rubric) -> list[dict[str, str]]:
    texts = json.dumps({"codes": _list_texts(rubric)}, ensure_ascii=False, indent=1)
    return [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": texts}]


def _list_texts(rubric: Rubric) -> dict[str, dict[Field, str]]:
    return {
        code.id: {name: text for name in _FIELDS if (text := _get_text(code, name))}
        for code in rubric.codes
    }


def _get_text(code: Code, name: Field) -> str:
    text = {"definition": code.definition, "evidence": code.evidence, "not": code.not_}[name]
    return text or ""


def read_paraphrase(answer: str, rubric: Rubric) -> Rubric:
    """Return the rubric with the texts in a JSON object.

    Raises:
        RubricError: a text is missing or unchanged.
    """
    try:
        texts = Paraphrase.model_validate_json(answer).codes
    except ValidationError as error:
        raise RubricError(f"no JSON object of such texts: {describe_validation(error)}") from error
    before = _list_texts(rubric)
    for code, old in before.items():
        new = texts.get(code, {})
        for name, text in old.items():
            if not new.get(name, "").strip():
                raise RubricError(f"{code}.{name} is missing")
            if new[name].lower().split() == text.lower().split():
                raise RubricError(f"{code}.{name} is not in other words")
    changes = [
        ClauseChange(code, name, texts[code][name]) for code, old in before.items() for name in old
    ]
    return derive_rubric(rubric, changes)
