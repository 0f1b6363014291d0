"""A model that writes a text instead of judging a trace."""

from collections.abc import Callable
from typing import TypeVar

from pydantic_core import to_json

from annotator.base.errors import AnnotatorError, RubricError
from annotator.base.text import sanitize_line
from annotator.judges.llm.answer import extract_answer
from annotator.judges.llm.judge import LLMJudge
from annotator.judges.llm.request import BUDGET_BYTES_PER_TOKEN, BYTES_PER_TOKEN
from annotator.judges.llm.response import CallFailed

T = TypeVar("T")


class Author(LLMJudge):
    """Writes what it is asked for, as JSON. Its usage is ``overhead``."""

    async def write(
        self,
        system: str,
        content: str,
        read: Callable[[str], T],
        product: str,
        advice: str = "",
    ) -> T:
        """Return what ``read`` makes of the answer; a wrong answer is asked for again.

        Args:
            system: the instructions.
            content: what they are about.
            read: raises RubricError for an answer that cannot be used.
            product: the name of the text, for errors.
            advice: the end of an error.

        Raises:
            BudgetReached: no money is left for it.
            AnnotatorError: the model gave no answer that can be used, or cannot be asked.
        """
        messages = [{"role": "system", "content": system}, {"role": "user", "content": content}]
        problem = ""
        try:
            for _ in range(1 + self.options.reasks):
                body = {"model": self.options.model, "messages": messages}
                data = to_json(body | self.options.parameters(1))
                longest, tokens = (
                    len(data) / BUDGET_BYTES_PER_TOKEN,
                    2 * len(data) / BYTES_PER_TOKEN,
                )
                call = self._estimate_call(self.options, body, int(longest), int(tokens))
                response = await self._endpoint.complete(data, call, self._add_usage)
                try:
                    return read(extract_answer(response, "json") or "")
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
            f"{self.options.model} wrote no {product}: {sanitize_line(problem, 300)}{advice}"
        )
