"""Tables as JSON, with all that is needed to compute each number again."""

from collections.abc import Mapping, Sequence

from annotator.base.text import dump_json
from annotator.reports.table import Table


def render(tables: Sequence[Table]) -> str:
    """Return the documents of the tables as a list, or the one that holds all of the report."""
    if tables and not tables[0].header and tables[0].document is not None:
        return dump_json(tables[0].document, 2)
    return dump_json([_make_document(table) for table in tables if table.header], 2)


def _make_document(table: Table) -> Mapping[str, object]:
    if table.document is not None:
        return table.document
    if table.records:
        return {"title": table.title, "rows": table.records, "notes": table.notes}
    # As lists: two columns can have one name.
    cells = {"header": table.header, "rows": table.rows}
    return {"title": table.title, **cells, "notes": table.notes}
