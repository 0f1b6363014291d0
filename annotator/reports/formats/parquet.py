"""The records of tables as a Parquet file: typed columns, numbers in full precision."""

from collections.abc import Sequence
from pathlib import Path

from annotator.base.errors import AnnotatorError
from annotator.base.files import NewFile
from annotator.base.text import replace_surrogates
from annotator.reports.table import Table

# The type of Arrow for each of a schema.
_TYPES = {str: "string", int: "int64", float: "float64", bool: "bool"}


def write(tables: Sequence[Table], path: Path) -> None:
    """Write the records of tables of one kind as one file; an undefined value is null."""
    import pyarrow
    import pyarrow.parquet

    types = tables[0].schema.items()
    schema = pyarrow.schema([(key, pyarrow.type_for_alias(_TYPES[kind])) for key, kind in types])
    rows = [
        {
            key: replace_surrogates(cell) if isinstance(cell, str) else cell
            for key, cell in record.items()
        }
        for table in tables
        for record in table.records
    ]
    try:
        with NewFile(path) as out:
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema=schema), out)
    except pyarrow.ArrowException as error:
        raise AnnotatorError(f"cannot write {path}: {error}") from error
