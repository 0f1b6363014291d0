"""The rules judge, through its one method, on small runs made here."""

import hashlib
import re

import pytest

from annotator import AnnotatorError
from annotator.cooperbench import rules
from annotator.cooperbench.rules import REVISION, comm_errors, emergent, symptoms
from annotator.cooperbench.rules.case import Case
from annotator.judges.rules import RulesJudge
from annotator.rubrics import load_rubric
from annotator.rubrics.evidence import check_verdict
from annotator.traces import Message, read_traces
from tests.conftest import EXAMPLES, ROOT, annotations
from tests.cooperbench import rule_cases as made
from tests.cooperbench.rule_cases import BESIDE, CODES, HITS, MISSES, both, conflict, good, run

NAMES = ("comm_errors", "symptoms", "emergent")
COMM, SYMPTOMS, EMERGENT = RUBRICS = [load_rubric(name) for name in NAMES]
RULES = {
    "comm_errors": comm_errors.RULES,
    "symptoms": symptoms.NO_MATTER_OF_COORDINATION + symptoms.RULES,
    "emergent": emergent.RULES,
}


def decide(trace, rubric):
    """Return the verdict, whose every claim must pass the check of the evidence, word for word."""
    verdict = rules.decide(trace, rubric)
    findings, rejected = check_verdict(verdict, trace, rubric)
    assert rejected == []
    assert all(one.match == "exact" for finding in findings for one in finding.evidence)
    assert verdict.error is None
    one_stands_out = verdict.claims and rubric.choice != "many"
    assert verdict.primary == (verdict.claims[0].code if one_stands_out else None)
    return verdict


def status(trace, rubric):
    """Whether something is found, nothing applies, or the judge does not know."""
    verdict = decide(trace, rubric)
    return "found" if verdict.claims else "undecided" if verdict.undecided else "none"


def quotes(claim):
    return [(quote.source, quote.text) for quote in claim.quotes]


def rubric_of(rule):
    return load_rubric(rule.__module__.rpartition(".")[2])


def named(rule):
    return f"{rubric_of(rule).id}.{rule.__name__}"


# --- which rubrics ------------------------------------------------------------------------------


def test_knows_its_rubrics_and_says_so_of_others():
    judge, causes = RulesJudge(), load_rubric("causes")
    assert judge.id == "rules"
    known = "no rules for 'causes'; it knows comm_errors, symptoms and emergent"
    with pytest.raises(AnnotatorError, match=known):
        judge.codes(causes)
    with pytest.raises(AnnotatorError, match=known):
        rules.decide(run("a: Hello."), causes)
    codes = tuple(code for code in COMM.codes if code.id != "C3a")
    with pytest.raises(AnnotatorError, match=r"needs the code\(s\) C3a, which"):
        judge.codes(COMM.model_copy(update={"codes": codes}))


def test_every_rule_is_of_a_code_that_it_has_and_most_are_screens():
    judge = RulesJudge()
    for rubric in RUBRICS:
        codes = {code for rule, code in CODES.items() if rubric_of(rule).id == rubric.id}
        assert judge.codes(rubric) == codes
        assert judge.screens(rubric) < codes or rubric is not SYMPTOMS
    assert judge.screens(COMM) == judge.codes(COMM)
    assert "implementation_failure" not in judge.screens(SYMPTOMS)


# --- each rule by itself ------------------------------------------------------------------------


@pytest.mark.parametrize("case", HITS)
def test_a_rule_finds_its_code(case):
    rule, trace, expected = HITS[case]
    claim = rule(Case(trace))
    assert (claim.code, quotes(claim)) == (CODES[rule], expected)
    assert claim == decide(trace, rubric_of(rule)).claims[0], "another rule decides"


@pytest.mark.parametrize(
    ("rule", "why"), [(rule, why) for rule in MISSES for why in MISSES[rule]],
    ids=lambda x: x if isinstance(x, str) else named(x),
)  # fmt: skip
def test_a_near_miss_of_a_rule(rule, why):
    trace = MISSES[rule][why]
    assert rule(Case(trace)) is None
    decide(trace, rubric_of(rule))


def test_every_rule_has_cases_and_stands_in_the_docs():
    names = [named(rule) for rules in RULES.values() for rule in rules]
    assert {named(rule) for rule, *_ in HITS.values()} == set(names)
    assert {named(rule) for rule in MISSES} == set(names)
    docs = (ROOT / "docs" / "reference" / "judges.md").read_text()
    rows = re.findall(r"^\| (comm_errors|symptoms|emergent) \| (\w+) \|", docs, re.MULTILINE)
    coded = [(rubric_of(rule).id, code) for rule, code in CODES.items()]
    assert sorted(rows) == sorted(coded)


# --- three answers ------------------------------------------------------------------------------

SILENT = run(patches=both(), passed=True)
ANSWERS = {
    "nothing found in messages": (run(*made.CHAT), ["undecided", "undecided", "undecided"]),
    "no messages": (run(), ["none", "undecided", "none"]),
    "no messages, failed": (run(passed=False), ["none", "undecided", "none"]),
    "no messages, passed": (SILENT, ["none", "none", "none"]),
    "empty messages": (run("a: ", "b: "), ["undecided", "undecided", "undecided"]),
    "passed": (good(*made.CHAT), ["undecided", "none", "undecided"]),
    "passed, and coordinated": (good(made.MINE, made.YOURS), ["undecided", "none", "found"]),
    "failed, nothing found": (made.clean(*made.CHAT), ["undecided", "undecided", "none"]),
    "failed, same place": (conflict(*made.CHAT), ["undecided", "found", "none"]),
    "only what no agent wrote": (
        good(
            Message(1, "a", (), made.MINE[3:], author="tool"),
            Message(2, "b", (), "", author="tool"),
        ),
        ["none", "none", "none"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ANSWERS)
def test_it_finds_excludes_or_does_not_know(case):
    trace, expected = ANSWERS[case]
    assert [status(trace, rubric) for rubric in RUBRICS] == expected


def test_a_run_records_the_three_answers(annotate_cli, tmp_path, runs):
    for name, talked in (("some", [("agent1", "Hello."), ("agent2", "Hello.")]), ("none", [])):
        runs(1, talk=talked)
        args = ("logs", "--rubric", "comm_errors", "--judge", "rules", "--out", name)
        assert annotate_cli(*args).code == 0
        [one] = annotations(tmp_path / name).values()
        assert one.status == {"some": "undecided", "none": "none"}[name]
        assert bool(one.reason) == (name == "some")


# --- what stands beside what --------------------------------------------------------------------


@pytest.mark.parametrize("case", BESIDE)
def test_all_codes_of_a_failed_run(case):
    codes, trace = BESIDE[case]
    assert [claim.code for claim in decide(trace, SYMPTOMS).claims] == codes
    assert status(trace, SYMPTOMS) == ("found" if codes else "undecided")


def test_the_codes_stand_in_the_order_of_the_rubric():
    assert list(symptoms.CODES) == [x for x in SYMPTOMS.precedence if x in symptoms.CODES]


def test_each_kind_of_coordination_is_found_beside_the_others_and_quoted_of_who_takes_it():
    talk = made.PROPOSED, made.COUNTERED, made.ACCEPTED, made.MINE, made.YOURS, made.TAKEN
    trace = good(*talk, made.GO_AHEAD)
    verdict = decide(trace, EMERGENT)
    assert [claim.code for claim in verdict.claims] == list(emergent.CODES)
    sender = {f"message:{one.n}": one.sender for one in trace.messages}
    senders = [[sender[source] for source, _ in quotes(claim)] for claim in verdict.claims]
    assert senders == [["a", "b", "a"], ["a", "b"], ["a", "b"]]


# --- the revision -------------------------------------------------------------------------------

FOUND = {8: "1125fe4bdb850376"}


def test_a_change_of_what_is_found_raises_the_revision():
    """Another digest here: raise ``REVISION``, for old calibrations do not fit any more."""
    digest = hashlib.sha256()
    for trace in read_traces([str(EXAMPLES)]):
        for rubric in RUBRICS:
            verdict = decide(trace, rubric)
            claims = [(one.code, quotes(one)) for one in verdict.claims]
            digest.update(repr((trace.id, rubric.id, claims)).encode())
    assert {REVISION: digest.hexdigest()[:16]} == {REVISION: FOUND[REVISION]}
