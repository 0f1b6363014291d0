"""The report page of the real runs: what it holds is what was judged."""

import base64
import json
import re
import zlib
from typing import Any

from annotator.rubrics.annotations import read_annotations
from tests.web.conftest import tool

BLOCK = re.compile(r'<script type="text/plain" data-id="[^"]+">([^<]+)</script>')


def text_of(trace: dict[str, Any], source: str) -> str:
    """The text that the page shows under a source's id."""
    kind, _, name = source.partition(":")
    texts: dict[str, str] = {
        "message": next((m["text"] for m in trace["messages"] if str(m["n"]) == name), ""),
        "patch": next((p["text"] for p in trace["patches"] if p["agent"] == name), ""),
        "outcome": trace["outcome"]["text"],
    }
    return texts[kind]


def test_every_finding_of_the_real_runs_is_in_the_page_in_its_place(shared_data, tmp_path):
    both = ("--rubric", "comm_errors", "--rubric", "symptoms")
    tool("run", shared_data / "cooperbench", *both, "--out", "run", cwd=tmp_path)
    tool("report", "run", "--format", "html", cwd=tmp_path)
    text = (tmp_path / "run" / "report.html").read_text()
    pages = [json.loads(zlib.decompress(base64.b64decode(one))) for one in BLOCK.findall(text)]
    recorded = list(read_annotations(tmp_path / "run"))
    assert len(pages) == len({one.trace_id for one in recorded}) == 263
    assert sum(len(page["annotations"]) for page in pages) == len(recorded) == 526
    shown = [
        (page["trace"]["id"], annotation["rubric"], finding["code"], evidence["quote"])
        for page in pages
        for annotation in page["annotations"]
        for finding in annotation["findings"]
        for evidence in finding["evidence"]
        if text_of(page["trace"], evidence["source"])[evidence["start"] : evidence["end"]]
        == evidence["quote"]
        and not evidence["stale"]
    ]
    found = [
        (one.trace_id, one.rubric, finding.code, evidence.quote)
        for one in recorded
        for finding in one.findings
        for evidence in finding.evidence
    ]
    assert sorted(shown) == sorted(found)
    assert len(found) > 150
    assert not any(page["trace"]["problems"] for page in pages)
