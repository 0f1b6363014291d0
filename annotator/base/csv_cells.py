"""Cells of a CSV that no spreadsheet takes for a formula."""


def escape_formula(cell: object) -> object:
    """Return a cell of a CSV that no spreadsheet takes for a formula: text only is changed.

    :func:`unguard` gives it back.
    """
    risky = isinstance(cell, str) and cell.lstrip("'")[:1] in tuple("=+-@\t\r\n\0")
    return f"'{cell}" if risky else cell


def unescape_formula(cell: str) -> str:
    """Return a cell without the apostrophe that :func:`harmless` has set before it."""
    return cell[1:] if cell[:1] == "'" and escape_formula(cell[1:]) == cell else cell
