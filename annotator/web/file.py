"""The report as one HTML file that needs nothing else: no server, no network."""

import base64
import hashlib
import zlib
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, TextIO
from urllib.parse import quote

from annotator.base.text import replace_surrogates
from annotator.rubrics.annotations import get_attribute
from annotator.web.assets import SCRIPTS, read_asset, render
from annotator.web.index import Filter, IndexRow
from annotator.web.overview import serialize_runs, serialize_tables
from annotator.web.payload import dump
from annotator.web.reading import PageRequest, Reading

COMFORTABLE = 5_000  # annotations in one file; more open slowly
_ROWS = 500  # read at once


def write_report(out: TextIO, pages: PageRequest) -> tuple[int, int]:
    """Write the report of runs; return the number of annotations in it, and of traces whose texts
    could not be read.

    One trace is in memory at a time. The page unpacks a trace when a reader opens it.

    Raises:
        AnnotatorError: a run cannot be read.
        OSError: ``out`` cannot be written.
    """
    overview = serialize_runs(pages.runs) | serialize_tables(pages)
    overview |= {"ready": True, "problem": None, "labelled": bool(pages.labels)}
    reading = Reading(pages)
    try:
        reading.index.wait()
        head, tail = _render_shell(overview["title"])
        out.write(head)
        out.write(_render_data("overview", overview))
        counts = _write_traces(out, reading)
        out.write(tail)
    finally:
        reading.close()
    return counts


def _render_shell(title: str) -> tuple[str, str]:
    """Return the page before and after the data. Its policy runs these scripts only, and loads
    nothing.
    """
    style = read_asset("style.css")
    script = "\n".join(
        read_asset(name) for name in (*SCRIPTS, "tables.js", "findings.js", "view.js", "file.js")
    )
    policy = (
        f"default-src 'none'; script-src '{_hash_text(script)}'; style-src '{_hash_text(style)}';"
        " img-src data:; base-uri 'none'; form-action 'none'"
    )
    marker = "<!--data-->"
    page = render("view.html", title=title, style=style, script=script, policy=policy, data=marker)
    head, tail = page.split(marker)
    return replace_surrogates(head), replace_surrogates(tail)


def _hash_text(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _render_data(name: str, value: Any) -> str:
    """Return data as a block of the page: no text in it can end the block."""
    text = dump(value).replace("<", "\\u003c").replace(">", "\\u003e")
    return f'<script type="application/json" id="{name}">{text}</script>\n'


def _write_traces(out: TextIO, reading: Reading) -> tuple[int, int]:
    """Write every trace once, then the rows of the list."""
    unread = 0
    for n, (_, trace_id) in enumerate(reading.index.traces(1)):
        value = reading.page(trace_id)
        unread += value["trace"]["format"] == "unreadable"
        page = zlib.compress(dump(value).encode(), 6)
        out.write(
            f'<script type="text/plain" data-trace="{n}" data-id="{quote(trace_id, safe="")}">'
            f"{base64.b64encode(page).decode()}</script>\n"
        )
    packed = zlib.compressobj(6)
    rows = [packed.compress(b"[")]
    total = 0
    for row in _list_rows(reading):
        values = {
            name: get_attribute(row.attributes, name)
            for name, value in row.attributes.items()
            if value is not None
        }
        item = asdict(row) | {"text": reading.index.text(row.number), "values": values}
        rows.append(packed.compress((("," if total else "") + dump(item)).encode()))
        total += 1
    rows.append(packed.compress(b"]") + packed.flush())
    data = base64.b64encode(b"".join(rows)).decode()
    out.write(f'<script type="text/plain" id="rows">{data}</script>\n')
    return total, unread


def _list_rows(reading: Reading) -> Iterator[IndexRow]:
    offset = 0
    while rows := reading.index.rows(Filter(), offset, _ROWS).rows:
        yield from rows
        offset += len(rows)
