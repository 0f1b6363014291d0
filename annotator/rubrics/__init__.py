"""Rubrics: the taxonomies a judge labels with. The files are YAML, in /rubrics and users' own."""

from annotator.rubrics.loading import definitions_of, list_built_in, load_rubric
from annotator.rubrics.model import (
    NONE,
    Choice,
    Code,
    Example,
    HasCodes,
    Rubric,
    Scheme,
    SchemeCode,
    group_codes,
    group_label,
)

__all__ = [
    "NONE",
    "Choice",
    "Code",
    "Example",
    "HasCodes",
    "Rubric",
    "Scheme",
    "SchemeCode",
    "definitions_of",
    "group_codes",
    "group_label",
    "list_built_in",
    "load_rubric",
]
