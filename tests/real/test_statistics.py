"""Statistics of the real runs against counts made here straight from the files."""

import json
from collections import Counter

import pytest

MERGED = {"clean": "conflict-free", "identical": "conflict-free", "conflicts": "conflict"}


@pytest.fixture
def found(logs, annotate_cli):
    done = annotate_cli("stats", logs, "--format", "json")
    assert done.code == 0, done.err
    return json.loads(done.out)


@pytest.fixture(scope="session")
def runs(logs):
    """Each run: setting, what eval.json says, its messages, and whether there was nothing to merge:
    an agent is in error, or a patch is empty.
    """
    return [
        (
            "solo" if "solo" in file.relative_to(logs).parts else "coop",
            json.loads(file.read_text(encoding="utf-8")),
            json.loads(talk.read_text(encoding="utf-8"))
            if (talk := file.parent / "conversation.json").is_file()
            else [],
            _nothing_to_merge(file.parent),
        )
        for file in logs.rglob("eval.json")
    ]


def _nothing_to_merge(folder):
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    crashed = any(end["status"] == "Error" for end in result.get("agents", {}).values())
    return crashed or not all(file.read_bytes().strip() for file in folder.glob("*.patch"))


def test_success_is_that_of_the_files(found, runs):
    ends = Counter((setting, evaluation["both_passed"]) for setting, evaluation, *_ in runs)
    success = found["groups"][0]["success"][0]
    for setting in ("solo", "coop"):
        n = ends[setting, True] + ends[setting, False]
        assert (success[setting]["inputs"]["k"], success[setting]["n"]) == (ends[setting, True], n)


def test_conflicts_and_messages_are_those_of_the_files(found, runs):
    coop = [
        (MERGED[one["merge"]["status"]], talk)
        for kind, one, talk, nothing in runs
        if kind == "coop" and not nothing
    ]
    talk = found["groups"][0]["communication"]
    every, apart = (opening["conflicts"] for opening in talk["openings"][-2:])
    nothing = sum(kind == "coop" and dead for kind, _, _, dead in runs)
    assert apart["n"] == talk["nothing_to_merge"] == nothing
    assert every["inputs"]["k"] == sum(state == "conflict" for state, _ in coop)
    assert every["n"] == len(coop)
    messages = next(one for one in talk["measures"] if one["name"] == "messages per run")
    for column, state in (("clean", "conflict-free"), ("conflict", "conflict")):
        counts = [len(messages_) for one, messages_ in coop if one == state and messages_]
        assert messages[column]["n"] == len(counts)
        assert messages[column]["value"] == pytest.approx(sum(counts) / len(counts))


def test_cooperation_costs_success_at_every_difficulty(found):
    """The paper's main finding: less is solved in cooperation, and less than all is retained."""
    pooled = found["difficulty"]["pooled"]
    assert all(one["coop"]["value"] <= one["solo"]["value"] for one in pooled["buckets"])
    assert 0 < pooled["retention"]["value"] < 1
    assert pooled["retention"]["high"] < 1


def test_every_number_has_an_n_and_a_value_or_a_reason(logs, annotate_cli):
    def check(value):
        if isinstance(value, dict) and {"value", "n", "method"} <= value.keys():
            assert value["value"] is not None or value["reason"]
            assert value["low"] is None or value["value"] is None or value["low"] <= value["high"]
        for one in value.values() if isinstance(value, dict) else value:
            if isinstance(one, dict | list):
                check(one)

    check(json.loads(annotate_cli("stats", logs, "--format", "json", "--by", "project").out))
