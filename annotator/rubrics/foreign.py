"""Taxonomies of other tools as rubrics: AdaMAST's JSON and mast-lint's YAML.

Read are AdaMAST's taxonomies (``codes`` with ``description``, ``category``, ``when_to_use``,
``when_not_to_use``, ``examples``) and mast-lint 0.1 (``failure_modes`` with
``operational_definition``, ``signals``, ``near_miss``).
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from annotator.base.errors import RubricError
from annotator.base.text import replace_surrogates
from annotator.base.yaml import read_yaml
from annotator.traces.records import get_text

_INSTRUCTIONS = (
    "TASK\nReport every code that the run really shows, by its definition: any number, often none."
    " Precision comes first.\n\n"
    "EVIDENCE\nAt least one quote for each code, of the place where it happens: a contiguous piece"
    " of one source, copied character by character, with no ellipsis, no paraphrase, no joining of"
    " two places.\n\n"
    "NONE\nAnswer none if no code meets its definition in full.\n"
)


def read_foreign(file: Path) -> dict[str, Any]:
    """Return the taxonomy in a file as the fields of a rubric.

    Raises:
        RubricError: it cannot be read, or is no taxonomy of these tools.
    """
    value, _ = read_yaml(file)  # JSON is YAML, too
    fields = value if isinstance(value, dict) else {}
    for key, read in (("codes", _read_adamast), ("failure_modes", _read_mast_lint)):
        items = fields.get(key)
        if isinstance(items, list) and items and all(isinstance(item, dict) for item in items):
            categories = _read_categories(fields.get("categories"))
            codes = [read(item, categories) for item in items]
            break
    else:
        raise RubricError(
            f"{file}: no taxonomy that is known: expected AdaMAST's codes or mast-lint's"
            " failure_modes"
        )
    source = fields.get("source")
    titled = source.get("title") if isinstance(source, dict) else source
    file = Path(replace_surrogates(str(file)))
    title = fields.get("display_name") or fields.get("taxonomy") or fields.get("taxonomy_id")
    return {
        "id": make_rubric_id(file),
        "version": 1,
        "title": get_text(title) or file.stem,
        "source": f"{get_text(titled) or get_text(title) or file.stem}; imported from {file.name}",
        "choice": "many",
        "min_quotes": 1,
        "quote_from": ["messages", "tools", "patches", "outcome"],
        "instructions": _introduce(fields) + _INSTRUCTIONS,
        "codes": codes,
        "precedence": [],
    }


def make_rubric_id(file: Path) -> str:
    """Return the id for a rubric from a file's name."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", file.stem).strip("_.-")[:64] or "mine"


def _introduce(fields: Mapping[str, Any]) -> str:
    texts = [get_text(fields.get(key)) for key in ("domain", "summary")]
    purpose = ". ".join(text.rstrip(".") for text in texts if text)
    return f"WHAT THIS IS FOR\n{purpose}.\n\n" if purpose else ""


def _read_categories(value: Any) -> dict[str, str]:
    """Return the names of categories by their ids."""
    items = value if isinstance(value, list) else []
    pairs = ((item.get("id"), item.get("name")) for item in items if isinstance(item, dict))
    return {str(key): get_text(name) or str(key) for key, name in pairs}


def _list_texts(value: Any) -> list[str]:
    items = value if isinstance(value, list) else [value]
    return [text for item in items if (text := get_text(item))]


def _read_adamast(item: Mapping[str, Any], categories: Mapping[str, str]) -> dict[str, Any]:
    use = get_text(item.get("when_to_use"))
    role = get_text(item.get("applies_to_role"))
    evidence = [use or "A passage that shows it."]
    evidence += [f"For example: {case}" for case in _list_texts(item.get("examples"))]
    about = f" It concerns the role {role}." if role else ""
    return _make_code(
        item,
        definition=(get_text(item.get("description")) or "") + about,
        evidence=" ".join(evidence),
        near=get_text(item.get("when_not_to_use")),
        group=categories.get(str(item.get("category")), get_text(item.get("category"))),
    )


def _read_mast_lint(item: Mapping[str, Any], categories: Mapping[str, str]) -> dict[str, Any]:
    example = get_text(item.get("positive_example"))
    sentences = [f"{signal.rstrip('.')}." for signal in _list_texts(item.get("signals"))]
    sentences += [f"For example: {example}"] if example else []
    return _make_code(
        item,
        definition=get_text(item.get("operational_definition")) or "",
        evidence=" ".join(sentences) or "A passage that shows it.",
        near=get_text(item.get("near_miss")),
        group=categories.get(str(item.get("category")), get_text(item.get("category"))),
    )


def _make_code(
    item: Mapping[str, Any], definition: str, evidence: str, near: str | None, group: str | None
) -> dict[str, Any]:
    code = {
        "id": get_text(item.get("id")) or "",
        "name": get_text(item.get("name")) or get_text(item.get("id")) or "",
        "group": group,
        "definition": " ".join(definition.split()),
        "evidence": " ".join(evidence.split()),
        "not": " ".join(near.split()) if near else None,
    }
    return {key: value for key, value in code.items() if value is not None}
