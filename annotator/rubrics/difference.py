"""The differences of two versions of a rubric."""

import difflib
from collections.abc import Iterator

from annotator.rubrics.model import Rubric


def compare_rubrics(old: Rubric, new: Rubric) -> Iterator[str]:
    """Yield the differences, a line each: fields, codes, and texts sentence by sentence."""
    before, after = (rubric.model_dump(mode="json", by_alias=True) for rubric in (old, new))
    for field in before:
        if field != "codes" and before[field] != after[field]:
            yield from _describe(field, before[field], after[field])
    codes = [{code["id"]: code for code in each["codes"]} for each in (before, after)]
    for code_id in codes[0]:
        if code_id not in codes[1]:
            yield f"- code {code_id}: {codes[0][code_id]['name']}"
    for code_id, code in codes[1].items():
        if code_id not in codes[0]:
            yield f"+ code {code_id}: {code['name']}"
            continue
        for field, value in code.items():
            if value != codes[0][code_id][field]:
                yield from _describe(f"{code_id}.{field}", codes[0][code_id][field], value)
    if (old.id, old.version) == (new.id, new.version) and before != after:
        yield f"both are {old.id} v{old.version}: raise the version where the meaning changed"


def _describe(field: str, old: object, new: object) -> Iterator[str]:
    if not (isinstance(old, str) and isinstance(new, str)):
        yield f"{field}: {_show(old)} -> {_show(new)}"
        return
    yield f"{field}:"
    lines = difflib.ndiff(_split_sentences(old), _split_sentences(new))
    yield from (f"  {line}" for line in lines if line[0] in "+-")


def _show(value: object) -> str:
    if isinstance(value, dict) and "quotes" in value:  # an example
        return f"{' / '.join(value['quotes'])} ({value['why']})"
    return ", ".join(map(_show, value)) or "none" if isinstance(value, list) else str(value)


def _split_sentences(text: str) -> list[str]:
    return [
        sentence.strip() for line in text.splitlines() for sentence in line.split(". ") if sentence
    ]
