"""Models for the docs, whose errors are known: first that of docs/howto/tune-a-judge.md.

It judges the demo's runs by ``examples/tune/talk.yaml`` as ann labelled them, with these errors. It
takes a definition at its word until the rubric has another one, which it forgets if it comes after
the trace. It misses one run in five and flags one in nine, whatever the rubric says. The small
model takes each third run for vague. Of two more changes that it proposes, one harms and one does
nothing. As a critic it refutes the findings that ann does not have.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

import yaml

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


class UpdatedStandIn(StandIn):
    """A model for docs/howto/watch-the-judge.md. One answer in 25 is none by chance. When a run is
    asked about for the fifth time, the server has another model: it finds one run in six vague.
    """

    def __init__(self, labels: Path) -> None:
        super().__init__(labels)
        self.asked: Counter[str] = Counter()

    def __call__(self, request: Request) -> Reply:
        first = next((part for part in request.parts if part.source == "message:1"), None)
        if not first:
            return super().__call__(request)
        self.asked[first.text] += 1
        number = self.asked[first.text]
        if number >= 5 and crc32(first.text.encode()) % 6 == 0:
            return finding("vague", (first.source, first.text))
        chance = crc32(f"{number} {first.text}".encode()) % 25 == 0
        return NOTHING if chance else super().__call__(request)


def blame(request: Request) -> Reply:
    """Answer for docs/howto/find-who-and-when.md: the first or the second message is the cause, and
    the last one shows it; one run in four has no decisive mistake.
    """
    texts = [part for part in request.parts if part.source.startswith("message:")]
    number = crc32(texts[0].text.encode())
    reply = NOTHING
    if number % 4 and len(texts) > 2:
        quotes = [(part.source, part.text[-80:]) for part in (texts[number % 2], texts[-1])]
        reply = finding("mistake", *quotes[: 2 if number % 5 else 1])
    return reply


class Coder:
    """Answers the requests of an induction: finds failures, sorts them by name, and writes a code
    for each. ``codes``: the texts of a code by its id.
    """

    def __init__(self, codes: Mapping[str, Mapping[str, Any]]) -> None:
        self.codes = codes

    def __call__(self, request: Request) -> Reply:
        return Reply(answer=TAGS | getattr(self, self.name_step(request))(request))

    @staticmethod
    def name_step(request: Request) -> str:
        begins = {"You sort": "group", "You write": "write", "You assign": "assign"}
        system = request.system.splitlines()[2]
        return next((step for begin, step in begins.items() if system.startswith(begin)), "read")

    def look(self, request: Request) -> list[tuple[str, str, str, str]]:
        """Return the code, a sentence, the source and the quote of each finding in a run."""
        raise NotImplementedError

    def read(self, request: Request) -> dict[str, Any]:
        is_open = "## failure: " in request.system  # else a run is judged by the codes
        findings = [
            {
                "code": "failure" if is_open else code,
                "rationale": f"{self.codes[code]['name']}: {sentence}",
                "quotes": [{"source": source, "text": quote}],
            }
            for code, sentence, source, quote in self.look(request)
            if is_open or f"## {code}: " in request.system
        ]
        return {"findings": findings, "label": "some" if findings else "none"}

    def group(self, request: Request) -> dict[str, Any]:
        codes = self._list_codes(request)
        texts = {x: self.codes[x] for x in codes if f"\n{x}: " not in request.user}
        new = [
            {"id": x, "name": text["name"], "definition": text["definition"]}
            for x, text in texts.items()
        ]
        return {"new_codes": new, "assignments": _assign(codes)}

    def write(self, request: Request) -> dict[str, Any]:
        ids = [x for x in self.codes if f"\n{x}: " in request.user]
        return {
            "codes": [{"id": x, "merged": [x], **self.codes[x]} for x in ids],
            "dropped": [],
        }

    def assign(self, request: Request) -> dict[str, Any]:
        return {"assignments": _assign(self._list_codes(request))}

    def _list_codes(self, request: Request) -> list[str]:
        """Return the code of each numbered finding in a prompt."""
        by_name = {text["name"]: code for code, text in self.codes.items()}
        names = re.findall(r"^\d+\. ([^:]+):", request.user, re.MULTILINE)
        return [by_name[name] for name in names]


def _assign(codes: list[str]) -> list[dict[str, Any]]:
    return [{"finding": n, "code": code} for n, code in enumerate(codes, 1)]


class StandInCoder(Coder):
    """A model for docs/howto/find-new-codes.md: it names what ann labelled, but nothing vague in a
    run that passed. A vague message about the same place has a code of its own.
    """

    def __init__(self, labels: Path) -> None:
        super().__init__(yaml.safe_load(Path(__file__).with_name("stand_in.yaml").read_text()))
        self.rows = [
            row for row in map(json.loads, labels.read_text().splitlines()) if row["primary"]
        ]

    def look(self, request: Request) -> list[tuple[str, str, str, str]]:
        passed = "run: passed" in request.part("facts")
        return [
            (code, "its messages show it.", part.source, row["evidence"][0])
            for row in self.rows
            for part in request.parts
            for same in [re.search("same (corner|place|spots)", row["evidence"][0])]
            for code in ["same_place" if same else row["primary"]]
            if part.source.startswith("message:") and row["evidence"][0] in part.text
            if not (passed and row["primary"] == "vague")
        ]
