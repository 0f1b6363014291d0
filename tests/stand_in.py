"""A model for docs/howto/tune-a-judge.md, whose errors are known.

It judges the demo's runs by ``examples/tune/talk.yaml`` as ann labelled them, with these errors. It
takes a definition at its word until the rubric has another one, which it forgets if it comes after
the trace. It misses one run in five and flags one in nine, whatever the rubric says. The small
model takes each third run for vague. Of two more changes that it proposes, one harms and one does
nothing. As a critic it refutes the findings that ann does not have.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

from tests.server import NOTHING, TAGS, Reply, Request, finding

WORDS = (
    "An agent's messages say, in whatever words, that its edits are made, and none of them says"
    " that it ran them."
)
LATER = "Work that will be tested after the merge."
QUESTION = "A question to the partner is not a code."
# The clause, its text, a summary, and the differences of judge and person that it is to settle.
CHANGES = (
    ("untested", "definition", WORDS, "any words, any message", "person untested|person none; no"),
    ("untested", "not", LATER, "tests after the merge", "person none"),
    ("rubric", "instructions", QUESTION, "questions are fine", "person none"),
)


class StandIn:
    """Answers the requests of judges, critics and tuning, by people's labels."""

    def __init__(self, labels: Path) -> None:
        rows = map(json.loads, labels.read_text().splitlines())
        self.rows = [row for row in rows if row.get("evidence")]

    def __call__(self, request: Request) -> Reply:
        if "You improve a rubric" in request.system:
            return Reply(answer=TAGS | {"turns": [], "candidates": _propose(request.user)})
        if "<finding " in request.user:
            return self._criticize(request)
        texts = {part.source: part.text for part in request.parts if "message" in part.source}
        first, last = min(texts), max(texts)
        number = crc32(texts[first].encode())
        if "4b" in request.body["model"] and number % 3 == 0:
            return finding("vague", (first, texts[first]))
        if number % 5 == 0:
            return NOTHING
        for row in self.rows:
            for source, text in texts.items():
                if row["evidence"][0] in text:
                    code = _judge(row, request.system)
                    return finding(code, (source, row["evidence"][0])) if code else NOTHING
        return finding("untested", (last, texts[last][-80:])) if number % 9 == 1 else NOTHING

    def _criticize(self, request: Request) -> Reply:
        """Uphold the findings that a person has."""
        code = re.search(r"(?m)^code: (\S+)$", request.user)[1]
        quotes = [row["evidence"][0] for row in self.rows if row["primary"] == code]
        upheld = any(json.dumps(quote)[1:-1] in request.user for quote in quotes)
        answer = {"reason": "by the definition", "code": "none"}
        answer |= {"decision": "upheld" if upheld else "not supported"}
        return Reply(answer={name: TAGS[name] for name in ("first_tag", "last_tag")} | answer)


def _judge(row: Mapping[str, Any], rubric: str) -> str | None:
    """Return the code of a labelled run by a rubric. Runs with a note are hard."""
    if row["primary"] == "vague":
        return "vague"
    if LATER in rubric and len(row["trace_id"]) % 2:
        return None
    if WORDS in rubric:
        return row["primary"]
    return None if row["primary"] and row.get("note") else "untested"


def _propose(text: str) -> list[dict[str, Any]]:
    """Return the changes that settle at least one of the differences in a prompt."""
    found = []
    for code, field, change, summary, pattern in CHANGES:
        numbers = [int(n) for n in re.findall(rf"(?m)^(\d+)\. .*(?:{pattern})", text)]
        clause = {"code": code, "field": field, "text": change, "summary": summary}
        found += [clause | {"quotes": [], "differences": numbers}] if numbers else []
    return found
