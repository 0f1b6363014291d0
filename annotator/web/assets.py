"""The files of the pages: templates, scripts and the style sheet."""

from functools import cache
from pathlib import Path
from typing import Any

STATIC = Path(__file__).parent / "static"
_TEMPLATES = Path(__file__).parent / "templates"
SCRIPTS = ("base.js", "trace.js")  # of every page, in order
LIST_SCRIPTS = (*SCRIPTS, "tables.js", "compare.js", "findings.js", "list.js", "view.js")  # of runs


@cache
def read_asset(name: str) -> str:
    """Return a script or the style sheet."""
    return (STATIC / name).read_text(encoding="utf-8")


def render(name: str, **values: Any) -> str:
    """Return a page; every value is escaped unless the template marks it as safe."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    return environment.get_template(name).render({"policy": "", "style": "", "data": ""} | values)
