"""The main job on 200 real two-agent runs (and 63 solo ones), checked against the files themselves.

The files are read here with nothing of the package, so that a fault of its readers cannot hide.
"""

import json
import re
from collections import Counter
from hashlib import sha256
from pathlib import Path

from annotator.rubrics.annotations import Annotation
from tests.conftest import annotations, set_model
from tests.server import NOTHING, Part, Reply, Request, Server, finding


def source_text(logs: Path, trace_id: str, source: str) -> str | None:
    """The text of a source straight from the runner's files; None for the outcome."""
    folder = logs / trace_id
    kind, _, name = source.partition(":")
    if kind == "message":
        return json.loads((folder / "conversation.json").read_text())[int(name) - 1]["message"]
    if kind == "patch":
        result = json.loads((folder / "result.json").read_text())
        feature = result["agents"][name]["feature_id"]
        return (folder / f"agent{feature}.patch").read_bytes().decode()
    assert source == "outcome"
    return None


def outcome_words(logs: Path, trace_id: str) -> str:
    return (logs / trace_id / "eval.json").read_text() + (
        logs / trace_id / "result.json"
    ).read_text()


def check_evidence(logs: Path, found: Annotation) -> int:
    """Assert that all of an annotation's evidence stands in the files; return how much there is."""
    count = 0
    for one in found.findings:
        assert len(one.evidence) >= (1 if one.code == "implementation_failure" else 2)
        for evidence in one.evidence:
            count += 1
            text = source_text(logs, found.trace_id, evidence.source)
            if text is None:
                assert json.dumps(evidence.quote)[1:-1] in outcome_words(logs, found.trace_id)
            else:
                assert text[evidence.start : evidence.end] == evidence.quote
    return count


def coop(found: dict[tuple[str, str], Annotation], rubric: str) -> list[Annotation]:
    return [one for (trace, r), one in found.items() if r == rubric and "/coop/" in trace]


def test_the_rules_judge_labels_every_run(annotate_cli, logs, tmp_path):
    done = annotate_cli(
        logs, "--rubric", "symptoms", "--rubric", "comm_errors", "--out", "out", "--quiet"
    )
    assert done.code == 0, done.err
    found = annotations(tmp_path / "out")
    folders = {path.parent.relative_to(logs).as_posix() for path in logs.rglob("eval.json")}
    for rubric in ("symptoms", "comm_errors"):
        assert {trace for trace, r in found if r == rubric} == folders
        assert len(coop(found, rubric)) == 200
    passed = {
        path.parent.relative_to(logs).as_posix()
        for path in logs.rglob("eval.json")
        if json.loads(path.read_text())["both_passed"]
    }
    for one in coop(found, "symptoms"):
        assert (one.status == "skipped") == (one.trace_id in passed)
    assert Counter(one.status for one in coop(found, "comm_errors"))["failed"] == 0
    assert sum(check_evidence(logs, one) for one in found.values()) > 150


def opening(text: str) -> str:
    """The beginning of a run's first message: it tells the runs apart."""
    return re.sub(r"\W", "", text)[:200]


def words(part: Part) -> list[str]:
    return part.text.split()


def behave(request: Request) -> tuple[str, Reply]:
    """A judge that does everything a judge can do wrong, decided by the run and the attempt."""
    parts = [part for part in request.parts if part.source.startswith("message:")]
    long = [part for part in parts if len(words(part)) >= 12]
    if len(long) < 2:
        return "none", NOTHING
    kinds = [
        *("true", "true typed", "paraphrase", "wrong message", "own prompt", "unknown code"),
        *("empty", "refusal", "malformed", "cut off", "429 once", "500 once", "none"),
    ]
    kind = kinds[int(sha256(request.user.encode()).hexdigest(), 16) % len(kinds)]
    one, two = long[0], long[1]
    first, second = (" ".join(words(part)[2:10]) for part in (one, two))
    right = finding("C3a", (one.source, first), (two.source, second))
    again = len([r for r in request.messages if r["role"] == "user"]) > 1
    return kind, {
        "true": right,
        "true typed": finding(
            "C3a", (one.source, f"“{first.upper()}…”"), (two.source, f"*{second}*")
        ),
        "paraphrase": finding("C3a", (one.source, first + " indeed"), (two.source, second)),
        "wrong message": finding("C3a", (two.source, first), (two.source, second)),
        "own prompt": finding(
            "C3a", (one.source, "People publish statistics"), (two.source, second)
        ),
        "unknown code": finding("C5", (one.source, first), (two.source, second)),
        "empty": Reply(text=""),
        "refusal": Reply(refusal="I will not judge this."),
        "malformed": Reply(text='{"findings": ['),
        "cut off": Reply(answer=right.answer, finish="length"),
        "429 once": right if again else Reply(status=429, headers={"Retry-After": "0"}),
        "500 once": right if again else Reply(status=500),
        "none": NOTHING,
    }[kind]


MEANT = {
    "true": {"labelled"},
    "true typed": {"labelled"},
    "paraphrase": {"undecided"},  # judged, and its one finding rejected
    "wrong message": {"labelled", "undecided"},  # moved, unless the words stand in a third, too
    "own prompt": {"undecided"},
    "unknown code": {"failed"},
    "empty": {"failed"},
    "refusal": {"failed"},
    "malformed": {"failed"},
    "cut off": {"failed"},
    "429 once": {"labelled"},
    "500 once": {"labelled"},
    "none": {"none"},
}


def test_a_judge_that_does_everything_wrong(annotate_cli, logs, tmp_path):
    tried: set[str] = set()
    kinds: dict[str, str] = {}

    def responder(request: Request) -> Reply:
        kind, reply = behave(request)
        text = request.user
        kinds[re.sub(r"\W", "", request.part("message:1"))[:200] if "message:1" in text else ""] = (
            kind
        )
        if kind in ("429 once", "500 once"):
            if text in tried:
                parts = [p for p in request.parts if p.source.startswith("message:")]
                one, two = [p for p in parts if len(words(p)) >= 12][:2]
                quotes = ((p.source, " ".join(words(p)[2:10])) for p in (one, two))
                return finding("C3a", *quotes)
            tried.add(text)
        return reply

    with Server(responder) as server:
        done = annotate_cli(
            *(logs, "--rubric", "comm_errors", "--out", "out", "--quiet", "--model", "m"),
            *("--base-url", server.url, *set_model(mode="json_schema"), "--concurrency", "16"),
        )
        calls = server.calls
    found = annotations(tmp_path / "out")
    manifest = json.loads((tmp_path / "out" / "run.json").read_text())
    assert done.code == 1  # some failed, as they must
    assert len(coop(found, "comm_errors")) == 200
    assert manifest["totals"]["calls"] == calls
    seen: Counter[str] = Counter()
    for one in coop(found, "comm_errors"):
        talk = json.loads((logs / one.trace_id / "conversation.json").read_text())
        kind = kinds[opening(talk[0]["message"])] if talk else "none"
        seen[kind] += 1
        assert one.status in MEANT[kind], (kind, one.status, one.error, one.rejected)
        assert (one.error is not None) == (one.status == "failed")
        if kind in ("paraphrase", "own prompt"):
            assert one.rejected
        check_evidence(logs, one)
    assert set(seen) == set(MEANT), "the runs are enough to try everything"
