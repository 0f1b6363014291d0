"""The schema of an answer, built from a rubric, and the checks of an answer.

Every text and list has a maximum length: without one, a small model under a grammar writes to the
end of its context.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic_core import from_json

from annotator.base.text import escape_header, sanitize_line
from annotator.judges.base import ResponseFormat
from annotator.judges.llm.response import ModelResponse
from annotator.prompts.render import AnswerKind, Prompt
from annotator.rubrics import NONE, Rubric
from annotator.rubrics.annotations import DECISIONS, Claim, Quote, Verdict
from annotator.rubrics.changes import FIELDS, MOST_QUOTES
from annotator.rubrics.evidence import is_given_twice, parse_source_id, verify
from annotator.traces import Trace

MAX_QUOTES = 8
MAX_REPEATS = 12  # findings, if a code may have several
_THINK, _END_OF_THOUGHT = "<think>", "</think>"
# What some servers leave at the end of a text: tokens that ended it.
_ENDS = (
    *("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|endoftext|>", "<|end_of_text|>", "<|end|>"),
    *("<|return|>", "</s>", "<eos>", "<end_of_turn>"),
)
_FENCE = re.compile(r"(?im)^```(?:json)?[ \t\r]*$|^```(?:json)?[ \t]*(?=\S)|```[ \t\r]*$")
RUBRIC = "rubric"
"""The code of a proposal that stands for the rubric as a whole."""
Choice = Literal["one", "primary", "many"]
"""How many codes an answer may give; as in a rubric."""


def _build_text_type(max_length: int, description: str, **more: str) -> Any:
    """Return a text type; the schema demands ``max_length``, the check is more lenient."""
    schema: Any = {"maxLength": max_length, **more}
    field = Field(max_length=20_000, description=description, json_schema_extra=schema)
    return Annotated[str, field]


_CONFIG = ConfigDict(hide_input_in_errors=True, json_schema_extra={"additionalProperties": False})


_SOURCES = {
    "messages": "message:[0-9]+",
    "patches": "patch:.+",
    "outcome": "outcome",
    "steps": "step:.+",
    "tools": "(message:[0-9]+|step:.+)",
}


_TAGS = ("first_tag", "last_tag")
_RATINGS = ("no", "unclear", "yes")


class ParsedAnswer(BaseModel):
    """The codes that apply to the run, with their evidence."""

    model_config = _CONFIG


class InvalidAnswer(Exception):
    """An answer is rejected; the ``reasons`` are sent back to the model.

    ``verdict``: its verdict, if only quotes are wrong, or if it contradicts itself beside verified
    findings. ``unread``: it lacks a tag of the prompt (None: not known).
    """

    def __init__(
        self, reasons: Sequence[str], verdict: Verdict | None = None, unread: bool | None = None
    ) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = tuple(reasons)
        self.verdict = verdict
        self.unread = unread


def read_answer(text: str, trace: Trace, prompt: Prompt) -> Verdict:
    """Return the verdict in a JSON text, with its form, tags and quotes checked.

    The claims get the positions of their quotes.

    Raises:
        InvalidAnswer: all errors of the answer.
    """
    rubric = prompt.rubric
    model = build_answer_model(rubric, prompt.layout.considered)
    try:
        answer, wrong = model.model_validate_json(text).model_dump(), []
        findings = answer["findings"]
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False)
        answer, findings = _keep_valid(text, [problem["loc"] for problem in errors], model)
        wrong = [*map(_describe, errors[:5]), *(["and more"] if len(errors) > 5 else [])]
    formed, missed = not wrong, _find_missing_tags(answer, prompt)
    read = not missed and answer.keys() >= {"first_tag", "last_tag"}
    wrong += [*missed, *_find_false_labels(answer, rubric)]
    claims: list[Claim] = []
    consistent = not wrong
    contradictions = _find_contradictions(answer, rubric)
    wrong += contradictions
    for claim in map(_build_claim, findings):
        claim = replace(claim, quotes=tuple(_name_sources(claim.quotes, trace, rubric)))
        evidence, reasons = verify(claim, trace, rubric, hints=True)
        earlier = [other.evidence for other in claims if other.code == claim.code]
        code = rubric.code(claim.code)
        if code.repeats and not reasons and is_given_twice(code, evidence, earlier):
            reasons = [f"{claim.code} is given twice with the same quotes"]
        claims.append(claim if reasons else replace(claim, evidence=tuple(evidence)))
        wrong += reasons
    primary = next((claim.code for claim in claims if claim.code == answer.get("label")), None)
    verdict = Verdict(tuple(claims), primary, contradictions=tuple(contradictions))
    if wrong:
        # A contradiction without any finding that stands is no "none".
        usable = consistent and (not contradictions or any(claim.evidence for claim in claims))
        raise InvalidAnswer(
            wrong, verdict if usable else None, not read if formed or read else None
        )
    return verdict


def _keep_valid(
    text: str, wrong: Sequence[tuple[int | str, ...]], model: type[ParsedAnswer]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the valid fields of a malformed answer, and its valid findings."""
    if () in wrong:  # it is no object
        return {}, []
    fields = model.model_fields.keys() - {path[0] for path in wrong}
    answer = from_json(text)
    bad = {path[1] for path in wrong if path[0] == "findings" and len(path) > 1}
    listed = [] if ("findings",) in wrong else answer["findings"]  # else no list, or too long a one
    findings = [item for n, item in enumerate(listed) if n not in bad]
    return {name: answer[name] for name in fields}, findings


def _build_claim(finding: Mapping[str, Any]) -> Claim:
    quotes = (Quote(quote["text"], quote["source"]) for quote in finding["quotes"])
    return Claim(finding["code"], finding["rationale"], tuple(quotes))


def _name_sources(quotes: Sequence[Quote], trace: Trace, rubric: Rubric) -> Iterator[Quote]:
    """Yield the quotes with the ids of their sources; headers escape some ids."""
    for quote in quotes:
        if not set("%~") & set(quote.source):
            yield quote  # no header spells an id without them in another way
            continue
        ids = {escape_header(source.id): source.id for source in trace.sources(rubric.quote_from)}
        source_id = quote.source.strip()
        yield replace(
            quote, source=ids.get(source_id) or ids.get(parse_source_id(source_id), source_id)
        )


def _find_missing_tags(answer: Mapping[str, Any], prompt: Prompt) -> list[str]:
    """Return an error for each tag of the prompt that the answer lacks."""
    tags = {"first_tag": prompt.first_tag, "last_tag": prompt.last_tag}
    wrong = []
    for name, tag in tags.items():
        if tag not in answer.get(name, tag).lower():
            where = "first line of the instructions" if name == "first_tag" else "last line"
            value = sanitize_line(answer[name], 40)
            wrong.append(f'{name} is "{value}", which is not the tag in the {where}')
    return wrong


def _describe(error: Any) -> str:
    where = ".".join(map(str, error["loc"]))
    reason = sanitize_line(str(error["msg"]), 600)
    return f"{where}: {reason}" if where else reason


def _find_false_labels(answer: Mapping[str, Any], rubric: Rubric) -> list[str]:
    """Return the errors between the label and the findings; none if a finding is malformed."""
    if "findings" not in answer:
        return []
    codes = [finding["code"] for finding in answer["findings"]]
    wrong = [
        f"{code} is given twice"
        for code in sorted(set(codes))
        if codes.count(code) > 1 and not rubric.code(code).repeats
    ]
    label = answer.get("label")
    if codes and label == NONE:
        wrong.append(f'label is "{NONE}" but findings are given: {", ".join(codes)}')
    elif not codes and label not in (NONE, None):
        wrong.append(f'label is "{label}" but there is no finding')
    elif codes and rubric.choice != "many" and label not in (*codes, None):
        wrong.append(f'label "{label}" is not the code of any finding')
    return wrong


def _find_contradictions(answer: Mapping[str, Any], rubric: Rubric) -> list[str]:
    """Return how ``considered`` contradicts the findings; nothing if a finding is malformed."""
    if "findings" not in answer:
        return []
    codes = [finding["code"] for finding in answer["findings"]]
    ratings: dict[str, str] = {}
    for item in answer.get("considered", ()):  # perhaps one for each passage that speaks for a code
        ratings[item["code"]] = max(
            ratings.get(item["code"], "no"), item["met"], key=_RATINGS.index
        )
    return [
        *_find_denied(codes, {item for item in ratings if ratings[item] == "no"}, rubric),
        *_find_left_out(codes, [item for item in ratings if ratings[item] == "yes"], rubric),
    ]


def _find_denied(codes: Sequence[str], not_met: set[str], rubric: Rubric) -> Iterator[str]:
    """Yield an error for each finding whose code is considered not met. If the code repeats, that
    may be about something else in the run.
    """
    for code in codes:
        if not rubric.code(code).repeats and not_met & {code, rubric.code(code).group}:
            yield f'{code} is a finding, and "considered" says that it is not met'


def _find_left_out(codes: Sequence[str], yes_items: Sequence[str], rubric: Rubric) -> Iterator[str]:
    """Yield an error for each code or group considered met without a finding."""
    # If the rubric allows one code, a met code may be missing unless its precedence is higher.
    codes_and_groups = {*codes, *(rubric.code(code).group for code in codes)}
    for item in yes_items:
        single = bool(codes) and rubric.choice == "one"
        if item not in codes_and_groups and (not single or _precedes(item, codes[0], rubric)):
            more = f", and it goes before {codes[0]}" if single else ""
            yield f'"considered" says that {item} is met, but there is no finding of it{more}'


def _precedes(item: str, other: str, rubric: Rubric) -> bool:
    """Whether a code, or every code of a group, precedes another in the rubric's precedence."""
    codes = [code.id for code in rubric.codes if item in (code.id, code.group)]
    return bool(rubric.precedence) and all(rubric.rank(code) < rubric.rank(other) for code in codes)


@lru_cache(maxsize=16)
def build_answer_model(rubric: Rubric, considered: AnswerKind = "codes") -> type[ParsedAnswer]:
    """Return the pydantic model of an answer: the rubric's codes as an enum, and "none".

    It is cached, because it takes longer to build than to use.
    """
    codes = tuple(code.id for code in rubric.codes)
    if considered == "proposal":
        return _build_proposal_model(codes)
    if considered == "critique":
        return _build_critique_model(codes)
    if considered in ("grouping", "codes of findings", "assignment"):
        return _build_coding_model(considered, codes)
    groups = tuple(dict.fromkeys(code.group or code.id for code in rubric.codes))
    thought = {"codes": codes, "groups": groups, "none": ()}[considered]
    sources = "|".join(dict.fromkeys(_SOURCES[origin] for origin in rubric.quote_from))
    min_quotes = min(rubric.quotes_needed(code) for code in codes)
    findings = 1 if rubric.choice == "one" else MAX_REPEATS if rubric.repeats else len(codes)
    return _build_model(codes, rubric.choice, thought, f"^({sources})$", min_quotes, findings)


def _build_model(
    codes: tuple[str, ...],
    choice: Choice,
    thought: tuple[str, ...],
    sources: str,
    min_quotes: int,
    max_findings: int,
) -> type[ParsedAnswer]:
    """Return the model of an answer; quotes are checked later, where the model can correct them."""
    quote = _create_model(
        "Quote",
        source=_build_text_type(120, "id in the part's header", pattern=sources),
        text=_build_text_type(600, "copied word for word"),
    )
    bounds: Any = {"minItems": min_quotes}
    quotes: Any = Field(min_length=1, max_length=MAX_QUOTES, json_schema_extra=bounds)
    finding = _create_model(
        "Finding",
        rationale=_build_text_type(800, "what the quotes show"),
        quotes=Annotated[list[quote], quotes],  # type: ignore[valid-type]
        code=Literal[codes],
    )
    labels = ("some", NONE) if choice == "many" else (*codes, NONE)
    answer: dict[str, Any] = {}
    if thought:
        item = _create_model(
            "Considered",
            code=Literal[thought],
            met=Literal["yes", "no", "unclear"],
            because=_build_text_type(200, "one short line"),
        )
        answer["considered"] = Annotated[list[item], Field(max_length=2 * len(thought))]  # type: ignore[valid-type]
    answer["findings"] = Annotated[list[finding], Field(max_length=max_findings)]  # type: ignore[valid-type]
    answer["label"] = Literal[labels]
    return _create_answer("Annotation", ParsedAnswer.__doc__ or "", answer)


def _create_answer(name: str, doc: str, kinds: Mapping[str, Any]) -> type[ParsedAnswer]:
    """Return the model of an answer: the tags of its prompt, and these fields."""
    tags = {  # They begin differently: without that, small models give one of them twice.
        "first_tag": _build_text_type(
            40, "the tag in the first line of the instructions", pattern="^first-[0-9]{6}$"
        ),
        "last_tag": _build_text_type(
            40, "the tag in the last line of the message", pattern="^last-[0-9]{6}$"
        ),
    }
    fields: Any = {field: (kind, ...) for field, kind in {**tags, **kinds}.items()}
    return create_model(name, __base__=ParsedAnswer, __doc__=doc, **fields)


def _build_proposal_model(codes: tuple[str, ...]) -> type[ParsedAnswer]:
    """Return the model of an answer that proposes changes of a rubric."""
    clause: Any = {"code": Literal[(*codes, RUBRIC)], "field": Literal[FIELDS]}
    because = _build_text_type(200, "one short line")
    turn = _create_model("Turn", difference=int, **clause, because=because)
    quote = _build_text_type(600, "a quote")
    quotes = Annotated[list[quote], Field(max_length=MOST_QUOTES)]  # type: ignore[valid-type]
    candidate = _create_model(
        "Candidate",
        differences=Annotated[list[int], Field(max_length=100)],
        **clause,
        text=_build_text_type(4_000, "the new text, or why"),
        quotes=quotes,
        summary=_build_text_type(120, "the change in at most ten words"),
    )
    answer = {
        "turns": Annotated[list[turn], Field(max_length=100)],  # type: ignore[valid-type]
        "candidates": Annotated[list[candidate], Field(max_length=20)],  # type: ignore[valid-type]
    }
    doc = "The changes of the rubric that would settle differences."
    return _create_answer("Proposal", doc, answer)


def _build_coding_model(considered: AnswerKind, codes: tuple[str, ...]) -> type[ParsedAnswer]:
    """Return the model of an answer about findings: a code for each, or the codes themselves."""
    texts: dict[str, Any] = {
        "id": _build_text_type(40, "lower_snake_case"),
        "name": _build_text_type(80, "three to eight words"),
        "definition": _build_text_type(600, "one or two sentences"),
    }
    answer: dict[str, Any] = {}
    if considered == "grouping":
        new = _create_model("NewCode", **texts)
        answer["new_codes"] = Annotated[list[new], Field(max_length=80)]  # type: ignore[valid-type]
    if considered == "codes of findings":
        quote = _build_text_type(300, "an invented quote")
        quotes: Any = Annotated[list[quote], Field(max_length=4)]  # type: ignore[valid-type]
        texts |= {
            "group": _build_text_type(60, "two to six words, the same in all codes of the group"),
            "evidence": _build_text_type(400, "what the quotes must show"),
            "near_misses": _build_text_type(600, "what is another code, or none, and why"),
            "quotes": quotes,
            "why": _build_text_type(300, "why the invented quotes show the code"),
            "merged": Annotated[list[str], Field(max_length=100)],
        }
        code = _create_model("FinalCode", **texts)
        dropped = _create_model("Dropped", id=str, because=_build_text_type(200, "one short line"))
        answer["codes"] = Annotated[list[code], Field(min_length=1, max_length=40)]  # type: ignore[valid-type]
        answer["dropped"] = Annotated[list[dropped], Field(max_length=100)]  # type: ignore[valid-type]
    else:
        options: Any = str if considered == "grouping" else Literal[(*codes, NONE)]
        item = _create_model("Assignment", finding=int, code=options)
        answer["assignments"] = Annotated[list[item], Field(max_length=1000)]  # type: ignore[valid-type]
    return _create_answer("Coding", "The codes of findings.", answer)


def read_form(text: str, prompt: Prompt) -> dict[str, Any]:
    """Return the fields of an answer that is no judgement, with its form and tags checked.

    Raises:
        InvalidAnswer: all errors of the answer.
    """
    try:
        model = build_answer_model(prompt.rubric, prompt.layout.considered)
        answer = model.model_validate_json(text).model_dump()
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False)
        raise InvalidAnswer([*map(_describe, errors[:5])]) from error
    if missed := _find_missing_tags(answer, prompt):
        raise InvalidAnswer(missed, unread=True)
    return answer


def _build_critique_model(codes: tuple[str, ...]) -> type[ParsedAnswer]:
    """Return the model of a critic's answer."""
    answer = {
        "reason": _build_text_type(400, "what the quotes show, or do not show"),
        "decision": Literal[DECISIONS],
        "code": Literal[(*codes, NONE)],
    }
    return _create_answer("Critique", "Whether the run shows the code.", answer)


def _create_model(name: str, /, **kinds: Any) -> type[BaseModel]:
    fields: Any = {field: (kind, ...) for field, kind in kinds.items()}
    return create_model(name, __config__=_CONFIG, **fields)


@lru_cache(maxsize=16)
def build_answer_schema(rubric: Rubric, considered: AnswerKind = "codes") -> str:
    """Return the JSON schema of :func:`build_answer_model` as one text."""
    return json.dumps(build_answer_model(rubric, considered).model_json_schema(), sort_keys=True)


def list_schema_outlines(kind: AnswerKind = "codes") -> list[dict[str, Any]]:
    """Return the answer schemas of all kinds of rubric, with one code each; or a critic's."""
    if kind == "critique":
        return [_build_critique_model(("code",)).model_json_schema()]
    choices: tuple[Choice, ...] = get_args(Choice)
    return [
        _build_model(("code",), choice, ("code",), "", 1, 1).model_json_schema()
        for choice in choices
    ] + [_SOURCES]


def extract_answer(response: ModelResponse, response_format: ResponseFormat) -> str | None:
    """Return the JSON text of the only answer in a response, or None."""
    if response_format in ("tools", "named"):
        return response.calls[0][2] if len(response.calls) == 1 else None
    return _find_only_answer(response.text)


def _find_fenced(text: str) -> list[str]:
    """Return the texts between code fences."""
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


def _find_only_answer(text: str) -> str | None:
    """Return the JSON object that is the whole text, its only code block, or the only one in it
    if that has the tags of the prompt: without them it may be a quote of the trace. Else None.
    """
    text = _strip_end_tokens(text)
    if _is_object(text):
        return text
    text = _strip_thought(text)
    blocks = _find_fenced(text)
    answer = blocks[0] if len(blocks) == 1 else text
    if _is_object(answer):
        return answer
    only = text[max(text.find("{"), 0) : text.rfind("}") + 1]
    return only if _THINK not in text and _is_object(only, *_TAGS) else None


def _strip_end_tokens(text: str) -> str:
    """Return a text without end tokens of the model; takes linear time."""
    kept = end = len(text)
    while True:
        while end and text[end - 1].isspace():
            end -= 1
        token = next((token for token in _ENDS if text.endswith(token, 0, end)), "")
        if not token:
            return text[:kept]
        kept = end = end - len(token)


def _strip_thought(text: str) -> str:
    """Return the text after a leading thought; a server may have cut its beginning."""
    thought, end, rest = text.partition(_END_OF_THOUGHT)
    first = thought.lstrip().startswith(_THINK) or _THINK not in thought
    return rest if end and first else text


def _is_object(text: str, *keys: str) -> bool:
    try:
        value = json.loads(text)
        return isinstance(value, dict) and all(key in value for key in keys)
    except (ValueError, RecursionError):
        return False
