"""A code that repeats: several findings in one trace, each with quotes of its own."""

from pathlib import Path

import pytest
import yaml

from annotator.prompts.render import hash_prompts, hash_rubric_prompts, render
from annotator.rubrics import load_rubric
from annotator.rubrics.annotations import Claim, Quote, Verdict
from annotator.rubrics.evidence import check_verdict
from annotator.traces import Message, Trace
from tests.conftest import annotations, set_model
from tests.server import TAGS, Reply, Request, Server

ONE, TWO, THREE = "I take the parser now", "I push it without a test", "You did not tell me that"
TRACE = Trace("t", "test", "", (Message(1, "a", (), f"{ONE}. {TWO}. {THREE}."),))


def write_rubric(folder: Path, **code: object) -> str:
    fields = {
        **{"id": "slips", "version": 1, "title": "Slips", "source": "ours", "choice": "many"},
        **{"min_quotes": 1, "quote_from": ["messages"], "instructions": "Find slips."},
    }
    slip = {"id": "slip", "name": "A slip", "definition": "A slip.", "evidence": "It."}
    (folder / "slips.yaml").write_text(yaml.safe_dump(fields | {"codes": [slip | code]}))
    return str(folder / "slips.yaml")


@pytest.mark.parametrize(
    ("repeats", "first", "second", "accepted"),
    [
        pytest.param(True, [ONE], [TWO], 2, id="other-quotes"),
        pytest.param(True, [ONE], [ONE], 1, id="same-quote"),
        pytest.param(True, [ONE, TWO], [TWO, ONE], 1, id="same-quotes"),
        pytest.param(True, [ONE, TWO], [TWO], 2, id="only-quotes-of-the-first"),
        pytest.param(True, [ONE], [ONE, TWO], 2, id="one-quote-more"),
        pytest.param(True, [ONE, TWO], [TWO, THREE], 2, id="one-quote-in-both"),
        pytest.param(False, [ONE], [TWO], 1, id="a-code-that-does-not-repeat"),
    ],
)
def test_findings_of_one_code(
    tmp_path: Path, repeats: bool, first: list[str], second: list[str], accepted: int
) -> None:
    rubric = load_rubric(write_rubric(tmp_path, repeats=repeats))
    claims = [
        Claim("slip", "why", tuple(Quote(text, "message:1") for text in texts))
        for texts in (first, second)
    ]
    findings, rejected = check_verdict(Verdict(tuple(claims)), TRACE, rubric)
    assert len(findings) == accepted
    assert [claim.reason for claim in rejected] == ["slip: given twice"] * (2 - accepted)


def test_a_run_counts_the_code_once(annotate_cli, runs, tmp_path: Path) -> None:
    runs(1)
    rubric = write_rubric(tmp_path, repeats=True)
    reasks = []

    def answer(request: Request) -> Reply:
        first, third = request.part("message:1"), request.part("message:3")
        texts = [("message:1", first), ("message:1", first), ("message:3", third)]
        if request.reask:
            reasks.append(request.reask)
            del texts[0]
        findings = [
            {"code": "slip", "rationale": "so", "quotes": [{"source": source, "text": text}]}
            for source, text in texts
        ]
        near_miss = {"code": "slip", "met": "no", "because": "that was mended"}
        answer = {"considered": [near_miss], "findings": findings, "label": "some"}
        return Reply(answer=TAGS | answer)

    with Server(answer) as server:
        model = ("--model", "m", "--base-url", server.url, *set_model(mode="json_schema"))
        done = annotate_cli("run", "logs", "--rubric", rubric, *model, "--out", "out")
        assert done.code == 0, done.err
        assert server.seen[0].schema["properties"]["findings"]["maxItems"] == 12
    assert "slip is given twice with the same quotes" in reasks[0]
    [annotation] = annotations(tmp_path / "out").values()
    assert annotation.codes == ("slip",)
    assert [finding.evidence[0].source for finding in annotation.findings] == [
        "message:1",
        "message:3",
    ]
    assert "1/1" in done.out


def test_only_its_own_prompt_says_so(tmp_path: Path) -> None:
    symptoms = load_rubric("symptoms")
    assert hash_rubric_prompts(symptoms) == hash_prompts()
    # That of the templates before any code could repeat: runs of other rubrics can be resumed.
    assert hash_prompts().startswith("dae196cb4de42095")
    prompts = [
        render(TRACE, load_rubric(write_rubric(tmp_path, repeats=repeats))).system
        for repeats in (True, False)
    ]
    assert ["More than one finding of `slip`" in text for text in prompts] == [True, False]
