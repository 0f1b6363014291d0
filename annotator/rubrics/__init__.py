"""Rubrics: taxonomies of codes, in YAML files of ours (/rubrics) and of users."""

from annotator.rubrics.loading import list_built_in, load_recorded, load_rubric, read_definitions
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
    name_group,
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
    "group_codes",
    "list_built_in",
    "load_recorded",
    "load_rubric",
    "name_group",
    "read_definitions",
]
