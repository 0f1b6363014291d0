"""Rubric files: the built-in ones, and what is said about broken ones."""

import hashlib
import re
from pathlib import Path

import pytest
import yaml

from annotator.base.errors import RubricError
from annotator.rubrics import Rubric, list_built_in, load_rubric
from annotator.traces import AgentEnd, Message, Outcome, Trace

NAMES = [path.stem for path in list_built_in()]

GOOD = {
    "id": "mine",
    "version": 1,
    "title": "Mine",
    "source": "made here",
    "choice": "primary",
    "instructions": "Judge",
    "codes": [
        {"id": "late", "name": "Late", "definition": "Too late", "evidence": "A time"},
        {"id": "lost", "name": "Lost", "definition": "Gone", "evidence": "A gap"},
    ],
    "precedence": ["late", "lost"],
}


@pytest.fixture
def rubric_file(tmp_path):
    """Return a function that writes a rubric file, a good one but for the changes."""

    def write(text=None, **changes):
        path = tmp_path / "mine.yaml"
        values = {key: value for key, value in (GOOD | changes).items() if value is not ...}
        if isinstance(text, bytes):
            path.write_bytes(text)
        else:
            path.write_text(yaml.safe_dump(values) if text is None else text, encoding="utf-8")
        return str(path)

    return write


def code(**changes):
    """Return the codes of the good rubric, the first one changed."""
    first = {key: value for key, value in (GOOD["codes"][0] | changes).items() if value is not ...}
    return [first, GOOD["codes"][1]]


# --- built-in rubrics


@pytest.mark.parametrize("name", NAMES)
def test_a_built_in_rubric_has_a_name_a_rank_for_each_code_and_examples_of_enough_quotes(name):
    (path,) = [path for path in list_built_in() if path.stem == name]
    rubric = load_rubric(name)
    assert rubric.id == name
    assert rubric == load_rubric(str(path))
    assert rubric.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    ids = [code.id for code in rubric.codes]
    if rubric.choice != "many" and not name.endswith("_paper"):
        assert sorted(rubric.precedence) == sorted(ids)
    assert sorted(map(rubric.rank, ids)) == list(range(len(ids)))
    for code in rubric.codes:
        assert not code.example or len(code.example.quotes) >= rubric.quotes_needed(code.id)


# CooperBench, arXiv 2601.13295: ten symptoms; the eleventh is this project's (contract.md and the
# rubric's own "source").
def test_symptoms_are_for_failed_runs_of_two_agents():
    rubric = load_rubric("symptoms")
    assert (rubric.applies_to.passed, rubric.applies_to.min_agents) == (False, 2)
    assert (rubric.choice, rubric.min_quotes) == ("primary", 2)
    assert rubric.precedence[-1] == "implementation_failure"


def test_the_papers_communication_errors_rest_on_the_conversation_alone():
    paper, default = load_rubric("comm_errors_paper"), load_rubric("comm_errors")
    assert (paper.quote_from, paper.min_quotes, paper.precedence) == (("messages",), 2, ())
    assert paper.show == ("messages",)
    assert [one.id for one in paper.codes] == [one.id for one in default.codes]


def test_the_papers_symptoms_have_no_order_and_no_failure_of_implementation():
    paper, default = load_rubric("symptoms_paper"), load_rubric("symptoms")
    ids = {one.id for one in default.codes} - {"implementation_failure"}
    assert {one.id for one in paper.codes} == ids
    assert paper.precedence == ()
    unquoted = [one.id for one in paper.codes if not ("messages" in one.must_quote or one.places)]
    assert unquoted == ["dependency_access"]


# --- files


def test_hash_is_that_of_the_file(rubric_file):
    first = load_rubric(rubric_file()).sha256
    second = load_rubric(rubric_file(title="Other")).sha256
    assert len(first) == 64
    assert first != second


def test_code_in_full(rubric_file):
    more = {"group": "time", "not": "Early", "must_quote": ["patches"], "min_quotes": 1}
    more["example"] = {"quotes": ["at ten"], "why": "It was due at nine"}
    late = load_rubric(rubric_file(codes=code(**more))).code("late")
    assert (late.group, late.not_, late.must_quote) == ("time", "Early", ("patches",))
    assert late.example.quotes == ("at ten",)


def test_min_quotes_of_a_code_goes_before_the_rubrics(rubric_file):
    rubric = load_rubric(rubric_file(min_quotes=3, codes=code(min_quotes=1)))
    assert (rubric.quotes_needed("late"), rubric.quotes_needed("lost")) == (1, 3)


@pytest.mark.parametrize(
    ("changes", "late", "lost"),
    [
        ({"precedence": ["lost", "late"]}, 1, 0),
        ({"choice": "many", "precedence": ...}, 0, 1),  # the place in the file
        ({"precedence": []}, 0, 1),
    ],
)
def test_rank_is_the_place_in_the_precedence_or_in_the_file(rubric_file, changes, late, lost):
    rubric = load_rubric(rubric_file(**changes))
    ranks = [rubric.rank(name) for name in ("late", "lost", "nonsense")]
    assert ranks == [late, lost, 2]


def test_unknown_code_raises(rubric_file):
    with pytest.raises(KeyError):
        load_rubric(rubric_file()).code("nonsense")


def read_changes(changes):
    """Return changes of the table as those of ``rubric_file``."""
    found = {name: ... if value == "missing" else value for name, value in changes.items()}
    if "code" in found:
        found["codes"] = code(**read_changes(found.pop("code")))
    if "more" in found:
        found["codes"] = [*code(), code(**found.pop("more"))[0]]
    return found


BROKEN = yaml.safe_load(Path(__file__).with_name("broken.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("changes", "message"), BROKEN.values(), ids=BROKEN)
def test_broken_file_is_explained(rubric_file, changes, message):
    path = rubric_file(**read_changes(changes))
    with pytest.raises(RubricError) as error:
        load_rubric(path)
    assert str(error.value).startswith(f"{path}: {message}")
    assert "\n" not in str(error.value)
    assert error.value.exit_code == 2


def test_every_problem_of_a_file_is_named(rubric_file):
    path = rubric_file(title=..., choice="some", codes=code(name=...))
    with pytest.raises(RubricError) as error:
        load_rubric(path)
    fields = re.findall(r"(?:: |; )([\w.]+): ", str(error.value))
    assert sorted(fields) == ["choice", "codes.late.name", "title"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "expected a mapping", id="empty"),
        pytest.param("- id: x\n", "expected a mapping", id="list"),
        pytest.param("just text", "expected a mapping", id="text"),
        pytest.param("id: [x\n", "not valid YAML", id="cut-off"),
        pytest.param("id: x\n\ttitle: y\n", "not valid YAML", id="tab"),
        pytest.param("a: !!python/object/apply:os.getcwd []", "not valid YAML", id="python-object"),
        pytest.param(b"id: \xff\xfe\xfd", "not valid YAML", id="not-utf-8"),
        pytest.param(b"\x00\x01\x02", "not valid YAML", id="binary"),
        pytest.param("[" * 20_000, "not valid YAML", id="deep"),
        pytest.param("2025-13-45: x\n", "", id="wrong-date"),
        pytest.param("1: x\n", "1: ", id="number-as-a-field"),
        pytest.param("codes: &a [*a]\n", "codes: an empty list", id="codes-that-hold-themselves"),
    ],
)
def test_file_that_is_no_rubric(rubric_file, text, message):
    path = rubric_file(text)
    with pytest.raises(RubricError) as error:
        load_rubric(path)
    assert str(error.value).startswith(f"{path}: ")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("symptom", "did you mean symptoms"),
        ("comm-errors", "did you mean comm_errors"),
        ("xyzzy", f"built-in: {', '.join(NAMES)}"),
        ("missing.yaml", "built-in: "),
        ("", "built-in: "),
        ("a\x00b", "built-in: "),
    ],
)
def test_unknown_name_gives_suggestions(name, hint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RubricError) as error:
        load_rubric(name)
    assert str(error.value).startswith(f"no rubric {name!r}, and no such file; ")
    assert hint in str(error.value)


def test_folder_is_no_rubric(tmp_path):
    with pytest.raises(RubricError, match="no such file"):
        load_rubric(str(tmp_path))


# --- which traces a rubric is for


def run(passed=None, agents=2):
    ends = tuple(AgentEnd(f"agent{n}") for n in range(1, agents + 1))
    return Trace("t", "test", "", (), outcome=Outcome(passed=passed, agents=ends))


@pytest.mark.parametrize(
    ("applies_to", "trace", "reason"),
    [
        pytest.param({}, run(True), None, id="any-passed"),
        pytest.param({}, run(False, agents=1), None, id="any-failed"),
        pytest.param({"passed": False}, run(True), "the run passed", id="failed-only-passed"),
        pytest.param({"passed": False}, run(False), None, id="failed-only-failed"),
        pytest.param({"passed": False}, run(None), None, id="failed-only-not-known"),
        pytest.param({"passed": True}, run(False), "the run failed", id="passed-only-failed"),
        pytest.param({"passed": True}, run(True), None, id="passed-only-passed"),
        pytest.param({"min_agents": 2}, run(agents=1), "1 agent, the rubric needs 2", id="too-few"),
        pytest.param({"min_agents": 2}, run(agents=2), None, id="enough"),
        pytest.param({"min_agents": 2}, run(agents=3), None, id="more"),
    ],
)
def test_excludes(applies_to, trace, reason):
    rubric = Rubric.model_validate(GOOD | {"applies_to": applies_to})
    assert rubric.excludes(trace) == reason


def test_any_outcome_lifts_the_outcome_and_nothing_else():
    rubric = Rubric.model_validate(GOOD | {"applies_to": {"passed": False, "min_agents": 2}})
    assert rubric.excludes(run(True), any_outcome=True) is None
    assert rubric.excludes(run(True, agents=1), any_outcome=True) is not None


def test_agents_are_counted_by_who_speaks_where_the_harness_names_none():
    rubric = Rubric.model_validate(GOOD | {"applies_to": {"min_agents": 2}})
    messages = (Message(1, "a", (), "x"), Message(2, "b", (), "y"), Message(3, "a", (), "z"))
    assert rubric.excludes(Trace("t", "test", "", messages)) is None
    assert rubric.excludes(Trace("t", "test", "", messages[::2])) is not None
