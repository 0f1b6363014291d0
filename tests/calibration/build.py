"""Small runs and label files for the tests of calibration: real run directories, hand-made."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from annotator.judges.llm.judge import LLMJudge
from annotator.judges.llm.settings import Options
from annotator.rubrics import Rubric, load_rubric
from annotator.rubrics.annotations import Annotation, Evidence, Finding
from annotator.runs.manifest import make_manifest

CODES = ("alpha", "beta", "gamma")
SLIPS = {
    **{"id": "slips", "version": 1, "title": "Slips", "source": "made up", "choice": "primary"},
    **{"min_quotes": 1, "quote_from": ["messages"], "precedence": ["late", "lost", "rude"]},
    "instructions": "Say which slip the run has.",
    "codes": [
        {
            "id": code,
            "name": code,
            "definition": f"An agent is {code}.",
            "evidence": f"A message says {code}.",
            "not": f"Nobody is {code}.",
            "example": {"quotes": [f"we are {code} again"], "why": "it says so"},
        }
        for code in ("late", "lost", "rude")
    ],
}
"""A rubric, as a file has it, for traces that name their slip."""


def make_rubric(
    folder: Path,
    choice: str = "primary",
    codes: Iterable[str] = CODES,
    *,
    version: int = 1,
    id: str = "faults",
    groups: Mapping[str, str] | None = None,
) -> Rubric:
    """A rubric file ``folder/<id>.yaml`` (valid JSON is valid YAML), loaded, with ``groups``."""
    names = list(codes)
    text = "x"
    value = {
        "id": id,
        "version": version,
        "title": text,
        "source": text,
        "choice": choice,
        "instructions": text,
        "codes": [
            {"id": n, "name": n, "definition": text, "evidence": text}
            | ({"group": groups[n]} if groups else {})
            for n in names
        ],
        "precedence": names,
    }
    file = folder / f"{id}.yaml"
    file.write_text(json.dumps(value))
    return load_rubric(str(file))


def said(trace_id: str, *codes: str, status: str | None = None, **attributes: Any) -> Annotation:
    """What a judge says of a trace: its codes, the primary one first; no code is none.

    The rubric and the judge are filled in by :func:`make_run`.
    """
    evidence = (Evidence("quoted here", "message:1", 0, 11, "exact"),)
    return Annotation(
        trace_id=trace_id,
        rubric="",
        rubric_sha256="",
        judge="",
        status=status or ("labelled" if codes else "none"),
        primary=codes[0] if codes else None,
        secondary=tuple(codes[1:]),
        findings=tuple(Finding(code, f"because of {code}", evidence) for code in codes),
        attributes=attributes,
        error="refused" if status == "failed" else None,
        reason={"skipped": "passed", "undecided": "a tie"}.get(status or ""),
    )


def make_run(
    folder: Path,
    rubric: Rubric,
    annotations: Iterable[Annotation],
    *,
    judge: str = "llm:m",
    known: Iterable[str] | None = None,
    screens: Iterable[str] = (),
    more: Iterable[tuple[Rubric, Iterable[Annotation]]] = (),
    **changes: Any,
) -> Path:
    """A finished run directory. ``known``: the codes that the judge can find (default: all),
    ``screens``: those that it only screens for; ``more``: other rubrics of the same run.
    """
    parts = [(rubric, list(annotations)), *((other, list(its)) for other, its in more)]
    manifest = make_manifest(
        rubrics=[one for one, _ in parts],
        judge=LLMJudge(Options("m", "http://127.0.0.1:1/v1")),
        sources=["logs"],
        format="auto",
        only="rubric",
        limit=None,
        concurrency=1,
        command="annotate logs",
    ).as_dict()
    manifest["judge"]["id"] = judge
    for one in manifest["rubrics"]:
        for code in one["codes"]:
            code["judged"] = known is None or code["id"] in set(known)
            code["screen"] = code["id"] in set(screens)
    lines = [
        replace(one, rubric=own.id, rubric_sha256=own.sha256, judge=judge)
        if own.choice != "many"
        else replace(
            one,
            rubric=own.id,
            rubric_sha256=own.sha256,
            judge=judge,
            primary=None,
            secondary=one.codes,
        )
        for own, its in parts
        for one in its
    ]
    totals = {"annotations": len(lines)} | changes.pop("totals", {})
    manifest |= {"status": "finished", "totals": totals}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps(manifest | changes))
    text = "".join(one.to_json() + "\n" for one in lines)
    (folder / "annotations.jsonl").write_text(text, encoding="utf-8")
    return folder


def label(trace_id: str, rubric: Rubric, *codes: str, by: str = "ann", **more: Any) -> dict:
    """One line of a labels file; no codes is "no code applies"."""
    many = rubric.choice == "many"
    return {
        "trace_id": trace_id,
        "rubric": rubric.id,
        "annotator": by,
        "primary": None if many or not codes else codes[0],
        "secondary": list(codes if many else codes[1:]),
    } | more


def make_trace(n: int, *texts: str) -> dict[str, Any]:
    """A trace of two agents in turn, as a record; two traces have one task."""
    messages = [
        {"name": "ab"[k % 2], "role": "assistant", "content": text} for k, text in enumerate(texts)
    ]
    return {"id": f"run{n:02}", "task": f"task{n // 2}", "messages": messages}


def write_labels(file: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    file.write_text(text, encoding="utf-8")
    return file


def calibration(file: Path, n: int = 0) -> dict[str, Any]:
    """One calibration of a ``calibration.json``, which must be JSON without NaN or Infinity."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} in {file}")

    value = json.loads(file.read_text(encoding="utf-8"), parse_constant=refuse)
    assert value["schema"] == "calibration/1"
    return value["calibrations"][n]


def row_of(one: Mapping[str, Any], code: str) -> dict[str, Any]:
    [row] = [row for row in one["rows"] if row["code"] == code]
    return row


def said_in_words(done: Any) -> None:
    """An error is a line or a few, exit code 2, nothing on stdout; never a traceback or NaN."""
    assert done.code == 2, (done.code, done.out, done.err)
    assert done.out == ""
    assert done.err.startswith(("Error", "Usage"))
    assert "Traceback" not in done.err
    assert "nan" not in done.err.lower().split()
    assert "\x1b" not in done.err
