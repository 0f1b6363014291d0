"""A rubric in other words, written by a model."""

import json

from pydantic import TypeAdapter, ValidationError

from annotator.base.errors import RubricError
from annotator.base.text import describe_validation
from annotator.judges.llm.author import Author
from annotator.judges.llm.request import estimate_tokens
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


class Paraphraser(Author):
    """Writes a rubric in other words. Its usage is ``overhead``."""

    async def paraphrase(self, rubric: Rubric) -> Rubric:
        """Return the rubric with every definition, evidence and ``not`` in other words.

        Raises:
            BudgetReached: no money is left for it.
            AnnotatorError: the model gave no such texts, or cannot be asked.
        """
        return await self.write(
            *(_SYSTEM, _write_texts(rubric), lambda answer: read_paraphrase(answer, rubric)),
            f"paraphrase of {rubric.id}",
            "; give one with --paraphrase FILE",
        )

    def expects_paraphrase(self, rubric: Rubric) -> UsageRange:
        """Return the expected usage of a paraphrase."""
        system, user = map(estimate_tokens, (_SYSTEM, _write_texts(rubric)))
        usage = self.expect_call(system + user, user)
        return UsageRange(usage, usage)


def _write_texts(rubric: Rubric) -> str:
    return json.dumps(_list_texts(rubric), ensure_ascii=False, indent=1)


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
