"""The report as one HTML file that needs nothing else: no server, no network."""

import base64
import hashlib
import zlib
from typing import TextIO
from urllib.parse import quote

from annotator.base.text import replace_surrogates
from annotator.web.assets import LIST_SCRIPTS, read_asset, render
from annotator.web.overview import serialize_overview
from annotator.web.payload import dump
from annotator.web.reading import PageRequest, Reading

COMFORTABLE = 5_000  # annotations in one file; more open slowly


def write_report(out: TextIO, pages: PageRequest) -> tuple[int, int]:
    """Write the report of runs; return the number of annotations in it, and of traces whose texts
    could not be read.

    One trace is in memory at a time. The page unpacks a trace when a reader opens it.

    Raises:
        AnnotatorError: a run cannot be read.
        OSError: ``out`` cannot be written.
    """
    reading = Reading(pages)
    overview = serialize_overview(pages, reading.index)
    head, tail = _render_shell(overview["title"])
    out.write(head)
    out.write(_render_data('id="overview"', zlib.compress(dump(overview).encode(), 6)))
    unread = 0
    for trace_id in reading.index.trace_ids:
        value = reading.page(trace_id)
        unread += value["trace"]["format"] == "unreadable"
        packed = zlib.compress(dump(value).encode(), 6)
        out.write(_render_data(f'data-id="{quote(trace_id, safe="")}"', packed))
    out.write(_render_data('id="rows"', reading.index.rows))
    out.write(tail)
    return reading.index.count, unread


def _render_shell(title: str) -> tuple[str, str]:
    """Return the page before and after the data; it runs these scripts only, and loads nothing."""
    style = read_asset("style.css")
    script = "\n".join(read_asset(name) for name in (*LIST_SCRIPTS, "file.js"))
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


def _render_data(attribute: str, packed: bytes) -> str:
    """Return packed data as a block of the page."""
    data = base64.b64encode(packed).decode()
    return f'<script type="text/plain" {attribute}>{data}</script>\n'
