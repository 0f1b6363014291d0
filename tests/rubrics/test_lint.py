"""The lint, differences, imports and rubrics that extend others."""

import json
from pathlib import Path

import pytest
import yaml

from annotator.base.errors import RubricError
from annotator.rubrics import list_built_in, load_rubric
from annotator.rubrics.difference import compare_rubrics
from annotator.rubrics.foreign import read_foreign
from annotator.rubrics.lint import lint
from annotator.rubrics.model import Rubric


def code(code_id="C1", **changes):
    fields = {"name": f"Name {code_id}", "definition": f"What {code_id} is.", "evidence": "A line."}
    return {"id": code_id, **fields, **changes}


def make(**changes):
    fields = {
        "id": "mine",
        "version": 1,
        "title": "Mine",
        "source": "ours",
        "choice": "many",
        "min_quotes": 1,
        "instructions": "Report what is there.",
        "codes": [code()],
    }
    return Rubric.model_validate(fields | changes)


TABLES = yaml.safe_load(Path(__file__).with_name("lint.yaml").read_text(encoding="utf-8"))
BROKEN, ADAMAST, MAST_LINT = (TABLES[name] for name in ("broken", "adamast", "mast_lint"))


@pytest.mark.parametrize(("changes", "warning"), BROKEN.values(), ids=BROKEN)
def test_broken(changes, warning):
    codes = {"codes": [code(name, **its) for name, its in changes.get("codes", {"C1": {}}).items()]}
    rubric = make(**changes | codes)
    assert list(lint(rubric, rubric.instructions)) == [warning]


def test_a_prompt_that_is_too_long():
    [warning] = lint(make(), "Word by word. " * 2800)
    assert warning == "the prompt has about 9800 tokens without a trace, each time it is sent"


@pytest.mark.parametrize("name", [path.stem for path in list_built_in()])
def test_built_in_rubrics_have_no_warning(name):
    assert list(lint(load_rubric(name), "")) == []


def test_numbers_as_ids_are_refused_with_the_remedy(tmp_path):
    fields = make().model_dump(mode="json", by_alias=True) | {"codes": [code(1.1)]}
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(fields))
    with pytest.raises(RubricError, match=r"to YAML 1\.1 is no text: write it in quotes"):
        load_rubric(str(tmp_path / "a.yaml"))


# --- differences


def test_difference():
    old = make(codes=[code(), code("C2"), code("C3")], precedence=["C1", "C2", "C3"])
    new = make(
        codes=[code(definition="What C1 is. And more."), code("C3"), code("C4")],
        precedence=["C3", "C1", "C4"],
        version=2,
    )
    assert list(compare_rubrics(old, new)) == [
        "version: 1 -> 2",
        "precedence: C1, C2, C3 -> C3, C1, C4",
        "- code C2: Name C2",
        "C1.definition:",
        "  - What C1 is.",
        "  + What C1 is",
        "  + And more.",
        "+ code C4: Name C4",
    ]
    assert list(compare_rubrics(old, old)) == []
    other = make(title="Other", codes=[code(), code("C2"), code("C3")], precedence=old.precedence)
    assert list(compare_rubrics(old, other))[-1].startswith("both are mine v1: raise the version")


# --- imports


def test_adamast(tmp_path):
    (tmp_path / "bakery.json").write_text(json.dumps(ADAMAST))
    rubric = Rubric.model_validate(read_foreign(tmp_path / "bakery.json"))
    assert (rubric.id, rubric.title, rubric.choice) == ("bakery", "Baking failures", "many")
    burnt, unchecked = rubric.codes
    assert (burnt.id, burnt.group, burnt.evidence) == ("A.1", "A", "The oven was too hot.")
    assert burnt.not_ == "It is rye."
    assert unchecked.definition == "Nobody tasted it. It concerns the role taster."
    assert unchecked.evidence == "A passage that shows it. For example: Sold at once."
    assert "Bakeries" in rubric.instructions
    odd = {"codes": [ADAMAST["codes"][1] | {"examples": given} for given in ("Sold.", 7, {}, None)]}
    (tmp_path / "odd.json").write_text(json.dumps(odd))
    said = [
        code["evidence"].split(" shows it.")[1]
        for code in read_foreign(tmp_path / "odd.json")["codes"]
    ]
    assert said == [" For example: Sold.", " For example: 7", "", ""]


@pytest.mark.parametrize("name", ["oven.yaml", "o" * 80 + ".yaml", "\udcff.yaml"])
def test_mast_lint(tmp_path, name):
    (tmp_path / name).write_text(MAST_LINT)
    fields = read_foreign(tmp_path / name)
    fields["source"].encode()
    (burnt,) = Rubric.model_validate(fields).codes
    assert (burnt.id, burnt.group) == ("FM-1.1", "Heat")
    assert (burnt.definition, burnt.not_) == ("The bread is black.", "It is rye.")
    assert burnt.evidence == "smoke. a smell. For example: It smokes."


@pytest.mark.parametrize(
    "text", ["[]", "{}", "codes: []", "codes: [1]", "x: y", "failure_modes: 3"]
)
def test_what_is_no_taxonomy(tmp_path, text):
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(RubricError, match="no taxonomy that is known"):
        read_foreign(tmp_path / "a.yaml")


# --- extends


def test_extends(tmp_path):
    (tmp_path / "base.yaml").write_text(
        yaml.safe_dump(
            make(codes=[code(), code("C2")], precedence=["C1", "C2"]).model_dump(
                mode="json", by_alias=True
            )
        )
    )
    (tmp_path / "mine.yaml").write_text(
        "extends: base.yaml\nid: sharper\nversion: 3\ncodes:\n"
        "  - {id: C1, definition: Sharper now.}\n  - {id: C2, remove: true}\n"
        "  - {id: C9, name: New, definition: New., evidence: A line.}\n"
    )
    rubric = load_rubric(str(tmp_path / "mine.yaml"))
    assert (rubric.id, rubric.version, rubric.title) == ("sharper", 3, "Mine")
    assert [code.id for code in rubric.codes] == ["C1", "C9"]
    assert (rubric.code("C1").definition, rubric.code("C1").name) == ("Sharper now.", "Name C1")
    assert rubric.precedence == ("C1",)
    before = rubric.sha256
    (tmp_path / "base.yaml").write_text((tmp_path / "base.yaml").read_text() + "# changed\n")
    assert load_rubric(str(tmp_path / "mine.yaml")).sha256 != before


def test_extends_a_built_in_rubric(tmp_path):
    (tmp_path / "mine.yaml").write_text("extends: mast\nid: short\nversion: 1\nmin_quotes: 2\n")
    rubric = load_rubric(str(tmp_path / "mine.yaml"))
    assert len(rubric.codes) == 14
    assert rubric.min_quotes == 2


@pytest.mark.parametrize(("text", "reason"), TABLES["extends"])
def test_wrong_extends(tmp_path, text, reason):
    (tmp_path / "base.yaml").write_text("{}")
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(RubricError) as error:
        load_rubric(str(tmp_path / "mine.yaml"))
    assert reason in str(error.value)
