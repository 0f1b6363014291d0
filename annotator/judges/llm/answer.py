"""The answer a model has to give, built from a rubric, and how it is read.

Every text and every list has a largest length: a small model under a grammar would else go on to
the end of its context.
"""

import json
import re
from dataclasses import replace
from functools import lru_cache
from typing import Annotated, Any, Literal, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from annotator.annotations import Claim, Quote, Verdict
from annotator.evidence import verify
from annotator.judges.base import Mode
from annotator.judges.llm.reply import Reply
from annotator.rubrics import NONE, Rubric
from annotator.text import one_line
from annotator.traces import Trace

MOST_QUOTES = 8
_THINK, _END_OF_THOUGHT = "<think>", "</think>"
# What some servers leave at the end of a text: tokens that ended it.
_END = re.compile(
    r"(?:\s*(?:<\|(?:im_end|eot_id|eom_id|endoftext|end_of_text|end|return)\|>|</s>|<eos>"
    r"|<end_of_turn>))+\s*\Z"
)
_FENCE = re.compile(r"(?im)^```(?:json)?[ \t]*$|^```(?:json)?[ \t]*(?=\S)|```[ \t]*$")
Choice = Literal["one", "primary", "many"]
"""How many codes an answer may give; as in a rubric."""


def _text(most: int, description: str) -> Any:
    """Return a text type: the schema says ``most`` characters, a little more is no error."""
    shown: Any = {"maxLength": most}
    field = Field(max_length=20_000, description=description, json_schema_extra=shown)
    return Annotated[str, field]


_CONFIG = ConfigDict(hide_input_in_errors=True, json_schema_extra={"additionalProperties": False})


class AnswerQuote(BaseModel):
    """A passage of the run."""

    model_config = _CONFIG
    source: _text(120, "id in the part's header")  # type: ignore[valid-type]
    text: _text(600, "copied word for word")  # type: ignore[valid-type]


class Answer(BaseModel):
    """The codes that apply to the run, with their evidence."""

    model_config = _CONFIG

    def verdict(self) -> Verdict:
        """Return the answer as a verdict; nothing is checked here."""
        given = cast(Any, self)
        claims = tuple(
            Claim(
                finding.code,
                finding.rationale,
                tuple(Quote(quote.text, quote.source) for quote in finding.quotes),
            )
            for finding in given.findings
        )
        primary = given.label if any(claim.code == given.label for claim in claims) else None
        return Verdict(claims, primary)


class Wrong(Exception):
    """An answer that is not accepted; the message is for the model to answer again.

    ``verdict``: what it says, where it has the right form and only its quotes do not stand.
    """

    def __init__(self, reason: str, verdict: Verdict | None = None) -> None:
        super().__init__(reason)
        self.verdict = verdict


def read_answer(text: str, trace: Trace, rubric: Rubric) -> Verdict:
    """Return the verdict in a JSON text, if its form is right and its quotes stand in the trace.

    The claims have the places of their quotes: they are looked for here, and nowhere again.

    Raises:
        Wrong: everything that is wrong with it.
    """
    try:
        answer = answer_model(rubric).model_validate_json(text)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False)
        shown = "; ".join(_describe(problem) for problem in errors[:5])
        raise Wrong(f"{shown}; and more" if len(errors) > 5 else shown) from error
    wrong = _contradictions(answer, rubric)
    if wrong:
        raise Wrong("; ".join(wrong))
    verdict, claims = answer.verdict(), []
    for claim in verdict.claims:
        evidence, reasons = verify(claim, trace, rubric, hints=True)
        claims.append(claim if reasons else replace(claim, evidence=tuple(evidence)))
        wrong += reasons
    verdict = replace(verdict, claims=tuple(claims))
    if wrong:
        raise Wrong("; ".join(wrong), verdict)
    return verdict


def _describe(error: Any) -> str:
    where = ".".join(map(str, error["loc"]))
    reason = one_line(str(error["msg"]), 600)
    return f"{where}: {reason}" if where else reason


def _contradictions(answer: Answer, rubric: Rubric) -> list[str]:
    given = cast(Any, answer)
    codes = [finding.code for finding in given.findings]
    wrong = [f"{code} is given twice" for code in sorted(set(codes)) if codes.count(code) > 1]
    if codes and given.label == NONE:
        wrong.append(f'label is "{NONE}" but findings are given: {", ".join(codes)}')
    elif not codes and given.label != NONE:
        wrong.append(f'label is "{given.label}" but there is no finding')
    elif codes and rubric.choice != "many" and given.label not in codes:
        wrong.append(f'label "{given.label}" is not the code of any finding')
    return wrong


@lru_cache(maxsize=16)
def answer_model(rubric: Rubric) -> type[Answer]:
    """Return the model of an answer by ``rubric``: its codes as an enum, and an explicit "none".

    One class per rubric, because building one takes longer than reading an answer.
    """
    return _model(tuple(code.id for code in rubric.codes), rubric.choice)


def _model(codes: tuple[str, ...], choice: Choice) -> type[Answer]:
    code_type: Any = Literal[codes]
    finding = create_model(
        "Finding",
        __config__=_CONFIG,
        code=(code_type, ...),
        quotes=(Annotated[list[AnswerQuote], Field(min_length=1, max_length=MOST_QUOTES)], ...),
        rationale=(_text(800, "what the quotes show"), ...),
    )
    most = 1 if choice == "one" else len(codes)
    findings: Any = Annotated[list[finding], Field(max_length=most)]  # type: ignore[valid-type]
    labels = ("some", NONE) if choice == "many" else (*codes, NONE)
    label_type: Any = Literal[labels]
    return create_model(
        "Annotation",
        __base__=Answer,
        __doc__=Answer.__doc__,
        findings=(findings, ...),
        label=(label_type, ...),
    )


@lru_cache(maxsize=16)
def answer_schema(rubric: Rubric) -> str:
    """Return the JSON schema of :func:`answer_model` as one text."""
    return json.dumps(answer_model(rubric).model_json_schema(), sort_keys=True)


def schema_outlines() -> list[dict[str, Any]]:
    """Return the JSON schemas of answers with one code, for each kind of rubric: all that a schema
    says besides the codes.
    """
    choices: tuple[Choice, ...] = get_args(Choice)
    return [_model(("code",), choice).model_json_schema() for choice in choices]


def answer_text(reply: Reply, mode: Mode) -> str | None:
    """Return the JSON text of the one answer in a reply, or None if there is not exactly one."""
    if mode in ("tools", "named"):
        return reply.calls[0][2] if len(reply.calls) == 1 else None
    return _only_answer(reply.text)


def _find_fenced(text: str) -> list[str]:
    """Return what stands between fences: from one that begins a line to one that ends a line."""
    blocks = []
    start: int | None = None
    for fence in _FENCE.finditer(text):
        begins = fence.start() == 0 or text[fence.start() - 1] == "\n"
        ends = fence.end() == len(text) or text[fence.end()] == "\n"
        if start is None:
            start = fence.end() if begins else None
        elif ends:
            blocks.append(text[start : fence.start()].strip("\n"))
            start = None
    return blocks


def _only_answer(text: str) -> str | None:
    """Return the answer in a text that is nothing but it, or holds it in its only code block.

    Nothing else will do: a model that refuses and quotes the trace, or says what it would else have
    answered, gives a JSON that is not its answer.
    """
    text = _END.sub("", text)
    if _is_object(text):
        return text
    text = _without_thought(text)
    blocks = _find_fenced(text)
    answer = blocks[0] if len(blocks) == 1 else text
    return answer if _is_object(answer) else None


def _without_thought(text: str) -> str:
    """Return what follows a thought that stands first; a server may have eaten its beginning."""
    thought, end, rest = text.partition(_END_OF_THOUGHT)
    first = thought.lstrip().startswith(_THINK) or _THINK not in thought
    return rest if end and first else text


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
