"""The answer a model has to give, built from a rubric, and how it is read.

Every text and every list has a largest length: a small model under a grammar would else go on to
the end of its context.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Annotated, Any, Literal, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from annotator.annotations import Claim, Quote, Verdict
from annotator.evidence import source_id, verify
from annotator.judges.base import Mode
from annotator.judges.llm.reply import Reply
from annotator.prompts import Considered, Prompt
from annotator.rubrics import NONE, Rubric
from annotator.text import header_name, one_line
from annotator.traces import Trace

MOST_QUOTES = 8
_THINK, _END_OF_THOUGHT = "<think>", "</think>"
# What some servers leave at the end of a text: tokens that ended it.
_ENDS = (
    *("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|endoftext|>", "<|end_of_text|>", "<|end|>"),
    *("<|return|>", "</s>", "<eos>", "<end_of_turn>"),
)
_FENCE = re.compile(r"(?im)^```(?:json)?[ \t]*$|^```(?:json)?[ \t]*(?=\S)|```[ \t]*$")
Choice = Literal["one", "primary", "many"]
"""How many codes an answer may give; as in a rubric."""


def _text(most: int, description: str, **more: str) -> Any:
    """Return a text type: the schema says ``most`` characters, a little more is no error."""
    shown: Any = {"maxLength": most, **more}
    field = Field(max_length=20_000, description=description, json_schema_extra=shown)
    return Annotated[str, field]


_CONFIG = ConfigDict(hide_input_in_errors=True, json_schema_extra={"additionalProperties": False})


_SOURCES = {
    "messages": "message:[0-9]+",
    "patches": "patch:.+",
    "outcome": "outcome",
    "steps": "step:.+",
    "tools": "(message:[0-9]+|step:.+)",
}


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
    """An answer that is not accepted; the ``reasons`` are for the model to answer again.

    ``verdict``: what it says, where it has the right form and only its quotes do not stand.
    ``unread``: it does not repeat the tags of the prompt, of which the model saw a part, it seems.
    """

    def __init__(
        self, reasons: Sequence[str], verdict: Verdict | None = None, unread: bool = False
    ) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = tuple(reasons)
        self.verdict = verdict
        self.unread = unread


def read_answer(text: str, trace: Trace, prompt: Prompt) -> Verdict:
    """Return the verdict in a JSON text, if its form is right, if it repeats the tags of the
    prompt, and if its quotes stand in the trace.

    The claims have the places of their quotes: they are looked for here, and nowhere again.

    Raises:
        Wrong: everything that is wrong with it.
    """
    rubric = prompt.rubric
    try:
        answer = answer_model(rubric, prompt.layout.considered).model_validate_json(text)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False)
        shown = [_describe(problem) for problem in errors[:5]]
        raise Wrong([*shown, "and more"] if len(errors) > 5 else shown) from error
    unread = _missed_tags(answer, prompt)
    wrong = [*unread, *_contradictions(answer, rubric)]
    consistent = not wrong
    verdict, claims = answer.verdict(), []
    for claim in verdict.claims:
        claim = replace(claim, quotes=tuple(_name_sources(claim.quotes, trace, rubric)))
        evidence, reasons = verify(claim, trace, rubric, hints=True)
        claims.append(claim if reasons else replace(claim, evidence=tuple(evidence)))
        wrong += reasons
    verdict = replace(verdict, claims=tuple(claims))
    if wrong:
        raise Wrong(wrong, verdict if consistent else None, unread=bool(unread))
    return verdict


def _name_sources(quotes: Sequence[Quote], trace: Trace, rubric: Rubric) -> Iterator[Quote]:
    """Yield the quotes, each with the id of the source whose name the headers spell as it does."""
    for quote in quotes:
        if not set("%~") & set(quote.source):
            yield quote  # no header spells an id without them in another way
            continue
        ids = {header_name(source.id): source.id for source in trace.sources(rubric.quote_from)}
        given = quote.source.strip()
        yield replace(quote, source=ids.get(given) or ids.get(source_id(given), given))


def _missed_tags(answer: Answer, prompt: Prompt) -> list[str]:
    """Return which tags of the prompt an answer does not repeat."""
    tags = {"first_tag": prompt.first_tag, "last_tag": prompt.last_tag}
    wrong = []
    for name, tag in tags.items():
        if tag not in getattr(answer, name).lower():
            given = one_line(getattr(answer, name), 40)
            where = "first line of the instructions" if name == "first_tag" else "last line"
            wrong.append(f'{name} is "{given}", which is not the tag in the {where}')
    return wrong


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
    met = {item.code: item.met for item in getattr(given, "considered", ())}
    groups = {code.id: code.group for code in rubric.codes}
    denied = [code for code in codes if "no" in (met.get(code), met.get(groups[code]))]
    wrong += [f'{code} is a finding, and "considered" says that it is not met' for code in denied]
    if not codes:
        told = [code for code, answer in met.items() if answer == "yes"]
        wrong += [f'"considered" says that {code} is met, but there is no finding' for code in told]
    return wrong


@lru_cache(maxsize=16)
def answer_model(rubric: Rubric, considered: Considered = "codes") -> type[Answer]:
    """Return the model of an answer by ``rubric``: its codes as an enum, and an explicit "none".

    One class per rubric, because building one takes longer than reading an answer.
    """
    codes = tuple(code.id for code in rubric.codes)
    groups = tuple(dict.fromkeys(code.group or code.id for code in rubric.codes))
    thought = {"codes": codes, "groups": groups, "none": ()}[considered]
    sources = "|".join(dict.fromkeys(_SOURCES[origin] for origin in rubric.quote_from))
    least = min(rubric.quotes_needed(code) for code in codes)
    return _model(codes, rubric.choice, thought, f"^({sources})$", least)


def _model(
    codes: tuple[str, ...], choice: Choice, thought: tuple[str, ...], sources: str, least: int
) -> type[Answer]:
    """Return the model of an answer. What the schema says more than it checks (where a quote comes
    from, how many there are) is checked with the quotes, where a wrong one can be put right.
    """
    quote = _create(
        "Quote",
        source=_text(120, "id in the part's header", pattern=sources),
        text=_text(600, "copied word for word"),
    )
    bounds: Any = {"minItems": least}
    quotes: Any = Field(min_length=1, max_length=MOST_QUOTES, json_schema_extra=bounds)
    finding = _create(
        "Finding",
        rationale=_text(800, "what the quotes show"),
        quotes=Annotated[list[quote], quotes],  # type: ignore[valid-type]
        code=Literal[codes],
    )
    most = 1 if choice == "one" else len(codes)
    labels = ("some", NONE) if choice == "many" else (*codes, NONE)
    answer: dict[str, Any] = {
        # One is of letters and the other of digits: where a server holds to the patterns, a small
        # model cannot give one of them twice.
        "first_tag": _text(
            40, "the tag in the first line of the instructions", pattern="^first-[a-z]{6}$"
        ),
        "last_tag": _text(40, "the tag in the last line of the message", pattern="^last-[0-9]{6}$"),
    }
    if thought:
        item = _create(
            "Considered",
            code=Literal[thought],
            met=Literal["yes", "no", "unclear"],
            because=_text(200, "one short line"),
        )
        answer["considered"] = Annotated[list[item], Field(max_length=2 * len(thought))]  # type: ignore[valid-type]
    answer["findings"] = Annotated[list[finding], Field(max_length=most)]  # type: ignore[valid-type]
    answer["label"] = Literal[labels]
    fields: Any = {name: (kind, ...) for name, kind in answer.items()}
    return create_model("Annotation", __base__=Answer, __doc__=Answer.__doc__, **fields)


def _create(name: str, **kinds: Any) -> type[BaseModel]:
    fields: Any = {field: (kind, ...) for field, kind in kinds.items()}
    return create_model(name, __config__=_CONFIG, **fields)


@lru_cache(maxsize=16)
def answer_schema(rubric: Rubric, considered: Considered = "codes") -> str:
    """Return the JSON schema of :func:`answer_model` as one text."""
    return json.dumps(answer_model(rubric, considered).model_json_schema(), sort_keys=True)


def schema_outlines() -> list[dict[str, Any]]:
    """Return the JSON schemas of answers with one code, for each kind of rubric: all that a schema
    says besides the codes.
    """
    choices: tuple[Choice, ...] = get_args(Choice)
    return [
        _model(("code",), choice, ("code",), "", 1).model_json_schema() for choice in choices
    ] + [_SOURCES]


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
    text = _without_ends(text)
    if _is_object(text):
        return text
    text = _without_thought(text)
    blocks = _find_fenced(text)
    answer = blocks[0] if len(blocks) == 1 else text
    return answer if _is_object(answer) else None


def _without_ends(text: str) -> str:
    """Return a text without the tokens that ended it, looking once at each character."""
    kept = end = len(text)
    while True:
        while end and text[end - 1].isspace():
            end -= 1
        token = next((token for token in _ENDS if text.endswith(token, 0, end)), "")
        if not token:
            return text[:kept]
        kept = end = end - len(token)


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
