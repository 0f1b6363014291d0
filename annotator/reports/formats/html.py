"""Tables as one page that needs no other file."""

from collections.abc import Sequence
from html import escape

from annotator.reports.table import Table

_STYLE = (
    "body{font:15px/1.45 system-ui,sans-serif;margin:2em;max-width:75em}table{border-collapse:"
    "collapse}td,th{padding:.2em .8em;border-bottom:1px solid #8886}"
)


def render(tables: Sequence[Table]) -> str:
    """Return the tables as a page; texts of traces are escaped."""
    title = escape(tables[0].title if tables else "annotate")
    body = "\n".join(table._repr_html_() for table in tables)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{title}</title><style>{_STYLE}</style></head>\n<body>\n{body}\n</body></html>"
    )
